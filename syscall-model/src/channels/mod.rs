//! Whatever threads talk through by descriptor: pipes, sockets, event counters, timers, epoll sets.
//!
//! One file per kind holds its rules and nothing else; here is the store, and what all kinds share:
//! readiness, closing, what an operation touches. [`io`] is `read` and `write` on any of them, with blocking;
//! [`control`] is `ioctl`, `fstat` and `fcntl`.

pub mod bytes;
pub mod control;
pub mod epoll;
pub mod eventfd;
pub mod io;
pub mod mqueue;
pub mod named;
pub mod netlink;
pub mod overheard;
pub mod pidfd;
pub mod pipe;
pub mod pty;
pub mod signalfd;
pub mod socket;
pub mod terminal;
pub mod timerfd;
mod touches;

#[cfg(test)]
mod tests;

pub use control::{ioctl, pipe_size, set_pipe_size, stat_kind};
pub use io::{prepare_read, prepare_write, read, read_some, write, write_some};
pub use touches::{Use, held_beside, touched_servers, touches};

use crate::clock::Nanos;
use crate::fd::{Description, Kind, OfdId, PollEvents};
use crate::model::Model;
use crate::net::flight::Flight;
use crate::net::mirror::Told;
use crate::net::{Arrivals, Key};
use crate::thread::Tid;
use epoll::Epoll;
use eventfd::EventFd;
use imbl::OrdMap;
use mqueue::MessageQueue;
use overheard::Overheard;
use pipe::Pipe;
use socket::Socket;
use std::collections::BTreeMap;
use syscalls::Errno;
use terminal::Terminal;
use timerfd::TimerFd;

/// The number of a pipe, socket, eventfd or timerfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub u32);

/// The number of an epoll set; shares its range with [`ChannelId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EpollId(pub u32);

/// What is kept of the other programs at the other ends of sockets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Outside {
    /// What peers are to be told when the call under way ends.
    pub(crate) outbox: Vec<Told>,
    /// The call under way may have changed what can come in.
    pub(crate) stale: bool,
    /// The program has looked for clients at a listening socket: from then on they are there.
    pub(crate) clients_awaited: bool,
    /// A client was accepted, or heard by datagram.
    pub(crate) clients_met: bool,
    pub(crate) arrivals: Arrivals,
    /// What a server outside says on one connection may depend on what it was told on others.
    pub(crate) servers_remember: bool,
    /// What peers have said and the program could not notice yet, by the socket that it is for.
    pub(crate) flights: OrdMap<ChannelId, Flight>,
}

/// All channels. A description of a kind keeps the object alive, so a look-up by a description's number does
/// not fail.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Channels {
    pub(crate) pipes: OrdMap<ChannelId, Pipe>,
    pub(crate) sockets: OrdMap<ChannelId, Socket>,
    pub(crate) eventfds: OrdMap<ChannelId, EventFd>,
    pub(crate) timerfds: OrdMap<ChannelId, TimerFd>,
    pub(crate) mqueues: OrdMap<ChannelId, MessageQueue>,
    pub(crate) terminals: OrdMap<ChannelId, Terminal>,
    /// Few, and all are walked at each change; each is itself cheap to clone.
    pub(crate) epolls: BTreeMap<EpollId, Epoll>,
    next: u32,
    pub(crate) outside: Outside,
    next_port: u16,
    /// What sockets say to each other.
    pub overheard: Overheard,
}

/// Where ports begin that the model chooses for sockets which nobody outside sees.
const FIRST_PORT: u16 = 45_000;

impl Channels {
    /// None yet.
    pub(crate) fn with(arrivals: Arrivals, servers_remember: bool) -> Self {
        Self {
            outside: Outside {
                arrivals,
                servers_remember,
                ..Outside::default()
            },
            ..Self::default()
        }
    }

