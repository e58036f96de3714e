//! Shared mappings of files, kept in step with the files at system calls.
//!
//! The guest's memory for such a mapping is private and anonymous, because only private memory is what it was
//! after going back to a checkpoint. What the program stores there reaches the file, and every other mapping
//! of it, the next time anybody looks through a system call: before a file is read or written the pages that
//! differ from it are taken over, and after it was written they are filled again. One thread runs at a time, so
//! between two calls of one thread nobody else could have looked.

use crate::call::Call;
use crate::fd::Kind;
use crate::fs::node::{Bytes, NodeId};
use crate::fs::{FileData, FileKey, FileSystem, Place};
use crate::fs::{backing, data};
use crate::memory::GuestMemoryExt;
use crate::memory::PAGE;
use crate::model::{Cx, Model};
use imbl::OrdMap;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use syscalls::{Errno, Sysno};

/// A part of a file that is visible in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedMapping {
    pub addr: u64,
    pub len: u64,
    pub offset: u64,
    pub node: NodeId,
    /// What `/proc/PID/maps` calls it.
    pub name: Bytes,
    /// Mapped from a description that may write: `mprotect` can make it writable later.
    pub writable: bool,
    /// The protection that the program gave it. What lies beyond the end of the file has another in the kernel.
    pub prot: i32,
    /// No file: memory that processes share (`MAP_ANONYMOUS`), kept like the contents of one.
    pub anonymous: bool,
    /// How much of it, from its start, has memory that shows the file; the pages after that lie beyond the file's end.
    pub backed: u64,
    /// Another mapping of the same part is in use in this process: see `aliases.rs`.
    pub asleep: bool,
}

/// What the memory of each mapping shows, by its address: the file as it was when it was last filled. Says nothing that memory and files do not say, so it
/// identifies no state.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown(OrdMap<u64, FileData>);

impl PartialEq for Shown {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Shown {}

impl Hash for Shown {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl SharedMapping {
    pub fn end(&self) -> u64 {
        self.addr + self.len
    }

    pub(super) fn meets(&self, start: u64, end: u64) -> bool {
        self.addr < end && start < self.end()
    }
}

impl FileSystem {
    /// Address for a shared mapping: chosen here, far from where the kernel puts anything, because the model
    /// must know it.
    pub(crate) fn choose_address(&mut self, len: u64) -> u64 {
        const FIRST: u64 = 0x6000_0000_0000;
        let addr = FIRST + self.place.mapped_so_far;
        // A page stays free behind each, so that running over the end still faults.
        self.place.mapped_so_far += len.next_multiple_of(PAGE) + PAGE;
        addr
    }

    pub(crate) fn add_mapping(&mut self, mapping: SharedMapping) {
        self.opened(&mapping.node);
        self.place.shown.0.remove(&mapping.addr);
        self.place.shared.insert(mapping.addr, mapping);
    }

    /// What lies at an address that processes share: a name of the file, and the place in it.
    pub(crate) fn shared_at(&self, place: &Place, addr: u64) -> Option<(u64, u64)> {
        self.object_at(&place.shared, addr)
    }

    /// The same in the memory of the process in place.
    pub(crate) fn shared_here(&self, addr: u64) -> Option<(u64, u64)> {
        self.object_at(&self.place.shared, addr)
    }

    fn object_at(&self, shared: &OrdMap<u64, SharedMapping>, addr: u64) -> Option<(u64, u64)> {
        if shared.is_empty() {
            return None;
        }
        let (_, mapping) = shared.range(..=addr).next_back()?;
        let (device, inode) = self.key(&mapping.node).filter(|_| addr < mapping.end())?;
        Some((
            device.rotate_left(32) ^ inode,
            mapping.offset + (addr - mapping.addr),
        ))
    }

    /// The inode at an address that processes share, and the place in it; in the memory of the process in place, or in that of another.
    pub(crate) fn shared_inode(&self, place: Option<&Place>, addr: u64) -> Option<(u64, u64)> {
        let shared = place.map_or(&self.place.shared, |place| &place.shared);
        let (_, mapping) = shared.range(..=addr).next_back()?;
        let (_, inode) = self.key(&mapping.node).filter(|_| addr < mapping.end())?;
        Some((inode, mapping.offset + (addr - mapping.addr)))
    }

