//! Straight ahead: a thread goes on as long as it can, then the next one in turn. One that yields, or goes on and on while others wait, has its turn
//! when it comes round again, so that a program which ends in fair schedules comes to its end.

use super::Frontier;
use crate::tree::{Node, NodeId, Tree};

/// Steps of one thread in a row, while others could move.
const TURN: u32 = 500;

#[derive(Default)]
pub(super) struct Straight {
    at: Option<NodeId>,
    /// Who moves, and for how many steps now.
    turn: (u32, u32),
}

impl Straight {
    /// The choice to take, as a position in the menu: the running thread's, or that of the next one in turn. Of the alternatives of an
    /// operation the first, which is what happens if nothing goes wrong.
    fn choose(&mut self, node: &Node) -> usize {
        let (thread, steps) = self.turn;
        let menu = &node.menu;
        let goes_on = menu.running == Some(thread) && menu.offers(thread) && steps < TURN;
        let threads = menu.threads();
        let next = if goes_on {
            thread
        } else {
            let later = threads.iter().copied().find(|&other| other > thread);
            later.or(threads.first().copied()).unwrap_or(thread)
        };
        self.turn = if next == thread {
            (thread, steps + 1)
        } else {
            (next, 1)
        };
        let is_next = |choice: &crate::Candidate| choice.choice.thread == next;
        menu.choices.iter().position(is_next).unwrap_or(0)
    }
}

impl Frontier for Straight {
    fn begin(&mut self, _: u64) {
        self.turn = (0, 0);
    }

    fn reached(&mut self, tree: &mut Tree, node: NodeId) {
        if let Some(before) = self.at.replace(node) {
            tree.release(before);
        }
    }

    fn next(&mut self, tree: &mut Tree) -> Option<(NodeId, usize)> {
        let node = self.at?;
        if std::mem::take(&mut tree[node].todo).is_empty() {
            // Taken already, and nothing was reached by it: the walk is over.
            self.at = None;
            tree.release(node);
            return None;
        }
        Some((node, self.choose(&tree[node])))
    }

    fn spare(&mut self, _: &Tree) -> Option<NodeId> {
        None
    }
}