    /// All sockets there are.
    pub fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.sockets.values()
    }

    /// All sockets there are, with their numbers.
    pub fn numbered_sockets(&self) -> impl Iterator<Item = (ChannelId, &Socket)> {
        self.sockets.iter().map(|(id, socket)| (*id, socket))
    }

    /// The connections on which other programs have said something that was not read, and whether it has arrived.
    pub fn unread(&self) -> impl Iterator<Item = (&Key, bool)> {
        let has_more = |id: &ChannelId| self.outside.flights.get(id).is_some_and(Flight::has_data);
        self.sockets.iter().filter_map(move |(id, socket)| {
            let key = socket.key()?;
            match socket.is_empty() {
                false => Some((key, true)),
                true => has_more(id).then_some((key, false)),
            }
        })
    }

    /// What peers have said and the program could not notice yet.
    pub fn flights(&self) -> &OrdMap<ChannelId, Flight> {
        &self.outside.flights
    }

    pub fn socket(&self, id: ChannelId) -> Option<&Socket> {
        self.sockets.get(&id)
    }

    /// A port for a socket of the program that asked for any.
    pub(crate) fn choose_port(&mut self) -> u16 {
        let port = FIRST_PORT + self.next_port % 10_000;
        self.next_port += 1;
        port
    }

    /// Another process comes in place: what it makes has numbers of its own.
    pub(crate) fn swap_next(&mut self, next: &mut u32) {
        std::mem::swap(&mut self.next, next);
    }

    fn has(&self, id: ChannelId) -> bool {
        self.pipes.contains_key(&id)
            || self.sockets.contains_key(&id)
            || self.eventfds.contains_key(&id)
            || self.timerfds.contains_key(&id)
            || self.terminals.contains_key(&id)
            || self.epolls.contains_key(&EpollId(id.0))
    }

    pub(crate) fn allocate(&mut self) -> ChannelId {
        self.next += 1;
        while self.has(ChannelId(self.next)) {
            self.next += 1;
        }
        ChannelId(self.next)
    }

    pub fn add_pipe(&mut self) -> ChannelId {
        let id = self.allocate();
        self.pipes.insert(id, Pipe::default());
        id
    }

    pub fn add_eventfd(&mut self, eventfd: EventFd) -> ChannelId {
        let id = self.allocate();
        self.eventfds.insert(id, eventfd);
        id
    }

    pub fn add_timerfd(&mut self, timer: TimerFd) -> ChannelId {
        let id = self.allocate();
        self.timerfds.insert(id, timer);
        id
    }

    pub fn add_message_queue(&mut self, queue: MessageQueue) -> ChannelId {
        let id = self.allocate();
        self.mqueues.insert(id, queue);
        id
    }

    pub fn add_socket(&mut self, socket: Socket) -> ChannelId {
        let id = self.allocate();
        self.sockets.insert(id, socket);
        id
    }

    pub fn add_epoll(&mut self) -> EpollId {
        let id = EpollId(self.allocate().0);
        self.epolls.insert(id, Epoll::default());
        id
    }

    /// Readiness; which signals a signalfd shows depends on who asks.
    pub fn poll(&self, model: &Model, tid: Option<Tid>, description: &Description) -> PollEvents {
        match &description.kind {
            Kind::PipeReader(id) => self.pipes.get(id).map_or(PollEvents::NVAL, Pipe::poll_reader),
            Kind::PipeWriter(id) => self.pipes.get(id).map_or(PollEvents::NVAL, Pipe::poll_writer),
            Kind::Socket(id) => socket::poll(model, *id),
            Kind::EventFd(id) => self.eventfds.get(id).map_or(PollEvents::NVAL, EventFd::poll),
            Kind::TimerFd(id) => {
                let now = model.clock.now();
                self.timerfds
                    .get(id)
                    .map_or(PollEvents::NVAL, |timer| timer.poll(now))
            }
            Kind::SignalFd(set) => signalfd::poll(model, tid, *set),
            Kind::PidFd(pid) => pidfd::poll(model, *pid),
            Kind::MessageQueue(id) => self.mqueues.get(id).map_or(PollEvents::NVAL, MessageQueue::poll),
            Kind::PtyMaster(_) | Kind::PtySlave(..) => pty::poll(model, &description.kind),
            Kind::Epoll(id) => epoll::poll(model, tid, *id),
            Kind::File(_) | Kind::Output(_) => PollEvents::empty(),
        }
    }

    /// The last reference to a description is gone.
    pub fn closed(model: &mut Model, id: OfdId, kind: Kind) {
        epoll::forget(model, id);
        match kind {
            Kind::PipeReader(pipe) | Kind::PipeWriter(pipe) => Self::closed_pipe(model, pipe, &kind),
            Kind::Socket(socket) => socket::close(model, socket),
            Kind::EventFd(eventfd) => drop(model.channels.eventfds.remove(&eventfd)),
            Kind::TimerFd(timer) => drop(model.channels.timerfds.remove(&timer)),
            Kind::Epoll(epoll) => drop(model.channels.epolls.remove(&epoll)),
            Kind::MessageQueue(queue) => mqueue::closed(model, queue),
            Kind::PtyMaster(_) | Kind::PtySlave(..) => pty::closed(model, &kind),
            Kind::SignalFd(_) | Kind::PidFd(_) | Kind::File(_) | Kind::Output(_) => {}
        }
    }

    fn closed_pipe(model: &mut Model, id: ChannelId, end: &Kind) {
        let Some(pipe) = model.channels.pipes.get_mut(&id) else {
            return;
        };
        let other = match end {
            Kind::PipeReader(_) => {
                pipe.reader_open = false;
                Kind::PipeWriter(id)
            }
            _ => {
                pipe.writer_open = false;
                Kind::PipeReader(id)
            }
        };
        if pipe.reader_open || pipe.writer_open {
            epoll::notify(model, &other, PollEvents::all());
        } else {
            model.channels.pipes.remove(&id);
        }
    }

    /// When time alone next makes a timer readable. A timer that is due already changes nothing by being due
    /// again, except for an edge-triggered watcher; so a periodic timer that nobody reads does not keep the
    /// clock going for ever.
    pub fn next_deadline(&self, now: Nanos) -> Option<Nanos> {
        self.next_deadline_of(now, |_| true)
    }

    /// As if no time had passed, for timers from which nothing is to be read.
    pub(crate) fn without_times(&mut self, now: Nanos) {
        let armed: Vec<ChannelId> = self.timerfds.keys().copied().collect();
        for id in armed {
            if let Some(timer) = self.timerfds.get_mut(&id) {
                timer.without_time(now);
            }
        }
    }

    /// When time alone next makes one of some timers readable.
    pub(crate) fn next_deadline_of(&self, now: Nanos, counts: impl Fn(ChannelId) -> bool) -> Option<Nanos> {
        let matters = |(id, timer): (&ChannelId, &TimerFd)| {
            let due = timer.expirations(now) > 0;
            let kind = Kind::TimerFd(*id);
            if !due || self.epolls.values().any(|epoll| epoll.watches_edges(&kind)) {
                timer.next(now)
            } else {
                None
            }
        };
        let timers = self.timerfds.iter().filter(|(id, _)| counts(**id));
        timers.filter_map(matters).min()
    }

    /// Would a write of `amount` (bytes, or for an eventfd the value) go through, at least in part, or fail
    /// at once?
    pub fn has_room(model: &Model, id: OfdId, amount: u64) -> bool {
        let Some(description) = model.files.get(id) else {
            return true;
        };
        let channels = &model.channels;
        match &description.kind {
            Kind::PipeWriter(id) => channels
                .pipes
                .get(id)
                .is_none_or(|pipe| !pipe.reader_open || pipe.has_room(amount as usize)),
            Kind::EventFd(id) => channels.eventfds.get(id).is_none_or(|fd| fd.has_room(amount)),
            Kind::Socket(id) => socket::has_room(model, *id),
            Kind::PtyMaster(_) | Kind::PtySlave(..) => {
                pty::poll(model, &description.kind).intersects(PollEvents::OUT | PollEvents::HUP)
            }
            _ => true,
        }
    }
}

/// A new description with a descriptor of its own.
pub fn install(model: &mut Model, kind: Kind, flags: i32, close_on_exec: bool) -> Result<i32, Errno> {
    let id = model.files.describe(kind, flags);
    let installed = model.files.install(id, 0, close_on_exec);
    if installed.is_err() {
        // No descriptor is free: the description and its channel go again.
        model.files.retain(id);
        model.release(id);
    }
    installed
}
