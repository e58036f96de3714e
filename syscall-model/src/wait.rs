//! Why a thread cannot go on, and what ends its waiting.

use crate::channels::ChannelId;
use crate::clock::Nanos;
use crate::fd::{OfdId, PollEvents};
use crate::fs::LockRequest;
use crate::processes::{Asked, Children, Pid};
use crate::thread::Tid;

/// A condition that keeps a thread from running, with an optional deadline.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    pub on: WaitFor,
    /// On the virtual monotonic clock.
    pub deadline: Option<Nanos>,
    pub on_signal: OnSignal,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WaitFor {
    /// Nothing but the deadline or a signal: `nanosleep`, `pause`.
    Nothing,
    /// A futex queue at this address; the waker sets [`Thread::woken`](crate::thread::CallProgress::woken).
    Futex(u64),
    /// This thread is gone: `pthread_join`.
    Exit(Tid),
    /// Any of these descriptions has any of these events.
    Ready(Vec<(OfdId, PollEvents)>),
    /// A write of this many bytes (or, to an eventfd, of this value) goes through at least in part. Finer
    /// than readiness: a small write may fit where poll shows no room.
    Room(OfdId, u64),
    /// A lock on a file can be had: `flock`, `F_SETLKW`.
    FileLock(LockRequest),
    /// One of these children of a process has ended, or has done something else that is asked for, or there is none: `wait4`.
    Child(Pid, Children, Asked),
    /// This process has its own memory, or has ended: `vfork`.
    Exec(Pid),
    /// The operations on this set of semaphores can be done; the one who makes that so does them, and sets
    /// [`Thread::woken`](crate::thread::CallProgress::woken).
    Semaphores(i32),
    /// A message of this queue was handed to it.
    Message(i32),
    /// A message of this POSIX queue was handed to it, or the one that it has to send was taken.
    Mailbox(ChannelId),
    /// This queue has room for a message of this length.
    MessageRoom(i32, u64),
    /// One of these signals is pending: `sigwait`.
    Signals(u64),
}

/// What a signal handler does to the call that it interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnSignal {
    /// `EINTR`, or started again if the handler was installed with `SA_RESTART`.
    Restart,
    /// Always `EINTR` (`poll`, `epoll_wait`, `nanosleep` with no remainder, timed futex, …).
    Interrupt,
    /// `EINTR`, and the time that was left is written here as a `timespec`.
    InterruptWithRemainder(u64),
}

/// Why a call that waited, or could have, runs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Wake {
    /// What it waited for is there, or it never waited.
    #[default]
    Ready,
    /// Its deadline has come and what it waited for is not there.
    TimedOut,
}

impl Wait {
    /// Until `deadline` only.
    pub fn sleep(deadline: Option<Nanos>, on_signal: OnSignal) -> Self {
        Self {
            on: WaitFor::Nothing,
            deadline,
            on_signal,
        }
    }

    /// Until one description has one of `events`.
    pub fn ready(description: OfdId, events: PollEvents) -> Self {
        Self {
            on: WaitFor::Ready(vec![(description, events)]),
            deadline: None,
            on_signal: OnSignal::Restart,
        }
    }
}
