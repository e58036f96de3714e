//! Signal frames on machines that this one is not: layouts of the extended state as processors of several makes report them.

use tracee::sigframe::{AltStack, Fault, FrameArgs, FrameError, pop_signal_frame, push_signal_frame};
use tracee::{Layout, MemoryFault, Regs, Subleaf, XState};

/// A kind of processor: what it enables, and the components that `cpuid` leaf 13 describes (number, size, offset, flags).
struct Machine {
    name: &'static str,
    enabled: u64,
    components: &'static [(u32, u32, u32, u32)],
    /// Length of the whole area.
    len: usize,
}

const X87_SSE: u64 = 0b11;
const AVX: u64 = 1 << 2;
const MPX: u64 = 0b11 << 3;
const AVX512: u64 = 0b111 << 5;
const PKRU: u64 = 1 << 9;
const AMX: u64 = 0b11 << 17;
const APX: u64 = 1 << 19;
const PKRU_COMPONENT: u32 = 9;
const TILE_DATA: u32 = 18;
const SUPERVISOR: u32 = 1;
const ALIGNED: u32 = 2;
/// User and supervisor shadow stacks: no place in the standard format.
const SHADOW_STACKS: [(u32, u32, u32, u32); 2] = [(11, 16, 0, SUPERVISOR), (12, 24, 0, SUPERVISOR)];

const MACHINES: &[Machine] = &[
    Machine {
        name: "no AVX",
        enabled: X87_SSE,
        components: &[],
        len: 576,
    },
    Machine {
        name: "Intel with AVX2",
        enabled: X87_SSE | AVX,
        components: &[(2, 256, 576, 0)],
        len: 832,
    },
    Machine {
        name: "Intel with MPX",
        enabled: X87_SSE | AVX | MPX,
        components: &[(2, 256, 576, 0), (3, 64, 960, 0), (4, 64, 1024, 0)],
        len: 1088,
    },
    Machine {
        name: "Intel with AVX-512 and protection keys",
        enabled: X87_SSE | AVX | AVX512 | PKRU,
        components: &[
            (2, 256, 576, 0),
            (3, 64, 960, 0),
            (4, 64, 1024, 0),
            (5, 64, 1088, 0),
            (6, 512, 1152, 0),
            (7, 1024, 1664, 0),
            (8, 128, 0, SUPERVISOR),
            (9, 8, 2688, 0),
        ],
        len: 2696,
    },
    Machine {
        name: "Intel with protection keys and shadow stacks, without AVX-512",
        enabled: X87_SSE | AVX | PKRU,
        components: &[
            (2, 256, 576, 0),
            (9, 8, 2688, 0),
            SHADOW_STACKS[0],
            SHADOW_STACKS[1],
        ],
        len: 2696,
    },
    Machine {
        name: "Intel with AMX",
        enabled: X87_SSE | AVX | AVX512 | PKRU | AMX,
        components: &[
            (2, 256, 576, 0),
            (5, 64, 1088, 0),
            (6, 512, 1152, 0),
            (7, 1024, 1664, 0),
            (9, 8, 2688, 0),
            SHADOW_STACKS[0],
            SHADOW_STACKS[1],
            (17, 64, 2752, ALIGNED),
            (18, 8192, 2816, ALIGNED),
        ],
        len: 11008,
    },
    Machine {
        name: "Intel with APX, where MPX was",
        enabled: X87_SSE | AVX | AVX512 | PKRU | APX,
        components: &[
            (2, 256, 576, 0),
            (5, 64, 1088, 0),
            (6, 512, 1152, 0),
            (7, 1024, 1664, 0),
            (9, 8, 2688, 0),
            (19, 128, 960, 0),
        ],
        len: 2696,
    },
    Machine {
        name: "AMD with AVX2",
        enabled: X87_SSE | AVX,
        components: &[(2, 256, 576, 0)],
        len: 832,
    },
    Machine {
        name: "AMD with protection keys and shadow stacks",
        enabled: X87_SSE | AVX | PKRU,
        components: &[
            (2, 256, 576, 0),
            (9, 8, 832, 0),
            SHADOW_STACKS[0],
            SHADOW_STACKS[1],
        ],
        len: 840,
    },
    Machine {
        name: "AMD with AVX-512 and shadow stacks, protection keys not enabled (a guest)",
        enabled: X87_SSE | AVX | AVX512,
        components: &[
            (2, 256, 576, 0),
            (5, 64, 832, 0),
            (6, 512, 896, 0),
            (7, 1024, 1408, 0),
            (9, 8, 2432, 0),
            SHADOW_STACKS[0],
            SHADOW_STACKS[1],
        ],
        len: 2432,
    },
    Machine {
        name: "AMD with AVX-512 and protection keys",
        enabled: X87_SSE | AVX | AVX512 | PKRU,
        components: &[
            (2, 256, 576, 0),
            (5, 64, 832, 0),
            (6, 512, 896, 0),
            (7, 1024, 1408, 0),
            (9, 8, 2432, 0),
            SHADOW_STACKS[0],
            SHADOW_STACKS[1],
        ],
        len: 2440,
    },
];

