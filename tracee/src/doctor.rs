//! Can this machine do what tracefork needs? Each answer comes from trying, never from a version number: containers,
//! hypervisors and security modules take features away that the kernel has.
//!
//! Whatever may kill, confine or confuse a process is tried in a child, which is reaped before the answer is given.

mod pages;

use crate::filter::Filter;
use crate::image::ImageOptions;
use crate::spawn::Launch;
use crate::stop::Status;
use crate::task::Task;
use crate::xstate::XState;
use crate::{memory::Memory, sys};
use nix::errno::Errno;
use nix::unistd::{ForkResult, fork};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Exit code of a child whose attempt had no effect, although no call failed.
const NO_EFFECT: i32 = 255;

/// One thing that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// Does tracefork need it, or does it merely profit?
    pub required: bool,
    /// Did it work?
    pub ok: bool,
    /// What was found.
    pub detail: String,
    /// What to do where it does not work.
    pub hint: &'static str,
}

/// What was found, or what went wrong.
type Finding = Result<String, String>;

/// Name, whether it is required, how to try, what to do.
type Trial = (&'static str, bool, fn() -> Finding, &'static str);

const REQUIRED: bool = true;
const OPTIONAL: bool = false;

const TRIALS: [Trial; 16] = [
    ("kernel", REQUIRED, kernel, "use Linux 5.11 or newer"),
    (
        "processors",
        REQUIRED,
        processors,
        "give the process at least one processor",
    ),
    (
        "ptrace",
        REQUIRED,
        ptrace,
        "set kernel.yama.ptrace_scope to 0 or 1; in a container add --cap-add=SYS_PTRACE",
    ),
    (
        "exit kill",
        REQUIRED,
        exit_kill,
        "use Linux 3.8 or newer; without it guests could outlive a crash",
    ),
    (
        "seccomp filter",
        REQUIRED,
        seccomp,
        "enable CONFIG_SECCOMP_FILTER, or run outside of the sandbox that forbids it",
    ),
    (
        "fixed addresses",
        REQUIRED,
        personality,
        "let the container's seccomp profile allow personality(ADDR_NO_RANDOMIZE)",
    ),
    (
        "guest memory",
        REQUIRED,
        guest_memory,
        "enable CONFIG_CROSS_MEMORY_ATTACH; in a container add --cap-add=SYS_PTRACE",
    ),
    (
        "trial launch",
        REQUIRED,
        launch,
        "see the checks above; a security module may forbid writable code pages",
    ),
    (
        "landlock",
        OPTIONAL,
        crate::confine::describe,
        "a program under test is confined by the filter alone; enable CONFIG_SECURITY_LANDLOCK for a second wall",
    ),
    (
        "own network",
        OPTIONAL,
        crate::apart::describe,
        "the second wall has a gap: enable user namespaces (user.max_user_namespaces, kernel.unprivileged_userns_clone, AppArmor), or in a container give SYS_ADMIN",
    ),
    (
        "rdtsc trap",
        OPTIONAL,
        tsc,
        "programs that read the time-stamp counter will not be deterministic",
    ),
    (
        "cpuid trap",
        OPTIONAL,
        cpuid,
        "cpuid is found in code files and replaced there; code that a program makes at run time is not covered",
    ),
    (
        "pidfd_getfd",
        OPTIONAL,
        pidfd_getfd,
        "use --checkpoint fork; in a container allow pidfd_getfd",
    ),
    (
        "userfaultfd",
        OPTIONAL,
        pages::userfaultfd,
        "use --checkpoint fork, or Linux 6.7 or newer with CONFIG_USERFAULTFD; in a container allow userfaultfd",
    ),
    (
        "page scan",
        OPTIONAL,
        pages::page_scan,
        "use --checkpoint fork, or Linux 6.7 or newer",
    ),
    (
        "extended state",
        REQUIRED,
        extended_state,
        "run on a processor with XSAVE",
    ),
];

/// Tries everything.
pub fn probe() -> Vec<Check> {
    TRIALS
        .into_iter()
        .map(|(name, required, try_it, hint)| check(name, required, try_it(), hint))
        .collect()
}

