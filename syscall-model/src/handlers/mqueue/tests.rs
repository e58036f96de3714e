//! Tests of POSIX message queues.

use crate::channels::mqueue;
use crate::effect::Effect;
use crate::memory::{GuestMemory, GuestMemoryExt};
use crate::signals::{Action, Signals};
use crate::testing::{BASE, Kernel};
use crate::thread::{Pending, Tid};
use crate::wait::Wake;
use syscalls::{Errno, Sysno};

const NAME: u64 = BASE;
const ATTRIBUTES: u64 = BASE + 64;
const TEXT: u64 = BASE + 256;
const PRIORITY: u64 = BASE + 512;
const EVENT: u64 = BASE + 600;
const RDWR: u64 = libc::O_RDWR as u64;
const CREATE: u64 = RDWR | libc::O_CREAT as u64;
const NONBLOCK: u64 = libc::O_NONBLOCK as u64;

/// A queue of two messages of up to 16 bytes.
fn open(kernel: &mut Kernel, flags: u64) -> Result<i64, Errno> {
    kernel.mem.write(NAME, b"queue\0").unwrap();
    kernel.mem.write_u64(ATTRIBUTES + 8, 2).unwrap();
    kernel.mem.write_u64(ATTRIBUTES + 16, 16).unwrap();
    kernel.call(Sysno::mq_open, &[NAME, flags, 0o600, ATTRIBUTES])
}

fn with_queue(flags: u64) -> (Kernel, u64) {
    let mut kernel = Kernel::new();
    let fd = open(&mut kernel, CREATE | flags).unwrap();
    (kernel, fd as u64)
}

fn send(kernel: &mut Kernel, fd: u64, text: &[u8], priority: u64) -> Result<i64, Errno> {
    kernel.mem.write(TEXT, text).unwrap();
    let args = [fd, TEXT, text.len() as u64, priority, 0];
    kernel.call(Sysno::mq_timedsend, &args)
}

fn receiving(fd: u64) -> [u64; 5] {
    [fd, TEXT, 16, PRIORITY, 0]
}

fn receive(kernel: &mut Kernel, fd: u64) -> Result<(u32, Vec<u8>), Errno> {
    let len = kernel.call(Sysno::mq_timedreceive, &receiving(fd))?;
    Ok(received(kernel, len as usize))
}

fn received(kernel: &Kernel, len: usize) -> (u32, Vec<u8>) {
    (
        kernel.mem.read_u32(PRIORITY).unwrap(),
        kernel.mem.read_vec(TEXT, len).unwrap(),
    )
}

fn park(kernel: &mut Kernel, tid: Tid, sysno: Sysno, args: &[u64]) {
    match kernel.run(tid, Wake::Ready, sysno, args) {
        Ok(Effect::Block(wait)) => kernel.model.thread_mut(tid).wait = Some(wait),
        other => panic!("{} gave {other:?}", sysno.name()),
    }
}

#[test]
fn the_highest_priority_comes_first_and_among_equals_the_oldest() {
    let (mut kernel, fd) = with_queue(NONBLOCK);
    send(&mut kernel, fd, b"low", 1).unwrap();
    send(&mut kernel, fd, b"high", 2).unwrap();
    assert_eq!(send(&mut kernel, fd, b"more", 3), Err(Errno::EAGAIN));
    assert_eq!(receive(&mut kernel, fd), Ok((2, b"high".to_vec())));
    send(&mut kernel, fd, b"later", 1).unwrap();
    assert_eq!(receive(&mut kernel, fd), Ok((1, b"low".to_vec())));
    assert_eq!(receive(&mut kernel, fd), Ok((1, b"later".to_vec())));
    assert_eq!(receive(&mut kernel, fd), Err(Errno::EAGAIN));
}

#[test]
fn what_does_not_fit_is_refused() {
    let (mut kernel, fd) = with_queue(0);
    assert_eq!(send(&mut kernel, fd, &[0; 17], 0), Err(Errno::EMSGSIZE));
    assert_eq!(send(&mut kernel, fd, b"x", 32_768), Err(Errno::EINVAL));
    let short = [fd, TEXT, 15, 0, 0];
    assert_eq!(kernel.call(Sysno::mq_timedreceive, &short), Err(Errno::EMSGSIZE));
    assert_eq!(send(&mut kernel, 1, b"x", 0), Err(Errno::EBADF));
    let exclusive = CREATE | libc::O_EXCL as u64;
    assert_eq!(open(&mut kernel, exclusive), Err(Errno::EEXIST));
}