impl Machine {
    fn layout(&self) -> &'static Layout {
        const XSAVEC: u32 = 1 << 1;
        Box::leak(Box::new(Layout::new(|subleaf| {
            let known = self.components.iter().find(|component| component.0 == subleaf);
            match (subleaf, known) {
                (1, _) => Subleaf {
                    eax: XSAVEC,
                    ebx: 0,
                    ecx: 0,
                },
                (_, Some(&(_, eax, ebx, ecx))) => Subleaf { eax, ebx, ecx },
                (_, None) => Subleaf {
                    eax: 0,
                    ebx: 0,
                    ecx: 0,
                },
            }
        })))
    }

    /// What a program starts with.
    fn fresh(&self) -> XState {
        let mut bytes = vec![0; self.len];
        bytes[28..32].copy_from_slice(&0x2_ffffu32.to_le_bytes());
        bytes[464..472].copy_from_slice(&self.enabled.to_le_bytes());
        XState::from_bytes(&bytes, self.layout()).unwrap().initial()
    }

    /// All components that are enabled in use, each byte another value; those in `unused` left as they are at the start.
    fn busy(&self, unused: u64) -> XState {
        let mut bytes = self.fresh().as_bytes().to_vec();
        let pattern = |at: usize| (at % 251) as u8 + 1;
        // Control words, status with a stack in use, registers; XMM registers.
        for at in (2..24).chain(32..416) {
            bytes[at] = pattern(at);
        }
        let mut in_use = X87_SSE;
        for &(feature, len, offset, flags) in self.components {
            let bit = 1 << feature;
            if flags & SUPERVISOR == 0 && self.enabled & bit & !unused != 0 {
                (offset..offset + len).for_each(|at| bytes[at as usize] = pattern(at as usize));
                in_use |= bit;
            }
        }
        bytes[512..520].copy_from_slice(&in_use.to_le_bytes());
        XState::from_bytes(&bytes, self.layout()).unwrap()
    }
}

const STACK: u64 = 0x7fff_0000_0000;

fn args(altstack: AltStack) -> FrameArgs {
    FrameArgs {
        signo: libc::SIGUSR1,
        siginfo: [7; 128],
        handler: 0x40_1000,
        restorer: 0x40_2000,
        flags: libc::SA_SIGINFO as u64 | libc::SA_ONSTACK as u64,
        old_mask: 0x8000,
        altstack,
        fault: Fault::default(),
    }
}

fn interrupted() -> Regs {
    Regs {
        rsp: STACK,
        rip: 0x40_3000,
        rbx: 5,
        eflags: 0x246,
        cs: 0x33,
        ss: 0x2b,
        ..Regs::default()
    }
}

/// Puts a frame on the stack and takes it off again, with a change to it in between; where its area is, and what comes back.
fn round_trip(
    state: &XState,
    change: impl FnOnce(&mut [u8], usize),
) -> (usize, usize, Result<XState, FrameError>) {
    let frame = push_signal_frame(&interrupted(), state, &args(AltStack::NONE)).unwrap();
    let mut bytes = frame.bytes.clone();
    let area = u64::from_le_bytes(bytes[232..240].try_into().unwrap()) - frame.addr;
    let len = bytes.len() - area as usize - 4;
    change(&mut bytes, area as usize);
    let at_return = Regs {
        rsp: frame.addr + 8,
        ..frame.regs
    };
    let restored = pop_signal_frame(&at_return, &state.initial(), |addr, out| {
        let at = addr.checked_sub(frame.addr).ok_or(MemoryFault { addr })? as usize;
        let from = bytes.get(at..at + out.len()).ok_or(MemoryFault { addr })?;
        out.copy_from_slice(from);
        Ok(())
    });
    (area as usize, len, restored.map(|restored| restored.xstate))
}

