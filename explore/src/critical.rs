//! The critical transition of a counterexample: the step after which there is no way out.
//!
//! Being doomed is monotone along a path (what is inevitable stays so), so the step is found by bisection. Whether a state is doomed is a search for a
//! path that ends without a violation: first a few random walks, which find one quickly where there are many, then an exhaustive search.

use crate::minimise::Effort;
use crate::result::{Failure, Limit};
use crate::{Choice, Config, Coverage, Limits, Reduction, Search, Strategy, System};

/// Where a violation becomes inevitable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Critical {
    /// Every path of the system shows a violation.
    Always,
    /// After the step at this position of the path (counted from 0) every way to go on shows a violation, and before it there is one that does not.
    /// A way that never ends is not counted as a way out.
    Step(usize),
    /// It takes more than the effort to tell.
    Unknown,
}

const WALKS: u64 = 8;

/// Finds the critical transition of a path whose last step shows a violation.
pub fn critical_transition<S: System>(
    system: &mut S,
    path: &[Choice],
    effort: Effort<'_>,
) -> Result<Critical, Failure<S::Error>> {
    let mut left = effort.steps;
    // Before `escapable` steps there is a way out (if it is not none), after `doomed` steps there is not.
    let (mut escapable, mut doomed) = (None, path.len());
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

/// Whether all ways to go on from the end of a path show a violation; `None` if that takes too long to tell.
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
            // Not dynamic: it would have to follow paths beyond their violation.
            reduction: Reduction::Sleep,
            dependent: effort.dependent.cloned().unwrap_or_default(),
            max_live_marks: effort.max_live_marks,
            max_violations: None,
            limits: Limits {
                steps: Some(steps.min(*left)),
                ..Limits::default()
            },
            ..Config::default()
        };
        let mut search = Search::new(config).start_at(path);
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
            Coverage::Complete if exhaustive => return Ok(Some(true)),
            _ => {}
        }
    }
    Ok(None)
}
