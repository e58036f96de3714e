//! Persistent map from page numbers to pages: one *version* of a task's memory.
//!
//! A version must be cheap to keep (a checkpoint is one), cheap to change (a few pages per transition) and cheap to
//! compare with another (a restore touches only what differs). So it is a radix tree with shared nodes: a clone is one
//! reference, a change copies one path, and a comparison skips every subtree that both sides share.
//!
//! Each node carries the sum of the contributions below it. The identity of any range of memory is then a few
//! additions, whatever its size: that is how the dead part of a stack is left out, at no cost when a stack comes or goes, and
//! why going back to an old version brings its identity back with it.

use crate::store::Page;
use std::ops::Range;
use std::rc::Rc;

const BITS: u32 = 6;
const FANOUT: u64 = 1 << BITS;
/// Levels above the leaves: 6 × 6 bits name every page of a 48-bit address space.
const TOP: u32 = 5;
/// One past the largest page number.
pub(crate) const PAGES: u64 = 1 << (BITS * (TOP + 1));

/// What is known of one page that differs from its pristine content.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) page: Page,
    /// What it adds to the identity of the memory.
    pub(crate) contribution: u128,
}

/// One version of memory. Pages that are not in it are pristine: zero, or what the mapped file holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    root: Option<Rc<Node>>,
}

#[derive(Debug, Clone)]
struct Node {
    /// Sum of all contributions below.
    sum: u128,
    /// Which of the 64 slots are taken.
    taken: u64,
    slots: Slots,
}

#[derive(Debug, Clone)]
enum Slots {
    Inner(Vec<Rc<Node>>),
    Leaf(Vec<Entry>),
}

impl Tree {
    pub(crate) fn get(&self, page: u64) -> Option<&Entry> {
        let mut node = self.root.as_deref()?;
        for level in (0..=TOP).rev() {
            let at = node.position(slot(page, level)).ok()?;
            match &node.slots {
                Slots::Inner(children) => node = &children[at],
                Slots::Leaf(entries) => return Some(&entries[at]),
            }
        }
        None
    }

    /// Puts an entry, or removes it.
    pub(crate) fn set(&mut self, page: u64, entry: Option<Entry>) {
        if entry.is_none() && self.get(page).is_none() {
            return;
        }
        match (&mut self.root, entry) {
            (Some(root), entry) => Rc::make_mut(root).set(page, TOP, entry),
            (root @ None, Some(entry)) => *root = Some(Rc::new(Node::path(page, TOP, entry))),
            (None, None) => {}
        }
        if self.root.as_ref().is_some_and(|root| root.taken == 0) {
            self.root = None;
        }
    }

    /// Sum of the contributions of these pages.
    pub(crate) fn sum(&self, pages: Range<u64>) -> u128 {
        match &self.root {
            Some(root) if pages.start < pages.end => root.sum(0, TOP, &pages),
            _ => 0,
        }
    }

    /// Calls `differ(page, ours, theirs)` for all pages that differ, in order.
    pub(crate) fn diff<'a>(
        &'a self,
        other: &'a Tree,
        differ: &mut impl FnMut(u64, Option<&'a Entry>, Option<&'a Entry>),
    ) {
        diff(self.root.as_ref(), other.root.as_ref(), 0, TOP, differ);
    }

    /// Those of these pages that are in the version, in order.
    pub(crate) fn pages_in(&self, range: Range<u64>) -> Vec<u64> {
        let mut pages = Vec::new();
        if let Some(root) = &self.root {
            root.pages_in(0, TOP, &range, &mut pages);
        }
        pages
    }
}

/// Which slot of a node on this level leads to the page.
fn slot(page: u64, level: u32) -> u64 {
    (page >> (BITS * level)) % FANOUT
}

