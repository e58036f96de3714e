//! Limits can be lowered and told back.

use crate::memory::GuestMemoryExt;
use crate::testing::{BASE, Kernel};
use syscalls::{Errno, Sysno};

#[test]
fn limits_go_down_and_not_up() {
    let mut kernel = Kernel::new();
    let nofile = u64::from(libc::RLIMIT_NOFILE);
    assert_eq!(kernel.call(Sysno::prlimit64, &[0, nofile, 0, BASE]), Ok(0));
    assert_eq!(kernel.mem.read_u64(BASE), Ok(1024));
    kernel.mem.write_u64(BASE, 64).unwrap();
    kernel.mem.write_u64(BASE + 8, 512).unwrap();
    assert_eq!(
        kernel.call(Sysno::prlimit64, &[0, nofile, BASE, BASE + 32]),
        Ok(0)
    );
    assert_eq!(kernel.mem.read_u64(BASE + 32), Ok(1024));
    assert_eq!(kernel.call(Sysno::getrlimit, &[nofile, BASE]), Ok(0));
    assert_eq!(kernel.mem.read_u64(BASE + 8), Ok(512));
    assert_eq!(kernel.model.files.lowest_free(63), Ok(63));
    assert_eq!(kernel.model.files.lowest_free(64), Err(Errno::EMFILE));
    kernel.mem.write_u64(BASE + 8, 1024).unwrap();
    assert_eq!(kernel.call(Sysno::setrlimit, &[nofile, BASE]), Err(Errno::EPERM));
    kernel.mem.write_u64(BASE + 8, 1).unwrap();
    assert_eq!(kernel.call(Sysno::setrlimit, &[nofile, BASE]), Err(Errno::EINVAL));
    assert_eq!(kernel.call(Sysno::getrlimit, &[16, BASE]), Err(Errno::EINVAL));
    assert_eq!(
        kernel.call(Sysno::prlimit64, &[5, nofile, 0, BASE]),
        Err(Errno::ESRCH)
    );
}
