//! In the order of preemptions, depth first for each number of them: what costs more is put off until all else is explored.
//!
//! What is put off keeps its node, and the most recently reached comes first: its mark is there still, and those of its neighbours, to which the search comes next.
//! With a bound on the depth, paths that are twice, four times, … as long are put off like those with one, two, … preemptions more, so that a path without
//! an end keeps nobody from the rest.

use super::Frontier;
use crate::tree::{Node, NodeId, Tree};
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct ByPreemptions {
    stack: Vec<NodeId>,
    /// What ranks higher is put off.
    rank: u32,
    /// By rank. A node is here once for each rank above the current one that it has something to do at.
    put_off: BTreeMap<u32, Vec<NodeId>>,
    deepening: Option<u32>,
}

impl ByPreemptions {
    pub fn new(deepening: Option<u32>) -> Self {
        Self {
            deepening: deepening.map(|depth| depth.max(1)),
            ..Self::default()
        }
    }

    fn rank_of(&self, node: &Node, position: usize) -> u32 {
        let doublings = self.deepening.map_or(0, |depth| {
            (node.depth / depth).checked_ilog2().map_or(0, |log| log + 1)
        });
        node.levels[position] + doublings
    }

    fn is_due(&self, node: &Node, position: usize) -> bool {
        self.rank_of(node, position) <= self.rank
    }

    /// Takes up the most recent node that was put off until now.
    fn take_up(&mut self) -> bool {
        while let Some(mut entry) = self.put_off.first_entry().filter(|e| *e.key() <= self.rank) {
            if let Some(node) = entry.get_mut().pop() {
                self.stack.push(node);
                return true;
            }
            entry.remove();
        }
        false
    }
}

impl Frontier for ByPreemptions {
    fn reached(&mut self, tree: &mut Tree, node: NodeId) {
        let reached = &tree[node];
        let mut ranks: Vec<u32> = reached.todo.iter().map(|&p| self.rank_of(reached, p)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        if ranks.first().is_some_and(|&rank| rank <= self.rank) {
            self.stack.push(node);
        }
        for rank in ranks.into_iter().filter(|&rank| rank > self.rank) {
            self.put_off.entry(rank).or_default().push(node);
        }
    }

    fn next(&mut self, tree: &mut Tree) -> Option<(NodeId, usize)> {
        loop {
            while let Some(&node) = self.stack.last() {
                let todo = &tree[node].todo;
                if let Some(index) = todo.iter().position(|&p| self.is_due(&tree[node], p))
                    && let Some(position) = tree[node].todo.remove(index)
                {
                    return Some((node, position));
                }
                self.stack.pop();
                if tree[node].todo.is_empty() {
                    tree.release(node);
                } else {
                    tree[node].slim();
                }
            }
            if !self.take_up() {
                return None;
            }
        }
    }

    fn spare(&mut self, tree: &Tree) -> Option<NodeId> {
        let is_busy = |node: NodeId| tree[node].todo.iter().any(|&p| self.is_due(&tree[node], p));
        let mut busy = self.stack.iter().copied().filter(|&node| is_busy(node));
        let first = busy.next();
        let waiting = || {
            let due = self.put_off.iter().filter(|(rank, _)| **rank <= self.rank);
            due.flat_map(|(_, nodes)| nodes.iter().copied())
        };
        match first {
            Some(first) if busy.next_back().is_some() || waiting().next().is_some() => Some(first),
            _ => None,
        }
    }

    fn surrender(&mut self, tree: &mut Tree, node: NodeId) -> Vec<usize> {
        let todo = std::mem::take(&mut tree[node].todo);
        let (due, later): (Vec<usize>, Vec<usize>) =
            todo.into_iter().partition(|&p| self.is_due(&tree[node], p));
        tree[node].todo = later.into();
        due
    }

    fn newest_marks_first(&self) -> bool {
        true
    }

    fn put_off_until(&self) -> Option<u32> {
        let mut waiting = self.put_off.iter().filter(|(_, nodes)| !nodes.is_empty());
        waiting.next().map(|(&rank, _)| rank)
    }

    fn go_on_to(&mut self, rank: u32) {
        self.rank = rank;
    }
}
