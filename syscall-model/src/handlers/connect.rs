//! `connect`: to a listening socket of the program itself, if there is one at that address, and else through the [`Network`](crate::net::Network) to a peer.

use super::sockets::{asks_for_connection, destination, object, prepare_change, read_address, socket_of};
use crate::call::Call;
use crate::channels::socket::{self, Socket, State, Style};
use crate::channels::{ChannelId, io, named, netlink, touched_servers};
use crate::effect::{Effect, Outcome, Prepared};
use crate::model::Cx;
use crate::net::Endpoint;
use crate::net::flight::{self, Thing};
use crate::net::mirror::Told;
use crate::object::{Object, Touch};
use syscalls::Errno;

/// A connect changes its socket, the listener that it finds, and the count of connections to its destination.
pub fn prepare_connect(cx: &Cx, call: &Call) -> Prepared {
    let mut prepared = prepare_change(cx, call);
    let reached = reached_by_connect(cx, call.fd(0), call.word(1), call.word(2));
    prepared.touches.extend(reached);
    // A second connect of a socket that waits comes back when the first has come about.
    let waits = socket_of(cx, call.fd(0)).is_ok_and(|(ofd, _)| io::blocking(cx.model, ofd));
    prepared.observes = asks_for_connection(cx, call, !waits);
    prepared
}

/// What a connect to an address touches beside its socket.
pub fn reached_by_connect(cx: &Cx, fd: i32, addr: u64, len: u64) -> Vec<Touch> {
    let found = object(cx, fd).and_then(|socket| {
        let raw = read_address(cx, addr, len)?;
        destination(cx, socket, &raw)
    });
    let Ok(to) = found else {
        return Vec::new();
    };
    let listener = named::receiver(cx.model, &to).map(|id| Touch::write(Object::Channel(id.0)));
    // That somebody connects is something that a server is told.
    let servers = match cx.model.channels.outside.servers_remember {
        true => touched_servers(true, false),
        false => Vec::new(),
    };
    listener
        .into_iter()
        .chain([Touch::write(Object::Destination(to))])
        .chain(servers)
        .collect()
}

/// `connect(fd, addr, len)`.
pub fn connect(cx: &mut Cx, call: &Call) -> Outcome {
    connect_to(cx, call.fd(0), call.word(1), call.word(2))
}

pub fn connect_to(cx: &mut Cx, fd: i32, addr: u64, len: u64) -> Outcome {
    cx.model.files.lookup(fd)?;
    let raw = read_address(cx, addr, len)?;
    let (ofd, id) = socket_of(cx, fd)?;
    let socket = cx.model.channels.sockets.get_mut(&id).ok_or(Errno::EBADF)?;
    if netlink::is_netlink(socket) {
        netlink::connect(cx.model, id, &raw)?;
        return Effect::ok();
    }
    if raw.starts_with(&(libc::AF_UNSPEC as u16).to_le_bytes())
        && (socket.style == Style::Datagram || socket.is_inet())
    {
        return disconnect(cx, id);
    }
    if socket.is_connecting() {
        return Err(Errno::EALREADY);
    }
    if socket.state.take_news_of_connect() {
        return Effect::ok();
    }
    if socket.connection_based() && (socket.is_connected() || socket.is_listening()) {
        return Err(why_not_again(cx, fd, &raw)?);
    }
    socket.take_error()?;
    let to = destination(cx, object(cx, fd)?, &raw)?;
    if object(cx, fd)?.datagrams().is_some() {
        // Nothing is sent, so nobody is asked.
        named::datagram_name(cx.model, id, &to);
        let socket = cx.model.channels.sockets.get_mut(&id);
        if let Some(datagrams) = socket.and_then(Socket::datagrams_mut) {
            datagrams.remote = Some(to);
        }
        return Effect::ok();
    }
    let (is_unix, style) = (!object(cx, fd)?.is_inet(), object(cx, fd)?.style);
    let result = establish(cx, id, style, to);
    if io::blocking(cx.model, ofd) || is_unix {
        result?;
        return Effect::ok();
    }
    go_on_without_waiting(cx, id, result)
}

