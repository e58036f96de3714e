//! Waits that end before their time: what a slow machine does to a program, as a choice.
//!
//! Time moves only when nobody can go on. That is one way to see it; the other is that whoever can go on is slow, and a wait
//! with a deadline runs out meanwhile. Then the clock has moved for all, as it would have.
//!
//! That is a fault, to be asked for. It is none if all that could go on is for clients to come whom the program does not know yet: they come when they like.

use super::Session;
use super::faults::Hazards;
use super::{Alternative, ENVIRONMENT};
use failure::Failure;
use syscall_model::Tid;
use syscall_model::net::flight;
use trace::Step;

impl<'a> Hazards<'a> {
    /// The threads whose timed wait could run out now although others can go on; 0 among them if a timer could fire.
    pub fn timed_waits(self) -> Vec<Tid> {
        if self.ends.ended.is_some() {
            return Vec::new();
        }
        let now = self.model.clock.now();
        let waits = |&tid: &Tid| {
            let thread = self.model.thread(tid);
            let deadline = thread.wait.as_ref().and_then(|wait| wait.deadline);
            let is_stuck =
                !self.movers.able().any(|able| able == tid) || self.arrivals.only_arrivals_help(tid);
            deadline.is_some_and(|deadline| deadline > now) && is_stuck
        };
        let timers = self.model.next_timer().is_some_and(|moment| moment > now);
        let own = self
            .model
            .tids()
            .into_iter()
            .filter(|&tid| self.model.peer_of(tid).is_none());
        let waiting = own.filter(waits);
        timers.then_some(ENVIRONMENT).into_iter().chain(waiting).collect()
    }
}

impl Session {
    /// One transition, with the alternative that was chosen.
    pub fn step_as(&mut self, tid: Tid, alternative: u32) -> Result<Step, Failure> {
        if let Some(step) = self.choose(tid, alternative)? {
            return Ok(step);
        }
        let mut step = self.step(tid)?;
        step.alternative = alternative;
        Ok(step)
    }

    /// Makes the alternative true before the thread moves; the step, if it is one in which no thread does.
    pub(super) fn choose(&mut self, tid: Tid, alternative: u32) -> Result<Option<Step>, Failure> {
        match Alternative::of(alternative) {
            Some(Alternative::Plain | Alternative::Arrival(_)) => {
                return self.arrive(tid, alternative).map(|()| None);
            }
            Some(Alternative::Fault(fault)) => {
                // It goes wrong with all there that is on its way.
                self.arrive(tid, Alternative::Plain.number())?;
                self.choice.fault = Some(fault);
                return Ok(None);
            }
            Some(Alternative::Timeout) => {}
            Some(Alternative::Later) => return self.time_passes_without_clients().map(Some),
            Some(outside) => return self.step_of_environment(outside).map(Some),
            None => {
                return Err(Failure::desync(format!(
                    "a step has the alternative {alternative:#x}, which does not exist"
                )));
            }
        }
        self.choice.arrived = None;
        let deadline = match tid {
            ENVIRONMENT => self.model.next_timer(),
            _ => self
                .model
                .find_thread(tid)
                .and_then(|thread| thread.wait.as_ref()?.deadline),
        };
        if let Some(deadline) = deadline {
            self.model.advance_clock(deadline);
        }
        match tid {
            ENVIRONMENT => self.time_passed(Alternative::Timeout).map(Some),
            _ => Ok(None),
        }
    }

    /// As if the clients that have yet to come did not exist: what waits for a time to come has waited long enough.
    fn time_passes_without_clients(&mut self) -> Result<Step, Failure> {
        let Some(deadline) = self
            .model
            .next_deadline()
            .filter(|_| self.arrivals().clients_may_wait())
        else {
            return Err(Failure::desync(
                "time was to pass before the next client comes, and does not now",
            ));
        };
        flight::let_clients_wait(&mut self.model);
        self.model.advance_clock(deadline);
        let mut step = self.time_passed(Alternative::Later)?;
        step.arrived = Some("the next client has not come yet".to_owned());
        Ok(step)
    }
}
