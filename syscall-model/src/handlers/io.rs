//! Reading and writing through descriptors: the `read` and `write` families, for every kind of description.

use crate::call::Call;
use crate::channels;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId};
use crate::fs::{Class, data, shows_others};
use crate::memory::GuestMemoryExt;
use crate::model::{Cx, Model};
use crate::object::{Object, Touch};
use syscalls::{Errno, Sysno};

/// The kernel never moves more than this in one call.
pub const MAX_RW_COUNT: u64 = 0x7fff_f000;

/// Up to `max` bytes from a description; `EAGAIN` where it would have to wait.
pub fn read_some(cx: &mut Cx, ofd: OfdId, max: usize, offset: Option<u64>) -> Result<Vec<u8>, Errno> {
    let description = cx.model.files.get(ofd).ok_or(Errno::EBADF)?;
    if !description.readable() {
        return Err(Errno::EBADF);
    }
    match (&description.kind, offset) {
        (Kind::File(_), _) => data::read(cx, ofd, max, offset),
        (Kind::Output(_), _) => Err(Errno::EBADF),
        (_, Some(_)) => Err(Errno::ESPIPE),
        (_, None) => channels::read_some(cx, ofd, max),
    }
}

/// Writes some of `data`; `EAGAIN` where it would have to wait before the first byte.
pub fn write_some(cx: &mut Cx, ofd: OfdId, data: &[u8], offset: Option<u64>) -> Result<usize, Errno> {
    let description = cx.model.files.get(ofd).ok_or(Errno::EBADF)?;
    if !description.writable() {
        return Err(Errno::EBADF);
    }
    match (&description.kind, offset) {
        (Kind::File(_), _) => data::write(cx, ofd, data, offset),
        (Kind::Output(_), Some(_)) => Err(Errno::ESPIPE),
        (&Kind::Output(stream), None) => {
            cx.model.print(stream, data);
            Ok(data.len())
        }
        (_, Some(_)) => Err(Errno::ESPIPE),
        (_, None) => channels::write_some(cx, ofd, data),
    }
}

/// What reading or writing a description touches.
pub fn touches(model: &Model, ofd: OfdId, writes: bool, positional: bool) -> Vec<Touch> {
    let access = |object| {
        if writes {
            Touch::write(object)
        } else {
            Touch::read(object)
        }
    };
    let Some(description) = model.files.get(ofd) else {
        return vec![Touch::read(Object::FdTable)];
    };
    let moves = if positional {
        Touch::read(Object::Description(ofd))
    } else {
        Touch::write(Object::Description(ofd))
    };
    match &description.kind {
        Kind::File(file) if shows_others(model, &file.path) => vec![moves, Touch::read(Object::Everything)],
        Kind::File(file) if matches!(file.class, Class::Regular | Class::Directory) => {
            let mut touches = vec![moves, access(Object::Path(file.path.to_vec()))];
            // Any load or store may be one of the same bytes.
            if model.fs.is_mapped(&file.node) {
                touches.push(access(Object::Everything));
            }
            touches
        }
        // The bytes come from one stream for all readers.
        Kind::File(file) if file.class == Class::Random => vec![Touch::write(Object::Process)],
        Kind::File(_) => vec![moves],
        Kind::Output(stream) => vec![Touch::write(Object::Output(*stream))],
        _ => {
            let how = if writes {
                channels::Use::Write
            } else {
                channels::Use::Read
            };
            channels::touches(model, ofd, how)
        }
    }
}

pub(crate) fn is_channel(kind: &Kind) -> bool {
    !matches!(kind, Kind::File(_) | Kind::Output(_))
}

/// The buffers of a call of the `read` and `write` families: one, or a list in memory.
fn buffers(cx: &Cx, call: &Call) -> Result<Buffers, Errno> {
    Ok(match call.sysno {
        Sysno::read | Sysno::write => Buffers::One([(call.word(1), count(call, 2)?)]),
        _ => Buffers::Many(cx.mem.read_iovec(call.word(1), call.word(2))?),
    })
}

enum Buffers {
    One([(u64, usize); 1]),
    Many(Vec<(u64, usize)>),
}

impl Buffers {
    fn all(&self) -> &[(u64, usize)] {
        match self {
            Buffers::One(one) => one,
            Buffers::Many(many) => many,
        }
    }
}