#[test]
fn a_state_comes_back_from_its_frame_on_every_machine() {
    for machine in MACHINES {
        let unused = [0, AVX, AVX512, PKRU, AVX | AVX512 | MPX | PKRU | AMX | APX];
        for state in unused
            .map(|unused| machine.busy(unused))
            .into_iter()
            .chain([machine.fresh()])
        {
            let (_, len, restored) = round_trip(&state, |_, _| ());
            assert_eq!(restored.as_ref(), Ok(&state), "{}", machine.name);
            let tiles =
                state.component(TILE_DATA).is_some() && state.features_in_use() & (1 << TILE_DATA) == 0;
            let expected = if tiles { machine.len - 8192 } else { machine.len };
            assert_eq!(len, expected, "{}: the length of the area", machine.name);
        }
    }
}

#[test]
fn the_compacted_format_is_taken_too() {
    for machine in MACHINES {
        let state = machine.busy(AVX512);
        let (_, _, restored) = round_trip(&state, |frame, area| {
            let room = state.features_in_use();
            let standard = state.as_bytes();
            let area = &mut frame[area..];
            area[520..528].copy_from_slice(&(room | 1 << 63).to_le_bytes());
            let end = area.len() - 4;
            area[576..end].fill(0xee);
            let mut at = 576;
            for &(feature, len, offset, flags) in machine.components {
                if flags & SUPERVISOR == 0 && room & (1 << feature) != 0 {
                    if flags & ALIGNED != 0 {
                        at = (at + 63) & !63;
                    }
                    area[at..at + len as usize]
                        .copy_from_slice(&standard[offset as usize..(offset + len) as usize]);
                    at += len as usize;
                }
            }
        });
        assert_eq!(restored.as_ref(), Ok(&state), "{}", machine.name);
    }
}

#[test]
fn a_header_that_the_processor_refuses_is_refused() {
    for machine in MACHINES {
        let state = machine.busy(0);
        let damages: [fn(&mut [u8]); 3] = [
            |header| header[7] |= 0x40,
            |header| header[8] = 1,
            |header| header[40] = 1,
        ];
        for damage in damages {
            let (_, _, restored) =
                round_trip(&state, |frame, area| damage(&mut frame[area + 512..area + 576]));
            assert_eq!(restored, Err(FrameError::BadXState), "{}", machine.name);
        }
    }
}

#[test]
fn protection_keys_that_a_frame_leaves_out_have_the_processors_initial_value() {
    for machine in MACHINES.iter().filter(|machine| machine.enabled & PKRU != 0) {
        let state = machine.busy(0);
        let (_, _, restored) = round_trip(&state, |frame, area| {
            frame[area + 513] &= !2;
        });
        let restored = restored.unwrap();
        assert_eq!(restored.component(PKRU_COMPONENT).unwrap()[..4], [0; 4]);
        // A frame that has no room for them: the kernel's.
        let (_, _, restored) = round_trip(&state, |frame, area| frame[area + 464] ^= 1);
        let restored = restored.unwrap();
        assert_eq!(
            restored.component(PKRU_COMPONENT).unwrap()[..4],
            [0x54, 0x55, 0x55, 0x55]
        );
        assert_ne!(restored.features_in_use() & PKRU, 0);
    }
}

#[test]
fn an_alternate_stack_must_hold_the_whole_frame() {
    for machine in MACHINES {
        let state = machine.busy(1 << TILE_DATA);
        let on = |size: u64| {
            let altstack = AltStack {
                sp: 0x1000_0000,
                size,
                flags: 0,
            };
            push_signal_frame(&interrupted(), &state, &args(altstack))
        };
        let frame = on(64 * 1024).unwrap();
        let needed = 0x1000_0000 + 64 * 1024 - frame.addr;
        assert!(on(needed + 64).is_ok(), "{}", machine.name);
        assert_eq!(
            on(needed - 64).map(drop),
            Err(FrameError::AltStackOverflow),
            "{}",
            machine.name
        );
    }
}
