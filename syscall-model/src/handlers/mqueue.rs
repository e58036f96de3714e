//! `mq_open`, `mq_unlink`, `mq_timedsend`, `mq_timedreceive`, `mq_notify`, `mq_getsetattr`.

use crate::call::Call;
use crate::channels::mqueue::{self, MessageQueue, Notification, Receiver, Sender};
use crate::channels::{ChannelId, Use, install, touches};
use crate::clock::Nanos;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::Kind;
use crate::handlers::signals;
use crate::ipc::messages::Message;
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use crate::wait::{OnSignal, Wait, WaitFor, Wake};
use syscalls::Errno;

/// What one has who asks for nothing else, and what only root may exceed.
const MOST: u64 = 10;
const LONGEST: u64 = 8192;
/// What nobody may exceed.
const HARD_MOST: u64 = 65_536;
const HARD_LONGEST: u64 = 16 << 20;
const MOST_QUEUES: usize = 256;
const MOST_PRIORITIES: u64 = 32_768;
const LONGEST_NAME: usize = 255;
/// `sizeof(struct mq_attr)`.
const ATTRIBUTES: usize = 64;

fn read_name(cx: &Cx, addr: u64) -> Result<Vec<u8>, Errno> {
    let name = cx.mem.read_cstr(addr, LONGEST_NAME + 1)?;
    match name.as_slice() {
        b"" => Err(Errno::ENOENT),
        b"." | b".." => Err(Errno::EACCES),
        name if name.contains(&b'/') => Err(Errno::EACCES),
        _ => Ok(name),
    }
}

pub fn prepare_open(_: &Cx, _: &Call) -> Prepared {
    Prepared::visible(vec![Touch::write(Object::FdTable), Touch::write(Object::IpcKeys)])
}

/// `mq_open(name, flags, mode, attributes)`.
pub fn open(cx: &mut Cx, call: &Call) -> Outcome {
    let flags = call.int(1);
    let access = flags & libc::O_ACCMODE;
    let (reads, writes) = (access != libc::O_WRONLY, access != libc::O_RDONLY);
    let creates = flags & libc::O_CREAT != 0;
    let wanted = match call.word(3) {
        0 => (MOST, LONGEST),
        at if creates => (cx.mem.read_u64(at + 8)?, cx.mem.read_u64(at + 16)?),
        _ => (MOST, LONGEST),
    };
    let name = read_name(cx, call.word(0))?;
    if access == libc::O_ACCMODE {
        return Err(Errno::EINVAL);
    }
    // There must be a descriptor before there is a queue.
    cx.model.files.lowest_free(0)?;
    let id = match mqueue::find(cx.model, &name) {
        Some(_) if creates && flags & libc::O_EXCL != 0 => return Err(Errno::EEXIST),
        Some(id) => {
            let queue = cx.model.channels.mqueues.get(&id).ok_or(Errno::ENOENT)?;
            queue.check(&cx.model.process, reads, writes)?;
            id
        }
        None if creates => create(cx, &name, call.uint(2), wanted)?,
        None => return Err(Errno::ENOENT),
    };
    if let Some(queue) = cx.model.channels.mqueues.get_mut(&id) {
        queue.open += 1;
    }
    let status = access | flags & libc::O_NONBLOCK;
    let fd = install(cx.model, Kind::MessageQueue(id), status, true)?;
    Ok(Effect::Done(i64::from(fd)))
}

fn create(cx: &mut Cx, name: &[u8], mode: u32, (most, longest): (u64, u64)) -> Result<ChannelId, Errno> {
    let own = &cx.model.process;
    let is_root = own.owner.user.effective == 0;
    let (highest, widest) = match is_root {
        true => (HARD_MOST, HARD_LONGEST),
        false => (MOST, LONGEST),
    };
    if most == 0 || longest == 0 || most > highest || longest > widest {
        return Err(Errno::EINVAL);
    }
    let (uid, gid) = (own.owner.user.effective, own.owner.group.effective);
    let limit = own.limits.of[libc::RLIMIT_MSGQUEUE as usize].soft;
    let all = cx.model.channels.mqueues.values();
    let theirs = all.filter(|queue| queue.uid == uid);
    let used: u64 = theirs
        .map(|queue| MessageQueue::cost(queue.most, queue.longest))
        .sum();
    if used.saturating_add(MessageQueue::cost(most, longest)) > limit {
        return Err(Errno::EMFILE);
    }
    if cx.model.channels.mqueues.len() >= MOST_QUEUES && !is_root {
        return Err(Errno::ENOSPC);
    }
    let mode = mode & 0o7777 & !cx.model.fs.umask();
    Ok(cx.model.channels.add_message_queue(MessageQueue {
        name: Some(name.into()),
        uid,
        gid,
        mode,
        most,
        longest,
        messages: Vec::new(),
        receivers: Vec::new(),
        senders: Vec::new(),
        notification: None,
        open: 0,
    }))
}

