//! Extended CPU state (x87, SSE, AVX, AVX-512, AMX, …) of a thread, in the standard XSAVE format.
//!
//! The buffer is as long as this machine's kernel says (`NT_X86_XSTATE`): 832 bytes with AVX, 2.7 KB with AVX-512,
//! 11 KB with AMX. The layout of the components past the legacy area comes from `CPUID`, never from constants.

use crate::error::Result;
use crate::sys;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};
use xxhash_rust::xxh3::xxh3_128;

/// More than any XSAVE area of today; the real length is learnt at the first read.
const LARGEST: usize = 64 * 1024;
/// The legacy (FXSAVE) area and the XSAVE header that follows it.
pub(crate) const LEGACY_LEN: usize = 512;
pub(crate) const HEADER_LEN: usize = 64;
/// In the software-reserved bytes ptrace stores the enabled features (XCR0).
const OFFSET_XCR0: usize = 464;
pub(crate) const OFFSET_XFEATURES: usize = 512;
const OFFSET_MXCSR: usize = 24;
pub(crate) const OFFSET_MXCSR_MASK: usize = 28;
/// x87 and SSE, which live in the legacy area.
const FEATURE_X87: u64 = 1;
const FEATURE_SSE: u64 = 2;
pub(crate) const FEATURES_LEGACY: u64 = FEATURE_X87 | FEATURE_SSE;
/// The x87 registers and the XMM registers.
const X87_REGISTERS: std::ops::Range<usize> = 32..160;
const SSE_REGISTERS: std::ops::Range<usize> = 160..416;
/// Component numbers; bit 63 is not one.
const FEATURES: usize = 63;
const FEATURE_PKRU: u32 = 9;
/// AMX tile data: the one component that Linux gives to a process on request only.
const FEATURE_TILE_DATA: u32 = 18;
/// What a process starts with.
const FCW_INITIAL: u16 = 0x37f;
const MXCSR_INITIAL: u32 = 0x1f80;
/// Linux's default protection-key rights: all keys but 0 denied.
const PKRU_INITIAL: u32 = 0x5555_5554;

/// How long the area is on this machine, in bytes; learnt at the first read.
struct Lengths {
    all: usize,
    /// AMX tiles are three quarters of the area where there are any, at its end, and hardly ever in use.
    without_tiles: usize,
}

static LENGTHS: OnceLock<Lengths> = OnceLock::new();

/// The extended state of one (virtual or kernel) thread, in canonical form.
///
/// The processor tracks which components are in use, and is free to say "in use" of one that holds its initial value
/// (forks and context switches do change that). The canonical form has the bit exactly for the components that differ from
/// their initial value, so that equal states are equal bytes.
///
/// Copies share the bytes: a checkpoint has one for each thread, and most threads did not run since the last.
#[derive(Clone, PartialEq, Eq)]
pub struct XState {
    area: Arc<Area>,
}

#[derive(Clone)]
struct Area {
    bytes: Box<[u8]>,
    /// Found once for all copies.
    digest: OnceLock<u128>,
}

impl PartialEq for Area {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Area {}

impl Hash for XState {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let digest = self.area.digest.get_or_init(|| {
            // Without what lies behind the last component in use: there are thousands of zeros where a machine has AMX.
            // Protection keys are counted always, as the kernel gives them whether in use or not.
            let used = area_len(self.features_in_use() | 1 << FEATURE_PKRU);
            xxh3_128(&self.bytes()[..used.min(self.bytes().len())])
        });
        hasher.write_u128(*digest);
    }
}

impl std::fmt::Debug for XState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the bytes: there are thousands, nearly all zero.
        f.debug_struct("XState")
            .field("len", &self.bytes().len())
            .field("features_in_use", &format_args!("{:#x}", self.features_in_use()))
            .field(
                "nonzero_bytes",
                &self.bytes().iter().filter(|&&byte| byte != 0).count(),
            )
            .finish()
    }
}

/// Where one component lies in the standard format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Component {
    /// Offset from the start of the area.
    pub offset: usize,
    /// Size in bytes.
    pub len: usize,
}

