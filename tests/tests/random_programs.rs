//! Random programs: every way to explore them finds what naive re-execution of every path finds.
//!
//! A few by default; `TRACEFORK_RANDOM_PROGRAMS=500` asks for more, `TRACEFORK_SEED=7` for others.

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use tracefork_tests::combinations::{Combination, NAIVE, compare};
use tracefork_tests::observe::{Invocation, Scratch};
use tracefork_tests::supervised::Tracefork;
use tracefork_tests::{command_under_test, guests, random_program};

/// Programs, unless the environment says how many.
const PROGRAMS: u64 = 2;
/// Combinations per program, beside the naive one; each program has others.
const COMBINATIONS: usize = 3;
/// Visible operations per thread, about.
const SIZE: u32 = 4;
/// Searches are cut here.
const MOST_STATES: u64 = 4000;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number in the environment"))
    };
    let first = test_seeds::seed_or(1);
    let trials = (first..first + number("TRACEFORK_RANDOM_PROGRAMS", PROGRAMS)).map(|seed| {
        let tracefork = tracefork.clone();
        Trial::test(format!("seed {seed}"), move || {
            explore(&tracefork, seed).map_err(|error| Failed::from(format!("{error:#}")))
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn explore(tracefork: &Tracefork, seed: u64) -> Result<()> {
    let scratch = Scratch::new()?;
    let source = random_program::source(seed, SIZE);
    let (file, program) = (scratch.beside("random.c"), scratch.beside("random"));
    fs::write(&file, &source)?;
    let output = Command::new("cc")
        .args(["-g", "-O1", "-w", "-pthread", "-I"])
        .arg(guests::directory())
        .arg("-o")
        .args([&program, &file])
        .output()
        .context("the C compiler")?;
    ensure!(
        output.status.success(),
        "{}\n{source}",
        String::from_utf8_lossy(&output.stderr)
    );
    let all = Combination::all();
    let chosen = (0..COMBINATIONS).map(|i| all[(seed as usize * 7 + i * 11) % all.len()]);
    let combinations: Vec<Combination> = [NAIVE].into_iter().chain(chosen).collect();
    let invocation = Invocation {
        program,
        args: Vec::new(),
        stdin: Vec::new(),
    };
    compare(tracefork, &invocation, &[], &combinations, MOST_STATES).with_context(|| source.clone())?;
    Ok(())
}
