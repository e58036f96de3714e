//! Changing what files look like: mode, owner, times, length; and making changes durable, which here they
//! always are.

use crate::call::Call;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId};
use crate::fs::{Class, NodeId, Time, data, shared};
use crate::handlers::files::MAX_FILE_SIZE;
use crate::handlers::volumes::F_SEAL_EXEC;
use crate::handlers::{attributes, paths};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Access, Object, Touch};
use syscalls::Errno;

const CWD: i32 = libc::AT_FDCWD;

fn as_writes(touches: Vec<Touch>) -> Prepared {
    let changed = touches.into_iter().map(|touch| match touch.object {
        Object::Path(_) | Object::FileSystem => Touch {
            access: Access::Write,
            ..touch
        },
        _ => touch,
    });
    Prepared::visible(changed.collect())
}

pub fn prepare_path(cx: &Cx, call: &Call) -> Prepared {
    as_writes(paths::reads(cx, CWD, call.word(0), true))
}

pub fn prepare_link(cx: &Cx, call: &Call) -> Prepared {
    as_writes(paths::reads(cx, CWD, call.word(0), false))
}

pub fn prepare_fd(cx: &Cx, call: &Call) -> Prepared {
    as_writes(attributes::descriptor_reads(cx, call.fd(0)))
}

/// A descriptor and a path that may be empty or null; links are the exception, so following is assumed.
pub fn prepare_at(cx: &Cx, call: &Call) -> Prepared {
    let empty = call.word(1) == 0 || cx.mem.read_path(call.word(1)).is_ok_and(|path| path.is_empty());
    if empty && call.fd(0) != CWD {
        return prepare_fd(cx, call);
    }
    let mut touches = paths::reads(cx, call.fd(0), call.word(1), true);
    touches.extend(paths::reads(cx, call.fd(0), call.word(1), false));
    as_writes(touches)
}

pub fn prepare_umask(_: &Cx, _: &Call) -> Prepared {
    Prepared::visible(vec![Touch::write(Object::Process)])
}

pub fn umask(cx: &mut Cx, call: &Call) -> Outcome {
    let old = cx.model.fs.set_umask(call.uint(0) & 0o777);
    Ok(Effect::Done(i64::from(old)))
}

/// The inode to change, if it is the caller's to change.
fn owned(cx: &mut Cx, node: &NodeId) -> Result<u64, Errno> {
    let attributes = cx.view().attributes(node)?;
    let (uid, _) = cx.owner();
    if uid != 0 && uid != attributes.uid {
        return Err(Errno::EPERM);
    }
    cx.model.fs.copy_up(cx.host, node)
}

/// A descriptor's node; a mere name (`O_PATH`) is no permission to change a file.
fn node_of_open(cx: &Cx, fd: i32) -> Result<NodeId, Errno> {
    cx.model.files.lookup(fd)?;
    paths::node_of(cx, fd)
}

/// In place of an owner: leave it as it is.
const KEEP: u32 = u32::MAX;

