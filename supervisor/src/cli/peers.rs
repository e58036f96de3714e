//! The options about peers, for `run` and `check`.

use crate::error::Failure;
use crate::network::Peers;
use clap::ValueEnum;
use peers::{CacheMode, Config, PeerSpec};
use std::path::PathBuf;
use std::time::Duration;

/// Who is at the other end of the program's connections.
#[derive(clap::Args)]
pub struct PeerArgs {
    /// Start a server before the program; ready when it listens (repeatable; NAME=CMD names it). Example: --server 'python3 -m http.server 8000'
    #[arg(long, value_name = "CMD")]
    pub server: Vec<String>,
    /// Start a client when the program listens (repeatable, in this order; N*CMD for N of them). {port} and {addr} stand for where it listens. Example: --client '2*curl -s http://{addr}/'
    #[arg(long, value_name = "CMD")]
    pub client: Vec<String>,
    /// What is kept of what peers said.
    #[arg(long, value_enum, default_value = "branching")]
    pub cache: CacheArg,
    /// All connections to one destination share one tree: for servers that treat every connection alike.
    #[arg(long)]
    pub share_trees: bool,
    /// How long to wait for a peer that cannot be inspected.
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = humantime::parse_duration)]
    pub settle: Duration,
    /// How long a peer may compute, without waiting for anything, before it is said to hang.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub peer_timeout: Duration,
    /// Load what peers said before from F, if it is there, and save it there at the end.
    #[arg(long, value_name = "F")]
    pub cache_file: Option<PathBuf>,
    /// Contact no peer: all they say comes from the cache file.
    #[arg(long, requires = "cache_file")]
    pub offline: bool,
    /// Keep what the peers print in files in DIR, one for each process that was started (default: only its end is shown, if a peer fails).
    #[arg(long, value_name = "DIR")]
    pub peer_output: Option<PathBuf>,
    /// Keep the first answer of a peer that answers a replay differently. The verdict then covers only that answer.
    #[arg(long)]
    pub allow_nondeterministic_peers: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CacheArg {
    /// All that was ever said: peers are only asked what is new.
    #[default]
    Branching,
    /// One conversation per connection; to leave it is an error.
    Linear,
    /// Peers are started again and told everything again after every backtrack.
    Off,
}

impl PeerArgs {
    /// Are any peers named, or a file that stands for them?
    pub fn any(&self) -> bool {
        !self.server.is_empty() || !self.client.is_empty() || self.cache_file.is_some()
    }

    /// The peers, with the servers running.
    pub fn start(&self) -> Result<Peers, Failure> {
        let specs = |texts: &[String]| {
            let specs = texts.iter().map(|text| PeerSpec::parse(text));
            specs
                .collect::<Result<Vec<_>, _>>()
                .map_err(|e| Failure::usage(e.to_string()))
        };
        let config = Config {
            mode: match self.cache {
                CacheArg::Branching => CacheMode::Branching,
                CacheArg::Linear => CacheMode::Linear,
                CacheArg::Off => CacheMode::Off,
            },
            share_trees: self.share_trees,
            settle: self.settle,
            hang_bound: self.peer_timeout,
            offline: self.offline,
            allow_nondeterministic: self.allow_nondeterministic_peers,
            output_dir: self.peer_output.clone(),
            servers: specs(&self.server)?,
            clients: specs(&self.client)?,
            ..Config::default()
        };
        let peers = Peers::new(config, self.cache_file.clone());
        peers.start()?;
        Ok(peers)
    }
}

/// What a reader must know about the peers to trust a verdict.
pub fn notes(peers: &Peers) -> Vec<String> {
    let notes = [
        (
            peers.is_partial(),
            "a peer was not deterministic: only its first answers were explored, the verdict does not cover the others",
        ),
        (
            peers.is_shunned(),
            "no client has connected to the program: they were started, and wait for something else",
        ),
        (
            peers.is_idle() && !peers.is_shunned(),
            "the program never talked to a peer: did it end before it listened or connected?",
        ),
    ];
    let notes = notes.into_iter().filter(|(holds, _)| *holds);
    let one_at_a_time = peers.one_at_a_time().into_iter().map(|address| {
        format!("the server at {address} serves one connection at a time: each was explored as if it were the only one")
    });
    notes
        .map(|(_, note)| note.to_owned())
        .chain(one_at_a_time)
        .collect()
}
