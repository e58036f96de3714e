//! Reading and writing through descriptors: the `read` and `write` families, for every kind of description.

use crate::call::Call;
use crate::channels;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Description, Kind, OfdId, PollEvents};
use crate::fs::{Class, data};
use crate::memory::GuestMemoryExt;
use crate::model::{Cx, Model};
use crate::object::{Object, Touch};
use crate::wait::Wait;
use syscalls::Errno;

/// The kernel never moves more than this in one call.
pub const MAX_RW_COUNT: u64 = 0x7fff_f000;

const READ_EVENTS: PollEvents = PollEvents::IN
    .union(PollEvents::HUP)
    .union(PollEvents::ERR)
    .union(PollEvents::RDHUP);
const WRITE_EVENTS: PollEvents = PollEvents::OUT.union(PollEvents::HUP).union(PollEvents::ERR);

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
            cx.model.output.write(stream, data);
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
        Kind::File(file) if matches!(file.class, Class::Regular | Class::Directory) => {
            vec![moves, access(Object::Path(file.path.to_vec()))]
        }
        // The bytes come from one stream for all readers.
        Kind::File(file) if file.class == Class::Random => vec![Touch::write(Object::Process)],
        Kind::File(_) => vec![moves],
        Kind::Output(stream) => vec![Touch::write(Object::Output(*stream))],
        kind => channel_touches(kind, ofd),
    }
}

fn channel_touches(kind: &Kind, ofd: OfdId) -> Vec<Touch> {
    let own = Touch::write(Object::Description(ofd));
    match kind {
        Kind::PipeReader(id)
        | Kind::PipeWriter(id)
        | Kind::SocketPair(id, _)
        | Kind::EventFd(id)
        | Kind::TimerFd(id) => vec![
            Touch::read(Object::Description(ofd)),
            Touch::write(Object::Channel(id.0)),
        ],
        Kind::SignalFd(_) => vec![own, Touch::write(Object::Process)],
        _ => vec![own],
    }
}

/// What a description must wait for before it can be read or written; `None` for files.
pub fn wait_for(description: &Description, ofd: OfdId, writes: bool) -> Option<Wait> {
    match description.kind {
        Kind::File(_) | Kind::Output(_) => None,
        _ if description.nonblocking() => None,
        _ => Some(Wait::ready(ofd, if writes { WRITE_EVENTS } else { READ_EVENTS })),
    }
}

fn prepare(cx: &Cx, call: &Call, writes: bool, positional: bool) -> Prepared {
    match cx.model.files.lookup(call.fd(0)) {
        Err(_) => Prepared::visible(vec![Touch::read(Object::FdTable)]),
        Ok((ofd, description)) => {
            let wait = wait_for(description, ofd, writes);
            Prepared::visible(touches(cx.model, ofd, writes, positional)).waiting(wait)
        }
    }
}

pub fn prepare_read(cx: &mut Cx, call: &Call) -> Prepared {
    prepare(cx, call, false, false)
}

pub fn prepare_pread(cx: &mut Cx, call: &Call) -> Prepared {
    prepare(cx, call, false, true)
}

pub fn prepare_write(cx: &mut Cx, call: &Call) -> Prepared {
    prepare(cx, call, true, false)
}

pub fn prepare_pwrite(cx: &mut Cx, call: &Call) -> Prepared {
    prepare(cx, call, true, true)
}

/// Reads into a list of buffers and blocks where the description must.
fn read_into(cx: &mut Cx, fd: i32, buffers: &[(u64, usize)], offset: Option<u64>, nowait: bool) -> Outcome {
    let (ofd, description) = cx.model.files.lookup(fd)?;
    let wait = wait_for(description, ofd, false).filter(|_| !nowait);
    let total: u64 = buffers.iter().map(|&(_, len)| len as u64).sum();
    let max = total.min(MAX_RW_COUNT) as usize;
    let bytes = match (read_some(cx, ofd, max, offset), wait) {
        (Err(Errno::EAGAIN), Some(wait)) => return Ok(Effect::Block(wait)),
        (bytes, _) => bytes?,
    };
    let mut rest = bytes.as_slice();
    for &(addr, len) in buffers {
        let (now, later) = rest.split_at(len.min(rest.len()));
        if !now.is_empty() {
            cx.mem.write(addr, now)?;
        }
        rest = later;
    }
    Ok(Effect::Done(bytes.len() as i64))
}

/// Blocking streams take everything before `write` returns; other kinds take what they take.
fn takes_all(kind: &Kind) -> bool {
    matches!(kind, Kind::PipeWriter(_) | Kind::SocketPair(..))
}

