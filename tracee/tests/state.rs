//! Memory and extended state of a task.

mod common;

use common::{Guest, mmap_args, next, pid_as_exit_code, run_all};
use nix::errno::Errno;
use tracee::{Area, Error, Stop};

#[test]
fn a_breakpoint_can_be_put_into_read_only_code() {
    let task = next(pid_as_exit_code().start());
    let at = task.regs().unwrap().rip;
    let mut original = [0];
    task.memory().read(at, &mut original).unwrap();
    assert!(
        task.memory().write(at, &[0xcc]).is_err(),
        "the code page is read-only"
    );
    task.memory().write_forced(at, &[0xcc]).unwrap();
    let mut task = next(task);
    assert_eq!(*task.stop(), Stop::Breakpoint);
    assert_eq!(task.regs().unwrap().rip, at + 1);
    task.memory().write_forced(at, &original).unwrap();
    task.update_regs(|regs| regs.rip = at).unwrap();
    task = next(task);
    assert_eq!(
        *task.stop(),
        Stop::Seccomp {
            nr: libc::SYS_exit_group
        }
    );
}

#[test]
fn extended_state_round_trips_with_its_upper_halves() {
    // ymm0 := argument; the exit code is a byte of its upper half.
    let guest = Guest::new(
        "static unsigned char v[32]; void guest(u64 *s) {
           for (int i = 0; i < 32; i++) v[i] = i;
           asm volatile(\"vmovdqu %0, %%ymm0\" : : \"m\"(v));
           asm volatile(\"syscall\" : : \"a\"(39) : \"rcx\", \"r11\");
           asm volatile(\"vmovdqu %%ymm0, %0\" : \"=m\"(v)); exit(v[31]); }",
    );
    const AVX: u32 = 2;
    let mut task = next(guest.start());
    let original = task.xstate().unwrap();
    let upper: Vec<u8> = (16..32).collect();
    assert_eq!(original.component(AVX).unwrap()[..16], upper);
    let mut changed = original.clone();
    let mut registers = changed.component(AVX).unwrap().to_vec();
    registers[15] = 200;
    assert!(changed.set_component(AVX, &registers));
    task.set_xstate(&changed).unwrap();
    assert_eq!(task.xstate().unwrap(), changed);
    let mut copy = task.inject_fork().unwrap();
    copy.set_xstate(&original).unwrap();
    assert_eq!(run_all(task).0, 200);
    assert_eq!(run_all(copy).0, 31);
}

#[test]
fn memory_accesses_fault_where_the_guest_would() {
    let guest = pid_as_exit_code();
    let mut task = next(guest.start());
    for addr in [0x5000_0000, 0x5000_1000] {
        task.inject(libc::SYS_mmap, mmap_args(addr)).unwrap();
    }
    let memory = task.memory();
    let fault = |result: tracee::Result<()>| match result {
        Err(Error::Memory(fault)) => fault.addr,
        other => panic!("{other:?}"),
    };
    memory.write(0x5000_0ffe, b"text\0").unwrap();
    assert_eq!(memory.read_cstr(0x5000_0ffe, 100).unwrap(), b"text");
    assert!(matches!(
        memory.read_cstr(0x5000_0ffe, 4),
        Err(Error::Sys {
            errno: Errno::ENAMETOOLONG,
            ..
        })
    ));
    memory.write(0x5000_1ffe, b"xy").unwrap();
    assert_eq!(fault(memory.read_cstr(0x5000_1ffe, 9).map(drop)), 0x5000_2000);
    assert_eq!(fault(memory.read(0x5000_1ff0, &mut [0; 32])), 0x5000_2000);
    assert_eq!(memory.read_up_to(0x5000_1ff0, &mut [0; 32]).unwrap(), 16);
    assert_eq!(fault(memory.write(0x5000_1ff0, &[1; 32])), 0x5000_2000);
    assert_eq!(fault(memory.write_forced(0x6000_0000, &[1])), 0x6000_0000);
    assert_eq!(fault(memory.read(u64::MAX - 3, &mut [0; 4])), u64::MAX - 3);
}

#[test]
fn many_ranges_are_transferred_in_batches() {
    let mut task = next(pid_as_exit_code().start());
    task.inject(libc::SYS_mmap, mmap_args(0x5000_0000)).unwrap();
    let memory = task.memory();
    let values: Vec<[u8; 2]> = (0..1500u16).map(u16::to_le_bytes).collect();
    let pieces: Vec<(u64, &[u8])> = values
        .iter()
        .zip(0..)
        .map(|(v, i): (_, u64)| (0x5000_0000 + (1499 - i) * 2, v.as_slice()))
        .collect();
    memory.write_many(&pieces).unwrap();
    let ranges: Vec<(u64, usize)> = pieces.iter().map(|p| (p.0, 2)).collect();
    let mut back = vec![0; 3000];
    memory.read_many(&ranges, &mut back).unwrap();
    assert_eq!(back, values.concat());
    assert_eq!(memory.read_u32(0x5000_0000).unwrap(), 1499 | 1498 << 16);
    let mut buffer = [0; 4];
    let Err(Error::Memory(fault)) = memory.read_many(&[(0x5000_0000, 2), (0x10, 2)], &mut buffer) else {
        panic!("no fault")
    };
    assert_eq!(fault.addr, 0x10);
}

#[test]
fn areas_that_are_asked_for_one_by_one_are_those_of_the_list() {
    let task = next(pid_as_exit_code().start());
    let list = procfs::process::Process::new(task.pid()).unwrap().maps().unwrap();
    let mut listed: Vec<Area> = list.into_iter().map(Area::from).collect();
    // The kernel's own page is no area.
    listed.retain(|area| area.range.end < 1 << 47);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(area) = task.area_from(at).unwrap() {
        at = area.range.end;
        found.push(area);
    }
    assert!(found.len() > 2);
    assert_eq!(found, listed);
}
