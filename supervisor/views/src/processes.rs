//! Which process each thread of a trace is of, and what people call it.

use serde::Serialize;
use std::collections::BTreeMap;
use trace::{COLUMNS, ENVIRONMENT, Operation, Step, Trace, escape};

/// Columns that belong together: the threads of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    pub process: u32,
    /// What people call it.
    pub name: String,
    /// The command lines that it ran, one after the other.
    pub commands: Vec<String>,
    /// So many columns.
    pub lanes: usize,
}

/// The process of every thread that was made, by number.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    of: BTreeMap<u32, u32>,
    several: bool,
    /// What peers are called that are processes of the execution.
    peers: BTreeMap<u32, String>,
    /// What each process ran, one program after the other.
    commands: BTreeMap<u32, Vec<String>>,
    /// One of them ran something else than the program.
    runs_others: bool,
}

/// The command line that a step runs in its process.
fn executed(trace: &Trace, step: usize) -> Option<String> {
    let Operation::Call { number, result, .. } = trace.steps[step].operation else {
        return None;
    };
    // It does not return.
    let is_exec = i64::from(number) == libc::SYS_execve && result.is_none();
    let (program, _) = trace.locations.get(step)?.split_once(COLUMNS)?;
    is_exec.then(|| program.to_owned())
}

/// A command in one word: its program without directories.
fn in_a_word(command: &str) -> &str {
    let program = command.split(' ').next().unwrap_or(command);
    program.rsplit('/').next().unwrap_or(program)
}

/// The first process's command line.
fn own_command(trace: &Trace) -> String {
    let arguments = trace.program.argv.iter().skip(1);
    let words = std::iter::once(&trace.program.path).chain(arguments);
    words.map(|word| escape(word)).collect::<Vec<_>>().join(" ")
}

/// The thread or process that a step makes, and whether it is a process.
fn makes(step: &Step) -> Option<(u32, bool)> {
    let Operation::Call { number, args, result } = &step.operation else {
        return None;
    };
    let is_process = match i64::from(*number) {
        libc::SYS_clone => args[0] as i32 & libc::CLONE_THREAD == 0,
        libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone3 => true,
        _ => return None,
    };
    let child = u32::try_from((*result)?).ok()?;
    (child > 0).then_some((child, is_process))
}

/// The process that a step makes.
pub fn makes_process(step: &Step) -> Option<u32> {
    makes(step)
        .filter(|&(_, is_process)| is_process)
        .map(|(child, _)| child)
}

/// The process of a thread of a trace, if it is one.
pub fn process_of(trace: &Trace, thread: u32) -> Option<u32> {
    (thread != ENVIRONMENT).then(|| Processes::of(trace).process(thread))
}

impl Processes {
    pub fn of(trace: &Trace) -> Self {
        let mut found = Self::default();
        if let Some(residents) = trace.residents.as_ref().filter(|residents| residents.explored) {
            for (pid, peer) in residents.numbered() {
                found.peers.insert(pid, peer.name.clone());
                found.commands.insert(pid, vec![peer.command.clone()]);
            }
            found.several = true;
        }
        found.commands.insert(trace.config.pid, vec![own_command(trace)]);
        for (number, step) in trace.steps.iter().enumerate() {
            if let Some(command) = executed(trace, number) {
                let process = found.process(step.thread);
                found.commands.entry(process).or_default().push(command);
                found.runs_others = true;
                continue;
            }
            if let Some(child) = makes(step) {
                found.made(step.thread, child);
            }
        }
        found
    }

    /// `thread` has made a thread or a process of this number.
    fn made(&mut self, thread: u32, (child, is_process): (u32, bool)) {
        let maker = self.process(thread);
        self.of.insert(child, if is_process { child } else { maker });
        self.several |= is_process;
        if is_process {
            let inherited = self.commands.get(&maker).and_then(|commands| commands.last());
            let inherited: Vec<String> = inherited.cloned().into_iter().collect();
            self.commands.insert(child, inherited);
        }
    }

    /// The process of a thread; the first one is of the first.
    fn process(&self, thread: u32) -> u32 {
        self.of.get(&thread).copied().unwrap_or(thread)
    }

    /// A thread as people call it: a process, if it is the first of one of several.
    pub fn who(&self, thread: u32) -> String {
        let process = self.process(thread);
        match process == thread && self.several {
            _ if thread == ENVIRONMENT => "environment".to_owned(),
            true => self.named(process),
            false if self.several => format!("thread {thread} of {process}"),
            false => format!("thread {thread}"),
        }
    }

    /// A process as people call it.
    fn named(&self, process: u32) -> String {
        match (self.peers.get(&process), self.command(process)) {
            (Some(peer), _) => format!("peer {peer}"),
            (None, Some(command)) if self.runs_others => {
                format!("process {process} ({})", in_a_word(command))
            }
            (None, _) => format!("process {process}"),
        }
    }

    /// What it ran last.
    fn command(&self, process: u32) -> Option<&String> {
        self.commands.get(&process)?.last()
    }

    /// The processes of these threads, in their order, if there are several.
    pub fn groups(&self, threads: impl Iterator<Item = u32>) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for process in threads.filter_map(|thread| self.group(thread)) {
            match groups.last_mut() {
                Some(last) if last.process == process => last.lanes += 1,
                _ => groups.push(Group {
                    process,
                    name: match self.peers.get(&process) {
                        Some(peer) => format!("peer {peer}"),
                        None => format!("process {process}"),
                    },
                    commands: self.commands.get(&process).cloned().unwrap_or_default(),
                    lanes: 1,
                }),
            }
        }
        groups
    }

    /// The process that a thread is of, if there are several.
    pub fn group(&self, thread: u32) -> Option<u32> {
        (self.several && thread != ENVIRONMENT).then(|| self.process(thread))
    }
}
