//! From a violating path to a trace on disk and a table that people can read.

use super::properties::Violation;
use super::system::CheckSystem;
use crate::error::Failure;
use crate::masking::{self, Shown};
use crate::session::{Alternative, ENVIRONMENT, Options, Session};
use crate::trace::{self, End, Finding, Machine, Operation, ProgramRecord, Step, Trace};
use explore::{Choice, Critical, Effort, Minimised};
use std::path::{Path, PathBuf};
use syscall_model::{Errno, Sysno};

/// Transitions that minimisation may execute: enough to prove small counterexamples minimal.
pub const EFFORT: u64 = 20_000;
/// The same for what a walk has met: there are many more schedules, and the least of them is not asked for.
pub const WALK_EFFORT: u64 = 6_000;

/// A violation with the schedule that shows it best.
pub struct Counterexample {
    pub violation: Violation,
    pub trace: Trace,
    /// Its trace; or why it could not be written. A violation that was found is not lost for that.
    pub path: Result<PathBuf, Failure>,
    pub preemptions: u32,
    /// No schedule with fewer preemptions shows it.
    pub is_minimal: bool,
    pub stacks: Vec<String>,
    /// What to say about the environment in its trace.
    pub note: Option<String>,
}

/// How counterexamples of one search are made.
pub struct Maker<'a> {
    pub options: &'a Options,
    pub seed: u64,
    /// There is but one violation: any of its kind will do, and the simplest is best. Of several each has its own counterexample.
    pub is_only: bool,
    /// Where traces go.
    pub directory: &'a Path,
    /// Traces hold the values of all environment variables.
    pub keep_env: bool,
}

impl Maker<'_> {
    /// Minimises a violating schedule by so much effort, executes it once more with everything recorded, and writes its trace.
    pub fn make(
        &self,
        system: &mut CheckSystem,
        violation: &Violation,
        path: &[Choice],
        effort: u64,
    ) -> Result<Counterexample, Failure> {
        let same = |other: &Violation| {
            other.kind == violation.kind
                && (self.is_only || (&other.message, other.thread) == (&violation.message, violation.thread))
        };
        let effort = || Effort {
            steps: effort,
            ..Effort::default()
        };
        let minimised = explore::minimise(system, path, &same, effort()).map_err(unwrap_failure)?;
        let critical =
            match explore::critical_transition(system, &minimised.path, effort()).map_err(unwrap_failure)? {
                Critical::Step(step) => Some(step as u64),
                Critical::Always | Critical::Unknown => None,
            };
        self.record(system, &same, minimised, critical)
    }

    fn record(
        &self,
        system: &CheckSystem,
        same: &dyn Fn(&Violation) -> bool,
        minimised: Minimised,
        critical: Option<u64>,
    ) -> Result<Counterexample, Failure> {
        let mut session = Session::start(self.options.clone())?;
        session.keep_journal();
        let mut steps = Vec::with_capacity(minimised.path.len());
        let mut locations = Vec::with_capacity(minimised.path.len());
        for choice in &minimised.path {
            locations.push(session.location(choice.thread));
            steps.push(session.step_as(choice.thread, choice.alternative)?);
        }
        let end = session.end().cloned().unwrap_or(End::Cut);
        let found = system.violations_of(&mut session)?;
        let violation = found
            .into_iter()
            .find(|violation| same(violation))
            .ok_or_else(|| {
                Failure::desync("a counterexample did not show its violation when it was executed again")
            })?;
        for (step, location) in steps.iter().zip(&mut locations) {
            annotate(&session, step, location);
        }
        let stacks = session.stacks();
        let traffic = session.network().traffic();
        let inputs = session.host().inputs();
        let shown = Shown::of(&session);
        session.finish();
        let mut trace = Trace {
            program: ProgramRecord::of(self.options)?,
            config: self.options.config.clone(),
            preempt: self.options.preempt,
            seed: self.seed,
            steps,
            end,
            locations,
            communication: self.options.peers.recording()?,
            traffic,
            inputs,
            machine: Machine::this(),
            watched: (*self.options.watched).clone(),
            lent: self.options.walk.as_ref().map(|walk| (*walk.lent).clone()),
            faults: self.options.faults.calls.bits(),
            recover: system
                .recovery()
                .map(|recovery| recovery.argv.clone())
                .unwrap_or_default(),
            finding: Some(Finding {
                violation: violation.clone(),
                preemptions: minimised.preemptions,
                critical,
            }),
        };
        let note = match self.keep_env {
            true => None,
            false => masking::mask(&mut trace, self.options, &shown)?,
        };
        let path = write(&trace, violation.kind.name(), self.directory);
        Ok(Counterexample {
            violation,
            trace,
            path,
            preemptions: minimised.preemptions,
            is_minimal: minimised.fewest_preemptions,
            stacks,
            note,
        })
    }
}

fn unwrap_failure(failure: explore::Failure<Failure>) -> Failure {
    match failure {
        explore::Failure::System { error, .. } => error,
        other => Failure::desync(other.to_string()),
    }
}

/// The file's name tells kind and content, so that the same counterexample is the same file.
fn write(trace: &Trace, kind: &str, directory: &Path) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(directory).map_err(|e| {
        Failure::usage(format!("cannot make {}: {e}", directory.display())).hint("see --trace-dir")
    })?;
    let digest = blake3::hash(&trace::format::encode(trace)?).to_hex();
    let path = directory.join(format!("{kind}-{}.trace", &digest[..8]));
    trace::format::write(&path, trace)?;
    Ok(path)
}

