//! What a verdict assumes, one test for each assumption: a program, the mode that misses its bug, and the mode that finds it.
//!
//! Arrivals have theirs in `arrivals.rs` (`ordered`), reduction by audit and hashes in the tests of `explore` (`audit.rs`, `collisions.rs`): no option of
//! `check` turns the audit off or makes hashes short.

use anyhow::{Result, ensure};
use serde_json::Value;
use tracefork_tests::command_under_test;
use tracefork_tests::guests;
use tracefork_tests::observe::{Invocation, Scratch};
use tracefork_tests::supervised::Tracefork;

fn check(source: &str, flags: &[&str], options: &[&str]) -> Result<Value> {
    let invocation = Invocation {
        program: guests::one(source)?.build_with(flags)?,
        args: Vec::new(),
        stdin: Vec::new(),
    };
    let checked = Tracefork::new(command_under_test!()).check(&invocation, options, &Scratch::new()?)?;
    Ok(checked.result)
}

/// The verdict is "ok", and says that it rests on this.
fn misses(result: &Value, assumption: &str) -> Result<()> {
    ensure!(result["verdict"] == "ok", "{result}");
    ensure!(
        assumes(result, assumption),
        "it does not say {assumption}: {result}"
    );
    Ok(())
}

fn finds(result: &Value, kind: &str) -> Result<()> {
    ensure!(result["verdict"] == "violation", "{result}");
    ensure!(result["violations"][0]["kind"] == kind, "{result}");
    Ok(())
}

fn assumes(result: &Value, what: &str) -> bool {
    let lines = result["coverage"]["assumptions"].as_array().into_iter().flatten();
    lines.filter_map(Value::as_str).any(|line| line.contains(what))
}

fn notes(result: &Value, what: &str) -> bool {
    let lines = result["notes"].as_array().into_iter().flatten();
    lines.filter_map(Value::as_str).any(|line| line.contains(what))
}

#[test]
fn sequential_consistency() -> Result<()> {
    let by_turns = check("other/store_buffer.c", &[], &[])?;
    misses(&by_turns, "sequential consistency")?;
    ensure!(
        notes(&by_turns, "explored under sequential consistency"),
        "{by_turns}"
    );
    finds(&check("other/store_buffer.c", &["-DBUFFERED"], &[])?, "assert")
}

#[test]
fn relaxed_order_is_noted_only_where_it_is() -> Result<()> {
    let locked = check("check/atomicity_fixed.c", &[], &[])?;
    ensure!(
        !notes(&locked, "explored under sequential consistency"),
        "{locked}"
    );
    Ok(())
}

#[test]
fn switches_at_system_calls_only() -> Result<()> {
    let source = "check/atomicity_buggy.c";
    misses(
        &check(source, &[], &["--preempt", "syscall"])?,
        "at system calls only",
    )?;
    finds(&check(source, &[], &["--preempt", "sync"])?, "assert")
}

#[test]
fn switches_at_locks_calls_and_atomics_only() -> Result<()> {
    let source = "check/release_acquire_buggy.c";
    misses(
        &check(source, &[], &["--preempt", "sync"])?,
        "at locks, calls and atomics only",
    )?;
    finds(&check(source, &[], &[])?, "assert")
}

#[test]
fn no_faults() -> Result<()> {
    let source = "check/fault_short_read_buggy.c";
    misses(&check(source, &[], &[])?, "no faults")?;
    let faulty = check(source, &[], &["--faults", "short-read"])?;
    ensure!(faulty["verdict"] == "violation", "{faulty}");
    ensure!(!assumes(&faulty, "no faults"), "{faulty}");
    Ok(())
}

#[test]
fn hashes_are_assumed_only_where_they_are_used() -> Result<()> {
    let source = "check/atomicity_fixed.c";
    ensure!(assumes(&check(source, &[], &[])?, "hashes do not collide"));
    ensure!(!assumes(
        &check(source, &[], &["--no-hash"])?,
        "hashes do not collide"
    ));
    ensure!(!assumes(&check(source, &[], &["--reduce", "none"])?, "commute"));
    Ok(())
}
