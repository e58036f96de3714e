//! Communication trees: everything ever said between the SUT and one peer instance, in all schedules.
//!
//! A tree is a trie of what the SUT *wrote*. The peer's side hangs on it as *marks*: a position that was polled has a mark with what the
//! peer said since the mark before it. This is the papers' tree of write and read nodes with one change: reads are attached to the write position
//! that they follow and not nodes of their own. For a deterministic peer the reads are a function of the writes, so a position is a position in the writes and
//! a count of what was read, and nothing has to move when a poll in the middle of a segment shows that part of an answer came earlier.
//!
//! Nodes are never split: children hang at any offset of a segment. So a position, once handed out, stays valid while the tree
//! grows. And there is exactly one position for every string of writes, so that `AB` written at once and `A`, `B` written apart meet.

use crate::address::Address;
use crate::answer::{Answer, Channel, StreamEnd};
pub use crate::position::{At, Cursor, Pos, Write};
use crate::position::{EMPTY_PATH, Segment};
use crate::sorted::Sorted;
use crate::timers::Timer;
use serde::{Deserialize, Serialize};

/// What is known about one channel up to a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Heard {
    pub(crate) units: u64,
    pub(crate) opened: bool,
    pub(crate) end: StreamEnd,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// Said since the mark above.
    pub(crate) answer: Answer,
    #[serde(deserialize_with = "crate::bounded::vec")]
    pub(crate) heard: Vec<Heard>,
    pub(crate) exit: Option<i32>,
    /// Bytes that the peer was told on a channel and has left unread, now that it rests. Channels without any are not listed.
    #[serde(deserialize_with = "crate::bounded::vec")]
    pub(crate) unread: Vec<(Channel, u64)>,
    /// What is known of the peer's timers. It is found out again by who has the peer.
    #[serde(skip, default = "Timer::unknown")]
    pub(crate) timer: Timer,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) parent: Option<Pos>,
    pub(crate) channel: Channel,
    pub(crate) segment: Segment,
    #[serde(deserialize_with = "crate::bounded::vec")]
    pub(crate) children: Vec<(u32, u32)>,
    pub(crate) marks: Sorted<u32, Mark>,
    /// SUT writes that ended in this node without reaching the peer.
    pub(crate) hits: u64,
}

impl Node {
    pub(crate) fn segment_len(&self) -> u32 {
        self.segment.len()
    }
}

/// What can be read at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readable {
    /// So many bytes (or datagrams).
    Data(u64),
    /// The stream has ended.
    Eof,
    /// The connection was reset.
    Reset,
    /// The stream has ended, and what is said to the peer reaches nobody.
    Closed,
    /// The server has others to serve first.
    Held,
    /// The peer waits for us.
    Nothing,
    /// This position was never polled.
    Unknown,
}

/// How a write fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// All of it is in the tree.
    Hit(At),
    /// Only the first `matched` symbols are; `diverges` if the tree goes on differently there.
    Miss {
        /// Symbols found.
        matched: usize,
        /// Where the tree was left.
        at: At,
        /// There is something else in the tree after `at`.
        diverges: bool,
    },
}

/// An answer that contradicts what is already known further down the tree.
#[derive(Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// What the tree holds.
    pub expected: Answer,
    /// What came now.
    pub actual: Answer,
}

/// Everything said with one peer instance.
///
/// A file for each topic: writes and answers are here, what can be read in `heard`, paths through it in `path`, what was left unread in `unread`, timers in `timers`,
/// what a file may hold in `sound`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tree {
    #[serde(deserialize_with = "crate::bounded::vec")]
    pub(crate) nodes: Vec<Node>,
    /// The connection did not come to be: nobody listened there, or there was no way. The error's number.
    pub refused: Option<i32>,
    /// SUT write calls that this tree served.
    pub hits: u64,
    /// SUT write calls that went to the peer.
    pub misses: u64,
}

impl Default for Tree {
    fn default() -> Tree {
        let root = Node {
            parent: None,
            channel: 0,
            segment: Segment::Bytes(Vec::new()),
            children: Vec::new(),
            marks: Sorted::default(),
            hits: 0,
        };
        Tree {
            nodes: vec![root],
            refused: None,
            hits: 0,
            misses: 0,
        }
    }
}

impl Tree {
    /// The root: connected (or launched), nothing written.
    #[must_use]
    pub fn root() -> At {
        At {
            pos: Pos { node: 0, offset: 0 },
            path: EMPTY_PATH,
        }
    }

