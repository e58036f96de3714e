//! A transition: one thread performs its pending operation and runs to its next parking point.

use super::Session;
use super::enabled::{has_yielded, looked_in_vain};
use failure::Failure;
use syscall_model::faults::Fault;
use syscall_model::{Call, Pending, Sysno, Tid, table};
use trace::{End, Operation, Step};
use tracee::{Outcome, Regs, Resume, Stop};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Invisible calls in one transition after which the thread counts as spinning.
const MAX_INVISIBLE: u32 = 100_000;

/// What happened on the way between two parking points.
#[derive(Clone, Debug, Default)]
pub(super) struct Transit {
    pub digest: u64,
    pub invisible: u32,
    /// The thread that this transition left in a loop.
    pub spins: Option<Tid>,
    /// Memory that others may use was unmapped.
    pub took_memory: bool,
    /// It is a call that looks for something without waiting for it.
    pub looks: bool,
    /// It is a load, which changes nothing that anybody waits for.
    pub loads: bool,
    /// Operations that were passed without parking, since nobody else is there.
    pub alone: u32,
    /// Threads that it joined, by their handle, and that had ended before.
    pub joined: Vec<u64>,
    /// How often the supervisor has looked up while the task ran.
    pub ticks: u32,
    /// The task that runs.
    pub task: super::TaskKey,
    /// Peers that are processes of the execution have moved, or were launched.
    pub residents_moved: bool,
    pub residents_launched: bool,
    /// The thread waits in a loop, and makes its rounds in this step.
    pub rounds: Option<super::rounds::Rounds>,
}

impl Transit {
    pub fn note(&mut self, words: &[u64]) {
        for word in words {
            self.digest = xxh3_64_with_seed(&word.to_le_bytes(), self.digest);
        }
    }
}

/// What was chosen before a transition begins, for it to come true.
#[derive(Default)]
pub(super) struct Choice {
    /// How the call goes wrong.
    pub fault: Option<Fault>,
    /// What has arrived, in words, where that was a choice.
    pub arrived: Option<String>,
    /// The signal that the thread takes now has come while its call waited for what is on its way.
    pub breaks_in: bool,
}

/// What an operation came to.
enum Effort {
    /// It looked for something that is not there.
    Vain,
    /// Such loops do it too.
    Neutral,
    Real,
}

pub(super) fn is_lock(name: &str) -> bool {
    ["pthread_mutex_", "pthread_rwlock_", "pthread_spin_"]
        .iter()
        .any(|kind| name.starts_with(kind))
}

/// Where a thread is after its operation was performed.
#[allow(
    clippy::large_enum_variant,
    reason = "passed by value, never stored: a box would cost an allocation per stop"
)]
pub(super) enum Flow {
    /// Its registers are ready: it runs.
    Run(Regs),
    /// It stands where it stood and waits.
    Parked,
    /// It is gone, or the whole process is.
    Ended,
    /// It ran into a stop that is not dealt with yet.
    Again,
}

impl Session {
    /// Lets `tid`, one of [`Movers::enabled`](crate::Movers::enabled), make its transition.
    pub fn step(&mut self, tid: Tid) -> Result<Step, Failure> {
        if self.model.find_thread(tid).is_none() {
            // The schedule is from an execution that went another way, say with another version of a library.
            return Err(Failure::desync(format!(
                "thread {tid} was to go on, but there is no such thread"
            )));
        }
        self.guards.step_begins();
        let step = self.whole_step(tid);
        self.guards.step_ends();
        step
    }

    fn whole_step(&mut self, tid: Tid) -> Result<Step, Failure> {
        let before = self.threads.at(tid).regs;
        let (operation, flow) = self.begin(tid)?;
        if let Flow::Run(regs) = flow {
            self.go(tid, regs)?;
        }
        self.complete(tid, operation, &before)
    }

    /// Performs the operation of a transition.
    pub(super) fn begin(&mut self, tid: Tid) -> Result<(Operation, Flow), Failure> {
        self.enter_process_of(tid);
        self.spaces.here.touched = true;
        self.transit = Transit {
            task: self.spaces.here.key,
            ..Transit::default()
        };
        self.seen.events.clear();
        self.seen.stuck_before = self.standstills().standstills(Some(tid));
        self.network.step_begins();
        self.perform_next(tid)
    }

