//! The other ends of the SUT's connections: real peers, and the branching-time cache that stands between them and the SUT.
//!
//! The SUT is backtracked, its peers are not. [`tree`] keeps what was ever said, [`state`] is the SUT's place in it (the part that moves with a
//! checkpoint), and [`world`] owns everything real: processes, sockets, and the replay that brings a fresh peer to where an old one was.
#![forbid(unsafe_code)]

pub mod address;
pub mod allowed;
pub mod answer;
pub mod bounded;
mod busy;
mod by_process;
mod capacity;
mod census;
pub mod channel;
pub mod config;
pub mod diag;
pub mod ending;
mod error;
mod forest;
mod heard;
pub mod host;
pub mod inspect;
pub mod listener;
mod path;
pub mod physical;
pub mod picture;
mod position;
pub mod process;
pub mod render;
mod replay;
mod servers;
mod serving;
mod settle;
mod sorted;
mod sound;
pub mod spec;
pub mod state;
pub mod store;
mod summed;
mod task;
mod timers;
pub mod tree;
mod unread;
mod upkeep;
mod whole_file;
pub mod world;

pub use address::Address;
pub use allowed::Allowed;
pub use answer::{Channel, StreamEnd};
pub use bounded::{read_bounded, read_text_bounded};
pub use capacity::Capacity;
pub use config::{CacheMode, Config, Counters, TimeBudget};
pub use error::PeerError;
pub use host::peer_main;
pub use process::Launcher;
pub use spec::{Member, PeerSpec, roster};
pub use state::{ConnKey, PeerState};
pub use store::TreeKey;
pub use tree::{Cursor, Readable, Tree};
pub use whole_file::{can_write_whole, write_whole};
pub use world::{PeerWorld, Taken};
