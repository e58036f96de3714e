//! Reading and writing through descriptors: the `read` and `write` families, for every kind of description.

use crate::call::Call;
use crate::channels;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId};
use crate::fs::{Class, data};
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

fn prepare(cx: &mut Cx, call: &Call, writes: bool, positional: bool) -> Prepared {
    let Ok((ofd, description)) = cx.model.files.lookup(call.fd(0)) else {
        return Prepared::visible(vec![Touch::read(Object::FdTable)]);
    };
    let allowed = if writes {
        description.writable()
    } else {
        description.readable()
    };
    if is_channel(&description.kind)
        && allowed
        && !positional
        && let Ok(buffers) = buffers(cx, call)
    {
        return if writes {
            channels::prepare_write(cx, ofd, buffers.all())
        } else {
            channels::prepare_read(cx, ofd, buffers.all())
        };
    }
    Prepared::visible(touches(cx.model, ofd, writes, positional))
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
    if is_channel(&description.kind) && description.readable() && offset.is_none() && !nowait {
        return channels::read(cx, ofd, buffers);
    }
    let bytes = read_some(cx, ofd, channels::io::total(buffers), offset)?;
    channels::io::scatter(cx.mem, buffers, 0, &bytes)?;
    Ok(Effect::Done(bytes.len() as i64))
}

/// Writes a list of buffers and blocks where the description must.
fn write_from(cx: &mut Cx, fd: i32, buffers: &[(u64, usize)], offset: Option<u64>, nowait: bool) -> Outcome {
    let (ofd, description) = cx.model.files.lookup(fd)?;
    if !description.writable() {
        return Err(Errno::EBADF);
    }
    if is_channel(&description.kind) && offset.is_none() && !nowait {
        return channels::write(cx, ofd, buffers);
    }
    let bytes = channels::io::gather(cx.mem, buffers)?;
    let written = write_some(cx, ofd, &bytes, offset)?;
    Ok(Effect::Done(written as i64))
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
