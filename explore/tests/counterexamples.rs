//! Minimised counterexamples and critical transitions, on programs whose least number of preemptions is known or found by brute force.

mod common;

use common::{Everything, Op, Program, Wrong};
use explore::{Choice, Config, Critical, Effort, Failure, Search, System, critical_transition, minimise};
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
        Just(Op::Exit),
        Just(Op::Choose(2)),
    ]
}

/// The critical transition by brute force: after how many steps of the path does every way to go on show a violation, if none was shown before?
fn critical_by_brute_force(program: &Program, path: &[Choice]) -> Critical {
    let doomed = |steps: &usize| Everything::after(program, &path[..*steps]).always_violated();
    let first = (0..path.len()).find(doomed).unwrap_or(path.len());
    first.checked_sub(1).map_or(Critical::Always, Critical::Step)
}

/// Finds a violation by walks and minimises it; compares both with brute force.
fn counterexamples_are_right(threads: Vec<Vec<Op>>, seed: u64) -> Result<(), TestCaseError> {
    let program = Program::new(threads);
    let config = Config {
        strategy: explore::Strategy::Random { walks: Some(30) },
        seed,
        max_violations: None,
        ..Config::default()
    };
    for found in Search::new(config).run_one(&mut program.clone()).violations {
        let shows = |bound: &u32| {
            Everything::within(&program, *bound)
                .violations
                .contains(&found.violation)
        };
        let least = (0..).find(shows);
        let same = |wrong: &Wrong| *wrong == found.violation;
        let best = minimise(&mut program.clone(), &found.path, &same, Effort::default())
            .expect("it can be executed");
        prop_assert_eq!(Some(best.preemptions), least);
        prop_assert!(best.fewest_preemptions);
        for path in [&best.path, &found.path] {
            let expected = critical_by_brute_force(&program, path);
            for hash in [true, false] {
                let effort = Effort {
                    hash,
                    ..Effort::default()
                };
                let critical =
                    critical_transition(&mut program.clone(), path, effort).expect("it can be executed");
                prop_assert_eq!(critical, expected, "{:?} of {:?}", path, found.violation);
            }
        }
    }
    Ok(())
}

/// What was violated before the end of the path was forgotten, so a later state looked as if there were a way out.
#[test]
fn a_violation_on_the_way_dooms_what_follows() {
    let threads = vec![
        vec![Op::Set(0, 1), Op::Unlock(0)],
        vec![Op::Assert(0, 1), Op::Assert(1, 1)],
        vec![Op::Store(0, 1), Op::Store(1, 1)],
    ];
    counterexamples_are_right(threads.clone(), 35).expect("as by brute force");
    // The first thread is wrong in all schedules, before or after the second.
    let mut program = Program::new(threads);
    let failing = path(&[0, 0, 2, 1, 1]);
    let critical = critical_transition(&mut program, &failing, Effort::default());
    assert_eq!(critical.ok(), Some(Critical::Always));

    // Whoever unlocks before the exit is wrong, and stays so; what comes of it later does not matter.
    let mut program = Program::new(vec![
        vec![Op::Unlock(0), Op::Set(0, 1)],
        vec![Op::Set(1, 1), Op::Exit],
        vec![Op::Assert(0, 0)],
    ]);
    let failing = path(&[1, 0, 0, 2]);
    let critical = critical_transition(&mut program, &failing, Effort::default());
    assert_eq!(critical.ok(), Some(Critical::Step(1)));
}

#[test]
fn nothing_is_said_where_a_way_never_ends() {
    // One choice leads to the assertion, the other into an endless loop, which is neither a violation nor a good end.
    let mut program = Program::new(vec![vec![
        Op::Choose(2),
        Op::Store(0, 0),
        Op::Spin(0, 0),
        Op::Assert(1, 1),
    ]]);
    let failing = path(&[0, 0, 0, 0]);
    for hash in [true, false] {
        let effort = Effort {
            hash,
            ..Effort::default()
        };
        let critical = critical_transition(&mut program, &failing, effort);
        assert_eq!(critical.ok(), Some(Critical::Unknown));
    }
}

#[test]
fn a_path_that_shows_nothing_has_no_critical_transition() {
    let result = critical_transition(&mut lost_update(), &path(&[0, 0]), Effort::default());
    assert!(matches!(result, Err(Failure::Desync { .. })));
}

/// A program whose first thread must not have moved before the second is done, not even for a moment. No operation announces that.
struct Momentary {
    program: Program,
    moves: [usize; 2],
}

const MOVES: usize = 16;

impl System for Momentary {
    type Mark = (common::Mark, [usize; 2]);
    type Outcome = common::Outcome;
    type Violation = Wrong;
    type Error = String;

    fn reset(&mut self) -> Result<(), String> {
        self.moves = [0, 0];
        self.program.reset()
    }
    fn enabled(&mut self) -> Result<explore::Menu, String> {
        self.program.enabled()
    }
    fn step(&mut self, choice: Choice) -> Result<explore::Report<Self>, String> {
        let report = self.program.step(choice)?;
        self.moves[choice.thread as usize] += 1;
        let is_early = self.moves[0] > 0 && self.moves[1] < MOVES;
        let wrong = Wrong::Unowned { thread: 0, pc: 0 };
        Ok(if is_early { report.violating(wrong) } else { report })
    }
    fn state_id(&mut self) -> Result<u128, String> {
        self.program.state_id()
    }
    fn mark(&mut self) -> Result<Option<Self::Mark>, String> {
        let moves = self.moves;
        Ok(self.program.mark()?.map(|mark| (mark, moves)))
    }
    fn rewind(&mut self, mark: &Self::Mark) -> Result<bool, String> {
        self.moves = mark.1;
        self.program.rewind(&mark.0)
    }
    fn forget(&mut self, mark: Self::Mark) {
        self.program.forget(mark.0);
    }
}

/// Two schedules that are equivalent for a reduction, of which only one shows the violation: the other is a way out, too narrow for a random walk.
#[test]
fn a_violation_of_a_moment_does_not_hide_the_way_around_it() {
    let mut system = Momentary {
        program: Program::new(vec![vec![Op::Set(0, 1)], vec![Op::Set(1, 1); MOVES]]),
        moves: [0, 0],
    };
    for (failing, step) in [(path(&[0]), 0), (path(&[1, 1, 0]), 2)] {
        let critical = critical_transition(&mut system, &failing, Effort::default());
        assert_eq!(critical.ok(), Some(Critical::Step(step)), "{failing:?}");
    }
}

proptest! {
    #![proptest_config(test_seeds::property(200))]

    #[test]
    fn the_number_of_preemptions_is_the_least_there_is(
        threads in prop::collection::vec(prop::collection::vec(racy_op(), 1..4), 2..4),
        seed in 0..100u64,
    ) {
        counterexamples_are_right(threads, seed)?;
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