#[test]
fn a_message_is_handed_to_who_waits_first() {
    let (mut kernel, fd) = with_queue(0);
    let (first, second) = (kernel.thread(), kernel.thread());
    park(&mut kernel, first, Sysno::mq_timedreceive, &receiving(fd));
    park(&mut kernel, second, Sysno::mq_timedreceive, &receiving(fd));
    send(&mut kernel, fd, b"one", 4).unwrap();
    assert_eq!(kernel.model.wake_reason(first), Some(Wake::Ready));
    assert_eq!(kernel.model.wake_reason(second), None);
    let got = kernel.call_as(first, Sysno::mq_timedreceive, &receiving(fd));
    assert_eq!(got, Ok(3));
    assert_eq!(received(&kernel, 3), (4, b"one".to_vec()));
}

#[test]
fn room_goes_to_the_sender_that_waits_first() {
    let (mut kernel, fd) = with_queue(0);
    let sender = kernel.thread();
    send(&mut kernel, fd, b"a", 0).unwrap();
    send(&mut kernel, fd, b"b", 0).unwrap();
    kernel.mem.write(TEXT, b"c").unwrap();
    park(&mut kernel, sender, Sysno::mq_timedsend, &[fd, TEXT, 1, 9, 0]);
    assert_eq!(receive(&mut kernel, fd), Ok((0, b"a".to_vec())));
    assert_eq!(kernel.model.thread(sender).pending, Pending::Return(0));
    assert_eq!(receive(&mut kernel, fd), Ok((9, b"c".to_vec())));
}

#[test]
fn a_notification_comes_once_and_only_when_the_queue_was_empty() {
    let (mut kernel, fd) = with_queue(0);
    kernel.mem.write_u64(EVENT, 77).unwrap();
    kernel.mem.write_u32(EVENT + 8, libc::SIGUSR1 as u32).unwrap();
    kernel
        .mem
        .write_u32(EVENT + 12, libc::SIGEV_SIGNAL as u32)
        .unwrap();
    send(&mut kernel, fd, b"a", 0).unwrap();
    assert_eq!(kernel.call(Sysno::mq_notify, &[fd, EVENT]), Ok(0));
    assert_eq!(kernel.call(Sysno::mq_notify, &[fd, EVENT]), Err(Errno::EBUSY));
    send(&mut kernel, fd, b"b", 0).unwrap();
    assert_eq!(kernel.model.deliverable(Kernel::MAIN), None);
    receive(&mut kernel, fd).unwrap();
    receive(&mut kernel, fd).unwrap();
    let action = Action {
        handler: 0x4000,
        ..Action::default()
    };
    Signals::set_action(&mut kernel.model, libc::SIGUSR1, action);
    assert!(mqueue::raises_signals(&kernel.model));
    // The handler runs before the call returns.
    let sent = kernel.run(
        Kernel::MAIN,
        Wake::Ready,
        Sysno::mq_timedsend,
        &[fd, TEXT, 1, 0, 0],
    );
    assert_eq!(sent, Ok(Effect::DoneCheckSignals(0)));
    assert!(!mqueue::raises_signals(&kernel.model));
    assert_eq!(kernel.model.deliverable(Kernel::MAIN), Some(libc::SIGUSR1));
    assert_eq!(kernel.call(Sysno::mq_notify, &[fd, EVENT]), Ok(0));
}

#[test]
fn a_queue_without_a_name_stays_as_long_as_it_is_open() {
    let (mut kernel, fd) = with_queue(0);
    assert_eq!(kernel.call(Sysno::mq_unlink, &[NAME]), Ok(0));
    assert_eq!(kernel.call(Sysno::mq_unlink, &[NAME]), Err(Errno::ENOENT));
    assert_eq!(open(&mut kernel, RDWR), Err(Errno::ENOENT));
    send(&mut kernel, fd, b"a", 0).unwrap();
    let attributes = [fd, 0, ATTRIBUTES];
    assert_eq!(kernel.call(Sysno::mq_getsetattr, &attributes), Ok(0));
    assert_eq!(kernel.mem.read_u64(ATTRIBUTES + 24).unwrap(), 1);
    kernel.call(Sysno::close, &[fd]).unwrap();
    assert!(kernel.model.channels.mqueues.is_empty());
}
