//! Stops, registers, memory, injected calls, forks.

mod common;

use common::{Guest, SCRATCH, exists, exit_code, next, outcome, run_all};
use nix::errno::Errno;
use std::time::Duration;
use tracee::{Error, Outcome, Regs, Resume, Stop, Stopped, Ticker};

const GETPID: i64 = libc::SYS_getpid;

/// Makes getpid, whose result is the exit code.
fn pid_as_exit_code() -> Guest {
    Guest::new("void guest(u64 *s) { int p = getpid(); exit(p); }")
}

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

fn mmap_args(addr: u64) -> [u64; 6] {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    [
        addr,
        4096,
        (libc::PROT_READ | libc::PROT_WRITE) as u64,
        flags as u64,
        u64::MAX,
        0,
    ]
}

/// Injects at the current stop and checks that nothing shows.
fn inject_unnoticed(task: &mut Stopped) {
    let before = *task.regs().unwrap();
    let xstate = task.xstate().unwrap();
    let stop = *task.stop();
    assert_eq!(task.inject(GETPID, [0; 6]).unwrap(), i64::from(task.pid()));
    assert_eq!(
        task.inject(libc::SYS_mmap, mmap_args(0x5000_0000)).unwrap(),
        0x5000_0000
    );
    let answers = task
        .inject_many(&[
            (libc::SYS_mmap, mmap_args(0x5000_0000)),
            (libc::SYS_close, [99, 0, 0, 0, 0, 0]),
        ])
        .unwrap();
    assert_eq!(answers, [-(Errno::EEXIST as i64), -(Errno::EBADF as i64)]);
    task.memory().write(0x5000_0000, b"mapped").unwrap();
    assert_eq!(*task.regs().unwrap(), before);
    assert_eq!(task.xstate().unwrap(), xstate);
    assert_eq!(*task.stop(), stop);
}

#[test]
fn injection_at_a_call_leaves_the_call_to_be_performed() {
    let mut task = next(pid_as_exit_code().start());
    inject_unnoticed(&mut task);
    assert!(task.at_call());
    let pid = task.pid();
    let task = next(task);
    assert_eq!(
        task.regs().unwrap().rdi,
        pid as u64,
        "the guest's own getpid was performed"
    );
    assert_eq!(exit_code(task), pid & 0xff);
}

#[test]
fn injection_at_a_call_leaves_the_call_to_be_skipped() {
    let mut task = next(pid_as_exit_code().start());
    inject_unnoticed(&mut task);
    task.skip_call(7).unwrap();
    assert_eq!(exit_code(next(task)), 7);
}

#[test]
fn injection_at_a_breakpoint() {
    let guest = Guest::new("void guest(u64 *s) { asm volatile(\"mov $77, %rbx; int3\"); exit(5); }");
    let mut task = next(guest.start());
    assert_eq!(*task.stop(), Stop::Breakpoint);
    let mut before = [0];
    task.memory()
        .read(task.regs().unwrap().rip - 1, &mut before)
        .unwrap();
    assert_eq!(before, [0xcc]);
    assert_eq!(task.regs().unwrap().rbx, 77);
    inject_unnoticed(&mut task);
    assert_eq!(run_all(task), (5, vec![231]));
}

#[test]
fn a_breakpoint_can_be_put_into_read_only_code() {
    let task = next(pid_as_exit_code().start());
    let at = task.regs().unwrap().rip;
    let mut original = [0];
    task.memory().read(at, &mut original).unwrap();
    assert!(
        task.memory().write(at, &[0xcc]).is_err(),
        "the code page is read-only"
    );
    task.memory().write_forced(at, &[0xcc]).unwrap();
    let mut task = next(task);
    assert_eq!(*task.stop(), Stop::Breakpoint);
    assert_eq!(task.regs().unwrap().rip, at + 1);
    task.memory().write_forced(at, &original).unwrap();
    task.update_regs(|regs| regs.rip = at).unwrap();
    task = next(task);
    assert_eq!(
        *task.stop(),
        Stop::Seccomp {
            nr: libc::SYS_exit_group
        }
    );
}

