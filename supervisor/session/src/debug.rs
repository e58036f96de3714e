//! For a debugger: transitions that can be interrupted, by a breakpoint or after one instruction, and taken up again.
//!
//! A breakpoint is one more hook: an `int3` whose displaced instruction lives in a scratch slot. So nothing must be
//! removed and put back to go past one, and an interrupted transition does, in the end, exactly what it would have done.

use super::Options;
use super::context::Threads;
use super::endings::Endings;
use super::spaces::Space;
use super::spaces::Spaces;
use super::stacks::Explain;
use super::step::Flow;
use super::{Change, Session};
use failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use syscall_model::Model;
use syscall_model::processes::Pid;
use syscall_model::{Pending, Tid};
use trace::{Operation, Step};
use tracee::{Outcome, Regs, Resume, Stop, XState};

const INT3: u8 = 0xcc;

/// What a debugger has asked for, and what it has interrupted.
#[derive(Default)]
pub(super) struct Debug {
    /// The process that the debugger looks at; none before it has said so.
    process: Option<Pid>,
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
    /// Nothing is asked for yet.
    pub(super) fn of(process: Option<Pid>) -> Self {
        Self {
            process,
            ..Self::default()
        }
    }

    pub(super) fn process(&self) -> Option<Pid> {
        self.process
    }
}

impl Debugger<'_> {
    /// From now on all of this is about one process. A crash of it ends nothing: it stands there, to be looked at.
    pub fn look_at(&mut self, process: Pid) {
        self.session.debug.process = Some(process);
    }

    /// A debugger may have changed anything.
    pub fn rewritten(&mut self) {
        self.session.in_debugged(|session| {
            session.spaces.touch();
            session.spaces.layout_changed(Change::Anywhere);
        });
    }

    /// The file that the debugged process executes.
    pub fn image(&mut self) -> PathBuf {
        self.session
            .in_debugged(|session| PathBuf::from(OsStr::from_bytes(session.model.fs.program())))
    }

    /// Lets `tid` make its transition, with the alternative that was chosen, or what is left of it. `None`: it was interrupted on the way.
    pub fn advance(&mut self, tid: Tid, alternative: u32, how: Advance) -> Result<Option<Step>, Failure> {
        let flow = if std::mem::take(&mut self.session.debug.interrupted) {
            self.session.enter_process_of(tid);
            self.session.load(tid)?;
            Flow::Run(self.session.threads.at(tid).regs)
        } else {
            if let Some(step) = self.session.choose(tid, alternative)? {
                return Ok(Some(step));
            }
            let before = self.session.threads.at(tid).regs;
            let (operation, flow) = self.session.begin(tid)?;
            self.session.debug.begun = Some((operation, before));
            flow
        };
        if let Flow::Run(regs) = flow {
            self.session.model.thread_mut(tid).pending = Pending::Running;
            let has_breakpoint = self.session.debug.breakpoints.contains_key(&regs.rip);
            self.session.debug.passing = has_breakpoint.then_some(regs.rip);
            match how {
                Advance::Run => self.session.go(tid, regs)?,
                Advance::Instruction => self.instruction(tid, regs)?,
            }
        }
        if self.session.debug.interrupted {
            return Ok(None);
        }
        let Some((operation, before)) = self.session.debug.begun.take() else {
            return Err(Failure::internal("a transition ended that had not begun"));
        };
        let mut step = self.session.complete(tid, operation, &before)?;
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
                    match *self.session.spaces.task()?.stop() {
                        Stop::Step { .. } => Flow::Run(*self.session.spaces.task()?.regs()?),
                        _ => self.session.dispatch(tid)?,
                    }
                }
                Flow::Again => self.session.dispatch(tid)?,
                Flow::Parked | Flow::Ended => return Ok(()),
            };
            if let Flow::Run(regs) = flow
                && !self
                    .session
                    .spaces
                    .own_ranges(self.session.spaces.here.id)
                    .iter()
                    .any(|range| range.contains(&regs.rip))
            {
                self.session.interrupt(tid, regs);
                return Ok(());
            }
        }
    }

    fn one_instruction(&mut self, tid: Tid, regs: Regs) -> Result<(), Failure> {
        let Some(mut task) = self.session.spaces.here.task.take() else {
            return Err(Failure::unsupported("the program under test is gone"));
        };
        task.set_regs(regs);
        match task.resume(Resume::Step, None)?.wait_ignoring_ticks()? {
            Outcome::Stopped(stopped) => {
                self.session.spaces.here.task = Some(stopped);
                Ok(())
            }
            other => Err(Failure::unsupported(format!(
                "the program ended in the middle of an instruction of thread {tid}: {other:?}"
            ))),
        }
    }

    /// Sets a breakpoint; `false` if there is no code yet.
    pub fn set_breakpoint(&mut self, address: u64) -> Result<bool, Failure> {
        self.session
            .in_debugged(|session| session.debugger().place_breakpoint(address))
    }

    fn place_breakpoint(&mut self, address: u64) -> Result<bool, Failure> {
        if self.session.debug.breakpoints.contains_key(&address) {
            return Ok(true);
        }
        if let Some(site) = self.session.spaces.here.code.site(address) {
            if !self.session.spaces.here.code.is_in_place(&site) {
                self.session
                    .spaces
                    .task()?
                    .memory()
                    .write_forced(address, &[INT3])?;
            }
            self.session.debug.breakpoints.insert(address, Breakpoint::AtHook);
            return Ok(true);
        }
        if !self.is_code(address)? {
            return Ok(false);
        }
        let Some(task) = self.session.spaces.here.task.as_mut() else {
            return Ok(false);
        };
        let Some((slot, original)) = self.session.spaces.here.code.displace_at(task, address)? else {
            return Ok(false);
        };
        self.session.spaces.hide_own();
        self.session.spaces.layout_changed(Change::Anywhere);
        self.session
            .debug
            .breakpoints
            .insert(address, Breakpoint::Own { slot, original });
        Ok(true)
    }

    /// Is there code? A loader maps a library as data first and its code over that.
    fn is_code(&self, address: u64) -> Result<bool, Failure> {
        if self
            .session
            .spaces
            .here
            .code
            .modules()
            .iter()
            .any(|module| module.range.contains(&address))
        {
            return Ok(true);
        }
        let Some(task) = &self.session.spaces.here.task else {
            return Ok(false);
        };
        let maps = crate::maps::read_maps(task.pid())?;
        let mut executable = maps.iter().filter(|map| map.executable);
        Ok(executable.any(|map| (map.start..map.end).contains(&address)))
    }

    pub fn clear_breakpoint(&mut self, address: u64) -> Result<(), Failure> {
        self.session
            .in_debugged(|session| session.debugger().remove_breakpoint(address))
    }

    fn remove_breakpoint(&mut self, address: u64) -> Result<(), Failure> {
        let original = match self.session.debug.breakpoints.remove(&address) {
            Some(Breakpoint::Own { original, .. }) => Some(original),
            Some(Breakpoint::AtHook) => {
                let site = self.session.spaces.here.code.site(address);
                site.filter(|site| !self.session.spaces.here.code.is_in_place(site))
                    .map(|site| site.original)
            }
            None => None,
        };
        if let Some(original) = original {
            self.session
                .spaces
                .task()?
                .memory()
                .write_forced(address, &[original])?;
            self.session.spaces.layout_changed(Change::Anywhere);
        }
        Ok(())
    }
}