/// May a file of `owner` be given to this user and group? Only root gives files away; an owner may pass one to a group that he is in.
fn may_give(cx: &Cx, owner: (u32, u32), uid: u32, gid: u32) -> Result<(), Errno> {
    let (own_uid, own_gid) = cx.owner();
    let in_group = gid == own_gid || gid == owner.1 || cx.model.process.owner.groups.contains(&gid);
    let keeps_user = uid == KEEP || uid == owner.0;
    let is_owner = own_uid == owner.0;
    if own_uid == 0 || (uid == KEEP || is_owner && keeps_user) && (gid == KEEP || is_owner && in_group) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// Mode and owner of what has no name. Pipes and sockets have their own, which nobody looks at; the other kinds share one that nobody may change.
fn change_open(cx: &mut Cx, ofd: OfdId, uid: u32, gid: u32) -> Outcome {
    match cx.model.files.get(ofd).map(|description| &description.kind) {
        Some(Kind::EventFd(_) | Kind::TimerFd(_) | Kind::SignalFd(_) | Kind::PidFd(_) | Kind::Epoll(_)) => {
            Err(Errno::EOPNOTSUPP)
        }
        _ => may_give(cx, cx.owner(), uid, gid).and_then(|()| Effect::ok()),
    }
}

fn set_mode(cx: &mut Cx, node: &NodeId, mode: u32) -> Outcome {
    if let NodeId::Open(ofd) = node {
        return change_open(cx, *ofd, u32::MAX, u32::MAX);
    }
    if cx.view().attributes(node)?.is_symlink() {
        return Err(Errno::EOPNOTSUPP);
    }
    let now = cx.file_time();
    let ino = owned(cx, node)?;
    let sealed = cx.model.fs.node(ino).seals.unwrap_or(0) & F_SEAL_EXEC != 0;
    let attributes = &mut cx.model.fs.node_mut(ino).attributes;
    if sealed && (attributes.mode ^ mode) & 0o111 != 0 {
        return Err(Errno::EPERM);
    }
    attributes.mode = attributes.file_type() | mode & 0o7777;
    attributes.ctime = now;
    Effect::ok()
}

pub fn chmod(cx: &mut Cx, call: &Call) -> Outcome {
    let node = paths::node_at(cx, CWD, call.word(0), 0)?;
    set_mode(cx, &node, call.uint(1))
}

pub fn fchmod(cx: &mut Cx, call: &Call) -> Outcome {
    let node = node_of_open(cx, call.fd(0))?;
    set_mode(cx, &node, call.uint(1))
}

pub fn fchmodat(cx: &mut Cx, call: &Call) -> Outcome {
    let node = paths::node_at(cx, call.fd(0), call.word(1), 0)?;
    set_mode(cx, &node, call.uint(2))
}

pub fn fchmodat2(cx: &mut Cx, call: &Call) -> Outcome {
    if call.int(3) & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    cx.mem.read_path(call.word(1))?;
    let node = paths::node_at(cx, call.fd(0), call.word(1), call.int(3))?;
    set_mode(cx, &node, call.uint(2))
}

fn set_owner(cx: &mut Cx, node: &NodeId, uid: u32, gid: u32) -> Outcome {
    if let NodeId::Open(ofd) = node {
        return change_open(cx, *ofd, uid, gid);
    }
    let before = cx.view().attributes(node)?;
    may_give(cx, (before.uid, before.gid), uid, gid)?;
    let now = cx.file_time();
    let ino = cx.model.fs.copy_up(cx.host, node)?;
    let attributes = &mut cx.model.fs.node_mut(ino).attributes;
    if uid != KEEP {
        attributes.uid = uid;
    }
    if gid != KEEP {
        attributes.gid = gid;
    }
    if attributes.is_regular() {
        attributes.mode &= !libc::S_ISUID;
        if attributes.mode & libc::S_IXGRP != 0 {
            attributes.mode &= !libc::S_ISGID;
        }
    }
    attributes.ctime = now;
    Effect::ok()
}

pub fn chown(cx: &mut Cx, call: &Call) -> Outcome {
    let node = paths::node_at(cx, CWD, call.word(0), 0)?;
    set_owner(cx, &node, call.uint(1), call.uint(2))
}

pub fn lchown(cx: &mut Cx, call: &Call) -> Outcome {
    let node = paths::node_at(cx, CWD, call.word(0), libc::AT_SYMLINK_NOFOLLOW)?;
    set_owner(cx, &node, call.uint(1), call.uint(2))
}

pub fn fchown(cx: &mut Cx, call: &Call) -> Outcome {
    let node = node_of_open(cx, call.fd(0))?;
    set_owner(cx, &node, call.uint(1), call.uint(2))
}

pub fn fchownat(cx: &mut Cx, call: &Call) -> Outcome {
    if call.int(4) & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    cx.mem.read_path(call.word(1))?;
    let node = paths::node_at(cx, call.fd(0), call.word(1), call.int(4))?;
    set_owner(cx, &node, call.uint(2), call.uint(3))
}

/// What to set a time to: `None` leaves it.
type NewTimes = [Option<Time>; 2];

fn set_times(cx: &mut Cx, node: &NodeId, times: Option<NewTimes>) -> Outcome {
    let now = cx.file_time();
    if let NodeId::Open(ofd) = node {
        return change_open(cx, *ofd, u32::MAX, u32::MAX);
    }
    let ino = match times {
        // "Now" is what writing would do, so the right to write is enough.
        None => {
            let attributes = cx.view().attributes(node)?;
            let (uid, _) = cx.owner();
            if uid != attributes.uid && !cx.view().permits(&attributes, 2) {
                return Err(Errno::EACCES);
            }
            cx.model.fs.copy_up(cx.host, node)?
        }
        Some(_) => owned(cx, node)?,
    };
    let [atime, mtime] = times.unwrap_or([Some(now), Some(now)]);
    let attributes = &mut cx.model.fs.node_mut(ino).attributes;
    attributes.atime = atime.unwrap_or(attributes.atime);
    attributes.mtime = mtime.unwrap_or(attributes.mtime);
    attributes.ctime = now;
    Effect::ok()
}

/// Two `struct timespec` with `UTIME_NOW` and `UTIME_OMIT`.
fn timespecs(cx: &Cx, raw: [(i64, i64); 2]) -> Result<NewTimes, Errno> {
    let mut times = [None; 2];
    for ((sec, nsec), time) in raw.into_iter().zip(&mut times) {
        *time = match nsec {
            libc::UTIME_NOW => Some(cx.file_time()),
            libc::UTIME_OMIT => None,
            0..1_000_000_000 => Some(Time::new(sec, nsec)),
            _ => return Err(Errno::EINVAL),
        };
    }
    Ok(times)
}

/// Two pairs of numbers, read before anything is made of them.
fn read_pairs(cx: &Cx, addr: u64) -> Result<Option<[(i64, i64); 2]>, Errno> {
    if addr == 0 {
        return Ok(None);
    }
    let mut bytes = [0; 32];
    cx.mem.read(addr, &mut bytes)?;
    let word = |i: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[8 * i..8 * i + 8]);
        i64::from_le_bytes(word)
    };
    Ok(Some([(word(0), word(1)), (word(2), word(3))]))
}

