//! The commands of a sweep: set-up, check, tear-down. Each runs below a host process, as peers do, so that it and all it has started end with the
//! sweep, whatever ends that.

use super::stop::Stop;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use peers::Launcher;
use peers::process::Process;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a request to stop is looked for.
const TICK_MS: i32 = 100;
/// How long a check may take to stop when asked to.
const GRACE: Duration = Duration::from_secs(10);

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Exited(i32),
    Signalled(i32),
    /// It was killed when its time was over.
    TimedOut,
    /// It was ended because the sweep is to stop.
    Stopped,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Exited(status) => write!(f, "exit status {status}"),
            Ended::Signalled(signal) => write!(f, "killed by {}", trace::signal_name(*signal)),
            Ended::TimedOut => write!(f, "took longer than its time limit"),
            Ended::Stopped => write!(f, "interrupted"),
        }
    }
}

/// Where and how commands run.
pub struct Place<'a> {
    pub directory: &'a Path,
    /// Where what they print goes.
    pub log: &'a Path,
    /// `None`: it is not to be stopped, as a tear-down.
    pub stop: Option<&'a Stop>,
    pub deadline: Option<Instant>,
}

impl Place<'_> {
    /// Starts a command and waits for its end. What it has started in the background lives until the process given back is dropped.
    ///
    /// # Errors
    /// It could not be started.
    pub fn run(
        &self,
        argv: &[String],
        env: &[(String, String)],
        gently: bool,
    ) -> Result<(Ended, Process), String> {
        let launcher = Launcher::default();
        let name = argv.first().map_or("", String::as_str);
        let log = File::options()
            .create(true)
            .read(true)
            .append(true)
            .open(self.log);
        let log = log.map_err(|error| format!("{}: {error}", self.log.display()))?;
        let mut process = Process::spawn_in(&launcher, name, argv, env, log, self.directory)
            .map_err(|error| error.to_string())?;
        let mut asked: Option<Instant> = None;
        loop {
            let has_passed = |deadline: Instant| Instant::now() >= deadline;
            if let Some(status) = process.exit_status() {
                let ended = match status {
                    _ if asked.is_some() => Ended::Stopped,
                    signal if signal < 0 => Ended::Signalled(-signal),
                    status => Ended::Exited(status),
                };
                return Ok((ended, process));
            }
            if process.is_gone() {
                return Err("its host process was killed".to_owned());
            }
            if self.deadline.is_some_and(has_passed) {
                return Ok((Ended::TimedOut, process));
            }
            if self.stop.is_some_and(Stop::requested) && asked.is_none() {
                asked = Some(Instant::now() + GRACE);
                // It may have ended just now.
                let _ = kill(Pid::from_raw(process.main_pid()), Signal::SIGTERM);
            }
            let patience_is_over = !gently || self.stop.is_some_and(Stop::insisted);
            if asked.is_some_and(|until| patience_is_over || has_passed(until)) {
                return Ok((Ended::Stopped, process));
            }
            process.wait_news(TICK_MS);
        }
    }

    /// The same for a line of shell.
    ///
    /// # Errors
    /// It could not be started.
    pub fn shell(&self, line: &str, env: &[(String, String)]) -> Result<(Ended, Process), String> {
        let argv = ["/bin/sh", "-c", line].map(str::to_owned);
        self.run(&argv, env, false)
    }
}
