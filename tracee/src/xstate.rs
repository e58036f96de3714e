//! Extended CPU state (x87, SSE, AVX, AVX-512, AMX, …) of a thread, in the standard XSAVE format.
//!
//! The buffer is as long as this machine's kernel says (`NT_X86_XSTATE`): 832 bytes with AVX, 2.4 or 2.7 KB with AVX-512,
//! 11 KB with AMX. Where the components past the legacy area lie is the processor's to say ([`Layout`]).

use crate::error::Result;
use crate::sys;
use crate::xlayout::{Component, HEADER_LEN, LEGACY_LEN, Layout};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use xxhash_rust::xxh3::xxh3_128;

/// More than any XSAVE area of today; the real length is learnt at the first read.
const LARGEST: usize = 64 * 1024;
/// In the software-reserved bytes ptrace stores the enabled features (XCR0).
const OFFSET_XCR0: usize = 464;
pub(crate) const OFFSET_XFEATURES: usize = 512;
pub(crate) const OFFSET_XCOMP: usize = 520;
const OFFSET_MXCSR: usize = 24;
pub(crate) const OFFSET_MXCSR_MASK: usize = 28;
/// x87 and SSE, which live in the legacy area.
const FEATURE_X87: u64 = 1;
const FEATURE_SSE: u64 = 2;
pub(crate) const FEATURES_LEGACY: u64 = FEATURE_X87 | FEATURE_SSE;
/// The x87 registers and the XMM registers.
const X87_REGISTERS: Range<usize> = 32..160;
const SSE_REGISTERS: Range<usize> = 160..416;
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
    layout: &'static Layout,
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
            let used = self.layout().area_len(self.features_in_use() | 1 << FEATURE_PKRU);
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

impl XState {
    pub(crate) fn read(pid: i32) -> Result<Self> {
        let layout = Layout::of_this_machine();
        let Some(lengths) = LENGTHS.get() else {
            return Self::read_first(pid, layout);
        };
        let mut bytes = vec![0; lengths.all];
        sys::get_xstate(pid, &mut bytes[..lengths.without_tiles])?;
        if word(&bytes, OFFSET_XFEATURES) & (1 << FEATURE_TILE_DATA) != 0 {
            sys::get_xstate(pid, &mut bytes)?;
        }
        Ok(XState::new(bytes, layout).into_canonical())
    }

    fn read_first(pid: i32, layout: &'static Layout) -> Result<Self> {
        let mut bytes = vec![0; LARGEST];
        let all = sys::get_xstate(pid, &mut bytes)?;
        bytes.truncate(all);
        let features = word(&bytes, OFFSET_XCR0) & !(1 << FEATURE_TILE_DATA);
        let without_tiles = layout.area_len(features).min(all);
        LENGTHS.get_or_init(|| Lengths { all, without_tiles });
        Ok(XState::new(bytes, layout).into_canonical())
    }

    fn new(bytes: impl Into<Box<[u8]>>, layout: &'static Layout) -> Self {
        let area = Area {
            bytes: bytes.into(),
            layout,
            digest: OnceLock::new(),
        };
        XState { area: Arc::new(area) }
    }

    fn bytes(&self) -> &[u8] {
        &self.area.bytes
    }

    /// Where its components lie.
    pub fn layout(&self) -> &'static Layout {
        self.area.layout
    }

    pub(crate) fn write(&self, pid: i32) -> Result<()> {
        sys::set_xstate(pid, self.bytes())
    }

    /// Takes bytes in the standard format; none if they are too short for an XSAVE area.
    pub fn from_bytes(bytes: &[u8], layout: &'static Layout) -> Option<Self> {
        (bytes.len() >= LEGACY_LEN + HEADER_LEN).then(|| XState::new(bytes, layout).into_canonical())
    }

    pub(crate) fn into_canonical(mut self) -> Self {
        self.canonicalise();
        self
    }

    /// Takes back "in use" from components that hold their initial value. Protection keys the other way as well: the kernel gives
    /// their value whether it calls them in use or not, but takes it over only if they are.
    fn canonicalise(&mut self) {
        let zero = |range: Range<usize>| self.bytes()[range].iter().all(|&byte| byte == 0);
        let mut features = self.features_in_use() | self.features_enabled() & (1 << FEATURE_PKRU);
        if self.bytes()[..2] == FCW_INITIAL.to_le_bytes() && zero(2..OFFSET_MXCSR) && zero(X87_REGISTERS) {
            features &= !FEATURE_X87;
        }
        if self.mxcsr() == MXCSR_INITIAL && zero(SSE_REGISTERS) {
            features &= !FEATURE_SSE;
        }
        for (feature, Component { offset, len, .. }) in self.layout().extended(features) {
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

    /// Gives every component that is not in use its initial value, as restoring a signal frame with room for `in_frame` does: the
    /// processor's (all zero) where the frame has the component, the kernel's (`initial`) where it has not. The two differ in
    /// protection keys.
    pub(crate) fn reset_unused(&mut self, in_frame: u64, initial: &XState) {
        let (in_use, layout) = (self.features_in_use(), self.layout());
        // What the processor describes but the kernel did not enable has no place in the area.
        let unused = self.features_enabled() & !in_use;
        self.set_features_in_use(in_use | initial.features_in_use() & unused & !in_frame);
        let bytes = self.bytes_mut();
        let mut reset = |range: Range<usize>| {
            bytes[range.clone()].copy_from_slice(&initial.bytes()[range]);
        };
        if in_use & FEATURE_X87 == 0 {
            reset(0..OFFSET_MXCSR);
            reset(X87_REGISTERS);
        }
        if in_use & FEATURE_SSE == 0 {
            reset(SSE_REGISTERS);
        }
        for (feature, Component { offset, len, .. }) in layout.extended(unused) {
            let Some(to) = bytes.get_mut(offset..offset + len) else {
                continue;
            };
            if in_frame & (1 << feature) != 0 {
                to.fill(0);
            } else {
                to.copy_from_slice(&initial.bytes()[offset..offset + len]);
            }
        }
    }

    /// Takes the components in use over from an area in the compacted format with room for `features`. `false`: it is shorter than that.
    pub(crate) fn take_compacted(&mut self, area: &[u8], features: u64) -> bool {
        let (in_use, layout) = (self.features_in_use(), self.layout());
        let bytes = self.bytes_mut();
        layout
            .compacted(features)
            .filter(|(feature, ..)| in_use & (1 << feature) != 0)
            .all(|(_, Component { offset, len, .. }, at)| {
                let (Some(from), Some(to)) = (area.get(at..at + len), bytes.get_mut(offset..offset + len))
                else {
                    return false;
                };
                to.copy_from_slice(from);
                true
            })
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
        let Component { offset, len, .. } = self.layout().component(feature)?;
        self.bytes().get(offset..offset + len)
    }

    /// Replaces the first bytes of a component; `false` if there is no such component, or it is not that long.
    pub fn set_component(&mut self, feature: u32, bytes: &[u8]) -> bool {
        let Some(Component { offset, len, .. }) = self.layout().component(feature) else {
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
        let mut state = XState::new(bytes, self.layout());
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
