//! Which threads can move.

use super::Session;
use super::memory::Gathered;
use hooks::Blocked;
use std::collections::BTreeSet;
use syscall_model::{Pending, Tid, Wake, table};

/// Looks in a row that find nothing after which the same goes. More than for yields, which say what they are: a program may try
/// a few times, and then do something else.
const LOOKS: u32 = 4;
/// Yields in a row after which a thread counts as waiting for time to pass.
const PATIENCE: u32 = 2;

impl Session {
    /// The threads that can perform their next operation, sorted. Empty only at the end of the execution.
    pub fn enabled(&self) -> Vec<Tid> {
        if self.ended.is_some() {
            return Vec::new();
        }
        let mut fair = self.fair();
        fair.retain(|&tid| self.is_scheduled(tid));
        fair
    }

    /// The threads that can move and do not let others go first.
    pub(super) fn fair(&self) -> Vec<Tid> {
        let able: Vec<Tid> = self.able().collect();
        if !able.iter().any(|&tid| self.yields(tid, &able)) {
            return able;
        }
        let mut fair = able.clone();
        fair.retain(|&tid| !self.yields(tid, &able));
        // Threads that all wait for one another to move have all moved as far as they can.
        if fair.is_empty() { able } else { fair }
    }

    /// Threads that could run if nobody had to be fair.
    pub(super) fn able(&self) -> impl Iterator<Item = Tid> + '_ {
        self.model.tids().into_iter().filter(|&tid| self.can_run(tid))
    }

    /// `able` is sorted.
    fn yields(&self, tid: Tid, able: &[Tid]) -> bool {
        let mut others = self.model.thread(tid).yields_to.iter();
        others.any(|other| able.binary_search(other).is_ok())
    }

    fn can_run(&self, tid: Tid) -> bool {
        if self.model.is_stopped(tid) {
            return false;
        }
        if self.model.deliverable(tid).is_some() {
            return true;
        }
        match self.model.wake_reason(tid) {
            Some(Wake::Ready) => self.lock_state(tid) == Blocked::No,
            Some(Wake::TimedOut) => true,
            // A timed lock waits for its deadline in the model, for the lock itself here.
            None => self.is_hooked(tid) && self.lock_state(tid) == Blocked::No,
        }
    }

    fn is_hooked(&self, tid: Tid) -> bool {
        matches!(self.model.thread(tid).pending, Pending::Hook(_))
    }

    /// Would the lock function before which this thread stands block?
    pub(crate) fn lock_state(&self, tid: Tid) -> Blocked {
        self.locks.get(&tid).copied().unwrap_or(Blocked::No)
    }

    /// Memory has changed: reads the locks before which threads stand.
    pub(super) fn look_at_locks(&mut self) {
        self.locks.clear();
        let operation = |(&tid, context): (&Tid, &'_ super::Context)| {
            let sync = context.hook.as_ref()?.sync.as_ref()?;
            Some((tid, *sync))
        };
        let operations: Vec<_> = self.contexts.iter().filter_map(operation).collect();
        if operations.is_empty() {
            return;
        }
        let mut found = Vec::with_capacity(operations.len());
        for space in self.all_spaces() {
            let Some(task) = &space.task else { continue };
            let is_here = |tid: Tid| self.spaces.is_empty() || self.space_of(tid).id == space.id;
            let here: Vec<_> = operations.iter().filter(|(tid, _)| is_here(*tid)).collect();
            let memory = Gathered::new(task, here.iter().map(|(_, op)| op.object));
            found.extend(
                here.into_iter()
                    .map(|(tid, op)| (*tid, hooks::would_block(op, *tid, &memory))),
            );
        }
        self.locks.extend(found);
    }

    /// Does this thread do nothing but yield, or look for what is not there?
    pub(super) fn idles(&self, tid: Tid) -> bool {
        let thread = self.model.thread(tid);
        if self.model.deliverable(tid).is_some() {
            return false;
        }
        if thread.idle_looks >= LOOKS && self.is_about_to_look(tid) {
            return true;
        }
        let yielding = match &thread.pending {
            Pending::Spin => true,
            Pending::Call(call) => table::lookup(call.sysno).yields,
            Pending::Hook(_) => self
                .contexts
                .get(&tid)
                .and_then(|c| c.hook.as_ref())
                .is_some_and(|h| h.is_pause()),
            _ => false,
        };
        yielding && thread.idle_yields >= PATIENCE
    }

    fn is_about_to_look(&self, tid: Tid) -> bool {
        let Some(context) = self.contexts.get(&tid) else {
            return false;
        };
        match &self.model.thread(tid).pending {
            Pending::Call(call) => {
                context.look.is_some() || context.refused.as_ref() == Some(&(context.regs.rip, *call))
            }
            _ => false,
        }
    }

    /// Does anybody wait for clients, or look for them?
    pub(super) fn awaits_clients(&self) -> bool {
        let looks = |context: &super::Context| {
            let on = context.look.as_ref();
            on.is_some_and(|on| self.model.is_about_clients(on))
        };
        let own = |(tid, _): &(&Tid, &super::Context)| self.model.peer_of(**tid).is_none();
        let mut own = self.contexts.iter().filter(own);
        self.model.awaits_clients() || own.any(|(_, context)| looks(context))
    }

    /// One more look of `tid` that found nothing. After a few of them others come first, or it could look for ever while
    /// they could bring about what it looks for.
    pub(super) fn looked_in_vain(&mut self, tid: Tid) {
        let others = self.others_than(tid);
        let thread = self.model.thread_mut(tid);
        thread.idle_looks = (thread.idle_looks + 1).min(LOOKS);
        if thread.idle_looks == LOOKS {
            thread.yields_to = others;
        }
    }

    /// Those who can move beside this one.
    fn others_than(&self, tid: Tid) -> BTreeSet<Tid> {
        let able = self.able();
        able.filter(|&other| other != tid && self.is_scheduled(other) == self.is_scheduled(tid))
            .collect()
    }

    /// `tid` has let the others go first: it runs again when each of those that can move now has moved.
    pub(super) fn yield_from(&mut self, tid: Tid) {
        let others = self.others_than(tid);
        let thread = self.model.thread_mut(tid);
        thread.yields_to = others;
        // Beyond that the number says nothing more, and a loop that yields for ever would never be in the same state twice.
        thread.idle_yields = (thread.idle_yields + 1).min(PATIENCE);
    }
}
