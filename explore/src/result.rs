//! What a search found, and how much of the state space that covers.

use crate::config::Plan;
use crate::{Choice, Counters, System};
use std::collections::BTreeMap;
use std::time::Duration;

/// A violation, and how to get there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<V> {
    /// What is violated.
    pub violation: V,
    /// The choices from the initial state; the last one shows the violation. The shortest path that was seen.
    pub path: Vec<Choice>,
    /// How often it was found.
    pub times: u64,
}

/// Which limit ended a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// [`crate::Limits::states`].
    States,
    /// [`crate::Limits::depth`]: all else was explored, but some paths were cut.
    Depth,
    /// [`crate::Limits::steps`].
    Steps,
    /// [`crate::Limits::time`].
    Time,
    /// [`crate::Limits::memory`].
    Memory,
    /// The stop flag (Ctrl-C).
    Stopped,
    /// [`crate::Config::max_violations`].
    Violations,
    /// The system failed, see [`SearchResult::failure`].
    Failure,
    /// Operations that were announced as independent are not, so too much was left out. To be made again with what was learned.
    Dependent,
    /// [`crate::Limits::repetition`].
    Repetition,
    /// [`crate::Limits::endless`].
    Endless,
    /// An internal search has found what it was after.
    Goal,
}

/// Two operations that were announced as independent and are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// Their sites, see [`crate::Candidate::site`].
    pub sites: [u64; 2],
    /// Where that is, for people: [`System::describe`].
    pub places: [String; 2],
}

/// How much was covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// All behaviours (up to the equivalence of the reduction).
    Complete,
    /// All behaviours with at most so many preemptions; and no path was left out because of the bound if `exact`.
    Bounded {
        /// The bound.
        preemptions: u32,
        /// No choice was withheld, so the coverage is complete after all.
        exact: bool,
    },
    /// All the walks that were asked for.
    Sampled,
    /// Ended early.
    Incomplete(Limit),
}

impl Coverage {
    /// Whether nothing was left out.
    pub fn is_complete(self) -> bool {
        matches!(self, Coverage::Complete | Coverage::Bounded { exact: true, .. })
    }
}

/// Why a search had to give up.
#[derive(Debug, thiserror::Error)]
pub enum Failure<E> {
    /// The system reported an error.
    #[error("the system failed after {} steps: {error:?}", path.len())]
    System {
        /// Its error.
        error: E,
        /// Where it happened: the choices from the initial state, the failing one included.
        path: Vec<Choice>,
    },
    /// The system did not do the same again under the same choices.
    #[error("not deterministic after {} steps: {detail}", path.len())]
    Desync {
        /// The path that was re-executed.
        path: Vec<Choice>,
        /// What differed.
        detail: String,
    },
    /// The system has no thread for a worker.
    #[error("no thread for worker {worker}: {error}")]
    NoThread {
        /// Which one.
        worker: usize,
        /// What it said.
        error: std::io::Error,
    },
    /// A worker panicked.
    #[error("worker {worker} panicked: {message}")]
    Panic {
        /// Which one.
        worker: usize,
        /// With what.
        message: String,
    },
}

/// The result of a search.
#[derive(Debug)]
pub struct SearchResult<S: System> {
    /// Every outcome, with the number of executions that had it. The set does not depend on strategy, reduction, hashing or jobs
    /// if the coverage is complete; the numbers do. (0: only seen where another path had already counted that end state.)
    pub outcomes: BTreeMap<S::Outcome, u64>,
    /// Every violation, sorted.
    pub violations: Vec<Found<S::Violation>>,
    /// Operations that turned out to be dependent. If this is not empty, [`Config::dependent`](crate::Config::dependent) should have
    /// had their sites in it, and the search is to be made again.
    pub learned: Vec<Dependent>,
    /// The counters at the end.
    pub counters: Counters,
    /// How much was covered.
    pub coverage: Coverage,
    /// How far a search in the order of preemptions came, if it did not come to its end.
    pub deepened: Option<crate::Deepened>,
    /// Which orders of operations walks have seen that guide themselves ([`crate::Strategy::Walk`]).
    pub pairs: Option<crate::PairCoverage>,
    /// Why the search gave up, if it did. All else is valid up to that point.
    pub failure: Option<Failure<S::Error>>,
    /// What was really done about the configuration.
    pub plan: Plan,
    /// How long it took.
    pub elapsed: Duration,
}

/// Sees every transition that is explored, to record the state graph. Called from all workers.
pub trait Observer: Sync {
    /// A state was reached for the first time.
    fn state(&self, _id: u128, _depth: u32) {}
    /// A transition was explored.
    fn edge(&self, _from: u128, _choice: Choice, _to: u128) {}
}
