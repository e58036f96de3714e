//! Signal calls, without ptrace.

use crate::effect::Effect;
use crate::memory::{GuestMemory, GuestMemoryExt};
use crate::object::{Object, Touch};
use crate::signals::{SI_TKILL, SigInfo, Signals, bit};
use crate::testing::{BASE, Kernel};
use crate::wait::{OnSignal, WaitFor, Wake};
use syscalls::{Errno, Sysno};

const MAIN: u32 = Kernel::MAIN;
const ACT: u64 = BASE;
const OLD: u64 = BASE + 0x100;
const SET: u64 = BASE + 0x200;
const INFO: u64 = BASE + 0x300;
const TIME: u64 = BASE + 0x400;

fn install(kernel: &mut Kernel, signo: i32, handler: u64) {
    for (i, word) in [handler, 0, 0, 0].into_iter().enumerate() {
        kernel.mem.write_u64(ACT + 8 * i as u64, word).unwrap();
    }
    assert_eq!(
        kernel.call(Sysno::rt_sigaction, &[signo as u64, ACT, 0, 8]),
        Ok(0)
    );
}

fn set_mask(kernel: &mut Kernel, how: i32, set: u64) {
    kernel.mem.write_u64(SET, set).unwrap();
    assert_eq!(
        kernel.call(Sysno::rt_sigprocmask, &[how as u64, SET, 0, 8]),
        Ok(0)
    );
}

#[test]
fn an_action_is_told_back() {
    let mut kernel = Kernel::new();
    install(&mut kernel, libc::SIGUSR1, 0x1234);
    let query = [libc::SIGUSR1 as u64, 0, OLD, 8];
    assert_eq!(kernel.call(Sysno::rt_sigaction, &query), Ok(0));
    assert_eq!(kernel.mem.read_u64(OLD), Ok(0x1234));
    let kill = [libc::SIGKILL as u64, ACT, 0, 8];
    assert_eq!(kernel.call(Sysno::rt_sigaction, &kill), Err(Errno::EINVAL));
    assert_eq!(
        kernel.call(Sysno::rt_sigaction, &[65, ACT, 0, 8]),
        Err(Errno::EINVAL)
    );
    assert_eq!(
        kernel.call(Sysno::rt_sigaction, &[1, ACT, 0, 16]),
        Err(Errno::EINVAL)
    );
    assert_eq!(
        kernel.call(Sysno::rt_sigaction, &[1, 1, 0, 8]),
        Err(Errno::EFAULT)
    );
}

#[test]
fn masks_block_and_pending_signals_show() {
    let mut kernel = Kernel::new();
    set_mask(&mut kernel, libc::SIG_BLOCK, u64::MAX);
    let mask = kernel.model.thread(MAIN).signals.mask;
    assert_eq!(mask & (bit(libc::SIGKILL) | bit(libc::SIGSTOP)), 0);
    assert_eq!(kernel.call(Sysno::kill, &[1000, libc::SIGUSR1 as u64]), Ok(0));
    assert_eq!(kernel.call(Sysno::rt_sigpending, &[SET, 8]), Ok(0));
    assert_eq!(kernel.mem.read_u64(SET), Ok(bit(libc::SIGUSR1)));
    set_mask(&mut kernel, libc::SIG_UNBLOCK, bit(libc::SIGUSR1));
    let thread = kernel.model.thread(MAIN);
    assert_eq!(kernel.model.signals.deliverable(thread), Some(libc::SIGUSR1));
    assert_eq!(
        kernel.call(Sysno::rt_sigprocmask, &[9, SET, 0, 8]),
        Err(Errno::EINVAL)
    );
}

#[test]
fn only_masks_that_matter_are_visible() {
    let mut kernel = Kernel::new();
    kernel.mem.write_u64(SET, u64::MAX).unwrap();
    let block = [libc::SIG_BLOCK as u64, SET, 0, 8];
    kernel.thread();
    assert!(!kernel.prepare(MAIN, Sysno::rt_sigprocmask, &block).visible);
    install(&mut kernel, libc::SIGUSR1, 0x1234);
    assert!(
        !kernel
            .prepare(MAIN, Sysno::rt_sigprocmask, &[0, 0, SET, 8])
            .visible
    );
    kernel.mem.write_u64(SET, u64::MAX).unwrap();
    assert!(kernel.prepare(MAIN, Sysno::rt_sigprocmask, &block).visible);
}

