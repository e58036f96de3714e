//! A depth-first search that goes deeper in rounds leaves nothing out, explores nothing twice, and is not kept by an endless path.

mod common;

use common::searches::{keep_going, run, stateless, writers};
use common::{Op, Program};
use explore::{
    Candidate, Choice, Config, Coverage, Footprint, Limit, Limits, Menu, Reduction, Report, Search,
    StepReport, Strategy, System,
};
use std::convert::Infallible;

#[test]
fn the_counts_are_those_of_one_search() {
    let looping = Program::new(vec![
        vec![Op::Spin(0, 1), Op::Set(1, 1)],
        vec![Op::Set(0, 1), Op::Load(1), Op::Print],
        vec![Op::Lock(0), Op::Set(2, 1), Op::Unlock(0)],
    ]);
    for program in [writers(3, 3, true), writers(2, 4, false), looping] {
        for reduction in [Reduction::None, Reduction::Sleep] {
            for (hash, jobs) in [(true, 1), (true, 2), (false, 1)] {
                if !hash && program.threads[0].contains(&Op::Spin(0, 1)) {
                    continue;
                }
                let search = |deepening| {
                    let config = Config {
                        hash,
                        jobs,
                        reduction,
                        deepening,
                        ..keep_going()
                    };
                    let result = run(&program, config);
                    assert_eq!(result.coverage, Coverage::Complete);
                    // With sleep sets, how often a state is come to again depends on the order of the search.
                    let transitions = (reduction == Reduction::None).then_some(result.counters.transitions);
                    (
                        result.outcomes.into_keys().collect::<Vec<_>>(),
                        result.counters.states_new,
                        transitions,
                    )
                };
                let whole = search(None);
                for bound in [0, 1, 2, 5] {
                    assert_eq!(
                        search(Some(bound)),
                        whole,
                        "bound {bound}, {reduction:?}, hash {hash}"
                    );
                }
            }
        }
    }
}

/// Thread 0 counts without end; thread 1 looks once, and must not see a three.
#[derive(Clone, Default)]
struct Counting {
    count: u32,
    looked: bool,
}

impl System for Counting {
    type Mark = Counting;
    type Outcome = u32;
    type Violation = &'static str;
    type Error = Infallible;

    fn reset(&mut self) -> Result<(), Infallible> {
        *self = Self::default();
        Ok(())
    }
    fn enabled(&mut self) -> Result<Menu, Infallible> {
        let threads = if self.looked { 0..1 } else { 0..2 };
        let candidate = |t| Candidate::new(Choice::of(t), Footprint::write(1));
        Ok(Menu {
            choices: threads.map(candidate).collect(),
            ..Menu::default()
        })
    }
    fn step(&mut self, choice: Choice) -> Result<Report<Self>, Infallible> {
        if choice.thread == 0 {
            self.count += 1;
            return Ok(StepReport::running());
        }
        self.looked = true;
        let report = StepReport::running();
        Ok(if self.count == 3 {
            report.violating("three")
        } else {
            report
        })
    }
    fn state_id(&mut self) -> Result<u128, Infallible> {
        Ok(u128::from(self.count) << 1 | u128::from(self.looked))
    }
    fn mark(&mut self) -> Result<Option<Self>, Infallible> {
        Ok(Some(self.clone()))
    }
    fn rewind(&mut self, mark: &Self) -> Result<bool, Infallible> {
        *self = mark.clone();
        Ok(true)
    }
    fn forget(&mut self, _: Self) {}
}

#[test]
fn an_endless_path_hides_nothing() {
    let search = |deepening, hash| {
        let config = Config {
            deepening,
            hash,
            reduction: Reduction::Sleep,
            limits: Limits {
                steps: Some(10_000),
                ..Limits::default()
            },
            ..Config::default()
        };
        Search::new(config).run_one(&mut Counting::default())
    };
    let straight_down = search(None, true);
    assert_eq!(straight_down.coverage, Coverage::Incomplete(Limit::Steps));
    assert!(straight_down.violations.is_empty());
    for (bound, hash) in [(1, true), (4, true), (100, true), (4, false)] {
        let found = search(Some(bound), hash).violations;
        assert_eq!(found.len(), 1, "from depth {bound}");
        assert_eq!(found[0].path.len(), 4);
    }
}

#[test]
fn a_search_without_an_end_can_be_told_from_a_long_one() {
    let search = |limits| {
        let config = Config {
            limits,
            ..Config::default()
        };
        Search::new(config).run_one(&mut Counting::default()).coverage
    };
    let endless = Limits {
        endless: Some(500),
        ..Limits::default()
    };
    assert_eq!(search(endless.clone()), Coverage::Incomplete(Limit::Endless));
    // One with ends goes on, however long it takes.
    let config = Config {
        limits: Limits {
            endless: Some(20),
            ..Limits::default()
        },
        ..stateless(Reduction::None)
    };
    assert_eq!(run(&writers(3, 3, true), config).coverage, Coverage::Complete);
}

#[test]
fn straight_ahead_is_one_schedule_without_a_preemption() {
    let config = Config {
        strategy: Strategy::Straight { walks: 1 },
        hash: false,
        ..keep_going()
    };
    let mut program = writers(3, 4, true);
    let result = Search::new(config.clone()).run_one(&mut program);
    assert_eq!(
        (result.coverage, result.counters.executions),
        (Coverage::Sampled, 1)
    );
    let threads: Vec<u32> = program.log.iter().map(|choice| choice.thread).collect();
    let switches = threads.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!((threads.len(), switches), (12, 2));
    // A thread that waits in a loop does not keep the others from what it waits for.
    let mut waiting = Program::new(vec![vec![Op::Spin(0, 1)], vec![Op::Set(0, 1)]]);
    let result = Search::new(config).run_one(&mut waiting);
    assert_eq!(result.counters.executions, 1);
}
