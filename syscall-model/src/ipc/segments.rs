//! Segments of memory: their contents are a file of the overlay that has no name, their attachments shared mappings of it.

use crate::fs::NodeId;
use crate::ipc::registry::{Kept, Permissions};
use crate::model::Model;
use crate::processes::Pid;

/// The segment goes with its last attachment.
pub const DEST: u32 = 0o1000;
/// It is locked in memory, which makes no difference here.
pub const LOCKED: u32 = 0o2000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    pub permissions: Permissions,
    /// As it was asked for; memory comes in pages.
    pub size: u64,
    pub node: NodeId,
    pub attached: u64,
    pub creator: Pid,
    pub last: Pid,
    /// In seconds.
    pub attached_at: u64,
    pub detached_at: u64,
    pub changed_at: u64,
}

impl Kept for Segment {
    fn permissions(&self) -> &Permissions {
        &self.permissions
    }
    fn permissions_mut(&mut self) -> &mut Permissions {
        &mut self.permissions
    }
}

/// Counts attachments again after something that may have made or ended some, by `pid`; segments that were removed go with the last one.
///
/// The kernel counts mappings, so that one which is split counts twice; so do we, by looking at them.
pub(crate) fn settle(model: &mut Model, pid: Pid) {
    if model.ipc.segments.is_empty() {
        return;
    }
    let now = model.clock.realtime() / 1_000_000_000;
    for id in model.ipc.segments.ids() {
        let Ok(segment) = model.ipc.segments.get(id) else {
            continue;
        };
        let count = model.attachments(&segment.node);
        let before = segment.attached;
        if count == before {
            continue;
        }
        if count == 0 && segment.permissions.mode & DEST != 0 {
            remove(model, id);
            continue;
        }
        if let Ok(segment) = model.ipc.segments.get_mut(id) {
            segment.attached = count;
            segment.last = pid;
            match count > before {
                true => segment.attached_at = now,
                false => segment.detached_at = now,
            }
        }
    }
}

/// A segment is gone, and its contents.
pub(crate) fn remove(model: &mut Model, id: i32) {
    if let Some(segment) = model.ipc.segments.remove(id) {
        model.fs.forget(&segment.node);
    }
}
