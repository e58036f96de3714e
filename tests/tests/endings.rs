//! How connections end, and who is told what: resets, servers that have no time, addresses of those who come.

use std::collections::BTreeSet;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use tracefork_tests::networked::{Report, Session, free_port, peer_program, trial};
use tracefork_tests::supervised::Tracefork;
use tracefork_tests::{command_under_test, guests};

/// Ways to search that must not matter.
const WAYS: &[&[&str]] = &[
    &[
        "--cache",
        "branching",
        "--checkpoint",
        "rewind",
        "--reduce",
        "auto",
    ],
    &["--cache", "off", "--checkpoint", "fork", "--reduce", "none"],
    &[
        "--cache",
        "branching",
        "--checkpoint",
        "none",
        "--reduce",
        "dpor",
        "--no-hash",
    ],
    &[
        "--cache",
        "branching",
        "--checkpoint",
        "rewind",
        "--reduce",
        "sleep",
        "--jobs",
        "2",
    ],
];

fn outputs(report: &Report) -> BTreeSet<String> {
    let outcomes = report.json["outcomes"].as_array().into_iter().flatten();
    let outputs = outcomes.filter_map(|outcome| outcome["stdout"].as_str());
    outputs.map(|text| text.replace('\n', "|")).collect()
}

/// How a server leaves its client, what the client says, and with which statuses it can end: 0 by an end, 3 by a reset, 4 if it is refused what it says after an end.
struct Leave {
    place: &'static str,
    how: &'static str,
    says: &'static str,
    statuses: &'static [i32],
}

const fn leave(
    place: &'static str,
    how: &'static str,
    says: &'static str,
    statuses: &'static [i32],
) -> Leave {
    Leave {
        place,
        how,
        says,
        statuses,
    }
}

const LEAVES: &[Leave] = &[
    leave("tcp", "unread", "hello", &[3]),
    leave("tcp", "read", "hello", &[0]),
    leave("tcp", "blind", "hello", &[0, 3]),
    leave("tcp", "linger", "hello", &[3]),
    leave("tcp", "exit", "hello", &[0, 3]),
    leave("tcp", "read", "hello more", &[4]),
    leave("tcp", "halves", "hello", &[0]),
    leave("unix", "unread", "hello", &[3]),
    leave("unix", "read", "hello", &[0]),
    leave("unix", "blind", "hello", &[0, 3]),
    leave("unix", "read", "hello more", &[4]),
    leave("unix", "halves", "hello", &[0]),
];

impl Leave {
    fn place(&self, session: &Session) -> String {
        match self.place {
            "tcp" => session.port.to_string(),
            _ => session.scratch.beside("socket").display().to_string(),
        }
    }

    /// With which status the client ends natively.
    fn native(&self) -> Result<Option<i32>> {
        let session = Session::new()?;
        let place = self.place(&session);
        let mut server = Command::new(guests::one("net/leaves.c")?.build()?)
            .args([&place, self.how])
            .spawn()?;
        let client = peer_program("ends")?;
        // As long as the server does not listen yet it fails with another status.
        loop {
            let mut command = Command::new(&client);
            command.arg(&place).args(self.says.split(' '));
            let status = command.stderr(Stdio::null()).status()?.code();
            if matches!(status, Some(0 | 3..=5)) {
                server.wait()?;
                return Ok(status);
            }
            ensure!(server.try_wait()?.is_none(), "the server ended without a client");
        }
    }
}

fn a_client_sees_how_it_was_left(tracefork: &Tracefork, leave: &Leave) -> Result<()> {
    let native = leave.native()?;
    ensure!(
        native.is_some_and(|status| leave.statuses.contains(&status)),
        "natively {native:?}"
    );
    let client = peer_program("ends")?;
    for way in WAYS {
        for status in [0, 3, 4] {
            let session = Session::new()?;
            let place = leave.place(&session);
            let session = session.with(way).with(&[
                "--expect-client-exit",
                &status.to_string(),
                "--client",
                &format!("{} {place} {}", client.display(), leave.says),
            ]);
            let report = session.check_guest_at(tracefork, "leaves", &[&place, leave.how])?;
            // Whoever can see another end breaks the rule.
            let is_broken = leave.statuses.iter().any(|&other| other != status);
            report
                .ensure_code(i32::from(is_broken))
                .with_context(|| format!("{way:?}, status {status}"))?;
        }
    }
    Ok(())
}

/// In order all has arrived when the program closes.
fn in_order_a_blind_close_is_a_reset(tracefork: &Tracefork) -> Result<()> {
    let client = peer_program("ends")?;
    let session = Session::new()?.with(&[
        "--arrivals",
        "ordered",
        "--expect-client-exit",
        "3",
        "--client",
        &format!("{} {{port}} hello", client.display()),
    ]);
    session
        .check_guest(tracefork, "leaves", &["blind"])?
        .ensure_code(0)
}

