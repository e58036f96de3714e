//! Sockets with addresses: who listens where, connections of the program to itself, and what sets Internet sockets apart.

use super::socket::{
    self, Listening, Local, READABLE, Remote, Shut, Socket, State, deliver_datagram, send_locally, socket_mut,
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
        let name = socket.name().filter(|_| is_receiving(socket));
        name.is_some_and(|name| name.receives(to, v6_only(socket)))
    });
    named.next().map(|(id, _)| *id)
}

/// Only sockets that were bound receive: the accepted ends of a connection share their listener's name.
fn is_receiving(socket: &Socket) -> bool {
    !socket.is_connected()
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
            flag(this, libc::SO_REUSEADDR) && flag(socket, libc::SO_REUSEADDR) && !socket.is_listening();
        other != id
            && is_receiving(socket)
            && !shares
            && !reuses
            && socket.name().is_some_and(|taken| taken.collides(name))
    })
}

/// The socket listens from now on.
pub fn listen(model: &mut Model, id: ChannelId) {
    let own = model.process.credentials();
    let this = socket_mut(model, id);
    if !this.is_listening() {
        this.state = State::Listening(Listening::default());
    }
    this.peer_credentials = Some(own);
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
            listener.peer_credentials,
            listener.binding.given.clone().unwrap_or(to),
        )
    };
    let this = socket_mut(model, id);
    let name = this.binding.name.get_or_insert_with(|| to.nearest_local(nth));
    let from = name.clone();
    this.state = State::Local(Local::to(accepting, Some(to.clone())));
    this.shut = Shut::default();
    this.peer_credentials = server;
    let mut end = Socket::in_state(family, style, State::Local(Local::to(id, Some(from))));
    end.binding.name = Some(to);
    end.peer_credentials = Some(own);
    end.of = socket::socket(model, listener).of;
    model.channels.sockets.insert(accepting, end);
    model.name_connection(id, accepting, destination);
    if let Some(listening) = socket_mut(model, listener).listening_mut() {
        listening.backlog.push_back(accepting);
    }
    epoll::notify(model, &Kind::Socket(listener), READABLE);
    epoll::notify(model, &Kind::Socket(id), PollEvents::all());
}

/// The connection to a peer stands.
pub fn connected(model: &mut Model, id: ChannelId, key: Key, to: Endpoint) {
    let nth = key.nth();
    let this = socket_mut(model, id);
    let name = &mut this.binding.name;
    name.get_or_insert_with(|| to.nearest_local(OUTGOING_PORTS.wrapping_add(nth)));
    this.state = State::Remote(Remote::to(key, Some(to)));
    this.shut = Shut::default();
    model.channels.outside.stale = true;
    epoll::notify(model, &Kind::Socket(id), PollEvents::all());
}

/// The accepting end of a connection that a client made.
pub fn accepted(model: &mut Model, listener: ChannelId, from: Accepted) -> ChannelId {
    let nth = from.key.nth();
    let listener = socket::socket(model, listener);
    let name = listener.name().cloned().map(|name| name.seen_from(from.by_ipv4));
    let address = name
        .as_ref()
        .map(|name| name.nearest_local(CLIENT_PORTS.wrapping_add(nth)));
    let state = State::Remote(Remote::to(from.key, address));
    let mut end = Socket::in_state(listener.family, listener.style, state);
    end.binding.name = name;
    model.channels.outside.stale = true;
    model.channels.outside.clients_met = true;
    model.channels.add_socket(end)
}

/// The program looks for clients: from now on they are there, if they can reach it.
pub fn await_clients(model: &mut Model) {
    if model.process.peer.is_some() {
        return;
    }
    let channels = &mut model.channels;
    let is_open = |socket: &Socket| socket.of.is_none() && socket.is_open_to_clients();
    if !channels.outside.clients_awaited && channels.sockets.values().any(is_open) {
        channels.outside.clients_awaited = true;
        channels.outside.stale = true;
    }
}

/// A client has written to a datagram socket for the first time: from now on it is one of those that the socket hears from.
pub fn heard_of(model: &mut Model, id: ChannelId, client: Accepted) {
    let nth = client.key.nth();
    let this = socket_mut(model, id);
    let name = this.name().cloned().map(|name| name.seen_from(client.by_ipv4));
    let from = name.map(|name| name.nearest_local(CLIENT_PORTS.wrapping_add(nth)));
    if let (Some(from), Some(datagrams)) = (from, this.datagrams_mut()) {
        datagrams.correspondents.insert(from, client.key);
    }
}

/// The first datagram of a client is handed to the program, or another one.
pub fn met(model: &mut Model, id: ChannelId, from: &Endpoint) {
    let this = model.channels.sockets.get(&id).and_then(Socket::datagrams);
    // A map that is changed is copied first.
    let is_news = this.is_some_and(|this| this.serves && !this.heard.contains(from));
    if is_news && let Some(this) = socket_mut(model, id).datagrams_mut() {
        this.heard.insert(from.clone());
        model.channels.outside.clients_met = true;
    }
}