/// What a debugger can look at.
#[derive(Clone, Copy)]
pub struct Inspect<'a> {
    pub(super) model: &'a Model,
    pub(super) threads: &'a Threads,
    pub(super) spaces: &'a Spaces,
    pub(super) options: &'a Options,
    pub(super) ends: &'a Endings,
    pub(super) debug: &'a Debug,
    pub(super) explain: Explain<'a>,
}

/// What a debugger can do.
pub struct Debugger<'a> {
    pub(super) session: &'a mut Session,
}

impl<'a> Inspect<'a> {
    /// Is it there?
    pub fn has_process(self, pid: Pid) -> bool {
        let is_last = self.ends.ended.is_some() && self.model.process.pid == pid;
        self.model.process_at(pid).is_some() || is_last && self.spaces.here.task.is_some()
    }

    /// Is the process in place the one that the debugger looks at?
    pub(super) fn is_debugged(self) -> bool {
        self.debug.process == Some(self.model.process.pid) && !self.model.is_single()
    }

    /// Does the process in place have the memory that the debugger looks at?
    fn shares_debugged_memory(self) -> bool {
        let process = self.debug.process.and_then(|pid| self.model.process_at(pid));
        process.is_none_or(|process| process.program.space == self.spaces.here.id)
    }

    /// The memory of the debugged process.
    fn debugged(self) -> &'a Space {
        let process = self.debug.process.and_then(|pid| self.model.process_at(pid));
        let other = process.and_then(|process| self.spaces.others.get(&process.program.space));
        other.unwrap_or(&self.spaces.here)
    }

    /// Breakpoints in the memory of the process in place that nobody else knows of, with what was there before.
    pub(super) fn planted(self) -> Vec<(u64, u8)> {
        if !self.shares_debugged_memory() {
            return Vec::new();
        }
        let original = |(&address, breakpoint): (&u64, &Breakpoint)| match breakpoint {
            Breakpoint::Own { original, .. } => Some((address, *original)),
            Breakpoint::AtHook => {
                let site = self.spaces.here.code.site(address)?;
                (!self.spaces.here.code.is_in_place(&site)).then_some((address, site.original))
            }
        };
        self.debug.breakpoints.iter().filter_map(original).collect()
    }

    /// Whether the transition under way was interrupted.
    pub fn is_interrupted(self) -> bool {
        self.debug.interrupted
    }

    /// The breakpoints that are set.
    pub fn breakpoints(self) -> BTreeSet<u64> {
        self.debug.breakpoints.keys().copied().collect()
    }

    /// The program's memory, without our hooks and breakpoints; how much of it could be read.
    pub fn read_memory(self, address: u64, buffer: &mut [u8]) -> Result<usize, Failure> {
        let space = self.debugged();
        let Some(task) = &space.task else {
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
        for (site, byte) in space.code.originals(address..end).chain(breakpoints) {
            buffer[(site - address) as usize] = byte;
        }
        Ok(got)
    }

    /// A thread's registers, as the program itself would see them.
    pub fn registers(self, tid: Tid) -> Result<(Regs, XState), Failure> {
        let space = self.debugged();
        let task = space.task.as_ref();
        let task = task.ok_or_else(|| Failure::unsupported("the program is gone"))?;
        let context = self.threads.get(&tid).cloned().unwrap_or_default();
        let mut regs = context.regs;
        regs.rip = space.code.original_ip(regs.rip);
        let xstate = match context.xstate {
            Some(xstate) => xstate,
            None if tid == space.loaded => task.xstate()?,
            None => task.xstate()?.initial(),
        };
        Ok((regs, xstate))
    }

    /// Where a thread stands.
    pub fn instruction_pointer(self, tid: Tid) -> Option<u64> {
        let context = self.threads.get(&tid)?;
        Some(self.spaces.of(self.model, tid).code.original_ip(context.regs.rip))
    }

    /// The auxiliary vector, raw.
    pub fn auxv(self) -> std::io::Result<Vec<u8>> {
        let pid = self.debugged().task.as_ref().map_or(0, |task| task.pid());
        std::fs::read(format!("/proc/{pid}/auxv"))
    }

    /// The threads of the debugged process. Of one that has exited last, those that there were.
    pub fn threads(self) -> Vec<Tid> {
        let Some(pid) = self.debug.process.filter(|&pid| pid != self.model.process.pid) else {
            return self.live_threads();
        };
        let all = self.threads.keys().copied();
        all.filter(|&tid| self.model.process_of(tid) == Some(pid))
            .collect()
    }
}

