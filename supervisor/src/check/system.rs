//! The program under test as something that can be searched.

use super::properties::{self, Ending, Properties, Violation};
use crate::error::Failure;
use crate::session::{Options, Session, Snapshot};
use checkpoint::{Backend, Checkpointer, MarkId, View};
use explore::{Candidate, Choice, Menu, Report, StepReport, System};
use std::ops::Range;
use syscall_model::Tid;

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
    properties: Properties,
    choice: CheckpointChoice,
    session: Option<Session>,
    checkpoints: Option<Box<dyn Checkpointer>>,
    last: Option<Tid>,
    /// The initial state.
    start: Option<Mark>,
    /// Memory that does not identify a state.
    auxiliary: Vec<Range<u64>>,
}

/// A checkpoint of the whole extended state.
pub struct Mark {
    memory: MarkId,
    rest: Snapshot,
    last: Option<Tid>,
}

impl CheckSystem {
    pub fn new(options: Options, properties: Properties, choice: CheckpointChoice) -> Self {
        Self { options, properties, choice, session: None, checkpoints: None, last: None, start: None, auxiliary: Vec::new() }
    }

    pub fn session(&mut self) -> Result<&mut Session, Failure> {
        self.session.as_mut().ok_or_else(|| Failure::unsupported("the program under test is gone"))
    }

    /// The name of the checkpoint backend in use.
    pub fn backend(&self) -> &'static str {
        self.checkpoints.as_ref().map_or("none", |checkpoints| checkpoints.name())
    }

    pub fn stats(&self) -> checkpoint::Stats {
        self.checkpoints.as_ref().map(|checkpoints| checkpoints.stats()).unwrap_or_default()
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
        self.checkpoints = Some(checkpoint::best(session.task_slot()?, backend)?);
        self.session = Some(session);
        self.last = None;
        Ok(())
    }

    fn view(&self) -> View {
        let session = self.session.as_ref();
        View {
            stack_pointers: session.map(Session::stack_pointers).unwrap_or_default(),
            exclude: session.map(Session::own_ranges).unwrap_or_default().into_iter().chain(self.auxiliary.iter().cloned()).collect(),
            ..View::default()
        }
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
        self.start = self.mark()?;
        Ok(())
    }

    fn enabled(&mut self) -> Result<Menu, Failure> {
        let last = self.last;
        let session = self.session()?;
        let enabled = session.enabled();
        let candidate = |tid: Tid| Candidate::new(Choice::of(tid), session.footprint(tid));
        let running = last.filter(|tid| enabled.contains(tid) && session.model().thread(*tid).idle_yields == 0);
        let live = session.model().threads.keys().copied();
        let gone = matches!(session.end(), Some(end) if *end != crate::trace::End::Deadlock);
        let blocked = live.filter(|tid| !gone && !enabled.contains(tid)).map(candidate).collect();
        Ok(Menu { choices: enabled.iter().copied().map(candidate).collect(), blocked, running })
    }

    fn step(&mut self, choice: Choice) -> Result<Report<Self>, Failure> {
        let properties = self.properties.clone();
        self.last = Some(choice.thread);
        let session = self.session()?;
        let layout = session.layout_version();
        session.step(choice.thread)?;
        let layout_changed = session.layout_version() != layout;
        let mut report = StepReport::running();
        match session.end().cloned() {
            Some(end) => {
                report.violations = properties.violations(session, &end);
                report.end = Some(Ending::of(session, &end));
            }
            None => report.violations.extend(properties::lock_cycle(session)),
        }
        if layout_changed && let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.layout_changed();
        }
        Ok(report)
    }

    fn state_id(&mut self) -> Result<u128, Failure> {
        let view = self.view();
        let Some(session) = self.session.as_mut() else { return Ok(0) };
        let control = session.control_identity()?;
        let Some(checkpoints) = self.checkpoints.as_mut() else {
            return Err(Failure::unsupported("no way to identify memory states"));
        };
        let memory = checkpoints.identity(session.task_slot()?, &view)?;
        Ok(control.rotate_left(1) ^ memory)
    }

    fn mark(&mut self) -> Result<Option<Mark>, Failure> {
        if self.choice == CheckpointChoice::None {
            return Ok(None);
        }
        let last = self.last;
        let Some(session) = self.session.as_mut() else { return Ok(None) };
        let Some(checkpoints) = self.checkpoints.as_mut() else { return Ok(None) };
        let memory = checkpoints.mark(session.task_slot()?)?;
        Ok(Some(Mark { memory, rest: session.snapshot()?, last }))
    }

    fn rewind(&mut self, mark: &Mark) -> Result<(), Failure> {
        let Some(session) = self.session.as_mut() else { return Err(Failure::unsupported("nothing to rewind")) };
        let Some(checkpoints) = self.checkpoints.as_mut() else { return Err(Failure::unsupported("no checkpoints")) };
        checkpoints.restore(session.task_slot()?, mark.memory)?;
        session.revert(&mark.rest)?;
        self.last = mark.last;
        Ok(())
    }

    fn rewind_last(&mut self, mark: Mark) -> Result<(), Failure> {
        let Some(session) = self.session.as_mut() else { return Err(Failure::unsupported("nothing to rewind")) };
        let Some(checkpoints) = self.checkpoints.as_mut() else { return Err(Failure::unsupported("no checkpoints")) };
        checkpoints.restore_last(session.task_slot()?, mark.memory)?;
        session.revert(&mark.rest)?;
        self.last = mark.last;
        Ok(())
    }

    fn forget(&mut self, mark: Mark) {
        if let Some(checkpoints) = self.checkpoints.as_mut() {
            checkpoints.forget(mark.memory);
        }
    }
}
