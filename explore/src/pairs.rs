//! Which orders of conflicting operations walks have seen: what guides further walks, and how one can tell that they bring nothing new.
//!
//! A *pair* is two places in the program ([`Candidate::site`](crate::Candidate::site)) whose operations met on an object, in this order, by two threads, with nothing
//! in between: a store and the load that reads from it, two that took a lock one after the other, an arrival and who saw it. Places and not threads: twenty threads with the
//! same code have few pairs, and a pair that no walk has seen is another behaviour of that code.
//!
//! Walks are made in *generations*. What a walk knows is what all walks of the generations before have seen, whoever made them, so a walk is
//! a function of seed and number, whatever the number of workers.

use crate::{Candidate, Choice};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Two places, in the order in which their operations met.
pub(crate) type Pair = (u64, u64);

/// Walks of a generation, once there were so many.
const GENERATION: u64 = 8;
/// How often an order is aimed at and missed before others are preferred.
const ATTEMPTS: u32 = 3;

/// What walks have seen in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCoverage {
    /// Walks that are counted.
    pub walks: u64,
    /// Different pairs that were seen.
    pub pairs: u64,
    /// Of these, seen for the first time in the later half of the walks.
    pub new_in_later_half: u64,
}

impl PairCoverage {
    /// New pairs per thousand walks, in the later half: how far from saturated the sampling is.
    pub fn new_per_thousand(&self) -> u64 {
        let later = self.walks.div_ceil(2).max(1);
        self.new_in_later_half * 1000 / later
    }
}

/// What a walk begins with.
#[derive(Clone, Default)]
pub(crate) struct Known {
    /// Pairs, with the number of the walk that saw them first.
    seen: BTreeMap<Pair, u64>,
    /// Orders that were aimed at, and how often in vain.
    missed: BTreeMap<Pair, u32>,
    /// Places that take part in a pair.
    meeting: BTreeSet<u64>,
    /// How many operations at such places each thread has performed in a walk, at most.
    operations: BTreeMap<u32, u64>,
    /// The longest walk.
    pub length: u32,
    walks: u64,
}

impl Known {
    /// Orders worth a try: the other one was seen, and this one was not, nor tried more often than others; and all orders that were seen or could be.
    pub fn goals(&self) -> (Vec<Pair>, Vec<Pair>) {
        let all: BTreeSet<Pair> = self
            .seen
            .keys()
            .filter(|(one, other)| one != other)
            .flat_map(|&(one, other)| [(one, other), (other, one)])
            .collect();
        let missed = |pair: &Pair| self.missed.get(pair).copied().unwrap_or(0);
        let mut open: Vec<Pair> = all
            .iter()
            .filter(|pair| !self.seen.contains_key(pair))
            .copied()
            .collect();
        let least = open.iter().map(missed).min().unwrap_or(0);
        open.retain(|pair| missed(pair) == least && least < ATTEMPTS);
        (open, all.into_iter().collect())
    }

    /// Does what is done at this place meet what others do?
    pub fn meets(&self, site: u64) -> bool {
        self.meeting.contains(&site)
    }

    /// How many operations of a thread meet others, in a whole walk, as far as is known.
    pub fn operations(&self, thread: u32) -> u64 {
        self.operations.get(&thread).copied().unwrap_or(1)
    }

    fn add(&mut self, number: u64, walked: Walked) {
        for pair in &walked.pairs {
            self.seen.entry(*pair).or_insert(number);
            self.meeting.extend([pair.0, pair.1]);
        }
        for goal in walked.goals {
            if !walked.pairs.contains(&goal) {
                *self.missed.entry(goal).or_default() += 1;
            }
        }
        let mut operations = BTreeMap::<u32, u64>::new();
        for (thread, site) in walked.performed {
            if self.meeting.contains(&site) {
                *operations.entry(thread).or_default() += 1;
            }
        }
        for (thread, count) in operations {
            let most = self.operations.entry(thread).or_default();
            *most = count.max(*most);
        }
        self.length = self.length.max(walked.length);
        self.walks += 1;
    }
}

/// What one walk has seen.
#[derive(Default)]
pub(crate) struct Walked {
    pub pairs: BTreeSet<Pair>,
    /// The orders that it aimed at.
    pub goals: Vec<Pair>,
    /// Who did something where.
    pub performed: Vec<(u32, u64)>,
    pub length: u32,
}

#[derive(Default)]
struct State {
    known: Arc<Known>,
    /// The first walk of the generation that is under way.
    first: u64,
    walked: BTreeMap<u64, Walked>,
    is_over: bool,
}

