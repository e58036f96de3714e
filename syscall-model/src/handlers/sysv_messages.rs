//! `msgget`, `msgsnd`, `msgrcv`, `msgctl`.

use crate::call::Call;
use crate::effect::{Effect, Outcome, Prepared};
use crate::handlers::sysv;
use crate::ipc::Permissions;
use crate::ipc::messages::{self, Message, Queue, Receiver, Selection};
use crate::ipc::registry::{READ, WRITE, Wanted};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use crate::wait::{OnSignal, Wait, WaitFor};
use imbl::Vector;
use syscalls::Errno;

/// `MSGMNI`, `MSGMAX`, `MSGMNB`.
const MOST: usize = 32_000;
const LONGEST: u64 = 8192;
const MOST_BYTES: u64 = 16_384;
/// The type comes before the text.
const KIND_SIZE: u64 = 8;

/// `msgget(key, flags)`.
pub fn get(cx: &mut Cx, call: &Call) -> Outcome {
    let (key, flags) = (call.int(0), call.int(1));
    let own = cx.model.process.clone();
    let now = cx.file_time().sec as u64;
    let queues = &mut cx.model.ipc.messages;
    let id = match queues.find(key, flags)? {
        Wanted::There(id) => {
            queues.get(id)?.permissions.check(&own, flags as u32 & 0o777)?;
            id
        }
        Wanted::New => {
            let queue = Queue {
                permissions: Permissions::new(&own, key, flags),
                messages: Vector::new(),
                most_bytes: MOST_BYTES,
                last_sender: 0,
                last_receiver: 0,
                sent_at: 0,
                received_at: 0,
                changed_at: now,
                receivers: Vec::new(),
            };
            queues.add(queue, MOST)?
        }
    };
    Ok(Effect::Done(i64::from(id)))
}

fn waits(call_flags: i32) -> bool {
    call_flags & libc::IPC_NOWAIT == 0
}

fn for_room(id: i32, len: u64) -> Wait {
    Wait {
        on: WaitFor::MessageRoom(id, len),
        deadline: None,
        on_signal: OnSignal::Interrupt,
    }
}

pub fn prepare_send(_: &Cx, call: &Call) -> Prepared {
    Prepared::visible(vec![Touch::write(Object::Messages(call.int(0)))])
}

/// `msgsnd(id, message, length, flags)`.
pub fn send(cx: &mut Cx, call: &Call) -> Outcome {
    let (id, buffer, len) = (call.int(0), call.word(1), call.word(2));
    let kind = cx.mem.read_u64(buffer)? as i64;
    if len > LONGEST || id < 0 || kind < 1 {
        return Err(Errno::EINVAL);
    }
    let data = cx.mem.read_vec(buffer.wrapping_add(KIND_SIZE), len as usize)?;
    let queue = cx.model.ipc.messages.get(id)?;
    queue.permissions.check(&cx.model.process, WRITE)?;
    if !queue.has_room(len) {
        if !waits(call.int(3)) {
            return Err(Errno::EAGAIN);
        }
        return Ok(Effect::Block(for_room(id, len)));
    }
    let (pid, now) = (cx.model.process.pid, cx.file_time().sec as u64);
    let message = Message {
        kind,
        data: data.into(),
    };
    cx.model.ipc.send(id, message, pid, now)?;
    Effect::ok()
}

pub fn prepare_receive(_: &Cx, call: &Call) -> Prepared {
    Prepared::visible(vec![Touch::write(Object::Messages(call.int(0)))])
}

/// Cut long messages (`MSG_NOERROR`), or leave them (`MSG_COPY`).
const CUT: i32 = 0o10000;
const COPY: i32 = 0o40000;

