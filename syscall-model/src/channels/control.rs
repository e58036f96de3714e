//! `ioctl`, `fstat` and `fcntl` on channels.

use super::socket;
use crate::fd::{Kind, OfdId};
use crate::memory::GuestMemoryExt;
use crate::model::{Cx, Model};
use crate::net::interfaces;
use syscalls::Errno;

/// Does the next byte come after urgent ones?
const SIOCATMARK: u64 = 0x8905;

/// The type of the requests that sockets and network interfaces know.
const SOCKET_REQUESTS: u64 = 0x89;

pub(crate) fn is_stream(model: &Model, id: super::ChannelId) -> bool {
    let socket = model.channels.sockets.get(&id);
    socket.is_some_and(|socket| socket.style == socket::Style::Stream && socket.is_inet())
}

/// Requests that depend on the kind; those for any descriptor (`FIONBIO`, `FIOCLEX`, …) are the dispatcher's.
pub fn ioctl(cx: &mut Cx, id: OfdId, request: u64, arg: u64) -> Result<i64, Errno> {
    let kind = cx.model.files.get(id).ok_or(Errno::EBADF)?.kind.clone();
    if matches!(kind, Kind::Socket(_))
        && let Some(done) = interfaces::ioctl(cx.mem, request, arg)
    {
        return done.map(|()| 0);
    }
    let channels = &cx.model.channels;
    let value = match (kind, request) {
        (Kind::PipeReader(id) | Kind::PipeWriter(id), libc::FIONREAD) => {
            channels.pipes.get(&id).map(|pipe| pipe.available())
        }
        (Kind::Epoll(_), _) => return Err(Errno::EINVAL),
        (Kind::Socket(id), libc::FIONREAD | libc::TIOCOUTQ)
            if channels
                .sockets
                .get(&id)
                .is_some_and(socket::Socket::is_listening) =>
        {
            return Err(Errno::EINVAL);
        }
        (Kind::Socket(id), libc::FIONREAD) => channels.sockets.get(&id).map(|socket| socket.available()),
        // Urgent data is not modelled, so nobody ever stands before it.
        (Kind::Socket(id), SIOCATMARK) if super::io::is_stream(cx.model, id) => Some(0),
        (Kind::Socket(id), SIOCATMARK) if channels.sockets.get(&id).is_some_and(|s| !s.is_inet()) => {
            return Err(Errno::EOPNOTSUPP);
        }
        (Kind::Socket(id), libc::TIOCOUTQ) => Some(socket::unread_by_peer(cx.model, id)),
        // What no socket knows may be for a network interface, whose request is read before anybody looks at it.
        (Kind::Socket(_), _) if request >> 8 & 0xff == SOCKET_REQUESTS => {
            cx.mem.read_vec(arg, interfaces::IFREQ)?;
            return Err(Errno::ENOTTY);
        }
        _ => return Err(Errno::ENOTTY),
    };
    let value = value.ok_or(Errno::EBADF)?;
    cx.mem.write_u32(arg, value as u32)?;
    Ok(0)
}

/// Mode and inode number for `fstat`. Both ends of a pipe are one inode; what has no inode of its own shares
/// the kernel's anonymous one, which has no file type.
pub fn stat_kind(kind: &Kind) -> (u32, u64) {
    const ANONYMOUS: (u32, u64) = (0o600, 1);
    /// Keeps the numbers apart from the anonymous inode.
    const BASE: u64 = 1000;
    match kind {
        Kind::PipeReader(id) | Kind::PipeWriter(id) => (libc::S_IFIFO | 0o600, BASE + u64::from(id.0)),
        Kind::Socket(id) => (libc::S_IFSOCK | 0o777, BASE + u64::from(id.0)),
        _ => ANONYMOUS,
    }
}

/// `F_GETPIPE_SZ`.
pub fn pipe_size(model: &Model, id: OfdId) -> Result<usize, Errno> {
    match model.files.get(id).ok_or(Errno::EBADF)?.kind {
        Kind::PipeReader(id) | Kind::PipeWriter(id) => {
            Ok(model.channels.pipes.get(&id).ok_or(Errno::EBADF)?.size())
        }
        _ => Err(Errno::EBADF),
    }
}

/// `F_SETPIPE_SZ`: the size that it got.
pub fn set_pipe_size(model: &mut Model, id: OfdId, bytes: usize) -> Result<usize, Errno> {
    match model.files.get(id).ok_or(Errno::EBADF)?.kind {
        Kind::PipeReader(id) | Kind::PipeWriter(id) => model
            .channels
            .pipes
            .get_mut(&id)
            .ok_or(Errno::EBADF)?
            .resize(bytes),
        _ => Err(Errno::EBADF),
    }
}
