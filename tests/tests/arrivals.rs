//! The network decides too: small programs whose outcomes can be counted by hand, under every way to search.
//!
//! Each scenario names all outcomes that the program can have natively, whatever the network does; they must come out exactly, with every cache, backend and
//! reduction. Those that are violations are printed as the golden files in `tests/guests/arrivals/golden` show (`TRACEFORK_BLESS=1` writes them anew). By default
//! each scenario is tried under some combinations that have every pair of options; `TRACEFORK_ALL=1` tries all.

use std::collections::BTreeSet;
use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use serde_json::Value;
use tracefork_tests::command_under_test;
use tracefork_tests::guests;
use tracefork_tests::networked::{Peer, Report, Session, peer_program, trial};
use tracefork_tests::supervised::Tracefork;

/// Who talks to the program.
#[derive(Clone, Copy)]
enum Peers {
    /// Clients by name, each with what it says, and what it says when it has heard something.
    Clients(&'static [(&'static str, &'static [&'static str])]),
    /// Interchangeable clients that say this.
    Twins(usize, &'static str),
    /// A server that puts this before each line.
    Server(&'static str),
    /// Clients by name that send these datagrams.
    Senders(&'static [(&'static str, &'static str)]),
    /// A server that answers datagrams.
    Datagrams,
}

struct Scenario {
    name: &'static str,
    guest: &'static str,
    /// After the port.
    args: &'static [&'static str],
    peers: Peers,
    /// What makes the bug a violation.
    property: &'static [&'static str],
    /// What is explored besides.
    faults: &'static [&'static str],
    /// Exit status (or `idle`) and output, for each outcome.
    outcomes: &'static [&'static str],
    is_buggy: bool,
    /// So many of the combinations are tried, of those that are tried in every test run.
    combinations: usize,
}

const ANN_AND_BOB: Peers = Peers::Clients(&[("ann", &["ann\\n"]), ("bob", &["bob\\n"])]);
const ANN_AND_BOB_SAY_BYE: Peers =
    Peers::Clients(&[("ann", &["ann\\n", "bye\\n"]), ("bob", &["bob\\n", "bye\\n"])]);
const FIRST_OR_AFTER: &[&str] = &["0 ann+bob+|", "0 ann+bob-|", "0 bob+ann+|", "0 bob+ann-|"];
const KICK_AND_HELLO: Peers = Peers::Clients(&[("ann", &["kick\\n"]), ("bob", &["hello\\n"])]);
const ONE_THEN_TWO: Peers = Peers::Clients(&[("ann", &["one\\n", "two\\n"])]);

const fn scenario(
    name: &'static str,
    guest: &'static str,
    args: &'static [&'static str],
    peers: Peers,
    outcomes: &'static [&'static str],
) -> Scenario {
    Scenario {
        name,
        guest,
        args,
        peers,
        property: &[],
        faults: &[],
        outcomes,
        is_buggy: false,
        combinations: COMBINATIONS.len(),
    }
}

const fn buggy(property: &'static [&'static str], scenario: Scenario) -> Scenario {
    Scenario {
        property,
        is_buggy: true,
        ..scenario
    }
}

const fn under(faults: &'static [&'static str], scenario: Scenario) -> Scenario {
    Scenario { faults, ..scenario }
}

/// One with many states.
const fn large(scenario: Scenario) -> Scenario {
    Scenario {
        combinations: 3,
        ..scenario
    }
}

