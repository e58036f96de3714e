//! The `futex` system call: all operations that glibc, musl, Rust and Go use.

use crate::call::Call;
use crate::clock::Nanos;
use crate::effect::{Effect, Outcome, Prepared};
use crate::futex::Waiter;
use crate::memory::{GuestMemoryExt, check_reachable};
use crate::model::{Cx, Model};
use crate::object::{Object, Touch};
use crate::thread::Pending;
use crate::wait::{OnSignal, Wait, WaitFor, Wake};
use libc::{FUTEX_OWNER_DIED, FUTEX_TID_MASK, FUTEX_WAITERS};
use syscalls::Errno;

/// Every futex operation touches its word, and those with two words both.
pub fn prepare(cx: &Cx, call: &Call) -> Prepared {
    let mut touches = vec![Touch::write(Object::Memory(call.word(0)))];
    if has_second_word(operation(call)) {
        touches.push(Touch::write(Object::Memory(call.word(4))));
    }
    Prepared::visible(touches).waiting(join(cx.model, call))
}

/// A wait without a deadline on the word that the kernel clears when a thread ends, while that thread lives: `pthread_join`. Nobody else writes
/// that word or wakes its waiters, so nobody can see whether the caller waits in the queue or has not come that far. To make two
/// steps of it would only double the schedules, once for every thread that is joined.
fn join(model: &Model, call: &Call) -> Option<Wait> {
    if !matches!(operation(call), libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET) || call.word(3) != 0 {
        return None;
    }
    let joined = model.threads.get(&call.uint(2))?;
    (joined.on_exit.clear_tid == call.word(0)).then_some(Wait {
        on: WaitFor::Exit(joined.tid),
        deadline: None,
        on_signal: OnSignal::Restart,
    })
}

fn operation(call: &Call) -> i32 {
    call.int(1) & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME)
}

fn has_second_word(op: i32) -> bool {
    matches!(
        op,
        libc::FUTEX_REQUEUE
            | libc::FUTEX_CMP_REQUEUE
            | libc::FUTEX_WAKE_OP
            | libc::FUTEX_WAIT_REQUEUE_PI
            | libc::FUTEX_CMP_REQUEUE_PI
    )
}

pub fn futex(cx: &mut Cx, call: &Call) -> Outcome {
    let addr = call.word(0);
    const LAST: i32 = FUTEX_LOCK_PI2;
    if !(0..=LAST).contains(&operation(call)) {
        return Err(Errno::ENOSYS);
    }
    if !addr.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    match operation(call) {
        libc::FUTEX_WAIT => wait(cx, call, u32::MAX),
        libc::FUTEX_WAIT_BITSET => wait(cx, call, call.uint(5)),
        libc::FUTEX_WAKE_BITSET if call.uint(5) == 0 => Err(Errno::EINVAL),
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET if check_word(cx, call, addr).is_err() => {
            Err(Errno::EFAULT)
        }
        libc::FUTEX_WAKE => done(wake(cx.model, addr, wake_count(call.uint(2)), u32::MAX)),
        libc::FUTEX_WAKE_BITSET => done(wake(cx.model, addr, wake_count(call.uint(2)), call.uint(5))),
        libc::FUTEX_REQUEUE => requeue(cx, call, None),
        libc::FUTEX_CMP_REQUEUE => requeue(cx, call, Some(call.uint(5))),
        libc::FUTEX_WAKE_OP => wake_op(cx, call),
        libc::FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => lock_pi(cx, call),
        libc::FUTEX_TRYLOCK_PI => try_lock_pi(cx, call),
        libc::FUTEX_UNLOCK_PI => unlock_pi(cx, call),
        // Condition variables of glibc stopped using these in 2.25.
        libc::FUTEX_WAIT_REQUEUE_PI | libc::FUTEX_CMP_REQUEUE_PI => {
            check_requeue_pi(cx, call)?;
            Err(Errno::ENOSYS)
        }
        _ => Err(Errno::ENOSYS),
    }
}

const FUTEX_LOCK_PI2: i32 = 13;

/// A word that is only an address need not be there, if it is nobody else's; one that others may map must be found.
fn check_word(cx: &Cx, call: &Call, addr: u64) -> Result<(), Errno> {
    check_reachable(addr, 4)?;
    if call.int(1) & libc::FUTEX_PRIVATE_FLAG == 0 {
        cx.mem.read_u32(addr)?;
    }
    Ok(())
}

fn done(count: usize) -> Outcome {
    Ok(Effect::Done(count as i64))
}

