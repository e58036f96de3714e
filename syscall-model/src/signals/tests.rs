//! Who takes which signal, when, and what it does.

use super::*;
use crate::testing::Kernel;

const MAIN: Tid = Kernel::MAIN;
const RT: i32 = 40;

fn handle(kernel: &mut Kernel, signo: i32, flags: u64, mask: u64) {
    let action = Action {
        handler: 0x4000 + signo as u64,
        flags,
        restorer: 0x9000,
        mask,
    };
    Signals::set_action(&mut kernel.model, signo, action);
}

fn kill(kernel: &mut Kernel, signo: i32) {
    Signals::send_process(&mut kernel.model, SigInfo::user(signo, 1000, 1000));
}

fn next(kernel: &Kernel, tid: Tid) -> Option<i32> {
    kernel.model.signals.deliverable(kernel.model.thread(tid))
}

fn take(kernel: &mut Kernel, tid: Tid) -> Option<i32> {
    Signals::take(&mut kernel.model, tid).map(|delivery| delivery.info.signo)
}

#[test]
fn standard_signals_coalesce_and_real_time_ones_queue_in_order() {
    let mut kernel = Kernel::new();
    kernel.model.thread_mut(MAIN).signals.mask = u64::MAX;
    for value in [1, 2] {
        for signo in [RT, libc::SIGUSR1] {
            Signals::send_process(&mut kernel.model, SigInfo::queued(signo, 1000, 1000, value));
        }
    }
    kernel.model.thread_mut(MAIN).signals.mask = 0;
    Signals::assign(&mut kernel.model);
    let mut taken = Vec::new();
    while let Some(delivery) = Signals::take(&mut kernel.model, MAIN) {
        taken.push((delivery.info.signo, delivery.info.value()));
    }
    assert_eq!(taken, [(libc::SIGUSR1, 1), (RT, 1), (RT, 2)]);
}

#[test]
fn faults_come_first_then_the_lowest_number() {
    let mut kernel = Kernel::new();
    for signo in [libc::SIGTERM, libc::SIGHUP] {
        handle(&mut kernel, signo, 0, 0);
        kill(&mut kernel, signo);
    }
    Signals::force(&mut kernel.model, MAIN, SigInfo::fault(libc::SIGSEGV, 1, 0xdead));
    assert_eq!(take(&mut kernel, MAIN), Some(libc::SIGSEGV));
    assert_eq!(take(&mut kernel, MAIN), Some(libc::SIGHUP));
    assert_eq!(take(&mut kernel, MAIN), Some(libc::SIGTERM));
    assert_eq!(take(&mut kernel, MAIN), None);
}

#[test]
fn the_first_thread_takes_what_it_does_not_block_else_the_lowest() {
    let mut kernel = Kernel::new();
    let (a, b) = (kernel.thread(), kernel.thread());
    kill(&mut kernel, libc::SIGUSR1);
    assert_eq!(next(&kernel, MAIN), Some(libc::SIGUSR1));
    assert_eq!((next(&kernel, a), next(&kernel, b)), (None, None));
    kernel.model.thread_mut(MAIN).signals.mask = bit(libc::SIGUSR1);
    Signals::assign(&mut kernel.model);
    assert_eq!(next(&kernel, MAIN), None);
    assert_eq!(next(&kernel, a), Some(libc::SIGUSR1));
    kernel.model.thread_mut(a).signals.mask = bit(libc::SIGUSR1);
    Signals::assign(&mut kernel.model);
    assert_eq!(take(&mut kernel, a), None);
    assert_eq!(take(&mut kernel, b), Some(libc::SIGUSR1));
}

#[test]
fn ignored_signals_are_dropped_unless_blocked() {
    let mut kernel = Kernel::new();
    let ignore = Action {
        handler: SIG_IGN,
        ..Action::default()
    };
    Signals::set_action(&mut kernel.model, libc::SIGUSR1, ignore);
    kill(&mut kernel, libc::SIGUSR1);
    kill(&mut kernel, libc::SIGCHLD);
    assert_eq!(kernel.model.signals.shared_set(), 0);
    kernel.model.thread_mut(MAIN).signals.mask = bit(libc::SIGUSR1);
    kill(&mut kernel, libc::SIGUSR1);
    assert_eq!(kernel.model.signals.shared_set(), bit(libc::SIGUSR1));
    // Unblocked and still ignored: gone without a trace.
    kernel.model.thread_mut(MAIN).signals.mask = 0;
    Signals::assign(&mut kernel.model);
    assert_eq!(kernel.model.signals.shared_set(), 0);
}

