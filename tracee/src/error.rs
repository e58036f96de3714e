//! What can go wrong with a traced task.
//!
//! Death of the task is an ordinary variant ([`Error::Gone`]): a task may be killed from outside
//! between any two calls, and every caller has to expect it. Nothing here panics.

use crate::stop::Stop;
use nix::errno::Errno;
use thiserror::Error;

/// Result of an operation on a traced task.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An address of the task that could not be accessed; the guest itself would have got `EFAULT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[error("bad address {addr:#x} in the traced task")]
pub struct MemoryFault {
    /// The first byte that could not be accessed.
    pub addr: u64,
}

/// Failure of an operation on a traced task.
#[derive(Debug, Error)]
pub enum Error {
    /// The task no longer exists (or is a zombie): killed from outside, or by an injected call.
    #[error("task {pid} is gone")]
    Gone {
        /// Its process id.
        pid: i32,
    },
    /// A ptrace request was refused.
    #[error("ptrace {request} of task {pid}: {errno}")]
    Ptrace {
        /// Name of the request.
        request: &'static str,
        /// The task.
        pid: i32,
        /// Why.
        errno: Errno,
    },
    /// Any other system call of the supervisor failed.
    #[error("{call} for task {pid}: {errno}")]
    Sys {
        /// Name of the call.
        call: &'static str,
        /// The task it was about.
        pid: i32,
        /// Why.
        errno: Errno,
    },
    /// Guest memory could not be accessed.
    #[error(transparent)]
    Memory(#[from] MemoryFault),
    /// There is no code in the task's memory that a call could be made from.
    #[error("task {pid} has no executable memory of its own left to make a call from")]
    NoCode {
        /// The task.
        pid: i32,
    },
    /// The task stopped for a reason that must not occur there.
    #[error("task {pid} stopped unexpectedly during {during}: {stop:?}")]
    UnexpectedStop {
        /// The task.
        pid: i32,
        /// What the supervisor was doing.
        during: &'static str,
        /// What was seen instead.
        stop: Stop,
    },
    /// A system call injected on behalf of the supervisor failed.
    #[error("{call} injected into task {pid}: {errno}")]
    Injected {
        /// Name of the call.
        call: &'static str,
        /// The task.
        pid: i32,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The initial stack of a new image does not look like one.
    #[error("the initial stack of task {pid} is malformed: {what}")]
    MalformedStack {
        /// The task.
        pid: i32,
        /// What is wrong.
        what: &'static str,
    },
    /// `/proc` could not be read.
    #[error("/proc of task {pid}: {reason}")]
    Proc {
        /// The task.
        pid: i32,
        /// Why.
        reason: String,
    },
}

impl Error {
    /// A failed ptrace request; `ESRCH` means that the task is dead.
    pub(crate) fn ptrace(request: &'static str, pid: i32, errno: Errno) -> Self {
        match errno {
            Errno::ESRCH => Error::Gone { pid },
            errno => Error::Ptrace { request, pid, errno },
        }
    }

    /// A failed call about a task; `ESRCH` and `ECHILD` mean that the task is dead.
    pub(crate) fn sys(call: &'static str, pid: i32, errno: Errno) -> Self {
        match errno {
            Errno::ESRCH | Errno::ECHILD => Error::Gone { pid },
            errno => Error::Sys { call, pid, errno },
        }
    }

    /// Is this nothing but the death of the task?
    pub fn is_gone(&self) -> bool {
        matches!(self, Error::Gone { .. })
    }

    /// The errno that the guest's own system call would return for this error.
    pub fn errno(&self) -> Errno {
        match self {
            Error::Gone { .. } => Errno::ESRCH,
            Error::Memory(_) => Errno::EFAULT,
            Error::Ptrace { errno, .. } | Error::Sys { errno, .. } | Error::Injected { errno, .. } => *errno,
            _ => Errno::EIO,
        }
    }
}
