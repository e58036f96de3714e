//! Real programs of several processes (`tests/debian/families.toml`): under ten seeds like natively, with real clients, and explored within a bound.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};
use libtest_mimic::{Arguments, Trial};
use tracefork_tests::debian::{self, Program, trial};
use tracefork_tests::directives::End;
use tracefork_tests::observe::{self, Scratch};
use tracefork_tests::supervised::{TIME_LIMIT, Tracefork};
use tracefork_tests::{command_under_test, networked, packages, process};

const SEEDS: [u64; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let programs = debian::families().expect("the list can be read");
    let mut trials = Vec::new();
    // At once, before anything runs: an installation replaces files under running programs.
    let filtered = arguments.filter.is_some() || arguments.list;
    if !filtered && let Err(error) = debian::install(&programs) {
        let error = format!("{error:#}");
        trials.push(Trial::test("packages_are_installed", move || Err(error.into())));
    }
    for program in programs {
        let same = program.clone();
        trials.push(networked::trial(
            format!("seeds::{}", program.name),
            &tracefork,
            move |tracefork| {
                debian::install(std::slice::from_ref(&same))?;
                same.check(&trial::judge_under(&same, tracefork, &SEEDS)?)
            },
        ));
        trials.push(networked::trial(
            format!("check::{}", program.name),
            &tracefork,
            move |tracefork| explored(&program, tracefork),
        ));
    }
    trials.push(networked::trial(
        "a_terminal_by_dropbear".into(),
        &tracefork,
        a_terminal_by_dropbear,
    ));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// No schedule within the bound breaks anything: without preemptions, and as far as some hundred states go.
fn explored(program: &Program, tracefork: &Tracefork) -> Result<()> {
    debian::install(std::slice::from_ref(program))?;
    for bound in [&["--bound-preemptions", "0"][..], &[]] {
        let options = [&["--max-states", "600"], bound].concat();
        let (finished, result) = trial::explore(program, tracefork, &options)?;
        ensure!(
            matches!(finished.end, End::Exit(0 | 3)),
            "{options:?}: {:?}: {} {result}",
            finished.end,
            String::from_utf8_lossy(&finished.stderr)
        );
        let new = result["states"]["new"].as_u64().unwrap_or(0);
        ensure!(
            finished.end == End::Exit(0) || new >= 20,
            "a limit after {new} states: {result}"
        );
    }
    Ok(())
}

/// A login with a key, and a terminal for it. The key is put where the server looks for it by the program under test, which writes to no real file.
fn a_terminal_by_dropbear(tracefork: &Tracefork) -> Result<()> {
    packages::install(&["dropbear-bin", "bsdutils"])?;
    let scratch = Scratch::new()?;
    let (work, port) = (scratch.work(), networked::free_port()?);
    let setup = "for key in host user; do dropbearkey -t ed25519 -f $key; done > /dev/null 2>&1 && dropbearkey -y -f user | grep ^ssh > user.pub";
    let made = process::run(shell(&work, setup), TIME_LIMIT)?;
    ensure!(made.end == End::Exit(0), "no keys: {:?}", made.end);
    let server = format!(
        "umask 077; mkdir -p ~root/.ssh; cp user.pub ~root/.ssh/authorized_keys; \
         exec dropbear -F -E -r host -p 127.0.0.1:{port} -P pid"
    );
    let client = format!(
        "script -qec \"dbclient -t -y -y -i {}/user -p {port} root@127.0.0.1 'tty; echo hello'\" /dev/null",
        work.display()
    );
    let peers = scratch.beside("peers");
    let mut command = tracefork.command(&work);
    command.args(["run", "--quiet", "--client", &client, "--peer-output"]);
    command.arg(&peers).args(["--", "/bin/sh", "-c", &server]);
    let finished = process::run(command, TIME_LIMIT)?;
    let mut printed = String::new();
    for file in fs::read_dir(&peers)? {
        printed += &String::from_utf8_lossy(&fs::read(file?.path())?);
    }
    ensure!(
        printed.contains("/dev/pts/0") && printed.contains("hello"),
        "{:?}: {printed} {}",
        finished.end,
        String::from_utf8_lossy(&finished.stderr)
    );
    Ok(())
}

fn shell(work: &Path, text: &str) -> Command {
    let mut command = observe::clean_command(Path::new("/bin/sh"), work);
    command.args(["-c", text]);
    command
}
