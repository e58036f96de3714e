//! The program under test as something that can be searched.

use super::judge::Judge;
use super::profile::Profile;
use super::properties::Ending;
use super::recovery::Recovery;
use super::suspicions::{Fate, Suspicions};
use checkpoint::{Backend, View};
use explore::{Candidate, Choice, Menu, Report, StepReport, System};
use failure::Failure;
use imbl::Vector;
use session::{FaultPlan, Marks, Options, Session};
use std::collections::BTreeMap;
use std::ops::Range;
use syscall_model::processes::Pid;
use syscall_model::{Pending, Tid};
use trace::{Alternative, ENVIRONMENT, End, Violation};

/// `--checkpoint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointChoice {
    Auto,
    Fork,
    Rewind,
    /// States are re-reached from the start.
    None,
}

/// One worker's program under test.
pub struct CheckSystem {
    options: Options,
    judge: Judge,
    choice: CheckpointChoice,
    session: Option<Session>,
    checkpoints: Option<Marks>,
    /// To the current state.
    way: Way,
    /// The initial state.
    start: Option<Mark>,
    auxiliary: Auxiliary,
    /// What peers are told is told for good, so calls are not made to try something out.
    has_peers: bool,
    suspicions: Suspicions,
    profile: Option<Profile>,
    /// At which depth of the current path each standstill began.
    standstill_since: BTreeMap<u64, usize>,
}

/// What led from the initial state to another one.
#[derive(Clone, Default)]
struct Way {
    /// Who moved last.
    last: Option<Tid>,
    path: Vector<Choice>,
    faults_used: u32,
}

/// Memory that does not identify a state.
#[derive(Default)]
struct Auxiliary {
    names: Vec<String>,
    ranges: Vec<Range<u64>>,
}

/// A checkpoint of the execution, with what is known of the way there. The way is shared with those before and after it.
pub struct Mark {
    execution: session::Mark,
    way: Way,
}

fn gone() -> Failure {
    Failure::unsupported("the program under test is gone")
}

impl CheckSystem {
    pub fn new(options: Options, judge: Judge, choice: CheckpointChoice) -> Self {
        Self {
            options,
            judge,
            choice,
            session: None,
            checkpoints: None,
            way: Way::default(),
            start: None,
            auxiliary: Auxiliary::default(),
            has_peers: false,
            suspicions: Suspicions::default(),
            profile: None,
            standstill_since: BTreeMap::new(),
        }
    }

    /// Where to count states by their places.
    pub fn profiled(mut self, profile: Option<&Profile>) -> Self {
        self.profile = profile.cloned();
        self
    }

    /// Leaves this memory out of the identity of a state.
    pub fn auxiliary(mut self, names: &[String]) -> Self {
        self.auxiliary.names = names.to_vec();
        self
    }

    /// Other programs are listening.
    pub fn peers(mut self, has_peers: bool) -> Self {
        self.has_peers = has_peers;
        self
    }

    /// Where to tell of what may be a deadlock.
    pub fn suspicions(mut self, suspicions: &Suspicions) -> Self {
        self.suspicions = suspicions.clone();
        self
    }

    /// What may be a deadlock counts as one.
    pub fn with_suspicions(mut self, counts: bool) -> Self {
        self.judge.properties.suspicions = counts;
        self
    }

    /// After a step: which threads wait for each other's locks, and who was set free.
    fn look_for_standstills(&mut self) -> Result<(), Failure> {
        let session = self.session.as_ref().ok_or_else(gone)?;
        let before = session.standstills_before();
        let (path, suspicions) = (&self.way.path, &self.suspicions);
        if let Some(End::Exited(_) | End::Killed(_)) = session.end() {
            for standstill in before {
                suspicions.suspect(standstill, path, Fate::Ended);
            }
            return Ok(());
        }
        let now = session.standstills().standstills(None);
        let stands = |key: u64| now.iter().any(|standstill| standstill.key == key);
        for standstill in before.iter().filter(|standstill| !stands(standstill.key)) {
            suspicions.refute(standstill);
        }
        self.standstill_since.retain(|&key, _| stands(key));
        for standstill in &now {
            let since = *self.standstill_since.entry(standstill.key).or_insert(path.len());
            let fate = match session.end() {
                Some(_) => Fate::Ended,
                None => Fate::Stands { since },
            };
            suspicions.suspect(standstill, path, fate);
        }
        Ok(())
    }