impl Node {
    /// A node on this level with nothing but the way to one page.
    fn path(page: u64, level: u32, entry: Entry) -> Node {
        let (sum, taken) = (entry.contribution, 1 << slot(page, level));
        let slots = if level == 0 {
            Slots::Leaf(vec![entry])
        } else {
            Slots::Inner(vec![Rc::new(Node::path(page, level - 1, entry))])
        };
        Node { sum, taken, slots }
    }

    /// Index of a slot among the taken ones, or where it would be.
    fn position(&self, slot: u64) -> Result<usize, usize> {
        let at = (self.taken & ((1 << slot) - 1)).count_ones() as usize;
        if self.taken & (1 << slot) == 0 {
            Err(at)
        } else {
            Ok(at)
        }
    }

    fn set(&mut self, page: u64, level: u32, entry: Option<Entry>) {
        let slot = slot(page, level);
        let position = self.position(slot);
        let added = entry.as_ref().map_or(0, |entry| entry.contribution);
        let removed = match (&mut self.slots, position, entry) {
            (Slots::Leaf(entries), Ok(at), Some(entry)) => {
                std::mem::replace(&mut entries[at], entry).contribution
            }
            (Slots::Leaf(entries), Ok(at), None) => {
                self.taken &= !(1 << slot);
                entries.remove(at).contribution
            }
            (Slots::Leaf(entries), Err(at), Some(entry)) => {
                self.taken |= 1 << slot;
                entries.insert(at, entry);
                0
            }
            (Slots::Inner(children), Ok(at), entry) => {
                let child = Rc::make_mut(&mut children[at]);
                let before = child.sum;
                child.set(page, level - 1, entry);
                self.sum = self.sum.wrapping_sub(before).wrapping_add(child.sum);
                if child.taken == 0 {
                    self.taken &= !(1 << slot);
                    children.remove(at);
                }
                return;
            }
            (Slots::Inner(children), Err(at), Some(entry)) => {
                self.taken |= 1 << slot;
                children.insert(at, Rc::new(Node::path(page, level - 1, entry)));
                0
            }
            (_, Err(_), None) => 0,
        };
        self.sum = self.sum.wrapping_sub(removed).wrapping_add(added);
    }

    /// Sum over those of its pages that are in the range; the node's first page is `base`.
    fn sum(&self, base: u64, level: u32, pages: &Range<u64>) -> u128 {
        if pages.start <= base && base + (1 << (BITS * (level + 1))) <= pages.end {
            return self.sum;
        }
        let step = 1 << (BITS * level);
        let mut total = 0u128;
        for (at, slot) in bits(self.taken).enumerate() {
            let first = base + slot * step;
            if first >= pages.end || first + step <= pages.start {
                continue;
            }
            total = total.wrapping_add(match &self.slots {
                Slots::Inner(children) => children[at].sum(first, level - 1, pages),
                Slots::Leaf(entries) => entries[at].contribution,
            });
        }
        total
    }

    fn pages_in(&self, base: u64, level: u32, range: &Range<u64>, pages: &mut Vec<u64>) {
        let step = 1 << (BITS * level);
        for (at, slot) in bits(self.taken).enumerate() {
            let first = base + slot * step;
            if first >= range.end || first + step <= range.start {
                continue;
            }
            match &self.slots {
                Slots::Inner(children) => children[at].pages_in(first, level - 1, range, pages),
                Slots::Leaf(_) => pages.push(first),
            }
        }
    }

    fn child(&self, slot: u64) -> Option<&Rc<Node>> {
        match (&self.slots, self.position(slot)) {
            (Slots::Inner(children), Ok(at)) => Some(&children[at]),
            _ => None,
        }
    }

    fn entry(&self, slot: u64) -> Option<&Entry> {
        match (&self.slots, self.position(slot)) {
            (Slots::Leaf(entries), Ok(at)) => Some(&entries[at]),
            _ => None,
        }
    }
}

/// The set bits, lowest first.
fn bits(mut set: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = set.trailing_zeros();
        (set != 0).then(|| {
            set &= set - 1;
            u64::from(bit)
        })
    })
}

