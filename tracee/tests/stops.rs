//! Stops and what can be done at them: skip, replace, swap threads, step, interrupt, end.

mod common;

use common::{GETPID, Guest, exists, exit_code, inject_unnoticed, next, outcome, pid_as_exit_code, run_all};
use std::time::Duration;
use tracee::{Error, Outcome, Regs, Resume, Stop, Ticker};

#[test]
fn a_call_can_be_skipped_with_a_result() {
    let mut task = next(pid_as_exit_code().start());
    assert_eq!(*task.stop(), Stop::Seccomp { nr: GETPID });
    task.skip_call(42).unwrap();
    let task = next(task);
    assert_eq!(task.regs().unwrap().rdi, 42);
    assert_eq!(exit_code(task), 42);
}

#[test]
fn a_call_can_be_replaced() {
    let mut task = next(pid_as_exit_code().start());
    // lseek on /dev/null answers 0, getpid never does
    task.replace_call(libc::SYS_lseek, [0, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!(exit_code(next(task)), 0);
}

#[test]
fn another_virtual_thread_can_be_resumed_at_a_stop_at_a_call() {
    let guest = Guest::new(
        "static u64 stacks[2][512];
         __attribute__((used)) void worker(u64 n) { for (u64 i = 0; i < 3; i++) call3(186, n, i, 0); exit((int)n); }
         void guest(u64 *s) { call3(56, worker, stacks[1], stacks[2]); }",
    );
    let mut task = next(guest.start());
    let base = *task.regs().unwrap();
    let [entry, stack_a, stack_b, ..] = base.args();
    let thread = |n: u64, stack: u64| {
        // Ends of the two stacks, as at a function's entry; nothing pending.
        let mut regs = Regs {
            rip: entry,
            rsp: stack - 8,
            rdi: n,
            ..base
        };
        regs.orig_rax = tracee::NO_CALL;
        regs
    };
    let mut threads = [thread(10, stack_a), thread(20, stack_b)];
    let mut seen = Vec::new();
    for turn in [0, 1, 0, 0, 1, 1, 0] {
        task.set_regs(threads[turn]);
        task = next(task);
        let mut regs = *task.regs().unwrap();
        seen.push((regs.call(), regs.rdi, regs.rsi));
        regs.skip_call(0);
        threads[turn] = regs;
    }
    let gettid = libc::SYS_gettid;
    let expected = [(10, 0), (20, 0), (10, 1), (10, 2), (20, 1), (20, 2)].map(|(n, i)| (gettid, n, i));
    assert_eq!(seen[..6], expected);
    assert_eq!((seen[6].0, seen[6].1), (libc::SYS_exit_group, 10));
}

#[test]
fn entry_and_exit_stops_are_told_apart() {
    let guest = Guest::new("void guest(u64 *s) { exit(getpid() == 1234 ? 3 : 4); }");
    let (task, _) = guest.start_with(&[GETPID], false);
    let Outcome::Stopped(mut task) = outcome(task, Resume::Syscall) else {
        panic!("no stop")
    };
    assert_eq!(
        (*task.stop(), task.regs().unwrap().call()),
        (Stop::SyscallEntry, GETPID)
    );
    inject_unnoticed(&mut task);
    let Outcome::Stopped(mut task) = outcome(task, Resume::Syscall) else {
        panic!("no stop")
    };
    assert_eq!(*task.stop(), Stop::SyscallExit);
    assert_eq!(task.regs().unwrap().rax, task.pid() as u64);
    task.update_regs(|regs| regs.rax = 1234).unwrap();
    assert_eq!(run_all(task), (3, vec![231]));
}

#[test]
fn single_steps() {
    let guest = Guest::new("void guest(u64 *s) { asm volatile(\"int3; nop; nop; int3\"); exit(0); }");
    let mut task = next(guest.start());
    let start = task.regs().unwrap().rip;
    for n in 1..=2 {
        let Outcome::Stopped(stopped) = outcome(task, Resume::Step) else {
            panic!("no stop")
        };
        assert!(matches!(*stopped.stop(), Stop::Step { .. }));
        assert_eq!(stopped.regs().unwrap().rip, start + n);
        task = stopped;
    }
    let Outcome::Stopped(task) = outcome(task, Resume::Step) else {
        panic!("no stop")
    };
    assert_eq!(*task.stop(), Stop::Breakpoint, "a stepped int3 is a breakpoint");
}

#[test]
fn a_call_that_is_stepped_into_shows_no_trace_of_that() {
    let guest = Guest::new("void guest(u64 *s) { asm volatile(\"int3\"); exit(getpid() > 0 ? 3 : 4); }");
    let (task, _) = guest.start_with(&[GETPID], false);
    let mut task = next(task);
    assert_eq!(*task.stop(), Stop::Breakpoint);
    while !matches!(*task.stop(), Stop::Seccomp { .. }) {
        let Outcome::Stopped(stopped) = outcome(task, Resume::Step) else {
            panic!("no stop")
        };
        task = stopped;
    }
    let regs = *task.regs().unwrap();
    assert_eq!(regs.r11, regs.eflags, "as the instruction leaves them");
}

#[test]
fn dropping_a_task_in_any_state_leaves_no_process() {
    let guest = Guest::new("void guest(u64 *s) { getpid(); for (;;) ; }");
    let stopped = guest.start();
    let at_call = next(guest.start());
    let running = next(guest.start()).resume(Resume::Cont, None).unwrap();
    let mut at_exit = guest.start();
    at_exit.set_stop_at_exit(true).unwrap();
    let pids = [stopped.pid(), at_call.pid(), running.pid(), at_exit.pid()];
    drop((stopped, at_call));
    running.kill();
    at_exit.kill();
    assert!(pids.into_iter().all(|pid| !exists(pid)));
}

#[test]
fn death_from_outside_is_an_ordinary_error() {
    let mut task = next(pid_as_exit_code().start());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(task.pid()), nix::sys::signal::SIGKILL).unwrap();
    let gone = |e: Error| assert!(e.is_gone(), "{e}");
    gone(task.inject(GETPID, [0; 6]).unwrap_err());
    gone(task.xstate().unwrap_err());
    match task.resume(Resume::Cont, None) {
        Err(error) => gone(error),
        Ok(running) => assert!(matches!(
            running.wait_ignoring_ticks(),
            Ok(Outcome::Killed(libc::SIGKILL))
        )),
    }
}

#[test]
fn a_task_that_never_stops_is_noticed_and_interrupted() {
    let guest =
        Guest::new("void guest(u64 *s) { getpid(); for (u64 i = 0;; i++) asm volatile(\"\" : : \"r\"(i)); }");
    let running = next(guest.start()).resume(Resume::Cont, None).unwrap();
    let _ticker = Ticker::start(Duration::from_millis(5)).unwrap();
    let Outcome::Tick(running) = running.wait().unwrap() else {
        panic!("no tick")
    };
    let Outcome::Tick(running) = running.wait().unwrap() else {
        panic!("no second tick")
    };
    running.interrupt().unwrap();
    let Outcome::Stopped(mut task) = running.wait_ignoring_ticks().unwrap() else {
        panic!("no stop")
    };
    assert_eq!(*task.stop(), Stop::Interrupted);
    assert!(!task.regs().unwrap().has_call());
    inject_unnoticed(&mut task);
    let copy = task.inject_fork().unwrap();
    let here = copy.regs().unwrap().rip;
    copy.memory().write_forced(here, &[0xcc]).unwrap();
    assert_eq!(*next(copy).stop(), Stop::Breakpoint);
}

#[test]
fn an_allowed_call_that_is_interrupted_is_made_again() {
    // pause() is allowed, blocks, and is restarted by the kernel when a stop breaks it off.
    let guest = Guest::new("void guest(u64 *s) { getpid(); call(34); exit(0); }");
    let (task, _) = guest.start_with(&[libc::SYS_pause], false);
    let mut task = next(task);
    for _ in 0..3 {
        let running = task.resume(Resume::Cont, None).unwrap();
        let stat = format!("/proc/{}/syscall", running.pid());
        while !std::fs::read_to_string(&stat).unwrap().starts_with("34 ") {
            std::thread::yield_now();
        }
        running.interrupt().unwrap();
        let Outcome::Stopped(stopped) = running.wait_ignoring_ticks().unwrap() else {
            panic!("no stop")
        };
        task = stopped;
        assert_eq!(*task.stop(), Stop::Interrupted);
        let regs = *task.regs().unwrap();
        assert_eq!((regs.rax, regs.has_call()), (34, false), "as if not yet made");
        let mut code = [0; 2];
        task.memory().read(regs.rip, &mut code).unwrap();
        assert_eq!(code, [0x0f, 0x05]);
        task.inject(GETPID, [0; 6]).unwrap();
    }
}

#[test]
fn foreign_calls_are_told_apart() {
    let guest = Guest::new(
        "void guest(u64 *s) { long r; asm volatile(\"int $0x80\" : \"=a\"(r) : \"a\"(20)); call(0x40000000 + 39); exit(0); }",
    );
    let task = next(guest.start());
    assert_eq!(
        *task.stop(),
        Stop::ForeignCall {
            nr: 20,
            arch: 0x4000_0003
        }
    );
    let task = next(task);
    assert_eq!(*task.stop(), Stop::Seccomp { nr: 0x4000_0000 + 39 });
}

#[test]
fn faults_are_reported_with_their_address() {
    let guest = Guest::new("void guest(u64 *s) { *(volatile int *)0xdead000 = 1; exit(0); }");
    let task = next(guest.start());
    let Stop::Signal { signo, addr, .. } = *task.stop() else {
        panic!("{:?}", task.stop())
    };
    assert_eq!((signo, addr), (libc::SIGSEGV, 0xdead000));
    let end = task
        .resume(Resume::Cont, Some(libc::SIGSEGV))
        .unwrap()
        .wait_ignoring_ticks()
        .unwrap();
    assert!(matches!(end, Outcome::Killed(libc::SIGSEGV)));
}

#[test]
fn the_stop_at_exit_shows_the_memory_of_the_dying() {
    let guest = Guest::new(
        "static volatile int n = 99; void guest(u64 *s) { call1(39, &n); *(volatile int *)0 = 1; }",
    );
    let mut task = next(guest.start());
    let addr = task.regs().unwrap().rdi;
    task.set_stop_at_exit(true).unwrap();
    let task = next(task);
    let running = task.resume(Resume::Cont, Some(libc::SIGSEGV)).unwrap();
    let Outcome::Stopped(task) = running.wait_ignoring_ticks().unwrap() else {
        panic!("no stop")
    };
    assert_eq!(
        *task.stop(),
        Stop::Exiting {
            status: libc::SIGSEGV
        }
    );
    assert_eq!(task.memory().read_u32(addr).unwrap(), 99);
}

#[test]
fn tsc_faults_and_the_setting_survives_fork() {
    let guest =
        Guest::new("void guest(u64 *s) { getpid(); asm volatile(\"rdtsc\" ::: \"rax\", \"rdx\"); exit(0); }");
    let (task, _) = guest.start_with(&[], true);
    let mut task = next(task);
    let copy = task.inject_fork().unwrap();
    for task in [task, copy] {
        let task = next(task);
        assert!(
            matches!(
                *task.stop(),
                Stop::Signal {
                    signo: libc::SIGSEGV,
                    ..
                }
            ),
            "{:?}",
            task.stop()
        );
        let mut code = [0; 2];
        task.memory().read(task.regs().unwrap().rip, &mut code).unwrap();
        assert_eq!(code, [0x0f, 0x31]);
    }
    assert_eq!(
        run_all(guest.start()).0,
        0,
        "without the option it does not fault"
    );
}

#[test]
fn the_tsc_setting_survives_exec() {
    let guest = Guest::new("void guest(u64 *s) { asm volatile(\"rdtsc\" ::: \"rax\", \"rdx\"); exit(0); }");
    let mut launch = common::launch(guest.path(), &["guest"], &[]);
    launch.hide_tsc = true;
    let task = next(launch.spawn().unwrap());
    assert!(
        matches!(
            *task.stop(),
            Stop::Signal {
                signo: libc::SIGSEGV,
                ..
            }
        ),
        "{:?}",
        task.stop()
    );
}

#[test]
fn cpuid_faults_if_the_machine_can() {
    let guest = Guest::new(
        "void guest(u64 *s) { getpid(); asm volatile(\"cpuid\" ::: \"rax\", \"rbx\", \"rcx\", \"rdx\"); exit(0); }",
    );
    let mut task = next(guest.start());
    let can = task.set_cpuid_faulting(true).unwrap();
    let task = next(task);
    assert_eq!(
        matches!(
            *task.stop(),
            Stop::Signal {
                signo: libc::SIGSEGV,
                ..
            }
        ),
        can,
        "{:?}",
        task.stop()
    );
}