    /// The cursor of a connection that was just opened.
    #[must_use]
    pub fn start() -> Cursor {
        Cursor {
            r: 0,
            w: Tree::root(),
        }
    }

    /// The canonical identity of a cursor, a hash of the content of its path.
    #[must_use]
    pub fn cursor_id(&self, cursor: Cursor) -> u128 {
        cursor.id()
    }

    pub(crate) fn node(&self, pos: Pos) -> &Node {
        &self.nodes[pos.node as usize]
    }

    /// The child at exactly `pos` that begins with this write.
    fn child(&self, pos: Pos, channel: Channel, write: Write<'_>) -> Option<u32> {
        let starts_so = |node: &Node| {
            node.channel == channel
                && match (&node.segment, write) {
                    (Segment::Bytes(a), Write::Bytes(b)) => a.first() == b.first(),
                    (Segment::Datagram(a), Write::Datagram(b)) => a == b,
                    (Segment::Fin, Write::Fin)
                    | (Segment::Reset, Write::Reset)
                    | (Segment::Close, Write::Close) => true,
                    (Segment::From(a), Write::From(b)) => a == b,
                    (Segment::Open(a), Write::Open(b)) => a == b,
                    _ => false,
                }
        };
        let node = self.node(pos);
        node.children
            .iter()
            .filter(|&&(offset, _)| offset == pos.offset)
            .map(|&(_, id)| id)
            .find(|&id| starts_so(&self.nodes[id as usize]))
    }

    /// Was this address ever connected to, on any path?
    pub(crate) fn is_opened(&self, address: &Address) -> bool {
        let segments = self.nodes.iter().map(|node| &node.segment);
        segments
            .into_iter()
            .any(|segment| matches!(segment, Segment::Open(to) if to == address))
    }

    /// Nothing was ever written after `pos`.
    #[must_use]
    pub fn is_leaf(&self, pos: Pos) -> bool {
        let node = self.node(pos);
        pos.offset >= node.segment.len() && !node.children.iter().any(|&(offset, _)| offset >= pos.offset)
    }

    /// Follows a write down the tree, as far as it goes. Counts nothing and changes nothing.
    #[must_use]
    pub fn walk(&self, from: At, channel: Channel, write: Write<'_>) -> Walk {
        let Write::Bytes(data) = write else {
            let Some(id) = self.child(from.pos, channel, write) else {
                return Walk::Miss {
                    matched: 0,
                    at: from,
                    diverges: !self.is_leaf(from.pos),
                };
            };
            let path = self.nodes[id as usize].segment.fold(from.path, channel, 0, 1);
            return Walk::Hit(At {
                pos: Pos { node: id, offset: 1 },
                path,
            });
        };
        let (mut at, mut matched) = (from, 0);
        while matched < data.len() {
            let rest = &data[matched..];
            let (mut id, mut offset) = (at.pos.node, at.pos.offset);
            if let Some(child) = self.child(at.pos, channel, Write::Bytes(rest)) {
                (id, offset) = (child, 0);
            }
            let node = &self.nodes[id as usize];
            let common = match &node.segment {
                Segment::Bytes(bytes) if node.channel == channel => bytes[offset as usize..]
                    .iter()
                    .zip(rest)
                    .take_while(|(a, b)| a == b)
                    .count(),
                _ => 0,
            };
            if common == 0 {
                return Walk::Miss {
                    matched,
                    at,
                    diverges: !self.is_leaf(at.pos),
                };
            }
            let to = offset + common as u32;
            at = At {
                pos: Pos { node: id, offset: to },
                path: node.segment.fold(at.path, channel, offset, to),
            };
            matched += common;
        }
        Walk::Hit(at)
    }

    /// The position after a write, which is added to the tree as far as it is not in it yet.
    pub fn insert(&mut self, from: At, channel: Channel, write: Write<'_>) -> At {
        let (matched, at) = match self.walk(from, channel, write) {
            Walk::Hit(at) => return at,
            Walk::Miss { matched, at, .. } => (matched, at),
        };
        let segment = match write {
            Write::Bytes(data) => Segment::Bytes(data[matched..].to_vec()),
            Write::Datagram(data) => Segment::Datagram(data.to_vec()),
            Write::Fin => Segment::Fin,
            Write::Reset => Segment::Reset,
            Write::Close => Segment::Close,
            Write::From(name) => Segment::From(name.to_owned()),
            Write::Open(address) => Segment::Open(address.clone()),
        };
        let (id, len) = (self.nodes.len() as u32, segment.len());
        let path = segment.fold(at.path, channel, 0, len);
        self.nodes.push(Node {
            parent: Some(at.pos),
            channel,
            segment,
            children: Vec::new(),
            marks: Sorted::default(),
            hits: 0,
        });
        self.nodes[at.pos.node as usize]
            .children
            .push((at.pos.offset, id));
        At {
            pos: Pos {
                node: id,
                offset: len,
            },
            path,
        }
    }

