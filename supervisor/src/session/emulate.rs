//! Instructions that fault on purpose, because what they give differs from run to run.

use super::Session;
use crate::error::Failure;
use tracee::Regs;

const RDTSC: &[u8] = &[0x0f, 0x31];
const RDTSCP: &[u8] = &[0x0f, 0x01, 0xf9];
const CPUID: &[u8] = &[0x0f, 0xa2];

impl Session {
    /// Performs the instruction at hand if it is one of these; the registers after it.
    pub(super) fn emulate(&mut self, mut regs: Regs) -> Result<Option<Regs>, Failure> {
        let mut code = [0; 3];
        let len = self.task()?.memory().read_up_to(regs.rip, &mut code)?;
        let code = &code[..len];
        if code.starts_with(CPUID) {
            let answer = tracee::cpuid(regs.rax as u32, regs.rcx as u32);
            (regs.rax, regs.rbx) = (answer.eax.into(), answer.ebx.into());
            (regs.rcx, regs.rdx) = (answer.ecx.into(), answer.edx.into());
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
