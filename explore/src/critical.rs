//! The critical transition of a counterexample: the step after which there is no way out.
//!
//! A path is *doomed* after so many of its steps if it has shown a violation by then, or if every way to go on shows one. This is monotone (what is
//! inevitable stays so), so the step is found by bisection. Whether a state is doomed is a search for a path that ends without a violation: first a few
//! random walks, which find one quickly where there are many, then an exhaustive search.
//!
//! Nothing is claimed that is not proved. So the exhaustive search
//! - reduces nothing. A reduction keeps one schedule of many that are equivalent, and a violation of a momentary state (two threads stand before
//!   conflicting accesses) may be shown by that one only; and it believes footprints, which are not always the whole truth;
//! - must have come to an end, not to a limit;
//! - must not have met a cycle: a way that goes on for ever shows no violation, but is no good end either, so neither can be said.

use crate::minimise::Effort;
use crate::result::{Failure, Limit};
use crate::{Choice, Config, Coverage, Limits, Observer, Reduction, Search, Strategy, System};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Where a violation becomes inevitable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Critical {
    /// Every path of the system shows a violation.
    Always,
    /// After the step at this position of the path (counted from 0) every path shows a violation, and before it there is a way to an end without one.
    Step(usize),
    /// It takes more than the effort to tell, or there are ways that never end.
    Unknown,
}

const WALKS: u64 = 8;

/// Finds the critical transition of a path whose last step shows a violation. (Steps before may have shown others.)
pub fn critical_transition<S: System>(
    system: &mut S,
    path: &[Choice],
    effort: Effort<'_>,
) -> Result<Critical, Failure<S::Error>> {
    // Before `escapable` steps there is a way out (if it is not none), after `doomed` steps there is not.
    let (mut escapable, mut doomed) = (None, first_violation(system, path)? + 1);
    let mut left = effort.steps.saturating_sub(doomed as u64);
    loop {
        let lowest = escapable.map_or(0, |e| e + 1);
        if lowest >= doomed {
            return Ok(escapable.map_or(Critical::Always, Critical::Step));
        }
        let middle = lowest + (doomed - lowest) / 2;
        match is_doomed(system, &path[..middle], effort, &mut left)? {
            Some(true) => doomed = middle,
            Some(false) => escapable = Some(middle),
            None => return Ok(Critical::Unknown),
        }
    }
}

/// The first step of a path that shows any violation. From there on what is to come does not matter.
fn first_violation<S: System>(system: &mut S, path: &[Choice]) -> Result<usize, Failure<S::Error>> {
    let failed = |error, steps: usize| Failure::System {
        error,
        path: path[..steps].to_vec(),
    };
    system.reset().map_err(|e| failed(e, 0))?;
    for (position, &choice) in path.iter().enumerate() {
        let report = system.step(choice).map_err(|e| failed(e, position + 1))?;
        if !report.violations.is_empty() {
            return Ok(position);
        }
        if report.end.is_some() {
            break;
        }
    }
    Err(Failure::Desync {
        path: path.to_vec(),
        detail: "the path does not show its violation".to_owned(),
    })
}

/// Whether all ways to go on from the end of a path, which has shown no violation, show one; `None` if that cannot be told.
fn is_doomed<S: System>(
    system: &mut S,
    path: &[Choice],
    effort: Effort<'_>,
    left: &mut u64,
) -> Result<Option<bool>, Failure<S::Error>> {
    let walks = Strategy::Random { walks: Some(WALKS) };
    for (strategy, steps) in [(walks, *left / 4), (Strategy::Dfs, *left)] {
        let exhaustive = !strategy.is_walk();
        let config = Config {
            strategy,
            hash: effort.hash,
            reduction: Reduction::None,
            max_live_marks: effort.max_live_marks,
            max_violations: None,
            limits: Limits {
                steps: Some(steps.min(*left)),
                ..Limits::default()
            },
            ..Config::default()
        };
        let edges = Edges::default();
        let mut search = Search::new(config).start_at(path);
        if exhaustive {
            search = search.observer(&edges);
        }
        search.hooks.end_at_violation = true;
        search.hooks.until_clean_end = true;
        search.hooks.stop = effort.stop;
        let result = search.run_one(system);
        *left = left.saturating_sub(result.counters.transitions + result.counters.reexecuted_steps);
        if let Some(failure) = result.failure {
            return Err(failure);
        }
        match result.coverage {
            Coverage::Incomplete(Limit::Goal) => return Ok(Some(false)),
            Coverage::Complete if exhaustive && !edges.have_cycle() => return Ok(Some(true)),
            _ => {}
        }
    }
    Ok(None)
}

/// The transitions between states that were explored.
#[derive(Default)]
struct Edges(Mutex<Vec<(u128, u128)>>);

impl Observer for Edges {
    fn edge(&self, from: u128, _: Choice, to: u128) {
        let mut edges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        edges.push((from, to));
    }
}

impl Edges {
    /// Takes away states that nothing leads to, until there are none; what remains then has cycles.
    fn have_cycle(self) -> bool {
        let edges = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut next: HashMap<u128, Vec<u128>> = HashMap::new();
        let mut ways_in: HashMap<u128, usize> = HashMap::new();
        for (from, to) in edges {
            next.entry(from).or_default().push(to);
            ways_in.entry(from).or_default();
            *ways_in.entry(to).or_default() += 1;
        }
        let mut free: Vec<u128> = ways_in.iter().filter(|e| *e.1 == 0).map(|e| *e.0).collect();
        let mut taken = 0;
        while let Some(state) = free.pop() {
            taken += 1;
            for to in next.get(&state).into_iter().flatten() {
                if let Some(count) = ways_in.get_mut(to) {
                    *count -= 1;
                    if *count == 0 {
                        free.push(*to);
                    }
                }
            }
        }
        taken < ways_in.len()
    }
}
