//! Threads that sleep, look, and sleep again, while nothing but the clock changes.
//!
//! No state recurs, since the clock shows another time in each. So every now and then all there is but the time is written down, and compared with what is there when
//! all wait the next times (`times.rs` knows times that were read and lie in memory). Where it is the same again, time passes in ever longer steps (whoever sleeps may always be woken late), and after a day in which
//! nothing else has changed nothing will. Threads that have waited since are not woken late: what they wait for may be what changes something.
//!
//! If one thread does that, or several that do nothing but wait, it is a livelock. Several that take locks or work otherwise may be meant to go on for ever, like philosophers who think and eat:
//! that is an end like that of a server without clients.

use super::Session;
use super::times::{Place, Words};
use failure::Failure;
use std::collections::BTreeMap;
use std::sync::Arc;
use syscall_model::clock::Nanos;
use syscall_model::{Sysno, Tid};
use trace::{End, Operation};

/// Before that many waits nothing is compared.
const FIRST_SAMPLE: u32 = 8;
/// A sample that has not come again after so many waits will not.
const LONGEST_CIRCLE: u32 = 64;
/// Nor will one after which memory was another so often: something counts.
const MISSES: u32 = 4;
/// So often it must have been the same before time passes in longer steps.
const RECURS: u32 = 2;
/// Who sleeps may wait for a time of day.
const DAY: Nanos = 86_400 * 1_000_000_000;

/// Calls that do nothing but wait, if their time runs out.
const WAITS: [Sysno; 13] = [
    Sysno::nanosleep,
    Sysno::clock_nanosleep,
    Sysno::poll,
    Sysno::ppoll,
    Sysno::select,
    Sysno::pselect6,
    Sysno::epoll_wait,
    Sysno::epoll_pwait,
    Sysno::epoll_pwait2,
    Sysno::futex,
    Sysno::rt_sigtimedwait,
    Sysno::semtimedop,
    Sysno::sched_yield,
];

/// How the program waits for time to pass, again and again: it goes back with a checkpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct Circling {
    /// How often all have waited for time to pass.
    waits: u32,
    sample: Option<Sample>,
    /// How often it has come again.
    rounds: u32,
    /// Who has moved since it was taken, and what they did.
    movers: BTreeMap<Tid, Doings>,
}

#[derive(Clone, Debug)]
struct Sample {
    /// Of all but times, registers and memory.
    control: u128,
    words: Arc<Words>,
    taken: Nanos,
    /// How many waits ago it was last the same.
    age: u32,
    /// How often only memory was not.
    misses: u32,
}

/// What a thread did in a round, beyond waiting.
#[derive(Clone, Copy, Debug, Default)]
struct Doings {
    /// It took or gave back a lock.
    locks: bool,
    others: bool,
}

impl Doings {
    fn is_work(self) -> bool {
        self.others || self.locks
    }

    fn note(&mut self, operation: &Operation) {
        match operation {
            Operation::Wake { .. } | Operation::Spin => {}
            Operation::Call { number, .. } => {
                let sysno = Sysno::new(*number as usize);
                self.others |= !sysno.is_some_and(|sysno| WAITS.contains(&sysno));
            }
            Operation::Sync { name, .. } => match name.as_ref() {
                "pause" | "sem_timedwait" | "sem_clockwait" => {}
                name if super::step::is_lock(name) => self.locks = true,
                _ => self.others = true,
            },
            _ => self.others = true,
        }
    }
}

/// What comes of one more wait.
pub(super) enum Passing {
    /// Time passes up to here.
    Until(Nanos),
    /// That would be so for ever.
    InVain(End),
}

