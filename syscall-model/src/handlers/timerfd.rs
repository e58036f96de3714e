//! `timerfd_create`, `timerfd_settime` and `timerfd_gettime`.

use crate::call::Call;
use crate::channels::timerfd::TimerFd;
use crate::channels::{ChannelId, Use, epoll, install, touches};
use crate::clock::Nanos;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, PollEvents};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use syscalls::Errno;

/// libc does not have it.
const TFD_TIMER_CANCEL_ON_SET: i32 = 2;

pub fn create(cx: &mut Cx, call: &Call) -> Outcome {
    let (clock, flags) = (call.int(0), call.int(1));
    if flags & !(libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    match clock {
        libc::CLOCK_REALTIME
        | libc::CLOCK_MONOTONIC
        | libc::CLOCK_BOOTTIME
        | libc::CLOCK_REALTIME_ALARM
        | libc::CLOCK_BOOTTIME_ALARM => {}
        _ => return Err(Errno::EINVAL),
    }
    // To wake the machine takes a privilege.
    if matches!(clock, libc::CLOCK_REALTIME_ALARM | libc::CLOCK_BOOTTIME_ALARM) && cx.owner().0 != 0 {
        return Err(Errno::EPERM);
    }
    let id = cx.model.channels.add_timerfd(TimerFd::new(clock));
    let status = libc::O_RDWR | flags & libc::TFD_NONBLOCK;
    let fd = install(
        cx.model,
        Kind::TimerFd(id),
        status,
        flags & libc::TFD_CLOEXEC != 0,
    )?;
    Ok(Effect::Done(i64::from(fd)))
}

pub fn prepare_set(cx: &Cx, call: &Call) -> Prepared {
    prepare(cx, call, Use::Change)
}

pub fn prepare_get(cx: &Cx, call: &Call) -> Prepared {
    prepare(cx, call, Use::Poll)
}

fn prepare(cx: &Cx, call: &Call, how: Use) -> Prepared {
    let id = cx.model.files.descriptor(call.fd(0)).map(|d| d.description);
    Prepared::visible(id.map_or_else(|_| Vec::new(), |id| touches(cx.model, id, how)))
}

fn timer(cx: &Cx, fd: i32) -> Result<(ChannelId, TimerFd), Errno> {
    let (_, description) = cx.model.files.lookup(fd)?;
    let Kind::TimerFd(id) = description.kind else {
        return Err(Errno::EINVAL);
    };
    let timer = cx.model.channels.timerfds.get(&id).ok_or(Errno::EINVAL)?;
    Ok((id, timer.clone()))
}

/// `timerfd_settime(fd, flags, new, old)`.
pub fn set(cx: &mut Cx, call: &Call) -> Outcome {
    let (flags, new, old) = (call.int(1), call.word(2), call.word(3));
    // The kernel reads it all before it looks at any of it.
    cx.mem.read_vec(new, 32)?;
    if flags & !(libc::TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET) != 0 {
        return Err(Errno::EINVAL);
    }
    let interval = cx.mem.read_timespec(new)?;
    let value = cx.mem.read_timespec(new.wrapping_add(16))?;
    let (id, mut timer) = timer(cx, call.fd(0))?;
    if old != 0 {
        show(cx, &timer, old)?;
    }
    let absolute = flags & libc::TFD_TIMER_ABSTIME != 0;
    timer.arm(first_expiration(cx, timer.clock, value, absolute), interval);
    let due = timer.expirations(cx.model.clock.now()) > 0;
    cx.model.channels.timerfds.insert(id, timer);
    if due {
        epoll::notify(cx.model, &Kind::TimerFd(id), PollEvents::IN);
    }
    Effect::ok()
}

/// Zero disarms. The clock cannot be set, so `TFD_TIMER_CANCEL_ON_SET` has nothing to do.
fn first_expiration(cx: &Cx, clock: i32, value: Nanos, absolute: bool) -> Option<Nanos> {
    let wall_clock = matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_ALARM);
    match (value, absolute) {
        (0, _) => None,
        (value, false) => Some(cx.model.clock.now().saturating_add(value)),
        (value, true) if wall_clock => Some(cx.model.clock.monotonic_of_realtime(value)),
        (value, true) => Some(value),
    }
}

fn show(cx: &mut Cx, timer: &TimerFd, out: u64) -> Result<(), Errno> {
    let now = cx.model.clock.now();
    let left = timer.next(now).map_or(0, |next| next - now);
    cx.mem.write_timespec(out, timer.interval)?;
    cx.mem.write_timespec(out.wrapping_add(16), left)?;
    Ok(())
}

pub fn get(cx: &mut Cx, call: &Call) -> Outcome {
    let (_, timer) = timer(cx, call.fd(0))?;
    show(cx, &timer, call.word(1))?;
    Effect::ok()
}
