//! `read` and `write` on channels.
//!
//! [`read_some`] and [`write_some`] do what can be done now; [`read()`] and [`write()`] are the whole call, with
//! blocking. A blocking write that does not fit writes what it can and waits with the rest; how far it came
//! is in [`Thread::progress`](crate::thread::CallProgress::progress).

use super::{Channels, Use, epoll, pty, signalfd, socket, touches};
use crate::clock::Nanos;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId, PollEvents};
use crate::memory::{GuestMemory, GuestMemoryExt, check_reachable};
use crate::model::{Cx, Model};
use crate::net::observe::Observation;
use crate::signals::Signals;
use crate::wait::{OnSignal, Wait, WaitFor, Wake};
use syscalls::Errno;

/// The kernel moves no more than this in one call.
pub const MAX_TRANSFER: usize = 0x7fff_f000;

/// Buffers up to this length are cleared by hand before they are filled: zeroed memory from the allocator is never memory that was just in use, and so not in
/// the cache. Longer ones may be as long as the guest likes to say, and are only worth having if it can be read.
const SMALL: usize = 4096;

/// What ends waiting for data. A description that another thread closes meanwhile ends it too.
const READ_EVENTS: PollEvents = PollEvents::IN
    .union(PollEvents::RDHUP)
    .union(PollEvents::HUP)
    .union(PollEvents::ERR)
    .union(PollEvents::NVAL);
/// What ends waiting for room.
const WRITE_EVENTS: PollEvents = PollEvents::OUT
    .union(PollEvents::HUP)
    .union(PollEvents::ERR)
    .union(PollEvents::NVAL);

/// The total length of a scatter list, as far as the kernel goes.
pub fn total(iov: &[(u64, usize)]) -> usize {
    let sum = iov.iter().fold(0_usize, |sum, &(_, len)| sum.saturating_add(len));
    sum.min(MAX_TRANSFER)
}

/// Reads the pieces of `iov` from the guest, at most [`MAX_TRANSFER`] bytes.
pub fn gather(mem: &dyn GuestMemory, iov: &[(u64, usize)]) -> Result<Vec<u8>, Errno> {
    let mut left = total(iov);
    let mut data = Vec::new();
    for &(addr, len) in iov {
        let len = len.min(left);
        if len > SMALL {
            data.extend(mem.read_vec(addr, len)?);
        } else if len > 0 {
            let start = data.len();
            data.resize(start + len, 0);
            mem.read(addr, &mut data[start..])?;
        }
        left -= len;
    }
    Ok(data)
}

/// Writes `data` into the pieces of `iov`, from `skip` bytes on.
pub fn scatter(
    mem: &mut dyn GuestMemory,
    iov: &[(u64, usize)],
    skip: usize,
    data: &[u8],
) -> Result<(), Errno> {
    let (mut skip, mut data) = (skip, data);
    for &(addr, len) in iov {
        let passed = skip.min(len);
        skip -= passed;
        let (now, later) = data.split_at(data.len().min(len - passed));
        if !now.is_empty() {
            mem.write(addr + passed as u64, now)?;
        }
        data = later;
    }
    Ok(())
}

fn kind(model: &Model, id: OfdId) -> Result<Kind, Errno> {
    Ok(model.files.get(id).ok_or(Errno::EBADF)?.kind.clone())
}

pub(crate) fn blocking(model: &Model, id: OfdId) -> bool {
    model
        .files
        .get(id)
        .is_some_and(|description| !description.nonblocking())
}

/// `SO_RCVTIMEO` or `SO_SNDTIMEO` as a deadline.
pub(crate) fn socket_deadline(model: &Model, id: OfdId, read: bool) -> Option<Nanos> {
    timeout_deadline(model, &model.files.get(id)?.kind, read)
}

