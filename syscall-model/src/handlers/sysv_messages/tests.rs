//! Tests of message queues.

use crate::effect::Effect;
use crate::memory::{GuestMemory, GuestMemoryExt};
use crate::testing::{BASE, Kernel};
use crate::thread::{Pending, Tid};
use crate::wait::{WaitFor, Wake};
use syscalls::{Errno, Sysno};

const CREATE: u64 = libc::IPC_CREAT as u64 | 0o600;
const NOWAIT: u64 = libc::IPC_NOWAIT as u64;
const CUT: u64 = super::CUT as u64;

fn with_queue() -> (Kernel, u64) {
    let mut kernel = Kernel::new();
    let id = kernel.call(Sysno::msgget, &[0, CREATE]).unwrap();
    (kernel, id as u64)
}

fn send(kernel: &mut Kernel, id: u64, kind: i64, text: &[u8]) -> Result<i64, Errno> {
    kernel.mem.write_u64(BASE, kind as u64).unwrap();
    kernel.mem.write(BASE + 8, text).unwrap();
    kernel.call(Sysno::msgsnd, &[id, BASE, text.len() as u64, NOWAIT])
}

fn args(id: u64, len: u64, kind: i64, flags: u64) -> [u64; 5] {
    [id, BASE + 1024, len, kind as u64, flags]
}

fn receive(kernel: &mut Kernel, id: u64, kind: i64, flags: u64) -> Result<(u64, Vec<u8>), Errno> {
    let len = kernel.call(Sysno::msgrcv, &args(id, 64, kind, flags))?;
    Ok(received(kernel, len as usize))
}

fn received(kernel: &Kernel, len: usize) -> (u64, Vec<u8>) {
    (
        kernel.mem.read_u64(BASE + 1024).unwrap(),
        kernel.mem.read_vec(BASE + 1032, len).unwrap(),
    )
}

fn wait(kernel: &mut Kernel, tid: Tid, args: &[u64]) {
    match kernel.run(tid, Wake::Ready, Sysno::msgrcv, args) {
        Ok(Effect::Block(wait)) => kernel.model.thread_mut(tid).wait = Some(wait),
        other => panic!("msgrcv gave {other:?}"),
    }
}

#[test]
fn messages_are_chosen_by_type() {
    let (mut kernel, id) = with_queue();
    for (kind, text) in [(3, b"c"), (2, b"b"), (1, b"a"), (2, b"B"), (5, b"e")] {
        send(&mut kernel, id, kind, text).unwrap();
    }
    let except = 0o20000;
    assert_eq!(receive(&mut kernel, id, 2, 0), Ok((2, b"b".to_vec())));
    assert_eq!(receive(&mut kernel, id, -2, 0), Ok((1, b"a".to_vec())));
    assert_eq!(receive(&mut kernel, id, 3, except), Ok((2, b"B".to_vec())));
    assert_eq!(receive(&mut kernel, id, 0, 0), Ok((3, b"c".to_vec())));
    assert_eq!(receive(&mut kernel, id, 4, NOWAIT), Err(Errno::ENOMSG));
    assert_eq!(receive(&mut kernel, id, -4, NOWAIT), Err(Errno::ENOMSG));
    assert_eq!(receive(&mut kernel, id, 5, 0), Ok((5, b"e".to_vec())));
}

#[test]
fn a_long_message_is_left_or_cut() {
    let (mut kernel, id) = with_queue();
    send(&mut kernel, id, 1, b"too long").unwrap();
    let short = kernel.call(Sysno::msgrcv, &args(id, 3, 0, 0));
    assert_eq!(short, Err(Errno::E2BIG));
    assert_eq!(kernel.call(Sysno::msgrcv, &args(id, 3, 0, CUT)), Ok(3));
    assert_eq!(received(&kernel, 3), (1, b"too".to_vec()));
    assert_eq!(receive(&mut kernel, id, 0, NOWAIT), Err(Errno::ENOMSG));
    assert_eq!(send(&mut kernel, id, 0, b"x"), Err(Errno::EINVAL));
}