#[test]
fn a_parked_call_can_be_performed_when_the_task_stands_elsewhere() {
    let guest =
        Guest::new("void guest(u64 *s) { int p = getpid(); asm volatile(\"int3\"); exit(p == 3 ? 0 : 1); }");
    let mut task = next(guest.start());
    let parked = *task.regs().unwrap();
    task.skip_call(3).unwrap();
    task = next(task);
    assert_eq!(*task.stop(), Stop::Breakpoint);
    let later = *task.regs().unwrap();
    // The thread that is parked before its getpid performs it now, from the breakpoint of the other.
    task.set_regs(parked);
    task.enter_call().unwrap();
    let pid = task.pid();
    let Outcome::Stopped(mut task) = outcome(task, Resume::Syscall) else {
        panic!("no stop")
    };
    assert_eq!(*task.stop(), Stop::SyscallExit);
    assert_eq!(
        (task.regs().unwrap().rax, task.regs().unwrap().rip),
        (pid as u64, parked.rip)
    );
    task.set_regs(later);
    assert_eq!(run_all(task), (0, vec![231]));
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
        assert_eq!(
            (*stopped.stop(), stopped.regs().unwrap().rip),
            (Stop::Step, start + n)
        );
        task = stopped;
    }
    let Outcome::Stopped(task) = outcome(task, Resume::Step) else {
        panic!("no stop")
    };
    assert_eq!(*task.stop(), Stop::Breakpoint, "a stepped int3 is a breakpoint");
}

const COUNTER: &str =
    "static volatile int n; void guest(u64 *s) { for (int i = 0; i < 3; i++) { n++; getpid(); } exit(n); }";

#[test]
fn a_fork_and_its_original_go_on_independently() {
    let guest = Guest::new(COUNTER);
    let mut task = next(next(guest.start()));
    let before = *task.regs().unwrap();
    let mut copies: Vec<_> = (0..3).map(|_| task.inject_fork().unwrap()).collect();
    assert_eq!(*task.regs().unwrap(), before);
    let mut nested = copies[2].inject_fork().unwrap();
    copies.push(nested.inject_fork().unwrap());
    copies.push(nested);
    let pids: Vec<_> = copies.iter().map(Stopped::pid).collect();
    for copy in &copies {
        assert_eq!((copy.regs().unwrap(), copy.stop()), (&before, task.stop()));
        assert_eq!(copy.xstate().unwrap(), task.xstate().unwrap());
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", copy.pid())).unwrap();
        let parent: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        assert_eq!(
            parent[1],
            std::process::id().to_string(),
            "a copy is the supervisor's own child"
        );
    }
    let (code, calls) = run_all(task);
    assert_eq!((code, calls.len()), (3, 2));
    for mut copy in copies {
        copy.skip_call(0).unwrap();
        let (code, calls) = run_all(copy);
        assert_eq!((code, calls.as_slice()), (3, [39, 231].as_slice()));
    }
    assert!(pids.into_iter().all(|pid| !exists(pid)), "a zombie is left");
}

#[test]
fn a_fork_at_a_breakpoint() {
    let guest = Guest::new("void guest(u64 *s) { asm volatile(\"int3\"); exit(6); }");
    let mut task = next(guest.start());
    let copy = task.inject_fork().unwrap();
    task.kill();
    assert_eq!(run_all(copy), (6, vec![231]));
}

#[test]
fn a_copy_forks_and_injects_like_its_original() {
    let guest = Guest::new(COUNTER);
    let mut task = next(guest.start());
    let mut copy = task.inject_fork().unwrap();
    inject_unnoticed(&mut copy);
    copy.memory()
        .write_forced(copy.regs().unwrap().rip, &[0xcc])
        .unwrap();
    copy = next(copy);
    assert_eq!(*copy.stop(), Stop::Breakpoint);
    assert_eq!(
        next(task).stop(),
        &Stop::Seccomp { nr: GETPID },
        "the original has no breakpoint"
    );
}

