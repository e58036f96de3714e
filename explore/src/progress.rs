//! The counters of a search, readable from another thread while it runs.
//!
//! They are the only counters there are: what a progress line shows and what the final report says cannot disagree.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Live counters of a search; see [`Counters`] for their meaning.
        #[derive(Debug, Default)]
        pub struct Progress { $(pub(crate) $name: AtomicU64,)* }

        /// A snapshot of [`Progress`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }

        impl Progress {
            /// Reads all counters. They are read one by one, so a running search may be caught between two of them.
            pub fn snapshot(&self) -> Counters {
                Counters { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// States reached for the first time (stateless: states reached).
    states_new,
    /// Arrivals at a state that was there before.
    states_revisited,
    /// Steps explored, not counting those that were re-executed to get somewhere.
    transitions,
    /// Paths explored to their end. A path that is cut (visited state, depth limit, everything asleep) is not one.
    executions,
    /// Schedules that were tried, whole or in part: paths that came to their end, to a known state, to a limit, or to where everything was asleep.
    schedules,
    /// How many that were when the first violation was found; 0 if there was none.
    schedules_to_violation,
    /// Of the executions, paths that ended with nothing enabled though the system did not report an end.
    dead_ends,
    /// Different outcomes so far.
    outcomes,
    /// The length of the longest path so far.
    max_depth,
    /// Paths cut by the depth limit.
    cut_paths,
    /// Paths given up because everything enabled was asleep: redundant work of a reduction.
    sleep_blocked,
    /// Marks taken.
    marks_taken,
    /// Marks rewound to.
    marks_restored,
    /// Marks that exist now.
    marks_live,
    /// The most marks that existed at one time.
    marks_live_max,
    /// Steps taken again to reach a state that has no mark.
    reexecuted_steps,
    /// Pairs of operations tried out, see [`crate::Audit`].
    audited_pairs,
    /// Steps made for that.
    audit_steps,
    /// Returns to the initial state by [`crate::System::reset`].
    resets,
    /// Nodes that one worker gave to another.
    handed_over,
    /// Pairs of operations whose order walks have seen that guide themselves, see [`crate::PairCoverage`].
    pairs,
    /// How many transitions a search with dynamic reduction that ended early would have taken in all, as far as can be told; 0 if nothing can.
    estimated_steps,
}

pub(crate) fn add(counter: &AtomicU64, n: u64) -> u64 {
    counter.fetch_add(n, Relaxed) + n
}
