//! The network as the model sees it: other programs' ends of connections, behind a trait.
//!
//! Nothing here opens a socket. The supervisor injects a [`Network`] (through [`Cx`](crate::Cx), as it does the file system's
//! host), which answers from the peers or from the memory of them. What a peer said is *mirrored* into the modelled sockets
//! right after the operation that elicited it, see [`mirror`]: so readiness, waits and the hash of a state need no network,
//! and a cached answer costs no more than a copy.

mod endpoint;
pub mod flight;
pub mod interfaces;
pub mod mirror;
pub mod observe;
mod readiness;

pub use endpoint::Endpoint;
pub use flight::Arrivals;

use std::fmt;
use std::sync::Arc;
use syscalls::Errno;

/// A connection to a peer: the same in every schedule that has it, whatever else happened before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// The k-th that the program opened to this destination.
    Opened(Arc<Endpoint>, u32),
    /// The one that the program accepted from this client, by the client's own count of its connections.
    Accepted(u32, u32),
}

impl Key {
    /// Tells connections apart, for made-up ports.
    pub fn nth(&self) -> u16 {
        /// More clients than anybody starts.
        const CLIENTS: u32 = 1000;
        match self {
            Key::Opened(_, k) => *k as u16,
            Key::Accepted(client, channel) => channel.wrapping_mul(CLIENTS).wrapping_add(*client) as u16,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Opened(to, k) => write!(f, "{to}#{k}"),
            Key::Accepted(client, 0) => write!(f, "client#{client}"),
            Key::Accepted(client, channel) => write!(f, "client#{client}#{channel}"),
        }
    }
}

/// A connection that a client made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub key: Key,
    /// It came by IPv4 to an address of IPv6.
    pub by_ipv4: bool,
}

/// A client that waits to be accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    pub client: u32,
    /// Another one that waits, and comes before it, does exactly the same: which of them is accepted makes no difference.
    pub is_twin: bool,
}

/// What has come in on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Bytes of a stream, or one datagram.
    Data {
        bytes: Vec<u8>,
        /// There is something behind it: more of it, or an end.
        more: bool,
        /// What is behind it is something else that the peer said, and not the rest of this.
        whole: bool,
    },
    /// The peer will say no more.
    End,
    Reset,
    /// The peer will say no more, and hears nothing either.
    Closed,
    /// Nothing now: the peer has other connections to attend to first.
    Held,
    /// Nothing now.
    Nothing,
}

/// Other programs. A failure of a peer is no affair of the program under test: the implementation keeps it, answers
/// something harmless, and the supervisor stops the run.
pub trait Network {
    /// Opens a connection. An error is what the program is told: nobody is there, or there is no way.
    fn connect(&mut self, to: &Endpoint) -> Result<Key, Errno>;
    /// Reserves an address to listen at; port 0 becomes a port. The IPv6 wildcard is for IPv4 too unless it is said to be `v6_only`.
    fn bind(&mut self, at: &Endpoint, v6_only: bool) -> Result<Endpoint, Errno>;
    /// The program can be reached here from now on; true if somebody may come.
    fn listen(&mut self, at: &Endpoint) -> bool;
    /// Does a client wait to be accepted here, or has one written here that was not heard of before?
    fn acceptable(&mut self, at: &Endpoint) -> bool;
    fn accept(&mut self, at: &Endpoint) -> Option<Accepted>;
    /// All clients that wait to be accepted here, in their order.
    fn callers(&mut self, at: &Endpoint) -> Vec<Caller>;
    /// Accepts this one of them.
    fn accept_from(&mut self, at: &Endpoint, client: u32) -> Option<Accepted>;
    /// The program writes to a client that it knows by `with` from another of its datagram sockets, the one at `at`: a connection of its own. `None`
    /// if there is no such client.
    fn go_on_from(&mut self, with: &Key, at: &Endpoint) -> Option<Accepted>;
    fn write(&mut self, key: &Key, data: &[u8]);
    /// The program says no more on this connection.
    fn finish(&mut self, key: &Key);
    fn close(&mut self, key: &Key);
    /// The program breaks this connection off.
    fn reset(&mut self, key: &Key);
    /// A stream on which the peer says no more: [`Arrival::Reset`] or [`Arrival::Closed`] if it hears nothing either, and that has come out by now.
    fn beyond_the_end(&mut self, key: &Key) -> Arrival;
    /// Takes what has come in: at most `max` bytes, or one datagram.
    fn read(&mut self, key: &Key, max: usize) -> Arrival;
    /// Bytes of a stream that the other program was sent and has not read, now that it waits for something else.
    fn unread(&mut self, key: &Key) -> usize;
    /// All that a call had to say was said, and what came of it was taken in. `is_silence`: streams were written to, and nothing came.
    fn settled(&mut self, is_silence: bool);
}

/// A machine on its own: no peer anywhere. The program can still talk to itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNetwork;

impl Network for NoNetwork {
    fn connect(&mut self, _: &Endpoint) -> Result<Key, Errno> {
        Err(Errno::ECONNREFUSED)
    }

    fn bind(&mut self, at: &Endpoint, _: bool) -> Result<Endpoint, Errno> {
        Ok(at.clone())
    }

    fn listen(&mut self, _: &Endpoint) -> bool {
        false
    }

    fn acceptable(&mut self, _: &Endpoint) -> bool {
        false
    }

    fn accept(&mut self, _: &Endpoint) -> Option<Accepted> {
        None
    }

    fn callers(&mut self, _: &Endpoint) -> Vec<Caller> {
        Vec::new()
    }

    fn accept_from(&mut self, _: &Endpoint, _: u32) -> Option<Accepted> {
        None
    }

    fn go_on_from(&mut self, _: &Key, _: &Endpoint) -> Option<Accepted> {
        None
    }

    fn write(&mut self, _: &Key, _: &[u8]) {}

    fn finish(&mut self, _: &Key) {}

    fn close(&mut self, _: &Key) {}

    fn reset(&mut self, _: &Key) {}

    fn beyond_the_end(&mut self, _: &Key) -> Arrival {
        Arrival::Nothing
    }

    fn read(&mut self, _: &Key, _: usize) -> Arrival {
        Arrival::Nothing
    }

    fn unread(&mut self, _: &Key) -> usize {
        0
    }

    fn settled(&mut self, _: bool) {}
}
