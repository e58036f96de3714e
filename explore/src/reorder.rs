//! The same steps in another order: a system in which no thread does more than it does on a given path.
//!
//! Most of what makes a counterexample hard to read is an unlucky order. Orders of the steps that it has are far fewer than all schedules, so a search
//! among them alone gets through where one among all does not.

use crate::{Choice, Menu, Report, System};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// A system that offers only the steps of a path.
pub(crate) struct Reordered<'a, S> {
    system: &'a mut S,
    steps: BTreeMap<u32, Vec<Choice>>,
    /// How many of its steps each thread has done.
    done: BTreeMap<u32, usize>,
}

impl<'a, S: System> Reordered<'a, S> {
    pub(crate) fn new(system: &'a mut S, path: &[Choice]) -> Self {
        let mut steps = BTreeMap::<u32, Vec<Choice>>::new();
        for choice in path {
            steps.entry(choice.thread).or_default().push(*choice);
        }
        Self {
            system,
            steps,
            done: BTreeMap::new(),
        }
    }

    fn is_next(&self, choice: Choice) -> bool {
        let done = self.done.get(&choice.thread).copied().unwrap_or(0);
        let steps = self.steps.get(&choice.thread);
        steps.and_then(|steps| steps.get(done)) == Some(&choice)
    }
}

impl<S: System> System for Reordered<'_, S> {
    type Mark = (S::Mark, BTreeMap<u32, usize>);
    type Outcome = S::Outcome;
    type Violation = S::Violation;
    type Error = S::Error;

    fn reset(&mut self) -> Result<(), S::Error> {
        self.done.clear();
        self.system.reset()
    }

    /// A thread that has done its steps stays in [`Menu::running`]: to leave it for another is a preemption all the same.
    fn enabled(&mut self) -> Result<Menu, S::Error> {
        let mut menu = self.system.enabled()?;
        menu.choices.retain(|candidate| self.is_next(candidate.choice));
        Ok(menu)
    }

    fn step(&mut self, choice: Choice) -> Result<Report<Self>, S::Error> {
        *self.done.entry(choice.thread).or_default() += 1;
        self.system.step(choice)
    }

    /// How far the threads are counts: what is left to them depends on it.
    fn state_id(&mut self) -> Result<u128, S::Error> {
        let done = u128::from(BuildHasherDefault::<DefaultHasher>::default().hash_one(&self.done));
        Ok(self.system.state_id()? ^ (done << 64 | done))
    }

    fn mark(&mut self) -> Result<Option<Self::Mark>, S::Error> {
        let mark = self.system.mark()?;
        Ok(mark.map(|mark| (mark, self.done.clone())))
    }

    fn rewind(&mut self, (mark, done): &Self::Mark) -> Result<bool, S::Error> {
        self.done.clone_from(done);
        self.system.rewind(mark)
    }

    fn forget(&mut self, (mark, _): Self::Mark) {
        self.system.forget(mark);
    }

    fn rewind_last(&mut self, (mark, done): Self::Mark) -> Result<bool, S::Error> {
        self.done = done;
        self.system.rewind_last(mark)
    }
}
