//! When nobody can move: time passes, or a peer has something to say after all, or the execution has ended.
//!
//! A program that waits for clients and has none left to hear from is *idle*, which is a good end; one that waits for
//! itself is deadlocked.

use super::Session;
use super::circling::{Circling, Passing};
use failure::Failure;
use peers::PeerState;
use std::time::Duration;
use syscall_model::channels::socket::{Socket, Style};
use syscall_model::clock::{Clock, Nanos};
use syscall_model::faults::Faults;
use syscall_model::net::{Network, mirror};
use syscall_model::{Thread, Tid, WaitFor};
use trace::End;

/// A server that wakes up again and again only to look at its clients is idle after so many times.
const MAX_LOOKS: u32 = 3;
/// The same if other threads have something to do with time: they might get somewhere, and say something.
const MAX_TICKS: u32 = 20;

/// A program that looks for clients, without waiting for them, is idle after this long.
const MAX_QUIET: Nanos = 10 * SECOND;
/// One that looks for anything else does it in vain after this long.
const MAX_IDLE: Nanos = 3600 * SECOND;
/// The same if it changes something with every look, if only a counter. It may then have an end, so there is no haste.
const MAX_IDLE_TICKS: u32 = 200_000;
/// So often time passes before it is looked whether anything else changes.
const FIRST_SAMPLE: u32 = 8;
const SECOND: Nanos = 1_000_000_000;
/// Operations in a row, without any need for time to pass, after which it does nevertheless. Only programs without an end, or that work until the
/// clock shows some time, do as much; for all others the clock must not tell in which order they did what.
const BUSY: u32 = 10_000;
/// That is 62 microseconds each.
const STEPS_PER_TICK: u32 = 16;

/// Time that passed while clients were waited for and nothing was said.
#[derive(Clone, Debug, Default)]
pub(super) struct Quiet {
    pub ticks: u32,
    since: PeerState,
    /// Of peers that are processes of the execution.
    words: u64,
    /// When that began, on the program's clock.
    began: Nanos,
}

/// What is known of those who look for something again and again.
#[derive(Clone, Debug, Default)]
pub(super) struct Idling {
    /// How often time passed for them.
    ticks: u32,
    /// All there was at the last of these times, but for the clock.
    sample: Option<u128>,
    /// Nothing but the clock changes.
    recurs: bool,
}

/// How long nothing but time has moved the execution: it goes back with a checkpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    /// How often only time has passed since a peer was last spoken to, while clients were waited for.
    pub quiet: Quiet,
    pub idling: Idling,
    pub circling: Circling,
    /// Operations since time last passed.
    pub busy: u32,
}

