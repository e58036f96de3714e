//! Signal frames, built and taken apart as the kernel does it.
//!
//! The kernel knows one task; the signals of virtual threads are modelled, and their delivery has to be done by hand.
//! What a handler (and the C library's unwinder, and `swapcontext`-like code) sees is the kernel's `struct rt_sigframe`,
//! so that is what is laid out here, to the byte; a test compares it with the one that the kernel builds.
//!
//! From low to high addresses: return address, `ucontext`, `siginfo`; then, 64-aligned, the XSAVE area with
//! the software bytes that describe its extent, and a closing magic number.

use crate::error::MemoryFault;
use crate::regs::{NO_CALL, Regs};
use crate::xlayout::{COMPACTED, HEADER_LEN, LEGACY_LEN};
use crate::xstate::{self, XState};
use thiserror::Error;

/// The System V ABI lets functions use this much below the stack pointer.
pub const RED_ZONE: u64 = 128;
const FRAME_LEN: usize = 440;

// Offsets in struct rt_sigframe.
const UCONTEXT: usize = 8;
const UC_STACK: usize = UCONTEXT + 16;
const MCONTEXT: usize = UCONTEXT + 40;
const MC_SELECTORS: usize = MCONTEXT + 18 * 8;
const MC_ERROR: usize = MC_SELECTORS + 8;
const MC_TRAP: usize = MC_ERROR + 8;
const MC_OLD_MASK: usize = MC_ERROR + 16;
const MC_CR2: usize = MC_ERROR + 24;
const MC_FPSTATE: usize = MC_ERROR + 32;
const UC_SIGMASK: usize = MCONTEXT + 256;
const SIGINFO: usize = UC_SIGMASK + 8;
const _: () = assert!(SIGINFO + 128 == FRAME_LEN);

// uc_flags
const UC_FP_XSTATE: u64 = 1;
const UC_SIGCONTEXT_SS: u64 = 2;
const UC_STRICT_RESTORE_SS: u64 = 4;

// The software bytes of the legacy area (struct _fpx_sw_bytes).
const SW_BYTES: usize = 464;
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
const MAGIC2_LEN: usize = 4;

const USER_CS: u64 = 0x33;
const EFLAGS_TF: u64 = 1 << 8;
const EFLAGS_DF: u64 = 1 << 10;
const EFLAGS_RF: u64 = 1 << 16;
/// What a program may restore: AC, RF, OF, DF, TF, SF, ZF, AF, PF, CF.
const EFLAGS_RESTORED: u64 = 0x5_0dd5;

/// `SS_AUTODISARM`
const SS_AUTODISARM: i32 = 1 << 31;

/// A thread's alternate signal stack, as the kernel keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AltStack {
    /// Lowest address.
    pub sp: u64,
    /// Size in bytes; 0: none.
    pub size: u64,
    /// `SS_DISABLE`, `SS_AUTODISARM` or 0.
    pub flags: i32,
}

impl AltStack {
    /// No alternate stack, as in a new program. (`sigaltstack` reports this as disabled, frames hold it as it is.)
    pub const NONE: AltStack = AltStack {
        sp: 0,
        size: 0,
        flags: 0,
    };
    /// What a self-disarming stack becomes while a handler runs on it.
    pub const DISARMED: AltStack = AltStack {
        sp: 0,
        size: 0,
        flags: libc::SS_DISABLE,
    };

    fn contains(&self, sp: u64) -> bool {
        sp > self.sp && sp - self.sp <= self.size
    }

    /// Is a thread with this stack pointer on it? (One that disarms itself is never "in use".)
    pub fn in_use(&self, sp: u64) -> bool {
        self.flags & SS_AUTODISARM == 0 && self.contains(sp)
    }
}

/// What a frame is made from, besides the thread's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameArgs {
    /// Number of the signal.
    pub signo: i32,
    /// The siginfo; put into the frame if the handler has `SA_SIGINFO`.
    pub siginfo: [u8; 128],
    /// The handler.
    pub handler: u64,
    /// The code that makes the `rt_sigreturn` call (`sa_restorer`).
    pub restorer: u64,
    /// `sa_flags`
    pub flags: u64,
    /// The mask to be restored on return.
    pub old_mask: u64,
    /// The thread's alternate stack.
    pub altstack: AltStack,
    /// What the processor said, for signals of faults.
    pub fault: Fault,
}

