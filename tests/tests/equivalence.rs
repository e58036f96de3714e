//! Every guest of `tests/guests/check` explored in many ways: the outcomes, the violations and the number of states must be the
//! same in all of them. See `tracefork_tests::combinations`.

use std::process::ExitCode;

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};
use tracefork_tests::combinations::{Combination, compare};
use tracefork_tests::command_under_test;
use tracefork_tests::guests::{self, Guest};
use tracefork_tests::observe::Invocation;
use tracefork_tests::supervised::Tracefork;

/// Searches are cut here. Enough for every guest with a visited set.
const MOST_STATES: u64 = 4000;

/// Too large to be explored a dozen times; `guests_check` explores them once.
const TOO_LARGE: [(&str, &str); 2] = [
    (
        "rust_lock_order_buggy",
        "Rust's runtime counts references atomically: two threads make 50 visible operations before they lock",
    ),
    ("rust_lock_order_fixed", "the same"),
];

/// Those that every test run compares; `TRACEFORK_ALL=1` compares all, which takes long.
const QUICK: &[&str] = &[
    "atomicity_buggy",
    "double_checked_buggy",
    "outcome_atomic_add",
    "outcome_barrier",
    "outcome_condvar",
    "outcome_core_number",
    "outcome_dekker",
    "outcome_exit_race",
    "outcome_fork_order",
    "outcome_kill_child",
    "outcome_last_thread",
    "outcome_record_locks",
    "outcome_shared_cell",
    "process_fork_lock_buggy",
    "process_pipes_buggy",
    "process_sigchld_buggy",
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let mut trials = Vec::new();
    for guest in guests::all("check").expect("the guests can be read") {
        if TOO_LARGE.iter().any(|(name, _)| *name == guest.name) {
            continue;
        }
        if std::env::var_os("TRACEFORK_ALL").is_none() && !QUICK.contains(&guest.name.as_str()) {
            continue;
        }
        let tracefork = tracefork.clone();
        trials.push(Trial::test(guest.name.clone(), move || {
            explore_in_many_ways(&guest, &tracefork).map_err(|error| Failed::from(format!("{error:#}")))
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn explore_in_many_ways(guest: &Guest, tracefork: &Tracefork) -> Result<()> {
    let directives = &guest.directives;
    let invocation = Invocation {
        program: guest.build()?,
        args: directives.args.clone(),
        stdin: directives.stdin.clone(),
    };
    let mut options: Vec<&str> = directives.options.iter().map(String::as_str).collect();
    if let [mode] = directives.modes[..] {
        options.extend(["--preempt", mode.name()]);
    }
    compare(
        tracefork,
        &invocation,
        &options,
        &Combination::wanted(),
        MOST_STATES,
    )?;
    Ok(())
}