    /// What the current state violates.
    pub fn violations_of(&self, session: &mut Session) -> Result<Vec<Violation>, Failure> {
        Ok(match session.end().cloned() {
            Some(end) => self.judge.judge(session, &end, &self.options)?.1,
            None => self.judge.properties.violated_now(session),
        })
    }

    /// What is run after a kill or a power failure.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.judge.recovery.as_ref()
    }

    /// The backend that will be used, as far as it can be told before the start.
    pub fn planned_backend(&self) -> String {
        match self.choice {
            CheckpointChoice::Fork => Backend::Fork.to_string(),
            CheckpointChoice::Rewind => Backend::Rewind.to_string(),
            CheckpointChoice::None => "none".to_owned(),
            CheckpointChoice::Auto if checkpoint::probe().works() => Backend::Rewind.to_string(),
            CheckpointChoice::Auto => Backend::Fork.to_string(),
        }
    }

    /// The execution, to look at.
    pub fn execution(&self) -> Result<&Session, Failure> {
        self.session.as_ref().ok_or_else(gone)
    }

    /// The execution, for whatever the caller does with it.
    pub fn session(&mut self) -> Result<&mut Session, Failure> {
        let session = self.session.as_mut().ok_or_else(gone)?;
        session.spaces_mut().touch();
        Ok(session)
    }

    /// The checkpoints and the execution that they are of.
    fn running(&mut self) -> Result<(&mut Marks, &mut Session), Failure> {
        let session = self.session.as_mut().ok_or_else(gone)?;
        let checkpoints = self.checkpoints.as_mut().ok_or_else(gone)?;
        Ok((checkpoints, session))
    }

    /// The name of the checkpoint backend in use.
    pub fn backend(&self) -> String {
        self.checkpoints.as_ref().map_or_else(
            || "none".to_owned(),
            |checkpoints| checkpoints.backend().to_string(),
        )
    }

    pub fn stats(&self) -> checkpoint::Stats {
        self.checkpoints
            .as_ref()
            .map(|checkpoints| checkpoints.stats())
            .unwrap_or_default()
    }

    /// Starts the program anew.
    fn restart(&mut self) -> Result<(), Failure> {
        self.give_up();
        let mut session = Session::start(self.options.clone())?;
        let backend = match self.choice {
            CheckpointChoice::Fork => Backend::Fork,
            CheckpointChoice::Rewind => Backend::Rewind,
            // Without checkpoints states still have an identity.
            CheckpointChoice::Auto | CheckpointChoice::None => Backend::Auto,
        };
        self.checkpoints = Some(Marks::new(&mut session, backend)?);
        self.auxiliary.ranges = session::objects::resolve_all(&self.auxiliary.names, &session)?;
        self.session = Some(session);
        self.way = Way::default();
        self.standstill_since.clear();
        Ok(())
    }

    fn go_back(
        &mut self,
        mark: &Mark,
        restore: impl FnOnce(&mut Marks, &mut Session) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        let Ok((checkpoints, session)) = self.running() else {
            return Ok(false);
        };
        if !restore(checkpoints, session)? {
            self.give_up();
            return Ok(false);
        }
        self.way.clone_from(&mark.way);
        let depth = self.way.path.len();
        self.standstill_since.retain(|_, since| *since <= depth);
        Ok(true)
    }

    /// Ends the execution, and with it all marks in it.
    fn give_up(&mut self) {
        self.start = None;
        self.checkpoints = None;
        if let Some(session) = self.session.take() {
            session.finish();
        }
    }

    fn mark_here(&mut self) -> Result<Option<Mark>, Failure> {
        if self.choice == CheckpointChoice::None {
            return Ok(None);
        }
        let (checkpoints, session) = self.running()?;
        let Some(execution) = checkpoints.mark(session)? else {
            return Ok(None);
        };
        Ok(Some(Mark {
            execution,
            way: self.way.clone(),
        }))
    }
}

