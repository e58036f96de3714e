//! Signals: actions, pending sets, delivery.
//!
//! The model decides which thread takes which signal and what then happens; the supervisor builds and pops
//! the frames. A process-directed signal may be taken by any thread that does not block it. The kernel
//! prefers the first thread and otherwise takes whichever it finds; here it is always the first thread if
//! it does not block the signal, else the lowest thread id, so that one schedule always means the same.
//! [`Signals::assign`] keeps that choice; it runs after every call and every change made here.
//!
//! A stop signal with its default action comes out as [`Disposition::Stop`]: the process stops until another one lets it go
//! on. Where there is no other, the supervisor reports it as unsupported.

mod info;
mod queue;

pub use info::{SI_KERNEL, SI_QUEUE, SI_TIMER, SI_TKILL, SI_USER, SigInfo};
pub use queue::PendingQueue;

use crate::model::Model;
use crate::thread::{Thread, Tid};
use crate::wait::WaitFor;
use std::collections::BTreeMap;
use syscalls::Errno;

pub const FIRST_REAL_TIME: i32 = 32;
pub const LAST: i32 = 64;
pub const SIG_DFL: u64 = 0;
pub const SIG_IGN: u64 = 1;
/// Neither blocked nor handled, whatever the program asks.
pub const UNBLOCKABLE: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP);
/// Earned by the instruction that runs: taken before anything else.
pub(crate) const SYNCHRONOUS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGFPE)
    | bit(libc::SIGSYS);
const STOPS: u64 = bit(libc::SIGSTOP) | bit(libc::SIGTSTP) | bit(libc::SIGTTIN) | bit(libc::SIGTTOU);
const IGNORED_BY_DEFAULT: u64 =
    bit(libc::SIGCHLD) | bit(libc::SIGCONT) | bit(libc::SIGURG) | bit(libc::SIGWINCH);
const CORE_BY_DEFAULT: u64 =
    SYNCHRONOUS | bit(libc::SIGQUIT) | bit(libc::SIGABRT) | bit(libc::SIGXCPU) | bit(libc::SIGXFSZ);

/// The bit of a signal in a set; `signo` is 1 to 64.
pub const fn bit(signo: i32) -> u64 {
    1 << (signo - 1)
}

/// What `rt_sigaction` installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Action {
    /// `SIG_DFL`, `SIG_IGN` or an address.
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

/// What happens when a signal is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    Handler {
        handler: u64,
        flags: u64,
        restorer: u64,
        mask: u64,
    },
    /// The process dies.
    Terminate,
    /// The process dies and would leave a core file.
    Core,
    Ignore,
    /// The process would stop; see the module documentation.
    Stop,
}

/// A signal on its way to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Delivery {
    pub info: SigInfo,
    pub action: Disposition,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Signals {
    /// Only those that were ever set; the rest have their default.
    actions: BTreeMap<i32, Action>,
    /// Sent to the process.
    shared: PendingQueue,
    /// For each pending process-directed signal, the thread that will take it.
    takers: BTreeMap<i32, Tid>,
}

impl Signals {
    /// A new program runs in the process: handlers are gone with the old one, ignored signals stay ignored,
    /// pending ones stay pending.
    pub fn exec(&mut self) {
        self.actions.retain(|_, action| action.handler == SIG_IGN);
        for action in self.actions.values_mut() {
            *action = Action {
                handler: SIG_IGN,
                ..Action::default()
            };
        }
    }

    /// What a new process has: the same actions, and nothing pending.
    pub(crate) fn forked(&self) -> Self {
        Self {
            actions: self.actions.clone(),
            ..Self::default()
        }
    }

    /// The same actions as another process, from now on.
    pub(crate) fn share_actions(&mut self, other: &Self) {
        self.actions.clone_from(&other.actions);
    }

    pub fn action(&self, signo: i32) -> Action {
        self.actions.get(&signo).copied().unwrap_or_default()
    }

    /// Installs an action. A signal that is ignored from now on is no longer pending anywhere.
    pub fn set_action(model: &mut Model, signo: i32, mut action: Action) {
        action.mask &= !UNBLOCKABLE;
        if action == Action::default() {
            model.signals.actions.remove(&signo);
        } else {
            model.signals.actions.insert(signo, action);
        }
        if model.signals.ignores(signo) {
            model.signals.shared.discard(bit(signo));
            for thread in model.threads.values_mut() {
                thread.signals.pending.discard(bit(signo));
            }
        }
        Self::assign(model);
    }

    /// Does the process ignore this signal, by choice or by default?
    pub fn ignores(&self, signo: i32) -> bool {
        match self.action(signo).handler {
            SIG_IGN => true,
            SIG_DFL => bit(signo) & IGNORED_BY_DEFAULT != 0,
            _ => false,
        }
    }

