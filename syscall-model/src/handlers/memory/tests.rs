//! What the kernel may do to the address space, and what it may not.

use crate::effect::Effect;
use crate::memory::GuestMemoryExt;
use crate::testing::{BASE, Kernel};
use crate::wait::Wake;
use syscalls::{Errno, Sysno};

const MAIN: u32 = Kernel::MAIN;

#[test]
fn advice_that_would_break_snapshots_is_refused() {
    let mut kernel = Kernel::new();
    let mut advise =
        |advice: i32| kernel.run(MAIN, Wake::Ready, Sysno::madvise, &[BASE, 4096, advice as u64]);
    assert_eq!(advise(libc::MADV_DONTNEED), Ok(Effect::Kernel));
    assert_eq!(advise(libc::MADV_DONTFORK), Err(Errno::EINVAL));
    assert_eq!(advise(libc::MADV_WIPEONFORK), Err(Errno::EINVAL));
    assert_eq!(advise(libc::MADV_MERGEABLE), Err(Errno::EINVAL));
    let args = [BASE, 4096, libc::MADV_DONTNEED as u64, 0, 0, 0];
    assert_eq!(
        advise(libc::MADV_FREE),
        Ok(Effect::KernelTwice(
            [BASE, 4096, libc::MADV_FREE as u64, 0, 0, 0],
            args
        ))
    );
}

#[test]
fn what_is_mapped_is_resident() {
    let mut kernel = Kernel::new();
    let out = BASE + 64;
    assert_eq!(kernel.call(Sysno::mincore, &[BASE, 8192, out]), Ok(0));
    assert_eq!(kernel.mem.read_vec(out, 3), Ok(vec![1, 1, 0]));
    assert_eq!(
        kernel.call(Sysno::mincore, &[BASE, 1 << 20, out]),
        Err(Errno::ENOMEM)
    );
    assert_eq!(
        kernel.call(Sysno::mincore, &[BASE + 1, 1, out]),
        Err(Errno::EINVAL)
    );
}

#[test]
fn locking_and_placing_memory_do_nothing() {
    let mut kernel = Kernel::new();
    assert_eq!(kernel.call(Sysno::mlock, &[BASE, 4096]), Ok(0));
    assert_eq!(kernel.call(Sysno::mlockall, &[libc::MCL_CURRENT as u64]), Ok(0));
    assert_eq!(kernel.call(Sysno::mlockall, &[0]), Err(Errno::EINVAL));
    assert_eq!(kernel.call(Sysno::set_mempolicy, &[0, 0, 0]), Ok(0));
    assert_eq!(
        kernel.call(Sysno::get_mempolicy, &[BASE, BASE + 8, 64, 0, 4]),
        Ok(0)
    );
    assert_eq!(kernel.mem.read_u64(BASE + 8), Ok(1));
}

#[test]
fn there_are_no_protection_keys() {
    let mut kernel = Kernel::new();
    let mut protect = |key: u64| kernel.run(MAIN, Wake::Ready, Sysno::pkey_mprotect, &[BASE, 4096, 1, key]);
    assert_eq!(protect(u64::MAX), Ok(Effect::Kernel));
    assert_eq!(protect(1), Err(Errno::EINVAL));
}
