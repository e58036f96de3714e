//! The virtual clock as calls show it.

use crate::clock::Clock;
use crate::effect::Effect;
use crate::memory::GuestMemoryExt;
use crate::testing::{BASE, Kernel};
use crate::wait::{OnSignal, Wake};
use syscalls::{Errno, Sysno};

const MAIN: u32 = Kernel::MAIN;
const OUT: u64 = BASE;
const TIME: u64 = BASE + 0x100;

fn gettime(kernel: &mut Kernel, id: i32) -> Result<u64, Errno> {
    kernel.call(Sysno::clock_gettime, &[id as u64, OUT])?;
    Ok(kernel.mem.read_timespec(OUT).unwrap())
}

#[test]
fn clocks_stand_still_while_the_program_runs() {
    let mut kernel = Kernel::new();
    let monotonic = gettime(&mut kernel, libc::CLOCK_MONOTONIC).unwrap();
    let real = gettime(&mut kernel, libc::CLOCK_REALTIME).unwrap();
    assert_eq!(gettime(&mut kernel, libc::CLOCK_BOOTTIME), Ok(monotonic));
    assert_eq!(gettime(&mut kernel, libc::CLOCK_REALTIME_COARSE), Ok(real));
    assert_eq!(gettime(&mut kernel, libc::CLOCK_PROCESS_CPUTIME_ID), Ok(0));
    assert_eq!(real / 1_000_000_000, crate::clock::DEFAULT_EPOCH_SECONDS);
    assert_eq!(
        kernel.call(Sysno::time, &[0]),
        Ok(crate::clock::DEFAULT_EPOCH_SECONDS as i64)
    );
    assert_eq!(gettime(&mut kernel, 77), Err(Errno::EINVAL));
}

#[test]
fn dynamic_clocks_name_the_process_and_its_threads() {
    let mut kernel = Kernel::new();
    let thread_clock = |tid: i32| (!tid << 3) | 6;
    let process_clock = |pid: i32| (!pid << 3) | 2;
    assert_eq!(gettime(&mut kernel, thread_clock(1000)), Ok(0));
    assert_eq!(gettime(&mut kernel, process_clock(1000)), Ok(0));
    assert_eq!(gettime(&mut kernel, thread_clock(4)), Err(Errno::EINVAL));
    assert_eq!(gettime(&mut kernel, -1), Err(Errno::EINVAL));
}

#[test]
fn who_polls_the_clock_sees_it_move_and_timers_fire() {
    let mut kernel = Kernel::new();
    kernel.call(Sysno::alarm, &[1]).unwrap();
    let start = kernel.model.clock.now();
    let fires = |_: &u32| {
        let outcome = kernel.run(MAIN, Wake::Ready, Sysno::clock_gettime, &[1, OUT]);
        outcome == Ok(Effect::DoneCheckSignals(0))
    };
    // A second of polling must not take much longer than it would with the longest tick.
    let fired = (0..10_000).find(fires).expect("the alarm goes off");
    assert!(fired > Clock::PATIENCE);
    let waited = kernel.model.clock.now() - start;
    assert!((1_000_000_000..1_000_000_000 + Clock::TICK).contains(&waited));
}

#[test]
fn a_sleep_waits_for_the_virtual_clock() {
    let mut kernel = Kernel::new();
    kernel.mem.write_timespec(TIME, 3_000_000_000).unwrap();
    let wait = kernel.prepare(MAIN, Sysno::nanosleep, &[TIME, OUT]).wait.unwrap();
    assert_eq!(wait.on_signal, OnSignal::InterruptWithRemainder(OUT));
    assert_eq!(wait.deadline, Some(kernel.model.clock.now() + 3_000_000_000));
    kernel.park(MAIN, Sysno::nanosleep, &[TIME, OUT]);
    let deadline = kernel.model.next_deadline().unwrap();
    kernel.model.advance_clock(deadline);
    assert_eq!(kernel.model.wake_reason(MAIN), Some(Wake::TimedOut));
    let outcome = kernel.run(MAIN, Wake::TimedOut, Sysno::nanosleep, &[TIME, OUT]);
    assert_eq!(outcome, Ok(Effect::Done(0)));
    kernel.mem.write_u64(TIME + 8, 1_000_000_000).unwrap();
    assert_eq!(kernel.call(Sysno::nanosleep, &[TIME, 0]), Err(Errno::EINVAL));
}

#[test]
fn an_absolute_sleep_is_on_its_own_clock() {
    let mut kernel = Kernel::new();
    let now = kernel.model.clock.now();
    for (id, time) in [
        (libc::CLOCK_REALTIME, kernel.model.clock.realtime()),
        (libc::CLOCK_MONOTONIC, now),
        (libc::CLOCK_PROCESS_CPUTIME_ID, 0),
    ] {
        let args = [id as u64, libc::TIMER_ABSTIME as u64, TIME, 0];
        kernel.mem.write_timespec(TIME, time + 7).unwrap();
        let wait = kernel.prepare(MAIN, Sysno::clock_nanosleep, &args).wait.unwrap();
        assert_eq!(wait.deadline, Some(now + 7));
        kernel.mem.write_timespec(TIME, time).unwrap();
        assert!(kernel.prepare(MAIN, Sysno::clock_nanosleep, &args).wait.is_none());
        assert_eq!(kernel.call(Sysno::clock_nanosleep, &args), Ok(0));
    }
    for (id, errno) in [
        (libc::CLOCK_THREAD_CPUTIME_ID, Errno::EINVAL),
        (libc::CLOCK_MONOTONIC_RAW, Errno::EOPNOTSUPP),
        (99, Errno::EINVAL),
    ] {
        let outcome = kernel.call(Sysno::clock_nanosleep, &[id as u64, 0, TIME, 0]);
        assert_eq!(outcome, Err(errno));
    }
}

#[test]
fn the_clock_cannot_be_set() {
    let mut kernel = Kernel::new();
    assert_eq!(kernel.call(Sysno::clock_settime, &[0, TIME]), Err(Errno::EPERM));
    assert_eq!(kernel.call(Sysno::adjtimex, &[TIME]), Ok(5));
    kernel.mem.write_u32(TIME, 1).unwrap();
    assert_eq!(kernel.call(Sysno::adjtimex, &[TIME]), Err(Errno::EPERM));
}
