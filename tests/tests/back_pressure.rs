//! Peers that do not read: the program that writes to them comes to a halt, or is told that there is no room, as it does natively, and in every mode alike.

use std::fs;

use anyhow::{Context, Result, ensure};
use tracefork_tests::directives::End;
use tracefork_tests::networked::{Report, Session, peer_program};
use tracefork_tests::supervised::{TIME_LIMIT, Tracefork};
use tracefork_tests::{guests, process};

tracefork_tests::suite![
    a_blocking_write_blocks,
    a_lock_held_meanwhile_is_missed,
    there_is_no_room_without_blocking,
    natively_there_is_none_either,
    a_timeout_runs_out,
    slow_readers_read_all,
    some_is_read_and_the_rest_is_not,
    clients_need_not_read_either,
    a_saved_cache_knows_it_too,
];

/// Far more than any buffer holds.
const MUCH: &str = "12000000";
/// What the model lets be under way on a TCP connection.
const WINDOW: u64 = 4 << 20;

/// The cache modes and backends that must not differ.
const MODES: &[&[&str]] = &[
    &["--cache", "branching", "--checkpoint", "rewind"],
    &["--cache", "branching", "--checkpoint", "fork"],
    &["--cache", "branching", "--checkpoint", "none"],
    &["--cache", "linear"],
    &["--cache", "off"],
    &["--arrivals", "ordered"],
    &["--reduce", "none"],
];

/// A session with a server that reads so many bytes, and pauses for so many milliseconds after each read.
fn with_server(reads: u64, pause: u32) -> Result<Session> {
    let session = Session::new()?;
    let peer = peer_program("reluctant")?;
    let command = format!("{} {} server {reads} {pause}", peer.display(), session.port);
    Ok(session.server(&command))
}

fn outcome(report: &Report) -> (String, String, bool) {
    let only = &report.json["outcomes"][0];
    let text = |name: &str| only[name].as_str().unwrap_or_default().to_owned();
    (text("stdout"), text("stderr"), only["deadlock"] == true)
}

/// Checks in all modes: the same exit code and the same outcomes everywhere, which are those of the first.
fn in_all_modes(
    tracefork: &Tracefork,
    (reads, pause): (u64, u32),
    args: &[&str],
    code: i32,
) -> Result<Report> {
    let mut first: Option<(Report, _)> = None;
    for mode in MODES {
        let session = with_server(reads, pause)?.with(mode);
        let report = session.check_guest(tracefork, "pressed", args)?;
        report.ensure_code(code).with_context(|| mode.join(" "))?;
        let outcomes = report.outcomes(session.port);
        match &first {
            None => first = Some((report, outcomes)),
            Some((_, expected)) => ensure!(outcomes == *expected, "{mode:?} has other outcomes"),
        }
    }
    first.map(|(report, _)| report).context("there are modes")
}

fn a_blocking_write_blocks(tracefork: &Tracefork) -> Result<()> {
    let report = in_all_modes(tracefork, (0, 0), &["blocking", MUCH], 1)?;
    let message = report.json["violations"][0]["message"].to_string();
    ensure!(
        outcome(&report).2 && message.contains("does not read"),
        "{}",
        report.said()
    );
    // `run` sees it too, and the trace tells it again without the peer.
    let session = with_server(0, 0)?;
    let guest = guests::one("net/pressed.c")?.build()?;
    let trace = session.scratch.beside("run.trace");
    let mut command = tracefork.command(&session.scratch.work());
    command
        .arg("run")
        .arg("--trace")
        .arg(&trace)
        .args(&session.options);
    command
        .arg("--")
        .arg(&guest)
        .args([&session.port.to_string(), "blocking", MUCH]);
    let finished = process::run(command, TIME_LIMIT)?;
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    ensure!(
        finished.end == End::Exit(1) && said.contains("does not read"),
        "{said}"
    );
    let mut command = tracefork.command(&session.scratch.work());
    command.arg("replay").arg(&trace);
    let finished = process::run(command, TIME_LIMIT)?;
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    ensure!(
        finished.end == End::Exit(1) && said.contains("all as recorded; deadlock"),
        "{said}"
    );
    Ok(())
}