fn prepare(cx: &Cx, call: &Call, writes: bool, positional: bool) -> Prepared {
    let Ok((ofd, description)) = cx.model.files.lookup(call.fd(0)) else {
        return Prepared::visible(vec![Touch::read(Object::FdTable)]);
    };
    let allowed = if writes {
        description.writable()
    } else {
        description.readable()
    };
    let is_second_kind = matches!(call.sysno, Sysno::preadv2 | Sysno::pwritev2);
    let has_offset = is_second_kind && call.long(3) != -1;
    let fails_at_once = is_second_kind && call.int(5) & (libc::RWF_NOWAIT | !RWF_KNOWN) != 0;
    let positional = positional || has_offset;
    if is_channel(&description.kind)
        && allowed
        && !positional
        && let Ok(buffers) = buffers(cx, call)
    {
        // Of `vmsplice` only the call's own flag counts.
        let may_wait = call.sysno == Sysno::vmsplice || !description.nonblocking() && !fails_at_once;
        return if writes {
            channels::prepare_write(cx, ofd, buffers.all(), may_wait)
        } else {
            channels::prepare_read(cx, ofd, buffers.all(), may_wait)
        };
    }
    Prepared::visible(touches(cx.model, ofd, writes, positional))
}

pub fn prepare_read(cx: &Cx, call: &Call) -> Prepared {
    prepare(cx, call, false, false)
}

pub fn prepare_pread(cx: &Cx, call: &Call) -> Prepared {
    prepare(cx, call, false, true)
}

pub fn prepare_write(cx: &Cx, call: &Call) -> Prepared {
    prepare(cx, call, true, false)
}

pub fn prepare_pwrite(cx: &Cx, call: &Call) -> Prepared {
    prepare(cx, call, true, true)
}

/// Reads into a list of buffers and blocks where the description must.
pub(super) fn read_into(
    cx: &mut Cx,
    fd: i32,
    buffers: &[(u64, usize)],
    offset: Option<u64>,
    nowait: bool,
) -> Outcome {
    check_usable(cx, fd, false, offset.is_some())?;
    let total = channels::io::total(buffers);
    let (ofd, description) = cx.model.files.lookup(fd)?;
    check_place(buffers, offset.or(Some(position(cx, ofd))), total)?;
    if is_channel(&description.kind) && offset.is_none() {
        let may_wait = !nowait && !description.nonblocking();
        return channels::read(cx, ofd, buffers, may_wait);
    }
    let is_file = matches!(description.kind, Kind::File(_));
    let before = position(cx, ofd);
    let bytes = read_some(cx, ofd, total, offset)?;
    if !is_file {
        channels::io::scatter(cx.mem, buffers, 0, &bytes)?;
        return Ok(Effect::Done(bytes.len() as i64));
    }
    // A file is read as far as there is memory for it.
    let mut done = 0;
    for &(addr, len) in buffers {
        let piece = &bytes[done..bytes.len().min(done + len)];
        let written = cx.mem.write_some(addr, piece);
        done += written;
        if written < piece.len() {
            break;
        }
    }
    if done < bytes.len() {
        if done == 0 {
            data::set_offset(cx, ofd, before);
            return Err(Errno::EFAULT);
        }
        if offset.is_none() {
            data::set_offset(cx, ofd, before + done as u64);
        }
    }
    Ok(Effect::Done(done as i64))
}

/// Writes a list of buffers and blocks where the description must.
pub(super) fn write_from(
    cx: &mut Cx,
    fd: i32,
    buffers: &[(u64, usize)],
    offset: Option<u64>,
    nowait: bool,
) -> Outcome {
    check_usable(cx, fd, true, offset.is_some())?;
    let total = channels::io::total(buffers);
    let (ofd, description) = cx.model.files.lookup(fd)?;
    check_place(buffers, offset.or(Some(position(cx, ofd))), total)?;
    if is_channel(&description.kind) && offset.is_none() && !nowait {
        return channels::write(cx, ofd, buffers);
    }
    let bytes = match &description.kind {
        // Nobody looks at what goes there.
        Kind::File(file) if matches!(file.class, Class::Null | Class::Zero) => {
            return Ok(Effect::Done(total as i64));
        }
        Kind::File(file) if file.class == Class::Regular => gather_some(cx, buffers, total)?,
        _ => channels::io::gather(cx.mem, buffers)?,
    };
    let written = write_some(cx, ofd, &bytes, offset)?;
    Ok(Effect::Done(written as i64))
}

