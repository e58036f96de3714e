//! A naive oracle for arrivals: the same programs natively, on real sockets, against peers that take their time at random. Whatever comes out must be among what
//! `tracefork check` lists.
//!
//! By default each program runs a few dozen times; `TRACEFORK_ALL=1` makes it thousands.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use tracefork_tests::command_under_test;
use tracefork_tests::dice::Dice;
use tracefork_tests::guests;
use tracefork_tests::networked::{Session, free_port, peer_program, trial};
use tracefork_tests::supervised::Tracefork;

/// A guest that ends by itself, whatever arrives when.
struct Case {
    guest: &'static str,
    /// After the port.
    args: &'static [&'static str],
    /// What each client says; none: there is a server, which puts `xy` before each line.
    clients: &'static [&'static str],
}

const fn case(guest: &'static str, args: &'static [&'static str], clients: &'static [&'static str]) -> Case {
    Case { guest, args, clients }
}

const CASES: &[Case] = &[
    case("numbers", &["2"], &["ann\n", "bob\n"]),
    case("numbers", &["3"], &["ann\n", "bob\n", "cyd\n"]),
    case("polls", &["2"], &[]),
    case("polls", &["3"], &[]),
    case("polls", &["3", "select"], &[]),
    case("stale", &["buggy"], &["kick\n", "hello\n"]),
    case("stale", &["fixed"], &["kick\n", "hello\n"]),
    case("early", &["buggy"], &[]),
    case("early", &["fixed"], &[]),
    case("pieces", &["buggy"], &[]),
    case("pieces", &["fixed"], &[]),
    case("wakeup", &["fixed"], &["ann\n", "bob\n"]),
    case("oneshot", &[], &[]),
    case("peeks", &["peek"], &[]),
    case("peeks", &["count"], &[]),
    case("acceptor", &["2"], &["ann\n", "bob\n"]),
    case("exclusive", &["2"], &["ann\n", "bob\n"]),
    case("doorman", &[], &["ann\n", "bob\n"]),
];

fn client(port: u16, text: &'static str, mut dice: Dice) {
    dice.dawdle();
    // The program may not listen yet, or may have ended without this client.
    for _ in 0..200 {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            dice.dawdle();
            let _ = stream.write_all(text.as_bytes());
            let _ = stream.read_to_end(&mut Vec::new());
            return;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

fn serve(stream: TcpStream, mut dice: Dice) {
    let Ok(mut answers) = stream.try_clone() else {
        return;
    };
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        dice.dawdle();
        if answers.write_all(format!("xy{line}\n").as_bytes()).is_err() {
            return;
        }
    }
}

/// Exit status and output of one native run.
fn run(case: &Case, program: &std::path::Path, seed: u64) -> Result<String> {
    let mut dice = Dice(seed);
    let port = free_port()?;
    let listener = if case.clients.is_empty() {
        Some(TcpListener::bind(("127.0.0.1", port))?)
    } else {
        None
    };
    let child = Command::new(program)
        .arg(port.to_string())
        .args(case.args)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(listener) = listener {
        // Ends with the process at the latest: nobody connects any more when the program has ended.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let dice = Dice(dice.roll(u64::MAX));
                std::thread::spawn(move || serve(stream, dice));
            }
        });
    } else {
        for &text in case.clients {
            let dice = Dice(dice.roll(u64::MAX));
            std::thread::spawn(move || client(port, text, dice));
        }
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(format!("{:?} {said:?}", output.status.code()))
}

/// The outcomes that a check lists.
fn listed(tracefork: &Tracefork, case: &Case, program: &std::path::Path) -> Result<BTreeSet<String>> {
    let session = Session::new()?;
    let sayer = format!("{} {}", peer_program("sayer")?.display(), session.port);
    let session = match case.clients {
        [] => session.server(&format!("{sayer} server xy")),
        clients => clients.iter().fold(session, |session, text| {
            session.with(&["--client", &format!("{sayer} client '{text}'")])
        }),
    };
    let port = session.port.to_string();
    let args: Vec<&str> = [port.as_str()]
        .into_iter()
        .chain(case.args.iter().copied())
        .collect();
    let report = session.check(tracefork, &program.display().to_string(), &args)?;
    report.ensure_code(0)?;
    let outcomes = report.json["outcomes"].as_array().context("outcomes")?;
    let plain = outcomes.iter().map(|outcome| {
        let status = outcome["exit"].as_i64().map(|status| status as i32);
        format!("{status:?} {:?}", outcome["stdout"].as_str().unwrap_or_default())
    });
    Ok(plain.collect())
}

fn nothing_else_happens(tracefork: &Tracefork, case: &Case) -> Result<()> {
    let program = guests::one(&format!("arrivals/{}.c", case.guest))?.build()?;
    let listed = listed(tracefork, case, &program)?;
    let runs = if std::env::var_os("TRACEFORK_ALL").is_some() {
        2000
    } else {
        30
    };
    for seed in 0..runs {
        let found = run(case, &program, seed)?;
        ensure!(
            listed.contains(&found),
            "run {seed} came to {found}; a check lists {listed:#?}"
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let trials = CASES.iter().map(|case| {
        let name = format!("{}::{}", case.guest, case.args.join("_"));
        trial(name, &tracefork, move |tracefork| {
            nothing_else_happens(tracefork, case)
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
