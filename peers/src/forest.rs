//! All communication trees, by number and by what they belong to.

use crate::error::show;
use crate::path::Step;
use crate::position::Segment;
use crate::store::TreeKey;
use crate::tree::{Pos, Tree};
use std::collections::HashMap;
use std::ops::{Index, IndexMut};

#[derive(Debug, Default)]
pub(crate) struct Forest {
    trees: Vec<Tree>,
    keys: Vec<TreeKey>,
    index: HashMap<TreeKey, usize>,
}

impl Index<usize> for Forest {
    type Output = Tree;

    fn index(&self, tree: usize) -> &Tree {
        &self.trees[tree]
    }
}

impl IndexMut<usize> for Forest {
    fn index_mut(&mut self, tree: usize) -> &mut Tree {
        &mut self.trees[tree]
    }
}

impl Forest {
    pub(crate) fn key(&self, tree: usize) -> &TreeKey {
        &self.keys[tree]
    }

    pub(crate) fn find(&self, key: &TreeKey) -> Option<usize> {
        self.index.get(key).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TreeKey, &Tree)> {
        self.keys.iter().zip(&self.trees)
    }

    /// The tree of this key, and whether it is a new one.
    pub(crate) fn tree_of(&mut self, key: TreeKey) -> (usize, bool) {
        if let Some(tree) = self.find(&key) {
            return (tree, false);
        }
        self.adopt(key, Tree::default());
        (self.trees.len() - 1, true)
    }

    /// Adds a tree, from a file or a new one.
    pub(crate) fn adopt(&mut self, key: TreeKey, tree: Tree) {
        self.index.insert(key.clone(), self.trees.len());
        self.keys.push(key);
        self.trees.push(tree);
    }

    /// How many clients the trees tell of.
    pub(crate) fn client_count(&self) -> u32 {
        let clients = self.keys.iter().map(|key| match key {
            TreeKey::Client(index) => index + 1,
            TreeKey::Server(..) | TreeKey::Process(_) => 0,
        });
        clients.max().unwrap_or(0)
    }

    /// Do the connections of both trees go to the same place?
    pub(crate) fn lead_to_the_same(&self, one: usize, other: usize) -> bool {
        match (self.key(one), self.key(other)) {
            (TreeKey::Server(one, _), TreeKey::Server(other, _)) => one == other,
            _ => false,
        }
    }

    /// What an instance was told up to `pos`, for messages.
    pub(crate) fn told(&self, tree: usize, pos: Pos) -> String {
        let mut text = String::new();
        for step in self[tree].steps(Tree::root(), pos) {
            let Step::Write { segment, .. } = step else {
                continue;
            };
            match segment {
                Segment::Bytes(data) | Segment::Datagram(data) => text.push_str(&show(&data)),
                Segment::Fin => text.push_str("<end>"),
                Segment::Reset => text.push_str("<reset>"),
                Segment::Close => text.push_str("<close>"),
                Segment::From(name) => text.push_str(&format!("<goes on from {name}>")),
                Segment::Open(address) => text.push_str(&format!("<connects to {address}>")),
            }
        }
        text
    }
}
