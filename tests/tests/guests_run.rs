//! Every guest of `tests/guests/run` and of `tests/guests/processes`: natively, where it must end as it declares and print the
//! same each time, then supervised under several seeds in each of its preemption modes, where it must not differ from the native
//! run. Each seed comes with another kind of processor: all its features, no vector registers beyond SSE, and none of the fast
//! ways to save state and copy memory.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use tracefork_tests::command_under_test;
use tracefork_tests::directives::Preempt;
use tracefork_tests::guests::{self, Guest};
use tracefork_tests::observe::{self, Invocation, Observed, Scratch};
use tracefork_tests::supervised::{Schedule, Tracefork};

/// The directories of the guests.
const KINDS: [&str; 2] = ["run", "processes"];

/// The processors, as settings of the C library; the index is the seed.
const PROCESSORS: [Option<&str>; 3] = [
    None,
    Some("glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX2,-AVX,-FMA,-EVEX"),
    Some("glibc.cpu.hwcaps=-XSAVE,-XSAVEC,-ERMS,-FSRM,-SSSE3,-SSE4_1,-SSE4_2,-AVX2"),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let mut trials = Vec::new();
    for kind in KINDS {
        for guest in guests::all(kind).expect("the guests can be read") {
            let native = guest.clone();
            trials.push(trial(format!("native::{kind}::{}", guest.name), move || {
                check_natively(&native)
            }));
            for mode in guest.directives.modes.clone() {
                let (guest, tracefork) = (guest.clone(), tracefork.clone());
                let name = format!("{}::{kind}::{}", mode.name(), guest.name);
                trials.push(trial(name, move || check_supervised(&guest, &tracefork, mode)));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: String, body: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || {
        body().map_err(|error| Failed::from(format!("{error:#}")))
    })
}

fn invocation(guest: &Guest) -> Result<Invocation> {
    let directives = &guest.directives;
    Ok(Invocation {
        program: guest.build()?,
        args: directives.args.clone(),
        stdin: directives.stdin.clone(),
    })
}

fn natively(guest: &Guest) -> Result<Observed> {
    let observed = observe::native(&invocation(guest)?, &Scratch::new()?)?;
    Ok(in_order(guest, observed))
}

fn in_order(guest: &Guest, observed: Observed) -> Observed {
    if guest.directives.unordered {
        observed.with_sorted_lines()
    } else {
        observed
    }
}

fn check_natively(guest: &Guest) -> Result<()> {
    let first = natively(guest)?;
    let said = || {
        format!(
            "it said on standard error: {}",
            String::from_utf8_lossy(&first.stderr)
        )
    };
    ensure!(
        first.end == guest.directives.end,
        "ends with {:?}, declares {:?}; {}",
        first.end,
        guest.directives.end,
        said()
    );
    ensure!(
        !first.stdout.is_empty() || !first.stderr.is_empty(),
        "a guest says something"
    );
    if let Some(difference) = natively(guest)?.difference_from(&first) {
        anyhow::bail!("two native runs differ:\n{difference}");
    }
    Ok(())
}

fn check_supervised(guest: &Guest, tracefork: &Tracefork, preempt: Preempt) -> Result<()> {
    let (invocation, expected) = (invocation(guest)?, natively(guest)?);
    for (seed, processor) in (0..).zip(PROCESSORS) {
        let scratch = Scratch::new()?;
        let tracefork = processor.map_or_else(|| tracefork.clone(), |mask| tracefork.with_tunables(mask));
        let observed = tracefork
            .run(&invocation, Schedule { preempt, seed }, &scratch)
            .with_context(|| format!("with seed {seed}, {processor:?}"))?;
        if let Some(difference) = in_order(guest, observed).difference_from(&expected) {
            anyhow::bail!(
                "with seed {seed}, {processor:?}, the supervised run differs from the native one:\n{difference}"
            );
        }
    }
    Ok(())
}
