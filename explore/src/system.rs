//! The one narrow interface between the search and what is searched.
//!
//! It is small on purpose: the engine is tested on toy systems of thirty lines whose state counts are known,
//! and the real system (processes under ptrace) has only these eight functions to get right.

use crate::Footprint;
use std::fmt::Debug;
use std::hash::Hash;

/// What is decided in a state: which thread goes next, and which of the possible results its operation has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Choice {
    /// The thread that performs its pending operation.
    pub thread: u32,
    /// Which result the operation has, where it can have several (0 where it cannot).
    pub alternative: u32,
}

impl Choice {
    /// The only alternative of a thread.
    pub fn of(thread: u32) -> Self {
        Self {
            thread,
            alternative: 0,
        }
    }
}

/// A pending operation with its announced footprint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The choice that performs it.
    pub choice: Choice,
    /// What it will touch. See [`System::enabled`] for how exact it has to be.
    pub footprint: Footprint,
    /// What it is, as opposed to in which state it is done: an operation at the same place in the program does the same kind of
    /// thing. `None`: it is not to be tried out, see [`crate::Audit`].
    pub site: Option<u64>,
    /// The same, also where it is not to be tried out; 0 if it is not known. Walks are guided by it, see [`crate::PairCoverage`].
    pub place: u64,
}

impl Candidate {
    /// A candidate.
    pub fn new(choice: Choice, footprint: Footprint) -> Self {
        Self {
            choice,
            footprint,
            site: None,
            place: 0,
        }
    }

    /// It is done at this site.
    #[must_use]
    pub fn at(self, site: Option<u64>) -> Self {
        Self {
            site,
            place: site.unwrap_or(self.place),
            ..self
        }
    }

    /// It is done at this place, which is not to be tried out.
    #[must_use]
    pub fn placed(self, place: u64) -> Self {
        Self { place, ..self }
    }
}

/// All that may happen next in a state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Menu {
    /// What can be done now, sorted by [`Choice`], without duplicates. The order is the order of the search.
    pub choices: Vec<Candidate>,
    /// Pending operations that cannot be done now (a lock that another thread holds, an empty queue).
    /// Only dynamic partial-order reduction looks at them.
    pub blocked: Vec<Candidate>,
    /// The thread that ran last, if taking another one now is a *preemption*: it could go on, and it did not
    /// yield of its own accord.
    pub running: Option<u32>,
    /// A thread that is none: it stands for what happens to all of them from outside. What it does preempts nobody.
    pub environment: Option<u32>,
}

impl Menu {
    /// Whether taking `choice` here preempts the running thread.
    pub fn preempts(&self, choice: Choice) -> bool {
        self.environment != Some(choice.thread) && self.running.is_some_and(|t| t != choice.thread)
    }

    /// Whether the thread has something to do.
    pub fn offers(&self, thread: u32) -> bool {
        self.choices.iter().any(|c| c.choice.thread == thread)
    }

    /// Where a choice is in [`Menu::choices`].
    pub fn position(&self, choice: Choice) -> Option<usize> {
        self.choices.iter().position(|c| c.choice == choice)
    }

    /// The threads that have something to do.
    pub(crate) fn threads(&self) -> Vec<u32> {
        let mut threads: Vec<_> = self.choices.iter().map(|c| c.choice.thread).collect();
        threads.dedup();
        threads
    }

    /// Whether the thread is there at all, enabled or blocked.
    pub(crate) fn knows(&self, thread: u32) -> bool {
        self.offers(thread) || self.blocked.iter().any(|c| c.choice.thread == thread)
    }
}

/// What one transition did.
#[derive(Clone, Debug)]
pub struct StepReport<V, O> {
    /// What it touched, if that is known better than what was announced. May be less or more. A step that ends the process while threads
    /// could be left in it (an exit, a crash) must say so here, or have announced it: [`Footprint::and_ending`].
    pub performed: Option<Footprint>,
    /// Properties that do not hold. The path may go on after them, or end with them.
    pub violations: Vec<V>,
    /// The path ends here, with this outcome.
    pub end: Option<O>,
}

impl<V, O> StepReport<V, O> {
    /// Nothing special; the path goes on.
    pub fn running() -> Self {
        Self {
            performed: None,
            violations: Vec::new(),
            end: None,
        }
    }

    /// The path ends.
    pub fn ended(outcome: O) -> Self {
        Self {
            end: Some(outcome),
            ..Self::running()
        }
    }

    /// A property is violated.
    #[must_use]
    pub fn violating(mut self, violation: V) -> Self {
        self.violations.push(violation);
        self
    }

    /// This is what was really touched.
    #[must_use]
    pub fn touching(self, performed: Footprint) -> Self {
        Self {
            performed: Some(performed),
            ..self
        }
    }
}

/// The report that a system's steps return.
pub type Report<S> = StepReport<<S as System>::Violation, <S as System>::Outcome>;

