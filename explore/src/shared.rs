//! What the workers of one search share: settings, counters, the visited set, the results, and the reason to stop.

use crate::audit::Ledger;
use crate::config::Plan;
use crate::levels::Levels;
use crate::pairs::Pairs;
use crate::pool::Pool;
use crate::progress::add;
use crate::result::{Coverage, Failure, Found, Limit};
use crate::visited::Visited;
use crate::{Choice, Config, Menu, Observer, Progress, System};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What the caller may hang into a search.
pub(crate) struct Hooks<'a, V> {
    pub stop: Option<&'a AtomicBool>,
    pub memory: Option<&'a (dyn Fn() -> u64 + Sync)>,
    pub observer: Option<&'a dyn Observer>,
    /// Which violations count.
    pub wanted: Option<&'a (dyn Fn(&V) -> bool + Sync)>,
    /// Where the search begins.
    pub start: Vec<Choice>,
    /// A path that shows a wanted violation is not followed further.
    pub end_at_violation: bool,
    /// Stop at the first path that ends without a wanted violation.
    pub until_clean_end: bool,
}

impl<V> Default for Hooks<'_, V> {
    fn default() -> Self {
        Self {
            stop: None,
            memory: None,
            observer: None,
            wanted: None,
            start: Vec::new(),
            end_at_violation: false,
            until_clean_end: false,
        }
    }
}

pub(crate) struct Findings<S: System> {
    pub outcomes: BTreeMap<S::Outcome, u64>,
    pub violations: BTreeMap<S::Violation, (Vec<Choice>, u64)>,
    pub failure: Option<Failure<S::Error>>,
    limit: Option<Limit>,
}

pub(crate) struct Shared<'a, S: System> {
    pub config: &'a Config,
    pub plan: Plan,
    pub hooks: &'a Hooks<'a, S::Violation>,
    pub progress: &'a Progress,
    pub visited: Visited,
    pub pool: Pool,
    /// The preemption bound has kept a choice from being explored.
    pub withheld: AtomicBool,
    pub levels: Levels,
    /// What walks that guide themselves have seen.
    pub pairs: Pairs,
    ledger: Mutex<Ledger>,
    findings: Mutex<Findings<S>>,
    used: Used,
}

/// How much of its limits the search has used up.
struct Used {
    started: Instant,
    /// It is over.
    halted: AtomicBool,
    /// Memory in use when it was last asked for.
    memory: AtomicU64,
    /// How often it was asked whether to stop.
    asked: AtomicU64,
    /// Up to so many steps a search at its bound goes on before it is asked for its estimate again.
    hopeful_until: AtomicU64,
}

/// A search that goes on beyond its bound makes its estimate again after so many steps.
const HOPEFUL_EVERY: u64 = 250;

/// Asking for the memory in use may cost a system call, so it is asked for every so many steps.
const MEMORY_EVERY: u64 = 64;

