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
pub mod named;
pub mod netlink;
pub mod pipe;
pub mod signalfd;
pub mod socket;
pub mod timerfd;

#[cfg(test)]
mod tests;

pub use control::{ioctl, pipe_size, set_pipe_size, stat_kind};
pub use io::{prepare_read, prepare_write, read, read_some, write, write_some};

use crate::clock::Nanos;
use crate::fd::{Description, Kind, OfdId, PollEvents};
use crate::model::Model;
use crate::net::Key;
use crate::net::mirror::Told;
use crate::object::{Access, Object, Touch};
use crate::thread::Tid;
use epoll::Epoll;
use eventfd::EventFd;
use imbl::OrdMap;
use pipe::Pipe;
use socket::Socket;
use std::collections::BTreeMap;
use syscalls::Errno;
use timerfd::TimerFd;

/// The number of a pipe, socket, eventfd or timerfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub u32);

/// The number of an epoll set; shares its range with [`ChannelId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EpollId(pub u32);

/// All channels. A description of a kind keeps the object alive, so a look-up by a description's number does
/// not fail.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Channels {
    pub(crate) pipes: OrdMap<ChannelId, Pipe>,
    pub(crate) sockets: OrdMap<ChannelId, Socket>,
    pub(crate) eventfds: OrdMap<ChannelId, EventFd>,
    pub(crate) timerfds: OrdMap<ChannelId, TimerFd>,
    /// Few, and all are walked at each change; each is itself cheap to clone.
    pub(crate) epolls: BTreeMap<EpollId, Epoll>,
    next: u32,
    /// What peers are to be told when the call under way ends.
    pub(crate) outbox: Vec<Told>,
    /// The call under way may have changed what can come in.
    pub(crate) stale: bool,
    /// The program has looked for clients at a listening socket: from then on they are there.
    pub(crate) clients_awaited: bool,
    next_port: u16,
}

/// Where ports begin that the model chooses for sockets which nobody outside sees.
const FIRST_PORT: u16 = 45_000;

impl Channels {
    /// All sockets there are.
    pub fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.sockets.values()
    }

    /// A port for a socket of the program that asked for any.
    pub(crate) fn choose_port(&mut self) -> u16 {
        let port = FIRST_PORT + self.next_port % 10_000;
        self.next_port += 1;
        port
    }

    pub(crate) fn allocate(&mut self) -> ChannelId {
        self.next += 1;
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
            Kind::SignalFd(_) | Kind::File(_) | Kind::Output(_) => {}
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
        let matters = |(id, timer): (&ChannelId, &TimerFd)| {
            let due = timer.expirations(now) > 0;
            let kind = Kind::TimerFd(*id);
            if !due || self.epolls.values().any(|epoll| epoll.watches_edges(&kind)) {
                timer.next(now)
            } else {
                None
            }
        };
        self.timerfds.iter().filter_map(matters).min()
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

/// What an operation does to a description, for [`touches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Looks at its readiness.
    Poll,
    /// Takes data out.
    Read,
    /// Puts data in.
    Write,
    /// Closes it, shuts it down, arms it.
    Change,
}

/// What an operation on a description touches: the channel, its peer, and every epoll set whose ready list
/// changes with it.
pub fn touches(model: &Model, id: OfdId, how: Use) -> Vec<Touch> {
    let mut out = vec![Touch::read(Object::Description(id))];
    if let Some(description) = model.files.get(id) {
        touch_kind(model, &description.kind, how, &mut out);
    }
    out
}

