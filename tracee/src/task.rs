//! The task that `Stopped` and `Running` share, and its end.
//!
//! Ownership is the rule against zombies: whoever holds the `Task` holds the duty to reap it. Dropping it in
//! whatever state kills and reaps the process; only a wait status that reports the death releases the duty.

use crate::recall::Recall;
use crate::stop::Status;
use crate::sys;
use nix::errno::Errno;
use std::cell::OnceCell;
use std::fs::File;
use std::marker::PhantomData;

/// A live, traced process. Not `Send`: the kernel accepts ptrace requests from the tracing thread only.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) pid: i32,
    /// Where there was a `syscall` instruction when one was last executed: the first place to look for one.
    pub(crate) gate: Option<u64>,
    /// `/proc/PID/mem`, opened on first use. Bound to one memory image, so closed at `exec`.
    pub(crate) mem: OnceCell<File>,
    /// `/proc/PID/maps`, likewise.
    pub(crate) maps: OnceCell<File>,
    /// What was read of its memory since it stopped.
    pub(crate) recall: Recall,
    reaped: bool,
    bound_to_thread: PhantomData<*const ()>,
}

impl Task {
    pub(crate) fn new(pid: i32) -> Self {
        Task {
            pid,
            gate: None,
            mem: OnceCell::new(),
            maps: OnceCell::new(),
            recall: Recall::default(),
            reaped: false,
            bound_to_thread: PhantomData,
        }
    }

    /// Notes a wait status; returns its meaning. The task has run, so what was known of its memory holds no more.
    pub(crate) fn observe(&mut self, status: i32) -> Status {
        self.recall.forget();
        let status = Status::decode(status);
        self.reaped |= status.is_dead();
        status
    }

    /// The image was replaced.
    pub(crate) fn forget_image(&mut self) {
        self.gate = None;
        self.mem = OnceCell::new();
        self.maps = OnceCell::new();
    }

    /// Kills and reaps. Idempotent.
    pub(crate) fn end(&mut self) {
        while !self.reaped {
            // A stop at exit, if asked for, delays death until the task is continued.
            let _ = sys::kill(self.pid);
            let _ = sys::cont(self.pid, 0);
            match sys::wait_interruptible(self.pid) {
                Ok(status) => drop(self.observe(status)),
                Err(Errno::EINTR) => {}
                // Nothing left to reap.
                Err(_) => self.reaped = true,
            }
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.end();
    }
}
