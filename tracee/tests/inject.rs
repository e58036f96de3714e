//! Injected calls and forks: nothing of them shows.

mod common;

use common::{GETPID, Guest, exists, exit_code, inject_unnoticed, next, outcome, pid_as_exit_code, run_all};
use tracee::{Outcome, Resume, Stop, Stopped};

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
