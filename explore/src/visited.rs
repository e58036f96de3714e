//! The set of visited states, shared by all workers.
//!
//! State identities are hashes already, so they are spread over shards and slots by a cheap mix. Most states need nothing but their
//! identity (17 bytes); only those that were left with part of their choices asleep, or were reached at the cost of preemptions under a
//! bound, have a second entry that says so.
//!
//! The check and the promise to explore are one atomic step: of two workers that reach a state, exactly one takes each of its choices.

use crate::Choice;
use hashbrown::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

const SHARDS: usize = 64;

/// Mixes an identity that is (mostly) random already.
#[derive(Default, Clone, Copy)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u128(u128::from(byte));
        }
    }
    fn write_u128(&mut self, id: u128) {
        let folded = self.0 ^ (id as u64) ^ ((id >> 64) as u64).rotate_left(32);
        let mixed = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

type Build = BuildHasherDefault<Mix>;

#[derive(Default)]
struct Shard {
    seen: HashSet<u128, Build>,
    pending: HashMap<u128, Reserve, Build>,
    /// In the order of preemptions: the level of each choice that is planned or explored.
    levels: HashMap<u128, Box<[(Choice, u32)]>, Build>,
}

/// What is to be explored at a state, in the order of preemptions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The state was not known.
    pub is_new: bool,
    /// Which of the offers, by their place, are cheaper than ever before.
    pub claimed: Vec<usize>,
}

fn level_of(levels: Option<&[(Choice, u32)]>, choice: Choice) -> Option<u32> {
    let known = levels?.iter().find(|known| known.0 == choice)?;
    Some(known.1)
}

/// What a later visit might still have to do at a state.
struct Reserve {
    /// Choices that no visit has explored, since they were asleep in all of them. Sorted.
    asleep: Box<[Choice]>,
    /// The fewest preemptions it was reached with.
    preemptions: u32,
}

/// What is to be explored at a state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// Everything that is awake.
    New,
    /// Everything again: reached with fewer preemptions than ever before.
    Cheaper,
    /// Only these, which were asleep at all earlier visits; `still` is what stays asleep.
    Woken { now: Vec<Choice>, still: Vec<Choice> },
    /// Nothing.
    Known,
}

pub(crate) struct Visited {
    shards: Box<[Mutex<Shard>]>,
}

