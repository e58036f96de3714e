//! What peers can be and do: where they are, what is demanded of the traffic with them, when their absence is an end and when a deadlock, what is left of
//! them in a saved cache, and time that passes while they are waited for. Peers that fail are in `failing_peers`.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tracefork_tests::directives::End;
use tracefork_tests::networked::{Peer, Session, peer_program};
use tracefork_tests::observe::Scratch;
use tracefork_tests::supervised::{TIME_LIMIT, Tracefork};
use tracefork_tests::{guests, packages, process};

tracefork_tests::suite![
    servers_are_reached_at_any_address,
    clients_reach_any_address,
    a_server_that_runs_already,
    strangers_are_not_there,
    servers_answer_from_other_sockets,
    a_late_answer_is_neither_lost_nor_early,
    a_saved_cache_is_a_stub,
    addresses_are_usable,
    a_cache_file_that_cannot_be_written_is_told_at_once,
    a_saved_cache_stands_in_for_clients,
    the_watchdog_bug_needs_a_timeout,
    any_timed_wait_may_run_out,
    a_socket_out_of_reach_is_told_of,
    a_server_that_waits_is_idle,
    a_server_whose_workers_wait_for_each_other_is_not,
    traffic_has_properties,
    a_server_may_start_processes,
    a_counterexample_replays_without_peers,
];

/// IPv4, IPv6, a name in /etc/hosts, the wildcard, a Unix socket: `{port}` and `{dir}` are replaced.
const SERVERS: &[(&str, &str)] = &[
    ("127.0.0.1:{port}", "127.0.0.1:{port}"),
    ("[::1]:{port}", "[::1]:{port}"),
    ("0.0.0.0:{port}", "localhost:{port}"),
    ("[::]:{port}", "127.0.0.1:{port}"),
    ("{dir}/socket", "{dir}/socket"),
];

fn servers_are_reached_at_any_address(tracefork: &Tracefork) -> Result<()> {
    for (server_at, client_at) in SERVERS {
        let session = Session::new()?;
        let dir = session.root()?.display().to_string();
        let port = session.port.to_string();
        let fill = |text: &str| text.replace("{port}", &port).replace("{dir}", &dir);
        let server = peer_program("lines_server")?;
        let session = session.server(&format!("{} {} alphabet", server.display(), fill(server_at)));
        let result = session.check_guest_at(tracefork, "alphabet_client", &[&fill(client_at), "2", "1"])?;
        result.ensure_code(0).context(*server_at)?;
        let connections = &result.json["cache"]["physical_connections"];
        ensure!(*connections == 2, "{server_at}: {}", result.said());
    }
    Ok(())
}

/// The same the other way round, and a port of the kernel's choice.
fn clients_reach_any_address(tracefork: &Tracefork) -> Result<()> {
    let chosen = ("127.0.0.1:0", "{addr}");
    let placeholder = ("0.0.0.0:{port}", "{addr}");
    for (server_at, client_at) in SERVERS.iter().chain(&[chosen, placeholder]) {
        let session = Session::new()?;
        let dir = session.root()?.display().to_string();
        let port = session.port.to_string();
        let fill = |text: &str| text.replace("{port}", &port).replace("{dir}", &dir);
        let client = peer_program("lines_client")?;
        let command = format!("2*{} {} alphabet 1", client.display(), fill(client_at));
        let session = session.with(&["--client", &command, "--expect-client-exit", "0"]);
        let result = session.check_guest_at(tracefork, "alphabet_server", &[&fill(server_at), "2", "1"])?;
        result.ensure_code(0).context(*server_at)?;
        ensure!(
            result.json["cache"]["peer_starts"] == 2,
            "{server_at}: {}",
            result.said()
        );
    }
    Ok(())
}