fn timeout_deadline(model: &Model, kind: &Kind, read: bool) -> Option<Nanos> {
    const TENTH: Nanos = 100_000_000;
    if let Some(tenths) = pty::tenths(model, kind).filter(|_| read) {
        return Some(model.clock.now().saturating_add(Nanos::from(tenths) * TENTH));
    }
    let Kind::Socket(socket) = kind else {
        return None;
    };
    let options = &model.channels.sockets.get(socket)?.options;
    let timeout = if read {
        options.receive_timeout
    } else {
        options.send_timeout
    };
    Some(model.clock.now().saturating_add(timeout?))
}

/// A socket with a timeout is never restarted after a signal.
fn on_signal(deadline: Option<Nanos>) -> OnSignal {
    if deadline.is_some() {
        OnSignal::Interrupt
    } else {
        OnSignal::Restart
    }
}

pub(crate) fn read_wait(id: OfdId, deadline: Option<Nanos>) -> Wait {
    Wait {
        on: WaitFor::Ready(vec![(id, READ_EVENTS)]),
        deadline,
        on_signal: on_signal(deadline),
    }
}

/// Before a write: `amount` (bytes, or the value for an eventfd) must find room.
pub(crate) fn room_wait(id: OfdId, amount: u64, deadline: Option<Nanos>) -> Wait {
    Wait {
        on: WaitFor::Room(id, amount),
        deadline,
        on_signal: on_signal(deadline),
    }
}

/// In the middle of a write: the kernel wakes a writer only when poll would show room, which for a socket is
/// later than the first free byte.
pub(crate) fn more_room_wait(id: OfdId, deadline: Option<Nanos>) -> Wait {
    Wait {
        on: WaitFor::Ready(vec![(id, WRITE_EVENTS)]),
        deadline,
        on_signal: on_signal(deadline),
    }
}

/// Can there be anything to wait for? A stream that is not connected says so at once.
pub(crate) fn can_wait(model: &Model, id: OfdId) -> bool {
    match model.files.get(id).map(|description| &description.kind) {
        Some(Kind::Socket(socket)) => model
            .channels
            .sockets
            .get(socket)
            .is_none_or(|socket| !socket.connection_based() || socket.is_connected()),
        Some(Kind::Epoll(_)) => false,
        Some(kind) => !pty::is_in_background(model, kind) && pty::tenths(model, kind) != Some(0),
        None => true,
    }
}

/// Can the program have memory at all where these pieces say that it has?
pub(crate) fn reachable(iov: &[(u64, usize)]) -> bool {
    iov.iter()
        .all(|&(addr, len)| check_reachable(addr, len as u64).is_ok())
}

/// The least that a read must ask for; less fails at once and does not wait.
fn least_read(kind: &Kind) -> usize {
    match kind {
        Kind::EventFd(_) | Kind::TimerFd(_) => 8,
        Kind::SignalFd(_) => signalfd::RECORD,
        _ => 1,
    }
}

/// `read` and its kin on a channel, before they run. `may_wait`: neither the description nor the call says otherwise.
pub fn prepare_read(cx: &Cx, id: OfdId, iov: &[(u64, usize)], may_wait: bool) -> Prepared {
    let serves = match kind(cx.model, id) {
        Ok(Kind::Socket(socket)) => cx
            .model
            .channels
            .sockets
            .get(&socket)
            .is_some_and(socket::Socket::serves),
        _ => false,
    };
    let deadline = socket_deadline(cx.model, id, true);
    let waits = may_wait
        && kind(cx.model, id).is_ok_and(|kind| total(iov) >= least_read(&kind))
        && can_wait(cx.model, id)
        && reachable(iov);
    let touches = touches(cx.model, id, Use::Read);
    let mut prepared = Prepared::visible(touches).waiting(waits.then(|| read_wait(id, deadline)));
    prepared.observes = reads(cx.model, id, total(iov), !waits);
    prepared.until(deadline).awaiting_clients(serves)
}

/// What a plain read can tell of arrivals.
pub(crate) fn reads(model: &Model, id: OfdId, max: usize, may_fail: bool) -> Option<Observation> {
    match model.files.get(id)?.kind {
        Kind::Socket(socket) => Some(Observation::Receive {
            socket,
            max,
            least: 1,
            may_fail,
            peeks: false,
            datagrams: 1,
        }),
        _ => None,
    }
}

