//! The world outside the SUT: what its socket operations do to real peers, or to the memory of them.
//!
//! All operations take the [`PeerState`] that they apply to. The world itself only grows: after backtracking the caller comes with an earlier state, and everything that was
//! said since is still known. A `PeerWorld` belongs to one explorer at a time, but may move between threads.

use crate::address::Address;
use crate::answer::Channel;
use crate::capacity::Capacity;
pub use crate::config::{CacheMode, Config, Counters};
use crate::diag::Diag;
use crate::error::{PeerError, show};
use crate::forest::Forest;
use crate::physical::Physical;
use crate::settle::Ground;
use crate::spec::{Member, PeerSpec};
use crate::state::{Conn, ConnKey, Instance, Kept, PeerState, TreeIndex};
use crate::store::TreeKey;
use crate::tree::{At, Cursor, Readable, Tree, Walk, Write};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const MANY_STATES: usize = 1024;

/// What the SUT has taken of what a peer said.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken {
    /// Bytes, or a datagram; `None` if there was nothing to take.
    pub data: Option<Vec<u8>>,
    /// What can be read now.
    pub then: Readable,
    /// The peer paused before it said what is left.
    pub paused: bool,
}

/// The real things at tree positions: connections to servers, and clients with all their connections.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(crate) physicals: BTreeMap<u64, Physical>,
    /// How often one of them was used.
    pub(crate) clock: u64,
    /// The number of the newest.
    pub(crate) next_id: u64,
}

/// The clients to launch when the SUT listens.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) specs: Vec<PeerSpec>,
    /// All clients, launched or recorded.
    pub(crate) roster: Vec<Member>,
    /// Connections that were accepted from them in any schedule.
    pub(crate) seen_channels: HashSet<(u32, Channel)>,
}

/// What was found out about servers.
#[derive(Debug, Default)]
pub(crate) struct KnownServers {
    /// The server of each tree, by its number; `None` if it is none of ours.
    pub(crate) served_by: HashMap<usize, Option<usize>>,
    /// The server that was found at an address.
    pub(crate) serves_at: HashMap<Address, usize>,
    /// Server processes that were told something since they were started, where each has one tree.
    pub(crate) begun: HashSet<usize>,
    /// How many connections servers were seen to serve at a time.
    pub(crate) capacities: BTreeMap<Address, Capacity>,
    /// Services that the program wanted to talk to and that are not for it.
    pub(crate) barred: BTreeSet<Address>,
}

/// States from which there is more to explore.
#[derive(Debug)]
pub(crate) struct Unexplored {
    pub(crate) states: Vec<Kept>,
    /// How many of them make it worth while to look which are still kept.
    pub(crate) many: usize,
    /// How many physical instances there had been when those that nobody needs were last closed.
    pub(crate) tidied_at: u64,
}

/// The other ends of all the SUT's connections.
///
/// What the SUT does to a connection concerns its tree, what is real behind it and the process that this belongs to, all at once. So these operations are
/// methods of the world, in a file for each topic: connections here, bringing something real to a position in `replay`, clients in `serving`, servers in
/// `servers`, `capacity` and `by_process`, ends of connections in `ending`, timers in `timers`, what the explorer asks for in `upkeep`, files in `store`,
/// pictures in `render` and `picture`. What concerns one of the parts only is a method of that part.
#[derive(Debug)]
pub struct PeerWorld {
    pub(crate) config: Config,
    pub(crate) trees: Forest,
    // Before the ground: a client's connections are closed and its process killed before the servers are.
    pub(crate) pool: Pool,
    pub(crate) ground: Ground,
    pub(crate) clients: Clients,
    pub(crate) servers: KnownServers,
    pub(crate) counters: Counters,
    /// Time that was given to timers of peers, and nothing came.
    pub(crate) waited_in_vain: Duration,
    /// A peer was not deterministic and one of its answers was kept.
    pub(crate) partial: bool,
    /// Chosen ports by the address asked for and its how-manieth time, so that a replayed `bind` gets the same.
    pub(crate) chosen_ports: BTreeMap<(Address, u32), Address>,
    pub(crate) unexplored: Unexplored,
}

/// A connection that the SUT has not closed.
pub(crate) fn open_conn<'a>(
    conns: &'a BTreeMap<ConnKey, Conn>,
    key: &ConnKey,
) -> Result<&'a Conn, PeerError> {
    conns
        .get(key)
        .filter(|conn| !conn.closed)
        .ok_or_else(|| PeerError::NoConnection(key.to_string()))
}

