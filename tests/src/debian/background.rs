//! A real process that runs while others do: started, waited for until it listens, told to end, and gone for certain when dropped.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::directives::End;
use crate::process::{self, Finished};

pub struct Background {
    child: Child,
    group: Pid,
    output: PathBuf,
    /// Its end, when it is known.
    end: Option<End>,
}

impl Background {
    /// Starts it in a process group of its own; what it prints goes to files that begin with `output`.
    pub fn start(mut command: Command, output: &Path) -> Result<Background> {
        let file = |name: &str| fs::File::create(output.with_extension(name));
        command.process_group(0).stdout(file("out")?).stderr(file("err")?);
        let child = command
            .spawn()
            .with_context(|| format!("cannot run {command:?}"))?;
        Ok(Background {
            group: process::group_of(&child)?,
            child,
            output: output.to_owned(),
            end: None,
        })
    }

    /// Waits until somebody listens at `port` or has bound it for datagrams; fails if the process ends before.
    pub fn wait_for_port(&mut self, port: u16, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while !test_ports::is_bound(port)? {
            if let Some(end) = self.try_end()? {
                bail!("it ended ({end:?}) before it listened at {port}; {}", self.said());
            }
            if Instant::now() >= deadline {
                bail!("it does not listen at {port} within {limit:?}; {}", self.said());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Waits for its end; kills it and fails if it does not come.
    pub fn wait(mut self, limit: Duration) -> Result<Finished> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(end) = self.try_end()? {
                return self.finished(end);
            }
            if Instant::now() >= deadline {
                bail!("it did not end within {limit:?}; {}", self.said());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Tells it to end, and waits; what does not obey is killed.
    pub fn stop(mut self, limit: Duration) -> Result<Finished> {
        if self.try_end()?.is_none() {
            let _ = killpg(self.group, Signal::SIGTERM);
        }
        let deadline = Instant::now() + limit;
        while self.try_end()?.is_none() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let end = self.end.unwrap_or(End::Signal(Signal::SIGKILL as i32));
        self.finished(end)
    }

    fn finished(&self, end: End) -> Result<Finished> {
        Ok(Finished {
            stdout: fs::read(self.output.with_extension("out"))?,
            stderr: fs::read(self.output.with_extension("err"))?,
            end,
        })
    }

    fn try_end(&mut self) -> Result<Option<End>> {
        if self.end.is_none() {
            self.end = self.child.try_wait()?.map(process::end_of).transpose()?;
        }
        Ok(self.end)
    }

    fn said(&self) -> String {
        let read = |name| {
            let bytes = fs::read(self.output.with_extension(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).trim().to_owned()
        };
        format!("it said: {} {}", read("out"), read("err"))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Also those that it started and left; there may be none.
        let _ = killpg(self.group, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}