const SCENARIOS: &[Scenario] = &[
    scenario(
        "epoll_two_clients",
        "numbers",
        &["2"],
        ANN_AND_BOB,
        &["0 1 ann|2 bob|", "0 1 bob|2 ann|"],
    ),
    large(scenario(
        "epoll_three_clients",
        "numbers",
        &["3"],
        Peers::Clients(&[("ann", &["ann\\n"]), ("bob", &["bob\\n"]), ("cyd", &["cyd\\n"])]),
        &[
            "0 1 ann|2 bob|3 cyd|",
            "0 1 ann|2 cyd|3 bob|",
            "0 1 bob|2 ann|3 cyd|",
            "0 1 bob|2 cyd|3 ann|",
            "0 1 cyd|2 ann|3 bob|",
            "0 1 cyd|2 bob|3 ann|",
        ],
    )),
    scenario(
        "epoll_twins",
        "numbers",
        &["3"],
        Peers::Twins(3, "ann\\n"),
        &["0 1 ann|2 ann|3 ann|"],
    ),
    scenario(
        "poll_two_connections",
        "polls",
        &["2"],
        Peers::Server(""),
        &["0 a|b|", "0 b|a|"],
    ),
    scenario(
        "select_two_connections",
        "polls",
        &["2", "select"],
        Peers::Server(""),
        &["0 a|b|", "0 b|a|"],
    ),
    large(scenario(
        "poll_three_connections",
        "polls",
        &["3"],
        Peers::Server(""),
        &[
            "0 a|b|c|", "0 a|c|b|", "0 b|a|c|", "0 b|c|a|", "0 c|a|b|", "0 c|b|a|",
        ],
    )),
    buggy(
        &["--require", "two"],
        scenario(
            "edges_buggy",
            "edges",
            &["buggy"],
            ONE_THEN_TWO,
            &["idle one|", "0 one|two|"],
        ),
    ),
    scenario("edges_fixed", "edges", &["fixed"], ONE_THEN_TWO, &["0 one|two|"]),
    buggy(
        &["--expect-exit", "0"],
        scenario(
            "stale_buggy",
            "stale",
            &["buggy"],
            KICK_AND_HELLO,
            &["0 hello|kick|", "0 kick|", "99 "],
        ),
    ),
    scenario(
        "stale_fixed",
        "stale",
        &["fixed"],
        KICK_AND_HELLO,
        &["0 hello|kick|", "0 kick|"],
    ),
    buggy(
        &["--forbid", "lost"],
        scenario(
            "early_buggy",
            "early",
            &["buggy"],
            Peers::Server(""),
            &["0 lost|", "0 said|"],
        ),
    ),
    scenario(
        "early_fixed",
        "early",
        &["fixed"],
        Peers::Server(""),
        &["0 said|"],
    ),
    scenario(
        "early_again",
        "early",
        &["again"],
        Peers::Server(""),
        &["0 said|"],
    ),
    buggy(
        &["--require", "b"],
        scenario(
            "pieces_buggy",
            "pieces",
            &["buggy"],
            Peers::Server("xy"),
            &["0 xya|", "0 xya|xyb|"],
        ),
    ),
    scenario(
        "pieces_fixed",
        "pieces",
        &["fixed"],
        Peers::Server("xy"),
        &["0 xya|xyb|"],
    ),
    buggy(
        &["--require", "done"],
        large(scenario(
            "wakeup_buggy",
            "wakeup",
            &["buggy"],
            ANN_AND_BOB,
            &["idle ", "0 done|"],
        )),
    ),
    large(scenario(
        "wakeup_fixed",
        "wakeup",
        &["fixed"],
        ANN_AND_BOB,
        &["0 done|"],
    )),
    scenario(
        "edge_triggered_one_shot",
        "oneshot",
        &[],
        Peers::Server("xy"),
        &["0 [xya|][xyb|]|", "0 [xya|xyb|]|"],
    ),
    scenario(
        "peeks",
        "peeks",
        &["peek"],
        Peers::Server("xy"),
        &["0 -1|", "0 4|", "0 8|"],
    ),
    scenario(
        "counts",
        "peeks",
        &["count"],
        Peers::Server("xy"),
        &["0 4|", "0 8|"],
    ),
    scenario(
        "non_blocking_accept",
        "acceptor",
        &["2"],
        ANN_AND_BOB,
        &["0 1 1 |", "0 2 |"],
    ),
    large(scenario(
        "exclusive",
        "exclusive",
        &["2"],
        ANN_AND_BOB,
        &["0 0 2|", "0 1 1|", "0 2 0|"],
    )),
    scenario(
        "batches_of_two",
        "batches",
        &["2"],
        Peers::Senders(&[("ann", "a"), ("bob", "b")]),
        &["0 a|b|", "0 ab|", "0 b|a|", "0 ba|"],
    ),
    scenario(
        "batches_of_three",
        "batches",
        &["3"],
        Peers::Senders(&[("ann", "a c"), ("bob", "b")]),
        &[
            "0 a|b|c|", "0 a|bc|", "0 ab|c|", "0 abc|", "0 a|c|b|", "0 a|cb|", "0 ac|b|", "0 acb|",
            "0 b|a|c|", "0 b|ac|", "0 ba|c|", "0 bac|",
        ],
    ),
    under(
        &["--faults", "short-read"],
        scenario(
            "short_reads",
            "reads",
            &[],
            Peers::Server("xy"),
            &["0 1|", "0 4|"],
        ),
    ),
    // Before the handler is there, the signal kills; then it comes before a call, or breaks into one that waits; and after the client has gone, into one that waits for nobody.
    large(under(
        &["--faults", "signal=TERM"],
        scenario(
            "signals",
            "term",
            &[],
            Peers::Clients(&[("ann", &["a"])]),
            &[
                "another end ",
                "idle a",
                "idle !a",
                "0 !bye",
                "idle !",
                "idle a!",
                "0 a!bye",
            ],
        ),
    )),
    // The second client comes before the first is done, or after, when time has passed.
    large(scenario(
        "after_a_penalty",
        "penalty",
        &["1"],
        ANN_AND_BOB_SAY_BYE,
        FIRST_OR_AFTER,
    )),
    large(under(
        &["--late", "2"],
        scenario(
            "after_two_waits",
            "penalty",
            &["2"],
            ANN_AND_BOB_SAY_BYE,
            FIRST_OR_AFTER,
        ),
    )),
    // As often as that it is not late.
    large(scenario(
        "after_more_waits_than_asked_for",
        "penalty",
        &["2"],
        ANN_AND_BOB_SAY_BYE,
        &["0 ann+bob-|", "0 bob+ann-|"],
    )),
    scenario(
        "after_somebody_has_left",
        "doorman",
        &[],
        ANN_AND_BOB,
        FIRST_OR_AFTER,
    ),
    scenario(
        "after_a_lease",
        "lease",
        &[],
        Peers::Senders(&[("ann", "ann"), ("bob", "bob")]),
        FIRST_OR_AFTER,
    ),
    buggy(
        &["--require", "paid"],
        under(
            &["--faults", "loss"],
            scenario(
                "request_buggy",
                "../net/udp_payment",
                &["once"],
                Peers::Datagrams,
                &["deadlock ", "0 paid"],
            ),
        ),
    ),
    under(
        &["--faults", "loss"],
        scenario(
            "request_fixed",
            "../net/udp_payment",
            &["retry"],
            Peers::Datagrams,
            &["0 paid"],
        ),
    ),
    buggy(
        &["--forbid", "20"],
        under(
            &["--faults", "duplicate"],
            scenario(
                "payment_buggy",
                "../net/udp_store",
                &["buggy"],
                Peers::Senders(&[("ann", "10:1")]),
                &["0 10|", "0 20|"],
            ),
        ),
    ),
    under(
        &["--faults", "duplicate"],
        scenario(
            "payment_fixed",
            "../net/udp_store",
            &["fixed"],
            Peers::Senders(&[("ann", "10:1")]),
            &["0 10|"],
        ),
    ),
];

