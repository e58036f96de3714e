//! The file system as the guest sees it: the host's files, read-only, under a copy-on-write overlay.
//!
//! A file is named by a [`NodeId`]. It stays a [`NodeId::Host`] until the program changes it; then it is
//! copied up: an overlay inode takes its place for every name and every open description that leads to it,
//! because both are looked up by the host's inode number. Directories are copied up when an entry in them
//! changes; entries that did not change still come from the host directory beneath.

pub(crate) mod aliases;
mod apply;
pub(crate) mod backing;
mod content;
pub(crate) mod data;
pub mod durable;
mod export;
mod host;
mod locks;
mod maps;
mod memory_host;
mod node;
mod other_processes;
mod path;
mod proc_contents;
pub mod shared;
mod tree;
mod virtual_files;

pub use aliases::wake;
pub use apply::{Change, apply, changes};
pub use backing::{Remap, refresh_all, refresh_resized, remaps};
pub use content::{Base, FileData};
pub use export::export;
pub use host::{Host, HostEntry, HostFile, RealHost};
pub use locks::{LockOwner, LockRequest, Locks};
pub use memory_host::MemoryHost;
pub use node::{Attributes, Bytes, Content, Directory, HostNode, Ino, Node, NodeId, Time};
pub(crate) use other_processes::shows_others;
pub use path::{Found, Last, resolve};
pub use shared::{SharedMapping, flush_all};
pub(crate) use tree::split;
pub use tree::{Entry, View};

use crate::fd::OfdId;
use crate::memory::PAGE;
use crate::model::Config;
use imbl::{OrdMap, OrdSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What reading and writing an open file means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Regular,
    Directory,
    /// Made up by the model, and made anew by every read.
    Virtual,
    Null,
    Zero,
    Full,
    Random,
    /// `O_PATH`: names a file, cannot be read or written.
    Path,
}

/// An open regular file, directory or device.
#[derive(Clone, Debug)]
pub struct OpenFile {
    pub node: NodeId,
    pub class: Class,
    pub offset: u64,
    /// The absolute path that it was opened by.
    pub path: Bytes,
    /// The names of a directory as they were when it was last read from its beginning, so that whoever
    /// removes files while listing them misses none.
    pub listing: Option<Arc<[Entry]>>,
    /// Open for as long as the description, so that a read is one call.
    pub host: Option<Arc<dyn HostFile>>,
}

impl PartialEq for OpenFile {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
            && self.class == other.class
            && self.offset == other.offset
            && self.path == other.path
            && self.listing == other.listing
    }
}

impl Eq for OpenFile {}

impl Hash for OpenFile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.node.hash(state);
        self.class.hash(state);
        self.offset.hash(state);
        self.path.hash(state);
        self.listing.hash(state);
    }
}

/// Device and inode number as the program sees them: the same before and after a file is copied up.
pub type FileKey = (u64, u64);

/// All files that the program can see and what it has changed of them.
///
/// A file for each topic: the inodes and their names are in `tree`, shared mappings in `shared`, `backing` and `aliases`, what survives a power failure in
/// `durable`. All of them change inodes, so all are methods of the one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileSystem {
    nodes: OrdMap<Ino, Node>,
    /// Host files that were copied up, by device and inode number.
    copied: OrdMap<FileKey, Ino>,
    /// Open descriptions (and the working directory) per node: what keeps an unlinked file alive.
    opens: OrdMap<FileKey, u32>,
    pub locks: Locks,
    /// Of the process in place.
    place: Place,
    /// Files of which a shared mapping is new, or covers more or less than its memory shows; during a call only.
    resized: OrdSet<FileKey>,
    cpus: u32,
    /// A directory of the host has moved: paths of host files are no longer what the program calls them.
    moved: bool,
    /// What would survive a power failure, where that is asked for.
    durable: Option<Box<durable::Durable>>,
}

/// What a process has of its own here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    cwd: Cwd,
    /// Where absolute paths begin, if not at the root of everything (`chroot`).
    root: Option<NodeId>,
    /// Shared mappings of files, by address.
    shared: OrdMap<u64, SharedMapping>,
    /// What the memory of each of them shows.
    shown: shared::Shown,
    /// Address space handed out to them.
    mapped_so_far: u64,
    umask: u32,
    /// Absolute path of the program, for `/proc/self/exe`.
    program: Bytes,
    /// Inodes that the process makes have numbers of their own.
    next: Ino,
}

