//! Virtual threads: start, end, identity, yielding.

use crate::call::Call;
use crate::channels::mqueue;
use crate::effect::{Effect, Outcome, Prepared, SegmentBase, Spawn};
use crate::fs::flush_all;
use crate::handlers::processes::Making;
use crate::handlers::{futex, processes};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::net::observe::Observation;
use crate::object::{Object, Touch};
use crate::thread::{Thread, Tid};
use syscalls::{Errno, Sysno};

/// What every thread of one process shares; less than this is not a thread.
const THREAD_FLAGS: i32 = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
/// Bounds what a runaway program can make us hold.
const MAX_THREADS: usize = 4096;

pub fn prepare_clone(cx: &Cx, call: &Call) -> Prepared {
    let with_descriptor = call.sysno == Sysno::clone && call.int(0) & libc::CLONE_PIDFD != 0;
    prepare_new(cx, with_descriptor)
}

/// A new thread or process, perhaps one that its maker gets a descriptor of.
pub(super) fn prepare_new(cx: &Cx, with_descriptor: bool) -> Prepared {
    let mut touches = vec![Touch::write(Object::Thread(cx.model.next_number()))];
    if with_descriptor {
        touches.push(Touch::write(Object::FdTable));
    }
    Prepared::visible(touches)
}

/// `clone(flags, stack, parent_tid, child_tid, tls)`: x86-64 order.
pub fn clone(cx: &mut Cx, call: &Call) -> Outcome {
    let [flags, stack, parent_tid, child_tid, tls, _] = call.args;
    let flags = flags as i32;
    if flags & libc::CLONE_THREAD == 0 {
        let making = Making::new(u64::from(flags as u32), [stack, parent_tid, child_tid, tls]);
        return processes::make(cx, &making);
    }
    if flags & THREAD_FLAGS != THREAD_FLAGS {
        return Err(Errno::EINVAL);
    }
    if cx.model.threads.len() >= MAX_THREADS {
        return Err(Errno::EAGAIN);
    }
    let child = cx.model.next_number();
    if flags & libc::CLONE_PARENT_SETTID != 0 {
        cx.mem.write_u32(parent_tid, child)?;
    }
    if flags & libc::CLONE_CHILD_SETTID != 0 {
        cx.mem.write_u32(child_tid, child)?;
    }
    cx.model.take_number();
    let parent = cx.thread();
    let mut thread = Thread::new(child, parent.name, parent.signals.mask);
    thread.scheduling = parent.scheduling;
    if flags & libc::CLONE_CHILD_CLEARTID != 0 {
        thread.on_exit.clear_tid = child_tid;
    }
    thread.on_exit.stack = stack;
    cx.model.threads.insert(child, thread);
    Ok(Effect::Spawn(Spawn {
        child,
        stack,
        tls: (flags & libc::CLONE_SETTLS != 0).then_some(tls),
    }))
}

pub fn prepare_exit(cx: &Cx, call: &Call) -> Prepared {
    let clear_tid = cx.model.thread(cx.tid).on_exit.clear_tid;
    if cx.model.threads.len() == 1 && !cx.model.is_single() {
        return prepare_exit_group(cx, call);
    }
    Prepared::visible(vec![
        Touch::write(Object::Thread(cx.tid)),
        Touch::write(Object::Memory(clear_tid)),
    ])
}

/// Ends one thread; the last one ends the process with its status.
pub fn exit(cx: &mut Cx, call: &Call) -> Outcome {
    let tid = cx.tid;
    release_robust_list(cx);
    let clear_tid = cx.thread().on_exit.clear_tid;
    cx.model.futexes.forget(tid);
    cx.model.ipc.thread_ended(tid);
    mqueue::forget(cx.model, tid);
    let Some(last) = cx.model.threads.remove(&tid) else {
        return Err(Errno::ESRCH);
    };
    for thread in cx.model.all_threads_mut() {
        thread.yields_to.remove(&tid);
    }
    if cx.model.threads.is_empty() {
        cx.model.threads.insert(tid, last);
        save_mappings(cx);
        return Ok(Effect::ExitProcess(call.int(0) & 0xff));
    }
    // As the kernel: a bad address here is nobody's error any more.
    if clear_tid != 0 && cx.mem.write_u32(clear_tid, 0).is_ok() {
        futex::wake(cx.model, clear_tid, 1, u32::MAX);
    }
    Ok(Effect::ExitThread)
}

pub fn prepare_exit_group(cx: &Cx, _: &Call) -> Prepared {
    let touches = processes::ending_touches(cx);
    Prepared::visible(touches).observing(Observation::Exit)
}

pub fn exit_group(cx: &mut Cx, call: &Call) -> Outcome {
    save_mappings(cx);
    Ok(Effect::ExitProcess(call.int(0) & 0xff))
}

/// What was stored through shared mappings is part of what the run leaves behind. Ending cannot fail: a host
/// file that cannot be read any more keeps what it had.
fn save_mappings(cx: &mut Cx) {
    let _ = flush_all(cx);
}

/// The process in place ends: so do all its threads.
pub fn leave_robust_lists(cx: &mut Cx) {
    let caller = cx.tid;
    for tid in cx.model.threads.keys().copied().collect::<Vec<_>>() {
        cx.tid = tid;
        release_robust_list(cx);
    }
    cx.tid = caller;
}