/// The fault behind a signal (`sc_err`, `sc_trapno`, `sc_cr2`); all zero if there was none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fault {
    /// Error code.
    pub error: u64,
    /// Exception number.
    pub trap: u64,
    /// Address of a page fault.
    pub cr2: u64,
}

/// A frame, and the state in which the handler starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Where to write `bytes`; also the handler's stack pointer.
    pub addr: u64,
    /// The frame.
    pub bytes: Vec<u8>,
    /// Registers at the handler's entry.
    pub regs: Regs,
    /// Extended state at the handler's entry: the initial one.
    pub xstate: XState,
    /// The alternate stack while the handler runs.
    pub altstack: AltStack,
}

/// The state that a frame brings back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Registers.
    pub regs: Regs,
    /// Extended state.
    pub xstate: XState,
    /// Signal mask.
    pub mask: u64,
    /// Alternate stack to be set again.
    pub altstack: AltStack,
}

/// Why a frame cannot be made or used; a real thread would get a `SIGSEGV`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The frame does not fit on the alternate stack.
    #[error("the signal frame does not fit on the alternate stack")]
    AltStackOverflow,
    /// The frame cannot be read.
    #[error(transparent)]
    Fault(#[from] MemoryFault),
    /// The extended state in the frame is one that the processor refuses.
    #[error("invalid extended state in a signal frame")]
    BadXState,
}

/// Lays out the frame for a signal that interrupts a thread in this state.
pub fn push_signal_frame(regs: &Regs, xstate: &XState, args: &FrameArgs) -> Result<Frame, FrameError> {
    let features = xstate.features_in_frame();
    let area_len = xstate.layout().area_len(features);
    let nested = args.altstack.in_use(regs.rsp);
    let mut sp = regs.rsp.wrapping_sub(RED_ZONE);
    let usable = args.altstack.size != 0 && !args.altstack.in_use(sp);
    let entering = args.flags & libc::SA_ONSTACK as u64 != 0 && usable;
    if entering {
        sp = args.altstack.sp.wrapping_add(args.altstack.size);
    }
    let area = sp.wrapping_sub((area_len + MAGIC2_LEN) as u64) & !63;
    // As after a call instruction: 16-aligned but for the return address.
    let addr = (area.wrapping_sub(FRAME_LEN as u64) & !15).wrapping_sub(8);
    if (nested || entering) && !args.altstack.contains(addr) {
        return Err(FrameError::AltStackOverflow);
    }
    let area_offset = (area - addr) as usize;
    let mut bytes = vec![0; area_offset + area_len + MAGIC2_LEN];
    put_frame(&mut bytes, regs, args, area);
    put_xstate(&mut bytes[area_offset..], xstate, features);
    let altstack = if args.altstack.flags & SS_AUTODISARM != 0 {
        AltStack::DISARMED
    } else {
        args.altstack
    };
    let regs = handler_regs(regs, args, addr);
    Ok(Frame {
        addr,
        bytes,
        regs,
        xstate: xstate.initial(),
        altstack,
    })
}

fn handler_regs(interrupted: &Regs, args: &FrameArgs, addr: u64) -> Regs {
    Regs {
        rip: args.handler,
        rsp: addr,
        rdi: args.signo as u64,
        rsi: addr + SIGINFO as u64,
        rdx: addr + UCONTEXT as u64,
        rax: 0,
        cs: USER_CS,
        orig_rax: NO_CALL,
        eflags: interrupted.eflags & !(EFLAGS_DF | EFLAGS_TF | EFLAGS_RF),
        ..*interrupted
    }
}

