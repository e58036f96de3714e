//! Which process each thread of a trace is of, and what people call it.

use std::collections::BTreeMap;
use trace::{COLUMNS, ENVIRONMENT, Operation, Trace};

/// The process of every thread that was made, by number.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    of: BTreeMap<u32, u32>,
    several: bool,
    /// What peers are called that are processes of the execution.
    peers: BTreeMap<u32, String>,
    /// What each process ran last, if one of them ran something else than the program.
    commands: BTreeMap<u32, String>,
}

/// The program that a step runs in its process, by the last part of its path.
fn executed(trace: &Trace, step: usize) -> Option<String> {
    let Operation::Call { number, result, .. } = trace.steps[step].operation else {
        return None;
    };
    // It does not return.
    let is_exec = i64::from(number) == libc::SYS_execve && result.is_none();
    let (program, _) = trace.locations.get(step)?.split_once(COLUMNS)?;
    is_exec.then(|| last_part(program))
}

fn last_part(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

impl Processes {
    pub fn of(trace: &Trace) -> Self {
        let mut found = Self::default();
        if let Some(residents) = trace.residents.as_ref().filter(|residents| residents.explored) {
            let names = residents.named().map(|(pid, name)| (pid, name.to_owned()));
            found.peers = names.collect();
            found.several = true;
        }
        let first = last_part(&String::from_utf8_lossy(&trace.program.path));
        let mut runs_others = false;
        for (number, step) in trace.steps.iter().enumerate() {
            if let Some(program) = executed(trace, number) {
                let process = found.process(step.thread);
                found.commands.insert(process, program);
                runs_others = true;
                continue;
            }
            let Operation::Call { number, args, result } = &step.operation else {
                continue;
            };
            let child = result
                .and_then(|result| u32::try_from(result).ok())
                .filter(|&child| child > 0);
            let makes_process = match i64::from(*number) {
                libc::SYS_clone => args[0] as i32 & libc::CLONE_THREAD == 0,
                libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone3 => true,
                _ => continue,
            };
            let Some(child) = child else { continue };
            let process = match makes_process {
                true => child,
                false => found.process(step.thread),
            };
            found.of.insert(child, process);
            found.several |= makes_process;
            if makes_process {
                let maker = found.process(step.thread);
                let command = found
                    .commands
                    .entry(maker)
                    .or_insert_with(|| first.clone())
                    .clone();
                found.commands.insert(child, command);
            }
        }
        if !runs_others {
            found.commands.clear();
        }
        found
    }

    /// The process of a thread; the first one is of the first.
    fn process(&self, thread: u32) -> u32 {
        self.of.get(&thread).copied().unwrap_or(thread)
    }

    /// A thread as people call it: a process, if it is the first of one of several.
    pub fn who(&self, thread: u32) -> String {
        match self.process(thread) == thread && self.several {
            _ if thread == ENVIRONMENT => "environment".to_owned(),
            true if self.peers.contains_key(&thread) => format!("peer {}", self.peers[&thread]),
            true => match self.commands.get(&thread) {
                Some(command) => format!("process {thread} ({command})"),
                None => format!("process {thread}"),
            },
            false => format!("thread {thread}"),
        }
    }

    /// The process that a thread is of, if there are several.
    pub fn group(&self, thread: u32) -> Option<u32> {
        self.several.then(|| self.process(thread))
    }
}
