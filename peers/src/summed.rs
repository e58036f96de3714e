//! A map that knows its own hash: programs may have thousands of connections, and the identity of a state is asked for at every step.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use xxhash_rust::xxh3::Xxh3;

/// A map whose hash is kept as a sum over its entries, so that a change costs as much as the entry that it is about. Reading is as with [`BTreeMap`].
#[derive(Clone, Debug)]
pub(crate) struct SummedMap<K, V> {
    entries: BTreeMap<K, V>,
    sum: u128,
}

impl<K, V> Default for SummedMap<K, V> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            sum: 0,
        }
    }
}

fn hash_of(key: &impl Hash, value: &impl Hash) -> u128 {
    let mut hasher = Xxh3::new();
    key.hash(&mut hasher);
    value.hash(&mut hasher);
    hasher.digest128()
}

impl<K: Ord + Hash, V: Hash> SummedMap<K, V> {
    pub(crate) fn insert(&mut self, key: K, value: V)
    where
        K: Clone,
    {
        self.sum = self.sum.wrapping_add(hash_of(&key, &value));
        if let Some(before) = self.entries.insert(key.clone(), value) {
            self.sum = self.sum.wrapping_sub(hash_of(&key, &before));
        }
    }

    /// Changes a value, if there is one.
    pub(crate) fn change(&mut self, key: &K, change: impl FnOnce(&mut V)) {
        if let Some(value) = self.entries.get_mut(key) {
            self.sum = self.sum.wrapping_sub(hash_of(key, value));
            change(value);
            self.sum = self.sum.wrapping_add(hash_of(key, value));
        }
    }
}

impl<K, V> Deref for SummedMap<K, V> {
    type Target = BTreeMap<K, V>;

    fn deref(&self) -> &BTreeMap<K, V> {
        &self.entries
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SummedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.sum == other.sum && self.entries == other.entries
    }
}

impl<K: Eq, V: Eq> Eq for SummedMap<K, V> {}

impl<K, V> Hash for SummedMap<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entries.len().hash(state);
        self.sum.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(entries: &[(u32, u32)]) -> SummedMap<u32, u32> {
        let mut map = SummedMap::default();
        for &(key, value) in entries {
            map.insert(key, value);
        }
        map
    }

    fn identity(map: &SummedMap<u32, u32>) -> u128 {
        let mut hasher = Xxh3::new();
        map.hash(&mut hasher);
        hasher.digest128()
    }

    #[test]
    fn the_hash_is_that_of_the_entries_however_they_came_about() {
        let plain = made(&[(1, 10), (2, 20)]);
        let mut otherwise = made(&[(2, 7), (1, 10), (2, 8)]);
        assert_ne!(identity(&plain), identity(&otherwise));
        otherwise.change(&2, |value| *value = 20);
        otherwise.change(&3, |value| *value = 20);
        assert_eq!(identity(&plain), identity(&otherwise));
        assert_eq!(plain, otherwise);
    }

    #[test]
    fn what_belongs_to_which_key_counts() {
        assert_ne!(
            identity(&made(&[(1, 10), (2, 20)])),
            identity(&made(&[(1, 20), (2, 10)]))
        );
        assert_ne!(identity(&made(&[(1, 10)])), identity(&made(&[])));
    }
}
