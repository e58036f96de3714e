//! The program's network: the model's sockets on one side, the peers and the cache of what they said on the other.
//!
//! There is one [`Peers`] for a whole command: all executions, all workers and the counterexamples at the end ask the same
//! world, which only grows, so that what one worker has learned spares the others the question. Where an execution stands in
//! its conversations is a [`PeerState`] of its own, which moves with every checkpoint.

mod address;
mod failure;
mod journal;
mod shared;

pub use failure::failure;
pub use shared::{Peers, TreeForm};

use ::failure::Failure;
pub(crate) use address::to_address;
use address::{endpoint, to_key};
use journal::Journal;
pub(crate) use journal::Names;
use peers::{ConnKey, PeerError, PeerState, PeerWorld, Readable, StreamEnd, Taken};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use syscall_model::channels::overheard::Heard;
use syscall_model::faults::Mishap;
use syscall_model::net::{Accepted, Arrival, Caller, Endpoint, Key, Network};
use syscall_model::{Errno, Model};
use trace::{Traffic, What};

/// How long a peer that cannot be looked into gets before a deadlock is called one.
const LAST_CHANCE: Duration = Duration::from_secs(1);
/// Where name servers are.
const DOMAIN: u16 = 53;

/// One execution's place among the peers.
#[derive(Debug)]
pub struct PeerNetwork {
    peers: Peers,
    state: PeerState,
    /// Where the program was last put back to: all that it may need from then on is at or below this.
    base: PeerState,
    failure: Option<PeerError>,
    journal: Option<Journal>,
    /// Whether peers were told something in this step and none of them said anything; unknown if they were told nothing.
    silence: Option<bool>,
    /// Clients may come that are processes of the execution.
    expects_residents: bool,
    /// The peers' name of the connection that was last read or written: it is usually the next one too.
    last: Option<(Key, ConnKey)>,
}

impl PeerNetwork {
    /// The place of a program that has not communicated yet.
    pub fn new(peers: Peers) -> Result<Self, Failure> {
        let mut network = Self {
            peers,
            state: PeerState::new(),
            base: PeerState::new(),
            failure: None,
            journal: None,
            silence: None,
            expects_residents: false,
            last: None,
        };
        network.go_to(PeerState::new())?;
        Ok(network)
    }

    /// Clients may come that are processes of the execution.
    pub fn expect_residents(&mut self) {
        self.expects_residents = true;
    }

    pub fn state(&self) -> &PeerState {
        &self.state
    }

    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Writes the traffic down from now on. For executions that are never put back.
    pub fn keep_journal(&mut self) {
        self.journal = Some(Journal::default());
    }

    pub fn traffic(&self) -> Traffic {
        let journal = self.journal.as_ref();
        journal
            .map(|journal| journal.traffic().clone())
            .unwrap_or_default()
    }

    /// A thread has made its move; time has not gone on yet.
    pub fn moved(&mut self, model: &Model) {
        if let Some(journal) = &mut self.journal {
            journal.look(model);
        }
    }

    /// Sockets of the model have said something to each other.
    pub(crate) fn overheard(&mut self, heard: Vec<Heard>, names: &dyn Names) {
        if let Some(journal) = &mut self.journal {
            for heard in heard {
                journal.overheard(heard, names);
            }
        }
    }

    /// A step begins.
    pub fn step_begins(&mut self) {
        self.silence = None;
    }

    /// Were peers told something in this step, and nothing came back?
    pub fn was_silent(&self) -> bool {
        self.silence == Some(true)
    }

    /// Something happens to the datagram at this place among those that have come on a connection and were not read.
    pub fn mishap(&mut self, key: &Key, place: usize, mishap: Mishap) {
        if let Some(journal) = &mut self.journal {
            journal.mishap(key, place, mishap);
        }
    }

    /// A step is over.
    pub fn step_over(&mut self, model: &Model) {
        if let Some(journal) = &mut self.journal {
            journal.step_over(model);
        }
    }

    fn note(&mut self, key: &Key, what: impl FnOnce() -> What) {
        if let Some(journal) = &mut self.journal {
            journal.happened(key, what());
        }
    }