    /// Signals with a handler.
    pub fn handled(&self) -> u64 {
        let handled = self.actions.iter().filter(|(_, a)| a.handler > SIG_IGN);
        handled.fold(0, |set, (&signo, _)| set | bit(signo))
    }

    /// Pending for the process as a whole.
    pub fn shared_set(&self) -> u64 {
        self.shared.set()
    }

    /// What `sigpending` shows: blocked and pending for the thread or the process.
    pub fn pending_set(&self, thread: &Thread) -> u64 {
        (self.shared.set() | thread.signals.pending.set()) & thread.signals.mask
    }

    /// The signal that this thread would take next, if any.
    pub fn deliverable(&self, thread: &Thread) -> Option<i32> {
        if thread.signals.pending.is_empty() && self.shared.is_empty() {
            return None;
        }
        let open = !blocked(thread);
        if let Some(signo) = thread.signals.pending.next(open) {
            return Some(signo);
        }
        let mine = self.takers.iter().filter(|&(_, &tid)| tid == thread.tid);
        let mine = mine.fold(0, |set, (&signo, _)| set | bit(signo));
        self.shared.next(open & mine)
    }

    /// Takes the next signal of this thread out of the pending set, with what is to be done about it.
    pub fn take(model: &mut Model, tid: Tid) -> Option<Delivery> {
        let signo = model.signals.deliverable(model.thread(tid))?;
        let info = match model.thread_mut(tid).signals.pending.take(signo) {
            Some(info) => info,
            None => model.signals.shared.take(signo)?,
        };
        let info = model.timers.delivered(info);
        let action = model.signals.action(signo);
        let disposition = model.signals.disposition(signo);
        if matches!(disposition, Disposition::Handler { .. })
            && action.flags & libc::SA_RESETHAND as u32 as u64 != 0
        {
            // As the kernel: the handler goes, flags and mask stay.
            let reset = Action {
                handler: SIG_DFL,
                ..action
            };
            model.signals.actions.insert(signo, reset);
        }
        Self::assign(model);
        Some(Delivery {
            info,
            action: disposition,
        })
    }

    /// What is done when a signal is taken.
    pub fn disposition(&self, signo: i32) -> Disposition {
        let action = self.action(signo);
        match action.handler {
            SIG_IGN => Disposition::Ignore,
            SIG_DFL if bit(signo) & IGNORED_BY_DEFAULT != 0 => Disposition::Ignore,
            SIG_DFL if bit(signo) & STOPS != 0 => Disposition::Stop,
            SIG_DFL if bit(signo) & CORE_BY_DEFAULT != 0 => Disposition::Core,
            SIG_DFL => Disposition::Terminate,
            handler => Disposition::Handler {
                handler,
                flags: action.flags,
                restorer: action.restorer,
                mask: action.mask,
            },
        }
    }

    /// A handler is about to run: the mask for its frame, which `sigreturn` brings back. Blocks what the
    /// handler wants blocked. Look at the alternate stack before, an autodisarmed one is gone after.
    pub fn begin_handler(model: &mut Model, tid: Tid, delivery: &Delivery) -> u64 {
        let thread = model.thread_mut(tid);
        let to_restore = thread.signals.saved_mask.take().unwrap_or(thread.signals.mask);
        if let Disposition::Handler { flags, mask, .. } = delivery.action {
            thread.signals.mask |= mask;
            if flags & libc::SA_NODEFER as u64 == 0 {
                thread.signals.mask |= bit(delivery.info.signo);
            }
            thread.signals.mask &= !UNBLOCKABLE;
        }
        if thread.signals.altstack.2 & SS_AUTODISARM != 0 {
            thread.signals.altstack = (0, 0, libc::SS_DISABLE);
        }
        Self::assign(model);
        to_restore
    }

    /// `sigreturn`: the mask and the alternate stack that the frame held.
    pub fn end_handler(model: &mut Model, tid: Tid, mask: u64, altstack: (u64, u64, i32)) {
        let thread = model.thread_mut(tid);
        thread.signals.mask = mask & !UNBLOCKABLE;
        // The handler may have written to its frame; like the kernel, do not take what makes no sense.
        let (base, size, flags) = altstack;
        if let Ok(altstack) = alternate_stack(base, size, flags) {
            thread.signals.altstack = altstack;
        }
        Self::assign(model);
    }