fn put_frame(bytes: &mut [u8], regs: &Regs, args: &FrameArgs, area: u64) {
    put(bytes, 0, args.restorer);
    put(
        bytes,
        UCONTEXT,
        UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
    );
    put(bytes, UC_STACK, args.altstack.sp);
    bytes[UC_STACK + 8..UC_STACK + 12].copy_from_slice(&args.altstack.flags.to_le_bytes());
    put(bytes, UC_STACK + 16, args.altstack.size);
    for (i, value) in context_order(regs).into_iter().enumerate() {
        put(bytes, MCONTEXT + 8 * i, value);
    }
    // cs, gs, fs, ss: sixteen bits each, of which the kernel leaves the middle two zero.
    put(bytes, MC_SELECTORS, (regs.cs & 0xffff) | (regs.ss & 0xffff) << 48);
    put(bytes, MC_ERROR, args.fault.error);
    put(bytes, MC_TRAP, args.fault.trap);
    put(bytes, MC_OLD_MASK, args.old_mask);
    put(bytes, MC_CR2, args.fault.cr2);
    put(bytes, MC_FPSTATE, area);
    put(bytes, UC_SIGMASK, args.old_mask);
    if args.flags & libc::SA_SIGINFO as u64 != 0 {
        bytes[SIGINFO..FRAME_LEN].copy_from_slice(&args.siginfo);
    }
}

/// The registers in the order of `struct sigcontext`.
fn context_order(r: &Regs) -> [u64; 18] {
    [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax,
        r.rcx, r.rsp, r.rip, r.eflags,
    ]
}

/// Everything but the flags, of which a program may not set all.
fn set_context_order(regs: &mut Regs, values: [u64; 17]) {
    [
        regs.r8, regs.r9, regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15, regs.rdi, regs.rsi,
        regs.rbp, regs.rbx, regs.rdx, regs.rax, regs.rcx, regs.rsp, regs.rip,
    ] = values;
}

fn put_xstate(area: &mut [u8], xstate: &XState, features: u64) {
    let len = area.len() - MAGIC2_LEN;
    area[..len].copy_from_slice(&xstate.as_bytes()[..len]);
    // The kernel always says that the legacy components are there, for old programs' sake.
    let in_use = xstate.features_in_use() & features | xstate::FEATURES_LEGACY;
    put(area, xstate::OFFSET_XFEATURES, in_use);
    area[SW_BYTES..LEGACY_LEN].fill(0);
    area[SW_BYTES..SW_BYTES + 4].copy_from_slice(&FP_XSTATE_MAGIC1.to_le_bytes());
    area[SW_BYTES + 4..SW_BYTES + 8].copy_from_slice(&((len + MAGIC2_LEN) as u32).to_le_bytes());
    put(area, SW_BYTES + 8, features);
    area[SW_BYTES + 16..SW_BYTES + 20].copy_from_slice(&(len as u32).to_le_bytes());
    area[len..].copy_from_slice(&FP_XSTATE_MAGIC2.to_le_bytes());
}

/// What `rt_sigreturn` restores.
///
/// `regs` are the registers at that call, whose stack pointer tells where the frame is; `like` is any extended state of the
/// same machine, which says what the processor has. `read` reads guest memory.
pub fn pop_signal_frame(
    regs: &Regs,
    like: &XState,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), MemoryFault>,
) -> Result<Restored, FrameError> {
    let mut bytes = [0; FRAME_LEN];
    // The handler's return took the return address off.
    read(regs.rsp.wrapping_sub(8), &mut bytes[..SIGINFO])?;
    let mut restored = *regs;
    set_context_order(
        &mut restored,
        std::array::from_fn(|i| get(&bytes, MCONTEXT + 8 * i)),
    );
    let flags = get(&bytes, MCONTEXT + 8 * 17);
    restored.eflags = (regs.eflags & !EFLAGS_RESTORED) | (flags & EFLAGS_RESTORED);
    let selectors = get(&bytes, MC_SELECTORS);
    // Always user mode.
    restored.cs = (selectors & 0xffff) | 3;
    restored.ss = (selectors >> 48) | 3;
    restored.orig_rax = NO_CALL;
    let altstack = AltStack {
        sp: get(&bytes, UC_STACK),
        size: get(&bytes, UC_STACK + 16),
        flags: get(&bytes, UC_STACK + 8) as i32,
    };
    let xstate = match get(&bytes, MC_FPSTATE) {
        0 => like.initial(),
        area => get_xstate(area, like, &mut read)?,
    };
    Ok(Restored {
        regs: restored,
        xstate,
        mask: get(&bytes, UC_SIGMASK),
        altstack,
    })
}

