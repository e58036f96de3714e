//! Moving data between descriptions without the program touching it: `sendfile`, `copy_file_range`, `splice`, `tee`, `vmsplice`.
//!
//! Each is a read followed by a write. To lose nothing, no more is read than the writing side takes: sources
//! that can be read again give back what was not written, and pipes are only asked for what fits.
//!
//! What is refused, and which error comes first, is decided by a plan that is made both when a thread parks and when it runs: only a call that has one
//! can wait.

mod plans;

use crate::call::Call;
use crate::channels;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId, PollEvents};
use crate::fs::{Class, data};
use crate::handlers::io::{self, MAX_RW_COUNT};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use crate::signals::Signals;
use crate::wait::Wait;
use plans::{
    can_give, can_take, is_pipe, nobody_reads, nonblocking, plan_copy, plan_sendfile, plan_splice, plan_tee,
};
use syscalls::{Errno, Sysno};

/// A pipe's worth: more could not be written at once anyway, and the caller must go on from a short count.
const PIECE: usize = 64 * 1024;
/// Files take everything; this bounds the memory that one call needs.
const FILE_PIECE: usize = 16 << 20;

const READ_EVENTS: PollEvents = PollEvents::IN.union(PollEvents::HUP).union(PollEvents::ERR);
const WRITE_EVENTS: PollEvents = PollEvents::OUT.union(PollEvents::HUP).union(PollEvents::ERR);
const SPLICE_FLAGS: u32 =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// One side of a transfer: where it stands, if not where the description does.
#[derive(Clone, Copy)]
struct Side {
    ofd: OfdId,
    /// The guest's variable and what it holds.
    offset: Option<(u64, u64)>,
    /// May the call wait for it?
    waits: bool,
}

