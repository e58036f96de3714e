//! For a debugger: transitions that can be interrupted, by a breakpoint or after one instruction, and taken up again.
//!
//! A breakpoint is one more hook: an `int3` whose displaced instruction lives in a scratch slot. So nothing must be
//! removed and put back to go past one, and an interrupted transition does, in the end, exactly what it would have done.

use super::step::Flow;
use super::{Change, Session};
use failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use syscall_model::{Pending, Tid};
use trace::{Operation, Step};
use tracee::{Outcome, Regs, Resume, Stop, XState};

const INT3: u8 = 0xcc;

/// What a debugger has asked for, and what it has interrupted.
#[derive(Default)]
pub(super) struct Debug {
    breakpoints: BTreeMap<u64, Breakpoint>,
    /// The breakpoint that the thread goes past now.
    passing: Option<u64>,
    /// The transition under way was interrupted.
    interrupted: bool,
    /// What it had begun with, and where.
    begun: Option<(Operation, Regs)>,
}

/// An `int3` of ours; none where a hook has put one anyway, or will: hooks are written when a second thread is made, and until then their
/// sites have an `int3` that stands for the breakpoint alone.
#[derive(Clone, Copy)]
enum Breakpoint {
    AtHook,
    Own { slot: u64, original: u8 },
}

/// How far a thread goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// To the end of its transition, or to a breakpoint.
    Run,
    /// One instruction.
    Instruction,
}

impl Debug {
    /// The memory that they were in is gone.
    pub(super) fn forget_breakpoints(&mut self) {
        self.breakpoints.clear();
        self.passing = None;
    }
}

impl Session {
    /// Lets `tid` make its transition, with the alternative that was chosen, or what is left of it. `None`: it was interrupted on the way.
    pub fn advance(&mut self, tid: Tid, alternative: u32, how: Advance) -> Result<Option<Step>, Failure> {
        let flow = if std::mem::take(&mut self.debug.interrupted) {
            self.load(tid)?;
            Flow::Run(self.context(tid).regs)
        } else {
            if let Some(step) = self.choose(tid, alternative)? {
                return Ok(Some(step));
            }
            let before = self.context(tid).regs;
            let (operation, flow) = self.begin(tid)?;
            self.debug.begun = Some((operation, before));
            flow
        };
        if let Flow::Run(regs) = flow {
            self.model.thread_mut(tid).pending = Pending::Running;
            let has_breakpoint = self.debug.breakpoints.contains_key(&regs.rip);
            self.debug.passing = has_breakpoint.then_some(regs.rip);
            match how {
                Advance::Run => self.go(tid, regs)?,
                Advance::Instruction => self.instruction(tid, regs)?,
            }
        }
        if self.debug.interrupted {
            return Ok(None);
        }
        let Some((operation, before)) = self.debug.begun.take() else {
            return Err(Failure::internal("a transition ended that had not begun"));
        };
        let mut step = self.complete(tid, operation, &before)?;
        step.alternative = alternative;
        Ok(Some(step))
    }

    /// Executes one instruction of the program: those in scratch slots do not count by themselves.
    fn instruction(&mut self, tid: Tid, regs: Regs) -> Result<(), Failure> {
        let mut flow = Flow::Run(regs);
        loop {
            flow = match flow {
                Flow::Run(regs) => {
                    self.one_instruction(tid, regs)?;
                    match *self.task()?.stop() {
                        Stop::Step { .. } => Flow::Run(*self.task()?.regs()?),
                        _ => self.dispatch(tid)?,
                    }
                }
                Flow::Again => self.dispatch(tid)?,
                Flow::Parked | Flow::Ended => return Ok(()),
            };
            if let Flow::Run(regs) = flow
                && !self
                    .own_ranges(self.space.id)
                    .iter()
                    .any(|range| range.contains(&regs.rip))
            {
                self.interrupt(tid, regs);
                return Ok(());
            }
        }
    }

    fn one_instruction(&mut self, tid: Tid, regs: Regs) -> Result<(), Failure> {
        let Some(mut task) = self.space.task.take() else {
            return Err(Failure::unsupported("the program under test is gone"));
        };
        task.set_regs(regs);
        match task.resume(Resume::Step, None)?.wait_ignoring_ticks()? {
            Outcome::Stopped(stopped) => {
                self.space.task = Some(stopped);
                Ok(())
            }
            other => Err(Failure::unsupported(format!(
                "the program ended in the middle of an instruction of thread {tid}: {other:?}"
            ))),
        }
    }

    /// The thread stands in the middle of its transition.
    fn interrupt(&mut self, tid: Tid, regs: Regs) -> Flow {
        self.debug.interrupted = true;
        self.park(tid, regs, Pending::Running)
    }

