//! Looking at the clock and sleeping.
//!
//! Reading a clock is not visible: it stands still while any thread can run (see [`crate::clock`]). Clocks
//! of processor time show the virtual time since the start, for the process and each of its threads alike.

use crate::call::Call;
use crate::clock::Nanos;
use crate::effect::{Effect, Outcome, Parking, Prepared};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use crate::thread::Tid;
use crate::timers::Timers;
use crate::wait::{OnSignal, Wait, WaitFor, Wake};
use syscalls::Errno;

const SECOND: Nanos = 1_000_000_000;
const MICRO: Nanos = 1_000;
/// `times` counts in these.
const CLOCK_TICK: Nanos = SECOND / 100;
/// The resolution of the coarse clocks.
const COARSE: Nanos = 4_000_000;

/// What a clock id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Realtime,
    Monotonic,
    CpuTime,
}

/// The kernel's ids, and the dynamic ones of `pthread_getcpuclockid`.
pub(crate) fn reading_of(cx: &Cx, id: i32) -> Result<Reading, Errno> {
    match id {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_REALTIME_ALARM | libc::CLOCK_TAI => {
            Ok(Reading::Realtime)
        }
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_BOOTTIME
        | libc::CLOCK_BOOTTIME_ALARM => Ok(Reading::Monotonic),
        libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID => Ok(Reading::CpuTime),
        _ if id < 0 => dynamic(cx, id),
        _ => Err(Errno::EINVAL),
    }
}

/// A negative id holds the complement of a pid or tid and says which of its clocks is meant; 3 there is a
/// descriptor of a clock device, of which there are none.
fn dynamic(cx: &Cx, id: i32) -> Result<Reading, Errno> {
    const PER_THREAD: i32 = 4;
    let task = !(id >> 3) as Tid;
    let known = match id & PER_THREAD {
        0 => task == 0 || task == cx.model.process.pid,
        _ => task == 0 || cx.model.threads.contains_key(&task),
    };
    if id & 3 == 3 || !known {
        return Err(Errno::EINVAL);
    }
    Ok(Reading::CpuTime)
}

/// One look at a clock. Looking for long enough moves it, and then timers may fire.
fn read_clock(cx: &mut Cx, reading: Reading) -> Nanos {
    let before = cx.model.clock.now();
    cx.model.clock.read();
    if cx.model.clock.now() != before {
        Timers::fire_due(cx.model);
    }
    match reading {
        Reading::Realtime => cx.model.clock.realtime(),
        Reading::Monotonic => cx.model.clock.now(),
        Reading::CpuTime => cx.model.clock.since_start(),
    }
}

/// The look may have moved the clock, and a timer sent a signal.
fn answer(cx: &mut Cx, value: i64) -> Outcome {
    let due = cx.model.signals.deliverable(cx.model.thread(cx.tid)).is_some();
    Ok(if due {
        Effect::DoneCheckSignals(value)
    } else {
        Effect::Done(value)
    })
}

fn write_timeval(cx: &mut Cx, addr: u64, nanos: Nanos) -> Result<(), Errno> {
    cx.mem.write_u64(addr, nanos / SECOND)?;
    cx.mem.write_u64(addr.wrapping_add(8), nanos % SECOND / MICRO)?;
    Ok(())
}

pub fn clock_gettime(cx: &mut Cx, call: &Call) -> Outcome {
    let reading = reading_of(cx, call.int(0))?;
    let now = read_clock(cx, reading);
    cx.mem.write_timespec(call.word(1), now)?;
    answer(cx, 0)
}

pub fn clock_getres(cx: &mut Cx, call: &Call) -> Outcome {
    reading_of(cx, call.int(0))?;
    let resolution = match call.int(0) {
        libc::CLOCK_REALTIME_COARSE | libc::CLOCK_MONOTONIC_COARSE => COARSE,
        _ => 1,
    };
    if call.word(1) != 0 {
        cx.mem.write_timespec(call.word(1), resolution)?;
    }
    Effect::ok()
}

