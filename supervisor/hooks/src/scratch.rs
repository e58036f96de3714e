//! Where displaced instructions live.
//!
//! A `rip`-relative operand reaches 2 GiB, so a slot must be within that of everything in its module. Programs are loaded in two
//! places, the executable low and the libraries below the stack, so there is usually one area for each:
//!
//! * a position-independent executable (0x5555_5555_4000) has free space below it; above it is the heap, which must grow;
//! * a fixed executable (0x40_0000) has the space down to the lowest address that may be mapped, and if that is too small, space
//!   well above its heap;
//! * libraries have the space some way below them: right below, the kernel will want to map what the program asks for.
//!
//! The layout only decides; the supervisor maps the areas, with `MAP_FIXED_NOREPLACE`. It is part of what a checkpoint
//! keeps, so it is cheap to clone.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::displace::{DisplaceError, displace};

/// Bytes in a page of memory.
pub const PAGE: u64 = 0x1000;
/// `vm.mmap_min_addr` as distributions set it.
const LOWEST: u64 = 0x1_0000;
/// End of user space, less a page that is never mapped.
const HIGHEST: u64 = 0x7fff_ffff_f000;
/// Less than 2 GiB, so that the length of an instruction never matters.
const REACH: u64 = 0x7fff_0000;
/// Space left to a neighbour that may grow.
const DISTANCE: u64 = 0x1000_0000;
/// Where the area for libraries is if nothing is in the way.
const NEAR_LIBRARIES: u64 = 0x7fff_e000_0000;
/// Areas are handed out in units of this size, so that small modules share one.
const AREA_UNIT: u64 = 0x10_0000;
const SLOT_ALIGN: u64 = 16;
/// The beginning of an area, whose address can be guessed, cannot be accessed: a program that jumps there finds nothing, as natively. (A slot that it jumped to would
/// execute an instruction of its own, which is no way out, but may lead anywhere in its code.)
const GUARD: u64 = PAGE;
/// Room to plan for per site: a displaced instruction of up to 15 bytes and a near jump back, aligned.
const BYTES_PER_SITE: u64 = 32;

/// Why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScratchError {
    /// No free address range is near enough.
    #[error("no free address range of {bytes:#x} bytes within 2 GiB of the module at {module:#x}")]
    NoSpace {
        /// Bytes wanted.
        bytes: u64,
        /// Start of the module.
        module: u64,
    },
    /// No area that was reserved for the site's module has room left.
    #[error("no scratch area reserved for the instruction at {0:#x}")]
    NoArea(u64),
    /// The instruction cannot be moved.
    #[error(transparent)]
    Displace(#[from] DisplaceError),
}

/// An address range to map, executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScratchArea {
    /// Page-aligned. Nobody else may have any of it.
    pub range: Range<u64>,
    /// Every address that a slot here must reach: the modules it was reserved for.
    served: Range<u64>,
    /// First free byte.
    next: u64,
    /// Bytes promised to modules, whether or not slots have been handed out yet.
    promised: u64,
    /// Sorted by start. Shared between checkpoints: it changes when modules are loaded, and hardly ever after that.
    slots: Arc<Vec<Slot>>,
}

impl ScratchArea {
    /// The part that holds displaced instructions. The rest must be mapped, too, but nobody may access it.
    pub fn slots(&self) -> Range<u64> {
        self.range.start + GUARD..self.range.end
    }

    fn can_serve(&self, module: &Range<u64>) -> bool {
        let served = union(&self.served, module);
        is_in_reach(&self.range, &served)
    }
}

/// A displaced instruction with its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Where to write `bytes`, and where to continue the thread after a hit.
    pub slot: u64,
    /// The displaced instruction and the jump back.
    pub bytes: Vec<u8>,
    /// Length of the original instruction.
    pub len: usize,
}

/// One slot in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    start: u64,
    end: u64,
    /// From here on the slot only jumps back.
    body_end: u64,
    site: u64,
    len: u8,
}

