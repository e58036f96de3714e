//! The task that `Stopped` and `Running` share, and its end.
//!
//! Ownership is the rule against zombies: whoever holds the `Task` holds the duty to reap it. Dropping it in
//! whatever state kills and reaps the process; only a wait status that reports the death releases the duty.

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
    /// Where injected calls run; none before `prepare_image`, and none again after `exec`.
    pub(crate) scratch: Option<Scratch>,
    /// `/proc/PID/mem`, opened on first use. Bound to one memory image, so closed at `exec`.
    pub(crate) mem: OnceCell<File>,
    /// `/proc/PID/maps`, likewise.
    pub(crate) maps: OnceCell<File>,
    reaped: bool,
    bound_to_thread: PhantomData<*const ()>,
}

/// The scratch area of an image: two system-call instructions, the rest belongs to the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scratch {
    /// Start of the area.
    pub addr: u64,
    /// Its length in bytes.
    pub len: u64,
}

impl Scratch {
    /// What `prepare_image` writes at the start: `syscall; int3` twice, eight bytes apart.
    pub(crate) const CODE: [u8; 16] = {
        let (syscall, int3) = ([0x0f, 0x05], 0xcc);
        let mut code = [int3; 16];
        [code[0], code[1]] = syscall;
        [code[8], code[9]] = syscall;
        code
    };
    /// Bytes at the start of the area that are in use; the supervisor may fill what follows.
    pub const RESERVED: u64 = Self::CODE.len() as u64;

    /// The `syscall` that the filter lets pass.
    pub(crate) fn call(self) -> u64 {
        self.addr
    }

    /// Instruction pointer that the filter has to allow: see [`crate::Filter::new`].
    pub fn allow_ip(addr: u64) -> u64 {
        addr + crate::regs::SYSCALL_LEN
    }

    /// The `int3` behind it.
    pub(crate) fn after_call(self) -> u64 {
        Self::allow_ip(self.addr)
    }

    /// `rip` once that `int3` has stopped the task.
    pub(crate) fn trapped(self) -> u64 {
        self.after_call() + 1
    }

    /// A `syscall` that the filter does *not* know: it always stops.
    pub(crate) fn gate(self) -> u64 {
        self.addr + 8
    }
}

impl Task {
    pub(crate) fn new(pid: i32) -> Self {
        Task {
            pid,
            scratch: None,
            mem: OnceCell::new(),
            maps: OnceCell::new(),
            reaped: false,
            bound_to_thread: PhantomData,
        }
    }

    /// Notes a wait status; returns its meaning.
    pub(crate) fn observe(&mut self, status: i32) -> Status {
        let status = Status::decode(status);
        self.reaped |= status.is_dead();
        status
    }

    /// The image was replaced.
    pub(crate) fn forget_image(&mut self) {
        self.scratch = None;
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
