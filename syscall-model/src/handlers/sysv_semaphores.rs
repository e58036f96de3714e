//! `semget`, `semop`, `semtimedop`, `semctl`.

use crate::call::Call;
use crate::effect::{Effect, Outcome, Prepared};
use crate::handlers::sysv;
use crate::handlers::timed::Timeout;
use crate::ipc::registry::{READ, WRITE, Wanted};
use crate::ipc::semaphores::{self, MAX_VALUE, Op, Refused, Semaphore, Set, Waiter};
use crate::ipc::{Ipc, Permissions};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use crate::wait::{OnSignal, Wait, WaitFor, Wake};
use syscalls::{Errno, Sysno};

/// `SEMMNI`, `SEMMSL`, `SEMOPM`.
const MOST: usize = 32_000;
const MOST_IN_SET: i32 = 32_000;
const MOST_OPS: u64 = 500;
const OP_SIZE: usize = 6;

/// `semget(key, count, flags)`.
pub fn get(cx: &mut Cx, call: &Call) -> Outcome {
    let (key, count, flags) = (call.int(0), call.int(1), call.int(2));
    if !(0..=MOST_IN_SET).contains(&count) {
        return Err(Errno::EINVAL);
    }
    let own = cx.model.process.clone();
    let now = cx.file_time().sec as u64;
    let sets = &mut cx.model.ipc.semaphores;
    let id = match sets.find(key, flags)? {
        Wanted::There(id) => {
            let set = sets.get(id)?;
            if count as usize > set.semaphores.len() {
                return Err(Errno::EINVAL);
            }
            set.permissions.check(&own, flags as u32 & 0o777)?;
            id
        }
        Wanted::New if count == 0 => return Err(Errno::EINVAL),
        Wanted::New => {
            let set = Set {
                permissions: Permissions::new(&own, key, flags),
                semaphores: vec![Semaphore::default(); count as usize],
                operated_at: 0,
                changed_at: now,
                waiting: Vec::new(),
            };
            sets.add(set, MOST)?
        }
    };
    Ok(Effect::Done(i64::from(id)))
}

pub fn prepare_operate(_: &Cx, call: &Call) -> Prepared {
    Prepared::visible(vec![Touch::write(Object::Semaphores(call.int(0)))])
}

fn read_ops(cx: &Cx, addr: u64, count: u64) -> Result<Vec<Op>, Errno> {
    let raw = cx.mem.read_vec(addr, count as usize * OP_SIZE)?;
    let op = |raw: &[u8]| Op {
        number: u16::from_le_bytes([raw[0], raw[1]]),
        change: i16::from_le_bytes([raw[2], raw[3]]),
        flags: i16::from_le_bytes([raw[4], raw[5]]),
    };
    Ok(raw.chunks_exact(OP_SIZE).map(op).collect())
}

/// `semop(id, operations, count)` and `semtimedop(…, timeout)`.
pub fn operate(cx: &mut Cx, call: &Call) -> Outcome {
    // Whoever makes the operations possible does them and wakes us; here we come again only when that took too long.
    if cx.wake == Wake::TimedOut {
        cx.model.ipc.forget(cx.tid);
        return Err(Errno::EAGAIN);
    }
    let (id, count) = (call.int(0), u64::from(call.uint(2)));
    let timeout = match call.sysno {
        Sysno::semtimedop => Timeout::timespec(cx, call.word(3))?,
        _ => Timeout::Forever,
    };
    if count < 1 || id < 0 {
        return Err(Errno::EINVAL);
    }
    if count > MOST_OPS {
        return Err(Errno::E2BIG);
    }
    let ops = read_ops(cx, call.word(1), count)?;
    let set = cx.model.ipc.semaphores.get(id)?;
    if ops
        .iter()
        .any(|op| usize::from(op.number) >= set.semaphores.len())
    {
        return Err(Errno::EFBIG);
    }
    let alters = ops.iter().any(|op| op.change != 0);
    let wanted = if alters { WRITE } else { READ };
    set.permissions.check(&cx.model.process, wanted)?;
    let (pid, now) = (cx.model.process.pid, cx.file_time().sec as u64);
    match cx.model.ipc.operate(id, pid, &ops, now) {
        Ok(()) => {
            semaphores::settle(cx.model, id);
            Effect::ok()
        }
        Err(Refused::Failed(errno)) => Err(errno),
        Err(Refused::Blocked(op)) if !op.waits() || timeout == Timeout::For(0) => Err(Errno::EAGAIN),
        Err(Refused::Blocked(_)) => wait(cx, id, ops, timeout),
    }
}

fn wait(cx: &mut Cx, id: i32, ops: Vec<Op>, timeout: Timeout) -> Outcome {
    let (tid, pid) = (cx.tid, cx.model.process.pid);
    let set = cx.model.ipc.semaphores.get_mut(id)?;
    set.waiting.push(Waiter { tid, pid, ops });
    let deadline = match timeout {
        Timeout::For(nanos) => Some(cx.model.clock.now().saturating_add(nanos)),
        Timeout::Forever => None,
    };
    Ok(Effect::Block(Wait {
        on: WaitFor::Semaphores(id),
        deadline,
        on_signal: OnSignal::Interrupt,
    }))
}

