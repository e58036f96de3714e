//! Names, flags, random bytes.

use crate::memory::{GuestMemory, GuestMemoryExt};
use crate::testing::{BASE, Kernel};
use syscalls::{Errno, Sysno};

fn prctl(kernel: &mut Kernel, option: i32, arg: u64) -> Result<i64, Errno> {
    kernel.call(Sysno::prctl, &[option as u64, arg])
}

#[test]
fn a_name_is_cut_to_fifteen_bytes() {
    let mut kernel = Kernel::new();
    kernel.mem.write(BASE, b"a rather long thread name\0").unwrap();
    assert_eq!(prctl(&mut kernel, libc::PR_SET_NAME, BASE), Ok(0));
    assert_eq!(prctl(&mut kernel, libc::PR_GET_NAME, BASE + 64), Ok(0));
    assert_eq!(kernel.mem.read_vec(BASE + 64, 16).unwrap(), b"a rather long t\0");
    // Up to the last byte of memory is far enough.
    let last = BASE + 0x4000 - 2;
    kernel.mem.write(last, b"x\0").unwrap();
    assert_eq!(prctl(&mut kernel, libc::PR_SET_NAME, last), Ok(0));
    assert_eq!(prctl(&mut kernel, libc::PR_SET_NAME, 1), Err(Errno::EFAULT));
}

#[test]
fn flags_are_told_back_and_the_rest_is_refused() {
    let mut kernel = Kernel::new();
    assert_eq!(prctl(&mut kernel, libc::PR_SET_NO_NEW_PRIVS, 1), Ok(0));
    assert_eq!(prctl(&mut kernel, libc::PR_GET_NO_NEW_PRIVS, 0), Ok(1));
    assert_eq!(prctl(&mut kernel, libc::PR_SET_DUMPABLE, 0), Ok(0));
    assert_eq!(prctl(&mut kernel, libc::PR_GET_DUMPABLE, 0), Ok(0));
    assert_eq!(prctl(&mut kernel, libc::PR_SET_DUMPABLE, 2), Err(Errno::EINVAL));
    assert_eq!(prctl(&mut kernel, libc::PR_SET_SECCOMP, 2), Err(Errno::EINVAL));
    assert_eq!(prctl(&mut kernel, 12345, 0), Err(Errno::EINVAL));
}

#[test]
fn random_bytes_are_the_same_in_every_run() {
    let draw = || {
        let mut kernel = Kernel::new();
        assert_eq!(kernel.call(Sysno::getrandom, &[BASE, 7, 0]), Ok(7));
        assert_eq!(kernel.call(Sysno::getrandom, &[BASE + 7, 9, 1]), Ok(9));
        kernel.mem.read_vec(BASE, 16).unwrap()
    };
    let first = draw();
    assert_eq!(first, draw());
    assert!(first.iter().any(|&byte| byte != 0));
    let mut kernel = Kernel::new();
    assert_eq!(kernel.call(Sysno::getrandom, &[BASE, 1, 8]), Err(Errno::EINVAL));
    assert_eq!(kernel.call(Sysno::getrandom, &[1, 1, 0]), Err(Errno::EFAULT));
}

#[test]
fn personality_answers_and_does_not_change() {
    let mut kernel = Kernel::new();
    assert_eq!(kernel.call(Sysno::personality, &[0xffff_ffff]), Ok(0));
    assert_eq!(
        kernel.call(Sysno::personality, &[0x0040_0000]),
        Err(Errno::EINVAL)
    );
    assert_eq!(kernel.call(Sysno::sysinfo, &[BASE]), Ok(0));
    assert_eq!(kernel.mem.read_u32(BASE + 104), Ok(1));
}
