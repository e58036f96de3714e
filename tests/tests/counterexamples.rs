//! Counterexamples: the same bytes each time, replayed as often as one likes, and printed as the golden files in
//! `tests/guests/check/golden` show.
//!
//! `TRACEFORK_BLESS=1` writes the golden files anew; `TRACEFORK_REPLAYS=100` replays each that often.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use tracefork_tests::command_under_test;
use tracefork_tests::directives::End;
use tracefork_tests::guests::{self, Guest};
use tracefork_tests::observe::Scratch;
use tracefork_tests::process::{self, Finished};
use tracefork_tests::supervised::{TIME_LIMIT, Tracefork};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let mut trials = Vec::new();
    for guest in guests::all("check").expect("the guests can be read") {
        if guest.directives.expect.is_none() {
            continue;
        }
        let tracefork = tracefork.clone();
        trials.push(Trial::test(guest.name.clone(), move || {
            show(&guest, &tracefork).map_err(|error| Failed::from(format!("{error:#}")))
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn check(guest: &Guest, tracefork: &Tracefork, scratch: &Scratch, traces: &str) -> Result<Finished> {
    let directives = &guest.directives;
    let mut command = tracefork.command(&scratch.work());
    command.args(["check", "--trace-dir"]).arg(scratch.beside(traces));
    if let [mode] = directives.modes[..] {
        command.args(["--preempt", mode.name()]);
    }
    command.args(&directives.options).arg("--").arg(guest.build()?);
    command.args(&directives.args);
    process::run(command, TIME_LIMIT)
}

fn show(guest: &Guest, tracefork: &Tracefork) -> Result<()> {
    let scratch = Scratch::new()?;
    let finished = check(guest, tracefork, &scratch, "traces")?;
    let printed = String::from_utf8_lossy(&finished.stdout).into_owned();
    ensure!(finished.end == End::Exit(1), "{:?}\n{printed}", finished.end);
    let last = printed.lines().last().context("something is printed")?;
    let trace = last
        .strip_prefix("tracefork replay ")
        .with_context(|| format!("the last line is no command: {last}"))?;
    let bytes = fs::read(trace).context("the trace is there")?;
    let again = check(guest, tracefork, &scratch, "traces again")?;
    ensure!(again.end == finished.end);
    let name = Path::new(trace).file_name().context("a trace has a name")?;
    let second = fs::read(scratch.beside("traces again").join(name)).context("the same trace again")?;
    ensure!(bytes == second, "two searches wrote different traces");
    replay(tracefork, &scratch, trace, &printed)?;
    compare_with_golden(guest, &printed)
}

fn replay(tracefork: &Tracefork, scratch: &Scratch, trace: &str, printed: &str) -> Result<()> {
    let violation = printed.lines().next().context("the violation comes first")?;
    let times = std::env::var("TRACEFORK_REPLAYS").map_or(Ok(3), |text| text.parse())?;
    for _ in 0..times {
        let mut command = tracefork.command(&scratch.work());
        command.args(["replay", trace]);
        let replayed = process::run(command, TIME_LIMIT)?;
        let said = String::from_utf8_lossy(&replayed.stderr).into_owned();
        ensure!(replayed.end == End::Exit(1), "{:?}\n{said}", replayed.end);
        ensure!(
            said.lines().any(|line| line == violation),
            "no `{violation}` in\n{said}"
        );
    }
    let mut command = tracefork.command(&scratch.work());
    command.args(["replay", trace, "--stop-at", "3"]);
    let stopped = process::run(command, TIME_LIMIT)?;
    let said = String::from_utf8_lossy(&stopped.stderr).into_owned();
    ensure!(said.contains("3 steps replayed"), "{said}");
    ensure!(stopped.end == End::Exit(0), "nothing is violated yet: {said}");
    Ok(())
}

/// What does not depend on the machine: the violation, and of each step the thread, the operation and the place.
fn golden_part(printed: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (index, line) in printed.lines().enumerate() {
        if index == 0 {
            lines.push(line.to_owned());
        } else if line.starts_with("  ! after step") {
            lines.push("! from here on every continuation ends in a violation".to_owned());
            break;
        } else if let Some((mark, step)) = split_step(line) {
            lines.push(format!("{mark} {step}").trim_end().to_owned());
        } else if line.is_empty() && lines.len() > 1 {
            break;
        }
    }
    let text = lines.join("\n") + "\n";
    let directory = guests::directory();
    without_addresses(&text.replace(&*directory.to_string_lossy(), "guests"))
}

/// What lies on the heap has no name, and where it lies depends on the compiler.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |done, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        done + "0x…" + rest
    })
}

/// Mark and rest of a line of the table, without the number of the step, which counts what the loader did.
fn split_step(line: &str) -> Option<(&str, &str)> {
    let (mark, rest) = line.strip_prefix("  ")?.split_at_checked(1)?;
    let rest = rest.trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    let step = rest.get(digits..)?.strip_prefix("  ")?;
    (digits > 0 && [" ", "!"].contains(&mark)).then_some((mark, step))
}

fn compare_with_golden(guest: &Guest, printed: &str) -> Result<()> {
    // What the loader of another program does depends on the libraries of this machine.
    if printed.contains(" execve(") {
        return Ok(());
    }
    let file = guests::directory()
        .join("check/golden")
        .join(format!("{}.txt", guest.name));
    let actual = golden_part(printed);
    if std::env::var_os("TRACEFORK_BLESS").is_some() {
        fs::create_dir_all(file.parent().context("a directory")?)?;
        fs::write(&file, &actual)?;
        return Ok(());
    }
    let expected = fs::read_to_string(&file)
        .with_context(|| format!("{} (TRACEFORK_BLESS=1 writes it)", file.display()))?;
    ensure!(
        actual == expected,
        "{} does not show what is printed now:\n{actual}\n--- instead of ---\n{expected}",
        file.display()
    );
    Ok(())
}
