//! What `tracefork check` costs.

use anyhow::{Context, Result, anyhow, ensure};
use checker::system::Mark;
use checker::{CheckSystem, CheckpointChoice};
use explore::{Choice, Config, Limits, Reduction, Search, SearchResult, System};
use session::cores::Core;
use tracefork_tests::guests;

use crate::bare::BareTask;
use crate::report::{Aim, Row};
use crate::sample::{Cost, Sampler, busy, in_turns, timed};
use crate::subject::{Subject, well};
use crate::{Effort, subject};

/// Philosophers: nothing but locks, and threads that get in each other's way.
pub fn philosophers(number: u32) -> Result<Subject> {
    let guest = guests::one("check/philosophers_fixed.c")?;
    Ok(Subject::new(&guest.build_with(&[&format!("-DN={number}")])?, &[]))
}

/// A whole search, divided by its transitions, against a bare stop.
pub fn transition(effort: &Effort) -> Result<Vec<Row>> {
    let subject = philosophers(effort.of(4, 2))?;
    let mut bare = BareTask::start(&subject::build("calls")?, subject::core().number())?;
    let mut system = subject.system(CheckpointChoice::Rewind)?;
    // The first search also starts the program; the others go back to its start.
    let search = |system: &mut CheckSystem, hash: bool| {
        let before = busy()?;
        let config = Config {
            limits: steps(effort.of(5000, 500)),
            ..searching(hash)
        };
        let result = Search::new(config).run_one(system);
        per_transition(&good(result)?, before)
    };
    let mut nameless = subject.system(CheckpointChoice::Rewind)?;
    search(&mut system, true)?;
    search(&mut nameless, false)?;
    let [ours, without, stop] = in_turns(
        effort.of(7, 1),
        [
            Box::new(|| search(&mut system, true)),
            Box::new(|| search(&mut nameless, false)),
            Box::new(|| bare.stops(5000)),
        ],
    )?;
    let named = Row::new(
        "check: an explored transition, against a bare stop",
        ours,
        stop,
        Aim::AtMost(4.0),
    );
    let nameless = Row::new(
        "check: one without an identity, against a bare stop",
        without,
        stop,
        Aim::AtMost(2.5),
    );
    Ok(vec![named, nameless])
}

/// The usual search; or one that goes the same way for as long as it takes, without identities.
pub fn searching(hash: bool) -> Config {
    let usual = Config::default();
    Config {
        hash,
        // Without identities the usual reduction is another search, which has ended before there is something to measure.
        reduction: if hash { usual.reduction } else { Reduction::None },
        ..usual
    }
}

/// Two workers against one.
pub fn jobs(effort: &Effort) -> Result<Vec<Row>> {
    let subject = philosophers(effort.of(5, 2))?;
    let options = subject.options()?;
    let search = |jobs: usize| {
        let config = Config {
            jobs,
            limits: steps(effort.of(20_000, 1000)),
            ..Config::default()
        };
        let before = busy()?;
        let result = Search::new(config).run(|worker| {
            let mut options = options.clone();
            if worker > 0 {
                options.core = Some(Core::take());
            }
            Ok(CheckSystem::new(
                options,
                Default::default(),
                CheckpointChoice::Rewind,
            ))
        });
        per_transition(&good(result)?, before)
    };
    let [two, one] = in_turns(effort.of(5, 1), [Box::new(|| search(2)), Box::new(|| search(1))])?;
    Ok(vec![Row::speed(
        "check: transitions per second, two workers against one",
        two,
        one,
        Aim::AtLeast(1.7),
    )])
}

/// A search that ends here measures as well as one that goes on.
pub fn steps(limit: u64) -> Limits {
    Limits {
        steps: Some(limit),
        ..Limits::default()
    }
}

pub fn good(result: SearchResult<CheckSystem>) -> Result<SearchResult<CheckSystem>> {
    if let Some(failure) = &result.failure {
        return Err(anyhow!("the search failed: {failure:?}"));
    }
    ensure!(result.violations.is_empty(), "the search found something");
    Ok(result)
}

pub fn per_transition(result: &SearchResult<CheckSystem>, busy_before: std::time::Duration) -> Result<Cost> {
    let busy = busy()?.saturating_sub(busy_before);
    Ok(Cost::per(result.counters.transitions, result.elapsed, busy))
}

