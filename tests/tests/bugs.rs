//! Fifty bugs and more, in the classes of the usual suites of concurrent programs: with default options each is found, and within few schedules. Of many of
//! them the corrected program is checked, too, so that nothing is called a bug that is none.
//!
//! What counts is the number of schedules, whole or broken off, until the first violation ([`checker::report::Schedules`]); how long it took is only told.

use anyhow::{Result, ensure};
use serde_json::Value;
use tracefork_tests::command_under_test;
use tracefork_tests::guests;
use tracefork_tests::observe::{Invocation, Scratch};
use tracefork_tests::supervised::Tracefork;

/// Schedules until a bug is found: of each at most, and of the one in the middle.
const MOST: u64 = 10_000;
const MEDIAN: u64 = 100;

/// A program of `guests/suite`, and what its bug is.
struct Bug {
    file: &'static str,
    program: &'static str,
    kind: &'static str,
}

/// All programs of one file with one kind of bug.
fn all(file: &'static str, kind: &'static str, programs: &[&'static str]) -> Vec<Bug> {
    let bug = |&program| Bug { file, program, kind };
    programs.iter().map(bug).collect()
}

fn bugs() -> Vec<Bug> {
    [
        all(
            "many.c",
            "assert",
            &[
                "account",
                "arithmetic",
                "bluetooth",
                "circular_buffer",
                "fsbench",
                "lazy",
                "phases",
                "queue",
                "reorder_3",
                "reorder_4",
                "reorder_5",
                "reorder_10",
                "reorder_20",
                "stack",
                "token_ring",
                "twostage",
                "twostage_20",
                "twostage_50",
                "wronglock_2",
                "wronglock_4",
                "wronglock_8",
            ],
        ),
        all(
            "many.c",
            "deadlock",
            &[
                "carter",
                "deadlock",
                "philosophers_2",
                "philosophers_4",
                "philosophers_5",
                "philosophers_7",
                "sync_flag",
                "sync_pairs",
            ],
        ),
        all(
            "programs.c",
            "assert",
            &[
                "downloader",
                "compressor",
                "string_buffer",
                "blocking_buffer",
                "tracer",
                "pipeline",
                "missing_barrier",
                "body_tree",
                "transform",
                "factorisation",
                "script_object",
                "task_loop",
                "cache_item",
                "log_file",
            ],
        ),
        all(
            "programs.c",
            "deadlock",
            &[
                "bounded_buffer",
                "parallel_sort",
                "reused_barrier",
                "counted_barrier",
                "lost_notification",
                "table_and_log",
            ],
        ),
        all(
            "lockfree.c",
            "assert",
            &[
                "steal_unlocked",
                "steal_looks_first",
                "take_without_second_look",
                "steal_keeps_head",
                "ring_buffer",
            ],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Corrected programs that are explored in whole.
const TWINS: [(&str, &[&str]); 3] = [
    (
        "many.c",
        &[
            "account",
            "bluetooth",
            "carter",
            "circular_buffer",
            "deadlock",
            "lazy",
            "philosophers_4",
            "philosophers_7",
            "queue",
            "reorder_3",
            "reorder_4",
            "sync_flag",
            "twostage",
            "wronglock_2",
        ],
    ),
    (
        "programs.c",
        &[
            "downloader",
            "compressor",
            "string_buffer",
            "tracer",
            "parallel_sort",
            "pipeline",
            "reused_barrier",
            "missing_barrier",
            "counted_barrier",
            "body_tree",
            "factorisation",
            "lost_notification",
            "task_loop",
            "script_object",
        ],
    ),
    ("lockfree.c", &["steal_unlocked", "ring_buffer"]),
];

fn check(file: &str, program: &str, variant: &str) -> Result<Value> {
    let invocation = Invocation {
        program: guests::one(&format!("suite/{file}"))?.build()?,
        args: vec![program.into(), variant.into()],
        stdin: Vec::new(),
    };
    let checked = Tracefork::new(command_under_test!()).check(&invocation, &[], &Scratch::new()?)?;
    Ok(checked.result)
}

#[test]
fn every_bug_is_found_in_few_schedules() -> Result<()> {
    let mut counts = Vec::new();
    let mut missed = Vec::new();
    let mut bugs = bugs();
    // A step of a hundred threads takes long.
    if std::env::var_os("TRACEFORK_ALL").is_some() {
        bugs.extend(all("many.c", "assert", &["twostage_100"]));
    }
    for Bug { file, program, kind } in bugs {
        let result = check(file, program, "bad")?;
        let found = &result["violations"][0]["kind"];
        let schedules = result["schedules"]["until_violation"].as_u64();
        println!(
            "{file} {program}: {schedules:?} schedules, {} s",
            result["time_s"]
        );
        match schedules {
            Some(count) if found == kind && count <= MOST => counts.push(count),
            _ => missed.push(format!(
                "{program}: {found} after {schedules:?} schedules, expected {kind}"
            )),
        }
    }
    ensure!(missed.is_empty(), "{}", missed.join("\n"));
    ensure!(counts.len() >= 50, "{} bugs", counts.len());
    counts.sort_unstable();
    let median = counts[counts.len() / 2];
    println!("median {median}, most {:?}", counts.last());
    ensure!(median <= MEDIAN, "median {median}: {counts:?}");
    Ok(())
}

#[test]
fn what_is_corrected_is_no_bug() -> Result<()> {
    for (file, programs) in TWINS {
        for program in programs {
            let result = check(file, program, "fine")?;
            ensure!(result["verdict"] == "ok", "{file} {program}: {result}");
            ensure!(
                result["schedules"]["until_violation"].is_null(),
                "{program}: {result}"
            );
        }
    }
    Ok(())
}