/// What had to make way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// The areas that are in nobody's use any more.
    pub areas: Vec<Range<u64>>,
    /// The sites that had their slots there.
    pub sites: BTreeSet<u64>,
}

/// All scratch areas and slots of one process.
#[derive(Clone, Debug, Default)]
pub struct ScratchLayout {
    areas: Vec<ScratchArea>,
    /// The slot of each site, for the moment when its hook is hit. Shared like the slots.
    slot_of_site: Arc<HashMap<u64, u64>>,
}

impl ScratchLayout {
    /// An empty layout.
    pub fn new() -> ScratchLayout {
        ScratchLayout::default()
    }

    /// Makes room for `sites` sites of the module mapped at `module`. Returns the new area to map, or `None` if an
    /// existing one has room. `mapped` are all present mappings.
    pub fn reserve(
        &mut self,
        module: Range<u64>,
        sites: usize,
        mapped: &[Range<u64>],
    ) -> Result<Option<ScratchArea>, ScratchError> {
        let bytes = (sites as u64).saturating_mul(BYTES_PER_SITE);
        let fits = |area: &&mut ScratchArea| {
            let slots = area.slots();
            area.can_serve(&module) && area.promised + bytes <= slots.end - slots.start
        };
        if let Some(area) = self.areas.iter_mut().find(fits) {
            area.promised += bytes;
            area.served = union(&area.served, &module);
            return Ok(None);
        }
        let mut occupied: Vec<Range<u64>> = mapped.to_vec();
        occupied.extend(self.areas.iter().map(|area| area.range.clone()));
        let range = choose(&module, bytes.saturating_add(GUARD), &occupied).ok_or(ScratchError::NoSpace {
            bytes: round_up(bytes, PAGE),
            module: module.start,
        })?;
        let slots = Arc::default();
        let area = ScratchArea {
            next: range.start + GUARD,
            range,
            served: module,
            promised: bytes,
            slots,
        };
        self.areas.push(area.clone());
        Ok(Some(area))
    }

    /// Displaces the instruction `code`, which stands at run-time address `site`, into a fresh slot.
    pub fn place(&mut self, site: u64, code: &[u8]) -> Result<Placement, ScratchError> {
        let mut last_error = ScratchError::NoArea(site);
        for area in self.areas.iter_mut().filter(|area| area.served.contains(&site)) {
            let displaced = match displace(code, site, area.next) {
                Ok(displaced) => displaced,
                Err(error) => {
                    last_error = error.into();
                    continue;
                }
            };
            let end = area.next + displaced.bytes.len() as u64;
            if end > area.range.end {
                continue;
            }
            let slot = Slot {
                start: area.next,
                end,
                body_end: area.next + displaced.body as u64,
                site,
                len: displaced.len as u8,
            };
            area.next = round_up(end, SLOT_ALIGN);
            Arc::make_mut(&mut area.slots).push(slot);
            Arc::make_mut(&mut self.slot_of_site).insert(site, slot.start);
            return Ok(Placement {
                slot: slot.start,
                bytes: displaced.bytes,
                len: displaced.len,
            });
        }
        Err(last_error)
    }

    /// The areas in use.
    pub fn areas(&self) -> &[ScratchArea] {
        &self.areas
    }

    /// Where a thread continues that has hit the hook at run-time address `site`.
    pub fn slot_of(&self, site: u64) -> Option<u64> {
        self.slot_of_site.get(&site).copied()
    }

    /// Whether the address is in a scratch area.
    pub fn contains(&self, address: u64) -> bool {
        self.areas.iter().any(|area| area.range.contains(&address))
    }

