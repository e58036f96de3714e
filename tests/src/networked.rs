//! Networked guests under `tracefork check`, with their peers: one [`Session`] is one invocation, its [`Report`] what came of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

use crate::directives::End;
use crate::observe::Scratch;
use crate::process::{self, Finished};
use crate::supervised::{TIME_LIMIT, Tracefork};
use crate::{guests, packages};

/// Who is at the other end.
#[derive(Clone, Copy)]
pub enum Peer {
    /// `lines_server` of this kind.
    Lines(&'static str),
    /// So many times `lines_client` with these arguments; `{i}` is which one.
    Clients(usize, &'static str),
    /// So many times `curl` with these arguments before the address.
    Curls(usize, &'static str),
    /// Python's web server.
    Python,
    /// So many times `udp_lines` as a client with one request; if none, as a server.
    Datagrams(usize),
}

/// A test of the command.
pub fn trial(
    name: String,
    tracefork: &Tracefork,
    body: impl FnOnce(&Tracefork) -> Result<()> + Send + 'static,
) -> Trial {
    let tracefork = tracefork.clone();
    Trial::test(name, move || {
        body(&tracefork).map_err(|error| Failed::from(format!("{error:#}")))
    })
}

/// What is tried with the command.
pub type Test = fn(&Tracefork) -> Result<()>;

/// Runs the tests that the command line of the suite selects.
pub fn run_suite(command: &Path, tests: &[(&str, Test)]) -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command);
    let trials = tests
        .iter()
        .map(|&(name, body)| trial(name.to_owned(), &tracefork, body));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// A port for a test.
pub fn free_port() -> Result<u16> {
    Ok(test_ports::free()?)
}

/// One invocation of tracefork.
pub struct Session {
    pub scratch: Scratch,
    pub port: u16,
    pub options: Vec<String>,
    /// When it hangs, for all we know.
    pub patience: Duration,
}

/// What a check said.
pub struct Report {
    pub finished: Finished,
    pub json: Value,
}

impl Session {
    pub fn new() -> Result<Session> {
        let scratch = Scratch::new()?;
        fs::write(scratch.beside("page.txt"), "a small page\n")?;
        Ok(Session {
            scratch,
            port: free_port()?,
            options: Vec::new(),
            // The largest programs are only explored where time is no matter.
            patience: match std::env::var_os("TRACEFORK_ALL") {
                Some(_) => 12 * TIME_LIMIT,
                None => TIME_LIMIT,
            },
        })
    }

    pub fn with(mut self, options: &[&str]) -> Session {
        self.options
            .extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    pub fn server(self, command: &str) -> Session {
        self.with(&["--server", command])
    }

    pub fn peer(mut self, peer: Peer) -> Result<Session> {
        let port = self.port;
        match peer {
            Peer::Lines(kind) => {
                let server = peer_program("lines_server")?;
                Ok(self.server(&format!("{} {port} {kind}", server.display())))
            }
            Peer::Python => {
                let python = packages::command("python3", "python3")?;
                let root = self.root()?;
                // The time of day in its answers would make them differ from one second to the next.
                let script = format!(
                    "import functools, http.server as h; H = h.SimpleHTTPRequestHandler; \
                     H.date_time_string = lambda *a, **k: 'today'; \
                     h.HTTPServer(('', {port}), functools.partial(H, directory='{}')).serve_forever()",
                    root.display()
                );
                Ok(self.server(&format!("{} -c \"{script}\"", python.display())))
            }
            Peer::Clients(count, args) => {
                let client = peer_program("lines_client")?;
                for i in 0..count {
                    let args = args.replace("{i}", &i.to_string());
                    self = self.with(&["--client", &format!("{} {{port}} {args}", client.display())]);
                }
                Ok(self)
            }
            Peer::Datagrams(clients) => {
                let peer = peer_program("udp_lines")?;
                match clients {
                    0 => Ok(self.server(&format!("{} {port} server", peer.display()))),
                    n => Ok(self.with(&["--client", &format!("{n}*{} {port} client 1", peer.display())])),
                }
            }
            Peer::Curls(count, args) => {
                let curl = packages::command("curl", "curl")?;
                let command = format!("{count}*{} -s {args} http://{{addr}}/", curl.display());
                Ok(self.with(&["--client", &command]))
            }
        }
    }

    pub fn check(&self, tracefork: &Tracefork, program: &str, args: &[&str]) -> Result<Report> {
        let json = self.scratch.beside("result.json");
        let mut command = tracefork.command(&self.scratch.work());
        command.args(["check", "--quiet", "--trace-dir"]);
        command
            .arg(self.scratch.beside("traces"))
            .arg("--json")
            .arg(&json);
        command.args(&self.options).arg("--").arg(program).args(args);
        let finished = process::run(command, self.patience)?;
        let text = fs::read_to_string(&json).unwrap_or_default();
        Ok(Report {
            json: serde_json::from_str(&text).unwrap_or_default(),
            finished,
        })
    }

    /// The guest is given this session's port, and then `args`.
    pub fn check_guest(&self, tracefork: &Tracefork, guest: &str, args: &[&str]) -> Result<Report> {
        let port = self.port.to_string();
        let args: Vec<&str> = [port.as_str()].into_iter().chain(args.iter().copied()).collect();
        self.check_guest_at(tracefork, guest, &args)
    }

    /// The guest is given `args`.
    pub fn check_guest_at(&self, tracefork: &Tracefork, guest: &str, args: &[&str]) -> Result<Report> {
        let guest = guests::one(&format!("net/{guest}.c"))?.build()?;
        self.check(tracefork, &guest.display().to_string(), args)
    }

    /// A directory with a small page in it.
    pub fn root(&self) -> Result<PathBuf> {
        let page = self.scratch.beside("page.txt");
        let root = page.parent().map(Path::to_owned);
        root.context("the page lies in a directory")
    }
}

impl Report {
    pub fn said(&self) -> String {
        format!(
            "{}\n{}",
            self.json,
            String::from_utf8_lossy(&self.finished.stderr)
        )
    }

    pub fn ensure_code(&self, expected: i32) -> Result<()> {
        ensure!(
            self.finished.end == End::Exit(expected),
            "{:?}, expected exit code {expected}:\n{}",
            self.finished.end,
            self.said()
        );
        Ok(())
    }

    /// The outcomes without how often each was seen, and with this port made general.
    pub fn outcomes(&self, port: u16) -> BTreeSet<String> {
        let all = self.json["outcomes"].as_array().cloned().unwrap_or_default();
        let plain = all.into_iter().map(|mut outcome| {
            outcome["executions"] = Value::Null;
            outcome.to_string().replace(&port.to_string(), "PORT")
        });
        plain.collect()
    }
}

/// A guest that is a peer.
pub fn peer_program(name: &str) -> Result<PathBuf> {
    guests::one(&format!("peers/{name}.c"))?.build()
}
