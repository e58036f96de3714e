//! Sockets with addresses: who listens where, connections of the program to itself, and what sets Internet sockets apart.

use super::socket::{
    self, Link, Listening, READABLE, Socket, Style, deliver_datagram, send_locally, send_to_peer, socket_mut,
};
use super::{ChannelId, epoll};
use crate::fd::{Kind, PollEvents};
use crate::model::Model;
use crate::net::mirror::Told;
use crate::net::{Accepted, Endpoint, Key, flight};
use syscalls::Errno;

/// Made-up ports of the other ends: of the k-th connection to a destination, and of the k-th accepted client.
pub const OUTGOING_PORTS: u16 = 40_000;
pub const CLIENT_PORTS: u16 = 30_000;

/// The socket of the program that gets what is sent to `to`, which is a [`Endpoint::destination`].
pub fn receiver(model: &Model, to: &Endpoint) -> Option<ChannelId> {
    let named = model.channels.sockets.iter();
    let mut named = named.filter(|(_, socket)| {
        let name = socket.name.as_ref().filter(|_| is_receiving(socket));
        name.is_some_and(|name| name.receives(to, v6_only(socket)))
    });
    named.next().map(|(id, _)| *id)
}

/// Only sockets that were bound receive: the accepted ends of a connection share their listener's name.
fn is_receiving(socket: &Socket) -> bool {
    socket.listening.is_some() || socket.link == Link::Unconnected
}

/// `IPV6_V6ONLY`: the wildcard is not for IPv4.
pub fn v6_only(socket: &Socket) -> bool {
    let value = socket.options.plain.get(&(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY));
    value.is_some_and(|value| value.iter().any(|&byte| byte != 0))
}

/// Is another socket of the program in the way of this name?
pub fn is_taken(model: &Model, id: ChannelId, name: &Endpoint) -> bool {
    let flag = |socket: &Socket, option| {
        let value = socket.options.plain.get(&(libc::SOL_SOCKET, option));
        value.is_some_and(|value: &Vec<u8>| value.iter().any(|&byte| byte != 0))
    };
    let this = socket::socket(model, id);
    model.channels.sockets.iter().any(|(&other, socket)| {
        let shares = flag(this, libc::SO_REUSEPORT) && flag(socket, libc::SO_REUSEPORT);
        let reuses =
            flag(this, libc::SO_REUSEADDR) && flag(socket, libc::SO_REUSEADDR) && socket.listening.is_none();
        other != id
            && is_receiving(socket)
            && !shares
            && !reuses
            && socket.name.as_ref().is_some_and(|taken| taken.collides(name))
    })
}

/// The socket listens from now on.
pub fn listen(model: &mut Model, id: ChannelId) {
    let own = model.process.credentials();
    let this = socket_mut(model, id);
    if this.listening.is_none() {
        this.listening = Some(Listening::default());
    }
    this.peer = Some(own);
}

/// Connects to a listening socket of the program: the accepting end exists at once and waits in the backlog.
pub fn connect_locally(model: &mut Model, id: ChannelId, listener: ChannelId, to: Endpoint) {
    let destination = to.clone();
    let nth = model.channels.choose_port();
    let accepting = model.channels.allocate();
    let own = model.process.credentials();
    let (family, style, server, to) = {
        let listener = socket::socket(model, listener);
        (
            listener.family,
            listener.style,
            listener.peer,
            listener.given.clone().unwrap_or(to),
        )
    };
    let this = socket_mut(model, id);
    let from = this.name.clone().unwrap_or_else(|| to.nearest_local(nth));
    this.link = Link::Local(accepting);
    (this.read_shut, this.write_shut) = (false, false);
    this.remote = Some(to.clone());
    this.peer = server;
    this.name = Some(from.clone());
    let mut end = Socket::new(family, style, Link::Local(id));
    end.name = Some(to);
    end.remote = Some(from);
    end.peer = Some(own);
    end.of = socket::socket(model, listener).of;
    model.channels.sockets.insert(accepting, end);
    model.name_connection(id, accepting, destination);
    if let Some(listening) = &mut socket_mut(model, listener).listening {
        listening.backlog.push_back(accepting);
    }
    epoll::notify(model, &Kind::Socket(listener), READABLE);
    epoll::notify(model, &Kind::Socket(id), PollEvents::all());
}