    pub(crate) fn count_mappings(&self, node: &NodeId) -> u64 {
        count(&self.place.shared, node)
    }

    /// Those of a file, in the process in place.
    pub(crate) fn mappings_of_node(&self, node: &NodeId) -> Vec<SharedMapping> {
        let of_file = |mapping: &&SharedMapping| mapping.node == *node;
        self.place.shared.values().filter(of_file).cloned().collect()
    }

    /// Does a shared mapping lie in this range of memory?
    pub fn shared_in(&self, start: u64, len: u64) -> bool {
        let end = start.saturating_add(len);
        self.place
            .shared
            .values()
            .any(|mapping| mapping.meets(start, end))
    }

    /// The shared mapping at an address.
    pub(crate) fn shared_mapping_at(&self, addr: u64) -> Option<SharedMapping> {
        let (_, mapping) = self.place.shared.range(..=addr).next_back()?;
        (addr < mapping.end()).then(|| mapping.clone())
    }

    /// What is shared in this range is so no longer.
    pub(crate) fn cut_mappings(&mut self, start: u64, end: u64) {
        self.unmap(start, end);
    }

    /// Can its contents be seen, or changed, by loads and stores?
    pub fn is_mapped(&self, node: &NodeId) -> bool {
        !self.place.shared.is_empty()
            && self
                .key(node)
                .is_some_and(|key| !self.mappings_of(key).is_empty())
    }

    pub(super) fn set_asleep(&mut self, addr: u64, asleep: bool) {
        self.place.shown.0.remove(&addr);
        if let Some(mapping) = self.place.shared.get_mut(&addr) {
            mapping.asleep = asleep;
        }
    }

    pub(super) fn mappings_of(&self, key: FileKey) -> Vec<SharedMapping> {
        let of_file = |mapping: &&SharedMapping| self.key(&mapping.node) == Some(key);
        self.place.shared.values().filter(of_file).cloned().collect()
    }

    pub(crate) fn drop_mapping(&mut self, addr: u64) {
        self.place.shown.0.remove(&addr);
        if let Some(mapping) = self.place.shared.remove(&addr) {
            self.forget(&mapping.node);
        }
    }

