//! Timer calls: `alarm`, `setitimer`, `timer_create` and their kin. The timers are in [`crate::timers`].

use crate::call::Call;
use crate::clock::Nanos;
use crate::effect::{Effect, Outcome, Prepared};
use crate::handlers::clock::{moment, reading_of};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use crate::signals::LAST;
use crate::timers::{Notify, PosixTimer, Schedule, Timers};
use syscalls::Errno;

const SECOND: Nanos = 1_000_000_000;
const MICRO: Nanos = 1_000;

/// Timers belong to the process: with a second thread the order of calls on them matters.
pub fn prepare(cx: &Cx, _: &Call) -> Prepared {
    if cx.model.is_alone() {
        return Prepared::invisible();
    }
    Prepared::visible(vec![Touch::write(Object::Clock)])
}

fn read_timeval(cx: &Cx, addr: u64) -> Result<Nanos, Errno> {
    let seconds = cx.mem.read_u64(addr)? as i64;
    let micros = cx.mem.read_u64(addr.wrapping_add(8))?;
    if seconds < 0 || micros >= 1_000_000 {
        return Err(Errno::EINVAL);
    }
    Ok((seconds as u64)
        .saturating_mul(SECOND)
        .saturating_add(micros * MICRO))
}

fn write_timeval(cx: &mut Cx, addr: u64, nanos: Nanos) -> Result<(), Errno> {
    cx.mem.write_u64(addr, nanos / SECOND)?;
    cx.mem.write_u64(addr.wrapping_add(8), nanos % SECOND / MICRO)?;
    Ok(())
}

/// After a duration, then every `interval`; a duration of zero disarms.
fn after(cx: &Cx, duration: Nanos, interval: Nanos) -> Schedule {
    if duration == 0 {
        return Schedule::default();
    }
    Schedule {
        deadline: Some(cx.model.clock.now().saturating_add(duration)),
        interval,
    }
}

/// Returns the seconds that were left, rounded, but never 0 for an alarm that was set.
pub fn alarm(cx: &mut Cx, call: &Call) -> Outcome {
    let left = cx.model.timers.interval[0].remaining(cx.model.clock.now());
    let schedule = after(cx, u64::from(call.uint(0)) * SECOND, 0);
    cx.model.timers.interval[0] = schedule;
    let (seconds, rest) = (left / SECOND, left % SECOND);
    let up = rest >= SECOND / 2 || (seconds == 0 && rest > 0);
    Ok(Effect::Done((seconds + u64::from(up)) as i64))
}

fn which(raw: i32) -> Result<usize, Errno> {
    usize::try_from(raw).ok().filter(|&w| w < 3).ok_or(Errno::EINVAL)
}

fn write_interval_timer(cx: &mut Cx, addr: u64, schedule: Schedule) -> Result<(), Errno> {
    let left = schedule.remaining(cx.model.clock.now());
    write_timeval(cx, addr, schedule.interval)?;
    // Less than a microsecond is still not nothing: zero would mean disarmed.
    write_timeval(cx, addr + 16, left.next_multiple_of(MICRO))
}

pub fn getitimer(cx: &mut Cx, call: &Call) -> Outcome {
    let schedule = cx.model.timers.interval[which(call.int(0))?];
    write_interval_timer(cx, call.word(1), schedule)?;
    Effect::ok()
}

pub fn setitimer(cx: &mut Cx, call: &Call) -> Outcome {
    let (new, old) = (call.word(1), call.word(2));
    if new != 0 {
        // The kernel reads it all before it looks at any of it.
        cx.mem.read_vec(new, 32)?;
        read_timeval(cx, new)?;
        read_timeval(cx, new.wrapping_add(16))?;
    }
    let which = which(call.int(0))?;
    let before = cx.model.timers.interval[which];
    // A null pointer disarms; Linux has always taken it so.
    let after = if new == 0 {
        Schedule::default()
    } else {
        let (interval, value) = (read_timeval(cx, new)?, read_timeval(cx, new + 16)?);
        after(cx, value, interval)
    };
    cx.model.timers.interval[which] = after;
    if old != 0 {
        write_interval_timer(cx, old, before)?;
    }
    Effect::ok()
}

/// Of `struct sigevent`, with what is not in use.
const SIGEVENT_SIZE: usize = 64;

/// `struct sigevent`: value, signal, kind, thread.
fn read_notify(cx: &Cx, addr: u64) -> Result<Notify, Errno> {
    let value = cx.mem.read_u64(addr)?;
    let signo = cx.mem.read_u32(addr.wrapping_add(8))? as i32;
    let kind = cx.mem.read_u32(addr.wrapping_add(12))? as i32;
    let thread = match kind {
        libc::SIGEV_NONE => return Ok(Notify::Nothing),
        libc::SIGEV_SIGNAL | libc::SIGEV_THREAD => None,
        libc::SIGEV_THREAD_ID => {
            let tid = cx.mem.read_u32(addr.wrapping_add(16))?;
            if !cx.model.threads.contains_key(&tid) {
                return Err(Errno::EINVAL);
            }
            Some(tid)
        }
        _ => return Err(Errno::EINVAL),
    };
    if !(1..=LAST).contains(&signo) {
        return Err(Errno::EINVAL);
    }
    Ok(Notify::Signal { signo, value, thread })
}

