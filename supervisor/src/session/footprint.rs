//! What the pending operation of a thread touches: the ground of partial-order reduction.

use super::Session;
use crate::hooks::{Blocked, SiteKind};
use explore::Footprint;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use syscall_model::{Access, Object, Pending, Sysno, Tid, Touch};
use xxhash_rust::xxh3::Xxh3;

impl Session {
    /// The footprint of what this thread does next, up to its next parking point.
    pub fn footprint(&self, tid: Tid) -> Footprint {
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
            Pending::Call(call) if matches!(call.sysno, Sysno::exit_group) => Footprint::ending(),
            // Fairness looks at all threads.
            Pending::Call(call) if call.sysno == Sysno::sched_yield => Footprint::global(),
            Pending::Call(_) => touched(&context.touches),
            Pending::Hook(_) => match &context.hook {
                Some(op) if op.is_pause() => Footprint::global(),
                Some(op) if !op.spans.is_empty() => accessed(&op.spans),
                Some(op) => {
                    let mutex = op.sync.as_ref().and_then(|sync| sync.mutex);
                    let all = [Some(op.object), mutex].into_iter().flatten();
                    all.fold(Footprint::local(), |f, addr| {
                        f.and(memory(addr), access(&op.kind))
                    })
                }
                None => Footprint::global(),
            },
            Pending::Return(_) => touched(&context.touches),
            Pending::Spin | Pending::Running => Footprint::global(),
        };
        self.with_enclosing_lock(footprint, tid)
    }

    /// Inside `pthread_cond_wait` and its kin a woken thread takes its mutex again without passing a parking
    /// point: every operation inside counts as one on the mutex too.
    fn with_enclosing_lock(&self, footprint: Footprint, tid: Tid) -> Footprint {
        let enclosing = self.contexts.get(&tid).and_then(|context| context.inside);
        match enclosing {
            Some((object, mutex)) => footprint.and_write(memory(object)).and_write(memory(mutex)),
            None => footprint,
        }
    }

    /// A cycle of threads each of which waits for a lock that the next one holds.
    pub fn lock_cycle(&self) -> Option<Vec<Tid>> {
        let next = |tid: Tid| match self.lock_state(tid) {
            Blocked::HeldBy(owner) => Some(owner),
            _ => None,
        };
        for &start in self.model.threads.keys() {
            let mut path = vec![start];
            let mut at = start;
            while let Some(owner) = next(at).filter(|owner| self.model.threads.contains_key(owner)) {
                if owner == start {
                    return Some(path);
                }
                if path.contains(&owner) {
                    break;
                }
                path.push(owner);
                at = owner;
            }
        }
        None
    }
}

fn access(kind: &SiteKind) -> explore::Access {
    match kind {
        SiteKind::Memory(accesses) if !accesses.writes() => explore::Access::Read,
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

fn touched(touches: &[Touch]) -> Footprint {
    touches.iter().fold(Footprint::local(), |footprint, touch| {
        match (&touch.object, touch.access) {
            (Object::Everything, _) => footprint.and_global(),
            (object, Access::Read) => footprint.and_read(key(object)),
            (object, Access::Write) => footprint.and_write(key(object)),
        }
    })
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
