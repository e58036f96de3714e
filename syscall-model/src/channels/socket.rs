//! Sockets: one object per end. A socket pair is two of them that name each other as peer.
//!
//! Data waits at the receiver, so that what a call touches is clear: a send touches the peer, a receive the
//! socket itself. A stream is one run of bytes, cut only where descriptors travel along (`SCM_RIGHTS`);
//! datagrams and sequenced packets stay apart. The send buffer of a socket is what its peer has not read.
//!
//! What every socket has is in [`Socket`]; what it is just now, and what only such a socket has, is its [`State`]. A socket whose other end is another program's
//! is [`State::Remote`]: what it sends goes to the outbox, what it is sent is put into its inbox by [`mirror`](crate::net::mirror). Sending, receiving and
//! closing are in `transfer`; addresses and listening are in [`named`](super::named).

mod inbox;
mod state;
mod transfer;

pub use state::{Datagrams, Listening, Local, Remote, State};
pub(super) use transfer::send_locally;
pub use transfer::{close, disconnect, receive, reset, send, shutdown};
pub(crate) use transfer::{deliver_answer, deliver_datagram, resumed};

use super::{ChannelId, epoll};
use crate::clock::Nanos;
use crate::faults::Mishap;
use crate::fd::{Kind, OfdId, PollEvents};
use crate::fs::Ino;
use crate::model::Model;
use crate::net::{Endpoint, Key, flight};
use crate::process::Credentials;
use crate::residents::Peer;
use imbl::OrdMap;
use inbox::Inbox;
use syscalls::Errno;

/// `net.core.wmem_default` and `rmem_default`.
pub const DEFAULT_BUFFER: usize = 212_992;
/// What a TCP connection takes while nobody reads at its other end: about `tcp_wmem[2]`, to which the kernel lets the send buffer grow, and the receiver's part of it.
const TCP_WINDOW: usize = 4 << 20;
/// What a receiver that never reads lets come in of that: half of `tcp_rmem[1]`.
const TCP_RECEIVED: usize = 65_536;

pub(crate) const READABLE: PollEvents = PollEvents::IN.union(PollEvents::RDNORM);
const WRITABLE: PollEvents = PollEvents::OUT
    .union(PollEvents::WRNORM)
    .union(PollEvents::WRBAND);

/// `SOCK_STREAM`, `SOCK_DGRAM` or `SOCK_SEQPACKET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Style {
    Stream,
    Datagram,
    SeqPacket,
}

impl Style {
    pub fn from_type(kind: i32) -> Option<Self> {
        match kind {
            libc::SOCK_STREAM => Some(Style::Stream),
            // `AF_UNIX` takes raw for datagram.
            libc::SOCK_DGRAM | libc::SOCK_RAW => Some(Style::Datagram),
            libc::SOCK_SEQPACKET => Some(Style::SeqPacket),
            _ => None,
        }
    }

    pub fn to_type(self) -> i32 {
        match self {
            Style::Stream => libc::SOCK_STREAM,
            Style::Datagram => libc::SOCK_DGRAM,
            Style::SeqPacket => libc::SOCK_SEQPACKET,
        }
    }
}

/// `SO_…` as set by the program. What has no effect in the model is kept to be read back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    pub send_buffer: usize,
    pub receive_buffer: usize,
    pub send_timeout: Option<Nanos>,
    pub receive_timeout: Option<Nanos>,
    pub receive_low_water: usize,
    pub pass_credentials: bool,
    pub plain: OrdMap<(i32, i32), Vec<u8>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            send_buffer: DEFAULT_BUFFER,
            receive_buffer: DEFAULT_BUFFER,
            send_timeout: None,
            receive_timeout: None,
            receive_low_water: 1,
            pass_credentials: false,
            plain: OrdMap::new(),
        }
    }
}

/// The socket's own address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Binding {
    pub name: Option<Endpoint>,
    /// The name as it was given, if that may be another: a path.
    pub given: Option<Endpoint>,
    /// The file that it is bound to. It may have another name by now, or none.
    pub file: Option<Ino>,
}

/// Which directions are shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Shut {
    pub read: bool,
    pub write: bool,
}

