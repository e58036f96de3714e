//! The options of `tracefork check`, as they are written on the command line.

use super::faults::FaultArg;
use super::peers::PeerArgs;
use super::run::SutArgs;
use clap::ValueEnum;
use regex::bytes::Regex;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args)]
#[command(after_help = "\
Examples: tracefork check -- ./program ARGS
          tracefork check --client '2*curl -s http://{addr}/' --bound-preemptions 2 -- ./server --threads 2
          tracefork check --server 'python3 -m http.server 8000' --expect-exit 0 -- ./client
          tracefork check --preempt memory --time-limit 5m --json result.json -- ./program")]
pub struct Args {
    #[command(flatten)]
    pub sut: SutArgs,
    #[command(flatten)]
    pub peers: PeerArgs,
    /// The order of the search.
    #[arg(long, value_enum, default_value = "dfs")]
    pub search: SearchArg,
    /// Partial-order reduction: which schedules to leave out because others are equivalent.
    #[arg(long, value_enum, default_value = "auto")]
    pub reduce: ReduceArg,
    /// Stateless search: follow every path, do not remember visited states.
    #[arg(long)]
    pub no_hash: bool,
    /// How to go back to an earlier state.
    #[arg(long, value_enum, default_value = "auto")]
    pub checkpoint: CheckpointArg,
    /// Memory to ignore when states are compared (repeatable).
    #[arg(long, value_name = "SYMBOL|SECTION|ADDR+LEN")]
    pub aux: Vec<String>,
    /// At most N preemptions per schedule.
    #[arg(long, value_name = "N")]
    pub bound_preemptions: Option<u32>,
    /// Stop after N states.
    #[arg(long, value_name = "N")]
    pub max_states: Option<u64>,
    /// Cut paths after N steps.
    #[arg(long, value_name = "N")]
    pub max_depth: Option<u32>,
    /// Stop after this time, for example 30s.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub time_limit: Option<Duration>,
    /// Stop at this much memory, for example 2G.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory_limit: Option<u64>,
    /// Keep at most N checkpoints; other states are reached by re-execution.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max_checkpoints: usize,
    /// Do not stop at the first violation.
    #[arg(long)]
    pub keep_going: bool,
    /// Stop after N different violations.
    #[arg(long, value_name = "N", conflicts_with = "keep_going")]
    pub max_violations: Option<usize>,
    /// The exit status that every schedule must have; any accepts all.
    #[arg(long, value_name = "CODE|any", value_parser = parse_expected_exit)]
    pub expect_exit: Option<ExpectedExit>,
    /// No output may match (repeatable).
    #[arg(long, value_name = "REGEX", value_parser = parse_regex)]
    pub forbid: Vec<Regex>,
    /// Every output must match (repeatable).
    #[arg(long, value_name = "REGEX", value_parser = parse_regex)]
    pub require: Vec<Regex>,
    /// Nothing that a peer is sent may match (repeatable).
    #[arg(long, value_name = "REGEX", value_parser = parse_regex)]
    pub forbid_sent: Vec<Regex>,
    /// Something that a peer is sent must match (repeatable).
    #[arg(long, value_name = "REGEX", value_parser = parse_regex)]
    pub require_sent: Vec<Regex>,
    /// The exit status that every client must have, if it ends.
    #[arg(long, value_name = "CODE")]
    pub expect_client_exit: Option<i32>,
    /// Treat data races as violations, also without --preempt memory.
    #[arg(long)]
    pub races: bool,
    /// Hide known data races: a file with lines of the form race:PATTERN, as for ThreadSanitizer.
    #[arg(long, value_name = "FILE")]
    pub suppressions: Option<PathBuf>,
    /// Faults to explore (repeatable, or a list): timeout (a timed wait ends early), refused and
    /// reset (connections), short-read and short-write (one byte of a stream), eintr (a blocking call is interrupted), loss, duplicate and reorder
    /// (datagrams), nospace and ioerror (files), nomemory, nofiles, signal=NAME (from outside, at any point), kill (as by SIGKILL), power (what was not synced may be lost). Example:
    /// --faults short-read,reset,signal=TERM
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub faults: Vec<FaultArg>,
    /// After kill or power: run this command on the files that are left. It must exit with status 0; --forbid and --require also apply to its
    /// output. Example: --recover 'sqlite3 data.db "PRAGMA integrity_check"'
    #[arg(long, value_name = "CMD")]
    pub recover: Option<String>,
    /// Make files part of the outcomes, if the program changes them (repeatable): paths with wildcards, absolute or relative to the working
    /// directory. Example: --files 'out/*.txt'
    #[arg(long, value_name = "GLOB", value_parser = parse_glob)]
    pub files: Vec<globset::Glob>,
    /// None of those files may match at the end (repeatable).
    #[arg(long, value_name = "REGEX", value_parser = parse_regex, requires = "files")]
    pub forbid_file: Vec<Regex>,
    /// One of those files must match at the end (repeatable).
    #[arg(long, value_name = "REGEX", value_parser = parse_regex, requires = "files")]
    pub require_file: Vec<Regex>,
    /// At most N faults in one execution.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub fault_budget: u32,
    /// Number of parallel workers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: u32,
    /// Seed for random choices.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Schedules for --search walk, random and pct.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub walks: u64,
    /// Directory for counterexamples.
    #[arg(long, value_name = "DIR", default_value = "tracefork-out")]
    pub trace_dir: PathBuf,
    /// Write the result as JSON to FILE, - for standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the explored states and transitions to FILE: a page if it ends in .html, otherwise for Graphviz (dot -Tsvg FILE).
    #[arg(long, value_name = "FILE")]
    pub graph: Option<PathBuf>,
    /// Write the communication trees (all data exchanged with peers, with hits and misses) to FILE: a page if it ends in .html,
    /// for Graphviz if it ends in .dot, otherwise as text. Example: --tree trees.html
    #[arg(long, value_name = "FILE")]
    pub tree: Option<PathBuf>,
    /// Show where the states come from: the source locations at which threads are when there is a choice, and between which of them the order matters.
    /// If a search does not finish, turn these parts of the program off, or name their memory with --aux.
    #[arg(long)]
    pub profile: bool,
    /// Progress on standard error.
    #[arg(long, value_enum, default_value = "auto")]
    pub progress: ProgressArg,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SearchArg {
    Dfs,
    Bfs,
    Random,
    Pct,
    /// Single schedules, guided towards orders of conflicting operations that were not seen yet.
    Walk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReduceArg {
    /// What suits the program, found out by trying.
    Auto,
    /// Every order.
    None,
    /// Sleep sets, with visited states remembered.
    Sleep,
    /// Dynamic partial-order reduction: fewest executions, no states remembered (as with --no-hash), depth first, one worker.
    Dpor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckpointArg {
    Auto,
    Fork,
    Rewind,
    /// Execute again from the start.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgressArg {
    Auto,
    Never,
    Always,
}

/// `--expect-exit`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedExit {
    Any,
    Code(i32),
}

fn parse_expected_exit(text: &str) -> Result<ExpectedExit, String> {
    match text {
        "any" => Ok(ExpectedExit::Any),
        _ => text
            .parse()
            .map(ExpectedExit::Code)
            .map_err(|_| format!("{text}: not an exit status, nor any")),
    }
}

fn parse_glob(text: &str) -> Result<globset::Glob, String> {
    globset::Glob::new(text).map_err(|e| e.to_string())
}

fn parse_regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|e| e.to_string())
}

/// `2G`, `512M`, `100k`, or bytes.
fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit.trim_end_matches(['i', 'B']).to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(format!("unknown unit {unit}: use k, M, G or T")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("{text}: not a size, for example 2G"))?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("{text}: too large"))
}
