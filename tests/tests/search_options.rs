//! The options that say how `check` searches, how far, and what it tells meanwhile: what they do, as a user sees it.
//!
//! Eight philosophers stand for a search that is far too large to end by itself here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use tracefork_tests::command_under_test;
use tracefork_tests::directives::End;
use tracefork_tests::guests;
use tracefork_tests::observe::{Invocation, Scratch};
use tracefork_tests::process::{self, Finished};
use tracefork_tests::supervised::{Checked, TIME_LIMIT, Tracefork};

const COMPLETE: i32 = 0;
const VIOLATION: i32 = 1;
const LIMIT: i32 = 3;

/// What is tried of an option.
type Check = fn() -> Result<()>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let options: [(&str, Check); 21] = [
        (
            "a_limit_on_states_is_kept_and_told",
            a_limit_on_states_is_kept_and_told,
        ),
        (
            "a_limit_on_depth_is_kept_and_told",
            a_limit_on_depth_is_kept_and_told,
        ),
        ("a_time_limit_ends_the_search", a_time_limit_ends_the_search),
        ("a_time_limit_ends_a_step", a_time_limit_ends_a_step),
        ("a_loop_of_yields_is_a_livelock", a_loop_of_yields_is_a_livelock),
        (
            "a_deadlock_tells_who_waits_for_what",
            a_deadlock_tells_who_waits_for_what,
        ),
        ("a_memory_limit_ends_the_search", a_memory_limit_ends_the_search),
        ("a_violation_outweighs_a_limit", a_violation_outweighs_a_limit),
        ("as_many_violations_as_asked_for", as_many_violations_as_asked_for),
        ("random_walks_find_it_again", || walks("random")),
        ("pct_walks_find_it_again", || walks("pct")),
        ("guided_walks_find_it_again", || walks("walk")),
        ("guided_walks_tell_what_they_saw", guided_walks_tell_what_they_saw),
        ("walks_prove_nothing", walks_prove_nothing),
        (
            "a_preemption_bound_is_kept_and_told",
            a_preemption_bound_is_kept_and_told,
        ),
        (
            "few_checkpoints_change_no_outcome",
            few_checkpoints_change_no_outcome,
        ),
        ("two_workers_change_no_outcome", two_workers_change_no_outcome),
        (
            "progress_is_plain_lines_in_a_pipe",
            progress_is_plain_lines_in_a_pipe,
        ),
        (
            "progress_is_rewritten_on_a_terminal",
            progress_is_rewritten_on_a_terminal,
        ),
        ("json_has_the_documented_fields", json_has_the_documented_fields),
        (
            "the_summary_tells_what_was_covered",
            the_summary_tells_what_was_covered,
        ),
    ];
    let trials = options.into_iter().map(|(name, body)| {
        Trial::test(name, move || {
            body().map_err(|error| Failed::from(format!("{error:#}")))
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn program(source: &str, flags: &[&str]) -> Result<PathBuf> {
    guests::one(source)?.build_with(flags)
}

fn philosophers(kind: &str, count: u32) -> Result<PathBuf> {
    program(
        &format!("check/philosophers_{kind}.c"),
        &[&format!("-DN={count}")],
    )
}

fn check(program: PathBuf, options: &[&str]) -> Result<Checked> {
    let invocation = Invocation {
        program,
        args: Vec::new(),
        stdin: Vec::new(),
    };
    Tracefork::new(command_under_test!()).check(&invocation, options, &Scratch::new()?)
}

/// As a person calls it: with a summary, no JSON.
fn check_aloud(program: &Path, options: &[&str]) -> Result<Finished> {
    let scratch = Scratch::new()?;
    let mut command = Tracefork::new(command_under_test!()).command(&scratch.work());
    command.arg("check").args(options).arg("--").arg(program);
    process::run(command, TIME_LIMIT)
}

fn ended(checked: &Checked, code: i32, verdict: &str) -> Result<()> {
    ensure!(
        checked.finished.end == End::Exit(code),
        "{:?}, not {code}: {}\n{}",
        checked.finished.end,
        checked.result,
        String::from_utf8_lossy(&checked.finished.stderr)
    );
    ensure!(
        checked.result["verdict"] == verdict,
        "not {verdict}: {}",
        checked.result
    );
    Ok(())
}

fn noted(checked: &Checked, what: &str) -> Result<()> {
    let notes = checked.result["notes"].as_array().context("notes")?;
    let is_there = notes
        .iter()
        .any(|note| note.as_str().is_some_and(|n| n.contains(what)));
    ensure!(is_there, "nothing about {what} in {notes:?}");
    Ok(())
}

fn number(value: &Value) -> Result<u64> {
    value.as_u64().with_context(|| format!("{value} is no number"))
}

fn outcomes(checked: &Checked) -> BTreeSet<String> {
    let list = checked.result["outcomes"].as_array().into_iter().flatten();
    list.map(|o| format!("{} {} {}", o["exit"], o["signal"], o["stdout"]))
        .collect()
}

fn a_limit_on_states_is_kept_and_told() -> Result<()> {
    for options in [
        &["--max-states", "100"][..],
        &["--max-states", "100", "--search", "bfs"],
        &["--max-states", "100", "--no-hash"],
    ] {
        let checked = check(philosophers("fixed", 8)?, options)?;
        ended(&checked, LIMIT, "incomplete")?;
        noted(&checked, "limit on states")?;
        let states = number(&checked.result["states"]["new"])?;
        ensure!(states == 100, "{states} states");
        says_how_far(&checked)?;
    }
    Ok(())
}

/// A search that is not in the order of preemptions is followed by a look that is, so that something can be said.
fn says_how_far(checked: &Checked) -> Result<()> {
    let coverage = &checked.result["coverage"];
    let statement = coverage["statement"].as_str().unwrap_or_default();
    ensure!(
        statement.contains("steps known by then") && coverage["next"]["known"].is_number(),
        "{coverage}"
    );
    Ok(())
}

fn a_limit_on_depth_is_kept_and_told() -> Result<()> {
    let checked = check(philosophers("fixed", 3)?, &["--max-depth", "15"])?;
    ended(&checked, LIMIT, "incomplete")?;
    noted(&checked, "depth limit")?;
    ensure!(number(&checked.result["max_depth"])? == 15, "{}", checked.result);
    ensure!(checked.executions() == Some(0), "nothing ends so soon");
    // A limit beyond the longest path cuts nothing.
    let checked = check(philosophers("fixed", 3)?, &["--max-depth", "10000"])?;
    ended(&checked, COMPLETE, "ok")
}

/// How far a command comes within its time depends on the machine: it has ever more of it, until what has to be seen is there.
fn within_some_time(seen: impl Fn(&str) -> Result<()>) -> Result<()> {
    for limit in ["1s", "5s", "30s"] {
        if seen(limit).is_ok() {
            return Ok(());
        }
    }
    seen("3m")
}

fn a_time_limit_ends_the_search() -> Result<()> {
    within_some_time(|limit| {
        let options = ["--time-limit", limit, "--reduce", "none"];
        let checked = check(philosophers("fixed", 8)?, &options)?;
        ended(&checked, LIMIT, "incomplete")?;
        noted(&checked, "time limit")?;
        says_how_far(&checked)?;
        ensure!(
            number(&checked.result["transitions"])? > 0,
            "nothing was explored"
        );
        Ok(())
    })
}

fn a_time_limit_ends_a_step() -> Result<()> {
    within_some_time(|limit| {
        let checked = check(
            program("other/computes_for_ever.c", &[])?,
            &["--time-limit", limit],
        )?;
        ended(&checked, LIMIT, "incomplete")?;
        noted(&checked, "time limit")?;
        noted(&checked, "thread 1000 computes, in main computes_for_ever.c:")
    })
}

/// Whoever yields for ever is in the same state again, however much time passes.
fn a_loop_of_yields_is_a_livelock() -> Result<()> {
    let checked = check(
        program("other/yields_for_ever.c", &[])?,
        &["--max-states", "1000"],
    )?;
    ended(&checked, VIOLATION, "violation")?;
    let message = checked.result["violations"][0]["message"].as_str();
    let expected = "every thread waits or polls, and nothing changes as time passes: thread 1000 waits for thread 1001 to end; \
                    thread 1001 waits in sched_yield";
    ensure!(message == Some(expected), "{message:?}");
    Ok(())
}

fn a_deadlock_tells_who_waits_for_what() -> Result<()> {
    let checked = check(program("other/join_cycle.c", &[])?, &[])?;
    ended(&checked, VIOLATION, "violation")?;
    let message = checked.result["violations"][0]["message"].as_str();
    let expected = "no thread can make progress: thread 1000 waits in pause; thread 1001 waits for thread 1002 to end; \
                    thread 1002 waits for thread 1001 to end";
    ensure!(message == Some(expected), "{message:?}");
    Ok(())
}

fn a_memory_limit_ends_the_search() -> Result<()> {
    // Less than the supervisor needs for itself.
    let checked = check(philosophers("fixed", 8)?, &["--memory-limit", "1M"])?;
    ended(&checked, LIMIT, "incomplete")?;
    noted(&checked, "memory limit")
}

fn a_violation_outweighs_a_limit() -> Result<()> {
    let options = ["--max-states", "2000", "--keep-going"];
    let checked = check(philosophers("buggy", 5)?, &options)?;
    let code = if checked.violations().is_empty() {
        LIMIT
    } else {
        VIOLATION
    };
    ensure!(checked.finished.end == End::Exit(code));
    // Also where what found it is the look that follows.
    noted(&checked, "limit on states")?;
    let checked = check(philosophers("buggy", 3)?, &["--max-depth", "30", "--keep-going"])?;
    ended(&checked, VIOLATION, "violation")?;
    noted(&checked, "depth limit")
}

fn as_many_violations_as_asked_for() -> Result<()> {
    for (options, expected) in [
        (&[][..], 1),
        (&["--max-violations", "2"], 2),
        (&["--max-violations", "10"], 3),
        (&["--keep-going"], 3),
    ] {
        let options = [&["--expect-exit", "0"], options].concat();
        let checked = check(program("other/many_ends.c", &[])?, &options)?;
        ended(&checked, VIOLATION, "violation")?;
        let violations = checked.result["violations"].as_array().context("violations")?;
        let messages: BTreeSet<_> = violations.iter().map(|v| v["message"].to_string()).collect();
        ensure!(messages.len() == expected, "{options:?}: {messages:?}");
        ensure!(violations.len() == expected, "{options:?}: {violations:?}");
        for violation in violations {
            ensure!(violation["kind"] == "exit" && violation["trace"].is_string());
        }
    }
    Ok(())
}

/// Sampling finds the deadlock of three philosophers, and does the same again with the same seed.
fn walks(search: &str) -> Result<()> {
    let found = |seed: &str| {
        let options = ["--search", search, "--seed", seed, "--walks", "500"];
        let checked = check(philosophers("buggy", 3)?, &options)?;
        ended(&checked, VIOLATION, "violation").with_context(|| format!("seed {seed}"))?;
        ensure!(
            checked.violations().contains("deadlock"),
            "{:?}",
            checked.violations()
        );
        ensure!(checked.result["seed"].to_string() == seed);
        let counters = ["transitions", "executions", "max_depth"];
        Ok(counters.map(|name| checked.result[name].to_string()))
    };
    let (first, again) = (found("7")?, found("7")?);
    ensure!(first == again, "{first:?}, then {again:?}");
    let others: BTreeSet<_> = ["8", "9", "10"].into_iter().map(found).collect::<Result<_>>()?;
    ensure!(
        others.iter().any(|other| *other != first),
        "the seed changes nothing"
    );
    Ok(())
}

/// What single schedules have seen is told, and is the same for any number of workers.
fn guided_walks_tell_what_they_saw() -> Result<()> {
    let sampled = |jobs: &str| -> Result<Value> {
        let options = ["--search", "walk", "--walks", "100", "--jobs", jobs];
        let checked = check(philosophers("fixed", 3)?, &options)?;
        ended(&checked, LIMIT, "incomplete")?;
        noted(&checked, "sampled")?;
        Ok(checked.result)
    };
    let result = sampled("1")?;
    let sampling = &result["sampling"];
    ensure!(sampling["walks"] == 100, "{sampling}");
    ensure!(sampling["pairs"].as_u64() > Some(0), "{sampling}");
    // All orders of three philosophers are seen before half of the walks are made.
    ensure!(sampling["new_pairs_per_thousand_walks"] == 0, "{sampling}");
    ensure!(result["schedules"]["until_violation"].is_null(), "{result}");
    let by_two = sampled("2")?;
    ensure!(
        by_two["sampling"] == *sampling,
        "{} and {sampling}",
        by_two["sampling"]
    );
    let said = check_aloud(
        &philosophers("fixed", 3)?,
        &["--search", "walk", "--walks", "100"],
    )?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    ensure!(said.contains("sampled 100 schedules: "), "{said}");
    Ok(())
}

fn walks_prove_nothing() -> Result<()> {
    let checked = check(
        philosophers("fixed", 3)?,
        &["--search", "random", "--walks", "20"],
    )?;
    ended(&checked, LIMIT, "incomplete")?;
    noted(&checked, "sampled")?;
    ensure!(checked.executions() == Some(20), "{:?}", checked.executions());
    Ok(())
}

/// The double free needs one preemption.
fn a_preemption_bound_is_kept_and_told() -> Result<()> {
    let buggy = || program("check/double_free_buggy.c", &[]);
    let checked = check(buggy()?, &["--bound-preemptions", "0"])?;
    ended(&checked, LIMIT, "incomplete")?;
    noted(&checked, "at most 0 preemptions")?;
    let checked = check(buggy()?, &["--bound-preemptions", "1"])?;
    ended(&checked, VIOLATION, "violation")?;
    // A bound that leaves nothing out is as good as none.
    let fixed = program("check/double_free_fixed.c", &[])?;
    let checked = check(fixed, &["--bound-preemptions", "1000"])?;
    ended(&checked, COMPLETE, "ok")?;
    noted(&checked, "excluded nothing")
}

fn few_checkpoints_change_no_outcome() -> Result<()> {
    let explore = |options: &[&str]| check(program("check/outcome_three_locks.c", &[])?, options);
    let expected = explore(&[])?;
    ended(&expected, COMPLETE, "ok")?;
    for backend in ["fork", "rewind"] {
        for budget in ["0", "1", "3"] {
            let found = explore(&["--checkpoint", backend, "--max-checkpoints", budget])?;
            ended(&found, COMPLETE, "ok")?;
            ensure!(outcomes(&found) == outcomes(&expected), "{backend} {budget}");
            let account = &found.result["checkpoints"];
            ensure!(
                number(&account["live_max"])? <= budget.parse()?,
                "{backend} {budget}: {account}"
            );
            ensure!(
                number(&account["reexecuted_steps"])? > 0,
                "{backend} {budget}: {account}"
            );
            ensure!(
                found.result["states"]["new"] == expected.result["states"]["new"],
                "{backend} {budget}: {}",
                found.result
            );
        }
    }
    Ok(())
}

fn two_workers_change_no_outcome() -> Result<()> {
    let explore = |jobs: &str| {
        check(
            program("check/outcome_three_locks.c", &[])?,
            &["--reduce", "none", "--jobs", jobs],
        )
    };
    let (one, two) = (explore("1")?, explore("2")?);
    ended(&one, COMPLETE, "ok")?;
    ended(&two, COMPLETE, "ok")?;
    ensure!(outcomes(&one) == outcomes(&two));
    ensure!(one.result["states"]["new"] == two.result["states"]["new"]);
    Ok(())
}

/// What a line of progress tells.
const TOLD: [&str; 6] = [
    "states=",
    "unique=",
    "depth=",
    "transitions/s=",
    "checkpoints=",
    "elapsed=",
];

fn progress_is_plain_lines_in_a_pipe() -> Result<()> {
    let program = philosophers("fixed", 3)?;
    let finished = check_aloud(&program, &["--progress", "always"])?;
    let said = String::from_utf8_lossy(&finished.stderr);
    let line = said.lines().next().context("a line of progress")?;
    ensure!(TOLD.iter().all(|field| line.contains(field)), "{said}");
    ensure!(!said.contains('\r') && !said.contains('\x1b'), "{said:?}");
    // Nobody watches a pipe, unless asked to.
    let finished = check_aloud(&program, &[])?;
    let said = String::from_utf8_lossy(&finished.stderr);
    ensure!(!said.contains("states="), "{said}");
    Ok(())
}

fn progress_is_rewritten_on_a_terminal() -> Result<()> {
    within_some_time(|limit| {
        let said = progress_on_a_terminal("xterm", limit)?;
        let shown = said
            .split('\r')
            .find(|line| line.contains("states="))
            .with_context(|| format!("a line of progress in {said:?}"))?;
        ensure!(TOLD.iter().all(|field| shown.contains(field)), "{shown}");
        ensure!(!shown.contains('\n'), "it scrolls: {shown:?}");
        // Where nothing can be rewritten there are lines.
        let said = progress_on_a_terminal("dumb", limit)?;
        let shown = said.lines().find(|line| line.contains("states="));
        let shown = shown.with_context(|| format!("a line of progress in {said:?}"))?;
        ensure!(TOLD.iter().all(|field| shown.contains(field)), "{shown}");
        Ok(())
    })
}

/// What a search prints that has a terminal of this kind.
fn progress_on_a_terminal(kind: &str, limit: &str) -> Result<String> {
    let scratch = Scratch::new()?;
    let program = philosophers("fixed", 8)?;
    let quoted = |path: &Path| format!("'{}'", path.display());
    let line = format!(
        "{} check --time-limit {limit} --reduce none -- {}",
        quoted(command_under_test!()),
        quoted(&program)
    );
    // Gives its command a terminal of its own.
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("TERM", kind)
        .current_dir(scratch.work());
    let finished = process::run(command, TIME_LIMIT)?;
    let said = String::from_utf8_lossy(&finished.stdout).into_owned();
    ensure!(finished.end == End::Exit(LIMIT), "{:?}\n{said}", finished.end);
    Ok(said)
}

fn json_has_the_documented_fields() -> Result<()> {
    let checked = check(philosophers("buggy", 3)?, &["--seed", "5"])?;
    ended(&checked, VIOLATION, "violation")?;
    let result = &checked.result;
    ensure!(result["error"].is_null() && result["seed"] == 5);
    for path in [
        "/states/new",
        "/states/revisited",
        "/transitions",
        "/executions",
        "/max_depth",
        "/checkpoints/taken",
        "/checkpoints/restored",
        "/checkpoints/live_max",
        "/checkpoints/reexecuted_steps",
        "/cache/hits",
        "/cache/misses",
        "/cache/logical_connections",
        "/cache/physical_connections",
        "/cache/peer_starts",
        "/cache/replayed_bytes",
        "/peak_rss_bytes",
        "/violations/0/thread",
        "/violations/0/steps",
        "/violations/0/preemptions",
        "/outcomes/0/executions",
    ] {
        let value = result
            .pointer(path)
            .with_context(|| format!("{path} is missing: {result}"))?;
        ensure!(value.is_u64() || path.ends_with("thread"), "{path}: {value}");
    }
    for path in [
        "/version",
        "/checkpoints/backend",
        "/cache/mode",
        "/violations/0/kind",
        "/violations/0/message",
        "/violations/0/trace",
        "/outcomes/0/stdout",
        "/outcomes/0/stderr",
    ] {
        let value = result
            .pointer(path)
            .with_context(|| format!("{path} is missing: {result}"))?;
        ensure!(value.is_string(), "{path}: {value}");
    }
    ensure!(result["time_s"].is_f64(), "{result}");
    let outcome = &result["outcomes"][0];
    ensure!(outcome.get("exit").is_some() && outcome.get("signal").is_some());
    ensure!(outcome["idle"].is_boolean() && outcome["sent"].is_object());
    // One object, also if the search fails halfway.
    let program = program("other/foreign_call.c", &[])?;
    let finished = check_aloud(&program, &["--json", "-", "--quiet"])?;
    let result: Value = serde_json::from_slice(&finished.stdout)?;
    ensure!(result["verdict"] == "error" && result["cache"].is_object() && result["checkpoints"].is_object());
    Ok(())
}

fn the_summary_tells_what_was_covered() -> Result<()> {
    let program = philosophers("fixed", 3)?;
    for (options, verdict, code) in [
        (&[][..], "ok: every schedule was explored", COMPLETE),
        (&["--max-states", "20"], "incomplete: no violation so far", LIMIT),
    ] {
        let finished = check_aloud(&program, options)?;
        let said = String::from_utf8_lossy(&finished.stdout);
        ensure!(finished.end == End::Exit(code), "{:?}\n{said}", finished.end);
        ensure!(
            said.contains(verdict) && said.contains("transitions") && said.contains("checkpoints"),
            "{said}"
        );
        ensure!(
            code == COMPLETE || said.contains("note: the limit on states was reached"),
            "{said}"
        );
    }
    Ok(())
}