    /// A signal that the running instruction earned. It cannot be put off: a program that blocks or ignores
    /// it dies of it.
    pub fn force(model: &mut Model, tid: Tid, info: SigInfo) {
        let signo = info.signo;
        let blocked = model.thread(tid).signals.mask & bit(signo) != 0;
        if blocked || model.signals.ignores(signo) {
            model.signals.actions.remove(&signo);
        }
        let thread = model.thread_mut(tid);
        thread.signals.mask &= !bit(signo);
        thread.signals.pending.push(info);
        Self::assign(model);
    }

    /// A signal that a thread earned by a call, as `SIGPIPE` by `write`.
    pub fn raise(model: &mut Model, tid: Tid, signo: i32) {
        let info = SigInfo::user(signo, model.process.pid, model.process.owner.user.real);
        Self::send_thread(model, tid, info);
    }

    /// Sends a signal to the process.
    pub fn send_process(model: &mut Model, info: SigInfo) {
        Self::cancel_opposite(model, info.signo);
        // The kernel looks at the first thread's mask; if that thread has ended, at some other's.
        let Some(first) = model.threads.values().next() else {
            return;
        };
        if model.signals.drops(first, info.signo) {
            return;
        }
        Self::enqueue(&mut model.signals.shared, info);
        Self::assign(model);
    }

    /// Sends a signal to one thread; a thread that is gone gets nothing.
    pub fn send_thread(model: &mut Model, tid: Tid, info: SigInfo) {
        Self::cancel_opposite(model, info.signo);
        let Some(thread) = model.threads.get(&tid) else {
            return;
        };
        if model.signals.drops(thread, info.signo) {
            return;
        }
        Self::enqueue(&mut model.thread_mut(tid).signals.pending, info);
        Self::assign(model);
    }

    fn enqueue(queue: &mut PendingQueue, info: SigInfo) {
        if info.timer_id().is_some() {
            // The caller counts an overrun if the last one is still pending.
            queue.push_timer(info);
        } else {
            queue.push(info);
        }
    }

    /// Would a signal to the process in place make a difference, now or when it is no longer blocked?
    pub fn is_heard(model: &Model, signo: i32) -> bool {
        model.signals.would_matter(&model.threads, signo, None)
    }

    /// An ignored signal is dropped when sent, unless it is blocked or waited for: it may be wanted later.
    fn drops(&self, thread: &Thread, signo: i32) -> bool {
        self.ignores(signo) && blocked(thread) & bit(signo) == 0
    }

    /// Stop signals and `SIGCONT` cancel each other.
    fn cancel_opposite(model: &mut Model, signo: i32) {
        let opposite = match signo {
            libc::SIGCONT => STOPS,
            _ if bit(signo) & STOPS != 0 => bit(libc::SIGCONT),
            libc::SIGKILL => {
                model.process.news.stopped = None;
                return;
            }
            _ => return,
        };
        model.signals.shared.discard(opposite);
        for thread in model.threads.values_mut() {
            thread.signals.pending.discard(opposite);
        }
        if signo == libc::SIGCONT {
            model.continue_process();
        }
    }

    /// A signal that ends the process whatever thread it goes to, and that some thread does not block: the
    /// kernel then ends all threads at once, before the sender returns. (One that leaves a core file waits
    /// for its thread instead.)
    pub fn fatal(model: &Model) -> Option<i32> {
        let threads = model.threads.values();
        let private = threads.fold(0, |set, t| set | t.signals.pending.set() & !blocked(t));
        let shared = model
            .signals
            .takers
            .keys()
            .fold(0, |set, &signo| set | bit(signo));
        numbers(private | shared).find(|&signo| model.signals.disposition(signo) == Disposition::Terminate)
    }

    /// Takes a pending signal of `set` without acting on it: `sigwait`, a signalfd.
    pub fn take_pending(model: &mut Model, tid: Tid, set: u64) -> Option<SigInfo> {
        let thread = model.thread_mut(tid);
        let info = match thread.signals.pending.next(set) {
            Some(signo) => thread.signals.pending.take(signo),
            None => {
                let signo = model.signals.shared.next(set)?;
                model.signals.shared.take(signo)
            }
        }?;
        let info = model.timers.delivered(info);
        Self::assign(model);
        Some(info)
    }

    /// Is any signal of `set` pending for this thread or the process?
    pub fn any_pending(&self, thread: &Thread, set: u64) -> bool {
        (self.shared.set() | thread.signals.pending.set()) & set != 0
    }

    /// Is the last signal of this timer still to be taken?
    pub(crate) fn timer_pending(&self, threads: &BTreeMap<Tid, Thread>, timer: i32) -> bool {
        self.shared.has_timer(timer) || threads.values().any(|t| t.signals.pending.has_timer(timer))
    }

