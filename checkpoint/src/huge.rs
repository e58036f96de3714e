//! Large pages for memory that is written once and then mostly left alone.
//!
//! To ask which pages were written is to walk the page table, entry by entry: a nanosecond each, but there are 65 000 in 256 MB. Where the
//! kernel maps two megabytes by one entry, the walk has one step. So each block that fills up is collapsed into a large page,
//! once. The first write to a protected large page splits it, within the kernel; that block is then tracked page by page.
//! The program cannot tell, and where the kernel declines, nothing is lost but time.

use crate::error::Result;
use crate::layout::{Kind, Layout};
use crate::store::PAGE_SHIFT;
use crate::uffd::Uffd;
use hashbrown::HashSet;
use std::ops::Range;
use tracee::Stopped;

/// Pages in a large page.
const BLOCK: u64 = 512;
const MADV_COLLAPSE: u64 = 25;

/// The blocks that were collapsed, or tried to: by first page.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    tried: HashSet<u64>,
}

impl Blocks {
    /// Collapses blocks of which all pages were just read. Returns whether any was, which leaves it unprotected.
    pub(crate) fn collapse(
        &mut self,
        task: &mut Stopped,
        uffd: &Uffd,
        layout: &Layout,
        read: &[u64],
    ) -> Result<bool> {
        let anonymous = |block: u64| {
            let (start, end) = (block << PAGE_SHIFT, (block + BLOCK) << PAGE_SHIFT);
            let mapping = layout.find(start);
            mapping.is_some_and(|mapping| {
                mapping.kind == Kind::Anonymous
                    && mapping.is_writable()
                    && mapping.start <= start
                    && end <= mapping.end
            })
        };
        let mut runs: Vec<Range<u64>> = Vec::new();
        for block in full_blocks(read) {
            if !anonymous(block) || !self.tried.insert(block) {
                continue;
            }
            match runs.last_mut() {
                Some(last) if last.end == block => last.end += BLOCK,
                _ => runs.push(block..block + BLOCK),
            }
        }
        for run in &runs {
            let (start, end) = (run.start << PAGE_SHIFT, run.end << PAGE_SHIFT);
            // Protected pages do not collapse.
            uffd.unprotect(start..end)?;
            let answer = task.inject(libc::SYS_madvise, [start, end - start, MADV_COLLAPSE, 0, 0, 0])?;
            tracing::debug!(start, end, answer, "large pages");
        }
        Ok(!runs.is_empty())
    }
}

/// First pages of the aligned blocks that are wholly among these pages, which are in order.
fn full_blocks(pages: &[u64]) -> Vec<u64> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while at + (BLOCK as usize) <= pages.len() {
        let page = pages[at];
        if !page.is_multiple_of(BLOCK) {
            at += 1;
        } else if pages[at + BLOCK as usize - 1] == page + BLOCK - 1 {
            blocks.push(page);
            at += BLOCK as usize;
        } else {
            at += 1;
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_aligned_blocks_count() {
        let pages: Vec<u64> = (500..2048).collect();
        assert_eq!(full_blocks(&pages), [512, 1024, 1536]);
        let with_a_hole: Vec<u64> = (512..2048).filter(|&page| page != 1100).collect();
        assert_eq!(full_blocks(&with_a_hole), [512, 1536]);
        assert_eq!(full_blocks(&pages[..100]), []);
        assert_eq!(full_blocks(&(0..511).collect::<Vec<u64>>()), []);
    }
}
