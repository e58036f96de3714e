//! What programs ask of the scheduler. It is kept and told back; who runs when is tracefork's choice, and a
//! program that is right only with certain priorities or processors is not right.

use crate::call::Call;
use crate::effect::{Effect, Outcome};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::thread::{Scheduling, Tid};
use syscalls::Errno;

/// The thread that a pid argument names: 0 is the caller.
fn target(cx: &Cx, pid: i32) -> Result<Tid, Errno> {
    if pid < 0 {
        return Err(Errno::EINVAL);
    }
    let tid = if pid == 0 { cx.tid } else { pid as Tid };
    if cx.model.threads.contains_key(&tid) {
        Ok(tid)
    } else {
        Err(Errno::ESRCH)
    }
}

fn of(cx: &Cx, pid: i32) -> Result<Scheduling, Errno> {
    Ok(cx.model.thread(target(cx, pid)?).scheduling)
}

/// Returns the size of the kernel's mask: eight bytes are enough for all processors there can be.
pub fn sched_getaffinity(cx: &mut Cx, call: &Call) -> Outcome {
    const MASK_SIZE: u64 = 8;
    if call.word(1) < MASK_SIZE || !call.word(1).is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let mask = of(cx, call.int(0))?.affinity & cx.model.process.cpu_mask();
    cx.mem.write_u64(call.word(2), mask)?;
    Ok(Effect::Done(MASK_SIZE as i64))
}

pub fn sched_setaffinity(cx: &mut Cx, call: &Call) -> Outcome {
    let tid = target(cx, call.int(0))?;
    let len = call.word(1).min(8) as usize;
    let mut bytes = [0; 8];
    bytes[..len].copy_from_slice(&cx.mem.read_vec(call.word(2), len)?);
    let mask = u64::from_le_bytes(bytes) & cx.model.process.cpu_mask();
    if mask == 0 {
        return Err(Errno::EINVAL);
    }
    cx.model.thread_mut(tid).scheduling.affinity = mask;
    Effect::ok()
}