/// Cache, checkpoint, reduction, with or without a visited set, workers: every pair of values occurs.
const COMBINATIONS: &[(&str, &str, &str, bool, &str)] = &[
    ("branching", "rewind", "auto", true, "1"),
    ("branching", "fork", "dpor", false, "1"),
    ("off", "rewind", "sleep", true, "2"),
    ("off", "none", "auto", false, "1"),
    ("branching", "none", "sleep", false, "2"),
    ("off", "fork", "auto", true, "2"),
    ("branching", "rewind", "none", true, "2"),
];

fn all_combinations() -> Vec<(&'static str, &'static str, &'static str, bool, &'static str)> {
    let mut all = Vec::new();
    for cache in ["branching", "off"] {
        for checkpoint in ["rewind", "fork", "none"] {
            for reduce in ["none", "sleep", "dpor", "auto"] {
                for hash in [true, false] {
                    for jobs in ["1", "2"] {
                        all.push((cache, checkpoint, reduce, hash, jobs));
                    }
                }
            }
        }
    }
    all
}

impl Scenario {
    /// A deadlock is a violation without being asked for.
    fn code(&self) -> i32 {
        i32::from(
            self.outcomes
                .iter()
                .any(|outcome| outcome.starts_with("deadlock")),
        )
    }

    fn session(&self) -> Result<Session> {
        let session = Session::new()?;
        let sayer = peer_program("sayer")?;
        let sayer = format!("{} {}", sayer.display(), session.port);
        let session = session.with(self.faults);
        Ok(match self.peers {
            Peers::Datagrams => session.peer(Peer::Datagrams(0))?,
            Peers::Senders(senders) => {
                let sender = peer_program("udp_payer")?;
                let sender = format!("{} {}", sender.display(), session.port);
                senders.iter().fold(session, |session, (name, texts)| {
                    session.with(&["--client", &format!("{name}={sender} {texts}")])
                })
            }
            Peers::Server(text) => session.server(&format!("{sayer} server '{text}'")),
            Peers::Twins(count, text) => {
                session.with(&["--client", &format!("{count}*{sayer} client {}", quoted(text))])
            }
            Peers::Clients(clients) => clients.iter().fold(session, |session, (name, says)| {
                let says: Vec<String> = says.iter().map(|text| quoted(text)).collect();
                session.with(&["--client", &format!("{name}={sayer} client {}", says.join(" "))])
            }),
        })
    }

