//! Hand-made signal frames against those of the kernel.

mod common;

use common::{Guest, next, outcome};
use tracee::sigframe::{AltStack, Fault, FrameArgs, pop_signal_frame, push_signal_frame};
use tracee::{MemoryFault, Outcome, Regs, Resume, Stop, Stopped, XState};

/// Sets up a handler for SIGUSR1 with the flags and mask given, fills registers of all kinds, and meets an `int3`: first
/// before the signal, then on entry to the handler, then after its return.
fn guest(setup: &str) -> Guest {
    Guest::new(&format!(
        r#"
asm(".globl handler, restorer\nhandler: int3\n vzeroall\n fninit\n std\n cld\n ret\nrestorer: mov $15, %eax\n syscall\n");
void handler(void); void restorer(void);
static unsigned char alt[32768] __attribute__((aligned(64)));
static unsigned char v[512] __attribute__((aligned(64)));
static unsigned mxcsr = 0x3fa0;
static void action(u64 flags, u64 mask) {{
  u64 act[4] = {{ (u64)handler, flags | 0x04000000, (u64)restorer, mask }};
  call6(13, 10, (long)act, 0, 8, 0, 0);
}}
static void altstack(u64 size, u64 flags) {{ u64 ss[3] = {{ (u64)alt, flags, size }}; call3(131, ss, 0, 0); }}
void guest(u64 *s) {{
  {setup}
  u64 mask = 0x8000; call6(14, 2, (long)&mask, 0, 8, 0, 0);
  for (int i = 0; i < 512; i++) v[i] = i * 7 + 1;
  asm volatile("ldmxcsr %1\n vmovdqu %0, %%ymm0\n vmovdqu 64+%0, %%ymm15\n fld1\n fldpi\n"
    "mov $0x1111, %%rbx\n mov $0x2222, %%r12\n mov $0x3333, %%r15\n mov $0x4444, %%r8\n mov $0x5555, %%rcx\n"
    "push $0x40cd5\n popf\n int3\n int3\n cld" : : "m"(v), "m"(mxcsr)
    : "rbx", "r12", "r15", "r8", "rcx", "memory");
  exit(0);
}}"#
    ))
}

/// Runs with the guest's calls performed up to the next breakpoint.
fn to_breakpoint(mut task: Stopped) -> Stopped {
    loop {
        match *task.stop() {
            Stop::Breakpoint => return task,
            Stop::Seccomp { .. } | Stop::Exec => task = next(task),
            other => panic!("{other:?}"),
        }
    }
}

fn start(setup: &str) -> Stopped {
    to_breakpoint(next(guest(setup).start()))
}

fn read(task: &Stopped, addr: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    task.memory().read(addr, &mut bytes).unwrap();
    bytes
}

fn pop(task: &Stopped, regs: &Regs, like: &XState) -> tracee::sigframe::Restored {
    let memory = task.memory();
    pop_signal_frame(regs, like, |addr, buffer| {
        memory.read(addr, buffer).map_err(|_| MemoryFault { addr })
    })
    .unwrap()
}

/// Lets the kernel deliver SIGUSR1 at this breakpoint; stops after the handler's first instruction.
fn deliver(task: Stopped) -> Stopped {
    let running = task.resume(Resume::Cont, Some(libc::SIGUSR1)).unwrap();
    let Outcome::Stopped(task) = running.wait_ignoring_ticks().unwrap() else {
        panic!("no stop")
    };
    assert_eq!(*task.stop(), Stop::Breakpoint, "in the handler");
    task
}

/// What the kernel uses for a signal that the tracer delivers at an `int3`.
fn args(siginfo: &[u8], regs_in_handler: &Regs, restorer: u64, flags: u64, altstack: AltStack) -> FrameArgs {
    FrameArgs {
        signo: libc::SIGUSR1,
        siginfo: siginfo.try_into().unwrap(),
        handler: regs_in_handler.rip - 1,
        restorer,
        flags,
        old_mask: 0x8000,
        altstack,
        fault: Fault {
            error: 0,
            trap: 3,
            cr2: 0,
        },
    }
}

const XFEATURES: std::ops::Range<usize> = 512..520;
/// Offsets in the frame.
const FPSTATE: usize = 232;
const SIGINFO: std::ops::Range<usize> = 312..440;