impl Shut {
    pub const BOTH: Self = Self {
        read: true,
        write: true,
    };

    pub fn is_both(self) -> bool {
        self == Self::BOTH
    }
}

/// What every socket has, and its state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Socket {
    pub family: i32,
    pub style: Style,
    /// The peer in the model whose socket it is; none if it is the program's.
    pub of: Option<Peer>,
    pub options: Options,
    pub binding: Binding,
    pub state: State,
    pub shut: Shut,
    /// `SO_ERROR`: told once.
    pub error: Option<Errno>,
    /// `SO_PEERCRED` of a Unix socket: the process at the other end when they were connected. A listening one has its own.
    pub peer_credentials: Option<Credentials>,
    inbox: Inbox,
}

/// What a receive got. The rights carry a reference each, which the caller must install or release.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Received {
    pub data: Vec<u8>,
    pub rights: Vec<OfdId>,
    /// The record's own length, for `MSG_TRUNC`.
    pub full_len: usize,
    /// End of file rather than an empty record: nothing more is to come.
    pub end: bool,
    /// Who sent it, where that is said.
    pub from: Option<Endpoint>,
}

impl Received {
    /// Nothing more is to come.
    pub(crate) fn end() -> Self {
        Self {
            end: true,
            ..Self::default()
        }
    }
}

impl Socket {
    /// A socket as `socket` makes it.
    pub fn new(family: i32, style: Style) -> Self {
        let state = match (family, style) {
            (libc::AF_NETLINK, _) => State::Netlink(None),
            (libc::AF_INET | libc::AF_INET6, Style::Datagram) => State::Datagrams(Datagrams::default()),
            _ => State::Unconnected,
        };
        Self::in_state(family, style, state)
    }

    /// One end of a connection that is made together with it.
    pub(super) fn in_state(family: i32, style: Style, state: State) -> Self {
        Self {
            family,
            style,
            of: None,
            options: Options::default(),
            binding: Binding::default(),
            state,
            shut: Shut::default(),
            error: None,
            peer_credentials: None,
            inbox: Inbox::default(),
        }
    }

    /// Clients that are not known yet may come here: by connecting, or with a first datagram. (A datagram socket that is connected hears only from where it is connected to.)
    pub fn is_open_to_clients(&self) -> bool {
        match &self.state {
            State::Listening(_) => true,
            State::Datagrams(datagrams) => datagrams.serves && datagrams.remote.is_none(),
            _ => false,
        }
    }

    /// Is a client at the other end?
    pub fn is_of_client(&self) -> bool {
        let key = match &self.state {
            State::Local(local) => local.key.as_ref(),
            _ => self.key(),
        };
        matches!(key, Some(Key::Accepted(..)))
    }

    /// Its address, by which others find it.
    pub fn name(&self) -> Option<&Endpoint> {
        self.binding.name.as_ref()
    }

    /// The name that the program sees.
    pub fn shown_name(&self) -> Option<&Endpoint> {
        self.binding.given.as_ref().or(self.name())
    }

    /// Of the Internet, not a Unix or a netlink socket.
    pub fn is_inet(&self) -> bool {
        matches!(self.family, libc::AF_INET | libc::AF_INET6)
    }

    /// `SO_LINGER` of no time at all: a close is a reset.
    pub(crate) fn lingers_not(&self) -> bool {
        let linger = self.options.plain.get(&(libc::SOL_SOCKET, libc::SO_LINGER));
        linger.is_some_and(|linger| linger.len() == 8 && linger[..4] != [0; 4] && linger[4..] == [0; 4])
    }

    /// How much more may come in.
    pub(crate) fn room(&self) -> usize {
        self.options.receive_buffer.saturating_sub(self.inbox.charged())
    }

    /// How much may be under way to whoever is at the other end.
    fn window(&self) -> usize {
        match self.is_tcp_to_another() {
            true if self.options.send_buffer == DEFAULT_BUFFER => TCP_WINDOW,
            true => self.options.send_buffer + TCP_RECEIVED,
            false => self.options.send_buffer,
        }
    }

