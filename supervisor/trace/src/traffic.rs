//! What went over the network in a schedule, step by step: for people to look at.
//!
//! Executing a trace again needs none of this (the communication trees answer then). It stands behind the trace proper in the file,
//! where older versions do not look, and a trace without it is one of a program that had no peers.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// All of a schedule's traffic: with its peers, and among the processes of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    #[serde(deserialize_with = "peers::bounded::vec")]
    pub connections: Vec<Connection>,
    /// In the order in which it happened.
    #[serde(deserialize_with = "peers::bounded::vec")]
    pub events: Vec<Event>,
}

impl Traffic {
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// What is left without connections of which both ends are processes of the trace: what those do there are steps of it.
    #[must_use]
    pub fn with_others(&self) -> Traffic {
        let mut kept = Traffic::default();
        let mut numbers = Vec::with_capacity(self.connections.len());
        for connection in &self.connections {
            numbers.push((!connection.internal).then_some(kept.connections.len() as u32));
            if !connection.internal {
                kept.connections.push(connection.clone());
            }
        }
        for event in &self.events {
            if let Some(&Some(connection)) = numbers.get(event.connection as usize) {
                kept.events.push(Event {
                    connection,
                    ..event.clone()
                });
            }
        }
        kept
    }
}

/// A logical connection, or a datagram socket's correspondence with one other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// As reports call it: `127.0.0.1:9000#1`, `client#0`.
    pub name: String,
    /// The command of the peer, where it is known.
    pub peer: String,
    pub transport: Transport,
    /// The peer opened it.
    pub accepted: bool,
    /// The program's end, as the program sees it; none for Unix sockets.
    pub local: Option<SocketAddr>,
    pub remote: Option<SocketAddr>,
    /// Both ends are processes of the trace: who opened it stands where else the program does.
    pub internal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    Tcp,
    Udp,
    Unix,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
            Transport::Unix => "unix",
        })
    }
}

/// Something that happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// In this step, counted from 0.
    pub step: u64,
    /// Nanoseconds since 1970 on the virtual clock.
    pub time: u64,
    /// Index of the connection.
    pub connection: u32,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// The program opened it, or accepted it.
    Opened,
    /// The program tried to open it, and nobody was there.
    Refused,
    /// The program sent this.
    Sent(Vec<u8>),
    /// This came from the peer and waits in the program's socket.
    Arrived(Vec<u8>),
    /// The program read so many bytes (or datagrams) of what had arrived.
    Read(u64),
    /// The program says no more.
    Finished,
    /// The peer says no more.
    Ended,
    /// The peer has reset the connection.
    Reset,
    /// The program closed it.
    Closed,
    /// The program broke it off: it closed it with something unread, or a fault did.
    Broken,
}
