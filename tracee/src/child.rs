//! What the child does between fork and exec.
//!
//! The supervisor may have other threads, whose locks the child has copied in whatever state they were: only
//! async-signal-safe calls are made here, nothing allocates, and all that is needed was prepared before the fork.

use crate::apart::Apart;
use nix::errno::Errno;
use std::ffi::{CStr, c_char};
use std::os::fd::RawFd;

/// Stack limit of the guest. The kernel lays out the address space by it, so it is the same everywhere.
const STACK_LIMIT: libc::rlim_t = 8 << 20;
/// Where the error pipe goes: right after the standard descriptors, and closed at exec.
const REPORT_FD: RawFd = 3;
/// Above anything that is overwritten while descriptors are put in order.
const PARKED_FD: RawFd = REPORT_FD + 1;
const SIGNALS: i32 = 64;
const EXIT_FAILED: i32 = 127;

macro_rules! steps {
    ($($name:ident: $text:literal,)*) => {
        /// The step at which a child failed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the text says it")]
        pub enum Step { $($name,)* }

        impl Step {
            const ALL: &[Step] = &[$(Step::$name,)*];

            /// In words.
            pub fn describe(self) -> &'static str {
                match self { $(Step::$name => $text,)* }
            }
        }
    };
}

steps! {
    Session: "leaving the terminal's session",
    Handshake: "waiting to be traced",
    Descriptors: "redirecting the standard descriptors",
    Signals: "resetting signals",
    WorkingDirectory: "entering the working directory",
    Limits: "setting resource limits",
    Personality: "switching address randomisation off",
    TimeStampCounter: "hiding the time-stamp counter",
    Affinity: "pinning to a core",
    Network: "leaving the network",
    NoNewPrivileges: "giving up new privileges",
    Seccomp: "installing the seccomp filter",
    Exec: "executing the program",
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.describe())
    }
}

/// A failure on its way through the error pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) step: Step,
    pub(crate) errno: i32,
}

impl Report {
    pub(crate) const LEN: usize = 8;

    fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&(self.step as u32).to_le_bytes());
        bytes[4..].copy_from_slice(&self.errno.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: [u8; Self::LEN]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h] = bytes;
        let step = *Step::ALL.get(u32::from_le_bytes([a, b, c, d]) as usize)?;
        Some(Report {
            step,
            errno: i32::from_le_bytes([e, f, g, h]),
        })
    }
}

/// Everything the child needs, ready to be handed to the kernel.
pub(crate) struct Plan<'a> {
    pub(crate) supervisor: i32,
    pub(crate) program: &'a CStr,
    /// Null-terminated arrays of pointers to strings that live as long as the plan.
    pub(crate) argv: &'a [*const c_char],
    pub(crate) envp: &'a [*const c_char],
    pub(crate) cwd: &'a CStr,
    pub(crate) filter: libc::sock_fprog,
    pub(crate) core: Option<libc::cpu_set_t>,
    pub(crate) hide_tsc: bool,
    /// The way out of the network.
    pub(crate) apart: Option<&'a Apart>,
    /// Rules of Landlock to take on.
    pub(crate) rules: Option<RawFd>,
    /// Read end: a byte arrives once the child is traced.
    pub(crate) go: RawFd,
    /// Write end: failures are told here.
    pub(crate) report: RawFd,
}

/// Runs in the child; ends in exec or exit.
///
/// # Safety
/// Only in a freshly forked child; the plan's pointers must be valid.
pub(crate) unsafe fn run(plan: &Plan<'_>) -> ! {
    let mut report_fd = plan.report;
    // SAFETY: forwarded from the caller.
    let Err(report) = unsafe { prepare_and_exec(plan, &mut report_fd) };
    let bytes = report.encode();
    // SAFETY: `bytes` is valid; `_exit` ends the child without running the supervisor's exit handlers.
    unsafe {
        libc::write(report_fd, bytes.as_ptr().cast(), bytes.len());
        libc::_exit(EXIT_FAILED)
    }
}

/// Did the call succeed?
fn check(step: Step, answer: impl Into<i64>) -> Result<i64, Report> {
    match answer.into() {
        -1 => Err(Report {
            step,
            errno: Errno::last_raw(),
        }),
        value => Ok(value),
    }
}

