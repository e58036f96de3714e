//! Waits that end before their time: what a slow machine does to a program, as a choice.
//!
//! Time moves only when nobody can go on. That is one way to see it; the other is that whoever can go on is slow, and a wait
//! with a deadline runs out meanwhile. Then the clock has moved for all, as it would have.

use super::Session;
use crate::error::Failure;
use crate::trace::Step;
use syscall_model::Tid;

/// The alternative of a choice that lets a timed wait run out. With thread 0: the next timer.
pub const TIMEOUT: u32 = 1;
/// No thread has this number: it stands for the timers.
const TIMERS: Tid = 0;

impl Session {
    /// The threads whose timed wait could run out now although others can go on; 0 among them if a timer could fire.
    pub fn timed_waits(&self) -> Vec<Tid> {
        if self.ended.is_some() {
            return Vec::new();
        }
        let now = self.model.clock.now();
        let waits = |&(&tid, thread): &(&Tid, &syscall_model::Thread)| {
            let deadline = thread.wait.as_ref().and_then(|wait| wait.deadline);
            deadline.is_some_and(|deadline| deadline > now) && !self.able().any(|able| able == tid)
        };
        let timers = self.model.next_timer().is_some_and(|moment| moment > now);
        let waiting = self.model.threads.iter().filter(waits).map(|(&tid, _)| tid);
        timers.then_some(TIMERS).into_iter().chain(waiting).collect()
    }

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
        if alternative != TIMEOUT {
            return Ok(None);
        }
        let deadline = match tid {
            TIMERS => self.model.next_timer(),
            _ => self
                .model
                .threads
                .get(&tid)
                .and_then(|thread| thread.wait.as_ref()?.deadline),
        };
        if let Some(deadline) = deadline {
            self.model.advance_clock(deadline);
        }
        match tid {
            TIMERS => self.time_passed().map(Some),
            _ => Ok(None),
        }
    }
}
