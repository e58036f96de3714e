//! Sockets: one object per end. A socket pair is two of them that name each other as peer.
//!
//! Data waits at the receiver, so that what a call touches is clear: a send touches the peer, a receive the
//! socket itself. A stream is one run of bytes, cut only where descriptors travel along (`SCM_RIGHTS`);
//! datagrams and sequenced packets stay apart. The send buffer of a socket is what its peer has not read.
//!
//! A socket whose other end is another program's has [`Link::Peer`]: what it sends goes to the outbox, what it is sent is
//! put into its queue by [`mirror`](crate::net::mirror). Sending, receiving and closing are in `transfer`; addresses and listening are in [`named`](super::named).

mod transfer;

pub use transfer::{close, disconnect, receive, reset, send, shutdown};
pub(crate) use transfer::{deliver_answer, deliver_datagram};
pub(super) use transfer::{send_locally, send_to_peer};

use super::bytes::ByteQueue;
use super::{ChannelId, epoll};
use crate::clock::Nanos;
use crate::faults::Mishap;
use crate::fd::{Kind, OfdId, PollEvents};
use crate::fs::Ino;
use crate::model::Model;
use crate::net::{Endpoint, Key, flight};
use crate::process::Credentials;
use crate::residents::Peer;
use imbl::{OrdMap, OrdSet, Vector};
use syscalls::Errno;

/// `net.core.wmem_default` and `rmem_default`.
pub const DEFAULT_BUFFER: usize = 212_992;
/// What a TCP connection takes while nobody reads at its other end: about `tcp_wmem[2]`, to which the kernel lets the send buffer grow, and the receiver's part of it.
const TCP_WINDOW: usize = 4 << 20;
/// What a receiver that never reads lets come in of that: half of `tcp_rmem[1]`.
const TCP_RECEIVED: usize = 65_536;
/// What the kernel charges for a small message on top of its bytes.
const RECORD_OVERHEAD: usize = 768;

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

/// What a socket is connected to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    Unconnected,
    /// Another socket of the program, which may be closed by now.
    Local(ChannelId),
    /// Another program.
    Peer(Key),
}

/// What makes a socket a listening one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Listening {
    /// The accepting ends of connections that the program has made to itself.
    pub backlog: Vector<ChannelId>,
    /// A client wants to be accepted.
    pub client_waits: bool,
}

/// A record, or a run of stream bytes with the descriptors that came with its first byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Message {
    bytes: ByteQueue,
    rights: Vec<OfdId>,
    /// Who sent a datagram.
    from: Option<Endpoint>,
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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Socket {
    pub family: i32,
    pub style: Style,
    pub link: Link,
    incoming: Vector<Message>,
    /// What `incoming` counts for in the sender's buffer.
    charged: usize,
    /// Bytes that another program at the other end was sent and has not read.
    unread_there: usize,
    /// A send has found no room, or not enough: whoever waits for the next edge is told when there is.
    is_full: bool,
    pub read_shut: bool,
    /// The server at the other end has other connections of the program to attend to first.
    pub held: bool,
    /// Another program at the other end says no more.
    pub ended: bool,
    pub write_shut: bool,
    /// `SO_ERROR`: told once.
    pub error: Option<Errno>,
    pub options: Options,
    pub name: Option<Endpoint>,
    /// The name as it was given, if that may be another: a path.
    pub given: Option<Endpoint>,
    /// The file that it is bound to. It may have another name by now, or none.
    pub file: Option<Ino>,
    pub remote: Option<Endpoint>,
    pub listening: Option<Listening>,
    /// A non-blocking connect is under way.
    pub connecting: bool,
    /// A non-blocking connect went through and the program has not been told yet.
    pub connect_succeeded: bool,
    /// The client process at the other end.
    pub client: Option<u32>,
    /// The peers that a datagram socket has sent to, or heard from.
    pub correspondents: OrdMap<Endpoint, Key>,
    /// A datagram socket at an address where clients may write to it.
    pub serves: bool,
    /// The clients of which such a socket was handed something.
    pub heard: OrdSet<Endpoint>,
    /// The name of a netlink socket.
    pub netlink_port: Option<u32>,
    /// The peer in the model whose socket it is; none if it is the program's.
    pub of: Option<Peer>,
    /// The name of a connection to a peer in the model, at the program's end.
    pub key: Option<Key>,
    /// The other end is in the model and another program's, a peer's or the program's.
    pub crosses: bool,
    /// `SO_PEERCRED` of a Unix socket: the process at the other end when they were connected. A listening one has its own.
    pub peer: Option<Credentials>,
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
    fn end() -> Self {
        Self {
            end: true,
            ..Self::default()
        }
    }
}

