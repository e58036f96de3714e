//! When nobody can move, and signals from outside are asked for: does the program wait for one?
//!
//! A program that stands in `sigsuspend`, or whose handler is what sets its threads free, is as well as a server that waits for clients: without a further
//! signal it is *idle*. Threads that wait for each other are deadlocked even so, though a signal would end the process. What a handler will do cannot be known
//! before it has run. So if there is one, to rest is no deadlock: the search has the signal come, too, and that shows what the handler does. Either it sets somebody free, or all come to rest
//! again, in the end with no signal left that may come, or it ends the process. That last case is the deadlock: somebody has to end a program that does not go on ([`Roused`]).

use super::Session;
use super::enabled::Movers;
use super::faults::{FaultPlan, Hazards};
use syscall_model::processes::Pid;
use syscall_model::signals::{Disposition, SigInfo, Signals, bit};
use syscall_model::{Model, Tid, WaitFor};
use trace::End;

/// A thread takes a signal from outside while no thread can move.
#[derive(Clone, Debug)]
pub(super) struct Roused {
    tid: Tid,
    process: Pid,
    /// Its stack when it took the signal: while its handler runs, it stands below that, or on the alternate stack.
    sp: u64,
    was_aside: bool,
    signal: i32,
    /// What the threads waited for.
    waits: Vec<String>,
}

impl<'a> Hazards<'a> {
    /// All have come to rest: may a signal still come that the program waits for?
    pub fn awaits_signal(self, plan: &FaultPlan) -> bool {
        self.ends.resting.is_some() && self.signals(plan).any(|signal| self.is_awaited(signal))
    }

    /// The signals that may come from outside, and would not just be dropped.
    pub(super) fn signals(self, plan: &FaultPlan) -> impl Iterator<Item = i32> + use<'a, '_> {
        let wanted = plan.signals.iter().copied();
        wanted.filter(move |&signal| Signals::is_heard(self.model, signal))
    }

    fn is_awaited(self, signal: i32) -> bool {
        let mut model = self.model.clone();
        from_outside(&mut model, signal);
        match receiver(&model) {
            // It ends the process, or stops it.
            None if Signals::fatal(&model).is_some() => waits_for_it(self.model, signal),
            Some((_, Disposition::Core)) => waits_for_it(self.model, signal),
            Some((_, Disposition::Handler { .. })) => true,
            _ => self.sets_free(&model),
        }
    }

    /// Can anybody move in this model who could not before: who takes the signal by a call, or was stopped?
    fn sets_free(self, model: &Model) -> bool {
        let then = Movers { model, ..self.movers };
        let before: Vec<Tid> = self.movers.able().collect();
        then.able().any(|tid| !before.contains(&tid))
    }
}

/// A signal for the process that is in place. The sender is in another world, in which we have no number.
pub(super) fn from_outside(model: &mut Model, signal: i32) {
    Signals::send_process(model, SigInfo::user(signal, 0, 0));
}

/// Who takes a signal next, of the process that is in place, and what comes of that.
fn receiver(model: &Model) -> Option<(Tid, Disposition)> {
    let mut threads = model.threads.values();
    threads.find_map(|thread| {
        let signal = model.signals.deliverable(thread)?;
        match model.signals.disposition(signal) {
            Disposition::Terminate => None,
            disposition => Some((thread.tid, disposition)),
        }
    })
}

/// Does a thread do nothing but wait for a signal, or is it in a call that lets this one in on purpose?
fn waits_for_it(model: &Model, signal: i32) -> bool {
    model.threads.values().any(|thread| {
        let Some(wait) = &thread.wait else {
            return false;
        };
        let lets_in = |before: u64| (before & !thread.signals.mask) & bit(signal) != 0;
        let is_for_signals = match &wait.on {
            WaitFor::Nothing => wait.deadline.is_none(),
            WaitFor::Ready(on) => wait.deadline.is_none() && on.is_empty(),
            _ => false,
        };
        is_for_signals || thread.signals.saved_mask.is_some_and(lets_in)
    })
}

impl Session {
    /// Before a signal comes from outside: are all deadlocked, so that its handler must set somebody free?
    pub(super) fn rouse(&mut self, signal: i32) {
        self.ends.roused = None;
        if self.ends.resting != Some(End::Deadlock) || waits_for_it(&self.model, signal) {
            return;
        }
        let mut then = self.model.clone();
        from_outside(&mut then, signal);
        let Some((tid, Disposition::Handler { .. })) = receiver(&then) else {
            return;
        };
        let sp = self.threads.at(tid).regs.rsp;
        self.ends.roused = Some(Roused {
            tid,
            process: self.model.process.pid,
            sp,
            was_aside: self.is_on_alternate_stack(tid, sp),
            signal,
            waits: self.explain().all_stuck(),
        });
    }

    /// Once it has left its handler, or has set somebody free, the search sees what comes of that.
    pub(super) fn look_at_roused(&mut self) {
        let Some(roused) = &self.ends.roused else {
            return;
        };
        let has_ended = self.model.process_at(roused.process).is_none();
        if !has_ended && (self.has_set_free(roused) || self.is_back(roused)) {
            self.ends.roused = None;
        }
    }

    fn has_set_free(&self, roused: &Roused) -> bool {
        let movers = self.movers();
        movers
            .able()
            .any(|tid| tid != roused.tid && self.model.peer_of(tid).is_none())
    }

    /// Also where the handler has left by a jump.
    fn is_back(&self, roused: &Roused) -> bool {
        let Some(context) = self.threads.get(&roused.tid) else {
            return false;
        };
        let sp = context.regs.rsp;
        let is_aside = !roused.was_aside && self.is_on_alternate_stack(roused.tid, sp);
        self.model.deliverable(roused.tid).is_none() && sp >= roused.sp && !is_aside
    }

    /// At the end: the signal that ended a program in which no thread could move, and what they waited for.
    pub fn roused_in_vain(&self) -> Option<(i32, &[String])> {
        let roused = self.ends.roused.as_ref()?;
        Some((roused.signal, &roused.waits))
    }
}