pub fn gettimeofday(cx: &mut Cx, call: &Call) -> Outcome {
    let now = read_clock(cx, Reading::Realtime);
    if call.word(0) != 0 {
        write_timeval(cx, call.word(0), now)?;
    }
    if call.word(1) != 0 {
        // The kernel's time zone: none.
        cx.mem.write_u64(call.word(1), 0)?;
    }
    answer(cx, 0)
}

pub fn time(cx: &mut Cx, call: &Call) -> Outcome {
    let seconds = read_clock(cx, Reading::Realtime) / SECOND;
    if call.word(0) != 0 {
        cx.mem.write_u64(call.word(0), seconds)?;
    }
    answer(cx, seconds as i64)
}

/// All processor time counts as the user's.
pub fn times(cx: &mut Cx, call: &Call) -> Outcome {
    let now = read_clock(cx, Reading::Monotonic);
    if call.word(0) != 0 {
        let user = cx.model.clock.since_start() / CLOCK_TICK;
        for (i, ticks) in [user, 0, 0, 0].into_iter().enumerate() {
            cx.mem.write_u64(call.word(0) + 8 * i as u64, ticks)?;
        }
    }
    answer(cx, (now / CLOCK_TICK) as i64)
}

/// What a real kernel counts here differs from run to run; only the user time has a meaning in the model.
pub fn getrusage(cx: &mut Cx, call: &Call) -> Outcome {
    const SIZE: usize = 144;
    /// In KiB: programs expect to have used some memory.
    const MAX_RESIDENT: u64 = 16 << 10;
    let user = match call.int(0) {
        libc::RUSAGE_SELF | libc::RUSAGE_THREAD => read_clock(cx, Reading::CpuTime),
        libc::RUSAGE_CHILDREN => 0,
        _ => return Err(Errno::EINVAL),
    };
    cx.mem.write(call.word(1), &[0; SIZE])?;
    write_timeval(cx, call.word(1), user)?;
    if call.int(0) != libc::RUSAGE_CHILDREN {
        cx.mem.write_u64(call.word(1) + 32, MAX_RESIDENT)?;
    }
    answer(cx, 0)
}

/// `adjtimex(buf)`, and `clock_adjtime` by way of it: shows an unsynchronised clock, cannot be set.
pub fn adjtimex(cx: &mut Cx, call: &Call) -> Outcome {
    timex(cx, call.word(0))
}

