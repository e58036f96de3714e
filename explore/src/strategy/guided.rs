//! Walks that guide themselves. Each has a *manner* by which it takes its next step, drawn by lot:
//!
//! - random priorities of threads with a few changes (PCT, Burckhardt and others, ASPLOS 2010);
//! - random priorities of operations, drawn anew where something conflicting was done (partial order sampling, Yuan, Yang, Gu, CAV 2018);
//! - selectively uniform (Zhao and others, ASPLOS 2025): operations that meet nobody else's are done at once, and of the others a thread's come with a probability
//!   by how many it has still to do, so that all interleavings of what matters are about as likely;
//! - every choice as likely as any other.
//!
//! And most have *goals*: orders of two operations that were not seen yet ([`crate::pairs`]). Threads that come to the one are held back until another thread has done the
//! other, or until there is nobody else to move. What a manner finds in one of a hundred thousand walks (that one of a hundred threads comes
//! before all the others at its second lock, but not at its first) is then found in a few.

use super::{Dice, Frontier};
use crate::pairs::{Known, Pair, Pairs, Touched, Walked, place_of};
use crate::tree::{Node, NodeId, Tree};
use crate::{Access, Candidate, Footprint, Progress};
use hashbrown::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Goals of one walk, at most.
const GOALS: u64 = 3;
/// Steps of one thread in a row, while others could move: it may wait for one that is held back.
const TURN: u32 = 200;
/// Changes of priorities in a walk, at most.
const CHANGES: u64 = 3;

enum Manner {
    Threads {
        /// Higher runs first. Initial ones are positive, lowered ones negative.
        priorities: HashMap<u32, i64>,
        /// Depths at which the running thread falls.
        changes: Vec<u32>,
        lowest: i64,
    },
    Operations {
        /// Of the operation that each thread stands before.
        priorities: HashMap<u32, u64>,
    },
    Uniform {
        /// How many operations that meet others each thread has performed.
        performed: HashMap<u32, u64>,
    },
    Any,
}

/// Threads at one place wait until another has been at the other.
struct Goal {
    first: u64,
    then: u64,
    is_met: bool,
}

pub(super) struct Guided<'a> {
    seed: u64,
    pairs: &'a Pairs,
    progress: &'a Progress,
    dice: Dice,
    at: Option<NodeId>,
    /// The walk that is under way.
    walk: Option<u64>,
    known: Arc<Known>,
    manner: Manner,
    goals: Vec<Goal>,
    touched: HashMap<u64, Touched>,
    walked: Walked,
    /// Who moves, and for how many steps now.
    turn: (u32, u32),
}

impl<'a> Guided<'a> {
    pub fn new(seed: u64, pairs: &'a Pairs, progress: &'a Progress) -> Self {
        Self {
            seed,
            pairs,
            progress,
            dice: Dice::new(seed, 0),
            at: None,
            walk: None,
            known: Arc::default(),
            manner: Manner::Any,
            goals: Vec::new(),
            touched: HashMap::new(),
            walked: Walked::default(),
            turn: (0, 0),
        }
    }

    /// One that goes on and on is followed by another, and whoever is held back may go.
    fn others(&mut self, node: &Node, todo: &[usize]) -> Option<Vec<usize>> {
        let (thread, steps) = self.turn;
        let is_other = |position: &usize| node.menu.choices[*position].choice.thread != thread;
        let others: Vec<usize> = todo.iter().copied().filter(is_other).collect();
        if steps < TURN || others.is_empty() {
            return None;
        }
        self.goals.clear();
        if let Manner::Threads {
            priorities, lowest, ..
        } = &mut self.manner
        {
            *lowest -= 1;
            priorities.insert(thread, *lowest);
        }
        Some(others)
    }

    fn draw_manner(&mut self) -> Manner {
        match self.dice.below(4) {
            0 => {
                let length = u64::from(self.known.length.max(1));
                let changes = 0..self.dice.below(CHANGES + 1);
                let dice = &mut self.dice;
                Manner::Threads {
                    priorities: HashMap::new(),
                    changes: changes
                        .map(|_| u32::try_from(dice.below(length)).unwrap_or(u32::MAX))
                        .collect(),
                    lowest: 0,
                }
            }
            1 => Manner::Operations {
                priorities: HashMap::new(),
            },
            2 => Manner::Uniform {
                performed: HashMap::new(),
            },
            _ => Manner::Any,
        }
    }