/// Writes a list of buffers. A blocking stream may take them in pieces: what is done so far is remembered in
/// [`Thread::progress`](crate::Thread::progress) while the call waits for room.
fn write_from(cx: &mut Cx, fd: i32, buffers: &[(u64, usize)], offset: Option<u64>, nowait: bool) -> Outcome {
    let (ofd, description) = cx.model.files.lookup(fd)?;
    if !description.writable() {
        return Err(Errno::EBADF);
    }
    let wait = wait_for(description, ofd, true).filter(|_| !nowait);
    let all = wait.is_some() && takes_all(&description.kind);
    let mut bytes = Vec::new();
    for &(addr, len) in buffers {
        let room = MAX_RW_COUNT as usize - bytes.len();
        bytes.extend(cx.mem.read_vec(addr, len.min(room))?);
    }
    let before = std::mem::take(&mut cx.thread().progress) as usize;
    let rest = &bytes[before.min(bytes.len())..];
    match (write_some(cx, ofd, rest, offset), wait) {
        (Ok(n), Some(wait)) if all && n < rest.len() => {
            cx.thread().progress = (before + n) as u64;
            Ok(Effect::Block(wait))
        }
        (Ok(n), _) => Ok(Effect::Done((before + n) as i64)),
        (Err(Errno::EAGAIN), Some(wait)) => {
            cx.thread().progress = before as u64;
            Ok(Effect::Block(wait))
        }
        (Err(_), _) if before > 0 => Ok(Effect::Done(before as i64)),
        (Err(errno), _) => Err(errno),
    }
}

/// The offset argument of `pread` and its kin: negative ones are refused.
fn offset_argument(value: u64) -> Result<Option<u64>, Errno> {
    if (value as i64) < 0 {
        return Err(Errno::EINVAL);
    }
    Ok(Some(value))
}

pub fn read(cx: &mut Cx, call: &Call) -> Outcome {
    read_into(cx, call.fd(0), &[(call.word(1), count(call, 2)?)], None, false)
}

pub fn pread64(cx: &mut Cx, call: &Call) -> Outcome {
    let offset = offset_argument(call.word(3))?;
    read_into(cx, call.fd(0), &[(call.word(1), count(call, 2)?)], offset, false)
}

pub fn write(cx: &mut Cx, call: &Call) -> Outcome {
    write_from(cx, call.fd(0), &[(call.word(1), count(call, 2)?)], None, false)
}

pub fn pwrite64(cx: &mut Cx, call: &Call) -> Outcome {
    let offset = offset_argument(call.word(3))?;
    write_from(cx, call.fd(0), &[(call.word(1), count(call, 2)?)], offset, false)
}

fn count(call: &Call, i: usize) -> Result<usize, Errno> {
    let count = call.word(i);
    // A negative ssize_t is taken for a bad pointer range.
    if (count as i64) < 0 {
        return Err(Errno::EFAULT);
    }
    Ok(count.min(MAX_RW_COUNT) as usize)
}

pub fn readv(cx: &mut Cx, call: &Call) -> Outcome {
    let buffers = cx.mem.read_iovec(call.word(1), call.word(2))?;
    read_into(cx, call.fd(0), &buffers, None, false)
}

pub fn writev(cx: &mut Cx, call: &Call) -> Outcome {
    let buffers = cx.mem.read_iovec(call.word(1), call.word(2))?;
    write_from(cx, call.fd(0), &buffers, None, false)
}

pub fn preadv(cx: &mut Cx, call: &Call) -> Outcome {
    let buffers = cx.mem.read_iovec(call.word(1), call.word(2))?;
    let offset = offset_argument(call.word(3))?;
    read_into(cx, call.fd(0), &buffers, offset, false)
}

pub fn pwritev(cx: &mut Cx, call: &Call) -> Outcome {
    let buffers = cx.mem.read_iovec(call.word(1), call.word(2))?;
    let offset = offset_argument(call.word(3))?;
    write_from(cx, call.fd(0), &buffers, offset, false)
}

const RWF_KNOWN: i32 =
    libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_NOWAIT | libc::RWF_APPEND;

/// `preadv2` and `pwritev2`: an offset of -1 means the description's own.
fn offset_and_flags(call: &Call) -> Result<(Option<u64>, i32), Errno> {
    let flags = call.int(5);
    if flags & !RWF_KNOWN != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let offset = match call.long(3) {
        -1 => None,
        _ => offset_argument(call.word(3))?,
    };
    Ok((offset, flags))
}

pub fn preadv2(cx: &mut Cx, call: &Call) -> Outcome {
    let buffers = cx.mem.read_iovec(call.word(1), call.word(2))?;
    let (offset, flags) = offset_and_flags(call)?;
    read_into(cx, call.fd(0), &buffers, offset, flags & libc::RWF_NOWAIT != 0)
}

pub fn pwritev2(cx: &mut Cx, call: &Call) -> Outcome {
    let buffers = cx.mem.read_iovec(call.word(1), call.word(2))?;
    let (offset, flags) = offset_and_flags(call)?;
    let nowait = flags & libc::RWF_NOWAIT != 0;
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