const GETPID: i32 = 11;
const GETVAL: i32 = 12;
const GETALL: i32 = 13;
const GETNCNT: i32 = 14;
const GETZCNT: i32 = 15;
const SETVAL: i32 = 16;
const SETALL: i32 = 17;
/// `SEM_STAT`, `SEM_INFO`, `SEM_STAT_ANY` and `IPC_INFO`, which only `ipcs` uses.
const FOR_LISTS: [i32; 4] = [18, 19, 20, libc::IPC_INFO];

pub fn prepare_control(_: &Cx, call: &Call) -> Prepared {
    let command = call.int(2);
    let only_looks = matches!(
        command,
        libc::IPC_STAT | GETPID | GETVAL | GETALL | GETNCNT | GETZCNT
    );
    sysv::prepare_control(Object::Semaphores(call.int(0)), command, only_looks)
}

/// `semctl(id, number, command, argument)`.
pub fn control(cx: &mut Cx, call: &Call) -> Outcome {
    let (id, command, argument) = (call.int(0), call.int(2), call.word(3));
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    match command {
        _ if FOR_LISTS.contains(&command) => Ok(Effect::Unsupported("lists of semaphores".to_owned())),
        libc::IPC_STAT => {
            let encoded = encode(cx.model.ipc.semaphores.readable(id, &cx.model.process)?);
            cx.mem.write(argument, &encoded)?;
            Effect::ok()
        }
        libc::IPC_SET | libc::IPC_RMID => administer(cx, id, command, argument),
        GETPID | GETVAL | GETNCNT | GETZCNT => read_one(cx, id, call.int(1), command),
        GETALL => {
            let set = cx.model.ipc.semaphores.readable(id, &cx.model.process)?;
            let values = set.semaphores.iter();
            let values: Vec<u8> = values
                .flat_map(|semaphore| (semaphore.value as u16).to_le_bytes())
                .collect();
            cx.mem.write(argument, &values)?;
            Effect::ok()
        }
        SETVAL => set_values(cx, id, Some(call.int(1)), &[argument as i32]),
        SETALL => {
            let set = cx.model.ipc.semaphores.get(id)?;
            set.permissions.check(&cx.model.process, WRITE)?;
            let raw = cx.mem.read_vec(argument, set.semaphores.len() * 2)?;
            let value = |raw: &[u8]| i32::from(u16::from_le_bytes([raw[0], raw[1]]));
            let values: Vec<i32> = raw.chunks_exact(2).map(value).collect();
            set_values(cx, id, None, &values)
        }
        _ => Err(Errno::EINVAL),
    }
}

fn administer(cx: &mut Cx, id: i32, command: i32, buffer: u64) -> Outcome {
    let own = cx.model.process.clone();
    let now = cx.file_time().sec as u64;
    if command == libc::IPC_RMID {
        cx.model.ipc.semaphores.owned(id, &own)?;
        semaphores::remove(cx.model, id);
        return Effect::ok();
    }
    let raw = sysv::read_permissions(cx, buffer)?;
    let set = cx.model.ipc.semaphores.owned(id, &own)?;
    set.permissions.set(&raw);
    set.changed_at = now;
    Effect::ok()
}

/// What one semaphore is, who changed it last, and how many wait for what.
fn read_one(cx: &Cx, id: i32, number: i32, command: i32) -> Outcome {
    let set = cx.model.ipc.semaphores.readable(id, &cx.model.process)?;
    let place = usize::try_from(number).map_err(|_| Errno::EINVAL)?;
    let semaphore = set.semaphores.get(place).ok_or(Errno::EINVAL)?;
    let waiting = |for_zero: bool| {
        let obstacles = set.waiting.iter().filter_map(|waiter| Ipc::obstacle(set, waiter));
        let here = obstacles.filter(|op| i32::from(op.number) == number && (op.change == 0) == for_zero);
        here.count() as i64
    };
    Ok(Effect::Done(match command {
        GETPID => i64::from(semaphore.last),
        GETVAL => i64::from(semaphore.value),
        GETNCNT => waiting(false),
        _ => waiting(true),
    }))
}

/// Sets one semaphore, or all.
fn set_values(cx: &mut Cx, id: i32, number: Option<i32>, values: &[i32]) -> Outcome {
    if values.iter().any(|value| !(0..=MAX_VALUE).contains(value)) {
        return Err(Errno::ERANGE);
    }
    let own = cx.model.process.clone();
    let now = cx.file_time().sec as u64;
    let set = cx.model.ipc.semaphores.get_mut(id)?;
    let first = usize::try_from(number.unwrap_or(0)).map_err(|_| Errno::EINVAL)?;
    if first >= set.semaphores.len() {
        return Err(Errno::EINVAL);
    }
    set.permissions.check(&own, WRITE)?;
    for (semaphore, &value) in set.semaphores[first..].iter_mut().zip(values) {
        *semaphore = Semaphore { value, last: own.pid };
    }
    set.changed_at = now;
    cx.model.ipc.forget_undo(id, number.map(|number| number as u16));
    semaphores::settle(cx.model, id);
    Effect::ok()
}

/// `struct semid64_ds`.
fn encode(set: &Set) -> Vec<u8> {
    let mut out = set.permissions.encode().to_vec();
    let count = set.semaphores.len() as u64;
    for word in [set.operated_at, 0, set.changed_at, 0, count, 0, 0] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests;