fn is_connecting(model: &Model, id: super::ChannelId) -> bool {
    let socket = model.channels.sockets.get(&id);
    socket.is_some_and(socket::Socket::is_connecting)
}

/// What a write can tell of arrivals: that the connection stands, or was reset.
pub(crate) fn writes(model: &Model, id: OfdId) -> Option<Observation> {
    match model.files.get(id)?.kind {
        Kind::Socket(socket) => Some(Observation::Health {
            socket,
            may_miss: !is_connecting(model, socket) || !blocking(model, id),
            connects: true,
        }),
        _ => None,
    }
}

/// `write` and its kin on a channel, before they run.
pub fn prepare_write(cx: &Cx, id: OfdId, iov: &[(u64, usize)], may_wait: bool) -> Prepared {
    let (mut deadline, mut wait) = (None, None);
    if let Some(description) = cx.model.files.get(id) {
        let kind = &description.kind;
        deadline = timeout_deadline(cx.model, kind, false);
        let fails_at_once = matches!(kind, Kind::EventFd(_)) && total(iov) != 8;
        let waits = may_wait && !fails_at_once && can_wait(cx.model, id);
        if waits && reachable(iov) {
            wait = Some(room_wait(id, amount(kind, cx.mem, iov), deadline));
        }
    }
    let mut prepared = Prepared::visible(touches(cx.model, id, Use::Write)).waiting(wait);
    prepared.observes = writes(cx.model, id);
    prepared.until(deadline)
}

/// What [`WaitFor::Room`] needs to know of a write.
fn amount(kind: &Kind, mem: &dyn GuestMemory, iov: &[(u64, usize)]) -> u64 {
    if !matches!(kind, Kind::EventFd(_)) {
        return total(iov) as u64;
    }
    let value = gather(mem, iov)
        .ok()
        .and_then(|data| <[u8; 8]>::try_from(data).ok());
    match value.map(u64::from_le_bytes) {
        // Refused at once.
        Some(u64::MAX) | None => 0,
        Some(value) => value,
    }
}

/// The whole of `read`, `readv`, …
pub fn read(cx: &mut Cx, id: OfdId, iov: &[(u64, usize)], may_wait: bool) -> Outcome {
    if let Some(refused) = pty::check_read(cx, id) {
        return refused;
    }
    let read = match kind(cx.model, id)? {
        Kind::PipeReader(pipe) => read_pages(cx, id, pipe, iov),
        _ => read_whole(cx, id, iov),
    };
    match read {
        Ok(count) => Ok(Effect::Done(count as i64)),
        Err(Errno::EAGAIN) if may_wait && cx.wake != Wake::TimedOut => {
            Ok(Effect::Block(read_wait(id, cx.thread().call.deadline)))
        }
        Err(errno) => Err(errno),
    }
}

/// A pipe gives page after page, up to one for which there is no memory.
fn read_pages(cx: &mut Cx, id: OfdId, pipe: super::ChannelId, iov: &[(u64, usize)]) -> Result<usize, Errno> {
    let pipe = cx.model.channels.pipes.get(&pipe).ok_or(Errno::EBADF)?;
    let pieces = pipe.pieces(total(iov));
    let mut done = 0;
    for piece in &pieces {
        match scatter(cx.mem, iov, done, piece) {
            Ok(()) => done += piece.len(),
            Err(fault) if done == 0 => return Err(fault),
            Err(_) => break,
        }
    }
    // Without any there is an end, or nothing yet.
    let taken = if pieces.is_empty() { total(iov) } else { done };
    Ok(read_some(cx, id, taken)?.len())
}

fn read_whole(cx: &mut Cx, id: OfdId, iov: &[(u64, usize)]) -> Result<usize, Errno> {
    let data = read_some(cx, id, total(iov))?;
    if let Err(fault) = scatter(cx.mem, iov, 0, &data) {
        put_back(cx.model, id, &data);
        return Err(fault);
    }
    Ok(data.len())
}

