//! System calls performed by the task on behalf of the supervisor.
//!
//! The scratch area holds `syscall; int3`. On entry to a call of its own, the task is made to perform the
//! injected one and to return to the `int3`; elsewhere it is sent to the `syscall`. The filter lets both pass, so an
//! injected call costs one stop. Registers need no restoring by force: those before the call simply
//! remain what the task will be resumed with.
//!
//! After an error other than a missing scratch area the task is in an unknown place and should be dropped.

use crate::error::{Error, Result};
use crate::regs::{NO_CALL, Regs};
use crate::stop::Status;
use crate::stopped::{Position, Stopped};
use crate::sys;
use crate::task::{Scratch, Task};
use nix::errno::Errno;

/// A call that no kernel has and no filter allows: it stops at the gate.
const NR_GATE: u64 = 0x3fff_ffff;

/// `-4095..=-1` are errors.
const LARGEST_ERROR: i64 = -4095;

/// Turns a raw kernel return value into a result.
pub fn check_return(raw: i64) -> std::result::Result<u64, Errno> {
    match raw {
        LARGEST_ERROR..=-1 => Err(Errno::from_raw(-raw as i32)),
        value => Ok(value as u64),
    }
}

impl Stopped {
    /// Performs one system call in the task and returns the kernel's raw answer. All registers remain as they were.
    pub fn inject(&mut self, nr: i64, args: [u64; 6]) -> Result<i64> {
        Ok(self.run_injected(nr, args)?.result)
    }

    /// Performs several, in order, whatever they return.
    pub fn inject_many(&mut self, calls: &[(i64, [u64; 6])]) -> Result<Vec<i64>> {
        calls.iter().map(|&(nr, args)| self.inject(nr, args)).collect()
    }

    /// The same as [`Stopped::inject`] with an error if the call failed; `name` is for the message.
    pub fn inject_checked(&mut self, name: &'static str, nr: i64, args: [u64; 6]) -> Result<u64> {
        check_return(self.inject(nr, args)?).map_err(|errno| Error::Injected {
            call: name,
            pid: self.pid(),
            errno,
        })
    }

    /// Forks the task. The copy is a child of the supervisor (not of the task), is stopped, and has the
    /// registers, extended state and reported stop that this task has.
    pub fn inject_fork(&mut self) -> Result<Stopped> {
        let flags = (libc::CLONE_PARENT | libc::SIGCHLD) as u64;
        let done = self.run_injected(libc::SYS_clone, [flags, 0, 0, 0, 0, 0])?;
        let pid = self.pid();
        let Some(child) = done.child else {
            let errno = check_return(done.result).err().unwrap_or(Errno::ECHILD);
            return Err(Error::Injected {
                call: "clone",
                pid,
                errno,
            });
        };
        let mut copy = adopt(child, *self.stop())?;
        copy.task.scratch = self.task.scratch;
        copy.set_regs(*self.regs()?);
        Ok(copy)
    }

    /// The new task that a [`crate::Stop::Fork`] reported, stopped before its first instruction.
    pub fn forked_child(&self) -> Result<Option<Stopped>> {
        let crate::Stop::Fork { child } = *self.stop() else {
            return Ok(None);
        };
        let mut child = adopt(child, crate::Stop::Interrupted)?;
        child.task.scratch = self.task.scratch;
        Ok(Some(child))
    }

    /// Turns `cpuid` into a `SIGSEGV` (or back). `false`: the machine cannot. The kernel resets it at exec.
    pub fn set_cpuid_faulting(&mut self, on: bool) -> Result<bool> {
        use crate::cpuid_fault::ARCH_SET_CPUID;
        match check_return(self.inject(libc::SYS_arch_prctl, [ARCH_SET_CPUID, u64::from(!on), 0, 0, 0, 0])?) {
            Ok(_) => Ok(true),
            Err(Errno::ENODEV) => Ok(false),
            Err(errno) => Err(Error::Injected {
                call: "arch_prctl",
                pid: self.pid(),
                errno,
            }),
        }
    }