/// The kernel wakes one even for a count of 0 or less (`++ret >= nr_wake` after the wake-up).
fn wake_count(count: u32) -> usize {
    (count as i32).max(1) as usize
}

/// The deadline on the virtual monotonic clock. `FUTEX_WAIT` takes a duration; everything else a moment,
/// `FUTEX_LOCK_PI` always on the wall clock.
fn deadline(cx: &Cx, call: &Call) -> Result<Option<Nanos>, Errno> {
    if call.word(3) == 0 {
        return Ok(None);
    }
    let time = cx.mem.read_timespec(call.word(3))?;
    let clock = &cx.model.clock;
    Ok(Some(match operation(call) {
        libc::FUTEX_WAIT => clock.now().saturating_add(time),
        libc::FUTEX_LOCK_PI => clock.monotonic_of_realtime(time),
        _ if call.int(1) & libc::FUTEX_CLOCK_REALTIME != 0 => clock.monotonic_of_realtime(time),
        _ => time,
    }))
}

fn wait(cx: &mut Cx, call: &Call, bitset: u32) -> Outcome {
    if cx.wake == Wake::TimedOut {
        let tid = cx.tid;
        cx.model.futexes.forget(tid);
        return Err(Errno::ETIMEDOUT);
    }
    if bitset == 0 {
        return Err(Errno::EINVAL);
    }
    let addr = call.word(0);
    let deadline = deadline(cx, call)?;
    if cx.mem.read_u32(addr)? != call.uint(2) {
        return Err(Errno::EAGAIN);
    }
    if deadline.is_some_and(|d| d <= cx.model.clock.now()) {
        return Err(Errno::ETIMEDOUT);
    }
    let key = cx.model.futex_key(addr);
    cx.model.futexes.enqueue(
        key,
        Waiter {
            tid: cx.tid,
            bitset,
            pi: false,
        },
    );
    // A timed wait that a handler interrupts is not started again by itself in the cases that matter: the
    // kernel restarts it through restart_syscall with the same absolute deadline, which for programs is
    // the same as EINTR followed by their own loop.
    let on_signal = if deadline.is_some() {
        OnSignal::Interrupt
    } else {
        OnSignal::Restart
    };
    Ok(Effect::Block(Wait {
        on: WaitFor::Futex(addr),
        deadline,
        on_signal,
    }))
}

/// Wakes up to `count` waiters at `addr`; how many there were.
pub fn wake(model: &mut Model, addr: u64, count: usize, bitset: u32) -> usize {
    let key = model.futex_key(addr);
    let woken = model.futexes.dequeue(key, count, bitset);
    for waiter in &woken {
        model.wake(waiter.tid, 0);
    }
    woken.len()
}

fn requeue(cx: &mut Cx, call: &Call, expected: Option<u32>) -> Outcome {
    let (from, to) = (call.word(0), call.word(4));
    let (to_wake, to_move) = (call.uint(2) as i32, call.uint(3) as i32);
    if to_wake < 0 || to_move < 0 {
        return Err(Errno::EINVAL);
    }
    check_word(cx, call, from)?;
    if to % 4 != 0 {
        return Err(Errno::EINVAL);
    }
    check_word(cx, call, to)?;
    if let Some(expected) = expected
        && cx.mem.read_u32(from)? != expected
    {
        return Err(Errno::EAGAIN);
    }
    let woken = wake(cx.model, from, to_wake as usize, u32::MAX);
    let (from, queue) = (cx.model.futex_key(from), cx.model.futex_key(to));
    let moved = cx.model.futexes.dequeue(from, to_move as usize, u32::MAX);
    for waiter in &moved {
        cx.model.futexes.enqueue(queue, *waiter);
        if let Some(wait) = &mut cx.model.thread_mut(waiter.tid).wait {
            wait.on = WaitFor::Futex(to);
        }
    }
    done(woken + moved.len())
}

/// What the kernel asks of the operations that move waiters to a lock of the kind that lends its owner a priority.
fn check_requeue_pi(cx: &Cx, call: &Call) -> Result<(), Errno> {
    let (from, to) = (call.word(0), call.word(4));
    let waits = operation(call) == libc::FUTEX_WAIT_REQUEUE_PI;
    let is_sound = match waits {
        true => call.uint(5) != 0,
        false => call.uint(2) == 1 && call.int(3) >= 0,
    };
    if !is_sound || from == to {
        return Err(Errno::EINVAL);
    }
    for word in if waits { [to, from] } else { [from, to] } {
        if !word.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        check_word(cx, call, word)?;
    }
    let expected = if waits { call.uint(2) } else { call.uint(5) };
    match cx.mem.read_u32(from)? == expected {
        true => Ok(()),
        false => Err(Errno::EAGAIN),
    }
}

