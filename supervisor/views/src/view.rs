//! What the views show of a trace. Its JSON form is what `show --json` prints and what the HTML page draws.

use super::derive;
use super::messages::{self, Message, Peer};
use super::processes::Group;
use super::stacks::{Sources, StackFrame};
use crate::label;
use serde::Serialize;
use trace::escape;
use trace::{Operation, Trace};

/// A trace, ready to be looked at. Flat: the page gets it as one JSON object, of which each part draws its own fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct View {
    pub program: String,
    pub arguments: Vec<String>,
    pub directory: String,
    pub preempt: String,
    pub seed: u64,
    /// Where it was recorded.
    pub machine: String,
    pub end: String,
    pub verdict: Option<Verdict>,
    pub lanes: Vec<Lane>,
    /// Which columns belong to which process; empty if there is one process only.
    pub processes: Vec<Group>,
    pub steps: Vec<Row>,
    pub waits: Vec<Wait>,
    pub holds: Vec<Hold>,
    pub edges: Vec<Edge>,
    /// The other ends of the connections: the columns beside the threads.
    pub peers: Vec<Peer>,
    pub messages: Vec<Message>,
    /// Each stack once; steps refer to them. Empty unless asked for.
    pub stacks: Vec<Vec<StackFrame>>,
    pub sources: Sources,
}

/// What a counterexample shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub kind: &'static str,
    pub message: String,
    pub thread: Option<u32>,
    pub preemptions: u32,
    /// After this step every continuation ends in a violation.
    pub critical: Option<u64>,
}

/// A column of the diagram: a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lane {
    pub thread: u32,
    /// What people call it.
    pub name: String,
    /// Its process, if there are several.
    pub process: Option<u32>,
    /// From the step that made the thread (its own first one for the first thread)…
    pub from: usize,
    /// … to its last one, or `None` if it was there until the end.
    pub to: Option<usize>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    pub step: usize,
    pub thread: u32,
    /// `start`, `call`, `sync`, `wake`, `spin` or `signal`.
    pub kind: &'static str,
    pub operation: String,
    /// The operation in short: objects by name, addresses left out.
    pub label: String,
    pub location: String,
    /// The instruction pointer.
    pub at: String,
    /// What had arrived from peers, if it could have seen something else.
    pub arrived: Option<String>,
    /// Index of its stack.
    pub stack: Option<usize>,
}

/// A thread could not go on between two steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    pub thread: u32,
    pub from: usize,
    /// `None`: to the end.
    pub to: Option<usize>,
    pub why: String,
}

/// A thread held a lock between two steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hold {
    pub thread: u32,
    pub lock: String,
    pub from: usize,
    /// `None`: to the end.
    pub to: Option<usize>,
}

/// One step made another possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub why: &'static str,
}

impl View {
    pub fn of(trace: &Trace) -> Self {
        let mut derived = derive::derive(trace);
        let messages = messages::messages(trace);
        let peers = messages::peers(trace);
        derived.waits.extend(messages::waits(trace, &messages, &peers));
        Self {
            program: escape(&trace.program.path),
            arguments: trace.program.argv.iter().skip(1).map(|arg| escape(arg)).collect(),
            directory: escape(&trace.config.cwd),
            preempt: format!("{:?}", trace.preempt).to_lowercase(),
            seed: trace.seed,
            machine: trace.machine.to_string(),
            end: trace.end.to_string(),
            verdict: trace.finding.as_ref().map(|finding| Verdict {
                kind: finding.violation.kind.name(),
                message: finding.violation.message.clone(),
                thread: finding.violation.thread,
                preemptions: finding.preemptions,
                critical: finding.critical,
            }),
            lanes: derived.lanes,
            processes: derived.processes,
            steps: rows(trace),
            waits: derived.waits,
            holds: derived.holds,
            edges: derived.edges,
            peers,
            messages,
            stacks: Vec::new(),
            sources: Sources::new(),
        }
    }
}

fn rows(trace: &Trace) -> Vec<Row> {
    let row = |(number, step): (usize, &trace::Step)| Row {
        step: number,
        thread: step.thread,
        kind: kind(&step.operation),
        operation: match &step.arrived {
            Some(arrived) => format!("{}: {arrived}", step.operation),
            None => step.operation.to_string(),
        },
        arrived: step.arrived.clone(),
        label: label(trace, number),
        location: trace.locations.get(number).cloned().unwrap_or_default(),
        at: format!("{:#x}", step.at),
        stack: None,
    };
    trace.steps.iter().enumerate().map(row).collect()
}

fn kind(operation: &Operation) -> &'static str {
    match operation {
        Operation::Start => "start",
        Operation::Call { .. } => "call",
        Operation::Sync { .. } => "sync",
        Operation::Wake { .. } => "wake",
        Operation::Spin => "spin",
        Operation::Signal { .. } => "signal",
        Operation::TimePasses => "time",
        Operation::Rests | Operation::GoesOnForEver => "rest",
        Operation::Return => "return",
        Operation::SignalFromOutside { .. }
        | Operation::KilledFromOutside
        | Operation::PowerFails
        | Operation::Mishap { .. } => "outside",
    }
}