#[test]
fn killing_reaches_itself_only() {
    let mut kernel = Kernel::new();
    let pid = |pid: i32| pid as i64 as u64;
    for own in [1000, 0, -1000] {
        assert_eq!(kernel.call(Sysno::kill, &[pid(own), 0]), Ok(0));
    }
    assert_eq!(kernel.call(Sysno::kill, &[999, 0]), Err(Errno::ESRCH));
    assert_eq!(kernel.call(Sysno::kill, &[pid(-1), 9]), Err(Errno::ESRCH));
    assert_eq!(kernel.call(Sysno::kill, &[1, 9]), Err(Errno::EPERM));
    assert_eq!(kernel.call(Sysno::kill, &[1000, 65]), Err(Errno::EINVAL));
    assert_eq!(kernel.call(Sysno::tgkill, &[999, 1000, 0]), Err(Errno::ESRCH));
    assert_eq!(kernel.call(Sysno::tgkill, &[1000, 77, 0]), Err(Errno::ESRCH));
    assert_eq!(kernel.call(Sysno::tgkill, &[1000, 0, 0]), Err(Errno::EINVAL));
}

#[test]
fn tgkill_reaches_one_thread() {
    let mut kernel = Kernel::new();
    let other = kernel.thread();
    install(&mut kernel, libc::SIGUSR1, 0x1234);
    let args = [1000, u64::from(other), libc::SIGUSR1 as u64];
    let prepared = kernel.prepare(MAIN, Sysno::tgkill, &args);
    assert_eq!(prepared.touches, [Touch::write(Object::Everything)]);
    assert_eq!(kernel.call(Sysno::tgkill, &args), Ok(0));
    assert!(Signals::take(&mut kernel.model, MAIN).is_none());
    let delivery = Signals::take(&mut kernel.model, other).unwrap();
    assert_eq!((delivery.info.code, delivery.info.pid()), (SI_TKILL, 1000));
}

#[test]
fn a_queued_signal_carries_its_value_to_sigwait() {
    let mut kernel = Kernel::new();
    set_mask(&mut kernel, libc::SIG_BLOCK, bit(40));
    kernel
        .mem
        .write(INFO, &SigInfo::queued(40, 1000, 1000, 99).encode())
        .unwrap();
    assert_eq!(kernel.call(Sysno::rt_sigqueueinfo, &[1000, 40, INFO]), Ok(0));
    kernel.mem.write_u64(SET, bit(40)).unwrap();
    assert_eq!(kernel.call(Sysno::rt_sigtimedwait, &[SET, OLD, 0, 8]), Ok(40));
    assert_eq!(kernel.mem.read_u64(OLD + 24), Ok(99));
    assert_eq!(
        kernel.call(Sysno::rt_sigqueueinfo, &[999, 40, INFO]),
        Err(Errno::ESRCH)
    );
}

#[test]
fn sigtimedwait_waits_and_times_out() {
    let mut kernel = Kernel::new();
    set_mask(&mut kernel, libc::SIG_BLOCK, bit(libc::SIGUSR1));
    kernel.mem.write_timespec(TIME, 5).unwrap();
    let args = [SET, 0, TIME, 8];
    kernel.park(MAIN, Sysno::rt_sigtimedwait, &args);
    assert_eq!(kernel.model.wake_reason(MAIN), None);
    let deadline = kernel.model.next_deadline().unwrap();
    assert_eq!(deadline, kernel.model.clock.now() + 5);
    kernel.model.advance_clock(deadline);
    assert_eq!(kernel.model.wake_reason(MAIN), Some(Wake::TimedOut));
    let outcome = kernel.run(MAIN, Wake::TimedOut, Sysno::rt_sigtimedwait, &args);
    assert_eq!(outcome, Err(Errno::EAGAIN));

    kernel.park(MAIN, Sysno::rt_sigtimedwait, &args);
    Signals::send_process(&mut kernel.model, SigInfo::user(libc::SIGUSR1, 1, 1));
    assert_eq!(kernel.model.wake_reason(MAIN), Some(Wake::Ready));
    assert_eq!(
        kernel.call(Sysno::rt_sigtimedwait, &args),
        Ok(i64::from(libc::SIGUSR1))
    );
    // A timeout of nothing polls.
    kernel.mem.write_timespec(TIME, 0).unwrap();
    assert!(kernel.prepare(MAIN, Sysno::rt_sigtimedwait, &args).wait.is_none());
    assert_eq!(kernel.call(Sysno::rt_sigtimedwait, &args), Err(Errno::EAGAIN));
}

#[test]
fn sigwait_takes_an_ignored_signal_that_it_waits_for() {
    let mut kernel = Kernel::new();
    kernel.mem.write_u64(SET, bit(libc::SIGCHLD)).unwrap();
    kernel.park(MAIN, Sysno::rt_sigtimedwait, &[SET, 0, 0, 8]);
    let wait = kernel.model.thread(MAIN).wait.clone().unwrap();
    assert_eq!(wait.on, WaitFor::Signals(bit(libc::SIGCHLD)));
    Signals::send_process(&mut kernel.model, SigInfo::user(libc::SIGCHLD, 1, 1));
    assert_eq!(kernel.model.wake_reason(MAIN), Some(Wake::Ready));
}

