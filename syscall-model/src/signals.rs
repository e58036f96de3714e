//! Signals: actions, pending sets, delivery.

use crate::thread::Thread;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Signals {}

impl Signals {
    /// A new program runs in the process.
    pub fn exec(&mut self) {}

    /// The signal that this thread would take next, if any.
    pub fn deliverable(&self, _thread: &Thread) -> Option<i32> {
        None
    }

    /// Is any signal of `set` pending for this thread or the process?
    pub fn any_pending(&self, _thread: &Thread, _set: u64) -> bool {
        false
    }
}