/// The socket that has heard from this client, if `id` has not: what `id` sends there goes on from what was said to the other.
pub fn heard_by_another(model: &Model, id: ChannelId, client: &Endpoint) -> Option<(ChannelId, Key)> {
    let key = |socket: &'_ Socket| socket.datagrams()?.correspondents.get(client).cloned();
    if key(socket::socket(model, id)).is_some() {
        return None;
    }
    let mut sockets = model.channels.sockets.iter();
    sockets.find_map(|(&other, socket)| match key(socket)? {
        key @ Key::Accepted(..) => Some((other, key)),
        Key::Opened(..) => None,
    })
}

/// A server's datagram socket that was connected to one client hears of no other: what others send goes to the next socket at the same address, if
/// there is one. (What they had sent before stays where it is.)
pub fn redirect_datagrams(model: &mut Model) {
    let sockets = model.channels.sockets.iter();
    let serving = || {
        let serving = sockets
            .clone()
            .filter_map(|(&id, socket)| Some((id, socket, socket.datagrams()?)));
        serving.filter(|(_, _, datagrams)| datagrams.serves)
    };
    let mut moves = Vec::new();
    for (id, socket, datagrams) in serving() {
        let Some(remote) = &datagrams.remote else {
            continue;
        };
        let mut open = serving().filter(|(_, _, other)| other.remote.is_none());
        if let Some((next, ..)) = open.find(|(_, other, _)| other.name() == socket.name()) {
            let strays = datagrams.correspondents.iter();
            let strays = strays.filter(|(from, _)| *from != remote);
            moves.extend(strays.map(|(from, key)| (id, next, from.clone(), key.clone())));
        }
    }
    for (id, next, from, key) in moves {
        if let Some(datagrams) = socket_mut(model, id).datagrams_mut() {
            datagrams.correspondents.remove(&from);
        }
        flight::redirect(model, id, next, &from);
        if let Some(datagrams) = socket_mut(model, next).datagrams_mut() {
            datagrams.correspondents.insert(from, key);
        }
    }
}

/// A connection to the program itself that will not be accepted any more.
pub fn refuse(model: &mut Model, accepting: ChannelId) {
    if let Some((client, _)) = socket::live_peer(model, accepting) {
        let client = socket_mut(model, client);
        client.error = Some(Errno::ECONNRESET);
        client.shut = Shut::BOTH;
    }
    socket::close(model, accepting);
}

/// A connect that failed, to be told by `SO_ERROR`.
pub fn connect_failed(model: &mut Model, id: ChannelId, errno: Errno) {
    let this = socket_mut(model, id);
    this.error = Some(errno);
    this.shut = Shut::BOTH;
    epoll::notify(model, &Kind::Socket(id), PollEvents::all());
}

/// A send on an Internet socket whose other end, if it has one, is in the model.
pub fn send(model: &mut Model, id: ChannelId, data: &[u8]) -> Result<usize, Errno> {
    let this = socket::socket(model, id);
    if let Some(datagrams) = this.datagrams() {
        let to = datagrams.remote.clone().ok_or(Errno::EDESTADDRREQ)?;
        return send_datagram(model, id, to, data);
    }
    let peer = this.peer();
    let this = socket_mut(model, id);
    this.take_error()?;
    let Some(peer) = peer.filter(|_| !this.shut.write) else {
        return Err(Errno::EPIPE);
    };
    if data.is_empty() {
        return Ok(0);
    }
    match model.channels.sockets.get_mut(&peer) {
        // It takes no more and has said all that it had to say: to that it answers with a reset, and is over itself.
        Some(receiver) if receiver.shut.is_both() => {
            receiver.error = Some(Errno::ECONNRESET);
            epoll::notify(model, &Kind::Socket(peer), PollEvents::all());
        }
        Some(_) => return send_locally(model, id, peer, data, &[]),
        None => {}
    }
    // Nobody is there any more: the first send goes out, the answer to it is a reset.
    let this = socket_mut(model, id);
    this.error = Some(Errno::EPIPE);
    this.shut = Shut::BOTH;
    epoll::notify(model, &Kind::Socket(id), PollEvents::all());
    Ok(data.len())
}

/// A datagram to a socket of the program, or to a peer.
pub fn send_datagram(model: &mut Model, id: ChannelId, to: Endpoint, data: &[u8]) -> Result<usize, Errno> {
    const LONGEST: usize = 65_507;
    let to = to.destination();
    let this = socket_mut(model, id);
    if this.is_inet() && data.len() > LONGEST {
        return Err(Errno::EMSGSIZE);
    }
    this.take_error()?;
    if this.shut.write {
        return Err(Errno::EPIPE);
    }
    let from = datagram_name(model, id, &to);
    match receiver(model, &to) {
        Some(receiver) => {
            deliver_datagram(model, receiver, &from, data);
            model.passes_datagram((id, &from), (receiver, &to), data);
        }
        None => model
            .channels
            .outside
            .outbox
            .push(Told::Datagram(id, to, data.to_vec())),
    }
    Ok(data.len())
}

/// The name of a datagram socket, which gets one when it first needs it.
pub fn datagram_name(model: &mut Model, id: ChannelId, to: &Endpoint) -> Endpoint {
    if let Some(name) = socket::socket(model, id).name() {
        return name.clone();
    }
    let port = model.channels.choose_port();
    let name = to.nearest_local(port);
    socket_mut(model, id).binding.name = Some(name.clone());
    name
}
