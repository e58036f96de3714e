//! Moving an instruction out of the way of a hook.
//!
//! The instruction under an `int3` is executed from a scratch slot that jumps back behind the original. Most instructions are copied
//! byte for byte (an encoder might choose another length or drop a prefix); what depends on where it stands is rewritten:
//! `rip`-relative displacements, relative branches, and calls, whose return address must be the original one because unwinders and
//! the program itself may look at it.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock, MemoryOperand, OpKind, Register,
};

/// An instruction, ready to be written into a scratch slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Displaced {
    /// What to write at the scratch address.
    pub bytes: Vec<u8>,
    /// Length of the original instruction.
    pub len: usize,
    /// How many of `bytes` do the instruction's own work: from there on the slot only jumps back.
    pub body: usize,
}

/// Why an instruction cannot be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisplaceError {
    /// The bytes are no instruction.
    #[error("no valid instruction at {0:#x}")]
    Invalid(u64),
    /// The slot is too far from what the instruction refers to.
    #[error("the instruction at {0:#x} refers to memory out of reach of its scratch slot")]
    OutOfReach(u64),
    /// An instruction that cannot work elsewhere (a transaction, a call through the stack slot that it overwrites).
    #[error("the instruction at {0:#x} cannot be executed elsewhere")]
    Unsupported(u64),
}

/// Relocates the instruction at the start of `code`, which stands at `original_ip`, to `scratch_ip`.
pub fn displace(code: &[u8], original_ip: u64, scratch_ip: u64) -> Result<Displaced, DisplaceError> {
    let mut decoder = Decoder::with_ip(64, code, original_ip, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        return Err(DisplaceError::Invalid(original_ip));
    }
    let len = instruction.len();
    let offsets = decoder.get_constant_offsets(&instruction);
    let is_relative = instruction.op0_kind() == OpKind::NearBranch64;
    let mut slot = Slot {
        original_ip,
        scratch_ip,
        next: original_ip + len as u64,
        bytes: Vec::with_capacity(32),
    };
    match instruction.flow_control() {
        FlowControl::XbeginXabortXend => return Err(DisplaceError::Unsupported(original_ip)),
        FlowControl::Call if is_relative => {
            slot.push_return_address();
            slot.encode(&[slot.jump_to(instruction.near_branch64())?])?;
            return Ok(slot.finished(len));
        }
        FlowControl::IndirectCall => {
            slot.push_return_address();
            slot.encode(&[jump_of_call(&instruction)?])?;
            return Ok(slot.finished(len));
        }
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch if is_relative => {
            slot.encode(&[instruction, slot.jump_to(slot.next)?])?;
            return Ok(slot.finished(len));
        }
        _ => {}
    }
    slot.bytes.extend_from_slice(&code[..len]);
    if instruction.is_ip_rel_memory_operand() {
        slot.retarget(&instruction, offsets.displacement_offset())?;
    }
    if instruction.code() == Code::Syscall {
        slot.restore_syscall_rcx();
    }
    let body = slot.bytes.len();
    if !never_falls_through(&instruction) {
        slot.jump_back();
    }
    Ok(Displaced {
        body,
        ..slot.finished(len)
    })
}

fn never_falls_through(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Return | FlowControl::IndirectBranch | FlowControl::Exception
    )
}

/// The jump that does an indirect call's transfer of control, after the return address was pushed.
fn jump_of_call(instruction: &Instruction) -> Result<Instruction, DisplaceError> {
    let unsupported = DisplaceError::Unsupported(instruction.ip());
    let jump = match instruction.op0_kind() {
        OpKind::Register if instruction.op0_register() != Register::RSP => {
            Instruction::with1(Code::Jmp_rm64, instruction.op0_register())
        }
        OpKind::Memory if instruction.code() == Code::Call_rm64 => {
            let mut displacement = instruction.memory_displacement64() as i64;
            if instruction.memory_base() == Register::RSP {
                // The push moved rsp down by eight; and it must not have overwritten the operand.
                displacement += 8;
                if (0..8).contains(&displacement) || instruction.memory_index() != Register::None {
                    return Err(unsupported);
                }
            }
            let operand = MemoryOperand::new(
                instruction.memory_base(),
                instruction.memory_index(),
                instruction.memory_index_scale(),
                displacement,
                8,
                false,
                instruction.segment_prefix(),
            );
            Instruction::with1(Code::Jmp_rm64, operand)
        }
        _ => return Err(unsupported),
    };
    jump.map_err(|_| unsupported)
}