/// What was read has found no place in the program's memory: a stream keeps it.
fn put_back(model: &mut Model, id: OfdId, data: &[u8]) {
    if let Ok(Kind::Socket(socket)) = kind(model, id)
        && let Some(socket) = model.channels.sockets.get_mut(&socket)
        && socket.style == socket::Style::Stream
    {
        socket.put_back(data, Vec::new());
    }
}

/// The whole of `write`, `writev`, …
pub fn write(cx: &mut Cx, id: OfdId, iov: &[(u64, usize)]) -> Outcome {
    if let Some(refused) = pty::check_write(cx, id) {
        return refused;
    }
    let data = match gather(cx.mem, iov) {
        Ok(data) => data,
        Err(fault) => match refuse(cx.model, id, total(iov), false) {
            Some(errno) => return refused(cx, id, errno),
            None => pages_for_pipe(cx, id, iov).ok_or(fault)??,
        },
    };
    let before = cx.thread().call.progress as usize;
    let rest = data.get(before..).unwrap_or_default();
    let outcome = write_some(cx, id, rest);
    if outcome == Ok(data.len()) {
        // What is typed may be a signal, to oneself too.
        let types = matches!(kind(cx.model, id), Ok(Kind::PtyMaster(_)));
        let len = data.len() as i64;
        return Ok(if types {
            Effect::DoneCheckSignals(len)
        } else {
            Effect::Done(len)
        });
    }
    let description = cx.model.files.get(id);
    let amount = description.map_or(0, |description| amount(&description.kind, cx.mem, iov));
    let may_wait = blocking(cx.model, id);
    finish_write(cx, id, outcome, data.len(), amount, may_wait)
}

/// A pipe is filled page by page, up to the one that could not be read as a whole; what does not fill a page goes first, if there is room for it in the last one.
fn pages_for_pipe(cx: &mut Cx, id: OfdId, iov: &[(u64, usize)]) -> Option<Result<Vec<u8>, Errno>> {
    const PAGE: usize = crate::memory::PAGE as usize;
    let Kind::PipeWriter(pipe) = cx.model.files.get(id)?.kind else {
        return None;
    };
    let is_first = cx.thread().call.progress == 0;
    let pipe = cx.model.channels.pipes.get(&pipe)?;
    let mut data = Vec::new();
    for &(addr, len) in iov {
        let piece = cx.mem.read_some(addr, len);
        let is_whole = piece.len() == len;
        data.extend(piece);
        if !is_whole {
            break;
        }
    }
    let odd = total(iov) % PAGE;
    let first = if is_first && pipe.merges(odd) { odd } else { 0 };
    if first == 0 && pipe.is_full() {
        return Some(Err(Errno::EAGAIN));
    }
    let pages = data.len().checked_sub(first)? / PAGE * PAGE;
    data.truncate(first + pages);
    (!data.is_empty()).then_some(Ok(data))
}

/// What the length field of a UDP header can say; the kernel looks at it before anything else.
pub(crate) const LONGEST_UDP: usize = 0xffff;

/// What a call that writes nothing has to say, with the signal that comes with it.
pub(crate) fn refused(cx: &mut Cx, id: OfdId, errno: Errno) -> Outcome {
    let signals = match kind(cx.model, id)? {
        Kind::Socket(socket) => is_stream(cx.model, socket),
        _ => true,
    };
    if errno != Errno::EPIPE || !signals {
        return Err(errno);
    }
    Signals::raise(cx.model, cx.tid, libc::SIGPIPE);
    Ok(Effect::DoneCheckSignals(-i64::from(errno.into_raw())))
}