pub fn prepare_unlink(_: &Cx, _: &Call) -> Prepared {
    Prepared::visible(vec![Touch::write(Object::IpcKeys)])
}

/// `mq_unlink(name)`: by its owner, since the directory is everybody's.
pub fn unlink(cx: &mut Cx, call: &Call) -> Outcome {
    let name = read_name(cx, call.word(0))?;
    let id = mqueue::find(cx.model, &name).ok_or(Errno::ENOENT)?;
    let user = cx.model.process.owner.user.effective;
    let owner = cx.model.channels.mqueues.get(&id).map(|queue| queue.uid);
    if user != 0 && owner != Some(user) {
        return Err(Errno::EPERM);
    }
    mqueue::unlink(cx.model, id);
    Effect::ok()
}

/// Every operation on a queue may change who is next.
pub fn prepare(cx: &Cx, call: &Call) -> Prepared {
    match cx.model.files.descriptor(call.fd(0)) {
        Ok(descriptor) => Prepared::visible(touches(cx.model, descriptor.description, Use::Change)),
        Err(_) => Prepared::visible(vec![Touch::read(Object::FdTable)]),
    }
}

/// The queue behind a descriptor, and whether the description may read, write, and does not wait.
fn lookup(cx: &Cx, fd: i32) -> Result<(ChannelId, bool, bool, bool), Errno> {
    let (_, description) = cx.model.files.lookup(fd)?;
    let Kind::MessageQueue(id) = description.kind else {
        return Err(Errno::EBADF);
    };
    Ok((
        id,
        description.readable(),
        description.writable(),
        description.nonblocking(),
    ))
}

/// The end of a call's timeout, which is given as a time of day.
fn deadline(cx: &Cx, addr: u64) -> Result<Option<Nanos>, Errno> {
    if addr == 0 {
        return Ok(None);
    }
    let time = cx.mem.read_timespec(addr)?;
    Ok(Some(cx.model.clock.monotonic_of_realtime(time)))
}

fn block(id: ChannelId, deadline: Option<Nanos>) -> Outcome {
    Ok(Effect::Block(Wait {
        on: WaitFor::Mailbox(id),
        deadline,
        on_signal: OnSignal::Restart,
    }))
}

/// `mq_timedsend(queue, text, length, priority, deadline)`.
pub fn send(cx: &mut Cx, call: &Call) -> Outcome {
    if cx.wake == Wake::TimedOut {
        let tid = cx.tid;
        mqueue::forget(cx.model, tid);
        return Err(Errno::ETIMEDOUT);
    }
    let (len, priority) = (call.word(2), u64::from(call.uint(3)));
    let deadline = deadline(cx, call.word(4))?;
    if priority >= MOST_PRIORITIES {
        return Err(Errno::EINVAL);
    }
    let (id, _, writable, at_once) = lookup(cx, call.fd(0))?;
    if !writable {
        return Err(Errno::EBADF);
    }
    let queue = cx.model.channels.mqueues.get(&id).ok_or(Errno::EBADF)?;
    if len > queue.longest {
        return Err(Errno::EMSGSIZE);
    }
    let message = Message {
        kind: priority as i64,
        data: cx.mem.read_vec(call.word(1), len as usize)?.into(),
    };
    if !queue.is_full() {
        mqueue::send(cx.model, id, message)?;
        // It may have told the sender itself, by signal.
        return signals::sent(cx);
    }
    if at_once {
        return Err(Errno::EAGAIN);
    }
    let tid = cx.tid;
    if let Some(queue) = cx.model.channels.mqueues.get_mut(&id) {
        queue.senders.push(Sender { tid, message });
    }
    block(id, deadline)
}

