//! A program under test that means harm: a file of the host stays what it is and a process of the host stays alive, whatever it tries, in a run and in a
//! search with either kind of checkpoint, which goes back and has it try again.

use std::fs;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use tracefork_tests::directives::End;
use tracefork_tests::observe::Scratch;
use tracefork_tests::process::run;
use tracefork_tests::supervised::Tracefork;
use tracefork_tests::{command_under_test, guests};

/// No attack may keep the supervisor busy for ever.
const TIME_LIMIT: Duration = Duration::from_mins(60);
/// How many states are looked at where there are more than a test can wait for: a number, and not a matter of time.
const MOST_STATES: &str = "2000";
const CONTENT: &str = "precious\n";

/// The exit code of a search that came to a limit.
const LIMIT: i32 = 3;

/// The attack, and the exit codes with which tracefork may end: 0 is a program that failed in its attempt, 3 one with more states than are looked at, 4 one that asked for what is not
/// modelled.
const ATTACKS: [(&str, &[i32]); 19] = [
    ("pages", &[0]),
    ("trapped", &[0]),
    ("int80", &[4]),
    // What it is depends on the processor: no instruction at all, a call that is not modelled, or, as natively, a way to nowhere that ends in SIGSEGV.
    ("sysenter", &[0, 1, 4]),
    ("compat", &[4]),
    ("x32", &[0]),
    ("high_bits", &[0]),
    ("vsyscall", &[0]),
    ("untraced", &[0, LIMIT]),
    ("tracer", &[0]),
    ("filters", &[0]),
    ("rings", &[0]),
    ("faults", &[0]),
    ("own_memory", &[0]),
    ("new_program", &[0]),
    ("signals", &[0]),
    ("forged", &[0, 1]),
    ("stepping", &[0]),
    ("privileges", &[0]),
];

const MODES: [(&str, &[&str]); 3] = [
    ("run", &["run"]),
    ("fork", &["check", "--checkpoint", "fork"]),
    ("rewind", &["check", "--checkpoint", "rewind"]),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = ATTACKS.iter().flat_map(|&(attack, codes)| {
        MODES.iter().map(move |&(mode, options)| {
            Trial::test(format!("{attack}::{mode}"), move || {
                attempt(attack, codes, options).map_err(Failed::from)
            })
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// A process of the host, which nobody under test may touch.
struct Victim(Child);

impl Victim {
    fn start() -> anyhow::Result<Self> {
        let mut command = Command::new("/bin/sleep");
        command.arg("1000").stdin(Stdio::null());
        Ok(Self(command.spawn()?))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may be dead, which is what the test is about.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn attempt(attack: &str, codes: &[i32], options: &[&str]) -> anyhow::Result<()> {
    let program = guests::one("hostile/escape.c")?.build()?;
    let scratch = Scratch::new()?;
    let file = scratch.beside("victim");
    fs::write(&file, CONTENT)?;
    let mut victim = Victim::start()?;
    let mut command = Tracefork::new(command_under_test!()).command(&scratch.work());
    command.args(options);
    if options[0] == "check" && codes.contains(&LIMIT) {
        command.args(["--max-states", MOST_STATES]);
    }
    command.arg("--").arg(program);
    command.arg(attack).arg(&file).arg(victim.0.id().to_string());
    let finished = run(command, TIME_LIMIT)?;
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    anyhow::ensure!(victim.0.try_wait()?.is_none(), "the process was killed: {said}");
    anyhow::ensure!(
        fs::read_to_string(&file)? == CONTENT,
        "the file was changed: {said}"
    );
    anyhow::ensure!(
        codes.iter().any(|&code| finished.end == End::Exit(code)),
        "ended with {:?} instead of {codes:?}: {said}",
        finished.end
    );
    Ok(())
}