fn check(name: &'static str, required: bool, finding: Finding, hint: &'static str) -> Check {
    let ok = finding.is_ok();
    let detail = finding.unwrap_or_else(|problem| problem);
    tracing::trace!(name, ok, detail, "checked");
    Check {
        name,
        required,
        ok,
        detail,
        hint,
    }
}

fn kernel() -> Finding {
    let name = nix::sys::utsname::uname().map_err(|errno| errno.to_string())?;
    Ok(format!(
        "{} {}",
        name.release().to_string_lossy(),
        name.machine().to_string_lossy()
    ))
}

fn processors() -> Finding {
    let count = std::thread::available_parallelism().map_err(|error| error.to_string())?;
    Ok(format!("{count} usable"))
}

fn ptrace() -> Finding {
    let child = Idle::start()?;
    sys::seize(child.pid(), 0).map_err(text)?;
    let child = child.interrupted()?;
    sys::get_regs(child.pid).map_err(text)?;
    Ok("a child can be seized and inspected".into())
}

fn exit_kill() -> Finding {
    let child = Idle::start()?;
    sys::seize(child.pid(), 0).map_err(text)?;
    let child = child.interrupted()?;
    sys::set_options(child.pid, libc::PTRACE_O_EXITKILL).map_err(text)?;
    Ok("guests die with the supervisor".into())
}

fn guest_memory() -> Finding {
    let secret = 0x7472_6163_6566_6f72u64;
    let child = Idle::start()?;
    let seen = Memory::new(&child.task)
        .read_u64(&raw const secret as u64)
        .map_err(text)?;
    if seen == secret {
        Ok("process_vm_readv works".into())
    } else {
        Err("read something else".into())
    }
}

fn seccomp() -> Finding {
    let all = Filter::new(0..1024);
    let program = all.program();
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    let status = in_child(|| {
        // SAFETY: the program outlives the calls.
        let answer = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                0,
                &raw const filter,
            )
        };
        exit_code(answer == 0)
    })?;
    success(status, "filters can be installed")
}

fn personality() -> Finding {
    let status = in_child(|| {
        let wanted = libc::ADDR_NO_RANDOMIZE;
        // SAFETY: no memory is involved; the second call only asks.
        let (set, now) = unsafe {
            (
                libc::personality(wanted as libc::c_ulong),
                libc::personality(0xffff_ffff),
            )
        };
        match set {
            -1 => exit_code(false),
            _ if now & wanted == 0 => NO_EFFECT,
            _ => 0,
        }
    })?;
    success(status, "address randomisation can be switched off")
}

fn tsc() -> Finding {
    let status = in_child(|| {
        // SAFETY: no memory is involved; if the instruction does not fault, it does nothing.
        unsafe {
            if libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) != 0 {
                return exit_code(false);
            }
            std::hint::black_box(std::arch::x86_64::_rdtsc());
        }
        NO_EFFECT
    })?;
    faulted(status, "rdtsc faults")
}

fn cpuid() -> Finding {
    const ARCH_SET_CPUID: libc::c_ulong = 0x1012;
    let status = in_child(|| {
        // SAFETY: no memory is involved.
        if unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_CPUID, 0) } != 0 {
            return exit_code(false);
        }
        std::hint::black_box(std::arch::x86_64::__cpuid(0));
        NO_EFFECT
    })?;
    faulted(status, "cpuid faults")
}

fn pidfd_getfd() -> Finding {
    let child = Idle::start()?;
    // SAFETY: no memory is involved.
    let pidfd = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, child.pid(), 0) })?;
    let theirs = child.shared.as_raw_fd();
    // SAFETY: as above.
    let copy = owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), theirs, 0) })?;
    drop(copy);
    Ok("descriptors of a guest can be fetched".into())
}

