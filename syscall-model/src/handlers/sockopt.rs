//! `getsockopt` and `setsockopt`.
//!
//! Options with an effect here have it; harmless ones are kept and read back; anything else is refused as
//! by a kernel that does not know it.

use super::sockets::{object, prepare_change, socket_of};
use crate::call::Call;
use crate::channels::socket::{Socket, Style};
use crate::channels::{ChannelId, netlink};
use crate::clock::Nanos;
use crate::effect::{Effect, Outcome, Prepared};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::net::interfaces;
use crate::net::observe::Observation;
use libc::SOL_SOCKET;
use syscalls::Errno;

/// The 64-bit-time variants, which have the same layout here.
const SO_RCVTIMEO_NEW: i32 = 66;
const SO_SNDTIMEO_NEW: i32 = 67;
/// The kernel doubles what it is asked for, within these bounds.
const MIN_SEND_BUFFER: usize = 4608;
const MIN_RECEIVE_BUFFER: usize = 2304;
const MAX_BUFFER_ASKED: usize = 212_992;
/// `TCP_CA_NAME_MAX`.
const ALGORITHM: usize = 16;
const IP_LOCAL_PORT_RANGE: i32 = 51;

/// Options without an effect in the model, with the value they start with.
fn plain_default(option: i32) -> Option<Vec<u8>> {
    match option {
        libc::SO_LINGER => Some(vec![0; 8]),
        libc::SO_REUSEADDR
        | libc::SO_REUSEPORT
        | libc::SO_KEEPALIVE
        | libc::SO_DEBUG
        | libc::SO_BROADCAST
        | libc::SO_OOBINLINE
        | libc::SO_PRIORITY
        | libc::SO_DONTROUTE
        | libc::SO_TIMESTAMP
        | libc::SO_TIMESTAMPNS
        | libc::SO_RXQ_OVFL
        | libc::SO_NO_CHECK
        | libc::SO_MARK
        | libc::SO_BUSY_POLL => Some(vec![0; 4]),
        libc::SO_INCOMING_CPU | libc::SO_MAX_PACING_RATE => Some(vec![0xff; 4]),
        _ => None,
    }
}

/// `setsockopt(fd, level, name, value, len)`.
pub fn setsockopt(cx: &mut Cx, call: &Call) -> Outcome {
    let (_, id) = socket_of(cx, call.fd(0))?;
    let (level, option, addr) = (call.int(1), call.int(2), call.word(3));
    let len = usize::try_from(call.int(4)).map_err(|_| Errno::EINVAL)?;
    if level != SOL_SOCKET {
        return set_protocol_option(cx, id, level, option, addr, len);
    }
    if option == libc::SO_BINDTODEVICE {
        return bind_to_device(cx, addr, len);
    }
    if len < 4 {
        return Err(Errno::EINVAL);
    }
    let number = cx.mem.read_u32(addr)? as i32;
    let timeout = match option {
        libc::SO_RCVTIMEO | libc::SO_SNDTIMEO | SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW => {
            read_timeout(cx, addr, len)?
        }
        _ => None,
    };
    let plain = plain_default(option).map(|default| cx.mem.read_vec(addr, default.len().min(len)));
    let is_root = cx.owner().0 == 0;
    let socket = cx.model.channels.sockets.get_mut(&id).ok_or(Errno::EBADF)?;
    let is_inet = socket.is_inet();
    let options = &mut socket.options;
    match option {
        libc::SO_DEBUG if number != 0 && !is_root => return Err(Errno::EACCES),
        libc::SO_PRIORITY if !(0..=6).contains(&number) && !is_root => return Err(Errno::EPERM),
        libc::SO_SNDBUF | libc::SO_SNDBUFFORCE => options.send_buffer = buffer(number, MIN_SEND_BUFFER),
        libc::SO_RCVBUF | libc::SO_RCVBUFFORCE => options.receive_buffer = buffer(number, MIN_RECEIVE_BUFFER),
        libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW => options.receive_timeout = timeout,
        libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW => options.send_timeout = timeout,
        libc::SO_RCVLOWAT => options.receive_low_water = usize::try_from(number).unwrap_or(usize::MAX).max(1),
        libc::SO_PASSCRED if is_inet => return Err(Errno::EOPNOTSUPP),
        libc::SO_PASSCRED => options.pass_credentials = number != 0,
        _ => {
            let value = plain.ok_or(Errno::ENOPROTOOPT)??;
            options.plain.insert((level, option), value);
        }
    }
    Effect::ok()
}