/// The connection to a peer stands.
pub fn connected(model: &mut Model, id: ChannelId, key: Key, to: Endpoint) {
    let nth = key.nth();
    let this = socket_mut(model, id);
    let name = this.name.take();
    this.name = Some(name.unwrap_or_else(|| to.nearest_local(OUTGOING_PORTS.wrapping_add(nth))));
    this.link = Link::Peer(key);
    (this.read_shut, this.write_shut) = (false, false);
    this.remote = Some(to);
    model.channels.stale = true;
    epoll::notify(model, &Kind::Socket(id), PollEvents::all());
}

/// The accepting end of a connection that a client made.
pub fn accepted(model: &mut Model, listener: ChannelId, from: Accepted) -> ChannelId {
    let nth = from.key.nth();
    let listener = socket::socket(model, listener);
    let mut end = Socket::new(listener.family, listener.style, Link::Peer(from.key));
    let name = listener.name.clone().map(|name| name.seen_from(from.by_ipv4));
    end.remote = name
        .as_ref()
        .map(|name| name.nearest_local(CLIENT_PORTS.wrapping_add(nth)));
    end.name = name;
    end.client = Some(from.client);
    model.channels.stale = true;
    model.channels.clients_met = true;
    model.channels.add_socket(end)
}

/// The program looks for clients: from now on they are there, if they can reach it.
pub fn await_clients(model: &mut Model) {
    if model.process.peer.is_some() {
        return;
    }
    let channels = &mut model.channels;
    let is_open = |socket: &Socket| socket.of.is_none() && socket.is_open_to_clients();
    if !channels.clients_awaited && channels.sockets.values().any(is_open) {
        channels.clients_awaited = true;
        channels.stale = true;
    }
}

/// A client has written to a datagram socket for the first time: from now on it is one of those that the socket hears from.
pub fn heard_of(model: &mut Model, id: ChannelId, client: Accepted) {
    let nth = client.key.nth();
    let this = socket_mut(model, id);
    let name = this.name.clone().map(|name| name.seen_from(client.by_ipv4));
    if let Some(from) = name.map(|name| name.nearest_local(CLIENT_PORTS.wrapping_add(nth))) {
        this.correspondents.insert(from, client.key);
    }
}

/// The first datagram of a client is handed to the program, or another one.
pub fn met(model: &mut Model, id: ChannelId, from: &Endpoint) {
    let is_news = model
        .channels
        .sockets
        .get(&id)
        .is_some_and(|socket| socket.serves && !socket.heard.contains(from));
    if is_news {
        socket_mut(model, id).heard.insert(from.clone());
        model.channels.clients_met = true;
    }
}

/// The socket that has heard from this client, if `id` has not: what `id` sends there goes on from what was said to the other.
pub fn heard_by_another(model: &Model, id: ChannelId, client: &Endpoint) -> Option<(ChannelId, Key)> {
    if socket::socket(model, id).correspondents.contains_key(client) {
        return None;
    }
    let mut sockets = model.channels.sockets.iter();
    sockets.find_map(|(&other, socket)| match socket.correspondents.get(client) {
        Some(key @ Key::Accepted(..)) => Some((other, key.clone())),
        _ => None,
    })
}

