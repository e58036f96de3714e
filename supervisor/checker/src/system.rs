//! The program under test as something that can be searched.

use super::judge::Judge;
use super::profile::Profile;
use super::properties::Ending;
use super::recovery::Recovery;
use super::suspicions::{Fate, Suspicions};
use checkpoint::{Backend, View};
use explore::{Candidate, Choice, Footprint, Menu, Report, StepReport, System};
use failure::Failure;
use session::{Marks, MemoryMark, Options, Session, Snapshot};
use std::collections::BTreeMap;
use std::ops::Range;
use syscall_model::faults::Fault;
use syscall_model::processes::Pid;
use syscall_model::{Pending, Sysno, Tid};
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
    last: Option<Tid>,
    /// The choices from the initial state to the current one.
    path: Vec<Choice>,
    /// Faults on the way to the current state.
    faults_used: u32,
    /// The initial state.
    start: Option<Mark>,
    /// Memory that does not identify a state.
    auxiliary: Vec<Range<u64>>,
    aux_names: Vec<String>,
    /// What peers are told is told for good, so calls are not made to try something out.
    has_peers: bool,
    suspicions: Suspicions,
    profile: Option<Profile>,
    /// At which depth of the current path each standstill began.
    standing_since: BTreeMap<u64, usize>,
}

/// A checkpoint of the whole extended state.
pub struct Mark {
    memory: MemoryMark,
    rest: Snapshot,
    last: Option<Tid>,
    path: Vec<Choice>,
    faults_used: u32,
}

/// The object that stands for the number of faults that are left: each of them takes the possibility of the others away.
const BUDGET: u64 = 0x6661_756c_7473_6c65;

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
            last: None,
            path: Vec::new(),
            faults_used: 0,
            start: None,
            auxiliary: Vec::new(),
            aux_names: Vec::new(),
            has_peers: false,
            suspicions: Suspicions::default(),
            profile: None,
            standing_since: BTreeMap::new(),
        }
    }

    /// Where to count states by their places.
    pub fn profiled(mut self, profile: Option<&Profile>) -> Self {
        self.profile = profile.cloned();
        self
    }

    /// Leaves this memory out of the identity of a state.
    pub fn auxiliary(mut self, names: &[String]) -> Self {
        self.aux_names = names.to_vec();
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
        let (path, suspicions) = (&self.path, &self.suspicions);
        if let Some(End::Exited(_) | End::Killed(_)) = session.end() {
            for standstill in before {
                suspicions.suspect(standstill, path, Fate::Ended);
            }
            return Ok(());
        }
        let now = session.standstills(None);
        let stands = |key: u64| now.iter().any(|standstill| standstill.key == key);
        for standstill in before.iter().filter(|standstill| !stands(standstill.key)) {
            suspicions.refute(standstill);
        }
        self.standing_since.retain(|&key, _| stands(key));
        for standstill in &now {
            let since = *self.standing_since.entry(standstill.key).or_insert(path.len());
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
            None => self.judge.properties.standing(session),
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
        session.touch();
        Ok(session)
    }

    /// The checkpoints and the execution that they are of.
    fn at_hand(&mut self) -> Result<(&mut Marks, &mut Session), Failure> {
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
        self.checkpoints = None;
        if let Some(session) = self.session.take() {
            session.finish();
        }
        let mut session = Session::start(self.options.clone())?;
        let backend = match self.choice {
            CheckpointChoice::Fork => Backend::Fork,
            CheckpointChoice::Rewind => Backend::Rewind,
            // Without checkpoints states still have an identity.
            CheckpointChoice::Auto | CheckpointChoice::None => Backend::Auto,
        };
        self.checkpoints = Some(Marks::new(&mut session, backend)?);
        self.auxiliary = session::objects::resolve_all(&self.aux_names, &session)?;
        self.session = Some(session);
        self.last = None;
        self.path.clear();
        self.standing_since.clear();
        self.faults_used = 0;
        Ok(())
    }

    fn go_back(
        &mut self,
        mark: &Mark,
        restore: impl FnOnce(&mut Marks, &mut Session) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let (checkpoints, session) = self.at_hand()?;
        if !restore(checkpoints, session)? {
            self.execute_again(&mark.path)?;
        }
        self.last = mark.last;
        self.path.clone_from(&mark.path);
        let depth = self.path.len();
        self.standing_since.retain(|_, since| *since <= depth);
        self.faults_used = mark.faults_used;
        Ok(())
    }

    /// Where memory cannot be put back, the way there is taken again from the start.
    fn execute_again(&mut self, path: &[Choice]) -> Result<(), Failure> {
        self.restart()?;
        let session = self.session.as_mut().ok_or_else(gone)?;
        for choice in path {
            session.step_as(choice.thread, choice.alternative)?;
        }
        Ok(())
    }

    fn mark_here(&mut self) -> Result<Option<Mark>, Failure> {
        if self.choice == CheckpointChoice::None {
            return Ok(None);
        }
        let (checkpoints, session) = self.at_hand()?;
        let Some(memory) = checkpoints.mark(session)? else {
            return Ok(None);
        };
        Ok(Some(Mark {
            memory,
            rest: self.session.as_mut().ok_or_else(gone)?.snapshot()?,
            last: self.last,
            path: self.path.clone(),
            faults_used: self.faults_used,
        }))
    }
}

