//! Programs that wait for the outside, and programs that wait in vain: signals that may still come, and threads that sleep and look again and again.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use libtest_mimic::{Arguments, Trial};
use tracefork_tests::directives::End;
use tracefork_tests::networked::trial;
use tracefork_tests::observe::{Invocation, Scratch};
use tracefork_tests::supervised::{Checked, TIME_LIMIT, Tracefork};
use tracefork_tests::{command_under_test, guests, process};

/// Ways to search that must not matter.
const MODES: [&[&str]; 4] = [
    &[],
    &["--checkpoint", "fork", "--reduce", "none"],
    &["--checkpoint", "none", "--reduce", "dpor", "--no-hash"],
    &["--reduce", "sleep", "--jobs", "2"],
];

/// Ways of `awaits_signal` that are right: they end when the signal comes, and are idle without.
const AWAITED: [&str; 17] = [
    "sigsuspend",
    "pause",
    "sigwait",
    "sigwaitinfo-ignored",
    "signalfd-read",
    "signalfd-poll",
    "signalfd-epoll",
    "ppoll",
    "ppoll-default",
    "pselect",
    "semaphore",
    "self-pipe",
    "joins-waiter",
    "yields",
    "looks",
    "sleeps",
    "stops-child",
];

/// Ways that are wrong: threads wait for what no signal brings about, or for one that has come before.
const DEADLOCKED: [&str; 9] = [
    "check-then-pause",
    "pause-blocked",
    "pause-ignored",
    "nobody-signals",
    "nobody-signals-handled",
    "nobody-signals-left",
    "two-signals-left",
    "locks-beside-waiter",
    "waits-for-child",
];

/// Ways of `polls` that look for what never comes.
const IN_VAIN: [&str; 14] = [
    "usleep",
    "nanosleep",
    "clock_nanosleep",
    "absolute-sleep",
    "poll",
    "select",
    "epoll",
    "semaphore",
    "under-lock",
    "beside-one-that-waits",
    "two-of-them",
    "two-at-odds",
    "beside-one-that-sleeps",
    "beside-one-that-looks",
];

/// Ways that come to their end.
const ENDING: [&str; 8] = [
    "count-rounds",
    "until-then",
    "set-later",
    "set-much-later",
    "alarm-clock",
    "ticking",
    "timer-descriptor",
    "child-ends",
];

/// Of these every search takes seconds, so they are searched in two ways that differ in everything.
const LONG: [&str; 4] = [
    "two-at-odds",
    "beside-one-that-sleeps",
    "beside-one-that-looks",
    "locks-beside-waiter",
];

fn modes_of(way: &str) -> &'static [&'static [&'static str]] {
    if LONG.contains(&way) { &MODES[..2] } else { &MODES }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let tracefork = &tracefork;
    let each = |what: &str, ways: &[&'static str], test: fn(&Tracefork, &'static str) -> Result<()>| {
        let trials = ways
            .iter()
            .map(|&way| trial(format!("{what}: {way}"), tracefork, move |t| test(t, way)));
        trials.collect::<Vec<Trial>>()
    };
    let mut trials = each("a signal is waited for", &AWAITED, waits_for_signal);
    trials.extend(each("no signal helps", &DEADLOCKED, is_deadlocked));
    trials.extend(each("nothing comes of it", &IN_VAIN, polls_in_vain));
    trials.extend(each("it has an end", &ENDING, ends));
    trials.push(trial("that may be meant so".into(), tracefork, goes_on));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn check(
    tracefork: &Tracefork,
    guest: &str,
    way: &str,
    options: &[&str],
    scratch: &Scratch,
) -> Result<Checked> {
    let program = guests::one(&format!("other/{guest}.c"))?.build()?;
    let invocation = Invocation {
        program,
        args: vec![way.to_owned()],
        stdin: Vec::new(),
    };
    tracefork.check(&invocation, options, scratch)
}

fn ends_of(checked: &Checked) -> BTreeSet<String> {
    let outcomes = checked.result["outcomes"].as_array().into_iter().flatten();
    let how = |outcome: &serde_json::Value| {
        let kinds = ["idle", "deadlock", "livelock"];
        let kind = kinds.into_iter().find(|&kind| outcome[kind] == true);
        match (kind, outcome["signal"].as_i64()) {
            (Some(kind), _) => kind.to_owned(),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => format!("exit {}", outcome["exit"]),
        }
    };
    outcomes.map(how).collect()
}

/// Two signals only where states are remembered: each may come at any point.
fn with_budgets(way: &str) -> impl Iterator<Item = (&'static [&'static str], &'static str)> {
    let all = modes_of(way).iter().flat_map(|&mode| [(mode, "1"), (mode, "2")]);
    let is_long = LONG.contains(&way);
    all.filter(move |(mode, budget)| *budget == "1" || !(is_long || mode.contains(&"--no-hash")))
}