/// Something with states, that can be searched.
///
/// The engine owns the position: it resets, steps, marks and rewinds. The system must be *deterministic*: the same
/// choices from the initial state lead to the same state, menus, reports and identities.
///
/// # Example
/// Two threads increment a counter, each with a load and a store. One of the outcomes is a lost update.
/// ```
/// use explore::{Candidate, Choice, Config, Footprint, Menu, Report, Search, StepReport, System};
/// use std::convert::Infallible;
///
/// const COUNTER: u64 = 1;
///
/// #[derive(Clone, Default)]
/// struct Increment { counter: u32, at: [u8; 2], loaded: [u32; 2], last: Option<u32> }
///
/// impl System for Increment {
///     type Mark = Increment;
///     type Outcome = u32;
///     type Violation = &'static str;
///     type Error = Infallible;
///
///     fn reset(&mut self) -> Result<(), Infallible> {
///         *self = Self::default();
///         Ok(())
///     }
///     fn enabled(&mut self) -> Result<Menu, Infallible> {
///         let pending = |t: u32| match self.at[t as usize] {
///             0 => Some(Candidate::new(Choice::of(t), Footprint::read(COUNTER))),
///             1 => Some(Candidate::new(Choice::of(t), Footprint::write(COUNTER))),
///             _ => None,
///         };
///         let choices: Vec<_> = (0..2).filter_map(pending).collect();
///         let running = self.last.filter(|&t| self.at[t as usize] < 2);
///         Ok(Menu { choices, running, ..Menu::default() })
///     }
///     fn step(&mut self, choice: Choice) -> Result<Report<Self>, Infallible> {
///         let t = choice.thread as usize;
///         match self.at[t] {
///             0 => self.loaded[t] = self.counter,
///             _ => self.counter = self.loaded[t] + 1,
///         }
///         self.at[t] += 1;
///         self.last = Some(choice.thread);
///         if self.at != [2, 2] {
///             return Ok(StepReport::running());
///         }
///         let report = StepReport::ended(self.counter);
///         Ok(if self.counter == 2 { report } else { report.violating("lost update") })
///     }
///     fn state_id(&mut self) -> Result<u128, Infallible> {
///         // Who ran last does not matter for what can happen next, so it is left out.
///         let parts = [self.counter, self.at[0].into(), self.at[1].into(), self.loaded[0], self.loaded[1]];
///         Ok(parts.iter().fold(0, |id, &part| id << 8 | u128::from(part)))
///     }
///     fn mark(&mut self) -> Result<Option<Self>, Infallible> {
///         Ok(Some(self.clone()))
///     }
///     fn rewind(&mut self, mark: &Self) -> Result<bool, Infallible> {
///         *self = mark.clone();
///         Ok(true)
///     }
///     fn forget(&mut self, _: Self) {}
/// }
///
/// let config = Config { max_violations: None, ..Config::default() };
/// let result = Search::new(config).run_one(&mut Increment::default());
/// assert!(result.coverage.is_complete());
/// assert_eq!(result.outcomes.keys().copied().collect::<Vec<_>>(), [1, 2]);
/// assert_eq!(result.violations.len(), 1);
/// assert_eq!(result.violations[0].violation, "lost update");
/// ```
pub trait System {
    /// A checkpoint of a state.
    type Mark;
    /// How a path ended; collected as a set.
    type Outcome: Clone + Ord + Hash + Debug + Send;
    /// What was violated; violations that are equal are the same one, found again.
    type Violation: Clone + Ord + Debug + Send;
    /// Why the system cannot go on. Aborts the search.
    type Error: Debug + Send;

    /// Back to the initial state. Called before anything else, and again whenever there is no mark to start from.
    fn reset(&mut self) -> Result<(), Self::Error>;

    /// What can be done in the current state. Every live thread that has a pending operation must be in it, in
    /// [`Menu::choices`] or in [`Menu::blocked`]. After the end of a path it has no choices, and in `blocked` the
    /// threads that are still there, waiting (none, if the process is gone).
    ///
    /// A footprint must hold everything that decides whether the operation is enabled, what it does and what it
    /// changes that others (or the outcome) can see. Where a step reports a *performed* footprint, that one counts
    /// for what was executed; the announced one is then a prediction that only dynamic partial-order reduction
    /// uses, for operations that it has not seen executed.
    fn enabled(&mut self) -> Result<Menu, Self::Error>;

    /// Performs one transition: a choice out of [`System::enabled`].
    fn step(&mut self, choice: Choice) -> Result<Report<Self>, Self::Error>;

    /// Identifies the current state: two states with the same identity have the same future, and the outcomes of
    /// their ends are the same. (So what was written to an output so far is part of it.) Not called in a stateless search.
    fn state_id(&mut self) -> Result<u128, Self::Error>;

    /// Takes a checkpoint, or says that none can be taken here (the engine then re-executes).
    fn mark(&mut self) -> Result<Option<Self::Mark>, Self::Error>;

    /// Back to a checkpoint, which stays. `false`: that is not possible any more, and the system is in no state; the engine resets it and executes the way
    /// there again.
    fn rewind(&mut self, mark: &Self::Mark) -> Result<bool, Self::Error>;

    /// Where in the program a pending operation is, for people.
    fn describe(&mut self, choice: Choice) -> String {
        format!("thread {}", choice.thread)
    }

    /// A checkpoint is not needed any more.
    fn forget(&mut self, mark: Self::Mark);

    /// Back to a checkpoint for the last time. Worth implementing where using it up is cheaper than copying it.
    fn rewind_last(&mut self, mark: Self::Mark) -> Result<bool, Self::Error> {
        let done = self.rewind(&mark)?;
        self.forget(mark);
        Ok(done)
    }
}
