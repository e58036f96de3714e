//! `recvfrom`, `recvmsg`, `recvmmsg`.

use super::{Header, MAX_MESSAGES, check_flags, flags, many, prepare};
use crate::call::Call;
use crate::channels::io::{self, blocking};
use crate::channels::socket::{self, Received, Socket, Style};
use crate::channels::{ChannelId, Use};
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::OfdId;
use crate::handlers::control_messages::Control;
use crate::handlers::sockets::{encoded, object, socket_of, write_address};
use crate::memory::{GuestMemoryExt, check_reachable};
use crate::model::Cx;
use crate::net::observe::Observation;
use crate::net::{Endpoint, interfaces};
use crate::wait::{Wait, Wake};
use std::net::IpAddr;
use syscalls::{Errno, Sysno};

pub fn prepare_receive(cx: &Cx, call: &Call) -> Prepared {
    let mut prepared = prepare(cx, call, Use::Read, io::read_wait);
    if let Ok((_, id)) = socket_of(cx, call.fd(0)) {
        let may_fail = prepared.wait.is_none();
        prepared.observes = receives(cx, call, id, may_fail);
    }
    prepared
}

/// What a receive can tell of arrivals.
fn receives(cx: &Cx, call: &Call, socket: ChannelId, may_fail: bool) -> Option<Observation> {
    let header = match call.sysno {
        Sysno::recvfrom => Ok(Header::plain(call)),
        _ => Header::read(cx, call.word(1)),
    };
    let max = io::total(&header.ok()?.iov);
    Some(Observation::Receive {
        socket,
        max,
        least: least(cx, socket, max, flags(call)),
        may_fail,
        peeks: flags(call) & libc::MSG_PEEK != 0,
        datagrams: match call.sysno {
            Sysno::recvmmsg => call.uint(2).min(MAX_MESSAGES),
            _ => 1,
        },
    })
}

/// `recvfrom(fd, buf, len, flags, addr, addrlen)`.
pub fn recvfrom(cx: &mut Cx, call: &Call) -> Outcome {
    check_reachable(call.word(1), call.word(2).min(io::MAX_TRANSFER as u64))?;
    let header = Header {
        name: call.word(4),
        name_len_at: call.word(5),
        ..Header::plain(call)
    };
    receive(cx, call.fd(0), &header, flags(call))
}

/// Only a datagram says where it comes from, if its sender has a name.
fn sender(cx: &Cx, fd: i32, from: Option<&Endpoint>) -> Result<Vec<u8>, Errno> {
    let socket = object(cx, fd)?;
    Ok(match socket.style {
        Style::Datagram => encoded(from, socket.family),
        _ => Vec::new(),
    })
}

/// `recvmsg(fd, msg, flags)`.
pub fn recvmsg(cx: &mut Cx, call: &Call) -> Outcome {
    check_flags(call)?;
    socket_of(cx, call.fd(0))?;
    let header = Header::read(cx, call.word(1))?;
    receive(cx, call.fd(0), &header, flags(call))
}

fn receive(cx: &mut Cx, fd: i32, header: &Header, flags: i32) -> Outcome {
    let (ofd, id) = socket_of(cx, fd)?;
    let socket = object(cx, fd)?;
    // There is never any urgent data; datagrams of the Internet do not know what that is.
    if flags & libc::MSG_OOB != 0 {
        match (socket.style, socket.is_inet(), socket.is_connected()) {
            (Style::Datagram, true, _) => {}
            (Style::Stream, true, _) if socket.is_listening() => return Err(Errno::ENOTCONN),
            (Style::Stream, ..) => return Err(Errno::EINVAL),
            (Style::SeqPacket, _, false) => return Err(Errno::ENOTCONN),
            _ => return Err(Errno::EOPNOTSUPP),
        }
    }
    if flags & libc::MSG_ERRQUEUE != 0 && socket.is_inet() {
        return Err(Errno::EAGAIN);
    }
    let before = cx.thread().call.progress as usize;
    let got = match try_receive(cx, ofd, id, &header.iov, flags)? {
        Ok(got) => got,
        Err(wait) => return Ok(Effect::Block(wait)),
    };
    let count = before + got.data.len();
    let record = !io::is_stream(cx.model, id);
    let result = if record && flags & libc::MSG_TRUNC != 0 {
        got.full_len
    } else {
        count
    };
    if header.name != 0 {
        let from = sender(cx, fd, got.from.as_ref())?;
        write_address(cx, &from, header.name, header.name_len_at)?;
    }
    if header.at != 0 {
        let mut told = flags & libc::MSG_CMSG_CLOEXEC;
        if record && got.full_len > got.data.len() {
            told |= libc::MSG_TRUNC;
        }
        tell(cx, fd, header, got.rights, told)?;
    } else {
        for right in got.rights {
            cx.model.release(right);
        }
    }
    Ok(Effect::Done(result as i64))
}

