//! A small state graph as a page of its own: no Graphviz is needed to look at one.
//!
//! States stand in rows by their depth; in a row they are ordered by where their predecessors stand, which keeps most lines short. Where
//! there is no choice, as in start-up, rows are small.

use super::graph::{Graph, Seen, follow, numbers};
use explore::Choice;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// With more states nobody sees anything.
const MAX_STATES: usize = 2_000;
const RADIUS: f64 = 13.0;
const COLUMN: f64 = 46.0;
const ROW: f64 = 54.0;
const MARGIN: f64 = 40.0;
/// A state with one way to it and one from it.
const SMALL_RADIUS: f64 = 3.5;
const SMALL_ROW: f64 = 14.0;
/// How often the rows are put in order.
const SWEEPS: usize = 4;
/// The colours of threads, as in the page of a trace.
const HUES: [u32; 10] = [212, 28, 140, 285, 350, 185, 52, 255, 100, 320];

/// Where a state is, and how large.
#[derive(Clone, Copy)]
struct Place {
    x: f64,
    y: f64,
    radius: f64,
}

type Places = BTreeMap<u128, Place>;

impl Graph {
    /// The graph as a page. The transitions of `paths`, which begin in the initial state, are the violations.
    pub fn html(&self, paths: &[&[Choice]]) -> String {
        let seen = self.seen();
        let transitions: usize = seen.edges.values().map(BTreeSet::len).sum();
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>State graph · tracefork</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>State graph</h1>\n<p>{} states, {transitions} transitions. Each line is one step of a \
             thread: its number stands at the line. A double circle has no successor; <b class=\"bad\">red</b> leads to a violation.</p>\n",
            seen.depths.len()
        );
        if seen.dropped > 0 {
            let _ = writeln!(
                page,
                "<p>{} more transitions were explored and are not shown.</p>",
                seen.dropped
            );
        }
        if seen.depths.len() > MAX_STATES {
            let _ = writeln!(
                page,
                "<p>These are too many to draw here. Write the graph as FILE.dot and let Graphviz try: <code>sfdp -Tsvg FILE.dot</code>.</p>"
            );
        } else {
            draw(&mut page, &seen, paths);
        }
        page.push_str("</body>\n</html>\n");
        page
    }
}

fn places(seen: &Seen, numbers: &BTreeMap<u128, usize>) -> Places {
    let mut rows: BTreeMap<u32, Vec<u128>> = BTreeMap::new();
    for (id, depth) in &seen.depths {
        rows.entry(*depth).or_default().push(*id);
    }
    let mut before: BTreeMap<u128, Vec<u128>> = BTreeMap::new();
    for ((from, _), targets) in &seen.edges {
        for to in targets {
            before.entry(*to).or_default().push(*from);
        }
    }
    for row in rows.values_mut() {
        row.sort_by_key(|id| numbers.get(id));
    }
    let mut x: BTreeMap<u128, f64> = BTreeMap::new();
    for _ in 0..SWEEPS {
        for row in rows.values_mut() {
            let wish = |id: &u128| {
                let known: Vec<f64> = before
                    .get(id)
                    .into_iter()
                    .flatten()
                    .filter_map(|p| x.get(p).copied())
                    .collect();
                let sum: f64 = known.iter().sum();
                if known.is_empty() {
                    0.0
                } else {
                    sum / known.len() as f64
                }
            };
            let mut wishes: Vec<(f64, u128)> = row.iter().map(|id| (wish(id), *id)).collect();
            wishes.sort_by(|one, other| one.0.total_cmp(&other.0));
            let middle = (wishes.len() as f64 - 1.0) / 2.0;
            for (position, (_, id)) in wishes.iter().enumerate() {
                x.insert(*id, (position as f64 - middle) * COLUMN);
            }
            *row = wishes.into_iter().map(|(_, id)| id).collect();
        }
    }
    let left = x.values().copied().fold(0.0, f64::min);
    let alone = |depth: u32| rows.get(&depth).is_some_and(|row| row.len() == 1);
    let mut places = Places::new();
    let mut y = MARGIN;
    let is_small = |depth: u32| depth > 0 && (depth - 1..=depth + 1).all(alone);
    for (&depth, row) in &rows {
        let radius = if is_small(depth) { SMALL_RADIUS } else { RADIUS };
        for id in row {
            let x = x.get(id).copied().unwrap_or(0.0) - left + MARGIN;
            places.insert(*id, Place { x, y, radius });
        }
        y += if is_small(depth) && is_small(depth + 1) {
            SMALL_ROW
        } else {
            ROW
        };
    }
    places
}

