//! Memory operands of hooked instructions, and their addresses at run time.
//!
//! The scan knows an instruction, the supervisor knows the registers. An operand is stored in 16 bytes, because in
//! `memory` mode there are several hundred thousand of them.

use std::ops::Range;

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

/// A general purpose register, in the order of its number in machine code; `None` where an operand has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Gpr {
    Rax,
    Rcx,
    Rdx,
    Rbx,
    Rsp,
    Rbp,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    /// The address of the hooked instruction.
    Rip,
    #[default]
    None,
}

impl Gpr {
    const NUMBERED: [Gpr; 16] = [
        Gpr::Rax,
        Gpr::Rcx,
        Gpr::Rdx,
        Gpr::Rbx,
        Gpr::Rsp,
        Gpr::Rbp,
        Gpr::Rsi,
        Gpr::Rdi,
        Gpr::R8,
        Gpr::R9,
        Gpr::R10,
        Gpr::R11,
        Gpr::R12,
        Gpr::R13,
        Gpr::R14,
        Gpr::R15,
    ];

    /// The 64-bit register that a register is part of. Vector index registers (gathers) have none.
    pub(super) fn from_iced(register: Register) -> Gpr {
        match register {
            Register::None => Gpr::None,
            Register::RIP | Register::EIP => Gpr::Rip,
            register if register.is_gpr() => Gpr::NUMBERED[register.full_register().number()],
            _ => Gpr::None,
        }
    }
}

/// What an effective address is computed from. `rip` is the address of the hooked instruction itself, not of the `int3`'s end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpRegs {
    /// `rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 … r15`: the order of machine code, as in [`Gpr`].
    pub gpr: [u64; 16],
    /// Run-time address of the hooked instruction.
    pub rip: u64,
    /// Flags; only the direction flag matters here.
    pub rflags: u64,
    /// Base of the `fs` segment.
    pub fs_base: u64,
    /// Base of the `gs` segment.
    pub gs_base: u64,
}

impl GpRegs {
    /// The value of a register; 0 for [`Gpr::None`].
    pub fn get(&self, register: Gpr) -> u64 {
        match register {
            Gpr::None => 0,
            Gpr::Rip => self.rip,
            register => self.gpr[register as usize],
        }
    }
}

/// The segment whose base is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Segment {
    /// A segment with base 0.
    #[default]
    Flat,
    /// Thread-local storage on Linux.
    Fs,
    /// Unused by Linux user space, but legal.
    Gs,
}

/// `segment:[base + index * scale + displacement]`, and the bit string instructions' extra index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOperand {
    /// Base register. For `rip` the displacement counts from the *start* of the instruction.
    pub base: Gpr,
    /// Index register.
    pub index: Gpr,
    /// 1, 2, 4 or 8.
    pub scale: u8,
    /// Segment.
    pub segment: Segment,
    /// An address-size prefix cuts the sum to 32 bits.
    pub is_addr32: bool,
    /// `bt`, `bts`, `btr`, `btc` with a register bit offset reach outside their operand: the register that counts bits.
    pub bit_index: Gpr,
    /// Displacement.
    pub displacement: i64,
}

impl MemoryOperand {
    /// The address the operand stands for. `width` (in bytes) is that of the access: it scales `bit_index`.
    fn address(&self, regs: &GpRegs, width: u16) -> u64 {
        let scaled = regs.get(self.index).wrapping_mul(u64::from(self.scale));
        let mut address = regs
            .get(self.base)
            .wrapping_add(scaled)
            .wrapping_add_signed(self.displacement)
            .wrapping_add_signed(self.bit_string_offset(regs, width));
        if self.is_addr32 {
            address &= 0xffff_ffff;
        }
        address.wrapping_add(match self.segment {
            Segment::Flat => 0,
            Segment::Fs => regs.fs_base,
            Segment::Gs => regs.gs_base,
        })
    }

    /// A bit offset in a register is a signed number of `width` bytes that selects a word of that width.
    fn bit_string_offset(&self, regs: &GpRegs, width: u16) -> i64 {
        if self.bit_index == Gpr::None {
            return 0;
        }
        let raw = regs.get(self.bit_index);
        match width {
            2 => i64::from(raw as i16 >> 4) * 2,
            4 => i64::from(raw as i32 >> 5) * 4,
            _ => (raw as i64 >> 6) * 8,
        }
    }
}

/// One access of an instruction to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Where.
    pub operand: MemoryOperand,
    /// Bytes accessed (per repetition); 0 where it depends on the processor's state (`xsave`) or there are many places (gather).
    pub width: u16,
    /// Reads the memory.
    pub reads: bool,
    /// Writes the memory.
    pub writes: bool,
    /// A `rep` prefix repeats it `rcx` times (`cmps` and `scas`: at most).
    pub repeats: bool,
}