/// `SO_BINDTODEVICE`: there is one interface, so it makes no difference.
fn bind_to_device(cx: &mut Cx, addr: u64, len: usize) -> Outcome {
    const LONGEST: usize = 16;
    let name = cx.mem.read_vec(addr, len.min(LONGEST))?;
    match interfaces::is_name(&name) || name.first().is_none_or(|&first| first == 0) {
        true => Effect::ok(),
        false => Err(Errno::ENODEV),
    }
}

/// Options of TCP, UDP and IP that programs set. None has an effect on what is modelled, but all are told back.
fn protocol_default(level: i32, option: i32) -> Option<u32> {
    let flag_or_number = match level {
        libc::IPPROTO_TCP => match option {
            libc::TCP_NODELAY | libc::TCP_CORK | libc::TCP_DEFER_ACCEPT | libc::TCP_USER_TIMEOUT => 0,
            libc::TCP_FASTOPEN | libc::TCP_FASTOPEN_CONNECT | libc::TCP_FASTOPEN_NO_COOKIE => 0,
            libc::TCP_WINDOW_CLAMP | libc::TCP_NOTSENT_LOWAT | libc::TCP_SAVE_SYN => 0,
            libc::TCP_THIN_LINEAR_TIMEOUTS | libc::TCP_THIN_DUPACK => 0,
            libc::TCP_LINGER2 => 60,
            libc::TCP_QUICKACK => 1,
            libc::TCP_MAXSEG => 536,
            libc::TCP_KEEPIDLE => 7200,
            libc::TCP_KEEPINTVL => 75,
            libc::TCP_KEEPCNT => 9,
            libc::TCP_SYNCNT => 6,
            _ => return None,
        },
        libc::IPPROTO_IP => match option {
            libc::IP_TTL => 64,
            libc::IP_TOS | libc::IP_RECVERR | libc::IP_PKTINFO | libc::IP_RECVTOS | libc::IP_RECVOPTS => 0,
            libc::IP_MULTICAST_TTL | libc::IP_MULTICAST_LOOP | libc::IP_MTU_DISCOVER => 1,
            libc::IP_RECVORIGDSTADDR | libc::IP_MINTTL | IP_LOCAL_PORT_RANGE => 0,
            libc::IP_FREEBIND | libc::IP_BIND_ADDRESS_NO_PORT | libc::IP_RECVTTL | libc::IP_TRANSPARENT => 0,
            _ => return None,
        },
        libc::IPPROTO_IPV6 => match option {
            libc::IPV6_V6ONLY | libc::IPV6_TCLASS | libc::IPV6_RECVERR | libc::IPV6_RECVPKTINFO => 0,
            libc::IPV6_FREEBIND | libc::IPV6_RECVTCLASS | libc::IPV6_RECVHOPLIMIT => 0,
            libc::IPV6_DONTFRAG | libc::IPV6_ADDR_PREFERENCES => 0,
            libc::IPV6_MULTICAST_HOPS | libc::IPV6_MULTICAST_LOOP | libc::IPV6_MTU_DISCOVER => 1,
            libc::IPV6_UNICAST_HOPS => 64,
            _ => return None,
        },
        libc::SOL_NETLINK => match option {
            libc::NETLINK_ADD_MEMBERSHIP..=libc::NETLINK_GET_STRICT_CHK => 0,
            _ => return None,
        },
        _ => return None,
    };
    Some(flag_or_number)
}

fn set_protocol_option(
    cx: &mut Cx,
    id: ChannelId,
    level: i32,
    option: i32,
    addr: u64,
    len: usize,
) -> Outcome {
    let socket = cx.model.channels.sockets.get(&id).ok_or(Errno::EBADF)?;
    has_level(socket, level)?;
    if (level, option) == (libc::IPPROTO_TCP, libc::TCP_CONGESTION) {
        return set_congestion(cx, id, addr, len);
    }
    protocol_default(level, option).ok_or(Errno::ENOPROTOOPT)?;
    // Some of them may be given as a byte.
    let mut value = match len {
        0 => return Err(Errno::EINVAL),
        1..4 => cx.mem.read_vec(addr, 1)?,
        _ => cx.mem.read_vec(addr, 4)?,
    };
    value.resize(4, 0);
    let socket = cx.model.channels.sockets.get_mut(&id).ok_or(Errno::EBADF)?;
    if level == libc::IPPROTO_TCP && !may_open_fast(socket, option, &value, len) {
        return Err(Errno::EINVAL);
    }
    socket.options.plain.insert((level, option), value);
    Effect::ok()
}

