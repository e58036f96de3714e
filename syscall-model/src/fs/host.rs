//! The files of this machine, as the bottom layer of the modelled file system: read-only.
//!
//! They are inputs: the model assumes that nobody changes them while the program runs. The supervisor uses
//! [`RealHost`]; tests can use [`MemoryHost`](crate::fs::MemoryHost).

use crate::fs::node::{Attributes, Time};
use crate::processes::Pid;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use syscalls::Errno;

/// One name in a directory of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostEntry {
    pub name: Vec<u8>,
    pub ino: u64,
    /// The `S_IFMT` bits.
    pub file_type: u32,
}

/// An open file of the host.
pub trait HostFile: Debug + Send + Sync {
    /// Reads up to `out.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<usize, Errno>;
}

/// The files of this machine, read-only. Paths are absolute, and no symbolic link in them is followed for
/// the last part; the model has resolved the parts before. Without any method a host has no files.
pub trait Host {
    fn lstat(&self, _path: &[u8]) -> Result<Attributes, Errno> {
        Err(Errno::ENOENT)
    }

    /// As [`lstat`](Self::lstat), for the model's own use: of this the program learns no more than type, owner, permissions
    /// and identity. A host that records what the program saw leaves the rest out.
    fn attributes(&self, path: &[u8]) -> Result<Attributes, Errno> {
        self.lstat(path)
    }

    fn read_link(&self, _path: &[u8]) -> Result<Vec<u8>, Errno> {
        Err(Errno::ENOENT)
    }

    fn read_dir(&self, _path: &[u8]) -> Result<Vec<HostEntry>, Errno> {
        Err(Errno::ENOENT)
    }

    fn open(&self, _path: &[u8]) -> Result<Arc<dyn HostFile>, Errno> {
        Err(Errno::ENOENT)
    }

    /// What `/proc/self/NAME` holds where only the live process knows: `maps`, `cmdline`, `environ`, `auxv`, ….
    fn process_file(&self, _name: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// The same of another process of the program.
    fn file_of_process(&self, _pid: Pid, _name: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealHost;

impl HostFile for File {
    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let mut done = 0;
        while done < out.len() {
            match FileExt::read_at(self, &mut out[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(errno(&e)),
            }
        }
        Ok(done)
    }
}

impl Host for RealHost {
    fn lstat(&self, path: &[u8]) -> Result<Attributes, Errno> {
        let meta = std::fs::symlink_metadata(as_path(path)).map_err(|e| errno(&e))?;
        Ok(attributes(&meta))
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let target = std::fs::read_link(as_path(path)).map_err(|e| errno(&e))?;
        Ok(target.into_os_string().into_vec())
    }

    fn read_dir(&self, path: &[u8]) -> Result<Vec<HostEntry>, Errno> {
        use std::os::unix::fs::{DirEntryExt, FileTypeExt};
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(as_path(path)).map_err(|e| errno(&e))? {
            let entry = entry.map_err(|e| errno(&e))?;
            let file_type = match entry.file_type().map_err(|e| errno(&e))? {
                t if t.is_dir() => libc::S_IFDIR,
                t if t.is_symlink() => libc::S_IFLNK,
                t if t.is_fifo() => libc::S_IFIFO,
                t if t.is_socket() => libc::S_IFSOCK,
                t if t.is_char_device() => libc::S_IFCHR,
                t if t.is_block_device() => libc::S_IFBLK,
                _ => libc::S_IFREG,
            };
            entries.push(HostEntry {
                name: entry.file_name().into_vec(),
                ino: entry.ino(),
                file_type,
            });
        }
        Ok(entries)
    }

    fn open(&self, path: &[u8]) -> Result<Arc<dyn HostFile>, Errno> {
        Ok(Arc::new(File::open(as_path(path)).map_err(|e| errno(&e))?))
    }
}

pub(crate) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::new(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Reading a file must not change what the program sees: the access time shows the time of the last change.
fn attributes(meta: &std::fs::Metadata) -> Attributes {
    let mtime = Time::new(meta.mtime(), meta.mtime_nsec());
    Attributes {
        dev: meta.dev(),
        ino: meta.ino(),
        mode: meta.mode(),
        nlink: meta.nlink(),
        uid: meta.uid(),
        gid: meta.gid(),
        rdev: meta.rdev(),
        size: meta.size(),
        blksize: meta.blksize(),
        blocks: meta.blocks(),
        atime: mtime,
        mtime,
        ctime: Time::new(meta.ctime(), meta.ctime_nsec()),
    }
}