    /// Is it a connection over the Internet to another program, be that outside or in the model?
    fn is_tcp_to_another(&self) -> bool {
        self.is_inet() && (self.crosses() || self.remote().is_some())
    }

    pub fn connection_based(&self) -> bool {
        self.style != Style::Datagram
    }

    /// `SIOCINQ`: all bytes of a stream or packet socket, the next datagram.
    pub fn available(&self) -> usize {
        match self.style {
            Style::Datagram => self.inbox.next_len(),
            _ => self.inbox.len(),
        }
    }

    /// The name at which others could reach this socket by datagrams or packets, if it is a Unix socket that is not connected.
    pub fn packets_come_to(&self) -> Option<(String, Style)> {
        let may_come = match self.style {
            Style::Stream => false,
            Style::Datagram => !self.is_connected(),
            Style::SeqPacket => self.is_listening(),
        };
        match self.binding.given.as_ref().or(self.binding.name.as_ref()) {
            Some(name @ Endpoint::Unix(_)) if may_come => Some((name.to_string(), self.style)),
            _ => None,
        }
    }

    /// Bytes of a stream that were taken have found no place: they stay.
    pub(crate) fn put_back(&mut self, data: &[u8], rights: Vec<OfdId>) {
        self.inbox.put_back(data, rights);
    }

    /// Has nothing come in that was not taken?
    pub(crate) fn is_empty(&self) -> bool {
        self.inbox.count() == 0
    }

    /// Who sent each of the messages that wait, in their order.
    pub fn waiting_from(&self) -> Vec<Option<&Endpoint>> {
        self.inbox.senders().collect()
    }

    pub fn take_error(&mut self) -> Result<(), Errno> {
        self.error.take().map_or(Ok(()), Err)
    }

    pub(crate) fn deliver(&mut self, data: &[u8], rights: Vec<OfdId>) {
        self.inbox.deliver(self.style, data, rights, None);
    }

    /// How many messages wait.
    pub(crate) fn waiting(&self) -> usize {
        self.inbox.count()
    }

    /// The last `count` datagrams that came have not come.
    pub(crate) fn lose_newest(&mut self, count: usize) {
        self.inbox.lose_newest(self.style, count);
    }

    /// The last `count` datagrams that came come again.
    pub(crate) fn repeat_newest(&mut self, count: usize) {
        self.inbox.repeat_newest(self.style, count);
    }

    /// The last `count` datagrams that came go before those that waited.
    pub(crate) fn advance_newest(&mut self, count: usize) {
        self.inbox.advance_newest(count);
    }

    /// Something happens to the datagram at this place among those that wait.
    pub(crate) fn mishap(&mut self, place: usize, mishap: Mishap) {
        self.inbox.mishap(self.style, place, mishap);
    }
}

pub(super) fn socket(model: &Model, id: ChannelId) -> &Socket {
    let sockets = &model.channels.sockets;
    sockets.get(&id).unwrap_or_else(|| panic!("no socket {}", id.0))
}

pub(super) fn socket_mut(model: &mut Model, id: ChannelId) -> &mut Socket {
    let sockets = &mut model.channels.sockets;
    sockets
        .get_mut(&id)
        .unwrap_or_else(|| panic!("no socket {}", id.0))
}

/// The peer, unless there never was one or it is closed.
pub(crate) fn live_peer(model: &Model, id: ChannelId) -> Option<(ChannelId, &Socket)> {
    let peer = socket(model, id).peer()?;
    Some((peer, model.channels.sockets.get(&peer)?))
}

/// Bytes that the peer has not read.
fn in_flight(model: &Model, this: &Socket) -> usize {
    if let Some(remote) = this.remote() {
        return remote.unread;
    }
    let peer = this.peer().and_then(|peer| model.channels.sockets.get(&peer));
    peer.map_or(0, |peer| peer.inbox.charged())
}

/// `SIOCOUTQ`. What the kernel at the other end has received does not count for TCP.
pub fn unread_by_peer(model: &Model, id: ChannelId) -> usize {
    let this = socket(model, id);
    match this.is_tcp_to_another() {
        true => in_flight(model, this).saturating_sub(TCP_RECEIVED),
        false => in_flight(model, this),
    }
}

