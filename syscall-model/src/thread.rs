//! Virtual threads: what the kernel keeps per task.

use crate::call::Call;
use crate::clock::Nanos;
use crate::signals::{PendingQueue, bit};
use crate::wait::Wait;
use std::collections::BTreeSet;
use syscalls::Sysno;

/// A virtual thread id, counted from the virtual pid.
pub type Tid = u32;

/// What a parked thread will do when it is scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pending {
    /// It was just made and has not run.
    Start,
    /// It stands before this system call.
    Call(Call),
    /// It stands before the hooked operation with this number in the supervisor's list of sites.
    Hook(u64),
    /// Its call is decided and returns this value.
    Return(i64),
    /// It has made the thread with this number, which may run before the call returns.
    Created(i64),
    /// It was taken out of a spin loop, with its registers as they are.
    Spin,
    /// It is the one that runs.
    Running,
}

/// Signals of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ThreadSignals {
    /// Blocked signals.
    pub mask: u64,
    /// The mask to go back to after `sigsuspend`, `ppoll` and their kin.
    ///
    /// While such a call waits, `mask` is the temporary mask and this is the old one. A call that returns
    /// by itself puts the old one back into `mask` and `None` here. A call that a handler interrupts leaves
    /// both: the old mask goes into the handler's frame and `sigreturn` brings it back
    /// ([`Signals::begin_handler`](crate::signals::Signals::begin_handler)).
    pub saved_mask: Option<u64>,
    /// Signals sent to this thread that it has not taken yet.
    pub pending: PendingQueue,
    /// Alternate signal stack: address, size, flags.
    pub altstack: (u64, u64, i32),
}

/// What is done when a thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct OnExit {
    /// Zeroed, and its futex woken (`CLONE_CHILD_CLEARTID`).
    pub clear_tid: u64,
    /// Head of the robust futex list.
    pub robust_list: u64,
    /// Where its stack began: what it leaves below is nobody's. 0 for the first thread.
    pub stack: u64,
}

/// How far a call has come that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct CallProgress {
    /// What a waker decided the waiting call returns.
    pub woken: Option<i64>,
    /// When a timed call ends, fixed when it parked; a call that waits twice keeps it.
    pub deadline: Option<Nanos>,
    /// Bytes that the call has moved before it went on waiting.
    pub progress: u64,
    /// Whole messages that `sendmmsg` or `recvmmsg` has moved before it went on waiting.
    pub messages: u32,
}

/// A thread of the program under test. Registers are the supervisor's business.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    pub tid: Tid,
    pub name: [u8; 16],
    pub on_exit: OnExit,
    pub signals: ThreadSignals,
    pub scheduling: Scheduling,
    pub pending: Pending,
    /// Set while the thread cannot run.
    pub wait: Option<Wait>,
    pub call: CallProgress,
    /// After a yield: threads that must move, or become unable to, before this one runs again.
    pub yields_to: BTreeSet<Tid>,
    /// Yields in a row without another visible operation; when all threads only yield, time may pass.
    pub idle_yields: u32,
    /// Looks in a row that found nothing, while nobody else got anywhere either; the same.
    pub idle_looks: u32,
    /// Memory was refused to it by a fault, and it has done nothing since but ask for more.
    pub starved: bool,
}

/// What a thread asked the scheduler for. Kept and told back; the schedule is tracefork's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scheduling {
    pub policy: i32,
    pub priority: i32,
    pub nice: i32,
    /// Processors that it asked for, of those that the process has.
    pub affinity: u64,
    pub io_priority: i32,
}

impl Default for Scheduling {
    fn default() -> Self {
        Self {
            policy: libc::SCHED_OTHER,
            priority: 0,
            nice: 0,
            affinity: u64::MAX,
            io_priority: 0,
        }
    }
}

impl Thread {
    pub fn new(tid: Tid, name: [u8; 16], mask: u64) -> Self {
        Self {
            tid,
            name,
            on_exit: OnExit::default(),
            signals: ThreadSignals {
                mask,
                saved_mask: None,
                pending: PendingQueue::default(),
                altstack: (0, 0, libc::SS_DISABLE),
            },
            scheduling: Scheduling::default(),
            pending: Pending::Start,
            wait: None,
            call: CallProgress::default(),
            yields_to: BTreeSet::new(),
            idle_yields: 0,
            idle_looks: 0,
            starved: false,
        }
    }

    /// What a call returns that a signal interrupts after part of its work: that part. `None`: nothing is done
    /// yet, and it fails with `EINTR` or starts again.
    pub fn partial_result(&self) -> Option<i64> {
        match (self.call.messages, self.call.progress) {
            (0, 0) => None,
            (0, bytes) => Some(bytes as i64),
            (messages, _) => Some(i64::from(messages)),
        }
    }

    /// It stands before its end, and nothing can come in between: no handler runs any more.
    pub fn is_as_good_as_gone(&self) -> bool {
        let unblockable = bit(libc::SIGKILL) | bit(libc::SIGSTOP);
        matches!(&self.pending, Pending::Call(call) if call.sysno == Sysno::exit)
            && self.signals.mask | unblockable == u64::MAX
    }

    /// The call is over: what it kept while it waited ends with it.
    pub fn end_call(&mut self) {
        self.call = CallProgress {
            woken: self.call.woken,
            ..CallProgress::default()
        };
    }
}
