//! What the pending operation of a thread touches: the ground of partial-order reduction.

use super::context::HookOp;
use super::{Context, Session};
use crate::hooks::SiteKind;
use explore::Footprint;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use syscall_model::channels::{ChannelId, held_beside};
use syscall_model::{Access, Call, Object, Pending, Sysno, Tid, Touch};
use xxhash_rust::xxh3::Xxh3;

impl Session {
    /// The footprint of what this thread does next, up to its next parking point.
    pub fn footprint(&self, tid: Tid) -> Footprint {
        self.footprint_of(tid, |_| true)
    }

    /// The footprint if no peer answers, where that is another one.
    pub fn footprint_in_silence(&self, tid: Tid) -> Option<Footprint> {
        let touches = &self.contexts.get(&tid)?.touches;
        let differs = touches.iter().any(|touch| touch.if_answered);
        differs.then(|| self.footprint_of(tid, |touch| !touch.if_answered))
    }

    fn footprint_of(&self, tid: Tid, counts: impl Fn(&Touch) -> bool) -> Footprint {
        let thread = self.model.thread(tid);
        if self.model.signals.deliverable(thread).is_some() {
            // A handler may do anything, and its arrival is an order that the program can see.
            return Footprint::global();
        }
        let Some(context) = self.contexts.get(&tid) else {
            return Footprint::global();
        };
        let footprint = match &thread.pending {
            // Its maker wrote this object: a thread begins after it was made.
            Pending::Start => Footprint::write(key(&Object::Thread(tid))),
            Pending::Call(call) => self.call_footprint(call, context, counts),
            Pending::Hook(_) => context.hook.as_ref().map_or(Footprint::global(), hook_footprint),
            Pending::Return(_) => touched(context.touches.iter().filter(|touch| counts(touch))),
            // It touches nothing but what its code does, which is for the audit to find out.
            Pending::Created(_) => Footprint::local(),
            Pending::Spin | Pending::Running => Footprint::global(),
        };
        let footprint = self.and_arrivals(tid, footprint);
        let footprint = self.and_held(context, footprint);
        // A function that has not returned works on, beyond the operation before which the thread stands.
        context.inside.iter().fold(footprint, |footprint, function| {
            let footprint = and_memory(footprint, function.object, explore::Access::Write);
            match function.mutex {
                Some(mutex) => footprint.and_write(memory(mutex)),
                None => footprint,
            }
        })
    }

    /// A server that is told something may be done with a connection, and go on with another one.
    fn and_held(&self, context: &Context, footprint: Footprint) -> Footprint {
        if !self.model.channels.sockets().any(|socket| socket.held) {
            return footprint;
        }
        let said = context.touches.iter().filter_map(|touch| match touch.object {
            Object::Said(id) => Some(ChannelId(id)),
            _ => None,
        });
        let freed = said.flat_map(|id| held_beside(&self.model, id));
        freed.fold(footprint, |footprint, object| footprint.and_write(key(&object)))
    }

    /// What the functions touch that the thread is inside of.
    pub fn inside(&self, tid: Tid) -> Footprint {
        let functions = self.contexts.get(&tid).map(|context| context.inside.as_slice());
        let functions = functions.unwrap_or_default().iter();
        functions
            .filter(|function| function.object != 0)
            .fold(Footprint::local(), |footprint, function| {
                and_memory(footprint, function.object, explore::Access::Write)
            })
    }

    /// Where in the program this thread stands, as a number: what it does next is of the same kind whenever it stands there.
    ///
    /// None for a thread that is about to end. There is no code of the program in that step, so its footprint is all there is to it. And others do look
    /// whether it has ended before they wait for that (`pthread_join`), or do not park where they are alone: which leads to other states, but nowhere else.
    pub fn site(&self, tid: Tid) -> Option<u64> {
        let context = self.contexts.get(&tid)?;
        let hook = context.hook.as_ref();
        let kind = match &self.model.thread(tid).pending {
            Pending::Start => 0,
            Pending::Call(call) if call.sysno == Sysno::exit => return None,
            Pending::Call(call) => 1 + call.sysno as u64,
            Pending::Created(_) => u64::MAX - 1,
            Pending::Hook(_) | Pending::Return(_) | Pending::Spin | Pending::Running => u64::MAX,
        };
        let callers = context.inside.iter().map(|function| function.caller);
        let mut hasher = Xxh3::new();
        let half = hook.is_some_and(|op| op.loaded.is_some());
        (kind, context.regs.rip, hook.map(|op| op.caller), half).hash(&mut hasher);
        callers.for_each(|caller| caller.hash(&mut hasher));
        Some(hasher.finish())
    }

