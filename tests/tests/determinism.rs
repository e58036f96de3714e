//! The same seed gives the same trace, byte for byte, fifty times in a row; also while every core is busy with something else.

use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use tracefork_tests::directives::Preempt;
use tracefork_tests::observe::{Invocation, Scratch};
use tracefork_tests::supervised::{Schedule, Tracefork};
use tracefork_tests::{command_under_test, guests};

const RUNS: u32 = 50;

/// Guests whose schedule has much to decide, of each kind: locks, sleeping, signals, files, spinning, other languages.
const GUESTS: [&str; 8] = [
    "run/cond_broadcast.c",
    "run/time_sleep_sort.c",
    "run/signal_tgkill.c",
    "run/file_offset_shared.c",
    "run/spin_plain_load.c",
    "run/mem_malloc_threads.c",
    "run/musl_threads.c",
    "real/channels.go",
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Those with busy cores would disturb the others' meaning, not their results; but the load is to be the test's own.
    arguments.test_threads = Some(1);
    let mut trials = Vec::new();
    for guest in GUESTS {
        for preempt in Preempt::BOTH {
            for load in [false, true] {
                let tracefork = Tracefork::new(command_under_test!());
                let busy = if load { " on busy cores" } else { "" };
                let name = format!("{}::{guest}{busy}", preempt.name());
                trials.push(trial(name, move || same_trace(&tracefork, guest, preempt, load)));
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

fn same_trace(tracefork: &Tracefork, guest: &str, preempt: Preempt, load: bool) -> Result<()> {
    let guest = guests::one(guest)?;
    let invocation = Invocation {
        program: guest.build()?,
        args: guest.directives.args.clone(),
        stdin: guest.directives.stdin.clone(),
    };
    let _load = if load { Some(Load::on_every_core()?) } else { None };
    // One directory for all runs: its name is part of what the program can see.
    let scratch = Scratch::new()?;
    let schedule = Schedule { preempt, seed: 7 };
    let first = tracefork.trace(&invocation, schedule, &scratch)?;
    ensure!(!first.is_empty(), "the trace is empty");
    for run in 2..=RUNS {
        scratch.clear()?;
        let trace = tracefork.trace(&invocation, schedule, &scratch)?;
        let same = first.iter().zip(&trace).take_while(|(a, b)| a == b).count();
        ensure!(
            trace == first,
            "run {run} differs from the first at byte {same} ({} bytes against {})",
            trace.len(),
            first.len()
        );
    }
    Ok(())
}

/// One busy process per core, ended when dropped.
struct Load(Vec<Child>);

impl Load {
    fn on_every_core() -> Result<Load> {
        let cores = std::thread::available_parallelism()?.get();
        let mut load = Load(Vec::new());
        for _ in 0..cores {
            let mut busy = Command::new("sh");
            busy.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            load.0.push(busy.spawn()?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A shell that loops cannot have ended by itself; if it has, there is nothing to do.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
