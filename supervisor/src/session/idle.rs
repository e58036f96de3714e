//! When nobody can move: time passes, or a peer has something to say after all, or the execution has ended.
//!
//! A program that waits for clients and has none left to hear from is *idle*, which is a good end; one that waits for
//! itself is deadlocked.

use super::Session;
use crate::error::Failure;
use crate::trace::End;
use peers::PeerState;
use syscall_model::clock::Nanos;
use syscall_model::net::{Network, mirror};
use syscall_model::{Tid, WaitFor};

/// A server that wakes up again and again only to look at its clients is idle after so many times.
const MAX_LOOKS: u32 = 3;
/// The same if other threads have something to do with time: they might get somewhere, and say something.
const MAX_TICKS: u32 = 20;

/// Time that passed while clients were waited for and nothing was said.
#[derive(Clone, Debug, Default)]
pub(super) struct Quiet {
    pub ticks: u32,
    since: PeerState,
}

impl Session {
    /// After a transition: if nobody can move, or all who can only yield, time passes; if that does not help
    /// either, the execution has ended.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        while self.ended.is_none() {
            if !self.able().all(|tid| self.idles(tid)) {
                return Ok(());
            }
            let able: Vec<Tid> = self.able().collect();
            if able.is_empty() && self.hears_of_a_peer()? {
                continue;
            }
            let now = self.model.clock.now();
            match self.model.next_deadline().filter(|&deadline| deadline > now) {
                Some(_) if able.is_empty() && self.has_been_quiet()? => self.ended = Some(End::Idle),
                Some(deadline) => self.pass_time(deadline),
                None if able.is_empty() && self.model.awaits_clients() => self.ended = Some(End::Idle),
                None if able
                    .iter()
                    .all(|tid| self.contexts.get(tid).is_some_and(|c| c.spins)) =>
                {
                    self.ended = Some(End::Deadlock);
                }
                None => return Ok(()),
            }
        }
        if matches!(self.ended, Some(End::Exited(_) | End::Killed(_))) {
            self.network.hang_up()?;
        }
        Ok(())
    }

    fn pass_time(&mut self, deadline: Nanos) {
        self.model.advance_clock(deadline);
        for thread in self.model.threads.values_mut() {
            thread.idle_yields = 0;
        }
    }

    /// A second look at the peers before time passes or the end is called.
    fn hears_of_a_peer(&mut self) -> Result<bool, Failure> {
        if !self.network.ask_again()? {
            return Ok(false);
        }
        let changed = mirror::refresh(&mut self.model, &mut self.network);
        self.network.take_failure()?;
        if changed {
            self.network.settled(false);
        }
        Ok(changed)
    }

    /// Counts one more passing of time without a word from or to a peer; true if there were enough.
    fn has_been_quiet(&mut self) -> Result<bool, Failure> {
        // Without clients the program talks to itself: its own threads may be what it waits for.
        if !self.network.has_clients() || !self.model.awaits_clients() {
            return Ok(false);
        }
        if self.quiet.since != *self.network.state() {
            self.quiet = Quiet {
                ticks: 0,
                since: self.network.state().clone(),
            };
        }
        self.quiet.ticks += 1;
        let only_looks = self.model.threads.values().all(|thread| match &thread.wait {
            Some(wait) if wait.deadline.is_some() => {
                matches!(wait.on, WaitFor::Ready(_)) && self.model.thread_awaits_clients(thread)
            }
            _ => true,
        });
        // When the last client has ended nobody will ever say anything again, whatever the other threads do with the time.
        let few = only_looks || self.network.client_exits()?.iter().all(Option::is_some);
        Ok(self.quiet.ticks > if few { MAX_LOOKS } else { MAX_TICKS })
    }
}