/// Can a send go on, once it has found no room? That is later than the first free byte.
fn is_writable(model: &Model, this: &Socket) -> bool {
    let in_flight = in_flight(model, this);
    match this.is_tcp_to_another() {
        // TCP is, when a third of its buffer is free; all others, when a quarter is in use at most.
        true => in_flight <= this.window() / 3 * 2,
        false => in_flight * 4 <= this.window(),
    }
}

/// Another program that does not read what this socket has sent it, and how much that is.
pub fn reluctant_reader(model: &Model, id: ChannelId) -> Option<(&Key, usize)> {
    let this = model.channels.sockets.get(&id)?;
    let remote = this.remote().filter(|_| !is_writable(model, this))?;
    Some((&remote.key, remote.unread))
}

/// So much of what it was sent the other program has left unread; true if anybody can tell the difference.
pub(crate) fn set_unread_there(model: &mut Model, id: ChannelId, unread: usize) -> bool {
    let Some(remote) = model.channels.sockets.get(&id).and_then(Socket::remote) else {
        return false;
    };
    let (is_full, is_news) = (remote.is_full, remote.unread != unread);
    // A map that is changed is copied first.
    if is_news && let Some(remote) = socket_mut(model, id).remote_mut() {
        remote.unread = unread;
    }
    let has_room_again = is_full && is_writable(model, socket(model, id));
    if has_room_again {
        if let Some(remote) = socket_mut(model, id).remote_mut() {
            remote.is_full = false;
        }
        epoll::notify(model, &Kind::Socket(id), WRITABLE);
    }
    is_news || has_room_again
}

/// Would a send go through, at least in part? Also true when it would fail at once.
pub fn has_room(model: &Model, id: ChannelId) -> bool {
    let this = socket(model, id);
    this.shut.write || this.error.is_some() || this.is_connecting() || in_flight(model, this) < this.window()
}

pub fn poll(model: &Model, id: ChannelId) -> PollEvents {
    let this = socket(model, id);
    let mut events = PollEvents::empty();
    if let State::Listening(listening) = &this.state {
        let waits = listening.client_waits || !listening.backlog.is_empty() || flight::has_arrived(model, id);
        // A Unix socket has two halves that can be shut, even if nothing was ever sent. Of a TCP socket that was shut before it listened nobody asks.
        if this.is_inet() {
            events.set(READABLE, waits);
            return events;
        }
        events.set(READABLE, waits || this.shut.read);
        events.set(PollEvents::RDHUP, this.shut.read);
        events.set(PollEvents::HUP, this.shut.is_both());
        return events;
    }
    if this.is_connecting() {
        return events;
    }
    events.set(PollEvents::ERR, this.error.is_some());
    events.set(PollEvents::HUP, this.shut.is_both());
    events.set(PollEvents::RDHUP, this.shut.read);
    let is_there = !this.is_empty() || flight::has_arrived(model, id);
    events.set(READABLE, this.shut.read || is_there);
    if this.connection_based() && !this.is_connected() {
        events |= PollEvents::HUP;
    }
    events.set(WRITABLE, is_writable(model, this));
    if this.is_inet() && this.style == Style::Stream {
        events -= PollEvents::WRBAND;
    }
    events
}

/// Is another program, or the wish for one, at the other end?
pub(crate) fn is_networked(model: &Model, id: ChannelId) -> bool {
    let socket = model.channels.sockets.get(&id);
    socket.is_some_and(|s| s.is_listening() || s.remote().is_some() || s.datagrams().is_some())
}

/// Two connected sockets.
pub fn pair(model: &mut Model, style: Style) -> (ChannelId, ChannelId) {
    let own = model.process.credentials();
    let (one, two) = (model.channels.allocate(), model.channels.allocate());
    for (id, peer) in [(one, two), (two, one)] {
        let state = State::Local(Local::to(peer, None));
        let mut socket = Socket::in_state(libc::AF_UNIX, style, state);
        socket.peer_credentials = Some(own);
        socket.of = model.process.peer;
        model.channels.sockets.insert(id, socket);
    }
    (one, two)
}