impl Socket {
    pub fn new(family: i32, style: Style, link: Link) -> Self {
        Self {
            family,
            style,
            link,
            incoming: Vector::new(),
            charged: 0,
            unread_there: 0,
            is_full: false,
            read_shut: false,
            ended: false,
            held: false,
            write_shut: false,
            error: None,
            options: Options {
                send_buffer: DEFAULT_BUFFER,
                receive_buffer: DEFAULT_BUFFER,
                send_timeout: None,
                receive_timeout: None,
                receive_low_water: 1,
                pass_credentials: false,
                plain: OrdMap::new(),
            },
            name: None,
            given: None,
            file: None,
            remote: None,
            listening: None,
            connecting: false,
            connect_succeeded: false,
            client: None,
            correspondents: OrdMap::new(),
            serves: false,
            heard: OrdSet::new(),
            netlink_port: None,
            of: None,
            key: None,
            crosses: false,
            peer: None,
        }
    }

    /// Clients that are not known yet may come here: by connecting, or with a first datagram. (A datagram socket that is connected hears only from where it is connected to.)
    pub fn is_open_to_clients(&self) -> bool {
        self.listening.is_some() || self.serves && self.remote.is_none()
    }

    /// Is a client at the other end?
    pub fn is_of_client(&self) -> bool {
        self.client.is_some() || matches!(self.key, Some(Key::Accepted(..)))
    }

    /// The name that the program sees.
    pub fn shown_name(&self) -> Option<&Endpoint> {
        self.given.as_ref().or(self.name.as_ref())
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
        self.options.receive_buffer.saturating_sub(self.charged)
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
        self.is_inet() && (self.crosses || matches!(self.link, Link::Peer(_)))
    }

    pub fn peer(&self) -> Option<ChannelId> {
        match self.link {
            Link::Unconnected | Link::Peer(_) => None,
            Link::Local(peer) => Some(peer),
        }
    }

    pub fn connection_based(&self) -> bool {
        self.style != Style::Datagram
    }

    /// `SIOCINQ`: all bytes of a stream or packet socket, the next datagram.
    pub fn available(&self) -> usize {
        match self.style {
            Style::Datagram => self.incoming.front().map_or(0, |m| m.bytes.len()),
            _ => self.incoming.iter().map(|m| m.bytes.len()).sum(),
        }
    }

    /// Has nothing come in that was not taken?
    pub(crate) fn is_empty(&self) -> bool {
        self.incoming.is_empty()
    }

    /// Who sent each of the messages that wait, in their order.
    pub fn waiting_from(&self) -> Vec<Option<&Endpoint>> {
        self.incoming
            .iter()
            .map(|message| message.from.as_ref())
            .collect()
    }

    pub fn take_error(&mut self) -> Result<(), Errno> {
        self.error.take().map_or(Ok(()), Err)
    }

    fn charge(&self, len: usize) -> usize {
        match self.style {
            Style::Stream => len,
            _ => len + RECORD_OVERHEAD,
        }
    }

    pub(crate) fn deliver(&mut self, data: &[u8], rights: Vec<OfdId>) {
        self.deliver_from(data, rights, None);
    }

    pub(super) fn deliver_from(&mut self, data: &[u8], rights: Vec<OfdId>, from: Option<Endpoint>) {
        self.charged += self.charge(data.len());
        let merge = self.style == Style::Stream && rights.is_empty();
        if merge
            && let Some(last) = self.incoming.back_mut()
            && last.rights.is_empty()
        {
            last.bytes.push(data);
            return;
        }
        let mut message = Message {
            rights,
            from,
            ..Message::default()
        };
        message.bytes.push(data);
        self.incoming.push_back(message);
    }

    /// Takes stream bytes up to and including the first run that carries descriptors.
    fn take_stream(&mut self, max: usize) -> Received {
        let mut got = Received::default();
        while got.rights.is_empty()
            && got.data.len() < max
            && let Some(mut first) = self.incoming.pop_front()
        {
            got.data.extend(first.bytes.take(max - got.data.len()));
            got.rights = std::mem::take(&mut first.rights);
            if !first.bytes.is_empty() {
                self.incoming.push_front(first);
            }
        }
        self.charged -= got.data.len();
        got.full_len = got.data.len();
        got
    }

    /// How many messages wait.
    pub(crate) fn waiting(&self) -> usize {
        self.incoming.len()
    }

    /// The last `count` datagrams that came have not come.
    pub(crate) fn lose_newest(&mut self, count: usize) {
        for message in self.incoming.split_off(self.incoming.len() - count) {
            self.charged -= self.charge(message.bytes.len());
        }
    }

