//! The explored part of the state space that is still needed: the nodes with something left to do, and the paths to them.
//!
//! Depth first this is the stack, breadth first the queue with all its paths, in a random walk the one path. Nodes are slots in an arena; a
//! node lives while a frontier holds it or one of its children lives. Marks are kept elsewhere (by slot), so that nothing here depends
//! on the system that is searched.

use crate::reduce::Sleeper;
use crate::{Choice, Footprint, Menu};
use std::collections::VecDeque;

pub(crate) type NodeId = usize;

pub(crate) struct Node {
    pub parent: Option<NodeId>,
    /// The choice that led here from the parent.
    pub via: Choice,
    /// Steps from the initial state.
    pub depth: u32,
    /// At the root of a tree: the choices from the initial state to it.
    pub prefix: Box<[Choice]>,
    /// The identity of the state, where identities are asked for.
    pub id: Option<u128>,
    pub menu: Menu,
    /// Positions in `menu.choices` that are to be explored, in this order.
    pub todo: VecDeque<usize>,
    /// Positions in `menu.choices` that were put into `todo` at some time.
    pub planned: Vec<bool>,
    pub reduced: Reduced,
    pub so_far: SoFar,
    /// In the order of preemptions: with how many on the path each position of `menu.choices` is explored. Empty otherwise.
    pub levels: Vec<u32>,
    uses: Uses,
}

/// What reductions know of a state.
#[derive(Default)]
pub(crate) struct Reduced {
    /// Threads that dynamic reduction has asked for.
    pub requested: Vec<u32>,
    /// For threads that it has asked for: the operations that it is after, in their order.
    pub ways: Vec<(u32, Vec<Choice>)>,
    /// What need not be explored here, and what was explored already.
    pub sleep: Vec<Sleeper>,
}

/// What was on the path to a state.
#[derive(Clone, Copy, Default)]
pub(crate) struct SoFar {
    pub preemptions: u32,
    /// A violation was seen.
    pub violated: bool,
}

/// What keeps a node alive.
struct Uses {
    children: usize,
    /// By a frontier.
    held: bool,
}

impl Node {
    pub fn new(via: Choice, depth: u32, menu: Menu, todo: VecDeque<usize>) -> Self {
        let mut planned = vec![false; menu.choices.len()];
        for &position in &todo {
            planned[position] = true;
        }
        Self {
            parent: None,
            via,
            depth,
            prefix: Box::default(),
            id: None,
            menu,
            todo,
            planned,
            reduced: Reduced::default(),
            so_far: SoFar::default(),
            levels: Vec::new(),
            uses: Uses {
                children: 0,
                held: true,
            },
        }
    }

    pub fn is_asleep(&self, choice: Choice) -> bool {
        self.reduced.sleep.iter().any(|s| s.choice == choice)
    }

    /// Whether what begins with a choice is explored from here, or need not be.
    pub fn covers(&self, choice: Choice) -> bool {
        self.reduced.requested.contains(&choice.thread) || self.is_asleep(choice)
    }

    /// Positions that are neither planned nor asleep: what dynamic reduction may still ask for.
    pub fn unplanned(&self) -> usize {
        let awake = |(i, &planned): (usize, &bool)| !planned && !self.is_asleep(self.menu.choices[i].choice);
        self.planned.iter().enumerate().filter(|&p| awake(p)).count()
    }

    /// Frees what only reductions look at, before the node is put off for long.
    pub fn slim(&mut self) {
        self.menu.blocked = Vec::new();
        self.planned = Vec::new();
        for candidate in &mut self.menu.choices {
            candidate.footprint = Footprint::local();
        }
    }

    /// What is to be done after a choice, if that is on a way.
    pub fn way_after(&mut self, choice: Choice) -> Vec<Choice> {
        let Some(index) = self.reduced.ways.iter().position(|way| way.0 == choice.thread) else {
            return Vec::new();
        };
        let mut way = self.reduced.ways.swap_remove(index).1;
        // It comes first of those that it does not depend on.
        if let Some(first) = way.iter().position(|c| c.thread == choice.thread) {
            way.remove(first);
        }
        way
    }

    /// Plans all choices of a thread that are awake.
    pub fn request(&mut self, thread: u32) {
        if !self.reduced.requested.contains(&thread) {
            self.reduced.requested.push(thread);
        }
        for position in 0..self.menu.choices.len() {
            let choice = self.menu.choices[position].choice;
            if choice.thread == thread && !self.planned[position] && !self.is_asleep(choice) {
                self.planned[position] = true;
                self.todo.push_back(position);
            }
        }
    }
}

#[derive(Default)]
pub(crate) struct Tree {
    slots: Vec<Option<Node>>,
    free: Vec<NodeId>,
    /// Slots whose nodes are gone, until [`Tree::reap`].
    dead: Vec<NodeId>,
}

impl std::ops::Index<NodeId> for Tree {
    type Output = Node;
    fn index(&self, id: NodeId) -> &Node {
        self.slots[id]
            .as_ref()
            .expect("a node id is only kept while its node lives")
    }
}

impl std::ops::IndexMut<NodeId> for Tree {
    fn index_mut(&mut self, id: NodeId) -> &mut Node {
        self.slots[id]
            .as_mut()
            .expect("a node id is only kept while its node lives")
    }
}

impl Tree {
    /// Adds a node that a frontier holds.
    pub fn insert(&mut self, node: Node) -> NodeId {
        if let Some(parent) = node.parent {
            self[parent].uses.children += 1;
        }
        match self.free.pop() {
            Some(id) => {
                self.slots[id] = Some(node);
                id
            }
            None => {
                self.slots.push(Some(node));
                self.slots.len() - 1
            }
        }
    }

    /// A frontier lets go of a node; it and the ancestors that only led to it are removed.
    pub fn release(&mut self, id: NodeId) {
        self[id].uses.held = false;
        let mut next = Some(id);
        while let Some(id) = next {
            let node = &self[id];
            if node.uses.held || node.uses.children > 0 {
                return;
            }
            next = node.parent;
            self.slots[id] = None;
            self.dead.push(id);
            if let Some(parent) = next {
                self[parent].uses.children -= 1;
            }
        }
    }

    /// The slots of removed nodes; they may be used again from now on.
    pub fn reap(&mut self) -> Vec<NodeId> {
        let dead = std::mem::take(&mut self.dead);
        self.free.extend(&dead);
        dead
    }

    /// The choices from the initial state to a node.
    pub fn path(&self, id: NodeId) -> Vec<Choice> {
        let mut path = Vec::new();
        let mut node = &self[id];
        while let Some(parent) = node.parent {
            path.push(node.via);
            node = &self[parent];
        }
        path.extend(node.prefix.iter().rev());
        path.reverse();
        path
    }

    /// How many nodes live.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(parent: Option<NodeId>, thread: u32) -> Node {
        Node {
            parent,
            ..Node::new(Choice::of(thread), 0, Menu::default(), VecDeque::new())
        }
    }

    #[test]
    fn a_branch_dies_with_its_last_leaf() {
        let mut tree = Tree::default();
        let root = tree.insert(node(None, 0));
        let a = tree.insert(node(Some(root), 1));
        let b = tree.insert(node(Some(a), 2));
        assert_eq!(tree.path(b), [Choice::of(1), Choice::of(2)]);
        tree.release(root);
        tree.release(a);
        assert_eq!(tree.len(), 3);
        tree.release(b);
        assert_eq!(tree.len(), 0);
        assert_eq!(tree.reap(), [b, a, root]);
        assert_eq!(tree.insert(node(None, 0)), root);
    }
}