/// Two `struct timeval`.
fn timevals(cx: &Cx, addr: u64) -> Result<Option<NewTimes>, Errno> {
    let Some(raw) = read_pairs(cx, addr)? else {
        return Ok(None);
    };
    let mut times = [None; 2];
    for ((sec, usec), time) in raw.into_iter().zip(&mut times) {
        *time = match usec {
            0..1_000_000 => Some(Time::new(sec, usec * 1000)),
            _ => return Err(Errno::EINVAL),
        };
    }
    Ok(Some(times))
}

pub fn utimensat(cx: &mut Cx, call: &Call) -> Outcome {
    let raw = read_pairs(cx, call.word(2))?;
    let fractions = raw.map(|pairs| pairs.map(|(_, nsec)| nsec));
    if fractions == Some([libc::UTIME_OMIT; 2]) {
        return Effect::ok();
    }
    let of_open = call.word(1) == 0 && call.fd(0) != CWD;
    let known = match of_open {
        true => 0,
        false => libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH,
    };
    if call.int(3) & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let node = match (of_open, call.word(1)) {
        (true, _) => node_of_open(cx, call.fd(0))?,
        // Elsewhere no path can stand for an empty one, but not here.
        (false, 0) => return Err(Errno::EFAULT),
        (false, path) => paths::node_at(cx, call.fd(0), path, call.int(3))?,
    };
    let times = match raw {
        Some(raw) if fractions != Some([libc::UTIME_NOW; 2]) => Some(timespecs(cx, raw)?),
        _ => None,
    };
    set_times(cx, &node, times)
}

pub fn futimesat(cx: &mut Cx, call: &Call) -> Outcome {
    let times = timevals(cx, call.word(2))?;
    let node = if call.word(1) == 0 && call.fd(0) != CWD {
        node_of_open(cx, call.fd(0))?
    } else {
        paths::node_at(cx, call.fd(0), call.word(1), 0)?
    };
    set_times(cx, &node, times)
}

pub fn utimes(cx: &mut Cx, call: &Call) -> Outcome {
    let times = timevals(cx, call.word(1))?;
    let node = paths::node_at(cx, CWD, call.word(0), 0)?;
    set_times(cx, &node, times)
}

/// `struct utimbuf`: two times in seconds.
pub fn utime(cx: &mut Cx, call: &Call) -> Outcome {
    let times = match call.word(1) {
        0 => None,
        addr => {
            let second = |sec| Some(Time::new(sec as i64, 0));
            Some([
                second(cx.mem.read_u64(addr)?),
                second(cx.mem.read_u64(addr.wrapping_add(8))?),
            ])
        }
    };
    let node = paths::node_at(cx, CWD, call.word(0), 0)?;
    set_times(cx, &node, times)
}

pub fn truncate(cx: &mut Cx, call: &Call) -> Outcome {
    if call.long(1) < 0 {
        return Err(Errno::EINVAL);
    }
    let node = paths::node_at(cx, CWD, call.word(0), 0)?;
    let attributes = cx.view().attributes(&node)?;
    if attributes.is_dir() {
        return Err(Errno::EISDIR);
    }
    if !attributes.is_regular() {
        return Err(Errno::EINVAL);
    }
    if !cx.view().permits(&attributes, 2) || matches!(node, NodeId::Virtual(_)) {
        return Err(Errno::EACCES);
    }
    data::resize(cx, &node, call.word(1))?;
    Effect::ok()
}

/// A regular file that is open for writing.
fn writable_file(cx: &Cx, fd: i32, otherwise: Errno) -> Result<NodeId, Errno> {
    let (_, description) = cx.model.files.lookup(fd)?;
    match &description.kind {
        Kind::File(file) if file.class == Class::Regular && description.writable() => Ok(file.node.clone()),
        _ => Err(otherwise),
    }
}

pub fn ftruncate(cx: &mut Cx, call: &Call) -> Outcome {
    if call.long(1) < 0 {
        return Err(Errno::EINVAL);
    }
    let node = writable_file(cx, call.fd(0), Errno::EINVAL)?;
    data::resize(cx, &node, call.word(1))?;
    Effect::ok()
}

