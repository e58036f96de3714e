//! Sending on sockets: `sendto`, `sendmsg`, `sendmmsg`, and what receiving has in common with it. Receiving is in `receive`.

mod receive;

pub use receive::{prepare_receive, recvfrom, recvmmsg, recvmsg};

use super::connect::{connect_to, reached_by_connect};
use super::control_messages as control;
use super::sockets::{destination, object, read_address, socket_of};
use crate::call::Call;
use crate::channels::io::{self, blocking};
use crate::channels::socket::{self, Socket, Style};
use crate::channels::{ChannelId, Use, named, netlink, touches};
use crate::clock::Nanos;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::OfdId;
use crate::memory::{GuestMemoryExt, check_reachable};
use crate::model::Cx;
use crate::net::Endpoint;
use crate::object::{Object, Touch};
use crate::signals::Signals;
use crate::wait::Wait;
use syscalls::{Errno, Sysno};

const MSGHDR_SIZE: usize = 56;
const MMSGHDR_SIZE: u64 = 64;
const MMSGHDR_LEN: u64 = 56;
/// The kernel sends and receives no more messages in one call.
const MAX_MESSAGES: u32 = 1024;

/// `struct msghdr`, or what `sendto` and `recvfrom` say in its place.
struct Header {
    /// Where it is, to be written back to; 0 if there is none.
    at: u64,
    name: u64,
    name_len: u32,
    /// Where the length of the sender's address is written.
    name_len_at: u64,
    iov: Vec<(u64, usize)>,
    control: u64,
    control_len: usize,
}

impl Header {
    fn read(cx: &Cx, at: u64) -> Result<Self, Errno> {
        cx.mem.read_vec(at, MSGHDR_SIZE)?;
        let (iov, count) = (
            cx.mem.read_u64(at.wrapping_add(16))?,
            cx.mem.read_u64(at.wrapping_add(24))?,
        );
        if count > 1024 {
            return Err(Errno::EMSGSIZE);
        }
        Ok(Self {
            at,
            name: cx.mem.read_u64(at)?,
            name_len: cx.mem.read_u32(at.wrapping_add(8))?,
            name_len_at: at.wrapping_add(8),
            iov: cx.mem.read_iovec(iov, count)?,
            control: cx.mem.read_u64(at.wrapping_add(32))?,
            control_len: cx.mem.read_u64(at.wrapping_add(40))? as usize,
        })
    }

    /// `sendto(fd, buf, len, flags, addr, addrlen)`.
    fn to(call: &Call) -> Self {
        Self {
            name: call.word(4),
            name_len: call.uint(5),
            ..Self::plain(call)
        }
    }

    fn plain(call: &Call) -> Self {
        Self {
            at: 0,
            name: 0,
            name_len: 0,
            name_len_at: 0,
            iov: vec![(call.word(1), call.word(2) as usize)],
            control: 0,
            control_len: 0,
        }
    }
}

/// The flags argument is the fourth everywhere but in `sendmsg` and `recvmsg`.
fn flags(call: &Call) -> i32 {
    match call.sysno {
        Sysno::sendmsg | Sysno::recvmsg => call.int(2),
        _ => call.int(3),
    }
}

