//! Writes the papers' programs as tracefork explores them, beside the papers' figures, as a page in Markdown.
//!
//! `cargo run --release -p tracefork-tests --bin papers-table [LARGEST] > docs/papers-table.md` where LARGEST is the time that one search may take
//! (default 1h). What does not finish in that time is said so. Further arguments choose rows, by the program's name and arguments: `'chat_server 3'`; then only what is explored with the
//! peers (centralisation) is measured.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tracefork_tests::directives::End;
use tracefork_tests::networked::{Peer, Session};
use tracefork_tests::supervised::Tracefork;

/// A program, its peers, and what the paper reports: time without a cache, with the linear, with the branching one, new and revisited states in
/// thousands.
struct Row {
    guest: &'static str,
    args: &'static [&'static str],
    peer: Peer,
    paper: &'static str,
    /// What the papers report for centralisation: all processes explored together. `None` for programs that are not tried so.
    centralised: Option<&'static str>,
    /// What is searched for, beyond what the program does when all goes well.
    options: &'static [&'static str],
}

const fn row(guest: &'static str, args: &'static [&'static str], peer: Peer, paper: &'static str) -> Row {
    Row {
        guest,
        args,
        peer,
        paper,
        centralised: None,
        options: &[],
    }
}

/// Explored with its peers, too; beside what the papers say of that.
const fn centralised(row: Row, paper: &'static str) -> Row {
    Row {
        centralised: Some(paper),
        ..row
    }
}

/// Timeouts may come at any time.
const fn faulty(row: Row) -> Row {
    Row {
        options: &["--faults", "timeout"],
        ..row
    }
}

const ROWS: &[Row] = &[
    centralised(row("daytime_client", &["2"], Peer::Lines("daytime"), ""), ""),
    centralised(
        row(
            "daytime_client",
            &["3"],
            Peer::Lines("daytime"),
            "> 1 h, 0:25, 0:36, 55.2 / 36.3",
        ),
        "55:39",
    ),
    row("http_client", &["2"], Peer::Python, "3:01, 0:10, 0:12, 0.9 / 0.8"),
    row(
        "http_server",
        &["2"],
        Peer::Curls(2, ""),
        "> 1 h, 4:30, 1:47, 132.1 / 130.5",
    ),
    row(
        "http_server",
        &["2", "counter"],
        Peer::Curls(2, ""),
        "> 1 h, mismatch, 2:13, 137.0 / 135.4",
    ),
    row(
        "http_server",
        &["2", "clock"],
        Peer::Curls(2, ""),
        "> 1 h, mismatch, 1:43, 70.6 / 57.2",
    ),
    row(
        "jget",
        &["2"],
        Peer::Lines("file"),
        "13:03, 0:15, 0:16, 4.8 / 4.8",
    ),
    centralised(
        row("alphabet_client", &["2", "1"], Peer::Lines("alphabet"), ""),
        "did not finish",
    ),
    row(
        "alphabet_client",
        &["2", "5"],
        Peer::Lines("alphabet"),
        "59:32, 0:09, 0:09, 10.5 / 26.8",
    ),
    row("alphabet_client", &["3", "1"], Peer::Lines("alphabet"), ""),
    row("alphabet_client", &["3", "2"], Peer::Lines("alphabet"), ""),
    row(
        "alphabet_client",
        &["3", "5"],
        Peer::Lines("alphabet"),
        "> 1 h, 19:37, 16:50, 1113.7 / 4883.4",
    ),
    row("alphabet_client", &["4", "1"], Peer::Lines("alphabet"), ""),
    row(
        "alphabet_client",
        &["4", "2"],
        Peer::Lines("alphabet"),
        "> 1 h, 35:22, 30:55, 1691.8 / 9741.6",
    ),
    centralised(
        row("alphabet_server", &["2", "1"], Peer::Clients(2, "alphabet 1"), ""),
        "",
    ),
    centralised(
        row(
            "alphabet_server",
            &["3", "1"],
            Peer::Clients(3, "alphabet 1"),
            "48:49, 0:03, 0:07, 0.4 / 0.7",
        ),
        "",
    ),
    row("alphabet_server", &["4", "1"], Peer::Clients(4, "alphabet 1"), ""),
    row("alphabet_server", &["5", "1"], Peer::Clients(5, "alphabet 1"), ""),
    row(
        "alphabet_server",
        &["5", "5"],
        Peer::Clients(5, "alphabet 5"),
        "> 1 h, 54:18, 58:42, 3442.8 / 13638.9",
    ),
    row(
        "alphabet_server",
        &["6", "2"],
        Peer::Clients(6, "alphabet 2"),
        "> 1 h, 42:43, 47:04, 2360.6 / 11728.5",
    ),
    row(
        "alphabet_server",
        &["7", "1"],
        Peer::Clients(7, "alphabet 1"),
        "> 1 h, 36:35, > 1 h, –",
    ),
    centralised(
        row(
            "chat_server",
            &["2", "abstract"],
            Peer::Clients(2, "chat {i} 2"),
            "",
        ),
        "",
    ),
    centralised(
        row(
            "chat_server",
            &["3", "abstract"],
            Peer::Clients(3, "chat {i} 3"),
            "",
        ),
        "> 2 h",
    ),
    centralised(
        row("chat_server", &["2", "full"], Peer::Clients(2, "chat {i} 2"), ""),
        "",
    ),
    row("chat_server", &["3", "full"], Peer::Clients(3, "chat {i} 3"), ""),
    row(
        "chat_server",
        &["4", "abstract"],
        Peer::Clients(4, "chat {i} 4"),
        "> 1 h, 8:20, 20:13, 2718.0 / 6748.1",
    ),
    row(
        "chat_server",
        &["4", "full"],
        Peer::Clients(4, "chat {i} 4"),
        "> 1 h, mismatch, 24:25, 2718.0 / 6748.1",
    ),
    faulty(row(
        "webdav_client",
        &["buggy"],
        Peer::Python,
        "3:50, 0:04, 0:04 (finds the bug), 3.4 / 2.8",
    )),
    row(
        "webdav_server",
        &["2"],
        Peer::Curls(2, "-X OPTIONS"),
        "> 1 h, 13:56, 13:30, 1446.2 / 1443.5",
    ),
];

const INTRODUCTION: &str = "\
# The papers' programs

Written by `cargo run --release -p tracefork-tests --bin papers-table > docs/papers-table.md`. The programs are those of Artho, Leungwattanakit,
Hagiya, Tanabe and Yamamoto (TOOLS Europe 2008, ASE 2009), in C, against real peers; n is the number of threads or clients, m that of messages.

*Starts* are physical connections, or for a server under test the client processes that were started, the first ones included; *misses* are the
writes that reached a peer, *hits* those that the cache answered. `mismatch` is what the linear cache says where the requests depend on the
schedule. The papers' times (no cache, linear, branching; minutes) were taken inside Java PathFinder on an 8-core Xeon at 2.8 GHz; what is
comparable is what is explored, and the cache's figures, which do not depend on the machine. Arrivals are as in the papers (`--arrivals ordered`): what peers say is
there at once, and clients come in their order; starts and misses are the same in any order. The search is the default one: *states* are those of the search that
came to an end, a stateful one or, where that would take longer, one with dynamic reduction, which passes few.

*Centralised* is the time with the peers as processes beside the program and all their schedules explored (`--peers explored`), beside what the papers say of their centralisation; the outcomes are
the same.
";

fn main() -> Result<()> {
    // As long as the papers' programs were given.
    let limit = std::env::args().nth(1).unwrap_or_else(|| "1h".to_owned());
    let chosen: Vec<String> = std::env::args().skip(2).collect();
    let tracefork = Tracefork::new(&std::env::current_exe()?.with_file_name("tracefork-under-test"));
    if !chosen.is_empty() {
        return centralised_only(&tracefork, &chosen, &limit);
    }
    println!("{INTRODUCTION}");
    println!(
        "| program | n, m | starts | misses | hits | states new / revisited | linear | branching | complete | centralised (paper) | paper: no cache, linear, branching, states ×10³ |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for row in ROWS {
        let line = line(&tracefork, row, &limit);
        println!(
            "{}",
            line.with_context(|| format!("{} {:?}", row.guest, row.args))?
        );
    }
    Ok(())
}

/// These rows, as far as all processes are explored together.
fn centralised_only(tracefork: &Tracefork, chosen: &[String], limit: &str) -> Result<()> {
    for row in ROWS {
        let name = format!("{} {}", row.guest, row.args.join(" "));
        if chosen.iter().any(|wanted| name.starts_with(wanted.as_str())) {
            println!("{name}: {}", together(tracefork, row, limit)?);
        }
    }
    Ok(())
}

/// How long it takes to explore a program with its peers, beside what the papers say.
fn together(tracefork: &Tracefork, row: &Row, limit: &str) -> Result<String> {
    let Some(paper) = row.centralised else {
        return Ok("–".to_owned());
    };
    let (end, result) = search(tracefork, row, &["--peers", "explored", "--time-limit", limit])?;
    let time = match end {
        End::Exit(0) => time(&result),
        _ => format!("> {limit}"),
    };
    Ok(match paper {
        "" => time,
        paper => format!("{time} ({paper})"),
    })
}

fn search(tracefork: &Tracefork, row: &Row, options: &[&str]) -> Result<(End, Value)> {
    let session = Session {
        patience: Duration::from_secs(2 * 3600),
        ..Session::new()?.peer(row.peer)?
    };
    let session = session.with(options).with(row.options);
    let report = session.check_guest(tracefork, row.guest, row.args)?;
    ensure!(
        matches!(report.finished.end, End::Exit(0 | 1 | 3 | 5)),
        "{}",
        report.said()
    );
    Ok((report.finished.end, report.json))
}

fn line(tracefork: &Tracefork, row: &Row, limit: &str) -> Result<String> {
    let with_cache = |cache| ["--cache", cache, "--time-limit", limit, "--arrivals", "ordered"];
    let (end, linear) = search(tracefork, row, &with_cache("linear"))?;
    let linear = match end {
        End::Exit(0 | 1) => time(&linear),
        End::Exit(5) => "mismatch".to_owned(),
        _ => format!("> {limit}"),
    };
    let (end, result) = search(tracefork, row, &with_cache("branching"))?;
    ensure!(end != End::Exit(5), "{result}");
    let cache = &result["cache"];
    let starts = match row.peer {
        Peer::Lines(_) | Peer::Python => &cache["physical_connections"],
        _ => &cache["peer_starts"],
    };
    Ok(format!(
        "| {} | {} | {starts} | {} | {} | {} / {} | {linear} | {} | {} | {} | {} |",
        row.guest.replace('_', " "),
        row.args.join(", "),
        cache["misses"],
        cache["hits"],
        result["states"]["new"],
        result["states"]["revisited"],
        time(&result),
        match end {
            End::Exit(0) => "yes",
            End::Exit(1) => "finds the bug",
            _ => "no",
        },
        together(tracefork, row, limit)?,
        row.paper
    ))
}

fn time(result: &Value) -> String {
    format!("{:.2} s", result["time_s"].as_f64().unwrap_or_default())
}
