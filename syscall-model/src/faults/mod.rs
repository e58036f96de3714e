//! What the environment may do to a call beside what it must: `--faults`.
//!
//! A [`Fault`] is an alternative result of one system call. Which faults a call can have at all stands in its row of the table
//! ([`Row::faults`](crate::table::Row)); which of them can happen here and now depends on what its descriptor is and holds ([`possible`]).
//! [`execute`] performs the call with the fault: with an error in place of its work, with less work than asked for, or with a datagram that gets
//! lost on the way.
//!
//! A fault never does what no kernel and no network could do: a short read needs at least two bytes to be short of, only what can wait is interrupted,
//! and only Internet datagrams get lost.

mod datagrams;
mod on_the_way;
mod shortened;

use crate::call::Call;
use crate::channels::socket::{self, Style};
use crate::channels::{ChannelId, io as channel_io, named};
use crate::effect::{Effect, Outcome};
use crate::fd::{Description, Kind};
use crate::fs::Class;
use crate::handlers::sockets;
use crate::model::{Cx, Model};
use crate::table;
use crate::thread::Tid;
use crate::wait::WaitFor;
pub use on_the_way::{Mishap, OnTheWay, happens, mishaps, whose};
use shortened::Shortened;
use syscalls::{Errno, Sysno};

bitflags::bitflags! {
    /// Kinds of faults, as a set.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Faults: u32 {
        /// Nobody listens: `ECONNREFUSED`.
        const REFUSED = 1;
        /// The connection breaks: `ECONNRESET`.
        const RESET = 1 << 1;
        /// A read gets the first byte of what is there.
        const SHORT_READ = 1 << 2;
        /// A write takes the first byte of what it is given.
        const SHORT_WRITE = 1 << 3;
        /// A call that may wait is interrupted: `EINTR`.
        const EINTR = 1 << 4;
        /// A datagram gets lost.
        const LOSS = 1 << 5;
        /// A datagram arrives twice.
        const DUPLICATE = 1 << 6;
        /// A datagram overtakes those before it.
        const REORDER = 1 << 7;
        /// No space is left: `ENOSPC`.
        const NO_SPACE = 1 << 8;
        /// The device fails: `EIO`.
        const IO_ERROR = 1 << 9;
        /// No memory is left: `ENOMEM`.
        const NO_MEMORY = 1 << 10;
        /// No descriptor is left: `EMFILE`.
        const NO_FILES = 1 << 11;
        /// No fault of the call itself, but what it does decides what a signal from outside does to the process.
        const SIGNAL = 1 << 12;
        /// No fault of a call: the machine goes off, so it must be known what is on the disk.
        const POWER = 1 << 13;
        /// No fault of a call: the process is killed from outside.
        const KILL = 1 << 14;
        /// What can happen to a program that rests, too.
        const FROM_OUTSIDE = Self::SIGNAL.bits() | Self::POWER.bits() | Self::KILL.bits();
    }
}

/// What a read can meet.
pub const READ: Faults = Faults::SHORT_READ
    .union(Faults::EINTR)
    .union(Faults::RESET)
    .union(Faults::IO_ERROR);
/// What a write can meet.
pub const WRITE: Faults = Faults::SHORT_WRITE
    .union(Faults::EINTR)
    .union(Faults::RESET)
    .union(Faults::NO_SPACE)
    .union(Faults::IO_ERROR)
    .union(DATAGRAM);
const DATAGRAM: Faults = Faults::LOSS.union(Faults::DUPLICATE).union(Faults::REORDER);
/// What a change of the file system can meet.
pub const CHANGE: Faults = Faults::NO_SPACE.union(Faults::IO_ERROR);
/// What opening a file can meet.
pub const OPEN: Faults = Faults::NO_FILES.union(Faults::NO_SPACE).union(Faults::EINTR);
/// What accepting a connection can meet.
pub const ACCEPT: Faults = Faults::NO_FILES.union(Faults::EINTR);
/// What opening a connection can meet.
pub const CONNECT: Faults = Faults::REFUSED.union(Faults::EINTR);