/// The working directory; a path until the program first changes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Cwd {
    Initial(Bytes),
    Node(NodeId),
}

/// The device number of files that the program creates.
pub const OVERLAY_DEV: u64 = 0x4d;
/// 512-byte blocks in a page.
const PAGE_BLOCKS: u64 = PAGE / 512;
/// Far above the inode numbers of ordinary file systems, so that new files do not collide with the host's.
pub const FIRST_INO: Ino = 1 << 40;

impl Place {
    fn new(config: &Config, program: &[u8], next: Ino) -> Self {
        Self {
            cwd: Cwd::Initial(config.cwd.as_slice().into()),
            root: None,
            shared: OrdMap::new(),
            shown: shared::Shown::default(),
            mapped_so_far: 0,
            umask: config.umask,
            program: program.into(),
            next,
        }
    }
}

impl FileSystem {
    pub fn new(config: &Config) -> Self {
        Self {
            nodes: OrdMap::new(),
            copied: OrdMap::new(),
            opens: OrdMap::new(),
            locks: Locks::default(),
            place: Place::new(config, &config.program, FIRST_INO),
            resized: OrdSet::new(),
            cpus: config.cpus,
            moved: false,
            durable: None,
        }
    }

    /// Absolute path of the program that the process in place runs.
    pub fn program(&self) -> &[u8] {
        &self.place.program
    }

    pub fn set_program(&mut self, path: &[u8]) {
        self.place.program = path.into();
    }

    /// `umask`: the one before.
    pub(crate) fn set_umask(&mut self, umask: u32) -> u32 {
        std::mem::replace(&mut self.place.umask, umask)
    }

    pub(crate) fn umask(&self) -> u32 {
        self.place.umask
    }

    /// Standard input, with the contents given in the configuration.
    pub fn stdin(&mut self, config: &Config) -> OpenFile {
        let now = Time {
            sec: config.epoch_seconds as i64,
            nsec: 0,
        };
        let content = Content::File(FileData::from_bytes(&config.stdin));
        let ino = self.create(libc::S_IFREG | 0o400, (0, 0), now, content);
        self.node_mut(ino).attributes.nlink = 0;
        let node = NodeId::Overlay(ino);
        self.opened(&node);
        OpenFile {
            node,
            class: Class::Regular,
            offset: 0,
            path: b"/stdin (deleted)".as_slice().into(),
            listing: None,
            host: None,
        }
    }

    /// Does the process in place map memory that another one could change?
    pub fn has_shared_memory(&self) -> bool {
        self.can_change(&self.place.shared)
    }

    /// Does a process that is not in place?
    pub(crate) fn has_shared_memory_at(&self, place: &Place) -> bool {
        self.can_change(&place.shared)
    }

    /// A file of the host that nobody has written, and that is mapped only to be read (a cache of the C library, say), does not change.
    fn can_change(&self, shared: &OrdMap<u64, SharedMapping>) -> bool {
        let changes = |mapping: &SharedMapping| {
            mapping.writable || matches!(self.current(&mapping.node), NodeId::Overlay(_))
        };
        shared.values().any(changes)
    }

    /// Another process comes in place.
    pub(crate) fn swap_place(&mut self, place: &mut Place) {
        std::mem::swap(&mut self.place, place);
    }

    /// The place of a process that nobody has made.
    pub(crate) fn new_place(&self, config: &Config, program: &[u8], first_number: u32) -> Place {
        Place::new(config, program, FIRST_INO + Ino::from(first_number))
    }

    /// Another process has the same working directory, root and umask.
    pub(crate) fn tell_place(&self, place: &mut Place) {
        place.cwd.clone_from(&self.place.cwd);
        place.root.clone_from(&self.place.root);
        place.umask = self.place.umask;
    }

    /// The process in place no longer shares its working directory and root.
    pub(crate) fn retain_place(&mut self) {
        let directory = match &self.place.cwd {
            Cwd::Node(node) => Some(node.clone()),
            Cwd::Initial(_) => None,
        };
        for node in directory.into_iter().chain(self.place.root.clone()) {
            self.opened(&node);
        }
    }

    /// The process in place has no working directory and root any more; others have the same.
    pub(crate) fn drop_place(&mut self) {
        self.place.cwd = Cwd::Initial(b"/".as_slice().into());
        self.place.root = None;
    }

