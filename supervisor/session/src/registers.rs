//! Registers by the names that decoded instructions have for them.

use hooks::{GpRegs, Gpr};
use iced_x86::Register;
use tracee::Regs;

/// Register values in the form that operand decoding wants.
pub fn gp_regs(regs: &Regs) -> GpRegs {
    GpRegs {
        gpr: [
            regs.rax, regs.rcx, regs.rdx, regs.rbx, regs.rsp, regs.rbp, regs.rsi, regs.rdi, regs.r8, regs.r9,
            regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15,
        ],
        rip: regs.rip,
        rflags: regs.eflags,
        fs_base: regs.fs_base,
        gs_base: regs.gs_base,
    }
}

/// The register with this name, to be set.
pub fn register_mut(regs: &mut Regs, register: Gpr) -> Option<&mut u64> {
    Some(match register {
        Gpr::Rax => &mut regs.rax,
        Gpr::Rcx => &mut regs.rcx,
        Gpr::Rdx => &mut regs.rdx,
        Gpr::Rbx => &mut regs.rbx,
        Gpr::Rsp => &mut regs.rsp,
        Gpr::Rbp => &mut regs.rbp,
        Gpr::Rsi => &mut regs.rsi,
        Gpr::Rdi => &mut regs.rdi,
        Gpr::R8 => &mut regs.r8,
        Gpr::R9 => &mut regs.r9,
        Gpr::R10 => &mut regs.r10,
        Gpr::R11 => &mut regs.r11,
        Gpr::R12 => &mut regs.r12,
        Gpr::R13 => &mut regs.r13,
        Gpr::R14 => &mut regs.r14,
        Gpr::R15 => &mut regs.r15,
        Gpr::Rip | Gpr::None => return None,
    })
}

/// The value that an operand's register contributes to an address: segment registers contribute their base.
pub fn register_value(regs: &Regs, register: Register) -> Option<u64> {
    let value = match register.full_register() {
        Register::FS => regs.fs_base,
        Register::GS => regs.gs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        Register::RIP => regs.rip,
        full if full.is_gpr() => gp_regs(regs).gpr[full.number()],
        _ => return None,
    };
    Some(if register.size() == 4 {
        value & 0xffff_ffff
    } else {
        value
    })
}
