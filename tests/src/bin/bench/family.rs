//! What processes cost.

use anyhow::Result;
use checker::{CheckSystem, CheckpointChoice};
use explore::{Config, Search};

use crate::checking::{good, per_transition, steps};
use crate::report::{Aim, Row};
use crate::running::{natively, supervised};
use crate::sample::{Cost, busy, in_turns, timed};
use crate::subject::Subject;
use crate::{Effort, subject};

/// A fork with the end of the child and the wait for it; and a transition where there are eight processes.
pub fn family(effort: &Effort) -> Result<Vec<Row>> {
    Ok(vec![forks(effort)?, company(effort)?])
}

fn forks(effort: &Effort) -> Result<Row> {
    let program = subject::build("forks")?;
    let number = effort.of(300_u64, 5);
    let ours = |count: u64| {
        let subject = Subject::new(&program, &[&count.to_string()]);
        timed(number, || supervised(&subject))
    };
    let bare = |count: u64| timed(number, || natively(&program, &count.to_string()));
    // What the start of the program costs is no fork's.
    let [forked, started, bare_forked, bare_started] = in_turns(
        effort.of(7, 1),
        [
            Box::new(|| ours(number)),
            Box::new(|| ours(0)),
            Box::new(|| bare(number)),
            Box::new(|| bare(0)),
        ],
    )?;
    Ok(Row::new(
        "run: a fork, its end and the wait for it, against the same natively",
        forked.without(started),
        bare_forked.without(bare_started),
        Aim::AtMost(2.0),
    ))
}

fn company(effort: &Effort) -> Result<Row> {
    let program = subject::build("company")?;
    let many = effort.of("8", "2");
    let system = |kind: &str| Subject::new(&program, &[kind, many]).system(CheckpointChoice::Rewind);
    let (mut processes, mut threads) = (system("processes")?, system("threads")?);
    let search = |system: &mut CheckSystem| -> Result<Cost> {
        let before = busy()?;
        let config = Config {
            limits: steps(effort.of(5000, 300)),
            ..Config::default()
        };
        per_transition(&good(Search::new(config).run_one(system))?, before)
    };
    // The first search also starts the program.
    search(&mut processes)?;
    search(&mut threads)?;
    let [eight, one] = in_turns(
        effort.of(7, 1),
        [
            Box::new(|| search(&mut processes)),
            Box::new(|| search(&mut threads)),
        ],
    )?;
    Ok(Row::new(
        "check: a transition of eight processes, against one with eight threads",
        eight,
        one,
        Aim::AtMost(1.3),
    ))
}
