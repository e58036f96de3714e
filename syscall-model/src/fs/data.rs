//! Reading and writing the bytes of open files.

use crate::fd::{Kind, OfdId};
use crate::fs::node::{Content, Ino, NodeId};
use crate::fs::{Class, FileSystem, HostFile, OpenFile, shared, virtual_files};
use crate::model::Cx;
use std::sync::Arc;
use syscalls::Errno;

/// Bytes fetched from a host file at a time: a huge count must not allocate a huge buffer for a small file.
const PIECE: usize = 1 << 20;

/// The open file behind a description.
fn open_file<'a>(cx: &'a Cx, ofd: OfdId) -> Result<&'a OpenFile, Errno> {
    match cx.model.files.get(ofd).map(|d| &d.kind) {
        Some(Kind::File(file)) => Ok(file),
        _ => Err(Errno::EBADF),
    }
}

pub(crate) fn set_offset(cx: &mut Cx, ofd: OfdId, offset: u64) {
    if let Some(description) = cx.model.files.get_mut(ofd)
        && let Kind::File(file) = &mut description.kind
    {
        file.offset = offset;
    }
}

/// Reads at `offset`, or where the description stands, which then moves.
pub(crate) fn read(cx: &mut Cx, ofd: OfdId, max: usize, offset: Option<u64>) -> Result<Vec<u8>, Errno> {
    let file = open_file(cx, ofd)?.clone();
    let at = offset.unwrap_or(file.offset);
    let bytes = match file.class {
        Class::Directory => return Err(Errno::EISDIR),
        Class::Path => return Err(Errno::EBADF),
        Class::Null => Vec::new(),
        Class::Zero | Class::Full => vec![0; max],
        Class::Random => {
            let mut bytes = vec![0; max];
            cx.model.random.fill(&mut bytes);
            bytes
        }
        Class::Virtual => {
            let NodeId::Virtual(path) = &file.node else {
                return Err(Errno::EIO);
            };
            let all = virtual_files::contents(&cx.view(), path)?;
            let from = (at as usize).min(all.len());
            all[from..from.saturating_add(max).min(all.len())].to_vec()
        }
        Class::Regular => {
            shared::flush(cx, &file.node)?;
            node_bytes(cx, &file.node, file.host.as_ref(), at, max)?
        }
    };
    if offset.is_none() && matches!(file.class, Class::Regular | Class::Virtual) {
        set_offset(cx, ofd, at + bytes.len() as u64);
    }
    Ok(bytes)
}

/// The bytes of a regular file, whatever layer it lives in; `open` is the host's file if it is open already.
pub(crate) fn node_bytes(
    cx: &Cx,
    node: &NodeId,
    open: Option<&Arc<dyn HostFile>>,
    at: u64,
    max: usize,
) -> Result<Vec<u8>, Errno> {
    match cx.model.fs.current(node) {
        NodeId::Overlay(ino) => cx.model.fs.file_data(ino)?.read_at(at, max),
        NodeId::Host(node) => {
            let handle = match open {
                Some(handle) => handle.clone(),
                None => cx.host.open(&node.path)?,
            };
            let mut out = Vec::new();
            while out.len() < max {
                let done = out.len();
                let piece = PIECE.min(max - done);
                out.resize(done + piece, 0);
                let n = handle.read_at(&mut out[done..], at.saturating_add(done as u64))?;
                out.truncate(done + n);
                if n < piece {
                    break;
                }
            }
            Ok(out)
        }
        NodeId::Virtual(_) | NodeId::Open(_) => Err(Errno::EINVAL),
    }
}