/// Compares the kernel's frame with ours in every byte that the kernel defines.
fn compare(setup: &str, flags: u64, altstack: impl Fn(u64) -> AltStack) {
    let task = start(setup);
    let (before, xstate) = (*task.regs().unwrap(), task.xstate().unwrap());
    // Where the guest's alternate stack lies is known from the kernel's frame only.
    let task = deliver(task);
    let entry = *task.regs().unwrap();
    let frame_addr = entry.rsp;
    let word = |at: u64| task.memory().read_u64(frame_addr + at).unwrap();
    let altstack = altstack(word(24));
    let siginfo = read(&task, frame_addr + SIGINFO.start as u64, 128);
    let ours = push_signal_frame(
        &before,
        &xstate,
        &args(&siginfo, &entry, word(0), flags, altstack),
    )
    .unwrap();
    assert_eq!(ours.addr, frame_addr);
    assert_eq!(
        ours.regs,
        Regs {
            rip: entry.rip - 1,
            ..entry
        },
        "registers at the handler's entry"
    );
    assert_eq!(
        ours.xstate,
        task.xstate().unwrap(),
        "extended state at the handler's entry"
    );
    let theirs = read(&task, frame_addr, ours.bytes.len());
    let area =
        (u64::from_le_bytes(ours.bytes[FPSTATE..FPSTATE + 8].try_into().unwrap()) - frame_addr) as usize;
    for (i, (our, their)) in ours.bytes.iter().zip(&theirs).enumerate() {
        let undefined = (area.min(SIGINFO.end)..area).contains(&i)
            || (36..40).contains(&i)
            || (240..304).contains(&i)
            || flags & libc::SA_SIGINFO as u64 == 0 && SIGINFO.contains(&i)
            || (area + XFEATURES.start..area + XFEATURES.end).contains(&i);
        assert!(
            undefined || our == their,
            "byte {i} (area at {area}): ours {our:#x}, the kernel's {their:#x}"
        );
    }
    // The in-use bits: the processor may count components that hold their initial value.
    let bits = |bytes: &[u8]| {
        u64::from_le_bytes(
            bytes[area + XFEATURES.start..area + XFEATURES.end]
                .try_into()
                .unwrap(),
        )
    };
    assert_eq!(bits(&ours.bytes) & !bits(&theirs), 0);
    // Past the end of ours nothing belongs to the frame: the magic number is its last word.
    assert_eq!(theirs[theirs.len() - 4..], 0x4650_5845u32.to_le_bytes());

    // The frame of the kernel, taken apart by us, is the state before the signal.
    let at_return = Regs {
        rsp: frame_addr + 8,
        ..entry
    };
    let restored = pop(&task, &at_return, &xstate);
    assert_eq!(restored.regs, before);
    assert_eq!(restored.xstate, xstate);
    assert_eq!((restored.mask, restored.altstack), (0x8000, altstack));

    // And the kernel itself agrees.
    let task = to_breakpoint(next(task));
    assert_eq!(
        *task.regs().unwrap(),
        Regs {
            rip: before.rip + 1,
            ..before
        }
    );
    assert_eq!(task.xstate().unwrap(), xstate);
}

const SA_SIGINFO: u64 = libc::SA_SIGINFO as u64;
const SA_ONSTACK: u64 = libc::SA_ONSTACK as u64;

#[test]
fn a_frame_is_the_kernels_to_the_byte() {
    compare("action(4, 0);", SA_SIGINFO, |_| AltStack::NONE);
}

#[test]
fn a_frame_without_siginfo() {
    compare("action(0, 0);", 0, |_| AltStack::NONE);
}

#[test]
fn a_frame_on_the_alternate_stack() {
    let setup = "action(4 | 0x08000000, 0); altstack(32768, 0);";
    compare(setup, SA_SIGINFO | SA_ONSTACK, |sp| AltStack {
        sp,
        size: 32768,
        flags: 0,
    });
}

#[test]
fn a_frame_on_an_alternate_stack_that_disarms_itself() {
    let setup = "action(4 | 0x08000000, 0); altstack(32768, 0x80000000);";
    let autodisarm = 1 << 31;
    compare(setup, SA_SIGINFO | SA_ONSTACK, |sp| AltStack {
        sp,
        size: 32768,
        flags: autodisarm,
    });
}

#[test]
fn an_alternate_stack_is_not_used_unasked() {
    compare("action(4, 0); altstack(32768, 0);", SA_SIGINFO, |sp| AltStack {
        sp,
        size: 32768,
        flags: 0,
    });
}

