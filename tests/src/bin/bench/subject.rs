//! The programs under test of the benches, supervised in this process.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use checker::{CheckSystem, CheckpointChoice, Judge};
use failure::Failure;
use hooks::Preempt;
use session::cores::Core;
use session::program::Program;
use session::{Options, Session};
use std::sync::OnceLock;
use syscall_model::Config;
use tracefork_tests::{ENVIRONMENT, guests};

/// A program with its arguments.
pub struct Subject {
    program: PathBuf,
    args: Vec<String>,
}

/// A guest of `tests/guests/bench`.
pub fn build(name: &str) -> Result<PathBuf> {
    guests::one(&format!("bench/{name}.c"))?.build()
}

/// The core on which all is measured: the first program that is supervised pins the thread to it.
pub fn core() -> Core {
    static CORE: OnceLock<Core> = OnceLock::new();
    CORE.get_or_init(Core::take).clone()
}

/// A failure of the supervisor as an error.
pub fn well<T>(result: Result<T, Failure>) -> Result<T> {
    result.map_err(|failure| anyhow!("{failure:?}"))
}

impl Subject {
    pub fn new(program: &Path, args: &[&str]) -> Self {
        Self {
            program: program.to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
        }
    }

    pub fn options(&self) -> Result<Options> {
        let path = self.program.to_str().context("the guest's path is text")?;
        let argv = std::iter::once(path).chain(self.args.iter().map(String::as_str));
        Ok(Options {
            peers: session::network::Peers::default(),
            residents: None,
            inputs: session::Inputs::default(),
            bounds: session::Bounds::default(),
            confine: true,
            cores: None,
            walk: None,
            atomics: symbols::Atomics::default(),
            plans: hooks::PlanCache::default(),
            program: well(Program::find(self.program.as_os_str(), Path::new("/")))?,
            argv: argv.map(|arg| arg.as_bytes().to_vec()).collect(),
            env: ENVIRONMENT
                .iter()
                .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
                .collect(),
            config: Config {
                program: path.as_bytes().to_vec(),
                ..Config::default()
            },
            preempt: Preempt::Sync,
            watched: Default::default(),
            faults: Default::default(),
            files: None,
            core: Some(core()),
        })
    }

    pub fn session(&self) -> Result<Session> {
        well(Session::start(self.options()?))
    }

    pub fn system(&self, checkpoints: CheckpointChoice) -> Result<CheckSystem> {
        Ok(CheckSystem::new(self.options()?, Judge::default(), checkpoints))
    }
}
