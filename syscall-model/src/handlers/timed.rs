//! What the calls that wait for events share: their patience, and the signal mask that holds meanwhile.
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
pub enum Patience {
    For(Nanos),
    Forever,
}

impl Patience {
    /// `int timeout` of `poll` and `epoll_wait`.
    pub fn millis(timeout: i32) -> Self {
        match u64::try_from(timeout) {
            Ok(millis) => Patience::For(millis * 1_000_000),
            Err(_) => Patience::Forever,
        }
    }

    /// `struct timespec *`; null is for ever.
    pub fn timespec(cx: &Cx, addr: u64) -> Result<Self, Errno> {
        if addr == 0 {
            return Ok(Patience::Forever);
        }
        Ok(Patience::For(cx.mem.read_timespec(addr)?))
    }

    /// `struct timeval *`; null is for ever.
    pub fn timeval(cx: &Cx, addr: u64) -> Result<Self, Errno> {
        const MICROS: i64 = 1_000_000;
        if addr == 0 {
            return Ok(Patience::Forever);
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
        Ok(Patience::For(nanos.saturating_add(micros as u64 * 1000)))
    }
}

/// The wait of a call that parks now.
pub fn wait_at_parking(cx: &mut Cx, patience: Patience, on: WaitFor, on_signal: OnSignal) -> Parking {
    let deadline = match patience {
        Patience::For(nanos) => Some(cx.model.clock.now().saturating_add(nanos)),
        Patience::Forever => None,
    };
    cx.thread().deadline = deadline;
    if patience == Patience::For(0) {
        return Parking::Look(on);
    }
    Parking::Wait(Wait {
        on,
        deadline,
        on_signal,
    })
}

/// The wait of a call that runs and finds nothing; `None` if its time is up.
pub fn wait_on(cx: &mut Cx, patience: Patience, on: WaitFor, on_signal: OnSignal) -> Option<Wait> {
    if patience == Patience::For(0) || cx.wake == Wake::TimedOut {
        return None;
    }
    Some(Wait {
        on,
        deadline: cx.thread().deadline,
        on_signal,
    })
}

/// What is left of a timed call's patience.
pub fn remaining(cx: &mut Cx) -> Nanos {
    let now = cx.model.clock.now();
    cx.thread()
        .deadline
        .map_or(0, |deadline| deadline.saturating_sub(now))
}

/// Puts the call's own signal mask in force. A bad address or size is the handler's to report.
pub fn swap_mask(cx: &mut Cx, addr: u64, size: u64) {
    if let Ok(Some(mask)) = read_mask(cx, addr, size) {
        let thread = cx.thread();
        // A call that is prepared a second time still has the first mask to go back to.
        let before = thread.saved_mask.unwrap_or(thread.mask);
        thread.saved_mask = Some(before);
        thread.mask = mask;
        Signals::settle(cx.model);
    }
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

/// Ends the call: unless it goes on waiting, the old mask is back.
pub fn finish(cx: &mut Cx, outcome: Outcome) -> Outcome {
    if matches!(outcome, Ok(Effect::Block(_))) {
        return outcome;
    }
    let thread = cx.thread();
    let Some(mask) = thread.saved_mask.take() else {
        return outcome;
    };
    thread.mask = mask;
    match outcome {
        Ok(Effect::Done(value)) => Ok(Effect::DoneCheckSignals(value)),
        other => other,
    }
}
