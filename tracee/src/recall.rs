//! What was read of a task's memory since it stopped: until it runs again, or the supervisor writes, it is still there.
//!
//! Between two stops the same few places are looked at again and again: return addresses, locks, counters. Each look would be a system call, and more
//! expensive than most of what is done with its answer. So small reads fetch the block around them, and what lies in a block that was fetched is copied.

use std::cell::RefCell;

/// Blocks are aligned, so that none is in two pages: it can be read as a whole, or not at all.
pub(crate) const BLOCK: u64 = 256;
/// Longer reads are of contents, not of places that are looked at again.
pub(crate) const SMALL: usize = 64;
/// As many blocks are kept. More would take longer to search than they spare.
const MOST: usize = 64;

type Bytes = [u8; BLOCK as usize];

/// The blocks that were read since the task stopped.
#[derive(Debug, Default)]
pub(crate) struct Recall(RefCell<Blocks>);

#[derive(Debug, Default)]
struct Blocks {
    starts: Vec<u64>,
    contents: Vec<Bytes>,
}

/// The beginning of the block that an address is in.
pub(crate) fn block_of(addr: u64) -> u64 {
    addr & !(BLOCK - 1)
}

impl Recall {
    /// Copies what is known from `addr` on, all of which is in one block; `false` if it is not known.
    pub(crate) fn copy(&self, addr: u64, out: &mut [u8]) -> bool {
        let blocks = self.0.borrow();
        let Some(found) = blocks.starts.iter().position(|&start| start == block_of(addr)) else {
            return false;
        };
        let at = (addr % BLOCK) as usize;
        out.copy_from_slice(&blocks.contents[found][at..at + out.len()]);
        true
    }

    pub(crate) fn knows(&self, block: u64) -> bool {
        self.0.borrow().starts.contains(&block)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.borrow().starts.len() >= MOST
    }

    /// Keeps what was read, if there is room.
    pub(crate) fn keep(&self, block: u64, bytes: &Bytes) {
        let mut blocks = self.0.borrow_mut();
        if blocks.starts.len() < MOST {
            blocks.starts.push(block);
            blocks.contents.push(*bytes);
        }
    }

    /// The task has run, or its memory was written: nothing is known any more.
    pub(crate) fn forget(&self) {
        let mut blocks = self.0.borrow_mut();
        blocks.starts.clear();
        blocks.contents.clear();
    }

    /// This part of the memory was written.
    pub(crate) fn forget_in(&self, addr: u64, len: usize) {
        let mut blocks = self.0.borrow_mut();
        let end = addr.saturating_add(len as u64);
        let mut at = 0;
        while let Some(&start) = blocks.starts.get(at) {
            if start < end && addr < start + BLOCK {
                blocks.starts.swap_remove(at);
                blocks.contents.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_forgotten_and_nothing_else() {
        let recall = Recall::default();
        for (block, byte) in [(0x1000, 1), (0x1100, 2), (0x1200, 3)] {
            recall.keep(block, &[byte; BLOCK as usize]);
        }
        recall.forget_in(0x10ff, 2);
        let mut byte = [0];
        assert!(!recall.copy(0x1000, &mut byte) && !recall.copy(0x1100, &mut byte));
        assert!(recall.copy(0x12ff, &mut byte) && byte == [3]);
        recall.forget();
        assert!(!recall.copy(0x1200, &mut byte));
    }
}
