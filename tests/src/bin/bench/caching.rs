//! What the cache of communication spares, and what it costs.

use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use session::Session;
use session::network::Peers;
use syscall_model::{Pending, Sysno};
use tracefork_tests::guests;
use tracefork_tests::networked::free_port;

use crate::bare::BareTask;
use crate::report::{Aim, Row};
use crate::sample::{Cost, busy, in_turns, timed};
use crate::subject::{Subject, well};
use crate::{Effort, subject};

/// A program of the papers: connections, messages, and on which side it is.
#[derive(Clone, Copy)]
struct Alphabet {
    serves: bool,
    connections: u32,
    messages: u32,
}

const CLIENTS: [Alphabet; 5] = [client(1), client(2), client(3), client(4), client(5)];
const SERVERS: [Alphabet; 3] = [server(2, 1), server(2, 2), server(3, 1)];

const fn client(messages: u32) -> Alphabet {
    Alphabet {
        serves: false,
        connections: 2,
        messages,
    }
}

const fn server(connections: u32, messages: u32) -> Alphabet {
    Alphabet {
        serves: true,
        connections,
        messages,
    }
}

fn built(path: &str) -> Result<PathBuf> {
    guests::one(path)?.build()
}

impl Alphabet {
    fn name(&self) -> String {
        let side = if self.serves { "server" } else { "client" };
        format!("alphabet {side} {}×{}", self.connections, self.messages)
    }

    /// The cost of a transition in a search with this cache: a complete one, or so many states of it.
    fn search(&self, cache: &str, states: Option<u32>) -> Result<Cost> {
        Ok(self.explore(["--cache", cache], states)?.0)
    }

    /// The same for any option, with the number of new states.
    fn explore(&self, option: [&str; 2], states: Option<u32>) -> Result<(Cost, u64)> {
        let (port, n, m) = (free_port()?, self.connections, self.messages);
        let mut command = Command::new(program()?);
        command.args(["check", "--quiet", "--json", "-"]).args(option);
        // The same search for all: without a cache there would be one, and several with.
        command.args(["--reduce", "sleep"]);
        if let Some(states) = states {
            command.args(["--max-states", &states.to_string()]);
        }
        if self.serves {
            let peer = built("peers/lines_client.c")?;
            let clients = format!("{n}*{} {port} alphabet {m}", peer.display());
            command.args(["--client", &clients, "--"]);
            command.arg(built("net/alphabet_server.c")?);
        } else {
            let peer = built("peers/lines_server.c")?;
            command.args(["--server", &format!("{} {port} alphabet", peer.display()), "--"]);
            command.arg(built("net/alphabet_client.c")?);
        }
        command.args([port.to_string(), n.to_string(), m.to_string()]);
        let before = busy()?;
        let output = command.output()?;
        let busy = busy()?.saturating_sub(before);
        let result: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let verdict = &result["verdict"];
        ensure!(
            *verdict == "ok" || *verdict == "incomplete" && states.is_some(),
            "{}: {result}",
            self.name()
        );
        let time = result["time_s"].as_f64().context("a time")?;
        let transitions = result["transitions"].as_u64().context("transitions")?;
        let states = result["states"]["new"].as_u64().context("states")?;
        let time = std::time::Duration::from_secs_f64(time);
        Ok((Cost::per(transitions, time, busy), states))
    }
}

/// No cache against the branching one. Without a cache every step back starts all peers again, so only the beginning of that search is measured.
pub fn spared(effort: &Effort) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for program in CLIENTS.iter().chain(&SERVERS).take(effort.of(8, 1)) {
        let [ours, without] = in_turns(
            effort.of(3, 1),
            [
                Box::new(|| program.search("branching", effort.of(None, Some(50)))),
                Box::new(|| program.search("off", Some(effort.of(400, 20)))),
            ],
        )?;
        rows.push(Row::speed(
            format!("cache: {}, against no cache", program.name()),
            ours,
            without,
            Aim::AtLeast(10.0),
        ));
    }
    Ok(rows)
}

/// The branching cache against the linear one, where that will do.
pub fn branching(effort: &Effort) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for program in [client(effort.of(3, 1)), server(effort.of(3, 2), 1)] {
        let states = effort.of(None, Some(50));
        let [ours, linear] = in_turns(
            effort.of(7, 1),
            [
                Box::new(|| program.search("branching", states)),
                Box::new(|| program.search("linear", states)),
            ],
        )?;
        rows.push(Row::new(
            format!("cache: {}, branching against linear", program.name()),
            ours,
            linear,
            Aim::AtMost(1.1),
        ));
    }
    Ok(rows)
}