/// Both backends against what the kernel charges for a copy of the process.
pub fn restores(effort: &Effort) -> Result<Vec<Row>> {
    let mut rewind = Station::new(CheckpointChoice::Rewind, 1)?;
    let mut fork = Station::new(CheckpointChoice::Fork, 1)?;
    let mut kernel = Station::new(CheckpointChoice::Fork, 1)?;
    let mut stepping = Station::new(CheckpointChoice::Rewind, 1)?;
    let count = effort.of(20, 2);
    let [rewind, step, fork, kernel] = in_turns(
        effort.of(50, 2),
        [
            Box::new(|| rewind.marks_and_restores(count)),
            Box::new(|| stepping.steps(count)),
            Box::new(|| fork.restores(count)),
            Box::new(|| kernel.forks(count)),
        ],
    )?;
    let rewind = rewind.without(step);
    let rewind = Row::new(
        "check: mark and rewind, against fork+exit+wait",
        rewind,
        kernel,
        Aim::AtMost(0.25),
    );
    let fork = Row::new(
        "check: restore by fork, against fork+exit+wait",
        fork,
        kernel,
        Aim::AtMost(1.5),
    );
    Ok(vec![rewind, fork])
}

/// A transition with everything (step, identity, mark, rewind), in a program that has touched more and more memory.
pub fn growth(effort: &Effort) -> Result<Vec<Row>> {
    let mut stations = [1, 16, effort.of(256, 32)]
        .into_iter()
        .map(|megabytes| Station::new(CheckpointChoice::Rewind, megabytes))
        .collect::<Result<Vec<_>>>()?;
    let count = effort.of(20, 2);
    let samplers: Vec<Sampler> = stations
        .iter_mut()
        .map(|station| -> Sampler { Box::new(move || station.transitions(count)) })
        .collect();
    let samplers: [Sampler; 3] = samplers.try_into().ok().context("three stations")?;
    let [small, medium, large] = in_turns(effort.of(50, 2), samplers)?;
    let name = |megabytes| format!("check: a transition with {megabytes} MB touched, against 1 MB");
    let aim = Aim::AtMost(1.2);
    Ok(vec![
        Row::new(name(16), medium, small, aim),
        Row::new(name(256), large, small, aim),
    ])
}

/// A program with two threads at their locks, and the checkpoint of that state.
struct Station {
    system: CheckSystem,
    here: Mark,
    next: Choice,
}

impl Station {
    fn new(checkpoints: CheckpointChoice, megabytes: u32) -> Result<Self> {
        const THREADS: usize = 2;
        let program = subject::build("locks")?;
        let args = [THREADS.to_string(), megabytes.to_string()];
        let mut system = Subject::new(&program, &[&args[0], &args[1]]).system(checkpoints)?;
        well(system.reset())?;
        // All threads are there and at work when each has had this many turns.
        for turn in 0..40 {
            let menu = well(system.enabled())?;
            let choice = menu.choices[turn % menu.choices.len()].choice;
            well(system.step(choice))?;
        }
        let menu = well(system.enabled())?;
        ensure!(
            menu.choices.len() == THREADS,
            "the threads are not at their locks"
        );
        let here = well(system.mark())?.context("a checkpoint can be taken")?;
        let next = menu.choices[0].choice;
        Ok(Self { system, here, next })
    }

    /// Mark, step, rewind; without the mark, the steps of [`Station::steps`] are left.
    fn marks_and_restores(&mut self, count: u64) -> Result<Cost> {
        timed(count, || {
            for _ in 0..count {
                let mark = well(self.system.mark())?.context("a checkpoint can be taken")?;
                well(self.system.step(self.next))?;
                ensure!(well(self.system.rewind_last(mark))?, "it can be returned to");
            }
            Ok(())
        })
    }

    fn steps(&mut self, count: u64) -> Result<Cost> {
        timed(count, || {
            (0..count).try_for_each(|_| well(self.system.step(self.next)).map(drop))
        })
    }

    fn restores(&mut self, count: u64) -> Result<Cost> {
        timed(count, || (0..count).try_for_each(|_| self.go_back()))
    }

    fn go_back(&mut self) -> Result<()> {
        ensure!(well(self.system.rewind(&self.here))?, "it can be returned to");
        Ok(())
    }

    /// What the kernel charges: a copy of this process is made, ended and waited for.
    fn forks(&mut self, count: u64) -> Result<Cost> {
        let task = well(well(self.system.session())?.spaces_mut().task())?;
        timed(count, || {
            for _ in 0..count {
                task.inject_fork()?.kill();
            }
            Ok(())
        })
    }

    fn transitions(&mut self, count: u64) -> Result<Cost> {
        timed(count, || {
            for _ in 0..count {
                well(self.system.step(self.next))?;
                well(self.system.state_id())?;
                let mark = well(self.system.mark())?.context("a checkpoint can be taken")?;
                self.go_back()?;
                self.system.forget(mark);
            }
            Ok(())
        })
    }
}
