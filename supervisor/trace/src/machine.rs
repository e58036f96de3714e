//! The machine that a trace was recorded on, as far as a program can tell one machine from another.
//!
//! The kernel is modelled, but instructions are the processor's: the C library and others choose their code by what `cpuid` says, and what
//! is left behind on stacks and in registers then differs. So a replay on another kind of machine may not be exact, and must be able
//! to say why.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// What differs between machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name for itself.
    pub processor: String,
    pub vendor: String,
    pub family: u32,
    pub model: u32,
    pub stepping: u32,
    /// The names of the features that programs choose their code by.
    pub features: BTreeSet<String>,
    /// Bytes of the extended state (`cpuid` leaf 13).
    pub extended_state: u32,
    /// Bytes of the largest signal frame (`AT_MINSIGSTKSZ`).
    pub signal_frame: u64,
    /// The kernel's release. It is modelled, so this is for people only.
    pub kernel: String,
}

/// Leaf, subleaf, register (`eax` is 0), bit, name as in `/proc/cpuinfo`.
const FEATURES: &[(u32, u32, usize, u32, &str)] = &[
    (1, 0, 2, 0, "sse3"),
    (1, 0, 2, 1, "pclmulqdq"),
    (1, 0, 2, 9, "ssse3"),
    (1, 0, 2, 12, "fma"),
    (1, 0, 2, 19, "sse4_1"),
    (1, 0, 2, 20, "sse4_2"),
    (1, 0, 2, 22, "movbe"),
    (1, 0, 2, 23, "popcnt"),
    (1, 0, 2, 25, "aes"),
    (1, 0, 2, 26, "xsave"),
    (1, 0, 2, 28, "avx"),
    (1, 0, 2, 29, "f16c"),
    (1, 0, 2, 30, "rdrand"),
    (7, 0, 1, 3, "bmi1"),
    (7, 0, 1, 4, "hle"),
    (7, 0, 1, 5, "avx2"),
    (7, 0, 1, 8, "bmi2"),
    (7, 0, 1, 9, "erms"),
    (7, 0, 1, 11, "rtm"),
    (7, 0, 1, 16, "avx512f"),
    (7, 0, 1, 17, "avx512dq"),
    (7, 0, 1, 18, "rdseed"),
    (7, 0, 1, 19, "adx"),
    (7, 0, 1, 21, "avx512ifma"),
    (7, 0, 1, 28, "avx512cd"),
    (7, 0, 1, 29, "sha_ni"),
    (7, 0, 1, 30, "avx512bw"),
    (7, 0, 1, 31, "avx512vl"),
    (7, 0, 2, 1, "avx512vbmi"),
    (7, 0, 2, 3, "pku"),
    (7, 0, 2, 6, "avx512_vbmi2"),
    (7, 0, 2, 7, "user_shstk"),
    (7, 0, 2, 8, "gfni"),
    (7, 0, 2, 9, "vaes"),
    (7, 0, 2, 10, "vpclmulqdq"),
    (7, 0, 2, 11, "avx512_vnni"),
    (7, 0, 2, 12, "avx512_bitalg"),
    (7, 0, 2, 14, "avx512_vpopcntdq"),
    (7, 0, 2, 22, "rdpid"),
    (7, 0, 3, 4, "fsrm"),
    (7, 0, 3, 22, "amx_bf16"),
    (7, 0, 3, 23, "avx512_fp16"),
    (7, 0, 3, 24, "amx_tile"),
    (7, 0, 3, 25, "amx_int8"),
    (7, 1, 0, 4, "avx_vnni"),
    (7, 1, 0, 5, "avx512_bf16"),
    (7, 1, 3, 21, "apx"),
    (0xd, 1, 0, 1, "xsavec"),
    (0x8000_0001, 0, 2, 5, "abm"),
    (0x8000_0001, 0, 2, 6, "sse4a"),
    (0x8000_0001, 0, 3, 27, "rdtscp"),
];

impl Machine {
    /// The machine that this runs on.
    pub fn this() -> Self {
        let signature = answer(1, 0)[0];
        let base_family = signature >> 8 & 0xf;
        let extended = |shift: u32, mask: u32| signature >> shift & mask;
        Self {
            processor: brand(),
            vendor: vendor(),
            family: match base_family {
                0xf => base_family + extended(20, 0xff),
                _ => base_family,
            },
            model: extended(4, 0xf) | extended(16, 0xf) << 4,
            stepping: signature & 0xf,
            features: FEATURES
                .iter()
                .filter(is_present)
                .map(|f| f.4.to_owned())
                .collect(),
            extended_state: answer(0xd, 0)[1],
            signal_frame: largest_signal_frame(),
            kernel: nix::sys::utsname::uname()
                .map(|name| name.release().to_string_lossy().into_owned())
                .unwrap_or_default(),
        }
    }