    fn check(&self, tracefork: &Tracefork, session: &Session) -> Result<Report> {
        let guest = match self.guest.strip_prefix("../") {
            Some(elsewhere) => format!("{elsewhere}.c"),
            None => format!("arrivals/{}.c", self.guest),
        };
        let program = guests::one(&guest)?.build()?;
        let port = session.port.to_string();
        let args: Vec<&str> = [port.as_str()]
            .into_iter()
            .chain(self.args.iter().copied())
            .collect();
        session.check(tracefork, &program.display().to_string(), &args)
    }
}

/// `\n` is an end of line.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace("\\n", "\n"))
}

fn outcomes(report: &Report) -> BTreeSet<String> {
    let all = report.json["outcomes"].as_array().cloned().unwrap_or_default();
    let plain = all.iter().map(|outcome| {
        let end = match outcome["exit"].as_i64() {
            Some(status) => status.to_string(),
            None if outcome["idle"] == true => "idle".to_owned(),
            None if outcome["deadlock"] == true => "deadlock".to_owned(),
            None => "another end".to_owned(),
        };
        let said = outcome["stdout"].as_str().unwrap_or_default().replace('\n', "|");
        format!("{end} {said}")
    });
    plain.collect()
}

/// Exactly these outcomes, under every way to search.
fn exactly(tracefork: &Tracefork, scenario: &Scenario) -> Result<()> {
    let expected: BTreeSet<String> = scenario.outcomes.iter().map(|text| (*text).to_owned()).collect();
    let combinations = match std::env::var_os("TRACEFORK_ALL") {
        Some(_) => all_combinations(),
        None => COMBINATIONS[..scenario.combinations].to_vec(),
    };
    for (cache, checkpoint, reduce, hash, jobs) in combinations {
        let way = [
            "--cache",
            cache,
            "--checkpoint",
            checkpoint,
            "--reduce",
            reduce,
            "--jobs",
            jobs,
        ];
        let no_hash: &[&str] = if hash { &[] } else { &["--no-hash"] };
        let session = scenario
            .session()?
            .with(&way)
            .with(no_hash)
            .with(&["--keep-going"]);
        let report = scenario.check(tracefork, &session)?;
        report.ensure_code(scenario.code())?;
        let found = outcomes(&report);
        ensure!(
            found == expected,
            "{way:?} {no_hash:?}: {found:#?}, expected {expected:#?}"
        );
    }
    Ok(())
}

/// As it was before: all arrives at once, so there is one outcome, and it is one of those.
fn ordered(tracefork: &Tracefork, scenario: &Scenario) -> Result<()> {
    let session = scenario
        .session()?
        .with(&["--arrivals", "ordered", "--reduce", "none", "--keep-going"]);
    let report = scenario.check(tracefork, &session)?;
    report.ensure_code(scenario.code())?;
    let found = outcomes(&report);
    let is_among = found
        .iter()
        .all(|outcome| scenario.outcomes.contains(&outcome.as_str()));
    ensure!(
        is_among && found.len() <= scenario.outcomes.len(),
        "{found:#?} in order"
    );
    Ok(())
}