/// One way in which a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    Refused,
    Reset,
    ShortRead,
    ShortWrite,
    Interrupted,
    /// What is sent never arrives.
    Lost,
    /// What is sent arrives, but what comes back does not.
    AnswerLost,
    Duplicated,
    /// What comes back arrives twice.
    AnswerDuplicated,
    /// What arrives overtakes what waits there already.
    Overtaking,
    NoSpace,
    IoError,
    NoMemory,
    NoFiles,
}

impl Fault {
    /// All of them. Their places are their numbers in traces, so new ones go to the end.
    pub const ALL: [Fault; 14] = [
        Fault::Refused,
        Fault::Reset,
        Fault::ShortRead,
        Fault::ShortWrite,
        Fault::Interrupted,
        Fault::Lost,
        Fault::AnswerLost,
        Fault::Duplicated,
        Fault::AnswerDuplicated,
        Fault::Overtaking,
        Fault::NoSpace,
        Fault::IoError,
        Fault::NoMemory,
        Fault::NoFiles,
    ];

    /// What it is asked for as.
    pub fn kind(self) -> Faults {
        match self {
            Fault::Refused => Faults::REFUSED,
            Fault::Reset => Faults::RESET,
            Fault::ShortRead => Faults::SHORT_READ,
            Fault::ShortWrite => Faults::SHORT_WRITE,
            Fault::Interrupted => Faults::EINTR,
            Fault::Lost | Fault::AnswerLost => Faults::LOSS,
            Fault::Duplicated | Fault::AnswerDuplicated => Faults::DUPLICATE,
            Fault::Overtaking => Faults::REORDER,
            Fault::NoSpace => Faults::NO_SPACE,
            Fault::IoError => Faults::IO_ERROR,
            Fault::NoMemory => Faults::NO_MEMORY,
            Fault::NoFiles => Faults::NO_FILES,
        }
    }

    /// In a few words, for a line of a trace.
    pub fn words(self) -> &'static str {
        match self {
            Fault::Refused => "the connection is refused",
            Fault::Reset => "the connection is reset",
            Fault::ShortRead => "a short read",
            Fault::ShortWrite => "a short write",
            Fault::Interrupted => "interrupted by a signal",
            Fault::Lost => "the datagram is lost",
            Fault::AnswerLost => "the answer is lost",
            Fault::Duplicated => "the datagram is duplicated",
            Fault::AnswerDuplicated => "the answer is duplicated",
            Fault::Overtaking => "the datagram overtakes earlier ones",
            Fault::NoSpace => "no space is left",
            Fault::IoError => "the device fails",
            Fault::NoMemory => "no memory is left",
            Fault::NoFiles => "no descriptor is left",
        }
    }

    /// The error that the call returns in place of its work.
    fn errno(self) -> Option<Errno> {
        match self {
            Fault::NoSpace => Some(Errno::ENOSPC),
            Fault::IoError => Some(Errno::EIO),
            Fault::NoMemory => Some(Errno::ENOMEM),
            Fault::NoFiles => Some(Errno::EMFILE),
            Fault::Interrupted => Some(Errno::EINTR),
            _ => None,
        }
    }

    /// Does it need what the call waits for? The others can happen to a call that waits.
    fn needs_readiness(self) -> bool {
        self != Fault::Interrupted
    }
}

/// The faults among `wanted` that can happen to the call before which a thread stands.
pub fn possible(model: &Model, tid: Tid, call: &Call, wanted: Faults) -> Vec<Fault> {
    let wanted = wanted & table::lookup(call.sysno).faults;
    if wanted.is_empty() {
        return Vec::new();
    }
    let target = Target::of(model, call);
    let is_ready = model.wake_reason(tid).is_some();
    let all = Fault::ALL.into_iter();
    all.filter(|fault| wanted.contains(fault.kind()) && (is_ready || !fault.needs_readiness()))
        .filter(|&fault| target.can_meet(model, tid, call, fault))
        .collect()
}

/// What the first argument of a call refers to.
struct Target<'m> {
    description: Option<&'m Description>,
    socket: Option<(ChannelId, &'m socket::Socket)>,
}

