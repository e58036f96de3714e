//! Networked programs against real peers: the papers' programs with their cache figures, the three cache modes side by side,
//! saved caches, timeouts as choices, what peers can do wrong, and real Debian programs.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use tracefork_tests::directives::End;
use tracefork_tests::observe::Scratch;
use tracefork_tests::process::{self, Finished};
use tracefork_tests::supervised::{TIME_LIMIT, Tracefork};
use tracefork_tests::{command_under_test, guests, packages};

/// Who is at the other end.
#[derive(Clone, Copy)]
enum Peer {
    /// `lines_server` of this kind.
    Lines(&'static str),
    /// So many times `lines_client` with these arguments; `{i}` is which one.
    Clients(usize, &'static str),
    /// So many times `curl` with these arguments before the address.
    Curls(usize, &'static str),
    /// Python's web server.
    Python,
}

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
];

/// One size up: figures only, as the other modes take long.
const LARGER: &[Program] = &[
    program("daytime_client", &["3"], Peer::Lines("daytime"), 3, 0),
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

impl Program {
    fn name(&self) -> String {
        format!("{}_{}", self.guest, self.args.join("x"))
    }
}

/// What is tried with the command.
type Trying = fn(&Tracefork) -> Result<()>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let mut trials = Vec::new();
    for program in PROGRAMS.iter().chain(LARGER) {
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
    let others: &[(&str, Trying)] = &[
        ("a_saved_cache_is_a_stub", a_saved_cache_is_a_stub),
        ("a_peer_hears_everything_once", a_peer_hears_everything_once),
        ("workers_share_what_they_learn", workers_share_what_they_learn),
        (
            "the_watchdog_bug_needs_a_timeout",
            the_watchdog_bug_needs_a_timeout,
        ),
        (
            "a_client_that_fails_is_a_violation",
            a_client_that_fails_is_a_violation,
        ),
        ("a_server_that_waits_is_idle", a_server_that_waits_is_idle),
        ("traffic_has_properties", traffic_has_properties),
        ("a_server_that_does_not_come_up", a_server_that_does_not_come_up),
        (
            "a_counterexample_replays_without_peers",
            a_counterexample_replays_without_peers,
        ),
    ];
    for &(name, body) in others {
        trials.push(trial(name.to_owned(), &tracefork, body));
    }
    for real in REAL {
        trials.push(trial(format!("real::{}", real.name), &tracefork, |t| {
            explore_real(t, real)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(
    name: String,
    tracefork: &Tracefork,
    body: impl FnOnce(&Tracefork) -> Result<()> + Send + 'static,
) -> Trial {
    let tracefork = tracefork.clone();
    Trial::test(name, move || {
        body(&tracefork).map_err(|error| Failed::from(format!("{error:#}")))
    })
}

/// A port that nobody has now.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// One invocation of tracefork.
struct Session {
    scratch: Scratch,
    port: u16,
    options: Vec<String>,
}

struct Report {
    finished: Finished,
    json: Value,
}

impl Session {
    fn new() -> Result<Session> {
        let scratch = Scratch::new()?;
        fs::write(scratch.beside("page.txt"), "a small page\n")?;
        Ok(Session {
            scratch,
            port: free_port()?,
            options: Vec::new(),
        })
    }

    fn with(mut self, options: &[&str]) -> Session {
        self.options
            .extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    fn server(self, command: &str) -> Session {
        self.with(&["--server", command])
    }

    fn peer(mut self, peer: Peer) -> Result<Session> {
        let port = self.port;
        match peer {
            Peer::Lines(kind) => {
                let server = peer_program("lines_server")?;
                Ok(self.server(&format!("{} {port} {kind}", server.display())))
            }
            Peer::Python => {
                let python = packages::command("python3", "python3")?;
                let root = self.scratch.beside("page.txt");
                let root = root
                    .parent()
                    .context("the page lies in a directory")?
                    .display()
                    .to_string();
                Ok(self.server(&format!("{} -m http.server -d {root} {port}", python.display())))
            }
            Peer::Clients(count, args) => {
                let client = peer_program("lines_client")?;
                for i in 0..count {
                    let args = args.replace("{i}", &i.to_string());
                    self = self.with(&["--client", &format!("{} {{port}} {args}", client.display())]);
                }
                Ok(self)
            }
            Peer::Curls(count, args) => {
                let curl = packages::command("curl", "curl")?;
                let command = format!("{count}*{} -s {args} http://{{addr}}/", curl.display());
                Ok(self.with(&["--client", &command]))
            }
        }
    }

    fn check(&self, tracefork: &Tracefork, program: &str, args: &[&str]) -> Result<Report> {
        let json = self.scratch.beside("result.json");
        let mut command = tracefork.command(&self.scratch.work());
        command.args(["check", "--quiet", "--trace-dir"]);
        command
            .arg(self.scratch.beside("traces"))
            .arg("--json")
            .arg(&json);
        command.args(&self.options).arg("--").arg(program).args(args);
        let finished = process::run(command, TIME_LIMIT)?;
        let text = fs::read_to_string(&json).unwrap_or_default();
        Ok(Report {
            json: serde_json::from_str(&text).unwrap_or_default(),
            finished,
        })
    }

    fn check_guest(&self, tracefork: &Tracefork, guest: &str, args: &[&str]) -> Result<Report> {
        let guest = guests::one(&format!("net/{guest}.c"))?.build()?;
        let port = self.port.to_string();
        let args: Vec<&str> = [port.as_str()].into_iter().chain(args.iter().copied()).collect();
        self.check(tracefork, &guest.display().to_string(), &args)
    }
}

impl Report {
    fn said(&self) -> String {
        format!(
            "{}\n{}",
            self.json,
            String::from_utf8_lossy(&self.finished.stderr)
        )
    }

    fn ensure_code(&self, expected: i32) -> Result<()> {
        ensure!(
            self.finished.end == End::Exit(expected),
            "{:?}, expected exit code {expected}:\n{}",
            self.finished.end,
            self.said()
        );
        Ok(())
    }

    /// The outcomes without how often each was seen, and with this port made general.
    fn outcomes(&self, port: u16) -> BTreeSet<String> {
        let all = self.json["outcomes"].as_array().cloned().unwrap_or_default();
        let plain = all.into_iter().map(|mut outcome| {
            outcome["executions"] = Value::Null;
            outcome.to_string().replace(&port.to_string(), "PORT")
        });
        plain.collect()
    }
}

fn peer_program(name: &str) -> Result<PathBuf> {
    guests::one(&format!("peers/{name}.c"))?.build()
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
        Peer::Lines(_) | Peer::Python => result["cache"]["physical_connections"].as_u64(),
        Peer::Clients(..) | Peer::Curls(..) => result["cache"]["peer_starts"].as_u64(),
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

fn same_as_branching(tracefork: &Tracefork, program: &Program, outcomes: &BTreeSet<String>) -> Result<()> {
    let (_, expected) = run(tracefork, program, &[])?;
    ensure!(
        *outcomes == expected,
        "outcomes differ:\n{outcomes:#?}\nwith the branching cache:\n{expected:#?}"
    );
    Ok(())
}

fn a_saved_cache_is_a_stub(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?;
    let file = session.scratch.beside("cache").display().to_string();
    let online = session
        .with(&["--cache-file", &file])
        .peer(Peer::Lines("alphabet"))?;
    let first = online.check_guest(tracefork, "alphabet_client", &["2", "1"])?;
    first.ensure_code(0)?;
    let offline = Session {
        port: online.port,
        ..Session::new()?
    };
    let offline = offline.with(&["--cache-file", &file, "--offline"]);
    let second = offline.check_guest(tracefork, "alphabet_client", &["2", "1"])?;
    second.ensure_code(0)?;
    ensure!(first.outcomes(online.port) == second.outcomes(online.port));
    ensure!(second.json["cache"]["physical_connections"] == 0);
    // What was never asked cannot be answered.
    let third = offline.check_guest(tracefork, "alphabet_client", &["2", "2"])?;
    third.ensure_code(5)?;
    ensure!(third.said().contains("offline"), "{}", third.said());
    Ok(())
}

fn a_peer_hears_everything_once(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?;
    let (journal, port) = (session.scratch.beside("journal"), session.port);
    let server = peer_program("lines_server")?;
    let command = format!("{} {port} alphabet {}", server.display(), journal.display());
    let session = session.server(&command);
    session
        .check_guest(tracefork, "alphabet_client", &["2", "2"])?
        .ensure_code(0)?;
    let heard = fs::read_to_string(journal)?;
    let mut lines: Vec<&str> = heard.lines().filter(|line| !line.ends_with("end")).collect();
    lines.sort_unstable();
    ensure!(
        lines == ["0 1", "0 2", "0 connected", "1 1", "1 2", "1 connected"],
        "{heard}"
    );
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

fn the_watchdog_bug_needs_a_timeout(tracefork: &Tracefork) -> Result<()> {
    for (version, faults, code) in [
        ("buggy", false, 0),
        ("buggy", true, 1),
        ("fixed", false, 0),
        ("fixed", true, 0),
    ] {
        let mut session = Session::new()?.peer(Peer::Python)?;
        if faults {
            session = session.with(&["--faults", "timeout"]);
        }
        let result = session.check_guest(tracefork, "webdav_client", &[version])?;
        result
            .ensure_code(code)
            .with_context(|| format!("{version}, faults: {faults}"))?;
    }
    Ok(())
}

const RACE: Peer = Peer::Clients(2, "chat {i} 2");

fn a_client_that_fails_is_a_violation(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?.peer(RACE)?.with(&["--expect-client-exit", "0"]);
    let result = session.check_guest(tracefork, "chat_server", &["2", "race"])?;
    result.ensure_code(1)?;
    ensure!(
        result.json["violations"][0]["kind"] == "peer",
        "{}",
        result.said()
    );
    let result = session.check_guest(tracefork, "chat_server", &["2", "full"])?;
    result.ensure_code(0)
}

fn a_server_that_waits_is_idle(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?.peer(Peer::Clients(1, "alphabet 1"))?;
    let result = session.check_guest(tracefork, "alphabet_server", &["2", "1"])?;
    result.ensure_code(0)?;
    ensure!(result.json["outcomes"][0]["idle"] == true, "{}", result.said());
    Ok(())
}

fn traffic_has_properties(tracefork: &Tracefork) -> Result<()> {
    for (options, code) in [
        (["--forbid-sent", "^2"], 0),
        (["--forbid-sent", "1\\n"], 1),
        (["--require-sent", "1"], 0),
        (["--require-sent", "27"], 1),
    ] {
        let session = Session::new()?.peer(Peer::Lines("alphabet"))?.with(&options);
        let result = session.check_guest(tracefork, "alphabet_client", &["1", "1"])?;
        result.ensure_code(code).with_context(|| options.join(" "))?;
    }
    Ok(())
}

fn a_server_that_does_not_come_up(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?.server("sh -c 'echo no room here; exit 3'");
    let result = session.check_guest(tracefork, "alphabet_client", &["1", "1"])?;
    result.ensure_code(5)?;
    ensure!(result.said().contains("no room here"), "{}", result.said());
    Ok(())
}

fn a_counterexample_replays_without_peers(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?
        .peer(Peer::Lines("alphabet"))?
        .with(&["--forbid", "all letters"]);
    let result = session.check_guest(tracefork, "alphabet_client", &["2", "1"])?;
    result.ensure_code(1)?;
    let trace = result.json["violations"][0]["trace"]
        .as_str()
        .context("a trace")?
        .to_owned();
    let mut command = tracefork.command(&session.scratch.work());
    command.args(["replay", &trace]);
    let finished = process::run(command, TIME_LIMIT)?;
    ensure!(
        String::from_utf8_lossy(&finished.stdout).contains("all letters came"),
        "{}",
        String::from_utf8_lossy(&finished.stderr)
    );
    Ok(())
}

/// A program of Debian, explored within a limit.
struct Real {
    name: &'static str,
    package: &'static str,
    /// `{port}`, `{root}` (a directory with a small page) and `{second}` (another port) are replaced everywhere.
    args: &'static [&'static str],
    server: Option<&'static str>,
    clients: &'static [&'static str],
    states: &'static str,
    /// Must be in what some peer was sent, or in the program's output.
    expect: &'static str,
}

const WEB: &str = "python3 -m http.server -d {root} {port}";

const REAL: &[Real] = &[
    Real {
        name: "curl",
        package: "curl",
        args: &["-s", "http://localhost:{port}/page.txt"],
        server: Some(WEB),
        clients: &[],
        states: "2000",
        expect: "a small page",
    },
    Real {
        name: "wget",
        package: "wget",
        args: &["-q", "-O", "-", "http://127.0.0.1:{port}/page.txt"],
        server: Some(WEB),
        clients: &[],
        states: "2000",
        expect: "a small page",
    },
    Real {
        name: "nc",
        package: "netcat-openbsd",
        args: &["-z", "127.0.0.1", "{port}"],
        server: Some(WEB),
        clients: &[],
        states: "2000",
        expect: "127.0.0.1",
    },
    Real {
        name: "axel",
        package: "axel",
        args: &["-n", "2", "-o", "{root}/got", "http://127.0.0.1:{port}/page.txt"],
        server: Some(WEB),
        clients: &[],
        states: "2000",
        expect: "GET /page.txt",
    },
    Real {
        name: "tinyproxy",
        package: "tinyproxy-bin",
        args: &["-d", "-c", "{root}/tinyproxy.conf"],
        server: Some("python3 -m http.server -d {root} {second}"),
        clients: &["2*curl -s -x http://127.0.0.1:{port} http://127.0.0.1:{second}/page.txt"],
        states: "1500",
        expect: "a small page",
    },
    Real {
        name: "civetweb",
        package: "civetweb",
        args: &[
            "-document_root",
            "{root}",
            "-listening_ports",
            "127.0.0.1:{port}",
            "-num_threads",
            "2",
        ],
        server: None,
        clients: &["2*curl -s http://127.0.0.1:{port}/page.txt"],
        states: "1500",
        expect: "a small page",
    },
    Real {
        name: "webfsd",
        package: "webfs",
        args: &["-F", "-p", "{port}", "-r", "{root}"],
        server: None,
        clients: &["2*curl -s http://127.0.0.1:{port}/page.txt"],
        states: "1000",
        expect: "a small page",
    },
    Real {
        name: "beanstalkd",
        package: "beanstalkd",
        args: &["-l", "127.0.0.1", "-p", "{port}"],
        server: None,
        clients: &["2*nc -N 127.0.0.1 {port} < {root}/beanstalkd.txt"],
        states: "1000",
        expect: "RESERVED",
    },
    Real {
        name: "redis-server",
        package: "redis-server",
        args: &["--port", "{port}", "--bind", "127.0.0.1", "--save", ""],
        server: None,
        clients: &["nc -N 127.0.0.1 {port} < {root}/redis.txt"],
        states: "1500",
        expect: "+OK\\r\\n:2",
    },
    Real {
        name: "memcached",
        package: "memcached",
        // Without its maintainers, who wake up for ever.
        args: &[
            "-u",
            "root",
            "-t",
            "2",
            "-l",
            "127.0.0.1",
            "-p",
            "{port}",
            "-U",
            "0",
            "-o",
            "no_modern",
        ],
        server: None,
        clients: &["2*nc -N 127.0.0.1 {port} < {root}/memcached.txt"],
        states: "2000",
        expect: "STORED",
    },
    Real {
        name: "iperf",
        package: "iperf",
        args: &["-s", "-p", "{port}"],
        server: None,
        clients: &["iperf -c 127.0.0.1 -p {port} -n 1K"],
        states: "5000",
        expect: "1.00 KBytes",
    },
];

fn explore_real(tracefork: &Tracefork, real: &Real) -> Result<()> {
    packages::command("curl", "curl")?;
    packages::command("nc", "netcat-openbsd")?;
    let program = packages::command(real.name, real.package)?;
    let mut session = Session::new()?;
    let root = session.scratch.beside("page.txt");
    let root = root.parent().context("the page lies in a directory")?.to_owned();
    let second = free_port()?.to_string();
    let port = session.port.to_string();
    let configuration = format!("Port {port}\nListen 127.0.0.1\nTimeout 60\nMaxClients 2\nAllow 127.0.0.1\n");
    for (name, text) in [
        ("tinyproxy.conf", configuration.as_str()),
        ("beanstalkd.txt", "put 0 0 10 5\r\nhello\r\nreserve\r\n"),
        ("redis.txt", "SET a 1\r\nINCR a\r\nQUIT\r\n"),
        ("memcached.txt", "set a 0 0 1\r\n1\r\nget a\r\nquit\r\n"),
    ] {
        fs::write(root.join(name), text)?;
    }
    let fill = |text: &str| {
        text.replace("{port}", &port)
            .replace("{second}", &second)
            .replace("{root}", &root.display().to_string())
    };
    if let Some(server) = real.server {
        session = session.server(&fill(server));
    }
    for client in real.clients {
        session = session.with(&["--client", &fill(client)]);
    }
    session = session.with(&["--max-states", real.states]);
    let args: Vec<String> = real.args.iter().map(|arg| fill(arg)).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = session.check(tracefork, &program.display().to_string(), &args)?;
    let end = result.finished.end;
    ensure!(matches!(end, End::Exit(0 | 3)), "{end:?}:\n{}", result.said());
    let outcomes = result.json["outcomes"].to_string();
    ensure!(outcomes.contains(real.expect), "{}", result.said());
    Ok(())
}
