//! The papers' programs against real peers: their cache figures, exactly, and the three cache modes side by side.
//!
//! The sizes of every test run are n=2 and n=3; `TRACEFORK_ALL=1` adds n=4. All of those take seconds but the full chat server, which has 331 776 outcomes and
//! takes minutes.

use std::collections::BTreeSet;
use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use serde_json::Value;
use tracefork_tests::networked::{Peer, Report, Session, peer_program, trial};
use tracefork_tests::supervised::Tracefork;
use tracefork_tests::{command_under_test, packages};

/// A program of the papers with what its cache must come to.
#[derive(Clone, Copy)]
struct Program {
    guest: &'static str,
    /// After the port.
    args: &'static [&'static str],
    peer: Peer,
    starts: u64,
    misses: u64,
    /// What every connection is told does not depend on the schedule.
    linear: bool,
}

const fn program(
    guest: &'static str,
    args: &'static [&'static str],
    peer: Peer,
    starts: u64,
    misses: u64,
) -> Program {
    Program {
        guest,
        args,
        peer,
        starts,
        misses,
        linear: true,
    }
}

const fn branching(program: Program) -> Program {
    Program {
        linear: false,
        ..program
    }
}

const PROGRAMS: &[Program] = &[
    program("daytime_client", &["2"], Peer::Lines("daytime"), 2, 0),
    program("alphabet_client", &["2", "1"], Peer::Lines("alphabet"), 2, 4),
    program("alphabet_client", &["2", "2"], Peer::Lines("alphabet"), 2, 8),
    program(
        "alphabet_server",
        &["2", "1"],
        Peer::Clients(2, "alphabet 1"),
        2,
        2,
    ),
    program(
        "alphabet_server",
        &["2", "2"],
        Peer::Clients(2, "alphabet 2"),
        2,
        4,
    ),
    program("http_client", &["2"], Peer::Python, 2, 2),
    program("http_server", &["2"], Peer::Curls(2, ""), 2, 2),
    program("http_server", &["2", "clock"], Peer::Curls(2, ""), 2, 2),
    program("webdav_server", &["2"], Peer::Curls(2, "-X OPTIONS"), 2, 2),
    branching(program(
        "http_server",
        &["2", "counter"],
        Peer::Curls(2, ""),
        4,
        4,
    )),
    program("jget", &["2"], Peer::Lines("file"), 3, 3),
    program(
        "chat_server",
        &["2", "abstract"],
        Peer::Clients(2, "chat {i} 2"),
        2,
        4,
    ),
    branching(program(
        "chat_server",
        &["2", "full"],
        Peer::Clients(2, "chat {i} 2"),
        4,
        8,
    )),
    // Not the papers': a client whose requests depend on the schedule, and datagrams.
    branching(program("racing_client", &[], Peer::Lines("alphabet"), 2, 5)),
    program("udp_client", &["2", "1"], Peer::Datagrams(0), 2, 2),
    program("udp_server", &["2"], Peer::Datagrams(2), 2, 2),
    branching(program("udp_server", &["2", "counter"], Peer::Datagrams(2), 4, 4)),
];

/// One size up: figures only, as the other modes take long.
const LARGER: &[Program] = &[
    program("daytime_client", &["3"], Peer::Lines("daytime"), 3, 0),
    program("alphabet_client", &["3", "1"], Peer::Lines("alphabet"), 3, 6),
    program(
        "alphabet_server",
        &["3", "1"],
        Peer::Clients(3, "alphabet 1"),
        3,
        3,
    ),
    program(
        "chat_server",
        &["3", "abstract"],
        Peer::Clients(3, "chat {i} 3"),
        3,
        9,
    ),
    branching(program(
        "chat_server",
        &["3", "full"],
        Peer::Clients(3, "chat {i} 3"),
        18,
        45,
    )),
];

/// The largest of the papers' sizes that have figures.
const LARGEST: &[Program] = &[
    program("daytime_client", &["4"], Peer::Lines("daytime"), 4, 0),
    program("alphabet_client", &["4", "1"], Peer::Lines("alphabet"), 4, 8),
    program(
        "alphabet_server",
        &["4", "1"],
        Peer::Clients(4, "alphabet 1"),
        4,
        4,
    ),
    program(
        "chat_server",
        &["4", "abstract"],
        Peer::Clients(4, "chat {i} 4"),
        4,
        16,
    ),
    branching(program(
        "chat_server",
        &["4", "full"],
        Peer::Clients(4, "chat {i} 4"),
        96,
        256,
    )),
];

