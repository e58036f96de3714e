//! Loops that wait for another thread without saying so: no system call, no hooked instruction.
//!
//! Nobody else runs while a thread loops, so a loop whose state recurs exactly (registers, extended state,
//! and the memory that it writes) never ends by itself. When such a loop is noticed does not matter: its
//! states are the same each time round, so the thread is parked at one of them that does not depend on the
//! moment, the lowest in the order of registers with the lowest address. That is what makes an interruption by
//! a timer deterministic. A loop whose state does not recur computes; it is left alone.

use super::spaces::Space;
use super::step::Flow;
use super::{Session, TaskMemory};
use crate::registers::register_value;
use failure::Failure;
use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, OpAccess};
use std::collections::BTreeSet;
use std::time::Duration;
use syscall_model::{GuestMemory, Pending, Tid};
use tracee::{Outcome, Regs, Resume, Stop, XState};

/// How often the supervisor looks up while the task runs.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// Instructions that are looked at, one by one, for a recurrence.
const STEPS: usize = 400;

/// The look at which a thread has computed for more than ten seconds.
const LONG: u32 = 5;

/// Decides when a thread that does not stop is looked at: after 2 ticks, then ever more rarely, so that a
/// long computation pays next to nothing.
#[derive(Default)]
pub(super) struct Watch {
    ticks: u32,
    looks: u32,
}

impl Watch {
    /// Whether it is time to say that this takes long: after ten seconds or so.
    pub fn is_long(&self) -> bool {
        self.looks == LONG
    }

    pub fn is_due(&mut self) -> bool {
        self.ticks += 1;
        if self.ticks < 2 << (2 * self.looks.min(10)) {
            return false;
        }
        self.looks += 1;
        self.ticks = 0;
        true
    }
}

/// The exact state of a loop at one of its instructions.
#[derive(PartialEq, Eq)]
struct LoopState {
    xstate: XState,
    written: Vec<(u64, Vec<u8>)>,
}

/// A loop: the registers at each of its instructions, and what it wrote (address and size).
struct Cycle {
    states: Vec<Regs>,
    written: BTreeSet<(u64, usize)>,
}

impl Session {
    /// The thread was interrupted: does it spin?
    pub(super) fn on_interrupt(&mut self, tid: Tid) -> Result<Flow, Failure> {
        if self.is_over() {
            return Err(self.broken_off(tid));
        }
        let Some(cycle) = self.spaces.here.find_cycle()? else {
            return self.spaces.here.resume_flow();
        };
        let recurs = self.spaces.here.recurs(&cycle)?;
        let canonical = cycle
            .states
            .iter()
            .min_by_key(|regs| (regs.rip, regs.rsp, format!("{regs:?}")));
        let Some(&canonical) = canonical.filter(|_| recurs) else {
            return self.spaces.here.resume_flow();
        };
        // Round once more at most: that this is a cycle is known by now.
        while *self.spaces.task()?.regs()? != canonical {
            if self.spaces.here.single_step()?.is_none() {
                return self.spaces.here.resume_flow();
            }
        }
        let context = self.threads.at(tid);
        context.hook = None;
        context.spins = true;
        self.transit.spins = Some(tid);
        Ok(self.park(tid, canonical, Pending::Spin))
    }
}

impl Space {
    /// Goes round once more. The thread is in this loop for ever only if it takes the same way, with the same
    /// registers at each instruction, and then finds all that it wrote as it was: registers that recur
    /// while a counter in memory goes down prove nothing.
    fn recurs(&mut self, cycle: &Cycle) -> Result<bool, Failure> {
        let before = self.loop_state(&cycle.written)?;
        let round = cycle.states.iter().skip(1).chain(cycle.states.first());
        for expected in round {
            if self.single_step()?.as_ref() != Some(expected) {
                return Ok(false);
            }
        }
        Ok(self.loop_state(&cycle.written)? == before)
    }

    /// If the last single step ran into a stop of another kind, that stop is dealt with next.
    fn resume_flow(&mut self) -> Result<Flow, Failure> {
        let task = self.task()?;
        match task.stop() {
            Stop::Step { .. } | Stop::Interrupted => Ok(Flow::Run(*task.regs()?)),
            _ => Ok(Flow::Again),
        }
    }

    /// Steps until the registers are what they were before; the loop's registers at each of its instructions
    /// and the addresses that it wrote.
    fn find_cycle(&mut self) -> Result<Option<Cycle>, Failure> {
        let mut seen: Vec<Regs> = vec![*self.task()?.regs()?];
        let mut written = BTreeSet::new();
        for _ in 0..STEPS {
            self.note_writes(&mut written)?;
            let Some(regs) = self.single_step()? else {
                return Ok(None);
            };
            if let Some(start) = seen.iter().position(|earlier| *earlier == regs) {
                return Ok(Some(Cycle {
                    states: seen.split_off(start),
                    written,
                }));
            }
            seen.push(regs);
        }
        Ok(None)
    }

    /// Executes one instruction; `None` if the thread stopped for another reason: it does not merely loop.
    fn single_step(&mut self) -> Result<Option<Regs>, Failure> {
        let Some(task) = self.task.take() else {
            return Ok(None);
        };
        match task.resume(Resume::Step, None)?.wait_ignoring_ticks()? {
            Outcome::Stopped(stopped) => {
                let stop = *stopped.stop();
                let regs = *stopped.regs()?;
                self.task = Some(stopped);
                Ok(matches!(stop, Stop::Step { .. }).then_some(regs))
            }
            _ => Err(Failure::unsupported(
                "the program ended while it was looked at, and not by its own doing",
            )),
        }
    }

    /// What the instruction at hand is about to write.
    pub(super) fn note_writes(&mut self, written: &mut BTreeSet<(u64, usize)>) -> Result<(), Failure> {
        let task = self.task()?;
        let regs = *task.regs()?;
        let mut code = [0; 15];
        let len = task.memory().read_up_to(regs.rip, &mut code)?;
        let instruction = Decoder::with_ip(64, &code[..len], regs.rip, DecoderOptions::NONE).decode();
        let mut factory = InstructionInfoFactory::new();
        for used in factory.info(&instruction).used_memory() {
            let writes = !matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
            );
            let address = used.virtual_address(0, |register, _, _| register_value(&regs, register));
            if let (true, Some(address)) = (writes, address) {
                written.insert((address, used.memory_size().size().max(1)));
            }
        }
        Ok(())
    }

    fn loop_state(&mut self, written: &BTreeSet<(u64, usize)>) -> Result<LoopState, Failure> {
        let task = self.task()?;
        let xstate = task.xstate()?;
        let memory = TaskMemory::new(task);
        let read = |&(address, size): &(u64, usize)| {
            let mut bytes = vec![0; size];
            // Unreadable memory cannot have been written either.
            let _ = memory.read(address, &mut bytes);
            (address, bytes)
        };
        Ok(LoopState {
            xstate,
            written: written.iter().map(read).collect(),
        })
    }
}
