//! Sets of semaphores. Whoever waits stands in a queue, and its operations are done for it, in the order of the queue, by the
//! one that makes them possible; as in the kernel.

use crate::ipc::Ipc;
use crate::ipc::registry::{Kept, Permissions};
use crate::model::Model;
use crate::processes::Pid;
use crate::thread::Tid;
use std::collections::{BTreeMap, BTreeSet};
use syscalls::Errno;

/// `SEMVMX`, which is `SEMAEM`, too.
pub const MAX_VALUE: i32 = 32767;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Semaphore {
    pub value: i32,
    /// Who changed it last.
    pub last: Pid,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Set {
    pub permissions: Permissions,
    pub semaphores: Vec<Semaphore>,
    /// In seconds.
    pub operated_at: u64,
    pub changed_at: u64,
    pub waiting: Vec<Waiter>,
}

impl Kept for Set {
    fn permissions(&self) -> &Permissions {
        &self.permissions
    }
    fn permissions_mut(&mut self) -> &mut Permissions {
        &mut self.permissions
    }
}

/// `struct sembuf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    pub number: u16,
    pub change: i16,
    pub flags: i16,
}

impl Op {
    pub fn waits(&self) -> bool {
        i32::from(self.flags) & libc::IPC_NOWAIT == 0
    }

    fn undoes(&self) -> bool {
        i32::from(self.flags) & libc::SEM_UNDO != 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    pub tid: Tid,
    pub pid: Pid,
    pub ops: Vec<Op>,
}

impl Waiter {
    /// Does it change anything, or only wait for zeros?
    fn alters(&self) -> bool {
        self.ops.iter().any(|op| op.change != 0)
    }
}

/// What is to be added to semaphores when a process ends, by process, set and number.
pub type Undo = BTreeMap<Pid, BTreeMap<(i32, u16), i32>>;

/// Why operations were not done; nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not yet: because of this one.
    Blocked(Op),
    Failed(Errno),
}

impl Ipc {
    /// Does all operations or none.
    pub(crate) fn operate(&mut self, id: i32, pid: Pid, ops: &[Op], now: u64) -> Result<(), Refused> {
        let set = self.semaphores.get_mut(id).map_err(Refused::Failed)?;
        let mut semaphores = set.semaphores.clone();
        let none = BTreeMap::new();
        let mut undo = self.undo.get(&pid).unwrap_or(&none).clone();
        for op in ops {
            let semaphore = semaphores
                .get_mut(usize::from(op.number))
                .ok_or(Refused::Failed(Errno::EFBIG))?;
            let value = semaphore.value + i32::from(op.change);
            if op.change == 0 && semaphore.value != 0 || value < 0 {
                return Err(Refused::Blocked(*op));
            }
            if value > MAX_VALUE {
                return Err(Refused::Failed(Errno::ERANGE));
            }
            if op.undoes() && op.change != 0 {
                let adjustment = undo.entry((id, op.number)).or_default();
                *adjustment -= i32::from(op.change);
                if !(-MAX_VALUE - 1..=MAX_VALUE).contains(adjustment) {
                    return Err(Refused::Failed(Errno::ERANGE));
                }
            }
            *semaphore = Semaphore { value, last: pid };
        }
        undo.retain(|_, adjustment| *adjustment != 0);
        match undo.is_empty() {
            true => drop(self.undo.remove(&pid)),
            false => drop(self.undo.insert(pid, undo)),
        }
        set.semaphores = semaphores;
        set.operated_at = now;
        Ok(())
    }

    /// The operation that keeps a waiter waiting.
    pub(crate) fn obstacle(set: &Set, waiter: &Waiter) -> Option<Op> {
        let mut values: Vec<i32> = set.semaphores.iter().map(|semaphore| semaphore.value).collect();
        waiter
            .ops
            .iter()
            .find(|op| {
                let value = &mut values[usize::from(op.number)];
                let blocks = op.change == 0 && *value != 0 || *value + i32::from(op.change) < 0;
                *value += i32::from(op.change);
                blocks
            })
            .copied()
    }

    /// Nothing is left to be undone at these semaphores: they were set.
    pub(crate) fn forget_undo(&mut self, id: i32, number: Option<u16>) {
        for adjustments in self.undo.values_mut() {
            adjustments.retain(|&(set, at), _| set != id || number.is_some_and(|number| number != at));
        }
        self.undo.retain(|_, adjustments| !adjustments.is_empty());
    }
}

/// A set has changed: those that waited for this go on, first those that change nothing, the others in the order in which they came.
pub(crate) fn settle(model: &mut Model, id: i32) {
    let now = model.clock.realtime() / 1_000_000_000;
    loop {
        let Ok(set) = model.ipc.semaphores.get(id) else {
            return;
        };
        let (constant, altering): (Vec<Waiter>, Vec<Waiter>) =
            set.waiting.iter().cloned().partition(|waiter| !waiter.alters());
        let mut done = None;
        for waiter in constant.into_iter().chain(altering) {
            match model.ipc.operate(id, waiter.pid, &waiter.ops, now) {
                Ok(()) => done = Some((waiter.tid, 0)),
                Err(Refused::Failed(errno)) => done = Some((waiter.tid, -i64::from(errno.into_raw()))),
                // One that says so does not wait, whatever comes before it.
                Err(Refused::Blocked(op)) if !op.waits() => {
                    done = Some((waiter.tid, -i64::from(libc::EAGAIN)));
                }
                Err(Refused::Blocked(_)) => continue,
            }
            break;
        }
        let Some((tid, result)) = done else {
            return;
        };
        forget(&mut model.ipc, tid);
        model.wake(tid, result);
    }
}

/// Takes a thread out of the queue that it stands in.
pub(super) fn forget(ipc: &mut Ipc, tid: Tid) {
    for id in ipc.semaphores.ids() {
        let waits = |set: &Set| set.waiting.iter().any(|waiter| waiter.tid == tid);
        // Persistent maps copy what is asked for to be changed.
        if ipc.semaphores.get(id).is_ok_and(waits)
            && let Ok(set) = ipc.semaphores.get_mut(id)
        {
            set.waiting.retain(|waiter| waiter.tid != tid);
        }
    }
}

/// A process has ended.
pub(super) fn apply_undo(model: &mut Model, pid: Pid) {
    let adjustments = model.ipc.undo.remove(&pid).unwrap_or_default();
    let now = model.clock.realtime() / 1_000_000_000;
    let sets: BTreeSet<i32> = adjustments.keys().map(|&(id, _)| id).collect();
    for ((id, number), adjustment) in adjustments {
        if let Ok(set) = model.ipc.semaphores.get_mut(id)
            && let Some(semaphore) = set.semaphores.get_mut(usize::from(number))
        {
            semaphore.value = (semaphore.value + adjustment).clamp(0, MAX_VALUE);
            semaphore.last = pid;
            set.operated_at = now;
        }
    }
    for id in sets {
        settle(model, id);
    }
}

/// A set is gone: whoever waits is told so.
pub(crate) fn remove(model: &mut Model, id: i32) {
    model.ipc.forget_undo(id, None);
    let Some(set) = model.ipc.semaphores.remove(id) else {
        return;
    };
    for waiter in set.waiting {
        model.wake(waiter.tid, -i64::from(libc::EIDRM));
    }
}
