//! Where peers stand (`--peers real|inside|explored`): the outcomes do not depend on it, as far as each of them applies.
//!
//! Outside, with arrivals in order, and inside in one schedule there are the same outcomes; so there are with arrivals in any order, and where all schedules are
//! explored; and a recording of peers outside says the same as they do.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use tracefork_tests::networked::{Peer, Report, Session, peer_program, trial};
use tracefork_tests::process;
use tracefork_tests::supervised::{TIME_LIMIT, Tracefork};
use tracefork_tests::{command_under_test, guests, packages};

struct Case {
    guest: &'static str,
    args: &'static [&'static str],
    peer: Peer,
    /// Small enough for all schedules of all processes.
    is_small: bool,
}

const fn case(guest: &'static str, args: &'static [&'static str], peer: Peer, is_small: bool) -> Case {
    Case {
        guest,
        args,
        peer,
        is_small,
    }
}

const CASES: &[Case] = &[
    case("daytime_client", &["2"], Peer::Lines("daytime"), true),
    case("daytime_client", &["3"], Peer::Lines("daytime"), false),
    case("alphabet_client", &["1", "1"], Peer::Lines("alphabet"), true),
    case("alphabet_client", &["2", "1"], Peer::Lines("alphabet"), false),
    case("alphabet_client", &["3", "1"], Peer::Lines("alphabet"), false),
    case("racing_client", &[], Peer::Lines("alphabet"), true),
    case(
        "alphabet_server",
        &["2", "1"],
        Peer::Clients(2, "alphabet 1"),
        true,
    ),
    case(
        "alphabet_server",
        &["3", "1"],
        Peer::Clients(3, "alphabet 1"),
        false,
    ),
    case(
        "chat_server",
        &["2", "abstract"],
        Peer::Clients(2, "chat {i} 2"),
        false,
    ),
    case(
        "chat_server",
        &["2", "full"],
        Peer::Clients(2, "chat {i} 2"),
        false,
    ),
    case(
        "chat_server",
        &["3", "full"],
        Peer::Clients(3, "chat {i} 3"),
        false,
    ),
    case("http_server", &["2", "counter"], Peer::Curls(2, ""), false),
    case("http_client", &["2"], Peer::Python, false),
    case("udp_client", &["2"], Peer::Datagrams(0), true),
    case("udp_server", &["2"], Peer::Datagrams(2), false),
];

fn checked(tracefork: &Tracefork, case: &Case, options: &[&str]) -> Result<(Report, u16)> {
    let session = Session::new()?.peer(case.peer)?.with(options);
    let report = session.check_guest(tracefork, case.guest, case.args)?;
    report.ensure_code(0).context(options.join(" "))?;
    Ok((report, session.port))
}

/// The same outcomes with two sets of options.
fn same(tracefork: &Tracefork, case: &Case, one: &[&str], other: &[&str]) -> Result<()> {
    let (first, first_port) = checked(tracefork, case, one)?;
    let (second, second_port) = checked(tracefork, case, other)?;
    let (first, second) = (first.outcomes(first_port), second.outcomes(second_port));
    ensure!(
        !first.is_empty() && first == second,
        "{one:?}:\n{first:#?}\n{other:?}:\n{second:#?}"
    );
    Ok(())
}

fn inside(tracefork: &Tracefork, case: &Case) -> Result<()> {
    same(
        tracefork,
        case,
        &["--arrivals", "ordered"],
        &["--peers", "inside"],
    )?;
    same(
        tracefork,
        case,
        &["--peers", "inside", "--reduce", "none"],
        &["--peers", "inside", "--checkpoint", "fork", "--jobs", "2"],
    )
}

fn explored(tracefork: &Tracefork, case: &Case) -> Result<()> {
    same(tracefork, case, &["--arrivals", "any"], &["--peers", "explored"])
}

/// What real peers said stands for them.
fn offline(tracefork: &Tracefork, case: &Case) -> Result<()> {
    let session = Session::new()?.peer(case.peer)?;
    let file = session.scratch.beside("trees").display().to_string();
    let session = session.with(&["--arrivals", "ordered", "--cache-file", &file]);
    let real = session.check_guest(tracefork, case.guest, case.args)?;
    real.ensure_code(0)?;
    let stubs = session
        .with(&["--offline"])
        .check_guest(tracefork, case.guest, case.args)?;
    stubs.ensure_code(0)?;
    // Another port would be another destination.
    ensure!(real.outcomes(0) == stubs.outcomes(0), "{}", stubs.said());
    Ok(())
}

/// A server that counts what it is asked, over all connections.
const COUNTER: &str = "import select, socket, sys\n\
listener = socket.socket()\n\
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
listener.bind(('127.0.0.1', int(sys.argv[1])))\n\
listener.listen(5)\n\
count, open = 0, []\n\
while True:\n\
\x20   for ready in select.select([listener] + open, [], [])[0]:\n\
\x20       if ready is listener:\n\
\x20           open.append(listener.accept()[0])\n\
\x20           continue\n\
\x20       line = ready.recv(100)\n\
\x20       if not line:\n\
\x20           open.remove(ready)\n\
\x20       elif line.startswith(b'next'):\n\
\x20           count += 1\n\
\x20           ready.sendall(b'%d\\n' % count)\n\
\x20       else:\n\
\x20           ready.sendall(b'ok\\n')\n";

/// The same with a database that it keeps in memory.
const DATABASE: &str = "import select, socket, sqlite3, sys\n\
base = sqlite3.connect(':memory:')\n\
base.execute('create table asked (line text)')\n\
listener = socket.socket()\n\
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
listener.bind(('127.0.0.1', int(sys.argv[1])))\n\
listener.listen(5)\n\
open = []\n\
while True:\n\
\x20   for ready in select.select([listener] + open, [], [])[0]:\n\
\x20       if ready is listener:\n\
\x20           open.append(listener.accept()[0])\n\
\x20           continue\n\
\x20       line = ready.recv(100)\n\
\x20       if not line:\n\
\x20           open.remove(ready)\n\
\x20       elif line.startswith(b'next'):\n\
\x20           base.execute('insert into asked values (?)', (line,))\n\
\x20           ready.sendall(b'%d\\n' % base.execute('select count(*) from asked').fetchone())\n\
\x20       else:\n\
\x20           ready.sendall(b'ok\\n')\n";

#[derive(Clone, Copy)]
enum Counter {
    Python(&'static str),
    Redis,
}

impl Counter {
    fn session(self) -> Result<Session> {
        let session = Session::new()?;
        let port = session.port;
        match self {
            Counter::Python(script) => {
                let python = packages::command("python3", "python3")?;
                let file = session.scratch.beside("counter.py");
                fs::write(&file, script)?;
                Ok(session.server(&format!("{} {} {port}", python.display(), file.display())))
            }
            Counter::Redis => {
                let redis = packages::command("redis-server", "redis-server")?;
                let options = "--bind 127.0.0.1 --save '' --appendonly no";
                Ok(session.server(&format!("{} --port {port} {options}", redis.display())))
            }
        }
    }

    /// What it is asked, and told.
    fn words(self) -> [&'static str; 2] {
        match self {
            Counter::Python(_) => ["next", "told %d"],
            Counter::Redis => ["INCR k", "SET told%d x"],
        }
    }

    fn check(self, tracefork: &Tracefork, options: &[&str]) -> Result<(Report, u16)> {
        let session = self.session()?.with(options);
        let report = session.check_guest(tracefork, "counts", &self.words())?;
        Ok((report, session.port))
    }
}

/// A server that is asked by one connection and answers by what others asked: on a tree per connection it is not deterministic, as a process that goes back it is.
fn counted(tracefork: &Tracefork, counter: Counter) -> Result<()> {
    let (outside, _) = counter.check(tracefork, &["--arrivals", "ordered"])?;
    outside.ensure_code(5)?;
    let (inside, port) = counter.check(tracefork, &["--peers", "inside"])?;
    inside.ensure_code(0)?;
    let outcomes = inside.outcomes(port);
    let has = |text: &str| outcomes.iter().any(|outcome| outcome.contains(text));
    let [one, two] = match counter {
        Counter::Python(_) => ["\"1 2\\n\"", "\"2 1\\n\""],
        Counter::Redis => ["\":1 :2\\n\"", "\":2 :1\\n\""],
    };
    // Who asks first, and who tells first.
    ensure!(has(one) && has(two) && outcomes.len() == 4, "{outcomes:#?}");
    let (process, port) = counter.check(tracefork, &["--arrivals", "ordered", "--peer-state", "process"])?;
    process.ensure_code(0)?;
    let by_process = process.outcomes(port);
    ensure!(by_process == outcomes, "{outcomes:#?}\n{by_process:#?}");
    ensure!(
        process.json["coverage"]["peer_state"] == "process",
        "{}",
        process.json
    );
    Ok(())
}

/// A counterexample is executed again without anybody else: its peers are in it.
fn replays(tracefork: &Tracefork, peers: &str) -> Result<()> {
    let session =
        Session::new()?
            .peer(Peer::Lines("alphabet"))?
            .with(&["--peers", peers, "--forbid-sent", "2"]);
    let report = session.check_guest(tracefork, "alphabet_client", &["1", "2"])?;
    report.ensure_code(1)?;
    let trace = report.json["violations"][0]["trace"]
        .as_str()
        .context("a trace")?
        .to_owned();
    let mut command = tracefork.command(&session.scratch.work());
    command.args(["replay", &trace]);
    let replayed = process::run(command, TIME_LIMIT)?;
    let said = String::from_utf8_lossy(&replayed.stderr).into_owned();
    ensure!(said.contains("all as recorded"), "{said}");
    ensure!(said.contains("traffic: what 127.0.0.1"), "{said}");
    ensure!(report.json["coverage"]["peers"] == peers, "{}", report.json);
    Ok(())
}

fn refused(tracefork: &Tracefork, options: &[&str]) -> Result<()> {
    let session = Session::new()?
        .peer(Peer::Lines("alphabet"))?
        .with(&["--peers", "inside"])
        .with(options);
    let report = session.check_guest(tracefork, "alphabet_client", &["1", "1"])?;
    report.ensure_code(2)?;
    let said = report.said();
    let option = options[0].split('=').next().unwrap_or_default();
    ensure!(said.contains(option) && said.contains("peers outside"), "{said}");
    Ok(())
}

/// Peers that do not come up, or do not come, are peers that failed; as outside.
fn failing(tracefork: &Tracefork, option: &str, command: &str, guest: &str, args: &[&str]) -> Result<()> {
    for peers in ["real", "inside"] {
        let session = Session::new()?.with(&["--peers", peers, option, command]);
        let report = session.check_guest(tracefork, guest, args)?;
        report.ensure_code(5).context(peers.to_owned())?;
        let said = report.said();
        ensure!(said.contains("failed to start"), "{said}");
    }
    Ok(())
}

/// A server with fewer clients than it could have waits for the next, which is a good end.
fn idle(tracefork: &Tracefork) -> Result<()> {
    for peers in ["real", "inside", "explored"] {
        let client = peer_program("lines_client")?;
        let client = format!("{} {{port}} alphabet 1", client.display());
        let session = Session::new()?.with(&["--peers", peers, "--client", &client]);
        let report = session.check_guest(tracefork, "alphabet_server", &["2", "1"])?;
        report.ensure_code(0).context(peers.to_owned())?;
        let outcomes = report.json["outcomes"].as_array().context("outcomes")?;
        let is_idle = outcomes.iter().all(|outcome| outcome["idle"] == true);
        ensure!(!outcomes.is_empty() && is_idle, "{peers}: {outcomes:?}");
    }
    Ok(())
}

/// Clients by name, one after the other, and what they end with.
fn clients(tracefork: &Tracefork) -> Result<()> {
    let client = peer_program("lines_client")?;
    let client = format!("{} {{port}} alphabet 1", client.display());
    let mut known = None;
    for peers in ["real", "inside", "explored"] {
        let session = Session::new()?.with(&["--peers", peers]);
        let (ann, bob) = (format!("ann={client}"), format!("bob={client}"));
        let session = session.with(&["--client", &ann, "--after", "ann", "--client", &bob]);
        let report = session.check_guest(tracefork, "alphabet_server", &["2", "1"])?;
        report.ensure_code(0).context(peers.to_owned())?;
        let outcomes = report.outcomes(session.port);
        ensure!(
            outcomes
                .iter()
                .all(|outcome| outcome.contains("ann") && outcome.contains("bob")),
            "{outcomes:?}"
        );
        let known = known.get_or_insert_with(|| outcomes.clone());
        ensure!(*known == outcomes, "{peers}: {known:?} {outcomes:?}");
        let session = session.with(&["--expect-client-exit", "7"]);
        let report = session.check_guest(tracefork, "alphabet_server", &["2", "1"])?;
        report.ensure_code(1).context(peers.to_owned())?;
        ensure!(
            report.json["violations"][0]["kind"] == "peer",
            "{}",
            report.said()
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let mut trials = Vec::new();
    for case in CASES {
        let name = format!("{} {}", case.guest, case.args.join(" "));
        trials.push(trial(format!("inside: {name}"), &tracefork, |t| inside(t, case)));
        if case.is_small {
            trials.push(trial(format!("explored: {name}"), &tracefork, |t| {
                explored(t, case)
            }));
            trials.push(trial(format!("offline: {name}"), &tracefork, |t| {
                offline(t, case)
            }));
        }
    }
    for (name, counter) in [
        ("python", Counter::Python(COUNTER)),
        ("sqlite", Counter::Python(DATABASE)),
        ("redis", Counter::Redis),
    ] {
        trials.push(trial(format!("a counter in {name}"), &tracefork, move |t| {
            counted(t, counter)
        }));
    }
    for peers in ["inside", "explored"] {
        let name = format!("a trace with peers {peers} replays");
        trials.push(trial(name, &tracefork, move |t| replays(t, peers)));
    }
    for options in [
        &["--cache-file", "trees"][..],
        &["--cache", "linear"],
        &["--arrivals=any"],
        &["--settle", "1s"],
        &["--share-trees"],
        &["--peer-state", "process"],
    ] {
        let name = format!("refused: {}", options.join(" "));
        trials.push(trial(name, &tracefork, move |t| refused(t, options)));
    }
    trials.push(trial("a server that never listens".to_owned(), &tracefork, |t| {
        failing(t, "--server", "true", "alphabet_client", &["1", "1"])
    }));
    trials.push(trial(
        "a client that never connects".to_owned(),
        &tracefork,
        |t| failing(t, "--client", "false", "alphabet_server", &["1", "1"]),
    ));
    trials.push(trial("idle".to_owned(), &tracefork, idle));
    trials.push(trial("clients by name".to_owned(), &tracefork, clients));
    // Built before the clock of any test runs.
    if let Err(error) = guests::one("net/counts.c").and_then(|guest| guest.build()) {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
