//! Running a program under `tracefork run` and `tracefork check`, and reading the JSON result.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::directives::{End, Preempt};
use crate::observe::{self, Invocation, Observed, Scratch};
use crate::process::{self, Finished};

/// Supervised runs stop at every visible operation, which costs ten times as much on some machines as on others: more patience than natively.
pub const TIME_LIMIT: Duration = Duration::from_mins(60);

/// The `tracefork` command under test.
#[derive(Clone, Debug)]
pub struct Tracefork {
    command: PathBuf,
    is_curbed: bool,
    tunables: Option<&'static str>,
}

/// One schedule: where threads are preempted, and the seed that decides.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub preempt: Preempt,
    pub seed: u64,
}

/// What `check` found.
#[derive(Clone, Debug)]
pub struct Checked {
    pub finished: Finished,
    pub result: Value,
}

impl Tracefork {
    pub fn new(command: &Path) -> Tracefork {
        Tracefork {
            command: command.to_owned(),
            is_curbed: false,
            tunables: None,
        }
    }

    /// The same command on a processor with fewer features, as far as the C library is concerned.
    pub fn with_tunables(&self, tunables: &'static str) -> Tracefork {
        Tracefork {
            tunables: Some(tunables),
            ..self.clone()
        }
    }

    /// The same command as for a user who may not look into every process of this machine, whoever runs the tests.
    pub fn curbed(&self) -> Tracefork {
        Tracefork {
            is_curbed: true,
            ..self.clone()
        }
    }

    /// `tracefork` with these arguments, as a user would call it in `work`.
    pub fn command(&self, work: &Path) -> Command {
        let mut command = self.plain_command(work);
        command.envs(self.tunables.map(|value| (observe::TUNABLES, value)));
        command
    }

    fn plain_command(&self, work: &Path) -> Command {
        if !self.is_curbed {
            return observe::clean_command(&self.command, work);
        }
        let mut command = observe::clean_command(Path::new("setpriv"), work);
        if nix::unistd::geteuid().is_root() {
            command.arg("--bounding-set=-sys_ptrace");
        }
        command.arg(&self.command);
        command
    }

    /// One schedule of the program, its writes applied, observed as a user would.
    pub fn run(&self, invocation: &Invocation, schedule: Schedule, scratch: &Scratch) -> Result<Observed> {
        let (finished, result) = self.run_with(invocation, schedule, scratch, &["--apply-writes"])?;
        let outcome = &result["outcomes"][0];
        let context = || {
            format!(
                "in the result {result}\nof a run that printed\n{}",
                String::from_utf8_lossy(&finished.stderr)
            )
        };
        Ok(Observed {
            stdout: finished.stdout.clone(),
            // From the result, as the supervisor has things of its own to say on standard error.
            stderr: outcome["stderr"]
                .as_str()
                .with_context(context)?
                .as_bytes()
                .to_vec(),
            end: end_of(outcome).with_context(context)?,
            files: observe::files_under(&scratch.work())?,
        })
    }

    /// One schedule, recorded: the bytes of its trace file.
    pub fn trace(&self, invocation: &Invocation, schedule: Schedule, scratch: &Scratch) -> Result<Vec<u8>> {
        self.record(invocation, schedule, scratch)?;
        fs::read(scratch.beside("trace")).context("the trace was not written")
    }

    /// One schedule, recorded to the file `trace` beside the working directory.
    pub fn record(&self, invocation: &Invocation, schedule: Schedule, scratch: &Scratch) -> Result<Finished> {
        let trace = scratch.beside("trace");
        let option = trace.to_str().context("a temporary path is text")?;
        let (finished, result) = self.run_with(invocation, schedule, scratch, &["--trace", option])?;
        if result["verdict"] == "error" {
            bail!("it could not be run: {result}");
        }
        Ok(finished)
    }

    fn run_with(
        &self,
        invocation: &Invocation,
        schedule: Schedule,
        scratch: &Scratch,
        options: &[&str],
    ) -> Result<(Finished, Value)> {
        let (input, json) = (scratch.beside("stdin"), scratch.beside("result.json"));
        fs::write(&input, &invocation.stdin)?;
        let mut command = self.command(&scratch.work());
        command.args([
            "run",
            "--quiet",
            "--preempt",
            schedule.preempt.name(),
            "--seed",
            &schedule.seed.to_string(),
        ]);
        command
            .args(options)
            .arg("--stdin")
            .arg(&input)
            .arg("--json")
            .arg(&json);
        command.arg("--").arg(&invocation.program).args(&invocation.args);
        let finished = process::run(command, TIME_LIMIT)?;
        let result = read_result(&json, &finished)?;
        Ok((finished, result))
    }

    /// Explores the program's schedules.
    pub fn check(&self, invocation: &Invocation, options: &[&str], scratch: &Scratch) -> Result<Checked> {
        let (input, json) = (scratch.beside("stdin"), scratch.beside("result.json"));
        fs::write(&input, &invocation.stdin)?;
        let mut command = self.command(&scratch.work());
        command.args(["check", "--quiet"]).args(options);
        command
            .arg("--stdin")
            .arg(&input)
            .arg("--json")
            .arg(&json)
            .arg("--trace-dir")
            .arg(scratch.beside("traces"));
        command.arg("--").arg(&invocation.program).args(&invocation.args);
        let finished = process::run(command, TIME_LIMIT)?;
        let result = read_result(&json, &finished)?;
        Ok(Checked { finished, result })
    }
}

impl Checked {
    /// The kinds of the violations found.
    pub fn violations(&self) -> BTreeSet<String> {
        let found = self.result["violations"].as_array().into_iter().flatten();
        found
            .filter_map(|violation| violation["kind"].as_str())
            .map(str::to_owned)
            .collect()
    }

    /// The fewest preemptions of a violation of this kind.
    pub fn preemptions(&self, kind: &str) -> Option<u64> {
        let found = self.result["violations"].as_array().into_iter().flatten();
        found
            .filter(|v| v["kind"] == kind)
            .filter_map(|v| v["preemptions"].as_u64())
            .min()
    }

    /// The standard outputs of all outcomes.
    pub fn outputs(&self) -> BTreeSet<String> {
        let outcomes = self.result["outcomes"].as_array().into_iter().flatten();
        outcomes
            .filter_map(|outcome| outcome["stdout"].as_str())
            .map(str::to_owned)
            .collect()
    }

    pub fn executions(&self) -> Option<u64> {
        self.result["executions"].as_u64()
    }
}

fn read_result(json: &Path, finished: &Finished) -> Result<Value> {
    let said = || {
        format!(
            "no JSON result; it ended with {:?} and printed\n{}",
            finished.end,
            String::from_utf8_lossy(&finished.stderr)
        )
    };
    let text = fs::read_to_string(json).with_context(said)?;
    serde_json::from_str(&text).with_context(said)
}

fn end_of(outcome: &Value) -> Result<End> {
    match (outcome["exit"].as_i64(), outcome["signal"].as_i64()) {
        (Some(code), None) => Ok(End::Exit(i32::try_from(code)?)),
        (None, Some(signal)) => Ok(End::Signal(i32::try_from(signal)?)),
        _ => bail!("the outcome names neither exit nor signal"),
    }
}