fn draw(page: &mut String, seen: &Seen, paths: &[&[Choice]]) {
    let numbers = numbers(seen);
    let (bad_states, bad_edges) = follow(seen, paths);
    let places = places(seen, &numbers);
    let reach = |part: fn(&Place) -> f64| places.values().map(part).fold(0.0, f64::max) + MARGIN;
    let _ = writeln!(
        page,
        "<svg width=\"{:.0}\" height=\"{:.0}\">",
        reach(|at| at.x),
        reach(|at| at.y)
    );
    page.push_str(
        "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">\
         <path d=\"M0 0L8 4L0 8z\" fill=\"context-stroke\"/></marker></defs>\n",
    );
    for ((from, choice), targets) in &seen.edges {
        for to in targets {
            if let (Some(&from_place), Some(&to_place)) = (places.get(from), places.get(to)) {
                let is_bad = bad_edges.contains(&(*from, *choice));
                edge(page, from_place, to_place, choice, is_bad);
            }
        }
    }
    let has_successor: BTreeSet<u128> = seen.edges.keys().map(|(from, _)| *from).collect();
    for (id, Place { x, y, radius }) in &places {
        let (number, depth) = (
            numbers.get(id).copied().unwrap_or(0),
            seen.depths.get(id).copied().unwrap_or(0),
        );
        let class = if bad_states.contains(id) {
            "state bad"
        } else {
            "state"
        };
        let _ = write!(
            page,
            "<g class=\"{class}\"><title>state {number}, depth {depth}</title><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>"
        );
        if !has_successor.contains(id) {
            let _ = write!(
                page,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{}\"/>",
                radius - 3.0
            );
        }
        if *radius > SMALL_RADIUS {
            let _ = write!(page, "<text x=\"{x:.1}\" y=\"{y:.1}\">{number}</text>");
        }
        page.push_str("</g>\n");
    }
    page.push_str("</svg>\n");
}

/// A line from rim to rim; one that does not go down goes around.
fn edge(page: &mut String, from: Place, to: Place, choice: &Choice, is_bad: bool) {
    let hue = HUES[choice.thread as usize % HUES.len()];
    let (class, colour) = if is_bad {
        ("step bad", String::new())
    } else {
        ("step", format!(" style=\"stroke: hsl({hue} 60% 50%)\""))
    };
    let (dx, dy) = (to.x - from.x, to.y - from.y);
    let length = dx.hypot(dy).max(1.0);
    let (ux, uy) = (dx / length, dy / length);
    let (x1, y1) = (from.x + ux * from.radius, from.y + uy * from.radius);
    let (x2, y2) = (to.x - ux * (to.radius + 1.0), to.y - uy * (to.radius + 1.0));
    let bend = if dy > 0.0 && dy < 1.5 * ROW {
        0.0
    } else {
        0.25 * length.max(ROW)
    };
    let (mx, my) = (
        f64::midpoint(x1, x2) + uy * bend + bend.min(0.1),
        f64::midpoint(y1, y2) - ux * bend,
    );
    let is_small = to.radius < RADIUS;
    let head = if is_small { "" } else { " marker-end=\"url(#tip)\"" };
    let _ = write!(
        page,
        "<path class=\"{class}\"{colour} d=\"M{x1:.1} {y1:.1}Q{mx:.1} {my:.1} {x2:.1} {y2:.1}\"{head}>\
         <title>thread {}</title></path>",
        choice.thread
    );
    if !is_small {
        let alternative = match choice.alternative {
            0 => String::new(),
            other => format!(" ({other})"),
        };
        let (x, thread) = (mx + 6.0, choice.thread);
        let _ = write!(
            page,
            "<text class=\"label\" x=\"{x:.1}\" y=\"{my:.1}\">{thread}{alternative}</text>"
        );
    }
    page.push('\n');
}

const STYLE: &str = "
:root { --back: #fff; --text: #1c2430; --dim: #6b7684; --node: #f1f5fb; --line: #5b6b80; --bad: #d1301f; --bad-back: #ffd9d4; }
@media (prefers-color-scheme: dark) { :root { --back: #14181f; --text: #e4e8ee; --dim: #93a0b1; --node: #1f2732; --line: #93a0b1; --bad: #ff7a68; --bad-back: #53231f; } }
body { margin: 16px 20px; background: var(--back); color: var(--text); font: 14px/1.5 system-ui, 'DejaVu Sans', sans-serif; }
h1 { font-size: 18px; } p { color: var(--dim); max-width: 70em; } p .bad { color: var(--bad); }
svg text { font: 10px system-ui, 'DejaVu Sans', sans-serif; fill: var(--text); text-anchor: middle; dominant-baseline: central; }
svg .label { font-size: 8.5px; fill: var(--dim); text-anchor: start; }
svg .state circle { fill: var(--node); stroke: var(--line); stroke-width: 1.3; } svg .state.bad circle { fill: var(--bad-back); stroke: var(--bad); }
svg .step { fill: none; stroke-width: 1.3; } svg .step.bad { stroke: var(--bad); stroke-width: 2.2; }
";

#[cfg(test)]
mod tests {
    use super::*;
    use explore::Observer as _;

    #[test]
    fn every_state_has_its_own_place_below_its_predecessors() {
        let graph = Graph::default();
        let (one, two) = (Choice::of(1), Choice::of(2));
        for (id, depth) in [(90, 0), (20, 1), (10, 1), (5, 2)] {
            graph.state(id, depth);
        }
        for (from, choice, to) in [(90, one, 20), (90, two, 10), (10, one, 5), (20, two, 5)] {
            graph.edge(from, choice, to);
        }
        let seen = graph.seen();
        let places = places(&seen, &numbers(&seen));
        assert_eq!(places.len(), 4);
        assert_eq!(places[&20].y, places[&10].y);
        assert!((places[&20].x - places[&10].x).abs() >= COLUMN);
        assert!(places[&90].y < places[&10].y && places[&10].y < places[&5].y);
        drop(seen);
        let page = graph.html(&[&[two, one]]);
        assert_eq!(page.matches("class=\"step").count(), 4);
        assert_eq!(page.matches("class=\"step bad").count(), 2);
        assert_eq!(page.matches("class=\"state").count(), 4);
    }
}
