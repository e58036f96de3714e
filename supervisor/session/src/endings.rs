//! How an execution ends, and what was seen on the way.

use crate::outside::Roused;
use crate::{CoreFile, Event, Misuse, ProcessEnd, Standstill};
use std::collections::BTreeSet;
use syscall_model::Tid;
use syscall_model::processes::Pid;
use trace::End;

/// What is known of the end, or speaks against the program: it goes back with a checkpoint.
#[derive(Clone, Default)]
pub(super) struct Endings {
    pub ended: Option<End>,
    /// Nobody can move, which is the end if nothing comes from outside.
    pub resting: Option<End>,
    /// Who took a signal when nobody could move, as long as nothing has come of it.
    pub roused: Option<Roused>,
    /// Several threads would go on for ever, without changing anything.
    pub goes_on: bool,
    /// How the first process ended, if others live on.
    pub first_ended: Option<End>,
    /// How the others ended.
    pub children: Vec<ProcessEnd>,
    /// What the program left behind, for people.
    pub left_behind: BTreeSet<String>,
    pub crash: Option<Crash>,
    /// Freed memory that was touched without a parking point before.
    pub misuse: Option<Misuse>,
}

/// What was seen for whoever asks before the next step: it does not go back.
#[derive(Default)]
pub(super) struct Seen {
    /// Those of processes that have crashed.
    pub crash_cores: Vec<CoreFile>,
    /// Threads that waited for each other's locks before the last step.
    pub stuck_before: Vec<Standstill>,
    /// What happened in a walk that nobody has asked for yet.
    pub events: Vec<Event>,
}

/// A crash, with the thread that had it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    pub thread: Tid,
    pub signal: i32,
    /// The faulting address, where the signal has one.
    pub address: Option<u64>,
    /// Number and program of the process, if it is not the first.
    pub process: Option<(Pid, String)>,
    /// The stack, if the process will be gone when somebody asks.
    pub stack: Vec<String>,
}