/// A slot being written.
struct Slot {
    original_ip: u64,
    scratch_ip: u64,
    /// Address behind the original instruction.
    next: u64,
    bytes: Vec<u8>,
}

impl Slot {
    fn here(&self) -> u64 {
        self.scratch_ip + self.bytes.len() as u64
    }

    /// `push imm32` extends the sign to 64 bits; the upper half follows by a store, which leaves flags and registers alone.
    fn push_return_address(&mut self) {
        let low = self.next as u32;
        let high = (self.next >> 32) as u32;
        self.bytes.push(0x68);
        self.bytes.extend_from_slice(&low.to_le_bytes());
        if (low as i32 as i64) as u64 != self.next {
            self.bytes.extend_from_slice(&[0xc7, 0x44, 0x24, 0x04]);
            self.bytes.extend_from_slice(&high.to_le_bytes());
        }
    }

    /// `syscall` leaves its own return address in `rcx`: put the original's there.
    fn restore_syscall_rcx(&mut self) {
        self.bytes.extend_from_slice(&[0x48, 0xb9]);
        self.bytes.extend_from_slice(&self.next.to_le_bytes());
    }

    /// Points the displacement (always four bytes for `rip`) at the original target again.
    fn retarget(&mut self, instruction: &Instruction, offset: usize) -> Result<(), DisplaceError> {
        let out_of_reach = DisplaceError::OutOfReach(self.original_ip);
        let target = instruction.ip_rel_memory_address();
        let end = self.scratch_ip + instruction.len() as u64;
        let relative = i32::try_from(target.wrapping_sub(end) as i64).map_err(|_| out_of_reach)?;
        let field = self.bytes.get_mut(offset..offset + 4).ok_or(out_of_reach)?;
        field.copy_from_slice(&relative.to_le_bytes());
        Ok(())
    }

    fn jump_to(&self, target: u64) -> Result<Instruction, DisplaceError> {
        let jump = Instruction::with_branch(Code::Jmp_rel32_64, target);
        jump.map_err(|_| DisplaceError::Unsupported(self.original_ip))
    }

    /// Encodes position-dependent instructions at the current place; far branches become indirect jumps with their target behind them.
    fn encode(&mut self, instructions: &[Instruction]) -> Result<(), DisplaceError> {
        let block = InstructionBlock::new(instructions, self.here());
        let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE);
        let encoded = encoded.map_err(|_| DisplaceError::OutOfReach(self.original_ip))?;
        self.bytes.extend_from_slice(&encoded.code_buffer);
        Ok(())
    }

    /// `jmp rel32`, or `jmp [rip+0]` with the target behind it.
    fn jump_back(&mut self) {
        let relative = self.next.wrapping_sub(self.here() + 5) as i64;
        if let Ok(relative) = i32::try_from(relative) {
            self.bytes.push(0xe9);
            self.bytes.extend_from_slice(&relative.to_le_bytes());
        } else {
            self.bytes.extend_from_slice(&[0xff, 0x25, 0, 0, 0, 0]);
            self.bytes.extend_from_slice(&self.next.to_le_bytes());
        }
    }

    fn finished(&self, len: usize) -> Displaced {
        Displaced {
            bytes: self.bytes.clone(),
            len,
            body: self.bytes.len(),
        }
    }
}

#[cfg(test)]
#[path = "test_displace.rs"]
mod tests;
