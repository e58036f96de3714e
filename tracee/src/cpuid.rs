//! What `cpuid` tells a guest: the machine's own answers, without what depends on the core that it runs on.

use std::arch::x86_64::__cpuid_count;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The four registers that `cpuid` sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the fields are the registers of the same names")]
pub struct Cpuid {
    pub eax: u32,
    pub ebx: u32,
    pub ecx: u32,
    pub edx: u32,
}

/// The answer for a leaf (`eax`) and subleaf (`ecx`). The number of the processor, which several leaves give, is always 0.
///
/// Each question is put to the processor once, and the answer kept: where cores are of different kinds, all guests of this process see the
/// same one. (And under a hypervisor the instruction is slow.)
pub fn cpuid(leaf: u32, subleaf: u32) -> Cpuid {
    static ANSWERS: LazyLock<Mutex<HashMap<(u32, u32), Cpuid>>> = LazyLock::new(Mutex::default);
    let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    *answers
        .entry((leaf, subleaf))
        .or_insert_with(|| without_core(leaf, subleaf))
}

fn without_core(leaf: u32, subleaf: u32) -> Cpuid {
    let raw = __cpuid_count(leaf, subleaf);
    let mut answer = Cpuid {
        eax: raw.eax,
        ebx: raw.ebx,
        ecx: raw.ecx,
        edx: raw.edx,
    };
    match leaf {
        // Initial APIC id in the upper byte.
        1 => answer.ebx &= 0x00ff_ffff,
        // Extended topology: x2APIC id.
        0xb | 0x1f | 0x8000_0026 => answer.edx = 0,
        // AMD: extended APIC id, and the ids of core and node.
        0x8000_001e => (answer.eax, answer.ebx, answer.ecx) = (0, answer.ebx & !0xff, answer.ecx & !0xff),
        _ => {}
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_does_not_depend_on_the_core() {
        assert_eq!(cpuid(1, 0).ebx >> 24, 0);
        assert_eq!(cpuid(0xb, 0).edx, 0);
        assert_ne!(cpuid(0, 0).eax, 0);
    }
}
