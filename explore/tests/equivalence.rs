//! Random small programs: every way to search finds the same outcomes and the same violations as brute force.

mod common;

use common::{Everything, Op, Program};
use explore::{Config, Coverage, Reduction, Search};
use proptest::prelude::*;

const REDUCTIONS: [Reduction; 4] = [
    Reduction::Auto,
    Reduction::None,
    Reduction::Sleep,
    Reduction::Dpor,
];

fn op() -> impl Strategy<Value = Op> {
    let two = || 0..2u8;
    prop_oneof![
        2 => (two(), 1..3u8).prop_map(|(c, v)| Op::Set(c, v)),
        2 => two().prop_map(Op::Load),
        2 => (two(), 1..3u8).prop_map(|(c, v)| Op::Store(c, v)),
        3 => two().prop_map(Op::Lock),
        3 => two().prop_map(Op::Unlock),
        1 => two().prop_map(Op::TryLock),
        2 => two().prop_map(|l| Op::Wait(0, l)),
        2 => Just(Op::Signal(0)),
        1 => Just(Op::Broadcast(0)),
        2 => (two(), 1..3u8).prop_map(|(c, v)| Op::Send(c, v)),
        2 => two().prop_map(Op::Recv),
        2 => Just(Op::Print),
        1 => Just(Op::Choose(2)),
        1 => (two(), 0..3u8).prop_map(|(c, v)| Op::Assert(c, v)),
        1 => (1..4u8).prop_map(Op::Spawn),
        1 => (0..4u8).prop_map(Op::Join),
        1 => Just(Op::Exit),
    ]
}

/// Threads of random operations, at most `total` of them.
fn program(threads: usize, total: usize) -> impl Strategy<Value = Program> {
    (
        prop::collection::vec((0..threads, op()), 2..=total),
        prop::bool::weighted(0.1),
    )
        .prop_map(move |(ops, coarse)| {
            let mut code = vec![Vec::new(); threads];
            for (thread, op) in ops {
                match op {
                    Op::Spawn(t) | Op::Join(t) if usize::from(t) >= threads => {}
                    op => code[thread].push(op),
                }
            }
            let mut program = Program::new(code);
            program.coarse = coarse;
            program
        })
}

fn agrees(program: &Program, all: &Everything, config: &Config) -> Result<(), TestCaseError> {
    let search = Search::new(config.clone());
    let result = if config.jobs == 1 {
        let mut system = program.clone();
        let result = search.run_one(&mut system);
        prop_assert_eq!(system.live, 0, "marks left behind");
        result
    } else {
        search.run(|_| Ok(program.clone()))
    };
    prop_assert!(result.failure.is_none(), "{:?} {:?}", result.failure, config);
    prop_assert_eq!(result.coverage, Coverage::Complete);
    let outcomes: Vec<_> = result.outcomes.keys().collect();
    prop_assert_eq!(outcomes, all.outcomes.keys().collect::<Vec<_>>(), "{:?}", config);
    let violations: Vec<_> = result.violations.iter().map(|found| &found.violation).collect();
    prop_assert_eq!(
        violations,
        all.violations.iter().collect::<Vec<_>>(),
        "{:?}",
        config
    );
    prop_assert_eq!(result.counters.marks_live, 0);
    prop_assert!(result.counters.marks_live_max <= config.max_live_marks as u64);
    if !config.hash && result.plan.reduction == Reduction::None {
        prop_assert_eq!(result.counters.executions, all.schedules, "{:?}", config);
        prop_assert_eq!(&result.outcomes, &all.outcomes);
    }
    for found in &result.violations {
        prop_assert!(replay(program, &found.path).contains(&found.violation));
    }
    Ok(())
}

/// The violations that the last step of a path shows.
fn replay(program: &Program, path: &[explore::Choice]) -> Vec<common::Wrong> {
    use explore::System;
    let mut system = program.clone();
    let mut shown = Vec::new();
    for &choice in path {
        shown = system
            .step(choice)
            .expect("a reported path can be executed")
            .violations;
    }
    shown
}

fn configs() -> impl Iterator<Item = Config> {
    let strategies = [
        explore::Strategy::Dfs,
        explore::Strategy::Bfs,
        explore::Strategy::ByPreemptions,
    ];
    strategies.into_iter().flat_map(|strategy| {
        REDUCTIONS.into_iter().flat_map(move |reduction| {
            let strategy = strategy.clone();
            [true, false].into_iter().map(move |hash| Config {
                strategy: strategy.clone(),
                reduction,
                hash,
                max_violations: None,
                ..Config::default()
            })
        })
    })
}

