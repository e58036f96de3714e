//! Partial-order reductions: which schedules can be left out, and what is kept.
//!
//! Two schedules are *equivalent* if one becomes the other by swapping adjacent independent operations (see
//! [`Footprint::conflicts`](crate::Footprint::conflicts)). Equivalent schedules lead to the same state. Both reductions here explore at
//! least one schedule of every equivalence class of schedules that run to their end. So they preserve
//!
//! - every end state, and so every **deadlock** and every **outcome** (the order of two writes to one output is part of the outcome, and it is
//!   preserved because the writes share that output as an object, so they are dependent);
//! - every **violation that is local**: one that depends on the violating operation, its thread and the objects in its footprint, like a failed
//!   assertion or a crash. A property of the momentary global state ("never are these two variables different") is not preserved, unless its
//!   variables are in the footprints of what changes them, as one object.
//!
//! An operation that ends all others (an exit, a crash) is dependent with everything. The system says so by
//! [`Footprint::and_ending`](crate::Footprint::and_ending), before or after the step. The engine also sees it by itself where a thread that was
//! enabled before is gone after the step, or where a path ends with a violation and nothing is left.
//!
//! # Sleep sets
//! Leave out transitions, never states. After exploring `t` and then going on to its sibling `u`, `t` *sleeps* below `u` until something
//! dependent with it is executed: `ut` leads where `tu` led.
//!
//! With a visited set they are combined by Godefroid's rule: the choices that slept at all visits are kept with the state, and a visit where some of
//! them are awake explores just those. **Why this is right in any order of search**, breadth first or by many workers, and with cycles: claim that if
//! a state `s` was reached with sleep set `Z`, and the word `v` can be executed from `s`, and no first operation of any word equivalent to
//! `v` is in `Z`, then `s·v` is reached. By induction on the length of `v`: let `I` be the set of operations that a word equivalent to `v` can
//! begin with. None is in `Z`, so each was explored from `s`, at exactly one of the visits to it. Of the last visit that explored any of `I`, take `i`,
//! the first in the order of that visit, with `v` equivalent to `i·w`. Below `i` sleeps only what sleeps on after that visit (not in `I`, for all of `I`
//! was explored by then) or precedes `i` in it (not in `I`, `i` being first) and is independent of `i`. What `w` can begin with and is independent of
//! `i`, `v` can begin with. So the claim holds for `s·i` and `w`. Nothing in this depends on the order *in time* between visits, or between siblings.
//!
//! # Dynamic partial-order reduction
//! Stateless: explores few choices at first and goes back to add others when the path shows that they matter (source sets: Abdulla and others, JACM 2017), with
//! sleep sets on top.
//!
//! # Cycles
//! A stateful search ends on a cyclic state space; since sleep sets drop no states there is no ignoring problem. A stateless search does not, reduced or
//! not: give it a depth limit. What is cut off there cannot show its races, so with `Dpor` less may be found up to that depth than without reduction; the
//! coverage is reported as incomplete in any case.

pub(crate) mod dpor;
pub(crate) mod sleep;

pub(crate) use sleep::Sleeper;

use crate::System;
use crate::progress::add;
use crate::tree::NodeId;
use crate::worker::Worker;
use std::sync::atomic::Ordering::Relaxed;

impl<S: System> Worker<'_, S> {
    /// A search ends early, before another choice of this node: how many steps would it have taken in all?
    pub(crate) fn estimate(&self, node: NodeId) {
        let progress = self.shared.progress;
        if let Some(steps) = self.estimated(node) {
            add(&progress.estimated_steps, steps);
        }
    }

    /// How many steps a search takes in all that has come to another choice of this node.
    ///
    /// Where so many of the choices of a node are done, the same share of what is below it is, if they are all alike (Knuth, *Estimating the efficiency of
    /// backtrack programs*, 1975). For dynamic reduction, choices may be asked for that are not known yet, mostly early and far down. For a search that remembers
    /// states the first choices lead to most of them, so that it takes less than that.
    pub(crate) fn estimated(&self, node: NodeId) -> Option<u64> {
        let is_whole = self.shared.plan.jobs == 1 && self.shared.config.strategy == crate::Strategy::Dfs;
        if !is_whole {
            return None;
        }
        let (mut share, mut next) = (0.0, Some(node));
        while let Some(id) = next {
            let node = &self.tree[id];
            let planned = node.planned.iter().filter(|planned| **planned).count();
            let done = planned.saturating_sub(node.todo.len() + 1);
            share = (done as f64 + share) / planned.max(1) as f64;
            next = node.parent;
        }
        let steps = self.shared.progress.transitions.load(Relaxed);
        (share > 0.0).then(|| (steps as f64 / share) as u64)
    }
}
