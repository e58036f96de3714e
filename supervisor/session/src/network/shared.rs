//! What all executions of a command share of its peers: one world of them, made when it is first needed, and what can be asked of it from outside.

use super::failure;
use ::failure::Failure;
use peers::{Counters, PeerError, PeerWorld, TreeKey};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// A way to look at the communication trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeForm {
    Text,
    Dot,
    Html,
}

/// The peers of a command, shared by all that explore.
#[derive(Clone, Debug)]
pub struct Peers(Arc<Mutex<Shared>>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: peers::Config,
    cache_file: Option<PathBuf>,
    /// Made when it is first needed: most programs have no peers.
    pub(super) world: Option<PeerWorld>,
}

impl Default for Peers {
    fn default() -> Self {
        Self::new(peers::Config::default(), None)
    }
}

impl Peers {
    pub fn new(config: peers::Config, cache_file: Option<PathBuf>) -> Self {
        Self(Arc::new(Mutex::new(Shared {
            config,
            cache_file,
            world: None,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Shared> {
        // A worker that panicked left the trees as they were: they only grow.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// How long all waits for peers may go on from now on.
    pub fn set_time_budget(&self, budget: peers::TimeBudget) {
        let mut shared = self.lock();
        if let Some(world) = &mut shared.world {
            world.set_time_budget(budget.clone());
        }
        shared.config.time_budget = budget;
    }

    /// Starts the servers, if any are to be started.
    pub fn start(&self) -> Result<(), Failure> {
        let mut shared = self.lock();
        let config = &shared.config;
        if config.servers.is_empty() && config.clients.is_empty() && shared.cache_file.is_none() {
            return Ok(());
        }
        if let (Some(path), false) = (&shared.cache_file, config.offline) {
            PeerWorld::can_save(path).map_err(failure)?;
        }
        shared.world().map(drop).map_err(failure)
    }

    /// Writes the cache file, if one was asked for.
    pub fn save(&self) -> Result<(), Failure> {
        let mut shared = self.lock();
        let (offline, path) = (shared.config.offline, shared.cache_file.clone());
        match (path, offline) {
            (Some(path), false) => shared
                .world()
                .and_then(|world| world.save(&path))
                .map_err(failure),
            _ => Ok(()),
        }
    }

    /// Peers that are no more than what was recorded of them.
    pub fn recorded(communication: &[u8]) -> Result<Self, Failure> {
        if communication.is_empty() {
            return Ok(Self::default());
        }
        let config = peers::Config {
            offline: true,
            ..peers::Config::default()
        };
        let peers = Self::new(config, None);
        let loaded = peers.lock().world().map_err(failure).and_then(|world| {
            world
                .load_bytes(communication)
                .map_err(|why| Failure::usage(format!("not a usable trace: what the peers said: {why}")))
        });
        loaded.map(|()| peers)
    }

    /// Peers that nobody is to ask anything: a connection to any of them fails.
    pub fn nobody() -> Self {
        let config = peers::Config {
            offline: true,
            ..peers::Config::default()
        };
        Self::new(config, None)
    }

    /// These peers as far as they are known by now, to be asked without asking them.
    pub fn recorded_so_far(&self) -> Result<Self, Failure> {
        match self.recording()? {
            communication if communication.is_empty() => Ok(Self::nobody()),
            communication => Self::recorded(&communication),
        }
    }

    /// What was said so far, for a trace; empty if nothing was.
    pub fn recording(&self) -> Result<Vec<u8>, Failure> {
        match &self.lock().world {
            Some(world) => world.to_bytes().map_err(Failure::usage),
            None => Ok(Vec::new()),
        }
    }

    /// All that was ever said, for people.
    pub fn trees(&self, form: TreeForm) -> String {
        let shared = self.lock();
        let Some(world) = &shared.world else {
            return match form {
                TreeForm::Dot => "digraph trees {\n}\n".to_owned(),
                TreeForm::Text | TreeForm::Html => "the program had no peers\n".to_owned(),
            };
        };
        match form {
            TreeForm::Text => world.render_text(),
            TreeForm::Dot => world.render_dot(),
            TreeForm::Html => world.render_html(),
        }
    }

    /// Are there peers to speak of?
    pub fn in_use(&self) -> bool {
        self.lock().world.is_some()
    }

    pub fn mode(&self) -> peers::CacheMode {
        self.lock().config.mode
    }

    pub fn counters(&self) -> Counters {
        self.lock()
            .world
            .as_ref()
            .map(PeerWorld::counters)
            .unwrap_or_default()
    }

    /// Peers were asked for, and the program had nothing to do with any.
    pub fn is_idle(&self) -> bool {
        let counters = self.counters();
        let config = &self.lock().config;
        let is_wanted = !config.servers.is_empty() || !config.clients.is_empty();
        is_wanted && counters.logical_connections + counters.hits + counters.misses == 0
    }

    /// Clients were started, and none of them has connected.
    pub fn no_client_connected(&self) -> bool {
        let launched = self.counters().peer_starts > self.lock().config.servers.len() as u64;
        launched && self.is_idle()
    }

    /// Services that the program was kept from: as messages show them, and as `--allow-connect` takes them.
    pub fn barred(&self) -> Vec<(String, String)> {
        let shared = self.lock();
        let all = shared.world.iter().flat_map(PeerWorld::barred);
        all.map(|address| (address.to_string(), address.as_option().to_string()))
            .collect()
    }

    /// Clients that have failed in some schedule, with their statuses, and those that have ended without ever having connected.
    pub fn unlucky_clients(&self) -> (Vec<(String, i32)>, Vec<String>) {
        let (mut failed, mut unheard) = (Vec::new(), Vec::new());
        let shared = self.lock();
        for (key, tree) in shared.world.iter().flat_map(PeerWorld::trees) {
            let TreeKey::Client(client) = key else { continue };
            let name = command_of(&shared.config, *client);
            if let Some(status) = tree.exits().find(|status| *status != 0) {
                failed.push((name.clone(), status));
            }
            if tree.exits().next().is_some() && !tree.is_connected() {
                unheard.push(name);
            }
        }
        (failed, unheard)
    }

    /// Where servers are that serve only so many connections at a time.
    pub fn limited(&self) -> Vec<(String, u32)> {
        let shared = self.lock();
        let world = shared.world.iter();
        world
            .flat_map(PeerWorld::limited)
            .map(|(address, count)| (address.to_string(), count))
            .collect()
    }

    /// The command of the k-th client that is launched.
    pub(super) fn client_command(&self, client: u32) -> String {
        command_of(&self.lock().config, client)
    }

    /// The command of the server, if there is one only: which of several listens where is not known here.
    pub(super) fn server_commands(&self) -> String {
        match &self.lock().config.servers[..] {
            [only] => only.command.clone(),
            _ => String::new(),
        }
    }

    /// A peer was not deterministic and one of its answers was kept.
    pub fn is_partial(&self) -> bool {
        self.lock().world.as_ref().is_some_and(PeerWorld::is_partial)
    }
}

fn command_of(config: &peers::Config, client: u32) -> String {
    let mut each = config
        .clients
        .iter()
        .flat_map(|spec| std::iter::repeat_n(spec, spec.count));
    let spec = each.nth(client as usize);
    spec.map(|spec| spec.command.clone()).unwrap_or_default()
}

impl Shared {
    pub(super) fn world(&mut self) -> Result<&mut PeerWorld, PeerError> {
        if self.world.is_none() {
            let mut world = PeerWorld::new(self.config.clone())?;
            if let Some(path) = &self.cache_file
                && (self.config.offline || path.exists())
            {
                world.load(path)?;
            }
            self.world = Some(world);
        }
        self.world
            .as_mut()
            .ok_or_else(|| PeerError::NoConnection("no world".to_owned()))
    }
}
