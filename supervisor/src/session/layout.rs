//! Changes of the task's mappings, noted for whoever keeps something about them: symbols, checkpoints.

use super::Session;
use std::ops::Range;

/// What happened to the mappings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Something, somewhere; or code was changed by force.
    Anywhere,
    /// Memory was mapped, unmapped or protected here, and nowhere else.
    Mapped(Range<u64>),
    /// The mappings are as before, but what was in memory here is gone.
    Dropped(Range<u64>),
}

/// As many changes are remembered one by one.
const MANY: usize = 16;

impl Session {
    /// Changes whenever the mappings of the task may have.
    pub fn layout_version(&self) -> u64 {
        self.layout_version
    }

    /// What happened to the mappings since this was last asked.
    pub fn take_layout_changes(&mut self) -> std::vec::Drain<'_, Change> {
        self.changes.drain(..)
    }

    pub(super) fn layout_changed(&mut self, change: Change) {
        if !matches!(change, Change::Dropped(_)) {
            self.layouts += 1;
            self.layout_version = self.layouts;
        }
        if self.changes.first() == Some(&Change::Anywhere) {
            return;
        }
        if change == Change::Anywhere || self.changes.len() >= MANY {
            self.changes.clear();
            self.changes.push(Change::Anywhere);
        } else {
            self.changes.push(change);
        }
    }
}
