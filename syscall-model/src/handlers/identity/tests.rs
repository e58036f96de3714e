//! Ids move only among those that the process has, unless it is root.

use crate::memory::GuestMemoryExt;
use crate::process::Ids;
use crate::testing::{BASE, Kernel};
use syscalls::{Errno, Sysno};

#[test]
fn ids_are_those_of_the_configuration() {
    let mut kernel = Kernel::new();
    assert_eq!(kernel.call(Sysno::getpid, &[]), Ok(1000));
    assert_eq!(kernel.call(Sysno::getppid, &[]), Ok(999));
    for call in [Sysno::getuid, Sysno::geteuid, Sysno::getgid, Sysno::getegid] {
        assert_eq!(kernel.call(call, &[]), Ok(1000));
    }
    kernel.model.process.owner.groups = vec![4, 27];
    assert_eq!(kernel.call(Sysno::getgroups, &[0, 0]), Ok(2));
    assert_eq!(kernel.call(Sysno::getgroups, &[1, BASE]), Err(Errno::EINVAL));
    assert_eq!(kernel.call(Sysno::getgroups, &[2, BASE]), Ok(2));
    assert_eq!(kernel.mem.read_u32(BASE + 4), Ok(27));
}

#[test]
fn only_own_ids_can_be_set() {
    let mut kernel = Kernel::new();
    let keep = u64::from(u32::MAX);
    assert_eq!(kernel.call(Sysno::setuid, &[1000]), Ok(0));
    assert_eq!(kernel.call(Sysno::setuid, &[0]), Err(Errno::EPERM));
    assert_eq!(kernel.call(Sysno::setuid, &[keep]), Err(Errno::EINVAL));
    assert_eq!(kernel.call(Sysno::setreuid, &[keep, 1000]), Ok(0));
    assert_eq!(kernel.call(Sysno::setresgid, &[keep, 1000, keep]), Ok(0));
    assert_eq!(kernel.call(Sysno::setresgid, &[keep, 1, keep]), Err(Errno::EPERM));
    assert_eq!(kernel.call(Sysno::setgroups, &[0, 0]), Err(Errno::EPERM));
    assert_eq!(kernel.call(Sysno::getresuid, &[BASE, BASE + 4, BASE + 8]), Ok(0));
    assert_eq!(kernel.mem.read_u32(BASE + 8), Ok(1000));
}

#[test]
fn root_becomes_anybody_and_cannot_come_back() {
    let mut kernel = Kernel::new();
    kernel.model.process.owner.user = Ids::new(0);
    kernel.model.process.owner.group = Ids::new(0);
    kernel.mem.write_u32(BASE, 33).unwrap();
    kernel.mem.write_u32(BASE + 4, 4).unwrap();
    assert_eq!(kernel.call(Sysno::setgroups, &[2, BASE]), Ok(0));
    assert_eq!(kernel.model.process.owner.groups, [4, 33]);
    assert_eq!(kernel.call(Sysno::setgid, &[33]), Ok(0));
    // For a while only: the saved id leads back.
    let keep = u64::from(u32::MAX);
    assert_eq!(kernel.call(Sysno::setresuid, &[keep, 33, keep]), Ok(0));
    assert_eq!(kernel.call(Sysno::setgroups, &[0, 0]), Err(Errno::EPERM));
    assert_eq!(kernel.call(Sysno::setresuid, &[keep, 0, keep]), Ok(0));
    assert_eq!(kernel.call(Sysno::setuid, &[33]), Ok(0));
    assert_eq!(kernel.model.process.owner.user, Ids::new(33));
    assert_eq!(kernel.model.process.owner.group, Ids::new(33));
    assert_eq!(kernel.call(Sysno::setuid, &[0]), Err(Errno::EPERM));
    assert_eq!(kernel.call(Sysno::setgid, &[0]), Err(Errno::EPERM));
}

#[test]
fn groups_and_sessions() {
    let mut kernel = Kernel::new();
    assert_eq!(kernel.call(Sysno::getpgid, &[0]), Ok(1000));
    assert_eq!(kernel.call(Sysno::getpgid, &[5]), Err(Errno::ESRCH));
    // Started as by a shell: leader of its group, so no new session.
    assert_eq!(kernel.call(Sysno::setsid, &[]), Err(Errno::EPERM));
    assert_eq!(kernel.call(Sysno::setpgid, &[0, 0]), Ok(0));
    assert_eq!(kernel.call(Sysno::setpgid, &[0, 5]), Err(Errno::EPERM));
}

#[test]
fn there_are_no_capabilities() {
    let mut kernel = Kernel::new();
    kernel.mem.write_u32(BASE, 0x2008_0522).unwrap();
    kernel.mem.write_u64(BASE + 64, u64::MAX).unwrap();
    assert_eq!(kernel.call(Sysno::capget, &[BASE, BASE + 64]), Ok(0));
    assert_eq!(kernel.mem.read_u64(BASE + 64), Ok(0));
    assert_eq!(kernel.call(Sysno::capset, &[BASE, BASE + 64]), Ok(0));
    kernel.mem.write_u32(BASE + 64, 1).unwrap();
    assert_eq!(kernel.call(Sysno::capset, &[BASE, BASE + 64]), Err(Errno::EPERM));
    // Asking for the version.
    kernel.mem.write_u32(BASE, 0).unwrap();
    assert_eq!(kernel.call(Sysno::capget, &[BASE, 0]), Ok(0));
    assert_eq!(kernel.mem.read_u32(BASE), Ok(0x2008_0522));
}
