//! `--recover`: after the program was killed, or the power failed, another command finds the files as they are. How it ends is part of the outcome.

use failure::Failure;
use serde::{Deserialize, Serialize};
use session::execution;
use session::network::Peers;
use session::program::Program;
use session::schedule::FirstEnabled;
use session::{FaultPlan, Options, Session};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use syscall_model::fs::FileSystem;
use trace::{End, Violation, ViolationKind, signal_name};

/// A command that needs more steps than this does not end.
const STEPS: u64 = 1_000_000;

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    pub program: Program,
    pub argv: Vec<Vec<u8>>,
}

impl Recovery {
    /// Finds the program of a command.
    pub fn new(argv: Vec<Vec<u8>>, cwd: &[u8]) -> Result<Option<Self>, Failure> {
        let Some(name) = argv.first() else { return Ok(None) };
        let program = Program::find(OsStr::from_bytes(name), Path::new(OsStr::from_bytes(cwd)))?;
        Ok(Some(Self { program, argv }))
    }
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Recovered {
    pub end: End,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Runs the command on the files that a session has left, in one schedule. Also the files as it leaves them.
pub fn recover(
    recovery: &Recovery,
    options: &Options,
    session: &Session,
) -> Result<(Recovered, Arc<FileSystem>), Failure> {
    let mut config = options.config.clone();
    config.program = recovery.argv.first().cloned().unwrap_or_default();
    config.stdin = Vec::new();
    let files = session.model().fs.after_exit(&config.cwd);
    let options = Options {
        program: recovery.program.clone(),
        argv: recovery.argv.clone(),
        config,
        watched: Arc::default(),
        faults: FaultPlan::default(),
        files: Some(Arc::new(files)),
        peers: Peers::default(),
        residents: None,
        ..options.clone()
    };
    let execution = execution::run(options, &mut FirstEnabled, STEPS)
        .map_err(|failure| failure.detail("in the command of --recover"))?;
    let model = execution.session.model();
    let recovered = Recovered {
        end: execution.end.clone(),
        stdout: model.output.stdout.bytes(),
        stderr: model.output.stderr.bytes(),
    };
    let files = Arc::new(model.fs.after_exit(&[]));
    execution.session.finish();
    Ok((recovered, files))
}

impl Recovered {
    /// A recovery has to succeed.
    pub fn violation(&self) -> Option<Violation> {
        if self.end == End::Exited(0) {
            return None;
        }
        Some(Violation {
            kind: ViolationKind::Exit,
            message: format!("the recovery {}", self.how()),
            thread: None,
        })
    }

    /// How it ended, in words.
    pub fn how(&self) -> String {
        match &self.end {
            End::Exited(status) => format!("exited with status {status}"),
            End::Killed(signal) => format!("was killed by {}", signal_name(*signal)),
            End::Cut => format!("did not end within {STEPS} steps"),
            other => other.to_string(),
        }
    }
}
