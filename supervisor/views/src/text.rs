//! A trace as a table that people can read in a terminal, and a step's operation in a few words.

use crate::messages::peers;
use crate::processes::Processes;
use crate::{Message, Peer, messages};
use std::ops::RangeInclusive;
use syscall_model::table::{self, Detail};
use syscall_model::{Call, Sysno};
use trace::{Alternative, COLUMNS, ENVIRONMENT, Operation, Step, Trace};

/// The table of a trace: step, thread, operation, where. Start-up before there is a second thread is one line.
pub fn table(trace: &Trace) -> Vec<String> {
    let critical = trace.finding.as_ref().and_then(|finding| finding.critical);
    let first = first_interesting(trace);
    let mut lines = Vec::new();
    if first > 0 {
        lines.push(format!("        … {first} startup steps of a single thread"));
    }
    let (messages, peers) = (messages(trace), peers(trace));
    let processes = Processes::of(trace);
    let labels: Vec<String> = (first..trace.steps.len())
        .map(|step| label(trace, step))
        .collect();
    let width = width(&labels);
    let names = trace
        .steps
        .iter()
        .skip(first)
        .map(|step| processes.who(step.thread).chars().count());
    let names = names.max().unwrap_or(0).clamp(12, 30);
    let mut last_thread = None;
    for (number, step) in trace.steps.iter().enumerate().skip(first) {
        let mark = if critical == Some(number as u64) { "!" } else { " " };
        let thread = if last_thread == Some(step.thread) {
            String::new()
        } else {
            processes.who(step.thread)
        };
        last_thread = Some(step.thread);
        let (label, location) = (&labels[number - first], annotation(trace, number).1);
        lines.push(format!(
            "{mark} {number:>5}  {thread:<names$} {label:<width$} {location}"
        ));
        lines.extend(step.arrived.iter().map(|words| format!("{:23}· {words}", "")));
        let here = messages.iter().filter(|message| message.step == number);
        lines.extend(here.map(|message| said(&peers, message)));
    }
    if let Some(critical) = critical {
        lines.push(format!(
            "! after step {critical} every continuation ends in a violation"
        ));
    }
    lines
}

/// The column of operations is as wide as most of them need; a few may be longer.
fn width(labels: &[String]) -> usize {
    const WIDTHS: RangeInclusive<usize> = 44..=54;
    let fitting = labels.iter().map(|label| label.chars().count());
    let longest = fitting.filter(|width| width <= WIDTHS.end()).max();
    longest.unwrap_or(0).max(*WIDTHS.start())
}

/// The name of a step's object, if it has one, and its place in the source.
fn annotation(trace: &Trace, step: usize) -> (Option<&str>, &str) {
    let annotated = trace.locations.get(step).map_or("", String::as_str);
    match annotated.split_once(COLUMNS) {
        Some((object, location)) => (Some(object), location),
        None => (None, annotated),
    }
}

/// A step's operation in a few words.
pub fn label(trace: &Trace, step: usize) -> String {
    let object = annotation(trace, step).0;
    trace
        .steps
        .get(step)
        .map_or_else(String::new, |step| in_words(step, object))
}

/// The operation, and how it went if that is not how it must go.
fn in_words(step: &Step, object: Option<&str>) -> String {
    let operation = shorten(&step.operation, object);
    match Alternative::of(step.alternative) {
        Some(fault @ (Alternative::Fault(_) | Alternative::Timeout)) if step.thread != ENVIRONMENT => {
            format!("{operation}  [{fault}]")
        }
        _ => operation,
    }
}

/// What a step said to a peer or heard from it, in a line below it.
fn said(peers: &[Peer], message: &Message) -> String {
    const LONGEST: usize = 60;
    let arrow = if message.is_outward() { "→" } else { "←" };
    let mut text: String = message.label().chars().take(LONGEST).collect();
    if message.label().chars().nth(LONGEST).is_some() {
        text.push('…');
    }
    let name = &peers[message.peer].name;
    format!("{:23}{arrow} {name}  {text}", "")
}

/// The calls that make a thread or a process.
const MAKERS: [i64; 4] = [libc::SYS_clone, libc::SYS_clone3, libc::SYS_fork, libc::SYS_vfork];

/// Before it the program is loaded, or is alone: nothing that happens there depends on anything.
fn first_interesting(trace: &Trace) -> usize {
    let is_clone = |step: &Step| matches!(&step.operation, Operation::Call { number, .. } if MAKERS.contains(&i64::from(*number)));
    let own = |step: usize| !annotation(trace, step).1.is_empty();
    let steps = trace.steps.iter();
    let own = (0..trace.steps.len()).find(|&step| own(step)).unwrap_or(0);
    match steps.clone().position(is_clone) {
        // A fault may come earlier.
        Some(clone) if steps.take(clone).all(|step| step.alternative == 0) => clone,
        _ => own,
    }
}

/// An operation in one column: the arguments that the call has, addresses by name or not at all, what it returned.
fn shorten(operation: &Operation, object: Option<&str>) -> String {
    match operation {
        Operation::Sync { name, .. } => format!("{name}({})", object.unwrap_or("…")),
        Operation::Call { number, args, result } => {
            let Some(sysno) = Sysno::new(*number as usize) else {
                return operation.to_string();
            };
            let mut shown = table::describe_args(&Call::new(sysno, *args), Detail::Short);
            if let (Some(object), Some(first)) = (object, shown.first_mut()) {
                *first = object.to_owned();
            }
            let result = result.map_or_else(String::new, |result| {
                format!(" = {}", table::describe_result(sysno, result, Detail::Short))
            });
            format!("{}({}){result}", sysno.name(), table::join_shortly(&shown))
        }
        other => other.to_string(),
    }
}