/// Where a thread stands, and before what, for people.
fn place(session: &Session, thread: Tid) -> String {
    let doing = session.next_step(thread);
    match session.location(thread) {
        place if place.is_empty() => doing,
        place => format!("{place} ({doing})"),
    }
}

/// What a step touches that goes wrong: what it would have touched, unless more than its own call is concerned.
fn fault_footprint(session: &Session, thread: Tid, alternative: Alternative) -> Footprint {
    match alternative {
        Alternative::Fault(Fault::Reset | Fault::NoMemory) => Footprint::global(),
        Alternative::Fault(_) => session.footprint(thread).and_write(BUDGET),
        Alternative::Rest => Footprint::default(),
        // Time passes for all threads, and what comes from outside comes to all.
        _ => Footprint::global(),
    }
}

impl System for CheckSystem {
    type Mark = Mark;
    type Outcome = Ending;
    type Violation = Violation;
    type Error = Failure;

    fn reset(&mut self) -> Result<(), Failure> {
        // Marks of other states may still be in use, and belong to the process that is there.
        if let Some(start) = self.start.take() {
            let result = self.rewind(&start);
            self.start = Some(start);
            return result;
        }
        self.restart()?;
        self.start = self.mark_here()?;
        Ok(())
    }

    fn enabled(&mut self) -> Result<Menu, Failure> {
        let last = self.last;
        let plan = &self.options.faults;
        let may_fail = self.faults_used < plan.budget;
        let session = self.session.as_mut().ok_or_else(gone)?;
        let enabled = session.enabled();
        let has_peers = self.has_peers;
        let candidate = |tid: Tid| {
            let is_call = matches!(
                session.model().thread(tid).pending,
                Pending::Call(_) | Pending::Return(_)
            );
            let site = session.site(tid).filter(|_| !(has_peers && is_call));
            Candidate::new(Choice::of(tid), session.footprint(tid))
                .placed(session.standing_at(tid).unwrap_or_default())
                .at(site)
        };
        let running =
            last.filter(|tid| enabled.contains(tid) && session.model().thread(*tid).idle_yields == 0);
        let live = session.scheduled_tids().into_iter();
        let gone =
            matches!(session.end(), Some(end) if !matches!(end, End::Deadlock | End::Livelock | End::Idle));
        let blocked = live
            .filter(|tid| !gone && !enabled.contains(tid))
            .map(candidate)
            .collect();
        let mut choices: Vec<Candidate> = Vec::with_capacity(enabled.len());
        for &tid in &enabled {
            let first = candidate(tid);
            let others = session.alternatives(tid).into_iter().skip(1);
            let others = others.map(|alternative| {
                let mut other = first.clone();
                other.choice.alternative = alternative;
                other
            });
            choices.extend([first.clone()].into_iter().chain(others));
        }
        let mut outside = match may_fail {
            true => session.hazards(plan),
            false => Vec::new(),
        };
        if session.clients_may_wait() {
            outside.push((ENVIRONMENT, Alternative::Later));
        }
        if session.rests() {
            outside.push((ENVIRONMENT, Alternative::Rest));
        }
        if !outside.is_empty() {
            choices.extend(outside.into_iter().map(|(thread, alternative)| {
                let choice = Choice {
                    thread,
                    alternative: alternative.number(),
                };
                Candidate::new(choice, fault_footprint(session, thread, alternative))
            }));
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
            profile.look(&menu, is_alone, |candidate| {
                place(session, candidate.choice.thread)
            });
        }
        Ok(menu)
    }

