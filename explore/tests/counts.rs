//! Toy systems whose counts are known exactly.

mod common;

use common::searches::{counters, interleavings, keep_going, run, stateless, writers};
use common::{Everything, Op, Program, Wrong};
use explore::{Config, Coverage, Limit, Limits, Reduction, Strategy};

const SIZES: [(u8, u8); 7] = [(1, 3), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1)];

#[test]
fn without_reduction_every_interleaving_is_one_execution() {
    for (n, k) in SIZES {
        for shared in [true, false] {
            for jobs in [1, 2] {
                let config = Config {
                    jobs,
                    ..stateless(Reduction::None)
                };
                let counted = counters(&writers(n, k, shared), config);
                assert_eq!(counted.executions, interleavings(n.into(), k.into()));
                assert_eq!(counted.states_revisited, 0);
                assert_eq!(counted.transitions, counted.states_new - 1, "a tree");
                assert_eq!(counted.max_depth, u64::from(n * k));
            }
        }
    }
}

#[test]
fn dpor_leaves_one_execution_of_independent_writes_and_all_of_dependent_ones() {
    for (n, k) in SIZES {
        let independent = counters(&writers(n, k, false), stateless(Reduction::Dpor));
        assert_eq!((independent.executions, independent.sleep_blocked), (1, 0));
        assert_eq!(independent.marks_restored, 0);
        let dependent = counters(&writers(n, k, true), stateless(Reduction::Dpor));
        assert_eq!(
            (dependent.executions, dependent.sleep_blocked),
            (interleavings(n.into(), k.into()), 0)
        );
    }
}

#[test]
fn a_visited_set_makes_a_grid_of_independent_writes() {
    for (n, k) in SIZES {
        let (n64, k64) = (u64::from(n), u64::from(k));
        for jobs in [1, 3] {
            for strategy in [Strategy::Dfs, Strategy::Bfs] {
                let none = Config {
                    reduction: Reduction::None,
                    jobs,
                    strategy: strategy.clone(),
                    ..keep_going()
                };
                let full = counters(&writers(n, k, false), none.clone());
                assert_eq!(full.states_new, (k64 + 1).pow(n.into()));
                assert_eq!(
                    full.transitions,
                    n64 * k64 * (k64 + 1).pow(u32::from(n) - 1),
                    "the edges of the grid"
                );
                assert_eq!(full.executions, 1);
                assert_eq!(full.states_new + full.states_revisited, full.transitions + 1);

                // Sleep sets keep all states, and of the edges only a spanning tree.
                let sleep = counters(
                    &writers(n, k, false),
                    Config {
                        reduction: Reduction::Sleep,
                        ..none
                    },
                );
                assert_eq!(sleep.states_new, full.states_new);
                assert_eq!(sleep.transitions, sleep.states_new - 1);
            }
        }
    }
}

#[test]
fn a_lock_makes_critical_sections_atomic() {
    let section = |t: u8| {
        vec![
            Op::Lock(0),
            Op::Load(0),
            Op::Store(0, 1),
            Op::Unlock(0),
            Op::Set(t + 1, 1),
        ]
    };
    let program = Program::new((0..3).map(section).collect());
    let dpor = run(&program, stateless(Reduction::Dpor));
    assert_eq!(dpor.counters.executions, 6, "one for each order of the threads");
    assert_eq!(
        dpor.outcomes.keys().map(|o| o.cells[0]).collect::<Vec<_>>(),
        [3, 3, 3, 3, 3, 3]
    );
    assert_eq!(dpor.violations, []);
    let stateful = run(&program, keep_going());
    assert!(stateful.outcomes.keys().eq(dpor.outcomes.keys()));
}

fn philosophers(n: u8) -> Program {
    let dine = |t: u8| {
        vec![
            Op::Lock(t),
            Op::Lock((t + 1) % n),
            Op::Unlock((t + 1) % n),
            Op::Unlock(t),
        ]
    };
    Program::new((0..n).map(dine).collect())
}

#[test]
fn dining_philosophers_deadlock_in_exactly_one_way() {
    for n in [2, 3, 4] {
        for config in [
            keep_going(),
            stateless(Reduction::Dpor),
            Config {
                strategy: Strategy::Bfs,
                ..keep_going()
            },
        ] {
            let result = run(&philosophers(n), config);
            assert_eq!(result.violations.len(), 1);
            assert_eq!(result.violations[0].violation, Wrong::Deadlock(vec![1; n.into()]));
            assert_eq!(result.violations[0].path.len(), n.into());
        }
    }
}