/// What is told of a description that takes nothing, whatever it is given to read from, in the order in which the kernel finds out. `named`: the call says where to.
pub(crate) fn refuse(model: &mut Model, id: OfdId, len: usize, named: bool) -> Option<Errno> {
    let socket = match &model.files.get(id)?.kind {
        Kind::EventFd(_) if len != 8 => return Some(Errno::EINVAL),
        Kind::PipeWriter(pipe) if !model.channels.pipes.get(pipe)?.reader_open => return Some(Errno::EPIPE),
        Kind::Socket(socket) => *socket,
        _ => return None,
    };
    let socket = model.channels.sockets.get_mut(&socket)?;
    let (is_inet, is_connected) = (socket.is_inet(), socket.is_connected());
    let leads_nowhere = is_inet && !named && socket.remote_name().is_none();
    match socket.style {
        socket::Style::Datagram if is_inet => {
            let is_too_long = len > LONGEST_UDP;
            // IPv6 looks at the address first.
            match (is_too_long, leads_nowhere) {
                (true, true) if socket.family == libc::AF_INET6 => return Some(Errno::EDESTADDRREQ),
                (true, _) => return Some(Errno::EMSGSIZE),
                (false, true) => return Some(Errno::EDESTADDRREQ),
                (false, false) => {}
            }
        }
        socket::Style::SeqPacket | socket::Style::Stream if !is_inet && !is_connected => {
            return Some(Errno::ENOTCONN);
        }
        socket::Style::Datagram | socket::Style::SeqPacket
            if len > socket.options.send_buffer.saturating_sub(32) =>
        {
            return Some(Errno::EMSGSIZE);
        }
        _ => {}
    }
    if let Err(errno) = socket.take_error() {
        return Some(errno);
    }
    let is_over = is_inet && socket.style == socket::Style::Stream && !is_connected;
    (socket.shut.write || is_over).then_some(Errno::EPIPE)
}

/// What becomes of a write of `len` bytes in all after one more try: shared with `send`. `amount` is what it waits for if it found no room at all.
pub(crate) fn finish_write(
    cx: &mut Cx,
    id: OfdId,
    outcome: Result<usize, Errno>,
    len: usize,
    amount: u64,
    may_wait: bool,
) -> Outcome {
    let before = cx.thread().call.progress as usize;
    let waits = may_wait && cx.wake != Wake::TimedOut;
    let deadline = cx.thread().call.deadline;
    match outcome {
        Ok(count) if before + count < len && waits => {
            cx.thread().call.progress = (before + count) as u64;
            Ok(Effect::Block(more_room_wait(id, deadline)))
        }
        Ok(count) => Ok(Effect::Done((before + count) as i64)),
        Err(Errno::EAGAIN) if waits && before > 0 => Ok(Effect::Block(more_room_wait(id, deadline))),
        Err(Errno::EAGAIN) if waits => Ok(Effect::Block(room_wait(id, amount, deadline))),
        // Part of it went out: that is what the caller hears.
        Err(_) if before > 0 => Ok(Effect::DoneCheckSignals(before as i64)),
        Err(Errno::EPIPE) => Ok(Effect::DoneCheckSignals(-i64::from(Errno::EPIPE.into_raw()))),
        Err(errno) => Err(errno),
    }
}

/// Reads what is there now; `EAGAIN` if that is nothing.
pub fn read_some(cx: &mut Cx, id: OfdId, max: usize) -> Result<Vec<u8>, Errno> {
    let kind = kind(cx.model, id)?;
    let model = &mut *cx.model;
    match &kind {
        Kind::PipeReader(pipe_id) => {
            let pipe = model.channels.pipes.get_mut(pipe_id).ok_or(Errno::EBADF)?;
            let was_full = pipe.is_full();
            let data = pipe.read(max)?;
            if was_full && !pipe.is_full() {
                epoll::notify(
                    model,
                    &Kind::PipeWriter(*pipe_id),
                    PollEvents::OUT | PollEvents::WRNORM,
                );
            }
            Ok(data)
        }
        Kind::Socket(_) if max == 0 => Ok(Vec::new()),
        Kind::Socket(socket_id) => {
            let got = socket::receive(model, *socket_id, max, false)?;
            // A plain read has no place for descriptors.
            for right in got.rights {
                model.release(right);
            }
            if got.end && !connection_based(model, *socket_id) && !blocking(model, id) {
                return Err(Errno::EAGAIN);
            }
            Ok(got.data)
        }
        Kind::EventFd(eventfd) => {
            let data = model
                .channels
                .eventfds
                .get_mut(eventfd)
                .ok_or(Errno::EBADF)?
                .read(max)?;
            epoll::notify(model, &kind, PollEvents::OUT);
            Ok(data)
        }
        Kind::TimerFd(timer) => {
            let now = model.clock.now();
            model
                .channels
                .timerfds
                .get_mut(timer)
                .ok_or(Errno::EBADF)?
                .read(max, now)
        }
        Kind::SignalFd(set) => signalfd::read(model, cx.tid, *set, max),
        Kind::PtyMaster(_) | Kind::PtySlave(..) => pty::read(cx, &kind, max),
        Kind::PipeWriter(_) => Err(Errno::EBADF),
        Kind::Epoll(_) | Kind::PidFd(_) | Kind::MessageQueue(_) | Kind::File(_) | Kind::Output(_) => {
            Err(Errno::EINVAL)
        }
    }
}

