//! Runs the packaged programs of Debian that are listed in `tests/debian/programs.toml`, natively and supervised, and says what came of each.
//!
//! `cargo run --release -p tracefork-tests --bin debian -- [--only NAME]… [--part K/N] [--jobs N] [--write]`. Missing packages are installed. `--write`
//! writes `docs/debian.md`, which takes all programs. The exit code is 1 if something is not as the list says.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use tracefork_tests::debian::part::Part;
use tracefork_tests::debian::trial::{self, Verdict};
use tracefork_tests::debian::{self, Program, table};
use tracefork_tests::supervised::Tracefork;

struct Options {
    only: Vec<String>,
    part: Option<Part>,
    jobs: usize,
    write: bool,
}

/// What came of one program: an error if it could not even be tried.
type Tried = (Program, Result<Verdict>);

fn main() -> Result<ExitCode> {
    let options = options()?;
    let mut programs = debian::programs()?;
    if !options.only.is_empty() {
        let all = programs;
        let named = options.only.iter().map(|name| debian::named(all.clone(), name));
        programs = named.collect::<Result<Vec<_>>>()?.concat();
    }
    if let Some(part) = options.part {
        programs = part.of(programs);
    }
    debian::install(&programs)?;
    let results = judge_all(programs, options.jobs)?;
    let is_right = results
        .iter()
        .all(|(program, result)| is_expected(program, result).is_ok());
    let known: Vec<(Program, Verdict)> = results
        .into_iter()
        .filter_map(|(program, result)| Some((program, result.ok()?)))
        .collect();
    println!(
        "\n{}",
        table::Figures::of(known.iter().map(|(_, verdict)| verdict)).sentence()
    );
    if options.write {
        ensure!(is_right, "the page is written when all is as the list says");
        std::fs::write(table::page_file(), table::page(&known))?;
    }
    Ok(match is_right {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Whether this is what the list says of the program.
fn is_expected(program: &Program, result: &Result<Verdict>) -> Result<()> {
    match result {
        Ok(verdict) => program.check(verdict),
        Err(error) => bail!("it cannot be tried: {error:#}"),
    }
}

fn options() -> Result<Options> {
    let mut options = Options {
        only: Vec::new(),
        part: None,
        jobs: 2,
        write: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || {
            arguments
                .next()
                .with_context(|| format!("{argument} needs a value"))
        };
        match argument.as_str() {
            "--only" => options.only.push(value()?),
            "--part" => options.part = Some(Part::parse(&value()?)?),
            "--jobs" => options.jobs = value()?.parse().context("--jobs")?,
            "--write" => options.write = true,
            other => bail!("unknown argument {other}: --only NAME, --part K/N, --jobs N, --write"),
        }
    }
    let is_some = !options.only.is_empty() || options.part.is_some();
    ensure!(!(options.write && is_some), "--write takes all programs");
    ensure!(options.jobs > 0, "--jobs takes at least 1");
    Ok(options)
}

/// All of them, some at a time, each told when it is done; in the order of the list at the end.
fn judge_all(programs: Vec<Program>, jobs: usize) -> Result<Vec<Tried>> {
    let tracefork = Tracefork::new(&std::env::current_exe()?.with_file_name("tracefork-under-test"));
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let Some(program) = programs.get(nth) else { break };
                    let begun = Instant::now();
                    let result = trial::judge(program, &tracefork);
                    let shown = match &result {
                        Ok(Verdict::Same) => "same".to_owned(),
                        Ok(Verdict::Stops(message)) => format!("stops: {message}"),
                        Ok(Verdict::Differs(how)) => {
                            format!("differs {}", how.lines().next().unwrap_or_default())
                        }
                        Err(error) => format!(
                            "cannot be tried: {}",
                            error.to_string().lines().next().unwrap_or_default()
                        ),
                    };
                    println!(
                        "{:<24} {:>6.1} s  {shown}",
                        program.name,
                        begun.elapsed().as_secs_f64()
                    );
                    if let Err(error) = is_expected(program, &result) {
                        println!("{}: {error:#}\n", program.name);
                    }
                    if let Ok(mut done) = done.lock() {
                        done.push((nth, (program.clone(), result)));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().ok().context("a thread failed")?;
    done.sort_by_key(|(nth, _)| *nth);
    Ok(done.into_iter().map(|(_, tried)| tried).collect())
}
