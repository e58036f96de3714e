//! Random walks: at each state one choice, all equally likely.

use super::{Dice, Frontier};
use crate::tree::{NodeId, Tree};

pub(super) struct Random {
    seed: u64,
    dice: Dice,
    at: Option<NodeId>,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            dice: Dice::new(seed, 0),
            at: None,
        }
    }
}

impl Frontier for Random {
    fn begin(&mut self, walk: u64) {
        self.dice = Dice::new(self.seed, walk);
    }

    fn reached(&mut self, tree: &mut Tree, node: NodeId) {
        if let Some(before) = self.at.replace(node) {
            tree.release(before);
        }
    }

    fn next(&mut self, tree: &mut Tree) -> Option<(NodeId, usize)> {
        let node = self.at?;
        let todo = std::mem::take(&mut tree[node].todo);
        match todo.len() as u64 {
            // Taken already, and nothing was reached by it: the walk is over.
            0 => {
                self.at = None;
                tree.release(node);
                None
            }
            n => Some((node, todo[self.dice.below(n) as usize])),
        }
    }

    fn spare(&mut self, _: &Tree) -> Option<NodeId> {
        None
    }
}