impl<'m> Target<'m> {
    fn of(model: &'m Model, call: &Call) -> Self {
        let description = model.files.lookup(call.fd(0)).ok().map(|(_, found)| found);
        let socket = match description.map(|description| &description.kind) {
            Some(Kind::Socket(id)) => model.channels.sockets.get(id).map(|socket| (*id, socket)),
            _ => None,
        };
        Self { description, socket }
    }

    fn can_meet(&self, model: &Model, tid: Tid, call: &Call, fault: Fault) -> bool {
        match fault {
            Fault::Refused => self.is_unconnected_stream(),
            Fault::Reset => self.is_live_connection(model),
            Fault::ShortRead => self.holds_at_least_two_bytes(model),
            Fault::ShortWrite => self.is_stream_or_file(),
            Fault::Interrupted => can_be_interrupted(model, tid),
            Fault::Lost | Fault::Duplicated => self.is_internet_datagram(),
            // Only another program answers.
            // Where what it says is kept in flight, that happens to it there: see `on_the_way`.
            Fault::AnswerLost | Fault::AnswerDuplicated => {
                self.is_internet_datagram() && !crate::net::flight::is_any(model)
            }
            Fault::Overtaking => self.is_internet_datagram(),
            Fault::NoSpace if opens(call.sysno) => creates(call),
            Fault::NoSpace => self.is_file() || self.is_output() || !takes_descriptor(call.sysno),
            Fault::IoError => self.is_file() || !takes_descriptor(call.sysno),
            Fault::NoMemory => grows_memory(call),
            Fault::NoFiles => call.sysno != Sysno::fcntl || duplicates(call),
        }
    }

    fn is_unconnected_stream(&self) -> bool {
        self.socket.is_some_and(|(_, socket)| {
            socket.connection_based() && !socket.is_connected() && !socket.is_listening()
        })
    }

    fn is_live_connection(&self, model: &Model) -> bool {
        self.socket.is_some_and(|(id, socket)| {
            let has_other_end = match socket.peer() {
                Some(_) => socket.is_inet() && socket::live_peer(model, id).is_some(),
                None => socket.remote().is_some(),
            };
            socket.style == Style::Stream && !socket.shut.is_both() && has_other_end
        })
    }

    fn holds_at_least_two_bytes(&self, model: &Model) -> bool {
        match self.description.map(|description| &description.kind) {
            Some(Kind::PipeReader(pipe)) => model
                .channels
                .pipes
                .get(pipe)
                .is_some_and(|pipe| pipe.available() > 1),
            Some(Kind::Socket(_)) => self.socket.is_some_and(|(id, socket)| {
                // What is on its way has arrived by then.
                let bytes = socket.available() + crate::net::flight::bytes(model, id);
                socket.style == Style::Stream && bytes > 1
            }),
            _ => false,
        }
    }

    fn is_stream_or_file(&self) -> bool {
        match self.description.map(|description| &description.kind) {
            Some(Kind::PipeWriter(_)) => true,
            Some(Kind::Socket(_)) => self
                .socket
                .is_some_and(|(_, socket)| socket.style == Style::Stream),
            _ => self.is_file(),
        }
    }

    fn is_internet_datagram(&self) -> bool {
        self.socket
            .is_some_and(|(_, socket)| socket.is_inet() && socket.style == Style::Datagram)
    }

    fn is_file(&self) -> bool {
        let kind = self.description.map(|description| &description.kind);
        matches!(kind, Some(Kind::File(file)) if file.class == Class::Regular)
    }

    fn is_output(&self) -> bool {
        matches!(
            self.description.map(|description| &description.kind),
            Some(Kind::Output(_))
        )
    }
}

/// Only a call that waits can be interrupted, or that may have waited for another program, whose answer is there by now. (Lock functions take up a
/// futex again by themselves, so that nobody would notice.)
fn can_be_interrupted(model: &Model, tid: Tid) -> bool {
    let Some(wait) = &model.thread(tid).wait else {
        return false;
    };
    match &wait.on {
        WaitFor::Futex(_) | WaitFor::Exit(_) => false,
        WaitFor::Ready(list) if list.iter().any(|&(id, _)| model.is_about_peers(id)) => true,
        _ => model.wake_reason(tid).is_none(),
    }
}

fn opens(sysno: Sysno) -> bool {
    matches!(sysno, Sysno::open | Sysno::openat | Sysno::openat2 | Sysno::creat)
}

