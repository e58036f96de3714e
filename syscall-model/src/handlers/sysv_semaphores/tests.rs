//! Tests of sets of semaphores.

use super::{GETALL, GETNCNT, GETPID, GETVAL, GETZCNT, SETALL, SETVAL};
use crate::effect::Effect;
use crate::memory::GuestMemory;
use crate::processes::Ended;
use crate::testing::{BASE, Kernel};
use crate::thread::{Pending, Tid};
use crate::wait::{WaitFor, Wake};
use syscalls::{Errno, Sysno};

const CREATE: u64 = libc::IPC_CREAT as u64 | 0o600;
const UNDO: i16 = libc::SEM_UNDO as i16;
const NOWAIT: i16 = libc::IPC_NOWAIT as i16;

fn with_set(count: u64) -> (Kernel, u64) {
    let mut kernel = Kernel::new();
    let id = kernel.call(Sysno::semget, &[0, count, CREATE]).unwrap();
    (kernel, id as u64)
}

fn put(kernel: &mut Kernel, ops: &[(u16, i16, i16)]) {
    for (i, (number, change, flags)) in ops.iter().enumerate() {
        let raw = [number.to_le_bytes(), change.to_le_bytes(), flags.to_le_bytes()].concat();
        kernel.mem.write(BASE + i as u64 * 6, &raw).unwrap();
    }
}

fn op(kernel: &mut Kernel, tid: Tid, id: u64, ops: &[(u16, i16, i16)]) -> Result<i64, Errno> {
    put(kernel, ops);
    match kernel.run(tid, Wake::Ready, Sysno::semop, &[id, BASE, ops.len() as u64])? {
        Effect::Done(value) => Ok(value),
        Effect::Block(wait) => {
            assert_eq!(wait.on, WaitFor::Semaphores(id as i32));
            kernel.model.thread_mut(tid).wait = Some(wait);
            Ok(-1)
        }
        other => panic!("semop gave {other:?}"),
    }
}

fn ask(kernel: &mut Kernel, id: u64, number: u64, command: i32) -> i64 {
    kernel
        .call(Sysno::semctl, &[id, number, command as u64, 0])
        .unwrap()
}

fn woken(kernel: &Kernel, tid: Tid) -> Option<i64> {
    match kernel.model.thread(tid).pending {
        Pending::Return(value) => Some(value),
        _ => None,
    }
}

#[test]
fn operations_are_done_all_or_none() {
    let (mut kernel, id) = with_set(2);
    let main = Kernel::MAIN;
    assert_eq!(op(&mut kernel, main, id, &[(0, 2, 0), (1, 1, 0)]), Ok(0));
    let too_much = [(0, -1, 0), (1, -2, NOWAIT)];
    assert_eq!(op(&mut kernel, main, id, &too_much), Err(Errno::EAGAIN));
    assert_eq!(ask(&mut kernel, id, 0, GETVAL), 2);
    assert_eq!(ask(&mut kernel, id, 0, GETPID), i64::from(main));
    assert_eq!(op(&mut kernel, main, id, &[(0, 0, NOWAIT)]), Err(Errno::EAGAIN));
    assert_eq!(op(&mut kernel, main, id, &[(2, 1, 0)]), Err(Errno::EFBIG));
    assert_eq!(op(&mut kernel, main, id, &[(0, 32766, 0)]), Err(Errno::ERANGE));
    let none = kernel.call(Sysno::semop, &[id, BASE, 0]);
    assert_eq!(none, Err(Errno::EINVAL));
    let many = kernel.call(Sysno::semop, &[id, BASE, 501]);
    assert_eq!(many, Err(Errno::E2BIG));
}

#[test]
fn who_waits_is_served_in_order_by_the_one_that_lets_it() {
    let (mut kernel, id) = with_set(1);
    let (first, second) = (kernel.thread(), kernel.thread());
    assert_eq!(op(&mut kernel, first, id, &[(0, -1, 0)]), Ok(-1));
    assert_eq!(op(&mut kernel, second, id, &[(0, -1, 0)]), Ok(-1));
    assert_eq!(ask(&mut kernel, id, 0, GETNCNT), 2);
    assert_eq!(op(&mut kernel, Kernel::MAIN, id, &[(0, 1, 0)]), Ok(0));
    assert_eq!(woken(&kernel, first), Some(0));
    assert_eq!(woken(&kernel, second), None);
    // It has been taken already.
    assert_eq!(ask(&mut kernel, id, 0, GETVAL), 0);
    assert_eq!(ask(&mut kernel, id, 0, GETNCNT), 1);
}