/// Where a description stands.
fn position(cx: &Cx, ofd: OfdId) -> u64 {
    match cx.model.files.get(ofd).map(|description| &description.kind) {
        Some(Kind::File(file)) => file.offset,
        _ => 0,
    }
}

/// As much as there is memory for, which is what a file is given.
fn gather_some(cx: &Cx, buffers: &[(u64, usize)], total: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    for &(addr, len) in buffers {
        let len = len.min(total - bytes.len());
        let piece = cx.mem.read_some(addr, len);
        let is_whole = piece.len() == len;
        bytes.extend(piece);
        if !is_whole {
            break;
        }
    }
    if bytes.is_empty() && total > 0 {
        return Err(Errno::EFAULT);
    }
    Ok(bytes)
}

/// What the kernel asks of buffers and of a position before it looks at the file.
fn check_place(buffers: &[(u64, usize)], offset: Option<u64>, total: usize) -> Result<(), Errno> {
    if !channels::io::reachable(buffers) {
        return Err(Errno::EFAULT);
    }
    match offset {
        Some(offset) if (offset.wrapping_add(total as u64) as i64) < 0 => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// The offset argument of `pread` and its kin: negative ones are refused.
fn offset_argument(value: u64) -> Result<Option<u64>, Errno> {
    if (value as i64) < 0 {
        return Err(Errno::EINVAL);
    }
    Ok(Some(value))
}

/// `read`, `write` and their kin: between one buffer and the file, at `offset` or where the description stands.
fn move_one(cx: &mut Cx, call: &Call, writes: bool, offset: Option<u64>) -> Outcome {
    check_usable(cx, call.fd(0), writes, offset.is_some())?;
    let buffer = [(call.word(1), count(call, 2)?)];
    match writes {
        true => write_from(cx, call.fd(0), &buffer, offset, false),
        false => read_into(cx, call.fd(0), &buffer, offset, false),
    }
}

pub fn read(cx: &mut Cx, call: &Call) -> Outcome {
    move_one(cx, call, false, None)
}

pub fn pread64(cx: &mut Cx, call: &Call) -> Outcome {
    let offset = offset_argument(call.word(3))?;
    move_one(cx, call, false, offset)
}

pub fn write(cx: &mut Cx, call: &Call) -> Outcome {
    move_one(cx, call, true, None)
}

pub fn pwrite64(cx: &mut Cx, call: &Call) -> Outcome {
    let offset = offset_argument(call.word(3))?;
    move_one(cx, call, true, offset)
}

fn count(call: &Call, i: usize) -> Result<usize, Errno> {
    let count = call.word(i);
    // A negative ssize_t is taken for a bad pointer range.
    if (count as i64) < 0 {
        return Err(Errno::EFAULT);
    }
    Ok(count.min(MAX_RW_COUNT) as usize)
}

/// What the kernel asks of the description before it looks at the list of buffers.
fn check_usable(cx: &Cx, fd: i32, writes: bool, positional: bool) -> Result<(), Errno> {
    let (_, description) = cx.model.files.lookup(fd)?;
    let is_file = matches!(description.kind, Kind::File(_));
    if positional && !is_file {
        return Err(Errno::ESPIPE);
    }
    let (allowed, possible) = if writes {
        (
            description.writable(),
            !matches!(
                description.kind,
                Kind::TimerFd(_) | Kind::SignalFd(_) | Kind::PidFd(_) | Kind::Epoll(_)
            ),
        )
    } else {
        (
            description.readable(),
            !matches!(description.kind, Kind::Epoll(_) | Kind::PidFd(_)),
        )
    };
    match (allowed, possible) {
        (false, _) => Err(Errno::EBADF),
        (true, false) => Err(Errno::EINVAL),
        (true, true) => Ok(()),
    }
}

/// `readv`, `writev` and their kin: between a list of buffers and the file, at `offset` or where the description stands.
fn move_list(cx: &mut Cx, call: &Call, writes: bool, offset: Option<u64>) -> Outcome {
    check_usable(cx, call.fd(0), writes, offset.is_some())?;
    let buffers = cx.mem.read_iovec(call.word(1), call.word(2))?;
    match writes {
        _ if channels::io::total(&buffers) == 0 => Effect::ok(),
        true if is_event_counter(cx, call.fd(0)) => write_one_by_one(cx, call.fd(0), &buffers),
        true => write_from(cx, call.fd(0), &buffers, offset, false),
        false => read_into(cx, call.fd(0), &buffers, offset, false),
    }
}

fn is_event_counter(cx: &Cx, fd: i32) -> bool {
    let found = cx.model.files.lookup(fd);
    found.is_ok_and(|(_, description)| matches!(description.kind, Kind::EventFd(_)))
}

/// An event counter knows no lists: each piece is a write of its own, and the first that fails ends it. (Empty ones are passed over, but for the first.)
fn write_one_by_one(cx: &mut Cx, fd: i32, buffers: &[(u64, usize)]) -> Outcome {
    check_place(buffers, None, 0)?;
    let Some((&first, rest)) = buffers.split_first() else {
        return Effect::ok();
    };
    let mut done = match write_from(cx, fd, &[first], None, false)? {
        Effect::Done(count) => count,
        other => return Ok(other),
    };
    for &piece in rest.iter().filter(|&&(_, len)| len > 0) {
        match write_from(cx, fd, &[piece], None, true) {
            Ok(Effect::Done(count)) => done += count,
            _ => break,
        }
    }
    Ok(Effect::Done(done))
}

pub fn readv(cx: &mut Cx, call: &Call) -> Outcome {
    move_list(cx, call, false, None)
}

pub fn writev(cx: &mut Cx, call: &Call) -> Outcome {
    move_list(cx, call, true, None)
}

pub fn preadv(cx: &mut Cx, call: &Call) -> Outcome {
    let offset = offset_argument(call.word(3))?;
    move_list(cx, call, false, offset)
}

pub fn pwritev(cx: &mut Cx, call: &Call) -> Outcome {
    let offset = offset_argument(call.word(3))?;
    move_list(cx, call, true, offset)
}

const RWF_KNOWN: i32 =
    libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_NOWAIT | libc::RWF_APPEND;

/// `preadv2` and `pwritev2`: an offset of -1 means the description's own.
fn list_of_second_kind(cx: &Cx, call: &Call, writes: bool) -> Result<SecondKind, Errno> {
    let offset = match call.long(3) {
        -1 => None,
        _ => offset_argument(call.word(3))?,
    };
    check_usable(cx, call.fd(0), writes, offset.is_some())?;
    let buffers = cx.mem.read_iovec(call.word(1), call.word(2))?;
    let flags = call.int(5);
    let (_, description) = cx.model.files.lookup(call.fd(0))?;
    let has_no_flags = match &description.kind {
        Kind::EventFd(_) => writes,
        Kind::File(file) => file.class == Class::Directory,
        _ => false,
    };
    let known = if has_no_flags { libc::RWF_HIPRI } else { RWF_KNOWN };
    let total = channels::io::total(&buffers);
    if flags & !known != 0 && total > 0 {
        check_place(&buffers, offset, total)?;
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(SecondKind {
        buffers,
        offset,
        flags,
    })
}

/// The arguments of `preadv2` and `pwritev2`.
struct SecondKind {
    buffers: Vec<(u64, usize)>,
    offset: Option<u64>,
    flags: i32,
}

pub fn preadv2(cx: &mut Cx, call: &Call) -> Outcome {
    let SecondKind {
        buffers,
        offset,
        flags,
    } = list_of_second_kind(cx, call, false)?;
    if channels::io::total(&buffers) == 0 {
        return Effect::ok();
    }
    read_into(cx, call.fd(0), &buffers, offset, flags & libc::RWF_NOWAIT != 0)
}

pub fn pwritev2(cx: &mut Cx, call: &Call) -> Outcome {
    let SecondKind {
        buffers,
        offset,
        flags,
    } = list_of_second_kind(cx, call, true)?;
    if channels::io::total(&buffers) == 0 {
        return Effect::ok();
    }
    let nowait = flags & libc::RWF_NOWAIT != 0;
    if is_event_counter(cx, call.fd(0)) {
        return write_one_by_one(cx, call.fd(0), &buffers);
    }
    if flags & libc::RWF_APPEND == 0 {
        return write_from(cx, call.fd(0), &buffers, offset, nowait);
    }
    // RWF_APPEND is O_APPEND for one call.
    let (ofd, description) = cx.model.files.lookup(call.fd(0))?;
    let before = description.flags;
    let set = |cx: &mut Cx, flags| {
        if let Some(description) = cx.model.files.get_mut(ofd) {
            description.flags = flags;
        }
    };
    set(cx, before | libc::O_APPEND);
    let outcome = write_from(cx, call.fd(0), &buffers, offset, nowait);
    set(cx, before);
    outcome
}