impl<'a, S: System> Shared<'a, S> {
    pub fn new(config: &'a Config, hooks: &'a Hooks<'a, S::Violation>, progress: &'a Progress) -> Self {
        let plan = config.plan();
        let pool = match config.strategy {
            crate::Strategy::Random { walks }
            | crate::Strategy::Walk { walks }
            | crate::Strategy::Pct { walks, .. } => Pool::with_walks(plan.jobs, walks),
            crate::Strategy::Straight { walks } => Pool::with_walks(plan.jobs, Some(walks)),
            _ => Pool::with_root(plan.jobs),
        };
        let findings = Findings {
            outcomes: BTreeMap::new(),
            violations: BTreeMap::new(),
            failure: None,
            limit: None,
        };
        Self {
            config,
            plan,
            hooks,
            progress,
            visited: Visited::new(),
            pool,
            withheld: AtomicBool::new(false),
            levels: Levels::default(),
            pairs: Pairs::default(),
            ledger: Mutex::default(),
            findings: Mutex::new(findings),
            used: Used {
                started: Instant::now(),
                halted: AtomicBool::new(false),
                memory: AtomicU64::new(hooks.memory.map_or(0, |ask| ask())),
                asked: AtomicU64::new(0),
                hopeful_until: AtomicU64::new(0),
            },
        }
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn findings(&self) -> MutexGuard<'_, Findings<S>> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the search for all workers. The first reason counts.
    pub fn halt(&self, limit: Limit) {
        self.findings().limit.get_or_insert(limit);
        self.used.halted.store(true, Relaxed);
        self.pool.close();
        self.pairs.close();
    }

    pub fn fail(&self, failure: Failure<S::Error>) {
        self.findings().failure.get_or_insert(failure);
        self.halt(Limit::Failure);
    }

    /// What a choice counts for under a bound.
    pub fn cost(&self, menu: &Menu, choice: Choice) -> u32 {
        let departs = self.config.bound_counts_alternatives && choice.alternative != 0;
        u32::from(menu.preempts(choice)) + u32::from(departs)
    }

    /// Whether the search is to end now.
    pub fn must_stop(&self) -> bool {
        self.must_stop_unless(|| None)
    }

    /// Whether a search at its bound of steps goes on, being near its end by its own estimate. It is asked now and then only.
    fn is_hopeful(&self, steps: u64, estimate: impl Fn() -> Option<u64>) -> bool {
        let Some(hope) = self.config.limits.hope.filter(|hope| steps < hope.steps) else {
            return false;
        };
        let again = self.used.hopeful_until.load(Relaxed);
        if steps < again {
            return true;
        }
        self.used.hopeful_until.store(steps + HOPEFUL_EVERY, Relaxed);
        estimate().is_some_and(|total| total <= hope.estimate)
    }

    /// The same before every step, with an estimate of how many there will be in all.
    pub fn must_stop_unless(&self, estimate: impl Fn() -> Option<u64>) -> bool {
        if self.used.halted.load(Relaxed) {
            return true;
        }
        let limits = &self.config.limits;
        let progress = self.progress;
        let steps = progress.transitions.load(Relaxed) + progress.reexecuted_steps.load(Relaxed);
        if let Some(ask) = self.hooks.memory
            && add(&self.used.asked, 1).is_multiple_of(MEMORY_EVERY)
        {
            self.used.memory.store(ask(), Relaxed);
        }
        let reached = |limit: Option<u64>, value: u64| limit.is_some_and(|limit| value >= limit);
        let reason = if self.hooks.stop.is_some_and(|stop| stop.load(Relaxed)) {
            Limit::Stopped
        } else if reached(limits.states, progress.states_new.load(Relaxed)) {
            Limit::States
        } else if reached(limits.steps, steps) && !self.is_hopeful(steps, estimate) {
            Limit::Steps
        } else if limits
            .time
            .is_some_and(|time| self.used.started.elapsed() >= time)
        {
            Limit::Time
        } else if reached(limits.memory, self.used.memory.load(Relaxed)) {
            Limit::Memory
        } else if reached(limits.endless, steps) && progress.executions.load(Relaxed) == 0 {
            Limit::Endless
        } else if reached(limits.repetition, steps) && self.repeats_itself() {
            Limit::Repetition
        } else {
            return false;
        };
        self.halt(reason);
        true
    }

    /// Do most paths come to what was known?
    fn repeats_itself(&self) -> bool {
        let progress = self.progress;
        let paths = progress.executions.load(Relaxed) + progress.sleep_blocked.load(Relaxed);
        paths > 2 * progress.outcomes.load(Relaxed)
    }

    /// Reserves one live mark out of the budget.
    pub fn reserve_mark(&self) -> bool {
        if self
            .config
            .mark_memory
            .is_some_and(|limit| self.used.memory.load(Relaxed) > limit)
        {
            return false;
        }
        let budget = u64::try_from(self.config.max_live_marks).unwrap_or(u64::MAX);
        let progress = self.progress;
        let reserved = progress
            .marks_live
            .fetch_update(Relaxed, Relaxed, |live| (live < budget).then_some(live + 1));
        if let Ok(before) = reserved {
            progress.marks_live_max.fetch_max(before + 1, Relaxed);
        }
        reserved.is_ok()
    }

    pub fn release_mark(&self) {
        self.progress.marks_live.fetch_sub(1, Relaxed);
    }

    /// A path has ended. `counts`: it is an execution of its own, not one that was cut at an end that is known.
    pub fn ended(&self, outcome: Option<S::Outcome>, counts: bool) {
        add(&self.progress.schedules, 1);
        if counts {
            add(&self.progress.executions, 1);
        }
        match outcome {
            Some(outcome) => {
                let outcomes = &mut self.findings().outcomes;
                *outcomes.entry(outcome).or_default() += u64::from(counts);
                self.progress.outcomes.store(outcomes.len() as u64, Relaxed);
            }
            None => drop(add(&self.progress.dead_ends, u64::from(counts))),
        }
    }

    pub fn violated(&self, violation: S::Violation, path: Vec<Choice>) {
        let mut findings = self.findings();
        let progress = self.progress;
        // This one included, which has not come to its end yet.
        let so_far = progress.schedules.load(Relaxed) + 1;
        let first = &progress.schedules_to_violation;
        // Whoever found one before keeps its number.
        let _ = first.compare_exchange(0, so_far, Relaxed, Relaxed);
        let known = findings
            .violations
            .entry(violation)
            .or_insert_with(|| (path.clone(), 0));
        known.1 += 1;
        if (path.len(), &path) < (known.0.len(), &known.0) {
            known.0 = path;
        }
        let enough = self
            .config
            .max_violations
            .is_some_and(|max| findings.violations.len() >= max);
        drop(findings);
        if enough {
            self.halt(Limit::Violations);
        }
    }

    pub fn into_result(self) -> crate::SearchResult<S> {
        let elapsed = self.used.started.elapsed();
        let counters = self.progress.snapshot();
        let findings = self.findings.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ledger = self.ledger.into_inner().unwrap_or_else(PoisonError::into_inner);
        let coverage = match (findings.limit, self.config.bound_preemptions) {
            (Some(limit), _) => Coverage::Incomplete(limit),
            (None, _) if !ledger.is_clean() => Coverage::Incomplete(Limit::Dependent),
            (None, _) if counters.cut_paths > 0 => Coverage::Incomplete(Limit::Depth),
            (None, _) if self.config.strategy.is_walk() => Coverage::Sampled,
            (None, Some(preemptions)) => Coverage::Bounded {
                preemptions,
                exact: !self.withheld.load(Relaxed),
            },
            (None, None) => Coverage::Complete,
        };
        let found = |(violation, (path, times))| Found {
            violation,
            path,
            times,
        };
        crate::SearchResult {
            outcomes: findings.outcomes,
            violations: findings.violations.into_iter().map(found).collect(),
            learned: ledger.into_found(),
            counters,
            coverage,
            deepened: self.levels.deepened(),
            pairs: self.pairs.coverage(),
            failure: findings.failure,
            plan: self.plan,
            elapsed,
        }
    }
}
