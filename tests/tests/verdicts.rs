//! What a verdict is worth: whatever was seen decides it, and what it does not cover is said.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::PathBuf;
use tracefork_tests::command_under_test;
use tracefork_tests::directives::End;
use tracefork_tests::guests;
use tracefork_tests::observe::{Invocation, Scratch};
use tracefork_tests::packages;
use tracefork_tests::process;
use tracefork_tests::supervised::{TIME_LIMIT, Tracefork};

fn program(source: &str, flags: &[&str]) -> Result<PathBuf> {
    guests::one(source)?.build_with(flags)
}

/// The JSON of a check with these options.
fn check(source: &str, flags: &[&str], options: &[&str]) -> Result<Value> {
    let invocation = Invocation {
        program: program(source, flags)?,
        args: Vec::new(),
        stdin: Vec::new(),
    };
    let checked = Tracefork::new(command_under_test!()).check(&invocation, options, &Scratch::new()?)?;
    Ok(checked.result)
}

fn violated(result: &Value, kind: &str) -> Result<()> {
    ensure!(result["verdict"] == "violation", "{result}");
    ensure!(result["violations"][0]["kind"] == kind, "{result}");
    Ok(())
}

/// Whether some line of a list has this in it.
fn says(result: &Value, list: &str, what: &str) -> bool {
    let lines = result[list].as_array().into_iter().flatten();
    lines.filter_map(Value::as_str).any(|line| line.contains(what))
}

#[test]
fn an_endless_path_keeps_nobody_from_a_deadlock() -> Result<()> {
    violated(&check("other/endless_deadlock.c", &[], &[])?, "deadlock")
}

#[test]
fn an_endless_path_keeps_nobody_from_an_assertion() -> Result<()> {
    violated(
        &check("other/endless_assert.c", &[], &["--reduce", "sleep"])?,
        "assert",
    )
}

#[test]
fn a_cycle_of_locks_that_others_end_is_no_deadlock() -> Result<()> {
    for flags in [&[][..], &["-DEARLY"]] {
        for options in [&[][..], &["--no-hash"], &["--reduce", "none"]] {
            let result = check("other/foreign_unlock.c", flags, options)?;
            ensure!(result["verdict"] == "ok", "{flags:?} {options:?}: {result}");
            ensure!(
                says(
                    &result,
                    "notes",
                    "another thread resolves this, so it is not a deadlock"
                ),
                "{result}"
            );
            ensure!(
                says(&result, "warnings", "while another thread holds it"),
                "{result}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_deadlock_of_some_threads_is_found_though_the_program_ends() -> Result<()> {
    for flags in ["-DEXIT", "-DTICKER", "-DTIMED"] {
        let result = check("other/partial_deadlock.c", &[flags], &[])?;
        violated(&result, "deadlock")?;
        let message = result["violations"][0]["message"].as_str().unwrap_or_default();
        ensure!(message.starts_with("a cycle of locks: "), "{flags}: {message}");
    }
    let timed = check("other/partial_deadlock.c", &["-DTIMEDLOCK"], &[])?;
    ensure!(timed["verdict"] == "ok", "{timed}");
    Ok(())
}

/// A check whose search sees next to nothing, so that only the walks before it can find something; and its trace, replayed.
fn found_by_walks(source: &str, kind: &str) -> Result<()> {
    let invocation = Invocation {
        program: program(source, &[])?,
        args: Vec::new(),
        stdin: Vec::new(),
    };
    let scratch = Scratch::new()?;
    let tracefork = Tracefork::new(command_under_test!());
    let checked = tracefork.check(&invocation, &["--max-states", "3"], &scratch)?;
    violated(&checked.result, kind)?;
    ensure!(checked.finished.end == End::Exit(1), "{:?}", checked.finished.end);
    let trace = checked.result["violations"][0]["trace"]
        .as_str()
        .context("a trace")?;
    let mut replay = tracefork.command(&scratch.work());
    replay.args(["replay", trace]);
    let replayed = process::run(replay, TIME_LIMIT)?;
    let said = String::from_utf8_lossy(&replayed.stderr);
    ensure!(said.contains("all as recorded"), "{said}");
    Ok(())
}

#[test]
fn what_only_a_walk_meets_is_a_violation_that_replays() -> Result<()> {
    found_by_walks("check/freed_text_buggy.c", "use-after-free")?;
    found_by_walks("check/release_acquire_buggy.c", "assert")
}

/// What its runtime ends a program with is a failed assertion, unless the user has said which statuses are right.
#[test]
fn an_uncaught_exception_is_a_violation() -> Result<()> {
    let invocation = Invocation {
        program: packages::command("python3", "python3")?,
        args: ["-c", "assert 1 + 1 == 3, 'the sum'"].map(Into::into).to_vec(),
        stdin: Vec::new(),
    };
    let tracefork = Tracefork::new(command_under_test!());
    let checked = |options: &[&str]| tracefork.check(&invocation, options, &Scratch::new()?);
    let plain = checked(&[])?.result;
    violated(&plain, "assert")?;
    ensure!(
        plain["violations"][0]["message"] == "AssertionError: the sum",
        "{plain}"
    );
    for accepted in ["1", "any"] {
        let result = checked(&["--expect-exit", accepted])?.result;
        ensure!(result["verdict"] == "ok", "{accepted}: {result}");
    }
    violated(&checked(&["--expect-exit", "0"])?.result, "exit")
}

#[test]
fn what_takes_more_preemptions_than_the_bound_is_a_warning() -> Result<()> {
    let result = check(
        "check/release_acquire_buggy.c",
        &[],
        &["--bound-preemptions", "0"],
    )?;
    ensure!(result["verdict"] == "incomplete", "{result}");
    ensure!(
        says(&result, "warnings", "more than --bound-preemptions allows"),
        "{result}"
    );
    let bounded = check(
        "check/release_acquire_buggy.c",
        &[],
        &["--bound-preemptions", "2"],
    )?;
    violated(&bounded, "assert")
}

#[test]
fn a_zombie_that_is_never_waited_for_is_told_of() -> Result<()> {
    let zombie = "stays a zombie";
    let buggy = check("other/process_zombie.c", &[], &[])?;
    ensure!(
        buggy["verdict"] == "ok" && says(&buggy, "notes", zombie),
        "{buggy}"
    );
    let fixed = check("other/process_zombie.c", &["-DFIXED"], &[])?;
    ensure!(
        fixed["verdict"] == "ok" && !says(&fixed, "notes", zombie),
        "{fixed}"
    );
    Ok(())
}