fn touch_kind(model: &Model, kind: &Kind, how: Use, out: &mut Vec<Touch>) {
    let access = if how == Use::Poll {
        Access::Read
    } else {
        Access::Write
    };
    let mut touch = |id: u32, access| out.push(Touch::new(Object::Channel(id), access));
    let mut ends = vec![kind.clone()];
    match kind {
        Kind::PipeReader(id) | Kind::PipeWriter(id) => {
            touch(id.0, access);
            ends = vec![Kind::PipeReader(*id), Kind::PipeWriter(*id)];
        }
        Kind::EventFd(id) => touch(id.0, access),
        Kind::TimerFd(id) => {
            touch(id.0, access);
            out.push(Touch::read(Object::Clock));
        }
        Kind::Socket(id) if socket::is_networked(model, *id) => {
            touch_network(model, *id, how, &mut ends, out);
        }
        Kind::Socket(id) => {
            let socket = model.channels.sockets.get(id);
            let stream = socket.is_some_and(|s| s.style == socket::Style::Stream);
            // Data waits at the receiver: the two directions of a stream are independent.
            let own = if how == Use::Write && stream {
                Access::Read
            } else {
                access
            };
            touch(id.0, own);
            if let Some(peer) = socket.and_then(Socket::peer) {
                touch(peer.0, if how == Use::Read { Access::Read } else { access });
                ends.push(Kind::Socket(peer));
            }
        }
        Kind::SignalFd(_) => out.push(Touch::new(Object::Process, access)),
        Kind::Epoll(id) => {
            touch(id.0, access);
            if let Some(epoll) = model.channels.epolls.get(id) {
                for description in epoll.descriptions() {
                    out.extend(touches(model, description, Use::Poll));
                }
            }
        }
        Kind::File(_) | Kind::Output(_) => {}
    }
    if how != Use::Poll {
        let watching = model.channels.epolls.iter();
        let watching = watching.filter(|(_, epoll)| ends.iter().any(|end| epoll.watches(end)));
        let if_answered = says_to_a_stream(model, kind, how);
        out.extend(watching.map(|(id, _)| Touch {
            if_answered,
            ..Touch::write(Object::Channel(id.0))
        }));
    }
}

/// Is it a write to a stream at whose other end is another program?
fn says_to_a_stream(model: &Model, kind: &Kind, how: Use) -> bool {
    let Kind::Socket(id) = kind else { return false };
    let socket = model.channels.sockets.get(id);
    how == Use::Write && socket.is_some_and(|s| matches!(s.link, socket::Link::Peer(_)))
}

/// Operations on sockets that peers are at the other end of. What is written may be answered at once, so a write changes
/// what can be read; and a client that is told something may answer on another of its connections, or open a new one. But a peer that is told something and says
/// nothing leaves all that can be read as it was: then the write is in no reader's way.
fn touch_network(model: &Model, id: ChannelId, how: Use, ends: &mut Vec<Kind>, out: &mut Vec<Touch>) {
    let Some(socket) = model.channels.sockets.get(&id) else {
        return;
    };
    let access = match how {
        Use::Poll => Access::Read,
        Use::Read | Use::Write | Use::Change => Access::Write,
    };
    let if_answered = says_to_a_stream(model, &Kind::Socket(id), how);
    let says = matches!(how, Use::Write | Use::Change);
    out.push(Touch {
        if_answered,
        ..Touch::new(Object::Channel(id.0), access)
    });
    if says {
        out.push(Touch::write(Object::Said(id.0)));
    }
    if socket.listening.is_some() || socket.serves {
        out.push(Touch::write(Object::Clients));
    }
    if socket.serves && how != Use::Poll {
        // Whoever is answered may go on here or anywhere else.
        let others = model.channels.sockets.iter();
        let others = others.filter(|(_, other)| other.client.is_some() || other.is_open_to_clients());
        ends.extend(others.map(|(id, _)| Kind::Socket(*id)));
    }
    if let Some(client) = socket.client {
        let access = if says { Access::Write } else { Access::Read };
        out.push(Touch {
            if_answered,
            ..Touch::new(Object::Client(client), access)
        });
        if says {
            out.push(Touch::write(Object::Told(client)));
            // Only accepting minds the order of what different clients are told.
            out.push(Touch::read(Object::Clients));
            let others = model.channels.sockets.iter();
            let others =
                others.filter(|(_, other)| other.client == Some(client) || other.is_open_to_clients());
            ends.extend(others.map(|(id, _)| Kind::Socket(*id)));
        }
    }
    let opened = |key: &Key| match key {
        Key::Opened(to, _) => Some(to.as_ref().clone()),
        Key::Accepted(_) => None,
    };
    // The how-manieth connection to a destination this is matters to the next one.
    if how == Use::Write
        && socket.style == socket::Style::Datagram
        && let Some(to) = socket
            .remote
            .clone()
            .or_else(|| socket.correspondents.values().find_map(opened))
    {
        out.push(Touch::write(Object::Destination(to)));
    }
}
