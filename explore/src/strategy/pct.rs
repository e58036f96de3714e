//! Probabilistic concurrency testing: every thread has a random priority and the highest that can runs; at `depth - 1` random steps the
//! running thread falls below all others.
//!
//! A thread that yields of its own accord (it is enabled, but switching away from it is no preemption) falls too, or a spin loop of high
//! priority would never end.

use super::{Dice, Frontier};
use crate::Progress;
use crate::tree::{NodeId, Tree};
use hashbrown::HashMap;
use std::sync::atomic::Ordering::Relaxed;

pub(super) struct Pct<'a> {
    seed: u64,
    depth: u32,
    steps: Option<u32>,
    progress: &'a Progress,
    dice: Dice,
    at: Option<NodeId>,
    /// Higher runs first. Initial ones are positive, lowered ones negative.
    priorities: HashMap<u32, i64>,
    /// Depths at which the running thread falls.
    changes: Vec<u32>,
    lowest: i64,
}

impl<'a> Pct<'a> {
    pub fn new(seed: u64, depth: u32, steps: Option<u32>, progress: &'a Progress) -> Self {
        let dice = Dice::new(seed, 0);
        let (priorities, changes) = (HashMap::new(), Vec::new());
        Self {
            seed,
            depth,
            steps,
            progress,
            dice,
            at: None,
            priorities,
            changes,
            lowest: 0,
        }
    }

    fn fall(&mut self, thread: u32) {
        self.lowest -= 1;
        self.priorities.insert(thread, self.lowest);
    }

    fn priority(&mut self, thread: u32) -> i64 {
        let dice = &mut self.dice;
        *self
            .priorities
            .entry(thread)
            .or_insert_with(|| (dice.any() >> 2) as i64 + 1)
    }
}

impl Frontier for Pct<'_> {
    fn begin(&mut self, walk: u64) {
        self.dice = Dice::new(self.seed, walk);
        self.priorities.clear();
        self.lowest = 0;
        let steps = self
            .steps
            .map_or_else(|| self.progress.max_depth.load(Relaxed), u64::from)
            .max(1);
        self.changes.clear();
        for _ in 1..self.depth {
            self.changes
                .push(u32::try_from(self.dice.below(steps)).unwrap_or(u32::MAX));
        }
    }

    fn reached(&mut self, tree: &mut Tree, node: NodeId) {
        if let Some(before) = self.at.replace(node) {
            tree.release(before);
        }
    }

    fn next(&mut self, tree: &mut Tree) -> Option<(NodeId, usize)> {
        let id = self.at?;
        let todo = std::mem::take(&mut tree[id].todo);
        let node = &tree[id];
        if todo.is_empty() {
            self.at = None;
            tree.release(id);
            return None;
        }
        let last = node.via.thread;
        if node.parent.is_some() && node.menu.running.is_none() && node.menu.offers(last) {
            self.fall(last);
        }
        let mut threads: Vec<u32> = todo.iter().map(|&p| node.menu.choices[p].choice.thread).collect();
        threads.dedup();
        for &thread in &threads {
            self.priority(thread);
        }
        let falls = self.changes.iter().filter(|&&at| at == node.depth).count();
        for _ in 0..falls {
            if let Some(&top) = threads.iter().max_by_key(|&t| self.priorities[t]) {
                self.fall(top);
            }
        }
        let top = threads.iter().copied().max_by_key(|t| self.priorities[t])?;
        let of_top: Vec<usize> = todo
            .into_iter()
            .filter(|&p| node.menu.choices[p].choice.thread == top)
            .collect();
        Some((id, of_top[self.dice.below(of_top.len() as u64) as usize]))
    }

    fn spare(&mut self, _: &Tree) -> Option<NodeId> {
        None
    }
}
