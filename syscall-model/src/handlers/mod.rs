//! Handlers by topic; [`table`](crate::table) says which call goes where.

pub mod accept;
pub mod attributes;
pub mod changes;
pub mod clock;
pub mod clone3;
pub mod connect;
pub mod control_messages;
pub mod descriptors;
pub mod dirs;
pub mod epoll;
pub mod eventfd;
pub mod exec;
pub mod files;
pub mod futex;
pub mod identity;
pub mod io;
pub mod limits;
pub mod locks;
pub mod mapping;
pub mod memory;
pub mod messages;
pub mod misc;
pub mod mqueue;
pub mod names;
pub mod paths;
pub mod pidfd;
pub mod pipe;
pub mod poll;
pub mod processes;
mod remap;
pub mod scheduling;
pub mod select;
pub mod signalfd;
pub mod signals;
pub mod sockets;
pub mod sockopt;
pub mod sysv;
pub mod sysv_memory;
pub mod sysv_messages;
pub mod sysv_semaphores;
pub mod threads;
pub mod timed;
pub mod timerfd;
pub mod timers;
pub mod transfers;
pub mod unshare;
pub mod volumes;
pub mod xattr;

use crate::call::Call;
use crate::effect::Prepared;
use crate::model::Cx;

/// For calls that no other thread can notice.
pub fn invisible(_: &Cx, _: &Call) -> Prepared {
    Prepared::invisible()
}
