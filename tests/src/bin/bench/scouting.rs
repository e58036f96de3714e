//! What the walks before a search cost programs that share nothing without a lock, for which they find nothing.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tracefork_tests::guests;

use crate::Effort;
use crate::caching::program;
use crate::report::{Aim, Row};
use crate::sample::{Cost, in_turns, timed};

/// Programs of a few dozen states: starting them is most of what their check costs.
const SMALL: [&str; 10] = [
    "check/atomicity_fixed.c",
    "check/barrier_fixed.c",
    "check/condvar_abba_fixed.c",
    "check/lost_wakeup_fixed.c",
    "check/outcome_barrier.c",
    "check/outcome_condvar.c",
    "check/outcome_pipe.c",
    "check/outcome_semaphore_order.c",
    "check/outcome_trylock.c",
    "check/semaphore_fixed.c",
];

/// Checks of a second and more, as those of real programs are.
const LARGER: [(&str, &str); 2] = [
    ("check/philosophers_fixed.c", "-DN=4"),
    ("check/philosophers_fixed.c", "-DN=5"),
];

/// `--preempt auto` against `sync`.
pub fn scouting(effort: &Effort) -> Result<Vec<Row>> {
    let small = SMALL.iter().map(|source| guests::one(source)?.build());
    let small: Vec<PathBuf> = small.collect::<Result<_>>()?;
    let larger = LARGER[..effort.of(2, 1)].iter();
    let larger = larger.map(|(source, size)| guests::one(source)?.build_with(&[size]));
    let larger: Vec<PathBuf> = larger.collect::<Result<_>>()?;
    Ok(vec![
        row("small programs", &small, effort.of(7, 1))?,
        row("larger programs", &larger, effort.of(3, 1))?,
    ])
}

fn row(what: &str, programs: &[PathBuf], rounds: usize) -> Result<Row> {
    for program in programs {
        let [auto, sync] = [check(program, "auto")?, check(program, "sync")?];
        ensure!(
            auto["races"].as_array().is_some_and(Vec::is_empty) && auto["states"] == sync["states"],
            "{} shares something without a lock",
            program.display()
        );
    }
    let all = |preempt: &'static str| -> Result<Cost> {
        timed(programs.len() as u64, || {
            programs
                .iter()
                .try_for_each(|program| check(program, preempt).map(drop))
        })
    };
    let [auto, sync] = in_turns(rounds, [Box::new(|| all("auto")), Box::new(|| all("sync"))])?;
    Ok(Row::new(
        format!("check: --preempt auto against sync, {what} that share nothing"),
        auto,
        sync,
        Aim::AtMost(1.1),
    ))
}

fn check(subject: &PathBuf, preempt: &str) -> Result<Value> {
    let mut command = Command::new(program()?);
    command
        .args(["check", "--quiet", "--json", "-", "--preempt", preempt, "--"])
        .arg(subject);
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?} failed");
    serde_json::from_slice(&output.stdout).context("a JSON result")
}