    fn step(&mut self, choice: Choice) -> Result<Report<Self>, Failure> {
        // What happens from outside leaves the thread running that was.
        if choice.thread != ENVIRONMENT {
            self.last = Some(choice.thread);
        }
        self.path.push(choice);
        self.faults_used += u32::from(Alternative::is_fault(choice.alternative));
        let session = self.session.as_mut().ok_or_else(gone)?;
        let time = session.model().clock.now();
        let thread = choice.thread;
        let (announced, in_silence) = match Alternative::of(choice.alternative) {
            Some(Alternative::Plain | Alternative::Arrival(_)) => {
                (session.footprint(thread), session.footprint_in_silence(thread))
            }
            Some(fault) => (fault_footprint(session, thread, fault), None),
            None => (Footprint::global(), None),
        };
        let foreign = session.foreign_unlock(thread);
        let is_alone = session.model().threads.len() == 1;
        let at_rest = session.footprint_at_rest(thread);
        let counted = session.counted_threads(thread);
        let pending = session.model().threads.get(&thread).map(|thread| &thread.pending);
        let is_thread_end = matches!(pending, Some(Pending::Call(call)) if call.sysno == Sysno::exit);
        session.step_as(choice.thread, choice.alternative)?;
        self.look_for_standstills()?;
        if let Some(unlock) = foreign {
            self.suspicions.unlocked(unlock);
        }
        let session = self.session.as_mut().ok_or_else(gone)?;
        let mut report = StepReport::running();
        report.performed = in_silence.filter(|_| session.network().was_silent());
        if let Some(at_rest) = at_rest.filter(|_| !session.residents_moved()) {
            report.performed = Some(at_rest);
        }
        if let Some(joined) = session.and_joined(report.performed.clone().unwrap_or(announced.clone())) {
            report.performed = Some(joined);
        }
        if session.model().clock.now() != time || session.took_memory() || session.residents_launched() {
            // Time passed for everybody; memory is gone for everybody.
            report.performed = Some(announced.clone().and_global());
        }
        let touched = report.performed.as_ref().unwrap_or(&announced);
        if let Some(touched) = session.and_counted_out(thread, counted, touched) {
            report.performed = Some(touched);
        }
        match session.end().cloned() {
            Some(end) => {
                self.suspicions.left_behind(session.left_behind());
                let (ending, violations) = self.judge.judge(session, &end, &self.options)?;
                report.violations = violations;
                report.end = Some(ending);
                // The last thread that ends leaves nobody behind whom it would end too.
                let is_last = is_alone && matches!(end, End::Exited(_)) && is_thread_end;
                if !is_last && !matches!(end, End::Deadlock | End::Livelock | End::Idle) {
                    report.performed = Some(announced.and_ending());
                }
            }
            None => report.violations.extend(self.judge.properties.standing(session)),
        }
        Ok(report)
    }

    fn state_id(&mut self) -> Result<u128, Failure> {
        let auxiliary = std::mem::take(&mut self.auxiliary);
        let first = self.options.config.pid;
        let (checkpoints, session) = self.at_hand()?;
        let control = session.control_identity()?;
        let view = |session: &Session, process: Pid| {
            // The user's names are of the program that was started.
            let auxiliary = auxiliary.iter().filter(|_| process == first).cloned();
            View {
                threads: session.thread_stacks(process),
                exclude: session.own_ranges(process).into_iter().chain(auxiliary).collect(),
                ..View::default()
            }
        };
        let memory = checkpoints.identity(session, view);
        self.auxiliary = auxiliary;
        let memory = memory?;
        Ok(control.rotate_left(1) ^ memory ^ u128::from(self.faults_used))
    }

    fn describe(&mut self, choice: Choice) -> String {
        let thread = choice.thread;
        let Some(session) = &self.session else {
            return format!("thread {thread}");
        };
        let is_new = session.model().thread(thread).pending == Pending::Start;
        match session.location(thread) {
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

    fn rewind(&mut self, mark: &Mark) -> Result<(), Failure> {
        self.go_back(mark, |checkpoints, session| {
            checkpoints.restore(session, &mark.memory, &mark.rest)
        })
    }

    fn rewind_last(&mut self, mark: Mark) -> Result<(), Failure> {
        self.go_back(&mark, |checkpoints, session| {
            checkpoints.restore_last(session, &mark.memory, &mark.rest)
        })
    }

    fn forget(&mut self, mark: Mark) {
        if let Some(checkpoints) = self.checkpoints.as_mut() {
            checkpoints.forget(&mark.memory);
        }
    }
}
