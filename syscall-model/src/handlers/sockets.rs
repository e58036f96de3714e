//! Making, connecting, naming and shutting down sockets.
//!
//! A connect goes to a listening socket of the program itself, if there is one at that address, and else through the
//! [`Network`](crate::net::Network) to a peer.

use super::pipe::install_two;
use super::{names, paths};
use crate::call::Call;
use crate::channels::socket::{self, Link, Socket, Style};
use crate::channels::{ChannelId, Use, install, io, named, netlink, touched_servers, touches};
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId};
use crate::fs::{Ino, NodeId};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::net::Endpoint;
use crate::net::flight::{self, Thing};
use crate::net::mirror::Told;
use crate::net::observe::Observation;
use crate::object::{Object, Touch};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use syscalls::Errno;

pub(super) const FLAGS: i32 = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
/// The longest address that the kernel takes.
const MAX_ADDRESS: usize = 128;

/// The socket behind a descriptor.
pub fn socket_of(cx: &Cx, fd: i32) -> Result<(OfdId, ChannelId), Errno> {
    let (ofd, description) = cx.model.files.lookup(fd)?;
    match description.kind {
        Kind::Socket(id) => Ok((ofd, id)),
        _ => Err(Errno::ENOTSOCK),
    }
}

/// The socket itself.
pub fn object<'a>(cx: &'a Cx, fd: i32) -> Result<&'a Socket, Errno> {
    let (_, id) = socket_of(cx, fd)?;
    cx.model.channels.sockets.get(&id).ok_or(Errno::EBADF)
}

/// For calls that look at a socket.
pub fn prepare_look(cx: &mut Cx, call: &Call) -> Prepared {
    prepare(cx, call, Use::Poll)
}

/// For calls that change a socket without moving data.
pub fn prepare_change(cx: &mut Cx, call: &Call) -> Prepared {
    prepare(cx, call, Use::Change)
}

fn prepare(cx: &mut Cx, call: &Call, how: Use) -> Prepared {
    match cx.model.files.descriptor(call.fd(0)) {
        Ok(descriptor) => Prepared::visible(touches(cx.model, descriptor.description, how)),
        Err(_) => Prepared::visible(vec![Touch::read(Object::FdTable)]),
    }
}

/// Splits `type` into the kind and the two flags.
fn kind_and_flags(kind: i32) -> Result<(i32, i32), Errno> {
    let flags = kind & !0xf;
    if flags & !FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    Ok((kind & 0xf, flags))
}

/// The style of a socket that there can be; in the order in which the kernel finds out that there cannot.
fn style(domain: i32, kind: i32, protocol: i32) -> Result<Style, Errno> {
    const FAMILIES: i32 = 46;
    const KINDS: i32 = 11;
    const PROTOCOLS: i32 = 263;
    if (0..FAMILIES).contains(&domain) && kind >= KINDS {
        return Err(Errno::EINVAL);
    }
    match domain {
        libc::AF_UNIX | libc::AF_INET | libc::AF_INET6 | libc::AF_NETLINK => {}
        // Raw packets would get past everything that is modelled.
        libc::AF_PACKET | libc::AF_XDP => return Err(Errno::EPERM),
        _ => return Err(Errno::EAFNOSUPPORT),
    }
    let style = Style::from_type(kind).ok_or(Errno::ESOCKTNOSUPPORT);
    match domain {
        libc::AF_UNIX => check_unix_protocol(protocol)?,
        libc::AF_NETLINK => netlink::check(style?, protocol)?,
        _ if !(0..PROTOCOLS).contains(&protocol) => return Err(Errno::EINVAL),
        // Only some groups of users may ping.
        libc::AF_INET if (kind, protocol) == (libc::SOCK_DGRAM, libc::IPPROTO_ICMP) => {
            return Err(Errno::EACCES);
        }
        _ => check_inet_protocol(kind, protocol)?,
    }
    style
}

pub(super) fn status(flags: i32) -> i32 {
    libc::O_RDWR
        | if flags & libc::SOCK_NONBLOCK != 0 {
            libc::O_NONBLOCK
        } else {
            0
        }
}