/// What the walks of all workers have seen.
#[derive(Default)]
pub(crate) struct Pairs {
    state: Mutex<State>,
    news: Condvar,
}

/// The first generations are smaller: what guides the next ones is to be known soon.
fn generation_after(first: u64) -> u64 {
    match first {
        0 => 1,
        _ => first + first.min(GENERATION),
    }
}

impl Pairs {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the walk with this number begins with. Waits for the walks of the generations before, which others may be making.
    pub fn known_to(&self, walk: u64) -> Arc<Known> {
        let mut state = self.lock();
        while !state.is_over && walk >= generation_after(state.first) {
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Arc::clone(&state.known)
    }

    /// A walk has come to its end. Returns how many pairs were seen by the end of the last generation.
    pub fn add(&self, walk: u64, walked: Walked) -> u64 {
        let mut state = self.lock();
        state.walked.insert(walk, walked);
        let next = generation_after(state.first);
        if state.walked.len() as u64 == next - state.first {
            let walked = std::mem::take(&mut state.walked);
            let known = Arc::make_mut(&mut state.known);
            for (number, walked) in walked {
                known.add(number, walked);
            }
            state.first = next;
            self.news.notify_all();
        }
        state.known.seen.len() as u64
    }

    /// Nobody needs to wait any more.
    pub fn close(&self) {
        self.lock().is_over = true;
        self.news.notify_all();
    }

    /// What was seen in all; `None` if there were no such walks.
    pub fn coverage(&self) -> Option<PairCoverage> {
        let mut state = self.lock();
        let walked = std::mem::take(&mut state.walked);
        let known = Arc::make_mut(&mut state.known);
        for (number, walked) in walked {
            known.add(number, walked);
        }
        let half = known.walks / 2;
        (known.walks > 0).then(|| PairCoverage {
            walks: known.walks,
            pairs: known.seen.len() as u64,
            new_in_later_half: known.seen.values().filter(|&&walk| walk >= half).count() as u64,
        })
    }
}

/// Who touched an object last in a walk.
#[derive(Clone, Default)]
pub(crate) struct Touched {
    /// Who changed it, or took hold of it.
    pub writer: Option<(u32, u64)>,
    /// Who has looked at it since.
    pub readers: Vec<(u32, u64)>,
}

/// The place of an operation, with what happens to it; of one that has none, its thread.
pub(crate) fn place_of(candidate: &Candidate) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let Choice { thread, alternative } = candidate.choice;
    let place = match candidate.place {
        0 => u64::from(thread) + 1,
        place => place,
    };
    place ^ u64::from(alternative).wrapping_mul(SPREAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(pairs: &[Pair], goals: &[Pair]) -> Walked {
        Walked {
            pairs: pairs.iter().copied().collect(),
            goals: goals.to_vec(),
            ..Walked::default()
        }
    }

    #[test]
    fn the_order_that_was_not_seen_is_aimed_at_but_not_for_ever() {
        let pairs = Pairs::default();
        pairs.add(0, walked(&[(1, 2), (3, 3)], &[]));
        assert_eq!(pairs.known_to(1).goals().0, [(2, 1)]);
        pairs.add(1, walked(&[], &[(2, 1)]));
        pairs.add(2, walked(&[], &[(2, 1)]));
        assert_eq!(
            pairs.known_to(3).goals().0,
            [(2, 1)],
            "walk 3 is of the generation of 2"
        );
        pairs.add(3, walked(&[], &[(2, 1)]));
        assert_eq!(pairs.known_to(4).goals(), (vec![], vec![(1, 2), (2, 1)]));
    }

    #[test]
    fn what_a_walk_knows_does_not_depend_on_who_was_faster() {
        let (one, other) = (Pairs::default(), Pairs::default());
        let first = || walked(&[(1, 2)], &[]);
        one.add(0, first());
        other.add(0, first());
        one.add(1, walked(&[(2, 1)], &[]));
        other.add(1, walked(&[(2, 1)], &[]));
        one.add(2, walked(&[(4, 5)], &[]));
        one.add(3, walked(&[(6, 7)], &[]));
        other.add(3, walked(&[(6, 7)], &[]));
        other.add(2, walked(&[(4, 5)], &[]));
        assert_eq!(one.known_to(4).goals(), other.known_to(4).goals());
        assert_eq!(one.coverage(), other.coverage());
        let coverage = one.coverage().unwrap_or_default();
        assert_eq!(
            (coverage.walks, coverage.pairs, coverage.new_in_later_half),
            (4, 4, 2)
        );
        assert_eq!(coverage.new_per_thousand(), 1000);
    }
}