/// A server's datagram socket that was connected to one client hears of no other: what others send goes to the next socket at the same address, if
/// there is one. (What they had sent before stays where it is.)
pub fn redirect_datagrams(model: &mut Model) {
    let sockets = &model.channels.sockets;
    let connected = |socket: &&Socket| socket.serves && socket.remote.is_some();
    if !sockets.values().any(|socket| connected(&socket)) {
        return;
    }
    let mut moves = Vec::new();
    for (&id, socket) in sockets.iter().filter(|(_, socket)| connected(socket)) {
        let open = |other: &Socket| other.serves && other.remote.is_none() && other.name == socket.name;
        if let Some((&next, _)) = sockets.iter().find(|(_, other)| open(other)) {
            let strays = socket.correspondents.iter();
            let strays = strays.filter(|(from, _)| Some(*from) != socket.remote.as_ref());
            moves.extend(strays.map(|(from, key)| (id, next, from.clone(), key.clone())));
        }
    }
    for (id, next, from, key) in moves {
        socket_mut(model, id).correspondents.remove(&from);
        flight::redirect(model, id, next, &from);
        socket_mut(model, next).correspondents.insert(from, key);
    }
}

/// A connection to the program itself that will not be accepted any more.
pub fn refuse(model: &mut Model, accepting: ChannelId) {
    if let Some((client, _)) = socket::live_peer(model, accepting) {
        let client = socket_mut(model, client);
        client.error = Some(Errno::ECONNRESET);
        (client.read_shut, client.write_shut) = (true, true);
    }
    socket::close(model, accepting);
}

/// A connect that failed, to be told by `SO_ERROR`.
pub fn connect_failed(model: &mut Model, id: ChannelId, errno: Errno) {
    let this = socket_mut(model, id);
    this.error = Some(errno);
    (this.read_shut, this.write_shut) = (true, true);
    epoll::notify(model, &Kind::Socket(id), PollEvents::all());
}

/// A send on an Internet socket.
pub fn send(model: &mut Model, id: ChannelId, data: &[u8]) -> Result<usize, Errno> {
    let this = socket::socket(model, id);
    if this.style == Style::Datagram {
        let to = this.remote.clone().ok_or(Errno::EDESTADDRREQ)?;
        return send_datagram(model, id, to, data);
    }
    match this.link.clone() {
        Link::Peer(key) => send_to_peer(model, id, key, data),
        Link::Unconnected => {
            socket_mut(model, id).take_error()?;
            Err(Errno::EPIPE)
        }
        Link::Local(peer) => {
            let this = socket_mut(model, id);
            this.take_error()?;
            if this.write_shut {
                return Err(Errno::EPIPE);
            }
            if data.is_empty() {
                return Ok(0);
            }
            if model.channels.sockets.contains_key(&peer) {
                return send_locally(model, id, peer, data, &[]);
            }
            // Nobody is there any more: the first send goes out, the answer to it is a reset.
            let this = socket_mut(model, id);
            this.error = Some(Errno::EPIPE);
            (this.read_shut, this.write_shut) = (true, true);
            epoll::notify(model, &Kind::Socket(id), PollEvents::all());
            Ok(data.len())
        }
    }
}

/// A datagram to a socket of the program, or to a peer.
pub fn send_datagram(model: &mut Model, id: ChannelId, to: Endpoint, data: &[u8]) -> Result<usize, Errno> {
    const LONGEST: usize = 65_507;
    let to = to.destination();
    socket_mut(model, id).take_error()?;
    if data.len() > LONGEST {
        return Err(Errno::EMSGSIZE);
    }
    let from = datagram_name(model, id, &to);
    match receiver(model, &to) {
        Some(receiver) => {
            deliver_datagram(model, receiver, &from, data);
            model.passes_datagram((id, &from), (receiver, &to), data);
        }
        None => model.channels.outbox.push(Told::Datagram(id, to, data.to_vec())),
    }
    Ok(data.len())
}

/// The name of a datagram socket, which gets one when it first needs it.
pub fn datagram_name(model: &mut Model, id: ChannelId, to: &Endpoint) -> Endpoint {
    if let Some(name) = &socket::socket(model, id).name {
        return name.clone();
    }
    let port = model.channels.choose_port();
    let name = to.nearest_local(port);
    socket_mut(model, id).name = Some(name.clone());
    name
}
