//! In the order of preemptions: everything without any, then with one, with two, and so on, in one search ([`Strategy::ByPreemptions`](crate::Strategy)).
//!
//! A choice in a state has a *level*: the fewest preemptions of a schedule that takes it there. What a schedule can still do depends on the state and on who ran
//! last, and who ran last is part of the step that led there. So no step need be taken twice: if a state is come to again by another step, then with the
//! choice that goes on with *that* thread for nothing, and if this makes a choice cheaper than was planned, it is explored at the lower level in place of
//! the higher one ([`Visited::claim`](crate::visited::Visited::claim)). **Why nothing is missing when a level is done**: take a schedule with so many
//! preemptions. By induction on its length, each of its steps was taken, from the same state, at a level no higher than what the schedule has paid by then: the step
//! before it was, so its state was arrived at with the same thread running at no higher a price, and this step was planned there, or had been, at no
//! higher a price than that arrival offers.
//!
//! There is no reduction: which of two equivalent schedules is kept does not matter to sleep sets, but one may need more preemptions than the other. So the
//! whole search takes each step of the state graph once, where sleep sets take about one step per state.

use crate::progress::add;
use crate::tree::{Node, NodeId};
use crate::worker::{Arrival, Done, Worker};
use crate::{Choice, Menu, System};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How far a search in the order of preemptions has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deepened {
    /// All schedules with at most so many preemptions were explored; `None`: not even all of those without any.
    pub complete: Option<u32>,
    /// The first number of preemptions with which not all is explored.
    pub next: u32,
    /// Steps that need so many preemptions and were explored.
    pub explored: u64,
    /// Such steps that are known by now, explored or not. There may be more.
    pub known: u64,
}

#[derive(Clone, Copy, Default)]
struct Level {
    explored: u64,
    known: u64,
}

/// The account of all levels, kept by all workers together.
#[derive(Default)]
pub(crate) struct Levels(Mutex<BTreeMap<u32, Level>>);

impl Levels {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Level>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan(&self, level: u32) {
        self.lock().entry(level).or_default().known += 1;
    }

    /// What was planned at this level is explored at a lower one.
    fn drop_one(&self, level: u32) {
        self.lock().entry(level).or_default().known -= 1;
    }

    fn explored(&self, level: u32) {
        self.lock().entry(level).or_default().explored += 1;
    }

    /// The first level that is not done, with all below it; `None` if nothing is left to do.
    pub fn deepened(&self) -> Option<Deepened> {
        let levels = self.lock();
        let (&next, level) = levels.iter().find(|(_, level)| level.explored < level.known)?;
        Some(Deepened {
            complete: next.checked_sub(1),
            next,
            explored: level.explored,
            known: level.known,
        })
    }
}

impl<S: System> Worker<'_, S> {
    pub(crate) fn is_in_order(&self) -> bool {
        self.shared.config.strategy == crate::Strategy::ByPreemptions
    }

    /// With how many preemptions each choice of a state is explored that was reached with some.
    pub(crate) fn levels_of(&self, menu: &Menu, preemptions: u32) -> Vec<u32> {
        if !self.is_in_order() {
            return Vec::new();
        }
        let level = |choice: Choice| preemptions + self.shared.cost(menu, choice);
        menu.choices.iter().map(|c| level(c.choice)).collect()
    }

    /// Sees what is to be done in a state that was just reached, and not reached before at this price.
    pub(crate) fn arrive_in_order(&mut self, arrival: Arrival, id: Option<u128>) -> Done<S> {
        let shared = self.shared;
        let menu = self.menu(&arrival)?;
        let levels = self.levels_of(&menu, arrival.so_far.preemptions);
        let bound = shared.config.bound_preemptions.unwrap_or(u32::MAX);
        let mut offers: Vec<usize> = (0..levels.len()).collect();
        offers.retain(|&position| levels[position] <= bound);
        if offers.len() < levels.len() {
            shared.withheld.store(true, Relaxed);
        }
        let priced = |&position: &usize| (menu.choices[position].choice, levels[position]);
        let priced: Vec<_> = offers.iter().map(priced).collect();
        let key = id.filter(|_| shared.config.hash);
        let limit = shared.config.limits.depth;
        if limit.is_some_and(|limit| arrival.depth >= limit) && !menu.choices.is_empty() {
            add(&shared.progress.schedules, 1);
            if key.is_some_and(|key| shared.visited.is_claimed(key, &priced)) {
                self.count_arrival(&arrival, id, false);
            } else {
                add(&shared.progress.cut_paths, 1);
            }
            return Ok(());
        }
        let mut is_new = true;
        if let Some(key) = key {
            let claim = shared.visited.claim(key, &priced);
            is_new = claim.is_new;
            offers = claim.claimed.into_iter().map(|i| offers[i]).collect();
        }
        self.count_arrival(&arrival, id, is_new);
        if menu.choices.is_empty() {
            shared.ended(None, is_new);
            self.check_clean(&arrival);
            return Ok(());
        }
        if offers.is_empty() {
            add(&shared.progress.schedules, 1);
            return Ok(());
        }
        for &position in &offers {
            shared.levels.plan(levels[position]);
        }
        let mut node = Node::new(arrival.via, arrival.depth, menu, offers.into());
        node.parent = arrival.parent;
        node.id = id;
        node.levels = levels;
        node.so_far = arrival.so_far;
        self.place(node)
    }

    /// Whether a choice is still to be explored from this node: it may be cheaper elsewhere by now.
    pub(crate) fn is_due(&self, id: NodeId, position: usize) -> bool {
        let node = &self.tree[id];
        let (Some(&level), Some(key)) = (node.levels.get(position), node.id) else {
            return true;
        };
        let choice = node.menu.choices[position].choice;
        let is_due = !self.shared.config.hash || self.shared.visited.is_due(key, choice, level);
        if !is_due {
            self.shared.levels.drop_one(level);
        }
        is_due
    }

    /// A choice was explored.
    pub(crate) fn has_explored(&self, level: Option<u32>) {
        if let Some(level) = level {
            self.shared.levels.explored(level);
        }
    }
}
