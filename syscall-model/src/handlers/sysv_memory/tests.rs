//! Tests of segments of shared memory.

use crate::effect::Effect;
use crate::memory::GuestMemoryExt;
use crate::processes::Ended;
use crate::testing::{BASE, Kernel};
use crate::wait::Wake;
use syscalls::{Errno, Sysno};

const CREATE: u64 = libc::IPC_CREAT as u64 | 0o600;
const RMID: u64 = libc::IPC_RMID as u64;
const STAT: u64 = libc::IPC_STAT as u64;

fn attach(kernel: &mut Kernel, tid: u32, id: i64) -> u64 {
    match kernel.run(tid, Wake::Ready, Sysno::shmat, &[id as u64, 0, 0]) {
        Ok(Effect::MapFile(map)) => map.addr,
        other => panic!("shmat gave {other:?}"),
    }
}

fn attached(kernel: &mut Kernel, id: i64) -> u64 {
    kernel.call(Sysno::shmctl, &[id as u64, STAT, BASE]).unwrap();
    kernel.mem.read_u64(BASE + 88).unwrap()
}

#[test]
fn a_key_leads_to_the_same_segment() {
    let mut kernel = Kernel::new();
    let id = kernel.call(Sysno::shmget, &[42, 5000, CREATE]).unwrap();
    assert_eq!(kernel.call(Sysno::shmget, &[42, 5000, 0]), Ok(id));
    assert_eq!(kernel.call(Sysno::shmget, &[42, 9000, 0]), Err(Errno::EINVAL));
    assert_eq!(kernel.call(Sysno::shmget, &[43, 1, 0]), Err(Errno::ENOENT));
    assert_eq!(kernel.call(Sysno::shmget, &[0, 0, CREATE]), Err(Errno::EINVAL));
    kernel.call(Sysno::shmctl, &[id as u64, STAT, BASE]).unwrap();
    assert_eq!(kernel.mem.read_u64(BASE + 48).unwrap(), 5000);
    assert_eq!(kernel.mem.read_u32(BASE + 80).unwrap(), Kernel::MAIN);
}

#[test]
fn attachments_are_counted_over_all_processes() {
    let mut kernel = Kernel::new();
    let id = kernel.call(Sysno::shmget, &[0, 4096, CREATE]).unwrap();
    let addr = attach(&mut kernel, Kernel::MAIN, id);
    assert_eq!(attached(&mut kernel, id), 1);
    let Ok(Effect::Fork(fork)) = kernel.run(Kernel::MAIN, Wake::Ready, Sysno::fork, &[]) else {
        panic!("no process");
    };
    assert_eq!(attached(&mut kernel, id), 2);
    let detached = kernel.run(Kernel::MAIN, Wake::Ready, Sysno::shmdt, &[addr]);
    assert_eq!(detached, Ok(Effect::Unmap(vec![(addr, 4096)])));
    assert_eq!(attached(&mut kernel, id), 1);
    let again = kernel.call(Sysno::shmdt, &[addr]);
    assert_eq!(again, Err(Errno::EINVAL));
    kernel.model.enter(fork.child);
    kernel.model.end_process(Ended::Exited(0));
    assert_eq!(attached(&mut kernel, id), 0);
}

#[test]
fn a_segment_that_was_removed_goes_with_its_last_attachment() {
    let mut kernel = Kernel::new();
    let id = kernel.call(Sysno::shmget, &[42, 4096, CREATE]).unwrap();
    attach(&mut kernel, Kernel::MAIN, id);
    assert_eq!(kernel.call(Sysno::shmctl, &[id as u64, RMID, 0]), Ok(0));
    // The key is free, the segment is there.
    assert_eq!(kernel.call(Sysno::shmget, &[42, 4096, 0]), Err(Errno::ENOENT));
    assert_eq!(attached(&mut kernel, id), 1);
    kernel.model.exec(Kernel::MAIN, b"/bin/other");
    assert_eq!(
        kernel.call(Sysno::shmctl, &[id as u64, STAT, BASE]),
        Err(Errno::EINVAL)
    );
}

#[test]
fn addresses_are_whole_pages_and_free() {
    let mut kernel = Kernel::new();
    let id = kernel.call(Sysno::shmget, &[0, 4096, CREATE]).unwrap() as u64;
    let rounded = libc::SHM_RND as u64;
    assert_eq!(
        kernel.call(Sysno::shmat, &[id, 0x5000_0001, 0]),
        Err(Errno::EINVAL)
    );
    assert_eq!(kernel.call(Sysno::shmat, &[id, BASE, 0]), Err(Errno::EINVAL));
    assert_eq!(kernel.call(Sysno::shmdt, &[0x5000_0000]), Err(Errno::EINVAL));
    match kernel.run(
        Kernel::MAIN,
        Wake::Ready,
        Sysno::shmat,
        &[id, 0x5000_0001, rounded],
    ) {
        Ok(Effect::MapFile(map)) => assert_eq!(map.addr, 0x5000_0000),
        other => panic!("shmat gave {other:?}"),
    }
    // The same segment once more, which has no memory until somebody touches it.
    match kernel.run(Kernel::MAIN, Wake::Ready, Sysno::shmat, &[id, 0, 0]) {
        Ok(Effect::MapFile(map)) => assert_eq!(kernel.model.fs.sleeper_at(map.addr), Some(map.addr)),
        other => panic!("shmat gave {other:?}"),
    }
    assert_eq!(kernel.model.fs.sleeper_at(0x5000_0000), None);
}
