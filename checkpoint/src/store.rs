//! Pages by content: equal pages of all versions are kept once.
//!
//! The 128-bit hash *is* the name of a page; equal hashes are taken for equal contents.

use hashbrown::HashMap;
use std::cell::Cell;
use std::rc::{Rc, Weak};
use xxhash_rust::xxh3::xxh3_128;

/// Bytes per page.
pub(crate) const PAGE: usize = tracee::PAGE as usize;
/// Shift from addresses to page numbers.
pub(crate) const PAGE_SHIFT: u32 = 12;
/// What an untouched page holds.
pub(crate) static ZEROS: [u8; PAGE] = [0; PAGE];

/// Content of a page; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Page(Rc<Stored>);

#[derive(Debug)]
struct Stored {
    hash: u128,
    /// In a box of its own, so that it is freed although the store still has a weak reference.
    bytes: Box<[u8; PAGE]>,
    held: Rc<Cell<u64>>,
}

impl Page {
    pub(crate) fn hash(&self) -> u128 {
        self.0.hash
    }

    pub(crate) fn bytes(&self) -> &[u8; PAGE] {
        &self.0.bytes
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.held.set(self.held.get() - 1);
    }
}

/// All pages that some version refers to.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pages: HashMap<u128, Weak<Stored>>,
    held: Rc<Cell<u64>>,
}

impl Store {
    /// The page with this content.
    pub(crate) fn keep(&mut self, bytes: &[u8; PAGE]) -> Page {
        let hash = xxh3_128(bytes);
        if let Some(known) = self.pages.get(&hash).and_then(Weak::upgrade) {
            return Page(known);
        }
        self.sweep();
        self.held.set(self.held.get() + 1);
        let stored = Rc::new(Stored {
            hash,
            bytes: Box::new(*bytes),
            held: Rc::clone(&self.held),
        });
        self.pages.insert(hash, Rc::downgrade(&stored));
        Page(stored)
    }

    /// Bytes of page content held.
    pub(crate) fn bytes_held(&self) -> u64 {
        self.held.get() * PAGE as u64
    }

    /// Forgets the names of pages that are gone, once they are the majority: amortised, no cost per drop.
    fn sweep(&mut self) {
        const FEW: usize = 1024;
        if self.pages.len() > FEW + 2 * self.held.get() as usize {
            self.pages.retain(|_, page| page.strong_count() > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_contents_are_held_once_and_freed_with_the_last_user() {
        let mut store = Store::default();
        let a = store.keep(&[1; PAGE]);
        let b = store.keep(&[1; PAGE]);
        let c = store.keep(&[2; PAGE]);
        assert_eq!(a.hash(), b.hash());
        assert_ne!(a.hash(), c.hash());
        assert_eq!(store.bytes_held(), 2 * PAGE as u64);
        drop(a);
        assert_eq!(store.bytes_held(), 2 * PAGE as u64);
        drop((b, c));
        assert_eq!(store.bytes_held(), 0);
        assert_eq!(store.keep(&[1; PAGE]).bytes(), &[1; PAGE]);
    }

    #[test]
    fn names_of_freed_pages_do_not_pile_up() {
        let mut store = Store::default();
        for i in 0..10_000u32 {
            let mut bytes = ZEROS;
            bytes[..4].copy_from_slice(&i.to_le_bytes());
            drop(store.keep(&bytes));
        }
        assert!(store.pages.len() <= 1025, "{}", store.pages.len());
    }
}
