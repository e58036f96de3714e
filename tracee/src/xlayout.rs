//! Where the components of the extended CPU state lie in an XSAVE area.
//!
//! Offsets and sizes differ between processors (AMD has no gap where Intel had MPX, so everything behind AVX lies elsewhere) and come
//! from `cpuid` leaf 13, never from constants. The leaf also describes *supervisor* components (shadow stacks, for one): they have a size
//! but no place in the standard format, and a program's state never holds them.

use std::sync::OnceLock;

/// The legacy (FXSAVE) area and the XSAVE header that follows it.
pub(crate) const LEGACY_LEN: usize = 512;
pub(crate) const HEADER_LEN: usize = 64;
/// Component numbers; bit 63 is not one.
const FEATURES: usize = 63;
/// The first component that does not live in the legacy area.
const FIRST_EXTENDED: usize = 2;
/// In the header's second word: the area is in the compacted format, and the other bits say which components it has room for.
pub(crate) const COMPACTED: u64 = 1 << 63;

/// Where one component lies in the standard format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Component {
    /// Offset from the start of the area.
    pub offset: usize,
    /// Size in bytes.
    pub len: usize,
    /// Whether it starts at a multiple of 64 in the compacted format.
    aligned: bool,
}

/// What `cpuid` leaf 13 says of one component (a subleaf of it).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subleaf {
    /// Size in bytes; 0: there is no such component.
    pub eax: u32,
    /// Offset in the standard format.
    pub ebx: u32,
    /// Bit 0: a supervisor component; bit 1: aligned in the compacted format.
    pub ecx: u32,
}

/// The layout of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    components: [Option<Component>; FEATURES],
    has_compaction: bool,
}

impl Layout {
    /// The layout of this machine, asked once: under a hypervisor every `cpuid` is a costly exit.
    pub fn of_this_machine() -> &'static Layout {
        static LAYOUT: OnceLock<Layout> = OnceLock::new();
        LAYOUT.get_or_init(|| {
            const LEAF: u32 = 0xd;
            Layout::new(|feature| {
                let leaf = std::arch::x86_64::__cpuid_count(LEAF, feature);
                Subleaf {
                    eax: leaf.eax,
                    ebx: leaf.ebx,
                    ecx: leaf.ecx,
                }
            })
        })
    }

    /// The layout of a machine that gives these answers.
    pub fn new(subleaf: impl Fn(u32) -> Subleaf) -> Layout {
        const SUPERVISOR: u32 = 1;
        const ALIGNED: u32 = 2;
        const CAPABILITIES: u32 = 1;
        const XSAVEC: u32 = 1 << 1;
        let components = std::array::from_fn(|feature| {
            let answer = (feature >= FIRST_EXTENDED).then(|| subleaf(feature as u32))?;
            (answer.eax != 0 && answer.ecx & SUPERVISOR == 0).then_some(Component {
                offset: answer.ebx as usize,
                len: answer.eax as usize,
                aligned: answer.ecx & ALIGNED != 0,
            })
        });
        Layout {
            components,
            has_compaction: subleaf(CAPABILITIES).eax & XSAVEC != 0,
        }
    }

    /// Can the processor restore areas in the compacted format?
    pub(crate) fn has_compaction(&self) -> bool {
        self.has_compaction
    }

    /// Where a component past the legacy area lies.
    pub fn component(&self, feature: u32) -> Option<Component> {
        *self.components.get(feature as usize)?
    }

    /// The components past the legacy area among these features.
    pub(crate) fn extended(&self, features: u64) -> impl Iterator<Item = (u32, Component)> + '_ {
        (FIRST_EXTENDED as u32..FEATURES as u32)
            .filter(move |feature| features & (1 << feature) != 0)
            .filter_map(|feature| self.component(feature).map(|c| (feature, c)))
    }

    /// Length of a standard-format area with these components.
    pub(crate) fn area_len(&self, features: u64) -> usize {
        self.extended(features)
            .map(|(_, c)| c.offset + c.len)
            .fold(LEGACY_LEN + HEADER_LEN, usize::max)
    }

    /// Where the components among `features` lie in an area in the compacted format: one behind the other.
    pub(crate) fn compacted(&self, features: u64) -> impl Iterator<Item = (u32, Component, usize)> + '_ {
        const ALIGNMENT: usize = 64;
        let mut end = LEGACY_LEN + HEADER_LEN;
        self.extended(features).map(move |(feature, component)| {
            let at = if component.aligned {
                end.next_multiple_of(ALIGNMENT)
            } else {
                end
            };
            end = at + component.len;
            (feature, component, at)
        })
    }
}
