//! The communication trees as a picture: a page of its own, that needs nothing but a browser.
//!
//! Time goes from left to right. A box is something that the SUT wrote and what the peer answered to it; where schedules differ in what they
//! write, the tree forks. Every leaf is a conversation that a real peer has had.

use crate::store::TreeKey;
use crate::tree::Tree;
use crate::world::PeerWorld;
use std::fmt::Write as _;

/// A picture of more boxes than this is none.
const MAX_BOXES: usize = 4_000;
const CHARACTER: usize = 7;
const LINE: usize = 16;
const PADDING: usize = 6;
const GAP: usize = 14;
const BETWEEN: usize = 46;
/// Longer lines are cut; the whole is shown when the mouse rests on it.
const LONGEST: usize = 34;

/// One box, in the order of a walk from the root.
struct Item {
    parent: Option<usize>,
    depth: usize,
    written: String,
    answers: Vec<String>,
    counts: String,
    /// The height of everything right of it, and where it begins.
    room: usize,
    top: usize,
}

impl Item {
    fn height(&self) -> usize {
        (1 + self.answers.len() + usize::from(!self.counts.is_empty())) * LINE + 2 * PADDING
    }

    fn lines(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let written = [("wrote", self.written.clone())].into_iter();
        let answers = self
            .answers
            .iter()
            .map(|answer| ("answer", format!("← {answer}")));
        let counts = Some(("counts", self.counts.clone())).filter(|(_, text)| !text.is_empty());
        written.chain(answers).chain(counts)
    }
}

fn items(key: &TreeKey, tree: &Tree) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    // The parent's item, and a node that hangs there.
    let mut todo: Vec<(Option<usize>, u32)> = vec![(None, 0)];
    while let Some((mut parent, id)) = todo.pop() {
        for stretch in tree.stretches(id) {
            let depth = parent.map_or(0, |parent| items[parent].depth + 1);
            let is_root = id == 0;
            items.push(Item {
                parent,
                depth,
                written: if is_root {
                    key.to_string()
                } else {
                    format!("→ {}", stretch.text)
                },
                counts: if is_root { String::new() } else { stretch.counts() },
                answers: stretch.answers,
                room: 0,
                top: 0,
            });
            parent = Some(items.len() - 1);
            todo.extend(stretch.branches.iter().rev().map(|&child| (parent, child)));
        }
    }
    place(&mut items);
    items
}