    /// A range of memory is mapped anew or no longer mapped: what was visible there is cut away.
    pub(super) fn unmap(&mut self, start: u64, end: u64) {
        let cut: Vec<SharedMapping> = self
            .place
            .shared
            .values()
            .filter(|m| m.meets(start, end))
            .cloned()
            .collect();
        for old in cut {
            // A file without a name lives only as long as something is mapped.
            let node = old.node.clone();
            self.opened(&node);
            if old.addr < start {
                self.add_mapping(SharedMapping {
                    len: start - old.addr,
                    backed: old.backed.min(start - old.addr),
                    ..old.clone()
                });
                // The new record has taken the old one's place, but both counted as open.
                self.forget(&old.node);
            } else {
                self.drop_mapping(old.addr);
            }
            if end < old.end() {
                let skipped = end - old.addr;
                self.add_mapping(SharedMapping {
                    addr: end,
                    len: old.len - skipped,
                    offset: old.offset + skipped,
                    backed: old.backed.saturating_sub(skipped),
                    ..old
                });
            }
            self.forget(&node);
        }
    }
}

impl Place {
    pub(crate) fn count_mappings(&self, node: &NodeId) -> u64 {
        count(&self.shared, node)
    }
}

fn count(shared: &OrdMap<u64, SharedMapping>, node: &NodeId) -> u64 {
    shared.values().filter(|mapping| mapping.node == *node).count() as u64
}

/// Brings what was stored through mappings of this file into the file, and into its other mappings.
pub(crate) fn flush(cx: &mut Cx, node: &NodeId) -> Result<(), Errno> {
    if cx.model.fs.place.shared.is_empty() {
        return Ok(());
    }
    let Some(key) = cx.model.fs.key(node) else {
        return Ok(());
    };
    let mappings = cx.model.fs.mappings_of(key);
    let mut stored = Vec::new();
    for mapping in mappings.iter().filter(|mapping| mapping.writable) {
        match differences(cx, mapping) {
            Ok(pages) => stored.extend(pages),
            // The kernel never made the mapping, or the program got rid of it in a way nobody noticed.
            Err(Errno::EFAULT) => cx.model.fs.drop_mapping(mapping.addr),
            Err(errno) => return Err(errno),
        }
    }
    if stored.is_empty() {
        return Ok(());
    }
    let now = cx.file_time();
    let ino = cx.model.fs.copy_up(cx.host, node)?;
    for (offset, bytes) in stored {
        cx.model.fs.file_data_mut(ino)?.write_at(offset, &bytes)?;
    }
    cx.model.fs.touch_modified(ino, now);
    refresh(cx, node)
}

/// The memory at which a call that has returned `result` has read or changed a mapped file, and whether it has changed it.
pub fn spans_of_call(model: &Model, call: &Call, result: i64) -> Vec<(Range<u64>, bool)> {
    let (writes, is_positional) = match call.sysno {
        Sysno::read | Sysno::readv => (false, false),
        Sysno::write | Sysno::writev => (true, false),
        Sysno::pread64 | Sysno::preadv => (false, true),
        Sysno::pwrite64 | Sysno::pwritev => (true, true),
        Sysno::preadv2 => (false, call.long(3) != -1),
        Sysno::pwritev2 => (true, call.long(3) != -1),
        _ => return Vec::new(),
    };
    let len = u64::try_from(result).unwrap_or(0);
    let Ok((_, description)) = model.files.lookup(call.fd(0)) else {
        return Vec::new();
    };
    let Kind::File(file) = &description.kind else {
        return Vec::new();
    };
    let start = match is_positional {
        true => call.word(3),
        false => file.offset.saturating_sub(len),
    };
    let mappings = model.fs.key(&file.node).map(|key| model.fs.mappings_of(key));
    let part = |mapping: SharedMapping| {
        let from = start.max(mapping.offset);
        let to = start.saturating_add(len).min(mapping.offset + mapping.len);
        let memory = |at: u64| mapping.addr + (at - mapping.offset);
        (from < to).then(|| (memory(from)..memory(to), writes))
    };
    mappings.into_iter().flatten().filter_map(part).collect()
}

/// The pages of a mapping that differ from the file, as far as the file goes.
fn differences(cx: &Cx, mapping: &SharedMapping) -> Result<Vec<(u64, Vec<u8>)>, Errno> {
    let page = |i: u64, memory: &[u8]| (mapping.offset + i * PAGE, memory.to_vec());
    if let NodeId::Overlay(ino) = cx.model.fs.current(&mapping.node) {
        // Without a copy of the file: this is asked after every step.
        let file = cx.model.fs.file_data(ino)?;
        let len = file.size().saturating_sub(mapping.offset).min(mapping.backed);
        let in_memory = cx.mem.peek_vec(mapping.addr, len as usize)?;
        let pieces: Vec<&[u8]> = in_memory.chunks(PAGE as usize).collect();
        let unlike = file.unlike(mapping.offset, &in_memory)?.into_iter();
        return Ok(unlike.map(|i| page(i, pieces[i as usize])).collect());
    }
    let in_file = data::node_bytes(cx, &mapping.node, None, mapping.offset, mapping.backed as usize)?;
    let in_memory = cx.mem.peek_vec(mapping.addr, in_file.len())?;
    let pages = in_memory.chunks(PAGE as usize).zip(in_file.chunks(PAGE as usize));
    Ok((0..)
        .zip(pages)
        .filter(|(_, (memory, file))| memory != file)
        .map(|(i, (memory, _))| page(i, memory))
        .collect())
}

/// Fills what has changed since the mapping was last filled; false if all of it must be looked at.
fn fill_changed(cx: &mut Cx, mapping: &SharedMapping) -> Result<bool, Errno> {
    let fs = &cx.model.fs;
    let NodeId::Overlay(ino) = fs.current(&mapping.node) else {
        return Ok(false);
    };
    let Some(before) = fs.place.shown.0.get(&mapping.addr) else {
        return Ok(false);
    };
    let now = fs.file_data(ino)?;
    let Some(written) = now.written_since(before) else {
        return Ok(false);
    };
    for (number, bytes) in written {
        let at = number * PAGE;
        if at >= mapping.offset && at < mapping.offset + mapping.backed {
            cx.mem.poke(mapping.addr + (at - mapping.offset), bytes)?;
        }
    }
    Ok(true)
}

/// The mapping shows its file as it is now.
fn note_shown(cx: &mut Cx, mapping: &SharedMapping) {
    let fs = &mut cx.model.fs;
    if let NodeId::Overlay(ino) = fs.current(&mapping.node)
        && let Ok(data) = fs.file_data(ino)
    {
        let data = data.clone();
        fs.place.shown.0.insert(mapping.addr, data);
    }
}

/// Fills all mappings of a file again after it changed, as far as they have memory for it: where that is too little or too
/// much now, the supervisor maps it anew (see [`backing`]).
pub(crate) fn refresh(cx: &mut Cx, node: &NodeId) -> Result<(), Errno> {
    fill(cx, node, false)
}

/// The same for a file that became shorter: the rest of its last page is zeroed.
pub(crate) fn refresh_cut(cx: &mut Cx, node: &NodeId) -> Result<(), Errno> {
    fill(cx, node, true)
}

fn fill(cx: &mut Cx, node: &NodeId, cut: bool) -> Result<(), Errno> {
    if cx.model.fs.place.shared.is_empty() {
        return Ok(());
    }
    let Some(key) = cx.model.fs.key(node) else {
        return Ok(());
    };
    for mapping in cx.model.fs.mappings_of(key) {
        if !cut && fill_changed(cx, &mapping)? {
            note_shown(cx, &mapping);
            continue;
        }
        let mut in_file = data::node_bytes(cx, &mapping.node, None, mapping.offset, mapping.backed as usize)?;
        let backed = backing::wanted(cx, &mapping)?;
        if backed != mapping.backed {
            cx.model.fs.note_resized(&mapping.node);
        }
        if cut {
            in_file.resize(backed as usize, 0);
        }
        let Ok(in_memory) = cx.mem.peek_vec(mapping.addr, in_file.len()) else {
            cx.model.fs.drop_mapping(mapping.addr);
            continue;
        };
        let pages = in_memory.chunks(PAGE as usize).zip(in_file.chunks(PAGE as usize));
        for (i, (memory, file)) in (0..).zip(pages) {
            if memory != file {
                // Whatever the program may do with it: a mapping for reading shows what is written to the file.
                cx.mem.poke(mapping.addr + i * PAGE, file)?;
            }
        }
        if backed == mapping.backed {
            note_shown(cx, &mapping);
        }
    }
    Ok(())
}

/// Brings everything that was stored through mappings into the files: at `exit`, `execve` and `msync`, and
/// before the overlay is looked at from outside.
pub fn flush_all(cx: &mut Cx) -> Result<(), Errno> {
    let nodes: Vec<NodeId> = cx
        .model
        .fs
        .place
        .shared
        .values()
        // Nobody else is there to see it.
        .filter(|mapping| !(mapping.anonymous && cx.model.is_childless()))
        .map(|mapping| mapping.node.clone())
        .collect();
    for node in nodes {
        flush(cx, &node)?;
    }
    Ok(())
}

/// Before a range of memory goes: what was stored there reaches its files.
pub(crate) fn unmap(cx: &mut Cx, start: u64, len: u64) -> Result<(), Errno> {
    if cx.model.fs.shared_in(start, len) {
        flush_all(cx)?;
        cx.model.fs.unmap(
            start,
            start
                .saturating_add(len)
                .checked_next_multiple_of(PAGE)
                .unwrap_or(u64::MAX),
        );
    }
    Ok(())
}
