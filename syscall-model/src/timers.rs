//! Timers that send signals: `alarm`, `setitimer`, `timer_create`.
//!
//! All of them run on the virtual clock, also those that count processor time (`ITIMER_VIRTUAL`,
//! `ITIMER_PROF`, timers on a CPU-time clock): virtual time is the only time there is, and it does not pass
//! while a thread computes.
//!
//! Like the kernel, an interval timer whose last signal nobody has taken yet does not send another: it
//! counts overruns. So it is no reason to let time pass either, and a program that blocks or ignores the
//! signal of a timer with a tiny interval costs nothing.

use crate::clock::Nanos;
use crate::model::Model;
use crate::signals::{SigInfo, Signals};
use crate::thread::{Thread, Tid};
use std::collections::BTreeMap;

/// When a timer expires next, and how often after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Schedule {
    /// On the virtual monotonic clock; `None` when disarmed.
    pub deadline: Option<Nanos>,
    /// Zero: once.
    pub interval: Nanos,
}

impl Schedule {
    /// Counts the expirations up to `now` and moves the deadline past it.
    fn expire(&mut self, now: Nanos) -> u64 {
        let Some(due) = self.deadline.filter(|&due| due <= now) else {
            return 0;
        };
        if self.interval == 0 {
            self.deadline = None;
            return 1;
        }
        let count = (now - due) / self.interval + 1;
        self.deadline = Some(due.saturating_add(count.saturating_mul(self.interval)));
        count
    }

    /// What is left until the next expiration; zero when disarmed.
    pub fn remaining(mut self, now: Nanos) -> Nanos {
        // An interval timer that is behind shows its next expiration, as in the kernel.
        self.expire(now);
        self.deadline.map_or(0, |due| due - now)
    }
}

/// What a POSIX timer does when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notify {
    /// `SIGEV_NONE`: only `timer_gettime` shows it.
    Nothing,
    /// `SIGEV_SIGNAL`, or `SIGEV_THREAD_ID` with a thread. glibc makes `SIGEV_THREAD` of the latter.
    Signal {
        signo: i32,
        value: u64,
        thread: Option<Tid>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PosixTimer {
    pub clock: i32,
    pub notify: Notify,
    pub schedule: Schedule,
    /// Expirations since the signal that is pending was sent.
    overrun: i32,
    /// The same, of the signal that was taken last.
    last_overrun: i32,
}

impl PosixTimer {
    pub fn new(clock: i32, notify: Notify) -> Self {
        Self {
            clock,
            notify,
            schedule: Schedule::default(),
            overrun: 0,
            last_overrun: 0,
        }
    }

    pub fn last_overrun(&self) -> i32 {
        self.last_overrun
    }
}

/// The signals of `ITIMER_REAL`, `ITIMER_VIRTUAL` and `ITIMER_PROF`, in the order of their numbers.
const INTERVAL_SIGNALS: [i32; 3] = [libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF];

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Timers {
    /// By `ITIMER_*`.
    pub interval: [Schedule; 3],
    pub posix: BTreeMap<i32, PosixTimer>,
    next_id: i32,
}

impl Timers {
    /// A new program runs in the process: POSIX timers are gone, interval timers go on.
    pub fn exec(&mut self) {
        self.posix.clear();
        self.next_id = 0;
    }

    /// Adds a timer; the kernel numbers them upwards and does not use a number again soon.
    pub fn create(&mut self, timer: impl FnOnce(i32) -> PosixTimer) -> i32 {
        let id = self.next_id;
        self.next_id += 1;
        self.posix.insert(id, timer(id));
        id
    }

    /// A number that no timer gets.
    pub fn use_up(&mut self) {
        self.next_id += 1;
    }

    /// Arms or disarms; what was lost before is forgotten.
    pub fn arm(model: &mut Model, id: i32, schedule: Schedule) {
        if let Some(timer) = model.timers.posix.get_mut(&id) {
            timer.schedule = schedule;
            timer.overrun = 0;
            timer.last_overrun = 0;
        }
        Signals::forget_timer(model, id);
        Self::fire_due(model);
    }

    pub fn delete(model: &mut Model, id: i32) {
        model.timers.posix.remove(&id);
        Signals::forget_timer(model, id);
    }

    /// As if no time had passed.
    pub(crate) fn without_times(&mut self) {
        let posix = self.posix.values_mut().map(|timer| &mut timer.schedule);
        for schedule in self.interval.iter_mut().chain(posix) {
            schedule.deadline = schedule.deadline.map(|_| 0);
        }
    }

    /// The next moment at which a timer would make a difference.
    pub fn next_deadline(&self, signals: &Signals, threads: &BTreeMap<Tid, Thread>) -> Option<Nanos> {
        let interval = INTERVAL_SIGNALS.iter().zip(&self.interval);
        let interval = interval.filter(|(signo, _)| {
            let pending = signals.shared_set() & crate::signals::bit(**signo) != 0;
            !pending && signals.would_matter(threads, **signo, None)
        });
        let posix = self.posix.iter().filter(|(id, timer)| match timer.notify {
            Notify::Nothing => false,
            Notify::Signal { signo, thread, .. } => {
                !signals.timer_pending(threads, **id) && signals.would_matter(threads, signo, thread)
            }
        });
        let schedules = interval.map(|(_, s)| s).chain(posix.map(|(_, t)| &t.schedule));
        schedules.filter_map(|schedule| schedule.deadline).min()
    }

    /// Fires every timer whose moment has come. All expirations up to now count as one signal with an
    /// overrun, so this ends however small the interval.
    pub fn fire_due(model: &mut Model) {
        let now = model.clock.now();
        for (which, signo) in INTERVAL_SIGNALS.into_iter().enumerate() {
            if model.timers.interval[which].expire(now) > 0 {
                Signals::send_process(model, SigInfo::kernel(signo));
            }
        }
        let due = model.timers.posix.iter();
        let due = due.filter(|(_, t)| t.schedule.deadline.is_some_and(|d| d <= now));
        let mut due: Vec<(Nanos, i32)> = due
            .map(|(&id, t)| (t.schedule.deadline.unwrap_or(now), id))
            .collect();
        // In the order in which they expired.
        due.sort_unstable();
        for (_, id) in due {
            Self::fire(model, id, now);
        }
    }

    fn fire(model: &mut Model, id: i32, now: Nanos) {
        let pending = model.signals.timer_pending(&model.threads, id);
        let Some(timer) = model.timers.posix.get_mut(&id) else {
            return;
        };
        let count = timer.schedule.expire(now);
        let Notify::Signal { signo, value, thread } = timer.notify else {
            return;
        };
        let lost = if pending { count } else { count - 1 };
        timer.overrun = i32::try_from(lost)
            .unwrap_or(i32::MAX)
            .saturating_add(if pending { timer.overrun } else { 0 });
        if pending {
            return;
        }
        let info = SigInfo::timer(signo, id, value);
        match thread {
            Some(tid) => Signals::send_thread(model, tid, info),
            None => Signals::send_process(model, info),
        }
    }

    /// A signal leaves the pending set: if a timer sent it, its overrun is decided now.
    pub(crate) fn delivered(&mut self, info: SigInfo) -> SigInfo {
        let Some(timer) = info.timer_id().and_then(|id| self.posix.get_mut(&id)) else {
            return info;
        };
        timer.last_overrun = timer.overrun;
        timer.overrun = 0;
        info.with_overrun(timer.last_overrun)
    }
}