fn extended_state() -> Finding {
    let child = Idle::start()?;
    sys::seize(child.pid(), 0).map_err(text)?;
    let child = child.interrupted()?;
    let state = XState::read(child.pid).map_err(text)?;
    let enabled = state.features_enabled();
    let has = |bit: u32, name: &'static str| (enabled & (1 << bit) != 0).then_some(name);
    let names: Vec<_> = [
        has(2, "AVX"),
        has(6, "AVX-512"),
        has(9, "protection keys"),
        has(18, "AMX"),
    ]
    .into_iter()
    .flatten()
    .collect();
    Ok(format!("{} bytes ({})", state.as_bytes().len(), names.join(", ")))
}

/// All together: this very program, launched and prepared, then killed before its first instruction.
fn launch() -> Finding {
    let launch = Launch {
        program: "/proc/self/exe".into(),
        argv: vec!["trial".into()],
        env: vec![],
        cwd: "/".into(),
        filter: Filter::new([]),
        core: None,
        hide_tsc: false,
        confine: true,
    };
    let mut task = launch.spawn().map_err(text)?;
    let options = ImageOptions {
        random: [0; 16],
        hide_tsc: false,
    };
    task.prepare_image(&options).map_err(text)?;
    let copy = task.inject_fork().map_err(text)?;
    let same = copy.regs().map_err(text)? == task.regs().map_err(text)?;
    if same {
        Ok("launched, prepared and forked a program".into())
    } else {
        Err("the copy differs".into())
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn owned(fd: libc::c_long) -> Result<OwnedFd, String> {
    let fd = Errno::result(fd).map_err(text)?;
    // SAFETY: a new descriptor that nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// In a child: 0, or the errno of the call that just failed.
fn exit_code(ok: bool) -> i32 {
    if ok { 0 } else { Errno::last_raw() }
}

fn success(status: Status, what: &str) -> Finding {
    match status {
        Status::Exited(0) => Ok(what.to_owned()),
        other => Err(describe(other)),
    }
}

fn faulted(status: Status, what: &str) -> Finding {
    match status {
        Status::Killed(libc::SIGSEGV) => Ok(what.to_owned()),
        other => Err(describe(other)),
    }
}

fn describe(status: Status) -> String {
    match status {
        Status::Exited(NO_EFFECT) => "accepted, but without effect".into(),
        Status::Exited(errno) => Errno::from_raw(errno).to_string(),
        Status::Killed(signal) => format!("killed by signal {signal}"),
        other => format!("{other:?}"),
    }
}

/// Runs the closure in a forked child, whose exit code is its result. It must be async-signal-safe.
pub(crate) fn in_child(attempt: impl FnOnce() -> i32) -> Result<Status, String> {
    // SAFETY: the child makes system calls only, then exits without cleaning up what belongs to the parent.
    let pid = match unsafe { fork() }.map_err(text)? {
        ForkResult::Parent { child } => child.as_raw(),
        // SAFETY: resets a disposition, runs the attempt, exits.
        ForkResult::Child => unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            libc::_exit(attempt())
        },
    };
    let mut task = Task::new(pid);
    let status = sys::wait(pid).map_err(text)?;
    Ok(task.observe(status))
}

/// A child that waits to be killed.
struct Idle {
    task: Task,
    /// A file that it has inherited, under the same number.
    shared: std::fs::File,
}

impl Idle {
    fn start() -> Result<Self, String> {
        let shared = std::fs::File::open("/dev/null").map_err(text)?;
        // SAFETY: the child only makes system calls.
        match unsafe { fork() }.map_err(text)? {
            ForkResult::Parent { child } => Ok(Idle {
                task: Task::new(child.as_raw()),
                shared,
            }),
            // SAFETY: as above; it ends when it is killed, at the latest with the parent.
            ForkResult::Child => unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
                libc::pause();
                libc::_exit(0)
            },
        }
    }

    fn pid(&self) -> i32 {
        self.task.pid
    }

    /// Stops it, once it is seized.
    fn interrupted(mut self) -> Result<Task, String> {
        sys::interrupt(self.task.pid).map_err(text)?;
        let status = sys::wait(self.task.pid).map_err(text)?;
        match self.task.observe(status) {
            Status::Event { .. } => Ok(self.task),
            other => Err(describe(other)),
        }
    }
}
