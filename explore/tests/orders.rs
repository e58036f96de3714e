//! In which order states are visited, and what random walks are.

mod common;

use common::searches::{keep_going, run, writers};
use common::{Everything, Op, Program};
use explore::{Choice, Config, Coverage, Limits, Reduction, Search, Strategy};
use std::collections::BTreeSet;

fn visit_order(strategy: Strategy) -> Vec<u32> {
    let mut program = writers(2, 2, false);
    let config = Config {
        strategy,
        reduction: Reduction::None,
        ..keep_going()
    };
    Search::new(config).run_one(&mut program);
    program.log.iter().map(|choice| choice.thread).collect()
}

#[test]
fn the_order_of_visits_is_exact() {
    // Of the grid (a, b), a and b counting the steps of the two threads.
    // (1,0) (2,0) (2,1) (2,2); from (1,0): (1,1), (2,1)=, (1,2), (2,2)=; from (0,0): (0,1), (1,1)=, (0,2), (1,2)=
    assert_eq!(visit_order(Strategy::Dfs), [0, 0, 1, 1, 1, 0, 1, 0, 1, 0, 1, 0]);
    // (1,0), (0,1); from (1,0): (2,0) which has one choice: (2,1), (2,2); (1,1); from (0,1): (1,1)=, (0,2): (1,2), (2,2)=; from (1,1): (2,1)=, (1,2)=
    assert_eq!(visit_order(Strategy::Bfs), [0, 1, 0, 1, 1, 1, 0, 1, 0, 0, 0, 1]);
}

#[test]
fn walks_are_complete_and_depend_on_the_seed_only() {
    let program = writers(3, 2, true);
    let pct = Strategy::Pct {
        depth: 3,
        walks: Some(20),
        steps: None,
    };
    let guided = Strategy::Walk { walks: Some(20) };
    for strategy in [Strategy::Random { walks: Some(20) }, guided, pct] {
        let log = |seed| {
            let mut program = program.clone();
            let config = Config {
                strategy: strategy.clone(),
                seed,
                ..keep_going()
            };
            let result = Search::new(config).run_one(&mut program);
            assert_eq!(result.coverage, Coverage::Sampled);
            assert_eq!(result.counters.executions, 20);
            assert_eq!(result.counters.transitions, 20 * 6);
            assert_eq!((result.counters.resets, result.counters.reexecuted_steps), (1, 0));
            program.log
        };
        assert_eq!(log(1), log(1));
        assert_ne!(log(1), log(2));
    }
}

#[test]
fn random_walks_do_not_depend_on_the_number_of_workers() {
    let config = |jobs| Config {
        strategy: Strategy::Random { walks: Some(50) },
        jobs,
        ..keep_going()
    };
    let (one, three) = (
        run(&writers(3, 2, true), config(1)),
        run(&writers(3, 2, true), config(3)),
    );
    assert_eq!(one.outcomes, three.outcomes);
    assert_eq!(one.counters.transitions, three.counters.transitions);
}

#[test]
fn guided_walks_do_not_depend_on_the_number_of_workers() {
    let config = |jobs| Config {
        strategy: Strategy::Walk { walks: Some(60) },
        hash: false,
        jobs,
        ..keep_going()
    };
    let one = run(&writers(3, 3, true), config(1));
    for jobs in [2, 3] {
        let many = run(&writers(3, 3, true), config(jobs));
        assert_eq!(one.outcomes, many.outcomes);
        assert_eq!(one.counters.transitions, many.counters.transitions);
        assert_eq!(one.pairs, many.pairs);
    }
    let pairs = one.pairs.unwrap_or_default();
    assert_eq!((pairs.walks, one.counters.schedules), (60, 60));
    // Each of three kinds of stores before each of the others.
    assert_eq!(pairs.pairs, 6);
    assert_eq!(pairs.new_per_thousand(), 0);
}

/// Thirty threads do something in two stages, and one looks for the second stage when it has seen the first.
#[test]
fn guided_walks_try_the_order_that_was_not_seen() {
    let mut threads = vec![vec![Op::Set(0, 1), Op::Set(1, 1)]; 30];
    threads.push(vec![Op::Spin(0, 1), Op::Assert(1, 1)]);
    let program = Program::new(threads);
    let found = |strategy, seed| {
        let config = Config {
            strategy,
            seed,
            hash: false,
            ..Config::default()
        };
        let result = run(&program, config);
        let until = result.counters.schedules_to_violation;
        assert_eq!(until > 0, !result.violations.is_empty());
        until
    };
    let seeds = 0..20;
    let guided = seeds
        .clone()
        .filter(|&seed| found(Strategy::Walk { walks: Some(30) }, seed) > 0);
    let at_random = seeds.filter(|&seed| found(Strategy::Random { walks: Some(30) }, seed) > 0);
    let (guided, at_random) = (guided.count(), at_random.count());
    assert_eq!(guided, 20, "at random: {at_random}");
    assert!(at_random < 20);
}

/// What all walks begin with is done once.
#[test]
fn walks_begin_where_there_is_something_to_choose() {
    let alone = vec![Op::Set(0, 1), Op::Set(0, 2), Op::Spawn(1), Op::Set(0, 3)];
    let program = Program::new(vec![alone, vec![Op::Set(0, 4)]]);
    for strategy in [
        Strategy::Walk { walks: Some(50) },
        Strategy::Random { walks: Some(50) },
    ] {
        let result = run(
            &program,
            Config {
                strategy,
                ..keep_going()
            },
        );
        assert_eq!(result.outcomes.len(), 2);
        assert_eq!(result.counters.executions, 50);
        assert_eq!(result.counters.transitions, 3 + 50 * 2);
    }
}

#[test]
fn pct_finds_a_bug_of_its_depth_and_leaves_spin_loops() {
    // The two increments must be cut in the middle of the one that begins: depth 2.
    let increment = vec![Op::Load(0), Op::Store(0, 1)];
    let check = vec![Op::Join(0), Op::Join(1), Op::Assert(0, 2)];
    let racy = Program::new(vec![increment.clone(), increment, check]);
    let pct = |depth| Strategy::Pct {
        depth,
        walks: Some(100),
        steps: None,
    };
    let found = |program: &Program, depth| {
        let limits = Limits {
            depth: Some(100),
            ..Limits::default()
        };
        run(
            program,
            Config {
                strategy: pct(depth),
                limits,
                ..keep_going()
            },
        )
    };
    assert_eq!(
        found(&racy, 1).violations,
        [],
        "without a change of priority no thread is interrupted"
    );
    assert_eq!(found(&racy, 2).violations.len(), 1);
    let spinning = Program::new(vec![vec![Op::Spin(0, 1)], vec![Op::Set(0, 1)]]);
    assert_eq!(found(&spinning, 1).coverage, Coverage::Sampled);
}

#[test]
fn walks_honour_the_preemption_bound() {
    let program = writers(2, 3, true);
    let within = Everything::within(&program, 1);
    let pct = Strategy::Pct {
        depth: 4,
        walks: Some(300),
        steps: None,
    };
    for strategy in [Strategy::Random { walks: Some(300) }, pct] {
        let mut system = program.clone();
        let config = Config {
            strategy,
            bound_preemptions: Some(1),
            ..keep_going()
        };
        Search::new(config).run_one(&mut system);
        let schedules: BTreeSet<&[Choice]> = system.log.chunks(6).collect();
        assert_eq!(schedules.len() as u64, within.schedules);
    }
}
