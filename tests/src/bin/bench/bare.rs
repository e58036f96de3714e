//! What the machine itself charges: a stop at a filtered system call, with nothing done but to skip the call.

use std::path::Path;

use anyhow::{Context, Result, bail};
use syscall_model::Sysno;
use tracee::{Filter, ImageOptions, Launch, Outcome, Resume, Stop, Stopped};

use crate::sample::{Cost, timed};

/// A task that stops at `getppid`, traced with the least that it takes.
pub struct BareTask {
    task: Option<Stopped>,
}

impl BareTask {
    /// Starts `calls.c`, on this core together with the calling thread.
    pub fn start(program: &Path, core: usize) -> Result<Self> {
        let stops = Sysno::getppid.id() as u32;
        let all = Sysno::iter().map(|sysno| sysno.id() as u32);
        let launch = Launch {
            program: program.to_owned(),
            argv: vec!["calls".into(), "1000".into()],
            env: vec![],
            cwd: "/".into(),
            filter: Filter::new(all.filter(|&nr| nr != stops)),
            core: Some(core),
            hide_tsc: false,
            confine: true,
        };
        let mut task = launch.spawn()?;
        task.prepare_image(&ImageOptions {
            random: [1; 16],
            hide_tsc: false,
        })?;
        // The first stop comes after the program was loaded and linked, for which it wants to know the processor.
        let mut task = next(task)?;
        // A switch between threads that differ in this is several times as expensive, and this thread has it from the sessions.
        if task.set_cpuid_faulting(true)? {
            tracee::fault_cpuid_here()?;
        }
        Ok(Self { task: Some(task) })
    }

    /// The cost of a stop, over so many.
    pub fn stops(&mut self, count: u64) -> Result<Cost> {
        timed(count, || (0..count).try_for_each(|_| self.stop()))
    }

    fn stop(&mut self) -> Result<()> {
        let mut task = self.task.take().context("the task is gone")?;
        task.skip_call(1)?;
        self.task = Some(next(task)?);
        Ok(())
    }
}

/// Lets the task run to the call.
fn next(task: Stopped) -> Result<Stopped> {
    match task.resume(Resume::Cont, None)?.wait_ignoring_ticks()? {
        Outcome::Stopped(task) if matches!(task.stop(), Stop::Seccomp { .. }) => Ok(task),
        other => bail!("the task of the bare stop does something else: {other:?}"),
    }
}
