//! Footprints that say too little are found out, what is learned from that is enough, and those that say enough are not doubted.

use explore::{
    Audit, Candidate, Choice, Config, Coverage, Footprint, Limit, Menu, Reduction, Report, Search,
    SearchResult, StepReport, Strategy, System,
};
use std::convert::Infallible;

/// Two threads that change a number with their last steps, and say that they touch nothing.
#[derive(Clone)]
struct Silent {
    change: fn(u64, u64) -> u64,
    steps: u32,
    number: u64,
    at: [u32; 2],
    last: Option<u32>,
}

impl Silent {
    fn new(change: fn(u64, u64) -> u64, steps: u32) -> Self {
        Self {
            change,
            steps,
            number: 1,
            at: [0; 2],
            last: None,
        }
    }
}

impl System for Silent {
    type Mark = Silent;
    type Outcome = u64;
    type Violation = ();
    type Error = Infallible;

    fn reset(&mut self) -> Result<(), Infallible> {
        *self = Self::new(self.change, self.steps);
        Ok(())
    }

    fn enabled(&mut self) -> Result<Menu, Infallible> {
        let threads = (0..2).filter(|&t| self.at[t as usize] < self.steps);
        let site = |t: u32| Some(u64::from(t * 100 + self.at[t as usize]));
        let choices = threads
            .map(|t| Candidate::new(Choice::of(t), Footprint::local()).at(site(t)))
            .collect();
        Ok(Menu {
            choices,
            running: self.last,
            ..Menu::default()
        })
    }

    fn step(&mut self, choice: Choice) -> Result<Report<Self>, Infallible> {
        let at = &mut self.at[choice.thread as usize];
        *at += 1;
        self.last = Some(choice.thread);
        if *at == self.steps {
            self.number = (self.change)(self.number, u64::from(choice.thread));
        }
        Ok(match self.at {
            [a, b] if a == self.steps && b == self.steps => StepReport::ended(self.number),
            _ => StepReport::running(),
        })
    }

    fn state_id(&mut self) -> Result<u128, Infallible> {
        let [first, second] = self.at.map(u128::from);
        Ok(u128::from(self.number) << 16 | first << 8 | second)
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

/// The order shows.
fn append(number: u64, thread: u64) -> u64 {
    number * 10 + thread
}

/// The order does not show.
fn add(number: u64, thread: u64) -> u64 {
    number + thread
}

fn configs() -> Vec<Config> {
    let all = [
        (Reduction::Sleep, true),
        (Reduction::Sleep, false),
        (Reduction::Dpor, false),
    ];
    let config = |(reduction, hash)| Config {
        reduction,
        hash,
        audit: Audit::InPassing,
        ..Config::default()
    };
    all.into_iter().map(config).collect()
}

fn search(change: fn(u64, u64) -> u64, steps: u32, config: Config) -> SearchResult<Silent> {
    Search::new(config).run_one(&mut Silent::new(change, steps))
}

#[test]
fn operations_that_do_not_commute_are_found_out_and_learned() {
    for config in configs() {
        let trusting = Config {
            audit: Audit::Off,
            ..config.clone()
        };
        // What would be lost.
        assert_eq!(search(append, 1, trusting).outcomes.len(), 1);
        let doubting = search(append, 1, config.clone());
        assert_eq!(
            doubting.coverage,
            Coverage::Incomplete(Limit::Dependent),
            "{config:?}"
        );
        assert_eq!(doubting.learned.len(), 1);
        let wiser = Config {
            dependent: doubting.learned[0].sites.into(),
            ..config
        };
        let result = search(append, 1, wiser);
        assert_eq!(result.coverage, Coverage::Complete);
        assert_eq!(result.outcomes.len(), 2);
        assert!(result.learned.is_empty());
    }
}

#[test]
fn operations_that_commute_are_not_doubted() {
    for config in configs() {
        for steps in 1..4 {
            let result = search(add, steps, config.clone());
            assert_eq!(result.coverage, Coverage::Complete);
            assert_eq!(result.outcomes.len(), 1);
            assert!(result.counters.audited_pairs > 0);
        }
    }
}

/// Dynamic reduction lets one thread run to its end before the other begins: it never sees the two last steps side by side.
#[test]
fn walks_see_what_dynamic_reduction_does_not() {
    let dpor = Config {
        reduction: Reduction::Dpor,
        hash: false,
        audit: Audit::InPassing,
        ..Config::default()
    };
    assert!(search(append, 3, dpor.clone()).learned.is_empty());
    let walks = Config {
        strategy: Strategy::Random { walks: Some(16) },
        audit: Audit::Only,
        ..dpor.clone()
    };
    let tried = search(append, 3, walks);
    assert_eq!(tried.learned.len(), 1);
    assert_eq!(tried.learned[0].sites, [2, 102]);
    let wiser = Config {
        dependent: tried.learned[0].sites.into(),
        ..dpor
    };
    assert_eq!(search(append, 3, wiser).outcomes.len(), 2);
}

#[test]
fn without_a_reduction_nothing_is_tried() {
    let config = Config {
        reduction: Reduction::None,
        audit: Audit::InPassing,
        ..Config::default()
    };
    let result = search(append, 2, config);
    assert_eq!(result.outcomes.len(), 2);
    assert_eq!(result.counters.audited_pairs, 0);
}
