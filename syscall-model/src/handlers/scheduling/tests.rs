//! Wishes are kept per thread and told back.

use crate::memory::{GuestMemory, GuestMemoryExt};
use crate::testing::{BASE, Kernel};
use syscalls::{Errno, Sysno};

#[test]
fn affinity_is_kept_per_thread_and_inherited() {
    let mut kernel = Kernel::new();
    assert_eq!(kernel.call(Sysno::sched_getaffinity, &[0, 128, BASE]), Ok(8));
    assert_eq!(kernel.mem.read_u64(BASE), Ok(0b11));
    assert_eq!(
        kernel.call(Sysno::sched_getaffinity, &[0, 4, BASE]),
        Err(Errno::EINVAL)
    );
    kernel.mem.write_u64(BASE, 0b110).unwrap();
    assert_eq!(kernel.call(Sysno::sched_setaffinity, &[0, 8, BASE]), Ok(0));
    let child = kernel.thread();
    kernel.mem.write_u64(BASE, 0b100).unwrap();
    assert_eq!(
        kernel.call(Sysno::sched_setaffinity, &[0, 8, BASE]),
        Err(Errno::EINVAL)
    );
    let args = [u64::from(child), 8, BASE];
    assert_eq!(kernel.call(Sysno::sched_getaffinity, &args), Ok(8));
    assert_eq!(kernel.mem.read_u64(BASE), Ok(0b10));
}

#[test]
fn policies_and_priorities() {
    let mut kernel = Kernel::new();
    assert_eq!(kernel.call(Sysno::sched_getscheduler, &[0]), Ok(0));
    assert_eq!(kernel.call(Sysno::sched_get_priority_max, &[1]), Ok(99));
    assert_eq!(
        kernel.call(Sysno::sched_get_priority_min, &[9]),
        Err(Errno::EINVAL)
    );
    kernel.mem.write_u32(BASE, 50).unwrap();
    let fifo = [0, libc::SCHED_FIFO as u64, BASE];
    assert_eq!(kernel.call(Sysno::sched_setscheduler, &fifo), Err(Errno::EPERM));
    kernel.mem.write_u32(BASE, 0).unwrap();
    let batch = [0, libc::SCHED_BATCH as u64, BASE];
    assert_eq!(kernel.call(Sysno::sched_setscheduler, &batch), Ok(0));
    assert_eq!(kernel.call(Sysno::sched_getscheduler, &[1000]), Ok(3));
    assert_eq!(kernel.call(Sysno::sched_getscheduler, &[7]), Err(Errno::ESRCH));
    assert_eq!(kernel.call(Sysno::sched_getattr, &[0, BASE, 48, 0]), Ok(0));
    assert_eq!(kernel.mem.read_u32(BASE + 4), Ok(3));
}

#[test]
fn niceness_only_grows() {
    let mut kernel = Kernel::new();
    assert_eq!(kernel.call(Sysno::getpriority, &[0, 0]), Ok(20));
    assert_eq!(kernel.call(Sysno::setpriority, &[0, 0, 5]), Ok(0));
    assert_eq!(kernel.call(Sysno::getpriority, &[0, 0]), Ok(15));
    assert_eq!(kernel.call(Sysno::setpriority, &[0, 0, 0]), Err(Errno::EACCES));
    assert_eq!(kernel.call(Sysno::getpriority, &[7, 0]), Err(Errno::EINVAL));
    kernel.mem.write(BASE, &[0xff; 8]).unwrap();
    assert_eq!(kernel.call(Sysno::getcpu, &[BASE, BASE + 4]), Ok(0));
    assert_eq!(kernel.mem.read_u64(BASE), Ok(0));
}
