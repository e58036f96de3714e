//! Ways through a tree: from one position to another, and what is said on the way.

use crate::answer::Channel;
use crate::position::Segment;
use crate::tree::{At, Node, Pos, Tree};

/// A step on the way from one position to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Write {
        channel: Channel,
        segment: Segment,
        to: At,
    },
    Check(Pos),
}

impl Tree {
    /// `pos` lies on the path from the root to `to`.
    #[must_use]
    pub fn on_path(&self, pos: Pos, mut to: Pos) -> bool {
        loop {
            if to.node == pos.node {
                return pos.offset <= to.offset;
            }
            match self.node(to).parent {
                Some(parent) => to = parent,
                None => return false,
            }
        }
    }

    /// What must be said, and what must then have been answered, on the way from `from` (on the path) to `to`.
    pub(crate) fn steps(&self, from: At, to: Pos) -> Vec<Step> {
        let mut ranges = Vec::new();
        let mut pos = to;
        loop {
            let start = if pos.node == from.pos.node {
                from.pos.offset
            } else {
                0
            };
            ranges.push((pos.node, start, pos.offset));
            match self.node(pos).parent {
                Some(parent) if pos.node != from.pos.node => pos = parent,
                _ => break,
            }
        }
        let (mut steps, mut path) = (Vec::new(), from.path);
        for (id, start, end) in ranges.into_iter().rev() {
            let node = &self.nodes[id as usize];
            if end <= start {
                continue;
            }
            let marks = node.marks.after(start).iter().map(|entry| entry.0);
            let marks = marks.take_while(|&offset| offset <= end);
            let mut begin = start;
            for stop in marks.chain(Some(end)) {
                if stop > begin {
                    path = node.segment.fold(path, node.channel, begin, stop);
                    let segment = match &node.segment {
                        Segment::Bytes(bytes) => {
                            Segment::Bytes(bytes[begin as usize..stop as usize].to_vec())
                        }
                        whole => whole.clone(),
                    };
                    let pos = Pos {
                        node: id,
                        offset: stop,
                    };
                    steps.push(Step::Write {
                        channel: node.channel,
                        segment,
                        to: At { pos, path },
                    });
                    if node.marks.get(stop).is_some() {
                        steps.push(Step::Check(pos));
                    }
                }
                begin = stop;
            }
        }
        steps
    }

    /// What was written on `channel` on the path to `to`, and whether it was finished.
    #[must_use]
    pub fn written(&self, channel: Channel, to: Pos) -> (Vec<u8>, bool) {
        let (mut bytes, mut fin) = (Vec::new(), false);
        for step in self.steps(Tree::root(), to) {
            match step {
                Step::Write {
                    channel: c,
                    segment: Segment::Bytes(b) | Segment::Datagram(b),
                    ..
                } if c == channel => bytes.extend(b),
                Step::Write {
                    channel: c,
                    segment: Segment::Fin | Segment::Reset | Segment::Close,
                    ..
                } if c == channel => fin = true,
                _ => {}
            }
        }
        (bytes, fin)
    }

    /// Where the tree goes on after `pos`: in the same node, or at the start of the first child.
    pub(crate) fn first_below(&self, pos: Pos) -> (u32, u32) {
        let child = self
            .node(pos)
            .children
            .iter()
            .find(|&&(offset, _)| offset == pos.offset);
        child.map_or((pos.node, pos.offset), |&(_, id)| (id, 0))
    }

    /// The number of leaves: how many connections (or client starts) it takes to see all of this tree.
    #[must_use]
    pub fn leaves(&self) -> usize {
        let end = |(id, node): (usize, &Node)| Pos {
            node: id as u32,
            offset: node.segment.len(),
        };
        self.nodes
            .iter()
            .enumerate()
            .map(end)
            .filter(|&pos| self.is_leaf(pos))
            .count()
    }
}
