//! From a violating path to a trace on disk, with what people want to know of its steps.

use super::endless;
use super::system::CheckSystem;
use crate::masking::{self, Shown};
use explore::{Choice, Critical, Effort, Minimised};
use failure::Failure;
use session::{Options, Session};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use trace::{Alternative, COLUMNS, End, Finding, Machine, Operation, Step, Trace, Violation};

/// Transitions that minimisation may execute: enough to prove small counterexamples minimal.
pub const EFFORT: u64 = 20_000;
/// The same for what a walk has met: there are many more schedules, and the least of them is not asked for.
pub const WALK_EFFORT: u64 = 6_000;

/// Up to so many threads a transition costs about the same.
const FEW_THREADS: u64 = 10;

/// A transition costs more the more threads there are, so of many threads fewer are executed.
fn affordable(effort: u64, path: &[Choice]) -> u64 {
    let threads: BTreeSet<u32> = path.iter().map(|choice| choice.thread).collect();
    effort * FEW_THREADS / FEW_THREADS.max(threads.len() as u64)
}

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
            steps: affordable(effort, path),
            ..Effort::default()
        };
        if endless::is_claimed_by(path) {
            // No other schedule shows this: it was found out by a search.
            let minimised = explore::as_it_is(system, path).map_err(unwrap_failure)?;
            return self.record(system, &same, minimised, None);
        }
        let minimised = explore::minimise(system, path, &same, effort()).map_err(unwrap_failure)?;
        let critical =
            match explore::critical_transition(system, &minimised.path, effort()).map_err(unwrap_failure)? {
                Critical::Step(step) => Some(step as u64),
                Critical::Always | Critical::Unknown => None,
            };
        self.record(system, &same, minimised, critical)
    }

    /// A violation that no state shows, but the order of steps: its schedule as it is.
    pub fn make_as_seen(
        &self,
        system: &mut CheckSystem,
        violation: &Violation,
        path: &[Choice],
    ) -> Result<Counterexample, Failure> {
        let seen = explore::as_it_is(system, path).map_err(unwrap_failure)?;
        self.record_as(system, seen, None, |_| Ok(vec![violation.clone()]))
    }

    fn record(
        &self,
        system: &CheckSystem,
        same: &dyn Fn(&Violation) -> bool,
        minimised: Minimised,
        critical: Option<u64>,
    ) -> Result<Counterexample, Failure> {
        self.record_as(system, minimised, critical, |session| {
            let found = system.violations_of(session)?;
            Ok(found.into_iter().filter(|violation| same(violation)).collect())
        })
    }

    fn record_as(
        &self,
        system: &CheckSystem,
        minimised: Minimised,
        critical: Option<u64>,
        shown: impl FnOnce(&mut Session) -> Result<Vec<Violation>, Failure>,
    ) -> Result<Counterexample, Failure> {
        let mut session = Session::start(self.options.clone())?;
        session.keep_journal();
        let (steps, locations) = walk(&mut session, &minimised.path)?;
        let end = session.end().cloned().unwrap_or(End::Cut);
        let violation = shown(&mut session)?.into_iter().next().ok_or_else(|| {
            Failure::desync("a counterexample did not show its violation when it was executed again")
        })?;
        let stacks = session.explain().stacks();
        let traffic = session.network().traffic();
        let inputs = session.host().inputs();
        let shown = Shown::of(&session);
        session.finish();
        let mut trace = Trace {
            program: self.options.program_record()?,
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
            residents: self.options.residents_record()?,
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

/// Makes the steps of a path, and says where each was.
fn walk(session: &mut Session, path: &[Choice]) -> Result<(Vec<Step>, Vec<String>), Failure> {
    let mut steps = Vec::with_capacity(path.len());
    let mut locations = Vec::with_capacity(path.len());
    for choice in path {
        let location = session.explain().location(choice.thread);
        let mut location = match session.explain().program_to_run(choice.thread) {
            Some(program) => format!("{program}{COLUMNS}{location}"),
            None => location,
        };
        let step = session.step_as(choice.thread, choice.alternative)?;
        // Not later: its process may be gone by then.
        annotate(session, &step, &mut location);
        locations.push(location);
        steps.push(step);
    }
    Ok((steps, locations))
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

/// Adds the name of a step's object, if it has one, to its location.
fn annotate(session: &Session, step: &Step, location: &mut String) {
    let object = match &step.operation {
        Operation::Sync { object, .. } => *object,
        Operation::Call { number, args, .. } if i64::from(*number) == libc::SYS_futex => args[0],
        _ => return,
    };
    let name = session.explain().object_name(step.thread, object);
    if !name.starts_with("0x") {
        *location = format!("{name}{COLUMNS}{location}");
    }
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
            late_answers: count(&Alternative::is_late),
            faults: count(&Alternative::is_fault),
        }
    }
}
