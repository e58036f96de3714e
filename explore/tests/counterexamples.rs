//! Minimised counterexamples and critical transitions, on programs whose least number of preemptions is known or found by brute force.

mod common;

use common::{Everything, Op, Program, Wrong};
use explore::{Choice, Config, Critical, Effort, Failure, Search, critical_transition, minimise};
use proptest::prelude::*;

/// Two threads lose an update; others make noise; the last looks at the result.
fn lost_update() -> Program {
    let increment = vec![Op::Set(2, 1), Op::Load(0), Op::Store(0, 1), Op::Set(2, 2)];
    let noise = vec![Op::Set(1, 1), Op::Set(1, 2), Op::Set(1, 3)];
    Program::new(vec![
        increment.clone(),
        noise,
        increment,
        vec![Op::Join(0), Op::Join(2), Op::Assert(0, 2)],
    ])
}

fn path(threads: &[u32]) -> Vec<Choice> {
    threads.iter().map(|&t| Choice::of(t)).collect()
}

#[test]
fn a_random_counterexample_becomes_one_preemption() {
    let program = lost_update();
    for seed in 0..5 {
        let config = Config {
            strategy: explore::Strategy::Random { walks: None },
            seed,
            ..Config::default()
        };
        let found = Search::new(config)
            .run_one(&mut program.clone())
            .violations
            .remove(0);
        let same = |wrong: &Wrong| *wrong == found.violation;
        let best = minimise(&mut program.clone(), &found.path, &same, Effort::default())
            .expect("it can be executed");
        assert_eq!(
            (best.preemptions, best.switches, best.fewest_preemptions),
            (1, 3, true)
        );
        // The noise is left out.
        assert_eq!(best.path.len(), 4 + 4 + 3);
    }
}

#[test]
fn without_effort_the_path_stays_as_it_is() {
    let program = lost_update();
    let given = path(&[1, 0, 1, 0, 2, 1, 2, 0, 2, 0, 2, 3, 3, 3]);
    let effort = Effort {
        steps: 0,
        ..Effort::default()
    };
    let best = minimise(&mut program.clone(), &given, &|_| true, effort).expect("it can be executed");
    assert_eq!(best.path, given);
    assert!(!best.fewest_preemptions);
}

#[test]
fn a_path_without_a_violation_is_refused() {
    let result = minimise(&mut lost_update(), &path(&[0, 0]), &|_| true, Effort::default());
    assert!(matches!(result, Err(Failure::Desync { .. })));
}

#[test]
fn merging_alone_reduces_preemptions() {
    // The searches are not given enough, the rest is.
    let program = lost_update();
    let given = path(&[1, 0, 1, 0, 2, 1, 2, 0, 2, 0, 2, 3, 3, 3]);
    let effort = Effort {
        steps: 400,
        hash: false,
        ..Effort::default()
    };
    let best = minimise(&mut program.clone(), &given, &|_| true, effort).expect("it can be executed");
    assert!(best.preemptions <= 2, "{best:?}");
    assert!(best.steps_spent <= 400 + 14);
}

#[test]
fn the_critical_transition_is_where_the_last_way_out_is_missed() {
    let effort = Effort::default();
    // Three philosophers: as long as one fork lies there, someone can eat.
    let dine = |t: u8| {
        vec![
            Op::Lock(t),
            Op::Lock((t + 1) % 3),
            Op::Unlock((t + 1) % 3),
            Op::Unlock(t),
        ]
    };
    let mut philosophers = Program::new((0..3).map(dine).collect());
    let deadlock = path(&[0, 1, 2]);
    assert_eq!(
        critical_transition(&mut philosophers, &deadlock, effort).ok(),
        Some(Critical::Step(2))
    );

    // The assertion comes later, but what decides is the write.
    let mut program = Program::new(vec![
        vec![Op::Set(1, 1), Op::Set(0, 1), Op::Set(1, 2), Op::Set(1, 3)],
        vec![Op::Load(1), Op::Assert(0, 0)],
    ]);
    let failing = path(&[0, 0, 0, 0, 1, 1]);
    for hash in [true, false] {
        let effort = Effort { hash, ..effort };
        assert_eq!(
            critical_transition(&mut program, &failing, effort).ok(),
            Some(Critical::Step(1))
        );
    }
    let poor = Effort { steps: 3, ..effort };
    assert_eq!(
        critical_transition(&mut program, &failing, poor).ok(),
        Some(Critical::Unknown)
    );

    let mut hopeless = Program::new(vec![vec![Op::Set(0, 1), Op::Set(0, 2), Op::Assert(0, 3)]]);
    assert_eq!(
        critical_transition(&mut hopeless, &path(&[0, 0, 0]), effort).ok(),
        Some(Critical::Always)
    );
}

fn racy_op() -> impl Strategy<Value = Op> {
    let two = || 0..2u8;
    prop_oneof![
        two().prop_map(|c| Op::Set(c, 1)),
        two().prop_map(Op::Load),
        two().prop_map(|c| Op::Store(c, 1)),
        two().prop_map(Op::Lock),
        two().prop_map(Op::Unlock),
        (two(), 0..2u8).prop_map(|(c, v)| Op::Assert(c, v)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_number_of_preemptions_is_the_least_there_is(
        threads in prop::collection::vec(prop::collection::vec(racy_op(), 1..4), 2..4),
        seed in 0..100u64,
    ) {
        let program = Program::new(threads);
        let config = Config { strategy: explore::Strategy::Random { walks: Some(30) }, seed, ..Config::default() };
        let result = Search::new(config).run_one(&mut program.clone());
        let Some(found) = result.violations.first() else { return Ok(()) };
        let least = (0..).find(|&bound| Everything::within(&program, bound).violations.contains(&found.violation));
        let same = |wrong: &Wrong| *wrong == found.violation;
        let best = minimise(&mut program.clone(), &found.path, &same, Effort::default()).expect("it can be executed");
        prop_assert_eq!(Some(best.preemptions), least);
        prop_assert!(best.fewest_preemptions);
        let critical = critical_transition(&mut program.clone(), &best.path, Effort::default()).expect("it can be executed");
        // By brute force: after how many steps of the path does every way to go on show a violation?
        let doomed = |steps: usize| Everything::after(&program, &best.path[..steps]).always_violated();
        let first = (0..best.path.len()).find(|&steps| doomed(steps)).unwrap_or(best.path.len());
        prop_assert_eq!(critical, first.checked_sub(1).map_or(Critical::Always, Critical::Step));
    }
}

#[test]
fn the_same_steps_in_another_order_are_tried_first() {
    // A ring of ten: the given order preempts nine of them, another one only the first. All schedules are too many for this effort.
    let philosopher = |i: u8| {
        let (left, right) = (i, (i + 1) % 10);
        vec![
            Op::Lock(left),
            Op::Lock(right),
            Op::Unlock(right),
            Op::Unlock(left),
        ]
    };
    let program = Program::new((0..10).map(philosopher).collect());
    let effort = Effort {
        steps: 4_000,
        ..Effort::default()
    };
    let given = path(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let best = minimise(&mut program.clone(), &given, &|_| true, effort).expect("it can be executed");
    assert_eq!((best.preemptions, best.switches, best.path.len()), (1, 9, 10));
}
