//! Toy systems whose counts are known exactly.

mod common;

use common::{Everything, Op, Program, Wrong};
use explore::{
    Choice, Config, Counters, Coverage, Limit, Limits, Observer, Reduction, Search, SearchResult, Strategy,
};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

fn keep_going() -> Config {
    Config {
        max_violations: None,
        ..Config::default()
    }
}

fn stateless(reduction: Reduction) -> Config {
    Config {
        hash: false,
        reduction,
        ..keep_going()
    }
}

fn run(program: &Program, config: Config) -> SearchResult<Program> {
    Search::new(config).run(|_| Ok(program.clone()))
}

fn counters(program: &Program, config: Config) -> Counters {
    let result = run(program, config);
    assert!(result.failure.is_none(), "{:?}", result.failure);
    assert!(result.coverage.is_complete(), "{:?}", result.coverage);
    result.counters
}

/// `n` threads with `k` writes each, to one cell or to one each.
fn writers(n: u8, k: u8, shared: bool) -> Program {
    Program::new(
        (0..n)
            .map(|t| vec![Op::Set(if shared { 0 } else { t }, t); k.into()])
            .collect(),
    )
}

/// (nk)! / k!^n
fn interleavings(n: u64, k: u64) -> u64 {
    let factorial = |m: u64| (1..=m).product::<u64>();
    factorial(n * k) / factorial(k).pow(n as u32)
}

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
    for strategy in [Strategy::Random { walks: Some(20) }, pct] {
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

#[test]
fn limits_end_the_search_and_say_so() {
    let program = writers(3, 3, true);
    let ended_by = |limits| {
        run(
            &program,
            Config {
                limits,
                ..stateless(Reduction::None)
            },
        )
    };
    let states = ended_by(Limits {
        states: Some(100),
        ..Limits::default()
    });
    assert_eq!(
        (states.coverage, states.counters.states_new),
        (Coverage::Incomplete(Limit::States), 100)
    );
    // A limit that is reached with the very last step has cut nothing off.
    let all = ended_by(Limits::default()).counters;
    let just = ended_by(Limits {
        states: Some(all.states_new),
        ..Limits::default()
    });
    assert_eq!(just.coverage, Coverage::Complete);
    let steps = ended_by(Limits {
        steps: Some(50),
        ..Limits::default()
    });
    assert_eq!(
        (steps.coverage, steps.counters.transitions),
        (Coverage::Incomplete(Limit::Steps), 50)
    );
    let time = ended_by(Limits {
        time: Some(std::time::Duration::ZERO),
        ..Limits::default()
    });
    assert_eq!(
        (time.coverage, time.counters.transitions),
        (Coverage::Incomplete(Limit::Time), 0)
    );
    let depth = ended_by(Limits {
        depth: Some(4),
        ..Limits::default()
    });
    assert_eq!(
        (depth.coverage, depth.counters.executions),
        (Coverage::Incomplete(Limit::Depth), 0)
    );
    assert_eq!(
        depth.counters.cut_paths,
        81 - 3,
        "all words of length 4, but for 4 times the same thread"
    );
    let long_enough = ended_by(Limits {
        depth: Some(9),
        ..Limits::default()
    });
    assert_eq!(
        (long_enough.coverage, long_enough.counters.executions),
        (Coverage::Complete, 1680)
    );
}

#[test]
fn a_search_that_comes_to_the_same_again_and_again_can_be_ended() {
    let ended = |program: &Program| {
        let limits = Limits {
            repetition: Some(20),
            ..Limits::default()
        };
        let config = Config {
            limits,
            ..stateless(Reduction::Dpor)
        };
        run(program, config)
    };
    // All orders of three writers with three writes: few outcomes.
    let same = ended(&writers(3, 3, true));
    assert_eq!(same.coverage, Coverage::Incomplete(Limit::Repetition));
    assert!(same.counters.executions > 2 * same.outcomes.len() as u64);
    // All orders in which three threads print twice: each is an outcome.
    let prints = |t| vec![Op::Set(t, t + 1), Op::Load(t), Op::Print, Op::Print];
    let different = ended(&Program::new((0..3).map(prints).collect()));
    assert_eq!(different.coverage, Coverage::Complete);
    assert_eq!(
        (different.outcomes.len() as u64, different.counters.outcomes),
        (interleavings(3, 2), interleavings(3, 2))
    );
}

#[test]
fn memory_and_the_stop_flag_are_asked() {
    let program = writers(3, 3, true);
    let asked = AtomicU64::new(0);
    let growing = || asked.fetch_add(1, Relaxed) * 10;
    let limits = Limits {
        memory: Some(30),
        ..Limits::default()
    };
    let config = Config {
        limits,
        ..stateless(Reduction::None)
    };
    let result = Search::new(config)
        .memory_use(&growing)
        .run_one(&mut program.clone());
    assert_eq!(result.coverage, Coverage::Incomplete(Limit::Memory));

    let plenty = || 100;
    let config = Config {
        mark_memory: Some(50),
        ..stateless(Reduction::None)
    };
    let result = Search::new(config)
        .memory_use(&plenty)
        .run_one(&mut program.clone());
    assert_eq!(
        (result.coverage, result.counters.marks_taken),
        (Coverage::Complete, 0)
    );

    let stop = AtomicBool::new(true);
    for jobs in [1, 2] {
        let config = Config {
            jobs,
            ..stateless(Reduction::None)
        };
        let result = Search::new(config).stop_flag(&stop).run(|_| Ok(program.clone()));
        assert_eq!(
            (result.coverage, result.counters.transitions),
            (Coverage::Incomplete(Limit::Stopped), 0)
        );
    }
}

#[derive(Default)]
struct Graph {
    states: Mutex<BTreeSet<u128>>,
    edges: Mutex<BTreeSet<(u128, Choice, u128)>>,
}

impl Observer for Graph {
    fn state(&self, id: u128, _: u32) {
        self.states.lock().expect("no panics here").insert(id);
    }
    fn edge(&self, from: u128, choice: Choice, to: u128) {
        self.edges
            .lock()
            .expect("no panics here")
            .insert((from, choice, to));
    }
}

#[test]
fn the_observer_sees_the_whole_graph() {
    for (jobs, hash) in [(1, true), (2, true), (1, false)] {
        let graph = Graph::default();
        let config = Config {
            jobs,
            hash,
            reduction: Reduction::None,
            ..keep_going()
        };
        let program = writers(2, 3, false);
        Search::new(config).observer(&graph).run(|_| Ok(program.clone()));
        assert_eq!(graph.states.lock().expect("no panics here").len(), 16);
        assert_eq!(graph.edges.lock().expect("no panics here").len(), 24);
    }
}