/// Each of two clients hears from a port of its own, in every schedule, and what it says to that port is heard there.
fn servers_answer_from_other_sockets(tracefork: &Tracefork) -> Result<()> {
    let ways = [
        (&["2"][..], "branching"),
        (&["2"], "off"),
        (&["2", "bound"], "branching"),
    ];
    for (kind, cache) in ways {
        let session = Session::new()?;
        let client = format!(
            "2*{} {} transfer",
            peer_program("udp_lines")?.display(),
            session.port
        );
        let options = ["--client", &client, "--expect-client-exit", "0", "--cache", cache];
        let session = session.with(&options);
        let result = session.check_guest(tracefork, "udp_transfers", kind)?;
        let context = || format!("{kind:?}, {cache}");
        result.ensure_code(0).with_context(context)?;
    }
    Ok(())
}

/// Nobody has to start it for us: it is found by its address, and inspected.
fn a_server_that_runs_already(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?;
    let address = format!("127.0.0.1:{}", session.port);
    let session = session.with(&["--allow-connect", &address]);
    let server = Running::start(&session, "alphabet")?;
    let result = session.check_guest(tracefork, "alphabet_client", &["2", "1"])?;
    drop(server);
    result.ensure_code(0)?;
    ensure!(
        result.json["cache"]["physical_connections"] == 2,
        "{}",
        result.said()
    );
    ensure!(result.json["cache"]["peer_starts"] == 0, "{}", result.said());
    Ok(())
}

/// What is asked on one connection is answered when something is said on the other, and nobody can see that the server has not forgotten it. However
/// that is explored, the first thread hears nothing before it asks, and the answer after it did.
fn a_late_answer_is_neither_lost_nor_early(tracefork: &Tracefork) -> Result<()> {
    for options in [&[][..], &["--reduce", "none"], &["--cache", "linear"]] {
        let session = Session::new()?;
        let address = format!("127.0.0.1:{}", session.port);
        let session = session
            .with(&[
                "--settle",
                "1ms",
                "--preempt",
                "sync",
                "--allow-connect",
                &address,
            ])
            .with(options);
        let server = Running::start(&session, "holds")?;
        let scripts = ["connect", "2", "0d9wask/;l", "1wgo/;l"];
        let result = session.check_guest(&tracefork.curbed(), "scripted", &scripts)?;
        drop(server);
        result.ensure_code(0)?;
        let outcomes = result.outcomes(session.port);
        ensure!(outcomes.len() == 1, "{options:?}: {outcomes:#?}");
        let late = result.json["cache"]["late_answers"].as_u64();
        ensure!(
            late.is_some_and(|late| late > 0),
            "{options:?}: {}",
            result.said()
        );
    }
    Ok(())
}

/// Who was not named is not there: refused, no such file. The warning says who it was, and how to allow it.
fn strangers_are_not_there(tracefork: &Tracefork) -> Result<()> {
    let scratch = Scratch::new()?;
    let tcp = TcpListener::bind("127.0.0.1:0")?;
    let udp = UdpSocket::bind("127.0.0.1:0")?;
    let path = scratch.beside("stranger").display().to_string();
    let unix = UnixListener::bind(&path)?;
    let at = |address: SocketAddr| (address.port().to_string(), address.to_string());
    let (tcp_port, tcp_address) = at(tcp.local_addr()?);
    let (udp_port, udp_address) = at(udp.local_addr()?);
    let guest = guests::one("net/stranger.c")?.build()?.display().to_string();
    let run = |options: &[&str], kind: &str, to: &str| {
        let mut command = tracefork.command(&scratch.work());
        command.arg("run").args(options).args(["--", &guest, kind, to]);
        let finished = process::run(command, TIME_LIMIT)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok::<_, anyhow::Error>((finished.end, text(&finished.stdout), text(&finished.stderr)))
    };
    for (kind, to, address, errno) in [
        ("tcp", &tcp_port, &tcp_address, "ECONNREFUSED"),
        ("udp", &udp_port, &udp_address, "ECONNREFUSED"),
        ("unix", &path, &path, "ENOENT"),
    ] {
        let (end, said, complained) = run(&[], kind, to)?;
        ensure!(
            end == End::Exit(0) && said == format!("{errno}\n"),
            "{kind}: {end:?} {said} {complained}"
        );
        ensure!(
            complained.contains(&format!("--allow-connect {address}")),
            "{kind}: {complained}"
        );
    }
    tcp.set_nonblocking(true)?;
    unix.set_nonblocking(true)?;
    ensure!(
        tcp.accept().is_err() && unix.accept().is_err(),
        "they were contacted"
    );
    // What a server of ours listens on needs no naming; but it cannot be given a descriptor.
    let python = packages::command("python3", "python3")?;
    let path = scratch.beside("own").display().to_string();
    let listen = format!("s=socket.socket(socket.AF_UNIX);s.bind('{path}');s.listen()");
    let serve = "c=s.accept()[0];c.recv(9);c.recv(9)";
    let server = format!("{} -c \"import socket;{listen};{serve}\"", python.display());
    let (end, said, complained) = run(&["--server", &server], "rights", &path)?;
    ensure!(
        end == End::Exit(4) && said.is_empty() && complained.contains("SCM_RIGHTS"),
        "{end:?} {said} {complained}"
    );
    Ok(())
}

