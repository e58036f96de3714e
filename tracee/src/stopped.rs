//! A task that is stopped: look at it, change it, let it go on.
//!
//! Registers are read once per stop, on first use, and written once, on resumption, if they changed. So an
//! emulated system call costs one `wait4`, one `GETREGS`, one `SETREGS` and one `CONT`. Extended state is read once per stop, too.
//!
//! A `Stopped` keeps two things apart: the *stop* that was reported, which stays what it is until the task is
//! resumed, and the *position* at which the kernel holds the task now, which an injected call changes.

use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::regs::Regs;
use crate::running::Running;
use crate::stop::{Status, Stop};
use crate::sys;
use crate::task::Task;
use crate::xstate::XState;
use std::cell::OnceCell;

/// A stopped, traced task. Dropping it kills and reaps it.
///
/// All that can be done to a task can only be done while it is stopped, so all of it is here, in a file for each topic: registers and resuming, memory, injected
/// calls, signals, areas of memory.
#[derive(Debug)]
#[must_use = "dropping a stopped task kills it"]
pub struct Stopped {
    pub(crate) task: Task,
    stop: Stop,
    pub(crate) position: Position,
    /// What the task has to have when it goes on; empty until somebody asks.
    regs: OnceCell<Regs>,
    /// Does `regs` differ from what the kernel holds?
    dirty: bool,
    /// What the task has; empty until somebody asks.
    xstate: OnceCell<XState>,
}

/// Where the kernel holds the task, which decides what a change of registers does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// On entry to a system call: `orig_rax` and the arguments decide what is executed.
    CallEntry,
    /// Inside a system call (exec, fork events): `rax` will be overwritten by its result.
    InCall,
    /// On the way back to user code: registers are final, `orig_rax` must be −1.
    Outside,
}

impl Position {
    pub(crate) fn of_event(stop: Stop) -> Self {
        match stop {
            Stop::Exec | Stop::Fork { .. } | Stop::Exiting { .. } => Position::InCall,
            _ => Position::Outside,
        }
    }
}

/// How far to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resume {
    /// To the next stop.
    #[default]
    Cont,
    /// Also stop at the next entry to or exit from a system call.
    Syscall,
    /// One instruction.
    Step,
}

impl Stopped {
    pub(crate) fn new(task: Task, stop: Stop, position: Position, regs: Option<Regs>) -> Self {
        let cell = regs.map_or_else(OnceCell::new, OnceCell::from);
        Stopped {
            task,
            stop,
            position,
            regs: cell,
            dirty: false,
            xstate: OnceCell::new(),
        }
    }

    /// Process id.
    pub fn pid(&self) -> i32 {
        self.task.pid
    }

    /// Why it stopped. Injected calls do not change this.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Was it stopped at the entry to a system call, which it may still be told to perform?
    pub fn at_call(&self) -> bool {
        matches!(self.stop, Stop::Seccomp { .. } | Stop::SyscallEntry) || self.position == Position::CallEntry
    }

    /// Its registers.
    ///
    /// Outside of stops at a system call, `orig_rax` is −1. A call that the kernel was about to restart
    /// transparently (because of the stop) appears as not yet made: `rip` at its instruction.
    pub fn regs(&self) -> Result<&Regs> {
        if let Some(regs) = self.regs.get() {
            return Ok(regs);
        }
        let mut regs = sys::get_regs(self.task.pid)?;
        if self.position == Position::Outside && regs.has_call() {
            match (regs.is_restarting(), self.stop) {
                (true, Stop::SyscallExit) => {}
                (true, _) => regs.rewind_call(),
                (false, _) => regs.orig_rax = crate::regs::NO_CALL,
            }
            // Without a call the kernel restarts nothing: what it holds must agree with what is shown.
            sys::set_regs(self.task.pid, &regs)?;
        }
        Ok(self.regs.get_or_init(|| regs))
    }

    /// Sets its registers, all of them: of the same thread, or of another virtual one. Written on resumption.
    pub fn set_regs(&mut self, regs: Regs) {
        self.regs = OnceCell::from(regs);
        self.dirty = true;
    }

    /// Changes its registers in place.
    pub fn update_regs(&mut self, change: impl FnOnce(&mut Regs)) -> Result<()> {
        let mut regs = *self.regs()?;
        change(&mut regs);
        self.set_regs(regs);
        Ok(())
    }

    /// Skips the system call at whose entry the task stands, with this raw result.
    pub fn skip_call(&mut self, result: i64) -> Result<()> {
        self.update_regs(|regs| regs.skip_call(result))
    }

    /// Has this system call performed instead of the one at whose entry the task stands.
    pub fn replace_call(&mut self, nr: i64, args: [u64; 6]) -> Result<()> {
        self.update_regs(|regs| regs.replace_call(nr, args))
    }

