//! A trace as time: the program stands somewhere in it and goes on. [`super::back`] goes back.

use super::marks::Marks;
use super::scope::Scope;
use failure::Failure;
use session::execution;
use session::{Advance, Options, Session};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use syscall_model::Tid;
use trace::Trace;

/// Why the program stands where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    Breakpoint(Tid),
    Stepped(Tid),
    /// There is nothing more in this direction.
    Begin,
    End,
}

/// A part of the way into a transition. Breakpoints come and go, so what was hit is told with those that were there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Instructions(u64),
    /// From one of these breakpoints to the next, so many times.
    Hits(Arc<BTreeSet<u64>>, u64),
}

/// One execution of a trace.
pub struct Timeline<'a> {
    pub(super) options: Options,
    pub(super) trace: &'a Trace,
    pub(super) session: Session,
    pub(super) marks: Marks,
    pub(super) scope: Scope,
    /// Transitions completed.
    pub(super) step: usize,
    /// The way into the transition under way.
    pub(super) route: Vec<Move>,
    pub(super) breakpoints: BTreeSet<u64>,
    /// Breakpoints that gdb took away since the program last went on. It does so for one step, to go past one.
    pub(super) recent_breakpoints: BTreeSet<u64>,
}

impl<'a> Timeline<'a> {
    pub fn new(options: Options, trace: &'a Trace, scope: Scope) -> Result<Self, Failure> {
        let mut session = Session::start(options.clone())?;
        session.debugger().look_at(scope.process);
        Ok(Self {
            marks: Marks::new(&mut session, trace.steps.len())?,
            scope,
            session,
            options,
            trace,
            step: 0,
            route: Vec::new(),
            breakpoints: BTreeSet::new(),
            recent_breakpoints: BTreeSet::new(),
        })
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The file that the process executes.
    pub fn image(&mut self) -> PathBuf {
        self.session.debugger().image()
    }

    pub fn finish(self) {
        drop(self.marks);
        self.session.finish();
    }

    /// The thread that moves next, or that moved last.
    pub fn current(&self) -> Tid {
        let crashed = self.session.crash().map(|crash| crash.thread);
        let next = self.trace.steps.get(self.step).or(self.trace.steps.last());
        let next = next.map_or(self.scope.process, |step| step.thread);
        let current = crashed.unwrap_or(next);
        let threads = self.session.inspect().threads();
        if threads.contains(&current) {
            return current;
        }
        threads.first().copied().unwrap_or(self.scope.process)
    }

    pub fn set_breakpoint(&mut self, address: u64) {
        self.breakpoints.insert(address);
    }

    pub fn clear_breakpoint(&mut self, address: u64) -> bool {
        let was_there = self.breakpoints.remove(&address);
        if was_there {
            self.recent_breakpoints.insert(address);
        }
        was_there
    }

    pub(super) fn is_over(&self) -> bool {
        self.step >= self.scope.end || self.session.end().is_some() || self.has_crashed()
    }

    /// The process stands where it crashed.
    pub(super) fn has_crashed(&self) -> bool {
        let crash = self.session.crash();
        crash.is_some_and(|crash| self.session.inspect().threads().contains(&crash.thread))
    }

    /// Puts these breakpoints in place, and no others; but those whose code is not mapped yet.
    pub(super) fn place(&mut self, wanted: &BTreeSet<u64>) -> Result<(), Failure> {
        let placed = self.session.inspect().breakpoints();
        for address in placed.difference(wanted) {
            self.session.debugger().clear_breakpoint(*address)?;
        }
        for address in wanted.difference(&placed) {
            self.session.debugger().set_breakpoint(*address)?;
        }
        Ok(())
    }

    /// Lets the thread whose turn it is go on; `true` if its transition is over.
    fn advance(&mut self, how: Advance) -> Result<bool, Failure> {
        let expected = &self.trace.steps[self.step];
        match self
            .session
            .debugger()
            .advance(expected.thread, expected.alternative, how)?
        {
            Some(step) if step == *expected => {
                self.step += 1;
                self.route.clear();
                self.stay_with_process()?;
                Ok(true)
            }
            Some(step) => Err(execution::differs(self.step as u64, expected, &step)),
            None => Ok(false),
        }
    }

    /// With the last step the process has ended: there is nothing to look at beyond the one before.
    fn stay_with_process(&mut self) -> Result<(), Failure> {
        if self.step <= self.scope.begin || self.session.inspect().has_process(self.scope.process) {
            return Ok(());
        }
        self.scope.end = self.step - 1;
        self.go_to(self.scope.end, 0)
    }

    /// Goes on to one of these breakpoints, or to the end of the transition (`true`).
    pub(super) fn run_to(&mut self, breakpoints: &Arc<BTreeSet<u64>>) -> Result<bool, Failure> {
        self.place(breakpoints)?;
        let is_over = self.advance(Advance::Run)?;
        if !is_over {
            match self.route.last_mut() {
                Some(Move::Hits(before, times)) if before == breakpoints => *times += 1,
                _ => self.route.push(Move::Hits(Arc::clone(breakpoints), 1)),
            }
        }
        Ok(is_over)
    }

    /// Executes one instruction; `true` if the transition is over with it. Without breakpoints: an instruction that has one would be counted
    /// as one even if it repeats itself.
    pub(super) fn instruction(&mut self) -> Result<bool, Failure> {
        self.place(&BTreeSet::new())?;
        let is_over = self.advance(Advance::Instruction)?;
        if !is_over {
            match self.route.last_mut() {
                Some(Move::Instructions(times)) => *times += 1,
                _ => self.route.push(Move::Instructions(1)),
            }
        }
        Ok(is_over)
    }

    /// Goes on to the end of the transition or to a breakpoint in it.
    pub(super) fn run(&mut self) -> Result<Option<Halt>, Failure> {
        if self.is_over() {
            return Ok(Some(Halt::End));
        }
        let wanted: Arc<BTreeSet<u64>> = Arc::new(
            self.breakpoints
                .union(&self.recent_breakpoints)
                .copied()
                .collect(),
        );
        let thread = self.trace.steps[self.step].thread;
        let is_over = self.run_to(&wanted)?;
        if self.has_crashed() {
            return Ok(Some(Halt::End));
        }
        Ok((!is_over).then_some(Halt::Breakpoint(thread)))
    }

    /// Goes on to a breakpoint or to the end; `is_wanted` is asked now and then whether to stop.
    pub fn run_on(&mut self, is_wanted: &mut dyn FnMut() -> bool) -> Result<Option<Halt>, Failure> {
        self.recent_breakpoints.clear();
        loop {
            if let Some(halt) = self.run()? {
                return Ok(Some(halt));
            }
            if is_wanted() {
                return Ok(None);
            }
        }
    }

    /// Executes one instruction of a thread, when its turn comes.
    pub fn step_thread(&mut self, thread: Tid) -> Result<Halt, Failure> {
        self.recent_breakpoints.clear();
        let begin = self.session.inspect().instruction_pointer(thread);
        loop {
            while !self.is_over() && self.trace.steps[self.step].thread != thread {
                if let Some(halt) = self.run()? {
                    return Ok(halt);
                }
            }
            if self.is_over() {
                return Ok(Halt::End);
            }
            if !self.instruction()? {
                return Ok(Halt::Stepped(thread));
            }
            // A thread that has come to a hook stands before the same instruction once more: gdb would take that for a second hit of
            // a breakpoint there.
            if self.session.end().is_some() || self.session.inspect().instruction_pointer(thread) != begin {
                return Ok(Halt::Stepped(thread));
            }
        }
    }
}