    /// Would this signal, sent to the process or to one thread, make any difference now?
    pub(crate) fn would_matter(
        &self,
        threads: &BTreeMap<Tid, Thread>,
        signo: i32,
        target: Option<Tid>,
    ) -> bool {
        let target = match target {
            Some(tid) => threads.get(&tid),
            None => threads.values().next(),
        };
        target.is_some_and(|thread| !self.drops(thread, signo))
    }

    pub(crate) fn forget_timer(model: &mut Model, timer: i32) {
        model.signals.shared.discard_timer(timer);
        for thread in model.threads.values_mut() {
            thread.signals.pending.discard_timer(timer);
        }
        Self::assign(model);
    }

    /// Decides anew who takes which process-directed signal, and drops what is pending, unblocked and
    /// ignored. Every call ends here, and as a rule nothing is pending.
    pub fn assign(model: &mut Model) {
        let Model { signals, threads, .. } = model;
        let nothing = signals.shared.is_empty() && signals.takers.is_empty();
        if nothing && threads.values().all(|thread| thread.signals.pending.is_empty()) {
            return;
        }
        for thread in threads.values_mut().filter(|t| !t.signals.pending.is_empty()) {
            let gone = ignored_of(signals, thread.signals.pending.set() & !blocked(thread));
            thread.signals.pending.discard(gone);
        }
        signals.takers.clear();
        let mut left = signals.shared.set();
        // Thread ids ascend, and the first thread has the lowest.
        for thread in threads.values() {
            if left == 0 {
                break;
            }
            let takes = left & !blocked(thread);
            left &= !takes;
            for signo in numbers(takes) {
                signals.takers.insert(signo, thread.tid);
            }
        }
        let gone = ignored_of(signals, signals.shared.set() & !left);
        signals.shared.discard(gone);
        signals.takers.retain(|&signo, _| gone & bit(signo) == 0);
    }
}

/// The numbers in a set, ascending.
pub fn numbers(set: u64) -> impl Iterator<Item = i32> {
    let mut left = set;
    std::iter::from_fn(move || {
        let lowest = (left != 0).then(|| left.trailing_zeros() as i32 + 1)?;
        left &= left - 1;
        Some(lowest)
    })
}

fn ignored_of(signals: &Signals, set: u64) -> u64 {
    let ignored = numbers(set).filter(|&signo| signals.ignores(signo));
    ignored.fold(0, |ignored, signo| ignored | bit(signo))
}

/// Does a process that dies of this signal leave a core file, where they are kept: has something gone wrong?
pub fn dumps_core(signo: i32) -> bool {
    bit(signo) & CORE_BY_DEFAULT != 0
}

/// What a thread does not take now: what it blocks, what it waits for in `sigwait`, and nearly everything while a child has
/// its memory (`vfork`).
fn blocked(thread: &Thread) -> u64 {
    let waited = match thread.wait.as_ref().map(|wait| &wait.on) {
        Some(WaitFor::Signals(set)) => *set,
        Some(WaitFor::Exec(_)) => !bit(libc::SIGKILL),
        _ => 0,
    };
    thread.signals.mask | waited
}

const SS_AUTODISARM: i32 = 1 << 31;

/// An alternate stack as `sigaltstack` takes it.
pub(crate) fn alternate_stack(base: u64, size: u64, flags: i32) -> Result<(u64, u64, i32), Errno> {
    const MINIMUM: u64 = 2048;
    match flags & !SS_AUTODISARM {
        libc::SS_DISABLE => Ok((0, 0, flags)),
        // SS_ONSTACK is accepted for the sake of old programs and means nothing.
        0 | libc::SS_ONSTACK if size < MINIMUM => Err(Errno::ENOMEM),
        0 | libc::SS_ONSTACK => Ok((base, size, flags & SS_AUTODISARM)),
        _ => Err(Errno::EINVAL),
    }
}

/// Where a handler's frame goes: the top of the alternate stack if the action asks for it, there is one, and
/// the thread is not on it already; `None` for the current stack.
pub fn alternate_stack_top(thread: &Thread, sp: u64, flags: u64) -> Option<u64> {
    let (base, size, state) = thread.signals.altstack;
    let wanted = flags & libc::SA_ONSTACK as u64 != 0 && state & libc::SS_DISABLE == 0;
    (wanted && !on_alternate_stack(thread, sp)).then(|| base.wrapping_add(size))
}

/// Is `sp` on the thread's alternate stack? One that is disarmed while handlers run never counts.
pub fn on_alternate_stack(thread: &Thread, sp: u64) -> bool {
    let (base, size, state) = thread.signals.altstack;
    state & (libc::SS_DISABLE | SS_AUTODISARM) == 0 && sp > base && sp - base <= size
}

#[cfg(test)]
mod tests;