    /// Its extended state.
    pub fn xstate(&self) -> Result<XState> {
        if let Some(state) = self.xstate.get() {
            return Ok(state.clone());
        }
        let state = XState::read(self.task.pid)?;
        Ok(self.xstate.get_or_init(|| state).clone())
    }

    /// Sets its extended state, at once.
    pub fn set_xstate(&mut self, state: &XState) -> Result<()> {
        if self.xstate.get() == Some(state) {
            return Ok(());
        }
        state.write(self.task.pid)?;
        self.xstate = OnceCell::from(state.clone());
        Ok(())
    }

    /// Its memory.
    pub fn memory(&self) -> Memory<'_> {
        Memory::new(&self.task)
    }

    /// Details of the signal that stopped it. Valid before any injected call.
    pub fn siginfo(&self) -> Result<libc::siginfo_t> {
        sys::siginfo(self.task.pid)
    }

    /// The event's message (`PTRACE_GETEVENTMSG`). Valid before any injected call.
    pub fn event_msg(&self) -> Result<u64> {
        sys::event_msg(self.task.pid)
    }

    /// Also stop when the task is about to exit ([`Stop::Exiting`]), whatever the cause.
    pub fn set_stop_at_exit(&mut self, on: bool) -> Result<()> {
        let exit = if on { libc::PTRACE_O_TRACEEXIT } else { 0 };
        sys::set_options(self.task.pid, sys::OPTIONS | exit)
    }

    /// Lets the task go on, with a signal or without.
    ///
    /// The kernel delivers a signal only where the task was stopped by one (breakpoints and steps are signals, too)
    /// and no call was injected since; at other stops, and in a fresh copy made by a fork, it is dropped.
    ///
    /// At a stop at a system call the registers say what becomes of the call: performed (as is, or as replaced), or
    /// skipped (`orig_rax` −1). That holds after injected calls, too.
    pub fn resume(mut self, how: Resume, signal: Option<i32>) -> Result<Running> {
        if self.dirty {
            self.write_back()?;
        }
        let signal = signal.unwrap_or(0);
        match how {
            Resume::Cont => sys::cont(self.task.pid, signal)?,
            Resume::Syscall => sys::cont_to_syscall(self.task.pid, signal)?,
            Resume::Step => sys::single_step(self.task.pid, signal)?,
        }
        Ok(Running { task: self.task })
    }

    /// Kills and reaps it.
    pub fn kill(mut self) {
        self.task.end();
    }

    fn write_back(&mut self) -> Result<()> {
        self.leave_call()?;
        let regs = *self.regs()?;
        // An injected call moved the task away from the entry at which it was stopped: go back to one.
        if self.at_call() && regs.has_call() {
            self.enter_call()?;
        }
        sys::set_regs(self.task.pid, &regs)?;
        self.dirty = false;
        Ok(())
    }

    /// Leaves a call in whose midst the task is stopped (exec, fork): only then are registers final.
    /// Registers that were set by the caller are kept.
    pub(crate) fn leave_call(&mut self) -> Result<()> {
        if self.position != Position::InCall {
            return Ok(());
        }
        sys::cont_to_syscall(self.task.pid, 0)?;
        match self.wait_for_stop()? {
            Status::Syscall => {}
            other => return Err(self.unexpected("return from a call", other)),
        }
        self.position = Position::Outside;
        if !self.dirty {
            self.regs = OnceCell::new();
        }
        Ok(())
    }

    /// Waits for the next stop of a task that this module resumed behind the caller's back.
    pub(crate) fn wait_for_stop(&mut self) -> Result<Status> {
        let status = sys::wait(self.task.pid)?;
        match self.task.observe(status) {
            status if status.is_dead() => Err(Error::Gone { pid: self.task.pid }),
            status => Ok(status),
        }
    }

    /// Reports a stop that must not occur.
    pub(crate) fn unexpected(&self, during: &'static str, status: Status) -> Error {
        let pid = self.task.pid;
        let stop = match status {
            Status::Exited(_) | Status::Killed(_) => return Error::Gone { pid },
            Status::Event {
                event: libc::PTRACE_EVENT_SECCOMP,
                ..
            } => sys::get_regs(pid).map(|regs| Stop::Seccomp { nr: regs.call() }),
            Status::Event { event, signal } => crate::stop::of_event(pid, event, signal),
            Status::Syscall => crate::stop::of_syscall(pid),
            Status::Signal(signo) => crate::stop::of_signal(pid, signo),
        };
        match stop {
            Ok(stop) => Error::UnexpectedStop { pid, during, stop },
            Err(error) => error,
        }
    }
}
