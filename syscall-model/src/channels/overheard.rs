//! What sockets in the model say to each other, written down for whoever draws a trace. It is no part of a state: nobody in the model can tell whether somebody listens.

use super::ChannelId;
use crate::net::{Endpoint, Key};
use crate::residents::Peer;
use std::hash::{Hash, Hasher};

/// One end of a connection within the model.
#[derive(Clone, Debug)]
pub struct Speaker {
    pub socket: ChannelId,
    /// Whose socket it is: none for the program's.
    pub of: Option<Peer>,
    pub name: Option<Endpoint>,
    /// The name of a connection to a peer, at the program's end.
    pub key: Option<Key>,
}

/// Something that happened between two sockets of the model.
#[derive(Clone, Debug)]
pub enum Heard {
    Connected {
        from: Speaker,
        at: Speaker,
    },
    /// Bytes, or a packet, to the other end of a connection.
    Said(ChannelId, Vec<u8>),
    /// A datagram.
    Sent {
        from: Speaker,
        to: Speaker,
        data: Vec<u8>,
    },
    /// Bytes, or packets, were taken out of a socket; a datagram came from somewhere.
    Taken(ChannelId, usize, Option<Endpoint>),
    /// This end says no more.
    Finished(ChannelId),
    Closed(ChannelId),
    /// This end has broken the connection off.
    Broken(ChannelId),
}

/// What was heard since somebody last asked; nothing if nobody listens.
#[derive(Clone, Debug, Default)]
pub struct Overheard(Option<Vec<Heard>>);

impl Overheard {
    pub fn listen(&mut self) {
        self.0.get_or_insert_default();
    }

    pub fn take(&mut self) -> Vec<Heard> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn note(&mut self, what: impl FnOnce() -> Heard) {
        if let Some(heard) = &mut self.0 {
            heard.push(what());
        }
    }
}

impl PartialEq for Overheard {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Overheard {}

impl Hash for Overheard {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
