//! Making, connecting, naming and shutting down sockets.
//!
//! Socket pairs are complete. A socket made by `socket` can be `AF_UNIX` only and finds nobody to connect to,
//! which is what a C library's probe for a name-service daemon needs; to bind one stops the run.

use super::pipe::install_two;
use crate::call::Call;
use crate::channels::socket::{self, Link, Socket, Style};
use crate::channels::{ChannelId, Use, install, touches};
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use syscalls::Errno;

const FLAGS: i32 = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
/// The longest address that the kernel takes.
const MAX_ADDRESS: usize = 128;
/// `sizeof(struct sockaddr_un)`.
const UNIX_ADDRESS: usize = 110;

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

/// Splits `type` into the style and the two flags.
fn style_and_flags(kind: i32) -> Result<(Style, i32), Errno> {
    let flags = kind & !0xf;
    if flags & !FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let style = Style::from_type(kind & 0xf).ok_or(Errno::ESOCKTNOSUPPORT)?;
    Ok((style, flags))
}

fn status(flags: i32) -> i32 {
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
    let family = match domain {
        libc::AF_UNIX => return unix_socket(cx, kind, protocol),
        libc::AF_INET => "AF_INET",
        libc::AF_INET6 => "AF_INET6",
        // Netlink among them: programs that list interfaces with it have another way, or do without.
        _ => return Err(Errno::EAFNOSUPPORT),
    };
    Ok(Effect::Unsupported(format!(
        "network sockets ({family}) are not modelled yet"
    )))
}

fn unix_socket(cx: &mut Cx, kind: i32, protocol: i32) -> Outcome {
    let (style, flags) = style_and_flags(kind)?;
    check_unix_protocol(protocol)?;
    let socket = Socket::new(libc::AF_UNIX, style, Link::Unconnected);
    let id = cx.model.channels.add_socket(socket);
    let fd = install(
        cx.model,
        Kind::Socket(id),
        status(flags),
        flags & libc::SOCK_CLOEXEC != 0,
    )?;
    Ok(Effect::Done(i64::from(fd)))
}

/// `socketpair(domain, type, protocol, sv)`.
pub fn socketpair(cx: &mut Cx, call: &Call) -> Outcome {
    let (style, flags) = style_and_flags(call.int(1))?;
    match call.int(0) {
        libc::AF_UNIX => check_unix_protocol(call.int(2))?,
        libc::AF_INET | libc::AF_INET6 => return Err(Errno::EOPNOTSUPP),
        _ => return Err(Errno::EAFNOSUPPORT),
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

/// Why nobody answers at this Unix address: no socket of the program is bound anywhere, and those of other
/// programs are out of its sight.
pub fn nobody_at(address: &[u8]) -> Errno {
    let [low, high, path @ ..] = address else {
        return Errno::EINVAL;
    };
    if i32::from(u16::from_le_bytes([*low, *high])) != libc::AF_UNIX || address.len() > UNIX_ADDRESS {
        return Errno::EINVAL;
    }
    match path.first() {
        None => Errno::EINVAL,
        // The abstract name space.
        Some(0) => Errno::ECONNREFUSED,
        Some(_) => Errno::ENOENT,
    }
}

/// `connect(fd, addr, len)`.
pub fn connect(cx: &mut Cx, call: &Call) -> Outcome {
    let (_, id) = socket_of(cx, call.fd(0))?;
    let address = read_address(cx, call.word(1), call.word(2))?;
    let socket = cx.model.channels.sockets.get_mut(&id).ok_or(Errno::EBADF)?;
    let disconnect = address.starts_with(&(libc::AF_UNSPEC as u16).to_le_bytes());
    if disconnect && socket.style == Style::Datagram {
        if socket.link != Link::Unconnected {
            socket::disconnect(cx.model, id);
        }
        return Effect::ok();
    }
    match nobody_at(&address) {
        Errno::EINVAL => Err(Errno::EINVAL),
        _ if socket.connection_based() && socket.link != Link::Unconnected => Err(Errno::EISCONN),
        errno => Err(errno),
    }
}

/// `bind(fd, addr, len)`.
pub fn bind(cx: &mut Cx, call: &Call) -> Outcome {
    socket_of(cx, call.fd(0))?;
    read_address(cx, call.word(1), call.word(2))?;
    Ok(Effect::Unsupported(
        "network sockets are not modelled yet: a socket cannot be given a name".to_owned(),
    ))
}

/// `listen(fd, backlog)`: only a socket with a name could, and there is none.
pub fn listen(cx: &mut Cx, call: &Call) -> Outcome {
    if object(cx, call.fd(0))?.style == Style::Datagram {
        return Err(Errno::EOPNOTSUPP);
    }
    Err(Errno::EINVAL)
}

/// `accept` and `accept4`: nothing listens.
pub fn accept(cx: &mut Cx, call: &Call) -> Outcome {
    if object(cx, call.fd(0))?.style == Style::Datagram {
        return Err(Errno::EOPNOTSUPP);
    }
    Err(Errno::EINVAL)
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
    socket::shutdown(cx.model, id, read, write);
    Effect::ok()
}

/// `getsockname(fd, addr, len)`.
pub fn getsockname(cx: &mut Cx, call: &Call) -> Outcome {
    let family = object(cx, call.fd(0))?.family;
    write_address(cx, &unnamed(family), call.word(1), call.word(2))?;
    Effect::ok()
}

/// `getpeername(fd, addr, len)`.
pub fn getpeername(cx: &mut Cx, call: &Call) -> Outcome {
    let socket = object(cx, call.fd(0))?;
    if socket.link == Link::Unconnected {
        return Err(Errno::ENOTCONN);
    }
    let family = socket.family;
    write_address(cx, &unnamed(family), call.word(1), call.word(2))?;
    Effect::ok()
}

/// The address of a socket without a name: just its family.
pub fn unnamed(family: i32) -> Vec<u8> {
    (family as u16).to_le_bytes().to_vec()
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
