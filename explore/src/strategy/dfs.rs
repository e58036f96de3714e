//! Depth first: a stack. The canonical order of choices makes it deterministic, and the stack is exactly the current path, which dynamic
//! reduction relies on.
//!
//! With a bound, what lies deeper is put off until all else is explored; then the bound is doubled. So a path without an end (a server's loop that
//! counts) keeps nobody from the rest. What is put off keeps its node, so nothing is explored twice.

use super::Frontier;
use crate::tree::{NodeId, Tree};
use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct Dfs {
    stack: Vec<NodeId>,
    /// Below this there is nothing to do on the stack.
    idle_below: usize,
    /// Nodes as deep as this are put off.
    bound: Option<u32>,
    /// In the order in which they were reached, which is that of the bounds.
    put_off: VecDeque<NodeId>,
}

impl Dfs {
    pub fn new(bound: Option<u32>) -> Self {
        Self {
            bound,
            ..Self::default()
        }
    }

    /// Takes up the first node that was put off, and goes deeper for it if nothing is left up to the bound.
    fn take_up(&mut self, tree: &Tree) -> bool {
        let Some(node) = self.put_off.pop_front() else {
            return false;
        };
        let depth = tree[node].depth;
        if let Some(bound) = &mut self.bound {
            while *bound <= depth {
                *bound = bound.saturating_mul(2).max(1);
                if *bound == u32::MAX {
                    break;
                }
            }
        }
        self.stack.push(node);
        true
    }
}

impl Frontier for Dfs {
    fn reached(&mut self, tree: &mut Tree, node: NodeId) {
        if self.bound.is_some_and(|bound| tree[node].depth >= bound) {
            self.put_off.push_back(node);
        } else {
            self.stack.push(node);
        }
    }

    fn next(&mut self, tree: &mut Tree) -> Option<(NodeId, usize)> {
        loop {
            while let Some(&node) = self.stack.last() {
                if let Some(position) = tree[node].todo.pop_front() {
                    return Some((node, position));
                }
                self.stack.pop();
                self.idle_below = self.idle_below.min(self.stack.len());
                tree.release(node);
            }
            if !self.take_up(tree) {
                return None;
            }
        }
    }

    fn spare(&mut self, tree: &Tree) -> Option<NodeId> {
        let is_busy = |node: NodeId| !tree[node].todo.is_empty();
        // What has nothing to do stays so, so that a long path is not looked at from its start again and again.
        let busy = (self.idle_below..self.stack.len()).find(|&i| is_busy(self.stack[i]));
        let put_off = || self.put_off.iter().rev().copied().find(|&node| is_busy(node));
        let Some(first) = busy else {
            return put_off().filter(|_| self.put_off.len() > 1);
        };
        self.idle_below = first;
        let other = (first + 1..self.stack.len())
            .rev()
            .any(|i| is_busy(self.stack[i]));
        if other {
            return Some(self.stack[first]);
        }
        put_off()
    }

    fn newest_marks_first(&self) -> bool {
        true
    }
}
