//! Which threads can move: a function of the model and of where they are parked.

use super::context::Threads;
use super::memory::expect;
use super::spaces::Spaces;
use super::{Context, TaskMemory};
use hooks::Blocked;
use std::collections::BTreeSet;
use syscall_model::{Model, Pending, Thread, Tid, Wake, table};

/// Looks in a row that find nothing after which the same goes. More than for yields, which say what they are: a program may try
/// a few times, and then do something else.
const LOOKS: u32 = 4;
/// Yields in a row after which a thread counts as waiting for time to pass.
const YIELDS: u32 = 2;

/// Who can move in a state.
#[derive(Clone, Copy)]
pub struct Movers<'a> {
    pub(super) model: &'a Model,
    pub(super) threads: &'a Threads,
    /// Peers that are processes of the execution move whenever they can: that is no choice.
    pub(super) peers_are_fixed: bool,
    /// The execution has ended, or will if nothing comes from outside.
    pub(super) is_over: bool,
}

impl<'a> Movers<'a> {
    /// The threads that can perform their next operation, sorted. Empty only at the end of the execution.
    pub fn enabled(self) -> Vec<Tid> {
        if self.is_over {
            return Vec::new();
        }
        let mut fair = self.fair();
        fair.retain(|&tid| self.is_scheduled(tid));
        fair
    }

    /// Does a thread of the program wait until some moment at most, while others can go on?
    pub fn waits_for_time(self) -> bool {
        let is_bounded = |tid: &Tid| {
            let wait = self.model.thread(*tid).wait.as_ref();
            self.model.peer_of(*tid).is_none() && wait.is_some_and(|wait| wait.deadline.is_some())
        };
        self.model.tids().iter().any(is_bounded) && self.able().next().is_some()
    }

    /// The threads that can move and do not let others go first.
    pub(super) fn fair(self) -> Vec<Tid> {
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
    pub(super) fn able(self) -> impl Iterator<Item = Tid> + 'a {
        self.model
            .tids()
            .into_iter()
            .filter(move |&tid| self.can_run(tid))
    }

    /// `able` is sorted.
    fn yields(self, tid: Tid, able: &[Tid]) -> bool {
        let mut others = self.model.thread(tid).yields_to.iter();
        others.any(|other| able.binary_search(other).is_ok())
    }

    fn can_run(self, tid: Tid) -> bool {
        if self.model.is_stopped(tid) {
            return false;
        }
        if self.model.deliverable(tid).is_some() {
            return true;
        }
        match self.model.wake_reason(tid) {
            Some(Wake::Ready) => self.threads.blocked(tid) == Blocked::No,
            Some(Wake::TimedOut) => true,
            // A timed lock waits for its deadline in the model, for the lock itself here.
            None => self.is_hooked(tid) && self.threads.blocked(tid) == Blocked::No,
        }
    }

    fn is_hooked(self, tid: Tid) -> bool {
        matches!(self.model.thread(tid).pending, Pending::Hook(_))
    }

    /// Does this thread do nothing but yield, or look for what is not there?
    pub(super) fn idles(self, tid: Tid) -> bool {
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
                .threads
                .get(&tid)
                .and_then(|c| c.hook.as_ref())
                .is_some_and(|h| h.is_pause()),
            _ => false,
        };
        yielding && thread.idle_yields >= YIELDS
    }

    /// Can somebody do more than yield, or look for what is not there?
    pub fn somebody_moves_on(self) -> bool {
        self.able().any(|tid| !self.idles(tid))
    }

    fn is_about_to_look(self, tid: Tid) -> bool {
        let Some(context) = self.threads.get(&tid) else {
            return false;
        };
        match &self.model.thread(tid).pending {
            Pending::Call(call) => {
                context.look.is_some() || context.loops.refused.as_ref() == Some(&(context.regs.rip, *call))
            }
            _ => false,
        }
    }

    /// Does anybody wait for clients, or look for them?
    pub(super) fn awaits_clients(self) -> bool {
        let looks = |context: &Context| {
            let on = context.look.as_ref();
            on.is_some_and(|on| self.model.is_about_clients(on))
        };
        let own = |(tid, _): &(&Tid, &Context)| self.model.peer_of(**tid).is_none();
        let mut own = self.threads.iter().filter(own);
        self.model.awaits_clients() || own.any(|(_, context)| looks(context))
    }

    /// Those who can move beside this one.
    pub(super) fn others_than(self, tid: Tid) -> BTreeSet<Tid> {
        let able = self.able();
        able.filter(|&other| other != tid && self.is_scheduled(other) == self.is_scheduled(tid))
            .collect()
    }

    /// Is this thread one of those whose turn is a choice?
    pub(super) fn is_scheduled(self, tid: Tid) -> bool {
        !self.peers_are_fixed || self.model.peer_of(tid).is_none()
    }

    /// The threads of the program, or of all who are explored with it.
    pub fn scheduled(self) -> Vec<Tid> {
        let mut tids = self.model.tids();
        tids.retain(|&tid| self.is_scheduled(tid));
        tids
    }
}

