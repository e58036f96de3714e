//! Servers that answer when a timer of their event loop runs out: a program that waits for them is not deadlocked, and its own time limit is over
//! only if it is the shorter one.

use std::collections::BTreeSet;
use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Trial};
use tracefork_tests::networked::{Report, Session, peer_program, trial};
use tracefork_tests::supervised::Tracefork;
use tracefork_tests::{command_under_test, guests, packages, process};

/// How a server waits for input and for its timers.
const KINDS: &[&str] = &["poll", "epoll", "select", "timerfd", "ticks"];

const MODES: &[&[&str]] = &[
    &[],
    &["--checkpoint", "fork"],
    &["--checkpoint", "none"],
    &["--cache", "off", "--arrivals", "ordered"],
    &["--reduce", "none", "--preempt", "sync", "--arrivals", "ordered"],
    &["--jobs", "2"],
];

const ANSWERED: &str = "late a, late b\n";
const NOT_ANSWERED: &str = "nothing, nothing\n";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let kinds = KINDS.iter().map(|&kind| {
        trial(
            format!("timers are waited for: {kind}"),
            &tracefork,
            move |tracefork| {
                for limit in [None, Some("60000")] {
                    ensure_outcome(tracefork, &[], kind, "60", limit, ANSWERED)?;
                }
                Ok(())
            },
        )
    });
    let modes = MODES.iter().map(|&mode| {
        trial(
            format!("in every mode: {}", mode.join(" ")),
            &tracefork,
            move |t| ensure_outcome(t, mode, "epoll", "60", None, ANSWERED),
        )
    });
    let others: [Trial; 5] = [
        trial("the shorter limit counts".into(), &tracefork, |tracefork| {
            ensure_outcome(tracefork, &[], "epoll", "2000", Some("100"), NOT_ANSWERED)
        }),
        trial("asyncio".into(), &tracefork, asyncio),
        trial("clients come late".into(), &tracefork, clients_come_late),
        trial(
            "a connection that was closed is left alone".into(),
            &tracefork,
            left_alone,
        ),
        trial(
            "what is said apart may be read apart".into(),
            &tracefork,
            said_apart,
        ),
    ];
    let trials = kinds.chain(modes).chain(others).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Checks two threads that ask a server which answers after `delay`, and wait for no longer than `limit`: they get what they get natively, whoever is first.
fn ensure_outcome(
    tracefork: &Tracefork,
    mode: &[&str],
    kind: &str,
    delay: &str,
    limit: Option<&str>,
    expected: &str,
) -> Result<()> {
    let session = Session::new()?.with(mode);
    let server = peer_program("timer_server")?;
    let command = format!("{} {} {kind} {delay}", server.display(), session.port);
    ensure_prints(tracefork, session.server(&command), limit, expected)
        .with_context(|| format!("{kind} {limit:?}"))
}

/// In every schedule that is all that is printed.
fn ensure_prints(tracefork: &Tracefork, session: Session, limit: Option<&str>, expected: &str) -> Result<()> {
    let args: Vec<&str> = limit.into_iter().collect();
    let report = session.check_guest(tracefork, "waits_for_answers", &args)?;
    report.ensure_code(0)?;
    let outcomes = report.json["outcomes"].as_array().context("there are outcomes")?;
    let printed: BTreeSet<&str> = outcomes.iter().filter_map(|o| o["stdout"].as_str()).collect();
    ensure!(printed == BTreeSet::from([expected]), "{printed:?}");
    Ok(())
}

/// A server that nobody has written for this: a coroutine that sleeps before it answers.
fn asyncio(tracefork: &Tracefork) -> Result<()> {
    const SCRIPT: &str = "
import asyncio, sys
async def serve(reader, writer):
    line = await reader.readline()
    await asyncio.sleep(0.06)
    writer.write(b'late ' + line)
    await writer.drain()
async def main():
    server = await asyncio.start_server(serve, '127.0.0.1', int(sys.argv[1]))
    await server.serve_forever()
asyncio.run(main())
";
    let session = Session::new()?;
    let command = script(&session, SCRIPT)?;
    ensure_prints(tracefork, session.server(&command), Some("60000"), ANSWERED)
}

