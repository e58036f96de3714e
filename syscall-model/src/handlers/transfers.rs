//! Moving data between descriptions without the program touching it: `sendfile`, `copy_file_range`, `splice`.
//!
//! Each is a read followed by a write. To lose nothing, no more is read than the writing side takes: sources
//! that can be read again give back what was not written, and pipes are only asked for what fits.

use crate::call::Call;
use crate::channels;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId, PollEvents};
use crate::fs::{Class, data};
use crate::handlers::io::{self, MAX_RW_COUNT};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use crate::wait::Wait;
use syscalls::Errno;

/// A pipe's worth: more could not be written at once anyway, and the caller must go on from a short count.
const PIECE: usize = 64 * 1024;
/// Files take everything; this bounds the memory that one call needs.
const FILE_PIECE: usize = 16 << 20;

const READ_EVENTS: PollEvents = PollEvents::IN.union(PollEvents::HUP).union(PollEvents::ERR);
const WRITE_EVENTS: PollEvents = PollEvents::OUT.union(PollEvents::HUP).union(PollEvents::ERR);

fn prepare_between(cx: &Cx, from: i32, to: i32, nonblocking: bool) -> Prepared {
    let mut touches = Vec::new();
    let mut wait = None;
    for (fd, writes) in [(from, false), (to, true)] {
        let Ok((ofd, description)) = cx.model.files.lookup(fd) else {
            return Prepared::visible(vec![Touch::read(Object::FdTable)]);
        };
        touches.extend(io::touches(cx.model, ofd, writes, false));
        let waits = io::is_channel(&description.kind) && !description.nonblocking() && !nonblocking;
        // The first that is not ready decides; when it is, the call runs and finds the other one.
        let events = if writes { WRITE_EVENTS } else { READ_EVENTS };
        if waits && wait.is_none() && !cx.model.poll(ofd).intersects(events) {
            wait = Some(Wait::ready(ofd, events));
        }
    }
    Prepared::visible(touches).waiting(wait)
}

pub fn prepare_sendfile(cx: &mut Cx, call: &Call) -> Prepared {
    prepare_between(cx, call.fd(1), call.fd(0), false)
}

pub fn prepare_copy_file_range(cx: &mut Cx, call: &Call) -> Prepared {
    prepare_between(cx, call.fd(0), call.fd(2), false)
}

pub fn prepare_splice(cx: &mut Cx, call: &Call) -> Prepared {
    prepare_between(cx, call.fd(0), call.fd(2), nonblocking(call.uint(5)))
}

pub fn prepare_tee(cx: &mut Cx, call: &Call) -> Prepared {
    prepare_between(cx, call.fd(0), call.fd(1), nonblocking(call.uint(3)))
}

pub fn prepare_vmsplice(cx: &mut Cx, call: &Call) -> Prepared {
    let writes = cx.model.files.lookup(call.fd(0)).is_ok_and(|(_, d)| d.writable());
    if writes {
        io::prepare_write(cx, call)
    } else {
        io::prepare_read(cx, call)
    }
}

fn nonblocking(flags: u32) -> bool {
    flags & libc::SPLICE_F_NONBLOCK != 0
}

/// One side of a transfer: where it stands, if not where the description does.
struct Side {
    ofd: OfdId,
    /// The guest's variable and what it holds.
    offset: Option<(u64, u64)>,
}

fn side(cx: &Cx, fd: i32, pointer: u64) -> Result<Side, Errno> {
    let (ofd, _) = cx.model.files.lookup(fd)?;
    let offset = match pointer {
        0 => None,
        at => Some((at, cx.mem.read_u64(at)?)),
    };
    if offset.is_some_and(|(_, value)| (value as i64) < 0) {
        return Err(Errno::EINVAL);
    }
    Ok(Side { ofd, offset })
}

impl Side {
    fn position(&self) -> Option<u64> {
        self.offset.map(|(_, value)| value)
    }

    fn moved(&self, cx: &mut Cx, by: usize) -> Result<(), Errno> {
        if let Some((at, value)) = self.offset {
            cx.mem.write_u64(at, value + by as u64)?;
        }
        Ok(())
    }
}

