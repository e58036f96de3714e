//! The SUT's place in its conversations: the part of the peers that is backtracked.
//!
//! Everything here moves together in a checkpoint. Cloning is one reference count; the hash depends on what was said only, not on how the trees
//! look or in which order they grew, so it may be part of a state's identity.

use crate::address::Address;
use crate::answer::Channel;
use crate::summed::SummedMap;
use crate::tree::{At, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};
use xxhash_rust::xxh3::Xxh3;

/// A logical connection of the SUT: what its socket refers to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConnKey {
    /// The k-th that it opened to this destination in this execution.
    Opened(Arc<Address>, u32),
    /// The one that it accepted from this client, by the client's own count of its connections.
    Accepted(u32, Channel),
}

impl fmt::Display for ConnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnKey::Opened(address, 0) => write!(f, "{address}"),
            ConnKey::Opened(address, k) => write!(f, "{address}#{k}"),
            ConnKey::Accepted(client, 0) => write!(f, "client#{client}"),
            ConnKey::Accepted(client, channel) => write!(f, "client#{client}#{channel}"),
        }
    }
}

/// A peer instance: what is replayed as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Instance {
    Server(Arc<Address>, u32),
    Client(u32),
    /// A server process with all connections to it.
    Process(u32),
}

/// Where in this world the tree of a connection is: found once, and no part of what the connection is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeIndex(pub(crate) usize);

impl PartialEq for TreeIndex {
    fn eq(&self, _: &TreeIndex) -> bool {
        true
    }
}
impl Eq for TreeIndex {}
impl Hash for TreeIndex {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Conn {
    pub(crate) instance: Instance,
    pub(crate) tree: TreeIndex,
    pub(crate) channel: Channel,
    /// What is written is a datagram each, not a stream.
    pub(crate) datagrams: bool,
    pub(crate) r: u64,
    pub(crate) fin: bool,
    pub(crate) closed: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Inner {
    pub(crate) opened: BTreeMap<Arc<Address>, u32>,
    /// How many channels of each client have been accepted, per client: which ones.
    pub(crate) taken: BTreeSet<(u32, Channel)>,
    /// Ports that the kernel was asked to choose, by the address asked for.
    pub(crate) chosen: BTreeMap<Address, u32>,
    /// Names of the listening sockets at which the SUT has listened: from the first on, the clients run.
    pub(crate) listening: BTreeSet<String>,
    pub(crate) places: SummedMap<Instance, At>,
    pub(crate) conns: SummedMap<ConnKey, Conn>,
}

/// Where the SUT stands with all its peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PeerState(pub(crate) Arc<Inner>);

/// A state that is kept elsewhere, as long as it is kept there.
#[derive(Clone, Debug)]
pub(crate) struct Kept(Weak<Inner>);

impl Kept {
    pub(crate) fn state(&self) -> Option<PeerState> {
        self.0.upgrade().map(PeerState)
    }
}

impl PeerState {
    pub(crate) fn kept(&self) -> Kept {
        Kept(Arc::downgrade(&self.0))
    }

    /// The state of a SUT that has not communicated yet.
    #[must_use]
    pub fn new() -> PeerState {
        PeerState::default()
    }

    /// Is there an address at which clients find the SUT?
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        !self.0.listening.is_empty()
    }

    /// Where the SUT stands with one peer instance.
    pub(crate) fn place(&self, instance: &Instance) -> At {
        self.0.places.get(instance).copied().unwrap_or_else(Tree::root)
    }

    /// The SUT has closed its connection to this server, so it cannot be told anything by it any more. To ask the server nevertheless would mean to connect again and to repeat all
    /// that was said, and a server whose answers have a date in them does not say the same twice.
    pub(crate) fn has_left(&self, instance: &Instance) -> bool {
        let mut conns = self
            .0
            .conns
            .values()
            .filter(|conn| conn.instance == *instance)
            .peekable();
        matches!(instance, Instance::Server(..)) && conns.peek().is_some() && conns.all(|conn| conn.closed)
    }

    pub(crate) fn edit(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.0)
    }

    /// The identity of this state: a hash of what was said and read on every connection.
    #[must_use]
    pub fn id(&self) -> u128 {
        let mut hasher = Xxh3::new();
        self.0.hash(&mut hasher);
        hasher.digest128()
    }

    /// How many connections the SUT has accepted.
    #[must_use]
    pub fn accepted(&self) -> u32 {
        self.0.taken.len() as u32
    }

    /// The client at the other end of a connection that the SUT accepted.
    #[must_use]
    pub fn client_of(&self, key: &ConnKey) -> Option<u32> {
        match self.0.conns.get(key)?.instance {
            Instance::Client(client) => Some(client),
            Instance::Server(..) | Instance::Process(_) => None,
        }
    }

    /// Connections that the SUT accepted and has not closed.
    #[must_use]
    pub fn open_accepted(&self) -> Vec<ConnKey> {
        let open = self.0.conns.iter().filter(|(_, conn)| !conn.closed);
        open.map(|(key, _)| key)
            .filter(|key| matches!(key, ConnKey::Accepted(..)))
            .cloned()
            .collect()
    }

    /// The connections that the SUT has or had.
    pub fn connections(&self) -> impl Iterator<Item = &ConnKey> {
        self.0.conns.keys()
    }
}
