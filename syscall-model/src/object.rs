//! What an operation touches: the ground of partial-order reduction and of readable traces.

use crate::fd::OfdId;
use crate::net::Endpoint;
use crate::thread::Tid;

/// Something that two operations may meet at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Object {
    /// A futex, a lock or an atomic cell, by its guest address.
    Memory(u64),
    /// The descriptor table: its numbers are handed out in order.
    FdTable,
    /// An open file description: its offset and flags.
    Description(OfdId),
    /// The data of a pipe, a socket pair, an eventfd, …, by the model's own number.
    Channel(u32),
    /// A file or directory, by path.
    Path(Vec<u8>),
    /// Any file: used where the path is not known before the call runs.
    FileSystem,
    /// Standard output (1) or error (2): the order of writes is part of the outcome.
    Output(u8),
    /// A thread: started, ended, signalled.
    Thread(Tid),
    /// The children of a process: that they end, and that they are waited for.
    Children(u32),
    /// The signals of a process: sent to it, or to be taken before its next step.
    Signals(u32),
    /// That a process is the parent of its children.
    Parenthood(u32),
    /// Which objects of System V there are, by key and number.
    IpcKeys,
    /// A segment of shared memory, by number: who is attached. (What is in it is memory.)
    Segment(i32),
    /// A set of semaphores.
    Semaphores(i32),
    /// A message queue of System V.
    Messages(i32),
    /// The process: exits, signal actions, limits, working directory.
    Process,
    /// The virtual clock and timers.
    Clock,
    /// How many connections were opened to this address, and who is bound to it.
    Destination(Endpoint),
    /// One client process: what it says, on any of its connections.
    Client(u32),
    /// What was said to other programs on a connection, by the number of the channel; what came back is the channel itself.
    Said(u32),
    /// What was said to one client process, on any of its connections.
    Told(u32),
    /// What servers outside say, on any connection, where that depends on all that they were told; and what they were told.
    Servers,
    ToldServers,
    /// Who is accepted next.
    Clients,
    /// All that peers do that are processes of the model and move whenever they can.
    Peers,
    /// Anything: dependent with every operation.
    Everything,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    Read,
    Write,
}

/// One object that an operation reads or writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Touch {
    pub object: Object,
    pub access: Access,
    /// Only if another program answers what the operation tells it, which is not known before.
    pub if_answered: bool,
}

impl Touch {
    pub fn new(object: Object, access: Access) -> Self {
        Self {
            object,
            access,
            if_answered: false,
        }
    }

    pub fn read(object: Object) -> Self {
        Self::new(object, Access::Read)
    }

    pub fn write(object: Object) -> Self {
        Self::new(object, Access::Write)
    }
}
