//! How long a thread may compute.
//!
//! The search looks at its limits, and at Ctrl-C, between two steps. A thread that never comes to another visible operation takes one step
//! that does not end, so whoever lets it run has to look at them, too.

use super::Session;
use super::spin::TICK;
use failure::{ExitCode, Failure};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use syscall_model::Tid;

/// When to break off a thread that computes.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// When this is set.
    pub stop: Option<Arc<AtomicBool>>,
    /// From this moment on.
    pub deadline: Option<Instant>,
    /// After so many stops at loads and stores that are no parking points after all.
    pub stops: Option<u64>,
    /// After it has run for so long in one step.
    pub step: Option<Duration>,
}

impl Bounds {
    pub fn is_over(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Relaxed))
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

impl Session {
    pub(super) fn is_over(&self) -> bool {
        let bounds = &self.options.bounds;
        bounds.is_over() || bounds.step.is_some_and(|most| TICK * self.transit.ticks >= most)
    }

    /// From now on so many stops at loads and stores that nobody else can see.
    pub fn allow_stops(&mut self, stops: u64) {
        self.options.bounds.stops = Some(stops);
    }

    /// One more stop at a load or store that nobody else can see.
    pub(super) fn count_stop(&mut self, tid: Tid) -> Result<(), Failure> {
        let Some(left) = &mut self.options.bounds.stops else {
            return Ok(());
        };
        match left.checked_sub(1) {
            Some(less) => *left = less,
            None => return Err(self.broken_off(tid)),
        }
        Ok(())
    }

    /// Whoever waits for this step will not have it.
    pub(super) fn broken_off(&mut self, tid: Tid) -> Failure {
        Failure::new(ExitCode::Limit, self.computes(tid))
    }

    /// Says once that this takes long, lest it look as if tracefork did.
    pub(super) fn warn_of_long_step(&mut self, tid: Tid) {
        tracing::warn!(
            "{}; if this is an infinite loop, stop the search with --time-limit or Ctrl-C",
            self.computes(tid)
        );
    }

    fn computes(&mut self, tid: Tid) -> String {
        if let Some(regs) = self
            .spaces
            .here
            .task
            .as_ref()
            .and_then(|task| task.regs().ok())
            .copied()
        {
            self.threads.at(tid).regs = regs;
        }
        let place = self.explain().location(tid);
        let place = if place.is_empty() {
            place
        } else {
            format!(", in {place}")
        };
        format!("thread {tid} computes{place} without reaching a visible operation")
    }
}
