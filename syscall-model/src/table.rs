//! One row per system call: what becomes of it, who handles it, and why.
//!
//! The table drives the seccomp filter, the dispatch and the coverage page in the docs. The build fails if
//! the kernel's list (crate `syscalls`) has a call without a row here. Nothing is passed through in silence:
//! a number that is not in the list at all is fatal too.

use crate::buffers::Length::{Argument, Bytes, Messages, Result as Returned, Text, Vector};
use crate::buffers::{Buffer, fills, reads};
use crate::call::Call;
use crate::effect::{Effect, Outcome, Prepared};
use crate::faults::{self, Faults};
use crate::fs::durable;
use crate::handlers::{
    accept, attributes, changes, clock, descriptors, dirs, epoll, eventfd, exec, files, futex, identity,
    invisible, io, limits, locks, mapping, memory, messages, misc, names, pipe, poll, scheduling, select,
    signalfd, signals, sockets, sockopt, threads, timerfd, timers, transfers, volumes, xattr,
};
use crate::memory::GuestMemory;
use crate::model::Cx;
use crate::net::mirror;
use crate::signals::Signals;
use Fate::*;
use std::ops::Range;
use syscalls::{Errno, Sysno};

/// Performs a call on the model.
pub type Handler = fn(&mut Cx, &Call) -> Outcome;
/// Tells, when a thread parks before a call, whether it is visible, what it waits for, what it touches.
pub type Prepare = fn(&mut Cx, &Call) -> Prepared;

/// What becomes of a system call.
#[derive(Clone, Copy)]
pub enum Fate {
    /// Pure work on private memory or constant data: the filter lets it through without a stop.
    Allow,
    /// The supervisor sees it, then the kernel runs it.
    Pass,
    /// The model performs it.
    Model(Handler, Prepare),
    /// Answered with this error, which programs handle.
    Refuse(Errno),
    /// Cannot be modelled honestly: the run stops and says so.
    Fatal,
}

/// A row of the table.
pub struct Row {
    pub sysno: Sysno,
    pub fate: Fate,
    pub why: &'static str,
    /// How the environment may make it fail, if it is asked to.
    pub faults: Faults,
    /// The memory that the kernel reads or fills for it.
    pub buffers: &'static [Buffer],
}

const fn row(sysno: Sysno, fate: Fate, why: &'static str) -> Row {
    Row {
        sysno,
        fate,
        why,
        faults: Faults::empty(),
        buffers: &[],
    }
}

impl Row {
    const fn may_meet(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    const fn with(mut self, buffers: &'static [Buffer]) -> Row {
        self.buffers = buffers;
        self
    }
}

/// The row of a call.
pub fn lookup(sysno: Sysno) -> &'static Row {
    &TABLE[usize::from(PLACES[sysno as usize])]
}

/// Where in the table each number is: it is in the order of the numbers, but numbers have gaps.
static PLACES: [u16; TABLE[ROWS - 1].sysno as usize + 1] = {
    let mut places = [0; TABLE[ROWS - 1].sysno as usize + 1];
    let mut i = 0;
    while i < ROWS {
        places[TABLE[i].sysno as usize] = i as u16;
        i += 1;
    }
    places
};

pub(crate) fn execute(cx: &mut Cx, call: &Call) -> Outcome {
    let outcome = dispatch(cx, call);
    durable::after_call(cx.model, call, outcome.is_ok());
    mirror::settle(cx.model, cx.net);
    // Masks, threads and waits may have changed, and with them who takes a pending signal.
    Signals::settle(cx.model);
    cx.model.stack_pointer = 0;
    outcome
}

fn dispatch(cx: &mut Cx, call: &Call) -> Outcome {
    let row = lookup(call.sysno);
    match row.fate {
        Allow | Pass => Ok(Effect::Kernel),
        Model(handler, _) => {
            let outcome = handler(cx, call);
            if !matches!(outcome, Ok(Effect::Block(_)))
                && let Some(thread) = cx.model.threads.get_mut(&cx.tid)
            {
                thread.end_call();
            }
            outcome
        }
        Refuse(errno) => Err(errno),
        Fatal => Ok(Effect::Unsupported(row.why.to_owned())),
    }
}

pub(crate) fn prepare(cx: &mut Cx, call: &Call) -> Prepared {
    match lookup(call.sysno).fate {
        Model(_, prepare) => {
            let prepared = prepare(cx, call);
            mirror::settle(cx.model, cx.net);
            prepared
        }
        _ => Prepared::invisible(),
    }
}

/// The memory that a call has accessed which returned this, and whether it was filled.
pub fn buffers(call: &Call, result: i64, memory: &dyn GuestMemory) -> Vec<(Range<u64>, bool)> {
    if result < 0 {
        return Vec::new();
    }
    let buffers = lookup(call.sysno).buffers.iter();
    buffers
        .flat_map(|buffer| buffer.spans(call, result, memory))
        .collect()
}

/// Numbers that the seccomp filter lets through without a stop.
pub fn allowed() -> impl Iterator<Item = u32> {
    TABLE
        .iter()
        .filter(|row| matches!(row.fate, Allow))
        .map(|row| row.sysno.id() as u32)
}

/// The coverage page, in Markdown.
pub fn coverage_page() -> String {
    use std::fmt::Write as _;
    let mut page = String::from(
        "# System calls\n\nGenerated from `syscall-model/src/table.rs`; a test keeps it true.\n\n\
         | fate | meaning | calls |\n| --- | --- | --- |\n",
    );
    for (name, meaning) in FATES {
        let count = TABLE.iter().filter(|row| row.fate.name() == *name).count();
        let _ = writeln!(page, "| {name} | {meaning} | {count} |");
    }
    page.push_str("\n| number | call | fate | why |\n| --- | --- | --- | --- |\n");
    for row in &TABLE {
        let fate = match row.fate {
            Refuse(errno) => format!("refuse ({})", errno.name().unwrap_or("?")),
            fate => fate.name().to_owned(),
        };
        let _ = writeln!(
            page,
            "| {} | `{}` | {} | {} |",
            row.sysno.id(),
            row.sysno.name(),
            fate,
            row.why
        );
    }
    page
}

const FATES: &[(&str, &str)] = &[
    ("model", "performed by the model; rewound with it"),
    (
        "allow",
        "pure work on private memory or constant data; runs without a stop",
    ),
    ("pass", "seen by the supervisor, then run by the kernel"),
    ("refuse", "answered with an error that programs handle"),
    ("fatal", "the run stops with exit code 4 and says why"),
];

impl Fate {
    fn name(&self) -> &'static str {
        match self {
            Allow => "allow",
            Pass => "pass",
            Model(..) => "model",
            Refuse(_) => "refuse",
            Fatal => "fatal",
        }
    }
}