    /// Brings the task to the entry of a system call, where `orig_rax` decides what is performed.
    /// This is how a virtual thread that was parked before a call performs it for real when the kernel task
    /// stands elsewhere, say at a breakpoint of another thread. Costs nothing if it is at one already.
    pub fn enter_call(&mut self) -> Result<()> {
        if self.position == Position::CallEntry {
            return Ok(());
        }
        let scratch = self.require_scratch()?;
        self.leave_call()?;
        let keep = *self.regs()?;
        let gate = Regs {
            rip: scratch.gate(),
            rax: NR_GATE,
            orig_rax: NO_CALL,
            ..keep
        };
        sys::set_regs(self.pid(), &gate)?;
        self.set_regs(keep);
        sys::cont(self.pid(), 0)?;
        loop {
            match self.wait_for_stop()? {
                Status::Event {
                    event: libc::PTRACE_EVENT_SECCOMP,
                    ..
                } => break,
                Status::Event {
                    event: libc::PTRACE_EVENT_STOP,
                    ..
                } => sys::cont(self.pid(), 0)?,
                other => return Err(self.unexpected("entry to a call", other)),
            }
        }
        self.position = Position::CallEntry;
        Ok(())
    }

    fn require_scratch(&self) -> Result<Scratch> {
        self.task.scratch.ok_or(Error::NoScratch { pid: self.pid() })
    }

    fn run_injected(&mut self, nr: i64, args: [u64; 6]) -> Result<Injected> {
        let scratch = self.require_scratch()?;
        self.leave_call()?;
        let keep = *self.regs()?;
        let mut regs = keep;
        regs.set_args(args);
        match self.position {
            Position::CallEntry => (regs.orig_rax, regs.rip) = (nr as u64, scratch.after_call()),
            _ => (regs.orig_rax, regs.rax, regs.rip) = (NO_CALL, nr as u64, scratch.call()),
        }
        self.run_to_trap(&regs, keep, scratch.trapped())
    }

    /// Runs with `regs` up to the `int3` that leaves `rip` at `trapped`; `keep` become current again.
    /// Stops at the filter are passed: the very first call of an image comes from outside the scratch area.
    pub(crate) fn run_to_trap(&mut self, regs: &Regs, keep: Regs, trapped: u64) -> Result<Injected> {
        let pid = self.pid();
        sys::set_regs(pid, regs)?;
        self.set_regs(keep);
        self.position = Position::Outside;
        let mut child = None;
        loop {
            sys::cont(pid, 0)?;
            match self.wait_for_stop()? {
                Status::Signal(libc::SIGTRAP) => break,
                Status::Event {
                    event: libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE,
                    ..
                } => child = Some(sys::event_msg(pid)? as i32),
                // An interrupt that came too late to matter, or the filter.
                Status::Event {
                    event: libc::PTRACE_EVENT_STOP | libc::PTRACE_EVENT_SECCOMP,
                    ..
                } => {}
                other => return Err(self.unexpected("an injected call", other)),
            }
        }
        let after = sys::get_regs(pid)?;
        if after.rip != trapped {
            return Err(self.unexpected("an injected call", Status::Signal(libc::SIGTRAP)));
        }
        Ok(Injected {
            result: after.rax as i64,
            child,
        })
    }
}

/// What an injected call did.
pub(crate) struct Injected {
    pub(crate) result: i64,
    child: Option<i32>,
}

/// Takes charge of a task that a traced task made; waits for the stop with which its life begins.
fn adopt(pid: i32, stop: crate::Stop) -> Result<Stopped> {
    let mut child = Stopped::new(Task::new(pid), stop, Position::Outside, None);
    match child.wait_for_stop()? {
        Status::Event {
            event: libc::PTRACE_EVENT_STOP,
            ..
        } => Ok(child),
        other => Err(child.unexpected("birth of a task", other)),
    }
}