#[test]
fn a_fork_by_the_program_itself_is_seen() {
    let guest = Guest::new("void guest(u64 *s) { long p = call(57); if (p == 0) exit(1); exit(2); }");
    let task = next(next(guest.start()));
    let Stop::Fork { child } = *task.stop() else {
        panic!("{:?}", task.stop())
    };
    let copy = task.forked_child().unwrap().expect("a child");
    assert_eq!(copy.pid(), child);
    assert_eq!(run_all(copy), (1, vec![231]));
    let task = next(task);
    assert!(
        matches!(
            *task.stop(),
            Stop::Signal {
                signo: libc::SIGCHLD,
                ..
            }
        ),
        "the program is its parent"
    );
    assert_eq!(run_all(task), (2, vec![231]));
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
    let mut copy = task.inject_fork().unwrap();
    copy.update_regs(|regs| (regs.rax, regs.rip) = (0, SCRATCH + 16))
        .unwrap();
    copy.memory().write(SCRATCH + 16, &[0xcc]).unwrap();
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

#[test]
fn extended_state_round_trips_with_its_upper_halves() {
    // ymm0 := argument; the exit code is a byte of its upper half.
    let guest = Guest::new(
        "static unsigned char v[32]; void guest(u64 *s) {
           for (int i = 0; i < 32; i++) v[i] = i;
           asm volatile(\"vmovdqu %0, %%ymm0\" : : \"m\"(v));
           asm volatile(\"syscall\" : : \"a\"(39) : \"rcx\", \"r11\");
           asm volatile(\"vmovdqu %%ymm0, %0\" : \"=m\"(v)); exit(v[31]); }",
    );
    const AVX: u32 = 2;
    let mut task = next(guest.start());
    let original = task.xstate().unwrap();
    let upper: Vec<u8> = (16..32).collect();
    assert_eq!(original.component(AVX).unwrap()[..16], upper);
    let mut changed = original.clone();
    let mut registers = changed.component(AVX).unwrap().to_vec();
    registers[15] = 200;
    assert!(changed.set_component(AVX, &registers));
    task.set_xstate(&changed).unwrap();
    assert_eq!(task.xstate().unwrap(), changed);
    let mut copy = task.inject_fork().unwrap();
    copy.set_xstate(&original).unwrap();
    assert_eq!(run_all(task).0, 200);
    assert_eq!(run_all(copy).0, 31);
}

#[test]
fn memory_accesses_fault_where_the_guest_would() {
    let guest = pid_as_exit_code();
    let mut task = next(guest.start());
    for addr in [0x5000_0000, 0x5000_1000] {
        task.inject(libc::SYS_mmap, mmap_args(addr)).unwrap();
    }
    let memory = task.memory();
    let fault = |result: tracee::Result<()>| match result {
        Err(Error::Memory(fault)) => fault.addr,
        other => panic!("{other:?}"),
    };
    memory.write(0x5000_0ffe, b"text\0").unwrap();
    assert_eq!(memory.read_cstr(0x5000_0ffe, 100).unwrap(), b"text");
    assert!(matches!(
        memory.read_cstr(0x5000_0ffe, 4),
        Err(Error::Sys {
            errno: Errno::ENAMETOOLONG,
            ..
        })
    ));
    memory.write(0x5000_1ffe, b"xy").unwrap();
    assert_eq!(fault(memory.read_cstr(0x5000_1ffe, 9).map(drop)), 0x5000_2000);
    assert_eq!(fault(memory.read(0x5000_1ff0, &mut [0; 32])), 0x5000_2000);
    assert_eq!(memory.read_up_to(0x5000_1ff0, &mut [0; 32]).unwrap(), 16);
    assert_eq!(fault(memory.write(0x5000_1ff0, &[1; 32])), 0x5000_2000);
    assert_eq!(fault(memory.write_forced(0x6000_0000, &[1])), 0x6000_0000);
    assert_eq!(fault(memory.read(u64::MAX - 3, &mut [0; 4])), u64::MAX - 3);
}

#[test]
fn many_ranges_are_transferred_in_batches() {
    let mut task = next(pid_as_exit_code().start());
    task.inject(libc::SYS_mmap, mmap_args(0x5000_0000)).unwrap();
    let memory = task.memory();
    let values: Vec<[u8; 2]> = (0..1500u16).map(u16::to_le_bytes).collect();
    let pieces: Vec<(u64, &[u8])> = values
        .iter()
        .zip(0..)
        .map(|(v, i): (_, u64)| (0x5000_0000 + (1499 - i) * 2, v.as_slice()))
        .collect();
    memory.write_many(&pieces).unwrap();
    let ranges: Vec<(u64, usize)> = pieces.iter().map(|p| (p.0, 2)).collect();
    let mut back = vec![0; 3000];
    memory.read_many(&ranges, &mut back).unwrap();
    assert_eq!(back, values.concat());
    assert_eq!(memory.read_u32(0x5000_0000).unwrap(), 1499 | 1498 << 16);
    let mut buffer = [0; 4];
    let Err(Error::Memory(fault)) = memory.read_many(&[(0x5000_0000, 2), (0x10, 2)], &mut buffer) else {
        panic!("no fault")
    };
    assert_eq!(fault.addr, 0x10);
}
