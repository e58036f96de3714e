//! Changes of the task's mappings, noted for whoever keeps something about them: symbols, checkpoints.

use crate::spaces::Spaces;
pub use syscall_model::table::Change;

/// As many changes are remembered one by one.
const MANY: usize = 16;

impl Spaces {
    /// Mappings of the task in place have changed.
    pub(super) fn layout_changed(&mut self, change: Change) {
        if !matches!(change, Change::Dropped(_)) {
            self.layouts += 1;
            self.here.layout_version = self.layouts;
        }
        let changes = &mut self.here.changes;
        if changes.first() == Some(&Change::Anywhere) {
            return;
        }
        if change == Change::Anywhere || changes.len() >= MANY {
            changes.clear();
            changes.push(Change::Anywhere);
        } else {
            changes.push(change);
        }
    }
}