/// Marks every robust mutex of a dying thread as owner-died and wakes one waiter each, as the kernel's
/// `exit_robust_list` does. The list lives in guest memory and may be garbage: a fault ends the walk.
fn release_robust_list(cx: &mut Cx) {
    const MAX_ENTRIES: usize = 2048;
    let head = cx.thread().on_exit.robust_list;
    if head == 0 {
        return;
    }
    let Ok(offset) = cx.mem.read_u64(head.wrapping_add(8)) else {
        return;
    };
    let pending = cx.mem.read_u64(head.wrapping_add(16)).unwrap_or(0);
    let mut entry = cx.mem.read_u64(head).unwrap_or(head);
    for _ in 0..MAX_ENTRIES {
        let at = entry & !1;
        if at == head {
            break;
        }
        let Ok(next) = cx.mem.read_u64(at) else { break };
        if at != pending & !1 {
            owner_died(cx, at.wrapping_add(offset), entry & 1 != 0);
        }
        entry = next;
    }
    if pending & !1 != 0 {
        owner_died(cx, (pending & !1).wrapping_add(offset), pending & 1 != 0);
    }
}

fn owner_died(cx: &mut Cx, addr: u64, pi: bool) {
    let tid = cx.tid;
    let Ok(word) = cx.mem.read_u32(addr) else { return };
    if word & libc::FUTEX_TID_MASK != tid {
        return;
    }
    let died = (word & libc::FUTEX_WAITERS) | libc::FUTEX_OWNER_DIED;
    if cx.mem.write_u32(addr, died).is_err() {
        return;
    }
    if pi {
        let _ = futex::hand_over_pi(cx, addr, libc::FUTEX_OWNER_DIED);
    } else if word & libc::FUTEX_WAITERS != 0 {
        futex::wake(cx.model, addr, 1, u32::MAX);
    }
}

pub fn set_tid_address(cx: &mut Cx, call: &Call) -> Outcome {
    cx.thread().on_exit.clear_tid = call.word(0);
    Ok(Effect::Done(i64::from(cx.tid)))
}

const ROBUST_LIST_HEAD_SIZE: u64 = 24;

pub fn set_robust_list(cx: &mut Cx, call: &Call) -> Outcome {
    if call.word(1) != ROBUST_LIST_HEAD_SIZE {
        return Err(Errno::EINVAL);
    }
    cx.thread().on_exit.robust_list = call.word(0);
    Effect::ok()
}

pub fn get_robust_list(cx: &mut Cx, call: &Call) -> Outcome {
    let tid = if call.int(0) == 0 {
        cx.tid
    } else {
        call.int(0) as Tid
    };
    let head = cx
        .model
        .threads
        .get(&tid)
        .ok_or(Errno::ESRCH)?
        .on_exit
        .robust_list;
    cx.mem.write_u64(call.word(1), head)?;
    cx.mem.write_u64(call.word(2), ROBUST_LIST_HEAD_SIZE)?;
    Effect::ok()
}

pub fn gettid(cx: &mut Cx, _: &Call) -> Outcome {
    Ok(Effect::Done(i64::from(cx.tid)))
}

pub fn prepare_yield(_: &Cx, _: &Call) -> Prepared {
    Prepared::visible(Vec::new())
}

/// The supervisor knows which threads can run; it fills [`Thread::yields_to`] after this returns.
pub fn sched_yield(cx: &mut Cx, _: &Call) -> Outcome {
    cx.thread().idle_yields += 1;
    Effect::ok()
}

pub fn membarrier(cx: &mut Cx, call: &Call) -> Outcome {
    const QUERY: i32 = 0;
    const GLOBAL: i32 = 1;
    const PRIVATE_EXPEDITED: i32 = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;
    if call.uint(1) != 0 {
        return Err(Errno::EINVAL);
    }
    match call.int(0) {
        QUERY => Ok(Effect::Done(i64::from(
            GLOBAL | PRIVATE_EXPEDITED | REGISTER_PRIVATE_EXPEDITED,
        ))),
        GLOBAL => Effect::ok(),
        REGISTER_PRIVATE_EXPEDITED => {
            cx.model.process.settings.expedites = true;
            Effect::ok()
        }
        PRIVATE_EXPEDITED if cx.model.process.settings.expedites => Effect::ok(),
        PRIVATE_EXPEDITED => Err(Errno::EPERM),
        _ => Err(Errno::EINVAL),
    }
}

/// The FS and GS bases are registers of the one kernel task, saved and loaded with the thread that runs: the
/// supervisor sets them there. Anything else here changes the processor's behaviour for the whole process.
pub fn arch_prctl(_: &mut Cx, call: &Call) -> Outcome {
    const ARCH_SET_GS: i32 = 0x1001;
    const ARCH_SET_FS: i32 = 0x1002;
    const ARCH_GET_FS: i32 = 0x1003;
    const ARCH_GET_GS: i32 = 0x1004;
    let value = call.word(1);
    match call.int(0) {
        // The kernel refuses addresses outside user space.
        ARCH_SET_FS | ARCH_SET_GS if value >= 1 << 47 => Err(Errno::EPERM),
        ARCH_SET_FS => Ok(Effect::SetBase(SegmentBase::Fs, value)),
        ARCH_SET_GS => Ok(Effect::SetBase(SegmentBase::Gs, value)),
        ARCH_GET_FS => Ok(Effect::GetBase(SegmentBase::Fs, value)),
        ARCH_GET_GS => Ok(Effect::GetBase(SegmentBase::Gs, value)),
        _ => Err(Errno::EINVAL),
    }
}