impl XState {
    pub(crate) fn read(pid: i32) -> Result<Self> {
        let Some(lengths) = LENGTHS.get() else {
            return Self::read_first(pid);
        };
        let mut bytes = vec![0; lengths.all];
        sys::get_xstate(pid, &mut bytes[..lengths.without_tiles])?;
        if word(&bytes, OFFSET_XFEATURES) & (1 << FEATURE_TILE_DATA) != 0 {
            sys::get_xstate(pid, &mut bytes)?;
        }
        Ok(XState::new(bytes).into_canonical())
    }

    fn read_first(pid: i32) -> Result<Self> {
        let mut bytes = vec![0; LARGEST];
        let all = sys::get_xstate(pid, &mut bytes)?;
        bytes.truncate(all);
        let features = word(&bytes, OFFSET_XCR0) & !(1 << FEATURE_TILE_DATA);
        let without_tiles = area_len(features).min(all);
        LENGTHS.get_or_init(|| Lengths { all, without_tiles });
        Ok(XState::new(bytes).into_canonical())
    }

    fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        let area = Area {
            bytes: bytes.into(),
            digest: OnceLock::new(),
        };
        XState { area: Arc::new(area) }
    }

    fn bytes(&self) -> &[u8] {
        &self.area.bytes
    }

    pub(crate) fn write(&self, pid: i32) -> Result<()> {
        sys::set_xstate(pid, self.bytes())
    }

    /// Takes bytes that [`XState::as_bytes`] gave; none if they are too short for an XSAVE area.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= LEGACY_LEN + HEADER_LEN).then(|| XState::new(bytes).into_canonical())
    }

    pub(crate) fn into_canonical(mut self) -> Self {
        self.canonicalise();
        self
    }

    /// Takes back "in use" from components that hold their initial value.
    fn canonicalise(&mut self) {
        let zero = |range: std::ops::Range<usize>| self.bytes()[range].iter().all(|&byte| byte == 0);
        let mut features = self.features_in_use();
        if self.bytes()[..2] == FCW_INITIAL.to_le_bytes() && zero(2..OFFSET_MXCSR) && zero(X87_REGISTERS) {
            features &= !FEATURE_X87;
        }
        if self.mxcsr() == MXCSR_INITIAL && zero(SSE_REGISTERS) {
            features &= !FEATURE_SSE;
        }
        for (feature, Component { offset, len }) in extended(features) {
            if offset + len <= self.bytes().len() && zero(offset..offset + len) {
                features &= !(1 << feature);
            }
        }
        if features != self.features_in_use() {
            self.set_features_in_use(features);
        }
    }

    /// The whole area.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes()
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let area = Arc::make_mut(&mut self.area);
        area.digest = OnceLock::new();
        &mut area.bytes
    }

    /// Gives every component that is not in use the bytes of `initial`, as the processor would on restoring it.
    pub(crate) fn reset_unused(&mut self, initial: &XState) {
        let in_use = self.features_in_use();
        let bytes = self.bytes_mut();
        let mut reset = |range: std::ops::Range<usize>| {
            bytes[range.clone()].copy_from_slice(&initial.bytes()[range]);
        };
        if in_use & FEATURE_X87 == 0 {
            reset(0..OFFSET_MXCSR);
            reset(X87_REGISTERS);
        }
        if in_use & FEATURE_SSE == 0 {
            reset(SSE_REGISTERS);
        }
        for (_, Component { offset, len }) in extended(!in_use) {
            if offset + len <= initial.bytes().len() {
                reset(offset..offset + len);
            }
        }
    }

    /// Components that are not in their initial state (`XSTATE_BV`).
    pub fn features_in_use(&self) -> u64 {
        self.u64_at(OFFSET_XFEATURES)
    }

    pub(crate) fn set_features_in_use(&mut self, features: u64) {
        self.bytes_mut()[OFFSET_XFEATURES..OFFSET_XFEATURES + 8].copy_from_slice(&features.to_le_bytes());
    }

    /// Components that the machine supports and the kernel enabled (`XCR0`).
    pub fn features_enabled(&self) -> u64 {
        self.u64_at(OFFSET_XCR0)
    }

    /// Components that a signal frame of this thread holds: all but AMX tile data, unless it is in use.
    pub fn features_in_frame(&self) -> u64 {
        let dynamic = 1 << FEATURE_TILE_DATA;
        self.features_enabled() & (!dynamic | self.features_in_use())
    }

    /// SSE control and status.
    pub fn mxcsr(&self) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.bytes()[OFFSET_MXCSR..OFFSET_MXCSR + 4]);
        u32::from_le_bytes(bytes)
    }

    /// The component's bytes; none if the machine has no such component or the buffer does not reach it.
    pub fn component(&self, feature: u32) -> Option<&[u8]> {
        let Component { offset, len } = component(feature)?;
        self.bytes().get(offset..offset + len)
    }

    /// Replaces the first bytes of a component; `false` if there is no such component, or it is not that long.
    pub fn set_component(&mut self, feature: u32, bytes: &[u8]) -> bool {
        let Some(Component { offset, len }) = component(feature) else {
            return false;
        };
        let enabled = self.features_enabled() & (1 << feature) != 0;
        if !enabled || bytes.len() > len || offset + len > self.bytes().len() {
            return false;
        }
        self.bytes_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.set_features_in_use(self.features_in_use() | 1 << feature);
        self.canonicalise();
        true
    }

    /// The state with which a signal handler (or a new program) starts, in a buffer like this one.
    pub fn initial(&self) -> XState {
        let mut bytes = vec![0; self.bytes().len()];
        // The legacy fields that do not depend on a thread's history: MXCSR mask, and the kernel's own.
        bytes[OFFSET_MXCSR + 4..OFFSET_MXCSR + 8]
            .copy_from_slice(&self.bytes()[OFFSET_MXCSR + 4..OFFSET_MXCSR + 8]);
        bytes[OFFSET_XCR0..LEGACY_LEN].copy_from_slice(&self.bytes()[OFFSET_XCR0..LEGACY_LEN]);
        bytes[..2].copy_from_slice(&FCW_INITIAL.to_le_bytes());
        bytes[OFFSET_MXCSR..OFFSET_MXCSR + 4].copy_from_slice(&MXCSR_INITIAL.to_le_bytes());
        let mut state = XState::new(bytes);
        // Only where the machine has protection keys.
        state.set_component(FEATURE_PKRU, &PKRU_INITIAL.to_le_bytes());
        state
    }

    fn u64_at(&self, offset: usize) -> u64 {
        word(self.bytes(), offset)
    }
}

