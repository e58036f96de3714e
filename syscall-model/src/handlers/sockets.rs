//! Making, naming and shutting down sockets. Connecting them is in [`connect`](super::connect).

use super::pipe::install_two;
use super::{names, paths};
use crate::call::Call;
use crate::channels::socket::{self, Binding, Socket, Style};
use crate::channels::{ChannelId, Use, install, named, netlink, touches};
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId};
use crate::fs::{Ino, NodeId};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::net::Endpoint;
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
pub fn prepare_look(cx: &Cx, call: &Call) -> Prepared {
    prepare(cx, call, Use::Poll)
}

/// For calls that change a socket without moving data.
pub fn prepare_change(cx: &Cx, call: &Call) -> Prepared {
    prepare(cx, call, Use::Change)
}

fn prepare(cx: &Cx, call: &Call, how: Use) -> Prepared {
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
    const SOCK_PACKET: i32 = 10;
    if (0..FAMILIES).contains(&domain) && kind >= KINDS {
        return Err(Errno::EINVAL);
    }
    // An old name of AF_PACKET.
    let domain = match (domain, kind) {
        (libc::AF_INET, SOCK_PACKET) => libc::AF_PACKET,
        _ => domain,
    };
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
    let mut socket = Socket::new(domain, style);
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
        let mut bound = sockets.values().filter(|socket| socket.binding.file == Some(ino));
        if let Some(name) = bound.find_map(|socket| socket.name().cloned()) {
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

/// For calls that fail as long as a connection is only under way.
pub fn prepare_name(cx: &Cx, call: &Call) -> Prepared {
    let mut prepared = prepare_look(cx, call);
    prepared.observes = asks_for_connection(cx, call, true);
    prepared
}

pub(super) fn asks_for_connection(cx: &Cx, call: &Call, may_miss: bool) -> Option<Observation> {
    let (_, socket) = socket_of(cx, call.fd(0)).ok()?;
    Some(Observation::Health {
        socket,
        may_miss,
        connects: true,
    })
}

pub fn prepare_bind(cx: &Cx, call: &Call) -> Prepared {
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
    // Whatever family the address says it is of.
    if socket.family == libc::AF_INET6 && raw.len() < Endpoint::SHORTEST_V6 {
        return Err(Errno::EINVAL);
    }
    let name = Endpoint::decode(socket.family, socket.style == Style::Datagram, &raw)?;
    if socket.name().is_some() {
        return bind_again(cx, &name);
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
    let name = Some(name);
    socket.binding = Binding { name, given, file };
    if let Some(datagrams) = socket.datagrams_mut() {
        datagrams.serves = serves;
    }
    cx.model.channels.outside.stale |= serves;
    Effect::ok()
}

/// A socket that has a name keeps it. To ask for any is no mistake then, and a file is made before that shows, and removed again.
fn bind_again(cx: &Cx, name: &Endpoint) -> Outcome {
    match name {
        Endpoint::Unix(path) if path.is_empty() => return Effect::ok(),
        Endpoint::Unix(path) if path[0] != 0 => names::check_new_socket(cx, path)?,
        _ => {}
    }
    Err(Errno::EINVAL)
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
    let style = socket.style;
    if style == Style::Datagram {
        return Err(Errno::EOPNOTSUPP);
    }
    if socket.is_connected() {
        return Err(Errno::EINVAL);
    }
    let name = match (socket.name(), socket.is_inet()) {
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
    // Processes outside connect by streams only.
    if style == Style::Stream {
        cx.net.listen(&name);
    }
    if let Some(socket) = cx.model.channels.sockets.get_mut(&id) {
        socket.binding.name = Some(name);
    }
    named::listen(cx.model, id);
    cx.model.channels.outside.stale = true;
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
    if socket.is_inet() && !socket.is_listening() && socket.remote_name().is_none() {
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
        true => netlink::encode(netlink::number(socket).unwrap_or_default()),
        false => encoded(socket.shown_name(), socket.family),
    };
    write_address(cx, &address, call.word(1), call.word(2))?;
    Effect::ok()
}

/// `getpeername(fd, addr, len)`.
pub fn getpeername(cx: &mut Cx, call: &Call) -> Outcome {
    let socket = object(cx, call.fd(0))?;
    let is_connected = socket.is_connected() || socket.remote_name().is_some();
    if socket.is_connecting() || !is_connected && !netlink::is_netlink(socket) {
        return Err(Errno::ENOTCONN);
    }
    let address = encoded(socket.remote_name(), socket.family);
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