    /// Orders that were never seen before others. One walk in four has none.
    fn draw_goals(&mut self) -> Vec<Goal> {
        let (open, all) = self.known.goals();
        let count = self.dice.below(GOALS + 1);
        let mut goals: Vec<Goal> = Vec::new();
        for number in 0..count {
            let from = if open.is_empty() || number > 0 && self.dice.below(2) == 0 {
                &all
            } else {
                &open
            };
            if from.is_empty() {
                break;
            }
            let (first, then) = from[self.dice.below(from.len() as u64) as usize];
            // Two goals that contradict each other would hold back both.
            if !goals.iter().any(|goal| goal.then == first) {
                goals.push(Goal {
                    first,
                    then,
                    is_met: false,
                });
            }
        }
        goals
    }

    /// The choices that no goal holds back; all, if there is nothing else.
    fn free(&self, node: &Node, todo: &[usize]) -> Vec<usize> {
        let is_held = |position: &usize| {
            let candidate = &node.menu.choices[*position];
            let site = place_of(candidate);
            self.goals.iter().any(|goal| !goal.is_met && goal.then == site)
        };
        let free: Vec<usize> = todo.iter().copied().filter(|p| !is_held(p)).collect();
        if free.is_empty() { todo.to_vec() } else { free }
    }

    /// An operation is about to be performed: which orders does that show?
    fn perform(&mut self, node: &Node, candidate: &Candidate) {
        let thread = candidate.choice.thread;
        let site = place_of(candidate);
        for goal in self.goals.iter_mut().filter(|goal| goal.first == site) {
            // Not if it is the one that would have to wait.
            let waits = |c: &Candidate| c.choice.thread != thread && place_of(c) == goal.then;
            goal.is_met |= node.menu.choices.iter().chain(&node.menu.blocked).any(waits);
        }
        let footprint = &candidate.footprint;
        for &(object, access) in footprint.accesses() {
            // Whoever lets go of a lock hands it over, which can come in no other order.
            if footprint.releases(object) {
                continue;
            }
            let touched = self.touched.entry(object).or_default();
            let others = touched
                .writer
                .iter()
                .chain(touched.readers.iter().filter(|_| access == Access::Write));
            let before = others.filter(|other| other.0 != thread).map(|other| other.1);
            self.walked.pairs.extend(before.map(|before| (before, site)));
            match access {
                Access::Write => {
                    *touched = Touched {
                        writer: Some((thread, site)),
                        readers: Vec::new(),
                    }
                }
                Access::Read => touched.readers.push((thread, site)),
            }
        }
        self.walked.performed.push((thread, site));
        self.turn = match self.turn {
            (before, steps) if before == thread => (thread, steps + 1),
            _ => (thread, 1),
        };
        self.walked.length = node.depth + 1;
    }

    /// The walk is over, if one is under way.
    fn finish(&mut self) {
        let walked = std::mem::take(&mut self.walked);
        if let Some(walk) = self.walk.take() {
            let seen = self.pairs.add(walk, walked);
            self.progress.pairs.store(seen, Relaxed);
        }
    }