fn class(cx: &Cx, ofd: OfdId) -> Option<Class> {
    match cx.model.files.get(ofd).map(|d| &d.kind) {
        Some(Kind::File(file)) => Some(file.class),
        _ => None,
    }
}

/// Moves up to `len` bytes; waits where a side must and may.
fn transfer(cx: &mut Cx, from: &Side, to: &Side, len: u64, nonblocking: bool) -> Outcome {
    let to_channel = channel(cx, to.ofd)?;
    let from_channel = channel(cx, from.ofd)?;
    let mut max = len.min(MAX_RW_COUNT) as usize;
    max = max.min(if to_channel || from_channel {
        PIECE
    } else {
        FILE_PIECE
    });
    if max == 0 {
        return Effect::ok();
    }
    if to_channel && !cx.model.poll(to.ofd).intersects(WRITE_EVENTS) {
        return wait_or(cx, to.ofd, WRITE_EVENTS, nonblocking);
    }
    if to_channel && from_channel {
        // What was taken out of a pipe cannot be put back: a page always fits where poll shows room.
        max = max.min(4096);
    }
    let before = match cx.model.files.get(from.ofd).map(|d| &d.kind) {
        Some(Kind::File(file)) => file.offset,
        _ => 0,
    };
    let bytes = match io::read_some(cx, from.ofd, max, from.position()) {
        Err(Errno::EAGAIN) => return wait_or(cx, from.ofd, READ_EVENTS, nonblocking),
        bytes => bytes?,
    };
    let written = match io::write_some(cx, to.ofd, &bytes, to.position()) {
        Ok(written) => written,
        Err(errno) => {
            data::set_offset(cx, from.ofd, before);
            return match errno {
                Errno::EAGAIN => wait_or(cx, to.ofd, WRITE_EVENTS, nonblocking),
                // The signal is pending already.
                Errno::EPIPE => Ok(Effect::DoneCheckSignals(-i64::from(errno.into_raw()))),
                _ => Err(errno),
            };
        }
    };
    if from.offset.is_none() && matches!(class(cx, from.ofd), Some(Class::Regular | Class::Virtual)) {
        data::set_offset(cx, from.ofd, before + written as u64);
    }
    from.moved(cx, written)?;
    to.moved(cx, written)?;
    Ok(Effect::Done(written as i64))
}

fn channel(cx: &Cx, ofd: OfdId) -> Result<bool, Errno> {
    let description = cx.model.files.get(ofd).ok_or(Errno::EBADF)?;
    Ok(io::is_channel(&description.kind))
}

fn wait_or(cx: &Cx, ofd: OfdId, events: PollEvents, nonblocking: bool) -> Outcome {
    if nonblocking || cx.model.files.get(ofd).is_none_or(|d| d.nonblocking()) {
        return Err(Errno::EAGAIN);
    }
    Ok(Effect::Block(Wait::ready(ofd, events)))
}

/// `sendfile(out, in, offset, count)`.
pub fn sendfile(cx: &mut Cx, call: &Call) -> Outcome {
    let from = side(cx, call.fd(1), call.word(2))?;
    let to = side(cx, call.fd(0), 0)?;
    let (input, output) = (cx.model.files.get(from.ofd), cx.model.files.get(to.ofd));
    if !input.is_some_and(|d| d.readable()) || !output.is_some_and(|d| d.writable()) {
        return Err(Errno::EBADF);
    }
    if !matches!(
        class(cx, from.ofd),
        Some(Class::Regular | Class::Zero | Class::Virtual)
    ) {
        return Err(Errno::EINVAL);
    }
    if output.is_some_and(|d| d.flags & libc::O_APPEND != 0) {
        return Err(Errno::EINVAL);
    }
    transfer(cx, &from, &to, call.word(3), false)
}

