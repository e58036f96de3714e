//! Every guest of `tests/guests/check`: `check` must find what its directives declare, with no more preemptions than needed, and
//! prove the fixed variants. Natively, those without a bug must run through.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use tracefork_tests::command_under_test;
use tracefork_tests::directives::End;
use tracefork_tests::guests::{self, Guest};
use tracefork_tests::observe::{self, Invocation, Scratch};
use tracefork_tests::supervised::{Checked, Tracefork};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let guests = guests::all("check").expect("the guests can be read");
    let tracefork = Tracefork::new(command_under_test!());
    let mut trials = vec![trial("every bug has its fix".to_owned(), every_bug_has_its_fix)];
    for guest in guests {
        let native = guest.clone();
        trials.push(trial(format!("native::{}", guest.name), move || {
            check_natively(&native)
        }));
        let tracefork = tracefork.clone();
        trials.push(trial(format!("check::{}", guest.name), move || {
            check(&guest, &tracefork)
        }));
    }
    for (threads, writes, expected) in WRITES {
        let tracefork = tracefork.clone();
        let name = format!("interleavings::{threads}x{writes}");
        trials.push(trial(name, move || {
            count_interleavings(&tracefork, threads, writes, expected)
        }));
    }
    for philosophers in 3..=8 {
        let tracefork = tracefork.clone();
        let name = format!("philosophers::{philosophers}");
        trials.push(trial(name, move || check_philosophers(&tracefork, philosophers)));
    }
    for (name, flag, executions) in REDUCED {
        let tracefork = tracefork.clone();
        let trial_name = format!("reduced::{name}{flag}");
        trials.push(trial(trial_name, move || {
            check_reduction(&tracefork, name, flag, executions)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: String, body: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || {
        body().map_err(|error| Failed::from(format!("{error:#}")))
    })
}

fn invocation(guest: &Guest, flags: &[&str]) -> Result<Invocation> {
    let directives = &guest.directives;
    Ok(Invocation {
        program: guest.build_with(flags)?,
        args: directives.args.clone(),
        stdin: directives.stdin.clone(),
    })
}

fn every_bug_has_its_fix() -> Result<()> {
    let guests = guests::all("check")?;
    for guest in &guests {
        let Some(stem) = guest.name.strip_suffix("_buggy") else {
            continue;
        };
        ensure!(
            guest.directives.expect.is_some(),
            "{} does not say what is to be found",
            guest.name
        );
        ensure!(
            guest.directives.min_preemptions.is_some(),
            "{} does not say min-preemptions",
            guest.name
        );
        let fixed = format!("{stem}_fixed");
        ensure!(
            guests
                .iter()
                .any(|g| g.name == fixed && g.directives.expect.is_none()),
            "{fixed} is missing"
        );
    }
    Ok(())
}

/// A bug may or may not show natively, so only what has none is run; every guest is built.
fn check_natively(guest: &Guest) -> Result<()> {
    let invocation = invocation(guest, &[])?;
    if guest.directives.expect.is_some() {
        return Ok(());
    }
    let observed = observe::native(&invocation, &Scratch::new()?)?;
    ensure!(
        observed.end == End::Exit(0),
        "{:?}: {}",
        observed.end,
        String::from_utf8_lossy(&observed.stderr)
    );
    if let Some(outcomes) = &guest.directives.outcomes {
        let output = String::from_utf8_lossy(&observed.stdout).into_owned();
        ensure!(
            outcomes.contains(&output),
            "{output:?} is none of the outcomes {outcomes:?}"
        );
    }
    Ok(())
}

fn check(guest: &Guest, tracefork: &Tracefork) -> Result<()> {
    let invocation = invocation(guest, &[])?;
    let mut options = vec!["--keep-going"];
    // Written for one mode only, so it is checked in that.
    if let [mode] = guest.directives.modes[..] {
        options.extend(["--preempt", mode.name()]);
    }
    options.extend(guest.directives.options.iter().map(String::as_str));
    let checked = tracefork.check(&invocation, &options, &Scratch::new()?)?;
    compare(guest, &checked)?;
    if let Some(expected) = guest.directives.executions {
        options.extend(["--no-hash", "--reduce", "none"]);
        let executions = tracefork
            .check(&invocation, &options, &Scratch::new()?)?
            .executions();
        ensure!(
            executions == Some(expected),
            "{executions:?} executions, expected {expected}"
        );
    }
    Ok(())
}

/// What a check found, against what the guest says of itself.
fn compare(guest: &Guest, checked: &Checked) -> Result<()> {
    let said = String::from_utf8_lossy(&checked.finished.stderr);
    match &guest.directives.expect {
        None => {
            ensure!(
                checked.violations().is_empty(),
                "found {:?} where nothing is wrong\n{said}",
                checked.violations()
            );
            ensure!(
                checked.finished.end == End::Exit(0),
                "ended with {:?}\n{said}",
                checked.finished.end
            );
        }
        Some(kind) => {
            ensure!(
                checked.violations().contains(kind),
                "found {:?}, not {kind}\n{said}",
                checked.violations()
            );
            ensure!(
                checked.finished.end == End::Exit(1),
                "ended with {:?}\n{said}",
                checked.finished.end
            );
            let (found, least) = (checked.preemptions(kind), guest.directives.min_preemptions);
            ensure!(
                found.is_some() && found <= least,
                "shown with {found:?} preemptions, {least:?} are enough"
            );
        }
    }
    if let Some(outcomes) = &guest.directives.outcomes {
        let outputs = checked.outputs();
        ensure!(
            outputs == *outcomes,
            "outcomes {outputs:?}, expected {outcomes:?}"
        );
    }
    Ok(())
}

/// Threads, writes each, and the multinomial coefficient (threads·writes)! / writes!^threads.
const WRITES: [(u64, u64, u64); 8] = [
    (1, 3, 1),
    (2, 1, 2),
    (2, 2, 6),
    (2, 3, 20),
    (3, 1, 6),
    (3, 2, 90),
    (4, 1, 24),
    (2, 4, 70),
];

fn count_interleavings(tracefork: &Tracefork, threads: u64, writes: u64, expected: u64) -> Result<()> {
    let guest = guests::one("check/writes.c")?;
    let mut invocation = invocation(&guest, &[])?;
    invocation.args = vec![threads.to_string(), writes.to_string()];
    let checked = tracefork.check(
        &invocation,
        &["--no-hash", "--reduce", "none", "--preempt", "syscall"],
        &Scratch::new()?,
    )?;
    ensure!(
        checked.executions() == Some(expected),
        "{:?} executions, expected {expected}",
        checked.executions()
    );
    let mut orders = BTreeSet::new();
    enumerate(
        &mut vec![writes; usize::try_from(threads)?],
        &mut String::new(),
        &mut orders,
    );
    let outputs = checked.outputs();
    ensure!(outputs == orders, "outcomes {outputs:?}, expected {orders:?}");
    ensure!(
        u64::try_from(orders.len())? == expected,
        "{} orders",
        orders.len()
    );
    Ok(())
}

/// All words in which the i-th letter occurs `left[i]` times more.
fn enumerate(left: &mut [u64], word: &mut String, into: &mut BTreeSet<String>) {
    if left.iter().all(|&n| n == 0) {
        into.insert(word.clone());
    }
    for (letter, i) in ('a'..='z').zip(0..left.len()) {
        if left[i] > 0 {
            left[i] -= 1;
            word.push(letter);
            enumerate(left, word, into);
            word.pop();
            left[i] += 1;
        }
    }
}

/// The deadlock is found with the default options for any number. The fixed version of five is proved so too; of more, by dynamic reduction, which has
/// 2^n - 2 schedules to look at (eight, with `TRACEFORK_ALL=1`, takes about a minute).
fn check_philosophers(tracefork: &Tracefork, count: u32) -> Result<()> {
    let mut cases: Vec<(&str, &[&str])> = vec![("philosophers_buggy", &[])];
    match count {
        0..=4 => cases.push(("philosophers_fixed", &[])),
        5..=6 => cases.push(("philosophers_fixed", &["--no-hash"])),
        _ if std::env::var_os("TRACEFORK_ALL").is_some() => {
            cases.push(("philosophers_fixed", &["--no-hash"]));
        }
        _ => {}
    }
    for (name, options) in cases {
        let guest = guests::one(&format!("check/{name}.c"))?;
        let flag = format!("-DN={count}");
        let checked = tracefork.check(&invocation(&guest, &[&flag])?, options, &Scratch::new()?)?;
        compare(&guest, &checked).with_context(|| format!("{name} of {count}"))?;
        if !options.is_empty() {
            let schedules = (1 << count) - 2;
            ensure!(
                checked.executions() == Some(schedules),
                "{:?} executions, not {schedules}",
                checked.executions()
            );
        }
    }
    Ok(())
}

/// Guests, and how many executions they have up to the order of what has nothing in common.
const REDUCED: [(&str, &str, u64); 5] = [
    ("strangers_fine", "-DN=4", 1),
    ("strangers_fine", "-DEXITS", 1),
    ("seated_philosophers_fine", "-DN=3", 6),
    ("seated_philosophers_fine", "-DN=4", 24),
    ("seated_philosophers_fine", "-DN=5", 120),
];

/// Dynamic reduction comes to each execution once, and the steps that executions begin with in common are made once: that is less than half of all.
fn check_reduction(tracefork: &Tracefork, name: &str, flag: &str, expected: u64) -> Result<()> {
    let guest = guests::one(&format!("check/{name}.c"))?;
    let invocation = invocation(&guest, &[flag])?;
    let checked = tracefork.check(&invocation, &["--no-hash", "--reduce", "dpor"], &Scratch::new()?)?;
    compare(&guest, &checked)?;
    let count = |name: &str| checked.result[name].as_u64().unwrap_or(u64::MAX);
    ensure!(
        count("executions") == expected,
        "{} executions, not {expected}",
        count("executions")
    );
    let (steps, most) = (count("transitions"), expected * count("max_depth"));
    let is_shared = expected < 24 || 2 * steps < most;
    ensure!(
        steps <= most && is_shared,
        "{steps} steps, and {most} in all executions"
    );
    Ok(())
}