#[test]
fn sigsuspend_waits_with_the_other_mask_and_leaves_the_old_to_the_frame() {
    let mut kernel = Kernel::new();
    install(&mut kernel, libc::SIGUSR1, 0x1234);
    set_mask(&mut kernel, libc::SIG_BLOCK, bit(libc::SIGUSR1));
    kernel.call(Sysno::kill, &[1000, libc::SIGUSR1 as u64]).unwrap();
    assert!(!kernel.model.runnable(MAIN) || kernel.model.thread(MAIN).wait.is_none());
    kernel.mem.write_u64(SET, 0).unwrap();
    let outcome = kernel.run(MAIN, Wake::Ready, Sysno::rt_sigsuspend, &[SET, 8]);
    let Ok(Effect::Block(wait)) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(wait.on_signal, OnSignal::Interrupt);
    kernel.model.thread_mut(MAIN).wait = Some(wait);
    assert!(kernel.model.runnable(MAIN));
    let delivery = Signals::take(&mut kernel.model, MAIN).unwrap();
    let frame = Signals::begin_handler(&mut kernel.model, MAIN, &delivery);
    assert_eq!(frame, bit(libc::SIGUSR1));
}

#[test]
fn alternate_stacks_are_checked() {
    let mut kernel = Kernel::new();
    let mut set = |base: u64, flags: i32, size: u64| {
        kernel.mem.write_u64(ACT, base).unwrap();
        kernel.mem.write_u32(ACT + 8, flags as u32).unwrap();
        kernel.mem.write_u64(ACT + 16, size).unwrap();
        kernel.call(Sysno::sigaltstack, &[ACT, OLD])
    };
    assert_eq!(set(0x5000, 0, 8192), Ok(0));
    assert_eq!(set(0x6000, 0, 100), Err(Errno::ENOMEM));
    assert_eq!(set(0x6000, 64, 8192), Err(Errno::EINVAL));
    assert_eq!(set(0, libc::SS_DISABLE, 0), Ok(0));
    assert_eq!(kernel.mem.read_u64(OLD), Ok(0x5000));
    assert_eq!(kernel.mem.read_u64(OLD + 16), Ok(8192));
}

#[test]
fn an_alternate_stack_in_use_cannot_be_changed() {
    let mut kernel = Kernel::new();
    kernel.model.thread_mut(MAIN).signals.altstack = (0x5000, 8192, 0);
    kernel.mem.write_u32(ACT + 8, libc::SS_DISABLE as u32).unwrap();
    kernel.model.stack_pointer = 0x5100;
    assert_eq!(kernel.call(Sysno::sigaltstack, &[0, OLD]), Ok(0));
    assert_eq!(kernel.mem.read_u32(OLD + 8), Ok(libc::SS_ONSTACK as u32));
    assert_eq!(kernel.model.stack_pointer, 0);
    kernel.model.stack_pointer = 0x5100;
    assert_eq!(kernel.call(Sysno::sigaltstack, &[ACT, 0]), Err(Errno::EPERM));
    assert_eq!(kernel.call(Sysno::sigaltstack, &[ACT, 0]), Ok(0));
}

#[test]
fn a_signal_before_pause_does_not_end_it() {
    let mut kernel = Kernel::new();
    install(&mut kernel, libc::SIGUSR1, 0x1234);
    let prepared = kernel.prepare(MAIN, Sysno::pause, &[]);
    assert!(prepared.visible && prepared.wait.is_none());
    let outcome = kernel.run(MAIN, Wake::Ready, Sysno::pause, &[]);
    assert!(matches!(outcome, Ok(Effect::Block(_))));
}

#[test]
fn a_fatal_signal_ends_the_sender_too() {
    let mut kernel = Kernel::new();
    let other = kernel.thread();
    let term = [1000, libc::SIGTERM as u64];
    let outcome = kernel.run(other, Wake::Ready, Sysno::kill, &term);
    assert_eq!(outcome, Ok(Effect::Die(libc::SIGTERM)));
    // One that leaves a core file waits for its thread.
    let mut kernel = Kernel::new();
    let other = kernel.thread();
    let abort = [1000, u64::from(MAIN), libc::SIGABRT as u64];
    let outcome = kernel.run(other, Wake::Ready, Sysno::tgkill, &abort);
    assert_eq!(outcome, Ok(Effect::DoneCheckSignals(0)));
    // Blocked everywhere, nothing happens.
    let mut kernel = Kernel::new();
    set_mask(&mut kernel, libc::SIG_BLOCK, bit(libc::SIGTERM));
    assert_eq!(kernel.call(Sysno::kill, &term), Ok(0));
}