    /// The thread executed an `int3`. `Some` if that was a breakpoint and nothing else.
    pub(super) fn on_user_breakpoint(&mut self, tid: Tid, address: u64, regs: &Regs) -> Option<Flow> {
        let breakpoint = *self.debug.breakpoints.get(&address)?;
        let mut regs = *regs;
        if self.debug.passing.take() != Some(address) {
            regs.rip = address;
            return Some(self.interrupt(tid, regs));
        }
        regs.rip = match (breakpoint, self.space.code.site(address)) {
            (Breakpoint::Own { slot, .. }, _) => slot,
            // A thread that is alone does not park there.
            (Breakpoint::AtHook, Some(site)) if !self.space.code.is_in_place(&site) => site.slot,
            (Breakpoint::AtHook, _) => return None,
        };
        Some(Flow::Run(regs))
    }

    /// Whether the transition under way was interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.debug.interrupted
    }

    /// Sets a breakpoint; `false` if there is no code yet.
    pub fn set_breakpoint(&mut self, address: u64) -> Result<bool, Failure> {
        if self.debug.breakpoints.contains_key(&address) {
            return Ok(true);
        }
        if let Some(site) = self.space.code.site(address) {
            if !self.space.code.is_in_place(&site) {
                self.task()?.memory().write_forced(address, &[INT3])?;
            }
            self.debug.breakpoints.insert(address, Breakpoint::AtHook);
            return Ok(true);
        }
        if !self.is_code(address)? {
            return Ok(false);
        }
        let Some(task) = self.space.task.as_mut() else {
            return Ok(false);
        };
        let Some((slot, original)) = self.space.code.displace_at(task, address)? else {
            return Ok(false);
        };
        self.hide_own();
        self.layout_changed(Change::Anywhere);
        self.debug
            .breakpoints
            .insert(address, Breakpoint::Own { slot, original });
        Ok(true)
    }

    /// The breakpoints that are set.
    pub fn breakpoints(&self) -> BTreeSet<u64> {
        self.debug.breakpoints.keys().copied().collect()
    }

    /// Is there code? A loader maps a library as data first and its code over that.
    fn is_code(&self, address: u64) -> Result<bool, Failure> {
        if self
            .space
            .code
            .modules()
            .iter()
            .any(|module| module.range.contains(&address))
        {
            return Ok(true);
        }
        let Some(task) = &self.space.task else {
            return Ok(false);
        };
        let maps = crate::code::read_maps(task.pid())?;
        let mut executable = maps.iter().filter(|map| map.executable);
        Ok(executable.any(|map| (map.start..map.end).contains(&address)))
    }

    pub fn clear_breakpoint(&mut self, address: u64) -> Result<(), Failure> {
        let original = match self.debug.breakpoints.remove(&address) {
            Some(Breakpoint::Own { original, .. }) => Some(original),
            Some(Breakpoint::AtHook) => {
                let site = self.space.code.site(address);
                site.filter(|site| !self.space.code.is_in_place(site))
                    .map(|site| site.original)
            }
            None => None,
        };
        if let Some(original) = original {
            self.task()?.memory().write_forced(address, &[original])?;
            self.layout_changed(Change::Anywhere);
        }
        Ok(())
    }

    /// The program's memory, without our hooks and breakpoints; how much of it could be read.
    pub fn read_memory(&self, address: u64, buffer: &mut [u8]) -> Result<usize, Failure> {
        let Some(task) = &self.space.task else {
            return Ok(0);
        };
        let got = task.memory().read_up_to(address, buffer)?;
        let Some(end) = address.checked_add(got as u64) else {
            return Ok(0);
        };
        let breakpoints = self
            .debug
            .breakpoints
            .range(address..end)
            .filter_map(|(at, breakpoint)| match breakpoint {
                Breakpoint::Own { original, .. } => Some((*at, *original)),
                Breakpoint::AtHook => None,
            });
        for (site, byte) in self.space.code.originals(address..end).chain(breakpoints) {
            buffer[(site - address) as usize] = byte;
        }
        Ok(got)
    }

    /// A thread's registers, as the program itself would see them.
    pub fn registers(&self, tid: Tid) -> Result<(Regs, XState), Failure> {
        let task = self
            .space
            .task
            .as_ref()
            .ok_or_else(|| Failure::unsupported("the program is gone"))?;
        let context = self.contexts.get(&tid).cloned().unwrap_or_default();
        let mut regs = context.regs;
        regs.rip = self.space.code.original_ip(regs.rip);
        let xstate = match context.xstate {
            Some(xstate) => xstate,
            None if tid == self.space.loaded => task.xstate()?,
            None => task.xstate()?.initial(),
        };
        Ok((regs, xstate))
    }

    /// Where a thread stands.
    pub fn instruction_pointer(&self, tid: Tid) -> Option<u64> {
        let context = self.contexts.get(&tid)?;
        Some(self.space.code.original_ip(context.regs.rip))
    }

    /// The auxiliary vector, raw.
    pub fn auxv(&self) -> std::io::Result<Vec<u8>> {
        let pid = self.space.task.as_ref().map_or(0, |task| task.pid());
        std::fs::read(format!("/proc/{pid}/auxv"))
    }

    /// The threads that there are.
    pub fn threads(&self) -> Vec<Tid> {
        self.live_threads()
    }
}
