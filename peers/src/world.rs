//! The world outside the SUT: what its socket operations do to real peers, or to the memory of them.
//!
//! All operations take the [`PeerState`] that they apply to. The world itself only grows: after backtracking the caller comes with an earlier state, and everything that was
//! said since is still known. A `PeerWorld` belongs to one explorer at a time, but may move between threads.

use crate::address::Address;
use crate::answer::Channel;
use crate::diag::Diag;
use crate::error::{PeerError, show};
use crate::listener::Listener;
use crate::physical::Physical;
use crate::process::Launcher;
use crate::replay::is_refusal;
use crate::settle::Ground;
use crate::spec::PeerSpec;
use crate::state::{Conn, ConnKey, Instance, PeerState};
use crate::store::TreeKey;
use crate::tree::{At, Cursor, Readable, Tree, Walk, Write};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What the trees are used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// All that was ever said is kept, and peers are only asked what is new.
    #[default]
    Branching,
    /// One conversation per connection; leaving it is an error.
    Linear,
    /// After every backtrack all peers are started again and everything is said again.
    Off,
}

/// How peers are dealt with.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the trees are used for.
    pub mode: CacheMode,
    /// All connections to one destination share one tree.
    pub share_trees: bool,
    /// How long a peer that cannot be inspected must be silent for its answer to be complete.
    pub settle: Duration,
    /// How long a peer may sleep before it answers.
    pub sleep_bound: Duration,
    /// How long a peer may compute before it answers.
    pub hang_bound: Duration,
    /// How long a server may take until it listens.
    pub start_bound: Duration,
    /// How long a connection may take.
    pub connect_bound: Duration,
    /// The most that a peer may say in one answer.
    pub flood_limit: usize,
    /// Keep the first answer of a peer that is not deterministic, and go on.
    pub allow_nondeterministic: bool,
    /// No peer is contacted.
    pub offline: bool,
    /// The most physical connections (and launched clients) that are kept.
    pub max_physical: usize,
    /// Servers to start.
    pub servers: Vec<PeerSpec>,
    /// Clients to launch when the SUT listens.
    pub clients: Vec<PeerSpec>,
    /// How to start a peer's host process.
    pub launcher: Launcher,
    /// Where the peers' output goes; a temporary directory if not given.
    pub output_dir: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mode: CacheMode::Branching,
            share_trees: false,
            settle: Duration::from_millis(50),
            sleep_bound: Duration::from_secs(3),
            hang_bound: Duration::from_secs(10),
            start_bound: Duration::from_secs(10),
            connect_bound: Duration::from_secs(5),
            flood_limit: 64 << 20,
            allow_nondeterministic: false,
            offline: false,
            max_physical: 256,
            servers: Vec::new(),
            clients: Vec::new(),
            launcher: Launcher::default(),
            output_dir: None,
        }
    }
}

/// What was spared and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// SUT write calls served from the trees.
    pub hits: u64,
    /// SUT write calls that reached a peer.
    pub misses: u64,
    /// Distinct connections that the SUT has ever had.
    pub logical_connections: u64,
    /// Real connections, the first of each included.
    pub physical_connections: u64,
    /// Processes started: servers and clients.
    pub peer_starts: u64,
    /// Bytes that were sent again to bring a fresh peer to where an old one was.
    pub replayed_bytes: u64,
    /// Answers that came after the answer was thought complete.
    pub late_answers: u64,
}

/// The other ends of all the SUT's connections.
#[derive(Debug)]
pub struct PeerWorld {
    pub(crate) config: Config,
    pub(crate) trees: Vec<Tree>,
    pub(crate) keys: Vec<TreeKey>,
    index: HashMap<TreeKey, usize>,
    // Physicals before the ground: a client's connections are closed and its process killed before the servers are.
    pub(crate) physicals: BTreeMap<u64, Physical>,
    pub(crate) ground: Ground,
    pub(crate) clients: Vec<PeerSpec>,
    pub(crate) served_by: HashMap<usize, Option<usize>>,
    pub(crate) counters: Counters,
    pub(crate) partial: bool,
    pub(crate) clock: u64,
    pub(crate) next_id: u64,
    seen_channels: HashSet<(u32, Channel)>,
    /// Chosen ports by the address asked for and its how-manieth time, so that a replayed `bind` gets the same.
    pub(crate) chosen_ports: BTreeMap<(Address, u32), Address>,
    output: tempfile::TempDir,
}

