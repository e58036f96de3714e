//! Timers on the virtual clock.

use crate::memory::GuestMemoryExt;
use crate::signals::{Action, SigInfo, Signals, bit};
use crate::testing::{BASE, Kernel};
use syscalls::{Errno, Sysno};

const MAIN: u32 = Kernel::MAIN;
const ID: u64 = BASE;
const EVENT: u64 = BASE + 0x100;
const NEW: u64 = BASE + 0x200;
const OLD: u64 = BASE + 0x300;
const SECOND: u64 = 1_000_000_000;

fn handle(kernel: &mut Kernel, signo: i32) {
    let action = Action {
        handler: 0x1234,
        ..Action::default()
    };
    Signals::set_action(&mut kernel.model, signo, action);
}

fn create(kernel: &mut Kernel, signo: i32, kind: i32, tid: u32) -> Result<u64, Errno> {
    kernel.mem.write_u64(EVENT, 77).unwrap();
    kernel.mem.write_u32(EVENT + 8, signo as u32).unwrap();
    kernel.mem.write_u32(EVENT + 12, kind as u32).unwrap();
    kernel.mem.write_u32(EVENT + 16, tid).unwrap();
    kernel.call(Sysno::timer_create, &[libc::CLOCK_MONOTONIC as u64, EVENT, ID])?;
    Ok(u64::from(kernel.mem.read_u32(ID).unwrap()))
}

fn arm(kernel: &mut Kernel, id: u64, flags: i32, value: u64, interval: u64) {
    kernel.mem.write_timespec(NEW, interval).unwrap();
    kernel.mem.write_timespec(NEW + 16, value).unwrap();
    assert_eq!(
        kernel.call(Sysno::timer_settime, &[id, flags as u64, NEW, OLD]),
        Ok(0)
    );
}

fn advance(kernel: &mut Kernel, by: u64) {
    let now = kernel.model.clock.now();
    kernel.model.advance_clock(now + by);
}

fn take(kernel: &mut Kernel) -> Option<SigInfo> {
    Signals::take(&mut kernel.model, MAIN).map(|delivery| delivery.info)
}

#[test]
fn an_alarm_rings_once_and_tells_what_was_left() {
    let mut kernel = Kernel::new();
    assert_eq!(kernel.call(Sysno::alarm, &[10]), Ok(0));
    advance(&mut kernel, 3 * SECOND + SECOND / 2 + 1);
    assert_eq!(kernel.call(Sysno::alarm, &[5]), Ok(6));
    assert_eq!(
        kernel.model.next_deadline(),
        Some(kernel.model.clock.now() + 5 * SECOND)
    );
    advance(&mut kernel, 5 * SECOND);
    assert_eq!(take(&mut kernel).unwrap().signo, libc::SIGALRM);
    assert_eq!(kernel.model.next_deadline(), None);
    assert_eq!(kernel.call(Sysno::alarm, &[0]), Ok(0));
}

#[test]
fn an_interval_timer_repeats() {
    let mut kernel = Kernel::new();
    handle(&mut kernel, libc::SIGPROF);
    for (at, value) in [(0, 0), (8, 500), (16, 1), (24, 0)] {
        kernel.mem.write_u64(NEW + at, value).unwrap();
    }
    let args = [libc::ITIMER_PROF as u64, NEW, 0];
    assert_eq!(kernel.call(Sysno::setitimer, &args), Ok(0));
    advance(&mut kernel, SECOND);
    assert_eq!(take(&mut kernel).unwrap().signo, libc::SIGPROF);
    assert_eq!(
        kernel.model.next_deadline(),
        Some(kernel.model.clock.now() + 500_000)
    );
    assert_eq!(
        kernel.call(Sysno::getitimer, &[libc::ITIMER_PROF as u64, OLD]),
        Ok(0)
    );
    assert_eq!(kernel.mem.read_u64(OLD + 24), Ok(500));
    assert_eq!(kernel.call(Sysno::getitimer, &[3, OLD]), Err(Errno::EINVAL));
}