    /// What a new process inherits; or `shares`, as far as it can.
    pub(crate) fn copy_place(&mut self, first_number: u32, shares: bool) -> Place {
        let place = Place {
            // Its memory may have been stored to since: all of it is compared once.
            shown: shared::Shown::default(),
            next: FIRST_INO + Ino::from(first_number),
            ..self.place.clone()
        };
        if !shares {
            self.retain_place();
        }
        for mapping in place.shared.values() {
            self.opened(&mapping.node);
        }
        place
    }

    /// The process in place ends.
    pub(crate) fn end_process(&mut self, pid: u32) {
        self.unmap_all();
        if let Cwd::Node(node) = self.place.cwd.clone() {
            self.place.cwd = Cwd::Initial(b"/".as_slice().into());
            self.forget(&node);
        }
        self.set_root(None);
        self.locks.process_ended(pid);
    }

    /// Absolute paths of the process in place begin here from now on; at the root of everything, if that is no other place.
    pub(crate) fn set_root(&mut self, node: Option<NodeId>) {
        if let Some(node) = &node {
            self.opened(node);
        }
        if let Some(before) = std::mem::replace(&mut self.place.root, node) {
            self.forget(&before);
        }
    }

    /// Has the process in place another root than the rest of the world?
    pub(crate) fn has_own_root(&self) -> bool {
        self.place.root.is_some()
    }

    /// One more description refers to `node`.
    pub fn opened(&mut self, node: &NodeId) {
        if let Some(key) = self.key(node) {
            *self.opens.entry(key).or_insert(0) += 1;
        }
    }

    /// The last reference to an open file is gone.
    pub fn closed(&mut self, id: OfdId, file: OpenFile) {
        self.locks.description_closed(id);
        self.forget(&file.node);
    }

    /// One descriptor of a file is gone: as the kernel, all of the process's record locks on it go with it.
    pub fn descriptor_closed(&mut self, pid: u32, file: &NodeId) {
        if let Some(key) = self.key(file) {
            self.locks.process_closed(pid, key);
        }
    }

    /// Does anybody hold a lock on the file?
    pub(crate) fn is_locked(&self, file: &NodeId) -> bool {
        self.key(file).is_some_and(|key| self.locks.is_locked(key))
    }

    /// A new program runs in the process.
    pub fn exec(&mut self, program: &[u8]) {
        self.place.program = program.into();
        self.unmap_all();
    }

    /// All memory of the process in place goes.
    fn unmap_all(&mut self) {
        let mapped: Vec<NodeId> = self
            .place
            .shared
            .values()
            .map(|mapping| mapping.node.clone())
            .collect();
        self.place.shared.clear();
        self.place.shown = shared::Shown::default();
        for node in mapped {
            self.forget(&node);
        }
    }

    pub(crate) fn forget(&mut self, node: &NodeId) {
        let Some(key) = self.key(node) else { return };
        if let Some(count) = self.opens.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.opens.remove(&key);
            }
        }
        if let NodeId::Overlay(ino) = self.current(node) {
            self.drop_if_unused(ino);
        }
    }

    /// The identity of a file for everything that outlives a copy-up; `None` for what is not on a disk.
    pub fn key(&self, node: &NodeId) -> Option<FileKey> {
        match node {
            NodeId::Host(host) => Some((host.dev, host.ino)),
            NodeId::Overlay(ino) => {
                let attributes = &self.nodes.get(ino)?.attributes;
                Some((attributes.dev, attributes.ino))
            }
            NodeId::Virtual(_) | NodeId::Open(_) => None,
        }
    }

    /// Where the node lives now: a host file may have been copied up since it was looked up.
    pub fn current(&self, node: &NodeId) -> NodeId {
        match node {
            NodeId::Host(host) => match self.copied.get(&(host.dev, host.ino)) {
                Some(&ino) => NodeId::Overlay(ino),
                None => node.clone(),
            },
            _ => node.clone(),
        }
    }

    /// An inode of the overlay.
    ///
    /// # Panics
    /// If there is none: numbers only come from this table, and nodes live while anything refers to them.
    pub fn node(&self, ino: Ino) -> &Node {
        self.nodes
            .get(&ino)
            .unwrap_or_else(|| panic!("no overlay inode {ino}"))
    }

    /// See [`FileSystem::node`].
    pub fn node_mut(&mut self, ino: Ino) -> &mut Node {
        self.nodes
            .get_mut(&ino)
            .unwrap_or_else(|| panic!("no overlay inode {ino}"))
    }
}
