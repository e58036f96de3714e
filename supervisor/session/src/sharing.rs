//! Which memory threads may share, for `--preempt memory`: not a thread's own stack, not what nobody can write.

use super::Options;
use super::Session;
use super::TaskMemory;
use super::context::Threads;
use super::context::{HookOp, Span};
use super::spaces::Space;
use super::spaces::Spaces;
use super::stacks::Explain;
use crate::maps::{Mapping, read_maps};
use failure::Failure;
use hooks::Place;
use hooks::SiteKind;
use std::ops::Range;
use std::sync::Arc;
use syscall_model::GuestMemory;
use syscall_model::Model;
use syscall_model::{Pending, Tid};
use tracee::Regs;

/// Two threads about to access the same memory, at least one of them to write it, with nothing that orders them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    pub address: u64,
    /// The threads, with whether each writes.
    pub sides: [(Tid, bool); 2],
}

impl Session {
    /// Could another thread see or make a difference at any of these places?
    pub(super) fn may_be_shared(
        &mut self,
        spans: &[Span],
        regs: &Regs,
        place: Place,
    ) -> Result<bool, Failure> {
        let maps = self.spaces.here.mappings()?;
        let holding = |address: u64| maps.iter().find(|map| (map.start..map.end).contains(&address));
        let stack = holding(regs.rsp)
            .map(|map| map.start..map.end)
            .unwrap_or_default();
        let is_lent = |span: &Range<u64>| match (&self.options.walk, place) {
            (Some(walk), _) => walk.lent.range(span.start & !7..span.end).next().is_some(),
            (None, Place::Instruction(site) | Place::Atomic(site)) => {
                self.options.watched.own_stack.contains(&site)
            }
            (None, Place::Call(site) | Place::Kernel(site)) => self.options.watched.calls.contains(&site),
        };
        Ok(spans.iter().any(|(span, _)| {
            let own = stack.contains(&span.start) && !is_lent(span);
            // What can only be read here may be written by calls, if it is a file's.
            let changes =
                |map: &Mapping| map.writable || self.model.fs.shared_in(span.start, span.end - span.start);
            !own && !span.is_empty() && holding(span.start).is_none_or(changes)
        }))
    }
}

impl Space {
    /// The mappings of the task, read again only when they may have changed.
    fn mappings(&mut self) -> Result<Arc<Vec<Mapping>>, Failure> {
        if let Some((version, maps)) = &self.known.mappings
            && *version == self.layout_version
        {
            return Ok(Arc::clone(maps));
        }
        let maps = Arc::new(read_maps(self.task()?.pid())?);
        self.known.mappings = Some((self.layout_version, Arc::clone(&maps)));
        Ok(maps)
    }
}

/// Which memory threads are about to use, and what was freed.
#[derive(Clone, Copy)]
pub struct Sharing<'a> {
    pub(super) model: &'a Model,
    pub(super) threads: &'a Threads,
    pub(super) spaces: &'a Spaces,
    pub(super) options: &'a Options,
    pub(super) explain: Explain<'a>,
}

impl<'a> Sharing<'a> {
    /// What the atomic instruction works on before which a thread stands, or a function that is one.
    pub fn atomic_object(self, tid: Tid) -> Option<(Range<u64>, u64)> {
        let op = self.threads.hook(tid)?;
        if matches!(op.kind, SiteKind::Library(function) if function.is_atomic()) {
            let (span, _) = op.spans.first()?;
            return Some((span.clone(), op.site));
        }
        let SiteKind::Atomic(access) = op.kind else {
            return None;
        };
        let width = u64::from(access.width.max(1));
        Some((op.object..op.object.saturating_add(width), op.site))
    }

    /// Does what the atomic instruction before which a thread stands found decide what the thread does next? It does not where it only stores.
    pub fn finds_out_by_atomic(self, tid: Tid) -> bool {
        let op = self.threads.hook(tid);
        op.is_some_and(|op| matches!(op.kind, SiteKind::Atomic(access) if access.reads))
    }

