//! Launching a program under trace.
//!
//! The child waits on a pipe until it is seized, so not one instruction of the program runs untraced; it
//! tells failures through a second pipe, which a successful exec closes.

use crate::apart::Apart;
use crate::child::{self, Plan, Report, Step};
use crate::confine;
use crate::error::Error;
use crate::filter::Filter;
use crate::running::{Outcome, Running};
use crate::stop::Stop;
use crate::stopped::{Resume, Stopped};
use crate::sys;
use crate::task::Task;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::{ForkResult, Pid, fork, getpid, pipe2};
use std::ffi::{CString, OsStr, OsString, c_char};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use thiserror::Error;

/// A program to be launched.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Path of the executable, relative to `cwd`; not searched for in `PATH`.
    pub program: PathBuf,
    /// All arguments, the zeroth included.
    pub argv: Vec<OsString>,
    /// The whole environment, in this order.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Which system calls stop.
    pub filter: Filter,
    /// Pins the program *and the calling thread* to this core: a stop then costs less than half.
    pub core: Option<usize>,
    /// Make `rdtsc` fault, from the first instruction on. The setting survives fork and exec.
    pub hide_tsc: bool,
    /// Have the kernel itself forbid what the task never needs, where it can: to write, to connect, to signal.
    pub confine: bool,
}

/// Why a program could not be launched.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// A string contains a NUL byte.
    #[error("{what} contains a NUL byte")]
    Nul {
        /// Which.
        what: &'static str,
    },
    /// A system call of the supervisor failed.
    #[error("{call}: {errno}")]
    Supervisor {
        /// Its name.
        call: &'static str,
        /// Why.
        errno: Errno,
    },
    /// A step in the new process failed.
    #[error("{step}: {errno}")]
    Child {
        /// The step.
        step: Step,
        /// Why.
        errno: Errno,
    },
    /// The new process ended without a word.
    #[error("the new process died before it could execute the program ({how})")]
    Died {
        /// How it ended.
        how: String,
    },
    /// It could not be traced.
    #[error(transparent)]
    Trace(#[from] Error),
}

impl SpawnError {
    fn supervisor(call: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| SpawnError::Supervisor { call, errno }
    }
}

impl Launch {
    /// Starts the program; it is at a [`Stop::Exec`] stop, nothing of it has run.
    pub fn spawn(&self) -> Result<Stopped, SpawnError> {
        let strings = Strings::new(self)?;
        let (argv, envp) = (pointers(&strings.argv), pointers(&strings.env));
        let core = self.core.map(cpu_set).transpose()?;
        let (go_read, go_write) = pipe2(OFlag::O_CLOEXEC).map_err(SpawnError::supervisor("pipe2"))?;
        // Non-blocking: it is read when the child is dead, whoever else may have inherited the other end.
        let (report_read, report_write) =
            pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(SpawnError::supervisor("pipe2"))?;
        let program = self.filter.program();
        let rules = self.confine.then(confine::rules).flatten();
        let plan = Plan {
            supervisor: getpid().as_raw(),
            program: &strings.program,
            argv: &argv,
            envp: &envp,
            cwd: &strings.cwd,
            filter: libc::sock_fprog {
                len: program.len() as u16,
                filter: program.as_ptr().cast_mut(),
            },
            core: core.as_ref().map(raw_cpu_set),
            hide_tsc: self.hide_tsc,
            apart: self.confine.then(Apart::of_this_user).flatten(),
            rules: confine::raw(rules.as_ref()),
            go: go_read.as_raw_fd(),
            report: report_write.as_raw_fd(),
        };
        if let Some(set) = &core {
            sched_setaffinity(Pid::from_raw(0), set).map_err(SpawnError::supervisor("sched_setaffinity"))?;
        }
        // SAFETY: the child only runs `child::run`, which is async-signal-safe and does not return.
        let child = match unsafe { fork() }.map_err(SpawnError::supervisor("fork"))? {
            // SAFETY: this is the child, and the plan's pointers refer to locals of this frame.
            ForkResult::Child => unsafe { child::run(&plan) },
            ForkResult::Parent { child } => child.as_raw(),
        };
        drop((go_read, report_write));
        // From here on, every error path kills and reaps the child.
        let task = Task::new(child);
        sys::seize(child, sys::OPTIONS)?;
        File::from(go_write)
            .write_all(&[1])
            .map_err(|e| SpawnError::Supervisor {
                call: "write to the new process",
                errno: e.raw_os_error().map_or(Errno::EIO, Errno::from_raw),
            })?;
        tracing::trace!(pid = child, program = %self.program.display(), "launched");
        run_to_exec(Running { task }, File::from(report_read))
    }
}

/// Follows the child through its own calls up to the new image.
fn run_to_exec(mut running: Running, report: File) -> Result<Stopped, SpawnError> {
    loop {
        let stopped = match running.wait_ignoring_ticks()? {
            Outcome::Stopped(stopped) => stopped,
            Outcome::Tick(again) => {
                running = again;
                continue;
            }
            Outcome::Exited(code) => return Err(failure(report, format!("exit code {code}"))),
            Outcome::Killed(signal) => return Err(failure(report, format!("signal {signal}"))),
        };
        let signal = match *stopped.stop() {
            Stop::Exec => return Ok(stopped),
            Stop::Signal { signo, .. } => Some(signo),
            // The exec itself, or what the child does to report that it failed.
            _ => None,
        };
        running = stopped.resume(Resume::Cont, signal)?;
    }
}

fn failure(mut report: File, how: String) -> SpawnError {
    let mut bytes = [0; Report::LEN];
    match report
        .read_exact(&mut bytes)
        .ok()
        .and_then(|()| Report::decode(bytes))
    {
        Some(Report { step, errno }) => SpawnError::Child {
            step,
            errno: Errno::from_raw(errno),
        },
        None => SpawnError::Died { how },
    }
}

/// The C strings of a launch.
struct Strings {
    program: CString,
    cwd: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
}

impl Strings {
    fn new(launch: &Launch) -> Result<Self, SpawnError> {
        let argv = launch.argv.iter().map(|arg| c_string(arg, "an argument"));
        let env = launch.env.iter().map(|(name, value)| {
            let mut variable = name.clone();
            variable.push("=");
            variable.push(value);
            c_string(&variable, "an environment variable")
        });
        Ok(Strings {
            program: c_string(launch.program.as_os_str(), "the program's path")?,
            cwd: c_string(launch.cwd.as_os_str(), "the working directory")?,
            argv: argv.collect::<Result<_, _>>()?,
            env: env.collect::<Result<_, _>>()?,
        })
    }
}

fn c_string(text: &OsStr, what: &'static str) -> Result<CString, SpawnError> {
    CString::new(text.as_bytes()).map_err(|_| SpawnError::Nul { what })
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

fn cpu_set(core: usize) -> Result<CpuSet, SpawnError> {
    let mut set = CpuSet::new();
    set.set(core)
        .map_err(SpawnError::supervisor("choosing the core"))?;
    Ok(set)
}

/// The same for the child, which must not call anything that might allocate.
fn raw_cpu_set(set: &CpuSet) -> libc::cpu_set_t {
    // SAFETY: an all-zero set is the empty set.
    let mut raw: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for core in 0..CpuSet::count() {
        if set.is_set(core).unwrap_or(false) {
            // SAFETY: `core` is below the size of a set.
            unsafe { libc::CPU_SET(core, &mut raw) };
        }
    }
    raw
}
