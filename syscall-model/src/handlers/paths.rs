//! Path arguments: where a call's path leads, and what resolving it touches.

use crate::fd::Kind;
use crate::fs::{Found, Last, NodeId, resolve, shows_others};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use syscalls::Errno;

/// The directory that a relative path starts from.
pub fn start(cx: &Cx, dirfd: i32) -> Result<NodeId, Errno> {
    if dirfd == libc::AT_FDCWD {
        return cx.view().cwd();
    }
    match &cx.model.files.lookup_any(dirfd)?.1.kind {
        Kind::File(file) => Ok(cx.model.fs.current(&file.node)),
        _ => Err(Errno::ENOTDIR),
    }
}

/// Resolves `path` from `dirfd`; `follow` says what becomes of a symbolic link at its end.
pub fn find(cx: &Cx, dirfd: i32, path: &[u8], follow: bool) -> Result<Found, Errno> {
    find_last(cx, dirfd, path, if follow { Last::Follow } else { Last::Keep })
}

/// Resolves the path at `addr` as the name of an entry to make or remove.
pub fn name_at(cx: &Cx, dirfd: i32, addr: u64) -> Result<Found, Errno> {
    find_last(cx, dirfd, &cx.mem.read_path(addr)?, Last::Name)
}

/// Resolves `path` from `dirfd`.
pub fn find_last(cx: &Cx, dirfd: i32, path: &[u8], last: Last) -> Result<Found, Errno> {
    // No name at all is refused before anything is looked at.
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    // An absolute path does not look at dirfd at all.
    let start = match path.first() {
        Some(b'/') => cx.view().root()?,
        _ => start(cx, dirfd)?,
    };
    resolve(&cx.view(), &start, path, last)
}

/// Resolves the path at `addr` from `dirfd`.
pub fn find_at(cx: &Cx, dirfd: i32, addr: u64, follow: bool) -> Result<Found, Errno> {
    let path = cx.mem.read_path(addr)?;
    find(cx, dirfd, &path, follow)
}

/// The node that `dirfd` and the path at `addr` name, where `AT_EMPTY_PATH` may mean the descriptor itself.
pub fn node_at(cx: &Cx, dirfd: i32, addr: u64, flags: i32) -> Result<NodeId, Errno> {
    let path = if addr == 0 && flags & libc::AT_EMPTY_PATH != 0 {
        Vec::new()
    } else {
        cx.mem.read_path(addr)?
    };
    if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
        return if dirfd == libc::AT_FDCWD {
            cx.view().cwd()
        } else {
            node_of(cx, dirfd)
        };
    }
    find(cx, dirfd, &path, flags & libc::AT_SYMLINK_NOFOLLOW == 0)?.existing()
}

/// The node behind a descriptor.
pub fn node_of(cx: &Cx, fd: i32) -> Result<NodeId, Errno> {
    let (id, description) = cx.model.files.lookup_any(fd)?;
    Ok(match &description.kind {
        Kind::File(file) => cx.model.fs.current(&file.node),
        _ => NodeId::Open(id),
    })
}

/// Is this the path of a process, be it there or not?
fn names_process(cx: &Cx, addr: u64) -> bool {
    let path = cx.mem.read_path(addr);
    path.is_ok_and(|path| shows_others(cx.model, &path))
}

/// What looking at the path at `addr` touches.
pub fn reads(cx: &Cx, dirfd: i32, addr: u64, follow: bool) -> Vec<Touch> {
    match find_at(cx, dirfd, addr, follow) {
        Ok(found) if shows_others(cx.model, &found.path) => vec![Touch::read(Object::Everything)],
        Ok(found) => vec![Touch::read(Object::Path(found.path))],
        // What is not there yet may be a process.
        Err(_) if !cx.model.is_single() && names_process(cx, addr) => vec![Touch::read(Object::Everything)],
        Err(_) => vec![Touch::read(Object::FileSystem)],
    }
}

/// What making, removing or replacing the name at `addr` touches: the name, and the directory's list of names.
pub fn changes_name(cx: &Cx, dirfd: i32, addr: u64, follow: bool) -> Vec<Touch> {
    match find_at(cx, dirfd, addr, follow) {
        Ok(found) => {
            let (dir, _) = crate::fs::split(&found.path);
            let dir = dir.to_vec();
            vec![
                Touch::write(Object::Path(found.path)),
                Touch::write(Object::Path(dir)),
            ]
        }
        Err(_) => vec![Touch::write(Object::FileSystem)],
    }
}
