//! Timers that send signals: `alarm`, `setitimer`, `timer_create`.

use crate::clock::Nanos;
use crate::model::Model;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Timers {}

impl Timers {
    /// A new program runs in the process.
    pub fn exec(&mut self) {}

    pub fn next_deadline(&self) -> Option<Nanos> {
        None
    }

    /// Fires every timer whose moment has come.
    pub fn fire_due(_model: &mut Model) {}
}
