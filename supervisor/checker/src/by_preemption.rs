//! Which outcomes need a preemption: a thread that is made to wait in the middle of something. That is how bugs show which no property was written for:
//! something is checked, another thread changes it, and then it is acted on.

use super::{CheckSystem, Ending};
use crate::report::Outcome;
use explore::{Audit, Config, Coverage, Limits, SearchResult};
use serde::Serialize;
use std::collections::BTreeSet;

/// Steps of the search without preemptions; it has no more than the one with them had, but these in any case.
const MOST: u64 = 4_000;
const LEAST: u64 = 500;
/// Outcomes that are compared.
const OUTCOMES: usize = 500;

/// An outcome that no schedule without a preemption has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ByPreemption {
    /// Its place in the list of outcomes.
    pub outcome: usize,
    /// That of the one without a preemption which is most like it.
    pub differs_from: usize,
    /// Where they first differ.
    pub difference: String,
}

/// The search for what there is without preemptions, if one is worth while.
pub fn search(config: &Config, result: &SearchResult<CheckSystem>) -> Option<Config> {
    let is_whole = result.coverage.is_complete() && config.bound_preemptions.is_none();
    let is_due = is_whole && result.violations.is_empty() && (2..=OUTCOMES).contains(&result.outcomes.len());
    is_due.then(|| Config {
        bound_preemptions: Some(0),
        hash: true,
        jobs: 1,
        audit: Audit::Off,
        deepening: None,
        limits: Limits {
            steps: Some(result.counters.transitions.clamp(LEAST, MOST)),
            ..config.limits.clone()
        },
        ..config.clone()
    })
}

/// Compares all outcomes with those of that search. If it did not come to its end, nothing is known.
pub fn compare(all: &[Outcome], without: &SearchResult<CheckSystem>) -> Vec<ByPreemption> {
    if !matches!(without.coverage, Coverage::Bounded { .. } | Coverage::Complete) {
        return Vec::new();
    }
    let plain = |outcome: &Outcome| Outcome {
        executions: 0,
        ..outcome.clone()
    };
    let reached: BTreeSet<Outcome> = without
        .outcomes
        .keys()
        .map(|ending: &Ending| ending.outcome(0))
        .collect();
    let (known, others): (Vec<usize>, Vec<usize>) =
        (0..all.len()).partition(|&index| reached.contains(&plain(&all[index])));
    let nearest = |index: usize| {
        let likeness = |&other: &usize| likeness(&all[index], &all[other]);
        // Of several the first.
        known.iter().copied().rev().max_by_key(likeness)
    };
    let told = others.into_iter().filter_map(|outcome| {
        let differs_from = nearest(outcome)?;
        Some(ByPreemption {
            outcome,
            differs_from,
            difference: difference(&all[outcome], &all[differs_from])?,
        })
    });
    told.collect()
}

/// How much two outcomes have in common: the same end counts most, then what they print before they differ.
fn likeness(one: &Outcome, other: &Outcome) -> (bool, usize) {
    let common = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let is_same_end = end(one) == end(other);
    (
        is_same_end,
        common(&one.stdout, &other.stdout) + common(&one.stderr, &other.stderr),
    )
}

fn end(outcome: &Outcome) -> String {
    match (outcome.exit, outcome.signal) {
        (Some(status), _) => format!("exit {status}"),
        (_, Some(signal)) => trace::signal_name(signal),
        _ if outcome.deadlock => "a deadlock".to_owned(),
        _ if outcome.livelock => "a livelock".to_owned(),
        _ => "no end".to_owned(),
    }
}

/// Where two outcomes first differ: how they end, what they print, what they say to peers, what they leave in files.
fn difference(one: &Outcome, other: &Outcome) -> Option<String> {
    if end(one) != end(other) {
        return Some(format!("{} instead of {}", end(one), end(other)));
    }
    let texts = [
        ("stdout", &one.stdout, &other.stdout),
        ("stderr", &one.stderr, &other.stderr),
    ];
    if let Some(found) = texts
        .into_iter()
        .find_map(|(name, a, b)| first_line(a, b).map(|line| format!("{name} {line}")))
    {
        return Some(found);
    }
    for (peer, said) in &one.sent {
        let before = other.sent.get(peer).map(Vec::as_slice).unwrap_or_default();
        for (index, text) in said.iter().enumerate() {
            let before = before.get(index).map_or("", String::as_str);
            if let Some(line) = first_line(text, before) {
                return Some(format!("what {peer} is told, {line}"));
            }
        }
    }
    (one != other).then(|| "what is sent, recovered or left in files".to_owned())
}

/// The first line in which two texts differ.
fn first_line(one: &str, other: &str) -> Option<String> {
    let (mut ours, mut theirs) = (one.lines(), other.lines());
    let mut number = 1;
    loop {
        match (ours.next(), theirs.next()) {
            (None, None) => return (one != other).then(|| format!("line {number}: its end")),
            (a, b) if a == b => number += 1,
            (Some(a), Some(b)) => return Some(format!("line {number}: {a:?} instead of {b:?}")),
            (Some(a), None) => return Some(format!("line {number}: {a:?} is more")),
            (None, Some(b)) => return Some(format!("line {number}: {b:?} is missing")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(stdout: &str) -> Outcome {
        Outcome {
            exit: Some(0),
            stdout: stdout.to_owned(),
            ..Outcome::default()
        }
    }

    #[test]
    fn the_first_difference_is_told() {
        let differ = |a: &Outcome, b: &Outcome| difference(a, b).unwrap_or_default();
        let (one, two) = (printed("sum\n1\n"), printed("sum\n2\n"));
        assert_eq!(differ(&one, &two), "stdout line 2: \"1\" instead of \"2\"");
        assert_eq!(differ(&printed("sum\n"), &two), "stdout line 2: \"2\" is missing");
        assert_eq!(differ(&two, &printed("sum\n")), "stdout line 2: \"2\" is more");
        let failed = Outcome {
            exit: Some(1),
            ..two.clone()
        };
        assert_eq!(differ(&failed, &two), "exit 1 instead of exit 0");
        assert_eq!(difference(&two, &two), None);
    }
}
