//! One schedule from start to end: chosen by a scheduler, or prescribed by a trace.

use crate::schedule::Scheduler;
use crate::{Alternative, ENVIRONMENT, Options, Session};
use failure::{Failure, Printed};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use syscall_model::Tid;
use trace::{End, Machine, ProgramRecord, ResidentsRecord, Step, Trace};

/// A finished execution.
pub struct Execution {
    pub session: Session,
    pub steps: Vec<Step>,
    /// How often a thread was made to wait although it could have gone on.
    pub preemptions: u64,
    pub end: End,
}

/// Runs one schedule to its end, or to `max_steps`.
pub fn run(options: Options, scheduler: &mut dyn Scheduler, max_steps: u64) -> Result<Execution, Failure> {
    drive(
        options,
        max_steps,
        &mut |_, _, _| {},
        |_, session| {
            let tid = scheduler.choose(&session.movers().enabled());
            Ok((
                tid,
                scheduler.choose_alternative(&session.arrivals().alternatives(tid)),
            ))
        },
        |_, _| Ok(()),
    )
}

/// Runs the schedule of a trace and compares each step; the first difference is a desync.
pub fn replay(options: Options, trace: &Trace, stop_at: Option<u64>) -> Result<Execution, Failure> {
    replay_watched(options, trace, stop_at, &mut |_, _, _| {})
}

/// Like [`replay`]; `watch` sees the session before each step, the step's number and the thread that goes next.
pub fn replay_watched(
    options: Options,
    trace: &Trace,
    stop_at: Option<u64>,
    watch: &mut dyn FnMut(&Session, u64, Tid),
) -> Result<Execution, Failure> {
    let recorded = trace.steps.len() as u64;
    let limit = stop_at.unwrap_or(recorded).min(recorded);
    let execution = drive(
        options,
        limit,
        watch,
        |at, session| {
            let step = &trace.steps[at as usize];
            let alternative = Alternative::of(step.alternative);
            if alternative.is_some_and(|alternative| session.hazards().offers(step.thread, alternative)) {
                return Ok((step.thread, step.alternative));
            }
            let enabled = session.movers().enabled();
            Err(desync(
                at,
                &format!("thread {} goes next: {}", step.thread, step.operation),
                &format!("enabled are {enabled:?}"),
            ))
        },
        |at, step| {
            let expected = &trace.steps[at as usize];
            if step == expected {
                return Ok(());
            }
            Err(differs(at, expected, step))
        },
    )?;
    if limit == recorded && execution.end != trace.end {
        return Err(desync(
            recorded,
            &trace.end.to_string(),
            &execution.end.to_string(),
        ));
    }
    Ok(execution)
}

/// Two executions of one schedule parted at step `at`.
pub fn differs(at: u64, expected: &Step, actual: &Step) -> Failure {
    let show = |s: &Step| format!("thread {} at {:#x}: {}", s.thread, s.at, s.operation);
    let mut failure = desync(at, &show(expected), &show(actual));
    if show(expected) == show(actual) {
        failure
            .details
            .push("the operations are the same; what the thread did after its operation differs".to_owned());
    }
    failure
}

fn desync(at: u64, expected: &str, actual: &str) -> Failure {
    Failure::desync(format!(
        "desync at step {at}: the program did not behave the same under the same schedule"
    ))
    .detail(format!("expected: {expected}"))
    .detail(format!("actual:   {actual}"))
}

fn drive(
    options: Options,
    max_steps: u64,
    watch: &mut dyn FnMut(&Session, u64, Tid),
    mut choose: impl FnMut(u64, &Session) -> Result<(Tid, u32), Failure>,
    mut check: impl FnMut(u64, &Step) -> Result<(), Failure>,
) -> Result<Execution, Failure> {
    let mut session = Session::start(options)?;
    session.keep_journal();
    let mut steps: Vec<Step> = Vec::new();
    let mut preemptions = 0;
    while session.end().is_none() && (steps.len() as u64) < max_steps {
        let enabled = session.movers().enabled();
        let at = steps.len() as u64;
        let (tid, alternative) = choose(at, &session)?;
        // What happens from outside preempts nobody.
        let mut threads = steps.iter().rev().map(|step| step.thread);
        let last = threads.find(|&thread| thread != ENVIRONMENT);
        let is_left = last.is_some_and(|last| last != tid && enabled.contains(&last));
        preemptions += u64::from(is_left && tid != ENVIRONMENT);
        watch(&session, at, tid);
        let step = match session.step_as(tid, alternative) {
            Ok(step) => step,
            Err(failure) => return Err(failure.after(printed(&session))),
        };
        tracing::debug!(step = at, thread = step.thread, "{}", step.operation);
        check(at, &step)?;
        steps.push(step);
    }
    let end = session.end().cloned().unwrap_or(End::Cut);
    Ok(Execution {
        session,
        steps,
        preemptions,
        end,
    })
}

fn printed(session: &Session) -> Printed {
    let output = &session.model().output;
    Printed {
        stdout: output.stdout.bytes(),
        stderr: output.stderr.bytes(),
    }
}

impl Execution {
    /// The trace of this execution.
    pub fn trace(&self, options: &Options, seed: u64) -> Result<Trace, Failure> {
        let program = options.program_record()?;
        Ok(Trace {
            program,
            config: options.config.clone(),
            preempt: options.preempt,
            seed,
            steps: self.steps.clone(),
            end: self.end.clone(),
            locations: Vec::new(),
            finding: None,
            communication: self.session.network().peers().recording()?,
            traffic: self.session.network().traffic(),
            inputs: self.session.host().inputs(),
            machine: Machine::this(),
            watched: (*options.watched).clone(),
            lent: options.walk.as_ref().map(|walk| (*walk.lent).clone()),
            faults: options.faults.calls.bits(),
            recover: Vec::new(),
            residents: options.residents_record()?,
        })
    }
}

/// BLAKE3 of a program's file, piece by piece: it may be large.
///
/// # Errors
/// It cannot be read.
pub fn digest(path: &Path) -> Result<[u8; 32], Failure> {
    let mut hasher = blake3::Hasher::new();
    let hashed = File::open(path).and_then(|mut file| std::io::copy(&mut file, &mut hasher));
    hashed.map_err(|e| Failure::unsupported(format!("{}: {e}", path.display())))?;
    Ok(*hasher.finalize().as_bytes())
}

impl Options {
    /// The peers that these options run with the program, as a trace tells it.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn residents_record(&self) -> Result<Option<ResidentsRecord>, Failure> {
        let residents = self.residents.as_ref();
        residents.map(|residents| residents.record()).transpose()
    }

    /// What these options run, as a trace tells it.
    ///
    /// # Errors
    /// The program cannot be read.
    pub fn program_record(&self) -> Result<ProgramRecord, Failure> {
        let path = &self.program.path;
        Ok(ProgramRecord {
            path: path.as_os_str().as_bytes().to_vec(),
            digest: digest(path)?,
            argv: self.argv.clone(),
            env: self.env.clone(),
        })
    }
}