/// Where no order of arrival can be told from another, nothing is explored twice.
fn costs_nothing(tracefork: &Tracefork, guest: &str, args: &[&str], peer: Peer) -> Result<()> {
    let figures = |arrivals: &str| -> Result<(Value, Value)> {
        let session = Session::new()?.peer(peer)?;
        let session = session.with(&["--arrivals", arrivals, "--reduce", "sleep"]);
        let report = session.check_guest(tracefork, guest, args)?;
        report.ensure_code(0)?;
        Ok((report.json["states"].clone(), report.json["transitions"].clone()))
    };
    let (any, ordered) = (figures("any")?, figures("ordered")?);
    ensure!(any == ordered, "in any order {any:?}, in one {ordered:?}");
    Ok(())
}

const BLOCKING: &[(&str, &[&str], Peer)] = &[
    ("alphabet_client", &["2", "1"], Peer::Lines("alphabet")),
    ("daytime_client", &["2"], Peer::Lines("daytime")),
    ("http_server", &["2"], Peer::Curls(2, "")),
];

/// The violation is found, printed as it should be, and can be replayed without peers.
fn shown(tracefork: &Tracefork, scenario: &Scenario) -> Result<()> {
    let session = scenario.session()?.with(scenario.property);
    let report = scenario.check(tracefork, &session)?;
    report.ensure_code(1)?;
    let trace = report.json["violations"][0]["trace"]
        .as_str()
        .context("a trace")?;
    let run = |verb: &str| -> Result<(Option<i32>, String)> {
        let mut command = tracefork.command(&session.scratch.work());
        let output = command.args([verb, trace]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok((output.status.code(), text))
    };
    let (code, _) = run("replay")?;
    ensure!(code == Some(1), "a replay ends with {code:?}");
    let (_, printed) = run("show")?;
    compare_with_golden(scenario, &golden_part(&printed, session.port))
}

/// What does not depend on the machine: what was needed, and what peers said and when that arrived.
fn golden_part(printed: &str, port: u16) -> String {
    let is_kept = |line: &&str| {
        let line = line.trim_start();
        line.starts_with(['·', '→', '←']) || line.starts_with("needs:") || line.ends_with("preemptions")
    };
    let lines = printed.lines().filter(is_kept).map(str::trim);
    let lines: Vec<String> = lines
        .map(|line| line.replace(&port.to_string(), "PORT"))
        .collect();
    lines.join("\n") + "\n"
}

fn compare_with_golden(scenario: &Scenario, actual: &str) -> Result<()> {
    let file = guests::directory()
        .join("arrivals/golden")
        .join(format!("{}.txt", scenario.name));
    if std::env::var_os("TRACEFORK_BLESS").is_some() {
        fs::create_dir_all(file.parent().context("a directory")?)?;
        fs::write(&file, actual)?;
        return Ok(());
    }
    let expected = fs::read_to_string(&file)
        .with_context(|| format!("{} (TRACEFORK_BLESS=1 writes it)", file.display()))?;
    ensure!(
        actual == expected,
        "{} does not show what is printed now:\n{actual}\n--- instead of ---\n{expected}",
        file.display()
    );
    Ok(())
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let mut trials = Vec::new();
    for scenario in SCENARIOS {
        let name = scenario.name;
        trials.push(trial(format!("{name}::outcomes"), &tracefork, move |tracefork| {
            exactly(tracefork, scenario)
        }));
        trials.push(trial(format!("{name}::ordered"), &tracefork, move |tracefork| {
            ordered(tracefork, scenario)
        }));
        if scenario.is_buggy {
            trials.push(trial(format!("{name}::shown"), &tracefork, move |tracefork| {
                shown(tracefork, scenario)
            }));
        }
    }
    for &(guest, args, peer) in BLOCKING {
        trials.push(trial(format!("cost::{guest}"), &tracefork, move |tracefork| {
            costs_nothing(tracefork, guest, args, peer)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
