//! The options about peers, for `run` and `check`.

use checker::coverage::Stand;
use clap::ValueEnum;
use failure::Failure;
use peers::{CacheMode, Config, PeerSpec, TimeBudget};
use session::Options;
use session::network::Peers;
use std::path::PathBuf;
use std::time::Duration;
use syscall_model::net::Arrivals;

/// How often a thing may be late by default.
const LATE: u32 = 1;

// One field per option, as clap reads them.
/// Who is at the other end of the program's connections.
#[derive(clap::Args)]
pub struct PeerArgs {
    /// Start a server before the program; ready when it listens (repeatable; NAME=CMD names it). Example: --server 'python3 -m http.server 8000'
    #[arg(long, value_name = "CMD")]
    pub server: Vec<String>,
    #[command(flatten)]
    pub clients: ClientArgs,
    /// Where peers run: outside, never backtracked; or as processes that are backtracked with the program, in one schedule or in all. Example: --peers inside --server 'redis-server --port 7000'
    #[arg(long, value_enum, default_value = "real")]
    pub peers: PeersArg,
    /// What the answers of a real server depend on: data sent on the same connection, or on any connection to the same process.
    #[arg(long, value_enum)]
    pub peer_state: Option<PeerStateArg>,
    /// When data of peers arrives: in any order, possibly late; or at once, with clients in the order of the command line. [default: any; with --peers inside or explored: ordered]
    #[arg(long, value_enum)]
    pub arrivals: Option<ArrivalsArg>,
    /// How often a non-blocking call may miss data that is on its way. [default: 1]
    #[arg(long, value_name = "N")]
    pub late: Option<u32>,
    /// Let the program connect to a service that is not a peer: HOST:PORT (IPv6 addresses in brackets, `*` for any port), the path of a Unix socket, or
    /// @NAME (repeatable). Connections to other services are refused. Example: --allow-connect 127.0.0.1:5432
    #[arg(long, value_name = "ADDR", value_parser = peers::Allowed::parse)]
    pub allow_connect: Vec<peers::Allowed>,
    /// How to cache what peers send. [default: branching]
    #[arg(long, value_enum)]
    pub cache: Option<CacheArg>,
    /// All connections to one destination share one tree: for servers that treat every connection alike.
    #[arg(long)]
    pub share_trees: bool,
    /// How long to wait for a peer that cannot be inspected. [default: 50ms]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub settle: Option<Duration>,
    /// How long a peer may compute without waiting for input, and how long one answer may take. Time without a processor does not count. [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub peer_timeout: Option<Duration>,
    /// Load the cache from F, if it exists, and save it there at the end.
    #[arg(long, value_name = "F")]
    pub cache_file: Option<PathBuf>,
    /// Contact no peer: use only the cache file.
    #[arg(long, requires = "cache_file")]
    pub offline: bool,
    /// Keep the output of peers in DIR, one file for each process (default: if a peer fails, the end of its output is shown).
    #[arg(long, value_name = "DIR")]
    pub peer_output: Option<PathBuf>,
    /// Keep the first answer of a peer that answers a replay differently. The verdict then covers only that answer.
    #[arg(long)]
    pub allow_nondeterministic_peers: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CacheArg {
    /// Everything that was ever sent: only new requests reach a peer.
    #[default]
    Branching,
    /// One conversation per connection; a divergence is an error.
    Linear,
    /// No cache: peers are restarted, and everything is sent again, after every backtrack.
    Off,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PeersArg {
    /// Real programs, never backtracked; a cache holds what they send.
    #[default]
    Real,
    /// Processes that are backtracked with the program, in one fixed schedule: for servers whose answers depend on other connections.
    Inside,
    /// The same, and their schedules are explored with the program's.
    Explored,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PeerStateArg {
    /// Answers depend on the same connection only.
    #[default]
    Connection,
    /// Answers depend on everything that was sent to the process, on any connection: one tree per process.
    Process,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ArrivalsArg {
    /// Every order in which connections, data and ends of connections may arrive.
    #[default]
    Any,
    /// At once, clients in the order of the command line.
    Ordered,
}

/// The clients, each with the one that it comes after.
#[derive(Clone, Debug, Default)]
pub struct ClientArgs(pub Vec<(String, Option<String>)>);

impl clap::FromArgMatches for ClientArgs {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let with_places = |id: &str| {
            let values = matches.get_many::<String>(id).into_iter().flatten().cloned();
            let places = matches.indices_of(id).into_iter().flatten();
            places.zip(values).collect::<Vec<_>>()
        };
        let mut clients: Vec<(usize, String, Option<String>)> = with_places("client")
            .into_iter()
            .map(|(place, command)| (place, command, None))
            .collect();
        for (place, name) in with_places("after") {
            // The next client, or the last one if there is none.
            let next = clients.partition_point(|client| client.0 < place);
            let next = next.min(clients.len().saturating_sub(1));
            match clients.get_mut(next) {
                Some(client) => client.2 = Some(name),
                None => {
                    let what = "--after NAME says when a client comes: there is no --client";
                    return Err(clap::Error::raw(
                        clap::error::ErrorKind::MissingRequiredArgument,
                        what,
                    ));
                }
            }
        }
        let clients = clients.into_iter();
        Ok(Self(
            clients.map(|(_, command, after)| (command, after)).collect(),
        ))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for ClientArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let client = clap::Arg::new("client")
            .long("client")
            .value_name("CMD")
            .action(clap::ArgAction::Append);
        let client = client.help("Start a client when the program listens (repeatable; NAME=CMD names it; N*CMD for N that are interchangeable). {port} and {addr} stand for where it listens. Example: --client '2*curl -s http://{addr}/'");
        let after = clap::Arg::new("after")
            .long("after")
            .value_name("NAME")
            .action(clap::ArgAction::Append);
        let after = after.help("Before a --client (or behind the last): it comes when the client of this name has ended. Example: --client ann='nc {addr}' --after ann --client bob='nc {addr}'");
        command.arg(client).arg(after)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl PeerArgs {
    /// Are any peers named, or a file that stands for them?
    pub fn any(&self) -> bool {
        !self.server.is_empty() || !self.clients.0.is_empty() || self.cache_file.is_some()
    }

    /// Are there programs outside, or recordings of such, that the program may talk to?
    pub fn any_real(&self) -> bool {
        self.any() && self.peers == PeersArg::Real
    }

    /// Does what a server outside says depend on all that its process was told?
    pub fn servers_remember(&self) -> bool {
        self.peer_state == Some(PeerStateArg::Process)
    }

    /// Where they stand, for the account of what a verdict covers.
    pub fn stand(&self) -> Stand {
        match self.peers {
            PeersArg::Real => Stand::Real {
                by_process: self.servers_remember(),
            },
            PeersArg::Inside => Stand::Inside,
            PeersArg::Explored => Stand::Explored,
        }
    }

    /// When the program can notice what they say.
    pub fn arrivals(&self) -> Arrivals {
        match self.arrivals.unwrap_or_default() {
            // Between processes of the model all that is said arrives at once.
            _ if self.peers != PeersArg::Real => Arrivals::Ordered,
            ArrivalsArg::Any => Arrivals::Any {
                late: self.late.unwrap_or(LATE),
            },
            ArrivalsArg::Ordered => Arrivals::Ordered,
        }
    }

    pub(super) fn client_specs(&self) -> Result<Vec<PeerSpec>, Failure> {
        let mut specs: Vec<PeerSpec> = Vec::new();
        for (text, after) in &self.clients.0 {
            let mut spec = PeerSpec::parse(text).map_err(|e| Failure::usage(e.to_string()))?;
            if let Some(name) = after
                && !specs
                    .iter()
                    .any(|earlier| earlier.is_named && earlier.name == *name)
            {
                return Err(Failure::usage(format!(
                    "--after {name}: no client before this one has that name"
                ))
                .hint(format!("name it: --client {name}='CMD'")));
            }
            spec.after.clone_from(after);
            specs.push(spec);
        }
        Ok(specs)
    }

    pub(super) fn server_specs(&self) -> Result<Vec<PeerSpec>, Failure> {
        let specs = self.server.iter().map(|text| PeerSpec::parse(text));
        specs
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| Failure::usage(e.to_string()))
    }

    /// The peers, with the servers running, where they stand outside.
    pub fn start(&self, budget: TimeBudget) -> Result<Peers, Failure> {
        if self.peers != PeersArg::Real {
            return Ok(Peers::default());
        }
        if self.servers_remember() && self.share_trees {
            return Err(Failure::usage(
                "--peer-state process has one tree for each server process, and --share-trees one for all connections",
            )
            .hint("leave out one of them"));
        }
        let plain = Config::default();
        let config = Config {
            mode: match self.cache.unwrap_or_default() {
                CacheArg::Branching => CacheMode::Branching,
                CacheArg::Linear => CacheMode::Linear,
                CacheArg::Off => CacheMode::Off,
            },
            share_trees: self.share_trees,
            by_process: self.servers_remember(),
            settle: self.settle.unwrap_or(plain.settle),
            hang_bound: self.peer_timeout.unwrap_or(plain.hang_bound),
            offline: self.offline,
            allow_nondeterministic: self.allow_nondeterministic_peers,
            output_dir: self.peer_output.clone(),
            allowed: self.allow_connect.clone(),
            servers: self.server_specs()?,
            clients: self.client_specs()?,
            time_budget: budget,
            ..plain
        };
        let peers = Peers::new(config, self.cache_file.clone());
        peers.start()?;
        Ok(peers)
    }
}

/// Services that the program would have talked to, a line for each.
pub fn barred(peers: &Peers) -> Vec<String> {
    let line = |(shown, option): (String, String)| {
        format!(
            "the program tried to connect to {shown}, which is not one of its peers, and the connection was refused: --allow-connect {option} permits it"
        )
    };
    peers.barred().into_iter().map(line).collect()
}

/// What a reader must know about the peers to trust a verdict.
pub fn notes(peers: &Peers) -> Vec<String> {
    let notes = [(
        peers.is_partial(),
        "a peer was not deterministic: only its first answers were explored; the verdict does not cover the others",
    )];
    let notes = notes.into_iter().filter(|(holds, _)| *holds);
    let limited = peers.limited().into_iter().map(|(address, count)| match count {
        1 => {
            format!("the server at {address} serves one connection at a time: others wait until it has ended")
        }
        _ => format!(
            "the server at {address} serves {count} connections at a time: others wait until one has ended"
        ),
    });
    notes.map(|(_, note)| note.to_owned()).chain(limited).collect()
}

/// What looks like a failure of the scenario: then the verdict says little about the program.
pub fn warnings(options: &Options) -> Vec<String> {
    let mut lines = Vec::new();
    let peers = &options.peers;
    let ((failed, unheard), no_client_connected, is_idle) = match &options.residents {
        Some(residents) => (
            residents.unlucky_clients(),
            residents.no_client_connected(),
            residents.is_idle(),
        ),
        None => (
            peers.unlucky_clients(),
            peers.no_client_connected(),
            peers.is_idle(),
        ),
    };
    if no_client_connected {
        lines.push(
            "no client connected to the program: the clients were started and wait for something else"
                .to_owned(),
        );
    } else if is_idle {
        lines.push(
            "the program never communicated with a peer: did it end before it listened or connected?"
                .to_owned(),
        );
    } else {
        lines.extend(
            unheard
                .iter()
                .map(|command| format!("a client ended without connecting: {command}")),
        );
    }
    lines.extend(failed.iter().map(|(command, status)| match status {
        0.. => format!("a client ended with status {status}: {command}"),
        _ => format!(
            "a client was killed by {}: {command}",
            trace::signal_name(-status)
        ),
    }));
    lines.dedup();
    lines
}
