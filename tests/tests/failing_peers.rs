//! Peers that fail: servers that die, hang, flood or do not come up, clients that fail, reset or never connect, answers that differ; and what is told of that.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tracefork_tests::directives::End;
use tracefork_tests::networked::{Peer, Session, peer_program};
use tracefork_tests::supervised::{TIME_LIMIT, Tracefork};
use tracefork_tests::{command_under_test, guests, packages, process};

tracefork_tests::suite![
    clients_that_never_rest_wait_too,
    a_client_that_fails_is_a_violation,
    a_server_that_does_not_come_up,
    servers_that_are_no_good,
    waits_end_with_the_command,
    another_namespaces_proc_is_refused,
    answers_that_differ_are_shown_or_allowed,
    what_peers_print_can_be_kept,
    a_client_that_resets_at_once_is_heard_as_natively,
    a_client_that_never_connects_is_told_of,
];

const RACE: Peer = Peer::Clients(2, "chat {i} 2");

/// A client that selects on a socket to which it could write, but does not, gets the answer that it looks for all the time.
fn clients_that_never_rest_wait_too(tracefork: &Tracefork) -> Result<()> {
    const CLIENT: &str = "import select, socket, sys\n\
                          s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n\
                          s.send(b'1\\n')\n\
                          while not select.select([s], [s], [])[0]: pass\n\
                          sys.exit(s.recv(10) != b'A')\n";
    let session = Session::new()?;
    let python = packages::command("python3", "python3")?;
    let script = session.scratch.beside("client.py");
    std::fs::write(&script, CLIENT)?;
    let client = format!("{} {} {}", python.display(), script.display(), session.port);
    let session = session.with(&["--client", &client, "--expect-client-exit", "0"]);
    let result = session.check_guest(tracefork, "alphabet_server", &["1", "1"])?;
    result.ensure_code(0)
}

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

fn a_server_that_does_not_come_up(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?.server("sh -c 'echo no room here; exit 3'");
    let result = session.check_guest(tracefork, "alphabet_client", &["1", "1"])?;
    result.ensure_code(5)?;
    ensure!(result.said().contains("no room here"), "{}", result.said());
    Ok(())
}

/// Each is named, with what it did, and ends the check with exit code 5.
fn servers_that_are_no_good(tracefork: &Tracefork) -> Result<()> {
    const SOON: &[&str] = &["--peer-timeout", "2s"];
    for (kind, options, told) in [
        ("dies", &[][..], &["died (exit status 3)", "cannot go on"][..]),
        ("hangs", SOON, &["hangs", "computes"]),
        ("floods", &[], &["floods", "more and more"]),
        ("drips", SOON, &["hangs", "a little at a time"]),
        ("once", &[], &["has refused another connection"]),
    ] {
        let session = Session::new()?.peer(Peer::Lines(kind))?.with(options);
        let result = session.check_guest(tracefork, "racing_client", &[])?;
        result.ensure_code(5).context(kind)?;
        for text in told {
            ensure!(
                result.said().contains(text),
                "{kind}: no {text:?} in\n{}",
                result.said()
            );
        }
    }
    Ok(())
}

/// A wait for a peer ends with the time that the whole command has, and by a signal, whatever the peer does.
fn waits_end_with_the_command(tracefork: &Tracefork) -> Result<()> {
    for kind in ["drips", "hangs"] {
        let session = Session::new()?.peer(Peer::Lines(kind))?;
        let session = session.with(&["--peer-timeout", "1h", "--time-limit", "1s"]);
        let result = session.check_guest(tracefork, "racing_client", &[])?;
        result.ensure_code(3).context(kind)?;
    }
    // A server that does not come up is waited for no longer, either.
    let session = Session::new()?.with(&["--server", "sleep 1000", "--time-limit", "1s"]);
    session
        .check_guest(tracefork, "racing_client", &[])?
        .ensure_code(3)?;
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let session = Session::new()?;
        let (server, journal) = (peer_program("lines_server")?, session.scratch.beside("journal"));
        let client = guests::one("net/racing_client.c")?.build()?;
        let mut command = tracefork.command(&session.scratch.work());
        command.args(["check", "--quiet", "--peer-timeout", "1h", "--server"]);
        command.arg(format!(
            "{} {} drips {}",
            server.display(),
            session.port,
            journal.display()
        ));
        command.arg("--").arg(client).arg(session.port.to_string());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut check = command.spawn()?;
        process::wait_until(TIME_LIMIT, "asked", || {
            fs::metadata(&journal).is_ok_and(|file| file.len() > 0)
        });
        kill(Pid::from_raw(check.id() as i32), signal)?;
        let mut status = None;
        process::wait_until(TIME_LIMIT, "ended", || {
            status = check.try_wait().ok().flatten();
            status.is_some()
        });
        ensure!(
            status.and_then(|status| status.code()) == Some(3),
            "{signal}: {status:?}"
        );
    }
    Ok(())
}

