//! What can go wrong with a checkpoint.
//!
//! Whoever asked can always go on without: a state that cannot be saved, or not be restored, is reached again by
//! executing the program anew. [`Error::needs_reexecution`] tells these cases from real failures.

use crate::MarkId;
use nix::errno::Errno;
use thiserror::Error;

/// Result of an operation on checkpoints.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure of an operation on checkpoints.
#[derive(Debug, Error)]
pub enum Error {
    /// The task itself.
    #[error(transparent)]
    Tracee(#[from] tracee::Error),
    /// A system call of the supervisor failed.
    #[error("{call} for task {pid}: {errno}")]
    Sys {
        /// Name of the call.
        call: &'static str,
        /// The task it was about.
        pid: i32,
        /// Why.
        errno: Errno,
    },
    /// `/proc` could not be read.
    #[error("/proc of task {pid}: {reason}")]
    Proc {
        /// The task.
        pid: i32,
        /// Why.
        reason: String,
    },
    /// Writable memory that the task may share with others: what is in it cannot be taken back.
    #[error(
        "the program has a writable shared mapping at {start:#x}..{end:#x} ({name}), which no checkpoint can hold"
    )]
    SharedMapping {
        /// First address.
        start: u64,
        /// One past the last.
        end: u64,
        /// The file, or what the kernel calls it.
        name: String,
    },
    /// The mappings changed since the mark in a way that cannot be undone.
    #[error("the mappings of task {pid} cannot be put back: {what}")]
    Layout {
        /// The task.
        pid: i32,
        /// What stands in the way.
        what: String,
    },
    /// The task executed another program, or is another process than the one that was marked.
    #[error("mark {mark} is of another program image than task {pid} has now")]
    OtherImage {
        /// The mark.
        mark: MarkId,
        /// The task.
        pid: i32,
    },
    /// The mark was forgotten, or used up by `restore_last`, or is of another checkpointer.
    #[error("there is no mark {0}")]
    UnknownMark(MarkId),
    /// The machine cannot rewind pages.
    #[error("rewinding pages does not work here: {0}")]
    Unsupported(String),
}

impl Error {
    /// Is there nothing wrong but that this state must be reached by executing the program again?
    pub fn needs_reexecution(&self) -> bool {
        matches!(
            self,
            Error::SharedMapping { .. }
                | Error::Layout { .. }
                | Error::OtherImage { .. }
                | Error::UnknownMark(_)
        )
    }

    pub(crate) fn sys(call: &'static str, pid: i32, errno: Errno) -> Self {
        Error::Sys { call, pid, errno }
    }
}
