//! System calls performed by the task on behalf of the supervisor.
//!
//! At the entry to a call of its own, the task is made to perform the injected one, and stops again on the way out: one stop. From elsewhere it
//! is brought to an entry first (`gate.rs`), which is another. What makes a call an injected one is that the supervisor put it in the place
//! of one that the filter had stopped already; no code, no address and no register of the program can have that effect.
//! Registers need no restoring by force: those before the call simply remain what the task will be resumed with.
//!
//! After an error the task is in an unknown place and should be dropped.

use crate::error::{Error, Result};
use crate::gate::TRAP_FLAG;
use crate::stop::Status;
use crate::stopped::{Position, Stopped};
use crate::sys;
use crate::task::Task;
use nix::errno::Errno;

/// `-4095..=-1` are errors.
const LARGEST_ERROR: i64 = -4095;

/// Turns a raw kernel return value into a result.
pub fn check_return(raw: i64) -> std::result::Result<u64, Errno> {
    match raw {
        LARGEST_ERROR..=-1 => Err(Errno::from_raw(-raw as i32)),
        value => Ok(value as u64),
    }
}

impl Stopped {
    /// Performs one system call in the task and returns the kernel's raw answer. All registers remain as they were.
    pub fn inject(&mut self, nr: i64, args: [u64; 6]) -> Result<i64> {
        Ok(self.run_injected(nr, args)?.result)
    }

    /// Performs several, in order, whatever they return.
    pub fn inject_many(&mut self, calls: &[(i64, [u64; 6])]) -> Result<Vec<i64>> {
        calls.iter().map(|&(nr, args)| self.inject(nr, args)).collect()
    }

    /// The same as [`Stopped::inject`] with an error if the call failed; `name` is for the message.
    pub fn inject_checked(&mut self, name: &'static str, nr: i64, args: [u64; 6]) -> Result<u64> {
        check_return(self.inject(nr, args)?).map_err(|errno| Error::Injected {
            call: name,
            pid: self.pid(),
            errno,
        })
    }

    /// Forks the task. The copy is a child of the supervisor (not of the task), is stopped, and has the
    /// registers, extended state and reported stop that this task has.
    pub fn inject_fork(&mut self) -> Result<Stopped> {
        let flags = (libc::CLONE_PARENT | libc::SIGCHLD) as u64;
        let done = self.run_injected(libc::SYS_clone, [flags, 0, 0, 0, 0, 0])?;
        let pid = self.pid();
        let Some(child) = done.child else {
            let errno = check_return(done.result).err().unwrap_or(Errno::ECHILD);
            return Err(Error::Injected {
                call: "clone",
                pid,
                errno,
            });
        };
        let mut copy = adopt(child, *self.stop())?;
        copy.task.gate = self.task.gate;
        copy.set_regs(*self.regs()?);
        Ok(copy)
    }

    /// The new task that a [`crate::Stop::Fork`] reported, stopped before its first instruction.
    pub fn forked_child(&self) -> Result<Option<Stopped>> {
        let crate::Stop::Fork { child } = *self.stop() else {
            return Ok(None);
        };
        let mut child = adopt(child, crate::Stop::Interrupted)?;
        child.task.gate = self.task.gate;
        Ok(Some(child))
    }

    /// Turns `cpuid` into a `SIGSEGV` (or back). `false`: the machine cannot. The kernel resets it at exec.
    pub fn set_cpuid_faulting(&mut self, on: bool) -> Result<bool> {
        use crate::cpuid_fault::ARCH_SET_CPUID;
        match check_return(self.inject(libc::SYS_arch_prctl, [ARCH_SET_CPUID, u64::from(!on), 0, 0, 0, 0])?) {
            Ok(_) => Ok(true),
            Err(Errno::ENODEV) => Ok(false),
            Err(errno) => Err(Error::Injected {
                call: "arch_prctl",
                pid: self.pid(),
                errno,
            }),
        }
    }

    /// Puts bytes into memory of their own, for calls that want a pointer. The program never sees it: it is gone again before the task is resumed.
    pub fn lend(&mut self, bytes: &[u8]) -> Result<Loan> {
        let len = bytes.len().max(1) as u64;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let args = [0, len, protection as u64, flags as u64, u64::MAX, 0];
        let addr = self.inject_checked("mmap", libc::SYS_mmap, args)?;
        self.memory().write(addr, bytes)?;
        Ok(Loan { addr, len })
    }

    /// Takes back what was lent.
    pub fn take_back(&mut self, loan: Loan) -> Result<()> {
        self.inject_checked("munmap", libc::SYS_munmap, [loan.addr, loan.len, 0, 0, 0, 0])
            .map(drop)
    }

    fn run_injected(&mut self, nr: i64, args: [u64; 6]) -> Result<Injected> {
        let pid = self.pid();
        loop {
            self.enter_call()?;
            let keep = *self.regs()?;
            let mut regs = keep;
            regs.replace_call(nr, args);
            regs.eflags &= !TRAP_FLAG;
            sys::set_regs(pid, &regs)?;
            self.set_regs(keep);
            let child = self.run_to_exit()?;
            let after = sys::get_regs(pid)?;
            // Broken off by a signal from outside, which the next attempt clears away.
            if !after.is_restarting() {
                return Ok(Injected {
                    result: after.rax as i64,
                    child,
                });
            }
        }
    }

    /// Lets the kernel perform the call at whose entry the task is; the new task, if it made one.
    fn run_to_exit(&mut self) -> Result<Option<i32>> {
        let pid = self.pid();
        let mut child = None;
        loop {
            sys::cont_to_syscall(pid, 0)?;
            match self.wait_for_stop()? {
                Status::Syscall => break,
                Status::Event {
                    event: libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE,
                    ..
                } => child = Some(sys::event_msg(pid)? as i32),
                other => return Err(self.unexpected("an injected call", other)),
            }
        }
        self.position = Position::Outside;
        Ok(child)
    }
}

/// Memory that was lent to the task.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "it stays in the task's memory until it is taken back"]
pub struct Loan {
    /// Where it is.
    pub addr: u64,
    len: u64,
}

/// What an injected call did.
struct Injected {
    result: i64,
    child: Option<i32>,
}

/// Takes charge of a task that a traced task made; waits for the stop with which its life begins.
fn adopt(pid: i32, stop: crate::Stop) -> Result<Stopped> {
    let mut child = Stopped::new(Task::new(pid), stop, Position::Outside, None);
    match child.wait_for_stop()? {
        Status::Event {
            event: libc::PTRACE_EVENT_STOP,
            ..
        } => Ok(child),
        other => Err(child.unexpected("birth of a task", other)),
    }
}
