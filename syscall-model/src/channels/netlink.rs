//! Netlink sockets: questions to the kernel about its network interfaces, answered at once from [`interfaces`].
//!
//! Only `NETLINK_ROUTE`. News (multicast groups) can be waited for and never comes: nothing about the interfaces changes.

use super::ChannelId;
use super::socket::{Socket, State, Style, deliver_answer, socket_mut};
use crate::model::Model;
use crate::net::interfaces;
use syscalls::Errno;

/// `sizeof(struct sockaddr_nl)`.
const ADDRESS: usize = 12;
/// Where the kernel looks for numbers when a process has more than one socket, downwards.
const FURTHER_PORTS: u32 = u32::MAX - 4096;

/// What `socket` takes.
pub fn check(style: Style, protocol: i32) -> Result<(), Errno> {
    match (style, protocol) {
        (Style::Datagram, libc::NETLINK_ROUTE) => Ok(()),
        (Style::Datagram, _) => Err(Errno::EPROTONOSUPPORT),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

/// A `sockaddr_nl`; the kernel itself is number 0.
pub fn encode(port: u32) -> Vec<u8> {
    let mut out = (libc::AF_NETLINK as u16).to_le_bytes().to_vec();
    out.extend([0, 0]);
    out.extend(port.to_le_bytes());
    out.resize(ADDRESS, 0);
    out
}

fn decode(raw: &[u8]) -> Result<u32, Errno> {
    if raw.len() < ADDRESS || raw[..2] != (libc::AF_NETLINK as u16).to_le_bytes() {
        return Err(Errno::EINVAL);
    }
    let port = raw[4..8].try_into().map_err(|_| Errno::EINVAL)?;
    Ok(u32::from_le_bytes(port))
}

/// `bind`: to a number of the program's choice, or (0) of the kernel's, the process's own if it is free.
pub fn bind(model: &mut Model, id: ChannelId, raw: &[u8]) -> Result<(), Errno> {
    let wanted = decode(raw)?;
    let taken = |model: &Model, port| {
        let mut others = model.channels.sockets.iter();
        others.any(|(&other, socket)| other != id && number(socket) == Some(port))
    };
    let bound = number(socket_mut(model, id));
    match (bound, wanted) {
        (Some(port), _) if wanted != 0 && wanted != port => return Err(Errno::EINVAL),
        (Some(_), _) => return Ok(()),
        (None, 0) => {}
        (None, _) if taken(model, wanted) => return Err(Errno::EADDRINUSE),
        (None, _) => {
            socket_mut(model, id).state = State::Netlink(Some(wanted));
            return Ok(());
        }
    }
    let own = model.process.pid;
    let mut ports = std::iter::once(own).chain((0..=FURTHER_PORTS).rev());
    let port = ports.find(|&port| !taken(model, port)).unwrap_or(own);
    socket_mut(model, id).state = State::Netlink(Some(port));
    Ok(())
}

/// `connect`: to the kernel, where everything goes anyway. Nobody else is there.
pub fn connect(model: &mut Model, id: ChannelId, raw: &[u8]) -> Result<(), Errno> {
    if decode(raw)? != 0 {
        return Err(Errno::ECONNREFUSED);
    }
    bind(model, id, &encode(0))
}

/// Asks the kernel, whose answer is there at once.
pub fn send(model: &mut Model, id: ChannelId, data: &[u8]) -> Result<usize, Errno> {
    bind(model, id, &encode(0))?;
    let port = number(socket_mut(model, id)).unwrap_or_default();
    for answer in interfaces::answer(data, port) {
        deliver_answer(model, id, &answer);
    }
    Ok(data.len())
}

pub fn is_netlink(socket: &Socket) -> bool {
    matches!(socket.state, State::Netlink(_))
}

/// The number that a netlink socket is bound to.
pub fn number(socket: &Socket) -> Option<u32> {
    match socket.state {
        State::Netlink(number) => number,
        _ => None,
    }
}