fn diff<'a>(
    ours: Option<&'a Rc<Node>>,
    theirs: Option<&'a Rc<Node>>,
    base: u64,
    level: u32,
    differ: &mut impl FnMut(u64, Option<&'a Entry>, Option<&'a Entry>),
) {
    if let (Some(ours), Some(theirs)) = (ours, theirs)
        && Rc::ptr_eq(ours, theirs)
    {
        return;
    }
    let taken = |node: Option<&Rc<Node>>| node.map_or(0, |node| node.taken);
    for slot in bits(taken(ours) | taken(theirs)) {
        let first = base + (slot << (BITS * level));
        if level == 0 {
            let (a, b) = (
                ours.and_then(|node| node.entry(slot)),
                theirs.and_then(|node| node.entry(slot)),
            );
            if a.map(|entry| entry.page.hash()) != b.map(|entry| entry.page.hash()) {
                differ(first, a, b);
            }
        } else {
            diff(
                ours.and_then(|node| node.child(slot)),
                theirs.and_then(|node| node.child(slot)),
                first,
                level - 1,
                differ,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{PAGE, Store};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn entry(store: &mut Store, value: u8) -> Entry {
        Entry {
            page: store.keep(&[value; PAGE]),
            contribution: (u128::from(value) + 1) << 100,
        }
    }

    /// Pages that share paths, and pages that do not.
    fn page() -> impl Strategy<Value = u64> {
        prop_oneof![0..70u64, 4000..4200u64, Just(PAGES - 1), 0..PAGES]
    }

    proptest! {
        #![proptest_config(test_seeds::property(256))]

        #[test]
        fn behaves_like_a_plain_map(
            early in proptest::collection::vec((page(), proptest::option::of(0..4u8)), 0..60),
            late in proptest::collection::vec((page(), proptest::option::of(0..4u8)), 0..30),
            range in (page(), page()),
        ) {
            let mut store = Store::default();
            let (mut tree, mut plain) = (Tree::default(), BTreeMap::new());
            let mut apply = |tree: &mut Tree, plain: &mut BTreeMap<u64, u8>, changes: &[(u64, Option<u8>)]| {
                for &(page, value) in changes {
                    tree.set(page, value.map(|value| entry(&mut store, value)));
                    match value {
                        Some(value) => drop(plain.insert(page, value)),
                        None => drop(plain.remove(&page)),
                    }
                }
            };
            apply(&mut tree, &mut plain, &early);
            let (old_tree, old_plain) = (tree.clone(), plain.clone());
            apply(&mut tree, &mut plain, &late);
            for (tree, plain) in [(&old_tree, &old_plain), (&tree, &plain)] {
                prop_assert_eq!(tree.pages_in(0..PAGES), plain.keys().copied().collect::<Vec<_>>());
                let expected = plain.range(range.0.min(range.1)..range.1)
                    .fold(0u128, |sum, (_, &value)| sum.wrapping_add((u128::from(value) + 1) << 100));
                prop_assert_eq!(tree.sum(range.0..range.1), expected);
                let within: Vec<u64> = plain.range(range.0.min(range.1)..range.1).map(|(&page, _)| page).collect();
                prop_assert_eq!(tree.pages_in(range.0..range.1), within);
                for (&page, &value) in plain {
                    prop_assert_eq!(tree.get(page).unwrap().page.bytes()[0], value);
                }
            }
            let mut seen = Vec::new();
            old_tree.diff(&tree, &mut |page, a, b| {
                seen.push((page, a.map(|e| e.page.bytes()[0]), b.map(|e| e.page.bytes()[0])));
            });
            let all: std::collections::BTreeSet<_> = old_plain.keys().chain(plain.keys()).copied().collect();
            let expected: Vec<_> = all.into_iter()
                .map(|page| (page, old_plain.get(&page).copied(), plain.get(&page).copied()))
                .filter(|(_, a, b)| a != b)
                .collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