/// One more try; the inner `Err` is what to wait for. What it gets is in the guest's buffers already.
fn try_receive(
    cx: &mut Cx,
    ofd: OfdId,
    id: ChannelId,
    iov: &[(u64, usize)],
    flags: i32,
) -> Result<Result<Received, Wait>, Errno> {
    let before = cx.thread().call.progress as usize;
    let max = io::total(iov) - before;
    let peek = flags & libc::MSG_PEEK != 0;
    let may_wait = blocking(cx.model, ofd) && flags & libc::MSG_DONTWAIT == 0 && cx.wake != Wake::TimedOut;
    let wait = io::read_wait(ofd, cx.thread().call.deadline);
    let got = match before {
        0 => socket::receive(cx.model, id, max, peek),
        _ => socket::resumed(cx.model, id, |model| socket::receive(model, id, max, peek)),
    };
    let got = match got {
        Err(Errno::EAGAIN) if may_wait => return Ok(Err(wait)),
        // The bytes that came before the error are what the caller hears of.
        Err(_) if before > 0 => Received::end(),
        Ok(got) if got.end && !may_wait && !io::connection_based(cx.model, id) => return Err(Errno::EAGAIN),
        other => other?,
    };
    // TCP throws away what is asked for so.
    let is_dropped = flags & libc::MSG_TRUNC != 0
        && cx
            .model
            .channels
            .sockets
            .get(&id)
            .is_some_and(|s| s.is_inet() && s.style == Style::Stream);
    let scattered = match is_dropped {
        true => Ok(()),
        false => io::scatter(cx.mem, iov, before, &got.data),
    };
    if let Err(fault) = scattered {
        // A datagram is lost, bytes of a stream stay.
        match cx.model.channels.sockets.get_mut(&id) {
            Some(socket) if socket.style == Style::Stream && !peek => socket.put_back(&got.data, got.rights),
            _ => {
                for right in got.rights {
                    cx.model.release(right);
                }
            }
        }
        return Err(fault);
    }
    let count = before + got.data.len();
    let more =
        may_wait && !peek && !got.end && got.rights.is_empty() && count < least(cx, id, before + max, flags);
    if more {
        cx.thread().call.progress = count as u64;
        return Ok(Err(wait));
    }
    Ok(Ok(got))
}

/// How many bytes a stream must have before a receive returns.
fn least(cx: &Cx, id: ChannelId, max: usize, flags: i32) -> usize {
    match cx.model.channels.sockets.get(&id) {
        Some(socket) if socket.style == Style::Stream => match flags & libc::MSG_WAITALL {
            0 => socket.options.receive_low_water.min(max),
            _ => max,
        },
        _ => 0,
    }
}

/// `IP_PKTINFO`: at which address and interface a datagram came in. Servers that listen everywhere answer from there.
fn arrived_at(socket: &Socket) -> Option<(i32, i32, Vec<u8>)> {
    let is_on = |level, option| {
        let value = socket.options.plain.get(&(level, option));
        value.is_some_and(|value| value.iter().any(|&byte| byte != 0))
    };
    let Some(Endpoint::Udp(here)) = socket.name().cloned().map(Endpoint::destination) else {
        return None;
    };
    match here.ip() {
        IpAddr::V4(ip) if is_on(libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let body = [&interfaces::INDEX.to_le_bytes()[..], &ip.octets(), &ip.octets()].concat();
            Some((libc::IPPROTO_IP, libc::IP_PKTINFO, body))
        }
        IpAddr::V6(ip) if is_on(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => {
            let body = [&ip.octets()[..], &interfaces::INDEX.to_le_bytes()].concat();
            Some((libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, body))
        }
        _ => None,
    }
}

/// Fills in what `recvmsg` returns in the header.
fn tell(cx: &mut Cx, fd: i32, header: &Header, rights: Vec<OfdId>, mut flags: i32) -> Result<(), Errno> {
    let mut out = Control::new(header.control, header.control_len);
    if object(cx, fd)?.options.pass_credentials {
        out.credentials(cx)?;
    }
    if let Some((level, kind, body)) = arrived_at(object(cx, fd)?) {
        out.put(cx, level, kind, &body)?;
    }
    out.rights(cx, rights, flags & libc::MSG_CMSG_CLOEXEC != 0)?;
    if out.truncated {
        flags |= libc::MSG_CTRUNC;
    }
    cx.mem.write_u64(header.at.wrapping_add(40), out.written as u64)?;
    cx.mem.write_u32(header.at.wrapping_add(48), flags as u32)?;
    Ok(())
}

/// `recvmmsg(fd, messages, count, flags, timeout)`. Its timeout is looked at only when a message has come, as
/// in the kernel; the virtual clock does not move between two messages, so it never ends the call.
pub fn recvmmsg(cx: &mut Cx, call: &Call) -> Outcome {
    check_flags(call)?;
    if call.word(4) != 0 {
        cx.mem.read_timespec(call.word(4))?;
    }
    many(cx, call, |cx, header, first| {
        let mut flags = flags(call) & !libc::MSG_WAITFORONE;
        if !first && call.int(3) & libc::MSG_WAITFORONE != 0 {
            flags |= libc::MSG_DONTWAIT;
        }
        receive(cx, call.fd(0), header, flags)
    })
}