impl PeerWorld {
    /// Starts the servers and waits until they listen.
    ///
    /// # Errors
    /// A server does not come up.
    pub fn new(config: Config) -> Result<PeerWorld, PeerError> {
        let output = tempfile::Builder::new()
            .prefix("tracefork-peers-")
            .tempdir()
            .map_err(PeerError::io("temporary directory"))?;
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
        let ground = Ground {
            listeners: Vec::new(),
            servers: Vec::new(),
            strangers: HashMap::new(),
            diag: Diag::new().ok(),
        };
        let mut world = PeerWorld {
            config: Config {
                servers: servers.clone(),
                ..config
            },
            trees: Vec::new(),
            keys: Vec::new(),
            index: HashMap::new(),
            physicals: BTreeMap::new(),
            ground,
            clients,
            served_by: HashMap::new(),
            counters: Counters::default(),
            partial: false,
            clock: 0,
            next_id: 0,
            seen_channels: HashSet::new(),
            chosen_ports: BTreeMap::new(),
            output,
        };
        if !world.config.offline {
            for spec in &servers {
                let server = world.start_server(spec)?;
                world.ground.servers.push(server);
            }
        }
        Ok(world)
    }

    pub(crate) fn output_dir(&self) -> &Path {
        self.config.output_dir.as_deref().unwrap_or(self.output.path())
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

    /// The trees and what they belong to.
    pub fn trees(&self) -> impl Iterator<Item = (&TreeKey, &Tree)> {
        self.keys.iter().zip(&self.trees)
    }

    /// Real connections and clients that are held now.
    #[must_use]
    pub fn physical_now(&self) -> usize {
        self.physicals.len()
    }

    /// The number of client instances.
    #[must_use]
    pub fn client_count(&self) -> u32 {
        let known = self.keys.iter().filter_map(|key| {
            if let TreeKey::Client(i) = key {
                Some(i + 1)
            } else {
                None
            }
        });
        known.max().unwrap_or(0).max(self.clients.len() as u32)
    }

    pub(crate) fn tree_of(&mut self, key: TreeKey) -> (usize, bool) {
        if let Some(&tree) = self.index.get(&key) {
            return (tree, false);
        }
        self.adopt(key, Tree::default());
        (self.trees.len() - 1, true)
    }

    /// Adds a tree, from a file or a new one.
    pub(crate) fn adopt(&mut self, key: TreeKey, tree: Tree) {
        self.index.insert(key.clone(), self.trees.len());
        self.keys.push(key);
        self.trees.push(tree);
    }

    fn tree_key(&self, instance: &Instance) -> TreeKey {
        match instance {
            Instance::Server(address, k) => {
                TreeKey::Server((**address).clone(), if self.config.share_trees { 0 } else { *k })
            }
            Instance::Client(index) => TreeKey::Client(*index),
        }
    }

    fn locate(&mut self, state: &PeerState, instance: &Instance) -> (usize, At) {
        let tree = self.tree_of(self.tree_key(instance)).0;
        (
            tree,
            state.0.places.get(instance).copied().unwrap_or_else(Tree::root),
        )
    }

    fn conn<'a>(&self, state: &'a PeerState, key: &ConnKey) -> Result<&'a Conn, PeerError> {
        state
            .0
            .conns
            .get(key)
            .filter(|conn| !conn.closed)
            .ok_or_else(|| PeerError::NoConnection(key.to_string()))
    }

    /// The SUT connects. `None`: nobody listens there.
    ///
    /// # Errors
    /// A peer failed, or offline there is no such connection.
    pub fn open(&mut self, state: &mut PeerState, address: &Address) -> Result<Option<ConnKey>, PeerError> {
        let address = Arc::new(address.clone());
        let k = state.0.opened.get(&address).copied().unwrap_or(0);
        let instance = Instance::Server(address.clone(), k);
        let (tree, is_new) = self.tree_of(self.tree_key(&instance));
        if is_new || (self.trees[tree].answer(Tree::root().pos).is_none() && !self.trees[tree].refused) {
            self.counters.logical_connections += u64::from(is_new);
            match self.resolve(tree, Tree::root()) {
                Err(PeerError::Io { source, .. }) if is_refusal(&source) => self.trees[tree].refused = true,
                result => result?,
            }
        } else if self.config.mode == CacheMode::Off && !self.trees[tree].refused {
            self.ensure_at(tree, Tree::root())?;
        }
        let refused = self.trees[tree].refused;
        let inner = state.edit();
        inner.opened.insert(address.clone(), k + 1);
        if refused {
            return Ok(None);
        }
        let key = ConnKey::Opened(address, k);
        inner.places.insert(instance.clone(), Tree::root());
        inner.conns.insert(
            key.clone(),
            Conn {
                instance,
                channel: 0,
                r: 0,
                fin: false,
                closed: false,
            },
        );
        Ok(Some(key))
    }

    /// Polls a position that was never polled.
    fn resolve(&mut self, tree: usize, at: At) -> Result<(), PeerError> {
        if self.trees[tree].answer(at.pos).is_some() {
            return Ok(());
        }
        if self.config.offline {
            return Err(self.offline_miss(tree, at, "an answer that was never asked for".into()));
        }
        let id = self.ensure_at(tree, at)?;
        self.poll_at(id, at.pos)
    }

    fn offline_miss(&self, tree: usize, at: At, wanted: String) -> PeerError {
        PeerError::OfflineMiss {
            connection: self.keys[tree].to_string(),
            after: self.told(tree, at.pos),
            wanted,
        }
    }

    /// The SUT binds an address: returns the one it gets (port 0 becomes a real port, the same one every time).
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(&mut self, state: &mut PeerState, address: &Address) -> Result<Address, PeerError> {
        let (mut name, mut k) = (address.to_string(), 0);
        if address.port() == Some(0) {
            let count = state.edit().chosen.entry(address.clone()).or_insert(0);
            k = *count;
            *count += 1;
            name = format!("{name}#{k}");
            if let Some(chosen) = self.chosen_ports.get(&(address.clone(), k))
                && (self.config.offline || self.ground.listeners.iter().any(|l| &l.address == chosen))
            {
                return Ok(chosen.clone());
            }
        }
        if self.config.offline || self.ground.listeners.iter().any(|l| &l.address == address) {
            return Ok(address.clone());
        }
        let listener = Listener::bind(address, name)
            .map_err(PeerError::io(format!("listening at {address} for the SUT")))?;
        let got = listener.address.clone();
        if got != *address {
            self.chosen_ports.insert((address.clone(), k), got.clone());
        }
        self.ground.listeners.push(listener);
        Ok(got)
    }

    fn listener_name(&self, address: &Address) -> String {
        let chosen = self
            .chosen_ports
            .iter()
            .find(|(_, got)| *got == address)
            .map(|((asked, k), _)| format!("{asked}#{k}"));
        chosen.unwrap_or_else(|| address.to_string())
    }

    /// The SUT listens at an address that it has bound: from now on there are clients.
    pub fn listen(&mut self, state: &mut PeerState, address: &Address) {
        let name = self.listener_name(address);
        state.edit().listening.insert(name);
    }

    /// The connection that the SUT would accept next: first connections before second ones, in the order of the clients.
    /// This depends on the state alone and not on who was faster. Clients are launched here, one after the other, each when the one before has come to rest.
    fn next_pending(
        &mut self,
        state: &PeerState,
        address: &Address,
    ) -> Result<Option<(Channel, u32)>, PeerError> {
        let name = self.listener_name(address);
        if !state.0.listening.contains(&name) {
            return Ok(None);
        }
        let mut pending = None;
        for client in 0..self.client_count() {
            let (tree, at) = self.locate(state, &Instance::Client(client));
            self.resolve(tree, at)?;
            let opened = self.trees[tree].opened(at.pos);
            let fresh = opened
                .into_iter()
                .filter(|(channel, at)| *at == name && !state.0.taken.contains(&(client, *channel)));
            pending = pending
                .into_iter()
                .chain(fresh.map(|(channel, _)| (channel, client)))
                .min();
        }
        Ok(pending)
    }

    /// A client waits to be accepted at this address.
    ///
    /// # Errors
    /// A peer failed.
    pub fn acceptable(&mut self, state: &PeerState, address: &Address) -> Result<bool, PeerError> {
        Ok(self.next_pending(state, address)?.is_some())
    }

    /// The SUT accepts the next connection, if there is one.
    ///
    /// # Errors
    /// A peer failed.
    pub fn accept(&mut self, state: &mut PeerState, address: &Address) -> Result<Option<ConnKey>, PeerError> {
        let Some((channel, client)) = self.next_pending(state, address)? else {
            return Ok(None);
        };
        if self.seen_channels.insert((client, channel)) {
            self.counters.logical_connections += 1;
        }
        let inner = state.edit();
        let key = ConnKey::Accepted(inner.accepted);
        let instance = Instance::Client(client);
        inner.accepted += 1;
        inner.taken.insert((client, channel));
        inner.places.entry(instance.clone()).or_insert_with(Tree::root);
        inner.conns.insert(
            key.clone(),
            Conn {
                instance,
                channel,
                r: 0,
                fin: false,
                closed: false,
            },
        );
        Ok(Some(key))
    }

    /// The SUT writes to a connection: a hit, or the peer is told.
    ///
    /// # Errors
    /// A peer failed, or the cache cannot serve (linear, offline).
    pub fn write(&mut self, state: &mut PeerState, key: &ConnKey, data: &[u8]) -> Result<(), PeerError> {
        let conn = self.conn(state, key)?;
        let (instance, channel) = (conn.instance.clone(), conn.channel);
        let write = match key {
            ConnKey::Opened(address, _) if matches!(**address, Address::Udp(_)) => Write::Datagram(data),
            _ if data.is_empty() => return Ok(()),
            _ => Write::Bytes(data),
        };
        let (tree, from) = self.locate(state, &instance);
        let to = match self.trees[tree].write(from, channel, write) {
            Walk::Hit(to) if self.config.mode != CacheMode::Off => {
                self.counters.hits += 1;
                to
            }
            walk => {
                self.counters.misses += 1;
                self.may_diverge(tree, walk, data)?;
                if self.config.offline {
                    return Err(self.offline_miss(tree, from, format!("the answer to {:?}", show(data))));
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
    fn may_diverge(&self, tree: usize, walk: Walk, data: &[u8]) -> Result<(), PeerError> {
        match walk {
            Walk::Miss {
                matched,
                at,
                diverges: true,
            } if self.config.mode == CacheMode::Linear => Err(PeerError::LinearDivergence {
                connection: self.keys[tree].to_string(),
                after: self.told(tree, at.pos),
                expected: self.trees[tree].continuation(at.pos),
                actual: show(data.get(matched..).unwrap_or_default()),
            }),
            _ => Ok(()),
        }
    }

    /// The SUT ends its side of a stream. Nobody is told until somebody looks for the effect: the peer's position is simply one that was not polled yet.
    ///
    /// # Errors
    /// There is no such connection, or in linear mode the recorded conversation goes on.
    pub fn fin(&mut self, state: &mut PeerState, key: &ConnKey) -> Result<(), PeerError> {
        let conn = self.conn(state, key)?;
        if conn.fin {
            return Ok(());
        }
        let (instance, channel) = (conn.instance.clone(), conn.channel);
        let (tree, from) = self.locate(state, &instance);
        self.may_diverge(tree, self.trees[tree].walk(from, channel, Write::Fin), b"<end>")?;
        let to = self.trees[tree].insert(from, channel, Write::Fin);
        let inner = state.edit();
        inner.places.insert(instance, to);
        if let Some(conn) = inner.conns.get_mut(key) {
            conn.fin = true;
        }
        Ok(())
    }

    /// The SUT closes a connection. A server is not told (its connection may serve another schedule); a client is, because what it does next (another connection, its end) may depend on it.
    ///
    /// # Errors
    /// There is no such connection, or in linear mode the recorded conversation goes on.
    pub fn close(&mut self, state: &mut PeerState, key: &ConnKey) -> Result<(), PeerError> {
        if matches!(key, ConnKey::Accepted(_)) {
            self.fin(state, key)?;
        }
        if let Some(conn) = state.edit().conns.get_mut(key) {
            // What was left unread does not matter any more.
            (conn.closed, conn.r) = (true, 0);
        }
        Ok(())
    }

    fn cursor(&mut self, state: &PeerState, key: &ConnKey) -> Result<(usize, Channel, Cursor), PeerError> {
        let conn = self.conn(state, key)?;
        let (tree, w) = self.locate(state, &conn.instance);
        Ok((tree, conn.channel, Cursor { r: conn.r, w }))
    }

    /// What the SUT could read now. Never [`Readable::Unknown`]: the peer is asked if need be.
    ///
    /// # Errors
    /// A peer failed, or offline the position was never polled.
    pub fn readable(&mut self, state: &PeerState, key: &ConnKey) -> Result<Readable, PeerError> {
        let (tree, channel, cursor) = self.cursor(state, key)?;
        match self.trees[tree].readable(channel, cursor) {
            Readable::Unknown => {
                self.resolve(tree, cursor.w)?;
                Ok(self.trees[tree].readable(channel, cursor))
            }
            known => Ok(known),
        }
    }

    /// Up to `max` bytes (or one datagram) of what can be read, without taking them.
    ///
    /// # Errors
    /// A peer failed.
    pub fn peek(&mut self, state: &PeerState, key: &ConnKey, max: usize) -> Result<Vec<u8>, PeerError> {
        self.readable(state, key)?;
        let (tree, channel, cursor) = self.cursor(state, key)?;
        let tree = &self.trees[tree];
        Ok(tree
            .read_datagram(channel, cursor)
            .unwrap_or_else(|| tree.read(channel, cursor, max)))
    }

    /// Takes up to `max` bytes (or one datagram, cut to `max`). Empty if [`PeerWorld::readable`] says that there is no data.
    ///
    /// # Errors
    /// A peer failed.
    pub fn read(&mut self, state: &mut PeerState, key: &ConnKey, max: usize) -> Result<Vec<u8>, PeerError> {
        self.readable(state, key)?;
        let (tree, channel, cursor) = self.cursor(state, key)?;
        let tree = &self.trees[tree];
        let (data, units) = match tree.read_datagram(channel, cursor) {
            Some(datagram) => (datagram[..datagram.len().min(max)].to_vec(), 1),
            None => {
                let data = tree.read(channel, cursor, max);
                let units = data.len() as u64;
                (data, units)
            }
        };
        if let Some(conn) = state.edit().conns.get_mut(key) {
            conn.r += units;
        }
        Ok(data)
    }

    /// The exit status of a client, if in this state it has ended (negative: by a signal).
    ///
    /// # Errors
    /// A peer failed.
    pub fn client_exit(&mut self, state: &PeerState, client: u32) -> Result<Option<i32>, PeerError> {
        if state.0.listening.is_empty() {
            return Ok(None);
        }
        let (tree, at) = self.locate(state, &Instance::Client(client));
        self.resolve(tree, at)?;
        Ok(self.trees[tree].exit(at.pos))
    }

    /// Asks all peers of this state once more, before it is called a deadlock, and gives those that cannot be inspected `bound` to say something; true if one did.
    ///
    /// # Errors
    /// A peer failed.
    pub fn poll_again(&mut self, state: &PeerState, bound: Duration) -> Result<bool, PeerError> {
        let before = self.counters.late_answers;
        let instances: Vec<Instance> = state.0.places.keys().cloned().collect();
        let mut here = Vec::new();
        for instance in &instances {
            let (tree, at) = self.locate(state, instance);
            if self.config.offline || self.trees[tree].exit(at.pos).is_some() {
                continue;
            }
            self.resolve(tree, at)?;
            let opaque = self.ground.strangers.get(&tree).is_some_and(Option::is_none);
            if opaque {
                self.ensure_at(tree, at)?;
            }
            here.extend(
                self.physicals
                    .iter()
                    .filter(|(_, p)| p.tree == tree && p.at == at)
                    .map(|(&id, _)| (id, opaque)),
            );
        }
        let wait = if here.iter().any(|&(_, opaque)| opaque) {
            bound
        } else {
            Duration::ZERO
        };
        self.wait_for_any(here.iter().map(|&(id, _)| id), wait);
        for (id, _) in here {
            self.absorb_late(id)?;
        }
        Ok(self.counters.late_answers > before)
    }

    fn wait_for_any(&self, ids: impl Iterator<Item = u64>, bound: Duration) {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let links = ids
            .filter_map(|id| self.physicals.get(&id))
            .flat_map(|p| &p.links)
            .filter(|link| link.is_open());
        let mut fds: Vec<PollFd<'_>> = links
            .map(|link| PollFd::new(link.fd(), PollFlags::POLLIN))
            .collect();
        // An interrupted wait is only a shorter one.
        let _ = poll(&mut fds, PollTimeout::try_from(bound).unwrap_or(PollTimeout::MAX));
    }

    /// The SUT went back to `state`. Only without a cache does that concern the peers: all are started again and told everything again.
    ///
    /// # Errors
    /// A peer failed.
    pub fn backtracked(&mut self, state: &PeerState) -> Result<(), PeerError> {
        if self.config.mode != CacheMode::Off {
            return Ok(());
        }
        self.physicals.clear();
        let instances: Vec<Instance> = state.0.places.keys().cloned().collect();
        for instance in &instances {
            let (tree, at) = self.locate(state, instance);
            self.ensure_at(tree, at)?;
        }
        Ok(())
    }

    /// Closes what none of these states (all that are still to be explored) can need.
    pub fn retain(&mut self, states: &[PeerState]) {
        let mut physicals = std::mem::take(&mut self.physicals);
        physicals.retain(|_, physical| {
            let tree = &self.trees[physical.tree];
            states.iter().any(|state| {
                let mut places = state
                    .0
                    .places
                    .iter()
                    .filter(|(i, _)| self.index.get(&self.tree_key(i)) == Some(&physical.tree))
                    .peekable();
                // A state that has no such connection yet may come to have it.
                let (here, shared) = (physical.at.pos, self.config.share_trees);
                places.peek().is_none()
                    || shared
                    || places.any(|(_, at)| tree.on_path(here, at.pos) || tree.on_path(at.pos, here))
            })
        });
        self.physicals = physicals;
    }

    /// What each peer was told on the way to this state, by destination: one entry per connection.
    #[must_use]
    pub fn sent(&self, state: &PeerState) -> BTreeMap<String, Vec<Vec<u8>>> {
        let mut all: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for (key, conn) in &state.0.conns {
            let label = match key {
                ConnKey::Opened(address, _) => address.to_string(),
                accepted @ ConnKey::Accepted(_) => accepted.to_string(),
            };
            let at = state
                .0
                .places
                .get(&conn.instance)
                .copied()
                .unwrap_or_else(Tree::root);
            let tree = self
                .index
                .get(&self.tree_key(&conn.instance))
                .map(|&tree| &self.trees[tree]);
            all.entry(label)
                .or_default()
                .extend(tree.map(|tree| tree.written(conn.channel, at.pos).0));
        }
        all
    }
}
