//! Views for other people's tools: mermaid sequence diagrams, Perfetto, ShiViz.

use super::view::{Row, View};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A mermaid sequence diagram: threads as participants, steps as notes, what made what possible as arrows.
pub fn mermaid(view: &View) -> String {
    let mut text = String::from("sequenceDiagram\n");
    for lane in &view.lanes {
        let _ = writeln!(text, "    participant T{0} as thread {0}", lane.thread);
    }
    let critical = view.verdict.as_ref().and_then(|verdict| verdict.critical);
    let mut arrows: BTreeMap<usize, Vec<&super::Edge>> = BTreeMap::new();
    for edge in view.edges.iter().filter(|edge| edge.why != "object") {
        arrows.entry(edge.to).or_default().push(edge);
    }
    for row in &view.steps {
        for edge in arrows.get(&row.step).into_iter().flatten() {
            let from = view.steps[edge.from].thread;
            if from != row.thread {
                let _ = writeln!(text, "    T{from}->>T{}: {}", row.thread, edge.why);
            }
        }
        let mark = if critical == Some(row.step as u64) {
            "! "
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "    Note over T{}: {mark}{} {}{}",
            row.thread,
            row.step,
            mermaid_text(&row.operation),
            if row.location.is_empty() {
                String::new()
            } else {
                format!("<br/>{}", mermaid_text(&row.location))
            }
        );
    }
    if let (Some(first), Some(last)) = (view.lanes.first(), view.lanes.last()) {
        let end = match &view.verdict {
            Some(verdict) => format!("{}: {}", verdict.kind, verdict.message),
            None => view.end.clone(),
        };
        let _ = writeln!(
            text,
            "    Note over T{},T{}: {}",
            first.thread,
            last.thread,
            mermaid_text(&end)
        );
    }
    text
}

/// Mermaid ends a statement at `;` and starts an entity at `#`.
fn mermaid_text(text: &str) -> String {
    text.replace('#', "#35;")
        .replace(';', "#59;")
        .replace('<', "#lt;")
        .replace(['\n', '\r'], " ")
}

/// The Chrome trace event format, which Perfetto opens. A step is a millisecond: the order is what counts.
pub fn chrome_trace(view: &View) -> Value {
    const STEP: usize = 1000;
    let end = view.steps.len();
    let mut events = vec![json!({
        "name": "process_name", "ph": "M", "pid": 1, "args": { "name": view.program },
    })];
    for lane in &view.lanes {
        let name = format!("thread {}", lane.thread);
        events.push(json!({
            "name": "thread_name", "ph": "M", "pid": 1, "tid": lane.thread, "args": { "name": name },
        }));
    }
    for row in &view.steps {
        events.push(json!({
            "name": row.operation, "cat": row.kind, "ph": "X", "pid": 1, "tid": row.thread,
            "ts": row.step * STEP, "dur": STEP,
            "args": { "step": row.step, "location": row.location, "at": row.at },
        }));
    }
    // Waits and holds overlap the steps of their thread: asynchronous tracks of their own.
    let waits = view
        .waits
        .iter()
        .map(|wait| ("wait", wait.thread, &wait.why, wait.from, wait.to));
    let holds = view
        .holds
        .iter()
        .map(|hold| ("lock", hold.thread, &hold.lock, hold.from, hold.to));
    for (id, (category, thread, name, from, to)) in waits.chain(holds).enumerate() {
        let name = format!("thread {thread}: {name}");
        let begin = (from + 1) * STEP;
        let until = (to.unwrap_or(end) * STEP).max(begin);
        for (phase, time) in [("b", begin), ("e", until)] {
            events.push(json!({
                "name": name, "cat": category, "ph": phase, "pid": 1, "tid": thread, "id": id, "ts": time,
            }));
        }
    }
    for (id, edge) in view.edges.iter().enumerate() {
        for (phase, step) in [("s", edge.from), ("f", edge.to)] {
            events.push(json!({
                "name": edge.why, "cat": "order", "ph": phase, "bp": "e", "pid": 1,
                "tid": view.steps[step].thread, "id": id, "ts": step * STEP + STEP / 2,
            }));
        }
    }
    if let Some(critical) = view.verdict.as_ref().and_then(|verdict| verdict.critical) {
        events.push(json!({
            "name": "after this every way to go on ends in a violation", "ph": "i", "s": "p", "pid": 1,
            "tid": view.steps.get(critical as usize).map(|row| row.thread),
            "ts": (critical as usize + 1) * STEP,
        }));
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ms" })
}

/// A log for ShiViz: its parser expression, then per step a vector clock and the operation.
pub fn shiviz(view: &View) -> String {
    let mut text = String::from("(?<host>\\S*) (?<clock>{.*})\\n(?<event>.*)\n\n");
    let mut arriving: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for edge in &view.edges {
        arriving.entry(edge.to).or_default().push(edge.from);
    }
    let mut clocks: Vec<BTreeMap<u32, u64>> = Vec::with_capacity(view.steps.len());
    let mut latest: BTreeMap<u32, usize> = BTreeMap::new();
    for row in &view.steps {
        let mut clock = latest
            .get(&row.thread)
            .map_or_else(BTreeMap::new, |&at| clocks[at].clone());
        for &from in arriving.get(&row.step).into_iter().flatten() {
            for (&thread, &time) in &clocks[from] {
                let own = clock.entry(thread).or_default();
                *own = (*own).max(time);
            }
        }
        *clock.entry(row.thread).or_default() += 1;
        let _ = writeln!(text, "{}", shiviz_event(row, &clock));
        latest.insert(row.thread, row.step);
        clocks.push(clock);
    }
    text
}

fn shiviz_event(row: &Row, clock: &BTreeMap<u32, u64>) -> String {
    let clock: BTreeMap<String, u64> = clock
        .iter()
        .map(|(thread, time)| (host(*thread), *time))
        .collect();
    let event = format!("{} {}  {}", row.step, row.operation, row.location);
    format!(
        "{} {}\n{}",
        host(row.thread),
        json!(clock),
        event.trim_end().replace('\n', " ")
    )
}

fn host(thread: u32) -> String {
    format!("thread-{thread}")
}