    /// What reports call a connection.
    pub fn name_of(&self, key: &Key) -> String {
        let key = to_key(key);
        let shared = self.peers.lock();
        let world = shared.world.as_ref();
        world.map_or_else(|| key.to_string(), |world| world.connection_name(&key))
    }

    /// What reports call a client.
    pub fn client_name(&self, client: u32) -> String {
        self.name_of(&Key::Accepted(client, 0))
    }

    /// The program was put back.
    pub fn go_to(&mut self, state: PeerState) -> Result<(), Failure> {
        self.base = state.clone();
        self.state = state;
        match &mut self.peers.lock().world {
            Some(world) => {
                world.will_go_on_from(&self.base);
                world.tidy();
                world.backtracked(&self.state).map_err(failure)
            }
            None => Ok(()),
        }
    }

    /// The search will come back to the current state, as long as the caller keeps it.
    pub fn will_return(&self) {
        if let Some(world) = &mut self.peers.lock().world {
            world.will_go_on_from(&self.state);
        }
    }

    /// What a peer did that ends the run, since it was last asked for.
    pub fn take_failure(&mut self) -> Result<(), Failure> {
        self.failure.take().map_or(Ok(()), |error| Err(failure(error)))
    }

    /// Nobody can go on for `limit` by himself: has a peer something to say after all?
    pub fn ask_again(&mut self, limit: Duration) -> Result<bool, Failure> {
        match &mut self.peers.lock().world {
            Some(world) => world.poll_again(&self.state, LAST_CHANCE, limit).map_err(failure),
            None => Ok(false),
        }
    }

    /// The program has ended, and with it its connections. Clients are told, so that they can end too.
    pub fn hang_up(&mut self, model: &Model) -> Result<(), Failure> {
        let unread = model.channels.unread();
        let unread: BTreeMap<ConnKey, bool> = unread.map(|(key, here)| (to_key(key), here)).collect();
        for key in self.state.open_accepted() {
            self.ask((), |world, state| match unread.get(&key) {
                Some(true) => world.reset(state, &key),
                Some(false) => {
                    world.fin(state, &key)?;
                    world.reset(state, &key)
                }
                None => world.close(state, &key),
            });
        }
        self.take_failure()
    }

    /// What each peer was told, by connection.
    pub fn sent(&self) -> BTreeMap<String, Vec<Vec<u8>>> {
        let shared = self.peers.lock();
        shared
            .world
            .as_ref()
            .map(|world| world.sent(&self.state))
            .unwrap_or_default()
    }

    /// The exit statuses of the clients that have ended, in their order.
    pub fn client_exits(&mut self) -> Result<Vec<Option<i32>>, Failure> {
        let mut shared = self.peers.lock();
        let Some(world) = &mut shared.world else {
            return Ok(Vec::new());
        };
        let exits = (0..world.client_count()).map(|client| world.client_exit(&self.state, client));
        exits.collect::<Result<_, _>>().map_err(failure)
    }

    /// One question to the world. If it fails the run ends soon, and until then `harmless` is the answer.
    fn ask<T>(
        &mut self,
        harmless: T,
        question: impl FnOnce(&mut PeerWorld, &mut PeerState) -> Result<T, PeerError>,
    ) -> T {
        if self.failure.is_some() {
            return harmless;
        }
        let mut shared = self.peers.lock();
        let answer = shared.world().and_then(|world| question(world, &mut self.state));
        answer.unwrap_or_else(|error| {
            self.failure = Some(error);
            harmless
        })
    }

    /// A connection with the peers' name of it, to be put back into `last` after use.
    fn take_name(&mut self, key: &Key) -> (Key, ConnKey) {
        match self.last.take() {
            Some(last) if last.0 == *key => last,
            _ => (key.clone(), to_key(key)),
        }
    }

    fn note_open(&mut self, to: &Endpoint, key: Option<&Key>) {
        let peer = self.peers.server_commands();
        match (&mut self.journal, key) {
            (Some(journal), Some(key)) => journal.opened(key, to, peer),
            (Some(journal), None) => journal.refused(to),
            (None, _) => {}
        }
    }

