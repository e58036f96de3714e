//! A made-up host file system, for tests that must not depend on the machine.

use crate::fs::host::{Host, HostEntry, HostFile};
use crate::fs::node::{Attributes, Time};
use crate::fs::tree::split;
use std::collections::BTreeMap;
use std::sync::Arc;
use syscalls::Errno;

#[derive(Clone, Debug)]
enum What {
    Directory,
    File(Arc<Vec<u8>>),
    Link(Vec<u8>),
    Device(u64),
}

/// Files by absolute path, all owned by root and as old as the epoch.
#[derive(Clone, Debug)]
pub struct MemoryHost {
    files: BTreeMap<Vec<u8>, (u32, What)>,
}

impl Default for MemoryHost {
    fn default() -> Self {
        Self {
            files: BTreeMap::from([(b"/".to_vec(), (0o755, What::Directory))]),
        }
    }
}

impl MemoryHost {
    /// Adds a directory; its parents must be there.
    pub fn directory(mut self, path: &str) -> Self {
        self.files.insert(path.into(), (0o755, What::Directory));
        self
    }

    pub fn file(mut self, path: &str, mode: u32, bytes: &[u8]) -> Self {
        self.files
            .insert(path.into(), (mode, What::File(Arc::new(bytes.to_vec()))));
        self
    }

    pub fn link(mut self, path: &str, target: &str) -> Self {
        self.files.insert(path.into(), (0o777, What::Link(target.into())));
        self
    }

    /// A character device such as `(1, 3)` for `/dev/null`.
    pub fn device(mut self, path: &str, major: u32, minor: u32) -> Self {
        let number = libc::makedev(major, minor);
        self.files.insert(path.into(), (0o666, What::Device(number)));
        self
    }

    fn find(&self, path: &[u8]) -> Result<(u64, u32, &What), Errno> {
        let ino = self.files.range(..path.to_vec()).count() as u64 + 1;
        let (mode, what) = self.files.get(path).ok_or(Errno::ENOENT)?;
        Ok((ino, mode | file_type(what), what))
    }
}

fn file_type(what: &What) -> u32 {
    match what {
        What::Directory => libc::S_IFDIR,
        What::File(_) => libc::S_IFREG,
        What::Link(_) => libc::S_IFLNK,
        What::Device(_) => libc::S_IFCHR,
    }
}

impl HostFile for Vec<u8> {
    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let from = (offset as usize).min(self.len());
        let n = out.len().min(self.len() - from);
        out[..n].copy_from_slice(&self[from..from + n]);
        Ok(n)
    }
}

impl Host for MemoryHost {
    fn lstat(&self, path: &[u8]) -> Result<Attributes, Errno> {
        let (ino, mode, what) = self.find(path)?;
        let (size, rdev) = match what {
            What::File(bytes) => (bytes.len() as u64, 0),
            What::Link(target) => (target.len() as u64, 0),
            What::Directory => (4096, 0),
            What::Device(number) => (0, *number),
        };
        let epoch = Time::default();
        Ok(Attributes {
            dev: 1,
            ino,
            mode,
            nlink: if mode & libc::S_IFMT == libc::S_IFDIR {
                2
            } else {
                1
            },
            uid: 0,
            gid: 0,
            rdev,
            size,
            blksize: 4096,
            blocks: size.div_ceil(512),
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
        })
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        match self.find(path)?.2 {
            What::Link(target) => Ok(target.clone()),
            _ => Err(Errno::EINVAL),
        }
    }

    fn read_dir(&self, path: &[u8]) -> Result<Vec<HostEntry>, Errno> {
        if !matches!(self.find(path)?.2, What::Directory) {
            return Err(Errno::ENOTDIR);
        }
        let inside = self.files.keys().filter(|p| p.len() > 1 && split(p).0 == path);
        inside
            .map(|p| {
                let (ino, mode, _) = self.find(p)?;
                Ok(HostEntry {
                    name: split(p).1.to_vec(),
                    ino,
                    file_type: mode & libc::S_IFMT,
                })
            })
            .collect()
    }

    fn open(&self, path: &[u8]) -> Result<Arc<dyn HostFile>, Errno> {
        match self.find(path)?.2 {
            What::File(bytes) => Ok(bytes.clone()),
            What::Directory => Err(Errno::EISDIR),
            _ => Err(Errno::ENXIO),
        }
    }
}