fn check_unix_protocol(protocol: i32) -> Result<(), Errno> {
    match protocol {
        0 | libc::PF_UNIX => Ok(()),
        _ => Err(Errno::EPROTONOSUPPORT),
    }
}

/// `socket(domain, type, protocol)`.
pub fn socket(cx: &mut Cx, call: &Call) -> Outcome {
    let (domain, kind, protocol) = (call.int(0), call.int(1), call.int(2));
    let (kind, flags) = kind_and_flags(kind)?;
    let style = style(domain, kind, protocol)?;
    let mut socket = Socket::new(domain, style, Link::Unconnected);
    socket.of = cx.model.process.peer;
    let id = cx.model.channels.add_socket(socket);
    let close_on_exec = flags & libc::SOCK_CLOEXEC != 0;
    let fd = install(cx.model, Kind::Socket(id), status(flags), close_on_exec)?;
    Ok(Effect::Done(i64::from(fd)))
}

fn check_inet_protocol(kind: i32, protocol: i32) -> Result<(), Errno> {
    match (kind, protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) | (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Ok(()),
        (libc::SOCK_STREAM | libc::SOCK_DGRAM, _) => Err(Errno::EPROTONOSUPPORT),
        // Raw packets would get past everything that is modelled.
        (libc::SOCK_RAW, _) => Err(Errno::EPERM),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

/// `socketpair(domain, type, protocol, sv)`.
pub fn socketpair(cx: &mut Cx, call: &Call) -> Outcome {
    let (kind, flags) = kind_and_flags(call.int(1))?;
    // The numbers are written first, and stay there if it comes to nothing.
    let next = cx.model.files.lowest_free(0)?;
    let after = cx.model.files.lowest_free(next + 1)?;
    cx.mem.write_u32(call.word(3), next as u32)?;
    cx.mem.write_u32(call.word(3).wrapping_add(4), after as u32)?;
    let style = style(call.int(0), kind, call.int(2))?;
    if call.int(0) != libc::AF_UNIX {
        return Err(Errno::EOPNOTSUPP);
    }
    let (one, two) = socket::pair(cx.model, style);
    let ends = [one, two].map(|id| (Kind::Socket(id), status(flags)));
    install_two(cx, ends, flags & libc::SOCK_CLOEXEC != 0, call.word(3))
}

/// The address argument of `connect`, `bind` and `sendto`.
pub fn read_address(cx: &Cx, addr: u64, len: u64) -> Result<Vec<u8>, Errno> {
    let len = len as u32 as usize;
    if len > MAX_ADDRESS {
        return Err(Errno::EINVAL);
    }
    Ok(cx.mem.read_vec(addr, len)?)
}

/// Where this address leads: a Unix path as an absolute one.
pub fn destination(cx: &Cx, socket: &Socket, raw: &[u8]) -> Result<Endpoint, Errno> {
    if netlink::is_netlink(socket) {
        return Err(Errno::EINVAL);
    }
    let datagram = socket.style == Style::Datagram;
    match Endpoint::decode(socket.family, datagram, raw)? {
        Endpoint::Unix(name) => match name.first() {
            None => Err(Errno::EINVAL),
            Some(0) => Ok(Endpoint::Unix(name)),
            Some(_) => {
                let found = paths::find(cx, libc::AT_FDCWD, &name, true)?;
                let node = found.existing()?;
                let attributes = cx.view().attributes(&node)?;
                if !cx.view().permits(&attributes, 2) {
                    return Err(Errno::EACCES);
                }
                if attributes.file_type() != libc::S_IFSOCK {
                    return Err(Errno::ECONNREFUSED);
                }
                bound_to(cx, &node, found.path)
            }
        },
        endpoint => Ok(endpoint.destination()),
    }
}

/// The name of the socket that is bound to this file: one of the program's, or else a peer's.
fn bound_to(cx: &Cx, node: &NodeId, path: Vec<u8>) -> Result<Endpoint, Errno> {
    let sockets = &cx.model.channels.sockets;
    if let NodeId::Overlay(ino) = cx.model.fs.current(node) {
        let mut bound = sockets.values().filter(|socket| socket.file == Some(ino));
        if let Some(name) = bound.find_map(|socket| socket.name.clone()) {
            return Ok(name);
        }
    }
    let name = Endpoint::Unix(path);
    // It had this name, and is somewhere else.
    match named::receiver(cx.model, &name) {
        Some(_) => Err(Errno::ECONNREFUSED),
        None => Ok(name),
    }
}

/// A connect changes its socket, the listener that it finds, and the count of connections to its destination.
pub fn prepare_connect(cx: &mut Cx, call: &Call) -> Prepared {
    let mut prepared = prepare(cx, call, Use::Change);
    let reached = reached_by_connect(cx, call.fd(0), call.word(1), call.word(2));
    prepared.touches.extend(reached);
    prepared.observes = asks_for_connection(cx, call);
    prepared
}

/// For calls that fail as long as a connection is only under way.
pub fn prepare_name(cx: &mut Cx, call: &Call) -> Prepared {
    let mut prepared = prepare_look(cx, call);
    prepared.observes = asks_for_connection(cx, call);
    prepared
}

fn asks_for_connection(cx: &Cx, call: &Call) -> Option<Observation> {
    let (_, socket) = socket_of(cx, call.fd(0)).ok()?;
    Some(Observation::Health {
        socket,
        may_miss: true,
        connects: true,
    })
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
    let servers = match cx.model.channels.servers_remember {
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
    if socket.connecting {
        return Err(Errno::EALREADY);
    }
    if std::mem::take(&mut socket.connect_succeeded) {
        return Effect::ok();
    }
    let (family, style, busy) = (
        socket.family,
        socket.style,
        socket.link != Link::Unconnected || socket.listening.is_some(),
    );
    if socket.connection_based() && busy {
        // TCP looks no further; a Unix socket has first to find whom it would go to.
        let (is_inet, listens) = (socket.is_inet(), socket.listening.is_some());
        if is_inet {
            return Err(if raw.len() < 2 {
                Errno::EINVAL
            } else {
                Errno::EISCONN
            });
        }
        let to = destination(cx, object(cx, fd)?, &raw)?;
        reach(cx, style, &to)?;
        return Err(if listens { Errno::EINVAL } else { Errno::EISCONN });
    }
    socket.take_error()?;
    let to = destination(cx, object(cx, fd)?, &raw)?;
    if style == Style::Datagram && family != libc::AF_UNIX {
        // Nothing is sent, so nobody is asked.
        named::datagram_name(cx.model, id, &to);
        let socket = cx.model.channels.sockets.get_mut(&id).ok_or(Errno::EBADF)?;
        socket.remote = Some(to);
        return Effect::ok();
    }
    let result = establish(cx, id, style, to);
    if io::blocking(cx.model, ofd) || family == libc::AF_UNIX {
        result?;
        return Effect::ok();
    }
    // As on a real loop-back: the call says that it is under way, and by the time one looks it is done.
    let is_peer = |cx: &Cx| {
        let socket = cx.model.channels.sockets.get(&id);
        socket.is_some_and(|socket| matches!(socket.link, Link::Peer(_)))
    };
    match result {
        Ok(()) if flight::is_any(cx.model) && is_peer(cx) => flight::connect(cx.model, id, Thing::Connected),
        Ok(()) => {
            if let Some(socket) = cx.model.channels.sockets.get_mut(&id) {
                socket.connect_succeeded = true;
            }
        }
        // Where no way leads, the kernel says so at once.
        Err(errno)
            if !matches!(
                errno,
                Errno::ECONNREFUSED | Errno::ETIMEDOUT | Errno::EHOSTUNREACH
            ) =>
        {
            return Err(errno);
        }
        Err(errno) if flight::is_any(cx.model) => flight::connect(cx.model, id, Thing::Refused(errno)),
        Err(errno) => named::connect_failed(cx.model, id, errno),
    }
    Err(Errno::EINPROGRESS)
}

fn disconnect(cx: &mut Cx, id: ChannelId) -> Outcome {
    let socket = cx.model.channels.sockets.get_mut(&id).ok_or(Errno::EBADF)?;
    socket.remote = None;
    match (socket.style, socket.link.clone()) {
        (_, Link::Unconnected) => {}
        (Style::Datagram, _) => socket::disconnect(cx.model, id),
        (_, Link::Peer(key)) => {
            (socket.link, socket.name) = (Link::Unconnected, None);
            cx.model.channels.outbox.push(Told::Close(key));
        }
        (_, Link::Local(peer)) => {
            (socket.link, socket.name) = (Link::Unconnected, None);
            named::connect_failed(cx.model, peer, Errno::ECONNRESET);
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
        _ if other.listening.is_none() || other.read_shut => Err(Errno::ECONNREFUSED),
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
        if other.listening.is_none() || other.read_shut {
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

pub fn prepare_bind(cx: &mut Cx, call: &Call) -> Prepared {
    let mut prepared = prepare(cx, call, Use::Change);
    let name = object(cx, call.fd(0)).and_then(|socket| {
        let raw = read_address(cx, call.word(1), call.word(2))?;
        Endpoint::decode(socket.family, socket.style == Style::Datagram, &raw)
    });
    match name {
        // Which number one gets depends on who asked before.
        _ if object(cx, call.fd(0)).is_ok_and(netlink::is_netlink) => {
            prepared.touches.push(Touch::write(Object::FdTable));
        }
        Ok(Endpoint::Unix(path)) if path.first().is_some_and(|&first| first != 0) => {
            prepared.touches.push(Touch::write(Object::FileSystem));
        }
        // Which port one gets depends on who asked before.
        Ok(name) => {
            let name = name.destination();
            prepared.touches.push(Touch::write(Object::Destination(name)));
        }
        Err(_) => {}
    }
    prepared
}

/// `bind(fd, addr, len)`.
pub fn bind(cx: &mut Cx, call: &Call) -> Outcome {
    let (_, id) = socket_of(cx, call.fd(0))?;
    let raw = read_address(cx, call.word(1), call.word(2))?;
    let socket = object(cx, call.fd(0))?;
    if netlink::is_netlink(socket) {
        netlink::bind(cx.model, id, &raw)?;
        return Effect::ok();
    }
    let (stream, inet) = (socket.style == Style::Stream, socket.is_inet());
    let name = Endpoint::decode(socket.family, socket.style == Style::Datagram, &raw)?;
    if socket.name.is_some() {
        return Err(Errno::EINVAL);
    }
    let wants_any = name.port() == Some(0);
    let is_path = matches!(&name, Endpoint::Unix(path) if path.first().is_some_and(|&first| first != 0));
    let given = is_path.then(|| name.clone());
    let (name, file) = match name {
        Endpoint::Unix(path) if path.is_empty() => (Endpoint::Unix(autobind(cx)), None),
        Endpoint::Unix(path) if path[0] != 0 => bind_to_file(cx, id, &path)?,
        name => (name, None),
    };
    if !wants_any && named::is_taken(cx.model, id, &name) {
        return Err(Errno::EADDRINUSE);
    }
    let datagrams = inet && !stream;
    let mut name = if stream || datagrams {
        let v6_only = named::v6_only(object(cx, call.fd(0))?);
        cx.net.bind(&name, v6_only)?
    } else {
        name
    };
    if inet && name.port() == Some(0) {
        let port = cx.model.channels.choose_port();
        name = name.with_port(port);
    }
    // Datagrams can come as soon as there is somewhere for them to go.
    let serves = datagrams && cx.net.listen(&name);
    let socket = cx.model.channels.sockets.get_mut(&id).ok_or(Errno::EBADF)?;
    (socket.name, socket.given, socket.serves) = (Some(name), given, serves);
    socket.file = file;
    cx.model.channels.stale |= serves;
    Effect::ok()
}

/// A socket is found by its file, and has the path as its name. A file that was renamed or removed leaves its path to another, whose name is then told from the first's by the
/// number of its file.
fn bind_to_file(cx: &mut Cx, id: ChannelId, path: &[u8]) -> Result<(Endpoint, Option<Ino>), Errno> {
    let (mut name, ino) = names::make_socket(cx, path)?;
    if named::is_taken(cx.model, id, &Endpoint::Unix(name.clone())) {
        name.extend(format!("\0{}", ino).bytes());
    }
    Ok((Endpoint::Unix(name), Some(ino)))
}

/// An abstract name of the kernel's choice: five hexadecimal digits.
fn autobind(cx: &mut Cx) -> Vec<u8> {
    let mut name = vec![0];
    name.extend(format!("{:05x}", cx.model.channels.choose_port()).bytes());
    name
}

/// `listen(fd, backlog)`.
pub fn listen(cx: &mut Cx, call: &Call) -> Outcome {
    let (_, id) = socket_of(cx, call.fd(0))?;
    let socket = object(cx, call.fd(0))?;
    if socket.style == Style::Datagram {
        return Err(Errno::EOPNOTSUPP);
    }
    if socket.link != Link::Unconnected {
        return Err(Errno::EINVAL);
    }
    let name = match (&socket.name, socket.is_inet()) {
        (Some(name), _) => name.clone(),
        (None, false) => return Err(Errno::EINVAL),
        // An Internet socket without a name gets a port.
        (None, true) => {
            let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
            let name = cx.net.bind(&Endpoint::Tcp(any), false)?;
            let port = match name.port() {
                Some(0) | None => cx.model.channels.choose_port(),
                Some(port) => port,
            };
            name.with_port(port)
        }
    };
    cx.net.listen(&name);
    if let Some(socket) = cx.model.channels.sockets.get_mut(&id) {
        socket.name = Some(name);
    }
    named::listen(cx.model, id);
    cx.model.channels.stale = true;
    Effect::ok()
}

/// `shutdown(fd, how)`.
pub fn shutdown(cx: &mut Cx, call: &Call) -> Outcome {
    let (_, id) = socket_of(cx, call.fd(0))?;
    let (read, write) = match call.int(1) {
        libc::SHUT_RD => (true, false),
        libc::SHUT_WR => (false, true),
        libc::SHUT_RDWR => (true, true),
        _ => return Err(Errno::EINVAL),
    };
    let socket = object(cx, call.fd(0))?;
    if socket.is_inet()
        && socket.link == Link::Unconnected
        && socket.listening.is_none()
        && socket.remote.is_none()
    {
        // The kernel complains, and shuts it all the same.
        socket::shutdown(cx.model, id, read, write);
        return Err(Errno::ENOTCONN);
    }
    socket::shutdown(cx.model, id, read, write);
    Effect::ok()
}

/// `getsockname(fd, addr, len)`.
pub fn getsockname(cx: &mut Cx, call: &Call) -> Outcome {
    let socket = object(cx, call.fd(0))?;
    let address = match netlink::is_netlink(socket) {
        true => netlink::encode(socket.netlink_port.unwrap_or_default()),
        false => encoded(socket.shown_name(), socket.family),
    };
    write_address(cx, &address, call.word(1), call.word(2))?;
    Effect::ok()
}

/// `getpeername(fd, addr, len)`.
pub fn getpeername(cx: &mut Cx, call: &Call) -> Outcome {
    let socket = object(cx, call.fd(0))?;
    let is_connected = socket.link != Link::Unconnected || socket.remote.is_some();
    if socket.connecting || !is_connected && !netlink::is_netlink(socket) {
        return Err(Errno::ENOTCONN);
    }
    let address = encoded(socket.remote.as_ref(), socket.family);
    write_address(cx, &address, call.word(1), call.word(2))?;
    Effect::ok()
}

/// The `sockaddr` of a socket, or of one without a name: for a Unix socket just its family.
pub fn encoded(name: Option<&Endpoint>, family: i32) -> Vec<u8> {
    match (name, family) {
        (Some(name), _) => name.encode(family),
        (None, libc::AF_UNIX) => (family as u16).to_le_bytes().to_vec(),
        (None, libc::AF_NETLINK) => netlink::encode(0),
        (None, libc::AF_INET) => Endpoint::Tcp((Ipv4Addr::UNSPECIFIED, 0).into()).encode(family),
        (None, _) => Endpoint::Tcp((Ipv6Addr::UNSPECIFIED, 0).into()).encode(family),
    }
}

/// Writes as much of an address as there is room for, and its true length.
pub fn write_address(cx: &mut Cx, address: &[u8], addr: u64, len_addr: u64) -> Result<(), Errno> {
    let room = cx.mem.read_u32(len_addr)? as i32;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    cx.mem.write_u32(len_addr, address.len() as u32)?;
    let fits = &address[..address.len().min(room)];
    if !fits.is_empty() {
        cx.mem.write(addr, fits)?;
    }
    Ok(())
}
