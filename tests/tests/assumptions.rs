//! What a verdict assumes, one test for each assumption: a program, the mode that misses its bug, and the mode that finds it.
//!
//! Reduction by audit and hashes have theirs in the tests of `explore` (`audit.rs`, `collisions.rs`): no option of `check`
//! turns the audit off or makes hashes short.

use anyhow::{Result, ensure};
use serde_json::Value;
use tracefork_tests::command_under_test;
use tracefork_tests::guests;
use tracefork_tests::networked::{Session, peer_program};
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
        notes(&by_turns, "only sequentially consistent executions are explored"),
        "{by_turns}"
    );
    finds(&check("other/store_buffer.c", &["-DBUFFERED"], &[])?, "assert")
}

#[test]
fn relaxed_order_is_noted_only_where_it_is() -> Result<()> {
    let locked = check("check/atomicity_fixed.c", &[], &[])?;
    ensure!(
        !notes(&locked, "only sequentially consistent executions are explored"),
        "{locked}"
    );
    Ok(())
}

#[test]
fn switches_at_system_calls_only() -> Result<()> {
    let source = "check/atomicity_buggy.c";
    misses(
        &check(source, &[], &["--preempt", "syscall"])?,
        "only at system calls",
    )?;
    finds(&check(source, &[], &["--preempt", "sync"])?, "assert")
}

#[test]
fn switches_at_locks_calls_and_atomics_only() -> Result<()> {
    let source = "check/release_acquire_buggy.c";
    misses(
        &check(source, &[], &["--preempt", "sync"])?,
        "only at locks, system calls and atomics",
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

/// How long things take is not explored, unless that is asked for; and that is said only where somebody waits for time to pass.
#[test]
fn time_passes_last() -> Result<()> {
    const LAST: &str = "sleeps and timed waits end only when no other thread can run";
    let source = "other/sleeps_for_order.c";
    misses(&check(source, &[], &[])?, LAST)?;
    let early = check(source, &[], &["--faults", "timeout"])?;
    finds(&early, "assert")?;
    ensure!(!assumes(&early, LAST), "{early}");
    let locked = check("check/atomicity_fixed.c", &[], &[])?;
    ensure!(!assumes(&locked, LAST), "{locked}");
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

/// A server that puts this text before each line.
fn asks(session: Session, says: &str, port: u16) -> Result<Session> {
    let sayer = peer_program("sayer")?;
    Ok(session.server(&format!("{} {port} server '{says}'", sayer.display())))
}

/// What a peer could have said, but did not say, is not known: neither by a search nor by what was kept of an earlier one.
#[test]
fn peers_as_they_answered() -> Result<()> {
    let tracefork = Tracefork::new(command_under_test!());
    let first = Session::new()?;
    let (port, file) = (first.port, first.scratch.beside("cache").display().to_string());
    let kept = ["--cache-file", file.as_str()];
    let at = port.to_string();
    let check = |session: &Session| session.check_guest_at(&tracefork, "trusts", &[&at]);
    let first = asks(first, "3 ", port)?.with(&kept);
    misses(&check(&first)?.json, "peers behave as recorded")?;
    let later = asks(Session::new()?, "7 ", port)?;
    finds(&check(&later)?.json, "assert")?;
    let as_before = later.with(&kept);
    misses(&check(&as_before)?.json, "peers behave as recorded")
}

#[test]
fn arrivals_in_order() -> Result<()> {
    let tracefork = Tracefork::new(command_under_test!());
    let program = guests::one("arrivals/early.c")?.build()?.display().to_string();
    let check = |options: &[&str]| -> Result<Value> {
        let session = Session::new()?;
        let port = session.port;
        let session = asks(session, "xy", port)?.with(options);
        let report = session.check(&tracefork, &program, &[&port.to_string(), "buggy"])?;
        Ok(report.json)
    };
    let rule = ["--forbid", "lost"];
    misses(
        &check(&[&rule[..], &["--arrivals", "ordered"]].concat())?,
        "arrives immediately and in order",
    )?;
    finds(&check(&rule)?, "output")
}