/// What the kernel asks of the options of TCP Fast Open; they make no difference, for nobody ever has a cookie.
fn may_open_fast(socket: &Socket, option: i32, value: &[u8], len: usize) -> bool {
    let listens = socket.is_listening();
    let closed = !socket.is_connected() && !listens;
    let is_flag = matches!(value, [0 | 1, 0, 0, 0]) && len >= 4;
    match option {
        libc::TCP_FASTOPEN => len >= 4 && (closed || listens),
        libc::TCP_FASTOPEN_CONNECT => is_flag && closed,
        libc::TCP_FASTOPEN_NO_COOKIE => is_flag && (closed || listens),
        _ => true,
    }
}

/// Does a socket have options of this level?
fn has_level(socket: &Socket, level: i32) -> Result<(), Errno> {
    match (level, socket.is_inet()) {
        (libc::SOL_NETLINK, _) if netlink::is_netlink(socket) => Ok(()),
        // A Unix socket has none but its own.
        (_, false) => Err(Errno::EOPNOTSUPP),
        (libc::IPPROTO_TCP, true) if socket.style == Style::Stream => Ok(()),
        (libc::IPPROTO_UDP, true) if socket.style == Style::Datagram => Ok(()),
        (libc::IPPROTO_IP, true) => Ok(()),
        (libc::IPPROTO_IPV6, true) if socket.family == libc::AF_INET6 => Ok(()),
        (_, true) => Err(Errno::ENOPROTOOPT),
    }
}

/// `TCP_CONGESTION`: one of those that every kernel has.
fn set_congestion(cx: &mut Cx, id: ChannelId, addr: u64, len: usize) -> Outcome {
    let mut name = cx.mem.read_vec(addr, len.min(ALGORITHM - 1))?;
    name.resize(ALGORITHM, 0);
    if ![&b"cubic"[..], b"reno"].contains(&name.split(|&byte| byte == 0).next().unwrap_or_default()) {
        return Err(Errno::ENOENT);
    }
    let socket = cx.model.channels.sockets.get_mut(&id).ok_or(Errno::EBADF)?;
    let key = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
    socket.options.plain.insert(key, name);
    Effect::ok()
}

/// `struct tcp_info`: the state, and figures of a connection on which nothing was ever lost or late; the real ones would differ from run to run.
fn tcp_info(socket: &Socket) -> Vec<u8> {
    const LENGTH: usize = 248;
    const ESTABLISHED: u8 = 1;
    const CLOSE: u8 = 7;
    const LISTEN: u8 = 10;
    const SEGMENT: u32 = 32_768;
    let state = match socket.is_connected() {
        _ if socket.is_listening() => LISTEN,
        true => ESTABLISHED,
        false => CLOSE,
    };
    let mut info = vec![0; LENGTH];
    info[0] = state;
    // Retransmission timeout and delay of acknowledgements, in microseconds; segment sizes; path MTU; round-trip time; window.
    let figures = [
        (8, 201_000),
        (12, 40_000),
        (16, SEGMENT),
        (20, 536),
        (60, 65_536),
        (68, 20),
        (72, 10),
        (80, 10),
    ];
    for (at, value) in figures {
        info[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
    }
    info
}

fn buffer(asked: i32, min: usize) -> usize {
    let asked = usize::try_from(asked)
        .unwrap_or(MAX_BUFFER_ASKED)
        .min(MAX_BUFFER_ASKED);
    (asked * 2).max(min)
}

/// A `struct timeval`; zero is for ever.
fn read_timeout(cx: &Cx, addr: u64, len: usize) -> Result<Option<Nanos>, Errno> {
    if len < 16 {
        return Err(Errno::EINVAL);
    }
    let (seconds, micros) = (
        cx.mem.read_u64(addr)? as i64,
        cx.mem.read_u64(addr.wrapping_add(8))?,
    );
    if micros >= 1_000_000 {
        return Err(Errno::EDOM);
    }
    // The kernel takes a negative time for one that is up at once, to the next tick of its clock.
    let seconds = u64::try_from(seconds).unwrap_or(0);
    let nanos = seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(micros * 1000);
    Ok((nanos > 0).then_some(nanos))
}

/// `SO_ERROR` tells whether the connection is in order.
pub fn prepare_getsockopt(cx: &Cx, call: &Call) -> Prepared {
    let mut prepared = prepare_change(cx, call);
    if let Ok((_, socket)) = socket_of(cx, call.fd(0))
        && (call.int(1), call.int(2)) == (libc::SOL_SOCKET, libc::SO_ERROR)
    {
        prepared.observes = Some(Observation::Health {
            socket,
            may_miss: true,
            connects: false,
        });
    }
    prepared
}

/// `getsockopt(fd, level, name, value, len)`.
pub fn getsockopt(cx: &mut Cx, call: &Call) -> Outcome {
    let (level, option, addr, len_addr) = (call.int(1), call.int(2), call.word(3), call.word(4));
    let socket = object(cx, call.fd(0))?;
    if level == SOL_SOCKET {
        cx.mem.read_u32(len_addr)?;
    }
    if level != SOL_SOCKET {
        // Asking for a level that is not there is told in another way than setting something of it.
        has_level(socket, level).map_err(|_| match socket.family {
            libc::AF_INET6 => Errno::ENOPROTOOPT,
            _ => Errno::EOPNOTSUPP,
        })?;
    }
    let protocol_value = match (level, option) {
        (SOL_SOCKET, _) => None,
        (libc::IPPROTO_TCP, libc::TCP_INFO) => Some(tcp_info(socket)),
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            let set = socket.options.plain.get(&(level, option)).cloned();
            Some(set.unwrap_or_else(|| b"cubic\0\0\0\0\0\0\0\0\0\0\0".to_vec()))
        }
        _ => {
            let default = protocol_default(level, option).ok_or(Errno::ENOPROTOOPT)?;
            let set = socket.options.plain.get(&(level, option)).cloned();
            Some(set.unwrap_or_else(|| default.to_le_bytes().to_vec()))
        }
    };
    let room = usize::try_from(cx.mem.read_u32(len_addr)? as i32).map_err(|_| Errno::EINVAL)?;
    let value = match protocol_value {
        Some(value) => value,
        None => value(cx, call.fd(0), option)?,
    };
    let fits = &value[..value.len().min(room)];
    if !fits.is_empty() {
        cx.mem.write(addr, fits)?;
    }
    cx.mem.write_u32(len_addr, fits.len() as u32)?;
    Effect::ok()
}