    fn choose(&mut self, node: &Node, free: &[usize]) -> usize {
        let choices = &node.menu.choices;
        let thread_at = |position: usize| choices[position].choice.thread;
        let mut threads: Vec<u32> = free.iter().map(|&p| thread_at(p)).collect();
        threads.dedup();
        let dice = &mut self.dice;
        let thread = match &mut self.manner {
            Manner::Threads {
                priorities,
                changes,
                lowest,
            } => {
                let mut fall = |priorities: &mut HashMap<u32, i64>, thread| {
                    *lowest -= 1;
                    priorities.insert(thread, *lowest);
                };
                for &thread in &threads {
                    priorities
                        .entry(thread)
                        .or_insert_with(|| (dice.any() >> 2) as i64 + 1);
                }
                let last = node.via.thread;
                if node.parent.is_some() && node.menu.running.is_none() && node.menu.offers(last) {
                    fall(priorities, last);
                }
                let top =
                    |priorities: &HashMap<u32, i64>| threads.iter().copied().max_by_key(|t| priorities[t]);
                for _ in changes.iter().filter(|&&depth| depth == node.depth) {
                    if let Some(thread) = top(priorities) {
                        fall(priorities, thread);
                    }
                }
                top(priorities)
            }
            Manner::Operations { priorities } => {
                for &thread in &threads {
                    priorities.entry(thread).or_insert_with(|| dice.any());
                }
                threads.iter().copied().max_by_key(|t| priorities[t])
            }
            Manner::Uniform { performed } => {
                let meets = |position: &usize| {
                    let candidate = &choices[*position];
                    self.known.meets(place_of(candidate))
                };
                let alone = free.iter().copied().find(|position| !meets(position));
                let left = |thread: u32| {
                    let done = performed.get(&thread).copied().unwrap_or(0);
                    self.known.operations(thread).saturating_sub(done).max(1)
                };
                let mut lot = dice.below(threads.iter().map(|&t| left(t)).sum::<u64>().max(1));
                let drawn = threads.iter().copied().find(|&thread| {
                    let is_drawn = lot < left(thread);
                    lot = lot.saturating_sub(left(thread));
                    is_drawn
                });
                alone.map(thread_at).or(drawn)
            }
            Manner::Any => Some(threads[dice.below(threads.len() as u64) as usize]),
        };
        let thread = thread.unwrap_or(threads[0]);
        let of_thread: Vec<usize> = free.iter().copied().filter(|&p| thread_at(p) == thread).collect();
        of_thread[dice.below(of_thread.len() as u64) as usize]
    }

    /// What the manner keeps of what is performed.
    fn follow(&mut self, node: &Node, candidate: &Candidate) {
        let thread = candidate.choice.thread;
        match &mut self.manner {
            Manner::Operations { priorities } => {
                let meets = |footprint: &Footprint| footprint.conflicts(&candidate.footprint);
                priorities.remove(&thread);
                for other in node.menu.choices.iter().filter(|c| meets(&c.footprint)) {
                    priorities.remove(&other.choice.thread);
                }
            }
            Manner::Uniform { performed } => {
                if self.known.meets(place_of(candidate)) {
                    *performed.entry(thread).or_default() += 1;
                }
            }
            Manner::Threads { .. } | Manner::Any => {}
        }
    }
}

impl Frontier for Guided<'_> {
    fn begin(&mut self, walk: u64) {
        self.finish();
        self.known = self.pairs.known_to(walk);
        self.walk = Some(walk);
        self.dice = Dice::new(self.seed, walk);
        self.touched.clear();
        self.turn = (0, 0);
        self.manner = self.draw_manner();
        self.goals = self.draw_goals();
        let goals = self
            .goals
            .iter()
            .map(|goal: &Goal| -> Pair { (goal.first, goal.then) });
        self.walked.goals = goals.collect();
    }

    fn reached(&mut self, tree: &mut Tree, node: NodeId) {
        if let Some(before) = self.at.replace(node) {
            tree.release(before);
        }
    }

    fn next(&mut self, tree: &mut Tree) -> Option<(NodeId, usize)> {
        let Some(id) = self.at else {
            self.finish();
            return None;
        };
        let todo: Vec<usize> = std::mem::take(&mut tree[id].todo).into();
        if todo.is_empty() {
            // Taken already, and nothing was reached by it: the walk is over.
            self.at = None;
            tree.release(id);
            self.finish();
            return None;
        }
        let node = &tree[id];
        let free = self.others(node, &todo).unwrap_or_else(|| self.free(node, &todo));
        let position = self.choose(node, &free);
        let candidate = node.menu.choices[position].clone();
        self.follow(node, &candidate);
        self.perform(node, &candidate);
        Some((id, position))
    }

    fn spare(&mut self, _: &Tree) -> Option<NodeId> {
        None
    }
}
