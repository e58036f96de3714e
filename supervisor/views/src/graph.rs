//! The explored state graph, as the search saw it, in the language of Graphviz. As a page: `graph_page.rs`.

use explore::{Choice, Observer};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Transitions kept: beyond this no drawing helps anybody, and memory belongs to the search.
pub const MAX_EDGES: usize = 100_000;

/// Collects states and transitions while a search runs.
#[derive(Default)]
pub struct Graph(Mutex<Seen>);

#[derive(Default)]
pub(super) struct Seen {
    pub(super) depths: HashMap<u128, u32>,
    /// Where each choice leads, by the state it is made in.
    pub(super) edges: BTreeMap<(u128, Choice), BTreeSet<u128>>,
    pub(super) dropped: u64,
}

impl Observer for Graph {
    fn state(&self, id: u128, depth: u32) {
        let mut seen = self.seen();
        if seen.depths.len() <= MAX_EDGES {
            let known = seen.depths.entry(id).or_insert(depth);
            *known = (*known).min(depth);
        }
    }

    fn edge(&self, from: u128, choice: Choice, to: u128) {
        let mut seen = self.seen();
        if seen.edges.len() < MAX_EDGES || seen.edges.contains_key(&(from, choice)) {
            seen.edges.entry((from, choice)).or_default().insert(to);
        } else {
            seen.dropped += 1;
        }
    }
}

impl Graph {
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        // A worker that panicked left a graph that is still a graph.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Transitions that are not in the picture.
    pub fn dropped(&self) -> u64 {
        self.seen().dropped
    }

    /// The graph in dot. The transitions of `paths`, which begin in the initial state, are the violations.
    pub fn dot(&self, paths: &[&[Choice]]) -> String {
        let seen = self.seen();
        let numbers = numbers(&seen);
        let (bad_states, bad_edges) = follow(&seen, paths);
        let mut text = String::from(
            "digraph states {\n  node [shape=circle, fontname=\"sans-serif\", fontsize=10];\n  \
             edge [fontname=\"sans-serif\", fontsize=9, arrowsize=0.6];\n",
        );
        if seen.dropped > 0 {
            let _ = writeln!(
                text,
                "  // {} more transitions were explored and are not shown",
                seen.dropped
            );
        }
        let has_successor: BTreeSet<u128> = seen.edges.keys().map(|(from, _)| *from).collect();
        for (id, number) in &numbers {
            let shape = if has_successor.contains(id) {
                "circle"
            } else {
                "doublecircle"
            };
            let colour = if bad_states.contains(id) {
                ", color=red, fontcolor=red"
            } else {
                ""
            };
            let depth = seen.depths.get(id).copied().unwrap_or(0);
            let _ = writeln!(
                text,
                "  s{number} [label=\"{number}\", tooltip=\"depth {depth}\", shape={shape}{colour}];"
            );
        }
        for ((from, choice), targets) in &seen.edges {
            for to in targets {
                let (Some(from_number), Some(to_number)) = (numbers.get(from), numbers.get(to)) else {
                    continue;
                };
                let alternative = match choice.alternative {
                    0 => String::new(),
                    other => format!(" ({other})"),
                };
                let colour = if bad_edges.contains(&(*from, *choice)) {
                    ", color=red, penwidth=2"
                } else {
                    ""
                };
                let _ = writeln!(
                    text,
                    "  s{from_number} -> s{to_number} [label=\"{}{alternative}\"{colour}];",
                    choice.thread
                );
            }
        }
        text.push_str("}\n");
        text
    }
}

/// States in the order of their depth; among equals the order is that of their identity, so that it is always the same.
pub(super) fn numbers(seen: &Seen) -> BTreeMap<u128, usize> {
    let mut order: Vec<(u32, u128)> = seen.depths.iter().map(|(id, depth)| (*depth, *id)).collect();
    order.sort_unstable();
    order
        .into_iter()
        .enumerate()
        .map(|(number, (_, id))| (id, number))
        .collect()
}

/// The end states and the transitions of paths from the initial state.
pub(super) fn follow(seen: &Seen, paths: &[&[Choice]]) -> (BTreeSet<u128>, BTreeSet<(u128, Choice)>) {
    let initial = seen
        .depths
        .iter()
        .find(|(_, depth)| **depth == 0)
        .map(|(id, _)| *id);
    let (mut states, mut edges) = (BTreeSet::new(), BTreeSet::new());
    for path in paths {
        let mut at = initial;
        for choice in *path {
            let Some(from) = at else { break };
            at = seen
                .edges
                .get(&(from, *choice))
                .and_then(|targets| targets.first().copied());
            if at.is_some() {
                edges.insert((from, *choice));
            }
        }
        states.extend(at);
    }
    (states, edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_numbered_by_depth_and_the_bad_path_is_red() {
        let graph = Graph::default();
        let (one, two) = (Choice::of(1), Choice::of(2));
        graph.state(90, 0);
        graph.edge(90, one, 20);
        graph.state(20, 1);
        graph.edge(90, two, 10);
        graph.state(10, 1);
        graph.edge(10, one, 5);
        graph.state(5, 2);
        graph.edge(20, two, 5);
        let dot = graph.dot(&[&[two, one]]);
        assert!(
            dot.contains("s0 -> s1 [label=\"2\", color=red, penwidth=2];"),
            "{dot}"
        );
        assert!(dot.contains("s0 -> s2 [label=\"1\"];"), "{dot}");
        assert!(
            dot.contains("s3 [label=\"3\", tooltip=\"depth 2\", shape=doublecircle, color=red"),
            "{dot}"
        );
        assert_eq!(dot.matches(" -> ").count(), 4);
    }
}