/// Programs on which earlier versions of the reductions lost schedules; see the notes in `reduce/dpor.rs`.
#[test]
fn programs_that_were_once_reduced_too_far() {
    let programs: [Vec<Vec<Op>>; 6] = [
        // Any thread on the way was taken, one that was asleep too.
        vec![
            vec![Op::Load(0), Op::Exit],
            vec![Op::Print],
            vec![Op::Print, Op::Set(0, 1)],
        ],
        // An assertion is known to end the process only after it has failed.
        vec![vec![Op::Store(0, 1)], vec![Op::Load(1)], vec![Op::Assert(0, 0)]],
        // Only the last race of an operation was looked at.
        vec![
            vec![Op::Set(1, 1), Op::Load(0)],
            vec![Op::Join(3), Op::Load(0)],
            vec![Op::Store(0, 1)],
            vec![Op::Print],
        ],
        // Locks that are never released.
        vec![vec![Op::Lock(1)], vec![Op::Lock(1)]],
        // A blocked thread that is gone with the process.
        vec![vec![Op::Lock(0), Op::Exit], vec![Op::Lock(0), Op::Print]],
        // A crash when no other thread is left to be killed by it.
        vec![vec![Op::Lock(0)], vec![Op::Assert(0, 1)]],
    ];
    for threads in programs {
        let program = Program::new(threads);
        let all = Everything::of(&program);
        for config in configs() {
            agrees(&program, &all, &config).expect("the same outcomes and violations");
        }
    }
}

proptest! {
    #![proptest_config(test_seeds::property(96))]

    #[test]
    fn every_combination_agrees_with_brute_force(program in program(3, 7)) {
        let all = Everything::of(&program);
        for config in configs() {
            for jobs in [1, 2, 3] {
                for max_live_marks in [0, 1, usize::MAX] {
                    agrees(&program, &all, &Config { jobs, max_live_marks, ..config.clone() })?;
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(test_seeds::property(384))]

    #[test]
    fn larger_programs_agree_too(program in program(4, 9), jobs in 1..=2usize, marks in 0..4usize) {
        let all = Everything::of(&program);
        if all.schedules > 3000 {
            return Ok(());
        }
        let max_live_marks = if marks == 3 { usize::MAX } else { marks };
        for config in configs() {
            agrees(&program, &all, &Config { jobs, max_live_marks, ..config })?;
        }
    }

    #[test]
    fn a_preemption_bound_covers_exactly_what_is_within(program in program(3, 8), bound in 0..3u32, jobs in 1..=2usize) {
        let all = Everything::within(&program, bound);
        for config in configs() {
            let config = Config { bound_preemptions: Some(bound), jobs, ..config };
            let result = Search::new(config.clone()).run(|_| Ok(program.clone()));
            prop_assert!(matches!(result.coverage, Coverage::Bounded { .. }), "{:?}", result.coverage);
            prop_assert_eq!(result.outcomes.keys().collect::<Vec<_>>(), all.outcomes.keys().collect::<Vec<_>>(), "{:?}", config);
            let violations: Vec<_> = result.violations.iter().map(|found| &found.violation).collect();
            prop_assert_eq!(violations, all.violations.iter().collect::<Vec<_>>(), "{:?}", config);
            if !config.hash {
                prop_assert_eq!(result.counters.executions, all.schedules);
            }
            if result.coverage.is_complete() {
                // Perhaps not all schedules, but all that can come of them.
                let unbounded = Everything::of(&program);
                prop_assert_eq!(&all.violations, &unbounded.violations);
                prop_assert!(all.outcomes.keys().eq(unbounded.outcomes.keys()));
            }
        }
    }

    #[test]
    fn what_is_said_of_an_interrupted_search_holds(
        program in program(3, 9),
        steps in 1..120u64,
        jobs in 1..=2usize,
        marks in 0..4usize,
        deepening in prop::option::of(1..6u32),
        hash in any::<bool>(),
    ) {
        let config = Config {
            strategy: explore::Strategy::ByPreemptions,
            limits: explore::Limits { steps: Some(steps), ..explore::Limits::default() },
            max_violations: None,
            max_live_marks: if marks == 3 { usize::MAX } else { marks },
            jobs,
            deepening,
            hash,
            ..Config::default()
        };
        let result = Search::new(config).run(|_| Ok(program.clone()));
        prop_assert!(result.failure.is_none(), "{:?}", result.failure);
        let (bound, is_whole) = match result.deepened {
            None => (u32::MAX, true),
            Some(deepened) => {
                prop_assert!(deepened.explored < deepened.known);
                prop_assert_eq!(deepened.complete, deepened.next.checked_sub(1));
                match deepened.complete {
                    None => return Ok(()),
                    Some(complete) => (complete, false),
                }
            }
        };
        prop_assert!(is_whole || result.coverage == Coverage::Incomplete(explore::Limit::Steps));
        let all = Everything::within(&program, bound);
        for outcome in all.outcomes.keys() {
            prop_assert!(result.outcomes.contains_key(outcome), "up to {bound}: {outcome:?}");
        }
        let found: Vec<_> = result.violations.iter().map(|found| &found.violation).collect();
        for violation in &all.violations {
            prop_assert!(found.contains(&violation), "up to {bound}: {violation:?}");
        }
    }
}
