//! `getsockopt` and `setsockopt`.
//!
//! Options with an effect here have it; harmless ones are kept and read back; anything else is refused as
//! by a kernel that does not know it.

use super::sockets::{object, socket_of};
use crate::call::Call;
use crate::channels::socket::Socket;
use crate::clock::Nanos;
use crate::effect::{Effect, Outcome};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use libc::SOL_SOCKET;
use syscalls::Errno;

/// The 64-bit-time variants, which have the same layout here.
const SO_RCVTIMEO_NEW: i32 = 66;
const SO_SNDTIMEO_NEW: i32 = 67;
/// The kernel doubles what it is asked for, within these bounds.
const MIN_SEND_BUFFER: usize = 4608;
const MIN_RECEIVE_BUFFER: usize = 2304;
const MAX_BUFFER_ASKED: usize = 212_992;

/// Options without an effect in the model, with the value they start with.
fn plain_default(option: i32) -> Option<Vec<u8>> {
    match option {
        libc::SO_LINGER => Some(vec![0; 8]),
        libc::SO_REUSEADDR
        | libc::SO_REUSEPORT
        | libc::SO_KEEPALIVE
        | libc::SO_BROADCAST
        | libc::SO_OOBINLINE
        | libc::SO_PRIORITY
        | libc::SO_DONTROUTE
        | libc::SO_TIMESTAMP
        | libc::SO_MARK
        | libc::SO_INCOMING_CPU => Some(vec![0; 4]),
        _ => None,
    }
}

/// `setsockopt(fd, level, name, value, len)`.
pub fn setsockopt(cx: &mut Cx, call: &Call) -> Outcome {
    let (_, id) = socket_of(cx, call.fd(0))?;
    let (level, option, addr) = (call.int(1), call.int(2), call.word(3));
    let len = usize::try_from(call.int(4)).map_err(|_| Errno::EINVAL)?;
    if level != SOL_SOCKET {
        // A Unix socket has no other level.
        return Err(Errno::EOPNOTSUPP);
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
    let socket = cx.model.channels.sockets.get_mut(&id).ok_or(Errno::EBADF)?;
    let options = &mut socket.options;
    match option {
        libc::SO_SNDBUF | libc::SO_SNDBUFFORCE => options.send_buffer = buffer(number, MIN_SEND_BUFFER),
        libc::SO_RCVBUF | libc::SO_RCVBUFFORCE => options.receive_buffer = buffer(number, MIN_RECEIVE_BUFFER),
        libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW => options.receive_timeout = timeout,
        libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW => options.send_timeout = timeout,
        libc::SO_RCVLOWAT => options.receive_low_water = usize::try_from(number).unwrap_or(usize::MAX).max(1),
        libc::SO_PASSCRED => options.pass_credentials = number != 0,
        _ => {
            let value = plain.ok_or(Errno::ENOPROTOOPT)??;
            options.plain.insert((level, option), value);
        }
    }
    Effect::ok()
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
    let (seconds, micros) = (cx.mem.read_u64(addr)? as i64, cx.mem.read_u64(addr + 8)?);
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

/// `getsockopt(fd, level, name, value, len)`.
pub fn getsockopt(cx: &mut Cx, call: &Call) -> Outcome {
    let (level, option, addr, len_addr) = (call.int(1), call.int(2), call.word(3), call.word(4));
    object(cx, call.fd(0))?;
    if level != SOL_SOCKET {
        return Err(Errno::EOPNOTSUPP);
    }
    let room = usize::try_from(cx.mem.read_u32(len_addr)? as i32).map_err(|_| Errno::EINVAL)?;
    let value = value(cx, call.fd(0), option)?;
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
    Ok(match option {
        libc::SO_TYPE => number(socket.style.to_type()),
        libc::SO_DOMAIN => number(socket.family),
        libc::SO_PROTOCOL | libc::SO_ACCEPTCONN => number(0),
        libc::SO_ERROR => number(socket.error.take().map_or(0, Errno::into_raw)),
        libc::SO_SNDBUF => number(options.send_buffer as i32),
        libc::SO_RCVBUF => number(options.receive_buffer as i32),
        libc::SO_RCVLOWAT => number(options.receive_low_water.min(i32::MAX as usize) as i32),
        libc::SO_PASSCRED => number(options.pass_credentials.into()),
        libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW => timeval(options.receive_timeout),
        libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW => timeval(options.send_timeout),
        libc::SO_PEERCRED if socket.peer().is_some() => credentials,
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
    let process = &cx.model.process;
    let fields = [process.pid, process.user.effective, process.group_ids.effective];
    fields.map(u32::to_le_bytes).concat()
}
