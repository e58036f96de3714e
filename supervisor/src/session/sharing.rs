//! Which memory threads may share, for `--preempt memory`: not a thread's own stack, not what nobody can write.

use super::Session;
use super::context::Span;
use crate::code::{Mapping, read_maps};
use crate::error::Failure;
use crate::hooks::SiteKind;
use std::sync::Arc;
use syscall_model::Tid;
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
    pub(super) fn may_be_shared(&mut self, spans: &[Span], regs: &Regs) -> Result<bool, Failure> {
        let maps = self.mappings()?;
        let holding = |address: u64| maps.iter().find(|map| (map.start..map.end).contains(&address));
        let stack = holding(regs.rsp)
            .map(|map| map.start..map.end)
            .unwrap_or_default();
        Ok(spans.iter().any(|(span, _)| {
            let own = stack.contains(&span.start);
            !own && !span.is_empty() && holding(span.start).is_none_or(|map| map.writable)
        }))
    }

    /// The mappings of the task, read again only when they may have changed.
    fn mappings(&mut self) -> Result<Arc<Vec<Mapping>>, Failure> {
        if let Some((version, maps)) = &self.mappings
            && *version == self.layout_version
        {
            return Ok(Arc::clone(maps));
        }
        let maps = Arc::new(read_maps(self.task()?.pid())?);
        self.mappings = Some((self.layout_version, Arc::clone(&maps)));
        Ok(maps)
    }

    /// The plain load or store before which a thread stands: where it is, and what it touches.
    pub fn plain_access(&self, tid: Tid) -> Option<(u64, Vec<Span>)> {
        let op = self.contexts.get(&tid)?.hook.as_ref()?;
        let is_plain = matches!(op.kind, SiteKind::Memory(_));
        is_plain.then(|| (op.site, op.spans.clone()))
    }

    /// The word that the atomic instruction works on before which a thread stands.
    pub fn atomic_word(&self, tid: Tid) -> Option<u64> {
        let op = self.contexts.get(&tid)?.hook.as_ref()?;
        matches!(op.kind, SiteKind::Atomic(_)).then_some(op.object & !7)
    }

    /// The calls of `pthread_join` since this was last asked: who makes it, and the handle of the thread that is waited for.
    pub fn take_joins(&mut self) -> Vec<(Tid, u64)> {
        std::mem::take(&mut self.joins)
    }

    /// The handle by which glibc knows a thread: where its thread-local memory is.
    pub fn handle(&self, tid: Tid) -> Option<u64> {
        self.contexts.get(&tid).map(|context| context.regs.fs_base)
    }

    /// Is it seen when a thread waits for another one that has ended already?
    pub fn sees_joins(&self) -> bool {
        self.code.has_join()
    }

    /// A data race in this state: two threads stand before accesses that conflict. Both can run now, so neither
    /// waits for the other, and either may come first. Loads and stores of C11 and C++ atomics that the compiler
    /// made plain instructions look the same; a machine-code checker cannot tell them apart.
    pub fn race(&self) -> Option<Race> {
        let standing: Vec<(Tid, &[Span])> = self
            .contexts
            .iter()
            .filter_map(|(&tid, context)| Some((tid, context.hook.as_ref()?.spans.as_slice())))
            .collect();
        for (i, (one, ours)) in standing.iter().enumerate() {
            for (other, theirs) in &standing[i + 1..] {
                for (a, a_writes) in *ours {
                    for (b, b_writes) in *theirs {
                        if (*a_writes || *b_writes) && a.start < b.end && b.start < a.end {
                            let sides = [(*one, *a_writes), (*other, *b_writes)];
                            return Some(Race {
                                address: a.start.max(b.start),
                                sides,
                            });
                        }
                    }
                }
            }
        }
        None
    }
}