fn value(cx: &mut Cx, fd: i32, option: i32) -> Result<Vec<u8>, Errno> {
    let number = |value: i32| value.to_le_bytes().to_vec();
    let (_, id) = socket_of(cx, fd)?;
    let credentials = credentials(cx);
    let socket: &mut Socket = cx.model.channels.sockets.get_mut(&id).ok_or(Errno::EBADF)?;
    let options = &socket.options;
    let is_inet = socket.is_inet();
    Ok(match option {
        libc::SO_TYPE => number(socket.style.to_type()),
        libc::SO_DOMAIN => number(socket.family),
        libc::SO_PROTOCOL => number(match (socket.is_inet(), socket.style) {
            (false, _) => 0,
            (true, Style::Datagram) => libc::IPPROTO_UDP,
            (true, _) => libc::IPPROTO_TCP,
        }),
        libc::SO_ACCEPTCONN => number(socket.is_listening().into()),
        libc::SO_ERROR => number(socket.error.take().map_or(0, Errno::into_raw)),
        libc::SO_SNDBUF => number(options.send_buffer as i32),
        libc::SO_RCVBUF => number(options.receive_buffer as i32),
        libc::SO_RCVLOWAT => number(options.receive_low_water.min(i32::MAX as usize) as i32),
        libc::SO_PASSCRED if socket.is_inet() => return Err(Errno::EOPNOTSUPP),
        libc::SO_PASSCRED => number(options.pass_credentials.into()),
        libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW => timeval(options.receive_timeout),
        libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW => timeval(options.send_timeout),
        // A peer is started by the same user. Only Unix sockets know who is there.
        libc::SO_PEERCRED if socket.remote().is_some() && !is_inet => credentials,
        libc::SO_PEERCRED if let Some(peer) = socket.peer_credentials.filter(|_| !is_inet) => {
            peer.map(u32::to_le_bytes).concat()
        }
        // Nobody: pid 0, user and group -1.
        libc::SO_PEERCRED => [number(0), number(-1), number(-1)].concat(),
        _ => match options.plain.get(&(SOL_SOCKET, option)) {
            Some(value) => value.clone(),
            None => plain_default(option).ok_or(Errno::ENOPROTOOPT)?,
        },
    })
}

fn timeval(timeout: Option<Nanos>) -> Vec<u8> {
    let nanos = timeout.unwrap_or(0);
    let fields = [nanos / 1_000_000_000, nanos % 1_000_000_000 / 1000];
    fields.map(u64::to_le_bytes).concat()
}

/// `struct ucred` of the process: both ends of every connection are its own.
pub fn credentials(cx: &Cx) -> Vec<u8> {
    cx.model.process.credentials().map(u32::to_le_bytes).concat()
}
