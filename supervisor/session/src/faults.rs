//! What the environment does to the program if `--faults` asks for it: calls that go wrong, signals from outside, the end of the process.

use super::Options;
use super::Session;
use super::arrivals::Arrivals;
use super::context::Threads;
use super::enabled::Movers;
use super::endings::Endings;
use super::spaces::Spaces;
use super::step::{Flow, Transit};
use super::{Alternative, ENVIRONMENT, outside};
use failure::Failure;
use syscall_model::Model;
use syscall_model::faults::{self, Fault, Faults};
use syscall_model::signals::{SigInfo, Signals};
use syscall_model::{Call, Pending, Tid, Wait};
use trace::{End, Operation, Step};
use tracee::Regs;

/// The faults to explore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// Timed waits may run out early.
    pub timeout: bool,
    pub calls: Faults,
    /// Signals that may come from outside.
    pub signals: Vec<i32>,
    pub kill: bool,
    pub power: bool,
    /// How many in one execution.
    pub budget: u32,
}

/// What can go wrong in a state.
#[derive(Clone, Copy)]
pub struct Hazards<'a> {
    pub(super) model: &'a Model,
    pub(super) threads: &'a Threads,
    pub(super) spaces: &'a Spaces,
    pub(super) ends: &'a Endings,
    pub(super) options: &'a Options,
    pub(super) movers: Movers<'a>,
    pub(super) arrivals: Arrivals<'a>,
}

impl<'a> Hazards<'a> {
    /// Everything that can go wrong in this state, by thread; the environment is thread 0.
    pub fn hazards(self, plan: &FaultPlan) -> Vec<(Tid, Alternative)> {
        if self.ends.ended.is_some() {
            return Vec::new();
        }
        let mut found = Vec::new();
        // What runs out by itself has done so before all came to rest.
        if plan.timeout && self.ends.resting.is_none() {
            let timed = self.timed_waits().into_iter();
            found.extend(timed.map(|tid| (tid, Alternative::Timeout)));
        }
        for tid in self.model.tids() {
            if self.model.peer_of(tid).is_some() {
                continue;
            }
            let faults = self.faults_of(tid, plan.calls).into_iter();
            found.extend(faults.map(|fault| (tid, Alternative::Fault(fault))));
        }
        if self.has_begun() {
            found.extend(
                self.signals(plan)
                    .map(|signal| (ENVIRONMENT, Alternative::Signal(signal))),
            );
            if plan.kill {
                found.push((ENVIRONMENT, Alternative::Kill));
            }
            if plan.power {
                let ways = 0..self.model.fs.power_failures() as u32;
                found.extend(ways.map(|way| (ENVIRONMENT, Alternative::Power(way))));
            }
            let mishaps = faults::mishaps(self.model, plan.calls).into_iter();
            let mishaps = mishaps.filter(|what| self.arrivals.somebody_receives_at(what.socket));
            found.extend(mishaps.map(|what| (ENVIRONMENT, Alternative::Mishap(what))));
        }
        found
    }

    /// Is this alternative there to be chosen?
    pub fn offers(self, tid: Tid, alternative: Alternative) -> bool {
        match alternative {
            Alternative::Plain | Alternative::Arrival(_) => self.movers.enabled().contains(&tid),
            Alternative::Timeout => self.timed_waits().contains(&tid),
            Alternative::Later => tid == ENVIRONMENT && self.arrivals.clients_may_wait(),
            Alternative::Rest | Alternative::Await => tid == ENVIRONMENT && self.ends.resting.is_some(),
            Alternative::Endless => tid == ENVIRONMENT && self.ends.ended.is_none(),
            Alternative::Fault(fault) => self.faults_of(tid, fault.kind()).contains(&fault),
            Alternative::Mishap(what) => {
                tid == ENVIRONMENT
                    && self.ends.ended.is_none()
                    && self.arrivals.somebody_receives_at(what.socket)
            }
            Alternative::Signal(_) | Alternative::Kill | Alternative::Power(_) => {
                tid == ENVIRONMENT && self.ends.ended.is_none()
            }
        }
    }

    fn faults_of(self, tid: Tid, wanted: Faults) -> Vec<Fault> {
        let Some(thread) = self.model.find_thread(tid) else {
            return Vec::new();
        };
        let Pending::Call(call) = &thread.pending else {
            return Vec::new();
        };
        let is_undisturbed = self.model.signals.deliverable(thread).is_none() && !thread.starved;
        let Some(context) = self.threads.get(&tid).filter(|_| is_undisturbed) else {
            return Vec::new();
        };
        if self.is_dynamic_linker(context.regs.rip) {
            return Vec::new();
        }
        faults::possible(self.model, tid, call, wanted)
    }

    /// Must the thread park before this call because it can go wrong?
    pub(super) fn may_go_wrong(self, call: &Call, regs: &Regs) -> bool {
        faults::concerns(call, self.options.faults.calls) && !self.is_dynamic_linker(regs.rip)
    }

    /// The dynamic linker's own calls do not go wrong: that a program cannot even be loaded says nothing about it.
    fn is_dynamic_linker(self, address: u64) -> bool {
        let mut modules = self.spaces.here.code.modules().iter();
        let module = modules.find(|module| module.range.contains(&address));
        let name = module.and_then(|module| module.path.file_name());
        name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"ld-linux"))
    }

    /// Has the program itself begun? What comes from outside while it is loaded says nothing about it.
    pub(super) fn has_begun(self) -> bool {
        !self
            .threads
            .values()
            .any(|context| self.is_dynamic_linker(context.regs.rip))
    }
}