    /// What a program could notice if it ran on `here` instead, one line each; empty if nothing.
    pub fn differences(&self, here: &Machine) -> Vec<String> {
        let mut lines = Vec::new();
        let kind = |m: &Machine| (m.vendor.clone(), m.family, m.model, m.stepping);
        if kind(self) != kind(here) {
            lines.push(format!("processor: {self} there, {here} here"));
        }
        let only = |a: &Machine, b: &Machine| {
            let names: Vec<_> = a.features.difference(&b.features).cloned().collect();
            names.join(" ")
        };
        let (there, here_only) = (only(self, here), only(here, self));
        if !there.is_empty() {
            lines.push(format!("processor features only there: {there}"));
        }
        if !here_only.is_empty() {
            lines.push(format!("processor features only here: {here_only}"));
        }
        let sizes = |m: &Machine| (m.extended_state, m.signal_frame);
        if sizes(self) != sizes(here) {
            lines.push(format!(
                "extended state: {} bytes there, {} here; largest signal frame: {} bytes there, {} here",
                self.extended_state, here.extended_state, self.signal_frame, here.signal_frame
            ));
        }
        lines
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({} family {} model {} stepping {})",
            self.processor, self.vendor, self.family, self.model, self.stepping
        )
    }
}

/// `eax`, `ebx`, `ecx`, `edx`; all 0 for a leaf that the processor does not have.
fn answer(leaf: u32, subleaf: u32) -> [u32; 4] {
    const EXTENDED: u32 = 0x8000_0000;
    let registers = |answer: tracee::Cpuid| [answer.eax, answer.ebx, answer.ecx, answer.edx];
    let highest = registers(tracee::cpuid(leaf & EXTENDED, 0))[0];
    if leaf > highest {
        return [0; 4];
    }
    registers(tracee::cpuid(leaf, subleaf))
}

fn is_present(feature: &&(u32, u32, usize, u32, &str)) -> bool {
    let &&(leaf, subleaf, register, bit, _) = feature;
    answer(leaf, subleaf)[register] & (1 << bit) != 0
}

fn text(words: impl IntoIterator<Item = u32>) -> String {
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    String::from_utf8_lossy(&bytes)
        .trim_matches(|c: char| c == '\0' || c.is_whitespace())
        .to_owned()
}

fn brand() -> String {
    text((0x8000_0002..=0x8000_0004).flat_map(|leaf| answer(leaf, 0)))
}

fn vendor() -> String {
    let [_, b, c, d] = answer(0, 0);
    text([b, d, c])
}

/// As the kernel tells every program; 0 if it is too old for that.
fn largest_signal_frame() -> u64 {
    const AT_MINSIGSTKSZ: u64 = 51;
    procfs::process::Process::myself()
        .and_then(|process| process.auxv())
        .ok()
        .and_then(|auxv| auxv.get(&AT_MINSIGSTKSZ).copied())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_told_by_its_kernel_in_the_same_words() {
        let machine = Machine::this();
        let info = std::fs::read_to_string("/proc/cpuinfo").expect("is there");
        let field = |name: &str| {
            let line = info.lines().find(|line| line.starts_with(name)).expect(name);
            line.split(": ").nth(1).unwrap_or_default().trim().to_owned()
        };
        assert_eq!(machine.vendor, field("vendor_id"));
        assert_eq!(machine.family.to_string(), field("cpu family"));
        assert_eq!(machine.model.to_string(), field("model\t"));
        let known: BTreeSet<_> = field("flags").split(' ').map(str::to_owned).collect();
        // The kernel has another name for one, and hides what it was told to ignore.
        let named = |name: &String| name != "sse3" && known.contains(name);
        assert!(machine.features.iter().filter(|name| named(name)).count() > 5);
        assert!(machine.extended_state >= 576);
    }

    #[test]
    fn what_differs_is_named() {
        let here = Machine::this();
        assert_eq!(here.differences(&here), Vec::<String>::new());
        let mut there = here.clone();
        // Nothing that any machine could have.
        there.features.insert("another_feature".to_owned());
        there.extended_state += 64;
        there.model += 1;
        there.kernel = "another".to_owned();
        let lines = there.differences(&here);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[1].ends_with("only there: another_feature"));
        assert!(lines[2].contains(&format!("{} bytes there", there.extended_state)));
    }
}