/// What is said to a socket that has a connection already, or listens.
fn why_not_again(cx: &Cx, fd: i32, raw: &[u8]) -> Result<Errno, Errno> {
    let socket = object(cx, fd)?;
    // TCP looks no further; a Unix socket has first to find whom it would go to.
    if socket.is_inet() {
        return Ok(match raw.len() {
            0 | 1 => Errno::EINVAL,
            _ => Errno::EISCONN,
        });
    }
    let to = destination(cx, socket, raw)?;
    reach(cx, socket.style, &to)?;
    Ok(match socket.is_listening() {
        true => Errno::EINVAL,
        false => Errno::EISCONN,
    })
}

/// A connect of a socket that does not wait. As on a real loop-back: the call says that it is under way, and by the time one looks it is done.
fn go_on_without_waiting(cx: &mut Cx, id: ChannelId, result: Result<(), Errno>) -> Outcome {
    let socket = cx.model.channels.sockets.get(&id);
    let is_remote = socket.is_some_and(|socket| socket.remote().is_some());
    match result {
        Ok(()) if flight::is_any(cx.model) && is_remote => flight::connect(cx.model, id, Thing::Connected),
        Ok(()) => {
            if let Some(socket) = cx.model.channels.sockets.get_mut(&id) {
                socket.state.connect_went_through();
            }
        }
        Err(errno @ (Errno::ECONNREFUSED | Errno::ETIMEDOUT | Errno::EHOSTUNREACH)) => {
            match flight::is_any(cx.model) {
                true => flight::connect(cx.model, id, Thing::Refused(errno)),
                false => named::connect_failed(cx.model, id, errno),
            }
        }
        // Where no way leads, the kernel says so at once.
        Err(errno) => return Err(errno),
    }
    Err(Errno::EINPROGRESS)
}

fn disconnect(cx: &mut Cx, id: ChannelId) -> Outcome {
    let socket = cx.model.channels.sockets.get_mut(&id).ok_or(Errno::EBADF)?;
    if let Some(datagrams) = socket.datagrams_mut() {
        datagrams.remote = None;
    } else if socket.style == Style::Datagram && socket.is_connected() {
        socket::disconnect(cx.model, id);
    } else if socket.is_connected() || socket.is_connecting() {
        let before = std::mem::replace(&mut socket.state, State::Unconnected);
        if !matches!(before, State::Connecting(None)) {
            socket.binding.name = None;
        }
        // Nothing of what was under way comes any more, nor the result of the connect.
        cx.model.channels.outside.flights.remove(&id);
        match before {
            State::Remote(remote) | State::Connecting(Some(remote)) => {
                cx.model.channels.outside.outbox.push(Told::Close(remote.key));
            }
            State::Local(local) => named::connect_failed(cx.model, local.other, Errno::ECONNRESET),
            _ => {}
        }
    }
    Effect::ok()
}

/// A Unix socket of the program that can be connected to, if there is one at this address.
fn reach(cx: &Cx, style: Style, to: &Endpoint) -> Result<(), Errno> {
    let Some(receiver) = named::receiver(cx.model, to) else {
        return Err(Errno::ECONNREFUSED);
    };
    let other = cx.model.channels.sockets.get(&receiver).ok_or(Errno::EBADF)?;
    match other.style {
        _ if other.style != style => Err(Errno::EPROTOTYPE),
        _ if !other.is_listening() || other.shut.read => Err(Errno::ECONNREFUSED),
        _ => Ok(()),
    }
}

/// Connects to a listening socket of the program, or to a peer.
fn establish(cx: &mut Cx, id: ChannelId, style: Style, to: Endpoint) -> Result<(), Errno> {
    if let Some(receiver) = named::receiver(cx.model, &to) {
        let other = cx.model.channels.sockets.get(&receiver).ok_or(Errno::EBADF)?;
        if other.style != style {
            return Err(Errno::EPROTOTYPE);
        }
        if !other.is_listening() || other.shut.read {
            return Err(Errno::ECONNREFUSED);
        }
        named::connect_locally(cx.model, id, receiver, to);
        return Ok(());
    }
    // Datagrams and packets of other programs' Unix sockets (a system log, say) are out of sight.
    if style != Style::Stream {
        return Err(Errno::ECONNREFUSED);
    }
    let key = cx.net.connect(&to)?;
    named::connected(cx.model, id, key, to);
    Ok(())
}
