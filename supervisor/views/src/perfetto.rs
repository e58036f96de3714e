//! Chrome trace events, which Perfetto opens.

use super::view::View;
use serde_json::{Value, json};

/// The process of the peers.
const PEERS: usize = 2;

/// Threads are threads of one process, connections those of another. A step is a millisecond: the order is what counts.
pub fn chrome_trace(view: &View) -> Value {
    const STEP: usize = 1000;
    let end = view.steps.len();
    let mut events = vec![json!({
        "name": "process_name", "ph": "M", "pid": 1, "args": { "name": view.program },
    })];
    for lane in &view.lanes {
        let name = &lane.name;
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
    peers(view, STEP, &mut events);
    if let Some(critical) = view.verdict.as_ref().and_then(|verdict| verdict.critical) {
        events.push(json!({
            "name": "after this every continuation ends in a violation", "ph": "i", "s": "p", "pid": 1,
            "tid": view.steps.get(critical as usize).map(|row| row.thread),
            "ts": (critical as usize + 1) * STEP,
        }));
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ms" })
}

/// The peers' tracks, with a slice per message, and an arrow from who said it to who heard it.
fn peers(view: &View, step: usize, events: &mut Vec<Value>) {
    if view.peers.is_empty() {
        return;
    }
    events.push(json!({ "name": "process_name", "ph": "M", "pid": PEERS, "args": { "name": "peers" } }));
    for (index, peer) in view.peers.iter().enumerate() {
        let name = format!("{} {}", peer.name, peer.command);
        events.push(json!({
            "name": "thread_name", "ph": "M", "pid": PEERS, "tid": index, "args": { "name": name.trim_end() },
        }));
    }
    for (id, message) in view.messages.iter().enumerate() {
        // Several in one step stand behind each other.
        let same = view.messages[..id].iter().rev();
        let same = same.take_while(|other| other.step == message.step);
        let slot = same.filter(|other| other.peer == message.peer).count().min(9);
        let begin = message.step * step + slot * step / 10;
        events.push(json!({
            "name": message.label(), "cat": message.kind, "ph": "X", "pid": PEERS, "tid": message.peer,
            "ts": begin, "dur": step / 10,
            "args": { "step": message.step, "bytes": message.bytes, "text": message.text, "hex": message.hex,
                      "virtual time": message.time },
        }));
        let Some(thread) = message.thread else {
            continue;
        };
        let ends = [(1, thread as usize), (PEERS, message.peer)];
        let (from, to) = if message.is_outward() { (0, 1) } else { (1, 0) };
        for (phase, (pid, tid)) in [("s", ends[from]), ("f", ends[to])] {
            events.push(json!({
                "name": message.kind, "cat": "message", "ph": phase, "bp": "e", "pid": pid, "tid": tid,
                "id": format!("message-{id}"), "ts": begin,
            }));
        }
    }
}