/// `msgrcv(id, message, length, type, flags)`.
pub fn receive(cx: &mut Cx, call: &Call) -> Outcome {
    let (id, buffer, len) = (call.int(0), call.word(1), call.word(2));
    let (kind, flags) = (call.long(3), call.int(4));
    let tid = cx.tid;
    if let Some(handed) = cx.model.ipc.take_handed(tid, call.args) {
        return deliver(cx, buffer, len, &handed?);
    }
    if id < 0 || (len as i64) < 0 {
        return Err(Errno::EINVAL);
    }
    if flags & COPY != 0 {
        // As a kernel without CONFIG_CHECKPOINT_RESTORE.
        return Err(Errno::ENOSYS);
    }
    let own = cx.model.process.clone();
    let now = cx.file_time().sec as u64;
    let queue = cx.model.ipc.messages.get_mut(id)?;
    queue.permissions.check(&own, READ)?;
    let selection = Selection::new(kind, flags);
    let longest = (flags & CUT == 0).then_some(len);
    let Some(place) = queue.find(selection) else {
        if !waits(flags) {
            return Err(Errno::ENOMSG);
        }
        queue.receivers.push(Receiver {
            tid,
            pid: own.pid,
            selection,
            longest,
            call: call.args,
        });
        return Ok(Effect::Block(Wait {
            on: WaitFor::Message(id),
            deadline: None,
            on_signal: OnSignal::Interrupt,
        }));
    };
    let is_too_long = |message: &Message| longest.is_some_and(|longest| message.data.len() as u64 > longest);
    if queue.messages.get(place).is_some_and(is_too_long) {
        return Err(Errno::E2BIG);
    }
    let message = queue.messages.remove(place);
    queue.last_receiver = own.pid;
    queue.received_at = now;
    deliver(cx, buffer, len, &message)
}

/// The message reaches the program; it is no longer in the queue, even if there is no memory for it.
fn deliver(cx: &mut Cx, buffer: u64, len: u64, message: &Message) -> Outcome {
    let shown = message.data.len().min(len as usize);
    cx.mem.write_u64(buffer, message.kind as u64)?;
    cx.mem
        .write(buffer.wrapping_add(KIND_SIZE), &message.data[..shown])?;
    Ok(Effect::Done(shown as i64))
}

pub fn prepare_control(_: &Cx, call: &Call) -> Prepared {
    let command = call.int(1);
    sysv::prepare_control(Object::Messages(call.int(0)), command, command == libc::IPC_STAT)
}

/// `msgctl(id, command, buffer)`.
pub fn control(cx: &mut Cx, call: &Call) -> Outcome {
    /// `IPC_INFO`, `MSG_STAT`, `MSG_INFO`, `MSG_STAT_ANY`, which only `ipcs` uses.
    const FOR_LISTS: [i32; 4] = [libc::IPC_INFO, 11, 12, 13];
    /// Where `struct msqid64_ds` has the number of bytes that may wait.
    const MOST_BYTES_AT: u64 = 88;
    let (id, command, buffer) = (call.int(0), call.int(1), call.word(2));
    let own = cx.model.process.clone();
    let now = cx.file_time().sec as u64;
    if id < 0 || command < 0 {
        return Err(Errno::EINVAL);
    }
    match command {
        libc::IPC_STAT => {
            let encoded = encode(cx.model.ipc.messages.readable(id, &own)?);
            cx.mem.write(buffer, &encoded)?;
        }
        libc::IPC_SET => {
            let raw = sysv::read_permissions(cx, buffer)?;
            let most = cx.mem.read_u64(buffer.wrapping_add(MOST_BYTES_AT))?;
            let queue = cx.model.ipc.messages.owned(id, &own)?;
            if most > MOST_BYTES && own.owner.user.effective != 0 {
                return Err(Errno::EPERM);
            }
            queue.permissions.set(&raw);
            queue.most_bytes = most;
            queue.changed_at = now;
        }
        libc::IPC_RMID => {
            cx.model.ipc.messages.owned(id, &own)?;
            messages::remove(cx.model, id);
        }
        _ if FOR_LISTS.contains(&command) => {
            return Ok(Effect::Unsupported("lists of message queues".to_owned()));
        }
        _ => return Err(Errno::EINVAL),
    }
    Effect::ok()
}

/// `struct msqid64_ds`.
fn encode(queue: &Queue) -> Vec<u8> {
    let mut out = queue.permissions.encode().to_vec();
    let people = u64::from(queue.last_receiver) << 32 | u64::from(queue.last_sender);
    for word in [
        queue.sent_at,
        queue.received_at,
        queue.changed_at,
        queue.bytes(),
        queue.messages.len() as u64,
        queue.most_bytes,
        people,
        0,
        0,
    ] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests;