impl Program {
    fn name(&self) -> String {
        format!("{}_{}", self.guest, self.args.join("x"))
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let mut trials = Vec::new();
    let largest = match std::env::var_os("TRACEFORK_ALL") {
        Some(_) => LARGEST,
        None => &[],
    };
    for program in PROGRAMS.iter().chain(LARGER).chain(largest) {
        trials.push(trial(format!("figures::{}", program.name()), &tracefork, |t| {
            figures(t, program)
        }));
    }
    for program in PROGRAMS {
        trials.push(trial(format!("linear::{}", program.name()), &tracefork, |t| {
            linear(t, program)
        }));
        trials.push(trial(format!("off::{}", program.name()), &tracefork, |t| {
            off(t, program)
        }));
    }
    trials.push(trial(
        "a_peer_hears_everything_once".to_owned(),
        &tracefork,
        a_peer_hears_everything_once,
    ));
    trials.push(trial(
        "a_write_that_nobody_answers_is_in_no_readers_way".to_owned(),
        &tracefork,
        a_write_that_nobody_answers_is_in_no_readers_way,
    ));
    trials.push(trial(
        "what_a_probe_hears_is_no_answer".to_owned(),
        &tracefork,
        what_a_probe_hears_is_no_answer,
    ));
    trials.push(trial(
        "nobody_is_asked_twice_for_the_time".to_owned(),
        &tracefork,
        nobody_is_asked_twice_for_the_time,
    ));
    for program in PROGRAMS {
        trials.push(trial(format!("reduced::{}", program.name()), &tracefork, |t| {
            reduced(t, program)
        }));
    }
    trials.push(trial(
        "workers_share_what_they_learn".to_owned(),
        &tracefork,
        workers_share_what_they_learn,
    ));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn run(tracefork: &Tracefork, program: &Program, options: &[&str]) -> Result<(Report, BTreeSet<String>)> {
    let session = Session::new()?.peer(program.peer)?.with(options);
    let result = session.check_guest(tracefork, program.guest, program.args)?;
    let outcomes = result.outcomes(session.port);
    Ok((result, outcomes))
}

/// Connections for a client, client processes for a server: the paper's starts.
fn starts(program: &Program, result: &Value) -> Option<u64> {
    match program.peer {
        Peer::Lines(_) | Peer::Python | Peer::Datagrams(0) => {
            result["cache"]["physical_connections"].as_u64()
        }
        Peer::Clients(..) | Peer::Curls(..) | Peer::Datagrams(_) => result["cache"]["peer_starts"].as_u64(),
    }
}

fn figures(tracefork: &Tracefork, program: &Program) -> Result<()> {
    let (result, _) = run(tracefork, program, &[])?;
    result.ensure_code(0)?;
    let figures = (
        starts(program, &result.json),
        result.json["cache"]["misses"].as_u64(),
    );
    ensure!(
        figures == (Some(program.starts), Some(program.misses)),
        "starts and misses are {figures:?}, not {:?}:\n{}",
        (program.starts, program.misses),
        result.said()
    );
    Ok(())
}

fn linear(tracefork: &Tracefork, program: &Program) -> Result<()> {
    let (result, outcomes) = run(tracefork, program, &["--cache", "linear"])?;
    if !program.linear {
        result.ensure_code(5)?;
        ensure!(
            result.said().contains("linear cache cannot serve"),
            "another error:\n{}",
            result.said()
        );
        return Ok(());
    }
    result.ensure_code(0)?;
    same_as_branching(tracefork, program, &outcomes)
}

fn off(tracefork: &Tracefork, program: &Program) -> Result<()> {
    let mut options = vec!["--cache", "off"];
    if matches!(program.peer, Peer::Python) {
        // Python's server puts the time into its answers, and without a cache it is asked again and again.
        options.push("--allow-nondeterministic-peers");
    }
    let (result, outcomes) = run(tracefork, program, &options)?;
    result.ensure_code(0)?;
    same_as_branching(tracefork, program, &outcomes)
}

/// A server that numbers its answers, and serves one connection at a time. To find that out it is connected to once more; what it says then must not be held
/// against it, since no schedule needs a second answer.
fn what_a_probe_hears_is_no_answer(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?;
    let python = packages::command("python3", "python3")?;
    let script = format!(
        "import functools, itertools, http.server as h; H = h.SimpleHTTPRequestHandler; n = itertools.count(); \
         H.date_time_string = lambda *a, **k: str(next(n)); \
         h.HTTPServer(('', {}), functools.partial(H, directory='{}')).serve_forever()",
        session.port,
        session.root()?.display()
    );
    let session = session.server(&format!("{} -c \"{script}\"", python.display()));
    let result = session.check_guest(tracefork, "http_client", &["2"])?;
    result.ensure_code(0)?;
    ensure!(
        result.json["cache"]["physical_connections"] == 2,
        "{}",
        result.said()
    );
    Ok(())
}

/// Python's web server as it comes, which puts the time of day into its answers: a connection more than the two that are needed would show as an answer that differs.
fn nobody_is_asked_twice_for_the_time(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?;
    let python = packages::command("python3", "python3")?;
    let root = session.root()?;
    let server = format!(
        "{} -m http.server -d {} {}",
        python.display(),
        root.display(),
        session.port
    );
    let result = session
        .server(&server)
        .check_guest(tracefork, "http_client", &["2"])?;
    result.ensure_code(0)?;
    let cache = &result.json["cache"];
    ensure!(
        cache["physical_connections"] == 2 && cache["misses"] == 2,
        "{}",
        result.said()
    );
    Ok(())
}

/// Whether anything is reduced, and how, does not change the outcomes.
fn reduced(tracefork: &Tracefork, program: &Program) -> Result<()> {
    let (result, outcomes) = run(tracefork, program, &["--reduce", "none"])?;
    result.ensure_code(0)?;
    same_as_branching(tracefork, program, &outcomes)?;
    let (result, outcomes) = run(tracefork, program, &["--reduce", "dpor", "--no-hash"])?;
    result.ensure_code(0)?;
    same_as_branching(tracefork, program, &outcomes)
}

/// While a worker has yet to read what its client says, others tell that client something. It answers nothing, so the order does not matter; there
/// is one execution for each order of what the clients are told.
fn a_write_that_nobody_answers_is_in_no_readers_way(tracefork: &Tracefork) -> Result<()> {
    let chat = LARGER.iter().find(|p| p.args == ["3", "full"]);
    let chat = chat.context("the chat server of three clients")?;
    // In any order of arrival each is multiplied by the orders in which the clients are accepted.
    let options = ["--reduce", "dpor", "--no-hash", "--arrivals", "ordered"];
    let (result, outcomes) = run(tracefork, chat, &options)?;
    result.ensure_code(0)?;
    let orders = 6_usize.pow(3);
    ensure!(outcomes.len() == orders, "{} outcomes", outcomes.len());
    ensure!(
        result.json["executions"] == orders,
        "{}",
        result.json["executions"]
    );
    Ok(())
}

fn same_as_branching(tracefork: &Tracefork, program: &Program, outcomes: &BTreeSet<String>) -> Result<()> {
    let (_, expected) = run(tracefork, program, &[])?;
    ensure!(
        *outcomes == expected,
        "outcomes differ:\n{outcomes:#?}\nwith the branching cache:\n{expected:#?}"
    );
    Ok(())
}

/// The peer writes down all that it hears. It is told nothing twice on a connection, and there is no connection but one for each way that the
/// conversation can go.
fn a_peer_hears_everything_once(tracefork: &Tracefork) -> Result<()> {
    for (guest, args, expected) in [
        (
            "alphabet_client",
            &["2", "2"][..],
            &["connected 1 2", "connected 1 2"],
        ),
        ("racing_client", &[], &["connected 3 1 2", "connected 3 2 1"]),
    ] {
        let session = Session::new()?;
        let (journal, port) = (session.scratch.beside("journal"), session.port);
        let server = peer_program("lines_server")?;
        let command = format!("{} {port} alphabet {}", server.display(), journal.display());
        let session = session.server(&command);
        session.check_guest(tracefork, guest, args)?.ensure_code(0)?;
        let heard = fs::read_to_string(journal)?;
        let mut connections = vec![String::new(); 2];
        for line in heard.lines().filter(|line| !line.ends_with("end")) {
            let (connection, what) = line.split_once(' ').context("a connection and what it heard")?;
            let all = connections.get_mut(connection.parse::<usize>()?);
            let all = all.with_context(|| format!("one connection too many:\n{heard}"))?;
            *all = format!("{all} {what}").trim().to_owned();
        }
        connections.sort_unstable();
        ensure!(connections == expected, "{guest}: {connections:?}\n{heard}");
    }
    Ok(())
}

fn workers_share_what_they_learn(tracefork: &Tracefork) -> Result<()> {
    for program in PROGRAMS.iter().filter(|p| p.guest.ends_with("server")).take(3) {
        let (one, alone) = run(tracefork, program, &[])?;
        let (two, together) = run(tracefork, program, &["--jobs", "2"])?;
        two.ensure_code(0)?;
        ensure!(alone == together, "{alone:#?}\n{together:#?}");
        ensure!(one.json["cache"]["misses"] == two.json["cache"]["misses"]);
    }
    Ok(())
}