    /// Performs the operation before which the thread stands, whose process is in place.
    pub(super) fn perform_next(&mut self, tid: Tid) -> Result<(Operation, Flow), Failure> {
        self.model.clock.visible_operation();
        self.load(tid)?;
        let context = self.threads.at(tid);
        context.spins = false;
        self.transit.looks = context.look.take().is_some();
        self.perform(tid)
    }

    /// The thread has parked again: the transition is over. `before` is where it stood.
    pub(super) fn complete(
        &mut self,
        tid: Tid,
        operation: Operation,
        before: &Regs,
    ) -> Result<Step, Failure> {
        self.after_move(tid, &operation, before)?;
        let now = self.model.clock.now();
        self.model.residents.program_moved(now);
        self.note_traffic_within();
        self.network.moved(&self.model);
        self.settle()?;
        self.note_traffic_within();
        self.network.step_over(&self.model);
        // How often it has looked at the clock since is nothing that the next step could tell.
        self.model.clock.visible_operation();
        self.go_home();
        Ok(Step {
            thread: tid,
            operation,
            at: before.rip,
            digest: self.transit.digest,
            alternative: 0,
            arrived: self.choice.arrived.take(),
        })
    }

    /// What follows every move of a thread.
    pub(super) fn after_move(
        &mut self,
        tid: Tid,
        operation: &Operation,
        before: &Regs,
    ) -> Result<(), Failure> {
        if self.may_leave_residue() && self.spaces.here.key == self.transit.task {
            let mut stands = self.threads.get(&tid).map_or(*before, |context| context.regs);
            let hook = self.threads.hook(tid);
            let mut is_call = hook.is_some_and(|op| op.sync.is_some());
            let thread = self.model.find_thread(tid);
            if let Some(thread) =
                thread.filter(|thread| thread.is_as_good_as_gone() && thread.on_exit.stack != 0)
            {
                // It never returns to what is on its stack, and leaves it to another thread.
                stands.rsp = thread.on_exit.stack;
                is_call = true;
            }
            self.wipe_residue(tid, &stands, is_call)?;
        }
        self.share_memory()?;
        self.threads.look_at_locks(&self.model, &self.spaces);
        self.moved(tid, operation, before);
        self.takes_time();
        Ok(())
    }

    /// The step in which no thread moved: the clock did, though somebody could have.
    pub(super) fn time_passed(&mut self, alternative: super::Alternative) -> Result<Step, Failure> {
        self.transit = Transit::default();
        self.network.step_begins();
        self.progressed();
        self.nobody_idles();
        self.settle()?;
        self.note_traffic_within();
        self.network.step_over(&self.model);
        Ok(Step {
            thread: 0,
            operation: Operation::TimePasses,
            at: 0,
            digest: 0,
            alternative: alternative.number(),
            arrived: None,
        })
    }

    /// Keeps the books of fairness. `before` is where the thread stood.
    fn moved(&mut self, tid: Tid, operation: &Operation, before: &Regs) {
        self.note_doings(tid, operation);
        for thread in self.model.all_threads_mut() {
            thread.yields_to.remove(&tid);
        }
        for (_, context) in self.threads.iter_mut().filter(|(other, _)| **other != tid) {
            context.loops.unfair = 0;
        }
        if self.model.find_thread(tid).is_none() || self.ends.ended.is_some() {
            self.nobody_idles();
            return self.progressed();
        }
        let yielded = match operation {
            Operation::Spin => self.threads.at(tid).spins && self.threads.at(tid).regs == *before,
            Operation::Call { number, .. } => {
                Sysno::new(*number as usize).is_some_and(|sysno| table::lookup(sysno).yields)
            }
            Operation::Sync { name, .. } => name == "pause",
            _ => false,
        };
        let loads = self.transit.loads;
        if !yielded && !loads {
            self.progressed();
        }
        match self.effort(tid, operation, before) {
            _ if yielded || loads => {}
            Effort::Vain => {
                let others = self.movers().others_than(tid);
                looked_in_vain(self.model.thread_mut(tid), others);
            }
            Effort::Neutral => {}
            Effort::Real => self.nobody_idles(),
        }
        let is_loop = yielded || self.model.thread(tid).pending == Pending::Spin;
        if is_loop && !self.leaves_loop(tid) {
            let others = self.movers().others_than(tid);
            has_yielded(self.model.thread_mut(tid), others);
        }
    }

