//! A map with hardly ever more than one entry, in order.
//!
//! A communication tree has some in every node. A `BTreeMap` takes room for eleven entries as soon as it has one, a kilobyte here: a tree of a few thousand nodes
//! would not fit in the cache, and to follow one is what a write costs that the tree answers. Serialised it looks like a map.

use serde::{Deserialize, Serialize};

/// Entries in the order of their keys, each key once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[serde(bound(deserialize = "K: Deserialize<'de>, V: Deserialize<'de>"))]
pub(crate) struct Sorted<K, V>(#[serde(deserialize_with = "crate::bounded::vec")] Vec<(K, V)>);

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Sorted(Vec::new())
    }
}

impl<K: Copy + Ord, V> Sorted<K, V> {
    fn find(&self, key: K) -> Result<usize, usize> {
        // The last one is wanted as a rule.
        match self.0.last() {
            None => Err(0),
            Some((last, _)) if *last < key => Err(self.0.len()),
            Some((last, _)) if *last == key => Ok(self.0.len() - 1),
            Some(_) => self.0.binary_search_by_key(&key, |entry| entry.0),
        }
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.find(key).ok().map(|at| &mut self.0[at].1)
    }

    /// The value at `key`, which is made if there is none.
    pub(crate) fn entry(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let at = self.find(key).unwrap_or_else(|at| {
            // One, not four: that is what most of them stay with.
            if self.0.is_empty() {
                self.0.reserve_exact(1);
            }
            self.0.insert(at, (key, V::default()));
            at
        });
        &mut self.0[at].1
    }

    /// The last entry at or before `key`.
    pub(crate) fn up_to(&self, key: K) -> Option<&(K, V)> {
        match self.find(key) {
            Ok(at) => self.0.get(at),
            Err(at) => self.0[..at].last(),
        }
    }

    /// The last entry before `key`.
    pub(crate) fn before(&self, key: K) -> Option<&(K, V)> {
        let (Ok(at) | Err(at)) = self.find(key);
        self.0[..at].last()
    }

    /// The entries behind `key`.
    pub(crate) fn after(&self, key: K) -> &[(K, V)] {
        let at = self.find(key).map_or_else(|at| at, |at| at + 1);
        &self.0[at..]
    }

    /// In order, each key once: what comes from a file need not be.
    pub(crate) fn is_sorted(&self) -> bool {
        self.0.is_sorted_by(|a, b| a.0 < b.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.0.iter()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|entry| &entry.1)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = K> {
        self.0.iter().map(|entry| entry.0)
    }

    pub(crate) fn retain(&mut self, mut wanted: impl FnMut(&V) -> bool) {
        self.0.retain(|entry| wanted(&entry.1));
    }
}

impl<K, V> IntoIterator for Sorted<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(test_seeds::property(256))]

        #[test]
        fn it_is_a_map_and_is_stored_like_one(keys in proptest::collection::vec(0_u32..12, 0..12), at in 0_u32..12) {
            let (mut sorted, mut map) = (Sorted::<u32, u8>::default(), BTreeMap::<u32, u8>::new());
            for key in keys {
                *sorted.entry(key) += 1;
                *map.entry(key).or_default() += 1;
            }
            let pair = |(&key, &value): (&u32, &u8)| (key, value);
            prop_assert!(sorted.iter().copied().eq(map.iter().map(pair)));
            prop_assert_eq!(sorted.get(at), map.get(&at));
            prop_assert_eq!(sorted.up_to(at).copied(), map.range(..=at).next_back().map(pair));
            prop_assert_eq!(sorted.before(at).copied(), map.range(..at).next_back().map(pair));
            prop_assert!(sorted.after(at).iter().copied().eq(map.range(at + 1..).map(pair)));
            let bytes = postcard::to_stdvec(&sorted).expect("serialises");
            prop_assert_eq!(&bytes, &postcard::to_stdvec(&map).expect("serialises"));
            prop_assert_eq!(postcard::from_bytes::<Sorted<u32, u8>>(&bytes).expect("is one"), sorted);
        }
    }
}
