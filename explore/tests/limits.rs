//! What ends a search early, and who watches it.

mod common;

use common::searches::{interleavings, keep_going, run, stateless, writers};
use common::{Op, Program};
use explore::{Choice, Config, Coverage, Limit, Limits, Observer, Reduction, Search};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

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