impl Visited {
    pub fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    fn shard(&self, id: u128) -> std::sync::MutexGuard<'_, Shard> {
        let mut mix = Mix::default();
        mix.write_u128(id);
        // Other bits than the ones that choose the slot inside the shard.
        let shard = &self.shards[(mix.0 >> 20) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Arrives at a state with a sleep set (sorted) and a number of preemptions, and claims what is to be done there.
    ///
    /// The rule for sleep sets is that of Godefroid (*Partial-Order Methods*, 1996, section 5.3): keep with the state what no visit has
    /// explored; a later visit explores the part of it that is awake now. See [`crate::reduce`] for why this is right in any order of search.
    pub fn visit(&self, id: u128, asleep: &[Choice], preemptions: u32) -> Visit {
        let mut shard = self.shard(id);
        if shard.seen.insert(id) {
            if !asleep.is_empty() || preemptions > 0 {
                shard.pending.insert(
                    id,
                    Reserve {
                        asleep: asleep.into(),
                        preemptions,
                    },
                );
            }
            return Visit::New;
        }
        let Some(reserve) = shard.pending.get_mut(&id) else {
            return Visit::Known;
        };
        if preemptions < reserve.preemptions {
            reserve.preemptions = preemptions;
            return Visit::Cheaper;
        }
        let (still, now): (Vec<_>, Vec<_>) = reserve
            .asleep
            .iter()
            .copied()
            .partition(|c| asleep.binary_search(c).is_ok());
        if now.is_empty() {
            return Visit::Known;
        }
        reserve.asleep = still.as_slice().into();
        if still.is_empty() && reserve.preemptions == 0 {
            shard.pending.remove(&id);
        }
        Visit::Woken { now, still }
    }

    /// Arrives at a state that offers choices, each at a level, and claims those that were not offered at that level or a lower one before.
    pub fn claim(&self, id: u128, offers: &[(Choice, u32)]) -> Claim {
        let mut shard = self.shard(id);
        let is_new = shard.seen.insert(id);
        let known = shard.levels.get(&id).map(|levels| &levels[..]);
        let is_cheaper =
            |&(choice, level): &(Choice, u32)| level_of(known, choice).is_none_or(|before| level < before);
        let claimed: Vec<usize> = (0..offers.len()).filter(|&i| is_cheaper(&offers[i])).collect();
        if !claimed.is_empty() {
            let mut levels = known.map_or(Vec::new(), <[_]>::to_vec);
            for &i in &claimed {
                levels.retain(|planned| planned.0 != offers[i].0);
                levels.push(offers[i]);
            }
            shard.levels.insert(id, levels.into());
        }
        Claim { is_new, claimed }
    }

    /// Whether [`Visited::claim`] would claim nothing.
    pub fn is_claimed(&self, id: u128, offers: &[(Choice, u32)]) -> bool {
        let shard = self.shard(id);
        let known = shard.levels.get(&id).map(|levels| &levels[..]);
        let is_known = |&(choice, level): &(Choice, u32)| level_of(known, choice).is_some_and(|l| l <= level);
        shard.seen.contains(&id) && offers.iter().all(is_known)
    }

    /// Whether a choice that was claimed at a level was not claimed at a lower one since.
    pub fn is_due(&self, id: u128, choice: Choice, level: u32) -> bool {
        let shard = self.shard(id);
        let known = shard.levels.get(&id).map(|levels| &levels[..]);
        level_of(known, choice) == Some(level)
    }

    /// Whether [`Visited::visit`] would have nothing to do.
    pub fn is_known(&self, id: u128, asleep: &[Choice], preemptions: u32) -> bool {
        let shard = self.shard(id);
        shard.seen.contains(&id)
            && shard.pending.get(&id).is_none_or(|reserve| {
                preemptions >= reserve.preemptions
                    && reserve.asleep.iter().all(|c| asleep.binary_search(c).is_ok())
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(threads: &[u32]) -> Vec<Choice> {
        threads.iter().map(|&t| Choice::of(t)).collect()
    }

    #[test]
    fn a_state_is_new_once() {
        let visited = Visited::new();
        for id in [0, 1, u128::MAX, 1 << 64] {
            assert!(!visited.is_known(id, &[], 0));
            assert_eq!(visited.visit(id, &[], 0), Visit::New);
            assert_eq!(visited.visit(id, &[], 0), Visit::Known);
            assert!(visited.is_known(id, &[], 0));
        }
    }

    #[test]
    fn what_slept_before_is_claimed_exactly_once() {
        let visited = Visited::new();
        assert_eq!(visited.visit(7, &set(&[1, 2, 3]), 0), Visit::New);
        assert!(visited.is_known(7, &set(&[1, 2, 3, 4]), 0));
        assert_eq!(visited.visit(7, &set(&[1, 2, 3]), 0), Visit::Known);
        assert_eq!(
            visited.visit(7, &set(&[2, 4]), 0),
            Visit::Woken {
                now: set(&[1, 3]),
                still: set(&[2])
            }
        );
        assert_eq!(visited.visit(7, &set(&[2]), 0), Visit::Known);
        assert_eq!(
            visited.visit(7, &set(&[1, 3]), 0),
            Visit::Woken {
                now: set(&[2]),
                still: vec![]
            }
        );
        assert_eq!(visited.visit(7, &[], 0), Visit::Known);
    }

    #[test]
    fn a_choice_is_claimed_again_only_if_it_is_cheaper() {
        let visited = Visited::new();
        let (one, two) = (Choice::of(1), Choice::of(2));
        let claimed = |offers: &[(Choice, u32)]| {
            let claim = visited.claim(7, offers);
            (claim.is_new, claim.claimed)
        };
        assert_eq!(claimed(&[(one, 1), (two, 2)]), (true, vec![0, 1]));
        assert_eq!(claimed(&[(one, 1), (two, 3)]), (false, vec![]));
        assert!(visited.is_claimed(7, &[(one, 2)]) && !visited.is_claimed(7, &[(one, 0)]));
        assert_eq!(claimed(&[(one, 2), (two, 1)]), (false, vec![1]));
        assert!(visited.is_due(7, two, 1) && !visited.is_due(7, two, 2));
    }

    #[test]
    fn fewer_preemptions_open_a_state_again() {
        let visited = Visited::new();
        assert_eq!(visited.visit(7, &[], 2), Visit::New);
        assert_eq!(visited.visit(7, &[], 2), Visit::Known);
        assert_eq!(visited.visit(7, &[], 1), Visit::Cheaper);
        assert_eq!(visited.visit(7, &[], 1), Visit::Known);
        assert_eq!(visited.visit(7, &[], 0), Visit::Cheaper);
        assert_eq!(visited.visit(7, &[], 0), Visit::Known);
    }
}