fn check_priority(policy: i32, priority: i32) -> Result<(), Errno> {
    if priority_range(policy)?.contains(&priority) {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

fn priority_range(policy: i32) -> Result<std::ops::RangeInclusive<i32>, Errno> {
    const SCHED_DEADLINE: i32 = 6;
    match policy {
        libc::SCHED_FIFO | libc::SCHED_RR => Ok(1..=99),
        libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE | SCHED_DEADLINE => Ok(0..=0),
        _ => Err(Errno::EINVAL),
    }
}

/// Real-time policies need a privilege that an ordinary user does not have.
fn apply(cx: &mut Cx, tid: Tid, policy: i32, priority: i32) -> Outcome {
    const SCHED_DEADLINE: i32 = 6;
    check_priority(policy, priority)?;
    if matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR | SCHED_DEADLINE) {
        return Err(Errno::EPERM);
    }
    // Who has asked to be served last stays there, but for a privilege.
    let was_idle = cx.model.thread(tid).scheduling.policy == libc::SCHED_IDLE;
    if was_idle && policy != libc::SCHED_IDLE && cx.owner().0 != 0 {
        return Err(Errno::EPERM);
    }
    let scheduling = &mut cx.model.thread_mut(tid).scheduling;
    scheduling.policy = policy;
    scheduling.priority = priority;
    Effect::ok()
}

pub fn sched_setparam(cx: &mut Cx, call: &Call) -> Outcome {
    if call.int(0) < 0 || call.word(1) == 0 {
        return Err(Errno::EINVAL);
    }
    let priority = cx.mem.read_u32(call.word(1))? as i32;
    let tid = target(cx, call.int(0))?;
    let policy = cx.model.thread(tid).scheduling.policy;
    apply(cx, tid, policy, priority)
}

pub fn sched_getparam(cx: &mut Cx, call: &Call) -> Outcome {
    if call.word(1) == 0 {
        return Err(Errno::EINVAL);
    }
    let priority = of(cx, call.int(0))?.priority;
    cx.mem.write_u32(call.word(1), priority as u32)?;
    Effect::ok()
}

pub fn sched_setscheduler(cx: &mut Cx, call: &Call) -> Outcome {
    const SCHED_RESET_ON_FORK: i32 = 0x4000_0000;
    if call.int(1) < 0 || call.int(0) < 0 || call.word(2) == 0 {
        return Err(Errno::EINVAL);
    }
    let priority = cx.mem.read_u32(call.word(2))? as i32;
    let tid = target(cx, call.int(0))?;
    apply(cx, tid, call.int(1) & !SCHED_RESET_ON_FORK, priority)
}

pub fn sched_getscheduler(cx: &mut Cx, call: &Call) -> Outcome {
    Ok(Effect::Done(i64::from(of(cx, call.int(0))?.policy)))
}

pub fn sched_get_priority_max(_: &mut Cx, call: &Call) -> Outcome {
    Ok(Effect::Done(i64::from(*priority_range(call.int(0))?.end())))
}

pub fn sched_get_priority_min(_: &mut Cx, call: &Call) -> Outcome {
    Ok(Effect::Done(i64::from(*priority_range(call.int(0))?.start())))
}

/// The slice that the kernel shows for ordinary threads at its usual tick.
pub fn sched_rr_get_interval(cx: &mut Cx, call: &Call) -> Outcome {
    const SLICE: u64 = 4_000_000;
    target(cx, call.int(0))?;
    cx.mem.write_timespec(call.word(1), SLICE)?;
    Effect::ok()
}

/// Offsets in `struct sched_attr`: size, policy, flags (64), nice, priority, runtime, deadline, period.
const SCHED_ATTR_SIZE: u32 = 48;

pub fn sched_getattr(cx: &mut Cx, call: &Call) -> Outcome {
    let (attr, size) = (call.word(1), call.uint(2));
    if size < SCHED_ATTR_SIZE || call.uint(3) != 0 {
        return Err(Errno::EINVAL);
    }
    let scheduling = of(cx, call.int(0))?;
    cx.mem.write(attr, &[0; SCHED_ATTR_SIZE as usize])?;
    cx.mem.write_u32(attr, SCHED_ATTR_SIZE)?;
    cx.mem.write_u32(attr.wrapping_add(4), scheduling.policy as u32)?;
    cx.mem.write_u32(attr.wrapping_add(16), scheduling.nice as u32)?;
    cx.mem
        .write_u32(attr.wrapping_add(20), scheduling.priority as u32)?;
    Effect::ok()
}

pub fn sched_setattr(cx: &mut Cx, call: &Call) -> Outcome {
    let attr = call.word(1);
    let tid = target(cx, call.int(0))?;
    let size = cx.mem.read_u32(attr)?;
    if size != 0 && size < SCHED_ATTR_SIZE {
        cx.mem.write_u32(attr, SCHED_ATTR_SIZE)?;
        return Err(Errno::E2BIG);
    }
    let policy = cx.mem.read_u32(attr.wrapping_add(4))? as i32;
    let nice = cx.mem.read_u32(attr.wrapping_add(16))? as i32;
    let priority = cx.mem.read_u32(attr.wrapping_add(20))? as i32;
    let current = cx.model.thread(tid).scheduling.nice;
    if policy == libc::SCHED_OTHER && nice < current {
        return Err(Errno::EPERM);
    }
    let outcome = apply(cx, tid, policy, priority)?;
    cx.model.thread_mut(tid).scheduling.nice = nice.clamp(-20, 19);
    Ok(outcome)
}

/// A thread for `PRIO_PROCESS`; the whole process for its group and its user.
fn priority_targets(cx: &Cx, which: i32, who: i32) -> Result<Vec<Tid>, Errno> {
    let process = &cx.model.process;
    let all = match which {
        0 if who < 0 => return Err(Errno::ESRCH),
        0 => return Ok(vec![target(cx, who)?]),
        1 => who == 0 || who as u32 == process.group,
        2 => who == 0 || who as u32 == process.owner.user.real,
        _ => return Err(Errno::EINVAL),
    };
    if all {
        Ok(cx.model.threads.keys().copied().collect())
    } else {
        Err(Errno::ESRCH)
    }
}

/// The system call returns 20 minus the nice value, so that it is never negative.
pub fn getpriority(cx: &mut Cx, call: &Call) -> Outcome {
    let targets = priority_targets(cx, call.int(0), call.int(1))?;
    let lowest = targets
        .iter()
        .map(|&tid| cx.model.thread(tid).scheduling.nice)
        .min();
    Ok(Effect::Done(i64::from(20 - lowest.unwrap_or(0))))
}

/// Being less nice takes a privilege.
pub fn setpriority(cx: &mut Cx, call: &Call) -> Outcome {
    let nice = call.int(2).clamp(-20, 19);
    let targets = priority_targets(cx, call.int(0), call.int(1))?;
    if targets
        .iter()
        .any(|&tid| cx.model.thread(tid).scheduling.nice > nice)
    {
        return Err(Errno::EACCES);
    }
    for tid in targets {
        cx.model.thread_mut(tid).scheduling.nice = nice;
    }
    Effect::ok()
}

/// The class of those who have asked for none.
const BEST_EFFORT: i32 = 2;
const IDLE: i32 = 3;
const IOPRIO_WHO_PROCESS: i32 = 1;
const IOPRIO_WHO_USER: i32 = 3;

pub fn ioprio_get(cx: &mut Cx, call: &Call) -> Outcome {
    if !(IOPRIO_WHO_PROCESS..=IOPRIO_WHO_USER).contains(&call.int(0)) {
        return Err(Errno::EINVAL);
    }
    let scheduling = of(cx, call.int(1))?;
    // Of a group or a user the kernel tells what follows from how nice they are, where nothing was set.
    let class = match scheduling.policy {
        libc::SCHED_IDLE => IDLE,
        _ => BEST_EFFORT,
    };
    let follows = (class << 13) | ((scheduling.nice + 20) / 5);
    Ok(Effect::Done(i64::from(
        match (call.int(0), scheduling.io_priority) {
            (IOPRIO_WHO_PROCESS, priority) => priority,
            (_, 0) => follows,
            (_, priority) => priority,
        },
    )))
}

pub fn ioprio_set(cx: &mut Cx, call: &Call) -> Outcome {
    /// The real-time class, which takes a privilege.
    const REAL_TIME: i32 = 1;
    let priority = call.int(2);
    if !(IOPRIO_WHO_PROCESS..=IOPRIO_WHO_USER).contains(&call.int(0)) || !(0..=3).contains(&(priority >> 13))
    {
        return Err(Errno::EINVAL);
    }
    if priority >> 13 == REAL_TIME {
        return Err(Errno::EPERM);
    }
    let tid = target(cx, call.int(1))?;
    cx.model.thread_mut(tid).scheduling.io_priority = priority;
    Effect::ok()
}

/// Everything runs on processor 0 of node 0; one thread at a time, it makes no difference.
pub fn getcpu(cx: &mut Cx, call: &Call) -> Outcome {
    for addr in [call.word(0), call.word(1)] {
        if addr != 0 {
            cx.mem.write_u32(addr, 0)?;
        }
    }
    Effect::ok()
}

#[cfg(test)]
mod tests;