fn a_lock_held_meanwhile_is_missed(tracefork: &Tracefork) -> Result<()> {
    let report = in_all_modes(tracefork, (0, 0), &["held", MUCH], 1)?;
    ensure!(
        report.json["violations"][0]["kind"] == "deadlock",
        "{}",
        report.said()
    );
    // A peer that reads is in nobody's way.
    let report = with_server(12_000_000, 0)?.check_guest(tracefork, "pressed", &["held", MUCH])?;
    report.ensure_code(0)
}

fn there_is_no_room_without_blocking(tracefork: &Tracefork) -> Result<()> {
    let report = in_all_modes(tracefork, (0, 0), &["async", MUCH], 0)?;
    let (stdout, stderr, _) = outcome(&report);
    ensure!(stdout == "no room, not ready to write\n", "{stdout}");
    ensure!(stderr == format!("{WINDOW}\n"), "{stderr}");
    Ok(())
}

fn natively_there_is_none_either(_: &Tracefork) -> Result<()> {
    let session = Session::new()?;
    let peer = peer_program("reluctant")?;
    let place = session.scratch.beside("socket").display().to_string();
    let mut server = std::process::Command::new(peer)
        .args([&place, "server", "0", "0"])
        .spawn()?;
    let ended = (|| -> Result<_> {
        while !fs::exists(&place)? {
            std::thread::yield_now();
        }
        let guest = guests::one("net/pressed.c")?.build()?;
        let mut command = std::process::Command::new(guest);
        command.args([place.as_str(), "async", MUCH]);
        process::run(command, TIME_LIMIT)
    })();
    server.kill()?;
    server.wait()?;
    let finished = ended?;
    ensure!(
        finished.stdout == b"no room, not ready to write\n",
        "{finished:?}"
    );
    Ok(())
}

fn a_timeout_runs_out(tracefork: &Tracefork) -> Result<()> {
    let report = in_all_modes(tracefork, (0, 0), &["timed", MUCH], 0)?;
    ensure!(outcome(&report).0 == "timed out\n", "{}", report.said());
    Ok(())
}

fn slow_readers_read_all(tracefork: &Tracefork) -> Result<()> {
    const BYTES: u64 = 10_000_000;
    for manner in ["blocking", "edges"] {
        let report = in_all_modes(tracefork, (BYTES, 1), &[manner, &BYTES.to_string()], 0)?;
        let expected = format!("wrote {BYTES}, read {BYTES}\n");
        ensure!(outcome(&report).0 == expected, "{}", report.said());
    }
    Ok(())
}

fn some_is_read_and_the_rest_is_not(tracefork: &Tracefork) -> Result<()> {
    const READS: u64 = 5_000_000;
    let report = in_all_modes(tracefork, (READS, 0), &["async", MUCH], 0)?;
    let (stdout, stderr, _) = outcome(&report);
    ensure!(stdout == "no room, not ready to write\n", "{stdout}");
    ensure!(stderr == format!("{}\n", READS + WINDOW), "{stderr}");
    Ok(())
}

fn clients_need_not_read_either(tracefork: &Tracefork) -> Result<()> {
    let peer = peer_program("reluctant")?;
    for (manner, code, is_stuck) in [("blocking", 1, true), ("async", 0, false)] {
        let session = Session::new()?;
        let client = format!("{} {{port}} client 0 0", peer.display());
        let session = session.with(&["--client", &client]);
        let at = format!("serve:{}", session.port);
        let report = session.check_guest_at(tracefork, "pressed", &[&at, manner, MUCH])?;
        report.ensure_code(code)?;
        ensure!(outcome(&report).2 == is_stuck, "{}", report.said());
    }
    Ok(())
}

fn a_saved_cache_knows_it_too(tracefork: &Tracefork) -> Result<()> {
    let session = with_server(0, 0)?;
    let file = session.scratch.beside("cache").display().to_string();
    let session = session.with(&["--cache-file", &file]);
    let live = session.check_guest(tracefork, "pressed", &["async", MUCH])?;
    live.ensure_code(0)?;
    let mut offline = Session::new()?.with(&["--cache-file", &file, "--offline"]);
    offline.port = session.port;
    let stub = offline.check_guest(tracefork, "pressed", &["async", MUCH])?;
    stub.ensure_code(0)?;
    ensure!(
        stub.outcomes(session.port) == live.outcomes(session.port),
        "{}",
        stub.said()
    );
    Ok(())
}
