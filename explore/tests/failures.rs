//! What goes wrong in a system ends the search, for all workers, with the error, its path, and the counts so far.

mod common;

use common::{Op, Program};
use explore::{Choice, Config, Coverage, Failure, Limit, Reduction, Report, Search, StepReport, System};

fn program() -> Program {
    Program::new(vec![
        vec![Op::Set(0, 1); 3],
        vec![Op::Set(0, 2); 3],
        vec![Op::Set(0, 3); 3],
    ])
}

fn config(jobs: usize) -> Config {
    Config {
        jobs,
        hash: false,
        reduction: Reduction::None,
        max_violations: None,
        ..Config::default()
    }
}

#[test]
fn an_error_of_the_system_aborts_with_its_path_and_keeps_the_counts() {
    for jobs in [1, 2, 3] {
        let failing = |worker: usize| {
            let mut program = program();
            program.fails_after = (worker == 0).then_some(40);
            Ok(program)
        };
        let result = Search::new(config(jobs)).run(failing);
        // With several workers the others may have done all there is before the first had made 40 steps.
        match result.failure {
            Some(Failure::System { error, path }) => {
                assert_eq!(error, "told to fail");
                assert!(!path.is_empty() && path.len() <= 9);
                assert_eq!(result.coverage, Coverage::Incomplete(Limit::Failure));
                assert!(result.counters.transitions >= 40 - result.counters.reexecuted_steps.min(40));
            }
            other => assert!(jobs > 1 && other.is_none(), "{other:?}"),
        }
        assert_eq!(result.counters.marks_live, 0);
    }
}

#[test]
fn the_path_of_an_error_includes_the_failing_choice() {
    let mut program = program();
    program.fails_after = Some(2);
    let result = Search::new(config(1)).run_one(&mut program);
    let Some(Failure::System { path, .. }) = result.failure else {
        panic!("{:?}", result.failure)
    };
    assert_eq!(path, [Choice::of(0); 3]);
    assert_eq!(result.counters.transitions, 2);
}

#[test]
fn a_panic_of_one_worker_stops_all() {
    for jobs in [1, 3] {
        let panicking = |_| {
            let mut program = program();
            program.fails_after = Some(40);
            program.panics = true;
            Ok(program)
        };
        let result = Search::new(config(jobs)).run(panicking);
        let Some(Failure::Panic { message, .. }) = result.failure else {
            panic!("{:?}", result.failure)
        };
        assert_eq!(message, "told to panic");
        assert_eq!(result.coverage, Coverage::Incomplete(Limit::Failure));
    }
}

#[test]
fn a_worker_without_a_system_stops_all() {
    let result = Search::<Program>::new(config(2)).run(|worker| match worker {
        0 => Ok(program()),
        _ => Err("no system for you".to_owned()),
    });
    let Some(Failure::System { error, .. }) = result.failure else {
        panic!("{:?}", result.failure)
    };
    assert_eq!(error, "no system for you");
}

/// Counts how often it was reset, and shows it: not deterministic.
#[derive(Default)]
struct Forgetful {
    resets: u32,
    at: u32,
    /// Ends one step earlier the second time, rather than being in another state.
    shorter: bool,
}

impl System for Forgetful {
    type Mark = ();
    type Outcome = u32;
    type Violation = ();
    type Error = ();

    fn reset(&mut self) -> Result<(), ()> {
        self.resets += 1;
        self.at = 0;
        Ok(())
    }
    fn enabled(&mut self) -> Result<explore::Menu, ()> {
        let candidate = |alternative| {
            explore::Candidate::new(
                Choice {
                    thread: 0,
                    alternative,
                },
                explore::Footprint::local(),
            )
        };
        Ok(explore::Menu {
            choices: vec![candidate(0), candidate(1)],
            ..explore::Menu::default()
        })
    }
    fn step(&mut self, _: Choice) -> Result<Report<Self>, ()> {
        self.at += 1;
        let length = if self.shorter && self.resets > 1 { 1 } else { 3 };
        Ok(if self.at >= length {
            StepReport::ended(self.at)
        } else {
            StepReport::running()
        })
    }
    fn state_id(&mut self) -> Result<u128, ()> {
        Ok(u128::from(self.at) << 32 | u128::from(self.resets))
    }
    fn mark(&mut self) -> Result<Option<()>, ()> {
        Ok(None)
    }
    fn rewind(&mut self, (): &()) -> Result<bool, ()> {
        Ok(true)
    }
    fn forget(&mut self, (): ()) {}
}

#[test]
fn a_system_that_does_not_do_the_same_again_is_found_out() {
    for (shorter, expected) in [
        (false, "when its path was executed again"),
        (true, "ended the path"),
    ] {
        let config = Config {
            max_violations: None,
            reduction: Reduction::None,
            ..Config::default()
        };
        let result = Search::new(config).run_one(&mut Forgetful {
            shorter,
            ..Forgetful::default()
        });
        let Some(Failure::Desync { path, detail }) = result.failure else {
            panic!("{:?}", result.failure)
        };
        assert!(detail.contains(expected), "{detail}");
        assert!(!path.is_empty());
    }
}