/// Where /proc is about other processes, nothing can be known of ours: that is said, and nothing is waited for.
fn another_namespaces_proc_is_refused(_: &Tracefork) -> Result<()> {
    let session = Session::new()?;
    let mut command = std::process::Command::new("unshare");
    if !nix::unistd::geteuid().is_root() {
        command.arg("-r");
    }
    command.args(["-p", "-f"]).arg(command_under_test!());
    command.args(["run", "--", "/bin/true"]);
    command.current_dir(session.scratch.work());
    let finished = process::run(command, session.patience)?;
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    ensure!(finished.end == End::Exit(4), "{:?}: {said}", finished.end);
    ensure!(said.contains("/proc"), "{said}");
    Ok(())
}

fn answers_that_differ_are_shown_or_allowed(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?.peer(Peer::Lines("counts"))?;
    let result = session.check_guest(tracefork, "racing_client", &[])?;
    result.ensure_code(5)?;
    for text in ["not deterministic", "recorded", "≠ A", "| B"] {
        ensure!(result.said().contains(text), "no {text:?} in\n{}", result.said());
    }
    let session = Session::new()?.peer(Peer::Lines("counts"))?;
    let session = session.with(&["--allow-nondeterministic-peers"]);
    let result = session.check_guest(tracefork, "racing_client", &[])?;
    result.ensure_code(0)?;
    let notes = result.json["notes"].to_string();
    ensure!(notes.contains("only its first answers"), "{}", result.said());
    Ok(())
}

fn what_peers_print_can_be_kept(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?.peer(Peer::Lines("dies"))?;
    let kept = session.scratch.beside("printed");
    let session = session.with(&["--peer-output", &kept.display().to_string()]);
    session
        .check_guest(tracefork, "racing_client", &[])?
        .ensure_code(5)?;
    let mut all = String::new();
    for file in std::fs::read_dir(&kept)? {
        all.push_str(&std::fs::read_to_string(file?.path())?);
    }
    ensure!(all == "cannot go on\n", "{all:?}");
    Ok(())
}

fn a_client_that_resets_at_once_is_heard_as_natively(tracefork: &Tracefork) -> Result<()> {
    let (client, server) = (
        peer_program("resetter")?,
        guests::one("net/hears_out.c")?.build()?,
    );
    for words in [&[][..], &["hello"]] {
        let natively = {
            let port = Session::new()?.port.to_string();
            let mut native = Command::new(&server)
                .arg(&port)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            let mut ready = [0; 8];
            let mut stderr = native.stderr.take().context("it has one")?;
            std::io::Read::read_exact(&mut stderr, &mut ready)?;
            ensure!(Command::new(&client).arg(&port).args(words).status()?.success());
            String::from_utf8(native.wait_with_output()?.stdout)?
        };
        ensure!(natively.contains("ECONNRESET"), "{natively}");
        for mode in ["branching", "linear", "off"] {
            let session = Session::new()?;
            let command = format!("{} {{port}} {}", client.display(), words.join(" "));
            let session = session.with(&["--cache", mode, "--client", &command]);
            let result = session.check_guest(tracefork, "hears_out", &[])?;
            result.ensure_code(0)?;
            let heard = &result.json["outcomes"][0]["stdout"];
            ensure!(*heard == natively.as_str(), "{mode}: {}", result.said());
        }
    }
    Ok(())
}

fn a_client_that_never_connects_is_told_of(tracefork: &Tracefork) -> Result<()> {
    let session = Session::new()?.with(&["--client", "sleep 1000"]);
    let result = session.check_guest(tracefork, "hears_out", &[])?;
    result.ensure_code(0)?;
    let warnings = result.json["warnings"].to_string();
    ensure!(warnings.contains("no client connected"), "{}", result.said());
    let session = Session::new()?.with(&["--client", "true"]);
    let result = session.check_guest(tracefork, "hears_out", &[])?;
    result.ensure_code(5)?;
    ensure!(result.said().contains("before it connected"), "{}", result.said());
    Ok(())
}
