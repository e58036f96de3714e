//! The Linux kernel as the program under test sees it: a model that can be cloned, hashed and put back.
//!
//! Whatever the kernel keeps for a process and a fork would share, or a rewind would leave behind, lives
//! here: descriptors, offsets, pipes, futex queues, signals, the clock. Nothing in this crate traces a
//! process. A handler takes the [`Model`], the guest's memory and one [`Call`], and answers with an
//! [`Effect`]; the supervisor carries it out.
//!
//! Start at [`table`]: one row per system call says what becomes of it and why.
#![forbid(unsafe_code)]

pub mod buffers;
pub mod call;
pub mod channels;
pub mod clock;
pub mod common;
pub mod effect;
pub mod faults;
pub mod fd;
pub mod fs;
pub mod futex;
pub mod handlers;
pub mod ipc;
pub mod memory;
pub mod model;
pub mod net;
pub mod object;
pub mod output;
pub mod process;
pub mod processes;
pub mod random;
pub mod residents;
pub mod signals;
pub mod table;
#[cfg(test)]
mod testing;
pub mod thread;
pub mod timers;
pub mod wait;

pub use call::Call;
pub use effect::{Beginning, Effect, Outcome, Prepared};
pub use memory::{Fault, GuestMemory, GuestMemoryExt};
pub use model::{Config, Cx, Model};
pub use object::{Access, Object, Touch};
pub use syscalls::{Errno, Sysno};
pub use thread::{Pending, Thread, Tid};
pub use wait::{OnSignal, Wait, WaitFor, Wake};