/// A connection that breaks breaks for the client, too, and that can be replayed and is shown.
fn a_fault_tells_the_client_of_a_reset(tracefork: &Tracefork) -> Result<()> {
    let client = peer_program("ends")?;
    let session = Session::new()?.with(&[
        "--faults",
        "reset",
        "--expect-exit",
        "any",
        "--expect-client-exit",
        "0",
        "--client",
        &format!("{} {{port}} hello", client.display()),
    ]);
    let report = session.check_guest(tracefork, "leaves", &["read"])?;
    report.ensure_code(1)?;
    ensure!(
        report.json["violations"][0]["kind"] == "peer",
        "{}",
        report.said()
    );
    let trace = report.json["violations"][0]["trace"]
        .as_str()
        .context("a trace")?;
    let mut command = tracefork.command(&session.scratch.work());
    let shown = command.args(["show", trace]).output()?;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    for words in ["the connection is reset", "resets the connection"] {
        ensure!(text.contains(words), "{words}: {text}");
    }
    let mut command = tracefork.command(&session.scratch.work());
    let replayed = command.args(["replay", trace]).output()?;
    ensure!(
        replayed.status.code() == Some(1),
        "a replay ends with {}",
        replayed.status
    );
    Ok(())
}

/// Who writes to a server that has closed is told so: at once on a Unix socket, by TCP when the reset has come.
fn after_the_end(tracefork: &Tracefork, place: &str, args: &[&str], expected: &[&str]) -> Result<()> {
    let server = peer_program("closes")?;
    for way in WAYS {
        let session = Session::new()?.with(way);
        let place = match place {
            "tcp" => session.port.to_string(),
            _ => session.scratch.beside("socket").display().to_string(),
        };
        let session = session.server(&format!("{} {place}", server.display()));
        let args: Vec<&str> = [place.as_str()].into_iter().chain(args.iter().copied()).collect();
        let report = session.check_guest_at(tracefork, "after_end", &args)?;
        report.ensure_code(0)?;
        let expected: BTreeSet<String> = expected.iter().map(|text| (*text).to_owned()).collect();
        ensure!(
            outputs(&report) == expected,
            "{way:?}: {:?}, expected {expected:?}",
            outputs(&report)
        );
    }
    Ok(())
}

/// Two servers that serve one connection at a time are two locks.
fn servers_that_serve_one_at_a_time(tracefork: &Tracefork, how: &str, code: i32) -> Result<()> {
    let server = peer_program("one_at_a_time")?;
    for way in WAYS {
        let session = Session::new()?.with(way);
        let (one, two) = (session.port.to_string(), free_port()?.to_string());
        let session = session
            .server(&format!("{} {one}", server.display()))
            .server(&format!("{} {two}", server.display()));
        let report = session.check_guest_at(tracefork, "two_servers", &[&one, &two, how])?;
        report.ensure_code(code).with_context(|| format!("{way:?}"))?;
        let kind = &report.json["violations"][0]["kind"];
        ensure!(code == 0 || kind == "deadlock", "{}", report.said());
    }
    Ok(())
}

/// What the kernel says of who came by IPv4 to an address of IPv6, and by IPv6.
fn who_came(tracefork: &Tracefork, host: &str) -> Result<()> {
    let client = peer_program("scripted_peer")?;
    let guest = guests::one("net/who_came.c")?.build()?;
    let session = Session::new()?;
    let port = session.port;
    let place = format!("{host}:{port}");
    let mut server = Command::new(&guest)
        .args([&port.to_string(), "1"])
        .stdout(Stdio::piped())
        .spawn()?;
    // It is refused as long as the server does not listen yet.
    while server.try_wait()?.is_none() {
        let mut native = Command::new(&client);
        native
            .args([&place, "client", "n", "1", "1"])
            .stderr(Stdio::null());
        if native.status()?.success() {
            break;
        }
    }
    let native = server.wait_with_output()?;
    let native = String::from_utf8(native.stdout)?.replace('\n', "|");
    let session = session.with(&["--client", &format!("{} {place} client n 1 1", client.display())]);
    let report = session.check_guest(tracefork, "who_came", &["1"])?;
    report.ensure_code(0)?;
    ensure!(
        outputs(&report) == BTreeSet::from([native.clone()]),
        "{:?}, natively {native}",
        outputs(&report)
    );
    Ok(())
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let mut trials = vec![
        trial(
            "left::in_order".to_owned(),
            &tracefork,
            in_order_a_blind_close_is_a_reset,
        ),
        trial(
            "left::by_a_fault".to_owned(),
            &tracefork,
            a_fault_tells_the_client_of_a_reset,
        ),
    ];
    for leave in LEAVES {
        let says = leave.says.replace(' ', "_");
        let name = format!("left::{}::{}::{says}", leave.place, leave.how);
        trials.push(trial(name, &tracefork, move |tracefork| {
            a_client_sees_how_it_was_left(tracefork, leave)
        }));
    }
    let after: [(&str, &str, &[&str], &[&str]); 4] = [
        ("unix", "unix", &["1"], &["EPIPE|end|"]),
        ("unix_early", "unix", &["1", "early"], &["EPIPE|end|", "ok|end|"]),
        ("tcp", "tcp", &["1"], &["ok|end|"]),
        ("tcp_twice", "tcp", &["2"], &["ok|EPIPE|end|", "ok|ok|end|"]),
    ];
    for (name, place, args, expected) in after {
        trials.push(trial(
            format!("after_the_end::{name}"),
            &tracefork,
            move |tracefork| after_the_end(tracefork, place, args, expected),
        ));
    }
    for (how, code) in [("buggy", 1), ("fixed", 0)] {
        trials.push(trial(
            format!("one_at_a_time::{how}"),
            &tracefork,
            move |tracefork| servers_that_serve_one_at_a_time(tracefork, how, code),
        ));
    }
    for host in ["127.0.0.1", "[::1]"] {
        trials.push(trial(format!("who_came::{host}"), &tracefork, move |tracefork| {
            who_came(tracefork, host)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
