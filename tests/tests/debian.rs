//! Packaged programs of Debian, natively and supervised: a part of `tests/debian/programs.toml`, another one with every commit, and the page that
//! tells of all of them. `TRACEFORK_DEBIAN_PART=K/N` chooses the part; `cargo run -p tracefork-tests --bin debian` runs all.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Trial};
use tracefork_tests::command_under_test;
use tracefork_tests::debian::part::{Part, VARIABLE};
use tracefork_tests::debian::{self, Kind, Program, table, trial};
use tracefork_tests::networked;
use tracefork_tests::supervised::Tracefork;

/// The least that the list promises.
const PROGRAMS: usize = 120;
const LANGUAGES: [&str; 9] = [
    "C",
    "C++",
    "Go",
    "Rust",
    "Java",
    "JavaScript",
    "Ruby",
    "Perl",
    "Python",
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let programs = debian::programs().expect("the list can be read");
    let (part, reason) = Part::of_the_day(programs.len()).expect("a part");
    let chosen = part.of(programs);
    println!("part {part} of the list, because {reason}; to run it again: {VARIABLE}={part}");
    let mut trials = vec![
        networked::trial("the_list_is_broad".into(), &tracefork, |_| is_broad()),
        networked::trial("nearly_all_are_the_same".into(), &tracefork, |_| {
            is_nearly_all_same()
        }),
        networked::trial("the_page_has_every_program".into(), &tracefork, |_| is_on_page()),
    ];
    // At once, before anything runs: an installation replaces files under running programs.
    let filtered = arguments.filter.is_some() || arguments.list;
    if !filtered && let Err(error) = debian::install(&chosen) {
        let error = format!("{error:#}");
        trials.push(Trial::test("packages_are_installed", move || Err(error.into())));
    }
    for program in chosen {
        let name = format!("{}::{}", kind_name(&program), program.name);
        trials.push(networked::trial(name, &tracefork, move |tracefork| {
            debian::install(std::slice::from_ref(&program))?;
            program.check(&trial::judge(&program, tracefork)?)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn kind_name(program: &Program) -> &'static str {
    match program.kind {
        Kind::Tool => "tool",
        Kind::Client => "client",
        Kind::Server => "server",
    }
}

/// What the list promises: enough programs, of every kind and language.
fn is_broad() -> Result<()> {
    let programs = debian::programs()?;
    ensure!(programs.len() >= PROGRAMS, "only {} programs", programs.len());
    for language in LANGUAGES {
        let is_there = programs.iter().any(|program| program.language == language);
        ensure!(is_there, "no program is in {language}");
    }
    for kind in [Kind::Tool, Kind::Client, Kind::Server] {
        let count = programs.iter().filter(|program| program.kind == kind).count();
        ensure!(count >= 20, "only {count} are {kind:?}s");
    }
    Ok(())
}

/// At least 95 % are the same as natively.
fn is_nearly_all_same() -> Result<()> {
    let path = table::page_file();
    let rows = table::rows(&std::fs::read_to_string(&path).with_context(|| path.display().to_string())?);
    let same = rows.values().filter(|row| row.as_str() == "same").count();
    ensure!(
        100 * same >= 95 * rows.len(),
        "only {same} of {} are the same",
        rows.len()
    );
    Ok(())
}

/// The page tells of exactly the programs of the list, and of each what the list expects.
fn is_on_page() -> Result<()> {
    let path = table::page_file();
    let page = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let rows = table::rows(&page);
    let advice = "write the page anew: cargo run --release -p tracefork-tests --bin debian -- --write";
    let programs = debian::programs()?;
    let listed: BTreeSet<&String> = programs.iter().map(|program| &program.name).collect();
    let shown: BTreeSet<&String> = rows.keys().collect();
    let differing: Vec<_> = listed.symmetric_difference(&shown).collect();
    ensure!(
        differing.is_empty(),
        "only in one of list and page: {differing:?}; {advice}"
    );
    for program in &programs {
        let (row, expected) = (&rows[&program.name], table::expected_result(program));
        ensure!(
            row.starts_with(expected),
            "{}: {row:?} on the page, {expected:?} in the list; {advice}",
            program.name
        );
    }
    Ok(())
}