impl Session {
    /// Does something with the debugged process in place.
    pub(super) fn in_debugged<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let here = self.model.process.pid;
        if let Some(pid) = self.debug.process {
            self.enter(pid);
        }
        let result = work(self);
        self.enter(here);
        result
    }

    /// A process has crashed that would be gone if others went on now.
    pub(super) fn stand_at_crash(&mut self, tid: Tid) -> Result<Flow, Failure> {
        let regs = self.threads.at(tid).regs;
        Ok(self.interrupt(tid, regs))
    }

    /// Another program runs in the process in place: the memory that its breakpoints were in is gone.
    pub(super) fn forget_breakpoints(&mut self) {
        if self.debug.process.is_none_or(|pid| pid == self.model.process.pid) {
            self.debug.breakpoints.clear();
            self.debug.passing = None;
        }
    }

    /// The thread stands in the middle of its transition.
    fn interrupt(&mut self, tid: Tid, regs: Regs) -> Flow {
        self.debug.interrupted = true;
        self.park(tid, regs, Pending::Running)
    }

    /// The thread executed an `int3`. `Some` if that was a breakpoint and nothing else.
    pub(super) fn on_user_breakpoint(&mut self, tid: Tid, address: u64, regs: &Regs) -> Option<Flow> {
        if !self.inspect().shares_debugged_memory() {
            return None;
        }
        let breakpoint = *self.debug.breakpoints.get(&address)?;
        let mut regs = *regs;
        // A child that borrows the memory is nobody that the debugger knows.
        let is_other = self
            .debug
            .process
            .is_some_and(|pid| pid != self.model.process.pid);
        if self.debug.passing.take() != Some(address) && !is_other {
            regs.rip = address;
            return Some(self.interrupt(tid, regs));
        }
        regs.rip = match (breakpoint, self.spaces.here.code.site(address)) {
            (Breakpoint::Own { slot, .. }, _) => slot,
            // A thread that is alone does not park there.
            (Breakpoint::AtHook, Some(site)) if !self.spaces.here.code.is_in_place(&site) => site.slot,
            (Breakpoint::AtHook, _) => return None,
        };
        Some(Flow::Run(regs))
    }
}
