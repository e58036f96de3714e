//! A way into the kernel for a task that is stopped outside of it.
//!
//! A call can only be made to be another one on entry to a call, so a task that stands elsewhere must come to one first. For that it executes a
//! `syscall` instruction with a number that no kernel has, and the filter stops it there. Nothing is mapped for the purpose, and nothing is
//! left behind for the program to find or to change: the instruction is one of the program's own, or two bytes of its code lend
//! their place for the moment. The program cannot interfere, since its only task is stopped before and after, and executes nothing else in between.

use crate::error::{Error, Result};
use crate::memory::PAGE;
use crate::regs::{NO_CALL, Regs, SYSCALL_LEN};
use crate::stop::Status;
use crate::stopped::{Position, Stopped};
use crate::sys;
use procfs::process::{MMPermissions, Process};

/// A call that no kernel has and no filter allows: the task stops at its entry.
const NR_GATE: u64 = 0x3fff_ffff;
const SYSCALL: [u8; SYSCALL_LEN as usize] = [0x0f, 0x05];
/// Code and stack segment of 64-bit code: the program may have been in another mode.
const USER_CS: u64 = 0x33;
const USER_DS: u64 = 0x2b;
/// Single-step flag: the program may have set it for itself.
pub(crate) const TRAP_FLAG: u64 = 0x100;

impl Stopped {
    /// Brings the task to the entry of a system call, where `orig_rax` decides what is performed.
    /// This is how a virtual thread that was parked before a call performs it for real when the kernel task
    /// stands elsewhere, say at a breakpoint of another thread. Costs nothing if it is at one already.
    pub fn enter_call(&mut self) -> Result<()> {
        self.leave_call()?;
        if self.position == Position::CallEntry {
            return Ok(());
        }
        let keep = *self.regs()?;
        let likely = [self.task.gate, Some(keep.rip & !(PAGE - 1))];
        for place in likely.into_iter().flatten() {
            if self.enter_at(place, &keep)? {
                return Ok(());
            }
        }
        for place in self.executable_pages()? {
            if self.enter_at(place, &keep)? {
                return Ok(());
            }
        }
        Err(Error::NoCode { pid: self.pid() })
    }

    /// Has the task execute a `syscall` at this address; `false` if that cannot be.
    fn enter_at(&mut self, place: u64, keep: &Regs) -> Result<bool> {
        let mut original = [0; SYSCALL.len()];
        if is_fault(self.memory().read_forced(place, &mut original))? {
            return Ok(false);
        }
        let borrowed = original != SYSCALL;
        if borrowed && is_fault(self.memory().write_forced(place, &SYSCALL))? {
            return Ok(false);
        }
        let gate = Regs {
            rip: place,
            rax: NR_GATE,
            orig_rax: NO_CALL,
            cs: USER_CS,
            ss: USER_DS,
            eflags: keep.eflags & !TRAP_FLAG,
            ..*keep
        };
        sys::set_regs(self.pid(), &gate)?;
        self.set_regs(*keep);
        let entered = self.run_to_entry()?;
        if borrowed {
            self.memory().write_forced(place, &original)?;
        }
        if entered {
            self.task.gate = Some(place);
            self.position = Position::CallEntry;
        }
        Ok(entered)
    }

    /// Runs to the stop at the filter; `false` if the instruction could not be executed.
    fn run_to_entry(&mut self) -> Result<bool> {
        loop {
            sys::cont(self.pid(), 0)?;
            match self.wait_for_stop()? {
                Status::Event {
                    event: libc::PTRACE_EVENT_SECCOMP,
                    ..
                } => return Ok(true),
                // An interrupt that came too late to matter.
                Status::Event {
                    event: libc::PTRACE_EVENT_STOP,
                    ..
                } => {}
                Status::Signal(_) if sys::siginfo(self.pid())?.si_code > 0 => return Ok(false),
                // Sent by somebody outside, at whose mercy nothing here is.
                Status::Signal(_) => {}
                other => return Err(self.unexpected("entry to a call", other)),
            }
        }
    }

    /// A place in each private mapping that has code.
    fn executable_pages(&self) -> Result<Vec<u64>> {
        let pid = self.pid();
        let maps = Process::new(pid)
            .and_then(|process| process.maps())
            .map_err(|error| Error::Proc {
                pid,
                reason: error.to_string(),
            })?;
        let wanted = MMPermissions::EXECUTE | MMPermissions::PRIVATE;
        Ok(maps
            .into_iter()
            .filter(|map| map.perms.contains(wanted))
            .map(|map| map.address.0)
            .collect())
    }
}

/// Is this a matter of the place alone?
fn is_fault(access: Result<()>) -> Result<bool> {
    match access {
        Ok(()) => Ok(false),
        Err(Error::Memory(_)) => Ok(true),
        Err(other) => Err(other),
    }
}