const ROWS: usize = 383;
#[rustfmt::skip] // one line per call, whatever its length
pub static TABLE: [Row; ROWS] = [
    row(Sysno::read, Model(io::read, io::prepare_read), "offsets, pipes and captured output live in the model").may_meet(faults::READ).with(&[fills(1, Returned)]),
    row(Sysno::write, Model(io::write, io::prepare_write), "offsets, pipes and captured output live in the model; files change in the overlay").may_meet(faults::WRITE).with(&[reads(1, Returned)]),
    row(Sysno::open, Model(files::open, files::prepare_open), "paths are resolved through the overlay").may_meet(faults::OPEN).with(&[reads(0, Text)]),
    row(Sysno::close, Model(files::close, files::prepare_close), "descriptors live in the model"),
    row(Sysno::stat, Model(attributes::stat, attributes::prepare_stat), "through the overlay; the access time shows the last change").with(&[reads(0, Text), fills(1, Bytes(144))]),
    row(Sysno::fstat, Model(attributes::fstat, attributes::prepare_fstat), "through the overlay; the access time shows the last change").with(&[fills(1, Bytes(144))]),
    row(Sysno::lstat, Model(attributes::lstat, attributes::prepare_lstat), "through the overlay; the access time shows the last change").with(&[reads(0, Text), fills(1, Bytes(144))]),
    row(Sysno::poll, Model(poll::poll, poll::prepare), "readiness comes from the model; the deadline is on the virtual clock").may_meet(Faults::EINTR),
    row(Sysno::lseek, Model(files::lseek, files::prepare_lseek), "offsets live in the model"),
    row(Sysno::mmap, Model(mapping::mmap, mapping::prepare_mmap), "anonymous memory by the kernel, always private; files from the host or the overlay, shared ones kept in step at system calls").may_meet(Faults::NO_MEMORY),
    row(Sysno::mprotect, Model(mapping::mprotect, invisible), "private memory of the process; the supervisor watches the layout"),
    row(Sysno::munmap, Model(mapping::munmap, mapping::prepare_shared), "memory belongs to the kernel, and is saved with it; shared mappings reach their files first"),
    row(Sysno::brk, Pass, "private memory of the process; the supervisor watches the layout").may_meet(Faults::NO_MEMORY),
    row(Sysno::rt_sigaction, Model(signals::rt_sigaction, signals::prepare_action), "actions live in the model; the kernel has none of the program's handlers").may_meet(Faults::SIGNAL),
    row(Sysno::rt_sigprocmask, Model(signals::rt_sigprocmask, signals::prepare_mask), "masks are kept per virtual thread").may_meet(Faults::SIGNAL),
    row(Sysno::rt_sigreturn, Model(signals::rt_sigreturn, invisible), "the supervisor pops the frame that it pushed"),
    row(Sysno::ioctl, Model(descriptors::ioctl, descriptors::prepare_ioctl), "what files, pipes and sockets need; nothing is a terminal"),
    row(Sysno::pread64, Model(io::pread64, io::prepare_pread), "through the overlay").may_meet(faults::READ).with(&[fills(1, Returned)]),
    row(Sysno::pwrite64, Model(io::pwrite64, io::prepare_pwrite), "into the overlay").may_meet(faults::WRITE).with(&[reads(1, Returned)]),
    row(Sysno::readv, Model(io::readv, io::prepare_read), "the same rules as read").may_meet(faults::READ).with(&[fills(1, Vector(2))]),
    row(Sysno::writev, Model(io::writev, io::prepare_write), "the same rules as write").may_meet(faults::WRITE).with(&[reads(1, Vector(2))]),
    row(Sysno::access, Model(attributes::access, attributes::prepare_stat), "through the overlay").with(&[reads(0, Text)]),
    row(Sysno::pipe, Model(pipe::pipe, pipe::prepare_new), "pipes live in the model, slot by slot as in the kernel").may_meet(Faults::NO_FILES).with(&[fills(0, Bytes(8))]),
    row(Sysno::select, Model(select::select, select::prepare), "readiness comes from the model; the time left is written back").may_meet(Faults::EINTR),
    row(Sysno::sched_yield, Model(threads::sched_yield, threads::prepare_yield), "lets every other thread that can move go first"),
    row(Sysno::mremap, Model(mapping::mremap, invisible), "private memory of the process; a shared mapping of a file cannot be moved").may_meet(Faults::NO_MEMORY),
    row(Sysno::msync, Model(mapping::msync, mapping::prepare_shared), "what was stored through shared mappings reaches the overlay"),
    row(Sysno::mincore, Model(memory::mincore, invisible), "every mapped page counts as resident: what is resident differs from run to run"),
    row(Sysno::madvise, Model(memory::madvise, invisible), "the kernel runs it, but advice that changes what a fork copies is refused (EINVAL), and MADV_FREE frees at once"),
    row(Sysno::shmget, Refuse(Errno::ENOSYS), "System V IPC is shared with other processes, which are not modelled; a kernel without CONFIG_SYSVIPC says the same"),
    row(Sysno::shmat, Refuse(Errno::ENOSYS), "System V IPC is shared with other processes, which are not modelled; a kernel without CONFIG_SYSVIPC says the same"),
    row(Sysno::shmctl, Refuse(Errno::ENOSYS), "System V IPC is shared with other processes, which are not modelled; a kernel without CONFIG_SYSVIPC says the same"),
    row(Sysno::dup, Model(descriptors::dup, descriptors::prepare_table), "descriptors live in the model").may_meet(Faults::NO_FILES),
    row(Sysno::dup2, Model(descriptors::dup2, descriptors::prepare_dup2), "descriptors live in the model"),
    row(Sysno::pause, Model(signals::pause, signals::prepare_pause), "waits in the model for a handler to run").may_meet(Faults::EINTR),
    row(Sysno::nanosleep, Model(clock::nanosleep, clock::prepare_nanosleep), "waits for the virtual clock; costs no real time").may_meet(Faults::EINTR).with(&[reads(0, Bytes(16))]),
    row(Sysno::getitimer, Model(timers::getitimer, invisible), "on the virtual clock, also the timers of processor time"),
    row(Sysno::alarm, Model(timers::alarm, timers::prepare), "on the virtual clock, also the timers of processor time"),
    row(Sysno::setitimer, Model(timers::setitimer, timers::prepare), "on the virtual clock, also the timers of processor time"),
    row(Sysno::getpid, Model(identity::getpid, invisible), "virtual process id, the same in every run"),
    row(Sysno::sendfile, Model(transfers::sendfile, transfers::prepare_sendfile), "a read and a write in the model"),
    row(Sysno::socket, Model(sockets::socket, pipe::prepare_new), "streams and datagrams over IPv4, IPv6 and Unix addresses; other families are refused").may_meet(Faults::NO_FILES),
    row(Sysno::connect, Model(sockets::connect, sockets::prepare_connect), "to a socket of the program itself, or to a peer through the network behind the model").may_meet(faults::CONNECT).with(&[reads(1, Argument(2))]),
    row(Sysno::accept, Model(accept::accept, accept::prepare), "a connection of the program to itself, or the next one of a client").may_meet(faults::ACCEPT),
    row(Sysno::sendto, Model(messages::sendto, messages::prepare_send), "socket buffers live in the model").may_meet(faults::WRITE).with(&[reads(1, Returned)]),
    row(Sysno::recvfrom, Model(messages::recvfrom, messages::prepare_receive), "socket buffers live in the model").may_meet(faults::READ).with(&[fills(1, Returned)]),
    row(Sysno::sendmsg, Model(messages::sendmsg, messages::prepare_send), "socket buffers live in the model, descriptors in flight too").may_meet(faults::WRITE).with(&[reads(1, Messages)]),
    row(Sysno::recvmsg, Model(messages::recvmsg, messages::prepare_receive), "socket buffers live in the model, descriptors in flight too").may_meet(faults::READ).with(&[fills(1, Messages)]),
    row(Sysno::shutdown, Model(sockets::shutdown, sockets::prepare_change), "the peer in the model sees it"),
    row(Sysno::bind, Model(sockets::bind, sockets::prepare_bind), "names live in the model; where clients are to come, the network reserves the address too").with(&[reads(1, Argument(2))]),
    row(Sysno::listen, Model(sockets::listen, sockets::prepare_change), "the model holds the backlog; clients are started when the program first looks for them"),
    row(Sysno::getsockname, Model(sockets::getsockname, sockets::prepare_look), "ports that nobody chose depend on the connection, not on the order of events"),
    row(Sysno::getpeername, Model(sockets::getpeername, sockets::prepare_name), "a client has a made-up port, the same in every schedule"),
    row(Sysno::socketpair, Model(sockets::socketpair, pipe::prepare_new), "two connected sockets in the model").may_meet(Faults::NO_FILES).with(&[fills(3, Bytes(8))]),
    row(Sysno::setsockopt, Model(sockopt::setsockopt, sockets::prepare_change), "options with an effect have it, harmless ones are kept"),
    row(Sysno::getsockopt, Model(sockopt::getsockopt, sockopt::prepare_getsockopt), "reads what is set; SO_ERROR is told once"),
    row(Sysno::clone, Model(threads::clone, threads::prepare_clone), "threads become virtual threads; a second process is not modelled and stops the run").may_meet(Faults::NO_MEMORY),
    row(Sysno::fork, Fatal, "a second process is not modelled: run the program in one process, or the other one as a peer (--server, --client)"),
    row(Sysno::vfork, Fatal, "a second process is not modelled: do without the other program, or run it as a peer (--server, --client)"),
    row(Sysno::execve, Model(exec::execve, exec::prepare), "the kernel loads the new program; only while the process has a single thread, and only files of this machine"),
    row(Sysno::exit, Model(threads::exit, threads::prepare_exit), "ends a virtual thread"),
    row(Sysno::wait4, Model(identity::wait4, invisible), "the process never has children"),
    row(Sysno::kill, Model(signals::kill, signals::prepare_kill), "to itself only: no other process is in sight (ESRCH)"),
    row(Sysno::uname, Pass, "constant while the machine runs").with(&[fills(0, Bytes(390))]),
    row(Sysno::semget, Refuse(Errno::ENOSYS), "System V IPC is shared with other processes, which are not modelled; a kernel without CONFIG_SYSVIPC says the same"),
    row(Sysno::semop, Refuse(Errno::ENOSYS), "System V IPC is shared with other processes, which are not modelled; a kernel without CONFIG_SYSVIPC says the same"),
    row(Sysno::semctl, Refuse(Errno::ENOSYS), "System V IPC is shared with other processes, which are not modelled; a kernel without CONFIG_SYSVIPC says the same"),
    row(Sysno::shmdt, Refuse(Errno::ENOSYS), "System V IPC is shared with other processes, which are not modelled; a kernel without CONFIG_SYSVIPC says the same"),
    row(Sysno::msgget, Refuse(Errno::ENOSYS), "System V IPC is shared with other processes, which are not modelled; a kernel without CONFIG_SYSVIPC says the same"),
    row(Sysno::msgsnd, Refuse(Errno::ENOSYS), "System V IPC is shared with other processes, which are not modelled; a kernel without CONFIG_SYSVIPC says the same"),
    row(Sysno::msgrcv, Refuse(Errno::ENOSYS), "System V IPC is shared with other processes, which are not modelled; a kernel without CONFIG_SYSVIPC says the same"),
    row(Sysno::msgctl, Refuse(Errno::ENOSYS), "System V IPC is shared with other processes, which are not modelled; a kernel without CONFIG_SYSVIPC says the same"),
    row(Sysno::fcntl, Model(descriptors::fcntl, descriptors::prepare_fcntl), "flags, duplicates, record locks, pipe sizes and seals; no leases, no signals").may_meet(Faults::NO_FILES),
    row(Sysno::flock, Model(locks::flock, locks::prepare_flock), "locks live in the model").may_meet(Faults::EINTR),
    row(Sysno::fsync, Model(changes::fsync, changes::prepare_sync), "the overlay is always in order").may_meet(faults::CHANGE),
    row(Sysno::fdatasync, Model(changes::fsync, changes::prepare_sync), "the overlay is always in order").may_meet(faults::CHANGE),
    row(Sysno::truncate, Model(changes::truncate, changes::prepare_path), "in the overlay").may_meet(faults::CHANGE),
    row(Sysno::ftruncate, Model(changes::ftruncate, changes::prepare_fd), "in the overlay").may_meet(faults::CHANGE),
    row(Sysno::getdents, Model(dirs::getdents, dirs::prepare_getdents), "both layers, sorted by name"),
    row(Sysno::getcwd, Model(dirs::getcwd, dirs::prepare_getcwd), "the working directory lives in the model").with(&[fills(0, Returned)]),
    row(Sysno::chdir, Model(dirs::chdir, dirs::prepare_chdir), "the working directory lives in the model").with(&[reads(0, Text)]),
    row(Sysno::fchdir, Model(dirs::fchdir, dirs::prepare_fchdir), "the working directory lives in the model"),
    row(Sysno::rename, Model(names::rename, names::prepare_both), "in the overlay; directories too").may_meet(faults::CHANGE).with(&[reads(0, Text), reads(1, Text)]),
    row(Sysno::mkdir, Model(names::mkdir, names::prepare_first), "in the overlay").may_meet(faults::CHANGE).with(&[reads(0, Text)]),
    row(Sysno::rmdir, Model(names::rmdir, names::prepare_first), "in the overlay").with(&[reads(0, Text)]),
    row(Sysno::creat, Model(files::creat, files::prepare_creat), "the same rules as open").may_meet(faults::OPEN),
    row(Sysno::link, Model(names::link, names::prepare_both), "in the overlay").may_meet(faults::CHANGE),
    row(Sysno::unlink, Model(names::unlink, names::prepare_first), "in the overlay").with(&[reads(0, Text)]),
    row(Sysno::symlink, Model(names::symlink, names::prepare_second), "in the overlay").may_meet(faults::CHANGE),
    row(Sysno::readlink, Model(dirs::readlink, dirs::prepare_readlink), "both layers, and the links of /proc/self").with(&[reads(0, Text), fills(1, Returned)]),
    row(Sysno::chmod, Model(changes::chmod, changes::prepare_path), "in the overlay"),
    row(Sysno::fchmod, Model(changes::fchmod, changes::prepare_fd), "in the overlay"),
    row(Sysno::chown, Model(changes::chown, changes::prepare_path), "in the overlay"),
    row(Sysno::fchown, Model(changes::fchown, changes::prepare_fd), "in the overlay"),
    row(Sysno::lchown, Model(changes::lchown, changes::prepare_link), "in the overlay"),
    row(Sysno::umask, Model(changes::umask, changes::prepare_umask), "the mask lives in the model"),
    row(Sysno::gettimeofday, Model(clock::gettimeofday, invisible), "the virtual clock, which passes only when all threads wait").with(&[fills(0, Bytes(16))]),
    row(Sysno::getrlimit, Model(limits::getrlimit, invisible), "a fixed table, the same on every machine; settable within the model; only RLIMIT_NOFILE is enforced"),
    row(Sysno::getrusage, Model(clock::getrusage, invisible), "user time is virtual time; real counters differ from run to run and show as zero"),
    row(Sysno::sysinfo, Model(misc::sysinfo, invisible), "a fixed machine; real figures change from one look to the next"),
    row(Sysno::times, Model(clock::times, invisible), "the virtual clock, which passes only when all threads wait; processor time is virtual time"),
    row(Sysno::ptrace, Refuse(Errno::EPERM), "the program is traced already, as under a debugger"),
    row(Sysno::getuid, Model(identity::getuid, invisible), "the ids that the program was started with"),
    row(Sysno::syslog, Refuse(Errno::EPERM), "administers the machine and needs a privilege"),
    row(Sysno::getgid, Model(identity::getgid, invisible), "the ids that the program was started with"),
    row(Sysno::setuid, Model(identity::setuid, invisible), "between the ids that the process has; root may become anybody, and the model's files are then not all open to it"),
    row(Sysno::setgid, Model(identity::setgid, invisible), "between the ids that the process has; root may become anybody, and the model's files are then not all open to it"),
    row(Sysno::geteuid, Model(identity::geteuid, invisible), "the ids that the program was started with"),
    row(Sysno::getegid, Model(identity::getegid, invisible), "the ids that the program was started with"),
    row(Sysno::setpgid, Model(identity::setpgid, invisible), "kept in the model"),
    row(Sysno::getppid, Model(identity::getppid, invisible), "virtual ids, the same in every run"),
    row(Sysno::getpgrp, Model(identity::getpgrp, invisible), "virtual ids, the same in every run"),
    row(Sysno::setsid, Model(identity::setsid, invisible), "kept in the model"),
    row(Sysno::setreuid, Model(identity::setreuid, invisible), "between the ids that the process has; root may become anybody, and the model's files are then not all open to it"),
    row(Sysno::setregid, Model(identity::setregid, invisible), "between the ids that the process has; root may become anybody, and the model's files are then not all open to it"),
    row(Sysno::getgroups, Model(identity::getgroups, invisible), "the ids that the program was started with"),
    row(Sysno::setgroups, Model(identity::setgroups, invisible), "root's only; the model's files are then open to these groups"),
    row(Sysno::setresuid, Model(identity::setresuid, invisible), "between the ids that the process has; root may become anybody, and the model's files are then not all open to it"),
    row(Sysno::getresuid, Model(identity::getresuid, invisible), "the ids that the program was started with"),
    row(Sysno::setresgid, Model(identity::setresgid, invisible), "between the ids that the process has; root may become anybody, and the model's files are then not all open to it"),
    row(Sysno::getresgid, Model(identity::getresgid, invisible), "the ids that the program was started with"),
    row(Sysno::getpgid, Model(identity::getpgid, invisible), "virtual ids, the same in every run"),
    row(Sysno::setfsuid, Model(identity::setfsuid, invisible), "the file-system id follows the effective one; answers with it"),
    row(Sysno::setfsgid, Model(identity::setfsgid, invisible), "the file-system id follows the effective one; answers with it"),
    row(Sysno::getsid, Model(identity::getsid, invisible), "virtual ids, the same in every run"),
    row(Sysno::capget, Model(identity::capget, invisible), "no capabilities: what they allow is refused"),
    row(Sysno::capset, Model(identity::capset, invisible), "no capabilities: what they allow is refused"),
    row(Sysno::rt_sigpending, Model(signals::rt_sigpending, invisible), "pending sets live in the model"),
    row(Sysno::rt_sigtimedwait, Model(signals::rt_sigtimedwait, signals::prepare_timedwait), "waits in the model for a pending signal or the virtual clock").may_meet(Faults::EINTR),
    row(Sysno::rt_sigqueueinfo, Model(signals::rt_sigqueueinfo, signals::prepare_kill), "to itself only, with a value; real-time signals queue"),
    row(Sysno::rt_sigsuspend, Model(signals::rt_sigsuspend, signals::prepare_sigsuspend), "waits in the model with another mask"),
    row(Sysno::sigaltstack, Model(signals::sigaltstack, invisible), "kept per virtual thread"),
    row(Sysno::utime, Model(changes::utime, changes::prepare_path), "in the overlay"),
    row(Sysno::mknod, Model(names::mknod, names::prepare_first), "files and FIFOs in the overlay; no devices"),
    row(Sysno::uselib, Refuse(Errno::ENOSYS), "obsolete and gone from most kernels"),
    row(Sysno::personality, Model(misc::personality, invisible), "the usual personality only"),
    row(Sysno::ustat, Refuse(Errno::ENOSYS), "obsolete; statfs took its place"),
    row(Sysno::statfs, Model(volumes::statfs, volumes::prepare_statfs), "the same figures everywhere: real ones change all the time"),
    row(Sysno::fstatfs, Model(volumes::fstatfs, attributes::prepare_fstat), "the same figures everywhere: real ones change all the time"),
    row(Sysno::sysfs, Refuse(Errno::ENOSYS), "obsolete; /proc/filesystems took its place"),
    row(Sysno::getpriority, Model(scheduling::getpriority, invisible), "kept and told back; the schedule is tracefork's"),
    row(Sysno::setpriority, Model(scheduling::setpriority, invisible), "kept and told back; the schedule is tracefork's"),
    row(Sysno::sched_setparam, Model(scheduling::sched_setparam, invisible), "kept and told back; the schedule is tracefork's"),
    row(Sysno::sched_getparam, Model(scheduling::sched_getparam, invisible), "kept and told back; the schedule is tracefork's"),
    row(Sysno::sched_setscheduler, Model(scheduling::sched_setscheduler, invisible), "kept and told back; the schedule is tracefork's"),
    row(Sysno::sched_getscheduler, Model(scheduling::sched_getscheduler, invisible), "kept and told back; the schedule is tracefork's"),
    row(Sysno::sched_get_priority_max, Model(scheduling::sched_get_priority_max, invisible), "constants of the kernel"),
    row(Sysno::sched_get_priority_min, Model(scheduling::sched_get_priority_min, invisible), "constants of the kernel"),
    row(Sysno::sched_rr_get_interval, Model(scheduling::sched_rr_get_interval, invisible), "constants of the kernel"),
    row(Sysno::mlock, Model(memory::mlock, invisible), "succeeds and does nothing: paging cannot be observed, and locks do not survive a fork"),
    row(Sysno::munlock, Model(memory::munlock, invisible), "succeeds and does nothing: paging cannot be observed, and locks do not survive a fork"),
    row(Sysno::mlockall, Model(memory::mlockall, invisible), "succeeds and does nothing: paging cannot be observed, and locks do not survive a fork"),
    row(Sysno::munlockall, Model(memory::munlockall, invisible), "succeeds and does nothing: paging cannot be observed, and locks do not survive a fork"),
    row(Sysno::vhangup, Refuse(Errno::EPERM), "administers the machine and needs a privilege"),
    row(Sysno::modify_ldt, Refuse(Errno::ENOSYS), "segment descriptors do not survive in a checkpoint; as on a kernel without CONFIG_MODIFY_LDT_SYSCALL"),
    row(Sysno::pivot_root, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::_sysctl, Refuse(Errno::ENOSYS), "gone from Linux; the kernel says the same"),
    row(Sysno::prctl, Model(misc::prctl, invisible), "names and flags are kept; what would change the process behind the supervisor is refused (EINVAL)"),
    row(Sysno::arch_prctl, Model(threads::arch_prctl, invisible), "the TLS base is part of the registers that are swapped with the thread"),
    row(Sysno::adjtimex, Model(clock::adjtimex, invisible), "shows an unsynchronised clock; setting it needs a privilege (EPERM)"),
    row(Sysno::setrlimit, Model(limits::setrlimit, invisible), "a fixed table, the same on every machine; settable within the model; only RLIMIT_NOFILE is enforced"),
    row(Sysno::chroot, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::sync, Model(changes::sync, invisible), "the overlay is always in order"),
    row(Sysno::acct, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::settimeofday, Refuse(Errno::EPERM), "needs a privilege; the virtual clock is not the program's to set"),
    row(Sysno::mount, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::umount2, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::swapon, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::swapoff, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::reboot, Refuse(Errno::EPERM), "administers the machine and needs a privilege"),
    row(Sysno::sethostname, Refuse(Errno::EPERM), "administers the machine and needs a privilege"),
    row(Sysno::setdomainname, Refuse(Errno::EPERM), "administers the machine and needs a privilege"),
    row(Sysno::iopl, Refuse(Errno::EPERM), "administers the machine and needs a privilege"),
    row(Sysno::ioperm, Refuse(Errno::EPERM), "administers the machine and needs a privilege"),
    row(Sysno::create_module, Refuse(Errno::ENOSYS), "gone from Linux; the kernel says the same"),
    row(Sysno::init_module, Refuse(Errno::EPERM), "administers the machine and needs a privilege"),
    row(Sysno::delete_module, Refuse(Errno::EPERM), "administers the machine and needs a privilege"),
    row(Sysno::get_kernel_syms, Refuse(Errno::ENOSYS), "gone from Linux; the kernel says the same"),
    row(Sysno::query_module, Refuse(Errno::ENOSYS), "gone from Linux; the kernel says the same"),
    row(Sysno::quotactl, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::nfsservctl, Refuse(Errno::ENOSYS), "gone since Linux 3.1"),
    row(Sysno::getpmsg, Refuse(Errno::ENOSYS), "gone from Linux; the kernel says the same"),
    row(Sysno::putpmsg, Refuse(Errno::ENOSYS), "gone from Linux; the kernel says the same"),
    row(Sysno::afs_syscall, Refuse(Errno::ENOSYS), "gone from Linux; the kernel says the same"),
    row(Sysno::tuxcall, Refuse(Errno::ENOSYS), "gone from Linux; the kernel says the same"),
    row(Sysno::security, Refuse(Errno::ENOSYS), "gone from Linux; the kernel says the same"),
    row(Sysno::gettid, Model(threads::gettid, invisible), "virtual thread id"),
    row(Sysno::readahead, Model(changes::readahead, invisible), "advice changes nothing here"),
    row(Sysno::setxattr, Model(xattr::set, attributes::prepare_stat), "a file system without extended attributes"),
    row(Sysno::lsetxattr, Model(xattr::set, attributes::prepare_lstat), "a file system without extended attributes"),
    row(Sysno::fsetxattr, Model(xattr::set, attributes::prepare_fstat), "a file system without extended attributes"),
    row(Sysno::getxattr, Model(xattr::get, attributes::prepare_stat), "files have no extended attributes"),
    row(Sysno::lgetxattr, Model(xattr::get, attributes::prepare_lstat), "files have no extended attributes"),
    row(Sysno::fgetxattr, Model(xattr::get, attributes::prepare_fstat), "files have no extended attributes"),
    row(Sysno::listxattr, Model(xattr::list, attributes::prepare_stat), "files have no extended attributes"),
    row(Sysno::llistxattr, Model(xattr::list, attributes::prepare_lstat), "files have no extended attributes"),
    row(Sysno::flistxattr, Model(xattr::list, attributes::prepare_fstat), "files have no extended attributes"),
    row(Sysno::removexattr, Model(xattr::remove, attributes::prepare_stat), "a file system without extended attributes"),
    row(Sysno::lremovexattr, Model(xattr::remove, attributes::prepare_lstat), "a file system without extended attributes"),
    row(Sysno::fremovexattr, Model(xattr::remove, attributes::prepare_fstat), "a file system without extended attributes"),
    row(Sysno::tkill, Model(signals::tkill, signals::prepare_tkill), "to its own virtual threads"),
    row(Sysno::time, Model(clock::time, invisible), "the virtual clock, which passes only when all threads wait"),
    row(Sysno::futex, Model(futex::futex, futex::prepare), "queues live in the model; all operations of glibc, musl, Rust and Go, PI included"),
    row(Sysno::sched_setaffinity, Model(scheduling::sched_setaffinity, invisible), "the processors of the configuration, not of the machine; kept and told back; the schedule is tracefork's"),
    row(Sysno::sched_getaffinity, Model(scheduling::sched_getaffinity, invisible), "the processors of the configuration, not of the machine; kept and told back; the schedule is tracefork's"),
    row(Sysno::set_thread_area, Refuse(Errno::ENOSYS), "32-bit programs only"),
    row(Sysno::io_setup, Refuse(Errno::ENOSYS), "asynchronous kernel work cannot be checkpointed; as on a kernel without CONFIG_AIO. glibc's aio_* use threads"),
    row(Sysno::io_destroy, Refuse(Errno::ENOSYS), "asynchronous kernel work cannot be checkpointed; as on a kernel without CONFIG_AIO. glibc's aio_* use threads"),
    row(Sysno::io_getevents, Refuse(Errno::ENOSYS), "asynchronous kernel work cannot be checkpointed; as on a kernel without CONFIG_AIO. glibc's aio_* use threads"),
    row(Sysno::io_submit, Refuse(Errno::ENOSYS), "asynchronous kernel work cannot be checkpointed; as on a kernel without CONFIG_AIO. glibc's aio_* use threads"),
    row(Sysno::io_cancel, Refuse(Errno::ENOSYS), "asynchronous kernel work cannot be checkpointed; as on a kernel without CONFIG_AIO. glibc's aio_* use threads"),
    row(Sysno::get_thread_area, Refuse(Errno::ENOSYS), "32-bit programs only"),
    row(Sysno::lookup_dcookie, Refuse(Errno::ENOSYS), "gone since Linux 6.7"),
    row(Sysno::epoll_create, Model(epoll::create, pipe::prepare_new), "interest and ready lists live in the model").may_meet(Faults::NO_FILES),
    row(Sysno::epoll_ctl_old, Refuse(Errno::ENOSYS), "gone from Linux; the kernel says the same"),
    row(Sysno::epoll_wait_old, Refuse(Errno::ENOSYS), "gone from Linux; the kernel says the same"),
    row(Sysno::remap_file_pages, Refuse(Errno::EINVAL), "deprecated since Linux 3.16; would need its own checkpointing"),
    row(Sysno::getdents64, Model(dirs::getdents64, dirs::prepare_getdents), "both layers, sorted by name").with(&[fills(1, Returned)]),
    row(Sysno::set_tid_address, Model(threads::set_tid_address, invisible), "the clear-tid word is kept per virtual thread"),
    row(Sysno::restart_syscall, Model(signals::restart_syscall, invisible), "the supervisor starts interrupted calls again itself, so none is left to restart"),
    row(Sysno::semtimedop, Refuse(Errno::ENOSYS), "System V IPC is shared with other processes, which are not modelled; a kernel without CONFIG_SYSVIPC says the same"),
    row(Sysno::fadvise64, Model(changes::advise, invisible), "advice changes nothing here"),
    row(Sysno::timer_create, Model(timers::timer_create, timers::prepare), "POSIX timers on the virtual clock, with overruns; SIGEV_SIGNAL, SIGEV_THREAD_ID, SIGEV_NONE"),
    row(Sysno::timer_settime, Model(timers::timer_settime, timers::prepare), "POSIX timers on the virtual clock, with overruns; SIGEV_SIGNAL, SIGEV_THREAD_ID, SIGEV_NONE"),
    row(Sysno::timer_gettime, Model(timers::timer_gettime, invisible), "POSIX timers on the virtual clock"),
    row(Sysno::timer_getoverrun, Model(timers::timer_getoverrun, invisible), "POSIX timers on the virtual clock"),
    row(Sysno::timer_delete, Model(timers::timer_delete, timers::prepare), "POSIX timers on the virtual clock, with overruns; SIGEV_SIGNAL, SIGEV_THREAD_ID, SIGEV_NONE"),
    row(Sysno::clock_settime, Model(clock::clock_settime, invisible), "needs a privilege; the virtual clock is not the program's to set"),
    row(Sysno::clock_gettime, Model(clock::clock_gettime, invisible), "the virtual clock, which passes only when all threads wait").with(&[fills(1, Bytes(16))]),
    row(Sysno::clock_getres, Model(clock::clock_getres, invisible), "one nanosecond; coarse clocks 4 ms"),
    row(Sysno::clock_nanosleep, Model(clock::clock_nanosleep, clock::prepare_clock_nanosleep), "waits for the virtual clock; costs no real time").may_meet(Faults::EINTR),
    row(Sysno::exit_group, Model(threads::exit_group, threads::prepare_exit_group), "ends the process"),
    row(Sysno::epoll_wait, Model(epoll::wait, epoll::prepare_wait), "level- and edge-triggered, one-shot, in the order of the kernel").may_meet(Faults::EINTR),
    row(Sysno::epoll_ctl, Model(epoll::ctl, epoll::prepare_ctl), "interest and ready lists live in the model"),
    row(Sysno::tgkill, Model(signals::tgkill, signals::prepare_tgkill), "to its own virtual threads"),
    row(Sysno::utimes, Model(changes::utimes, changes::prepare_path), "in the overlay"),
    row(Sysno::vserver, Refuse(Errno::ENOSYS), "gone from Linux; the kernel says the same"),
    row(Sysno::mbind, Model(memory::mbind, invisible), "accepted without effect: placement of memory cannot be observed"),
    row(Sysno::set_mempolicy, Model(memory::set_mempolicy, invisible), "accepted without effect: placement of memory cannot be observed"),
    row(Sysno::get_mempolicy, Model(memory::get_mempolicy, invisible), "one memory node, default policy"),
    row(Sysno::mq_open, Refuse(Errno::ENOSYS), "message queues are shared with other processes, which are not modelled; a kernel without CONFIG_POSIX_MQUEUE says the same"),
    row(Sysno::mq_unlink, Refuse(Errno::ENOSYS), "message queues are shared with other processes, which are not modelled; a kernel without CONFIG_POSIX_MQUEUE says the same"),
    row(Sysno::mq_timedsend, Refuse(Errno::ENOSYS), "message queues are shared with other processes, which are not modelled; a kernel without CONFIG_POSIX_MQUEUE says the same"),
    row(Sysno::mq_timedreceive, Refuse(Errno::ENOSYS), "message queues are shared with other processes, which are not modelled; a kernel without CONFIG_POSIX_MQUEUE says the same"),
    row(Sysno::mq_notify, Refuse(Errno::ENOSYS), "message queues are shared with other processes, which are not modelled; a kernel without CONFIG_POSIX_MQUEUE says the same"),
    row(Sysno::mq_getsetattr, Refuse(Errno::ENOSYS), "message queues are shared with other processes, which are not modelled; a kernel without CONFIG_POSIX_MQUEUE says the same"),
    row(Sysno::kexec_load, Refuse(Errno::EPERM), "administers the machine and needs a privilege"),
    row(Sysno::waitid, Model(identity::waitid, invisible), "the process never has children"),
    row(Sysno::add_key, Refuse(Errno::ENOSYS), "keyrings are shared with other processes; as on a kernel without CONFIG_KEYS"),
    row(Sysno::request_key, Refuse(Errno::ENOSYS), "keyrings are shared with other processes; as on a kernel without CONFIG_KEYS"),
    row(Sysno::keyctl, Refuse(Errno::ENOSYS), "keyrings are shared with other processes; as on a kernel without CONFIG_KEYS"),
    row(Sysno::ioprio_set, Model(scheduling::ioprio_set, invisible), "kept and told back; the schedule is tracefork's"),
    row(Sysno::ioprio_get, Model(scheduling::ioprio_get, invisible), "kept and told back; the schedule is tracefork's"),
    row(Sysno::inotify_init, Refuse(Errno::ENOSYS), "the overlay sends no notifications; programs poll instead"),
    row(Sysno::inotify_add_watch, Refuse(Errno::EBADF), "no inotify descriptor can exist"),
    row(Sysno::inotify_rm_watch, Refuse(Errno::EBADF), "no inotify descriptor can exist"),
    row(Sysno::migrate_pages, Refuse(Errno::ENOSYS), "one memory node; as on a kernel without CONFIG_NUMA"),
    row(Sysno::openat, Model(files::openat, files::prepare_openat), "the same rules as open").may_meet(faults::OPEN).with(&[reads(1, Text)]),
    row(Sysno::mkdirat, Model(names::mkdirat, names::prepare_first_at), "in the overlay").may_meet(faults::CHANGE),
    row(Sysno::mknodat, Model(names::mknodat, names::prepare_first_at), "files and FIFOs in the overlay; no devices"),
    row(Sysno::fchownat, Model(changes::fchownat, changes::prepare_at), "in the overlay"),
    row(Sysno::futimesat, Model(changes::futimesat, changes::prepare_at), "in the overlay"),
    row(Sysno::newfstatat, Model(attributes::newfstatat, attributes::prepare_newfstatat), "the same rules as stat").with(&[reads(1, Text), fills(2, Bytes(144))]),
    row(Sysno::unlinkat, Model(names::unlinkat, names::prepare_first_at), "in the overlay"),
    row(Sysno::renameat, Model(names::renameat, names::prepare_both_at), "in the overlay; directories too").may_meet(faults::CHANGE),
    row(Sysno::linkat, Model(names::linkat, names::prepare_both_at), "in the overlay").may_meet(faults::CHANGE),
    row(Sysno::symlinkat, Model(names::symlinkat, names::prepare_second_at), "in the overlay").may_meet(faults::CHANGE),
    row(Sysno::readlinkat, Model(dirs::readlinkat, dirs::prepare_readlinkat), "both layers, and the links of /proc/self"),
    row(Sysno::fchmodat, Model(changes::fchmodat, changes::prepare_at), "in the overlay"),
    row(Sysno::faccessat, Model(attributes::faccessat, attributes::prepare_faccessat), "the same rules as access"),
    row(Sysno::pselect6, Model(select::pselect6, select::prepare), "readiness comes from the model; the mask holds while it waits").may_meet(Faults::EINTR),
    row(Sysno::ppoll, Model(poll::ppoll, poll::prepare), "readiness comes from the model; the mask holds while it waits").may_meet(Faults::EINTR),
    row(Sysno::unshare, Refuse(Errno::EPERM), "namespaces would take the program out of the supervisor's sight; needs a privilege"),
    row(Sysno::set_robust_list, Model(threads::set_robust_list, invisible), "kept per virtual thread, walked when it ends"),
    row(Sysno::get_robust_list, Model(threads::get_robust_list, invisible), "kept per virtual thread"),
    row(Sysno::splice, Model(transfers::splice, transfers::prepare_splice), "a read and a write in the model"),
    row(Sysno::tee, Model(transfers::tee, transfers::prepare_tee), "a copy between pipes of the model"),
    row(Sysno::sync_file_range, Model(changes::sync_range, changes::prepare_sync), "the overlay is always in order"),
    row(Sysno::vmsplice, Model(transfers::vmsplice, transfers::prepare_vmsplice), "as readv and writev; pages are never shared"),
    row(Sysno::move_pages, Refuse(Errno::ENOSYS), "one memory node; as on a kernel without CONFIG_NUMA"),
    row(Sysno::utimensat, Model(changes::utimensat, changes::prepare_at), "in the overlay"),
    row(Sysno::epoll_pwait, Model(epoll::pwait, epoll::prepare_wait), "as epoll_wait; the mask holds while it waits").may_meet(Faults::EINTR),
    row(Sysno::signalfd, Model(signalfd::signalfd, signalfd::prepare), "reads the pending signals of the model").may_meet(Faults::NO_FILES),
    row(Sysno::timerfd_create, Model(timerfd::create, pipe::prepare_new), "expirations are counted from the virtual clock").may_meet(Faults::NO_FILES),
    row(Sysno::eventfd, Model(eventfd::eventfd, pipe::prepare_new), "counters live in the model").may_meet(Faults::NO_FILES),
    row(Sysno::fallocate, Model(changes::fallocate, changes::prepare_fd), "extending and zeroing in the overlay; collapsing and inserting are refused").may_meet(faults::CHANGE),
    row(Sysno::timerfd_settime, Model(timerfd::set, timerfd::prepare_set), "expirations are counted from the virtual clock"),
    row(Sysno::timerfd_gettime, Model(timerfd::get, timerfd::prepare_get), "expirations are counted from the virtual clock"),
    row(Sysno::accept4, Model(accept::accept, accept::prepare), "a connection of the program to itself, or the next one of a client").may_meet(faults::ACCEPT),
    row(Sysno::signalfd4, Model(signalfd::signalfd4, signalfd::prepare), "reads the pending signals of the model").may_meet(Faults::NO_FILES),
    row(Sysno::eventfd2, Model(eventfd::eventfd2, pipe::prepare_new), "counters live in the model").may_meet(Faults::NO_FILES),
    row(Sysno::epoll_create1, Model(epoll::create1, pipe::prepare_new), "interest and ready lists live in the model").may_meet(Faults::NO_FILES),
    row(Sysno::dup3, Model(descriptors::dup3, descriptors::prepare_dup2), "descriptors live in the model"),
    row(Sysno::pipe2, Model(pipe::pipe2, pipe::prepare_new), "pipes live in the model, slot by slot as in the kernel").may_meet(Faults::NO_FILES).with(&[fills(0, Bytes(8))]),
    row(Sysno::inotify_init1, Refuse(Errno::ENOSYS), "the overlay sends no notifications; programs poll instead"),
    row(Sysno::preadv, Model(io::preadv, io::prepare_pread), "as pread64").may_meet(faults::READ).with(&[fills(1, Vector(2))]),
    row(Sysno::pwritev, Model(io::pwritev, io::prepare_pwrite), "as pwrite64").may_meet(faults::WRITE).with(&[reads(1, Vector(2))]),
    row(Sysno::rt_tgsigqueueinfo, Model(signals::rt_tgsigqueueinfo, signals::prepare_tgkill), "to its own virtual threads, with a value"),
    row(Sysno::perf_event_open, Refuse(Errno::EACCES), "counters differ from run to run; a system with perf_event_paranoid set says the same"),
    row(Sysno::recvmmsg, Model(messages::recvmmsg, messages::prepare_receive), "socket buffers live in the model"),
    row(Sysno::fanotify_init, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::fanotify_mark, Refuse(Errno::EBADF), "no fanotify descriptor can exist"),
    row(Sysno::prlimit64, Model(limits::prlimit64, invisible), "a fixed table, the same on every machine; settable within the model; only RLIMIT_NOFILE is enforced"),
    row(Sysno::name_to_handle_at, Refuse(Errno::EOPNOTSUPP), "the overlay has no file handles"),
    row(Sysno::open_by_handle_at, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::clock_adjtime, Model(clock::clock_adjtime, invisible), "shows an unsynchronised clock; setting it needs a privilege (EPERM)"),
    row(Sysno::syncfs, Model(changes::syncfs, changes::prepare_sync), "the overlay is always in order"),
    row(Sysno::sendmmsg, Model(messages::sendmmsg, messages::prepare_send), "socket buffers live in the model"),
    row(Sysno::setns, Refuse(Errno::EPERM), "namespaces would take the program out of the supervisor's sight; needs a privilege"),
    row(Sysno::getcpu, Model(scheduling::getcpu, invisible), "always processor 0: one thread runs at a time"),
    row(Sysno::process_vm_readv, Refuse(Errno::EPERM), "reaches into other processes, of which none is in sight"),
    row(Sysno::process_vm_writev, Refuse(Errno::EPERM), "reaches into other processes, of which none is in sight"),
    row(Sysno::kcmp, Refuse(Errno::ENOSYS), "compares kernel objects that live in the model; a kernel without CONFIG_KCMP says the same"),
    row(Sysno::finit_module, Refuse(Errno::EPERM), "administers the machine and needs a privilege"),
    row(Sysno::sched_setattr, Model(scheduling::sched_setattr, invisible), "kept and told back; the schedule is tracefork's"),
    row(Sysno::sched_getattr, Model(scheduling::sched_getattr, invisible), "kept and told back; the schedule is tracefork's"),
    row(Sysno::renameat2, Model(names::renameat2, names::prepare_both_at), "in the overlay; exchanges, and refuses to replace").may_meet(faults::CHANGE),
    row(Sysno::seccomp, Refuse(Errno::EINVAL), "the supervisor's filter is in place; a kernel without CONFIG_SECCOMP_FILTER says the same"),
    row(Sysno::getrandom, Model(misc::getrandom, misc::prepare_getrandom), "seeded: the same bytes in every run").with(&[fills(0, Returned)]),
    row(Sysno::memfd_create, Model(volumes::memfd_create, volumes::prepare_memfd), "an overlay file without a name; seals too").may_meet(Faults::NO_FILES),
    row(Sysno::kexec_file_load, Refuse(Errno::EPERM), "administers the machine and needs a privilege"),
    row(Sysno::bpf, Refuse(Errno::EPERM), "runs code in the kernel; needs a privilege"),
    row(Sysno::execveat, Model(exec::execveat, exec::prepare), "as execve; without a path refused (ENOSYS), fexecve then uses /proc/self/fd"),
    row(Sysno::userfaultfd, Refuse(Errno::ENOSYS), "the supervisor uses it for checkpoints; as on a kernel without CONFIG_USERFAULTFD"),
    row(Sysno::membarrier, Model(threads::membarrier, invisible), "one thread runs at a time: every barrier holds already"),
    row(Sysno::mlock2, Model(memory::mlock, invisible), "succeeds and does nothing: paging cannot be observed, and locks do not survive a fork"),
    row(Sysno::copy_file_range, Model(transfers::copy_file_range, transfers::prepare_copy_file_range), "a read and a write in the overlay"),
    row(Sysno::preadv2, Model(io::preadv2, io::prepare_read), "as pread64").may_meet(faults::READ),
    row(Sysno::pwritev2, Model(io::pwritev2, io::prepare_write), "as pwrite64").may_meet(faults::WRITE),
    row(Sysno::pkey_mprotect, Model(memory::pkey_mprotect, invisible), "with key -1 a plain mprotect; there are no other keys"),
    row(Sysno::pkey_alloc, Refuse(Errno::ENOSPC), "no protection keys, as on a processor without them"),
    row(Sysno::pkey_free, Refuse(Errno::EINVAL), "no key was ever given out"),
    row(Sysno::statx, Model(attributes::statx, attributes::prepare_statx), "as stat; no birth times"),
    row(Sysno::io_pgetevents, Refuse(Errno::ENOSYS), "asynchronous kernel work cannot be checkpointed; as on a kernel without CONFIG_AIO. glibc's aio_* use threads"),
    row(Sysno::rseq, Refuse(Errno::ENOSYS), "restartable sequences would need the kernel to know virtual threads; glibc does without"),
    row(Sysno::uretprobe, Refuse(Errno::ENXIO), "only the kernel's own probes call it"),
    row(Sysno::uprobe, Refuse(Errno::ENXIO), "only the kernel's own probes call it"),
    row(Sysno::pidfd_send_signal, Refuse(Errno::ENOSYS), "there are no other processes to hold; programs fall back to kill, as on kernels before 5.3"),
    row(Sysno::io_uring_setup, Refuse(Errno::ENOSYS), "shares queues with the kernel that cannot be checkpointed; programs fall back to ordinary calls"),
    row(Sysno::io_uring_enter, Refuse(Errno::ENOSYS), "shares queues with the kernel that cannot be checkpointed; programs fall back to ordinary calls"),
    row(Sysno::io_uring_register, Refuse(Errno::ENOSYS), "shares queues with the kernel that cannot be checkpointed; programs fall back to ordinary calls"),
    row(Sysno::open_tree, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::move_mount, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::fsopen, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::fsconfig, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::fsmount, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::fspick, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::pidfd_open, Refuse(Errno::ENOSYS), "there are no other processes to hold; programs fall back to kill, as on kernels before 5.3"),
    row(Sysno::clone3, Refuse(Errno::ENOSYS), "glibc falls back to clone, whose arguments are all in registers"),
    row(Sysno::close_range, Model(descriptors::close_range, descriptors::prepare_close_range), "descriptors live in the model"),
    row(Sysno::openat2, Model(files::openat2, files::prepare_openat2), "as open; the restrictions on resolution are refused").may_meet(faults::OPEN),
    row(Sysno::pidfd_getfd, Refuse(Errno::ENOSYS), "there are no other processes to hold; programs fall back to kill, as on kernels before 5.3"),
    row(Sysno::faccessat2, Model(attributes::faccessat2, attributes::prepare_faccessat2), "the same rules as access"),
    row(Sysno::process_madvise, Refuse(Errno::EPERM), "reaches into other processes, of which none is in sight"),
    row(Sysno::epoll_pwait2, Model(epoll::pwait, epoll::prepare_wait), "as epoll_wait; the mask holds while it waits").may_meet(Faults::EINTR),
    row(Sysno::mount_setattr, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::quotactl_fd, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::landlock_create_ruleset, Refuse(Errno::ENOSYS), "sandboxes itself; files are the model's, so the kernel could not check. As on a kernel without Landlock"),
    row(Sysno::landlock_add_rule, Refuse(Errno::ENOSYS), "sandboxes itself; files are the model's, so the kernel could not check. As on a kernel without Landlock"),
    row(Sysno::landlock_restrict_self, Refuse(Errno::ENOSYS), "sandboxes itself; files are the model's, so the kernel could not check. As on a kernel without Landlock"),
    row(Sysno::memfd_secret, Refuse(Errno::ENOSYS), "memory that not even the supervisor could read; as on kernels where it is disabled"),
    row(Sysno::process_mrelease, Refuse(Errno::EPERM), "reaches into other processes, of which none is in sight"),
    row(Sysno::futex_waitv, Refuse(Errno::ENOSYS), "no C library uses it without a fallback"),
    row(Sysno::set_mempolicy_home_node, Refuse(Errno::ENOSYS), "one memory node; as on a kernel without CONFIG_NUMA"),
    row(Sysno::cachestat, Refuse(Errno::ENOSYS), "the state of the page cache is not part of the model"),
    row(Sysno::fchmodat2, Model(changes::fchmodat2, changes::prepare_at), "in the overlay"),
    row(Sysno::map_shadow_stack, Refuse(Errno::EOPNOTSUPP), "as on a processor without shadow stacks"),
    row(Sysno::futex_wake, Refuse(Errno::ENOSYS), "no C library uses it without a fallback"),
    row(Sysno::futex_wait, Refuse(Errno::ENOSYS), "no C library uses it without a fallback"),
    row(Sysno::futex_requeue, Refuse(Errno::ENOSYS), "no C library uses it without a fallback"),
    row(Sysno::statmount, Refuse(Errno::ENOSYS), "newer than the C libraries, which fall back"),
    row(Sysno::listmount, Refuse(Errno::ENOSYS), "newer than the C libraries, which fall back"),
    row(Sysno::lsm_get_self_attr, Refuse(Errno::ENOSYS), "security modules differ between machines; as on kernels before 6.8"),
    row(Sysno::lsm_set_self_attr, Refuse(Errno::ENOSYS), "security modules differ between machines; as on kernels before 6.8"),
    row(Sysno::lsm_list_modules, Refuse(Errno::ENOSYS), "security modules differ between machines; as on kernels before 6.8"),
    row(Sysno::mseal, Refuse(Errno::ENOSYS), "the supervisor must be able to change every mapping; as on kernels before 6.10"),
    row(Sysno::setxattrat, Refuse(Errno::ENOSYS), "newer than the C libraries, which fall back"),
    row(Sysno::getxattrat, Refuse(Errno::ENOSYS), "newer than the C libraries, which fall back"),
    row(Sysno::listxattrat, Refuse(Errno::ENOSYS), "newer than the C libraries, which fall back"),
    row(Sysno::removexattrat, Refuse(Errno::ENOSYS), "newer than the C libraries, which fall back"),
    row(Sysno::open_tree_attr, Refuse(Errno::EPERM), "needs privileges that the model does not give"),
    row(Sysno::file_getattr, Refuse(Errno::EOPNOTSUPP), "files have no extended flags"),
    row(Sysno::file_setattr, Refuse(Errno::EOPNOTSUPP), "files have no extended flags"),
];

// As many rows as there are calls, each number above the one before: every call has its row. If this fails, the
// kernel's list grew: add the row.
const _: () = {
    assert!(ROWS == Sysno::count(), "every call has a row");
    let mut i = 1;
    while i < ROWS {
        assert!(
            (TABLE[i - 1].sysno as u32) < (TABLE[i].sysno as u32),
            "rows are in order of number"
        );
        i += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_says_why() {
        for row in &TABLE {
            assert!(row.why.len() > 8, "{} needs a reason", row.sysno.name());
        }
    }
}