    /// What an operation came to, as far as waiting by looking again and again goes.
    fn effort(&mut self, tid: Tid, operation: &Operation, before: &Regs) -> Effort {
        let looks = self.transit.looks;
        let (call, result) = match operation {
            // Loops take locks around what they look at.
            Operation::Sync { name, .. } if is_lock(name) => return Effort::Neutral,
            Operation::Call { number, args, result } => match Sysno::new(*number as usize) {
                Some(sysno) => (Call::new(sysno, *args), *result),
                None => return Effort::Real,
            },
            _ => return Effort::Real,
        };
        if looks && result == Some(0) {
            return Effort::Vain;
        }
        let asked = (before.rip, call);
        let refused = result == Some(-i64::from(libc::EAGAIN));
        let context = self.threads.at(tid);
        let again = context.loops.refused.as_ref() == Some(&asked);
        context.loops.refused = refused.then_some(asked);
        match (refused, again) {
            (true, true) => Effort::Vain,
            (true, false) => Effort::Neutral,
            _ => Effort::Real,
        }
    }

    /// Something was done: nobody who looked for something knows that it is still not there.
    pub(super) fn nobody_idles(&mut self) {
        self.model.clock.progressed();
        for thread in self.model.all_threads_mut() {
            thread.idle_looks = 0;
        }
    }

    /// Something happened that a waiting loop may wait for: whoever was found to go round in circles must be
    /// looked at again.
    pub(super) fn progressed(&mut self) {
        for thread in self.model.all_threads_mut() {
            thread.idle_yields = 0;
        }
        let spins_now = self.transit.spins;
        for (&tid, context) in self.threads.iter_mut() {
            context.spins &= spins_now == Some(tid);
        }
    }

    /// Performs the operation before which the thread is parked.
    fn perform(&mut self, tid: Tid) -> Result<(Operation, Flow), Failure> {
        if let Some((signal, flow)) = self.take_signal(tid)? {
            return Ok((Operation::Signal { number: signal }, flow));
        }
        let pending = self.model.thread(tid).pending.clone();
        let mut regs = self.threads.at(tid).regs;
        match pending {
            Pending::Start => Ok((Operation::Start, Flow::Run(regs))),
            Pending::Running | Pending::Spin => Ok((Operation::Spin, Flow::Run(regs))),
            Pending::Return(result) => {
                self.model.end_wait(tid);
                regs.skip_call(result);
                Ok((Operation::Wake { result }, Flow::Run(regs)))
            }
            Pending::Created(child) => {
                self.model.thread_mut(tid).wait = None;
                regs.skip_call(child);
                Ok((Operation::Return, Flow::Run(regs)))
            }
            Pending::Call(call) => self.perform_call(tid, call, regs),
            Pending::Hook(_) => {
                self.model.thread_mut(tid).starved = false;
                self.perform_hook(tid, regs)
            }
        }
    }

    /// Makes `tid` the thread whose extended state the task has.
    pub(super) fn load(&mut self, tid: Tid) -> Result<(), Failure> {
        if self.spaces.here.loaded == tid {
            return Ok(());
        }
        let task = self.spaces.here.task.as_mut().ok_or_else(crate::spaces::gone)?;
        if let Some(context) = self.threads.get_mut(&self.spaces.here.loaded) {
            context.xstate = Some(task.xstate()?);
        }
        if let Some(xstate) = self
            .threads
            .get_mut(&tid)
            .and_then(|context| context.xstate.take())
        {
            task.set_xstate(&xstate)?;
        }
        self.spaces.here.loaded = tid;
        Ok(())
    }

    /// The thread runs from these registers to its next parking point.
    pub(super) fn go(&mut self, tid: Tid, regs: Regs) -> Result<(), Failure> {
        let tid = self.successor(tid);
        self.model.thread_mut(tid).pending = Pending::Running;
        self.flow_on(tid, Flow::Run(regs))
    }

    /// Resumes the task, whose registers are set, until its thread parks or ends.
    pub(super) fn run_to_park(&mut self, tid: Tid) -> Result<(), Failure> {
        let regs = *self.spaces.task()?.regs()?;
        self.flow_on(tid, Flow::Run(regs))
    }

