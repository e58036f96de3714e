//! `--faults` with real parts: connections and datagrams of peers, databases that lose power, recoveries, and files as outcomes. What faults do to a
//! single call is in the guests of `tests/guests/check`.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Result, ensure};
use serde_json::Value;
use tracefork_tests::directives::End;
use tracefork_tests::networked::{Peer, Report, Session, peer_program};
use tracefork_tests::observe::{Invocation, Scratch};
use tracefork_tests::supervised::{Checked, TIME_LIMIT, Tracefork};
use tracefork_tests::{guests, packages, process};

tracefork_tests::suite![
    a_wrong_name_is_a_usage_error,
    a_lost_datagram_is_asked_for_again,
    a_duplicate_reaches_the_server,
    datagrams_of_clients_have_mishaps,
    a_mishap_is_shown_and_replayed,
    answers_have_mishaps,
    a_write_is_torn,
    connections_to_peers_break,
    a_rename_without_sync_loses_data,
    a_recovery_is_replayed,
    a_database_survives_a_power_failure,
];

fn a_wrong_name_is_a_usage_error(tracefork: &Tracefork) -> Result<()> {
    let scratch = Scratch::new()?;
    let mut command = tracefork.command(&scratch.work());
    command.args(["check", "--faults", "timeout,disk", "--", "/bin/true"]);
    let finished = process::run(command, TIME_LIMIT)?;
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    ensure!(finished.end == End::Exit(2), "{said}");
    for name in ["short-read", "power", "signal=NAME"] {
        ensure!(said.contains(name), "{said}");
    }
    Ok(())
}

fn outputs(json: &Value) -> BTreeSet<&str> {
    let outcomes = json["outcomes"].as_array().into_iter().flatten();
    outcomes
        .filter_map(|outcome| outcome["stdout"].as_str())
        .collect()
}

/// Without a second try the program waits for ever for what got lost.
fn a_lost_datagram_is_asked_for_again(tracefork: &Tracefork) -> Result<()> {
    for (how, code) in [("once", 1), ("retry", 0)] {
        let session = Session::new()?
            .peer(Peer::Datagrams(0))?
            .with(&["--faults", "loss", "--keep-going"]);
        let report = session.check_guest(tracefork, "udp_payment", &[how])?;
        report.ensure_code(code)?;
        let kind = &report.json["violations"][0]["kind"];
        ensure!(code == 0 || kind == "deadlock", "{}", report.said());
        ensure!(outputs(&report.json).contains("paid"), "{}", report.said());
    }
    Ok(())
}

/// What arrives twice is handled twice, unless the server knows better: that is what it is told.
fn a_duplicate_reaches_the_server(tracefork: &Tracefork) -> Result<()> {
    let session =
        Session::new()?
            .peer(Peer::Datagrams(0))?
            .with(&["--faults", "duplicate", "--forbid-sent", "11"]);
    let report = session.check_guest(tracefork, "udp_payment", &["retry"])?;
    report.ensure_code(1)?;
    ensure!(
        report.json["violations"][0]["kind"] == "traffic",
        "{}",
        report.said()
    );
    Ok(())
}

fn lines(json: &Value) -> BTreeSet<String> {
    let found = outputs(json);
    found.iter().map(|text| text.replace('\n', "|")).collect()
}

/// A server that adds up what a client sends: 10 with number 1, then 5 with number 2.
fn sums(tracefork: &Tracefork, options: &[&str], args: &[&str]) -> Result<(BTreeSet<String>, Report)> {
    let payer = peer_program("udp_payer")?;
    let client = format!("{} {{port}} 10:1 5:2", payer.display());
    let session = Session::new()?.with(&["--client", &client]).with(options);
    let report = session.check_guest(tracefork, "udp_store", args)?;
    Ok((lines(&report.json), report))
}

/// What the network does to datagrams that clients send: each fault has exactly these outcomes, whether the server waits in poll or in recv.
fn datagrams_of_clients_have_mishaps(tracefork: &Tracefork) -> Result<()> {
    let cases: [(&str, &str, &[&str]); 5] = [
        ("loss", "buggy", &["15|", "10|", "5|"]),
        ("duplicate", "buggy", &["15|", "25|", "20|"]),
        ("duplicate", "fixed", &["15|"]),
        ("reorder", "buggy", &["15|", "out of order|15|"]),
        (
            "loss,duplicate,reorder",
            "fixed",
            &["15|", "10|", "5|", "out of order|15|"],
        ),
    ];
    let ways: [&[&str]; 4] = [
        &[],
        &["--arrivals", "ordered"],
        &["--cache", "off", "--reduce", "none", "--checkpoint", "fork"],
        &["--reduce", "dpor", "--no-hash", "--checkpoint", "none"],
    ];
    for (faults, how, expected) in cases {
        for way in ways {
            for args in [&[how][..], &[how, "poll"][..]] {
                let options: Vec<&str> = ["--faults", faults].iter().chain(way).copied().collect();
                let (found, report) = sums(tracefork, &options, args)?;
                report.ensure_code(0)?;
                let expected: BTreeSet<String> = expected.iter().map(|text| (*text).to_owned()).collect();
                ensure!(
                    found == expected,
                    "{options:?} {args:?}: {found:?}, expected {expected:?}"
                );
            }
        }
    }
    Ok(())
}