pub fn fallocate(cx: &mut Cx, call: &Call) -> Outcome {
    const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
    const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE;
    const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
    let (mode, offset, len) = (call.int(1), call.long(2), call.long(3));
    let (_, description) = cx.model.files.lookup(call.fd(0))?;
    let (is_writable, kind) = (description.writable(), description.kind.clone());
    if offset < 0 || len <= 0 {
        return Err(Errno::EINVAL);
    }
    let is_known = match mode & !KEEP {
        0 | ZERO | libc::FALLOC_FL_UNSHARE_RANGE => true,
        PUNCH => mode & KEEP != 0,
        libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE => mode & KEEP == 0,
        _ => false,
    };
    if !is_known {
        return Err(Errno::EOPNOTSUPP);
    }
    let zeroes = mode & (ZERO | PUNCH) != 0;
    if !is_writable {
        return Err(Errno::EBADF);
    }
    let node = match kind {
        Kind::PipeReader(_) | Kind::PipeWriter(_) => return Err(Errno::ESPIPE),
        Kind::File(file) if file.class == Class::Regular => file.node.clone(),
        _ => return Err(Errno::ENODEV),
    };
    let end = offset
        .checked_add(len)
        .filter(|&end| end <= MAX_FILE_SIZE)
        .ok_or(Errno::EFBIG)? as u64;
    if mode & !(KEEP | ZERO | PUNCH) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let now = cx.file_time();
    shared::flush(cx, &node)?;
    let ino = cx.model.fs.copy_up(cx.host, &node)?;
    let size = cx.model.fs.file_data(ino)?.size();
    // What is in memory only can have holes, but cannot be cleared in any other way.
    if mode & ZERO != 0 && cx.model.fs.node(ino).seals.is_some() {
        return Err(Errno::EOPNOTSUPP);
    }
    if zeroes {
        cx.model.fs.check_write_seals(ino, size)?;
        cx.model
            .fs
            .file_data_mut(ino)?
            .zero(offset as u64, end.min(size))?;
        cx.model.fs.touch_modified(ino, now);
    }
    if mode & KEEP == 0 && end > size {
        data::resize(cx, &node, end)?;
    }
    shared::refresh(cx, &node)?;
    Effect::ok()
}

pub fn prepare_sync(cx: &Cx, call: &Call) -> Prepared {
    Prepared::visible(attributes::descriptor_reads(cx, call.fd(0)))
}

/// The overlay is as durable as anything here: there is nothing to wait for.
pub fn fsync(cx: &mut Cx, call: &Call) -> Outcome {
    match &cx.model.files.lookup(call.fd(0))?.1.kind {
        Kind::File(file) => match file.class {
            Class::Regular | Class::Directory => Effect::ok(),
            _ => Err(Errno::EINVAL),
        },
        _ => Err(Errno::EINVAL),
    }
}

pub fn syncfs(cx: &mut Cx, call: &Call) -> Outcome {
    cx.model.files.lookup(call.fd(0))?;
    Effect::ok()
}

pub fn sync(_: &mut Cx, _: &Call) -> Outcome {
    Effect::ok()
}

/// Advice about access patterns changes nothing here.
pub fn advise(cx: &mut Cx, call: &Call) -> Outcome {
    const KNOWN: std::ops::RangeInclusive<i32> = libc::POSIX_FADV_NORMAL..=libc::POSIX_FADV_NOREUSE;
    match &cx.model.files.lookup(call.fd(0))?.1.kind {
        Kind::PipeReader(_) | Kind::PipeWriter(_) => Err(Errno::ESPIPE),
        _ if call.long(2) < 0 || !KNOWN.contains(&call.int(3)) => Err(Errno::EINVAL),
        _ => Effect::ok(),
    }
}

/// `sync_file_range(fd, offset, count, flags)`.
pub fn sync_range(cx: &mut Cx, call: &Call) -> Outcome {
    const KNOWN: u32 = 7;
    let kind = &cx.model.files.lookup(call.fd(0))?.1.kind;
    let (start, len) = (call.long(1), call.long(2));
    let end = start.wrapping_add(len);
    if call.uint(3) & !KNOWN != 0 || start < 0 || end < start {
        return Err(Errno::EINVAL);
    }
    match kind {
        Kind::File(file) if matches!(file.class, Class::Regular | Class::Directory) => Effect::ok(),
        _ => Err(Errno::ESPIPE),
    }
}

pub fn readahead(cx: &mut Cx, call: &Call) -> Outcome {
    let (_, description) = cx.model.files.lookup(call.fd(0))?;
    match &description.kind {
        _ if !description.readable() => Err(Errno::EBADF),
        Kind::File(file) if file.class == Class::Regular && call.long(2) >= 0 => Effect::ok(),
        _ => Err(Errno::EINVAL),
    }
}