/// Arrivals in any order against those in the order of the command line, for programs that cannot tell them apart.
pub fn arrivals(effort: &Effort) -> Result<Vec<Row>> {
    let program = client(effort.of(5, 1));
    let explore = |arrivals| program.explore(["--arrivals", arrivals], None);
    let (any, ordered) = (explore("any")?.1, explore("ordered")?.1);
    ensure!(
        any == ordered,
        "{}: {any} states with any order of arrival, {ordered} with one",
        program.name()
    );
    let [any, ordered] = in_turns(
        effort.of(7, 1),
        [
            Box::new(|| Ok(explore("any")?.0)),
            Box::new(|| Ok(explore("ordered")?.0)),
        ],
    )?;
    Ok(vec![Row::new(
        format!("check: {}, arrivals in any order against one", program.name()),
        any,
        ordered,
        Aim::AtMost(1.05),
    )])
}

/// A server that is there already, and is ended with the bench.
struct Lines(Child);

impl Lines {
    fn start(port: u16) -> Result<Lines> {
        let mut command = Command::new(built("peers/lines_server.c")?);
        command.args([&port.to_string(), "alphabet"]).stdin(Stdio::null());
        let lines = Lines(command.spawn()?);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::yield_now();
        }
        Ok(lines)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // It may have ended by itself; it must be waited for in any case.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A write that the cache answers, with the answer taken in, against a bare stop.
pub fn hits(effort: &Effort) -> Result<Vec<Row>> {
    let (port, writes) = (free_port()?, effort.of(2000_u64, 50));
    let _server = Lines::start(port)?;
    let subject = Subject::new(
        &subject::build("writes")?,
        &[&port.to_string(), &writes.to_string()],
    );
    let peers = Peers::new(
        peers::Config {
            allowed: vec![peers::Allowed::Inet(vec![Ipv4Addr::LOCALHOST.into()], Some(port))],
            ..peers::Config::default()
        },
        None,
    );
    // The first time the server is really told.
    written(&subject, &peers, writes)?;
    let mut bare = BareTask::start(&subject::build("calls")?, subject::core().number())?;
    let [hit, stop] = in_turns(
        effort.of(30, 2),
        [
            Box::new(|| written(&subject, &peers, writes)),
            Box::new(|| bare.stops(writes)),
        ],
    )?;
    let counters = peers.counters();
    ensure!(counters.misses == writes, "{counters:?}: these were no hits");
    Ok(vec![Row::new(
        "cache: a write that is a hit, against a bare stop",
        hit,
        stop,
        Aim::AtMost(1.5),
    )])
}

/// The cost of each write of one execution.
fn written(subject: &Subject, peers: &Peers, writes: u64) -> Result<Cost> {
    let mut options = subject.options()?;
    options.peers = peers.clone();
    let mut session = well(Session::start(options))?;
    while !at_write(&session)? {
        step(&mut session)?;
    }
    let cost = timed(writes, || (0..writes).try_for_each(|_| step(&mut session)))?;
    ensure!(!at_write(&session)?, "one transition is more than one write");
    session.finish();
    Ok(cost)
}

fn step(session: &mut Session) -> Result<()> {
    let enabled = session.movers().enabled();
    let thread = *enabled.first().context("the guest has ended")?;
    well(session.step(thread)).map(drop)
}

fn at_write(session: &Session) -> Result<bool> {
    let enabled = session.movers().enabled();
    let thread = *enabled.first().context("the guest has ended")?;
    let pending = &session.model().thread(thread).pending;
    Ok(matches!(pending, Pending::Call(call) if call.sysno == Sysno::write))
}

/// The program that is measured, built as this one was. `cargo run --bin bench` alone builds only this one.
pub fn program() -> Result<PathBuf> {
    let name = "tracefork-under-test";
    let program = std::env::current_exe()?.with_file_name(name);
    if !program.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args([
            "build",
            "--quiet",
            "--locked",
            "-p",
            env!("CARGO_PKG_NAME"),
            "--bin",
            name,
        ]);
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        ensure!(build.status()?.success(), "{name} cannot be built");
    }
    Ok(program)
}
