//! Chrome trace events, which Perfetto opens.

use super::view::View;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The process of the peers, and that of the program if it has only one.
const PEERS: u32 = 2;
const PROGRAM: u32 = 1;
/// The length of a step, in the microseconds of the format.
const STEP: usize = 1000;

/// Threads are threads of their processes, connections those of another. A step is a millisecond: the order is what counts.
pub fn chrome_trace(view: &View) -> Value {
    let processes: BTreeMap<u32, u32> = view
        .lanes
        .iter()
        .map(|lane| (lane.thread, lane.process.unwrap_or(PROGRAM)))
        .collect();
    let pid = |thread: u32| processes.get(&thread).copied().unwrap_or(PROGRAM);
    let mut events = names(view, &pid);
    for row in &view.steps {
        events.push(json!({
            "name": row.operation, "cat": row.kind, "ph": "X", "pid": pid(row.thread), "tid": row.thread,
            "ts": row.step * STEP, "dur": STEP,
            "args": { "step": row.step, "location": row.location, "at": row.at },
        }));
    }
    waits_and_locks(view, &pid, &mut events);
    for (id, edge) in view.edges.iter().enumerate() {
        for (phase, step) in [("s", edge.from), ("f", edge.to)] {
            events.push(json!({
                "name": edge.why, "cat": "order", "ph": phase, "bp": "e",
                "pid": pid(view.steps[step].thread), "tid": view.steps[step].thread, "id": id, "ts": step * STEP + STEP / 2,
            }));
        }
    }
    peers(view, STEP, &pid, &mut events);
    if let Some(critical) = view.verdict.as_ref().and_then(|verdict| verdict.critical) {
        events.push(json!({
            "name": "after this every continuation ends in a violation", "ph": "i", "s": "p",
            "pid": view.steps.get(critical as usize).map(|row| pid(row.thread)),
            "tid": view.steps.get(critical as usize).map(|row| row.thread),
            "ts": (critical as usize + 1) * STEP,
        }));
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ms" })
}

/// What processes and threads are called.
fn names(view: &View, pid: &dyn Fn(u32) -> u32) -> Vec<Value> {
    let mut events = vec![json!({
        "name": "process_name", "ph": "M", "pid": PROGRAM, "args": { "name": view.program },
    })];
    for group in &view.processes {
        let command = group.commands.last().unwrap_or(&group.name);
        events.push(json!({
            "name": "process_name", "ph": "M", "pid": group.process, "args": { "name": command },
        }));
    }
    for lane in &view.lanes {
        let name = &lane.name;
        events.push(json!({
            "name": "thread_name", "ph": "M", "pid": pid(lane.thread), "tid": lane.thread, "args": { "name": name },
        }));
    }
    events
}

/// Waits and holds overlap the steps of their thread: asynchronous tracks of their own.
fn waits_and_locks(view: &View, pid: &dyn Fn(u32) -> u32, events: &mut Vec<Value>) {
    let waits = view
        .waits
        .iter()
        .map(|wait| ("wait", wait.thread, &wait.why, wait.from, wait.to));
    let holds = view
        .holds
        .iter()
        .map(|hold| ("lock", hold.thread, &hold.lock, hold.from, hold.to));
    for (id, (category, thread, name, from, to)) in waits.chain(holds).enumerate() {
        let who = view.lanes.iter().find(|lane| lane.thread == thread);
        let name = format!("{}: {name}", who.map_or("", |lane| lane.name.as_str()));
        let begin = (from + 1) * STEP;
        let until = (to.unwrap_or(view.steps.len()) * STEP).max(begin);
        for (phase, time) in [("b", begin), ("e", until)] {
            events.push(json!({
                "name": name, "cat": category, "ph": phase, "pid": pid(thread), "tid": thread, "id": id, "ts": time,
            }));
        }
    }
}

/// The peers' tracks, with a slice per message, and an arrow from who said it to who heard it.
fn peers(view: &View, step: usize, pid: &dyn Fn(u32) -> u32, events: &mut Vec<Value>) {
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
        let ends = [(pid(thread), thread as usize), (PEERS, message.peer)];
        let (from, to) = if message.is_outward() { (0, 1) } else { (1, 0) };
        for (phase, (pid, tid)) in [("s", ends[from]), ("f", ends[to])] {
            events.push(json!({
                "name": message.kind, "cat": "message", "ph": phase, "bp": "e", "pid": pid, "tid": tid,
                "id": format!("message-{id}"), "ts": begin,
            }));
        }
    }
}
