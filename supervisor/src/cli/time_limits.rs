//! Limits that are reached in the middle of a step: the search ends as it does between two of them, with the same verdict.

use checker::CheckSystem;
use explore::{Coverage, Failure, Limit, SearchResult};
use failure::ExitCode;
use session::Bounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a step may take while a counterexample is made simpler: a thread may compute without end on another way. All else there is bounded by a number of steps,
/// so that the same counterexample comes out on a busy machine.
const SIMPLER: Duration = Duration::from_secs(60);

/// The bounds of a search that begins now.
pub fn of_search(time_limit: Option<Duration>, stop: &Arc<AtomicBool>) -> Bounds {
    Bounds {
        stop: Some(Arc::clone(stop)),
        deadline: time_limit.and_then(|limit| Instant::now().checked_add(limit)),
        ..Bounds::default()
    }
}

/// The same for waits for peers.
pub fn with_peers(bounds: &Bounds) -> peers::TimeBudget {
    peers::TimeBudget {
        stop: bounds.stop.clone(),
        deadline: bounds.deadline,
    }
}

/// The bounds of the search for a simpler counterexample.
pub fn of_minimisation() -> Bounds {
    Bounds {
        step: Some(SIMPLER),
        ..Bounds::default()
    }
}

/// If the search was broken off in a step, that is a limit like any other. Returns what to say about it.
pub fn take_limit(result: &mut SearchResult<CheckSystem>, stop: &AtomicBool) -> Option<String> {
    let failure = result.failure.take_if(
        |failure| matches!(failure, Failure::System { error, .. } if error.code == ExitCode::Limit),
    )?;
    let limit = if stop.load(Relaxed) {
        Limit::Stopped
    } else {
        Limit::Time
    };
    result.coverage = Coverage::Incomplete(limit);
    match failure {
        Failure::System { error, .. } => Some(error.reason),
        Failure::Desync { .. } | Failure::NoThread { .. } | Failure::Panic { .. } => None,
    }
}
