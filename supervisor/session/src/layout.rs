//! Changes of the task's mappings, noted for whoever keeps something about them: symbols, checkpoints.

use super::Session;
pub use syscall_model::table::Change;

/// As many changes are remembered one by one.
const MANY: usize = 16;

impl Session {
    /// Changes whenever the mappings of the task may have.
    pub fn layout_version(&self) -> u64 {
        self.space.layout_version
    }

    /// A debugger may have changed anything.
    pub fn rewritten(&mut self) {
        self.touch();
        self.layout_changed(Change::Anywhere);
    }

    pub(super) fn layout_changed(&mut self, change: Change) {
        if !matches!(change, Change::Dropped(_)) {
            self.layouts += 1;
            self.space.layout_version = self.layouts;
        }
        if self.space.changes.first() == Some(&Change::Anywhere) {
            return;
        }
        if change == Change::Anywhere || self.space.changes.len() >= MANY {
            self.space.changes.clear();
            self.space.changes.push(Change::Anywhere);
        } else {
            self.space.changes.push(change);
        }
    }
}