/// `mq_timedreceive(queue, text, length, priority, deadline)`.
pub fn receive(cx: &mut Cx, call: &Call) -> Outcome {
    let tid = cx.tid;
    if let Some(handed) = cx.model.ipc.take_handed(tid, call.args) {
        return deliver(cx, call, &handed?);
    }
    if cx.wake == Wake::TimedOut {
        mqueue::forget(cx.model, tid);
        return Err(Errno::ETIMEDOUT);
    }
    let deadline = deadline(cx, call.word(4))?;
    let (id, readable, _, at_once) = lookup(cx, call.fd(0))?;
    if !readable {
        return Err(Errno::EBADF);
    }
    let queue = cx.model.channels.mqueues.get(&id).ok_or(Errno::EBADF)?;
    if call.word(2) < queue.longest {
        return Err(Errno::EMSGSIZE);
    }
    if let Some(message) = mqueue::receive(cx.model, id)? {
        return deliver(cx, call, &message);
    }
    if at_once {
        return Err(Errno::EAGAIN);
    }
    if let Some(queue) = cx.model.channels.mqueues.get_mut(&id) {
        let call = call.args;
        queue.receivers.push(Receiver { tid, call });
    }
    block(id, deadline)
}

fn deliver(cx: &mut Cx, call: &Call, message: &Message) -> Outcome {
    if call.word(3) != 0 {
        cx.mem.write_u32(call.word(3), message.kind as u32)?;
    }
    cx.mem.write(call.word(1), &message.data)?;
    Ok(Effect::Done(message.data.len() as i64))
}

/// `mq_notify(queue, event)`.
pub fn notify(cx: &mut Cx, call: &Call) -> Outcome {
    const LAST_SIGNAL: i32 = 64;
    let event = call.word(1);
    let mut signal = None;
    if event != 0 {
        let value = cx.mem.read_u64(event)?;
        let signo = cx.mem.read_u32(event.wrapping_add(8))? as i32;
        match cx.mem.read_u32(event.wrapping_add(12))? as i32 {
            libc::SIGEV_NONE => {}
            libc::SIGEV_SIGNAL if (0..=LAST_SIGNAL).contains(&signo) => signal = Some((signo, value)),
            libc::SIGEV_THREAD => {
                return Ok(Effect::Unsupported(
                    "a thread that is started when a message comes (SIGEV_THREAD)".to_owned(),
                ));
            }
            _ => return Err(Errno::EINVAL),
        }
    }
    let (id, ..) = lookup(cx, call.fd(0))?;
    let owner = cx.model.process.pid;
    let queue = cx.model.channels.mqueues.get_mut(&id).ok_or(Errno::EBADF)?;
    match queue.notification {
        _ if event == 0 => {
            queue
                .notification
                .take_if(|notification| notification.owner == owner);
        }
        Some(_) => return Err(Errno::EBUSY),
        None => queue.notification = Some(Notification { owner, signal }),
    }
    Effect::ok()
}

/// `mq_getsetattr(queue, new, old)`.
pub fn getsetattr(cx: &mut Cx, call: &Call) -> Outcome {
    let (new, old) = (call.word(1), call.word(2));
    let wanted = match new {
        0 => None,
        _ => {
            let flags = i64::from_le_bytes(cx.mem.read_u64(new)?.to_le_bytes());
            if flags & !i64::from(libc::O_NONBLOCK) != 0 {
                return Err(Errno::EINVAL);
            }
            Some(flags as i32)
        }
    };
    let (id, _, _, at_once) = lookup(cx, call.fd(0))?;
    let queue = cx.model.channels.mqueues.get(&id).ok_or(Errno::EBADF)?;
    let mut shown = [0; ATTRIBUTES];
    let flags = if at_once { libc::O_NONBLOCK as u64 } else { 0 };
    let words = [flags, queue.most, queue.longest, queue.messages.len() as u64];
    for (place, word) in shown.chunks_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    if let Some(flags) = wanted {
        let (ofd, _) = cx.model.files.lookup(call.fd(0))?;
        if let Some(description) = cx.model.files.get_mut(ofd) {
            description.flags = description.flags & !libc::O_NONBLOCK | flags;
        }
    }
    if old != 0 {
        cx.mem.write(old, &shown)?;
    }
    Effect::ok()
}

#[cfg(test)]
mod tests;