/// `copy_file_range(in, in_offset, out, out_offset, count, flags)`: regular files only.
pub fn copy_file_range(cx: &mut Cx, call: &Call) -> Outcome {
    if call.uint(5) != 0 {
        return Err(Errno::EINVAL);
    }
    let from = side(cx, call.fd(0), call.word(1))?;
    let to = side(cx, call.fd(2), call.word(3))?;
    for ofd in [from.ofd, to.ofd] {
        match class(cx, ofd) {
            Some(Class::Regular) => {}
            Some(Class::Directory) => return Err(Errno::EISDIR),
            // Made-up files have no length that the kernel would go by; callers fall back to read and write.
            _ => return Err(Errno::EINVAL),
        }
    }
    let (input, output) = (cx.model.files.get(from.ofd), cx.model.files.get(to.ofd));
    let append = output.is_some_and(|d| d.flags & libc::O_APPEND != 0);
    if append || !input.is_some_and(|d| d.readable()) || !output.is_some_and(|d| d.writable()) {
        return Err(Errno::EBADF);
    }
    if overlaps(cx, &from, &to, call.word(4)) {
        return Err(Errno::EINVAL);
    }
    transfer(cx, &from, &to, call.word(4), false)
}

/// Within one file the ranges must not overlap.
fn overlaps(cx: &Cx, from: &Side, to: &Side, len: u64) -> bool {
    let place = |side: &Side| match cx.model.files.get(side.ofd).map(|d| &d.kind) {
        Some(Kind::File(file)) => (
            cx.model.fs.key(&file.node),
            side.position().unwrap_or(file.offset),
        ),
        _ => (None, 0),
    };
    let ((file, start), (other, other_start)) = (place(from), place(to));
    file == other && start < other_start.saturating_add(len) && other_start < start.saturating_add(len)
}

/// `splice(in, in_offset, out, out_offset, count, flags)`: one side must be a pipe.
pub fn splice(cx: &mut Cx, call: &Call) -> Outcome {
    const KNOWN: u32 =
        libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;
    if call.uint(5) & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let mut any_pipe = false;
    for (fd, offset) in [(call.fd(0), call.word(1)), (call.fd(2), call.word(3))] {
        let kind = &cx.model.files.lookup(fd)?.1.kind;
        if matches!(kind, Kind::PipeReader(_) | Kind::PipeWriter(_)) {
            any_pipe = true;
        }
        if offset != 0 && !matches!(kind, Kind::File(_)) {
            return Err(Errno::ESPIPE);
        }
    }
    if !any_pipe {
        return Err(Errno::EINVAL);
    }
    let from = side(cx, call.fd(0), call.word(1))?;
    let to = side(cx, call.fd(2), call.word(3))?;
    transfer(cx, &from, &to, call.word(4), nonblocking(call.uint(5)))
}

/// `tee(in, out, count, flags)`: as splice between pipes, but the data also stays.
pub fn tee(cx: &mut Cx, call: &Call) -> Outcome {
    let from = cx.model.files.lookup(call.fd(0))?.0;
    let to = cx.model.files.lookup(call.fd(1))?.0;
    let kind = |ofd| cx.model.files.get(ofd).map(|d| d.kind.clone());
    let (Some(Kind::PipeReader(source)), Some(Kind::PipeWriter(target))) = (kind(from), kind(to)) else {
        return Err(Errno::EINVAL);
    };
    if source == target {
        return Err(Errno::EINVAL);
    }
    let nonblocking = nonblocking(call.uint(3));
    if !cx.model.poll(from).intersects(READ_EVENTS) {
        return wait_or(cx, from, READ_EVENTS, nonblocking);
    }
    if !cx.model.poll(to).intersects(WRITE_EVENTS) {
        return wait_or(cx, to, WRITE_EVENTS, nonblocking);
    }
    let max = call.word(2).min(4096) as usize;
    // Reading a copy leaves the pipe as it is.
    let mut copy = cx.model.channels.pipes.get(&source).ok_or(Errno::EBADF)?.clone();
    let bytes = copy.read(max)?;
    let written = channels::write_some(cx, to, &bytes)?;
    Ok(Effect::Done(written as i64))
}

/// `vmsplice(fd, iov, count, flags)`: a plain read or write of the pipe; pages are never shared.
pub fn vmsplice(cx: &mut Cx, call: &Call) -> Outcome {
    let (_, description) = cx.model.files.lookup(call.fd(0))?;
    match description.kind {
        Kind::PipeWriter(_) => io::writev(cx, call),
        Kind::PipeReader(_) => io::readv(cx, call),
        _ => Err(Errno::EBADF),
    }
}
