//! Random conversations between a program and real peers, either of which may be the one under test: whatever is done about the peers, the
//! same outcomes and violations are found.
//!
//! Without a cache peers are started and told everything again after each backtrack: nothing is assumed, so that is what is right. A linear
//! cache must agree or refuse, and it must refuse exactly where what a peer was told depends on the schedule.
//!
//! A few by default; `TRACEFORK_ALL=1` runs more of them, `TRACEFORK_RANDOM_PROTOCOLS=500` and `TRACEFORK_SEED=7` others.

use std::collections::BTreeSet;
use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Arguments;
use serde_json::Value;
use tracefork_tests::command_under_test;
use tracefork_tests::directives::End;
use tracefork_tests::networked::{Report, Session, peer_program, trial};
use tracefork_tests::random_protocol::{Conversation, Role};
use tracefork_tests::supervised::Tracefork;

/// Where to begin, unless the environment says so: not with those that take longest.
const FIRST: u64 = 2;
/// Conversations of each role, unless the environment says how many.
const FEW: u64 = 5;
const MANY: u64 = 60;
/// Visible operations per thread, about; fewer if that is too much to explore.
const SIZE: u32 = 8;
/// A conversation with more states is made smaller.
const MOST_STATES: &str = "600";
/// Other ways to explore it, that need more, are cut here: what they have found by then must be a part of it.
const MOST_STATES_OTHERWISE: &str = "5000";

/// Further ways to explore with the default cache; each conversation is explored in one of them.
const WAYS: [&[&str]; 6] = [
    &["--reduce", "none"],
    &["--reduce", "dpor", "--no-hash"],
    &["--checkpoint", "fork", "--reduce", "sleep"],
    &["--search", "bfs"],
    &["--jobs", "2"],
    &["--share-trees"],
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number in the environment"))
    };
    let usual = if std::env::var_os("TRACEFORK_ALL").is_some() {
        MANY
    } else {
        FEW
    };
    let first = test_seeds::seed_or(FIRST);
    let seeds = first..first + number("TRACEFORK_RANDOM_PROTOCOLS", usual);
    let trials = seeds.flat_map(|seed| [(Role::Client, seed), (Role::Server, seed)]);
    let trials = trials.map(|(role, seed)| {
        let name = format!("{role:?}_{seed}").to_lowercase();
        trial(name, &tracefork, move |t| explore(t, seed, role))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// What was found, without what may differ.
#[derive(Debug, PartialEq, Eq)]
struct Findings {
    outcomes: BTreeSet<String>,
    violations: BTreeSet<String>,
}

/// What one way to explore came to.
struct Explored {
    report: Report,
    findings: Findings,
    /// A connection was told different things in different schedules.
    branches: bool,
    was_cut: bool,
}

fn explore(tracefork: &Tracefork, seed: u64, role: Role) -> Result<()> {
    for size in (1..=SIZE).rev() {
        let conversation = Conversation::new(seed, role, size);
        let usual = check(tracefork, &conversation, &["--max-states", MOST_STATES])?;
        if !usual.was_cut {
            let way = WAYS[seed as usize % WAYS.len()];
            return compare(tracefork, &conversation, &usual, way)
                .with_context(|| format!("{conversation:?}"));
        }
    }
    bail!("there is no small conversation with seed {seed}")
}

fn check(tracefork: &Tracefork, conversation: &Conversation, options: &[&str]) -> Result<Explored> {
    let session = Session::new()?;
    let (port, trees) = (session.port, session.scratch.beside("trees"));
    let mut session = session.with(&["--keep-going", "--tree", &trees.display().to_string()]);
    let peer = peer_program("scripted_peer")?;
    let option = match conversation.role {
        Role::Client => "--server",
        Role::Server => "--client",
    };
    for arguments in conversation.peers() {
        session = session.with(&[option, &format!("{} {port} {arguments}", peer.display())]);
    }
    if conversation.role == Role::Server {
        session = session.with(&["--expect-client-exit", "0"]);
    }
    let session = session.with(options);
    let arguments = conversation.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let report = session.check_guest(tracefork, "scripted", &arguments)?;
    let violations = report.json["violations"].as_array().cloned().unwrap_or_default();
    let violation = |v: &Value| format!("{}: {}", v["kind"], v["message"]).replace(&port.to_string(), "PORT");
    let findings = Findings {
        outcomes: report.outcomes(port),
        violations: violations.iter().map(violation).collect(),
    };
    let trees = fs::read_to_string(trees).unwrap_or_default();
    let has_one_way = |line: &str| line.ends_with(", leaves 1");
    let branches = trees
        .lines()
        .any(|line| line.contains(", leaves ") && !has_one_way(line));
    let was_cut = report.json["notes"].to_string().contains("limit on states");
    Ok(Explored {
        report,
        findings,
        branches,
        was_cut,
    })
}

fn compare(tracefork: &Tracefork, conversation: &Conversation, usual: &Explored, way: &[&str]) -> Result<()> {
    ensure!(
        matches!(usual.report.finished.end, End::Exit(0 | 1)),
        "{}",
        usual.report.said()
    );
    let explore = |options: &[&str]| {
        let options = [options, &["--max-states", MOST_STATES_OTHERWISE]].concat();
        check(tracefork, conversation, &options)
    };
    for options in [&["--cache", "off"][..], way] {
        agree(&explore(options)?, usual).with_context(|| options.join(" "))?;
    }
    let linear = explore(&["--cache", "linear"])?;
    if !usual.branches {
        return agree(&linear, usual).context("the linear cache");
    }
    linear.report.ensure_code(5)?;
    let said = linear.report.said();
    ensure!(
        said.contains("linear cache cannot serve"),
        "another error:\n{said}"
    );
    Ok(())
}

fn agree(other: &Explored, usual: &Explored) -> Result<()> {
    let context = || {
        format!(
            "found\n{:#?}\nand by default it is\n{:#?}",
            other.findings, usual.findings
        )
    };
    if other.was_cut {
        let (part, whole) = (&other.findings, &usual.findings);
        let is_part =
            part.outcomes.is_subset(&whole.outcomes) && part.violations.is_subset(&whole.violations);
        ensure!(is_part, "{}", context());
        return Ok(());
    }
    let ends = (&other.report.finished.end, &usual.report.finished.end);
    ensure!(ends.0 == ends.1, "{ends:?}\n{}", other.report.said());
    ensure!(other.findings == usual.findings, "{}", context());
    Ok(())
}
