//! Violations that walks have met. They are as real as those of a search, and replay like them.

use explore::Choice;
use hooks::Preempt;
use hooks::Watched;
use session::network::Peers;
use session::{Bounds, Options, Walk};
use std::sync::Arc;
use trace::{Violation, ViolationKind};

/// A violation, and how a walk came to it.
#[derive(Clone, Debug)]
pub struct Met {
    pub violation: Violation,
    pub path: Vec<Choice>,
    /// Two accesses that nothing orders, of which the last step has made the second. No state shows them both, as the C library or the kernel makes one of them.
    pub is_by_order: bool,
    /// How that walk watched: which steps there are depends on it.
    pub(super) walk: Walk,
    pub(super) watched: Arc<Watched>,
    pub(super) peers: Peers,
}

impl Met {
    /// What to execute the path with.
    pub fn options(&self, options: &Options) -> Options {
        Options {
            bounds: Bounds::default(),
            ..as_walk(options, &self.walk, &self.watched, &self.peers)
        }
    }
}

/// A program as a walk runs it.
pub(super) fn as_walk(options: &Options, walk: &Walk, watched: &Arc<Watched>, peers: &Peers) -> Options {
    Options {
        preempt: Preempt::Memory,
        watched: Arc::clone(watched),
        walk: Some(walk.clone()),
        peers: peers.clone(),
        residents: options
            .residents
            .as_ref()
            .map(|residents| Arc::new(residents.fixed())),
        ..options.clone()
    }
}

/// Adds one, unless there is another of its kind that is reached by fewer steps: they are told to the user if the search does not come to any of that kind.
pub(super) fn keep(known: &mut Vec<Met>, met: Met) {
    let kind = |met: &Met| -> ViolationKind { met.violation.kind };
    match known.iter_mut().find(|other| kind(other) == kind(&met)) {
        // What a state shows is easier to see.
        Some(other) if (other.is_by_order, other.path.len()) <= (met.is_by_order, met.path.len()) => {}
        Some(other) => *other = met,
        None => known.push(met),
    }
}