    /// The last `count` datagrams that came come again.
    pub(crate) fn repeat_newest(&mut self, count: usize) {
        let newest = self.incoming.skip(self.incoming.len() - count);
        for message in newest {
            self.charged += self.charge(message.bytes.len());
            self.incoming.push_back(message);
        }
    }

    /// The last `count` datagrams that came go before those that waited.
    pub(crate) fn advance_newest(&mut self, count: usize) {
        let mut newest = self.incoming.split_off(self.incoming.len() - count);
        newest.append(std::mem::take(&mut self.incoming));
        self.incoming = newest;
    }

    /// Something happens to the datagram at this place among those that wait.
    pub(crate) fn mishap(&mut self, place: usize, mishap: Mishap) {
        mishap.befall(&mut self.incoming, place);
        let sizes = self.incoming.iter().map(|message| message.bytes.len());
        self.charged = sizes.map(|size| self.charge(size)).sum();
    }

    fn take_record(&mut self, max: usize) -> Received {
        let mut message = self.incoming.pop_front().unwrap_or_default();
        let full_len = message.bytes.len();
        self.charged -= self.charge(full_len);
        Received {
            data: message.bytes.take(max),
            rights: message.rights,
            full_len,
            end: false,
            from: message.from,
        }
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
    if matches!(this.link, Link::Peer(_)) {
        return this.unread_there;
    }
    let peer = this.peer().and_then(|peer| model.channels.sockets.get(&peer));
    peer.map_or(0, |peer| peer.charged)
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
    match &this.link {
        Link::Peer(key) if !is_writable(model, this) => Some((key, this.unread_there)),
        _ => None,
    }
}

/// So much of what it was sent the other program has left unread; true if anybody can tell the difference.
pub(crate) fn set_unread_there(model: &mut Model, id: ChannelId, unread: usize) -> bool {
    let Some(this) = model.channels.sockets.get(&id) else {
        return false;
    };
    let (is_full, is_news) = (this.is_full, this.unread_there != unread);
    // A map that is changed is copied first.
    if is_news {
        socket_mut(model, id).unread_there = unread;
    }
    let has_room_again = is_full && is_writable(model, socket(model, id));
    if has_room_again {
        socket_mut(model, id).is_full = false;
        epoll::notify(model, &Kind::Socket(id), WRITABLE);
    }
    is_news || has_room_again
}

/// Would a send go through, at least in part? Also true when it would fail at once.
pub fn has_room(model: &Model, id: ChannelId) -> bool {
    let this = socket(model, id);
    this.write_shut || this.error.is_some() || this.connecting || in_flight(model, this) < this.window()
}

pub fn poll(model: &Model, id: ChannelId) -> PollEvents {
    let this = socket(model, id);
    let mut events = PollEvents::empty();
    if let Some(listening) = &this.listening {
        // Shut for reading, a TCP listener is a socket that was never connected.
        if this.read_shut && this.is_inet() {
            return PollEvents::HUP | PollEvents::OUT | PollEvents::WRNORM;
        }
        let waits = listening.client_waits || !listening.backlog.is_empty() || flight::has_arrived(model, id);
        events.set(READABLE, waits || this.read_shut);
        // A Unix socket has two halves that can be shut, even if nothing was ever sent.
        events.set(PollEvents::RDHUP, this.read_shut);
        events.set(PollEvents::HUP, this.read_shut && this.write_shut);
        return events;
    }
    if this.connecting {
        return events;
    }
    events.set(PollEvents::ERR, this.error.is_some());
    events.set(PollEvents::HUP, this.read_shut && this.write_shut);
    events.set(PollEvents::RDHUP, this.read_shut);
    let is_there = !this.incoming.is_empty() || flight::has_arrived(model, id);
    events.set(READABLE, this.read_shut || is_there);
    if this.connection_based() && this.link == Link::Unconnected {
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
    socket.is_some_and(|s| {
        s.listening.is_some() || matches!(s.link, Link::Peer(_)) || s.is_inet() && s.style == Style::Datagram
    })
}

/// Two connected sockets.
pub fn pair(model: &mut Model, style: Style) -> (ChannelId, ChannelId) {
    let own = model.process.credentials();
    let (one, two) = (model.channels.allocate(), model.channels.allocate());
    for (id, peer) in [(one, two), (two, one)] {
        let mut socket = Socket::new(libc::AF_UNIX, style, Link::Local(peer));
        socket.peer = Some(own);
        socket.of = model.process.peer;
        model.channels.sockets.insert(id, socket);
    }
    (one, two)
}