impl PeerWorld {
    /// How long all waits may go on from now on.
    pub fn set_time_budget(&mut self, budget: crate::TimeBudget) {
        self.config.time_budget = budget;
    }

    /// Starts the servers and waits until they listen.
    ///
    /// # Errors
    /// A server does not come up.
    pub fn new(config: Config) -> Result<PeerWorld, PeerError> {
        if let Some(dir) = &config.output_dir {
            std::fs::create_dir_all(dir).map_err(PeerError::io(format!("creating {}", dir.display())))?;
        }
        let copies = |spec: &PeerSpec| {
            vec![
                PeerSpec {
                    count: 1,
                    ..spec.clone()
                };
                spec.count
            ]
        };
        let clients: Vec<PeerSpec> = config.clients.iter().flat_map(copies).collect();
        let servers: Vec<PeerSpec> = config.servers.iter().flat_map(copies).collect();
        let roster = crate::spec::roster(&config.clients);
        let ground = Ground {
            listeners: Vec::new(),
            servers: Vec::new(),
            strangers: HashMap::new(),
            diag: Diag::new().ok(),
            buffer: vec![0; 1 << 16].into_boxed_slice(),
        };
        let mut world = PeerWorld {
            config: Config {
                servers: servers.clone(),
                ..config
            },
            trees: Forest::default(),
            pool: Pool::default(),
            ground,
            clients: Clients {
                specs: clients,
                roster,
                seen_channels: HashSet::new(),
            },
            servers: KnownServers::default(),
            counters: Counters::default(),
            waited_in_vain: Duration::ZERO,
            partial: false,
            chosen_ports: BTreeMap::new(),
            unexplored: Unexplored {
                states: Vec::new(),
                many: MANY_STATES,
                tidied_at: 0,
            },
        };
        if !world.config.offline {
            for spec in &servers {
                let server = world.start_server(spec)?;
                world.ground.servers.push(server);
            }
        }
        Ok(world)
    }

    /// Services that the program wanted to talk to, that are there, and that nobody has named as its peers.
    #[must_use]
    pub fn barred(&self) -> &BTreeSet<Address> {
        &self.servers.barred
    }

    /// What was spared so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// A peer was not deterministic and one of its answers was kept: the verdict does not cover the others.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// Servers that serve so many connections at a time: a further one waits until another has ended.
    pub fn limited(&self) -> impl Iterator<Item = (&Address, u32)> {
        let all = self.servers.capacities.iter();
        all.filter_map(|(address, known)| Some((address, known.limit()?)))
    }

    /// The trees and what they belong to.
    pub fn trees(&self) -> impl Iterator<Item = (&TreeKey, &Tree)> {
        self.trees.iter()
    }

    /// Real connections and clients that are held now.
    #[must_use]
    pub fn physical_now(&self) -> usize {
        self.pool.physicals.len()
    }

    /// The number of client instances.
    #[must_use]
    pub fn client_count(&self) -> u32 {
        self.trees.client_count().max(self.clients.roster.len() as u32)
    }

    pub(crate) fn tree_key(&self, instance: &Instance) -> TreeKey {
        match instance {
            Instance::Server(address, k) => {
                TreeKey::Server((**address).clone(), if self.config.share_trees { 0 } else { *k })
            }
            Instance::Client(index) => TreeKey::Client(*index),
            Instance::Process(index) => TreeKey::Process(*index),
        }
    }

    pub(crate) fn locate(&mut self, state: &PeerState, instance: &Instance) -> (usize, At) {
        let tree = self.trees.tree_of(self.tree_key(instance)).0;
        (tree, state.place(instance))
    }

