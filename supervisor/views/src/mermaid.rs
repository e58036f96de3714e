//! Mermaid sequence diagrams, which Markdown renderers draw.

use super::messages::Message;
use super::view::View;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Of a long message an arrow tells this much.
const LABEL: usize = 60;

/// A mermaid sequence diagram: threads and peers as participants, steps as notes, messages and what made what possible as arrows.
pub fn mermaid(view: &View) -> String {
    let mut text = String::from("sequenceDiagram\n");
    participants(view, &mut text);
    for (index, peer) in view.peers.iter().enumerate() {
        let _ = writeln!(text, "    participant P{index} as {}", mermaid_text(&peer.name));
    }
    let mut messages: BTreeMap<usize, Vec<&Message>> = BTreeMap::new();
    for message in &view.messages {
        messages.entry(message.step).or_default().push(message);
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
        for message in messages.get(&row.step).into_iter().flatten() {
            let _ = writeln!(text, "    {}", mermaid_message(message));
        }
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

/// The threads, those of one process in a box.
fn participants(view: &View, text: &mut String) {
    let mut last = None;
    for lane in &view.lanes {
        if lane.process != last {
            if last.is_some() {
                text.push_str("    end\n");
            }
            let group = view
                .processes
                .iter()
                .find(|group| Some(group.process) == lane.process);
            if let Some(group) = group {
                let command = group.commands.last().map_or("", String::as_str);
                let title = format!("{} {command}", group.name);
                let _ = writeln!(text, "    box transparent {}", mermaid_text(title.trim_end()));
            }
            last = lane.process;
        }
        let _ = writeln!(
            text,
            "    participant T{0} as {1}",
            lane.thread,
            mermaid_text(&lane.name)
        );
    }
    if last.is_some() {
        text.push_str("    end\n");
    }
}

/// An arrow between thread and peer; what a peer does on its own is a note.
fn mermaid_message(message: &Message) -> String {
    let mut label: String = message.label().chars().take(LABEL).collect();
    if message.label().chars().nth(LABEL).is_some() {
        label.push('…');
    }
    let (peer, label) = (message.peer, mermaid_text(&label));
    match message.thread {
        Some(thread) if message.is_outward() => format!("T{thread}->>P{peer}: {label}"),
        Some(thread) => format!("P{peer}->>T{thread}: {label}"),
        None => format!("Note over P{peer}: {label}"),
    }
}

/// Mermaid ends a statement at `;` and starts an entity at `#`.
fn mermaid_text(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '#' => plain.push_str("#35;"),
            ';' => plain.push_str("#59;"),
            '<' => plain.push_str("#lt;"),
            '\n' | '\r' => plain.push(' '),
            other => plain.push(other),
        }
    }
    plain
}