impl Session {
    /// All wait for time to pass, until a `deadline` at first.
    pub(super) fn circles(&mut self, deadline: Nanos) -> Result<Passing, Failure> {
        self.pace.circling.waits += 1;
        let Some(sample) = self.sample_come_again()? else {
            self.take_sample()?;
            return Ok(Passing::Until(deadline));
        };
        let elapsed = self.model.clock.now() - sample.taken;
        let others = self.deadline_of_others();
        if elapsed > DAY && others.is_none() {
            if sample.words.is_same(&self.words()?, elapsed) {
                return Ok(Passing::InVain(self.vain_end()));
            }
            self.pace.circling = Circling::default();
            return Ok(Passing::Until(deadline));
        }
        let late = match self.pace.circling.rounds {
            0..RECURS => deadline,
            _ => self.model.clock.now() + elapsed / 4,
        };
        Ok(Passing::Until(
            others.map_or(late, |others| late.min(others)).max(deadline),
        ))
    }

    /// The sample, if there is nothing new but the time. Memory is looked at ever more rarely.
    fn sample_come_again(&mut self) -> Result<Option<Sample>, Failure> {
        let Some(mut sample) = self.pace.circling.sample.take() else {
            return Ok(None);
        };
        let mut is_same = self.timeless_control() == sample.control;
        if is_same && (self.pace.circling.rounds + 1).is_power_of_two() {
            let elapsed = self.model.clock.now() - sample.taken;
            is_same = sample.words.is_same(&self.words()?, elapsed);
            sample.misses += u32::from(!is_same);
        }
        self.pace.circling.rounds += u32::from(is_same);
        sample.age = if is_same { 0 } else { sample.age + 1 };
        if sample.age < LONGEST_CIRCLE && sample.misses < MISSES {
            self.pace.circling.sample = Some(sample.clone());
        }
        Ok(is_same.then_some(sample))
    }

    fn take_sample(&mut self) -> Result<(), Failure> {
        let waits = self.pace.circling.waits;
        let recurs = self.pace.circling.sample.is_some() && self.pace.circling.rounds > 0;
        if waits < FIRST_SAMPLE || !waits.is_power_of_two() || recurs {
            return Ok(());
        }
        let sample = Sample {
            control: self.timeless_control(),
            words: Arc::new(self.words()?),
            taken: self.model.clock.now(),
            age: 0,
            misses: 0,
        };
        self.pace.circling = Circling {
            waits,
            sample: Some(sample),
            ..Circling::default()
        };
        Ok(())
    }

    /// Registers and memory.
    fn words(&self) -> Result<Words, Failure> {
        let mut words = Words::default();
        for (&tid, context) in self.threads.iter() {
            words.add(Place::Registers, u64::from(tid) << 32, &context.regs.bytes());
        }
        self.read_memory(|pid, at, bytes| words.add(Place::Memory(pid), at, bytes))?;
        Ok(words)
    }

    /// The first moment for which somebody waits who has not moved since the sample was taken, or at which a timer fires.
    fn deadline_of_others(&self) -> Option<Nanos> {
        let now = self.model.clock.now();
        let is_other = |tid: &Tid| !self.pace.circling.movers.contains_key(tid);
        let others = self.model.tids().into_iter().filter(is_other);
        let waits = others.filter_map(|tid| self.model.thread(tid).wait.as_ref()?.deadline);
        waits
            .chain(self.model.next_timer())
            .filter(|&moment| moment > now)
            .min()
    }

    fn vain_end(&mut self) -> End {
        let circling = &self.pace.circling;
        let is_work = circling.movers.len() > 1 && circling.movers.values().any(|doings| doings.is_work());
        self.ends.goes_on = is_work;
        match is_work || self.movers().awaits_clients() {
            true => End::Idle,
            false => End::Livelock,
        }
    }

    /// A thread has moved.
    pub(super) fn note_doings(&mut self, tid: Tid, operation: &Operation) {
        let circling = &mut self.pace.circling;
        if circling.sample.is_some() {
            circling.movers.entry(tid).or_default().note(operation);
        }
    }

    /// Several threads would go on for ever, without changing anything.
    pub fn goes_on(&self) -> bool {
        self.ends.goes_on
    }
}