/// While the answer on its second connection is waited for, nobody makes the first one again to see whether anything comes there: this server would say something else.
fn left_alone(tracefork: &Tracefork) -> Result<()> {
    const SCRIPT: &str = "
import asyncio, sys
callers = 0
async def serve(reader, writer):
    global callers
    callers += 1
    answer = b'%d\\n' % callers
    await reader.readline()
    await asyncio.sleep(0.06)
    writer.write(answer)
    await writer.drain()
async def main():
    server = await asyncio.start_server(serve, '127.0.0.1', int(sys.argv[1]))
    await server.serve_forever()
asyncio.run(main())
";
    let session = Session::new()?;
    let server = script(&session, SCRIPT)?;
    let guest = guests::one("net/scripted.c")?.build()?;
    let json = session.scratch.beside("result.json");
    let mut command = tracefork.command(&session.scratch.work());
    command
        .args(["run", "--quiet", "--server", &server, "--json"])
        .arg(&json);
    command.arg("--").arg(guest).arg(session.port.to_string());
    command.args(["connect", "0", "owask/;lcowask/;lc"]);
    let finished = process::run(command, session.patience)?;
    let report = Report {
        finished,
        json: serde_json::from_str(&fs::read_to_string(&json)?)?,
    };
    report.ensure_code(0)?;
    ensure!(
        report.json["cache"]["physical_connections"] == 2,
        "{}",
        report.said()
    );
    Ok(())
}

/// A client that is in no hurry to connect: a server that waits for it has not been left alone.
fn clients_come_late(tracefork: &Tracefork) -> Result<()> {
    const SCRIPT: &str = "
import asyncio, sys
async def main():
    await asyncio.sleep(0.06)
    reader, writer = await asyncio.open_connection('127.0.0.1', int(sys.argv[1]))
    await reader.read()
asyncio.run(main())
";
    let session = Session::new()?;
    let command = script(&session, SCRIPT)?;
    let session = session.with(&["--client", &command]);
    let report = session.check_guest(tracefork, "who_came", &["1"])?;
    report.ensure_code(0)?;
    let came = report.json["outcomes"][0]["stdout"].to_string();
    ensure!(came.contains("127.0.0.1"), "{}", report.said());
    Ok(())
}

/// A client that pauses between two things that it says, in its sleep or in its event loop: a read may be given the first of them, or both. At once they are only both.
fn said_apart(tracefork: &Tracefork) -> Result<()> {
    const SCRIPT: &str = "
import asyncio, socket, sys, time
async def main():
    reader, writer = await asyncio.open_connection('127.0.0.1', int(sys.argv[1]))
    for word in (b'one', b'two'):
        writer.write(word)
        await writer.drain()
        WAIT
    writer.write_eof()
    await reader.read()
asyncio.run(main())
";
    let waits = [
        ("time.sleep(0.2)", 2),
        ("await asyncio.sleep(0.2)", 2),
        ("pass", 1),
    ];
    for (wait, expected) in waits {
        for mode in [
            &[][..],
            &["--checkpoint", "fork"],
            &["--reduce", "none"],
            &["--cache", "off"],
        ] {
            let session = Session::new()?.with(mode);
            let command = script(&session, &SCRIPT.replace("WAIT", wait))?;
            let session = session.with(&["--client", &command]);
            let report = session.check_guest(tracefork, "reads_parts", &[])?;
            report.ensure_code(0)?;
            let outcomes = report.outcomes(session.port);
            ensure!(outcomes.len() == expected, "{wait} {mode:?}: {outcomes:#?}");
        }
    }
    Ok(())
}

/// The command of a script in Python that is given the session's port.
fn script(session: &Session, text: &str) -> Result<String> {
    let python = packages::command("python3", "python3")?;
    let path = session.scratch.beside("script.py");
    std::fs::write(&path, text)?;
    Ok(format!(
        "{} {} {}",
        python.display(),
        path.display(),
        session.port
    ))
}