#[test]
fn overruns_are_counted_and_tiny_intervals_end() {
    let mut kernel = Kernel::new();
    handle(&mut kernel, 40);
    let id = create(&mut kernel, 40, libc::SIGEV_SIGNAL, 0).unwrap();
    arm(&mut kernel, id, 0, 1, 1);
    advance(&mut kernel, 1000);
    let info = take(&mut kernel).unwrap();
    assert_eq!((info.signo, info.value(), info.overrun()), (40, 77, 999));
    assert_eq!(kernel.call(Sysno::timer_getoverrun, &[id]), Ok(999));
    // While its signal waits to be taken the timer is no reason for time to pass.
    kernel.model.thread_mut(MAIN).signals.mask = bit(40);
    advance(&mut kernel, 10);
    assert_eq!(kernel.model.next_deadline(), None);
    advance(&mut kernel, SECOND);
    kernel.model.thread_mut(MAIN).signals.mask = 0;
    Signals::assign(&mut kernel.model);
    assert_eq!(take(&mut kernel).unwrap().overrun(), SECOND as i32 + 9);
    assert_eq!(take(&mut kernel), None);
    arm(&mut kernel, id, 0, 1, 1);
    advance(&mut kernel, u64::MAX / 4);
    assert_eq!(take(&mut kernel).unwrap().overrun(), i32::MAX);
}

#[test]
fn an_ignored_timer_does_not_move_the_clock() {
    let mut kernel = Kernel::new();
    let ignore = Action {
        handler: crate::signals::SIG_IGN,
        ..Action::default()
    };
    Signals::set_action(&mut kernel.model, 40, ignore);
    let id = create(&mut kernel, 40, libc::SIGEV_SIGNAL, 0).unwrap();
    arm(&mut kernel, id, 0, 1, 1);
    assert_eq!(kernel.model.next_deadline(), None);
    handle(&mut kernel, 40);
    assert_eq!(kernel.model.next_deadline(), Some(kernel.model.clock.now() + 1));
}

#[test]
fn absolute_timers_that_are_late_fire_at_once() {
    let mut kernel = Kernel::new();
    handle(&mut kernel, 40);
    let id = create(&mut kernel, 40, libc::SIGEV_SIGNAL, 0).unwrap();
    arm(&mut kernel, id, libc::TIMER_ABSTIME, 1, 0);
    assert_eq!(take(&mut kernel).unwrap().signo, 40);
    assert_eq!(kernel.call(Sysno::timer_gettime, &[id, OLD]), Ok(0));
    assert_eq!(kernel.mem.read_timespec(OLD + 16), Ok(0));
}

#[test]
fn a_timer_can_signal_one_thread_or_none() {
    let mut kernel = Kernel::new();
    let other = kernel.thread();
    handle(&mut kernel, 40);
    let to_thread = create(&mut kernel, 40, libc::SIGEV_THREAD_ID, other).unwrap();
    let silent = create(&mut kernel, 0, libc::SIGEV_NONE, 0).unwrap();
    assert_eq!((to_thread, silent), (0, 1));
    assert_eq!(
        create(&mut kernel, 40, libc::SIGEV_THREAD_ID, 5),
        Err(Errno::EINVAL)
    );
    assert_eq!(create(&mut kernel, 65, libc::SIGEV_SIGNAL, 0), Err(Errno::EINVAL));
    arm(&mut kernel, to_thread, 0, 10, 0);
    arm(&mut kernel, silent, 0, 20, 20);
    advance(&mut kernel, 30);
    assert_eq!(take(&mut kernel), None);
    let delivery = Signals::take(&mut kernel.model, other).unwrap();
    assert_eq!(delivery.info.timer_id(), Some(0));
    assert_eq!(kernel.call(Sysno::timer_gettime, &[silent, OLD]), Ok(0));
    assert_eq!(kernel.mem.read_timespec(OLD + 16), Ok(10));
    assert_eq!(kernel.call(Sysno::timer_delete, &[silent]), Ok(0));
    assert_eq!(kernel.call(Sysno::timer_delete, &[silent]), Err(Errno::EINVAL));
}

#[test]
fn exec_deletes_posix_timers_and_keeps_the_alarm() {
    let mut kernel = Kernel::new();
    let id = create(&mut kernel, 40, libc::SIGEV_SIGNAL, 0).unwrap();
    arm(&mut kernel, id, 0, 1, 0);
    kernel.call(Sysno::alarm, &[9]).unwrap();
    kernel.model.exec(Kernel::MAIN, b"/bin/other");
    assert!(kernel.model.timers.posix.is_empty());
    assert_eq!(
        kernel.model.next_deadline(),
        Some(kernel.model.clock.now() + 9 * SECOND)
    );
}