/// A server that nobody under test has started.
struct Running(Child);

impl Running {
    fn start(session: &Session, kind: &str) -> Result<Running> {
        let mut server = Command::new(peer_program("lines_server")?);
        server.args([&session.port.to_string(), kind]);
        let server = Running(server.stdout(Stdio::null()).spawn().context("the server")?);
        while TcpStream::connect(("127.0.0.1", session.port)).is_err() {
            std::thread::yield_now();
        }
        Ok(server)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, or it does now: either is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
    let miss = format!("cannot serve 127.0.0.1:{}", online.port);
    ensure!(third.said().contains(&miss), "{}", third.said());
    ensure!(third.said().contains("the answer to"), "{}", third.said());
    Ok(())
}

/// Whoever asks for addresses that this machine can use gets what a machine with a network would give.
fn addresses_are_usable(tracefork: &Tracefork) -> Result<()> {
    let python = packages::command("python3", "python3")?.display().to_string();
    let script = "import socket
for family, host in (0, '127.0.0.1'), (0, '::1'), (socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1'):
    found = socket.getaddrinfo(host, 80, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
    assert found[0][4][0] == host, found";
    let result = Session::new()?.check(tracefork, &python, &["-c", script])?;
    result.ensure_code(0)
}

/// Nothing is explored only to be lost.
fn a_cache_file_that_cannot_be_written_is_told_at_once(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?;
    let file = session
        .scratch
        .beside("missing")
        .join("cache")
        .display()
        .to_string();
    let session = session
        .with(&["--cache-file", &file])
        .peer(Peer::Lines("alphabet"))?;
    let result = session.check_guest(tracefork, "alphabet_client", &["2", "1"])?;
    result.ensure_code(5)?;
    ensure!(result.said().contains(&file), "{}", result.said());
    ensure!(result.json["transitions"] == 0, "{}", result.said());
    Ok(())
}

/// A server under test is checked against clients that are no more than what was recorded of them.
fn a_saved_cache_stands_in_for_clients(tracefork: &Tracefork) -> Result<()> {
    for (guest, args, peer) in [
        ("chat_server", &["2", "full"][..], Peer::Clients(2, "chat {i} 2")),
        ("udp_server", &["2", "counter"], Peer::Datagrams(2)),
    ] {
        let session = Session::new()?;
        let file = session.scratch.beside("cache").display().to_string();
        let online = session.with(&["--cache-file", &file]).peer(peer)?;
        let first = online.check_guest(tracefork, guest, args)?;
        first.ensure_code(0)?;
        let offline = Session {
            port: online.port,
            ..Session::new()?
        };
        let offline = offline.with(&["--cache-file", &file, "--offline"]);
        let second = offline.check_guest(tracefork, guest, args)?;
        second.ensure_code(0)?;
        ensure!(
            first.outcomes(online.port) == second.outcomes(online.port),
            "{guest}"
        );
        ensure!(second.json["cache"]["peer_starts"] == 0, "{}", second.said());
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
        // What it says does not depend on the watchdog.
        for cache in ["branching", "linear"] {
            let mut session = Session::new()?.peer(Peer::Python)?.with(&["--cache", cache]);
            if faults {
                session = session.with(&["--faults", "timeout"]);
            }
            let result = session.check_guest(tracefork, "webdav_client", &[version])?;
            result
                .ensure_code(code)
                .with_context(|| format!("{version}, faults: {faults}, {cache}"))?;
        }
    }
    Ok(())
}

/// That nobody comes to a socket which clients cannot reach is neither a deadlock nor in order.
fn a_socket_out_of_reach_is_told_of(tracefork: &Tracefork) -> Result<()> {
    for (kind, options) in [
        ("datagrams", &[][..]),
        ("datagrams", &["--peers", "inside"]),
        ("packets", &[]),
    ] {
        let session = Session::new()?.with(&["--client", "true"]).with(options);
        let path = session.root()?.join("box").display().to_string();
        let result = session.check_guest_at(tracefork, "mailbox", &[&path, kind])?;
        result.ensure_code(4).context(kind)?;
        let expected = format!("box, a Unix socket of {kind}");
        ensure!(result.said().contains(&expected), "{}", result.said());
    }
    Ok(())
}

fn a_server_that_waits_is_idle(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?.peer(Peer::Clients(1, "alphabet 1"))?;
    let result = session.check_guest(tracefork, "alphabet_server", &["2", "1"])?;
    result.ensure_code(0)?;
    ensure!(result.json["outcomes"][0]["idle"] == true, "{}", result.said());
    Ok(())
}

/// A copy of itself, and another program, whose output it passes on: the client hears from both.
fn a_server_may_start_processes(tracefork: &Tracefork) -> Result<()> {
    for (how, said) in [("fork", "from the child\n"), ("popen", "from another program\n")] {
        let session = Session::new()?.peer(Peer::Clients(1, "chat {i} 1"))?;
        let result = session.check_guest(tracefork, "second_process", &[how])?;
        result.ensure_code(0).context(how)?;
        let outcomes = result.json["outcomes"].as_array().context("outcomes")?;
        let is_sent = |outcome: &serde_json::Value| outcome["sent"].to_string().contains(said.trim_end());
        ensure!(
            !outcomes.is_empty() && outcomes.iter().all(is_sent),
            "{how}: {}",
            result.said()
        );
    }
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

/// Everything with a time limit can be too late, if asked for; if not, nothing is that need not be.
fn any_timed_wait_may_run_out(tracefork: &Tracefork) -> Result<()> {
    for kind in [
        "poll", "select", "epoll", "cond", "sem", "receive", "sleep", "alarm", "timerfd",
    ] {
        for (faults, outputs) in [(&[][..], 1), (&["--faults", "timeout"], 2)] {
            let session = Session::new()?.with(faults);
            let result = session.check_guest_at(tracefork, "timed_wait", &[kind])?;
            result.ensure_code(0).context(kind)?;
            let outcomes = result.outcomes(session.port);
            ensure!(outcomes.len() == outputs, "{kind} {faults:?}: {outcomes:#?}");
            let late = outcomes.iter().any(|outcome| outcome.contains("too late"));
            ensure!(late != faults.is_empty(), "{kind} {faults:?}: {outcomes:#?}");
        }
    }
    Ok(())
}

/// A deadlock of its own, though main waits for clients and the clients wait for it.
fn a_server_whose_workers_wait_for_each_other_is_not(tracefork: &Tracefork) -> Result<()> {
    for (version, code) in [("buggy", 1), ("fixed", 0)] {
        let session = Session::new()?.peer(Peer::Clients(2, "chat {i} 1"))?;
        let result = session.check_guest(tracefork, "locking_server", &[version])?;
        result.ensure_code(code).context(version)?;
        if code == 1 {
            let kind = &result.json["violations"][0]["kind"];
            ensure!(*kind == "deadlock", "{}", result.said());
        } else {
            ensure!(result.json["outcomes"][0]["idle"] == true, "{}", result.said());
        }
    }
    Ok(())
}
