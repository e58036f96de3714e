//! Inodes of the overlay, and how any file is named and described.

use crate::fd::OfdId;
use crate::fs::content::FileData;
use imbl::OrdMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The number of an overlay inode in the model's own table.
pub type Ino = u64;

/// Bytes of a path or a name, shared between checkpoints.
pub type Bytes = Arc<[u8]>;

/// A moment as `struct stat` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Time {
    pub sec: i64,
    pub nsec: u32,
}

impl Time {
    pub fn new(sec: i64, nsec: i64) -> Self {
        Self {
            sec,
            nsec: nsec as u32,
        }
    }

    pub fn from_nanos(nanos: u64) -> Self {
        Self {
            sec: (nanos / 1_000_000_000) as i64,
            nsec: (nanos % 1_000_000_000) as u32,
        }
    }
}

/// What the `stat` family shows: the fields of `struct stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Attributes {
    pub dev: u64,
    pub ino: u64,
    pub mode: u32,
    pub nlink: u64,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u64,
    pub size: u64,
    pub blksize: u64,
    pub blocks: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
}

impl Attributes {
    pub fn file_type(&self) -> u32 {
        self.mode & libc::S_IFMT
    }

    pub fn is_dir(&self) -> bool {
        self.file_type() == libc::S_IFDIR
    }

    pub fn is_symlink(&self) -> bool {
        self.file_type() == libc::S_IFLNK
    }

    pub fn is_regular(&self) -> bool {
        self.file_type() == libc::S_IFREG
    }
}

/// A file of the host that nobody has changed. Identity is the inode; the path is one way to reach it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostNode {
    pub path: Bytes,
    pub dev: u64,
    pub ino: u64,
}

/// Names one file, whatever layer it lives in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeId {
    /// As it is on this machine, unless it was copied up meanwhile.
    Host(HostNode),
    /// Created or changed by the program.
    Overlay(Ino),
    /// Made up by the model: `/proc/self/…`, `/proc/cpuinfo`, ….
    Virtual(Bytes),
    /// Whatever a description stands for, reached through `/proc/self/fd`.
    Open(OfdId),
}

/// An inode of the overlay.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// `size` and `blocks` are kept by [`FileData`] for regular files.
    pub attributes: Attributes,
    pub content: Content,
    /// The host file that it was copied up from.
    pub origin: Option<Bytes>,
    /// `F_ADD_SEALS`; `None` where sealing does not exist.
    pub seals: Option<i32>,
    /// Extended attributes that the program gave it.
    pub extended: OrdMap<Bytes, Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    File(FileData),
    Directory(Directory),
    Symlink(Bytes),
    /// FIFO, socket, device: nothing but attributes.
    Other,
}

/// A directory: what the program changed in it, over what the host has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Directory {
    /// The host directory beneath, if it is not a new one.
    pub base: Option<Bytes>,
    /// `None` hides a name of the host.
    pub entries: OrdMap<Bytes, Option<Ino>>,
    pub parent: NodeId,
    pub name: Bytes,
}