    /// Where in the program an instruction pointer inside a slot really is: at the hooked instruction, or behind it.
    pub fn original_ip(&self, address: u64) -> Option<u64> {
        let area = self.areas.iter().find(|area| area.range.contains(&address))?;
        let after = area.slots.partition_point(|slot| slot.start <= address);
        let slot = area.slots[..after].last().filter(|slot| address < slot.end)?;
        Some(if address < slot.body_end {
            slot.site
        } else {
            slot.site + u64::from(slot.len)
        })
    }

    /// Gives up the areas that overlap `range`, whose slots must be placed anew.
    pub fn evict(&mut self, range: &Range<u64>) -> Evicted {
        let overlaps = |area: &ScratchArea| area.range.start < range.end && range.start < area.range.end;
        let gone: Vec<ScratchArea> = self.areas.extract_if(.., |area| overlaps(area)).collect();
        let sites: BTreeSet<u64> = gone
            .iter()
            .flat_map(|area| area.slots.iter().map(|slot| slot.site))
            .collect();
        let slots = Arc::make_mut(&mut self.slot_of_site);
        slots.retain(|site, _| !sites.contains(site));
        Evicted {
            areas: gone.into_iter().map(|area| area.range).collect(),
            sites,
        }
    }

    /// Forgets the slots of a module that was unmapped. Their space is not used again: a thread may still stand in one.
    pub fn forget_sites(&mut self, module: &Range<u64>) {
        for area in &mut self.areas {
            if area.slots.iter().any(|slot| module.contains(&slot.site)) {
                Arc::make_mut(&mut area.slots).retain(|slot| !module.contains(&slot.site));
                Arc::make_mut(&mut self.slot_of_site).retain(|site, _| !module.contains(site));
            }
        }
    }
}

fn union(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.min(b.start)..a.end.max(b.end)
}

fn is_in_reach(area: &Range<u64>, module: &Range<u64>) -> bool {
    let all = union(area, module);
    all.end - all.start <= REACH
}

fn round_up(value: u64, unit: u64) -> u64 {
    value.div_ceil(unit).saturating_mul(unit)
}

/// The best free range for a module: see the top of the file.
fn choose(module: &Range<u64>, bytes: u64, occupied: &[Range<u64>]) -> Option<Range<u64>> {
    let size = round_up(bytes.max(1), AREA_UNIT);
    // A fixed executable may have less than a unit of space below it.
    let sizes = [size, round_up(bytes.max(1), PAGE)];
    let is_library = module.start > NEAR_LIBRARIES - REACH;
    let below = module.start / PAGE * PAGE;
    let above = round_up(module.end, PAGE);
    let starts = |size: u64| {
        let preferred = is_library.then_some(NEAR_LIBRARIES);
        let far_below = is_library.then(|| below.saturating_sub(DISTANCE + size));
        let right_below = below.checked_sub(size + PAGE);
        let far_above = above + DISTANCE.max(REACH / 2);
        [preferred, far_below, right_below, Some(far_above)]
    };
    let is_free = |range: &Range<u64>| {
        range.start >= LOWEST
            && range.end <= HIGHEST
            && is_in_reach(range, module)
            && occupied
                .iter()
                .all(|other| range.end <= other.start || other.end <= range.start)
    };
    let fixed = sizes.into_iter().flat_map(|size| {
        starts(size)
            .into_iter()
            .flatten()
            .filter_map(move |start| Some(start..start.checked_add(size)?))
    });
    fixed.chain(holes(module, sizes[1], occupied)).find(is_free)
}

/// Ranges next to what is mapped near the module, for crowded address spaces.
fn holes(module: &Range<u64>, size: u64, occupied: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    for other in occupied {
        if let Some(start) = (other.start / PAGE * PAGE).checked_sub(size) {
            ranges.push(start..start + size);
        }
        if let Some(end) = round_up(other.end, PAGE).checked_add(size) {
            ranges.push(end - size..end);
        }
    }
    ranges.sort_by_key(|range| range.start.abs_diff(module.start));
    ranges
}

#[cfg(test)]
#[path = "test_scratch.rs"]
mod tests;
