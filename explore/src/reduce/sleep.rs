//! Sleep sets: the operations on them.
//!
//! A sleeper carries the footprint that its operation had when it was *executed* from an ancestor. Since only operations that are independent of
//! it were executed since, it would have the same one now. So a prediction is never needed, and a wrong one does no harm.

use crate::{Choice, Footprint};

/// An operation that need not be executed here.
#[derive(Clone, Debug)]
pub(crate) struct Sleeper {
    pub choice: Choice,
    pub footprint: Footprint,
}

/// Who still sleeps after `executed`.
pub(crate) fn after(sleep: &[Sleeper], executed: Choice, footprint: &Footprint) -> Vec<Sleeper> {
    let independent = |s: &&Sleeper| s.choice.thread != executed.thread && !s.footprint.conflicts(footprint);
    sleep.iter().filter(independent).cloned().collect()
}

/// The choices alone, sorted.
pub(crate) fn keys(sleep: &[Sleeper]) -> Vec<Choice> {
    let mut keys: Vec<_> = sleep.iter().map(|s| s.choice).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