/// A datagram socket that is shut down has no end of file unless one waits for it.
pub(crate) fn connection_based(model: &Model, id: super::ChannelId) -> bool {
    let socket = model.channels.sockets.get(&id);
    socket.is_some_and(socket::Socket::connection_based)
}

/// Writes what fits now; `EAGAIN` if that is nothing. On `EPIPE` the caller has got its `SIGPIPE`.
pub fn write_some(cx: &mut Cx, id: OfdId, data: &[u8]) -> Result<usize, Errno> {
    let kind = kind(cx.model, id)?;
    let resumed = cx.thread().call.progress > 0;
    let model = &mut *cx.model;
    let result = match &kind {
        Kind::PipeWriter(pipe_id) => {
            let packets = model.files.get(id).is_some_and(|d| d.flags & libc::O_DIRECT != 0);
            let pipe = model.channels.pipes.get_mut(pipe_id).ok_or(Errno::EBADF)?;
            let result = pipe.write(data, packets, resumed);
            // The kernel tells epoll of every attempt, successful or not.
            if !data.is_empty() {
                epoll::notify(
                    model,
                    &Kind::PipeReader(*pipe_id),
                    PollEvents::IN | PollEvents::RDNORM,
                );
            }
            result
        }
        Kind::Socket(socket_id) => {
            if resumed {
                return socket::resumed(model, *socket_id, |model| {
                    socket::send(model, *socket_id, data, &[])
                });
            }
            let result = socket::send(model, *socket_id, data, &[]);
            if result == Err(Errno::EPIPE) && !is_stream(model, *socket_id) {
                // Only streams raise the signal.
                return result;
            }
            result
        }
        Kind::EventFd(eventfd) => {
            let fd = model.channels.eventfds.get_mut(eventfd).ok_or(Errno::EBADF)?;
            let result = fd.write(data);
            if result.is_ok() {
                epoll::notify(model, &kind, PollEvents::IN);
            }
            result
        }
        Kind::PtyMaster(_) | Kind::PtySlave(..) => return pty::write(cx, &kind, data),
        Kind::PipeReader(_) => Err(Errno::EBADF),
        Kind::TimerFd(_)
        | Kind::SignalFd(_)
        | Kind::PidFd(_)
        | Kind::MessageQueue(_)
        | Kind::Epoll(_)
        | Kind::File(_)
        | Kind::Output(_) => Err(Errno::EINVAL),
    };
    if result == Err(Errno::EPIPE) {
        Signals::raise(model, cx.tid, libc::SIGPIPE);
    }
    result
}

pub(crate) fn is_stream(model: &Model, id: super::ChannelId) -> bool {
    let socket = model.channels.sockets.get(&id);
    socket.is_some_and(|socket| socket.style == socket::Style::Stream)
}

impl Channels {
    /// For tests and traces: is nothing left over?
    pub fn is_empty(&self) -> bool {
        self.pipes.is_empty()
            && self.sockets.is_empty()
            && self.eventfds.is_empty()
            && self.timerfds.is_empty()
            && self.mqueues.is_empty()
            && self.terminals.is_empty()
            && self.epolls.is_empty()
    }
}
