//! `tracefork check`: every schedule.

use super::peers::PeerArgs;
use super::run::{SutArgs, session_options, write_json};
use super::{PreemptArg, patience, verdict, warnings};
use crate::check::counterexample::{self, Counterexample};
use crate::check::graph::Graph;
use crate::check::progress::Display;
use crate::check::scout::{self, Sharing};
use crate::check::stages::{self, Asking};
use crate::check::{CheckSystem, CheckpointChoice, Faults, Properties};
use crate::cores::Core;
use crate::error::{ExitCode, Failure};
use crate::report::{self, Report};
use crate::session::Options;
use clap::ValueEnum;
use explore::{Audit, Config, Limits, Reduction, Search, SearchResult, Strategy};
use peers::CacheMode;
use regex::bytes::Regex;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
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
    /// Which schedules to leave out because others show the same.
    #[arg(long, value_enum, default_value = "auto")]
    pub reduce: ReduceArg,
    /// Stateless: every path, no visited set.
    #[arg(long)]
    pub no_hash: bool,
    /// How to go back to an earlier state.
    #[arg(long, value_enum, default_value = "auto")]
    pub checkpoint: CheckpointArg,
    /// Memory that does not identify a state (repeatable).
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
    /// At most N live checkpoints; beyond, states are re-reached by execution.
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
    /// Data races are violations also where --preempt is not memory.
    #[arg(long)]
    pub races: bool,
    /// What the environment may do to the program besides what it must (repeatable, or a list): timeout lets any timed wait end early.
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    pub faults: Vec<FaultArg>,
    /// At most N faults in one execution.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub fault_budget: u32,
    /// Workers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: u32,
    /// Seed for random choices.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Schedules for --search random and pct.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub walks: u64,
    /// Where counterexamples go.
    #[arg(long, value_name = "DIR", default_value = "tracefork-out")]
    pub trace_dir: PathBuf,
    /// Write the result as JSON to FILE, - for standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the explored states and transitions to FILE: a page if it ends in .html, otherwise for Graphviz (dot -Tsvg FILE).
    #[arg(long, value_name = "FILE")]
    pub graph: Option<PathBuf>,
    /// Write the communication trees, all that was said to peers and by them, with hits and misses, to FILE: a page if it ends in .html,
    /// for Graphviz if in .dot, otherwise as text. Example: --tree trees.html
    #[arg(long, value_name = "FILE")]
    pub tree: Option<PathBuf>,
    /// Progress on standard error.
    #[arg(long, value_enum, default_value = "auto")]
    pub progress: ProgressArg,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FaultArg {
    /// A timed wait ends although others could go on.
    Timeout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SearchArg {
    Dfs,
    Bfs,
    Random,
    Pct,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReduceArg {
    Auto,
    None,
    Sleep,
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

pub fn main(args: &Args, quiet: bool) -> Result<u8, Failure> {
    check(args, quiet).inspect_err(|failure| write_error(args, failure))
}

/// A script that asked for a result gets one, whatever happened.
fn write_error(args: &Args, failure: &Failure) {
    let Some(path) = &args.json else { return };
    let report = Report {
        verdict: "error",
        error: Some(failure.to_string()),
        // A script need not ask whether they are there.
        checkpoints: Some(report::Checkpoints::default()),
        cache: Some(report::Cache::default()),
        seed: args.seed,
        version: env!("CARGO_PKG_VERSION"),
        ..Report::default()
    };
    // The failure itself is what the user must hear of; it is reported by the caller.
    let _ = write_json(path, &report);
}

fn check(args: &Args, quiet: bool) -> Result<u8, Failure> {
    let mut options = session_options(&args.sut, &args.command)?;
    options.peers = args.peers.start()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::unsupported(format!("cannot catch signals: {e}")))?;
    }
    let backend = Mutex::new(String::from("none"));
    let graph = args.graph.as_ref().map(|_| Graph::default());
    let asking = match options.peers.mode() {
        _ if !args.peers.any() => Asking::Nobody,
        CacheMode::Off => Asking::EachTime,
        CacheMode::Linear | CacheMode::Branching => Asking::Once,
    };
    let stages = match &graph {
        None => stages::plan(&config(args), asking),
        // What a graph shows is of one search.
        Some(_) => vec![config(args)],
    };
    let bounds = patience::of_search(args.time_limit, &stop);
    let sharing = match (args.sut.preempt, asking) {
        // Servers are not asked for a walk: what they say then, and when, is for the search to find out. Nor are peers that are asked each time.
        (PreemptArg::Auto, Asking::Nobody | Asking::Once) if args.peers.server.is_empty() => {
            let bounds = bounds.clone();
            scout::scout(
                &Options {
                    bounds,
                    ..options.clone()
                },
                args.seed,
            )
        }
        _ => Sharing::default(),
    };
    options.watched = Arc::new(sharing.sites);
    let bounded = Options {
        bounds,
        ..options.clone()
    };
    let search = |config| search(args, config, &bounded, &stop, &backend, graph.as_ref(), quiet);
    let Some(mut result) = stages::run(&stages, search) else {
        return Err(Failure::unsupported("there is nothing to search"));
    };
    let broken_off = patience::settle(&mut result, &stop);
    let backend = backend.into_inner().unwrap_or_default();
    // Before counterexamples are made shorter, which asks peers anew.
    let cache = Some(report::Cache::of(&options.peers));
    options.peers.save()?;
    if let Some(path) = &args.tree {
        super::pictures::write_trees(path, &options.peers)?;
    }
    if let Some(failure) = result.failure {
        return Err(search_failure(failure));
    }
    if let (Some(graph), Some(path)) = (&graph, &args.graph) {
        let bad = result.violations.iter().map(|found| found.path.as_slice());
        super::pictures::write_graph(path, graph, &bad.collect::<Vec<_>>())?;
    }
    let found = counterexamples(args, &options, &result)?;
    let mut report = verdict::report(args.seed, &result, &found, backend);
    report.cache = cache;
    if args.expect_exit.is_none() {
        report.warnings.extend(warnings::of_outcomes(&report.outcomes));
    }
    report.warnings.extend(warnings::of_races(&sharing.races));
    report.races = sharing.races;
    report.notes.extend(broken_off);
    report.notes.extend(super::peers::notes(&options.peers));
    if let Some(path) = &args.json {
        write_json(path, &report)?;
    }
    let to_stdout = args.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    if !quiet && !to_stdout {
        super::summary::print(&report, &found)?;
    }
    for failure in found
        .iter()
        .filter_map(|counterexample| counterexample.path.as_ref().err())
    {
        super::report_failure(failure);
    }
    Ok(match report.verdict {
        "violation" => ExitCode::Violation as u8,
        "incomplete" => ExitCode::Limit as u8,
        _ => ExitCode::Ok as u8,
    })
}

fn search_failure(failure: explore::Failure<Failure>) -> Failure {
    match failure {
        explore::Failure::System { mut error, path } => {
            error
                .details
                .push(format!("in the search, after {} steps", path.len()));
            error
        }
        explore::Failure::Desync { path, detail } => {
            Failure::desync(format!("desync after {} steps: {detail}", path.len()))
        }
        explore::Failure::NoThread { worker, error } => {
            Failure::unsupported(format!("no thread for worker {worker}: {error}"))
                .hint("the limit on processes (ulimit -u) is reached")
        }
        explore::Failure::Panic { worker, message } => {
            Failure::unsupported(format!("worker {worker} failed: {message}"))
                .hint("this is a bug in tracefork: please report it")
        }
    }
}

fn search(
    args: &Args,
    config: Config,
    options: &Options,
    stop: &AtomicBool,
    backend: &Mutex<String>,
    graph: Option<&Graph>,
    quiet: bool,
) -> SearchResult<CheckSystem> {
    let is_trial = config.audit == Audit::Only;
    let mut search = Search::new(config).stop_flag(stop).memory_use(&resident_bytes);
    // What is tried out before the search is no part of its graph.
    if let Some(graph) = graph.filter(|_| !is_trial) {
        search = search.observer(graph);
    }
    let display = Display::start(search.progress(), args.progress, quiet);
    let result = search.run(|worker| {
        let mut options = options.clone();
        // Supervisor and task of one worker share a core, each worker has its own.
        if worker > 0 {
            options.core = Some(Core::take());
        }
        let system = system(args, options)?;
        if let Ok(mut name) = backend.lock() {
            *name = system.planned_backend();
        }
        Ok(system)
    });
    display.finish();
    result
}

fn resident_bytes() -> u64 {
    const PAGE: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .unwrap_or(0)
        * PAGE
}

fn system(args: &Args, options: Options) -> Result<CheckSystem, Failure> {
    let properties = Properties {
        expect_exit: match args.expect_exit {
            Some(ExpectedExit::Code(code)) => Some(code),
            Some(ExpectedExit::Any) | None => None,
        },
        forbid: args.forbid.clone(),
        require: args.require.clone(),
        forbid_sent: args.forbid_sent.clone(),
        require_sent: args.require_sent.clone(),
        expect_client_exit: args.expect_client_exit,
        races: args.races || args.sut.preempt == PreemptArg::Memory,
    };
    let choice = match args.checkpoint {
        CheckpointArg::Auto => CheckpointChoice::Auto,
        CheckpointArg::Fork => CheckpointChoice::Fork,
        CheckpointArg::Rewind => CheckpointChoice::Rewind,
        CheckpointArg::None => CheckpointChoice::None,
    };
    let faults = Faults {
        timeout: args.faults.contains(&FaultArg::Timeout),
        budget: args.fault_budget,
    };
    let system = CheckSystem::new(options, properties, choice);
    let system = system.peers(args.peers.any());
    Ok(system.auxiliary(&args.aux).faults(faults))
}

fn config(args: &Args) -> Config {
    Config {
        strategy: match args.search {
            SearchArg::Dfs => Strategy::Dfs,
            SearchArg::Bfs => Strategy::Bfs,
            SearchArg::Random => Strategy::Random {
                walks: Some(args.walks),
            },
            SearchArg::Pct => Strategy::Pct {
                depth: 3,
                walks: Some(args.walks),
                steps: None,
            },
        },
        seed: args.seed,
        reduction: match args.reduce {
            ReduceArg::Auto => Reduction::Auto,
            ReduceArg::None => Reduction::None,
            ReduceArg::Sleep => Reduction::Sleep,
            ReduceArg::Dpor => Reduction::Dpor,
        },
        hash: !args.no_hash,
        bound_preemptions: args.bound_preemptions,
        jobs: args.jobs as usize,
        limits: Limits {
            states: args.max_states,
            depth: args.max_depth,
            time: args.time_limit,
            memory: args.memory_limit,
            ..Limits::default()
        },
        max_violations: if args.keep_going {
            None
        } else {
            Some(args.max_violations.unwrap_or(1))
        },
        audit: Audit::InPassing,
        dependent: BTreeSet::new(),
        max_live_marks: args.max_checkpoints,
        mark_memory: args.memory_limit.map(|limit| limit / 2),
    }
}

fn counterexamples(
    args: &Args,
    options: &Options,
    result: &SearchResult<CheckSystem>,
) -> Result<Vec<Counterexample>, Failure> {
    let bounded = Options {
        bounds: patience::of_minimisation(),
        ..options.clone()
    };
    let mut bounded = system(args, bounded)?;
    let maker = counterexample::Maker {
        options,
        seed: args.seed,
        is_only: result.violations.len() == 1,
        directory: &args.trace_dir,
    };
    let mut found = Vec::new();
    for explore::Found { violation, path, .. } in &result.violations {
        found.push(
            match maker.make(&mut bounded, violation, path, counterexample::EFFORT) {
                // A thread computes without end on the way to something simpler.
                Err(failure) if failure.code == ExitCode::Limit => {
                    maker.make(&mut system(args, options.clone())?, violation, path, 0)?
                }
                made => made?,
            },
        );
    }
    Ok(found)
}