/// One more look of a thread that found nothing. After a few of them others come first, or it could look for ever while
/// they could bring about what it looks for.
pub(super) fn looked_in_vain(thread: &mut Thread, others: BTreeSet<Tid>) {
    thread.idle_looks = (thread.idle_looks + 1).min(LOOKS);
    if thread.idle_looks == LOOKS {
        thread.yields_to = others;
    }
}

/// A thread has let the others go first: it runs again when each of those that can move now has moved.
pub(super) fn has_yielded(thread: &mut Thread, others: BTreeSet<Tid>) {
    thread.yields_to = others;
    // Beyond that the number says nothing more, and a loop that yields for ever would never be in the same state twice.
    thread.idle_yields = (thread.idle_yields + 1).min(YIELDS);
}

impl Threads {
    /// Memory has changed: reads the locks before which threads stand.
    pub(super) fn look_at_locks(&mut self, model: &Model, spaces: &Spaces) {
        let operation = |(&tid, context): (&Tid, &Context)| {
            let sync = context.hook.as_ref()?.sync.as_ref()?;
            Some((tid, *sync))
        };
        let operations: Vec<_> = self.iter().filter_map(operation).collect();
        for context in self.values_mut() {
            context.blocked = Blocked::No;
        }
        if operations.is_empty() {
            return;
        }
        for space in spaces.all() {
            let Some(task) = &space.task else { continue };
            let is_here = |tid: Tid| spaces.is_in(model, tid, space.id);
            let here: Vec<_> = operations.iter().filter(|(tid, _)| is_here(*tid)).collect();
            expect(
                task,
                here.iter().map(|(_, op)| op.object),
                space.code.thread_count(),
            );
            let memory = TaskMemory::new(task);
            for (tid, op) in here {
                self.at(*tid).blocked = hooks::would_block(op, *tid, &memory);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syscall_model::{Config, OnSignal, Wait};

    const FIRST: Tid = 1000;
    const SECOND: Tid = 1001;

    /// Two threads that are about to begin.
    fn two() -> (Model, Threads) {
        let mut model = Model::new(&Config::default());
        let second = Thread::new(SECOND, [0; 16], 0);
        model.threads.insert(SECOND, second);
        let mut threads = Threads::of_first(FIRST);
        threads.insert(SECOND, Context::default());
        for tid in [FIRST, SECOND] {
            model.thread_mut(tid).pending = Pending::Start;
        }
        (model, threads)
    }

    fn movers<'a>(model: &'a Model, threads: &'a Threads) -> Movers<'a> {
        Movers {
            model,
            threads,
            peers_are_fixed: false,
            is_over: false,
        }
    }

    #[test]
    fn a_thread_before_a_lock_that_is_held_cannot_move() {
        let (mut model, mut threads) = two();
        model.thread_mut(SECOND).pending = Pending::Hook(0x1000);
        assert_eq!(movers(&model, &threads).enabled(), [FIRST, SECOND]);
        threads.at(SECOND).blocked = Blocked::HeldBy(FIRST);
        assert_eq!(movers(&model, &threads).enabled(), [FIRST]);
        threads.at(SECOND).blocked = Blocked::No;
        assert_eq!(movers(&model, &threads).enabled(), [FIRST, SECOND]);
    }

    #[test]
    fn who_lets_others_go_first_waits_for_those_who_can_move() {
        let (mut model, threads) = two();
        let others = movers(&model, &threads).others_than(FIRST);
        assert_eq!(others, BTreeSet::from([SECOND]));
        has_yielded(model.thread_mut(FIRST), others);
        assert_eq!(movers(&model, &threads).enabled(), [SECOND]);
        // The other one sleeps: nobody is there to be let go first.
        model.thread_mut(SECOND).wait = Some(Wait::sleep(None, OnSignal::Restart));
        model.thread_mut(SECOND).pending = Pending::Return(0);
        assert_eq!(movers(&model, &threads).enabled(), [FIRST]);
    }

    #[test]
    fn threads_that_all_let_others_go_first_can_all_move() {
        let (mut model, threads) = two();
        has_yielded(model.thread_mut(FIRST), BTreeSet::from([SECOND]));
        has_yielded(model.thread_mut(SECOND), BTreeSet::from([FIRST]));
        assert_eq!(movers(&model, &threads).enabled(), [FIRST, SECOND]);
    }

    #[test]
    fn a_thread_that_has_yielded_often_idles() {
        let (mut model, threads) = two();
        model.thread_mut(FIRST).pending = Pending::Spin;
        assert!(!movers(&model, &threads).idles(FIRST));
        for _ in 0..YIELDS {
            has_yielded(model.thread_mut(FIRST), BTreeSet::new());
        }
        assert!(movers(&model, &threads).idles(FIRST));
    }

    #[test]
    fn nobody_moves_when_it_is_over() {
        let (model, threads) = two();
        let movers = Movers {
            is_over: true,
            ..movers(&model, &threads)
        };
        assert!(movers.enabled().is_empty());
    }
}
