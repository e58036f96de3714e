//! Message queues of System V. A message is handed to the first thread that waits for one of its type, and only joins the
//! queue if there is none; as in the kernel.

use crate::ipc::Ipc;
use crate::ipc::registry::{Kept, Permissions};
use crate::model::Model;
use crate::processes::Pid;
use crate::thread::{Thread, Tid};
use crate::wait::WaitFor;
use imbl::Vector;
use std::collections::BTreeMap;
use std::sync::Arc;
use syscalls::Errno;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    pub kind: i64,
    pub data: Arc<[u8]>,
}

/// Which messages a call wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    Any,
    Of(i64),
    AllBut(i64),
    /// The lowest type, up to this one.
    UpTo(i64),
}

impl Selection {
    pub fn new(kind: i64, flags: i32) -> Self {
        /// `MSG_EXCEPT`.
        const EXCEPT: i32 = 0o20000;
        match kind {
            0 => Selection::Any,
            i64::MIN..0 => Selection::UpTo(kind.checked_neg().unwrap_or(i64::MAX)),
            _ if flags & EXCEPT != 0 => Selection::AllBut(kind),
            _ => Selection::Of(kind),
        }
    }

    fn takes(self, kind: i64) -> bool {
        match self {
            Selection::Any => true,
            Selection::Of(wanted) => kind == wanted,
            Selection::AllBut(unwanted) => kind != unwanted,
            Selection::UpTo(highest) => kind <= highest,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    pub permissions: Permissions,
    pub messages: Vector<Message>,
    /// As many bytes may wait.
    pub most_bytes: u64,
    pub last_sender: Pid,
    pub last_receiver: Pid,
    /// In seconds.
    pub sent_at: u64,
    pub received_at: u64,
    pub changed_at: u64,
    pub receivers: Vec<Receiver>,
}

impl Kept for Queue {
    fn permissions(&self) -> &Permissions {
        &self.permissions
    }
    fn permissions_mut(&mut self) -> &mut Permissions {
        &mut self.permissions
    }
}

/// A thread that waits for a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Receiver {
    pub tid: Tid,
    pub pid: Pid,
    pub selection: Selection,
    /// It would rather have an error than a message longer than this.
    pub longest: Option<u64>,
    /// The arguments of its call, so that it is known when it comes again.
    pub call: [u64; 6],
}

/// What a thread was handed while it waited, for the call with these arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handover {
    pub call: [u64; 6],
    pub what: Result<Message, i32>,
}

pub type Handed = BTreeMap<Tid, Handover>;

impl Queue {
    pub fn bytes(&self) -> u64 {
        self.messages
            .iter()
            .map(|message| message.data.len() as u64)
            .sum()
    }

    pub fn has_room(&self, len: u64) -> bool {
        self.bytes() + len <= self.most_bytes && (self.messages.len() as u64) < self.most_bytes
    }

    /// The place of the message that a call gets.
    pub fn find(&self, selection: Selection) -> Option<usize> {
        let fitting = self.messages.iter().enumerate();
        let mut fitting = fitting.filter(|(_, message)| selection.takes(message.kind));
        match selection {
            Selection::UpTo(_) => fitting.min_by_key(|(place, message)| (message.kind, *place)),
            _ => fitting.next(),
        }
        .map(|(place, _)| place)
    }
}

impl Ipc {
    /// Is there a message for this thread, which waited for one?
    pub(crate) fn is_handed(&self, tid: Tid) -> bool {
        self.handed.contains_key(&tid)
    }

    /// Takes what a thread was handed for this very call.
    pub(crate) fn take_handed(&mut self, tid: Tid, call: [u64; 6]) -> Option<Result<Message, Errno>> {
        let handed = self.handed.get(&tid)?;
        if handed.call != call {
            return None;
        }
        let handed = self.handed.remove(&tid)?;
        Some(handed.what.map_err(Errno::new))
    }

    /// May a message of this length be put into the queue?
    pub(crate) fn may_send(&self, id: i32, len: u64) -> bool {
        self.messages.get(id).is_ok_and(|queue| queue.has_room(len))
    }

    /// A message for whoever waits for it first, or for the queue.
    pub(crate) fn send(&mut self, id: i32, message: Message, pid: Pid, now: u64) -> Result<(), Errno> {
        let queue = self.messages.get_mut(id)?;
        queue.last_sender = pid;
        queue.sent_at = now;
        let mut left = Vec::new();
        let mut message = Some(message);
        for receiver in std::mem::take(&mut queue.receivers) {
            let fits = |message: &Message| receiver.selection.takes(message.kind);
            let Some(taken) = message.take_if(|message| fits(message)) else {
                left.push(receiver);
                continue;
            };
            let is_too_long = receiver
                .longest
                .is_some_and(|longest| taken.data.len() as u64 > longest);
            let what = match is_too_long {
                true => {
                    message = Some(taken);
                    Err(libc::E2BIG)
                }
                false => {
                    queue.last_receiver = receiver.pid;
                    queue.received_at = now;
                    Ok(taken)
                }
            };
            let call = receiver.call;
            self.handed.insert(receiver.tid, Handover { call, what });
        }
        queue.receivers = left;
        if let Some(message) = message {
            queue.messages.push_back(message);
        }
        Ok(())
    }
}

/// Takes a thread out of the queue that it stands in.
pub(super) fn forget(ipc: &mut Ipc, tid: Tid) {
    for id in ipc.messages.ids() {
        let waits = |queue: &Queue| queue.receivers.iter().any(|receiver| receiver.tid == tid);
        // Persistent maps copy what is asked for to be changed.
        if ipc.messages.get(id).is_ok_and(waits)
            && let Ok(queue) = ipc.messages.get_mut(id)
        {
            queue.receivers.retain(|receiver| receiver.tid != tid);
        }
    }
}

/// A queue is gone: whoever waits is told so.
pub(crate) fn remove(model: &mut Model, id: i32) {
    let Some(queue) = model.ipc.messages.remove(id) else {
        return;
    };
    for receiver in queue.receivers {
        let (call, what) = (receiver.call, Err(libc::EIDRM));
        model.ipc.handed.insert(receiver.tid, Handover { call, what });
    }
    let waits_to_send = |thread: &&Thread| matches!(&thread.wait, Some(wait) if matches!(wait.on, WaitFor::MessageRoom(at, _) if at == id));
    let senders: Vec<Tid> = model
        .all_threads()
        .filter(waits_to_send)
        .map(|thread| thread.tid)
        .collect();
    for tid in senders {
        model.wake(tid, -i64::from(libc::EIDRM));
    }
}