    /// The thread itself; or the first of its process, which it has become by `execve`.
    fn successor(&self, tid: Tid) -> Tid {
        match self.model.threads.contains_key(&tid) {
            true => tid,
            false => self.model.process.pid,
        }
    }

    fn flow_on(&mut self, mut tid: Tid, mut flow: Flow) -> Result<(), Failure> {
        let mut watch = super::spin::Watch::default();
        let mut warned = false;
        loop {
            match flow {
                Flow::Run(regs) => {
                    self.spaces.task()?.set_regs(regs);
                    self.run_to_stop(tid, &mut watch)?;
                    if watch.is_long() && !std::mem::replace(&mut warned, true) {
                        self.warn_of_long_step(tid);
                    }
                }
                Flow::Again => {}
                Flow::Parked | Flow::Ended => return Ok(()),
            }
            flow = self.dispatch(tid)?;
            if matches!(flow, Flow::Run(_)) {
                tid = self.successor(tid);
            }
        }
    }

    /// Deals with the stop at which the task is.
    pub(super) fn dispatch(&mut self, tid: Tid) -> Result<Flow, Failure> {
        Ok(match *self.spaces.task()?.stop() {
            Stop::Seccomp { nr } => self.on_call(tid, nr)?,
            Stop::Breakpoint => self.on_breakpoint(tid)?,
            Stop::Signal { signo, code, addr } => self.on_signal(tid, signo, code, addr)?,
            // Nobody asked for a step: the program has set the flag for itself, or executed `int1`.
            Stop::Step { code, addr } => self.on_signal(tid, libc::SIGTRAP, code, addr)?,
            Stop::Interrupted => self.on_interrupt(tid)?,
            Stop::ForeignCall { nr, .. } => {
                let regs = *self.spaces.task()?.regs()?;
                return Err(self.unsupported(
                    tid,
                    &format!("system call {nr} of the 32-bit ABI"),
                    regs,
                    "only the 64-bit ABI is",
                ));
            }
            other => {
                let what = format!("the program stopped in a way tracefork does not know: {other:?}");
                return Err(Failure::unsupported(what));
            }
        })
    }

    /// Lets the task run to its next stop; one that computes for long is interrupted for a look at it.
    fn run_to_stop(&mut self, tid: Tid, watch: &mut super::spin::Watch) -> Result<(), Failure> {
        let Some(task) = self.spaces.here.task.take() else {
            return Err(crate::spaces::gone());
        };
        let mut running = task.resume(Resume::Cont, None)?;
        loop {
            match running.wait()? {
                Outcome::Stopped(stopped) => {
                    self.spaces.here.task = Some(stopped);
                    return Ok(());
                }
                Outcome::Tick(still) => {
                    self.transit.ticks += 1;
                    if watch.is_due() || self.is_over() {
                        still.interrupt()?;
                    }
                    running = still;
                }
                Outcome::Exited(code) => return Err(lost(tid, format!("exited with {code}"))),
                Outcome::Killed(signal) => return Err(lost(tid, format!("was killed by signal {signal}"))),
            }
        }
    }

    /// The thread stops here, before `pending`.
    pub(super) fn park(&mut self, tid: Tid, regs: Regs, pending: Pending) -> Flow {
        let is_aside = self.is_on_alternate_stack(tid, regs.rsp);
        let context = self.threads.at(tid);
        context.regs = regs;
        if !is_aside {
            context.leave_functions();
        }
        self.model.thread_mut(tid).pending = pending;
        Flow::Parked
    }

    /// One more invisible operation; too many of them in a row are a spin loop.
    pub(super) fn after_invisible(&mut self, tid: Tid, mut regs: Regs) -> Flow {
        self.transit.invisible += 1;
        if self.transit.invisible < MAX_INVISIBLE || self.model.is_alone() {
            return Flow::Run(regs);
        }
        regs.orig_rax = tracee::NO_CALL;
        self.threads.at(tid).hook = None;
        self.park(tid, regs, Pending::Spin)
    }

    pub(super) fn ends(&mut self, end: End) -> Flow {
        self.ends.ended = Some(end);
        Flow::Ended
    }
}

fn lost(tid: Tid, how: String) -> Failure {
    Failure::unsupported(format!(
        "the program {how} while thread {tid} ran, and not by its own doing"
    ))
    .hint("something outside killed it: the out-of-memory killer, a limit, a person")
}