/// Gives every box the room that it or what follows it needs, whichever is more.
fn place(items: &mut [Item]) {
    for index in (0..items.len()).rev() {
        items[index].room = items[index].room.max(items[index].height() + GAP);
        if let Some(parent) = items[index].parent {
            // Children come after their parents, so a parent has no own height in its sum yet.
            items[parent].room += items[index].room;
        }
    }
    let mut used: Vec<usize> = vec![0; items.len()];
    for index in 1..items.len() {
        if let Some(parent) = items[index].parent {
            items[index].top = items[parent].top + used[parent];
            used[parent] += items[index].room;
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// One tree as an SVG picture.
fn svg(out: &mut String, key: &TreeKey, tree: &Tree) {
    let items = items(key, tree);
    if items.len() > MAX_BOXES {
        let _ = writeln!(out, "<p>{} boxes are too many to draw.</p>", items.len());
        return;
    }
    let depths = items.iter().map(|item| item.depth).max().unwrap_or(0) + 1;
    let mut widths = vec![0; depths];
    for item in &items {
        let longest = item.lines().map(|(_, line)| cut(&line).chars().count()).max();
        widths[item.depth] = widths[item.depth].max(longest.unwrap_or(0) * CHARACTER + 2 * PADDING + 4);
    }
    let lefts: Vec<usize> = widths
        .iter()
        .scan(1, |left, width| {
            let here = *left;
            *left += width + BETWEEN;
            Some(here)
        })
        .collect();
    let (width, height) = (
        lefts[depths - 1] + widths[depths - 1] + 2,
        items.first().map_or(0, |root| root.room),
    );
    let _ = writeln!(out, "<svg width=\"{width}\" height=\"{height}\">");
    for item in &items {
        if let Some(parent) = item.parent.map(|parent| &items[parent]) {
            let (x1, x2) = (lefts[parent.depth] + widths[parent.depth], lefts[item.depth]);
            let (y1, y2) = (
                parent.top + parent.height() / 2 + 1,
                item.top + item.height() / 2 + 1,
            );
            let bend = x1 + BETWEEN / 2;
            let _ = writeln!(out, "<path d=\"M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}\"/>");
        }
    }
    for item in &items {
        draw(out, item, lefts[item.depth], widths[item.depth]);
    }
    out.push_str("</svg>\n");
}

fn draw(out: &mut String, item: &Item, left: usize, width: usize) {
    let class = if item.parent.is_none() { "root" } else { "node" };
    let whole: Vec<String> = item.lines().map(|(_, line)| escaped(&line)).collect();
    let _ = writeln!(
        out,
        "<g class=\"{class}\"><title>{}</title><rect x=\"{left}\" y=\"{}\" width=\"{width}\" height=\"{}\" rx=\"5\"/>",
        whole.join("\n"),
        item.top + 1,
        item.height()
    );
    for (number, (class, line)) in item.lines().enumerate() {
        let y = item.top + 1 + PADDING + number * LINE + LINE / 2;
        let _ = writeln!(
            out,
            "<text class=\"{class}\" x=\"{}\" y=\"{y}\">{}</text>",
            left + PADDING + 2,
            escaped(&cut(&line))
        );
    }
    out.push_str("</g>\n");
}

const STYLE: &str = "
:root { --back: #fff; --text: #1c2430; --dim: #6b7684; --line: #7c8798; --node: #e3f6f5; --edge: #0b7285; --answer: #8a4b08; }
@media (prefers-color-scheme: dark) { :root { --back: #14181f; --text: #e4e8ee; --dim: #93a0b1; --line: #8b97a8; --node: #14363b; --edge: #4cc9d6; --answer: #ffb03a; } }
body { margin: 16px 20px; background: var(--back); color: var(--text); font: 14px/1.5 system-ui, 'DejaVu Sans', sans-serif; }
h1 { font-size: 18px; } h2 { font-size: 15px; margin: 22px 0 6px; } p { color: var(--dim); max-width: 70em; }
.tree { overflow-x: auto; }
svg text { font: 11.5px ui-monospace, 'DejaVu Sans Mono', monospace; fill: var(--text); dominant-baseline: central; }
svg .answer { fill: var(--answer); } svg .counts { fill: var(--dim); font-size: 10.5px; } svg .root .wrote { font-weight: 600; }
svg rect { fill: var(--node); stroke: var(--edge); stroke-width: 1.2; } svg .root rect { fill: none; stroke: var(--line); }
svg path { fill: none; stroke: var(--line); stroke-width: 1.5; }
";

impl PeerWorld {
    /// All trees as a page, with a picture of each.
    #[must_use]
    pub fn render_html(&self) -> String {
        let counters = self.counters();
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Communication trees · tracefork</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>Communication trees</h1>\n\
             <p>All that was said on each connection, in all schedules. → what the program wrote, ← what the peer answered. A fork: schedules that \
             wrote different things. A <b>miss</b> was told to a real peer, a <b>hit</b> was answered from here. Every leaf is one real conversation.</p>\n\
             <p>{} hits, {} misses; {} logical and {} physical connections.</p>\n",
            counters.hits, counters.misses, counters.logical_connections, counters.physical_connections
        );
        for (key, tree) in self.trees() {
            let note = if tree.refused.is_some() { ", refused" } else { "" };
            let _ = writeln!(
                out,
                "<h2>{}</h2>\n<p>{} hits, {} misses, {} leaves{note}</p>\n<div class=\"tree\">",
                escaped(&key.to_string()),
                tree.hits,
                tree.misses,
                tree.leaves()
            );
            svg(&mut out, key, tree);
            out.push_str("</div>\n");
        }
        out.push_str("</body>\n</html>\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Write;

    #[test]
    fn no_two_boxes_overlap_and_children_are_right_of_their_parents() {
        let mut tree = Tree::default();
        for way in [&["a", "b", "c"][..], &["a", "x"], &["q"], &["a", "b", "d"]] {
            let mut at = Tree::root();
            for data in way {
                at = tree.insert(at, 0, Write::Bytes(data.as_bytes()));
            }
        }
        let items = items(&TreeKey::Client(0), &tree);
        // The root, and one box for each stretch: a, b, c, d, x, q.
        assert_eq!(items.len(), 7);
        for (index, one) in items.iter().enumerate() {
            if let Some(parent) = one.parent {
                assert_eq!(one.depth, items[parent].depth + 1);
            }
            for other in items[index + 1..].iter().filter(|other| other.depth == one.depth) {
                let apart = one.top + one.height() <= other.top || other.top + other.height() <= one.top;
                assert!(apart, "{} and {} overlap", one.written, other.written);
            }
        }
    }
}