    /// May somebody connect to the program from outside?
    pub fn has_clients(&self) -> bool {
        let shared = self.peers.lock();
        !shared.config.clients.is_empty() || shared.config.offline
    }

    /// There are clients to come, and nothing that they could come to.
    pub fn waits_to_be_reachable(&self) -> bool {
        !self.state.is_reachable() && !self.peers.lock().config.clients.is_empty()
    }

    /// A client's connection, told by its key.
    fn accepted(&mut self, key: ConnKey, at: &Endpoint) -> Option<Accepted> {
        match key {
            ConnKey::Accepted(client, channel) => {
                let by_ipv4 = self.ask(false, |world, state| Ok(world.came_by_ipv4(state, &key)));
                let key = Key::Accepted(client, u32::from(channel));
                let (name, peer) = (self.name_of(&key), self.peers.client_command(client));
                if let Some(journal) = &mut self.journal {
                    journal.accepted(&key, name, &at.clone().seen_from(by_ipv4), peer);
                }
                Some(Accepted { key, by_ipv4 })
            }
            ConnKey::Opened(..) => None,
        }
    }
}

impl Network for PeerNetwork {
    fn connect(&mut self, to: &Endpoint) -> Result<Key, Errno> {
        let address = to_address(to);
        if is_refused_by_rule(to, &self.peers.lock().config) {
            self.ask((), |world, state| {
                world.refuse(state, &address);
                Ok(())
            });
            self.note_open(to, None);
            return Err(Errno::ECONNREFUSED);
        }
        let mut is_own = false;
        let refused = Err(libc::ECONNREFUSED);
        let key = self.ask(refused.clone(), |world, state| {
            is_own = world.is_own(&address);
            if is_own {
                return Ok(refused);
            }
            world.open(state, &address)
        });
        let key = match key {
            Ok(ConnKey::Opened(_, nth)) => Ok(Key::Opened(Arc::new(to.clone()), nth)),
            Ok(ConnKey::Accepted(..)) => Err(Errno::ECONNREFUSED),
            Err(errno) => Err(Errno::new(errno)),
        };
        if !is_own {
            self.note_open(to, key.as_ref().ok());
        }
        key
    }

    fn bind(&mut self, at: &Endpoint, v6_only: bool) -> Result<Endpoint, Errno> {
        // Without clients nobody outside ever comes: the model's own books are enough.
        if !self.has_clients() {
            return Ok(at.clone());
        }
        let address = to_address(at);
        let bound = self.ask(Ok(address.clone()), |world, state| {
            match world.bind_as(state, &address, v6_only) {
                Err(PeerError::Io { source, .. }) => Ok(Err(source)),
                other => other.map(Ok),
            }
        });
        match bound {
            Ok(address) => Ok(endpoint(&address)),
            Err(error) => Err(Errno::new(error.raw_os_error().unwrap_or(libc::EADDRNOTAVAIL))),
        }
    }

    fn listen(&mut self, at: &Endpoint) -> bool {
        let somebody = self.has_clients();
        if somebody {
            let address = to_address(at);
            self.ask((), |world, state| {
                world.listen(state, &address);
                Ok(())
            });
        }
        somebody || self.expects_residents
    }

    fn acceptable(&mut self, at: &Endpoint) -> bool {
        let address = to_address(at);
        self.has_clients() && self.ask(false, |world, state| world.acceptable(state, &address))
    }

    fn accept(&mut self, at: &Endpoint) -> Option<Accepted> {
        let address = to_address(at);
        let key = self.ask(None, |world, state| world.accept(state, &address))?;
        self.accepted(key, at)
    }

    fn callers(&mut self, at: &Endpoint) -> Vec<Caller> {
        if !self.has_clients() {
            return Vec::new();
        }
        let address = to_address(at);
        let callers = self.ask(Vec::new(), |world, state| world.callers(state, &address));
        let callers = callers.into_iter();
        callers
            .map(|(client, is_twin)| Caller { client, is_twin })
            .collect()
    }

    fn accept_from(&mut self, at: &Endpoint, client: u32) -> Option<Accepted> {
        let address = to_address(at);
        let key = self.ask(None, |world, state| world.accept_from(state, &address, client))?;
        self.accepted(key, at)
    }