pub fn clock_adjtime(cx: &mut Cx, call: &Call) -> Outcome {
    match reading_of(cx, call.int(0))? {
        Reading::Realtime => timex(cx, call.word(1)),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

fn timex(cx: &mut Cx, addr: u64) -> Outcome {
    const SIZE: usize = 208;
    const STA_UNSYNC: u64 = 0x40;
    const TIME_ERROR: i64 = 5;
    const UNKNOWN_ERROR: u64 = 16_000_000;
    if cx.mem.read_u32(addr)? != 0 {
        return Err(Errno::EPERM);
    }
    let now = read_clock(cx, Reading::Realtime);
    cx.mem.write(addr, &[0; SIZE])?;
    for (at, value) in [
        (24, UNKNOWN_ERROR),
        (32, UNKNOWN_ERROR),
        (40, STA_UNSYNC),
        (56, 1),
        (64, 32_768_000),
        (72, now / SECOND),
        (80, now % SECOND / MICRO),
        (88, 10_000),
    ] {
        cx.mem.write_u64(addr.wrapping_add(at), value)?;
    }
    answer(cx, TIME_ERROR)
}

/// A sleep as asked for: when it ends and where the rest of the time is written if a handler ends it.
struct Sleep {
    deadline: Nanos,
    on_signal: OnSignal,
}

fn nanosleep_arguments(cx: &Cx, call: &Call) -> Result<Sleep, Errno> {
    let duration = cx.mem.read_timespec(call.word(0))?;
    Ok(relative(cx, duration, call.word(1)))
}

fn relative(cx: &Cx, duration: Nanos, remainder: u64) -> Sleep {
    Sleep {
        deadline: cx.model.clock.now().saturating_add(duration),
        on_signal: if remainder == 0 {
            OnSignal::Interrupt
        } else {
            OnSignal::InterruptWithRemainder(remainder)
        },
    }
}

/// The moment, on the monotonic clock, at which clock `id` shows `time`.
pub(crate) fn moment(cx: &Cx, id: i32, time: Nanos) -> Result<Nanos, Errno> {
    let clock = &cx.model.clock;
    Ok(match reading_of(cx, id)? {
        Reading::Realtime => clock.monotonic_of_realtime(time),
        Reading::Monotonic => time,
        Reading::CpuTime => (clock.now() - clock.since_start()).saturating_add(time),
    })
}

/// `clock_nanosleep(clock, flags, request, remainder)`.
fn clock_nanosleep_arguments(cx: &Cx, call: &Call) -> Result<Sleep, Errno> {
    let id = call.int(0);
    reading_of(cx, id)?;
    match id {
        libc::CLOCK_THREAD_CPUTIME_ID => return Err(Errno::EINVAL),
        libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_REALTIME_COARSE => {
            return Err(Errno::EOPNOTSUPP);
        }
        _ => {}
    }
    let time = cx.mem.read_timespec(call.word(2))?;
    if call.int(1) & libc::TIMER_ABSTIME == 0 {
        return Ok(relative(cx, time, call.word(3)));
    }
    Ok(Sleep {
        deadline: moment(cx, id, time)?,
        // The kernel restarts an absolute sleep, and a program sees no difference to starting it again.
        on_signal: OnSignal::Interrupt,
    })
}

/// A sleep of no time still parks: programs use it as a yield.
fn prepare(cx: &Cx, sleep: Result<Sleep, Errno>) -> Prepared {
    let prepared = Prepared::visible(vec![Touch::read(Object::Clock)]);
    match sleep {
        Ok(sleep) if sleep.deadline > cx.model.clock.now() => {
            prepared.waiting(Some(Wait::sleep(Some(sleep.deadline), sleep.on_signal)))
        }
        Ok(_) => prepared.parking(Parking::Look(WaitFor::Nothing)),
        Err(_) => prepared,
    }
}

fn sleep(cx: &mut Cx, sleep: Result<Sleep, Errno>) -> Outcome {
    let sleep = sleep?;
    // A relative sleep that has been waited for must not be computed again from now.
    if cx.wake == Wake::TimedOut || sleep.deadline <= cx.model.clock.now() {
        return Effect::ok();
    }
    Ok(Effect::Block(Wait::sleep(Some(sleep.deadline), sleep.on_signal)))
}

pub fn prepare_nanosleep(cx: &Cx, call: &Call) -> Prepared {
    let arguments = nanosleep_arguments(cx, call);
    prepare(cx, arguments)
}

pub fn nanosleep(cx: &mut Cx, call: &Call) -> Outcome {
    let arguments = nanosleep_arguments(cx, call);
    sleep(cx, arguments)
}

pub fn prepare_clock_nanosleep(cx: &Cx, call: &Call) -> Prepared {
    let arguments = clock_nanosleep_arguments(cx, call);
    prepare(cx, arguments)
}

pub fn clock_nanosleep(cx: &mut Cx, call: &Call) -> Outcome {
    let arguments = clock_nanosleep_arguments(cx, call);
    sleep(cx, arguments)
}

/// `clock_settime(clock, time)`: the wall clock is the only one that can be set, and takes a privilege that nobody has.
pub fn clock_settime(cx: &mut Cx, call: &Call) -> Outcome {
    if call.int(0) != libc::CLOCK_REALTIME {
        return Err(Errno::EINVAL);
    }
    cx.mem.read_timespec(call.word(1))?;
    Err(Errno::EPERM)
}

#[cfg(test)]
mod tests;
