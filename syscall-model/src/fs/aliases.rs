//! The same part of a file mapped more than once in one process, where something can be stored through one of the mappings.
//!
//! What is stored at one address is at once at the others; but the memory of each mapping is its own here. So only one of them is *awake* at a time. The others have no memory, as if
//! they lay beyond the end of their file, and whoever touches one wakes it: what was stored meanwhile reaches the file, the mappings that were awake fall asleep, and this one is
//! filled.

use crate::fs::shared::{self, SharedMapping};
use crate::fs::{FileKey, FileSystem};
use crate::model::Cx;
use syscalls::Errno;

impl FileSystem {
    /// Is a part of a file mapped already, so that a further mapping would have to show at once what is stored?
    pub(crate) fn is_aliased(&self, key: FileKey, offset: u64, len: u64, writable: bool) -> bool {
        let new = (offset, offset.saturating_add(len));
        let mut mappings = self.place.shared.values();
        mappings.any(|mapping| self.key(&mapping.node) == Some(key) && meets(mapping, new, writable))
    }

    /// Are there mappings that are asleep?
    pub fn has_sleepers(&self) -> bool {
        self.place.shared.values().any(|mapping| mapping.asleep)
    }

    /// The mapping at an address, if it is asleep.
    pub fn sleeper_at(&self, addr: u64) -> Option<u64> {
        let (_, mapping) = self.place.shared.range(..=addr).next_back()?;
        (mapping.asleep && addr < mapping.end()).then_some(mapping.addr)
    }
}

/// Does a mapping show a part of its file that another one shows, too, and can one of them change it?
fn meets(mapping: &SharedMapping, (start, end): (u64, u64), writable: bool) -> bool {
    let overlaps = mapping.offset < end && start < mapping.offset + mapping.len;
    overlaps && (writable || mapping.writable)
}

/// Wakes the mapping at an address. The supervisor maps it anew, and those that fall asleep for it.
pub fn wake(cx: &mut Cx, addr: u64) -> Result<(), Errno> {
    let fs = &cx.model.fs;
    let Some(this) = fs
        .sleeper_at(addr)
        .and_then(|addr| fs.place.shared.get(&addr))
        .cloned()
    else {
        return Ok(());
    };
    shared::flush(cx, &this.node)?;
    let fs = &mut cx.model.fs;
    let Some(key) = fs.key(&this.node) else {
        return Ok(());
    };
    let part = (this.offset, this.offset + this.len);
    for other in fs.mappings_of(key) {
        if other.addr != this.addr && meets(&other, part, this.writable) {
            fs.set_asleep(other.addr, true);
        }
    }
    fs.set_asleep(this.addr, false);
    fs.note_resized(&this.node);
    Ok(())
}
