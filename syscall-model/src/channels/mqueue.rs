//! POSIX message queues. Messages wait by priority; whoever waits, to receive or to send, is served in its order, by the one that
//! makes room or brings a message, as in the kernel.

use super::{ChannelId, epoll};
use crate::fd::{Kind, PollEvents};
use crate::ipc::messages::{Handover, Message};
use crate::model::Model;
use crate::process::Process;
use crate::processes::Pid;
use crate::signals::{SigInfo, Signals};
use crate::thread::Tid;
use std::sync::Arc;
use syscalls::Errno;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MessageQueue {
    /// None once it is unlinked.
    pub name: Option<Arc<[u8]>>,
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
    /// How many messages may wait, and how long each may be.
    pub most: u64,
    pub longest: u64,
    /// The highest priority first, and among equals the oldest.
    pub messages: Vec<Message>,
    pub receivers: Vec<Receiver>,
    pub senders: Vec<Sender>,
    pub notification: Option<Notification>,
    /// Descriptions of it.
    pub open: u32,
}

/// A thread that waits for a message, and the arguments of its call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Receiver {
    pub tid: Tid,
    pub call: [u64; 6],
}

/// A thread that waits for room, and what it has to send.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sender {
    pub tid: Tid,
    pub message: Message,
}

/// Who is told when the queue is no longer empty; by no signal at all if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Notification {
    pub owner: Pid,
    pub signal: Option<(i32, u64)>,
}

impl MessageQueue {
    pub fn is_full(&self) -> bool {
        self.messages.len() as u64 >= self.most
    }

    fn insert(&mut self, message: Message) {
        let place = self.messages.partition_point(|other| other.kind >= message.kind);
        self.messages.insert(place, message);
    }

    pub fn poll(&self) -> PollEvents {
        let mut events = PollEvents::empty();
        if !self.messages.is_empty() {
            events |= PollEvents::IN | PollEvents::RDNORM;
        }
        if !self.is_full() {
            events |= PollEvents::OUT | PollEvents::WRNORM;
        }
        events
    }

    /// May a process open it like this?
    pub fn check(&self, own: &Process, reads: bool, writes: bool) -> Result<(), Errno> {
        let user = own.owner.user.effective;
        let in_group = own.owner.group.effective == self.gid || own.owner.groups.contains(&self.gid);
        let granted = match user == self.uid {
            true => self.mode >> 6,
            false if in_group => self.mode >> 3,
            false => self.mode,
        };
        let wanted = if reads { 4 } else { 0 } | if writes { 2 } else { 0 };
        match wanted & !granted == 0 || user == 0 {
            true => Ok(()),
            false => Err(Errno::EACCES),
        }
    }

    /// What it counts for `RLIMIT_MSGQUEUE`.
    pub fn cost(most: u64, longest: u64) -> u64 {
        /// `struct msg_msg` and `struct posix_msg_tree_node`.
        const EACH: u64 = 48 + 48;
        most.saturating_mul(longest.saturating_add(EACH))
    }
}

fn queue(model: &mut Model, id: ChannelId) -> Result<&mut MessageQueue, Errno> {
    model.channels.mqueues.get_mut(&id).ok_or(Errno::EBADF)
}

/// Does a message at some queue raise a signal? It may then run a handler anywhere.
pub fn raises_signals(model: &Model) -> bool {
    let mut notifications = model.channels.mqueues.values();
    notifications.any(|queue| queue.notification.is_some_and(|told| told.signal.is_some()))
}

/// The queue with this name.
pub fn find(model: &Model, name: &[u8]) -> Option<ChannelId> {
    let mut all = model.channels.mqueues.iter();
    all.find(|(_, queue)| queue.name.as_deref() == Some(name))
        .map(|(&id, _)| id)
}

/// A message for whoever waits for one first, or for the queue, in which there is room.
pub fn send(model: &mut Model, id: ChannelId, message: Message) -> Result<(), Errno> {
    let queue = queue(model, id)?;
    if !queue.receivers.is_empty() {
        let Receiver { tid, call } = queue.receivers.remove(0);
        let what = Ok(message);
        model.ipc.handed.insert(tid, Handover { call, what });
        return Ok(());
    }
    queue.insert(message);
    let told = match queue.messages.len() {
        1 => queue.notification.take(),
        _ => None,
    };
    if let Some(Notification { owner, signal }) = told
        && let Some((signo, value)) = signal
    {
        let sender = &model.process;
        let info = SigInfo::message(signo, sender.pid, sender.owner.user.real, value);
        model.within(owner, |model| Signals::send_process(model, info));
    }
    epoll::notify(model, &Kind::MessageQueue(id), PollEvents::all());
    Ok(())
}

/// The first message, if there is one. Who waits for room puts its own in.
pub fn receive(model: &mut Model, id: ChannelId) -> Result<Option<Message>, Errno> {
    let queue = queue(model, id)?;
    if queue.messages.is_empty() {
        return Ok(None);
    }
    let message = queue.messages.remove(0);
    if queue.senders.is_empty() {
        epoll::notify(model, &Kind::MessageQueue(id), PollEvents::all());
        return Ok(Some(message));
    }
    let sender = queue.senders.remove(0);
    queue.insert(sender.message);
    model.wake(sender.tid, 0);
    Ok(Some(message))
}

/// A thread no longer waits.
pub fn forget(model: &mut Model, tid: Tid) {
    let waits = |queue: &MessageQueue| {
        queue.receivers.iter().any(|receiver| receiver.tid == tid)
            || queue.senders.iter().any(|sender| sender.tid == tid)
    };
    let all = model.channels.mqueues.iter();
    let ids: Vec<ChannelId> = all.filter(|(_, queue)| waits(queue)).map(|(&id, _)| id).collect();
    for id in ids {
        if let Ok(queue) = queue(model, id) {
            queue.receivers.retain(|receiver| receiver.tid != tid);
            queue.senders.retain(|sender| sender.tid != tid);
        }
    }
}

/// A process closes a descriptor of it: it is no longer told anything.
pub fn descriptor_closed(model: &mut Model, id: ChannelId) {
    let pid = model.process.pid;
    if let Ok(queue) = queue(model, id) {
        queue
            .notification
            .take_if(|notification| notification.owner == pid);
    }
}

/// The last descriptor of a description is gone.
pub fn closed(model: &mut Model, id: ChannelId) {
    if let Ok(queue) = queue(model, id) {
        queue.open -= 1;
        remove_unused(model, id);
    }
}

/// It has no name any more, and goes when nobody has it open.
pub fn unlink(model: &mut Model, id: ChannelId) {
    if let Ok(queue) = queue(model, id) {
        queue.name = None;
        remove_unused(model, id);
    }
}

fn remove_unused(model: &mut Model, id: ChannelId) {
    let is_unused = |queue: &MessageQueue| queue.open == 0 && queue.name.is_none();
    if model.channels.mqueues.get(&id).is_some_and(is_unused) {
        model.channels.mqueues.remove(&id);
    }
}
