//! Signal calls: actions, masks, sending, waiting.

use crate::call::Call;
use crate::clock::Nanos;
use crate::effect::{Effect, Outcome, Prepared};
use crate::handlers::processes;
use crate::memory::GuestMemoryExt;
use crate::model::{Cx, Model};
use crate::object::{Object, Touch};
use crate::signals::{
    Action, LAST, SI_TKILL, SYNCHRONOUS, SigInfo, Signals, UNBLOCKABLE, alternate_stack, bit,
    on_alternate_stack,
};
use crate::thread::Tid;
use crate::wait::{OnSignal, Wait, WaitFor, Wake};
use syscalls::Errno;

/// The kernel takes no other size of a signal set.
const SIGSET_SIZE: u64 = 8;

fn check_size(size: u64) -> Result<(), Errno> {
    if size == SIGSET_SIZE {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

fn valid(signo: i32) -> Result<i32, Errno> {
    if (1..=LAST).contains(&signo) {
        Ok(signo)
    } else {
        Err(Errno::EINVAL)
    }
}

fn read_set(cx: &Cx, addr: u64) -> Result<u64, Errno> {
    Ok(cx.mem.read_u64(addr)? & !UNBLOCKABLE)
}

/// Actions belong to the process: with a second thread the order matters.
pub fn prepare_action(cx: &Cx, call: &Call) -> Prepared {
    if cx.model.is_alone() {
        return Prepared::invisible();
    }
    Prepared::visible(vec![if call.word(1) == 0 {
        Touch::read(Object::Process)
    } else {
        Touch::write(Object::Process)
    }])
}

/// `rt_sigaction(signo, act, oldact, size)`; the kernel's `struct sigaction`, not the C library's.
pub fn rt_sigaction(cx: &mut Cx, call: &Call) -> Outcome {
    let (signo, new, old) = (call.int(0), call.word(1), call.word(2));
    check_size(call.word(3))?;
    let after = if new == 0 {
        None
    } else {
        Some(Action {
            handler: cx.mem.read_u64(new)?,
            flags: cx.mem.read_u64(new.wrapping_add(8))?,
            restorer: cx.mem.read_u64(new.wrapping_add(16))?,
            mask: cx.mem.read_u64(new.wrapping_add(24))?,
        })
    };
    valid(signo)?;
    if new != 0 && bit(signo) & UNBLOCKABLE != 0 {
        return Err(Errno::EINVAL);
    }
    let before = cx.model.signals.action(signo);
    if let Some(after) = after {
        Signals::set_action(cx.model, signo, after);
    }
    if old != 0 {
        for (i, word) in [before.handler, before.flags, before.restorer, before.mask]
            .into_iter()
            .enumerate()
        {
            cx.mem.write_u64(old.wrapping_add(8 * i as u64), word)?;
        }
    }
    Effect::ok()
}

/// The thread library sends these to single threads only, never to the process.
const THREAD_LIBRARY: u64 = bit(32) | bit(33);

/// A thread's mask decides who takes a signal of the process. That matters to others only for signals that
/// have a handler or are pending, and not for those that an instruction earns (Rust's runtime handles them): the C library blocks everything around `pthread_create`, and every thread
/// would park there twice for nothing.
pub fn prepare_mask(cx: &Cx, call: &Call) -> Prepared {
    let invisible = Prepared::invisible();
    if cx.model.is_alone() || call.word(1) == 0 {
        return invisible;
    }
    let (Ok(set), mask) = (read_set(cx, call.word(1)), cx.model.thread(cx.tid).signals.mask) else {
        return invisible;
    };
    let Ok(new) = changed_mask(mask, call.int(0), set) else {
        return invisible;
    };
    let signals = &cx.model.signals;
    let matters = (signals.handled() & !THREAD_LIBRARY & !SYNCHRONOUS) | signals.shared_set();
    if (mask ^ new) & matters == 0 {
        return invisible;
    }
    Prepared::visible(vec![
        Touch::write(Object::Thread(cx.tid)),
        Touch::write(Object::Process),
    ])
}

fn changed_mask(mask: u64, how: i32, set: u64) -> Result<u64, Errno> {
    match how {
        libc::SIG_BLOCK => Ok(mask | set),
        libc::SIG_UNBLOCK => Ok(mask & !set),
        libc::SIG_SETMASK => Ok(set),
        _ => Err(Errno::EINVAL),
    }
}

pub fn rt_sigprocmask(cx: &mut Cx, call: &Call) -> Outcome {
    let (how, new, old) = (call.int(0), call.word(1), call.word(2));
    check_size(call.word(3))?;
    let before = cx.thread().signals.mask;
    if new != 0 {
        let set = read_set(cx, new)?;
        cx.thread().signals.mask = changed_mask(before, how, set)?;
    }
    if old != 0 {
        cx.mem.write_u64(old, before)?;
    }
    Ok(Effect::DoneCheckSignals(0))
}

pub fn rt_sigpending(cx: &mut Cx, call: &Call) -> Outcome {
    if call.word(1) > SIGSET_SIZE {
        return Err(Errno::EINVAL);
    }
    let set = cx.model.signals.pending_set(cx.model.thread(cx.tid));
    let len = call.word(1) as usize;
    cx.mem.write(call.word(0), &set.to_le_bytes()[..len])?;
    Effect::ok()
}

/// The supervisor pops the frame and calls [`Signals::end_handler`].
pub fn rt_sigreturn(_: &mut Cx, _: &Call) -> Outcome {
    Ok(Effect::SignalReturn)
}

/// `sigaltstack(new, old)`. A thread that stands on its alternate stack cannot change it.
pub fn sigaltstack(cx: &mut Cx, call: &Call) -> Outcome {
    let (new, old) = (call.word(0), call.word(1));
    let (base, size, flags) = cx.thread().signals.altstack;
    let on_it = on_alternate_stack(cx.model.thread(cx.tid), cx.model.stack_pointer);
    if new != 0 {
        let base = cx.mem.read_u64(new)?;
        let flags = cx.mem.read_u32(new.wrapping_add(8))? as i32;
        let size = cx.mem.read_u64(new.wrapping_add(16))?;
        if on_it {
            return Err(Errno::EPERM);
        }
        cx.thread().signals.altstack = alternate_stack(base, size, flags)?;
    }
    if old != 0 {
        let shown = if on_it { flags | libc::SS_ONSTACK } else { flags };
        cx.mem.write_u64(old, base)?;
        cx.mem.write_u32(old.wrapping_add(8), shown as u32)?;
        cx.mem.write_u64(old.wrapping_add(16), size)?;
    }
    Effect::ok()
}

/// A signal to oneself is nobody else's business; one to another thread may run a handler there before or
/// after anything that thread does.
fn prepare_send(cx: &Cx, target: Option<Tid>) -> Prepared {
    let alone = cx.model.is_alone() || target == Some(cx.tid);
    Prepared::visible(vec![Touch::write(if alone {
        Object::Thread(cx.tid)
    } else {
        Object::Everything
    })])
}

pub fn prepare_kill(cx: &Cx, _: &Call) -> Prepared {
    prepare_send(cx, None)
}

pub fn prepare_tkill(cx: &Cx, call: &Call) -> Prepared {
    prepare_send(cx, Some(call.uint(0)))
}

pub fn prepare_tgkill(cx: &Cx, call: &Call) -> Prepared {
    prepare_send(cx, Some(call.uint(1)))
}

/// Signal 0 only asks whether the target is there.
fn probe_or_valid(signo: i32) -> Result<Option<i32>, Errno> {
    if signo == 0 {
        return Ok(None);
    }
    valid(signo).map(Some)
}

/// After sending: the sender may not live to see the call return.
pub(super) fn sent(cx: &Cx) -> Outcome {
    Ok(match Signals::fatal(cx.model) {
        Some(signo) => Effect::Die(signo),
        None => Effect::DoneCheckSignals(0),
    })
}

/// `kill(pid, signo)`: to one of the program's own processes, or a group of them. No other process is in sight: `ESRCH`, or
/// `EPERM` for the one that every process knows to be there, init.
pub fn kill(cx: &mut Cx, call: &Call) -> Outcome {
    let process = &cx.model.process;
    let info = SigInfo::user(call.int(1), process.pid, process.owner.user.real);
    if call.int(0) == i32::MIN {
        return Err(Errno::ESRCH);
    }
    let signo = probe_or_valid(call.int(1));
    processes::send(cx, call.int(0), signo.ok().flatten(), info)?;
    signo?;
    sent(cx)
}

fn send_to_thread(cx: &mut Cx, tid: i32, signo: i32) -> Outcome {
    let target = processes::process_of(cx, tid)?;
    let process = &cx.model.process;
    let signo = probe_or_valid(signo)?;
    if let Some(signo) = signo {
        let info = SigInfo::tkill(signo, process.pid, process.owner.user.real);
        let send = |model: &mut Model| Signals::send_thread(model, tid as Tid, info);
        cx.model.within(target, send);
    }
    sent(cx)
}

pub fn tkill(cx: &mut Cx, call: &Call) -> Outcome {
    if call.int(0) <= 0 {
        return Err(Errno::EINVAL);
    }
    send_to_thread(cx, call.int(0), call.int(1))
}

pub fn tgkill(cx: &mut Cx, call: &Call) -> Outcome {
    let (tgid, tid) = (call.int(0), call.int(1));
    if tgid <= 0 || tid <= 0 {
        return Err(Errno::EINVAL);
    }
    if tgid as u32 != processes::process_of(cx, tid)? {
        return Err(Errno::ESRCH);
    }
    send_to_thread(cx, tid, call.int(2))
}

/// The `siginfo_t` of a queued signal. A program may say anything about itself to itself.
fn read_info(cx: &Cx, addr: u64, signo: i32) -> Result<SigInfo, Errno> {
    let mut info = read_raw(cx, addr)?;
    info.signo = signo;
    Ok(info)
}

pub fn rt_sigqueueinfo(cx: &mut Cx, call: &Call) -> Outcome {
    let (pid, signo) = (call.int(0), call.int(1));
    let info = read_info(cx, call.word(2), signo)?;
    if pid as u32 != cx.model.process.pid && is_forged(&info) {
        return Err(Errno::EPERM);
    }
    if pid <= 0 {
        return Err(Errno::ESRCH);
    }
    queue(cx, pid, info)
}

pub fn rt_tgsigqueueinfo(cx: &mut Cx, call: &Call) -> Outcome {
    let (tgid, tid, signo) = (call.int(0), call.int(1), call.int(2));
    let info = read_info(cx, call.word(3), signo)?;
    if tgid <= 0 || tid <= 0 {
        return Err(Errno::EINVAL);
    }
    let target = processes::process_of(cx, tid)?;
    if tgid as u32 != target {
        return Err(Errno::ESRCH);
    }
    if target != cx.model.process.pid && is_forged(&info) {
        return Err(Errno::EPERM);
    }
    queue_to_thread(cx, tid as Tid, info)
}

/// A `siginfo_t` as the program wrote it.
pub(super) fn read_raw(cx: &Cx, addr: u64) -> Result<SigInfo, Errno> {
    let mut raw = [0; SigInfo::SIZE];
    cx.mem.read(addr, &mut raw)?;
    SigInfo::decode(&raw)
}

/// Does it claim to come from the kernel or from `kill`?
pub(super) fn is_forged(info: &SigInfo) -> bool {
    info.code >= 0 || info.code == SI_TKILL
}

/// As `kill`, with this information.
pub(super) fn queue(cx: &mut Cx, pid: i32, info: SigInfo) -> Outcome {
    let signo = probe_or_valid(info.signo);
    processes::send(cx, pid, signo.ok().flatten(), info)?;
    signo?;
    sent(cx)
}

/// To one thread of whatever process, with this information.
pub(super) fn queue_to_thread(cx: &mut Cx, tid: Tid, info: SigInfo) -> Outcome {
    let target = processes::process_of(cx, tid as i32)?;
    if probe_or_valid(info.signo)?.is_some() {
        cx.model
            .within(target, |model| Signals::send_thread(model, tid, info));
    }
    sent(cx)
}

/// Waiting for a signal: others decide when it comes.
fn waiting(cx: &Cx, wait: Option<Wait>) -> Prepared {
    Prepared::visible(vec![
        Touch::write(Object::Thread(cx.tid)),
        Touch::write(Object::Process),
    ])
    .waiting(wait)
}

fn for_ever() -> Wait {
    Wait::sleep(None, OnSignal::Interrupt)
}

/// Nothing to wait for yet: a signal that comes before the thread is in `pause` does not end it, and
/// programs that count on it hang. A checker must show that.
pub fn prepare_pause(cx: &Cx, _: &Call) -> Prepared {
    waiting(cx, None)
}

/// Only a handler ends it.
pub fn pause(_: &mut Cx, _: &Call) -> Outcome {
    Ok(Effect::Block(for_ever()))
}

pub fn prepare_sigsuspend(cx: &Cx, _: &Call) -> Prepared {
    waiting(cx, None)
}

/// `rt_sigsuspend(mask, size)`: the temporary mask is in force while it waits; see
/// [`Thread::saved_mask`](crate::thread::ThreadSignals::saved_mask).
pub fn rt_sigsuspend(cx: &mut Cx, call: &Call) -> Outcome {
    check_size(call.word(1))?;
    let mask = read_set(cx, call.word(0))?;
    let thread = cx.thread();
    // Started again after a signal without a handler: the old mask is saved already.
    thread.signals.saved_mask.get_or_insert(thread.signals.mask);
    thread.signals.mask = mask;
    Ok(Effect::Block(for_ever()))
}

/// The set, and the moment at which the wait ends: `None` if never.
fn timedwait_arguments(cx: &Cx, call: &Call) -> Result<(u64, Option<Nanos>), Errno> {
    check_size(call.word(3))?;
    let set = read_set(cx, call.word(0))?;
    if call.word(2) == 0 {
        return Ok((set, None));
    }
    let timeout = cx.mem.read_timespec(call.word(2))?;
    Ok((set, Some(cx.model.clock.now().saturating_add(timeout))))
}

fn timedwait(set: u64, deadline: Option<Nanos>) -> Wait {
    Wait {
        on: WaitFor::Signals(set),
        deadline,
        on_signal: OnSignal::Interrupt,
    }
}

pub fn prepare_timedwait(cx: &Cx, call: &Call) -> Prepared {
    let wait = match timedwait_arguments(cx, call) {
        Ok((_, Some(deadline))) if deadline <= cx.model.clock.now() => None,
        Ok((set, deadline)) => Some(timedwait(set, deadline)),
        Err(_) => None,
    };
    waiting(cx, wait)
}

/// `rt_sigtimedwait(set, info, timeout, size)`.
pub fn rt_sigtimedwait(cx: &mut Cx, call: &Call) -> Outcome {
    let (set, deadline) = timedwait_arguments(cx, call)?;
    let Some(info) = Signals::take_pending(cx.model, cx.tid, set) else {
        let expired = deadline.is_some_and(|deadline| deadline <= cx.model.clock.now());
        if cx.wake == Wake::TimedOut || expired {
            return Err(Errno::EAGAIN);
        }
        return Ok(Effect::Block(timedwait(set, deadline)));
    };
    if call.word(1) != 0 {
        cx.mem.write(call.word(1), &info.encode())?;
    }
    Ok(Effect::Done(i64::from(info.signo)))
}

/// There is never a call to restart: the supervisor starts interrupted calls again by themselves.
pub fn restart_syscall(_: &mut Cx, _: &Call) -> Outcome {
    Err(Errno::EINTR)
}

#[cfg(test)]
mod tests;