fn a_mishap_is_shown_and_replayed(tracefork: &Tracefork) -> Result<()> {
    let payer = peer_program("udp_payer")?;
    let client = format!("{} {{port}} 10:1 5:2", payer.display());
    let options = ["--client", &client, "--faults", "duplicate", "--require", "^15"];
    let session = Session::new()?.with(&options);
    let report = session.check_guest(tracefork, "udp_store", &["buggy"])?;
    report.ensure_code(1)?;
    let trace = report.json["violations"][0]["trace"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let run = |args: &[&str]| -> Result<(Option<i32>, String)> {
        let mut command = tracefork.command(&session.scratch.work());
        let output = command.args(args).arg(&trace).output()?;
        Ok((
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        ))
    };
    let page = session.scratch.beside("page.html").display().to_string();
    ensure!(run(&["replay"])?.0 == Some(1), "a replay finds nothing");
    for shown in [
        run(&["show"])?.1,
        run(&["show", "--json"])?.1,
        run(&["show", "--html", &page]).and_then(|_| Ok(fs::read_to_string(&page)?))?,
    ] {
        ensure!(
            shown.contains("a datagram to the program is duplicated"),
            "{shown}"
        );
    }
    let text = run(&["show"])?.1;
    // What happens on the way preempts nobody.
    ensure!(text.lines().any(|line| line.trim() == "needs: 1 fault"), "{text}");
    ensure!(
        report.json["violations"][0]["preemptions"] == 0,
        "{}",
        report.json
    );
    // It is received three times in all, and once more in vain.
    ensure!(text.matches("← client#0  \"10:1\"").count() == 2, "{text}");
    ensure!(text.matches("← client#0  \"5:2\"").count() == 1, "{text}");
    Ok(())
}

/// What a server answers may get lost or come twice, whether it is kept in flight or not.
fn answers_have_mishaps(tracefork: &Tracefork) -> Result<()> {
    for arrivals in ["any", "ordered"] {
        let session = Session::new()?.peer(Peer::Datagrams(0))?.with(&[
            "--faults",
            "loss",
            "--arrivals",
            arrivals,
            "--forbid-sent",
            "11",
        ]);
        // The first answer got lost: the server is asked again.
        let report = session.check_guest(tracefork, "udp_payment", &["retry"])?;
        report.ensure_code(1)?;
        ensure!(
            report.json["violations"][0]["kind"] == "traffic",
            "{arrivals}: {}",
            report.said()
        );
    }
    Ok(())
}

/// Any prefix of what was not synced may be there.
fn a_write_is_torn(tracefork: &Tracefork) -> Result<()> {
    let scratch = Scratch::new()?;
    let invocation = Invocation {
        program: "/bin/sh".into(),
        args: vec!["-c".to_owned(), "printf abc > file".to_owned()],
        stdin: Vec::new(),
    };
    let options = ["--faults", "power", "--files", "file", "--expect-exit", "any"];
    let checked = tracefork.check(&invocation, &options, &scratch)?;
    let outcomes = checked.result["outcomes"].as_array().into_iter().flatten();
    let contents: BTreeSet<Option<&str>> = outcomes
        .map(|outcome| outcome["files"]["file"].as_str())
        .collect();
    let expected = BTreeSet::from([None, Some(""), Some("a"), Some("ab"), Some("abc")]);
    ensure!(contents == expected, "{contents:?}: {}", checked.result);
    Ok(())
}

/// A client of a real web server: refused, reset, or answered.
fn connections_to_peers_break(tracefork: &Tracefork) -> Result<()> {
    let curl = packages::command("curl", "curl")?.display().to_string();
    let mut all = Vec::new();
    for cache in ["branching", "off"] {
        let session = Session::new()?.peer(Peer::Python)?.with(&[
            "--faults",
            "refused,reset",
            "--cache",
            cache,
            "--expect-exit",
            "any",
            // The server says what time it is: it must not be asked again and again.
            "--arrivals",
            "ordered",
        ]);
        let url = format!("http://127.0.0.1:{}/page.txt", session.port);
        let report = session.check(tracefork, &curl, &["-s", &url])?;
        report.ensure_code(0)?;
        let outcomes = report.json["outcomes"].as_array().into_iter().flatten();
        let exits: BTreeSet<i64> = outcomes.filter_map(|outcome| outcome["exit"].as_i64()).collect();
        // Curl's own words for: cannot connect, cannot receive or send.
        ensure!(exits.contains(&0) && exits.contains(&7), "{}", report.said());
        ensure!(exits.contains(&56) || exits.contains(&55), "{}", report.said());
        all.push(exits);
    }
    ensure!(all[0] == all[1], "the cache makes a difference: {all:?}");
    Ok(())
}

/// A guest that replaces a file, and a command that looks at it after the power has failed.
fn saves(tracefork: &Tracefork, scratch: &Scratch, how: &str) -> Result<Checked> {
    let invocation = Invocation {
        program: guests::one("other/saves.c")?.build()?,
        args: vec![how.to_owned()],
        stdin: Vec::new(),
    };
    fs::write(scratch.work().join("config"), "old")?;
    let recovery = "grep -e old -e new config";
    let options = [
        "--faults",
        "power",
        "--files",
        "config",
        "--recover",
        recovery,
        "--keep-going",
    ];
    tracefork.check(&invocation, &options, scratch)
}

fn a_rename_without_sync_loses_data(tracefork: &Tracefork) -> Result<()> {
    for (how, code) in [("plainly", 1), ("sync", 0)] {
        let scratch = Scratch::new()?;
        let checked = saves(tracefork, &scratch, how)?;
        let result = &checked.result;
        ensure!(checked.finished.end == End::Exit(code), "{how}: {result}");
        let outcomes = result["outcomes"].as_array().into_iter().flatten();
        let contents: BTreeSet<Option<&str>> = outcomes
            .map(|outcome| outcome["files"]["config"].as_str())
            .collect();
        // Not changed, and as it is to be; or empty, or cut off somewhere.
        ensure!(contents.contains(&None), "{how}: {result}");
        for cut in ["", "n", "ne"] {
            ensure!(
                contents.contains(&Some(cut)) == (how == "plainly"),
                "{how}: {result}"
            );
        }
        ensure!(
            fs::read_to_string(scratch.work().join("config"))? == "old",
            "the real file was touched"
        );
    }
    Ok(())
}

fn a_recovery_is_replayed(tracefork: &Tracefork) -> Result<()> {
    let scratch = Scratch::new()?;
    let checked = saves(tracefork, &scratch, "plainly")?;
    let trace = checked.result["violations"][0]["trace"].as_str();
    let trace = trace.unwrap_or_default().to_owned();
    let mut command = tracefork.command(&scratch.work());
    command.args(["replay", &trace]);
    let finished = process::run(command, TIME_LIMIT)?;
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    ensure!(finished.end == End::Exit(1), "{said}");
    ensure!(said.contains("the recovery exited with status 1"), "{said}");
    Ok(())
}

/// Money moves between two tables. With its journal sqlite3 recovers from a power failure at any point; told not to sync, it does not.
fn a_database_survives_a_power_failure(tracefork: &Tracefork) -> Result<()> {
    let sqlite = packages::command("sqlite3", "sqlite3")?;
    let sum = "PRAGMA integrity_check; SELECT (SELECT x FROM a) + (SELECT x FROM b)";
    let recovery = format!("{} money.db '{sum}'", sqlite.display());
    for (synchronous, code) in [("FULL", 0), ("OFF", 1)] {
        let scratch = Scratch::new()?;
        let mut command = std::process::Command::new(&sqlite);
        command.current_dir(scratch.work()).args([
            "money.db",
            "CREATE TABLE a(x); CREATE TABLE b(x); INSERT INTO a VALUES(100); INSERT INTO b VALUES(100)",
        ]);
        process::run(command, TIME_LIMIT)?;
        let transfer = format!(
            "PRAGMA synchronous={synchronous}; BEGIN; UPDATE a SET x=x-10; UPDATE b SET x=x+10; COMMIT; {sum}"
        );
        let invocation = Invocation {
            program: sqlite.clone(),
            args: vec!["money.db".to_owned(), transfer],
            stdin: Vec::new(),
        };
        let options = [
            "--faults",
            "power",
            "--recover",
            &recovery,
            "--require",
            "^ok\n200",
        ];
        let checked = tracefork.check(&invocation, &options, &scratch)?;
        ensure!(
            checked.finished.end == End::Exit(code),
            "synchronous={synchronous}: {}",
            checked.result
        );
    }
    Ok(())
}
