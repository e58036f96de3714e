//! What a search says of its own length, and what follows from it.

mod common;

use common::searches::{keep_going, run, stateless};
use common::{Op, Program};
use explore::{Config, Coverage, Hope, Limit, Limits, Reduction};

/// Threads that count under one lock.
fn counting(threads: u8, times: usize) -> Program {
    let body = [Op::Lock(0), Op::Load(0), Op::Store(0, 1), Op::Unlock(0)].repeat(times);
    Program::new((0..threads).map(|_| body.clone()).collect())
}

fn limited(config: &Config, steps: u64, hope: Option<Hope>) -> Config {
    let limits = Limits {
        steps: Some(steps),
        hope,
        ..Limits::default()
    };
    Config {
        limits,
        ..config.clone()
    }
}

#[test]
fn the_estimate_is_of_the_right_size() {
    let program = counting(3, 3);
    let stateful = Config {
        reduction: Reduction::Sleep,
        ..keep_going()
    };
    for config in [stateful, stateless(Reduction::Dpor)] {
        let total = run(&program, config.clone()).counters.transitions;
        for share in [50, 70, 90] {
            let cut = run(&program, limited(&config, total * share / 100, None));
            assert_eq!(cut.coverage, Coverage::Incomplete(Limit::Steps));
            let estimate = cut.counters.estimated_steps;
            assert!(
                (total / 2..total * 2).contains(&estimate),
                "{estimate} of {total}"
            );
        }
    }
}

#[test]
fn a_search_near_its_end_goes_on_and_another_does_not() {
    let program = counting(3, 3);
    let stateful = Config {
        reduction: Reduction::Sleep,
        ..keep_going()
    };
    let total = run(&program, stateful.clone()).counters.transitions;
    let search = |estimate: u64, steps: u64| {
        let hope = Some(Hope { estimate, steps });
        run(&program, limited(&stateful, total / 2, hope))
    };
    assert_eq!(search(total * 2, total * 2).coverage, Coverage::Complete);
    // It would take too long, or takes longer than it may.
    let hopeless = search(total / 2, total * 2);
    assert_eq!(hopeless.coverage, Coverage::Incomplete(Limit::Steps));
    assert_eq!(hopeless.counters.transitions, total / 2);
    let bounded = search(total * 2, total * 3 / 4);
    assert_eq!(bounded.coverage, Coverage::Incomplete(Limit::Steps));
    assert_eq!(bounded.counters.transitions, total * 3 / 4);
}