fn word(area: &[u8], offset: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&area[offset..offset + 8]);
    u64::from_le_bytes(bytes)
}

/// Where a component past the legacy area lies on this machine.
pub fn component(feature: u32) -> Option<Component> {
    /// Asked once: under a hypervisor every `CPUID` is a costly exit.
    static LAYOUT: OnceLock<[Option<Component>; FEATURES]> = OnceLock::new();
    const LEAF: u32 = 0xd;
    let layout = LAYOUT.get_or_init(|| {
        std::array::from_fn(|feature| {
            let leaf = (feature >= 2).then(|| std::arch::x86_64::__cpuid_count(LEAF, feature as u32))?;
            (leaf.eax != 0).then_some(Component {
                offset: leaf.ebx as usize,
                len: leaf.eax as usize,
            })
        })
    });
    *layout.get(feature as usize)?
}

/// Length of a standard-format area with these components.
pub(crate) fn area_len(features: u64) -> usize {
    extended(features)
        .map(|(_, c)| c.offset + c.len)
        .fold(LEGACY_LEN + HEADER_LEN, usize::max)
}

/// The components past the legacy area among these features.
fn extended(features: u64) -> impl Iterator<Item = (u32, Component)> {
    (2..FEATURES as u32)
        .filter(move |feature| features & (1 << feature) != 0)
        .filter_map(|feature| component(feature).map(|c| (feature, c)))
}