#[test]
fn a_waiter_for_zero_goes_first() {
    let (mut kernel, id) = with_set(1);
    let (zero, one) = (kernel.thread(), kernel.thread());
    op(&mut kernel, Kernel::MAIN, id, &[(0, 1, 0)]).unwrap();
    assert_eq!(op(&mut kernel, one, id, &[(0, -2, 0)]), Ok(-1));
    assert_eq!(op(&mut kernel, zero, id, &[(0, 0, 0)]), Ok(-1));
    assert_eq!(ask(&mut kernel, id, 0, GETZCNT), 1);
    assert_eq!(op(&mut kernel, Kernel::MAIN, id, &[(0, -1, 0)]), Ok(0));
    assert_eq!(woken(&kernel, zero), Some(0));
    assert_eq!(woken(&kernel, one), None);
}

#[test]
fn a_removed_set_wakes_all_who_wait() {
    let (mut kernel, id) = with_set(1);
    let waiter = kernel.thread();
    assert_eq!(op(&mut kernel, waiter, id, &[(0, -1, 0)]), Ok(-1));
    let remove = [id, 0, libc::IPC_RMID as u64, 0];
    assert_eq!(kernel.call(Sysno::semctl, &remove), Ok(0));
    assert_eq!(woken(&kernel, waiter), Some(-i64::from(libc::EIDRM)));
    assert_eq!(kernel.call(Sysno::semctl, &remove), Err(Errno::EINVAL));
}

#[test]
fn what_a_process_did_is_undone_when_it_ends() {
    let (mut kernel, id) = with_set(1);
    op(&mut kernel, Kernel::MAIN, id, &[(0, 1, 0)]).unwrap();
    let Ok(Effect::Fork(fork)) = kernel.run(Kernel::MAIN, Wake::Ready, Sysno::fork, &[]) else {
        panic!("no process");
    };
    kernel.model.enter(fork.child);
    op(&mut kernel, fork.child, id, &[(0, -1, UNDO)]).unwrap();
    kernel.model.enter(Kernel::MAIN);
    assert_eq!(op(&mut kernel, Kernel::MAIN, id, &[(0, -1, 0)]), Ok(-1));
    kernel.model.enter(fork.child);
    kernel.model.end_process(Ended::Killed(9));
    assert_eq!(woken(&kernel, Kernel::MAIN), Some(0));
    assert!(kernel.model.ipc.undo.is_empty());
}

#[test]
fn a_value_that_is_set_is_not_undone() {
    let (mut kernel, id) = with_set(2);
    op(&mut kernel, Kernel::MAIN, id, &[(0, 3, UNDO), (1, 1, UNDO)]).unwrap();
    let set = |value: u64| [id, 0, SETVAL as u64, value];
    assert_eq!(kernel.call(Sysno::semctl, &set(40_000)), Err(Errno::ERANGE));
    assert_eq!(kernel.call(Sysno::semctl, &set(7)), Ok(0));
    let left: Vec<_> = kernel.model.ipc.undo[&Kernel::MAIN].keys().copied().collect();
    assert_eq!(left, [(id as i32, 1)]);
    kernel.mem.write(BASE, &[5, 0, 6, 0]).unwrap();
    let all = |command: i32, at: u64| [id, 0, command as u64, at];
    assert_eq!(kernel.call(Sysno::semctl, &all(SETALL, BASE)), Ok(0));
    assert_eq!(kernel.call(Sysno::semctl, &all(GETALL, BASE + 8)), Ok(0));
    let mut values = [0; 4];
    kernel.mem.read(BASE + 8, &mut values).unwrap();
    assert_eq!(values, [5, 0, 6, 0]);
    assert!(kernel.model.ipc.undo.is_empty());
}

#[test]
fn a_timeout_ends_the_wait() {
    let (mut kernel, id) = with_set(1);
    put(&mut kernel, &[(0, -1, 0)]);
    kernel.mem.write(BASE + 32, &[0; 16]).unwrap();
    let args = [id, BASE, 1, BASE + 32];
    assert_eq!(kernel.call(Sysno::semtimedop, &args), Err(Errno::EAGAIN));
    kernel.mem.write(BASE + 32, &[1]).unwrap();
    let waits = kernel.run(Kernel::MAIN, Wake::Ready, Sysno::semtimedop, &args);
    assert!(matches!(waits, Ok(Effect::Block(wait)) if wait.deadline.is_some()));
    let over = kernel.run(Kernel::MAIN, Wake::TimedOut, Sysno::semtimedop, &args);
    assert_eq!(over, Err(Errno::EAGAIN));
    assert_eq!(ask(&mut kernel, id, 0, GETNCNT), 0);
}