#[test]
fn a_frame_made_by_hand_is_accepted_by_the_kernel() {
    // The addresses of handler and restorer come from a first, real delivery.
    let probe = deliver(start("action(4, 0);"));
    let entry = *probe.regs().unwrap();
    let restorer = probe.memory().read_u64(entry.rsp).unwrap();
    drop(probe);
    let mut task = start("action(4, 0);");
    let (before, xstate) = (*task.regs().unwrap(), task.xstate().unwrap());
    let frame = push_signal_frame(
        &before,
        &xstate,
        &args(&[0; 128], &entry, restorer, SA_SIGINFO, AltStack::NONE),
    )
    .unwrap();
    assert_eq!(frame.addr % 16, 8);
    assert!(
        frame.addr + frame.bytes.len() as u64 <= before.rsp - 128,
        "the red zone is left alone"
    );
    task.memory().write(frame.addr, &frame.bytes).unwrap();
    task.set_regs(frame.regs);
    task.set_xstate(&frame.xstate).unwrap();
    // Through the handler, back by the kernel's own rt_sigreturn, to the second breakpoint.
    let task = next(task);
    assert_eq!(
        (*task.stop(), task.regs().unwrap().rip),
        (Stop::Breakpoint, entry.rip)
    );
    let task = next(task);
    assert_eq!(
        *task.stop(),
        Stop::Seccomp {
            nr: libc::SYS_rt_sigreturn
        }
    );
    let restored = pop(&task, task.regs().unwrap(), &xstate);
    assert_eq!((restored.regs, &restored.xstate), (before, &xstate));
    let task = next(task);
    assert_eq!(
        *task.regs().unwrap(),
        Regs {
            rip: before.rip + 1,
            ..before
        }
    );
    assert_eq!(task.xstate().unwrap(), xstate);
    assert_eq!(
        *next(task).stop(),
        Stop::Seccomp {
            nr: libc::SYS_exit_group
        }
    );
}

#[test]
fn a_return_can_be_done_without_the_kernel() {
    let task = start("action(4, 0);");
    let (before, xstate) = (*task.regs().unwrap(), task.xstate().unwrap());
    let mut task = next(deliver(task));
    assert_eq!(
        *task.stop(),
        Stop::Seccomp {
            nr: libc::SYS_rt_sigreturn
        }
    );
    let restored = pop(&task, task.regs().unwrap(), &task.xstate().unwrap());
    task.set_regs(restored.regs);
    task.set_xstate(&restored.xstate).unwrap();
    let task = next(task);
    assert_eq!(
        *task.regs().unwrap(),
        Regs {
            rip: before.rip + 1,
            ..before
        }
    );
    assert_eq!(task.xstate().unwrap(), xstate);
    let Outcome::Stopped(task) = outcome(task, Resume::Cont) else {
        panic!("no stop")
    };
    assert_eq!(
        *task.stop(),
        Stop::Seccomp {
            nr: libc::SYS_exit_group
        }
    );
}

#[test]
fn a_frame_that_does_not_fit_is_refused() {
    let task = start("action(4, 0);");
    let (regs, xstate) = (*task.regs().unwrap(), task.xstate().unwrap());
    // Smaller than the frame of any machine, whose extended state is at least 576 bytes.
    let small = AltStack {
        sp: 0x1000_0000,
        size: 960,
        flags: 0,
    };
    let args = args(&[0; 128], &regs, 1, SA_SIGINFO | SA_ONSTACK, small);
    let refused = Err(tracee::sigframe::FrameError::AltStackOverflow);
    assert_eq!(push_signal_frame(&regs, &xstate, &args).map(drop), refused);
    // Already on it, near its lower end.
    let nested = Regs {
        rsp: 0x1000_0300,
        ..regs
    };
    assert_eq!(push_signal_frame(&nested, &xstate, &args).map(drop), refused);
}

#[test]
fn a_frame_with_a_damaged_description_restores_the_legacy_part_only() {
    let task = start("action(4, 0);");
    let (before, xstate) = (*task.regs().unwrap(), task.xstate().unwrap());
    let task = deliver(task);
    let entry = *task.regs().unwrap();
    let area = task.memory().read_u64(entry.rsp + FPSTATE as u64).unwrap();
    task.memory().write(area + 464, &[0; 4]).unwrap();
    let restored = pop(
        &task,
        &Regs {
            rsp: entry.rsp + 8,
            ..entry
        },
        &xstate,
    );
    // The kernel goes on in the same way.
    let task = to_breakpoint(next(task));
    assert_eq!(restored.regs, before);
    assert_eq!(task.xstate().unwrap(), restored.xstate);
    assert_ne!(restored.xstate, xstate, "the upper halves are lost");
}

#[test]
fn a_frame_in_the_compacted_format_is_restored_as_by_the_kernel() {
    let task = start("action(4, 0);");
    let (before, xstate) = (*task.regs().unwrap(), task.xstate().unwrap());
    let task = deliver(task);
    let entry = *task.regs().unwrap();
    let area = task.memory().read_u64(entry.rsp + FPSTATE as u64).unwrap();
    // What the guest uses is AVX at most, whose place is the same in both formats.
    let in_use = task.memory().read_u64(area + 512).unwrap();
    assert_eq!(in_use & !0b111, 0);
    task.memory()
        .write(area + 520, &(in_use | 1 << 63).to_le_bytes())
        .unwrap();
    let at_return = Regs {
        rsp: entry.rsp + 8,
        ..entry
    };
    let restored = pop(&task, &at_return, &xstate);
    assert_eq!((restored.regs, &restored.xstate), (before, &xstate));
    let task = to_breakpoint(next(task));
    assert_eq!(task.xstate().unwrap(), xstate, "the kernel takes it too");
}
