//! Trees for people: indented text, and a graph for `dot`. The page with pictures is in [`picture`](crate::picture).

use crate::error::{lines, show};
use crate::position::Segment;
use crate::store::TreeKey;
use crate::tree::{Pos, Tree};
use crate::world::PeerWorld;
use std::fmt::Write as _;

/// A stretch of a node between two places at which something happens: a mark, a branch, its end.
pub(crate) struct Stretch {
    /// What the SUT wrote; empty if nothing, at the root.
    pub(crate) text: String,
    pub(crate) answers: Vec<String>,
    pub(crate) hits: u64,
    /// Writes that had to be told to the peer: each made a node.
    pub(crate) misses: u64,
    pub(crate) branches: Vec<u32>,
}

impl Stretch {
    /// What the cache did here.
    pub(crate) fn counts(&self) -> String {
        format!("hits {}, misses {}", self.hits, self.misses)
    }
}

fn said(channel: u16, segment: &Segment, from: u32, to: u32) -> String {
    let text = match segment {
        Segment::Bytes(bytes) => format!("\"{}\"", show(&bytes[from as usize..to as usize])),
        Segment::Datagram(bytes) => format!("[{}]", show(bytes)),
        Segment::Fin => String::from("<end>"),
        Segment::Reset => String::from("<reset>"),
        Segment::Close => String::from("<close>"),
        Segment::Open(address) => format!("<connects to {address}>"),
        Segment::From(name) => format!("<goes on from {name}>"),
    };
    if channel == 0 {
        text
    } else {
        format!("#{channel} {text}")
    }
}

impl Tree {
    pub(crate) fn stretches(&self, id: u32) -> Vec<Stretch> {
        let node = &self.nodes[id as usize];
        let len = node.segment_len();
        let mut stops: Vec<u32> = node
            .marks
            .keys()
            .chain(node.children.iter().map(|c| c.0))
            .chain([len])
            .collect();
        stops.sort_unstable();
        stops.dedup();
        let mut begin = 0;
        let mut all = Vec::new();
        for stop in stops {
            all.push(Stretch {
                text: if stop > begin {
                    said(node.channel, &node.segment, begin, stop)
                } else {
                    String::new()
                },
                answers: node
                    .marks
                    .get(stop)
                    .filter(|m| !m.answer.is_empty())
                    .map(|m| lines(&m.answer))
                    .unwrap_or_default(),
                hits: if stop == len { node.hits } else { 0 },
                misses: u64::from(stop == len && id > 0 && node.segment.is_a_write()),
                branches: node
                    .children
                    .iter()
                    .filter(|c| c.0 == stop)
                    .map(|c| c.1)
                    .collect(),
            });
            begin = stop;
        }
        all
    }

    /// The tree as text: `>` what the SUT wrote (and how many writes were served from here, or were not), `<` what the peer answered.
    #[must_use]
    pub fn render_text(&self) -> String {
        let mut out = String::new();
        let mut todo = vec![(0u32, 1usize)];
        while let Some((id, mut depth)) = todo.pop() {
            let stretches = self.stretches(id);
            let last = stretches.len() - 1;
            for (number, stretch) in stretches.into_iter().enumerate() {
                let indent = "  ".repeat(depth);
                if !stretch.text.is_empty() {
                    let _ = writeln!(out, "{indent}> {}  ({})", stretch.text, stretch.counts());
                }
                for line in stretch.answers {
                    let _ = writeln!(out, "{indent}< {line}");
                }
                // The node may go on itself, which is one way more.
                let ways = stretch.branches.len() + usize::from(number < last);
                depth += usize::from(ways > 1 && !stretch.branches.is_empty());
                todo.extend(stretch.branches.iter().rev().map(|&child| (child, depth)));
            }
        }
        out
    }

    /// What was written after `pos`, for messages: the first of the branches.
    pub(crate) fn continuation(&self, pos: Pos) -> String {
        let (id, offset) = self.first_below(pos);
        let node = &self.nodes[id as usize];
        said(node.channel, &node.segment, offset, node.segment_len())
    }
}

impl PeerWorld {
    /// All trees as text.
    #[must_use]
    pub fn render_text(&self) -> String {
        let mut out = String::new();
        for (key, tree) in self.trees() {
            let note = if tree.refused.is_some() { " (refused)" } else { "" };
            let _ = writeln!(
                out,
                "{key}{note}: hits {}, misses {}, leaves {}",
                tree.hits,
                tree.misses,
                tree.leaves()
            );
            out.push_str(&tree.render_text());
        }
        out
    }

    /// All trees as a graph in the dot language.
    #[must_use]
    pub fn render_dot(&self) -> String {
        let mut out = String::from("digraph trees {\n  node [shape=box, fontname=monospace];\n");
        for (t, (key, tree)) in self.trees().enumerate() {
            dot(&mut out, t, key, tree);
        }
        out.push_str("}\n");
        out
    }
}

fn dot(out: &mut String, t: usize, key: &TreeKey, tree: &Tree) {
    let quote = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let _ = writeln!(
        out,
        "  t{t}n0s0 [label=\"{}\", shape=ellipse];",
        quote(&key.to_string())
    );
    for id in 0..tree.nodes.len() as u32 {
        let stretches = tree.stretches(id);
        for (s, stretch) in stretches.iter().enumerate() {
            if id > 0 {
                let text: Vec<String> = [stretch.text.clone()]
                    .into_iter()
                    .chain(stretch.answers.iter().map(|a| format!("< {a}")))
                    .collect();
                let _ = writeln!(
                    out,
                    "  t{t}n{id}s{s} [label=\"{}\\l{}\\l\"];",
                    quote(&text.join("\u{1}")).replace('\u{1}', "\\l"),
                    stretch.counts()
                );
            }
            if s > 0 {
                let _ = writeln!(out, "  t{t}n{id}s{} -> t{t}n{id}s{s};", s - 1);
            }
            for child in &stretch.branches {
                let _ = writeln!(out, "  t{t}n{id}s{s} -> t{t}n{child}s0;");
            }
        }
    }
}