    fn call_footprint(&self, call: &Call, context: &Context, counts: impl Fn(&Touch) -> bool) -> Footprint {
        let footprint = touched(context.touches.iter().filter(|touch| counts(touch)));
        match call.sysno {
            Sysno::exit_group => Footprint::ending(),
            // Fairness looks at all threads; this one closes whatever is in a range.
            Sysno::sched_yield | Sysno::close_range => Footprint::global(),
            // The number that the new thread gets is decided when it is made, not when its maker parked.
            Sysno::clone => footprint.and_write(key(&Object::Thread(self.model.next_tid))),
            Sysno::close => footprint.and_write(slot(call.args[0])),
            Sysno::dup2 | Sysno::dup3 => footprint
                .and_read(slot(call.args[0]))
                .and_write(slot(call.args[1])),
            _ if !context
                .touches
                .iter()
                .any(|touch| is_behind_a_descriptor(&touch.object)) =>
            {
                footprint
            }
            // These name further descriptors, some in memory.
            Sysno::poll
            | Sysno::ppoll
            | Sysno::select
            | Sysno::pselect6
            | Sysno::epoll_ctl
            | Sysno::epoll_wait
            | Sysno::epoll_pwait
            | Sysno::epoll_pwait2
            | Sysno::sendfile
            | Sysno::splice
            | Sysno::tee
            | Sysno::copy_file_range => footprint.and_read(key(&Object::FdTable)),
            _ => footprint.and_read(slot(call.args[0])),
        }
    }
}

fn hook_footprint(op: &HookOp) -> Footprint {
    if op.is_pause() {
        return Footprint::global();
    }
    if op.is_before_load() {
        let reads: Vec<(Range<u64>, bool)> = op.spans.iter().map(|(span, _)| (span.clone(), false)).collect();
        return accessed(&reads);
    }
    if !op.spans.is_empty() {
        return accessed(&op.spans);
    }
    let mutex = op.sync.as_ref().and_then(|sync| sync.mutex);
    let footprint = and_memory(Footprint::local(), op.object, access(&op.kind));
    match mutex {
        Some(mutex) => footprint.and_write(memory(mutex)),
        None => footprint,
    }
}

/// Address 0 stands for everything: a function that flushes all streams, say.
fn and_memory(footprint: Footprint, address: u64, access: explore::Access) -> Footprint {
    match address {
        0 => footprint.and_global(),
        _ => footprint.and(memory(address), access),
    }
}

/// Is it reached through a number in the descriptor table, which another thread may close and use anew?
fn is_behind_a_descriptor(object: &Object) -> bool {
    matches!(
        object,
        Object::Description(_) | Object::Channel(_) | Object::Output(_)
    )
}

/// One entry of the descriptor table.
fn slot(fd: u64) -> u64 {
    let mut hasher = Xxh3::new();
    ("descriptor", fd as u32).hash(&mut hasher);
    hasher.finish()
}

fn access(kind: &SiteKind) -> explore::Access {
    match kind {
        SiteKind::Memory(accesses) if !accesses.writes() => explore::Access::Read,
        SiteKind::Sync(function) if function.only_reads() => explore::Access::Read,
        _ => explore::Access::Write,
    }
}

/// Every word that a load or store touches; long ones (string instructions) count as everything.
fn accessed(spans: &[(Range<u64>, bool)]) -> Footprint {
    const LONG: u64 = 256;
    spans
        .iter()
        .fold(Footprint::local(), |footprint, (span, writes)| {
            if span.end - span.start > LONG {
                return footprint.and_global();
            }
            let access = if *writes {
                explore::Access::Write
            } else {
                explore::Access::Read
            };
            (span.start & !7..span.end)
                .step_by(8)
                .fold(footprint, |f, word| f.and(memory(word), access))
        })
}

fn touched<'a>(touches: impl Iterator<Item = &'a Touch>) -> Footprint {
    touches.fold(Footprint::local(), |footprint, touch| {
        match (&touch.object, touch.access) {
            (Object::Everything, _) => footprint.and_global(),
            (object, Access::Read) => footprint.and_read(key(object)),
            (object, Access::Write) => footprint.and_write(key(object)),
        }
    })
}

/// A pipe, socket, or the like.
pub(super) fn channel(id: ChannelId) -> u64 {
    key(&Object::Channel(id.0))
}

fn memory(address: u64) -> u64 {
    // Locks and atomics that share a word must meet, whatever their width.
    key(&Object::Memory(address & !7))
}

fn key(object: &Object) -> u64 {
    let object = match object {
        Object::Memory(address) => &Object::Memory(address & !7),
        other => other,
    };
    let mut hasher = Xxh3::new();
    object.hash(&mut hasher);
    hasher.finish()
}