impl Session {
    /// How the call that a thread performs now goes wrong, if it does.
    pub(super) fn fault_of(&mut self, tid: Tid, call: &Call) -> Option<Fault> {
        let chosen = self.choice.fault.take();
        let thread = self.model.thread_mut(tid);
        let asks_again = thread.starved && faults::concerns(call, Faults::NO_MEMORY);
        thread.starved = asks_again;
        chosen.or(asks_again.then_some(Fault::NoMemory))
    }

    /// Performs a call that goes wrong.
    pub(super) fn perform_fault(
        &mut self,
        tid: Tid,
        call: Call,
        mut regs: Regs,
        fault: Fault,
    ) -> Result<(Option<i64>, Flow), Failure> {
        if fault == Fault::Interrupted {
            return self.interrupt_call(tid, regs);
        }
        // Whoever asks again before it does anything else is told the same: allocators try more than one call.
        self.model.thread_mut(tid).starved = fault == Fault::NoMemory;
        let waited = self.model.thread_mut(tid).wait.take();
        self.model.stack_pointer = regs.rsp;
        let outcome = self.with_cx(tid, syscall_model::Wake::Ready, |cx| {
            faults::execute(cx, &call, fault)
        })?;
        if let Ok(syscall_model::Effect::Block(wait)) = outcome {
            self.block(tid, wait, waited);
            return Ok((None, Flow::Parked));
        }
        regs.orig_rax = call.sysno as u64;
        self.carry_out(tid, call, regs, outcome)
    }

    /// As if a handler without `SA_RESTART` had run.
    fn interrupt_call(&mut self, tid: Tid, mut regs: Regs) -> Result<(Option<i64>, Flow), Failure> {
        let thread = self.model.thread_mut(tid);
        if let Some(mask) = thread.signals.saved_mask.take() {
            thread.signals.mask = mask;
        }
        let partial = thread.partial_result();
        let wait: Option<Wait> = thread.wait.clone();
        match (partial, wait) {
            (Some(partial), _) => regs.skip_call(partial),
            (None, Some(wait)) => self.break_off(&wait, 0, &mut regs)?,
            (None, None) => regs.skip_call(-i64::from(libc::EINTR)),
        }
        self.model.end_wait(tid);
        Signals::assign(&mut self.model);
        Ok((Some(regs.rax as i64), Flow::Run(regs)))
    }

    /// A step of the environment: no thread moves.
    pub(super) fn step_of_environment(&mut self, alternative: Alternative) -> Result<Step, Failure> {
        self.transit = Transit::default();
        self.network.step_begins();
        match alternative {
            Alternative::Signal(signal) => {
                self.rouse(signal);
                outside::from_outside(&mut self.model, signal);
                // One that ends the process does so at once, whatever its threads are about.
                self.ends.ended = Signals::fatal(&self.model).map(End::Killed);
            }
            Alternative::Power(way) => {
                let left = self
                    .model
                    .fs
                    .after_power_failure(way as usize, &self.options.config.cwd);
                self.model.fs = left.ok_or_else(|| {
                    Failure::desync(format!("the power cannot fail in way {way}: there are fewer"))
                })?;
                self.ends.ended = Some(End::Killed(libc::SIGKILL));
            }
            Alternative::Rest => self.ends.ended = self.ends.resting.take(),
            Alternative::Await => self.ends.ended = Some(End::Idle),
            Alternative::Endless => self.ends.ended = Some(End::Livelock),
            Alternative::Mishap(what) => {
                if let Some((key, place)) = faults::whose(&self.model, what) {
                    self.network.mishap(&key, place, what.mishap);
                }
                if !faults::happens(&mut self.model, what) {
                    return Err(Failure::desync(format!(
                        "{}: there is no such datagram now",
                        what.mishap.words()
                    )));
                }
            }
            _ => self.ends.ended = Some(End::Killed(libc::SIGKILL)),
        }
        self.progressed();
        self.nobody_idles();
        self.settle()?;
        self.note_traffic_within();
        self.network.step_over(&self.model);
        Ok(Step {
            thread: ENVIRONMENT,
            operation: match alternative {
                Alternative::Signal(number) => Operation::SignalFromOutside { number },
                Alternative::Power(_) => Operation::PowerFails,
                Alternative::Rest | Alternative::Await => Operation::Rests,
                Alternative::Endless => Operation::GoesOnForEver,
                Alternative::Mishap(what) => Operation::Mishap {
                    what: what.mishap.words().to_owned(),
                },
                _ => Operation::KilledFromOutside,
            },
            at: 0,
            digest: 0,
            alternative: alternative.number(),
            arrived: None,
        })
    }

    /// How a process ends by a signal: a crash, unless the signal came from outside.
    pub(super) fn die_of(&mut self, tid: Tid, info: &SigInfo, address: Option<u64>) -> Result<Flow, Failure> {
        let is_from_outside = info.code == syscall_model::signals::SI_USER && info.pid() == 0;
        match is_from_outside {
            true => self.process_ends(tid, End::Killed(info.signo)),
            false => self.die(tid, info.signo, address),
        }
    }
}
