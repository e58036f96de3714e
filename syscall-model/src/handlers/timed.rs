//! What the calls that wait for events share: their timeout, and the signal mask that holds meanwhile.
//!
//! Both are fixed when the call parks, which is when it starts to wait: `prepare` computes the deadline and
//! swaps the mask, the handler itself ends the wait with [`finish`].

use crate::clock::Nanos;
use crate::effect::{Effect, Outcome, Parking};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::signals::Signals;
use crate::wait::{OnSignal, Wait, WaitFor, Wake};
use syscalls::Errno;

/// How long a call is ready to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    For(Nanos),
    Forever,
}

impl Timeout {
    /// When it ends, if it begins now.
    pub fn deadline(self, cx: &Cx) -> Option<Nanos> {
        match self {
            Timeout::For(nanos) => Some(cx.model.clock.now().saturating_add(nanos)),
            Timeout::Forever => None,
        }
    }

    /// `int timeout` of `poll` and `epoll_wait`.
    pub fn millis(timeout: i32) -> Self {
        match u64::try_from(timeout) {
            Ok(millis) => Timeout::For(millis * 1_000_000),
            Err(_) => Timeout::Forever,
        }
    }

    /// `struct timespec *`; null is for ever.
    pub fn timespec(cx: &Cx, addr: u64) -> Result<Self, Errno> {
        if addr == 0 {
            return Ok(Timeout::Forever);
        }
        Ok(Timeout::For(cx.mem.read_timespec(addr)?))
    }

    /// `struct timeval *`; null is for ever.
    pub fn timeval(cx: &Cx, addr: u64) -> Result<Self, Errno> {
        const MICROS: i64 = 1_000_000;
        if addr == 0 {
            return Ok(Timeout::Forever);
        }
        let (seconds, micros) = (
            cx.mem.read_u64(addr)? as i64,
            cx.mem.read_u64(addr.wrapping_add(8))? as i64,
        );
        let seconds = seconds.checked_add(micros / MICROS).ok_or(Errno::EINVAL)?;
        let micros = micros % MICROS;
        if seconds < 0 || micros < 0 {
            return Err(Errno::EINVAL);
        }
        let nanos = (seconds as u64).saturating_mul(1_000_000_000);
        Ok(Timeout::For(nanos.saturating_add(micros as u64 * 1000)))
    }
}

/// The wait of a call that parks now, and has this deadline from now on.
pub fn wait_at_parking(cx: &Cx, timeout: Timeout, on: WaitFor, on_signal: OnSignal) -> Parking {
    let deadline = timeout.deadline(cx);
    if timeout == Timeout::For(0) {
        return Parking::Look(on);
    }
    Parking::Wait(Wait {
        on,
        deadline,
        on_signal,
    })
}

/// The wait of a call that runs and finds nothing; `None` if its time is up.
pub fn wait_on(cx: &mut Cx, timeout: Timeout, on: WaitFor, on_signal: OnSignal) -> Option<Wait> {
    if timeout == Timeout::For(0) || cx.wake == Wake::TimedOut {
        return None;
    }
    Some(Wait {
        on,
        deadline: cx.thread().call.deadline,
        on_signal,
    })
}

/// What is left of a timed call's timeout.
pub fn remaining(cx: &mut Cx) -> Nanos {
    let now = cx.model.clock.now();
    cx.thread()
        .call
        .deadline
        .map_or(0, |deadline| deadline.saturating_sub(now))
}

/// Puts a call's own signal mask in force.
pub fn put_in_force(cx: &mut Cx, mask: u64) {
    let thread = cx.thread();
    // A call that is prepared a second time still has the first mask to go back to.
    let before = thread.signals.saved_mask.unwrap_or(thread.signals.mask);
    thread.signals.saved_mask = Some(before);
    thread.signals.mask = mask;
    Signals::assign(cx.model);
}

/// The call's own signal mask. A bad address or size is the handler's to report.
pub fn own_mask(cx: &Cx, addr: u64, size: u64) -> Option<u64> {
    read_mask(cx, addr, size).ok().flatten()
}

/// The mask argument of `ppoll` and its kin.
pub fn read_mask(cx: &Cx, addr: u64, size: u64) -> Result<Option<u64>, Errno> {
    if addr == 0 {
        return Ok(None);
    }
    if size != 8 {
        return Err(Errno::EINVAL);
    }
    let unblockable = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
    Ok(Some(cx.mem.read_u64(addr)? & !unblockable))
}

/// Ends a call that would rather tell of a signal than of nothing, even if it was told not to wait.
pub fn finish_look(cx: &mut Cx, outcome: Outcome) -> Outcome {
    let mask = cx.thread().signals.saved_mask;
    let tells = cx
        .model
        .signals
        .deliverable(cx.model.thread(cx.tid))
        .is_some_and(|signo| !cx.model.signals.ignores(signo));
    match outcome {
        // The handler's frame has the old mask.
        Ok(Effect::Done(0)) if mask.is_some() && tells => {
            Ok(Effect::DoneCheckSignals(-i64::from(Errno::EINTR.into_raw())))
        }
        outcome => finish(cx, outcome),
    }
}

/// Ends the call: unless it goes on waiting, the old mask is back.
pub fn finish(cx: &mut Cx, outcome: Outcome) -> Outcome {
    if matches!(outcome, Ok(Effect::Block(_))) {
        return outcome;
    }
    let thread = cx.thread();
    let Some(mask) = thread.signals.saved_mask.take() else {
        return outcome;
    };
    thread.signals.mask = mask;
    match outcome {
        Ok(Effect::Done(value)) => Ok(Effect::DoneCheckSignals(value)),
        other => other,
    }
}