    pub(crate) fn conn<'a>(&self, state: &'a PeerState, key: &ConnKey) -> Result<&'a Conn, PeerError> {
        open_conn(&state.0.conns, key)
    }

    /// The SUT connects. The inner error is the number of what it is told if that cannot be: nobody listens there, or there is no way to it.
    ///
    /// # Errors
    /// A peer failed, or offline there is no such connection.
    pub fn open(
        &mut self,
        state: &mut PeerState,
        address: &Address,
    ) -> Result<Result<ConnKey, i32>, PeerError> {
        if let Some(server) = self.process_at(address) {
            return self.open_process(state, server, address).map(Ok);
        }
        let address = Arc::new(address.clone());
        let k = state.0.opened.get(&address).copied().unwrap_or(0);
        let instance = Instance::Server(address.clone(), k);
        let (tree, is_new) = self.trees.tree_of(self.tree_key(&instance));
        let never_tried =
            self.trees[tree].answer(Tree::root().pos).is_none() && self.trees[tree].refused.is_none();
        if is_new || never_tried {
            self.counters.logical_connections += u64::from(is_new);
            match self.resolve(tree, Tree::root()) {
                Err(PeerError::NoWay { errno, .. }) => self.trees[tree].refused = Some(errno),
                result => result?,
            }
        } else if self.config.mode == CacheMode::Off && self.trees[tree].refused.is_none() {
            self.ensure_at(tree, Tree::root())?;
        }
        let refused = self.trees[tree].refused;
        let inner = state.edit();
        inner.opened.insert(address.clone(), k + 1);
        if let Some(errno) = refused {
            return Ok(Err(errno));
        }
        let datagrams = matches!(*address, Address::Udp(_));
        let key = ConnKey::Opened(address, k);
        inner.places.insert(instance.clone(), Tree::root());
        inner.conns.insert(
            key.clone(),
            Conn {
                instance,
                tree: TreeIndex(tree),
                channel: 0,
                datagrams,
                r: 0,
                fin: false,
                closed: false,
            },
        );
        Ok(Ok(key))
    }

    /// The SUT connects to where by the caller's own rule nobody is. Kept like any other refusal, so that it is the same offline.
    pub fn refuse(&mut self, state: &mut PeerState, address: &Address) {
        let address = Arc::new(address.clone());
        let k = state.0.opened.get(&address).copied().unwrap_or(0);
        let instance = Instance::Server(address.clone(), k);
        let (tree, _) = self.trees.tree_of(self.tree_key(&instance));
        self.trees[tree].refused = Some(libc::ECONNREFUSED);
        state.edit().opened.insert(address, k + 1);
    }

    /// Polls a position that was never polled.
    pub(crate) fn resolve(&mut self, tree: usize, at: At) -> Result<(), PeerError> {
        if self.trees[tree].answer(at.pos).is_some() {
            return Ok(());
        }
        if self.config.offline {
            return Err(self.offline_miss(tree, at, "an answer that was never asked for".into()));
        }
        let id = self.ensure_at(tree, at)?;
        self.poll_at(id, at.pos)
    }

    pub(crate) fn offline_miss(&self, tree: usize, at: At, wanted: String) -> PeerError {
        PeerError::OfflineMiss {
            connection: self.trees.key(tree).to_string(),
            after: self.trees.told(tree, at.pos),
            wanted,
        }
    }

    /// The SUT writes to a connection: a hit, or the peer is told.
    ///
    /// # Errors
    /// A peer failed, or the cache cannot serve (linear, offline).
    pub fn write(&mut self, state: &mut PeerState, key: &ConnKey, data: &[u8]) -> Result<(), PeerError> {
        let write = match open_conn(&state.0.conns, key)?.datagrams {
            true => Write::Datagram(data),
            false if data.is_empty() => return Ok(()),
            false => Write::Bytes(data),
        };
        self.tell(state, key, write, data)
    }

    /// Tells the peer at the other end of a connection something, or knows already what comes of it. `shown` is what a message about it shows.
    pub(crate) fn tell(
        &mut self,
        state: &mut PeerState,
        key: &ConnKey,
        write: Write<'_>,
        shown: &[u8],
    ) -> Result<(), PeerError> {
        let conn = open_conn(&state.0.conns, key)?;
        let (instance, channel, tree) = (conn.instance.clone(), conn.channel, conn.tree.0);
        let from = state.place(&instance);
        let to = match self.trees[tree].write(from, channel, write) {
            Walk::Hit(to) if self.config.mode != CacheMode::Off => {
                self.counters.hits += 1;
                to
            }
            walk => {
                self.counters.misses += 1;
                self.may_diverge(tree, walk, shown)?;
                if self.config.offline {
                    return Err(self.offline_miss(tree, from, format!("the answer to \"{}\"", show(shown))));
                }
                let id = self.ensure_at(tree, from)?;
                let to = self.trees[tree].insert(from, channel, write);
                // Where the tree was polled on the way, the peer is asked there again, so that its answer falls into the same pieces.
                self.advance(id, to)?;
                if self.trees[tree].answer(to.pos).is_none() {
                    self.poll_at(id, to.pos)?;
                }
                to
            }
        };
        state.edit().places.insert(instance, to);
        Ok(())
    }

    /// In linear mode there is one conversation only.
    pub(crate) fn may_diverge(&self, tree: usize, walk: Walk, data: &[u8]) -> Result<(), PeerError> {
        match walk {
            Walk::Miss {
                matched,
                at,
                diverges: true,
            } if self.config.mode == CacheMode::Linear => Err(PeerError::LinearDivergence {
                connection: self.trees.key(tree).to_string(),
                after: self.trees.told(tree, at.pos),
                expected: self.trees[tree].continuation(at.pos),
                actual: show(data.get(matched..).unwrap_or_default()),
            }),
            _ => Ok(()),
        }
    }

    /// A connection, where in its tree the SUT stands, and what can be read there: the peer is asked if need be.
    fn cursor<'a>(
        &mut self,
        state: &'a PeerState,
        key: &ConnKey,
    ) -> Result<(&'a Conn, Cursor, Readable), PeerError> {
        let conn = self.conn(state, key)?;
        let cursor = Cursor {
            r: conn.r,
            w: state.place(&conn.instance),
        };
        let mut readable = self.trees[conn.tree.0].readable(conn.channel, cursor);
        if readable == Readable::Unknown {
            self.resolve(conn.tree.0, cursor.w)?;
            readable = self.trees[conn.tree.0].readable(conn.channel, cursor);
        }
        let readable = self.if_served(state, key, readable)?;
        Ok((conn, cursor, readable))
    }

    /// What the SUT could read now. Never [`Readable::Unknown`]: the peer is asked if need be.
    ///
    /// # Errors
    /// A peer failed, or offline the position was never polled.
    pub fn readable(&mut self, state: &PeerState, key: &ConnKey) -> Result<Readable, PeerError> {
        Ok(self.cursor(state, key)?.2)
    }

    /// Up to `max` bytes (or one datagram) of what can be read, without taking them.
    ///
    /// # Errors
    /// A peer failed.
    pub fn peek(&mut self, state: &PeerState, key: &ConnKey, max: usize) -> Result<Vec<u8>, PeerError> {
        let (conn, cursor, _) = self.cursor(state, key)?;
        let tree = &self.trees[conn.tree.0];
        if conn.datagrams {
            return Ok(tree.read_datagram(conn.channel, cursor).unwrap_or_default());
        }
        Ok(tree.read(conn.channel, cursor, max))
    }

    /// Takes up to `max` bytes (or one datagram, cut to `max`). Empty if [`PeerWorld::readable`] says that there is no data.
    ///
    /// # Errors
    /// A peer failed.
    pub fn read(&mut self, state: &mut PeerState, key: &ConnKey, max: usize) -> Result<Vec<u8>, PeerError> {
        Ok(self.take(state, key, max)?.data.unwrap_or_default())
    }

    /// Takes up to `max` bytes (or one datagram, cut to `max`), and says what can be read then: both in one, since every call of the SUT on a connection is
    /// followed by this.
    ///
    /// # Errors
    /// A peer failed, or offline the position was never polled.
    pub fn take(&mut self, state: &mut PeerState, key: &ConnKey, max: usize) -> Result<Taken, PeerError> {
        let (conn, mut cursor, readable) = self.cursor(state, key)?;
        let Readable::Data(units) = readable else {
            return Ok(Taken {
                data: None,
                then: readable,
                paused: false,
            });
        };
        let (tree, channel) = (&self.trees[conn.tree.0], conn.channel);
        let mut paused = false;
        let (data, taken) = if conn.datagrams {
            let mut datagram = tree.read_datagram(channel, cursor).unwrap_or_default();
            datagram.truncate(max);
            (datagram, 1)
        } else {
            let in_one_go = tree.until_pause(channel, cursor).unwrap_or(u64::MAX);
            let bytes = tree.read(channel, cursor, max.min(in_one_go as usize));
            let taken = bytes.len() as u64;
            paused = taken == in_one_go;
            (bytes, taken)
        };
        cursor.r += taken;
        state.edit().conns.change(key, |conn| conn.r = cursor.r);
        Ok(Taken {
            data: Some(data),
            then: if taken < units {
                Readable::Data(units - taken)
            } else {
                tree.readable(channel, cursor)
            },
            paused,
        })
    }
}
