//! Instructions that are emulated, because what they give differs from run to run or from core to core: they fault on purpose, or are hooked.

use super::Session;
use crate::registers::register_mut;
use failure::Failure;
use hooks::CoreInsn;
use tracee::Regs;

const RDTSC: &[u8] = &[0x0f, 0x31];
const RDTSCP: &[u8] = &[0x0f, 0x01, 0xf9];
const CPUID: &[u8] = &[0x0f, 0xa2];

impl Session {
    /// Performs the instruction at hand if it is one of these; the registers after it.
    pub(super) fn emulate(&mut self, mut regs: Regs) -> Result<Option<Regs>, Failure> {
        let mut code = [0; 3];
        let len = self.spaces.task()?.memory().read_up_to(regs.rip, &mut code)?;
        let code = &code[..len];
        if code.starts_with(CPUID) {
            emulate_cpuid(&mut regs);
            regs.rip += CPUID.len() as u64;
            return Ok(Some(regs));
        }
        let is_rdtscp = code.starts_with(RDTSCP);
        if !is_rdtscp && !code.starts_with(RDTSC) {
            return Ok(None);
        }
        // The virtual clock, a tick per nanosecond.
        self.model.clock.read();
        let now = self.model.clock.now();
        (regs.rax, regs.rdx) = (now & 0xffff_ffff, now >> 32);
        if is_rdtscp {
            regs.rcx = 0;
        }
        regs.rip += if is_rdtscp { RDTSCP.len() } else { RDTSC.len() } as u64;
        Ok(Some(regs))
    }
}

fn emulate_cpuid(regs: &mut Regs) {
    let answer = tracee::cpuid(regs.rax as u32, regs.rcx as u32);
    (regs.rax, regs.rbx) = (answer.eax.into(), answer.ebx.into());
    (regs.rcx, regs.rdx) = (answer.ecx.into(), answer.edx.into());
}

/// Performs an instruction that tells the core, as if there were one core only: number 0 of node 0. `None`: it asks for something else,
/// and may run.
pub(super) fn emulate_core(mut regs: Regs, instruction: CoreInsn, len: u8) -> Option<Regs> {
    /// The segment whose limit is the number of the core (`__CPU_NUMBER_SEG`).
    const CORE_SEGMENT: u64 = 0x7b;
    const ZERO_FLAG: u64 = 1 << 6;
    match instruction {
        CoreInsn::Cpuid => emulate_cpuid(&mut regs),
        CoreInsn::Rdpid { dest } => *register_mut(&mut regs, dest)? = 0,
        CoreInsn::SegmentLimit {
            selector,
            dest,
            width,
        } => {
            let selected = *register_mut(&mut { regs }, selector)? & 0xffff;
            if selected != CORE_SEGMENT {
                return None;
            }
            set_low(register_mut(&mut regs, dest)?, 0, width);
            regs.eflags |= ZERO_FLAG;
        }
    }
    regs.rip += u64::from(len);
    Some(regs)
}

/// Writes the low `width` bytes of a register as the processor does: four bytes clear the upper half, two leave the rest alone.
pub(super) fn set_low(register: &mut u64, value: u64, width: u8) {
    *register = match width {
        2 => (*register & !0xffff) | (value & 0xffff),
        4 => value & 0xffff_ffff,
        _ => value,
    };
}
