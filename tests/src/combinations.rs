//! The chief oracle: what a program can do does not depend on how it is explored.
//!
//! A program is checked in many combinations of `--checkpoint`, `--reduce`, hashing, order and workers, and each must find the same
//! outcomes and the same violations. All combinations that make a difference are 44; by default only so many are run that every
//! two values of two settings meet in one of them. The variable `TRACEFORK_ALL_COMBINATIONS` asks for all.
//!
//! Not every combination can come to its end: without a visited set and without reduction every path is followed, and
//! re-executing each from the start takes its time. Such a search is cut at a number of states. What it has found by then must
//! be a part of what the others found.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::observe::{Invocation, Scratch};
use crate::supervised::{Checked, Tracefork};

/// One way to explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination {
    checkpoint: &'static str,
    reduce: &'static str,
    hash: bool,
    search: &'static str,
    jobs: &'static str,
}

/// How everything else is compared: no reduction, no visited set, no checkpoints.
pub const NAIVE: Combination = Combination {
    checkpoint: "none",
    reduce: "none",
    hash: false,
    search: "dfs",
    jobs: "1",
};

/// The default search.
pub const DEFAULT: Combination = Combination {
    checkpoint: "auto",
    reduce: "auto",
    hash: true,
    search: "dfs",
    jobs: "1",
};

impl Combination {
    /// Those that differ in what they do. Dynamic reduction is depth first, without a visited set and with one worker: asked for
    /// otherwise it is replaced by something that is in the list already.
    pub fn all() -> Vec<Combination> {
        let mut all = Vec::new();
        for checkpoint in ["fork", "rewind", "none"] {
            for (reduce, hash) in [
                ("none", true),
                ("sleep", true),
                ("none", false),
                ("sleep", false),
                ("dpor", false),
            ] {
                for search in ["dfs", "bfs"] {
                    for jobs in ["1", "2"] {
                        if reduce != "dpor" || (search, jobs) == ("dfs", "1") {
                            all.push(Combination {
                                checkpoint,
                                reduce,
                                hash,
                                search,
                                jobs,
                            });
                        }
                    }
                }
            }
        }
        all
    }

    /// So many that every pair of values that can meet meets in one of them.
    pub fn pairwise() -> Vec<Combination> {
        let mut open: BTreeSet<(String, String)> = Self::all().iter().flat_map(|c| c.pairs()).collect();
        let mut chosen = Vec::new();
        while !open.is_empty() {
            let gain = |c: &Combination| c.pairs().iter().filter(|pair| open.contains(*pair)).count();
            let Some(best) = Self::all().into_iter().rev().max_by_key(gain) else {
                break;
            };
            for pair in best.pairs() {
                open.remove(&pair);
            }
            chosen.push(best);
        }
        chosen
    }

    /// What the environment asks for.
    pub fn wanted() -> Vec<Combination> {
        if std::env::var_os("TRACEFORK_ALL_COMBINATIONS").is_some() {
            Self::all()
        } else {
            Self::pairwise()
        }
    }

    fn pairs(&self) -> Vec<(String, String)> {
        let values = [
            format!("checkpoint {}", self.checkpoint),
            format!("reduce {}", self.reduce),
            format!("hash {}", self.hash),
            format!("search {}", self.search),
            format!("jobs {}", self.jobs),
        ];
        let mut pairs = Vec::new();
        for (i, one) in values.iter().enumerate() {
            for other in &values[i + 1..] {
                pairs.push((one.clone(), other.clone()));
            }
        }
        pairs
    }

    /// Its share of the states: a search that is slow by its nature gets a smaller one.
    fn budget(&self, most_states: u64) -> u64 {
        match (self.checkpoint, self.hash) {
            ("none", _) => most_states / 8,
            (_, false) => most_states / 4,
            _ => most_states,
        }
    }

    /// As options of `check`.
    pub fn options(&self) -> Vec<&'static str> {
        let mut options = vec![
            "--keep-going",
            "--checkpoint",
            self.checkpoint,
            "--reduce",
            self.reduce,
            "--search",
            self.search,
            "--jobs",
            self.jobs,
        ];
        if !self.hash {
            options.push("--no-hash");
        }
        options
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.options()[1..].join(" "))
    }
}

/// What was found, as sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    pub outcomes: BTreeSet<String>,
    pub violations: BTreeSet<String>,
    pub is_complete: bool,
    /// Only meaningful with a visited set and without reduction.
    pub states: u64,
}

impl Findings {
    pub fn of(checked: &Checked) -> Result<Findings> {
        let result = &checked.result;
        let list = |name: &str| result[name].as_array().cloned().unwrap_or_default();
        let outcome = |o: &Value| {
            format!(
                "exit {} signal {} deadlock {} stdout {} stderr {}",
                o["exit"], o["signal"], o["deadlock"], o["stdout"], o["stderr"]
            )
        };
        let violation = |v: &Value| format!("{} in thread {}: {}", v["kind"], v["thread"], v["message"]);
        let verdict = result["verdict"].as_str().context("a verdict")?;
        ensure!(
            verdict != "error",
            "it failed: {}\n{}",
            result["error"],
            String::from_utf8_lossy(&checked.finished.stderr)
        );
        let notes = list("notes");
        let was_cut = notes
            .iter()
            .any(|note| note.as_str().is_some_and(|n| n.contains("limit on states")));
        Ok(Findings {
            outcomes: list("outcomes").iter().map(outcome).collect(),
            violations: list("violations").iter().map(violation).collect(),
            is_complete: !was_cut,
            states: result["states"]["new"].as_u64().context("states")?,
        })
    }

    fn is_part_of(&self, whole: &Findings) -> bool {
        self.outcomes.is_subset(&whole.outcomes) && self.violations.is_subset(&whole.violations)
    }
}

/// Checks a program in every given combination; `most_states` bounds each search. What all agree on.
pub fn compare(
    tracefork: &Tracefork,
    invocation: &Invocation,
    further: &[&str],
    combinations: &[Combination],
    most_states: u64,
) -> Result<Findings> {
    let explore = |combination: &Combination| {
        let limit = combination.budget(most_states).to_string();
        let mut options = combination.options();
        options.extend(further);
        options.extend(["--max-states", &limit]);
        let checked = tracefork.check(invocation, &options, &Scratch::new()?)?;
        Findings::of(&checked).with_context(|| combination.to_string())
    };
    let expected = explore(&DEFAULT)?;
    ensure!(
        expected.is_complete,
        "the default search needs more than {most_states} states"
    );
    let mut unreduced_states = None;
    for combination in combinations {
        let found = explore(combination)?;
        ensure!(
            found.is_part_of(&expected),
            "{combination} found what the default search does not:\n{found:#?}\nagainst\n{expected:#?}"
        );
        if !found.is_complete {
            continue;
        }
        ensure!(
            expected.is_part_of(&found),
            "{combination} misses something:\n{found:#?}\nagainst\n{expected:#?}"
        );
        if combination.hash && combination.reduce == "none" {
            let states = *unreduced_states.get_or_insert(found.states);
            ensure!(
                states == found.states,
                "{combination} counts {} states, another search {states}: a state has two identities",
                found.states
            );
        }
    }
    Ok(expected)
}