    fn go_on_from(&mut self, with: &Key, at: &Endpoint) -> Option<Accepted> {
        let (with, address) = (to_key(with), to_address(at));
        let key = self.ask(None, |world, state| world.go_on_from(state, &with, &address))?;
        self.accepted(key, at)
    }

    fn write(&mut self, key: &Key, data: &[u8]) {
        self.note(key, || What::Sent(data.to_vec()));
        let named = self.take_name(key);
        self.ask((), |world, state| world.write(state, &named.1, data));
        self.last = Some(named);
    }

    fn finish(&mut self, key: &Key) {
        self.note(key, || What::Finished);
        let key = to_key(key);
        self.ask((), |world, state| world.fin(state, &key));
    }

    fn close(&mut self, key: &Key) {
        self.note(key, || What::Closed);
        let key = to_key(key);
        // Whoever keeps a journal is never put back.
        let is_last = self.journal.is_some();
        self.ask((), |world, state| {
            world.close(state, &key)?;
            if is_last { world.leave(state, &key) } else { Ok(()) }
        });
    }

    fn reset(&mut self, key: &Key) {
        self.note(key, || What::Broken);
        let key = to_key(key);
        let is_last = self.journal.is_some();
        self.ask((), |world, state| {
            world.reset(state, &key)?;
            if is_last { world.leave(state, &key) } else { Ok(()) }
        });
    }

    fn beyond_the_end(&mut self, key: &Key) -> Arrival {
        let named = self.take_name(key);
        let end = self.ask(StreamEnd::Open, |world, state| world.end(state, &named.1));
        self.last = Some(named);
        match end {
            StreamEnd::Open | StreamEnd::Eof => Arrival::Nothing,
            StreamEnd::Reset => {
                self.note(key, || What::Reset);
                Arrival::Reset
            }
            StreamEnd::Closed => Arrival::Closed,
        }
    }

    fn read(&mut self, key: &Key, max: usize) -> Arrival {
        let named = self.take_name(key);
        let arrival = self.ask(Arrival::Nothing, |world, state| {
            let Taken { data, then, paused } = world.take(state, &named.1, max)?;
            Ok(match (data, then) {
                (Some(bytes), then) => Arrival::Data {
                    bytes,
                    more: then != Readable::Nothing,
                    whole: paused,
                },
                (None, Readable::Eof) => Arrival::End,
                (None, Readable::Reset) => Arrival::Reset,
                (None, Readable::Closed) => Arrival::Closed,
                (None, Readable::Held) => Arrival::Held,
                (None, Readable::Data(_) | Readable::Nothing | Readable::Unknown) => Arrival::Nothing,
            })
        });
        self.last = Some(named);
        match &arrival {
            Arrival::Data { bytes, .. } => self.note(key, || What::Arrived(bytes.clone())),
            Arrival::End | Arrival::Closed => self.note(key, || What::Ended),
            Arrival::Reset => self.note(key, || What::Reset),
            Arrival::Held | Arrival::Nothing => {}
        }
        arrival
    }

    fn unread(&mut self, key: &Key) -> usize {
        let named = self.take_name(key);
        let unread = self.ask(0, |world, state| world.unread(state, &named.1));
        self.last = Some(named);
        usize::try_from(unread).unwrap_or(usize::MAX)
    }

    fn settled(&mut self, is_silence: bool) {
        self.silence = Some(is_silence && self.silence != Some(false));
    }
}

/// Destinations that are never asked: name servers, unless one was given (a real one's answers change), and local ports at
/// which nobody receives datagrams, which a peer's silence would not tell.
fn is_refused_by_rule(to: &Endpoint, config: &peers::Config) -> bool {
    let Endpoint::Udp(address) = to else {
        return false;
    };
    if config.offline {
        return false;
    }
    if address.port() == DOMAIN && config.servers.is_empty() {
        return true;
    }
    address.ip().is_loopback() && !receives_datagrams(address.port())
}

fn receives_datagrams(port: u16) -> bool {
    let tables = [procfs::net::udp(), procfs::net::udp6()];
    let mut sockets = tables.into_iter().flatten().flatten();
    sockets.any(|socket| socket.local_address.port() == port)
}