#[test]
fn a_message_goes_to_who_waited_first_for_its_type() {
    let (mut kernel, id) = with_queue();
    let (other, first, second) = (kernel.thread(), kernel.thread(), kernel.thread());
    wait(&mut kernel, other, &args(id, 64, 9, 0));
    wait(&mut kernel, first, &args(id, 64, 1, 0));
    wait(&mut kernel, second, &args(id, 64, 0, 0));
    send(&mut kernel, id, 1, b"one").unwrap();
    let ready = |kernel: &Kernel, tid| kernel.model.wake_reason(tid) == Some(Wake::Ready);
    assert!(ready(&kernel, first) && !ready(&kernel, second) && !ready(&kernel, other));
    // Nobody else can have it any more, and an interruption does not lose it.
    assert_eq!(receive(&mut kernel, id, 0, NOWAIT), Err(Errno::ENOMSG));
    kernel.model.end_wait(first);
    let got = kernel.call_as(first, Sysno::msgrcv, &args(id, 64, 1, 0));
    assert_eq!(got, Ok(3));
    assert_eq!(received(&kernel, 3), (1, b"one".to_vec()));
}

#[test]
fn one_that_waits_with_too_small_a_buffer_is_told_and_the_next_gets_it() {
    let (mut kernel, id) = with_queue();
    let (small, large) = (kernel.thread(), kernel.thread());
    wait(&mut kernel, small, &args(id, 2, 0, 0));
    wait(&mut kernel, large, &args(id, 64, 0, 0));
    send(&mut kernel, id, 1, b"long").unwrap();
    let told = kernel.call_as(small, Sysno::msgrcv, &args(id, 2, 0, 0));
    assert_eq!(told, Err(Errno::E2BIG));
    assert_eq!(kernel.call_as(large, Sysno::msgrcv, &args(id, 64, 0, 0)), Ok(4));
}

#[test]
fn a_full_queue_makes_senders_wait() {
    let (mut kernel, id) = with_queue();
    let sender = kernel.thread();
    let text = [7; 8000];
    send(&mut kernel, id, 1, &text).unwrap();
    send(&mut kernel, id, 1, &text).unwrap();
    assert_eq!(send(&mut kernel, id, 1, &text), Err(Errno::EAGAIN));
    let long = [id, BASE, 8000, 0];
    match kernel.run(sender, Wake::Ready, Sysno::msgsnd, &long) {
        Ok(Effect::Block(wait)) => {
            assert_eq!(wait.on, WaitFor::MessageRoom(id as i32, 8000));
            kernel.model.thread_mut(sender).wait = Some(wait);
        }
        other => panic!("msgsnd gave {other:?}"),
    }
    assert_eq!(kernel.model.wake_reason(sender), None);
    let all = [id, BASE + 1024, 8000, 0, 0];
    assert_eq!(kernel.call(Sysno::msgrcv, &all), Ok(8000));
    assert_eq!(kernel.model.wake_reason(sender), Some(Wake::Ready));
    let remove = [id, libc::IPC_RMID as u64, 0];
    assert_eq!(kernel.call(Sysno::msgctl, &remove), Ok(0));
    let gone = Pending::Return(-i64::from(libc::EIDRM));
    assert_eq!(kernel.model.thread(sender).pending, gone);
}

#[test]
fn a_removed_queue_wakes_all_who_wait_for_messages() {
    let (mut kernel, id) = with_queue();
    let waiter = kernel.thread();
    wait(&mut kernel, waiter, &args(id, 64, 0, 0));
    let remove = [id, libc::IPC_RMID as u64, 0];
    assert_eq!(kernel.call(Sysno::msgctl, &remove), Ok(0));
    let told = kernel.call_as(waiter, Sysno::msgrcv, &args(id, 64, 0, 0));
    assert_eq!(told, Err(Errno::EIDRM));
}
