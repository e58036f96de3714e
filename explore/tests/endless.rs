//! States without an end: loops that wait in vain are told from those that somebody ends, and from threads that are busy for ever.

use explore::{
    Candidate, Choice, Config, Effort, Footprint, Menu, Prospect, Reduction, Report, Search, StepReport,
    System, Ways, prospect,
};
use std::collections::HashSet;
use std::convert::Infallible;

/// What a thread does next. Those that poll stay where they are until they find what they look for.
#[derive(Clone, Copy)]
enum Op {
    Set(u8),
    /// Goes on if the word is so.
    Poll(u8),
    /// Sets the word to the one value if it is the other, and begins again.
    Flip(u8, u8),
}

#[derive(Clone)]
struct Toy {
    threads: Vec<Vec<Op>>,
    at: Vec<usize>,
    word: u8,
}

impl Toy {
    fn new(threads: Vec<Vec<Op>>) -> Self {
        let at = vec![0; threads.len()];
        Self { threads, at, word: 0 }
    }

    fn next(&self, thread: usize) -> Option<Op> {
        self.threads[thread].get(self.at[thread]).copied()
    }
}

impl System for Toy {
    type Mark = Toy;
    type Outcome = u8;
    type Violation = ();
    type Error = Infallible;

    fn reset(&mut self) -> Result<(), Infallible> {
        self.at.fill(0);
        self.word = 0;
        Ok(())
    }
    fn enabled(&mut self) -> Result<Menu, Infallible> {
        let alive = (0..self.threads.len()).filter(|&thread| self.next(thread).is_some());
        let choices = alive.map(|thread| Candidate::new(Choice::of(thread as u32), Footprint::write(1)));
        Ok(Menu {
            choices: choices.collect(),
            ..Menu::default()
        })
    }
    fn step(&mut self, choice: Choice) -> Result<Report<Self>, Infallible> {
        let thread = choice.thread as usize;
        match self.next(thread) {
            Some(Op::Set(value)) => (self.word, self.at[thread]) = (value, self.at[thread] + 1),
            Some(Op::Poll(value)) if self.word == value => self.at[thread] += 1,
            Some(Op::Flip(from, to)) if self.word == from => self.word = to,
            _ => {}
        }
        let is_over = (0..self.threads.len()).all(|thread| self.next(thread).is_none());
        Ok(match is_over {
            true => StepReport::ended(self.word),
            false => StepReport::running(),
        })
    }
    fn state_id(&mut self) -> Result<u128, Infallible> {
        let places = self.at.iter().map(|&at| at as u128);
        Ok(places.fold(u128::from(self.word), |id, at| id << 8 | at))
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

fn ways(toy: &Toy, reduction: Reduction) -> Ways {
    let ways = Ways::default();
    let config = Config {
        reduction,
        ..Config::default()
    };
    let result = Search::new(config).observer(&ways).run_one(&mut toy.clone());
    assert!(result.coverage.is_complete());
    ways
}

fn prospect_of(toy: &Toy, path: &[Choice]) -> Prospect {
    prospect(&mut toy.clone(), path, Effort::default()).expect("it can be executed")
}

#[test]
fn a_poll_that_some_schedules_miss() {
    // The value is there for a moment only.
    let toy = Toy::new(vec![vec![Op::Set(1), Op::Set(2)], vec![Op::Poll(1)]]);
    for reduction in [Reduction::None, Reduction::Sleep] {
        let ways = ways(&toy, reduction);
        let endless = ways.without_end(&HashSet::new()).expect("there is a livelock");
        assert_eq!(endless.path, [Choice::of(0), Choice::of(0)]);
        assert!(!endless.is_busy);
        assert_eq!(prospect_of(&toy, &endless.path), Prospect::Endless);
    }
}

#[test]
fn a_poll_that_always_succeeds_in_the_end() {
    let toy = Toy::new(vec![vec![Op::Set(1)], vec![Op::Poll(1)]]);
    assert_eq!(ways(&toy, Reduction::None).without_end(&HashSet::new()), None);
    // The states on the way to the end need not be asked about one by one.
    let Prospect::Ends(states) = prospect_of(&toy, &[]) else {
        panic!("an end is missed");
    };
    assert!(states.contains(&toy.clone().state_id().expect("it has one")) && states.len() > 1);
}

#[test]
fn a_poll_that_never_succeeds_is_found_where_nobody_else_is_left() {
    let toy = Toy::new(vec![vec![Op::Set(1), Op::Set(2)], vec![Op::Poll(3)]]);
    let endless = ways(&toy, Reduction::None).without_end(&HashSet::new());
    let endless = endless.expect("there is a livelock");
    assert_eq!((endless.path.len(), endless.is_busy), (2, false));
    assert_eq!(prospect_of(&toy, &endless.path), Prospect::Endless);
}

#[test]
fn threads_that_keep_each_other_busy() {
    let toy = Toy::new(vec![vec![Op::Flip(0, 1)], vec![Op::Flip(1, 0)]]);
    let endless = ways(&toy, Reduction::None).without_end(&HashSet::new());
    assert!(endless.is_some_and(|endless| endless.is_busy));
}

#[test]
fn what_is_known_to_end_is_not_doubted_again() {
    let toy = Toy::new(vec![vec![Op::Set(1), Op::Set(2)], vec![Op::Poll(1)]]);
    let ways = ways(&toy, Reduction::None);
    let first = ways.without_end(&HashSet::new()).expect("there is a livelock");
    assert_eq!(ways.without_end(&HashSet::from([first.id])), None);
}
