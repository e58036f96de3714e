//! `tracefork merge` takes the parts of one sweep, all of them and nothing else: a report that hides a failing part is worse than none.

use std::fs;

use serde_json::Value;
use tracefork_tests::directives::End;

use super::bench::{Bench, GRACE, PATIENCE, is_running};
use tracefork_tests::process::wait_until;

const FILE: &str = "[[scenario]]\nname = \"bad\"\nprogram = \"./bad\"\n[[scenario]]\nname = \"good\"\nprogram = \"./good\"\n";
const ONE: &str = "tracefork-sweep/part-1-of-2";
const TWO: &str = "tracefork-sweep/part-2-of-2";

/// A sweep of two scenarios, of which the first fails.
fn bench() -> Bench {
    let bench = Bench::new(&[]);
    bench.program("lock_order_buggy", "bad");
    bench.program("lock_order_fixed", "good");
    bench.file(FILE);
    bench
}

/// The same, with its two parts run.
fn with_parts() -> Bench {
    let bench = bench();
    bench.sweep(&["--partition", "slice:1/2"]).assert_code(1);
    bench.sweep(&["--partition", "slice:2/2"]).assert_code(0);
    bench
}

/// What is said about a merge that is refused.
#[track_caller]
fn refused(bench: &Bench, args: &[&str], why: &str) {
    let finished = bench.run(&[&["merge"], args].concat());
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert_eq!(finished.end, End::Exit(2), "{said}");
    assert!(said.contains(why), "{why}\n{said}");
    assert!(finished.stdout.is_empty(), "no report is made");
}

#[track_caller]
fn merged(bench: &Bench, args: &[&str], code: i32) {
    let finished = bench.run(&[&["merge"], args].concat());
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert_eq!(finished.end, End::Exit(code), "{said}");
}

/// Changes the result of a part by hand.
fn edit(bench: &Bench, part: &str, change: impl FnOnce(&mut Value)) {
    let file = format!("{part}/results.json");
    let mut document: Value = serde_json::from_str(&bench.read(&file)).expect("JSON");
    change(&mut document);
    fs::write(bench.path(&file), document.to_string()).expect("is written");
}

#[test]
fn an_older_whole_result_beside_the_parts_is_not_taken_for_them() {
    let bench = bench();
    bench.program("lock_order_fixed", "bad");
    bench.sweep(&[]).assert_code(0);
    bench.program("lock_order_buggy", "bad");
    bench.sweep(&["--partition", "slice:1/2"]).assert_code(1);
    bench.sweep(&["--partition", "slice:2/2"]).assert_code(0);
    refused(&bench, &["tracefork-sweep"], "holds the result of one sweep");
    refused(
        &bench,
        &["tracefork-sweep/results.json", ONE, TWO],
        "one is a whole sweep",
    );
    merged(&bench, &[ONE, TWO], 1);
    fs::remove_file(bench.path("tracefork-sweep/results.json")).expect("is there");
    // A whole sweep that was killed is none of the parts either.
    refused(&bench, &["tracefork-sweep"], "holds the result of one sweep");
    fs::remove_file(bench.path("tracefork-sweep/journal.jsonl")).expect("is there");
    merged(&bench, &["tracefork-sweep"], 1);
    // A whole result alone is what it is.
    bench.sweep(&["--results", "whole"]).assert_code(1);
    merged(&bench, &["whole"], 1);
}

#[test]
fn parts_of_another_sweep_are_refused() {
    let bench = with_parts();
    let mut others = vec![
        (
            FILE.replace("./good", "./bad"),
            vec![],
            "the sweep file was another one",
        ),
        // What is expected does not change what is run, but what is thought of it.
        (
            FILE.replace("\"./bad\"", "\"./bad\"\nexpect = \"deadlock\""),
            vec![],
            "the sweep file was another one",
        ),
        (
            FILE.to_owned(),
            vec!["--only", "good"],
            "other scenarios were selected",
        ),
        (
            FILE.to_owned(),
            vec!["--baseline", "known.json"],
            "the baseline was another one",
        ),
    ];
    bench
        .sweep(&["--results", "whole", "--write-baseline", "known.json"])
        .assert_code(1);
    for (text, args, why) in others.drain(..) {
        bench.file(&text);
        let line = [&["--partition", "slice:1/2", "--results", "other"], &args[..]].concat();
        bench.sweep(&line);
        bench.file(FILE);
        refused(&bench, &["other", TWO], why);
        refused(&bench, &[TWO, "other"], why);
    }
    bench.sweep(&["--partition", "slice:1/3", "--results", "other"]);
    refused(&bench, &["other", TWO], "the number of parts was another one");
    bench.sweep(&["--partition", "hash:1/2", "--results", "other"]);
    refused(&bench, &["other", TWO], "one is a slice, the other a hash");
    let profiled = FILE.to_owned() + "[profiles.p]\nonly = [\"*\"]\n";
    bench.file(&profiled);
    bench.sweep(&["--partition", "slice:1/2", "--results", "one"]);
    bench.sweep(&["--partition", "slice:2/2", "--results", "two", "--profile", "p"]);
    refused(&bench, &["one", "two"], "the profile was another one");
}

