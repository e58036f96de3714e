//! What a handler asks the supervisor to do.

use crate::clock::Nanos;
use crate::net::observe::Observation;
use crate::object::Touch;
use crate::thread::Tid;
use crate::wait::{Wait, WaitFor};
use syscalls::Errno;

/// The answer of a handler; an `Err` is returned to the guest as `-errno`.
pub type Outcome = Result<Effect, Errno>;

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It returns this value; memory has been written already.
    Done(i64),
    /// It has begun and waits. When the wait ends the call returns what the waker left in
    /// [`Thread::woken`](crate::thread::CallProgress::woken), or the handler runs again with the reason in [`Wake`](crate::Wake).
    Block(Wait),
    /// The kernel runs it as it stands and its result goes to the guest.
    Kernel,
    /// The kernel runs it with these arguments instead.
    KernelWith([u64; 6]),
    /// These ranges of memory, by address and length, are no longer mapped; the call returns 0.
    Unmap(Vec<(u64, u64)>),
    /// Map a file: see [`MapFile`].
    MapFile(MapFile),
    /// Set a segment base of the calling thread.
    SetBase(SegmentBase, u64),
    /// Write a segment base of the calling thread to this address.
    GetBase(SegmentBase, u64),
    /// Start a virtual thread.
    Spawn(Spawn),
    /// Start a process.
    Fork(Fork),
    /// This thread ends (the model has already forgotten it).
    ExitThread,
    /// The process ends with this status.
    ExitProcess(i32),
    /// The process dies by this signal that it sent itself or earned.
    Die(i32),
    /// Replace the program.
    Exec(Exec),
    /// Return from a signal handler: the supervisor pops the frame.
    SignalReturn,
    /// The signal mask or the pending set changed: look for deliverable signals before going on, the
    /// call itself returns this value.
    DoneCheckSignals(i64),
    /// The kernel does the call with the first arguments, and if it says 0 with the second ones, too.
    KernelTwice([u64; 6], [u64; 6]),
    /// tracefork cannot go on honestly; the text says what and why.
    Unsupported(String),
}

impl Effect {
    pub fn ok() -> Outcome {
        Ok(Effect::Done(0))
    }
}

/// The segment registers that a 64-bit thread has a base for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentBase {
    Fs,
    Gs,
}

/// `mmap` of a file. The guest has no kernel descriptor, so the supervisor opens the file inside it, maps
/// it and closes it again; or, for contents that live in the overlay, maps anonymous memory and fills it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapFile {
    pub addr: u64,
    pub len: u64,
    pub prot: i32,
    pub flags: i32,
    pub offset: u64,
    pub source: MapSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapSource {
    /// An unmodified file of the host, opened read-only by this absolute path.
    Host(std::path::PathBuf),
    /// These bytes, then zeroes, up to the end of the mapping. A shared mapping of them is modelled as
    /// described at the handler.
    Bytes(Vec<u8>),
}

/// A new virtual thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spawn {
    pub child: Tid,
    pub stack: u64,
    /// `CLONE_SETTLS`.
    pub tls: Option<u64>,
}

/// A new process: a copy of the one that makes it, with one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    pub child: Tid,
    /// 0: where its maker's is.
    pub stack: u64,
    /// `CLONE_SETTLS`.
    pub tls: Option<u64>,
    /// `CLONE_CHILD_SETTID`: where the child finds its own number.
    pub child_tid: Option<u64>,
    /// It runs in the memory of its maker (`CLONE_VM`).
    pub borrows: bool,
    /// Its maker waits until it no longer does (`CLONE_VFORK`).
    pub waits: bool,
}

/// `execve`, with everything already read from the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    pub path: Vec<u8>,
    /// What is executed, if the file is not this machine's but the program's own.
    pub contents: Option<Vec<u8>>,
    pub argv: Vec<Vec<u8>>,
    /// The script that `path` interprets: then `argv` is not what the guest has in memory.
    pub script: Option<Vec<u8>>,
    pub envp: Vec<Vec<u8>>,
}

/// How a call that waits for something parks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parking {
    Wait(Wait),
    /// Its timeout is nought.
    Look(WaitFor),
}

/// What a call does when its thread comes to stand before it, and not only when it runs. It is not done while that is found out: [`Cx::begin`](crate::Cx::begin) does
/// it, when the supervisor says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// The program looks for clients: they are started, if they can reach it.
    pub awaits_clients: bool,
    /// Until when it waits, for a call that knows a limit: from now on, not from when it runs.
    pub deadline: Option<Option<Nanos>>,
    /// The signal mask that is in force while it waits.
    pub mask: Option<u64>,
}

/// What is known about a call before it runs, computed when its thread parks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Other threads or peers can observe it: the thread parks here.
    pub visible: bool,
    /// The call cannot run until this holds.
    pub wait: Option<Wait>,
    /// What it touches; only meaningful for visible calls.
    pub touches: Vec<Touch>,
    /// The call waits for nothing, not even for what it is about: a look at this. Programs that look again and again
    /// expect that time passes meanwhile.
    pub look: Option<WaitFor>,
    /// What it can tell of what peers have said, where that is more than the readiness which it waits for.
    pub observes: Option<Observation>,
    pub begins: Beginning,
}

impl Prepared {
    /// Nobody else can notice: runs at once.
    pub fn invisible() -> Self {
        Self::default()
    }

    pub fn visible(touches: Vec<Touch>) -> Self {
        Self {
            visible: true,
            touches,
            ..Self::default()
        }
    }

    /// Waits, or has a look, as `parking` says.
    pub fn parking(mut self, parking: Parking) -> Self {
        match parking {
            Parking::Wait(wait) => self.wait = Some(wait),
            Parking::Look(on) => self.look = Some(on),
        }
        self
    }

    pub fn observing(mut self, observation: Observation) -> Self {
        self.observes = Some(observation);
        self
    }

    pub fn waiting(mut self, wait: Option<Wait>) -> Self {
        self.wait = wait;
        self
    }

    pub fn awaiting_clients(mut self, awaits: bool) -> Self {
        self.begins.awaits_clients = awaits;
        self
    }

    pub fn until(mut self, deadline: Option<Nanos>) -> Self {
        self.begins.deadline = Some(deadline);
        self
    }

    pub fn masked(mut self, mask: Option<u64>) -> Self {
        self.begins.mask = mask;
        self
    }
}