/// Where a thread stands, and before what, for people.
fn place(session: &Session, thread: Tid) -> String {
    let doing = session.explain().next_step(thread);
    match session.explain().location(thread) {
        place if place.is_empty() => doing,
        place => format!("{place} ({doing})"),
    }
}

/// What the environment can do: faults, if there may be any, and what else comes from outside.
fn from_outside(session: &Session, faults: Option<&FaultPlan>) -> Vec<Candidate> {
    let hazards = session.hazards();
    let mut outside = faults.map_or_else(Vec::new, |plan| hazards.hazards(plan));
    if session.arrivals().clients_may_wait() {
        outside.push((ENVIRONMENT, Alternative::Later));
    }
    if session.rests() {
        let is_awaited = faults.is_some_and(|plan| hazards.awaits_signal(plan));
        let rest = if is_awaited {
            Alternative::Await
        } else {
            Alternative::Rest
        };
        outside.push((ENVIRONMENT, rest));
    }
    let candidate = |(thread, alternative): (Tid, Alternative)| {
        let choice = Choice {
            thread,
            alternative: alternative.number(),
        };
        Candidate::new(
            choice,
            session.footprints().footprint_as(thread, Some(alternative)),
        )
    };
    outside.into_iter().map(candidate).collect()
}

impl System for CheckSystem {
    type Mark = Mark;
    type Outcome = Ending;
    type Violation = Violation;
    type Error = Failure;

    fn reset(&mut self) -> Result<(), Failure> {
        // Marks of other states may still be in use, and belong to the process that is there.
        if let Some(start) = self.start.take()
            && self.rewind(&start)?
        {
            self.start = Some(start);
            return Ok(());
        }
        self.restart()?;
        self.start = self.mark_here()?;
        Ok(())
    }

    fn enabled(&mut self) -> Result<Menu, Failure> {
        let last = self.way.last;
        let plan = &self.options.faults;
        let may_fail = self.way.faults_used < plan.budget;
        let session = self.session.as_mut().ok_or_else(gone)?;
        let enabled = session.movers().enabled();
        let has_peers = self.has_peers;
        let candidate = |tid: Tid| {
            let is_call = matches!(
                session.model().thread(tid).pending,
                Pending::Call(_) | Pending::Return(_)
            );
            let site = session.explain().site(tid).filter(|_| !(has_peers && is_call));
            Candidate::new(Choice::of(tid), session.footprints().footprint(tid))
                .placed(session.explain().standing_at(tid).unwrap_or_default())
                .at(site)
        };
        let running =
            last.filter(|tid| enabled.contains(tid) && session.model().thread(*tid).idle_yields == 0);
        let live = session.movers().scheduled().into_iter();
        let gone =
            matches!(session.end(), Some(end) if !matches!(end, End::Deadlock | End::Livelock | End::Idle));
        let blocked = live
            .filter(|tid| !gone && !enabled.contains(tid))
            .map(candidate)
            .collect();
        let mut choices: Vec<Candidate> = Vec::with_capacity(enabled.len());
        for &tid in &enabled {
            let first = candidate(tid);
            let others = session.arrivals().alternatives(tid).into_iter().skip(1);
            let others = others.map(|alternative| {
                let mut other = first.clone();
                other.choice.alternative = alternative;
                other
            });
            choices.extend([first.clone()].into_iter().chain(others));
        }
        let outside = from_outside(session, may_fail.then_some(plan));
        if !outside.is_empty() {
            choices.extend(outside);
            choices.sort_by_key(|candidate| candidate.choice);
        }
        let menu = Menu {
            choices,
            blocked,
            running,
            environment: Some(ENVIRONMENT),
        };
        if let Some(profile) = &self.profile {
            let is_alone = session.model().is_alone();
            profile.count(&menu, is_alone, |candidate| {
                place(session, candidate.choice.thread)
            });
        }
        Ok(menu)
    }