    /// A SUT write call on a connection: served from the tree (and counted as a hit), or not (and counted as a miss).
    pub fn write(&mut self, from: At, channel: Channel, write: Write<'_>) -> Walk {
        let walk = self.walk(from, channel, write);
        match walk {
            Walk::Hit(at) => {
                self.hits += 1;
                self.nodes[at.pos.node as usize].hits += 1;
            }
            Walk::Miss { .. } => self.misses += 1,
        }
        walk
    }

    /// What the peer said between the mark above `pos` and `pos`, if `pos` was polled: `response(w)`.
    #[must_use]
    pub fn answer(&self, pos: Pos) -> Option<&Answer> {
        self.node(pos).marks.get(pos.offset).map(|mark| &mark.answer)
    }

    /// The nearest mark at or above `pos`.
    pub(crate) fn last_mark(&self, mut pos: Pos) -> Option<(Pos, &Mark)> {
        loop {
            let node = self.node(pos);
            if let Some(&(offset, ref mark)) = node.marks.up_to(pos.offset) {
                return Some((
                    Pos {
                        node: pos.node,
                        offset,
                    },
                    mark,
                ));
            }
            pos = node.parent?;
        }
    }

    pub(crate) fn mark_above(&self, pos: Pos) -> Option<(Pos, &Mark)> {
        let node = self.node(pos);
        if let Some(&(offset, ref mark)) = node.marks.before(pos.offset) {
            return Some((
                Pos {
                    node: pos.node,
                    offset,
                },
                mark,
            ));
        }
        self.last_mark(node.parent?)
    }

    /// Puts down what a poll at `pos` brought. A second poll adds to the first: the peer was late.
    ///
    /// # Errors
    /// The answer contradicts what a poll further down has brought. The tree is then unchanged.
    pub fn record(&mut self, pos: Pos, said: &Answer) -> Result<(), Contradiction> {
        // What was said here had until now counted as part of the next answers below: it must be their beginning.
        let mut below = Vec::new();
        for next in self.marks_below(pos) {
            let Some(known) = self.answer(next) else {
                continue;
            };
            let rest = known.strip_prefix(said);
            below.push((
                next,
                rest.ok_or_else(|| Contradiction {
                    expected: known.clone(),
                    actual: said.clone(),
                })?,
            ));
        }
        for (next, rest) in below {
            if let Some(mark) = self.nodes[next.node as usize].marks.get_mut(next.offset) {
                mark.answer = rest;
            }
        }
        let above = self
            .mark_above(pos)
            .map(|(_, mark)| (mark.heard.clone(), mark.exit))
            .unwrap_or_default();
        let mark = self.nodes[pos.node as usize].marks.entry(pos.offset);
        mark.answer.append(said.clone());
        (mark.heard, mark.exit) = above;
        for (channel, speech) in mark.answer.speeches() {
            let index = usize::from(channel);
            if mark.heard.len() <= index {
                mark.heard.resize(index + 1, Heard::default());
            }
            let heard = &mut mark.heard[index];
            heard.units += speech.units();
            heard.opened |= speech.opened.is_some();
            if speech.end != StreamEnd::Open {
                heard.end = speech.end;
            }
        }
        mark.exit = mark.exit.or(mark.answer.exit);
        Ok(())
    }

    /// The first marks below `pos` on every branch.
    fn marks_below(&self, pos: Pos) -> Vec<Pos> {
        let mut found = Vec::new();
        let mut todo = vec![pos];
        while let Some(Pos { node: id, offset }) = todo.pop() {
            let node = &self.nodes[id as usize];
            // A child's own positions start at 1; 0 stands for "from its beginning".
            let next = node.marks.after(offset).first().map(|entry| entry.0);
            if let Some(offset) = next {
                found.push(Pos { node: id, offset });
            }
            let reach = next.unwrap_or(u32::MAX);
            todo.extend(
                node.children
                    .iter()
                    .filter(|c| c.0 >= offset && c.0 < reach)
                    .map(|c| Pos { node: c.1, offset: 0 }),
            );
        }
        found
    }
}
