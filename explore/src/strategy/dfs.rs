//! Depth first: a stack. The canonical order of choices makes it deterministic, and the stack is exactly the current path, which dynamic
//! reduction relies on.

use super::Frontier;
use crate::tree::{NodeId, Tree};

#[derive(Default)]
pub(super) struct Dfs {
    stack: Vec<NodeId>,
    /// Below this there is nothing to do on the stack.
    idle_below: usize,
}

impl Frontier for Dfs {
    fn reached(&mut self, _: &mut Tree, node: NodeId) {
        self.stack.push(node);
    }

    fn next(&mut self, tree: &mut Tree) -> Option<(NodeId, usize)> {
        while let Some(&node) = self.stack.last() {
            if let Some(position) = tree[node].todo.pop_front() {
                return Some((node, position));
            }
            self.stack.pop();
            self.idle_below = self.idle_below.min(self.stack.len());
            tree.release(node);
        }
        None
    }

    fn spare(&mut self, tree: &Tree) -> Option<NodeId> {
        let busy = |&i: &usize| !tree[self.stack[i]].todo.is_empty();
        // What has nothing to do stays so, so that a long path is not looked at from its start again and again.
        self.idle_below = (self.idle_below..self.stack.len()).find(busy)?;
        let other = (self.idle_below + 1..self.stack.len()).rev().any(|i| busy(&i));
        other.then(|| self.stack[self.idle_below])
    }

    fn newest_marks_first(&self) -> bool {
        true
    }
}
