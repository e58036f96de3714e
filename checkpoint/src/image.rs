//! Memory of a task as the checkpointers know it: which pages differ from untouched memory, and how.
//!
//! Both backends turn pages into entries of a version here, so that both mean the same by identity.

use crate::error::Result;
use crate::layout::{Layout, Region};
use crate::pristine::{Pristine, Untouched};
use crate::store::{PAGE, PAGE_SHIFT, Page, Store, ZEROS};
use crate::tree::{Entry, Tree};
use tracee::Stopped;
use xxhash_rust::xxh3::xxh3_128;

/// Pages per batch of reads: large enough to amortise the call, small enough for the cache.
const BATCH: usize = 256;

/// Turns memory into entries.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pub(crate) store: Store,
    pub(crate) pristine: Pristine,
    buffer: Vec<u8>,
}

/// What this content adds to the identity at this page: nothing for zeros, so that untouched memory does not count.
pub(crate) fn weight(page: u64, content: &[u8; PAGE], hash: u128) -> u128 {
    if hash == zeros_hash() && content == &ZEROS {
        return 0;
    }
    let mut named = [0; 24];
    named[..16].copy_from_slice(&hash.to_le_bytes());
    named[16..].copy_from_slice(&page.to_le_bytes());
    xxh3_128(&named)
}

fn zeros_hash() -> u128 {
    static HASH: std::sync::OnceLock<u128> = std::sync::OnceLock::new();
    *HASH.get_or_init(|| xxh3_128(&ZEROS))
}

fn page_weight(number: u64, page: &Page) -> u128 {
    weight(number, page.bytes(), page.hash())
}

impl Reader {
    /// Brings these pages (by number, in order) of a version up to date with the task.
    pub(crate) fn read_into(
        &mut self,
        tree: &mut Tree,
        task: &Stopped,
        layout: &Layout,
        pages: &[u64],
    ) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(BATCH * PAGE, 0);
        for batch in pages.chunks(BATCH) {
            let bytes = &mut buffer[..batch.len() * PAGE];
            let gone = read_batch(task, layout, batch, bytes)?;
            for (&page, content) in batch.iter().zip(bytes.as_chunks::<PAGE>().0) {
                let mapping = layout.find(page << PAGE_SHIFT).filter(|m| m.is_private());
                let entry = match mapping {
                    Some(mapping) if !gone.contains(&page) => self.entry(mapping, page, content),
                    _ => None,
                };
                tree.set(page, entry);
            }
        }
        self.buffer = buffer;
        Ok(())
    }

    /// The entry for a page with this content; none if nobody could tell it from an untouched one.
    fn entry(&mut self, mapping: &Region, page: u64, content: &[u8; PAGE]) -> Option<Entry> {
        let untouched = self.pristine.page(&mut self.store, mapping, page << PAGE_SHIFT);
        if matches!(untouched, Untouched::Zeros) && content == &ZEROS {
            return None;
        }
        let kept = self.store.keep(content);
        let base = match untouched {
            Untouched::File(untouched) if untouched.hash() == kept.hash() => return None,
            Untouched::File(untouched) => page_weight(page, &untouched),
            Untouched::Zeros | Untouched::Unknown => 0,
        };
        Some(Entry {
            contribution: page_weight(page, &kept).wrapping_sub(base),
            page: kept,
        })
    }
}

/// Reads pages into the buffer; returns those that are not there (behind the end of a file).
fn read_batch(task: &Stopped, layout: &Layout, pages: &[u64], buffer: &mut [u8]) -> Result<Vec<u64>> {
    let memory = task.memory();
    let readable = |page: u64| layout.find(page << PAGE_SHIFT).is_some_and(Region::is_readable);
    if pages.iter().all(|&page| readable(page)) {
        match memory.read_many(&ranges(pages), buffer) {
            Ok(()) => return Ok(Vec::new()),
            Err(tracee::Error::Memory(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut gone = Vec::new();
    for (&page, bytes) in pages.iter().zip(buffer.chunks_exact_mut(PAGE)) {
        match memory.read_forced(page << PAGE_SHIFT, bytes) {
            Ok(()) => {}
            Err(tracee::Error::Memory(_)) => gone.push(page),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(gone)
}

/// Neighbours as one range.
fn ranges(pages: &[u64]) -> Vec<(u64, usize)> {
    let mut ranges: Vec<(u64, usize)> = Vec::new();
    for &page in pages {
        let addr = page << PAGE_SHIFT;
        match ranges.last_mut() {
            Some((start, len)) if *start + *len as u64 == addr => *len += PAGE,
            _ => ranges.push((addr, PAGE)),
        }
    }
    ranges
}
