//! Breadth first over the states where there is something to choose: a queue. A state with a single choice is not left and returned to (that would
//! need a mark, or a re-execution); it is run through at once, so the levels count decisions, not steps.

use super::Frontier;
use crate::tree::{NodeId, Tree};
use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct Bfs {
    queue: VecDeque<NodeId>,
}

impl Frontier for Bfs {
    fn reached(&mut self, tree: &mut Tree, node: NodeId) {
        if tree[node].todo.len() == 1 {
            self.queue.push_front(node);
        } else {
            self.queue.push_back(node);
        }
    }

    fn next(&mut self, tree: &mut Tree) -> Option<(NodeId, usize)> {
        while let Some(&node) = self.queue.front() {
            if let Some(position) = tree[node].todo.pop_front() {
                return Some((node, position));
            }
            self.queue.pop_front();
            tree.release(node);
        }
        None
    }

    fn spare(&mut self, tree: &Tree) -> Option<NodeId> {
        let mut busy = self
            .queue
            .iter()
            .copied()
            .filter(|&node| !tree[node].todo.is_empty());
        let first = busy.next()?;
        busy.next_back().map(|_| first)
    }
}
