//! Identity of a state's memory: equal for equal memory, whatever the path, the process or the backend.
//!
//! Every page that differs from untouched memory adds a number made of its address and content; the sum over all pages, together with
//! the layout, is the identity. Addition commutes and can be undone, so the order of writes does not matter, and parts can be taken out: the
//! dead part of each stack, and what the caller declares irrelevant. Where such a part ends within a page, that page is
//! counted with those bytes blanked.

use crate::View;
use crate::image::weight;
use crate::layout::{Kind, Layout, Region};
use crate::pristine::{Pristine, Untouched};
use crate::store::{PAGE, PAGE_SHIFT, Store, ZEROS};
use crate::tree::{Entry, PAGES, Tree};
use std::collections::BTreeMap;
use std::ops::Range;
use tracee::sigframe::RED_ZONE;
use xxhash_rust::xxh3::xxh3_128;

/// A version and what is needed to interpret it.
pub(crate) struct Known<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) layout: &'a Layout,
    pub(crate) pristine: &'a mut Pristine,
    pub(crate) store: &'a mut Store,
}

impl Known<'_> {
    /// Identity of what counts.
    pub(crate) fn identity(&mut self, view: &View) -> u128 {
        let masks = self.masks(view);
        let (whole, partial) = split(&masks);
        let mut sum = self.tree.sum(0..PAGES);
        for pages in whole {
            sum = sum.wrapping_sub(self.tree.sum(pages));
        }
        for (page, spans) in partial {
            if let Some(entry) = self.tree.get(page) {
                sum = sum
                    .wrapping_sub(entry.contribution)
                    .wrapping_add(self.blanked(page, entry, &spans));
            }
        }
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&sum.to_le_bytes());
        bytes[16..].copy_from_slice(&self.layout.identity().to_le_bytes());
        xxh3_128(&bytes)
    }

    /// Digest of one range.
    pub(crate) fn digest(&mut self, range: Range<u64>) -> u128 {
        let (whole, partial) = split(std::slice::from_ref(&range));
        let mut sum = whole
            .into_iter()
            .fold(0u128, |sum, pages| sum.wrapping_add(self.tree.sum(pages)));
        for (page, spans) in partial {
            if let Some(entry) = self.tree.get(page) {
                sum = sum.wrapping_add(self.blanked(page, entry, &complement(&spans)));
            }
        }
        sum
    }

    /// All bytes that do not count, in order, without overlap.
    fn masks(&mut self, view: &View) -> Vec<Range<u64>> {
        let mut masks: Vec<Range<u64>> = view.exclude.clone();
        for dead in &view.dead {
            if self.digest(dead.range.clone()) == dead.digest {
                masks.push(dead.range.clone());
            }
        }
        masks.extend(dead_stacks(self.layout, view));
        merged(masks)
    }

    /// Contribution of a page without these bytes of it.
    fn blanked(&mut self, page: u64, entry: &Entry, spans: &[Range<usize>]) -> u128 {
        let value = |content: &[u8; PAGE]| {
            let mut content = *content;
            spans.iter().for_each(|span| content[span.clone()].fill(0));
            if content == ZEROS {
                0
            } else {
                weight(page, &content, xxh3_128(&content))
            }
        };
        let addr = page << PAGE_SHIFT;
        let untouched = match self.layout.find(addr) {
            Some(mapping) => self.pristine.page(self.store, mapping, addr),
            None => Untouched::Zeros,
        };
        let blank = |span: &Range<usize>| entry.page.bytes()[span.clone()] == ZEROS[span.clone()];
        if matches!(untouched, Untouched::Zeros) && spans.iter().all(blank) {
            // As a rule: whoever leaves a part of a stack out wipes it, too.
            return entry.contribution;
        }
        let base = match untouched {
            Untouched::File(untouched) => value(untouched.bytes()),
            Untouched::Zeros | Untouched::Unknown => 0,
        };
        value(entry.page.bytes()).wrapping_sub(base)
    }
}

/// The dead part of each stack that is recognised as one.
///
/// Below a stack pointer there may be anything if the stack is a part of something larger. So a stack is the main stack, or
/// a mapping made by a thread library: guarded from below, with the thread's own data (the thread pointer) at its
/// upper end, as glibc and musl do it. Where two threads are on the same mapping, it is not taken for a stack.
fn dead_stacks(layout: &Layout, view: &View) -> Vec<Range<u64>> {
    let mut stacks: Vec<(&Region, Option<u64>)> = Vec::new();
    for thread in &view.threads {
        let Some(mapping) = layout.find(thread.sp) else {
            continue;
        };
        if !mapping.is_private() {
            continue;
        }
        let guarded = || {
            layout
                .below(mapping)
                .is_some_and(|below| below.prot == libc::PROT_NONE)
        };
        let is_stack = mapping.kind == Kind::Stack
            || (mapping.kind == Kind::Anonymous
                && (thread.sp..mapping.end).contains(&thread.tls)
                && guarded());
        match stacks.iter_mut().find(|(other, _)| other.start == mapping.start) {
            Some((_, live)) => *live = None,
            None => stacks.push((mapping, is_stack.then(|| thread.sp.saturating_sub(RED_ZONE)))),
        }
    }
    stacks
        .into_iter()
        .filter_map(|(mapping, live)| Some(layout.floor(mapping)..live?))
        .filter(|dead| dead.start < dead.end)
        .collect()
}

/// In order, without overlap.
pub(crate) fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Whole pages (as page numbers), and bytes of pages that are covered in part.
type Split = (Vec<Range<u64>>, BTreeMap<u64, Vec<Range<usize>>>);

fn split(ranges: &[Range<u64>]) -> Split {
    let size = PAGE as u64;
    let (mut whole, mut partial) = (Vec::new(), BTreeMap::<u64, Vec<Range<usize>>>::new());
    for range in ranges {
        let (first, last) = (range.start.div_ceil(size), range.end / size);
        if first < last {
            whole.push(first..last);
        }
        let mut part = |from: u64, to: u64| {
            if from < to {
                let page = from / size;
                let span = (from - page * size) as usize..(to - page * size) as usize;
                partial.entry(page).or_default().push(span);
            }
        };
        if first > last {
            part(range.start, range.end);
        } else {
            part(range.start, first * size);
            part(last * size, range.end);
        }
    }
    (whole, partial)
}

/// The bytes of a page that are not in the spans.
fn complement(spans: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut rest = Vec::new();
    let mut from = 0;
    for span in spans {
        rest.push(from..span.start);
        from = span.end;
    }
    rest.push(from..PAGE);
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are meant")]
    fn ranges_are_split_into_whole_and_partial_pages() {
        let (whole, partial) = split(&[0x1800..0x5010, 0x6000..0x8000, 0x9010..0x9020, 0x9030..0x9040]);
        assert_eq!(whole, [2..5, 6..8]);
        let partial: Vec<_> = partial.into_iter().collect();
        assert_eq!(
            partial,
            [
                (1, vec![0x800..0x1000]),
                (5, vec![0..0x10]),
                (9, vec![0x10..0x20, 0x30..0x40])
            ]
        );
        assert_eq!(
            complement(&[0x10..0x20, 0x30..0x40]),
            [0..0x10, 0x20..0x30, 0x40..PAGE]
        );
    }

    #[test]
    fn overlapping_ranges_count_once() {
        assert_eq!(merged(vec![5..9, 1..3, 8..12, 3..4, 20..20]), [1..4, 5..12]);
    }
}