#[test]
fn ignoring_a_signal_takes_it_back() {
    let mut kernel = Kernel::new();
    kernel.model.thread_mut(MAIN).signals.mask = bit(libc::SIGUSR1);
    kill(&mut kernel, libc::SIGUSR1);
    Signals::raise(&mut kernel.model, MAIN, libc::SIGUSR1);
    let ignore = Action {
        handler: SIG_IGN,
        ..Action::default()
    };
    Signals::set_action(&mut kernel.model, libc::SIGUSR1, ignore);
    let thread = kernel.model.thread(MAIN);
    assert!(!kernel.model.signals.any_pending(thread, u64::MAX));
}

#[test]
fn default_actions() {
    let mut kernel = Kernel::new();
    for (signo, expected) in [
        (libc::SIGTERM, Disposition::Terminate),
        (libc::SIGABRT, Disposition::Core),
        (libc::SIGKILL, Disposition::Terminate),
        (libc::SIGTSTP, Disposition::Stop),
        (RT, Disposition::Terminate),
    ] {
        kill(&mut kernel, signo);
        let delivery = Signals::take(&mut kernel.model, MAIN).unwrap();
        assert_eq!((delivery.info.signo, delivery.action), (signo, expected));
    }
}

#[test]
fn a_handler_blocks_its_signal_and_its_mask_until_it_returns() {
    let mut kernel = Kernel::new();
    handle(&mut kernel, libc::SIGUSR1, 0, bit(libc::SIGUSR2));
    kill(&mut kernel, libc::SIGUSR1);
    let delivery = Signals::take(&mut kernel.model, MAIN).unwrap();
    let frame = Signals::begin_handler(&mut kernel.model, MAIN, &delivery);
    assert_eq!(frame, 0);
    let inside = bit(libc::SIGUSR1) | bit(libc::SIGUSR2);
    assert_eq!(kernel.model.thread(MAIN).signals.mask, inside);
    kill(&mut kernel, libc::SIGUSR1);
    assert_eq!(next(&kernel, MAIN), None);
    Signals::end_handler(&mut kernel.model, MAIN, frame, (0, 0, libc::SS_DISABLE));
    assert_eq!(next(&kernel, MAIN), Some(libc::SIGUSR1));
}

#[test]
fn nodefer_and_resethand() {
    let mut kernel = Kernel::new();
    let flags = libc::SA_NODEFER as u64 | libc::SA_RESETHAND as u32 as u64;
    handle(&mut kernel, libc::SIGUSR1, flags, 0);
    kill(&mut kernel, libc::SIGUSR1);
    let delivery = Signals::take(&mut kernel.model, MAIN).unwrap();
    assert!(matches!(
        delivery.action,
        Disposition::Handler { handler: 0x400a, .. }
    ));
    Signals::begin_handler(&mut kernel.model, MAIN, &delivery);
    assert_eq!(kernel.model.thread(MAIN).signals.mask, 0);
    kill(&mut kernel, libc::SIGUSR1);
    let second = Signals::take(&mut kernel.model, MAIN).unwrap();
    assert_eq!(second.action, Disposition::Terminate);
}

#[test]
fn the_frame_holds_the_mask_from_before_a_temporary_one() {
    let mut kernel = Kernel::new();
    handle(&mut kernel, libc::SIGUSR1, 0, 0);
    let thread = kernel.model.thread_mut(MAIN);
    thread.signals.saved_mask = Some(0xf0);
    thread.signals.mask = 0;
    kill(&mut kernel, libc::SIGUSR1);
    let delivery = Signals::take(&mut kernel.model, MAIN).unwrap();
    assert_eq!(Signals::begin_handler(&mut kernel.model, MAIN, &delivery), 0xf0);
    assert_eq!(kernel.model.thread(MAIN).signals.saved_mask, None);
    assert_eq!(kernel.model.thread(MAIN).signals.mask, bit(libc::SIGUSR1));
}

#[test]
fn a_fault_that_is_blocked_kills() {
    let mut kernel = Kernel::new();
    handle(&mut kernel, libc::SIGSEGV, 0, 0);
    kernel.model.thread_mut(MAIN).signals.mask = bit(libc::SIGSEGV);
    Signals::force(&mut kernel.model, MAIN, SigInfo::fault(libc::SIGSEGV, 1, 0));
    let delivery = Signals::take(&mut kernel.model, MAIN).unwrap();
    assert_eq!(delivery.action, Disposition::Core);
}

