//! Which process a debugger looks at, and where in the trace it is there.

use failure::Failure;
use session::{Options, execution};
use syscall_model::{Sysno, Tid};
use trace::{Operation, Step, Trace, ViolationKind};

/// The part of a trace in which there is this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    pub process: Tid,
    /// It begins before this transition…
    pub begin: usize,
    /// … and ends before this one, as far as that is known.
    pub end: usize,
    /// Before this transition gdb finds it.
    pub first: usize,
}

impl Scope {
    /// Of `process`, else the first. gdb knows the symbols of one file: it finds a process where that has become what it stays.
    pub fn of(trace: &Trace, process: Option<Tid>, stop_at: Option<u64>) -> Result<Self, Failure> {
        let process = process.unwrap_or(trace.config.pid);
        let hint = |failure: Failure| {
            let all: Vec<String> = processes(trace).iter().map(Tid::to_string).collect();
            failure.hint(format!("processes of the trace: {}", all.join(", ")))
        };
        let missing = || hint(Failure::usage(format!("process {process} is not in the trace")));
        let begin = match process == trace.config.pid {
            true => 0,
            false => 1 + maker(trace, process).ok_or_else(missing)?,
        };
        let end = trace.steps.len();
        let executes = |step: &Step| step.thread == process && is_exec(&step.operation);
        let first = match stop_at {
            Some(at) if (at as usize) < begin => {
                return Err(hint(Failure::usage(format!(
                    "process {process} has not begun at step {at}"
                ))));
            }
            Some(at) => (at as usize).min(end),
            None if process == trace.config.pid => begin,
            None => {
                let last = trace.steps.iter().rposition(executes);
                last.map_or(begin, |exec| exec + 1)
            }
        };
        Ok(Self {
            process,
            begin,
            end,
            first,
        })
    }
}

/// The process that a violation is in, if it is in one. Which process has crashed shows when it does so once more.
pub fn guilty(options: &Options, trace: &Trace) -> Result<Option<Tid>, Failure> {
    let Some(finding) = &trace.finding else {
        return Ok(None);
    };
    if let Some(thread) = finding.violation.thread {
        return Ok(views::process_of(trace, thread));
    }
    let is_crash = matches!(
        finding.violation.kind,
        ViolationKind::Crash | ViolationKind::Assert
    );
    if !is_crash || processes(trace).len() < 2 {
        return Ok(None);
    }
    let execution = execution::replay(options.clone(), trace, None)?;
    let crash = execution.session.crash().cloned();
    execution.session.finish();
    Ok(crash.and_then(|crash| crash.process).map(|(pid, _)| pid))
}

/// The transition that made a process.
fn maker(trace: &Trace, process: Tid) -> Option<usize> {
    let makes = |step: &Step| views::makes_process(step) == Some(process);
    trace.steps.iter().position(makes)
}

fn processes(trace: &Trace) -> Vec<Tid> {
    let made = trace.steps.iter().filter_map(views::makes_process);
    std::iter::once(trace.config.pid).chain(made).collect()
}

/// Does the process run another program from here on? Such a call does not return.
fn is_exec(operation: &Operation) -> bool {
    let Operation::Call {
        number, result: None, ..
    } = operation
    else {
        return false;
    };
    let call = Sysno::new(*number as usize);
    call.is_some_and(|call| matches!(call, Sysno::execve | Sysno::execveat))
}