fn wake_op(cx: &mut Cx, call: &Call) -> Outcome {
    check_word(cx, call, call.word(0))?;
    let (first, second, encoded) = (call.word(0), call.word(4), call.uint(5));
    if second % 4 != 0 {
        return Err(Errno::EINVAL);
    }
    let sign_extend = |bits: u32| ((bits << 20) as i32) >> 20;
    let (mut argument, compare_to) = (sign_extend(encoded >> 12 & 0xfff), sign_extend(encoded & 0xfff));
    if encoded >> 28 & 8 != 0 {
        argument = 1_i32.wrapping_shl(argument as u32);
    }
    let old = cx.mem.read_u32(second)? as i32;
    let new = match encoded >> 28 & 7 {
        0 => argument,
        1 => old.wrapping_add(argument),
        2 => old | argument,
        3 => old & !argument,
        4 => old ^ argument,
        _ => return Err(Errno::ENOSYS),
    };
    let also = match encoded >> 24 & 0xf {
        0 => old == compare_to,
        1 => old != compare_to,
        2 => old < compare_to,
        3 => old <= compare_to,
        4 => old > compare_to,
        5 => old >= compare_to,
        _ => return Err(Errno::ENOSYS),
    };
    cx.mem.write_u32(second, new as u32)?;
    let mut woken = wake(cx.model, first, wake_count(call.uint(2)), u32::MAX);
    if also {
        woken += wake(cx.model, second, wake_count(call.uint(3)), u32::MAX);
    }
    done(woken)
}

/// Takes the lock if it is free; `None` if another thread has it.
fn take_pi(cx: &mut Cx, addr: u64) -> Result<Option<()>, Errno> {
    let word = cx.mem.read_u32(addr)?;
    let owner = word & FUTEX_TID_MASK;
    if owner == cx.tid {
        return Err(Errno::EDEADLK);
    }
    if owner == 0 {
        let keep = word & (FUTEX_OWNER_DIED | FUTEX_WAITERS);
        cx.mem.write_u32(addr, cx.tid | keep)?;
        return Ok(Some(()));
    }
    if cx.model.find_thread(owner).is_none() {
        return Err(Errno::ESRCH);
    }
    Ok(None)
}

fn lock_pi(cx: &mut Cx, call: &Call) -> Outcome {
    if cx.wake == Wake::TimedOut {
        let tid = cx.tid;
        cx.model.futexes.forget(tid);
        return Err(Errno::ETIMEDOUT);
    }
    let addr = call.word(0);
    if take_pi(cx, addr)?.is_some() {
        return Effect::ok();
    }
    let deadline = deadline(cx, call)?;
    let word = cx.mem.read_u32(addr)?;
    cx.mem.write_u32(addr, word | FUTEX_WAITERS)?;
    let key = cx.model.futex_key(addr);
    cx.model.futexes.enqueue(
        key,
        Waiter {
            tid: cx.tid,
            bitset: u32::MAX,
            pi: true,
        },
    );
    Ok(Effect::Block(Wait {
        on: WaitFor::Futex(addr),
        deadline,
        on_signal: OnSignal::Restart,
    }))
}

fn try_lock_pi(cx: &mut Cx, call: &Call) -> Outcome {
    match take_pi(cx, call.word(0))? {
        Some(()) => Effect::ok(),
        None => Err(Errno::EAGAIN),
    }
}

fn unlock_pi(cx: &mut Cx, call: &Call) -> Outcome {
    let addr = call.word(0);
    if cx.mem.read_u32(addr)? & FUTEX_TID_MASK != cx.tid {
        return Err(Errno::EPERM);
    }
    hand_over_pi(cx, addr, 0)?;
    Effect::ok()
}

/// Gives a PI lock to its first waiter, or frees it.
pub fn hand_over_pi(cx: &mut Cx, addr: u64, flags: u32) -> Result<(), Errno> {
    let key = cx.model.futex_key(addr);
    let next = cx.model.futexes.dequeue(key, 1, u32::MAX);
    let more = cx.model.futexes.waiters(key) > 0;
    let Some(heir) = next.first() else {
        cx.mem.write_u32(addr, flags)?;
        return Ok(());
    };
    let waiters = if more { FUTEX_WAITERS } else { 0 };
    cx.mem.write_u32(addr, heir.tid | waiters | flags)?;
    cx.model.wake(heir.tid, 0);
    debug_assert!(matches!(cx.model.thread(heir.tid).pending, Pending::Return(0)));
    Ok(())
}
