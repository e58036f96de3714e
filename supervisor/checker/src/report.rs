//! The JSON result, as CLI.md documents it.

use crate::by_preemption::ByPreemption;
use crate::coverage::Covered;
use crate::profile::Profiled;
use crate::recovery::Recovered;
use crate::scout::{Race, Scout};
use explore::{Counters, PairCoverage};
use failure::ExitCode;
use peers::CacheMode;
use serde::Serialize;
use session::network::Peers;
use std::collections::BTreeMap;
use syscall_model::processes::Ended;
use trace::{End, escape};

/// What a check or a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    Violation,
    #[default]
    Incomplete,
    Error,
}

impl Verdict {
    /// The exit code of a command that came to it; an error has one of its own.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Verdict::Violation => ExitCode::Violation,
            Verdict::Incomplete => ExitCode::Limit,
            Verdict::Ok | Verdict::Error => ExitCode::Ok,
        }
    }
}

/// The one object that `--json` writes: its fields are the keys that programs read.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub verdict: Verdict,
    pub error: Option<String>,
    pub violations: Vec<Violation>,
    pub states: States,
    pub transitions: u64,
    pub executions: u64,
    pub schedules: Schedules,
    /// What single schedules have seen that guide themselves, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    pub max_depth: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<Checkpoints>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    pub outcomes: Vec<Outcome>,
    /// Those of them that only a preemption brings about, with how they differ from what there is without one.
    pub by_preemption: Vec<ByPreemption>,
    /// What the verdict covers, and what it assumes.
    pub coverage: Covered,
    /// Where the states are, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profiled>,
    /// Accesses to memory that nothing orders.
    pub races: Vec<Race>,
    /// What may be wrong with the program, though it is no violation.
    pub warnings: Vec<String>,
    /// What a reader must know to trust the verdict: which limit was hit, what was not done and why.
    pub notes: Vec<String>,
    pub time_s: f64,
    pub peak_rss_bytes: u64,
    pub seed: u64,
    pub version: &'static str,
}

/// How many schedules it took, by all searches of the check and the walks before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Schedules {
    /// Whole ones, and those that were left where they came to a known state or to a limit.
    pub tried: u64,
    /// Of these, walks that look for shared memory.
    pub walks: u64,
    /// How many there were when the first violation was found, with the one that shows it.
    pub until_violation: Option<u64>,
}

impl Schedules {
    pub fn of(counters: &Counters, scout: &Scout, is_violated: bool) -> Self {
        let tried = counters.schedules + scout.walks();
        let by_search = match counters.schedules_to_violation {
            // What is found when all is explored took all of it.
            0 => tried,
            schedules => scout.walks() + schedules,
        };
        Self {
            tried,
            walks: scout.walks(),
            until_violation: is_violated.then(|| scout.met_after().unwrap_or(by_search)),
        }
    }
}

/// What walks that guide themselves have seen: orders of two operations that touch the same object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sampling {
    pub walks: u64,
    pub pairs: u64,
    /// In the later half of the walks. The nearer to 0, the less further ones will bring.
    pub new_pairs_per_thousand_walks: u64,
}

impl From<PairCoverage> for Sampling {
    fn from(seen: PairCoverage) -> Self {
        Self {
            walks: seen.walks,
            pairs: seen.pairs,
            new_pairs_per_thousand_walks: seen.new_per_thousand(),
        }
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Checkpoints {
    pub backend: String,
    pub taken: u64,
    pub restored: u64,
    pub live_max: u64,
    pub reexecuted_steps: u64,
}

/// Steps that were announced as independent, tried in both orders.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Audit {
    /// Pairs of them that were tried in the last search.
    pub pairs: u64,
    /// What that took.
    pub steps: u64,
    /// Pairs of places where the order mattered, in all searches.
    pub dependent: u64,
}

/// What the peers were asked, and what they were spared.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cache {
    /// Whether there were any peers.
    #[serde(skip)]
    pub in_use: bool,
    pub mode: &'static str,
    pub hits: u64,
    pub misses: u64,
    pub logical_connections: u64,
    pub physical_connections: u64,
    pub peer_starts: u64,
    pub replayed_bytes: u64,
    pub late_answers: u64,
}

impl Cache {
    /// The account of these peers.
    pub fn of(peers: &Peers) -> Self {
        let counters = peers.counters();
        Self {
            in_use: peers.in_use(),
            mode: match peers.mode() {
                CacheMode::Branching => "branching",
                CacheMode::Linear => "linear",
                CacheMode::Off => "off",
            },
            hits: counters.hits,
            misses: counters.misses,
            logical_connections: counters.logical_connections,
            physical_connections: counters.physical_connections,
            peer_starts: counters.peer_starts,
            replayed_bytes: counters.replayed_bytes,
            late_answers: counters.late_answers,
        }
    }
}

/// What each peer was told, as text.
pub fn sent_text(sent: &BTreeMap<String, Vec<Vec<u8>>>) -> BTreeMap<String, Vec<String>> {
    let text = |said: &Vec<Vec<u8>>| said.iter().map(|bytes| escape(bytes)).collect();
    sent.iter().map(|(to, said)| (to.clone(), text(said))).collect()
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct States {
    pub new: u64,
    pub revisited: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub kind: &'static str,
    pub message: String,
    pub thread: Option<u32>,
    pub trace: Option<String>,
    pub steps: u64,
    pub preemptions: u64,
    /// How often something was on its way and not there, or came in another order, and how often a fault happened.
    pub late_answers: u64,
    pub faults: u64,
    /// Symbolised stacks of the threads, the guilty one first.
    pub stacks: Vec<String>,
}

/// One result that the program can have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Outcome {
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    pub idle: bool,
    pub deadlock: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub livelock: bool,
    pub stdout: String,
    pub stderr: String,
    pub sent: BTreeMap<String, Vec<String>>,
    /// How the command of `--recover` ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// The files of `--files`; null for one that was removed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, Option<String>>,
    /// How the processes ended that the program started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessOutcome>,
    pub executions: u64,
}

/// How one of the program's processes ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ProcessOutcome {
    /// What it ran.
    pub command: String,
    pub exit: Option<i32>,
    pub signal: Option<i32>,
}

impl ProcessOutcome {
    pub fn of((command, ended): &(String, Ended)) -> Self {
        let (exit, signal) = match ended {
            Ended::Exited(status) => (Some(*status), None),
            Ended::Killed(signal) => (None, Some(*signal)),
        };
        Self {
            command: command.clone(),
            exit,
            signal,
        }
    }
}

/// What came of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Recovery {
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Recovery {
    pub fn of(recovered: &Recovered) -> Self {
        Self {
            exit: match recovered.end {
                End::Exited(status) => Some(status),
                _ => None,
            },
            signal: match recovered.end {
                End::Killed(signal) => Some(signal),
                _ => None,
            },
            stdout: escape(&recovered.stdout),
            stderr: escape(&recovered.stderr),
        }
    }
}

/// So many of them.
pub fn counted(number: u64, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{ending}")
}

/// The largest resident size this process has had.
pub fn peak_rss_bytes() -> u64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF);
    usage.map_or(0, |usage| usage.max_rss().unsigned_abs() * 1024)
}
