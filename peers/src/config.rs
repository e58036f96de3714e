//! How peers are to be dealt with, and the account of what they cost.

use crate::allowed::Allowed;
use crate::process::Launcher;
use crate::spec::PeerSpec;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long the command as a whole may go on: every wait for a peer looks at it.
#[derive(Clone, Debug, Default)]
pub struct TimeBudget {
    /// No longer when this is set.
    pub stop: Option<Arc<AtomicBool>>,
    /// No longer than this.
    pub deadline: Option<Instant>,
}

impl TimeBudget {
    /// Is it at an end?
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Relaxed))
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

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

/// How peers are dealt with. Nearly every field is an option of the command line and stands for itself, so they are not grouped.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the trees are used for.
    pub mode: CacheMode,
    /// All connections to one destination share one tree.
    pub share_trees: bool,
    /// What a server says may depend on all that its process was told, on any connection: one tree per process.
    pub by_process: bool,
    /// How long a peer that cannot be inspected must be silent for its answer to be complete.
    pub settle: Duration,
    /// How long a peer may sleep before it answers.
    pub sleep_bound: Duration,
    /// How long a peer may compute before it answers, and how long one answer may go on.
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
    /// Who may be talked to beside the servers and the clients.
    pub allowed: Vec<Allowed>,
    /// Servers to start.
    pub servers: Vec<PeerSpec>,
    /// Clients to launch when the SUT listens.
    pub clients: Vec<PeerSpec>,
    /// How to start a peer's host process.
    pub launcher: Launcher,
    /// Where the peers' output is kept, a file for each; files without a name, gone with the process that owns them, if not given.
    pub output_dir: Option<PathBuf>,
    /// How long all of it may go on.
    pub time_budget: TimeBudget,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mode: CacheMode::Branching,
            share_trees: false,
            by_process: false,
            settle: Duration::from_millis(50),
            sleep_bound: Duration::from_secs(3),
            hang_bound: Duration::from_secs(10),
            start_bound: Duration::from_secs(60),
            connect_bound: Duration::from_secs(5),
            flood_limit: 64 << 20,
            allow_nondeterministic: false,
            offline: false,
            max_physical: 256,
            allowed: Vec::new(),
            servers: Vec::new(),
            clients: Vec::new(),
            launcher: Launcher::default(),
            output_dir: None,
            time_budget: TimeBudget::default(),
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
