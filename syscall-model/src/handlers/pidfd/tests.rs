//! Tests of descriptors of processes.

use crate::effect::Effect;
use crate::fd::PollEvents;
use crate::memory::GuestMemoryExt;
use crate::object::{Object, Touch};
use crate::processes::{Ended, Pid};
use crate::testing::{BASE, Kernel};
use crate::wait::{WaitFor, Wake};
use syscalls::{Errno, Sysno};

fn with_child() -> (Kernel, Pid) {
    let mut kernel = Kernel::new();
    match kernel.run(Kernel::MAIN, Wake::Ready, Sysno::fork, &[]) {
        Ok(Effect::Fork(fork)) => (kernel, fork.child),
        other => panic!("fork gave {other:?}"),
    }
}

fn end(kernel: &mut Kernel, pid: Pid, ended: Ended) {
    kernel.model.enter(pid);
    kernel.model.end_process(ended);
}

fn poll(kernel: &Kernel, fd: i64) -> PollEvents {
    let (id, _) = kernel.model.files.lookup(fd as i32).unwrap();
    kernel.model.poll(id)
}

fn open(kernel: &mut Kernel, pid: Pid) -> i64 {
    kernel.call(Sysno::pidfd_open, &[u64::from(pid), 0]).unwrap()
}

#[test]
fn a_descriptor_is_readable_when_its_process_has_ended_and_hung_up_when_it_was_waited_for() {
    let (mut kernel, child) = with_child();
    let fd = open(&mut kernel, child);
    assert_eq!(poll(&kernel, fd), PollEvents::empty());
    end(&mut kernel, child, Ended::Exited(3));
    assert_eq!(poll(&kernel, fd), PollEvents::IN | PollEvents::RDNORM);
    let pid = kernel.call(Sysno::wait4, &[child.into(), BASE, 0, 0]);
    assert_eq!(pid, Ok(i64::from(child)));
    assert!(poll(&kernel, fd).contains(PollEvents::HUP));
    assert_eq!(
        kernel.call(Sysno::pidfd_send_signal, &[fd as u64, 0, 0, 0]),
        Err(Errno::ESRCH)
    );
    assert_eq!(
        kernel.call(Sysno::pidfd_open, &[child.into(), 0]),
        Err(Errno::ESRCH)
    );
}

#[test]
fn an_edge_is_seen_when_the_process_ends_and_again_when_it_is_waited_for() {
    let (mut kernel, child) = with_child();
    let fd = open(&mut kernel, child) as u64;
    let epoll = kernel.call(Sysno::epoll_create1, &[0]).unwrap() as u64;
    let edge = libc::EPOLLIN as u32 | libc::EPOLLET as u32;
    kernel.mem.write_u32(BASE, edge).unwrap();
    kernel.mem.write_u64(BASE + 4, 7).unwrap();
    let add = [epoll, libc::EPOLL_CTL_ADD as u64, fd, BASE];
    kernel.call(Sysno::epoll_ctl, &add).unwrap();
    let look = |kernel: &mut Kernel| kernel.call(Sysno::epoll_wait, &[epoll, BASE + 64, 4, 0]);
    assert_eq!(look(&mut kernel), Ok(0));
    end(&mut kernel, child, Ended::Exited(0));
    assert_eq!(look(&mut kernel), Ok(1));
    assert_eq!(look(&mut kernel), Ok(0));
    kernel.call(Sysno::wait4, &[child.into(), 0, 0, 0]).unwrap();
    assert_eq!(look(&mut kernel), Ok(1));
}

#[test]
fn waitid_takes_a_descriptor() {
    let (mut kernel, child) = with_child();
    let fd = open(&mut kernel, child) as u64;
    let which = u64::from(libc::P_PIDFD);
    let args = [which, fd, BASE, libc::WEXITED as u64, 0];
    let prepared = kernel.prepare(Kernel::MAIN, Sysno::waitid, &args);
    assert!(matches!(
        prepared.wait.map(|wait| wait.on),
        Some(WaitFor::Child(..))
    ));
    end(&mut kernel, child, Ended::Killed(9));
    assert_eq!(kernel.call(Sysno::waitid, &args), Ok(0));
    assert_eq!(kernel.mem.read_u32(BASE + 16).unwrap(), child);
    assert_eq!(kernel.mem.read_u32(BASE + 24).unwrap(), 9);
    let not_a_process = [which, 1, BASE, libc::WEXITED as u64, 0];
    assert_eq!(kernel.call(Sysno::waitid, &not_a_process), Err(Errno::EBADF));
}

#[test]
fn waitid_does_not_wait_at_a_descriptor_that_does_not() {
    let (mut kernel, child) = with_child();
    let fd = kernel.call(Sysno::pidfd_open, &[child.into(), libc::O_NONBLOCK as u64]);
    let args = [
        u64::from(libc::P_PIDFD),
        fd.unwrap() as u64,
        0,
        libc::WEXITED as u64,
        0,
    ];
    assert_eq!(kernel.prepare(Kernel::MAIN, Sysno::waitid, &args).wait, None);
    assert_eq!(kernel.call(Sysno::waitid, &args), Err(Errno::EAGAIN));
}

#[test]
fn a_signal_reaches_the_process_behind_a_descriptor() {
    let (mut kernel, child) = with_child();
    let fd = open(&mut kernel, child) as u64;
    let signal = [fd, libc::SIGTERM as u64, 0, 0];
    assert_eq!(kernel.call(Sysno::pidfd_send_signal, &signal), Ok(0));
    assert_eq!(kernel.model.deliverable(child), Some(libc::SIGTERM));
    assert_eq!(kernel.model.deliverable(Kernel::MAIN), None);
    assert_eq!(
        kernel.call(Sysno::pidfd_send_signal, &[fd, 0, 0, 3]),
        Err(Errno::EINVAL)
    );
    assert_eq!(
        kernel.call(Sysno::pidfd_send_signal, &[1, 0, 0, 0]),
        Err(Errno::EBADF)
    );
}

#[test]
fn a_descriptor_of_another_process_can_be_had() {
    let (mut kernel, child) = with_child();
    let fd = open(&mut kernel, child) as u64;
    kernel.model.enter(child);
    let theirs = kernel.call_as(child, Sysno::eventfd2, &[5, 0]).unwrap() as u64;
    kernel.model.enter(Kernel::MAIN);
    let prepared = kernel.prepare(Kernel::MAIN, Sysno::pidfd_getfd, &[fd, theirs, 0]);
    assert_eq!(prepared.touches, [Touch::write(Object::Everything)]);
    let mine = kernel.call(Sysno::pidfd_getfd, &[fd, theirs, 0]).unwrap();
    end(&mut kernel, child, Ended::Exited(0));
    assert_eq!(kernel.call(Sysno::read, &[mine as u64, BASE, 8]), Ok(8));
    assert_eq!(kernel.mem.read_u64(BASE).unwrap(), 5);
    assert_eq!(
        kernel.call(Sysno::pidfd_getfd, &[fd, theirs, 0]),
        Err(Errno::ESRCH)
    );
}