#[test]
fn the_search_stops_at_the_first_violation_unless_told_to_keep_going() {
    let result = run(&philosophers(3), Config::default());
    assert_eq!(result.coverage, Coverage::Incomplete(Limit::Violations));
    assert_eq!(result.violations.len(), 1);
}

#[test]
fn a_spin_loop_ends_with_a_visited_set_and_is_cut_without() {
    let program = Program::new(vec![
        vec![Op::Spin(0, 1), Op::Print],
        vec![Op::Set(1, 1), Op::Set(0, 1)],
    ]);
    for reduction in [Reduction::None, Reduction::Sleep] {
        for strategy in [Strategy::Dfs, Strategy::Bfs] {
            let result = run(
                &program,
                Config {
                    reduction,
                    strategy,
                    ..keep_going()
                },
            );
            assert_eq!(result.coverage, Coverage::Complete);
            assert_eq!(result.counters.states_new, 5);
            assert_eq!(result.outcomes.len(), 1);
        }
    }
    for reduction in [Reduction::None, Reduction::Sleep, Reduction::Dpor] {
        let limits = Limits {
            depth: Some(10),
            ..Limits::default()
        };
        let result = run(
            &program,
            Config {
                limits,
                ..stateless(reduction)
            },
        );
        assert_eq!(result.coverage, Coverage::Incomplete(Limit::Depth));
        assert!(result.counters.cut_paths > 0);
        assert_eq!(result.outcomes.len(), 1);
    }
}

#[test]
fn alternatives_multiply() {
    let program = Program::new(vec![
        vec![Op::Choose(3), Op::Print],
        vec![Op::Choose(2), Op::Print],
    ]);
    let none = run(&program, stateless(Reduction::None));
    assert_eq!(none.counters.executions, 6 * 3 * 2);
    // Only the order of the two outputs matters.
    let dpor = run(&program, stateless(Reduction::Dpor));
    assert_eq!(dpor.counters.executions, 2 * 3 * 2);
    assert!(dpor.outcomes.keys().eq(none.outcomes.keys()));
}

#[test]
fn preemption_bounds_count_as_known() {
    // Two threads with 3 steps each. The end of a thread is a switch that costs nothing.
    let program = writers(2, 3, true);
    let within: Vec<u64> = (0..6)
        .map(|bound| Everything::within(&program, bound).schedules)
        .collect();
    assert_eq!(within, [2, 6, 14, 18, 20, 20]);
    for (bound, schedules) in within.into_iter().enumerate() {
        let config = Config {
            bound_preemptions: Some(bound as u32),
            ..stateless(Reduction::Auto)
        };
        let result = run(&program, config);
        assert_eq!(result.counters.executions, schedules);
        assert_eq!(result.plan.reduction, Reduction::None);
        assert_eq!(
            result.coverage,
            Coverage::Bounded {
                preemptions: bound as u32,
                exact: bound >= 4
            }
        );
    }
}

#[test]
fn a_budget_of_marks_trades_memory_for_steps() {
    let program = writers(3, 2, true);
    let counted = |max_live_marks| {
        counters(
            &program,
            Config {
                max_live_marks,
                ..stateless(Reduction::None)
            },
        )
    };
    let (none, one, all) = (counted(0), counted(1), counted(usize::MAX));
    assert_eq!((none.marks_taken, none.marks_live_max), (0, 0));
    assert_eq!(one.marks_live_max, 1);
    assert_eq!(all.reexecuted_steps, 0);
    assert_eq!(all.resets, 1);
    assert!(none.reexecuted_steps > one.reexecuted_steps && one.reexecuted_steps > 0);
    for counted in [none, one, all] {
        assert_eq!((counted.executions, counted.transitions), (90, all.transitions));
        assert_eq!(counted.marks_live, 0);
    }
    // Without marks, every execution but the first starts again, and takes the path to where it branches off again.
    assert_eq!(none.resets, 90);
    assert_eq!(none.reexecuted_steps + none.transitions, 90 * 6);
}

#[test]
fn a_system_that_cannot_mark_is_re_executed() {
    let mut program = writers(2, 2, true);
    program.can_mark = false;
    let counted = counters(&program, stateless(Reduction::None));
    assert_eq!(
        (counted.executions, counted.marks_taken, counted.marks_live_max),
        (6, 0, 1)
    );
    assert_eq!(counted.resets, 6);
}

