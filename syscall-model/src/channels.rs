//! Pipes, socket pairs, eventfds, timerfds and epoll sets.

use crate::clock::Nanos;
use crate::fd::{Description, Kind, OfdId, PollEvents};
use crate::model::{Cx, Model};
use syscalls::Errno;

/// The number of a pipe, socket pair, eventfd or timerfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub u32);

/// The number of an epoll set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EpollId(pub u32);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Channels {}

impl Channels {
    pub fn poll(&self, _model: &Model, _description: &Description) -> PollEvents {
        PollEvents::empty()
    }

    /// The last reference to a description is gone.
    pub fn closed(_model: &mut Model, _id: OfdId, _kind: Kind) {}

    /// When the next timerfd expires.
    pub fn next_deadline(&self) -> Option<Nanos> {
        None
    }
}

/// Reads from anything that is not a file; `EAGAIN` where it would have to wait.
pub fn read_some(_cx: &mut Cx, _ofd: OfdId, _max: usize) -> Result<Vec<u8>, Errno> {
    Err(Errno::EINVAL)
}

/// Writes to anything that is not a file; `EAGAIN` where it would have to wait.
pub fn write_some(_cx: &mut Cx, _ofd: OfdId, _data: &[u8]) -> Result<usize, Errno> {
    Err(Errno::EINVAL)
}
