//! A task that runs: all one can do is wait for it, or ask it to stop.

use crate::error::{Error, Result};
use crate::gate::TRAP_FLAG;
use crate::memory::PAGE;
use crate::regs::{NO_CALL, Regs, SYSCALL_LEN};
use crate::stop::{self, Status, Stop};
use crate::stopped::{Position, Stopped};
use crate::sys;
use crate::task::Task;
use nix::errno::Errno;

/// Where old programs call `gettimeofday`, `time` and `getcpu`.
const VSYSCALL: u64 = 0xffff_ffff_ff60_0000;

/// A traced task that was resumed. Dropping it kills and reaps it.
#[derive(Debug)]
#[must_use = "dropping a running task kills it"]
pub struct Running {
    pub(crate) task: Task,
}

/// What became of a running task.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large variant is the frequent one; a box would cost an allocation per stop"
)]
pub enum Outcome {
    /// It stopped.
    Stopped(Stopped),
    /// It exited with this code, and is reaped.
    Exited(i32),
    /// It was killed by this signal, and is reaped.
    Killed(i32),
    /// It still runs, but a signal (a [`crate::Ticker`]'s) arrived at the supervisor.
    Tick(Running),
}

impl Running {
    /// Process id.
    pub fn pid(&self) -> i32 {
        self.task.pid
    }

    /// Asks the task to stop as soon as it can, with [`Stop::Interrupted`]. If another stop comes
    /// first, that stop is reported instead and the request is void.
    pub fn interrupt(&self) -> Result<()> {
        sys::interrupt(self.task.pid)
    }

    /// Waits until it stops or ends, or until a signal arrives at this thread.
    ///
    /// An error ends the task: nothing is known about it any more.
    pub fn wait(self) -> Result<Outcome> {
        match sys::wait_interruptible(self.task.pid) {
            Ok(status) => self.outcome(status),
            Err(Errno::EINTR) => Ok(Outcome::Tick(self)),
            Err(errno) => Err(Error::sys("wait4", self.task.pid, errno)),
        }
    }

    /// Waits until it stops or ends, whatever signals arrive; never [`Outcome::Tick`].
    pub fn wait_ignoring_ticks(self) -> Result<Outcome> {
        let status = sys::wait(self.task.pid)?;
        self.outcome(status)
    }

    /// Kills and reaps it.
    pub fn kill(mut self) {
        self.task.end();
    }

    /// The filter stopped it.
    fn at_filter(mut self) -> Result<Outcome> {
        let mut regs = sys::get_regs(self.task.pid)?;
        // The kernel looks at the low half only.
        regs.orig_rax = i64::from(regs.orig_rax as i32) as u64;
        // The instruction has put the flags into this register, with the one by which we step. The kernel takes that back in the flags only.
        if regs.r11 & !regs.eflags & TRAP_FLAG != 0 {
            regs.r11 &= !TRAP_FLAG;
            sys::set_regs(self.task.pid, &regs)?;
        }
        let stop = Stop::Seccomp { nr: regs.call() };
        if regs.rip & !(PAGE - 1) == VSYSCALL {
            return self.return_from_vsyscall(stop, regs);
        }
        self.task.gate = Some(regs.rip.wrapping_sub(SYSCALL_LEN));
        Ok(Outcome::Stopped(Stopped::new(
            self.task,
            stop,
            Position::CallEntry,
            Some(regs),
        )))
    }

    /// The fixed page of calls that the kernel emulates has no instruction at whose entry another call could be made instead: the kernel kills a task
    /// for which that is tried. So the call is skipped, and the task stopped where it returns to; the registers say that the call is still to come.
    fn return_from_vsyscall(self, stop: Stop, regs: Regs) -> Result<Outcome> {
        let pid = self.task.pid;
        let skipped = Regs {
            orig_rax: NO_CALL,
            ..regs
        };
        sys::set_regs(pid, &skipped)?;
        sys::interrupt(pid)?;
        sys::cont(pid, 0)?;
        let status = sys::wait(pid)?;
        let is_interrupt = matches!(
            Status::decode(status),
            Status::Event {
                event: libc::PTRACE_EVENT_STOP,
                ..
            }
        );
        if !is_interrupt {
            // It has no stack to return from.
            return self.outcome(status);
        }
        let back = Regs {
            orig_rax: regs.orig_rax,
            ..sys::get_regs(pid)?
        };
        Ok(Outcome::Stopped(Stopped::new(
            self.task,
            stop,
            Position::Outside,
            Some(back),
        )))
    }

    fn outcome(mut self, status: i32) -> Result<Outcome> {
        let pid = self.task.pid;
        let (stop, position) = match self.task.observe(status) {
            Status::Exited(code) => return Ok(Outcome::Exited(code)),
            Status::Killed(signal) => return Ok(Outcome::Killed(signal)),
            Status::Event {
                event: libc::PTRACE_EVENT_SECCOMP,
                ..
            } => {
                return self.at_filter();
            }
            Status::Event { event, signal } => {
                let stop = stop::of_event(pid, event, signal)?;
                (stop, Position::of_event(stop))
            }
            Status::Syscall => {
                let stop = stop::of_syscall(pid)?;
                let position = if stop == Stop::SyscallEntry {
                    Position::CallEntry
                } else {
                    Position::Outside
                };
                (stop, position)
            }
            Status::Signal(signo) => (stop::of_signal(pid, signo)?, Position::Outside),
        };
        if stop == Stop::Exec {
            self.task.forget_image();
        }
        Ok(Outcome::Stopped(Stopped::new(self.task, stop, position, None)))
    }
}
