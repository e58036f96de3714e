//! Where to look for writes, and how: most of an address space need not be looked at.
//!
//! To ask the kernel which pages were written costs a walk over page-table entries, after every transition. So writable memory
//! is looked at in one of two ways:
//!
//! - *dense* memory, most of which is in use, is asked for writes only: a nanosecond per page. The kernel's fast way takes entries that never
//!   held a page for written ones, so those are protected by markers, too.
//! - *sparse* memory (stacks, reserved heaps) is asked for pages that exist and were written. That is slower by page in use, but entries that
//!   never held a page cost next to nothing and need no markers, of which a stack would take thousands.
//!
//! The rest cannot be written without a change of mappings, or by force by the supervisor, who says so.

use crate::layout::{Kind, Layout};
use crate::store::PAGE;
use std::ops::Range;

/// A mapping with more pages in use is dense.
const MANY: u64 = 256 * PAGE as u64;
/// Memory that cannot be written and lies between ranges, looked at to save a call.
const BRIDGE: u64 = 64 * PAGE as u64;

/// How the writable memory of a task is looked at. Ranges are in order and do not overlap.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) dense: Vec<Range<u64>>,
    /// May have a little memory in it that cannot be written.
    pub(crate) sparse: Vec<Range<u64>>,
}

impl Watch {
    /// For an address space of which these ranges (in order) are in use.
    pub(crate) fn new(layout: &Layout, used: &[Range<u64>]) -> Watch {
        let mut watch = Watch::default();
        for mapping in layout.mappings() {
            if !mapping.is_private() || !mapping.is_writable() {
                continue;
            }
            // The main stack may have grown.
            let range = layout.floor(mapping)..mapping.end;
            if mapping.kind != Kind::Stack && overlap(used, &range) > MANY {
                watch.dense.push(range);
            } else {
                watch.add_sparse(layout, range);
            }
        }
        watch
    }

    /// The mappings changed. What was dense remains so, as far as it can be written at all.
    pub(crate) fn update(&mut self, layout: &Layout, used: &[Range<u64>]) {
        let mut used: Vec<Range<u64>> = used.iter().chain(&self.dense).cloned().collect();
        used.sort_unstable_by_key(|range| range.start);
        *self = Watch::new(layout, &used);
    }

    fn add_sparse(&mut self, layout: &Layout, range: Range<u64>) {
        let dense_end = self.dense.last().map_or(0, |dense| dense.end);
        match self.sparse.last_mut() {
            Some(last) if dense_end <= last.end && is_bridged(layout, last.end..range.start) => {
                last.end = range.end;
            }
            _ => self.sparse.push(range),
        }
    }
}

/// Is there little in this gap?
fn is_bridged(layout: &Layout, gap: Range<u64>) -> bool {
    let first = layout
        .mappings()
        .partition_point(|mapping| mapping.end <= gap.start);
    let mapped = layout.mappings()[first..]
        .iter()
        .take_while(|mapping| mapping.start < gap.end)
        .filter(|mapping| mapping.prot != libc::PROT_NONE)
        .map(|mapping| mapping.end.min(gap.end) - mapping.start.max(gap.start));
    mapped.sum::<u64>() <= BRIDGE
}

/// How much of a range these ranges, in order, cover.
fn overlap(ranges: &[Range<u64>], range: &Range<u64>) -> u64 {
    let first = ranges.partition_point(|other| other.end <= range.start);
    ranges[first..]
        .iter()
        .take_while(|other| other.start < range.end)
        .map(|other| other.end.min(range.end) - other.start.max(range.start))
        .sum()
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are meant")]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const NONE: i32 = libc::PROT_NONE;
    const READ: i32 = libc::PROT_READ;
    const WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

    #[test]
    fn mappings_in_heavy_use_are_dense() {
        let layout = Layout::of_anonymous(&[
            (MIB..2 * MIB, WRITE),
            (4 * MIB..12 * MIB, WRITE),
            (16 * MIB..24 * MIB, WRITE),
        ]);
        let used = [MIB..MIB + 0x1000, 5 * MIB..7 * MIB, 23 * MIB..24 * MIB];
        let mut watch = Watch::new(&layout, &used);
        assert_eq!(watch.dense, [4 * MIB..12 * MIB]);
        // Nothing bridges a dense one.
        assert_eq!(watch.sparse, [MIB..2 * MIB, 16 * MIB..24 * MIB]);
        // It remains dense, though nobody says again that it is in use, until it is gone.
        watch.update(&layout, &[]);
        assert_eq!(watch.dense, [4 * MIB..12 * MIB]);
        let layout = Layout::of_anonymous(&[(MIB..2 * MIB, WRITE), (4 * MIB..12 * MIB, READ)]);
        watch.update(&layout, &[]);
        assert_eq!(watch.dense, []);
        assert_eq!(watch.sparse, [MIB..2 * MIB]);
    }

    #[test]
    fn little_read_only_memory_is_no_reason_for_another_call() {
        let layout = Layout::of_anonymous(&[
            (0x10000..0x20000, WRITE),
            (0x20000..0x30000, READ),
            (0x30000..0x40000, WRITE),
            (MIB..4 * MIB, READ),
            (4 * MIB..5 * MIB, WRITE),
            (5 * MIB..9 * MIB, NONE),
            (9 * MIB..17 * MIB, WRITE),
        ]);
        let watch = Watch::new(&layout, &[]);
        assert_eq!(watch.sparse, [0x10000..0x40000, 4 * MIB..17 * MIB]);
    }
}