impl Session {
    /// After a transition: if nobody can move, or all who can only yield, time passes; if that does not help
    /// either, the execution has ended.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        self.ends.resting = None;
        while self.ends.ended.is_none() && self.ends.resting.is_none() {
            self.residents_go_on()?;
            if self.ends.ended.is_some() {
                break;
            }
            self.look_at_roused();
            if !self.movers().able().all(|tid| self.movers().idles(tid)) {
                return Ok(());
            }
            let able: Vec<Tid> = self.movers().able().collect();
            // Those who look again and again ask the peers once.
            let looks = self.somebody_looks(&able);
            let asks = able.is_empty() || looks && self.model.clock.idle() == 0;
            let now = self.model.clock.now();
            let deadline = self.model.next_deadline().filter(|&deadline| deadline > now);
            let deadline = self.residency().worth_waiting_for(deadline);
            if asks && self.hears_of_a_peer(deadline)? {
                continue;
            }
            if self.residency().is_program_over() {
                match deadline.filter(|_| able.is_empty()) {
                    Some(deadline) => self.pass_time(deadline),
                    None => self.ends.ended = Some(self.ends.first_ended.take().unwrap_or(End::Exited(0))),
                }
                continue;
            }
            if looks {
                self.pass_time_looking(deadline)?;
                continue;
            }
            match deadline {
                Some(_) if able.is_empty() && self.has_been_quiet()? => self.come_to_rest(End::Idle)?,
                Some(deadline) => self.pass_time_waiting(deadline)?,
                None if able.is_empty() && self.model.awaits_clients() => self.come_to_rest(End::Idle)?,
                None if able.is_empty() => self.come_to_rest(End::Deadlock)?,
                None if able
                    .iter()
                    .all(|tid| self.threads.get(tid).is_some_and(|c| c.spins)) =>
                {
                    self.come_to_rest(End::Deadlock)?;
                }
                None => self.pass_time_looking(None)?,
            }
        }
        self.first_decides();
        if matches!(self.ends.ended, Some(End::Exited(_) | End::Killed(_))) {
            self.network.hang_up(&self.model)?;
        }
        Ok(())
    }

    /// Nobody will move by himself. That is the end, unless something may come from outside: then it is for the search to say.
    fn come_to_rest(&mut self, end: End) -> Result<(), Failure> {
        self.check_reach()?;
        match self.options.faults.calls.intersects(Faults::FROM_OUTSIDE) {
            true => self.ends.resting = Some(end),
            false => self.ends.ended = Some(end),
        }
        Ok(())
    }

    /// Clients come to what listens, and to UDP sockets. They cannot come to a Unix socket of datagrams, nor from outside to one of packets. Where that is all
    /// there is for them to come to, that nobody came says nothing of the program.
    fn check_reach(&self) -> Result<(), Failure> {
        if !self.network.waits_to_be_reachable() && !self.residency().keeps_waiting() {
            return Ok(());
        }
        let Some((name, style)) = self.model.channels.sockets().find_map(Socket::packets_come_to) else {
            return Ok(());
        };
        let kind = match style {
            Style::SeqPacket => "packets",
            _ => "datagrams",
        };
        let failure = Failure::unsupported(format!(
            "clients cannot reach the program at {name}, a Unix socket of {kind}"
        ));
        Err(match style {
            Style::SeqPacket => {
                failure.hint("clients beside the program can (--peers inside, --peers explored)")
            }
            _ => failure.hint("clients can reach stream sockets and UDP sockets"),
        })
    }

    /// Would this be the end if nothing came from outside?
    pub fn rests(&self) -> bool {
        self.ends.resting.is_some()
    }

    /// The first process has ended, and those that it left behind do nothing more, as they are meant to: its end is the end. A process that waits for
    /// what never comes is none of these.
    fn first_decides(&mut self) {
        let rests = |thread: &Thread| {
            let on = thread.wait.as_ref().map(|wait| &wait.on);
            matches!(on, Some(WaitFor::Nothing | WaitFor::Signals(_)))
        };
        let is_over = match self.ends.ended {
            Some(End::Idle) => true,
            Some(End::Deadlock) => self.model.own_threads().all(rests),
            _ => false,
        };
        if matches!(self.ends.ended, Some(End::Idle)) || is_over {
            self.note_left_behind();
        }
        if is_over && let Some(first) = self.ends.first_ended.take() {
            self.ends.ended = Some(first);
        }
    }

    fn pass_time(&mut self, deadline: Nanos) {
        self.pace.busy = 0;
        self.model.advance_clock(deadline);
        for thread in self.model.all_threads_mut() {
            (thread.idle_yields, thread.idle_looks) = (0, 0);
        }
    }

    /// All wait, until this deadline at first; peers have as much time as the program.
    fn pass_time_waiting(&mut self, deadline: Nanos) -> Result<(), Failure> {
        match self.circles(deadline)? {
            Passing::Until(late) if late > deadline && self.hears_of_a_peer(Some(late))? => {}
            Passing::Until(moment) => self.pass_time(moment),
            Passing::InVain(_) if self.hears_of_a_peer(None)? => {}
            Passing::InVain(end) => self.come_to_rest(end)?,
        }
        Ok(())
    }

    fn somebody_looks(&self, able: &[Tid]) -> bool {
        able.iter().any(|&tid| self.model.thread(tid).idle_looks > 0)
    }

    /// All who can move look for something that is not there: a little time passes, for that may be what they look for. If nothing comes of that,
    /// however much passes, nothing will.
    fn pass_time_looking(&mut self, deadline: Option<Nanos>) -> Result<(), Failure> {
        let (now, idle) = (self.model.clock.now(), self.model.clock.idle());
        let recurs = self.goes_in_circles()?;
        let in_vain = recurs && idle > MAX_IDLE || self.pace.idling.ticks > MAX_IDLE_TICKS;
        if idle > MAX_QUIET && self.residency().has_clients() && self.movers().awaits_clients() {
            self.ends.ended = Some(End::Idle);
        } else if in_vain && deadline.is_none() {
            self.come_to_rest(End::Livelock)?;
        } else {
            let tick = now + self.model.clock.idle_tick(recurs);
            match deadline {
                Some(deadline) => self.pass_time_waiting(deadline.min(tick))?,
                None => self.pass_time(tick),
            }
            self.model.clock.idled(now);
        }
        Ok(())
    }

    /// One more time that all only look: is everything as it was the last time, but for the clock? A loop may count, and will then end some day. To find
    /// out costs a look at all memory, which is taken ever more rarely, two times in a row.
    fn goes_in_circles(&mut self) -> Result<bool, Failure> {
        if self.model.clock.idle() == 0 {
            self.pace.idling = Idling::default();
        }
        self.pace.idling.ticks += 1;
        let ticks = self.pace.idling.ticks;
        if ticks >= FIRST_SAMPLE && ticks.is_power_of_two() {
            self.pace.idling.sample = Some(self.timeless_identity()?);
        } else if let Some(sample) = self.pace.idling.sample.take() {
            self.pace.idling.recurs = sample == self.timeless_identity()?;
        }
        Ok(self.pace.idling.recurs)
    }

    /// After an operation. The clock stands still while anybody can move, but not for ever: a program may work until it
    /// shows some time.
    pub(super) fn takes_time(&mut self) {
        self.pace.busy += 1;
        if self.pace.busy > BUSY && self.pace.busy.is_multiple_of(STEPS_PER_TICK) {
            self.model.advance_clock(self.model.clock.now() + Clock::TICK);
        }
    }

    /// A second look at the peers before time passes or the end is called. As much time as there is until the `deadline` is theirs, too.
    fn hears_of_a_peer(&mut self, deadline: Option<Nanos>) -> Result<bool, Failure> {
        self.notice_words();
        let limit = deadline.map_or(Nanos::MAX, |deadline| {
            deadline.saturating_sub(self.pace.quiet.began)
        });
        if !self.network.ask_again(Duration::from_nanos(limit))? {
            return Ok(false);
        }
        let changed = mirror::refresh(&mut self.model, &mut self.network);
        self.network.take_failure()?;
        if changed {
            self.network.settled(false);
        }
        Ok(changed)
    }

    /// If anything was said, silence begins now.
    fn notice_words(&mut self) {
        let words = self.model.residents.words();
        if self.pace.quiet.since != *self.network.state() || self.pace.quiet.words != words {
            self.pace.quiet = Quiet {
                ticks: 0,
                since: self.network.state().clone(),
                words,
                began: self.model.clock.now(),
            };
        }
    }

    /// Counts one more passing of time without a word from or to a peer; true if there were enough.
    fn has_been_quiet(&mut self) -> Result<bool, Failure> {
        // Without clients the program talks to itself: its own threads may be what it waits for.
        if !self.residency().has_clients() || !self.model.awaits_clients() {
            return Ok(false);
        }
        self.notice_words();
        self.pace.quiet.ticks += 1;
        let only_looks = self.model.own_threads().all(|thread| match &thread.wait {
            Some(wait) if wait.deadline.is_some() => {
                matches!(wait.on, WaitFor::Ready(_)) && self.model.thread_awaits_clients(thread)
            }
            _ => true,
        });
        // When the last client has ended nobody will ever say anything again, whatever the other threads do with the time.
        let few = only_looks || self.client_exits()?.iter().all(Option::is_some);
        Ok(self.pace.quiet.ticks > if few { MAX_LOOKS } else { MAX_TICKS })
    }
}