/// Writes at `offset`, or where the description stands (at the end with `O_APPEND`), which then moves.
pub(crate) fn write(cx: &mut Cx, ofd: OfdId, data: &[u8], offset: Option<u64>) -> Result<usize, Errno> {
    let file = open_file(cx, ofd)?.clone();
    match file.class {
        Class::Null | Class::Zero => return Ok(data.len()),
        Class::Full => return Err(Errno::ENOSPC),
        // Writing adds entropy to the kernel's pool; the model's stream is fixed by its seed.
        Class::Random => return Ok(data.len()),
        Class::Directory | Class::Path => return Err(Errno::EBADF),
        Class::Virtual => return write_virtual(cx, &file.node, data),
        Class::Regular => {}
    }
    if data.is_empty() {
        return Ok(0);
    }
    let flags = cx.model.files.get(ofd).map_or(0, |d| d.flags);
    shared::flush(cx, &file.node)?;
    let now = cx.file_time();
    let ino = cx.model.fs.copy_up(cx.host, &file.node)?;
    // As the kernel (and against POSIX), O_APPEND wins over the offset of pwrite.
    let at = if flags & libc::O_APPEND != 0 {
        cx.model.fs.file_data(ino)?.size()
    } else {
        offset.unwrap_or(file.offset)
    };
    let end = at
        .checked_add(data.len() as u64)
        .filter(|&end| end <= i64::MAX as u64);
    let end = end.ok_or(Errno::EFBIG)?;
    cx.model.fs.check_write_seals(ino, end)?;
    cx.model.fs.file_data_mut(ino)?.write_at(at, data)?;
    drop_privileges(cx, ino);
    cx.model.fs.touch_modified(ino, now);
    shared::refresh(cx, &file.node)?;
    if offset.is_none() {
        set_offset(cx, ofd, end);
    }
    Ok(data.len())
}

/// Sets the length of a file, in the overlay and in what is mapped of it.
pub(crate) fn resize(cx: &mut Cx, node: &NodeId, size: u64) -> Result<(), Errno> {
    shared::flush(cx, node)?;
    let now = cx.file_time();
    let ino = cx.model.fs.copy_up(cx.host, node)?;
    let before = cx.model.fs.file_data(ino)?.size();
    cx.model.fs.resize(ino, size, now)?;
    drop_privileges(cx, ino);
    if size < before {
        return shared::refresh_cut(cx, node);
    }
    shared::refresh(cx, node)
}

/// A file that somebody else than root has changed runs with nobody else's rights any more.
fn drop_privileges(cx: &mut Cx, ino: Ino) {
    if cx.owner().0 == 0 {
        return;
    }
    let attributes = &mut cx.model.fs.node_mut(ino).attributes;
    attributes.mode &= !libc::S_ISUID;
    if attributes.mode & libc::S_IXGRP != 0 {
        attributes.mode &= !libc::S_ISGID;
    }
}

/// The only made-up file that takes anything is a thread's name; what does not fit is cut off.
fn write_virtual(cx: &mut Cx, node: &NodeId, data: &[u8]) -> Result<usize, Errno> {
    let NodeId::Virtual(path) = node else {
        return Err(Errno::EIO);
    };
    let tid = virtual_files::names_thread(&cx.view(), path).ok_or(Errno::EINVAL)?;
    let thread = cx.model.threads.get_mut(&tid).ok_or(Errno::ESRCH)?;
    let text = data.split(|&byte| byte == 0).next().unwrap_or_default();
    let len = text.len().min(thread.name.len() - 1);
    thread.name = [0; 16];
    thread.name[..len].copy_from_slice(&text[..len]);
    Ok(data.len())
}

impl FileSystem {
    pub(crate) fn file_data(&self, ino: Ino) -> Result<&super::FileData, Errno> {
        match &self.node(ino).content {
            Content::File(data) => Ok(data),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn file_data_mut(&mut self, ino: Ino) -> Result<&mut super::FileData, Errno> {
        match &mut self.node_mut(ino).content {
            Content::File(data) => Ok(data),
            _ => Err(Errno::EINVAL),
        }
    }

    /// `EPERM` if a seal forbids writing up to `end`.
    pub(crate) fn check_write_seals(&self, ino: Ino, end: u64) -> Result<(), Errno> {
        let seals = self.node(ino).seals.unwrap_or(0);
        let grows = end > self.file_data(ino)?.size();
        if seals & (libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE) != 0
            || grows && seals & libc::F_SEAL_GROW != 0
        {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    /// Sets the length of a file, unless a seal forbids it.
    fn resize(&mut self, ino: Ino, size: u64, now: super::Time) -> Result<(), Errno> {
        let seals = self.node(ino).seals.unwrap_or(0);
        let old = self.file_data(ino)?.size();
        let forbidden = match size.cmp(&old) {
            std::cmp::Ordering::Less => libc::F_SEAL_SHRINK,
            std::cmp::Ordering::Greater => libc::F_SEAL_GROW,
            std::cmp::Ordering::Equal => 0,
        };
        if seals & forbidden != 0 {
            return Err(Errno::EPERM);
        }
        self.file_data_mut(ino)?.resize(size)?;
        self.touch_modified(ino, now);
        Ok(())
    }
}