#[test]
fn exec_keeps_ignored_and_pending_signals_and_drops_handlers() {
    let mut kernel = Kernel::new();
    handle(&mut kernel, libc::SIGUSR1, 0, 0);
    let ignore = Action {
        handler: SIG_IGN,
        ..Action::default()
    };
    Signals::set_action(&mut kernel.model, libc::SIGUSR2, ignore);
    let thread = kernel.model.thread_mut(MAIN);
    thread.signals.mask = bit(libc::SIGUSR1);
    thread.signals.altstack = (1, 4096, 0);
    kill(&mut kernel, libc::SIGUSR1);
    Signals::raise(&mut kernel.model, MAIN, libc::SIGUSR1);
    kernel.model.exec(Kernel::MAIN, b"/bin/other");
    let signals = &kernel.model.signals;
    assert_eq!(signals.action(libc::SIGUSR1), Action::default());
    assert_eq!(signals.action(libc::SIGUSR2).handler, SIG_IGN);
    assert_eq!(signals.shared_set(), bit(libc::SIGUSR1));
    let thread = kernel.model.thread(MAIN);
    assert_eq!(thread.signals.mask, bit(libc::SIGUSR1));
    assert_eq!(thread.signals.pending.set(), bit(libc::SIGUSR1));
    assert_eq!(thread.signals.altstack.2, libc::SS_DISABLE);
}

#[test]
fn a_signal_makes_a_waiting_thread_runnable() {
    let mut kernel = Kernel::new();
    handle(&mut kernel, libc::SIGUSR1, 0, 0);
    let wait = crate::wait::Wait::sleep(None, crate::wait::OnSignal::Interrupt);
    kernel.model.thread_mut(MAIN).wait = Some(wait);
    assert!(!kernel.model.runnable(MAIN));
    kill(&mut kernel, libc::SIGUSR1);
    assert!(kernel.model.runnable(MAIN));
}

#[test]
fn stop_and_continue_cancel_each_other() {
    let mut kernel = Kernel::new();
    kernel.model.thread_mut(MAIN).signals.mask = !UNBLOCKABLE;
    kill(&mut kernel, libc::SIGTSTP);
    kill(&mut kernel, libc::SIGCONT);
    assert_eq!(kernel.model.signals.shared_set(), bit(libc::SIGCONT));
    kill(&mut kernel, libc::SIGTTIN);
    assert_eq!(kernel.model.signals.shared_set(), bit(libc::SIGTTIN));
}

#[test]
fn siginfo_has_the_layout_of_the_kernel() {
    let info = SigInfo::queued(RT, 7, 8, 0x1122_3344_5566_7788);
    let raw = info.encode();
    assert_eq!(raw[0..4], RT.to_le_bytes());
    assert_eq!(raw[8..12], SI_QUEUE.to_le_bytes());
    assert_eq!(raw[16..20], 7_u32.to_le_bytes());
    assert_eq!(raw[20..24], 8_u32.to_le_bytes());
    assert_eq!(raw[24..32], 0x1122_3344_5566_7788_u64.to_le_bytes());
    assert_eq!(SigInfo::decode(&raw), Ok(info));
    let mut trailing = raw;
    trailing[127] = 1;
    assert_eq!(SigInfo::decode(&trailing), Err(syscalls::Errno::E2BIG));
    let fd = info.encode_signalfd();
    assert_eq!(fd[12..16], 7_u32.to_le_bytes());
    assert_eq!(fd[48..56], 0x1122_3344_5566_7788_u64.to_le_bytes());
}

#[test]
fn the_alternate_stack_is_used_once() {
    let mut kernel = Kernel::new();
    let thread = kernel.model.thread_mut(MAIN);
    thread.signals.altstack = (0x10_000, 0x2000, 0);
    let onstack = libc::SA_ONSTACK as u64;
    assert_eq!(alternate_stack_top(thread, 0x7fff_0000, onstack), Some(0x12_000));
    assert_eq!(alternate_stack_top(thread, 0x11_000, onstack), None);
    assert_eq!(alternate_stack_top(thread, 0x7fff_0000, 0), None);
    thread.signals.altstack.2 = libc::SS_DISABLE;
    assert_eq!(alternate_stack_top(thread, 0x7fff_0000, onstack), None);
}
