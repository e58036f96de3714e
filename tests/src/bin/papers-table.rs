//! Prints the papers' programs as tracefork explores them, beside the papers' figures, as a table in Markdown.
//!
//! `cargo run --release -p tracefork-tests --bin papers-table [LARGEST]` where LARGEST is the time that one program may take
//! (default 60s). What does not finish in that time is said so.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use tracefork_tests::guests;

/// A program, its peers, and what the paper reports (time with the branching cache, new states in thousands).
struct Row {
    guest: &'static str,
    args: &'static str,
    server: Option<&'static str>,
    clients: Option<(usize, &'static str)>,
    paper: &'static str,
}

const fn client(guest: &'static str, args: &'static str, server: &'static str, paper: &'static str) -> Row {
    Row {
        guest,
        args,
        server: Some(server),
        clients: None,
        paper,
    }
}

const fn server(
    guest: &'static str,
    args: &'static str,
    n: usize,
    talk: &'static str,
    paper: &'static str,
) -> Row {
    Row {
        guest,
        args,
        server: None,
        clients: Some((n, talk)),
        paper,
    }
}

const ROWS: &[Row] = &[
    client("daytime_client", "2", "daytime", "–"),
    client("daytime_client", "3", "daytime", "0:36, 55.2"),
    client("alphabet_client", "2 1", "alphabet", "–"),
    client("alphabet_client", "2 5", "alphabet", "0:09, 10.5"),
    client("alphabet_client", "3 1", "alphabet", "–"),
    client("alphabet_client", "3 2", "alphabet", "–"),
    client("alphabet_client", "4 1", "alphabet", "–"),
    client("jget", "2", "file", "0:16, 4.8"),
    server("alphabet_server", "2 1", 2, "alphabet 1", "–"),
    server("alphabet_server", "3 1", 3, "alphabet 1", "0:07, 0.4"),
    server("alphabet_server", "4 1", 4, "alphabet 1", "–"),
    server("alphabet_server", "5 1", 5, "alphabet 1", "–"),
    server("chat_server", "2 abstract", 2, "chat {i} 2", "–"),
    server("chat_server", "3 abstract", 3, "chat {i} 3", "–"),
    server("chat_server", "4 abstract", 4, "chat {i} 4", "20:13, 2718"),
    server("chat_server", "2 full", 2, "chat {i} 2", "–"),
    server("chat_server", "3 full", 3, "chat {i} 3", "–"),
    server("chat_server", "4 full", 4, "chat {i} 4", "24:25, 2718"),
];

fn main() -> Result<()> {
    let limit = std::env::args().nth(1).unwrap_or_else(|| "60s".to_owned());
    let tracefork = std::env::current_exe()?.with_file_name("tracefork-under-test");
    println!(
        "| program | n, m | starts | misses | hits | states new / revisited | time | complete | paper: time, new states ×10³ |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for row in ROWS {
        println!(
            "{}",
            line(&tracefork, row, &limit).with_context(|| format!("{} {}", row.guest, row.args))?
        );
    }
    Ok(())
}

fn built(path: &str) -> Result<PathBuf> {
    guests::one(path)?.build()
}

fn line(tracefork: &PathBuf, row: &Row, limit: &str) -> Result<String> {
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let mut command = Command::new(tracefork);
    command.args(["check", "--quiet", "--json", "-", "--time-limit", limit]);
    if let Some(kind) = row.server {
        let peer = built("peers/lines_server.c")?;
        command
            .arg("--server")
            .arg(format!("{} {port} {kind}", peer.display()));
    }
    for i in 0..row.clients.map_or(0, |(n, _)| n) {
        let peer = built("peers/lines_client.c")?;
        let talk = row
            .clients
            .map_or("", |(_, talk)| talk)
            .replace("{i}", &i.to_string());
        command
            .arg("--client")
            .arg(format!("{} {{port}} {talk}", peer.display()));
    }
    command
        .arg("--")
        .arg(built(&format!("net/{}.c", row.guest))?)
        .arg(port.to_string());
    command.args(row.args.split_whitespace());
    let output = command.output()?;
    let result: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let cache = &result["cache"];
    let starts = match row.server {
        Some(_) => &cache["physical_connections"],
        None => &cache["peer_starts"],
    };
    let complete = if result["verdict"] == "ok" { "yes" } else { "no" };
    Ok(format!(
        "| {} | {} | {starts} | {} | {} | {} / {} | {:.1} s | {complete} | {} |",
        row.guest.replace('_', " "),
        row.args.replace(' ', ", "),
        cache["misses"],
        cache["hits"],
        result["states"]["new"],
        result["states"]["revisited"],
        result["time_s"].as_f64().unwrap_or_default(),
        row.paper
    ))
}