/// A transfer that nothing speaks against so far.
struct Plan {
    from: Side,
    to: Side,
    len: u64,
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

fn plan(cx: &Cx, call: &Call) -> Result<Plan, Errno> {
    match call.sysno {
        Sysno::sendfile => plan_sendfile(cx, call),
        Sysno::copy_file_range => plan_copy(cx, call),
        Sysno::tee => plan_tee(cx, call),
        _ => plan_splice(cx, call),
    }
}

/// The first side that is not ready decides; when it is, the call runs and finds the other one.
fn first_wait(cx: &Cx, plan: &Plan) -> Option<Wait> {
    // Room in a pipe comes first: it is looked for before anything is read.
    let to_first = cx.model.files.get(plan.to.ofd).is_some_and(|d| is_pipe(&d.kind));
    let mut sides = [(plan.to, WRITE_EVENTS), (plan.from, READ_EVENTS)];
    if !to_first {
        sides.reverse();
    }
    for (side, events) in sides {
        let is_channel = cx.model.files.get(side.ofd).is_some_and(|d| {
            io::is_channel(&d.kind) && (can_give(&d.kind) || can_take(&d.kind) || is_pipe(&d.kind))
        });
        if !channels::io::can_wait(cx.model, side.ofd) {
            return None;
        }
        if is_channel && !cx.model.poll(side.ofd).intersects(events) {
            return side.waits.then(|| Wait::ready(side.ofd, events));
        }
    }
    None
}

fn prepare_between(cx: &Cx, call: &Call, from: i32, to: i32, len: u64) -> Prepared {
    let mut touches = Vec::new();
    for (fd, writes) in [(from, false), (to, true)] {
        let Ok((ofd, _)) = cx.model.files.lookup(fd) else {
            return Prepared::visible(vec![Touch::read(Object::FdTable)]);
        };
        touches.extend(io::touches(cx.model, ofd, writes, false));
    }
    let wait = plan(cx, call)
        .ok()
        .filter(|_| len > 0)
        .and_then(|plan| first_wait(cx, &plan));
    Prepared::visible(touches).waiting(wait)
}

pub fn prepare_sendfile(cx: &Cx, call: &Call) -> Prepared {
    prepare_between(cx, call, call.fd(1), call.fd(0), call.word(3))
}

pub fn prepare_copy_file_range(cx: &Cx, call: &Call) -> Prepared {
    prepare_between(cx, call, call.fd(0), call.fd(2), call.word(4))
}

pub fn prepare_splice(cx: &Cx, call: &Call) -> Prepared {
    let mut prepared = prepare_between(cx, call, call.fd(0), call.fd(2), call.word(4));
    if let Ok((ofd, description)) = cx.model.files.lookup(call.fd(0)) {
        let may_fail = call.uint(5) & libc::SPLICE_F_NONBLOCK != 0 || description.nonblocking();
        let max = call.word(4).min(FILE_PIECE as u64) as usize;
        prepared.observes = channels::io::reads(cx.model, ofd, max, may_fail);
    }
    prepared
}

pub fn prepare_tee(cx: &Cx, call: &Call) -> Prepared {
    prepare_between(cx, call, call.fd(0), call.fd(1), call.word(2))
}

/// `vmsplice` waits as a read or a write of the pipe does, unless it is told not to.
pub fn prepare_vmsplice(cx: &Cx, call: &Call) -> Prepared {
    let description = cx.model.files.lookup(call.fd(0)).map(|(_, d)| d);
    let writes = description.is_ok_and(|d| d.writable());
    let is_pipe = description.is_ok_and(|d| is_pipe(&d.kind));
    let mut prepared = match writes {
        true => io::prepare_write(cx, call),
        false => io::prepare_read(cx, call),
    };
    if !is_pipe || nonblocking(call.uint(3)) || call.uint(3) & !SPLICE_FLAGS != 0 {
        prepared.wait = None;
    }
    prepared
}

/// Moves up to `plan.len` bytes; waits where a side must and may.
fn transfer(cx: &mut Cx, plan: &Plan) -> Outcome {
    let (from, to) = (plan.from, plan.to);
    let kind = |cx: &Cx, ofd| {
        cx.model
            .files
            .get(ofd)
            .map(|d| d.kind.clone())
            .ok_or(Errno::EBADF)
    };
    let (source, target) = (kind(cx, from.ofd)?, kind(cx, to.ofd)?);
    let (from_channel, to_channel) = (io::is_channel(&source), io::is_channel(&target));
    let mut max = plan.len.min(MAX_RW_COUNT) as usize;
    max = max.min(if to_channel || from_channel {
        PIECE
    } else {
        FILE_PIECE
    });
    let takes = can_take(&target);
    let to_waits = to_channel && takes && channels::io::can_wait(cx.model, to.ofd);
    if to_waits && !cx.model.poll(to.ofd).intersects(WRITE_EVENTS) {
        return wait_or(to, WRITE_EVENTS);
    }
    if !is_pipe(&source) && !can_give(&source) {
        return Err(Errno::EINVAL);
    }
    if to_channel && from_channel {
        // What was taken out of a pipe cannot be put back: a page always fits where poll shows room.
        max = max.min(4096);
    }
    let before = match &source {
        Kind::File(file) => file.offset,
        _ => 0,
    };
    let bytes = match io::read_some(cx, from.ofd, max, from.position()) {
        Err(Errno::EAGAIN) => return wait_or(from, READ_EVENTS),
        bytes => bytes?,
    };
    if bytes.is_empty() {
        return Effect::ok();
    }
    let written = match takes {
        true => io::write_some(cx, to.ofd, &bytes, to.position()),
        false => Err(Errno::EINVAL),
    };
    let written = match written {
        Ok(written) => written,
        Err(errno) => {
            data::set_offset(cx, from.ofd, before);
            return match errno {
                Errno::EAGAIN => wait_or(to, WRITE_EVENTS),
                // The signal is pending already.
                Errno::EPIPE => Ok(Effect::DoneCheckSignals(-i64::from(errno.into_raw()))),
                _ => Err(errno),
            };
        }
    };
    let moves = matches!(&source, Kind::File(file) if matches!(file.class, Class::Regular | Class::Virtual));
    if from.offset.is_none() && moves {
        data::set_offset(cx, from.ofd, before + written as u64);
    }
    from.moved(cx, written)?;
    to.moved(cx, written)?;
    Ok(Effect::Done(written as i64))
}

fn wait_or(side: Side, events: PollEvents) -> Outcome {
    if side.waits {
        Ok(Effect::Block(Wait::ready(side.ofd, events)))
    } else {
        Err(Errno::EAGAIN)
    }
}

pub fn sendfile(cx: &mut Cx, call: &Call) -> Outcome {
    let plan = match plan_sendfile(cx, call) {
        Err(Errno::EPIPE) => {
            Signals::raise(cx.model, cx.tid, libc::SIGPIPE);
            return Ok(Effect::DoneCheckSignals(-i64::from(Errno::EPIPE.into_raw())));
        }
        plan => plan?,
    };
    if plan.len == 0 {
        return Effect::ok();
    }
    transfer(cx, &plan)
}

pub fn copy_file_range(cx: &mut Cx, call: &Call) -> Outcome {
    let plan = plan_copy(cx, call)?;
    if plan.len == 0 {
        return Effect::ok();
    }
    transfer(cx, &plan)
}

pub fn splice(cx: &mut Cx, call: &Call) -> Outcome {
    if call.word(4) == 0 {
        return Effect::ok();
    }
    let plan = plan_splice(cx, call)?;
    // That nobody reads shows before it shows whether there is anything to read.
    if nobody_reads(cx.model, plan.to.ofd) {
        Signals::raise(cx.model, cx.tid, libc::SIGPIPE);
        return Err(Errno::EPIPE);
    }
    transfer(cx, &plan)
}

pub fn tee(cx: &mut Cx, call: &Call) -> Outcome {
    if call.word(2) == 0 && call.uint(3) & !SPLICE_FLAGS == 0 {
        return Effect::ok();
    }
    let plan = plan_tee(cx, call)?;
    let (from, to) = (plan.from, plan.to);
    if !cx.model.poll(from.ofd).intersects(READ_EVENTS) {
        return wait_or(from, READ_EVENTS);
    }
    if !cx.model.poll(to.ofd).intersects(WRITE_EVENTS) {
        return wait_or(to, WRITE_EVENTS);
    }
    let Some(Kind::PipeReader(source)) = cx.model.files.get(from.ofd).map(|d| d.kind.clone()) else {
        return Err(Errno::EINVAL);
    };
    let max = plan.len.min(4096) as usize;
    // Reading a copy leaves the pipe as it is.
    let mut copy = cx.model.channels.pipes.get(&source).ok_or(Errno::EBADF)?.clone();
    let bytes = copy.read(max)?;
    let written = channels::write_some(cx, to.ofd, &bytes)?;
    Ok(Effect::Done(written as i64))
}

/// `vmsplice(fd, iov, count, flags)`: a plain read or write of the pipe; pages are never shared.
pub fn vmsplice(cx: &mut Cx, call: &Call) -> Outcome {
    if call.uint(3) & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let (_, description) = cx.model.files.lookup(call.fd(0))?;
    let (writable, kind) = (description.writable(), description.kind.clone());
    let buffers = cx.mem.read_iovec(call.word(1), call.word(2))?;
    if channels::io::total(&buffers) == 0 {
        return Effect::ok();
    }
    if !is_pipe(&kind) {
        return Err(Errno::EBADF);
    }
    let nowait = nonblocking(call.uint(3));
    as_blocking(cx, call.fd(0), |cx| {
        if writable {
            io::write_from(cx, call.fd(0), &buffers, None, nowait)
        } else {
            io::read_into(cx, call.fd(0), &buffers, None, nowait)
        }
    })
}

/// Does something with a description as if it had not been set not to wait: here only the call's own flag counts.
fn as_blocking(cx: &mut Cx, fd: i32, act: impl FnOnce(&mut Cx) -> Outcome) -> Outcome {
    let found = cx.model.files.lookup(fd).ok().map(|(ofd, d)| (ofd, d.flags));
    let set = |cx: &mut Cx, keep: i32| {
        if let Some((ofd, flags)) = found
            && let Some(description) = cx.model.files.get_mut(ofd)
        {
            description.flags = flags & keep;
        }
    };
    set(cx, !libc::O_NONBLOCK);
    let done = act(cx);
    set(cx, !0);
    done
}