/// One flag is for programs of 32 bits only.
fn check_flags(call: &Call) -> Result<(), Errno> {
    const COMPAT: i32 = i32::MIN;
    match flags(call) & COMPAT {
        0 => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

fn prepare(cx: &Cx, call: &Call, how: Use, wait: impl Fn(OfdId, Option<Nanos>) -> Wait) -> Prepared {
    let Ok((ofd, id)) = socket_of(cx, call.fd(0)) else {
        return Prepared::visible(vec![Touch::read(Object::FdTable)]);
    };
    let serves = cx.model.channels.sockets.get(&id).is_some_and(Socket::serves);
    let deadline = io::socket_deadline(cx.model, ofd, how == Use::Read);
    // What is never there is not waited for. Of errors only the Internet's sockets have a queue.
    let is_inet = cx.model.channels.sockets.get(&id).is_some_and(Socket::is_inet);
    let at_once = match is_inet {
        true => libc::MSG_DONTWAIT | libc::MSG_OOB | libc::MSG_ERRQUEUE,
        false => libc::MSG_DONTWAIT | libc::MSG_OOB,
    };
    let has_place = match call.sysno {
        Sysno::sendto | Sysno::recvfrom => io::reachable(&Header::plain(call).iov),
        _ => Header::read(cx, call.word(1)).is_ok(),
    };
    let waits =
        blocking(cx.model, ofd) && flags(call) & at_once == 0 && io::can_wait(cx.model, ofd) && has_place;
    let mut touched = touches(cx.model, ofd, how);
    let asks_kernel = cx
        .model
        .channels
        .sockets
        .get(&id)
        .is_some_and(netlink::is_netlink);
    if matches!(call.sysno, Sysno::recvmsg | Sysno::recvmmsg) || asks_kernel {
        // Descriptors may come along; a netlink socket gets its number when it first sends, if it has none.
        touched.push(Touch::write(Object::FdTable));
    }
    Prepared::visible(touched)
        .waiting(waits.then(|| wait(ofd, deadline)))
        .until(deadline)
        .awaiting_clients(serves && how == Use::Read)
}

pub fn prepare_send(cx: &Cx, call: &Call) -> Prepared {
    let mut prepared = prepare(cx, call, Use::Write, |ofd, deadline| {
        io::room_wait(ofd, 1, deadline)
    });
    let header = match call.sysno {
        Sysno::sendto => Ok(Header::to(call)),
        _ => Header::read(cx, call.word(1)),
    };
    if let (Ok(header), Ok((ofd, id))) = (header, socket_of(cx, call.fd(0))) {
        if flags(call) & libc::MSG_FASTOPEN != 0 {
            let len = u64::from(header.name_len);
            prepared.touches.extend(touches(cx.model, ofd, Use::Change));
            prepared
                .touches
                .extend(reached_by_connect(cx, call.fd(0), header.name, len));
        }
        prepared.touches.extend(gone_on_from(cx, call.fd(0), id, &header));
    }
    if let Ok((ofd, _)) = socket_of(cx, call.fd(0)) {
        prepared.observes = io::writes(cx.model, ofd);
    }
    prepared
}

/// The first datagram to a client that another socket has heard from goes on from there: who does that first is told apart.
fn gone_on_from(cx: &Cx, fd: i32, id: ChannelId, header: &Header) -> Option<Touch> {
    let socket = object(cx, fd).ok()?;
    if socket.style != Style::Datagram || !socket.is_inet() {
        return None;
    }
    let to = match check_destination(cx, fd, header).ok()? {
        Target::Inet(to) => to,
        _ => socket.remote_name().cloned()?,
    };
    let (other, _) = named::heard_by_another(cx.model, id, &to.destination())?;
    Some(Touch::write(Object::Channel(other.0)))
}

/// `sendto(fd, buf, len, flags, addr, addrlen)`.
pub fn sendto(cx: &mut Cx, call: &Call) -> Outcome {
    check_reachable(call.word(1), call.word(2).min(io::MAX_TRANSFER as u64))?;
    send(cx, call.fd(0), &Header::to(call), flags(call))
}

/// `sendmsg(fd, msg, flags)`.
pub fn sendmsg(cx: &mut Cx, call: &Call) -> Outcome {
    check_flags(call)?;
    socket_of(cx, call.fd(0))?;
    let header = Header::read(cx, call.word(1))?;
    send(cx, call.fd(0), &header, flags(call))
}

fn send(cx: &mut Cx, fd: i32, header: &Header, flags: i32) -> Outcome {
    let (ofd, id) = socket_of(cx, fd)?;
    if header.name != 0 && header.name_len != 0 {
        read_address(cx, header.name, u64::from(header.name_len))?;
    }
    // A call that waits has connected already: something went out before there was no more room.
    if flags & libc::MSG_FASTOPEN != 0 && cx.thread().call.progress == 0 {
        connect_first(cx, fd, header)?;
    }
    let socket = object(cx, fd)?;
    // Out of turn, as its error is: nothing is sent that way.
    if socket.style == Style::SeqPacket && !socket.is_inet() && !socket.is_connected() {
        return Err(io::refuse(cx.model, ofd, 0, false).unwrap_or(Errno::ENOTCONN));
    }
    let is_too_long =
        socket.is_inet() && socket.style == Style::Datagram && io::total(&header.iov) > io::LONGEST_UDP;
    // IPv6 looks at the address first.
    if is_too_long && socket.family == libc::AF_INET {
        return Err(Errno::EMSGSIZE);
    }
    let is_urgent = flags & libc::MSG_OOB != 0;
    // UDP over IPv6 does not look at that.
    if is_urgent && socket.style == Style::Datagram && socket.family != libc::AF_INET6 {
        return Err(Errno::EOPNOTSUPP);
    }
    let is_stream = socket.style == Style::Stream;
    let to = check_destination(cx, fd, header)?;
    if is_too_long {
        return Err(Errno::EMSGSIZE);
    }
    if is_urgent && is_stream {
        return match io::refuse(cx.model, ofd, 0, false) {
            Some(Errno::EPIPE) if flags & libc::MSG_NOSIGNAL != 0 => Err(Errno::EPIPE),
            Some(errno) => io::refused(cx, ofd, errno),
            None => Err(Errno::EOPNOTSUPP),
        };
    }
    if is_urgent && object(cx, fd)?.style == Style::SeqPacket {
        return Err(Errno::EOPNOTSUPP);
    }
    let is_named = !matches!(to, Target::Connected);
    // Of a Unix socket's address it is found out last where it leads.
    if let Target::Unix(_) = to
        && let Some(errno) = io::refuse(cx.model, ofd, io::total(&header.iov), is_named)
    {
        return Err(errno);
    }
    let data = match io::gather(cx.mem, &header.iov) {
        Ok(data) => data,
        Err(fault) => match io::refuse(cx.model, ofd, io::total(&header.iov), is_named) {
            Some(Errno::EPIPE) if flags & libc::MSG_NOSIGNAL != 0 => return Err(Errno::EPIPE),
            Some(errno) => return io::refused(cx, ofd, errno),
            None => return Err(fault),
        },
    };
    let to = match to {
        Target::Connected => None,
        Target::Inet(to) => Some(to),
        Target::Unix(raw) => Some(find_receiver(cx, fd, &raw)?),
    };
    let before = cx.thread().call.progress as usize;
    // What went out already took the descriptors with it.
    let rights = match before {
        0 => control::read_rights(cx, header.control, header.control_len)?,
        _ => Vec::new(),
    };
    if !rights.is_empty() && object(cx, fd)?.remote().is_some() {
        return Ok(Effect::Unsupported(
            "it sends descriptors (SCM_RIGHTS) to a peer, which is another process: the program has none that the kernel knows".to_owned(),
        ));
    }
    let rest = data.get(before..).unwrap_or_default();
    let sent = match to {
        Some(to) => named::send_datagram(cx.model, id, to, rest),
        None if before > 0 => socket::resumed(cx.model, id, |model| socket::send(model, id, rest, &rights)),
        None => socket::send(cx.model, id, rest, &rights),
    };
    let tells = before == 0 && flags & libc::MSG_NOSIGNAL == 0;
    if sent == Err(Errno::EPIPE) && tells && io::is_stream(cx.model, id) {
        Signals::raise(cx.model, cx.tid, libc::SIGPIPE);
    }
    let may_wait = blocking(cx.model, ofd) && flags & libc::MSG_DONTWAIT == 0;
    io::finish_write(cx, ofd, sent, data.len(), 1, may_wait)
}

/// TCP Fast Open: a stream socket that is not connected is, and then sends. The data may go out with the request only to who has a cookie of
/// an earlier connection, which nobody has here, so that a socket which does not wait is told to try again, as by `connect`.
fn connect_first(cx: &mut Cx, fd: i32, header: &Header) -> Result<(), Errno> {
    let socket = object(cx, fd)?;
    if socket.style != Style::Stream || !socket.is_inet() {
        return Ok(());
    }
    let named = header.name != 0 && header.name_len != 0;
    if !named {
        return Err(if socket.is_connected() {
            Errno::EISCONN
        } else {
            Errno::EINVAL
        });
    }
    let raw = read_address(cx, header.name, u64::from(header.name_len))?;
    if raw.starts_with(&(libc::AF_UNSPEC as u16).to_le_bytes()) {
        return Err(Errno::EOPNOTSUPP);
    }
    connect_to(cx, fd, header.name, u64::from(header.name_len)).map(drop)
}

/// Where a message goes, as far as that can be told before there is one.
enum Target {
    /// Where the socket is connected to.
    Connected,
    Inet(Endpoint),
    /// The address of a Unix socket.
    Unix(Vec<u8>),
}

/// A connection takes no other address; a datagram goes where it says.
fn check_destination(cx: &Cx, fd: i32, header: &Header) -> Result<Target, Errno> {
    let is_datagram = object(cx, fd).is_ok_and(|socket| socket.style == Style::Datagram && socket.is_inet());
    // An address of no length is one to `sendto`.
    if header.name != 0 && header.name_len == 0 && header.at == 0 && is_datagram {
        return Err(Errno::EINVAL);
    }
    if header.name == 0 || header.name_len == 0 {
        return Ok(Target::Connected);
    }
    let mut raw = read_address(cx, header.name, u64::from(header.name_len))?;
    let socket = object(cx, fd)?;
    if netlink::is_netlink(socket) {
        return Ok(Target::Connected);
    }
    match (socket.style, socket.is_connected()) {
        // TCP looks at no address at all.
        (Style::Stream, _) if socket.is_inet() => Ok(Target::Connected),
        (Style::Stream, false) => Err(Errno::EOPNOTSUPP),
        (Style::Stream, _) => Err(Errno::EISCONN),
        // The kernel ignores the address of a sequenced packet.
        (Style::SeqPacket, _) => Ok(Target::Connected),
        (Style::Datagram, _) if !socket.is_inet() => {
            Endpoint::decode(socket.family, true, &raw)?;
            // A name of the kernel's choice is nobody's.
            match raw.len() {
                0..=UNIX_FAMILY => Err(Errno::EINVAL),
                _ => Ok(Target::Unix(raw)),
            }
        }
        (Style::Datagram, _) => {
            let says_nothing = raw.starts_with(&(libc::AF_UNSPEC as u16).to_le_bytes());
            match socket.family {
                // No address after all, to IPv6.
                libc::AF_INET6 if says_nothing => return Ok(Target::Connected),
                _ if says_nothing => {
                    raw[..UNIX_FAMILY].copy_from_slice(&(libc::AF_INET as u16).to_le_bytes())
                }
                _ => {}
            }
            let to = match destination(cx, socket, &raw) {
                Err(Errno::EAFNOSUPPORT) if socket.family == libc::AF_INET6 => return Err(Errno::EINVAL),
                to => to?,
            };
            match to.port() {
                Some(0) => Err(Errno::EINVAL),
                _ => Ok(Target::Inet(to)),
            }
        }
    }
}

/// The length of the family in an address, which is all that there is in the shortest.
const UNIX_FAMILY: usize = 2;

/// The name of the Unix socket that gets what is sent to this address.
fn find_receiver(cx: &Cx, fd: i32, raw: &[u8]) -> Result<Endpoint, Errno> {
    let socket = object(cx, fd)?;
    let to = destination(cx, socket, raw)?;
    let receiver = named::receiver(cx.model, &to).ok_or(Errno::ECONNREFUSED)?;
    match cx.model.channels.sockets.get(&receiver) {
        Some(other) if other.style != socket.style => Err(Errno::EPROTOTYPE),
        _ => Ok(to),
    }
}

/// `sendmmsg(fd, messages, count, flags)`.
pub fn sendmmsg(cx: &mut Cx, call: &Call) -> Outcome {
    check_flags(call)?;
    many(cx, call, |cx, header, _| {
        send(cx, call.fd(0), header, flags(call))
    })
}

/// Moves message after message. How many are done is kept with the thread while one waits.
fn many(cx: &mut Cx, call: &Call, one: impl Fn(&mut Cx, &Header, bool) -> Outcome) -> Outcome {
    socket_of(cx, call.fd(0))?;
    let count = call.uint(2).min(MAX_MESSAGES);
    while cx.thread().call.messages < count {
        let done = cx.thread().call.messages;
        let at = call.word(1) + u64::from(done) * MMSGHDR_SIZE;
        let outcome = Header::read(cx, at).and_then(|header| one(cx, &header, done == 0));
        let len = match outcome {
            Ok(Effect::Done(len)) => len,
            Ok(Effect::Block(wait)) => return Ok(Effect::Block(wait)),
            _ if done > 0 => return Ok(Effect::DoneCheckSignals(i64::from(done))),
            other => return other,
        };
        cx.mem.write_u32(at.wrapping_add(MMSGHDR_LEN), len as u32)?;
        let thread = cx.thread();
        thread.call.messages += 1;
        thread.call.progress = 0;
    }
    Ok(Effect::Done(i64::from(count)))
}
