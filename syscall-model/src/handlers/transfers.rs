//! Moving data between descriptions without the program touching it: `sendfile`, `copy_file_range`, `splice`, `tee`, `vmsplice`.
//!
//! Each is a read followed by a write. To lose nothing, no more is read than the writing side takes: sources
//! that can be read again give back what was not written, and pipes are only asked for what fits.
//!
//! What is refused, and which error comes first, is decided by a plan that is made both when a thread parks and when it runs: only a call that has one
//! can wait.

mod plans;

use crate::call::Call;
use crate::channels::{self, ChannelId};
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId, PollEvents};
use crate::fs::{Class, data};
use crate::handlers::io::{self, MAX_RW_COUNT};
use crate::memory::GuestMemoryExt;
use crate::model::{Cx, Model};
use crate::object::{Object, Touch};
use crate::signals::Signals;
use crate::wait::Wait;
use plans::{
    can_give, can_take, is_pipe, nobody_reads, nonblocking, plan_copy, plan_sendfile, plan_splice, plan_tee,
};
use syscalls::{Errno, Sysno};

/// A pipe's worth: more could not be written at once anyway, and the caller must go on from a short count.
const PIECE: usize = 64 * 1024;
const PAGE: usize = crate::memory::PAGE as usize;
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
    let mut sides = [(plan.to, true), (plan.from, false)];
    if !to_first {
        sides.reverse();
    }
    for (side, gets) in sides {
        let is_channel = cx.model.files.get(side.ofd).is_some_and(|d| {
            io::is_channel(&d.kind) && (can_give(&d.kind) || can_take(&d.kind) || is_pipe(&d.kind))
        });
        if !channels::io::can_wait(cx.model, side.ofd) {
            return None;
        }
        if !is_channel {
            continue;
        }
        if gets && !has_room(cx.model, &side) {
            return match wait_for_room(cx, &side) {
                Ok(Effect::Block(wait)) => Some(wait),
                _ => None,
            };
        }
        if !gets && !cx.model.poll(side.ofd).intersects(READ_EVENTS) {
            return side.waits.then(|| Wait::ready(side.ofd, READ_EVENTS));
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
    // A page that is lent is not added to another.
    if let (Some(wait), true, Ok((ofd, _))) = (&mut prepared.wait, writes, cx.model.files.lookup(call.fd(0)))
    {
        *wait = Wait::ready(ofd, WRITE_EVENTS);
    }
    prepared
}

/// Moves up to `plan.len` bytes; waits where a side must and may.
fn transfer(cx: &mut Cx, plan: &Plan) -> Outcome {
    let (from, to) = (plan.from, plan.to);
    let (source, target) = (kind_of(cx, from.ofd)?, kind_of(cx, to.ofd)?);
    let (from_channel, to_channel) = (io::is_channel(&source), io::is_channel(&target));
    let mut max = plan.len.min(MAX_RW_COUNT) as usize;
    max = max.min(if to_channel || from_channel {
        PIECE
    } else {
        FILE_PIECE
    });
    let takes = can_take(&target);
    let to_waits = to_channel && takes && channels::io::can_wait(cx.model, to.ofd);
    if to_waits && !has_room(cx.model, &to) {
        return wait_for_room(cx, &to);
    }
    if !is_pipe(&source) && !can_give(&source) {
        return Err(Errno::EINVAL);
    }
    if to_channel && from_channel && !is_pipe(&source) {
        // What was taken out of a socket cannot be put back: a page always fits where poll shows room.
        max = max.min(PAGE);
    }
    let (before, place) = match &source {
        Kind::File(file) => (file.offset, from.position().unwrap_or(file.offset)),
        _ => (0, 0),
    };
    let pieces = match take(cx, from, &source, max) {
        Err(Errno::EAGAIN) => return wait_or(from, READ_EVENTS),
        pieces => pieces?,
    };
    if pieces.is_empty() {
        return Effect::ok();
    }
    let written = match takes {
        true => give(cx, to, &target, pieces, place),
        false => Err(Errno::EINVAL),
    };
    let written = match written {
        Ok(written) => written,
        Err(errno) => {
            data::set_offset(cx, from.ofd, before);
            return match errno {
                Errno::EAGAIN => wait_for_room(cx, &to),
                // The signal is pending already.
                Errno::EPIPE => Ok(Effect::DoneCheckSignals(-i64::from(errno.into_raw()))),
                _ => Err(errno),
            };
        }
    };
    if is_pipe(&source) {
        io::read_some(cx, from.ofd, written, None)?;
    }
    let moves = matches!(&source, Kind::File(file) if matches!(file.class, Class::Regular | Class::Virtual));
    if from.offset.is_none() && moves {
        data::set_offset(cx, from.ofd, before + written as u64);
    }
    from.moved(cx, written)?;
    to.moved(cx, written)?;
    Ok(Effect::Done(written as i64))
}

fn is_socket(model: &Model, ofd: OfdId) -> bool {
    let description = model.files.get(ofd);
    description.is_some_and(|description| matches!(description.kind, Kind::Socket(_)))
}

/// A socket can have room for a message although it does not say so when it is polled.
fn has_room(model: &Model, to: &Side) -> bool {
    match is_socket(model, to.ofd) {
        true => channels::Channels::has_room(model, to.ofd, 1),
        false => model.poll(to.ofd).intersects(WRITE_EVENTS),
    }
}

/// What there is to be moved. In a pipe it stays until it is known how much has gone.
fn take(cx: &mut Cx, from: Side, source: &Kind, max: usize) -> Result<Vec<Vec<u8>>, Errno> {
    let Kind::PipeReader(pipe) = source else {
        let bytes = io::read_some(cx, from.ofd, max, from.position())?;
        return Ok(if bytes.is_empty() { Vec::new() } else { vec![bytes] });
    };
    let pipe = cx.model.channels.pipes.get(pipe).ok_or(Errno::EBADF)?;
    let pieces = pipe.pieces(max);
    match pieces.is_empty() && pipe.writer_open {
        true => Err(Errno::EAGAIN),
        false => Ok(pieces),
    }
}

/// Hands it over; how much of it was taken. A pipe gets pages, and those of a file as they lie in it.
fn give(cx: &mut Cx, to: Side, target: &Kind, pieces: Vec<Vec<u8>>, place: u64) -> Result<usize, Errno> {
    let &Kind::PipeWriter(pipe) = target else {
        return io::write_some(cx, to.ofd, &pieces.concat(), to.position());
    };
    let first = PAGE - place as usize % PAGE;
    let pages = pieces.iter().flat_map(|piece| {
        let (head, rest) = piece.split_at(first.min(piece.len()));
        let rest = rest.chunks(PAGE);
        std::iter::once(head).chain(rest).map(<[u8]>::to_vec)
    });
    lend(cx, pipe, pages)
}

/// Puts pages into a pipe, as many as it has room for.
fn lend(cx: &mut Cx, pipe: ChannelId, pages: impl IntoIterator<Item = Vec<u8>>) -> Result<usize, Errno> {
    let channel = cx.model.channels.pipes.get_mut(&pipe).ok_or(Errno::EBADF)?;
    match channel.lend(pages) {
        Ok(count) => {
            if count > 0 {
                let events = PollEvents::IN | PollEvents::RDNORM;
                channels::epoll::notify(cx.model, &Kind::PipeReader(pipe), events);
            }
            Ok(count)
        }
        Err(errno) => {
            if errno == Errno::EPIPE {
                Signals::raise(cx.model, cx.tid, libc::SIGPIPE);
            }
            Err(errno)
        }
    }
}

fn kind_of(cx: &Cx, ofd: OfdId) -> Result<Kind, Errno> {
    Ok(cx.model.files.get(ofd).ok_or(Errno::EBADF)?.kind.clone())
}

fn wait_for_room(cx: &Cx, to: &Side) -> Outcome {
    match to.waits {
        true if is_socket(cx.model, to.ofd) => Ok(Effect::Block(channels::io::room_wait(to.ofd, 1, None))),
        true => Ok(Effect::Block(Wait::ready(to.ofd, WRITE_EVENTS))),
        false => Err(Errno::EAGAIN),
    }
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
    match kind_of(cx, plan.to.ofd)? {
        kind if is_pipe(&kind) => send_to_pipe(cx, &plan),
        kind if io::is_channel(&kind) => send_on(cx, call, plan),
        _ if plan.len == 0 => Effect::ok(),
        _ => transfer(cx, &plan),
    }
}

/// Room in a pipe is waited for even if nothing is to go there.
fn send_to_pipe(cx: &mut Cx, plan: &Plan) -> Outcome {
    if plan.len > 0 {
        return transfer(cx, plan);
    }
    match cx.model.poll(plan.to.ofd).intersects(WRITE_EVENTS) {
        true => Effect::ok(),
        false => wait_or(plan.to, WRITE_EVENTS),
    }
}

/// Goes on until all is sent that was asked for, or that there is, or that the other side takes. A call that waits has kept how much that is so far.
fn send_on(cx: &mut Cx, call: &Call, mut plan: Plan) -> Outcome {
    let asked = plan.len;
    loop {
        let done = cx.thread().call.progress;
        plan.len = asked.min(MAX_RW_COUNT).saturating_sub(done);
        if plan.len == 0 {
            return Ok(Effect::Done(done as i64));
        }
        let piece = plan.len.min(PIECE as u64) as i64;
        match transfer(cx, &plan) {
            Ok(Effect::Done(0)) => return Ok(Effect::Done(done as i64)),
            Ok(Effect::Done(count)) => {
                cx.thread().call.progress += count as u64;
                if count < piece && !plan.to.waits {
                    return Ok(Effect::Done(done as i64 + count));
                }
                // The position that it goes on from has moved.
                plan.from = plan_sendfile(cx, call)?.from;
            }
            Ok(Effect::Block(wait)) => return Ok(Effect::Block(wait)),
            Ok(Effect::DoneCheckSignals(_)) if done > 0 => {
                return Ok(Effect::DoneCheckSignals(done as i64));
            }
            Err(_) if done > 0 => return Ok(Effect::Done(done as i64)),
            outcome => return outcome,
        }
    }
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
    let &Kind::PipeWriter(target) = &kind_of(cx, to.ofd)? else {
        return Err(Errno::EINVAL);
    };
    let source = cx.model.channels.pipes.get(&source).ok_or(Errno::EBADF)?;
    // Pages stay where they are, too.
    let pages = source.pieces(plan.len.min(MAX_RW_COUNT) as usize);
    let taken = lend(cx, target, pages);
    Ok(match taken {
        Err(Errno::EPIPE) => Effect::DoneCheckSignals(-i64::from(Errno::EPIPE.into_raw())),
        taken => Effect::Done(taken? as i64),
    })
}

/// `vmsplice(fd, iov, count, flags)`: a plain read of the pipe, or pages of the caller's that are put into it. They are copied, not shared.
pub fn vmsplice(cx: &mut Cx, call: &Call) -> Outcome {
    if call.uint(3) & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let (ofd, description) = cx.model.files.lookup(call.fd(0))?;
    let (writable, kind) = (description.writable(), description.kind.clone());
    if !writable && !description.readable() {
        return Err(Errno::EBADF);
    }
    let buffers = cx.mem.read_iovec(call.word(1), call.word(2))?;
    if !channels::io::reachable(&buffers) {
        return Err(Errno::EFAULT);
    }
    if channels::io::total(&buffers) == 0 {
        return Effect::ok();
    }
    let side = Side {
        ofd,
        offset: None,
        waits: !nonblocking(call.uint(3)),
    };
    match kind {
        Kind::PipeWriter(pipe) if writable => lend_memory(cx, side, pipe, &buffers),
        Kind::PipeReader(_) => channels::read(cx, ofd, &buffers, side.waits),
        _ => Err(Errno::EBADF),
    }
}

/// The pages of these buffers, up to one that is not there.
fn lend_memory(cx: &mut Cx, to: Side, pipe: ChannelId, buffers: &[(u64, usize)]) -> Outcome {
    // That it is full, or that nobody reads, shows before the memory is looked at.
    match lend(cx, pipe, []) {
        Err(Errno::EPIPE) => {
            return Ok(Effect::DoneCheckSignals(-i64::from(Errno::EPIPE.into_raw())));
        }
        other => other?,
    };
    if !cx.model.poll(to.ofd).intersects(WRITE_EVENTS) {
        return wait_or(to, WRITE_EVENTS);
    }
    let mut done = 0;
    for (addr, len) in pages_of(buffers) {
        let page = match cx.mem.read_vec(addr, len) {
            Ok(page) => page,
            Err(fault) if done == 0 => return Err(fault.into()),
            Err(_) => break,
        };
        match lend(cx, pipe, [page]) {
            Ok(count) => done += count,
            Err(_) => break,
        }
    }
    Ok(Effect::Done(done as i64))
}

/// The same memory, page by page.
fn pages_of(buffers: &[(u64, usize)]) -> impl Iterator<Item = (u64, usize)> + '_ {
    buffers.iter().flat_map(|&(addr, len)| {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = addr.wrapping_add(at as u64);
            let piece = (len - at).min(PAGE - start as usize % PAGE);
            at += piece;
            (piece > 0).then_some((start, piece))
        })
    })
}