fn options_of(way: &str, budget: &'static str) -> Vec<&'static str> {
    let signal = match way {
        "sigwaitinfo-ignored" => "signal=WINCH",
        _ => "signal=TERM",
    };
    vec!["--faults", signal, "--fault-budget", budget, "--keep-going"]
}

fn waits_for_signal(tracefork: &Tracefork, way: &'static str) -> Result<()> {
    for (mode, budget) in with_budgets(way) {
        // Where every look is a step, two signals at any of them are more than a search without reduction likes.
        let is_long = matches!(way, "yields" | "looks" | "sleeps");
        if is_long && (budget == "2" || !mode.is_empty()) {
            continue;
        }
        let scratch = Scratch::new()?;
        let options = [&options_of(way, budget)[..], mode].concat();
        let checked = check(tracefork, "awaits_signal", way, &options, &scratch)?;
        ensure!(
            checked.finished.end == End::Exit(0),
            "{options:?}: {}",
            checked.result
        );
        let found = ends_of(&checked);
        ensure!(found.contains("idle"), "{options:?}: {found:?}");
        let others = ["idle", "exit 0", "signal 15"];
        ensure!(
            found.len() > 1 && found.iter().all(|end| others.contains(&end.as_str())),
            "{options:?}: {found:?}"
        );
    }
    Ok(())
}

fn is_deadlocked(tracefork: &Tracefork, way: &'static str) -> Result<()> {
    for (mode, budget) in with_budgets(way) {
        let scratch = Scratch::new()?;
        let options = [&options_of(way, budget)[..], mode].concat();
        let checked = check(tracefork, "awaits_signal", way, &options, &scratch)?;
        let expected = BTreeSet::from(["deadlock".to_owned()]);
        ensure!(
            checked.violations() == expected,
            "{options:?}: {}",
            checked.result
        );
        replays(tracefork, &checked, &scratch)?;
    }
    Ok(())
}

fn polls_in_vain(tracefork: &Tracefork, way: &'static str) -> Result<()> {
    for &mode in modes_of(way) {
        let scratch = Scratch::new()?;
        let options = [&["--keep-going"][..], mode].concat();
        let checked = check(tracefork, "polls", way, &options, &scratch)?;
        let expected = BTreeSet::from(["livelock".to_owned()]);
        ensure!(checked.violations() == expected, "{mode:?}: {}", checked.result);
        replays(tracefork, &checked, &scratch)?;
    }
    Ok(())
}

fn ends(tracefork: &Tracefork, way: &'static str) -> Result<()> {
    for mode in MODES {
        let scratch = Scratch::new()?;
        let checked = check(tracefork, "polls", way, mode, &scratch)?;
        ensure!(
            checked.finished.end == End::Exit(0),
            "{mode:?}: {}",
            checked.result
        );
        let outputs = BTreeSet::from(["bye\n".to_owned()]);
        ensure!(checked.outputs() == outputs, "{mode:?}: {}", checked.result);
    }
    Ok(())
}

/// Several threads that take locks may be meant to do that for ever: no violation, but it is said.
fn goes_on(tracefork: &Tracefork) -> Result<()> {
    let scratch = Scratch::new()?;
    let checked = check(tracefork, "polls", "philosophers", &[], &scratch)?;
    ensure!(checked.finished.end == End::Exit(0), "{}", checked.result);
    ensure!(
        ends_of(&checked) == BTreeSet::from(["idle".to_owned()]),
        "{}",
        checked.result
    );
    let said = checked.result["warnings"].to_string();
    ensure!(said.contains("go on for ever"), "{said}");
    Ok(())
}

/// The counterexample shows the same again.
fn replays(tracefork: &Tracefork, checked: &Checked, scratch: &Scratch) -> Result<()> {
    let trace = checked.result["violations"][0]["trace"]
        .as_str()
        .unwrap_or_default();
    let mut command = tracefork.command(&scratch.work());
    command.arg("replay").arg(trace);
    let finished = process::run(command, TIME_LIMIT)?;
    ensure!(
        finished.end == End::Exit(1),
        "{trace}: {:?} {}",
        finished.end,
        String::from_utf8_lossy(&finished.stderr)
    );
    Ok(())
}