fn get_xstate(
    area: u64,
    like: &XState,
    read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), MemoryFault>,
) -> Result<XState, FrameError> {
    let mut legacy = [0; LEGACY_LEN];
    read(area, &mut legacy)?;
    let mut state = like.initial();
    let (mut in_use, mut in_frame) = (xstate::FEATURES_LEGACY, xstate::FEATURES_LEGACY);
    if let Some((features, len)) = extent(area, &legacy, like, read)? {
        let mut bytes = vec![0; len];
        read(area, &mut bytes)?;
        in_use = take_extended(&mut state, &bytes, features)?;
        in_frame = features;
    }
    // Without a valid description of its extent the frame counts as one of a processor with nothing but SSE.
    state.bytes_mut()[..SW_BYTES].copy_from_slice(&legacy[..SW_BYTES]);
    state.bytes_mut()[SW_BYTES..LEGACY_LEN].copy_from_slice(&like.as_bytes()[SW_BYTES..LEGACY_LEN]);
    let mask = u32::from_le_bytes(std::array::from_fn(|i| {
        like.as_bytes()[xstate::OFFSET_MXCSR_MASK + i]
    }));
    if state.mxcsr() & !mask != 0 {
        return Err(FrameError::BadXState);
    }
    state.set_features_in_use(in_use);
    state.reset_unused(in_frame, &like.initial());
    Ok(state.into_canonical())
}

/// Takes the components past the legacy area over, in whichever format the header says that they are; which components are in use.
///
/// The kernel writes the standard format, but has the processor restore what it finds, and that takes the compacted one as well.
fn take_extended(state: &mut XState, area: &[u8], features: u64) -> Result<u64, FrameError> {
    let in_use = get(area, xstate::OFFSET_XFEATURES);
    let compacted = get(area, xstate::OFFSET_XCOMP);
    let rest = &area[xstate::OFFSET_XCOMP + 8..LEGACY_LEN + HEADER_LEN];
    if in_use & !state.features_enabled() != 0 || rest.iter().any(|&byte| byte != 0) {
        return Err(FrameError::BadXState);
    }
    state.set_features_in_use(in_use & features);
    match compacted {
        0 => {
            let end = area.len();
            state.bytes_mut()[LEGACY_LEN + HEADER_LEN..end].copy_from_slice(&area[LEGACY_LEN + HEADER_LEN..]);
        }
        _ => {
            let room = compacted & !COMPACTED;
            let is_valid = compacted & COMPACTED != 0
                && in_use & !room == 0
                && room & !state.features_enabled() == 0
                && state.layout().has_compaction();
            if !is_valid || !state.take_compacted(area, room) {
                return Err(FrameError::BadXState);
            }
        }
    }
    Ok(in_use & features)
}

/// Features and length that the software bytes claim, if they are credible to the kernel.
fn extent(
    area: u64,
    legacy: &[u8; LEGACY_LEN],
    like: &XState,
    read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), MemoryFault>,
) -> Result<Option<(u64, usize)>, FrameError> {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| legacy[SW_BYTES + at + i]));
    let (magic1, extended, len) = (word(0), word(4) as usize, word(16) as usize);
    let possible = (LEGACY_LEN + HEADER_LEN..=like.as_bytes().len()).contains(&len) && len <= extended;
    if magic1 != FP_XSTATE_MAGIC1 || !possible {
        return Ok(None);
    }
    let mut magic2 = [0; MAGIC2_LEN];
    read(area.wrapping_add(len as u64), &mut magic2)?;
    let features = get(legacy, SW_BYTES + 8) & like.features_enabled();
    Ok((u32::from_le_bytes(magic2) == FP_XSTATE_MAGIC2).then_some((features, len)))
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}
