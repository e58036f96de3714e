//! Positions in a tree, and what lies between them: what the SUT wrote, symbol by symbol.

use crate::address::Address;
use crate::answer::Channel;
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};

/// A position in the writes: after `offset` symbols of node `node`. Offset 0 occurs at the root only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pos {
    pub(crate) node: u32,
    pub(crate) offset: u32,
}

/// A write position with the hash of all that was written up to it. Identity is the hash alone, so it is the same in every tree that says the same, however it grew.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct At {
    /// Where in this tree.
    pub pos: Pos,
    /// Hash of the path's content, symbol by symbol.
    pub path: u128,
}

impl PartialEq for At {
    fn eq(&self, other: &At) -> bool {
        self.path == other.path
    }
}
impl Eq for At {}
impl Hash for At {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.path.hash(state);
    }
}

/// The pair ⟨r, w⟩ of one connection: what the SUT has read (a count of bytes or datagrams) and what it has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cursor {
    /// Units read so far.
    pub r: u64,
    /// Where the SUT stands in its writes.
    pub w: At,
}

impl Cursor {
    /// The identity of this logical position: equal for equal content, whatever the tree looks like.
    #[must_use]
    pub fn id(&self) -> u128 {
        fold(self.w.path, self.r ^ 0xc0de_0000_0000_0000)
    }
}

/// FNV-1a, 128 bits, a symbol at a time: the only requirement is that `AB` and `A`,`B` agree.
fn fold(hash: u128, symbol: u64) -> u128 {
    (hash ^ u128::from(symbol)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B)
}

/// The hash of having said nothing.
pub(crate) const EMPTY_PATH: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;

/// One thing that the SUT does to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write<'a> {
    /// Bytes on a stream: may be split and joined.
    Bytes(&'a [u8]),
    /// A datagram: whole or not at all.
    Datagram(&'a [u8]),
    /// The end of the SUT's stream.
    Fin,
    /// The SUT resets the connection: it has closed it with something unread, or a fault did.
    Reset,
    /// The SUT closes the connection with nothing unread: to the peer an end, and whatever it says from then on is refused.
    Close,
    /// The SUT goes on with who is at the other end of this channel from another of its datagram sockets, the one that is called so: from
    /// there comes a new channel.
    From(&'a str),
    /// The SUT connects to a server process: this is a new channel of it.
    Open(&'a Address),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Segment {
    Bytes(Vec<u8>),
    Datagram(Vec<u8>),
    Fin,
    From(String),
    // New ones go to the end: saved trees have their numbers.
    Reset,
    Close,
    Open(Address),
}

impl Segment {
    /// Something is said, rather than nothing more.
    pub(crate) fn is_a_write(&self) -> bool {
        !matches!(self, Segment::Fin | Segment::Reset | Segment::Close)
    }

    pub(crate) fn len(&self) -> u32 {
        match self {
            Segment::Bytes(bytes) => bytes.len() as u32,
            Segment::Datagram(_)
            | Segment::Fin
            | Segment::From(_)
            | Segment::Reset
            | Segment::Close
            | Segment::Open(_) => 1,
        }
    }
    pub(crate) fn fold(&self, mut hash: u128, channel: Channel, from: u32, to: u32) -> u128 {
        let lane = u64::from(channel) << 16;
        match self {
            Segment::Bytes(bytes) => {
                for &byte in &bytes[from as usize..to as usize] {
                    hash = fold(hash, lane | u64::from(byte));
                }
            }
            Segment::Fin => hash = fold(hash, lane | 256),
            Segment::Reset => hash = fold(hash, lane | 259),
            Segment::Close => hash = fold(hash, lane | 260),
            Segment::From(name) => {
                for byte in name.bytes() {
                    hash = fold(hash, lane | 1024 | u64::from(byte));
                }
                hash = fold(hash, lane | 258);
            }
            Segment::Open(address) => {
                for byte in address.to_string().bytes() {
                    hash = fold(hash, lane | 2048 | u64::from(byte));
                }
                hash = fold(hash, lane | 261);
            }
            Segment::Datagram(bytes) => {
                for &byte in bytes {
                    hash = fold(hash, lane | 512 | u64::from(byte));
                }
                hash = fold(hash, lane | 257);
            }
        }
        hash
    }
}