fn creates(call: &Call) -> bool {
    match call.sysno {
        Sysno::open => call.int(1) & libc::O_CREAT != 0,
        Sysno::openat => call.int(2) & libc::O_CREAT != 0,
        // The flags of openat2 are in memory; a failure to create is one of creat and open.
        Sysno::creat => true,
        _ => false,
    }
}

/// Is its first argument a descriptor of what it works on?
fn takes_descriptor(sysno: Sysno) -> bool {
    matches!(
        sysno,
        Sysno::read
            | Sysno::readv
            | Sysno::pread64
            | Sysno::preadv
            | Sysno::preadv2
            | Sysno::write
            | Sysno::writev
            | Sysno::pwrite64
            | Sysno::pwritev
            | Sysno::pwritev2
            | Sysno::fsync
            | Sysno::fdatasync
            | Sysno::ftruncate
            | Sysno::fallocate
            | Sysno::recvfrom
            | Sysno::recvmsg
            | Sysno::sendto
            | Sysno::sendmsg
    )
}

fn grows_memory(call: &Call) -> bool {
    match call.sysno {
        Sysno::brk => call.word(0) != 0,
        Sysno::mmap => call.int(3) & libc::MAP_ANONYMOUS != 0 && call.int(2) != libc::PROT_NONE,
        Sysno::mremap => call.word(2) > call.word(1),
        _ => true,
    }
}

fn duplicates(call: &Call) -> bool {
    matches!(call.int(1), libc::F_DUPFD | libc::F_DUPFD_CLOEXEC)
}

/// Can the call have one of these faults, whatever the state? Such a call is a parking point where they are asked for.
pub fn concerns(call: &Call, wanted: Faults) -> bool {
    let wanted = wanted & table::lookup(call.sysno).faults;
    let only_memory = wanted == Faults::NO_MEMORY;
    !wanted.is_empty() && (!only_memory || grows_memory(call))
}

/// Performs the call before which the thread of `cx` stands, with a fault.
pub fn execute(cx: &mut Cx, call: &Call, fault: Fault) -> Outcome {
    match fault {
        Fault::ShortRead | Fault::ShortWrite => {
            let mut mem = Shortened::new(cx.mem, call);
            let call = mem.call();
            let mut cx = Cx {
                model: cx.model,
                mem: &mut mem,
                host: cx.host,
                net: cx.net,
                tid: cx.tid,
                wake: cx.wake,
            };
            cx.execute(&call)
        }
        Fault::Lost | Fault::AnswerLost | Fault::Duplicated | Fault::AnswerDuplicated | Fault::Overtaking => {
            datagrams::execute(cx, call, fault)
        }
        _ => {
            let outcome = fail(cx, call, fault);
            cx.thread().end_call();
            crate::net::mirror::exchange(cx.model, cx.net);
            outcome
        }
    }
}

/// The call does not do its work.
fn fail(cx: &mut Cx, call: &Call, fault: Fault) -> Outcome {
    match fault {
        Fault::Refused => refuse(cx, call),
        Fault::Reset => {
            let (_, id) = sockets::socket_of(cx, call.fd(0))?;
            socket::reset(cx.model, id);
            Err(Errno::ECONNRESET)
        }
        // The kernel's brk has no error: it tells where the end is, which has not moved.
        Fault::NoMemory if call.sysno == Sysno::brk => Ok(Effect::KernelWith([0; 6])),
        Fault::NoMemory if call.sysno == Sysno::clone => Err(Errno::EAGAIN),
        _ => Err(fault.errno().unwrap_or(Errno::EIO)),
    }
}

fn refuse(cx: &mut Cx, call: &Call) -> Outcome {
    let (ofd, id) = sockets::socket_of(cx, call.fd(0))?;
    let is_unix = !cx.model.channels.sockets.get(&id).is_some_and(|s| s.is_inet());
    if channel_io::blocking(cx.model, ofd) || is_unix {
        return Err(Errno::ECONNREFUSED);
    }
    named::connect_failed(cx.model, id, Errno::ECONNREFUSED);
    Err(Errno::EINPROGRESS)
}
