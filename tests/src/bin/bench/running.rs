//! What `tracefork run` costs.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use session::Session;
use session::schedule::RandomScheduler;
use trace::End;

use crate::bare::BareTask;
use crate::report::{Aim, Row};
use crate::sample::{Cost, in_turns, timed};
use crate::subject::{Subject, well};
use crate::{Effort, subject};

/// A program that only computes, from start to end.
pub fn computing(effort: &Effort) -> Result<Vec<Row>> {
    let program = subject::build("compute")?;
    // Seconds, so that the start of the program, which is measured along, weighs little.
    let rounds = effort.of(1_600_000_000_u64, 1_000_000).to_string();
    let subject = Subject::new(&program, &[&rounds]);
    let [ours, native] = in_turns(
        effort.of(5, 1),
        [
            Box::new(|| timed(1, || supervised(&subject))),
            Box::new(|| timed(1, || natively(&program, &rounds))),
        ],
    )?;
    Ok(vec![Row::new(
        "run: a program that computes, against itself natively",
        ours,
        native,
        Aim::AtMost(1.05),
    )])
}

pub fn supervised(subject: &Subject) -> Result<()> {
    let mut scheduler = RandomScheduler::new(0);
    let execution = well(session::execution::run(
        subject.options()?,
        &mut scheduler,
        u64::MAX,
    ))?;
    ensure!(execution.end == End::Exited(0), "it ended with {}", execution.end);
    execution.session.finish();
    Ok(())
}

pub fn natively(program: &Path, rounds: &str) -> Result<()> {
    let status = Command::new(program).arg(rounds).status()?;
    ensure!(status.success(), "natively it ended with {status}");
    Ok(())
}

/// A stop for a call that the model answers, and that for a hooked lock, against a bare one.
pub fn stops(effort: &Effort) -> Result<Vec<Row>> {
    const BATCH: u64 = 1000;
    let calls = subject::build("calls")?;
    let mut emulated = Subject::new(&calls, &[&BATCH.to_string()]).session()?;
    let mut locking = Subject::new(&subject::build("locks")?, &["1", "1"]).session()?;
    // Past what the loader does, the start of the threads, and the first pass through code that is found then.
    steps(&mut emulated, 50, 1)?;
    steps(&mut locking, 100, 1)?;
    let mut bare = BareTask::start(&calls, subject::core().number())?;
    let [call, lock, stop] = in_turns(
        effort.of(100, 2),
        [
            Box::new(|| steps(&mut emulated, 1, BATCH)),
            Box::new(|| steps(&mut locking, BATCH, BATCH)),
            Box::new(|| bare.stops(BATCH)),
        ],
    )?;
    emulated.finish();
    locking.finish();
    let call = Row::new(
        "run: an emulated call, against a bare stop",
        call,
        stop,
        Aim::AtMost(2.0),
    );
    let lock = Row::new(
        "run: a mutex operation, against a bare stop",
        lock,
        stop,
        Aim::AtMost(2.5),
    );
    Ok(vec![call, lock])
}

/// Lets threads make so many steps; the cost of each of so many operations that these are.
fn steps(session: &mut Session, steps: u64, operations: u64) -> Result<Cost> {
    timed(operations, || {
        for _ in 0..steps {
            let enabled = session.movers().enabled();
            ensure!(!enabled.is_empty(), "the guest has ended");
            // The youngest thread: the others only wait for it.
            well(session.step(enabled[enabled.len() - 1]))?;
        }
        Ok(())
    })
}
