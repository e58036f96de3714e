//! Depth first: a stack. The canonical order of choices makes it deterministic, and the stack is exactly the current path, which dynamic
//! reduction relies on.

use super::{Frontier, first_of_two};
use crate::tree::{NodeId, Tree};

#[derive(Default)]
pub(super) struct Dfs {
    stack: Vec<NodeId>,
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
            tree.release(node);
        }
        None
    }

    fn spare(&self, tree: &Tree) -> Option<NodeId> {
        first_of_two(tree, self.stack.iter().copied())
    }

    fn newest_marks_first(&self) -> bool {
        true
    }
}
