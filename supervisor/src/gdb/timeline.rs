//! A trace as time: the program stands somewhere in it and can be brought elsewhere.

use crate::error::Failure;
use crate::execution;
use crate::session::{Advance, Options, Session};
use crate::trace::Trace;
use std::collections::BTreeSet;
use syscall_model::Tid;

/// Why the program stands where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    Breakpoint(Tid),
    Stepped(Tid),
    /// There is nothing more in this direction.
    Begin,
    End,
}

/// One execution of a trace.
pub struct Timeline<'a> {
    options: Options,
    trace: &'a Trace,
    session: Session,
    /// Transitions completed.
    step: usize,
    /// Breakpoints hit in the transition under way.
    hits: usize,
    /// It has moved on since the last of these.
    beyond: bool,
    breakpoints: BTreeSet<u64>,
    /// Breakpoints that gdb took away since the program last went on. It does so for one step, to go past one; `hits` counts them still.
    lately: BTreeSet<u64>,
    /// Breakpoints that are in place; the code of others is not mapped yet.
    in_place: BTreeSet<u64>,
}

impl<'a> Timeline<'a> {
    pub fn new(options: Options, trace: &'a Trace) -> Result<Self, Failure> {
        Ok(Self {
            session: Session::start(options.clone())?,
            options,
            trace,
            step: 0,
            hits: 0,
            beyond: false,
            breakpoints: BTreeSet::new(),
            lately: BTreeSet::new(),
            in_place: BTreeSet::new(),
        })
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    pub fn finish(self) {
        self.session.finish();
    }

    /// The thread that moves next, or that moved last.
    pub fn current(&self) -> Tid {
        let crashed = self.session.crash().map(|crash| crash.thread);
        let next = self.trace.steps.get(self.step).or(self.trace.steps.last());
        let next = next.map_or(self.options.config.pid, |step| step.thread);
        let current = crashed.unwrap_or(next);
        let threads = self.session.threads();
        if threads.contains(&current) {
            return current;
        }
        threads.first().copied().unwrap_or(self.options.config.pid)
    }

    pub fn set_breakpoint(&mut self, address: u64) {
        self.breakpoints.insert(address);
    }

    pub fn clear_breakpoint(&mut self, address: u64) -> bool {
        let was_there = self.breakpoints.remove(&address);
        if was_there {
            self.lately.insert(address);
        }
        was_there
    }

    fn is_over(&self) -> bool {
        self.step >= self.trace.steps.len() || self.session.end().is_some()
    }

    fn place_breakpoints(&mut self) -> Result<(), Failure> {
        let wanted: BTreeSet<u64> = self.breakpoints.union(&self.lately).copied().collect();
        for address in self.in_place.clone().difference(&wanted) {
            self.session.clear_breakpoint(*address)?;
            self.in_place.remove(address);
        }
        for &address in wanted.difference(&self.in_place.clone()) {
            if self.session.set_breakpoint(address)? {
                self.in_place.insert(address);
            }
        }
        Ok(())
    }

    /// Lets the thread whose turn it is go on; `true` if its transition is over.
    fn advance(&mut self, how: Advance) -> Result<bool, Failure> {
        let expected = &self.trace.steps[self.step];
        match self.session.advance(expected.thread, how)? {
            Some(step) if step == *expected => {
                self.step += 1;
                self.hits = 0;
                self.beyond = false;
                Ok(true)
            }
            Some(step) => Err(execution::differs(self.step as u64, expected, &step)),
            None => Ok(false),
        }
    }

    /// Goes on to the end of the transition or to a breakpoint in it.
    fn run(&mut self) -> Result<Option<Halt>, Failure> {
        if self.is_over() {
            return Ok(Some(Halt::End));
        }
        self.place_breakpoints()?;
        let thread = self.trace.steps[self.step].thread;
        if self.advance(Advance::Run)? {
            return Ok(None);
        }
        self.hits += 1;
        self.beyond = false;
        Ok(Some(Halt::Breakpoint(thread)))
    }

    /// Goes on to a breakpoint or to the end; `is_wanted` is asked now and then whether to stop.
    pub fn run_on(&mut self, is_wanted: &mut dyn FnMut() -> bool) -> Result<Option<Halt>, Failure> {
        self.lately.clear();
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
        self.lately.clear();
        let begin = self.session.registers(thread)?.0.rip;
        loop {
            while !self.is_over() && self.trace.steps[self.step].thread != thread {
                if let Some(halt) = self.run()? {
                    return Ok(halt);
                }
            }
            if self.is_over() {
                return Ok(Halt::End);
            }
            self.place_breakpoints()?;
            if !self.advance(Advance::Instruction)? {
                self.beyond = true;
                return Ok(Halt::Stepped(thread));
            }
            // A thread that has come to a hook stands before the same instruction once more: gdb would take that for a second hit of
            // a breakpoint there.
            if self.session.end().is_some() || self.session.registers(thread)?.0.rip != begin {
                return Ok(Halt::Stepped(thread));
            }
        }
    }

    /// Goes back to the breakpoint before this point in the transition, to its beginning, or to that of the one before.
    pub fn step_back(&mut self) -> Result<Halt, Failure> {
        if self.session.is_interrupted() {
            let hits = if self.beyond {
                self.hits
            } else {
                self.hits.saturating_sub(1)
            };
            self.go_to(self.step, hits)?;
        } else if let Some(before) = self.step.checked_sub(1) {
            self.go_to(before, 0)?;
        } else {
            return Ok(Halt::Begin);
        }
        Ok(Halt::Stepped(self.current()))
    }

    /// Goes back to the last breakpoint before this point.
    pub fn run_back(&mut self) -> Result<Halt, Failure> {
        self.lately.clear();
        let here = (self.step, self.hits, self.beyond);
        self.restart()?;
        let mut last = None;
        while (self.step, self.hits) < (here.0, here.1)
            || (here.2 && (self.step, self.hits) == (here.0, here.1))
        {
            match self.run()? {
                Some(Halt::Breakpoint(_)) => {
                    let at = (self.step, self.hits, false);
                    if at >= here {
                        break;
                    }
                    last = Some((self.step, self.hits));
                }
                Some(_) => break,
                None => {}
            }
        }
        match last {
            Some((step, hits)) => {
                self.go_to(step, hits)?;
                Ok(Halt::Breakpoint(self.current()))
            }
            None => {
                self.go_to(0, 0)?;
                Ok(Halt::Begin)
            }
        }
    }

    /// Executes from the start to this point: so many transitions, then so many breakpoints.
    pub fn go_to(&mut self, step: usize, hits: usize) -> Result<(), Failure> {
        if self.step != 0 || self.session.is_interrupted() {
            self.restart()?;
        }
        while self.step < step && !self.is_over() {
            self.advance(Advance::Run)?;
        }
        while self.hits < hits && self.step == step {
            self.run()?;
        }
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Failure> {
        let fresh = Session::start(self.options.clone())?;
        std::mem::replace(&mut self.session, fresh).finish();
        self.in_place.clear();
        (self.step, self.hits, self.beyond) = (0, 0, false);
        Ok(())
    }
}
