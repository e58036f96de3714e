//! How much of a shared mapping has memory: as many pages as its file has, and what lies beyond raises SIGBUS.
//!
//! Files grow and shrink under their mappings. The memory that stands in for a file is mapped anew by the supervisor then, at
//! the end of the call: readable as the program wants it up to the end of the file, not accessible at all beyond, where a fault is
//! reported as the kernel would.

use crate::fs::shared::{self, SharedMapping};
use crate::fs::{FileSystem, NodeId};
use crate::memory::PAGE;
use crate::model::Cx;
use syscalls::Errno;

/// Memory to be mapped anew: private, anonymous and empty, with this protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remap {
    pub addr: u64,
    pub len: u64,
    pub prot: i32,
}

/// How much of a mapping should have memory, in whole pages.
pub(super) fn wanted(cx: &Cx, mapping: &SharedMapping) -> Result<u64, Errno> {
    if mapping.asleep {
        return Ok(0);
    }
    let size = cx.view().attributes(&cx.model.fs.current(&mapping.node))?.size;
    let covered = size.saturating_sub(mapping.offset).checked_next_multiple_of(PAGE);
    Ok(covered.unwrap_or(u64::MAX).min(mapping.len))
}

/// What must be mapped anew for the mappings of resized files to show as much as their files have; they are taken to be so from now on.
pub fn remaps(cx: &mut Cx) -> Result<Vec<Remap>, Errno> {
    let mut remaps = Vec::new();
    let fs = &cx.model.fs;
    let resized: Vec<SharedMapping> = fs.resized.iter().flat_map(|&key| fs.mappings_of(key)).collect();
    for mapping in resized {
        let backed = wanted(cx, &mapping)?;
        let (from, to) = (backed.min(mapping.backed), backed.max(mapping.backed));
        if from == to {
            continue;
        }
        let grows = backed > mapping.backed;
        remaps.push(Remap {
            addr: mapping.addr + from,
            len: to - from,
            prot: if grows { mapping.prot } else { libc::PROT_NONE },
        });
        if let Some(mapping) = cx.model.fs.place.shared.get_mut(&mapping.addr) {
            mapping.backed = backed;
        }
    }
    Ok(remaps)
}

/// Fills the mappings of resized files, as far as they were mapped anew. What was stored in other mappings since their files were last
/// brought up to date stays there.
pub fn refresh_resized(cx: &mut Cx) -> Result<(), Errno> {
    for key in std::mem::take(&mut cx.model.fs.resized) {
        if let Some(mapping) = cx.model.fs.mappings_of(key).first() {
            shared::refresh(cx, &mapping.node)?;
        }
    }
    Ok(())
}

/// Fills all shared mappings from their files: for a process that has stored nothing since it was last in place.
pub fn refresh_all(cx: &mut Cx) -> Result<(), Errno> {
    let nodes: Vec<NodeId> = cx
        .model
        .fs
        .place
        .shared
        .values()
        .map(|mapping| mapping.node.clone())
        .collect();
    nodes.iter().try_for_each(|node| shared::refresh(cx, node))
}

impl FileSystem {
    /// The protection that the program gave to an address, if it lies in a shared mapping and beyond the end of its file.
    pub fn beyond_the_end(&self, addr: u64) -> Option<i32> {
        let (_, mapping) = self.place.shared.range(..=addr).next_back()?;
        let is_beyond = (mapping.addr + mapping.backed..mapping.end()).contains(&addr);
        (is_beyond && !mapping.asleep).then_some(mapping.prot)
    }

    /// Must something be mapped anew before the program goes on?
    pub fn is_resized(&self) -> bool {
        !self.resized.is_empty()
    }

    /// The mappings of a file are to be compared with it at the end of the call. What was stored in them must be in the file by now.
    pub(crate) fn note_resized(&mut self, node: &NodeId) {
        if let Some(key) = self.key(node) {
            self.resized.insert(key);
        }
    }

    /// The kernel could not make a mapping that was noted before.
    pub fn not_mapped(&mut self, addr: u64) {
        self.drop_mapping(addr);
        self.resized.clear();
    }

    /// May everything that is shared in this range be given this protection?
    pub(crate) fn may_protect(&self, start: u64, end: u64, prot: i32) -> bool {
        let met = |mapping: &&SharedMapping| mapping.meets(start, end);
        prot & libc::PROT_WRITE == 0
            || self
                .place
                .shared
                .values()
                .filter(met)
                .all(|mapping| mapping.writable)
    }

    /// The kernel gives this range another protection. It does so beyond the end of a file, too, which is set right afterwards.
    pub(crate) fn protect(&mut self, start: u64, end: u64, prot: i32) {
        let met = |mapping: &&SharedMapping| mapping.meets(start, end);
        let all: Vec<SharedMapping> = self.place.shared.values().filter(met).cloned().collect();
        for mapping in all {
            let (from, to) = (mapping.addr.max(start), mapping.end().min(end));
            let (node, anonymous) = (mapping.node.clone(), mapping.anonymous);
            self.opened(&node);
            self.unmap(from, to);
            self.add_mapping(SharedMapping {
                addr: from,
                len: to - from,
                offset: mapping.offset + (from - mapping.addr),
                prot,
                backed: to - from,
                ..mapping
            });
            // Memory without a file has no end before its own, and what was stored in it need not be anywhere else.
            if !anonymous {
                self.note_resized(&node);
            }
            self.forget(&node);
        }
    }
}
