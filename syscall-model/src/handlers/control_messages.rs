//! Control messages: descriptors (`SCM_RIGHTS`), credentials and addresses that travel with data.

use super::sockopt;
use crate::fd::OfdId;
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use libc::{SCM_CREDENTIALS, SCM_RIGHTS, SOL_SOCKET};
use syscalls::Errno;

/// `sizeof(struct cmsghdr)`, and what everything is aligned to.
const HEADER: usize = 16;
const ALIGN: usize = 8;
/// `SCM_MAX_FD`.
const MAX_RIGHTS: usize = 253;
const CREDENTIALS: usize = 12;
/// Longer control data fails as in the kernel, which limits it by `optmem_max`.
const MAX_CONTROL: usize = 131_072;

/// The descriptors that a message takes along.
pub fn read_rights(cx: &Cx, control: u64, len: usize) -> Result<Vec<OfdId>, Errno> {
    let mut rights = Vec::new();
    if control == 0 || len == 0 {
        return Ok(rights);
    }
    if len > MAX_CONTROL {
        return Err(Errno::ENOBUFS);
    }
    let raw = cx.mem.read_vec(control, len)?;
    let mut rest = raw.as_slice();
    while rest.len() >= HEADER {
        let word = |at: usize| i32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        let (size, level, kind) = (word(0) as usize, word(8), word(12));
        let body = rest.get(HEADER..size).ok_or(Errno::EINVAL)?;
        match (level, kind) {
            (SOL_SOCKET, SCM_RIGHTS) => take_rights(cx, body, &mut rights)?,
            (SOL_SOCKET, SCM_CREDENTIALS) if body.len() == CREDENTIALS => {}
            (SOL_SOCKET, _) => return Err(Errno::EINVAL),
            _ => {}
        }
        rest = rest.get(size.next_multiple_of(ALIGN)..).unwrap_or_default();
    }
    Ok(rights)
}

fn take_rights(cx: &Cx, body: &[u8], rights: &mut Vec<OfdId>) -> Result<(), Errno> {
    for fd in body.chunks_exact(4) {
        let fd = i32::from_le_bytes([fd[0], fd[1], fd[2], fd[3]]);
        rights.push(cx.model.files.descriptor(fd)?.description);
    }
    if rights.len() > MAX_RIGHTS {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// Control messages being written to the guest.
pub struct Control {
    at: u64,
    left: usize,
    pub written: usize,
    pub truncated: bool,
}

impl Control {
    pub fn new(at: u64, len: usize) -> Self {
        Self {
            at,
            left: if at == 0 { 0 } else { len },
            written: 0,
            truncated: false,
        }
    }

    pub fn put(&mut self, cx: &mut Cx, level: i32, kind: i32, body: &[u8]) -> Result<(), Errno> {
        if self.left < HEADER {
            self.truncated = true;
            return Ok(());
        }
        let whole = HEADER + body.len();
        let len = whole.min(self.left);
        self.truncated |= len < whole;
        cx.mem.write_u64(self.at, len as u64)?;
        cx.mem.write_u32(self.at.wrapping_add(8), level as u32)?;
        cx.mem.write_u32(self.at.wrapping_add(12), kind as u32)?;
        if len > HEADER {
            cx.mem
                .write(self.at.wrapping_add(HEADER as u64), &body[..len - HEADER])?;
        }
        let step = len.next_multiple_of(ALIGN).min(self.left);
        self.at += step as u64;
        self.left -= step;
        self.written += step;
        Ok(())
    }

    /// `SO_PASSCRED`: who sent it.
    pub fn credentials(&mut self, cx: &mut Cx) -> Result<(), Errno> {
        let credentials = sockopt::credentials(cx);
        self.put(cx, SOL_SOCKET, SCM_CREDENTIALS, &credentials)
    }

    /// Gives each description that came along a descriptor; those without room are closed.
    pub fn rights(&mut self, cx: &mut Cx, rights: Vec<OfdId>, close_on_exec: bool) -> Result<(), Errno> {
        let room = self.left.saturating_sub(HEADER) / 4;
        let mut fds = Vec::new();
        for (i, &id) in rights.iter().enumerate() {
            let fd = (i < room).then(|| cx.model.files.install(id, 0, close_on_exec));
            match fd {
                Some(Ok(fd)) => fds.extend(fd.to_le_bytes()),
                _ => self.truncated = true,
            }
            // The descriptor, if any, has a reference of its own.
            cx.model.release(id);
        }
        if fds.is_empty() {
            return Ok(());
        }
        self.put(cx, SOL_SOCKET, SCM_RIGHTS, &fds)
    }
}
