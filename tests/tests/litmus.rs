//! The classic shapes of memory models have as many executions as they are known to have under sequential consistency: one for each order of what
//! conflicts. The numbers are counted here from the shapes themselves, and compared with those of the literature.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use tracefork_tests::command_under_test;
use tracefork_tests::guests;
use tracefork_tests::observe::{Invocation, Scratch};
use tracefork_tests::supervised::Tracefork;

/// The operations of a shape, a word for each thread: capital letters write, small ones read.
struct Shape {
    name: &'static str,
    threads: &'static [&'static str],
    known: u64,
}

const fn shape(name: &'static str, threads: &'static [&'static str], known: u64) -> Shape {
    Shape { name, threads, known }
}

const SHAPES: [Shape; 12] = [
    shape("SB", &["Xy", "Yx"], 3),
    shape("MP", &["XY", "yx"], 3),
    shape("LB", &["xY", "yX"], 3),
    shape("IRIW", &["X", "Y", "xy", "yx"], 15),
    shape("CoRR", &["X", "xx"], 3),
    shape("TwoPlusTwoW", &["XY", "YX"], 3),
    shape("RWC", &["X", "xy", "Yx"], 7),
    shape("WRC", &["X", "xY", "yx"], 7),
    shape("ISA2", &["XY", "yZ", "zx"], 7),
    shape("S", &["XY", "yX"], 3),
    shape("R_", &["XY", "Yx"], 3),
    shape("Z6", &["XY", "yZ", "Zx"], 7),
];

/// An operation: the thread, and which of its operations.
type Op = (usize, usize);

/// All interleavings; those that order what conflicts in the same way are one.
fn count(threads: &[&str]) -> u64 {
    let mut classes: BTreeSet<Vec<(Op, Op)>> = BTreeSet::new();
    let mut next = vec![0; threads.len()];
    interleave(threads, &mut next, &mut Vec::new(), &mut classes);
    classes.len() as u64
}

fn interleave(
    threads: &[&str],
    next: &mut Vec<usize>,
    order: &mut Vec<Op>,
    classes: &mut BTreeSet<Vec<(Op, Op)>>,
) {
    let mut is_over = true;
    for thread in 0..threads.len() {
        if next[thread] < threads[thread].len() {
            is_over = false;
            order.push((thread, next[thread]));
            next[thread] += 1;
            interleave(threads, next, order, classes);
            next[thread] -= 1;
            order.pop();
        }
    }
    if is_over {
        classes.insert(conflicts(threads, order));
    }
}

/// The pairs of operations of different threads on one variable, one of them a write, in their order.
fn conflicts(threads: &[&str], order: &[Op]) -> Vec<(Op, Op)> {
    let letter = |(thread, index): Op| threads[thread].as_bytes()[index];
    let mut pairs = Vec::new();
    for (at, &one) in order.iter().enumerate() {
        for &other in &order[at + 1..] {
            let (a, b) = (letter(one), letter(other));
            let conflict = one.0 != other.0
                && a.eq_ignore_ascii_case(&b)
                && (a.is_ascii_uppercase() || b.is_ascii_uppercase());
            if conflict {
                pairs.push((one, other));
            }
        }
    }
    pairs.sort_unstable();
    pairs
}

#[test]
fn the_shapes_have_the_executions_that_they_are_known_to_have() {
    for Shape { name, threads, known } in SHAPES {
        assert_eq!(count(threads), known, "{name}");
    }
}

#[test]
fn reduction_explores_each_execution_once() -> Result<()> {
    let program = guests::one("corpus/litmus.c")?.build()?;
    let mut wrong = Vec::new();
    for Shape { name, known, .. } in SHAPES {
        let invocation = Invocation {
            program: program.clone(),
            args: vec![name.to_owned(), "fine".to_owned()],
            stdin: Vec::new(),
        };
        let tracefork = Tracefork::new(command_under_test!());
        let options = ["--reduce", "dpor", "--no-hash"];
        let result = tracefork.check(&invocation, &options, &Scratch::new()?)?.result;
        ensure!(result["verdict"] == "ok", "{name}: {result}");
        let executions = result["executions"].as_u64().context("a number of executions")?;
        if executions != known {
            wrong.push(format!("{name}: {executions}, not {known}"));
        }
    }
    ensure!(wrong.is_empty(), "{wrong:?}");
    Ok(())
}
