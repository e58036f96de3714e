//! Livelocks: a thread polls for what never comes, and the search comes to its end without the program.
//!
//! Where all who can move yield, or look by a call, the session itself notices ([`trace::End::Livelock`]). Locks, atomic operations and loads of a loop do not say that they
//! are one, so the search is asked: a state from which no schedule ends is a violation, shown by a last step that says so
//! ([`Alternative::Endless`]). A program without any end whose threads keep each other busy is likely meant so, and only a warning.

use super::CheckSystem;
use explore::{
    Choice, Config, Effort, Endless, Found, Limits, Prospect, Reduction, Search, SearchResult, Strategy,
    System, Ways,
};
use failure::Failure;
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use trace::{Alternative, ENVIRONMENT};

/// Steps to prove it.
const EFFORT: u64 = 20_000;
/// States that are tried, if it is not true of the first ones: a reduced search may not have seen the way out.
const TRIES: usize = 16;
/// If none of these was without an end the search is made again without reduction, if that takes at most so many times its transitions.
const UNREDUCED: u64 = 4;

/// What was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// From every state there is a way to an end.
    Ends,
    /// There is a state without, and it is in the result.
    Livelock,
    /// No schedule ends, and several threads move for ever.
    Busy,
    /// There seems to be a state without, and it could not be proved.
    Unproved,
}

/// The step that says so.
fn last_step() -> Choice {
    Choice {
        thread: ENVIRONMENT,
        alternative: Alternative::Endless.number(),
    }
}

/// Does this path end by the claim that there is no end?
pub fn is_claimed_by(path: &[Choice]) -> bool {
    path.last() == Some(&last_step())
}

/// Does a search like this see all states, and know them again?
pub fn is_told_by(config: &Config) -> bool {
    let sees_all = matches!(
        config.strategy,
        Strategy::Dfs | Strategy::Bfs | Strategy::ByPreemptions
    );
    sees_all && config.hash
}

/// After a search that was complete: looks for states from which no schedule ends. A violation is added to its result.
pub fn look(
    ways: &Ways,
    result: &mut SearchResult<CheckSystem>,
    make: impl FnOnce() -> Result<CheckSystem, Failure>,
    stop: &AtomicBool,
) -> Result<Finding, Failure> {
    let mut known_to_end = HashSet::new();
    let Some(mut doubt) = ways.without_end(&known_to_end) else {
        return Ok(Finding::Ends);
    };
    let mut system = make()?;
    for _ in 0..TRIES {
        let effort = Effort {
            steps: EFFORT,
            stop: Some(stop),
            ..Effort::default()
        };
        match explore::prospect(&mut system, &doubt.path, effort).map_err(unwrap_failure)? {
            Prospect::Endless => return told(&mut system, doubt, result),
            Prospect::Ends(states) => {
                known_to_end.insert(doubt.id);
                known_to_end.extend(states);
            }
            Prospect::Unknown => return Ok(Finding::Unproved),
        }
        match ways.without_end(&known_to_end) {
            Some(next) => doubt = next,
            None => return Ok(Finding::Ends),
        }
    }
    let steps = EFFORT.max(UNREDUCED * ways.count() as u64);
    let Some(all) = all_ways(&mut system, steps, stop)? else {
        return Ok(Finding::Unproved);
    };
    match all.without_end(&HashSet::new()) {
        Some(endless) => told(&mut system, endless, result),
        None => Ok(Finding::Ends),
    }
}

/// All transitions of the program, unless there are too many.
fn all_ways(system: &mut CheckSystem, steps: u64, stop: &AtomicBool) -> Result<Option<Ways>, Failure> {
    let config = Config {
        limits: Limits {
            steps: Some(steps),
            ..Limits::default()
        },
        max_violations: None,
        reduction: Reduction::None,
        ..Config::default()
    };
    let ways = Ways::default();
    let found = Search::new(config)
        .observer(&ways)
        .stop_flag(stop)
        .run_one(system);
    if let Some(failure) = found.failure {
        return Err(unwrap_failure(failure));
    }
    Ok(found.coverage.is_complete().then_some(ways))
}

/// A state is known from which no schedule ends.
fn told(
    system: &mut CheckSystem,
    endless: Endless,
    result: &mut SearchResult<CheckSystem>,
) -> Result<Finding, Failure> {
    match endless.is_busy {
        true => Ok(Finding::Busy),
        false => claim(system, endless, result),
    }
}

fn claim(
    system: &mut CheckSystem,
    endless: Endless,
    result: &mut SearchResult<CheckSystem>,
) -> Result<Finding, Failure> {
    let mut path = endless.path;
    system.reset()?;
    for &choice in &path {
        system.step(choice)?;
    }
    path.push(last_step());
    let report = system.step(last_step())?;
    for violation in report.violations {
        result.violations.push(Found {
            violation,
            path: path.clone(),
            times: 1,
        });
    }
    if let Some(ending) = report.end {
        result.outcomes.entry(ending).or_insert(1);
    }
    Ok(Finding::Livelock)
}

fn unwrap_failure(failure: explore::Failure<Failure>) -> Failure {
    match failure {
        explore::Failure::System { error, .. } => error,
        other => Failure::desync(other.to_string()),
    }
}
