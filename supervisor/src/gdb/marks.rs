//! Checkpoints along a trace, so that a step back does not execute all of it again.

use checkpoint::Backend;
use failure::Failure;
use session::{Mark, Session};
use std::collections::BTreeMap;

/// As many are kept; each is a process that waits.
const MOST: usize = 32;

/// The states before some transitions.
pub struct Marks {
    checkpoints: session::Marks,
    kept: BTreeMap<usize, Mark>,
    /// One is taken every so many transitions.
    stride: usize,
}

impl Marks {
    pub fn new(session: &mut Session, transitions: usize) -> Result<Self, Failure> {
        Ok(Self {
            checkpoints: session::Marks::new(session, Backend::Fork)?,
            kept: BTreeMap::new(),
            stride: (transitions / MOST).max(16),
        })
    }

    /// Whether a mark belongs before this transition.
    pub fn is_due(&self, step: usize) -> bool {
        step.is_multiple_of(self.stride) && !self.kept.contains_key(&step)
    }

    /// Remembers the state before a transition. There must be no breakpoints in it.
    pub fn take(&mut self, session: &mut Session, step: usize) -> Result<(), Failure> {
        if self.kept.contains_key(&step) {
            return Ok(());
        }
        session.debugger().rewritten();
        if let Some(mark) = self.checkpoints.mark(session)? {
            self.kept.insert(step, mark);
            self.thin_out(step);
        }
        Ok(())
    }

    /// Those between the strides were taken for a step back, and the user has moved on.
    fn thin_out(&mut self, latest: usize) {
        if self.kept.len() <= MOST + 4 {
            return;
        }
        let stride = self.stride;
        let mut between = self.kept.keys().copied();
        let Some(step) = between.find(|step| !step.is_multiple_of(stride) && *step != latest) else {
            return;
        };
        if let Some(mark) = self.kept.remove(&step) {
            self.checkpoints.forget(&mark);
        }
    }

    /// The last transition before this one, or this one, that has a mark.
    pub fn last_up_to(&self, step: usize) -> Option<usize> {
        self.kept.range(..=step).next_back().map(|(&step, _)| step)
    }

    /// Back to the mark before a transition; `false` if that cannot be done.
    pub fn restore(&mut self, session: &mut Session, step: usize) -> Result<bool, Failure> {
        let Some(mark) = self.kept.get(&step) else {
            return Ok(false);
        };
        session.debugger().rewritten();
        self.checkpoints.restore(session, mark)
    }
}
