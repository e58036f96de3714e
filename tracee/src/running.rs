//! A task that runs: all one can do is wait for it, or ask it to stop.

use crate::error::{Error, Result};
use crate::stop::{self, Status, Stop};
use crate::stopped::{Position, Stopped};
use crate::sys;
use crate::task::Task;
use nix::errno::Errno;

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

    fn outcome(mut self, status: i32) -> Result<Outcome> {
        let pid = self.task.pid;
        let (stop, position) = match self.task.observe(status) {
            Status::Exited(code) => return Ok(Outcome::Exited(code)),
            Status::Killed(signal) => return Ok(Outcome::Killed(signal)),
            Status::Event {
                event: libc::PTRACE_EVENT_SECCOMP,
                ..
            } => {
                let regs = sys::get_regs(pid)?;
                let stop = Stop::Seccomp { nr: regs.call() };
                return Ok(Outcome::Stopped(Stopped::new(
                    self.task,
                    stop,
                    Position::CallEntry,
                    Some(regs),
                )));
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
