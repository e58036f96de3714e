//! What to search, how, and how far; and which combinations are sound.
//!
//! A user may ask for a combination that would lose schedules (a reduction under a preemption bound). Rather than refuse,
//! or worse obey, [`Config::plan`] falls back to the strongest sound thing and says so in words.

use std::collections::BTreeSet;
use std::time::Duration;

/// In which order states are explored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Depth first, choices in canonical order.
    Dfs,
    /// Breadth first over the states where there is something to choose: the violation with the fewest decisions comes first.
    Bfs,
    /// All that needs no preemption, then all that needs one, and so on, depth first for each number. Nothing is explored twice, and how far it came is known
    /// at any time ([`crate::SearchResult::deepened`]). Without reduction.
    ByPreemptions,
    /// Random walks, each to its end.
    Random {
        /// How many; `None`: until a limit is reached.
        walks: Option<u64>,
    },
    /// Schedules with few preemptions, each to its end: a thread goes on as long as it can, then comes the next one. But none for ever: after some time
    /// in which others could have moved, they do.
    Straight {
        /// How many.
        walks: u64,
    },
    /// Walks that guide themselves to orders of conflicting operations that no walk has seen, each to its end; see [`crate::SearchResult::pairs`].
    Walk {
        /// How many; `None`: until a limit is reached.
        walks: Option<u64>,
    },
    /// Probabilistic concurrency testing (Burckhardt and others, ASPLOS 2010): random priorities and `depth - 1` random priority changes
    /// find a bug of depth `depth` with probability at least 1 / (threads × steps^(depth-1)) per walk.
    Pct {
        /// The depth of the bugs to look for, at least 1.
        depth: u32,
        /// How many walks; `None`: until a limit is reached.
        walks: Option<u64>,
        /// How long a walk is expected to be; `None`: as long as the longest so far.
        steps: Option<u32>,
    },
}

impl Strategy {
    /// Whether it samples, rather than covers.
    pub fn is_walk(&self) -> bool {
        matches!(
            self,
            Strategy::Random { .. }
                | Strategy::Straight { .. }
                | Strategy::Walk { .. }
                | Strategy::Pct { .. }
        )
    }
}

/// Which schedules may be left out because others are equivalent. See [`crate::reduce`] for what each preserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// `Sleep` with a visited set, `Dpor` without one.
    Auto,
    /// Every schedule.
    None,
    /// Sleep sets.
    Sleep,
    /// Dynamic partial-order reduction with sleep sets; stateless and depth first only.
    Dpor,
}

/// Whether operations are tried that are announced as independent: do they commute? See [`crate::SearchResult::learned`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audit {
    /// What is announced is believed.
    Off,
    /// Some are tried in passing, in a search that relies on their independence.
    InPassing,
    /// They are what the search is made for, whether it reduces anything or not.
    Only,
}

/// What ends a search early.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// New states.
    pub states: Option<u64>,
    /// Steps per path; a path that is longer is cut, and the coverage is then incomplete. (With a visited set, what lies beyond a state that was first
    /// reached just before the limit is not explored again when that state is reached by a shorter path.)
    pub depth: Option<u32>,
    /// Transitions, including those that were re-executed.
    pub steps: Option<u64>,
    /// Whether a search that is near its end goes on beyond `steps`.
    pub hope: Option<Hope>,
    /// Wall-clock time.
    pub time: Option<Duration>,
    /// Bytes, as told by [`crate::Search::memory_use`].
    pub memory: Option<u64>,
    /// Transitions without any path having come to its end.
    pub endless: Option<u64>,
    /// From so many transitions on, the search ends if fewer than half of its paths so far have come to an outcome of their own.
    pub repetition: Option<u64>,
}

/// When a search goes on beyond its bound of steps: as long as its own estimate of how many it takes in all is low. (Of one worker, depth first; a search that
/// remembers states takes fewer than it says, by a factor of up to ten early on.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hope {
    /// The estimate is not above this.
    pub estimate: u64,
    /// In any case not beyond this many steps.
    pub steps: u64,
}

