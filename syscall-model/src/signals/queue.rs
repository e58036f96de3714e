//! A pending set: the process has one, and every thread.

use super::info::SigInfo;
use super::{FIRST_REAL_TIME, SYNCHRONOUS, bit};

/// Pending signals in the order in which they came.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct PendingQueue {
    entries: Vec<SigInfo>,
}

impl PendingQueue {
    /// A standard signal that is pending already is not queued again; real-time signals are.
    pub fn push(&mut self, info: SigInfo) {
        if info.signo >= FIRST_REAL_TIME || self.set() & bit(info.signo) == 0 {
            self.entries.push(info);
        }
    }

    /// A timer has one entry of its own, whatever else is pending with its number; `false` if it is
    /// still there.
    pub fn push_timer(&mut self, info: SigInfo) -> bool {
        let there = self.entries.iter().any(|e| e.timer_id() == info.timer_id());
        if !there {
            self.entries.push(info);
        }
        !there
    }

    /// The numbers of all pending signals.
    pub fn set(&self) -> u64 {
        self.entries.iter().fold(0, |set, info| set | bit(info.signo))
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn has_timer(&self, timer: i32) -> bool {
        self.entries.iter().any(|info| info.timer_id() == Some(timer))
    }

    /// The signal of `set` that comes first: faults, then the lowest number.
    pub fn next(&self, set: u64) -> Option<i32> {
        let pending = self.set() & set;
        let first = match pending & SYNCHRONOUS {
            0 => pending,
            synchronous => synchronous,
        };
        (first != 0).then(|| first.trailing_zeros() as i32 + 1)
    }

    /// Takes the oldest entry with this number.
    pub fn take(&mut self, signo: i32) -> Option<SigInfo> {
        let at = self.entries.iter().position(|info| info.signo == signo)?;
        Some(self.entries.remove(at))
    }

    /// Drops every entry with a number in `set`.
    pub fn discard(&mut self, set: u64) {
        self.entries.retain(|info| bit(info.signo) & set == 0);
    }

    pub fn discard_timer(&mut self, timer: i32) {
        self.entries.retain(|info| info.timer_id() != Some(timer));
    }
}
