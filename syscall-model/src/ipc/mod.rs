//! What processes share beyond files: System V segments, semaphores and message queues, and POSIX message queues.
//!
//! All of it is in the model once, whichever process is in place. Segments have their contents in the overlay, like a file that
//! nobody can open.

pub mod messages;
pub mod registry;
pub mod segments;
pub mod semaphores;

use crate::model::Model;
use crate::processes::Pid;
use crate::thread::Tid;
pub use registry::{Permissions, Registry};

/// All objects of inter-process communication that have no path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Ipc {
    pub(crate) segments: Registry<segments::Segment>,
    pub(crate) semaphores: Registry<semaphores::Set>,
    pub(crate) undo: semaphores::Undo,
    pub(crate) messages: Registry<messages::Queue>,
    /// Messages that were handed to threads which waited for them, and which these have not taken yet.
    pub(crate) handed: messages::Handed,
}

impl Ipc {
    /// A thread no longer waits. What it was handed stays its own: its call, if it comes again, has it.
    pub(crate) fn forget(&mut self, tid: Tid) {
        semaphores::forget(self, tid);
        messages::forget(self, tid);
    }

    /// A thread is gone.
    pub(crate) fn thread_ended(&mut self, tid: Tid) {
        self.forget(tid);
        self.handed.remove(&tid);
    }

    /// A process has ended: what it did to semaphores is undone as far as it asked for that.
    pub(crate) fn process_ended(model: &mut Model, pid: Pid) {
        semaphores::apply_undo(model, pid);
        segments::settle(model, pid);
    }
}