#[test]
fn missing_duplicate_and_damaged_parts_are_refused() {
    let bench = with_parts();
    refused(&bench, &[TWO], "part(s) 1 of 2 missing");
    merged(&bench, &["--allow-missing", TWO], 3);
    refused(&bench, &[ONE, TWO, ONE], "part 1 is there twice");
    let (one, two) = (
        bench.read(&format!("{ONE}/results.json")),
        format!("{TWO}/results.json"),
    );
    // The same part under another name.
    fs::create_dir(bench.path("copy")).expect("a directory");
    fs::write(bench.path("copy/results.json"), &one).expect("is written");
    refused(&bench, &[ONE, TWO, "copy"], "part 1 is there twice");
    // A failing scenario that is said to have passed, is gone, is there twice, or is somewhere else.
    edit(&bench, ONE, |document| {
        document["scenarios"][0]["exit_code"] = 0.into()
    });
    refused(&bench, &[ONE, TWO], "the summary is not that of the scenarios");
    fs::write(bench.path(ONE).join("results.json"), &one).expect("is written");
    edit(&bench, ONE, |document| {
        document["scenarios"] = Value::Array(Vec::new())
    });
    refused(&bench, &[ONE, TWO], "scenarios are missing");
    fs::write(bench.path(ONE).join("results.json"), &one).expect("is written");
    edit(&bench, ONE, |document| {
        let again = document["scenarios"][0].clone();
        document["scenarios"].as_array_mut().expect("a list").push(again);
    });
    refused(&bench, &[ONE, TWO], "bad is there twice");
    fs::write(bench.path(ONE).join("results.json"), &one).expect("is written");
    edit(&bench, ONE, |document| {
        document["scenarios"][0]["place"] = 1.into()
    });
    refused(&bench, &[ONE, TWO], "bad is not a scenario of this part");
    edit(&bench, ONE, |document| document["format"] = 1.into());
    refused(&bench, &[ONE, TWO], "format 1 is not the 2");
    fs::write(bench.path(ONE).join("results.json"), &one[..one.len() / 2]).expect("is cut");
    refused(&bench, &[ONE, TWO], "not the result of a sweep");
    fs::remove_file(bench.path(&two)).expect("is there");
    fs::write(bench.path(ONE).join("results.json"), &one).expect("is written");
    // There is a journal, so this was a part once.
    refused(&bench, &["tracefork-sweep"], "this part did not finish");
}

/// By the hash of the name it cannot be told how large a part is; but together they must be the whole.
#[test]
fn nothing_is_lost_from_a_partition_by_hash() {
    let bench = bench();
    for part in ["hash:1/2", "hash:2/2"] {
        bench.sweep(&["--partition", part]);
    }
    merged(&bench, &["tracefork-sweep"], 1);
    for part in [ONE, TWO] {
        edit(&bench, part, |document| {
            let scenarios = document["scenarios"].as_array_mut().expect("a list");
            scenarios.retain(|scenario| scenario["id"] != "bad");
            let left = scenarios.len();
            document["summary"] = serde_json::json!({
                "total": left, "passed": left, "failed": 0, "known": 0, "not_run": 0, "exit_code": 0,
            });
        });
    }
    refused(
        &bench,
        &["tracefork-sweep"],
        "the parts have 1 of the 2 scenarios",
    );
}

#[test]
fn a_part_that_runs_or_was_killed_is_not_taken_for_its_earlier_result() {
    let bench = bench();
    bench.program("lock_order_fixed", "bad");
    bench.sweep(&["--partition", "slice:1/2"]).assert_code(0);
    bench.sweep(&["--partition", "slice:2/2"]).assert_code(0);
    merged(&bench, &["tracefork-sweep"], 0);
    bench.program("never_ends", "bad");
    let mut child = bench.start(&["sweep", "s.toml", "--partition", "slice:1/2"]);
    wait_until(PATIENCE, "at the slow one", || {
        assert!(
            child.0.try_wait().expect("it is ours").is_none(),
            "it ended before"
        );
        is_running(&bench.path("bad"))
    });
    refused(&bench, &["tracefork-sweep"], "this part did not finish");
    child.0.kill().expect("can be killed");
    child.0.wait().expect("ends");
    wait_until(GRACE, "gone", || !is_running(&bench.path("bad")));
    refused(&bench, &["tracefork-sweep"], "this part did not finish");
    merged(&bench, &["--allow-missing", "tracefork-sweep"], 3);
    bench.program("lock_order_fixed", "bad");
    bench
        .sweep(&["--partition", "slice:1/2", "--resume"])
        .assert_code(0);
    merged(&bench, &["tracefork-sweep"], 0);
}

#[test]
fn parts_that_are_older_than_what_they_are_about_are_refused() {
    let bench = Bench::new(&["lock_order_fixed"]);
    bench.file(
        "[defaults]\nprogram = \"./lock_order_fixed\"\n[[scenario]]\nname = \"a\"\n[[scenario]]\nname = \"b\"\n",
    );
    bench.sweep(&["--partition", "slice:1/2"]).assert_code(0);
    // The program is changed, and the first part was not run again.
    bench.program("lock_order_buggy", "lock_order_fixed");
    bench.sweep(&["--partition", "slice:2/2"]).assert_code(1);
    let why = "have checked different versions of ./lock_order_fixed";
    refused(&bench, &["tracefork-sweep"], why);
    merged(&bench, &["--allow-other-programs", "tracefork-sweep"], 1);
    bench.sweep(&["--partition", "slice:1/2"]).assert_code(1);
    merged(&bench, &["tracefork-sweep"], 1);
    // The sweep file is changed.
    let text = bench.read("s.toml");
    bench.file(&(text.clone() + "[[scenario]]\nname = \"c\"\n"));
    refused(
        &bench,
        &["tracefork-sweep"],
        "s.toml has changed since the parts were run",
    );
    bench.file(&text);
    merged(&bench, &["tracefork-sweep"], 1);
}