impl Access {
    /// The address of the access (of the first repetition).
    pub fn effective_address(&self, regs: &GpRegs) -> u64 {
        self.operand.address(regs, self.width)
    }

    /// Every byte the access may touch, repetitions included; empty for `rep` with `rcx = 0`.
    pub fn span(&self, regs: &GpRegs) -> Range<u64> {
        const DIRECTION_FLAG: u64 = 1 << 10;
        let first = self.effective_address(regs);
        let width = u64::from(self.width);
        if !self.repeats {
            return first..first.saturating_add(width);
        }
        let bytes = regs.get(Gpr::Rcx).saturating_mul(width);
        if regs.rflags & DIRECTION_FLAG == 0 || bytes == 0 {
            first..first.saturating_add(bytes)
        } else {
            let end = first.saturating_add(width);
            end.saturating_sub(bytes)..end
        }
    }
}

/// The accesses of one instruction: one, or two (`movs`, `cmps`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accesses {
    first: Access,
    second: Option<Access>,
}

impl Accesses {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Access> {
        std::iter::once(&self.first).chain(self.second.as_ref())
    }

    /// Whether they are all based on the stack pointer.
    pub fn are_on_stack(&self) -> bool {
        self.iter().all(|access| access.operand.base == Gpr::Rsp)
    }

    /// Whether any of them writes.
    pub fn writes(&self) -> bool {
        self.iter().any(|access| access.writes)
    }

    fn from_list(list: &[Access]) -> Option<Accesses> {
        let first = *list.first()?;
        Some(Accesses {
            first,
            second: list.get(1).copied(),
        })
    }
}

/// The accesses of an instruction to memory; without `with_stack`, those that may concern other threads: all but those based on `rsp`.
///
/// An operand based on `rsp` is the thread's own stack (an atomic there is still of interest: stack objects can be lent to other
/// threads, and then one says so by using an atomic). `rbp` may be a frame pointer or any pointer, so it counts; the caller
/// compares the address with the thread's stack at run time. What `push`, `pop`, `call` and `ret` do to the stack does not
/// count, but the memory operand of `push [mem]` or `call [mem]` does.
pub(super) fn accesses(
    instruction: &Instruction,
    info: &mut InstructionInfoFactory,
    with_stack: bool,
) -> Option<Accesses> {
    let mut list: Vec<Access> = Vec::new();
    for used in info.info(instruction).used_memory() {
        let (reads, writes) = match used.access() {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write | OpAccess::CondWrite => (false, true),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
            _ => continue,
        };
        let base = Gpr::from_iced(used.base());
        // The implicit operand of `push`, or what `call [rsp+8]` reads, is nobody else's business.
        if base == Gpr::Rsp && (!with_stack || instruction.is_stack_instruction()) {
            continue;
        }
        // iced folds the next instruction's address into rip-relative displacements; ours count from the instruction.
        let is_rip_relative = instruction.is_ip_rel_memory_operand() && used.base() == Register::None;
        let absolute = used.displacement();
        let (base, displacement) = if is_rip_relative || base == Gpr::Rip {
            (Gpr::Rip, absolute.wrapping_sub(instruction.ip()) as i64)
        } else {
            (base, absolute as i64)
        };
        let operand = MemoryOperand {
            base,
            index: Gpr::from_iced(used.index()),
            scale: used.scale() as u8,
            segment: match used.segment() {
                Register::FS => Segment::Fs,
                Register::GS => Segment::Gs,
                _ => Segment::Flat,
            },
            is_addr32: used.address_size() == iced_x86::CodeSize::Code32,
            bit_index: bit_index(instruction),
            displacement,
        };
        let repeats = instruction.is_string_instruction()
            && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
        let access = Access {
            operand,
            width: if used.index().is_vector_register() {
                0
            } else if repeats {
                // What iced calls unknown here is the total, which `Access::span` computes.
                instruction.memory_size().size() as u16
            } else {
                used.memory_size().size() as u16
            },
            reads,
            writes,
            repeats,
        };
        merge(&mut list, access);
    }
    Accesses::from_list(&list)
}

/// Two entries for one place (a read and a write of it) are one access.
fn merge(list: &mut Vec<Access>, access: Access) {
    match list
        .iter_mut()
        .find(|known| known.operand == access.operand && known.width == access.width)
    {
        Some(known) => {
            known.reads |= access.reads;
            known.writes |= access.writes;
        }
        None => list.push(access),
    }
}

/// The register that counts bits in a bit string instruction with a memory operand.
fn bit_index(instruction: &Instruction) -> Gpr {
    let is_bit_string = matches!(
        instruction.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    );
    if is_bit_string && instruction.op0_kind() == OpKind::Memory && instruction.op1_kind() == OpKind::Register
    {
        Gpr::from_iced(instruction.op1_register())
    } else {
        Gpr::None
    }
}