/// Between the name of a step's object and its place in the source.
const COLUMNS: &str = "  ";

/// Adds the name of a step's object, if it has one, to its location.
fn annotate(session: &Session, step: &Step, location: &mut String) {
    let object = match &step.operation {
        Operation::Sync { object, .. } => *object,
        Operation::Call { number, args, .. } if i64::from(*number) == libc::SYS_futex => args[0],
        _ => return,
    };
    let name = session.object_name(object);
    if !name.starts_with("0x") {
        *location = format!("{name}{COLUMNS}{location}");
    }
}

/// The table of a trace: step, thread, operation, where. Start-up before there is a second thread is one line.
pub fn table(trace: &Trace) -> Vec<String> {
    let critical = trace.finding.as_ref().and_then(|finding| finding.critical);
    let first = first_interesting(trace);
    let mut lines = Vec::new();
    if first > 0 {
        lines.push(format!("        … {first} steps of start-up, a single thread"));
    }
    let messages = crate::show::messages(trace);
    let mut last_thread = None;
    for (number, step) in trace.steps.iter().enumerate().skip(first) {
        let mark = if critical == Some(number as u64) { "!" } else { " " };
        let thread = if last_thread == Some(step.thread) {
            String::new()
        } else {
            who(step.thread)
        };
        last_thread = Some(step.thread);
        let (object, location) = annotation(trace, number);
        lines.push(format!(
            "{mark} {number:>5}  {thread:<12} {:<44} {location}",
            in_words(step, object)
        ));
        lines.extend(step.arrived.iter().map(|words| format!("{:23}· {words}", "")));
        let here = messages.iter().filter(|message| message.step == number);
        lines.extend(here.map(|message| said(trace, message)));
    }
    if let Some(critical) = critical {
        lines.push(format!(
            "! after step {critical} every way to go on ends in a violation"
        ));
    }
    lines
}

/// What a schedule needs of the world to come about, beside threads that are switched: nothing, or what is not as it is at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Looks that miss what is on its way, or see it in another order than that of the command line.
    pub late_answers: u64,
    pub faults: u64,
}

impl Needs {
    pub fn of(steps: &[Step]) -> Self {
        let count = |counts: &dyn Fn(u32) -> bool| {
            let alternatives = steps.iter().map(|step| step.alternative);
            alternatives.filter(|&alternative| counts(alternative)).count() as u64
        };
        Self {
            late_answers: count(&|number| matches!(Alternative::of(number), Some(Alternative::Arrival(_)))),
            faults: count(&Alternative::is_fault),
        }
    }
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

fn who(thread: u32) -> String {
    match thread {
        ENVIRONMENT => "environment".to_owned(),
        thread => format!("thread {thread}"),
    }
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
fn said(trace: &Trace, message: &crate::show::Message) -> String {
    const LONGEST: usize = 60;
    let arrow = if message.is_outward() { "→" } else { "←" };
    let mut text: String = message.label().chars().take(LONGEST).collect();
    if message.label().chars().nth(LONGEST).is_some() {
        text.push('…');
    }
    let name = &trace.traffic.connections[message.peer].name;
    format!("{:23}{arrow} {name}  {text}", "")
}

/// Before it the program is loaded, or is alone: nothing that happens there depends on anything.
fn first_interesting(trace: &Trace) -> usize {
    let is_clone = |step: &Step| matches!(&step.operation, Operation::Call { number, .. } if i64::from(*number) == libc::SYS_clone);
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
            let name = Sysno::new(*number as usize).map_or("?", |sysno| sysno.name());
            let mut shown: Vec<String> = args[..arity(name)]
                .iter()
                .map(|arg| number_or_dots(*arg))
                .collect();
            if let (Some(object), Some(first)) = (object, shown.first_mut()) {
                *first = object.to_owned();
            }
            let result = match result {
                Some(value @ -4095..=-1) => format!(" = {}", errno_name(-value as i32)),
                Some(value) => format!(" = {}", number_or_dots(*value as u64)),
                None => String::new(),
            };
            format!("{name}({}){result}", shown.join(", "))
        }
        other => other.to_string(),
    }
}

/// Addresses differ between machines and tell a reader nothing.
fn number_or_dots(word: u64) -> String {
    match word as i64 {
        small @ -4096..=0xf_ffff => small.to_string(),
        _ => "…".to_owned(),
    }
}

fn errno_name(number: i32) -> String {
    Errno::new(number)
        .name()
        .map_or_else(|| format!("-{number}"), |name| format!("-{name}"))
}

/// How many arguments a call has, for those that programs with threads make; the first three say enough about others.
fn arity(call: &str) -> usize {
    match call {
        "sched_yield" | "getpid" | "gettid" | "pause" | "fork" => 0,
        "exit" | "exit_group" | "close" | "pipe" | "dup" | "clone" => 1,
        "pipe2" | "dup2" | "kill" | "nanosleep" | "fstat" | "munmap" => 2,
        "clock_nanosleep" | "pread64" | "pwrite64" | "tgkill_info" | "epoll_wait" => 4,
        _ => 3,
    }
}