/// # Safety
/// See [`run`].
unsafe fn prepare_and_exec(
    plan: &Plan<'_>,
    report_fd: &mut RawFd,
) -> Result<std::convert::Infallible, Report> {
    // SAFETY: all pointers come from the plan or from live locals; every call is async-signal-safe.
    unsafe {
        check(
            Step::Session,
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0),
        )?;
        if libc::getppid() != plan.supervisor {
            // It died before the request above could notice.
            libc::_exit(EXIT_FAILED);
        }
        check(Step::Session, libc::setsid())?;
        let mut byte = 0u8;
        if check(
            Step::Handshake,
            libc::read(plan.go, (&raw mut byte).cast(), 1) as i64,
        )? != 1
        {
            libc::_exit(EXIT_FAILED);
        }
        // Before the seccomp filter and the rules, which want it.
        check(
            Step::NoNewPrivileges,
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        )?;
        // Before the rules, too, which would forbid it.
        if let Some(apart) = plan.apart {
            apart.leave().map_err(|errno| Report {
                step: Step::Network,
                errno: errno as i32,
            })?;
        }
        arrange_descriptors(report_fd, plan.rules)?;
        reset_signals()?;
        check(Step::WorkingDirectory, libc::chdir(plan.cwd.as_ptr()))?;
        limit(libc::RLIMIT_STACK, STACK_LIMIT)?;
        limit(libc::RLIMIT_CORE, 0)?;
        check(
            Step::Personality,
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong),
        )?;
        if plan.hide_tsc {
            check(
                Step::TimeStampCounter,
                libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0),
            )?;
        }
        if let Some(set) = &plan.core {
            check(
                Step::Affinity,
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set),
            )?;
        }
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        check(
            Step::Seccomp,
            libc::syscall(libc::SYS_seccomp, mode, 0, &raw const plan.filter),
        )?;
        libc::execve(plan.program.as_ptr(), plan.argv.as_ptr(), plan.envp.as_ptr());
    }
    Err(Report {
        step: Step::Exec,
        errno: Errno::last_raw(),
    })
}

/// Standard descriptors to something inert, the error pipe to [`REPORT_FD`], nothing else.
///
/// # Safety
/// Only in a forked child, whose other descriptors nobody uses.
unsafe fn arrange_descriptors(report_fd: &mut RawFd, rules: Option<RawFd>) -> Result<(), Report> {
    // SAFETY: no memory but a constant string is involved.
    unsafe {
        // First out of the way of what follows: the supervisor itself may run without standard descriptors.
        let rules = rules.map(|rules| libc::fcntl(rules, libc::F_DUPFD_CLOEXEC, PARKED_FD));
        let parked = check(
            Step::Descriptors,
            libc::fcntl(*report_fd, libc::F_DUPFD_CLOEXEC, PARKED_FD),
        )?;
        *report_fd = parked as RawFd;
        // The guest's own descriptors are modelled: these are never read from or written to, and need no particular file. Where there
        // is no /dev/null, or one that this user may not open, anything else will do.
        let null = match libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) {
            -1 => check(Step::Descriptors, libc::eventfd(0, 0))? as RawFd,
            null => null,
        };
        for standard in 0..=2 {
            // Onto itself it is a no-op, as wanted.
            check(Step::Descriptors, libc::dup2(null, standard))?;
        }
        check(
            Step::Descriptors,
            libc::dup3(*report_fd, REPORT_FD, libc::O_CLOEXEC),
        )?;
        *report_fd = REPORT_FD;
        // From here on nothing is opened for writing. Where the rules cannot be taken on, the filter is the only wall.
        if let Some(rules) = rules.filter(|&rules| rules >= 0) {
            let _ = crate::confine::restrict(rules);
        }
        let rest = libc::c_uint::MAX;
        check(
            Step::Descriptors,
            libc::syscall(libc::SYS_close_range, REPORT_FD + 1, rest, 0),
        )?;
    }
    Ok(())
}

/// Exec resets handlers, but inherits ignored and blocked signals: the guest must start with neither.
///
/// # Safety
/// Only in a forked child.
unsafe fn reset_signals() -> Result<(), Report> {
    /// The kernel's `struct sigaction`, all default.
    const DEFAULT: [u64; 4] = [0; 4];
    const SET_LEN: usize = 8;
    let none = 0u64;
    for signal in 1..=SIGNALS {
        if signal == libc::SIGKILL || signal == libc::SIGSTOP {
            continue;
        }
        // By number: the libc wrapper refuses the signals that it uses itself.
        // SAFETY: `DEFAULT` has the size of the structure, no old one is asked for.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                DEFAULT.as_ptr(),
                std::ptr::null_mut::<u64>(),
                SET_LEN,
            )
        };
        check(Step::Signals, answer)?;
    }
    // SAFETY: as above.
    let answer = unsafe {
        let old = std::ptr::null_mut::<u64>();
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            old,
            SET_LEN,
        )
    };
    check(Step::Signals, answer)?;
    Ok(())
}

/// Sets the soft limit, and lowers the hard one where it must be.
///
/// # Safety
/// Only in a forked child.
unsafe fn limit(resource: libc::__rlimit_resource_t, value: libc::rlim_t) -> Result<(), Report> {
    // SAFETY: `limit` is a valid structure.
    unsafe {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        check(Step::Limits, libc::getrlimit(resource, &raw mut limit))?;
        limit.rlim_cur = value.min(limit.rlim_max);
        check(Step::Limits, libc::setrlimit(resource, &raw const limit))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_pipe() {
        for &step in Step::ALL {
            let report = Report { step, errno: 13 };
            assert_eq!(Report::decode(report.encode()), Some(report));
        }
        assert_eq!(Report::decode([0xff; 8]), None);
    }
}