/// Clocks of descriptors are below zero, and have this in their last three bits.
const OF_DESCRIPTOR: i32 = 3;

/// Is it the clock of some process or thread?
fn is_processor_time(clock: i32) -> bool {
    clock < 0
}

/// `timer_create(clock, sigevent, id)`.
pub fn timer_create(cx: &mut Cx, call: &Call) -> Outcome {
    let (clock, event, out) = (call.int(0), call.word(1), call.word(2));
    if event != 0 {
        cx.mem.read_vec(event, SIGEVENT_SIZE)?;
    }
    if clock < 0 && clock & 7 == OF_DESCRIPTOR {
        return Err(Errno::EOPNOTSUPP);
    }
    // Whose processor time a clock tells is only found out at the end, for a timer that has its number already.
    let clock_is_there = reading_of(cx, clock).map(drop);
    if !is_processor_time(clock) {
        clock_is_there?;
    }
    if matches!(
        clock,
        libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_REALTIME_COARSE
    ) {
        return Err(Errno::EOPNOTSUPP);
    }
    let asked = match event {
        0 => Ok(None),
        event => read_notify(cx, event).map(Some),
    };
    // Before the timer exists, so that a bad address leaves none behind. But its number is used up by then.
    let asked = asked.and_then(|asked| Ok(cx.mem.write_u32(out, 0).map(|()| asked)?));
    // There is no clock that could wake the machine up.
    let is_alarm = matches!(clock, libc::CLOCK_REALTIME_ALARM | libc::CLOCK_BOOTTIME_ALARM);
    let asked = asked.and_then(|asked| {
        if is_alarm {
            Err(Errno::EOPNOTSUPP)
        } else {
            clock_is_there.map(|()| asked)
        }
    });
    let asked = match asked {
        Ok(asked) => asked,
        Err(errno) => {
            cx.model.timers.use_up();
            return Err(errno);
        }
    };
    let id = cx.model.timers.create(|id| {
        let default = Notify::Signal {
            signo: libc::SIGALRM,
            value: id as u64,
            thread: None,
        };
        PosixTimer::new(clock, asked.unwrap_or(default))
    });
    cx.mem.write_u32(out, id as u32)?;
    Effect::ok()
}

fn timer(cx: &Cx, id: i32) -> Result<PosixTimer, Errno> {
    cx.model.timers.posix.get(&id).copied().ok_or(Errno::EINVAL)
}

/// `struct itimerspec`: interval, then value.
fn write_itimerspec(cx: &mut Cx, addr: u64, schedule: Schedule) -> Result<(), Errno> {
    let left = schedule.remaining(cx.model.clock.now());
    cx.mem.write_timespec(addr, schedule.interval)?;
    cx.mem.write_timespec(addr.wrapping_add(16), left)?;
    Ok(())
}

/// `timer_settime(id, flags, new, old)`.
pub fn timer_settime(cx: &mut Cx, call: &Call) -> Outcome {
    let (id, flags, new, old) = (call.int(0), call.int(1), call.word(2), call.word(3));
    if new == 0 {
        return Err(Errno::EINVAL);
    }
    cx.mem.read_vec(new, 32)?;
    let interval = cx.mem.read_timespec(new)?;
    let value = cx.mem.read_timespec(new.wrapping_add(16))?;
    let before = timer(cx, id)?;
    let schedule = if flags & libc::TIMER_ABSTIME == 0 || value == 0 {
        after(cx, value, interval)
    } else {
        Schedule {
            deadline: Some(moment(cx, before.clock, value)?),
            interval,
        }
    };
    if old != 0 {
        write_itimerspec(cx, old, before.schedule)?;
    }
    Timers::arm(cx.model, id, schedule);
    Ok(Effect::DoneCheckSignals(0))
}

pub fn timer_gettime(cx: &mut Cx, call: &Call) -> Outcome {
    let schedule = timer(cx, call.int(0))?.schedule;
    write_itimerspec(cx, call.word(1), schedule)?;
    Effect::ok()
}

pub fn timer_getoverrun(cx: &mut Cx, call: &Call) -> Outcome {
    Ok(Effect::Done(i64::from(timer(cx, call.int(0))?.last_overrun())))
}

pub fn timer_delete(cx: &mut Cx, call: &Call) -> Outcome {
    timer(cx, call.int(0))?;
    Timers::delete(cx.model, call.int(0));
    Effect::ok()
}

#[cfg(test)]
mod tests;