#[test]
fn a_mark_that_cannot_be_returned_to_is_re_executed_by_the_engine_and_counted() {
    let whole = writers(3, 2, true);
    for strategy in [Strategy::Dfs, Strategy::Bfs, Strategy::ByPreemptions] {
        for reduction in [Reduction::None, Reduction::Sleep] {
            let config = || Config {
                strategy: strategy.clone(),
                reduction,
                ..keep_going()
            };
            let expected = counters(&whole, config());
            for every in [1, 2, 3, 7] {
                let mut program = whole.clone();
                program.loses_marks = Some(every);
                let counted = counters(&program, config());
                let about = format!("{strategy:?} {reduction:?} {every}");
                assert!(counted.reexecuted_steps > expected.reexecuted_steps, "{about}");
                assert_eq!(counted.marks_live, 0, "{about}");
                assert_eq!(
                    (counted.states_new, counted.transitions, counted.executions),
                    (expected.states_new, expected.transitions, expected.executions),
                    "{about}"
                );
            }
        }
    }
}

#[test]
fn a_state_with_a_single_choice_gets_no_mark() {
    for strategy in [Strategy::Dfs, Strategy::Bfs] {
        let program = Program::new(vec![vec![
            Op::Set(0, 1),
            Op::Choose(2),
            Op::Set(0, 2),
            Op::Set(0, 3),
        ]]);
        let counted = counters(
            &program,
            Config {
                strategy,
                reduction: Reduction::None,
                ..keep_going()
            },
        );
        assert_eq!(
            (
                counted.marks_taken,
                counted.marks_restored,
                counted.reexecuted_steps
            ),
            (1, 1, 0)
        );
        assert_eq!((counted.states_new, counted.transitions), (8, 7));
    }
}

#[test]
fn in_the_order_of_preemptions_no_step_is_taken_twice() {
    for (n, k) in SIZES {
        for shared in [true, false] {
            for jobs in [1, 2] {
                let program = writers(n, k, shared);
                let config = |strategy| Config {
                    strategy,
                    reduction: Reduction::None,
                    jobs,
                    ..keep_going()
                };
                let depth_first = counters(&program, config(Strategy::Dfs));
                let in_order = counters(&program, config(Strategy::ByPreemptions));
                assert_eq!(in_order.transitions, depth_first.transitions);
                assert_eq!(in_order.states_new, depth_first.states_new);
                assert_eq!(in_order.executions, depth_first.executions);
            }
        }
    }
}

#[test]
fn how_far_an_interrupted_search_came_is_known() {
    // Two threads of three writes: 6 steps for each order without a preemption; the first step is the same in both searches.
    let reached = |steps| {
        let config = Config {
            strategy: Strategy::ByPreemptions,
            limits: Limits {
                steps: Some(steps),
                ..Limits::default()
            },
            ..keep_going()
        };
        let result = run(&writers(2, 3, false), config);
        let deepened = result.deepened;
        deepened.map(|d| (d.complete, d.next, d.explored, d.known))
    };
    assert_eq!(reached(1), Some((None, 0, 1, 3)));
    assert_eq!(reached(11), Some((None, 0, 11, 12)));
    // After t^i one may go on with the other thread, and so after u^j.
    assert_eq!(reached(12), Some((Some(0), 1, 0, 4)));
    assert_eq!(reached(1_000), None);
}

/// Philosophers who take a common lock while they take their forks, made and joined by another thread.
fn seated_philosophers(n: u8) -> Program {
    const TABLE: u8 = 9;
    let parent = (1..=n).map(Op::Spawn).chain((1..=n).map(Op::Join)).collect();
    let philosopher = |i: u8| {
        let (left, right) = (i, (i + 1) % n);
        vec![
            Op::Set(i, 1),
            Op::Lock(TABLE),
            Op::Lock(left),
            Op::Lock(right),
            Op::Unlock(TABLE),
            Op::Unlock(left),
            Op::Unlock(right),
            Op::Set(i, 2),
        ]
    };
    let threads = [parent].into_iter().chain((0..n).map(philosopher));
    Program::new(threads.collect())
}

#[test]
fn dpor_follows_no_path_that_it_gives_up() {
    // One execution for each order in which they sit down. Each has eight steps of its own, which all that begin in the same way share.
    for (n, executions, transitions) in [
        (2, 2, 37),
        (3, 6, 139),
        (4, 24, 615),
        (5, 120, 3265),
        (6, 720, 20_489),
    ] {
        let counted = counters(&seated_philosophers(n), stateless(Reduction::Dpor));
        assert_eq!((counted.executions, counted.sleep_blocked), (executions, 0));
        assert_eq!(counted.transitions, transitions);
    }
}
