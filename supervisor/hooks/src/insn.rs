//! What a single instruction is to us: an atomic one, one that tells the core, one that ends a line of code.

use iced_x86::{
    Code as Opcode, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register,
};

use super::operand::{self, Gpr, Segment};
use super::{CoreInsn, RandomInsn};

/// Reads of the thread's own descriptor that compilers emit all the time: its address, the stack guard, the pointer guard.
pub(super) fn is_thread_header(operand: &operand::MemoryOperand) -> bool {
    let is_absolute = operand.base == Gpr::None && operand.index == Gpr::None;
    operand.segment == Segment::Fs && is_absolute && matches!(operand.displacement, 0 | 0x28 | 0x30)
}

/// Atomic read-modify-write instructions. A `lock or [rsp+n], 0` or `lock add [rsp+n], 0` is a memory fence in disguise.
pub(super) fn is_atomic(instruction: &Instruction) -> bool {
    let has_memory =
        (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    let is_atomic = instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg;
    is_atomic && has_memory && !is_fence(instruction)
}

fn is_fence(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Or | Mnemonic::Add)
        && matches!(instruction.memory_base(), Register::RSP | Register::ESP)
        && matches!(
            instruction.op1_kind(),
            OpKind::Immediate8 | OpKind::Immediate8to32 | OpKind::Immediate8to64 | OpKind::Immediate32
        )
        && instruction.immediate(1) == 0
}

pub(super) fn random_insn(instruction: &Instruction) -> RandomInsn {
    let register = instruction.op0_register();
    RandomInsn {
        is_seed: instruction.mnemonic() == Mnemonic::Rdseed,
        dest: Gpr::from_iced(register),
        width: register.size() as u8,
    }
}

/// Only what tells the core: an `lsl` whose selector is in memory is left alone, nobody asks for the core that way.
pub(super) fn core_insn(instruction: &Instruction) -> Option<CoreInsn> {
    let dest = Gpr::from_iced(instruction.op0_register());
    match instruction.mnemonic() {
        Mnemonic::Cpuid => Some(CoreInsn::Cpuid),
        Mnemonic::Rdpid => Some(CoreInsn::Rdpid { dest }),
        Mnemonic::Lsl if instruction.op1_kind() == OpKind::Register => Some(CoreInsn::SegmentLimit {
            selector: Gpr::from_iced(instruction.op1_register()),
            dest,
            width: instruction.op0_register().size() as u8,
        }),
        _ => None,
    }
}

/// Does the code behind an exchange look at what it got? If not it is a store: compilers make sequentially consistent ones like this. What cannot be told
/// within some instructions counts as one.
pub(super) fn looks_at_exchanged(
    exchange: &Instruction,
    code: &[u8],
    info: &mut InstructionInfoFactory,
) -> bool {
    const FAR_ENOUGH: usize = 12;
    let registers = [exchange.op0_register(), exchange.op1_register()];
    let Some(register) = registers.into_iter().find(|register| *register != Register::None) else {
        return false;
    };
    let decoder = Decoder::with_ip(64, code, exchange.next_ip(), DecoderOptions::NONE);
    for instruction in decoder.into_iter().take(FAR_ENOUGH) {
        let used = info.info(&instruction).used_registers();
        let mut uses = used
            .iter()
            .filter(|used| used.register().full_register() == register.full_register());
        if let Some(first) = uses.next() {
            return !matches!(
                first.access(),
                OpAccess::Write | OpAccess::NoMemAccess | OpAccess::None
            );
        }
        if instruction.is_invalid() || ends_line(&instruction) {
            return false;
        }
    }
    false
}

/// Whether control never goes on to the next instruction.
pub(super) fn ends_line(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return
            | FlowControl::Exception
    ) || matches!(instruction.code(), Opcode::Int3 | Opcode::Hlt)
}