    /// What an object of at most eight bytes holds, in the memory of this thread's process.
    pub fn value_of(self, tid: Tid, object: &Range<u64>) -> Option<u64> {
        let mut bytes = [0; 8];
        let held = bytes.get_mut(..(object.end - object.start) as usize)?;
        let memory = TaskMemory::new(self.spaces.of(self.model, tid).task.as_ref()?);
        memory.read(object.start, held).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// The lock of the C library that a thread is about to take for certain, or to give back, and which of the two.
    pub fn lock_step(self, tid: Tid) -> Option<(u64, bool)> {
        let op = self.threads.hook(tid)?;
        op.sync.as_ref()?;
        let object = self.model.memory_name(tid, op.object);
        match op.name() {
            "pthread_mutex_lock" | "pthread_rwlock_wrlock" | "pthread_spin_lock" => Some((object, true)),
            "pthread_mutex_unlock" | "pthread_rwlock_unlock" | "pthread_spin_unlock" => Some((object, false)),
            _ => None,
        }
    }

    /// Does a thread come after another by this step because it waits for it, or was made by it? What it finds in a lock, a semaphore or a file, or counts by
    /// an atomic operation, is an accident.
    pub fn is_ordered_by_waiting(self, tid: Tid) -> bool {
        use syscall_model::Sysno;
        let op = self.threads.hook(tid);
        match self.model.thread(tid).pending {
            Pending::Hook(_) => {
                let sync = op.and_then(|op| op.sync.as_ref());
                sync.is_some_and(|sync| sync.function.waits_for_others())
            }
            Pending::Call(call) => matches!(
                call.sysno,
                Sysno::futex
                    | Sysno::clone
                    | Sysno::clone3
                    | Sysno::fork
                    | Sysno::vfork
                    | Sysno::wait4
                    | Sysno::waitid
                    | Sysno::exit
                    | Sysno::exit_group
            ),
            _ => true,
        }
    }

    /// The handle by which glibc knows a thread: where its thread-local memory is.
    pub fn handle(self, tid: Tid) -> Option<u64> {
        let context = self.threads.get(&tid)?;
        Some(self.model.memory_name(tid, context.regs.fs_base))
    }

    /// Is it seen when a thread waits for another one that has ended already?
    pub fn sees_joins(self) -> bool {
        self.spaces.here.code.has_join()
    }

    /// The data races in this state: two threads stand before accesses that conflict. Both can run now, so neither
    /// waits for the other, and either may come first. Loads and stores of atomics that the compiler made plain
    /// instructions are none, as far as debug information tells.
    pub fn races(self) -> Vec<Race> {
        let mut found = Vec::new();
        let standing: Vec<(Tid, &HookOp)> = self
            .threads
            .iter()
            .filter_map(|(&tid, context)| Some((tid, context.hook.as_ref()?)))
            .collect();
        for (i, (one, ours)) in standing.iter().enumerate() {
            for (other, theirs) in &standing[i + 1..] {
                for (a, a_writes) in &ours.spans {
                    for (b, b_writes) in &theirs.spans {
                        let (a_name, b_name) = (self.name_of(*one, a), self.name_of(*other, b));
                        let meet = a_name.start < b_name.end && b_name.start < a_name.end;
                        if (*a_writes || *b_writes) && meet && !self.are_atomic(&[(ours, a), (theirs, b)]) {
                            let sides = [(*one, *a_writes), (*other, *b_writes)];
                            found.push(Race {
                                address: a.start.max(b.start),
                                sides,
                            });
                        }
                    }
                }
            }
        }
        found
    }

    /// A stretch of a thread's memory, called the same by all who share it.
    pub fn name_of(self, tid: Tid, span: &Range<u64>) -> Range<u64> {
        if self.model.is_single() {
            return span.clone();
        }
        let start = self.model.memory_name(tid, span.start);
        start..start.saturating_add(span.end - span.start)
    }

    /// Are both accesses atomic operations?
    fn are_atomic(self, accesses: &[(&HookOp, &Range<u64>); 2]) -> bool {
        accesses.iter().all(|(op, span)| {
            self.options.watched.is_atomic(span)
                || matches!(op.kind, SiteKind::Library(function) if function.is_atomic())
                || (matches!(op.kind, SiteKind::Memory(_))
                    && self.explain.is_atomic_access(op.site, span) == Some(true))
        })
    }
}
