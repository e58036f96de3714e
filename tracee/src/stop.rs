//! Why a task stopped: the decoding of wait statuses.
//!
//! The wait status alone decides in the frequent cases (a system call, an event). Only signals need a second
//! look, at their `siginfo`, since an `int3`, a single step and a `SIGTRAP` sent with `kill` look alike.

use crate::error::Result;
use crate::sys;

/// `SI_KERNEL`: what the kernel gives the signal of an `int3`.
const SI_KERNEL: i32 = 0x80;
/// `SYS_SECCOMP`: the `SIGSYS` of a filter.
const SYS_SECCOMP: i32 = 1;
/// Stop signal of system-call stops under `PTRACE_O_TRACESYSGOOD`.
const SIGNAL_SYSCALL: i32 = libc::SIGTRAP | 0x80;
/// `PTRACE_EVENTMSG_SYSCALL_ENTRY`
const MESSAGE_SYSCALL_ENTRY: u64 = 1;

/// Why a task is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stop {
    /// Before a system call that the filter does not allow; the call has not been performed.
    Seccomp {
        /// Its number (bit 30 set: x32 ABI).
        nr: i64,
    },
    /// A system call of another ABI (`int 0x80`), which was not performed. Its number means something else
    /// than the same number of [`Stop::Seccomp`].
    ForeignCall {
        /// Number in that ABI.
        nr: i32,
        /// `AUDIT_ARCH_*` of the ABI.
        arch: u32,
    },
    /// On entry to a system call, after [`crate::Resume::Syscall`].
    SyscallEntry,
    /// On return from a system call, after [`crate::Resume::Syscall`].
    SyscallExit,
    /// An `int3` was executed; `rip` is the address after it.
    Breakpoint,
    /// One instruction was executed after [`crate::Resume::Step`]; or the program traps by itself: single-step flag, `int1`.
    Step {
        /// `si_code`.
        code: i32,
        /// `si_addr`.
        addr: u64,
    },
    /// A signal is about to be delivered; resume with it or without.
    Signal {
        /// Its number.
        signo: i32,
        /// `si_code`.
        code: i32,
        /// `si_addr`; meaningful for the signals of faults only.
        addr: u64,
    },
    /// A new program image is in place, nothing of it has run.
    Exec,
    /// The task made a new task, which is traced too; see [`crate::Stopped::forked_child`].
    Fork {
        /// Its process id.
        child: i32,
    },
    /// Stopped by [`crate::Running::interrupt`], or at the birth of a task.
    Interrupted,
    /// Stopped by job control (`SIGSTOP` and the like were delivered).
    GroupStop {
        /// The signal.
        signo: i32,
    },
    /// About to exit; memory can still be read. Only after [`crate::Stopped::set_stop_at_exit`].
    Exiting {
        /// The wait status that the task will have.
        status: i32,
    },
}

/// What a wait status says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Exited by itself.
    Exited(i32),
    /// Killed by a signal.
    Killed(i32),
    /// A ptrace event (`PTRACE_EVENT_*`) with its stop signal.
    Event { event: i32, signal: i32 },
    /// A system-call stop.
    Syscall,
    /// A signal-delivery stop.
    Signal(i32),
}

impl Status {
    pub(crate) fn decode(status: i32) -> Status {
        if libc::WIFEXITED(status) {
            return Status::Exited(libc::WEXITSTATUS(status));
        }
        if libc::WIFSIGNALED(status) {
            return Status::Killed(libc::WTERMSIG(status));
        }
        let signal = libc::WSTOPSIG(status);
        match (status >> 16, signal) {
            (0, SIGNAL_SYSCALL) => Status::Syscall,
            (0, signal) => Status::Signal(signal),
            (event, signal) => Status::Event { event, signal },
        }
    }

    pub(crate) fn is_dead(self) -> bool {
        matches!(self, Status::Exited(_) | Status::Killed(_))
    }
}

/// The stop of a ptrace event other than seccomp.
pub(crate) fn of_event(pid: i32, event: i32, signal: i32) -> Result<Stop> {
    Ok(match event {
        libc::PTRACE_EVENT_EXEC => Stop::Exec,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => Stop::Fork {
            child: sys::event_msg(pid)? as i32,
        },
        libc::PTRACE_EVENT_EXIT => Stop::Exiting {
            status: sys::event_msg(pid)? as i32,
        },
        libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => Stop::GroupStop { signo: signal },
        // The only event left under our options.
        _ => Stop::Interrupted,
    })
}

/// Entry or exit?
pub(crate) fn of_syscall(pid: i32) -> Result<Stop> {
    Ok(match sys::event_msg(pid)? {
        MESSAGE_SYSCALL_ENTRY => Stop::SyscallEntry,
        _ => Stop::SyscallExit,
    })
}

/// Tells breakpoints and steps from signals proper.
pub(crate) fn of_signal(pid: i32, signo: i32) -> Result<Stop> {
    let info = sys::siginfo(pid)?;
    let stop = match (signo, info.si_code) {
        (libc::SIGTRAP, SI_KERNEL) => Stop::Breakpoint,
        (libc::SIGTRAP, code @ (libc::TRAP_TRACE | libc::TRAP_BRKPT)) => Stop::Step {
            code,
            // SAFETY: as below.
            addr: unsafe { info.si_addr() } as u64,
        },
        (libc::SIGSYS, SYS_SECCOMP) => {
            let (nr, arch) = seccomp_details(&info);
            Stop::ForeignCall { nr, arch }
        }
        (signo, code) => {
            // SAFETY: reads bytes of the union that every siginfo has, whatever they mean.
            let addr = unsafe { info.si_addr() } as u64;
            Stop::Signal { signo, code, addr }
        }
    };
    Ok(stop)
}

/// `si_syscall` and `si_arch`, for which the libc crate has no accessors.
fn seccomp_details(info: &libc::siginfo_t) -> (i32, u32) {
    #[repr(C)]
    struct Layout {
        head: [i32; 4],
        call_addr: u64,
        syscall: i32,
        arch: u32,
    }
    const _: () = assert!(size_of::<Layout>() <= size_of::<libc::siginfo_t>());
    // SAFETY: a siginfo is at least that large and 8-aligned, and all bit patterns are valid for integers.
    let layout = unsafe { &*std::ptr::from_ref(info).cast::<Layout>() };
    (layout.syscall, layout.arch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_decode() {
        assert_eq!(Status::decode(3 << 8), Status::Exited(3));
        assert_eq!(Status::decode(libc::SIGKILL), Status::Killed(libc::SIGKILL));
        assert_eq!(
            Status::decode(0x7f | (libc::SIGSEGV << 8)),
            Status::Signal(libc::SIGSEGV)
        );
        assert_eq!(Status::decode(0x7f | (SIGNAL_SYSCALL << 8)), Status::Syscall);
        let seccomp = 0x7f | (libc::SIGTRAP << 8) | (libc::PTRACE_EVENT_SECCOMP << 16);
        let event = Status::Event {
            event: libc::PTRACE_EVENT_SECCOMP,
            signal: libc::SIGTRAP,
        };
        assert_eq!(Status::decode(seccomp), event);
    }
}