/// All settings of a search. Each stands for itself, and callers change one or two of the default, so they are not grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The order of the search.
    pub strategy: Strategy,
    /// Seed of all random choices.
    pub seed: u64,
    /// Which schedules to leave out.
    pub reduction: Reduction,
    /// Stateful: remember visited states. Without it every path is explored, and a state space with a cycle needs a depth limit.
    pub hash: bool,
    /// A depth-first search, or one in the order of preemptions, does not go deeper than this before all else is explored up to there; then twice as deep, and so on. Nothing is left out, and no
    /// endless path is gone down for ever. Not with dynamic reduction, which needs its paths in order.
    pub deepening: Option<u32>,
    /// At most so many preemptions per path. Switches reductions off, see [`Config::plan`].
    pub bound_preemptions: Option<u32>,
    /// The bound is on preemptions and on alternatives other than the first, together.
    pub bound_counts_alternatives: bool,
    /// Workers, each with its own system.
    pub jobs: usize,
    /// What ends the search early.
    pub limits: Limits,
    /// Stop at so many different violations; `None`: keep going.
    pub max_violations: Option<usize>,
    /// Whether to try what is announced as independent.
    pub audit: Audit,
    /// Sites ([`crate::Candidate::site`]) at which operations are dependent with each other, whatever their footprints say: what
    /// earlier searches have learned.
    pub dependent: BTreeSet<u64>,
    /// Live marks of all workers together; beyond that, states are re-reached by re-execution.
    pub max_live_marks: usize,
    /// No new mark is taken while more bytes than this are in use (see [`crate::Search::memory_use`]).
    pub mark_memory: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            strategy: Strategy::Dfs,
            seed: 0,
            reduction: Reduction::Auto,
            hash: true,
            deepening: None,
            bound_preemptions: None,
            bound_counts_alternatives: false,
            jobs: 1,
            limits: Limits::default(),
            max_violations: Some(1),
            audit: Audit::Off,
            dependent: BTreeSet::new(),
            max_live_marks: usize::MAX,
            mark_memory: None,
        }
    }
}

/// What is really done about a [`Config`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The reduction in use, never `Auto`.
    pub reduction: Reduction,
    /// The number of workers in use.
    pub jobs: usize,
    /// Where this differs from what was asked, and why; for the user.
    pub notes: Vec<&'static str>,
}

impl Config {
    /// Settles what depends on other settings.
    ///
    /// - A preemption bound counts context switches, which equivalent schedules do not share: the one representative that a reduction
    ///   keeps may be over the bound. So there is no reduction under a bound, nor in the order of preemptions.
    /// - Walks sample single schedules: nothing to reduce.
    /// - `Dpor` learns from the end of a path what to explore at its beginning; a path that is cut at a visited state teaches nothing.
    ///   So it needs a stateless search, depth first, and (its backtracking sets being discovered late) one worker.
    pub fn plan(&self) -> Plan {
        let mut notes = Vec::new();
        let asked = match self.reduction {
            Reduction::Auto if self.hash || self.strategy == Strategy::Bfs => Reduction::Sleep,
            Reduction::Auto => Reduction::Dpor,
            explicit => explicit,
        };
        let reduction = if self.strategy.is_walk() {
            Reduction::None
        } else if self.strategy == Strategy::ByPreemptions {
            if matches!(self.reduction, Reduction::Sleep | Reduction::Dpor) {
                notes.push("no reduction: none is sound in the order of preemptions");
            }
            Reduction::None
        } else if self.bound_preemptions.is_some() && asked != Reduction::None {
            notes.push("no reduction: none is sound under a preemption bound");
            Reduction::None
        } else if asked == Reduction::Dpor && self.hash {
            notes.push("sleep sets in place of dpor: dpor needs a stateless search");
            Reduction::Sleep
        } else if asked == Reduction::Dpor && self.strategy != Strategy::Dfs {
            notes.push("sleep sets in place of dpor: dpor needs a depth-first search");
            Reduction::Sleep
        } else {
            asked
        };
        let mut jobs = self.jobs.max(1);
        if reduction == Reduction::Dpor && jobs > 1 {
            notes.push("one worker: dpor discovers its work late and does not share it");
            jobs = 1;
        }
        Plan {
            reduction,
            jobs,
            notes,
        }
    }
}