    fn step(&mut self, choice: Choice) -> Result<Report<Self>, Failure> {
        // What happens from outside leaves the thread running that was.
        if choice.thread != ENVIRONMENT {
            self.way.last = Some(choice.thread);
        }
        self.way.path.push_back(choice);
        self.way.faults_used += u32::from(Alternative::is_fault(choice.alternative));
        let session = self.session.as_mut().ok_or_else(gone)?;
        let announced = session.footprints().announce(choice.thread, choice.alternative);
        let foreign = session.standstills().foreign_unlock(choice.thread);
        session.step_as(choice.thread, choice.alternative)?;
        self.look_for_standstills()?;
        if self
            .session
            .as_ref()
            .is_some_and(|session| session.movers().waits_for_time())
        {
            self.suspicions.waits_for_time();
        }
        if let Some(unlock) = foreign {
            self.suspicions.unlocked(unlock);
        }
        let session = self.session.as_mut().ok_or_else(gone)?;
        let mut report = StepReport::running();
        report.performed = session.footprints().performed(&announced);
        match session.end().cloned() {
            Some(end) => {
                self.suspicions.left_behind(session.left_behind());
                if session.goes_on() {
                    self.suspicions.goes_on();
                }
                let (ending, violations) = self.judge.judge(session, &end, &self.options)?;
                report.violations = violations;
                report.end = Some(ending);
            }
            None => report
                .violations
                .extend(self.judge.properties.violated_now(session)),
        }
        Ok(report)
    }

    fn state_id(&mut self) -> Result<u128, Failure> {
        let auxiliary = std::mem::take(&mut self.auxiliary.ranges);
        let first = self.options.config.pid;
        let (checkpoints, session) = self.running()?;
        let control = session.control_identity()?;
        let view = |session: &Session, process: Pid| {
            // The user's names are of the program that was started.
            let auxiliary = auxiliary.iter().filter(|_| process == first).cloned();
            View {
                threads: session.thread_stacks(process),
                exclude: session
                    .spaces()
                    .own_ranges(process)
                    .into_iter()
                    .chain(auxiliary)
                    .collect(),
                ..View::default()
            }
        };
        let memory = checkpoints.identity(session, view);
        self.auxiliary.ranges = auxiliary;
        let memory = memory?;
        let id = control.rotate_left(1) ^ memory ^ u128::from(self.way.faults_used);
        if let (Some(profile), Some(session)) = (&self.profile, &self.session) {
            profile.meet(session, id, &self.auxiliary.names)?;
        }
        Ok(id)
    }

    fn describe(&mut self, choice: Choice) -> String {
        let thread = choice.thread;
        let Some(session) = &self.session else {
            return format!("thread {thread}");
        };
        let is_new = session.model().thread(thread).pending == Pending::Start;
        match session.explain().location(thread) {
            _ if is_new => format!("the start of thread {thread}"),
            place if place.is_empty() => format!("thread {thread}"),
            place => format!("{place} (thread {thread})"),
        }
    }

    fn mark(&mut self) -> Result<Option<Mark>, Failure> {
        let mark = self.mark_here()?;
        if let (Some(_), Some(session)) = (&mark, &self.session) {
            session.network().will_return();
        }
        Ok(mark)
    }

    fn rewind(&mut self, mark: &Mark) -> Result<bool, Failure> {
        self.go_back(mark, |checkpoints, session| {
            checkpoints.restore(session, &mark.execution)
        })
    }

    fn rewind_last(&mut self, mark: Mark) -> Result<bool, Failure> {
        self.go_back(&mark, |checkpoints, session| {
            checkpoints.restore_last(session, &mark.execution)
        })
    }

    fn forget(&mut self, mark: Mark) {
        if let Some(checkpoints) = self.checkpoints.as_mut() {
            checkpoints.forget(&mark.execution);
        }
    }
}
