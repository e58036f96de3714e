//! `tracefork check`: every schedule.

use super::faults::{self, FaultArg};
use super::peers::PeerArgs;
use super::run::{SutArgs, session_options, write_json};
use super::{PreemptArg, patience, verdict, warnings};
use crate::check::counterexample::{self, Counterexample};
use crate::check::coverage;
use crate::check::graph::Graph;
use crate::check::progress::Display;
use crate::check::scout::Scout;
use crate::check::stages::{self, Asking};
use crate::check::suppressions::Suppressions;
use crate::check::suspicions::Suspicions;
use crate::check::{CheckSystem, CheckpointChoice, Judge, Properties};
use crate::cores::Core;
use crate::error::{ExitCode, Failure};
use crate::network::Peers;
use crate::report::{self, Report};
use crate::session::Options;
use crate::watchdog;
use clap::ValueEnum;
use explore::{Audit, Config, Limits, Reduction, Search, SearchResult, Strategy};
use peers::CacheMode;
use regex::bytes::Regex;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
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
    /// Data races that are known and not to be told of: lines of the form race:PATTERN, as for ThreadSanitizer.
    #[arg(long, value_name = "FILE")]
    pub suppressions: Option<PathBuf>,
    /// What the environment may do to the program besides what it must (repeatable, or a list): timeout (a timed wait ends early), refused and
    /// reset (connections), short-read and short-write (one byte of a stream), eintr (a call that waits is interrupted), loss, duplicate and reorder
    /// (datagrams), nospace and ioerror (files), nomemory, nofiles, signal=NAME (from outside, at any point), kill (as by SIGKILL), power (only what was synced is sure to be on disk). Example:
    /// --faults short-read,reset,signal=TERM
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub faults: Vec<FaultArg>,
    /// After kill or power: run this command on the files as they are then. It has to end with status 0; --forbid and --require are for its
    /// output too. Example: --recover 'sqlite3 data.db "PRAGMA integrity_check"'
    #[arg(long, value_name = "CMD")]
    pub recover: Option<String>,
    /// Files that are part of the outcomes, if the program changes them (repeatable): paths, absolute or below the working directory, with
    /// wildcards. Example: --files 'out/*.txt'
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

/// Searches that are made with what walks have found after the one before.
const ROUNDS: u32 = 3;

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

pub fn main(args: &Args, quiet: bool) -> Result<u8, Failure> {
    check(args, quiet).inspect_err(|failure| write_error(args.json.as_deref(), args.seed, failure))
}

/// A script that asked for a result gets one, whatever happened.
fn write_error(json: Option<&Path>, seed: u64, failure: &Failure) {
    let Some(path) = json else { return };
    let report = Report {
        verdict: "error",
        error: Some(failure.to_string()),
        // A script need not ask whether they are there.
        checkpoints: Some(report::Checkpoints::default()),
        cache: Some(report::Cache::default()),
        seed,
        version: env!("CARGO_PKG_VERSION"),
        ..Report::default()
    };
    // The failure itself is what the user must hear of; it is reported by the caller.
    let _ = write_json(path, &report);
}

fn check(args: &Args, quiet: bool) -> Result<u8, Failure> {
    let mut options = session_options(&args.sut, &args.command)?;
    options.faults = faults::plan(&args.faults, args.fault_budget);
    let suppressions = suppressions(args)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::unsupported(format!("cannot catch signals: {e}")))?;
    }
    let bounds = patience::of_search(args.time_limit, &stop);
    options.peers = args.peers.start(patience::with_peers(&bounds))?;
    options.config.arrivals = args.peers.arrivals();
    let watchdog = {
        let json = args.json.clone();
        let seed = args.seed;
        watchdog::watch(bounds.clone(), move |failure| {
            write_error(json.as_deref(), seed, failure)
        })
    };
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
    let mut scout = Scout::new(
        &Options {
            // Of limited time most is for the search itself.
            bounds: patience::of_search(args.time_limit.map(|limit| limit / 4), &stop),
            ..options.clone()
        },
        args.seed,
    );
    let is_scouted = matches!(args.sut.preempt, PreemptArg::Auto | PreemptArg::Memory);
    // Walks ask nobody anything: with peers they are made when a search has found out what these say.
    if is_scouted && !args.peers.any() {
        scout.walk(&Peers::nobody());
    }
    let suspicions = Suspicions::default();
    let mut rounds = 0;
    let mut result = loop {
        rounds += 1;
        options.watched = scout.watched();
        let bounded = Options {
            bounds: bounds.clone(),
            ..options.clone()
        };
        let setting = Setting {
            args,
            options: &bounded,
            stop: &stop,
            backend: &backend,
            graph: graph.as_ref(),
            suspicions: &suspicions,
            quiet,
        };
        let search = |config| setting.search(config);
        let mut may_go_on = |result: &SearchResult<CheckSystem>| {
            // Steps that do more than they announce are a sign of memory that is shared; and where some is, there may be more.
            let has_peers = options.peers.in_use();
            let may_be_more = !result.learned.is_empty() || !options.watched.is_empty() || has_peers;
            let is_open = result.violations.is_empty() && result.failure.is_none() && !bounds.is_over();
            let is_due = is_scouted && may_be_more && is_open && rounds < ROUNDS;
            Ok::<_, Failure>(is_due && scout.walk(&options.peers.recorded_so_far()?))
        };
        let mut begins_anew = Ok(false);
        let between = |result: &SearchResult<CheckSystem>| {
            if options.peers.in_use() {
                begins_anew = may_go_on(result);
            }
            !matches!(begins_anew, Ok(false))
        };
        let Some(result) = stages::run(&stages, search, between) else {
            return Err(Failure::unsupported("there is nothing to search"));
        };
        if !(begins_anew? || may_go_on(&result)?) {
            break result;
        }
    };
    drop(watchdog);
    // What comes now has bounds of its own.
    options.peers.set_patience(peers::Patience::default());
    let mut is_suspicion = false;
    let broken_off = patience::settle(&mut result, &stop);
    let backend = backend.into_inner().unwrap_or_default();
    // Before counterexamples are made shorter, which asks peers anew.
    let cache = Some(report::Cache::of(&options.peers));
    options.peers.save()?;
    if let Some(path) = &args.tree {
        super::pictures::write_trees(path, &options.peers)?;
    }
    if result.violations.is_empty() && result.failure.is_none() {
        result.violations = suspicions.verdict(result.coverage.is_complete());
        result
            .violations
            .truncate(args.max_violations.unwrap_or(usize::MAX));
        is_suspicion = !result.violations.is_empty();
    }
    // What was found before stays found.
    let failed_later = match result.failure.take().map(search_failure) {
        Some(failure) if result.violations.is_empty() => return Err(failure),
        failure => failure.map(|failure| format!("the search failed after that: {}", failure.reason)),
    };
    if let (Some(graph), Some(path)) = (&graph, &args.graph) {
        let bad = result.violations.iter().map(|found| found.path.as_slice());
        super::pictures::write_graph(path, graph, &bad.collect::<Vec<_>>())?;
    }
    let found = counterexamples(args, &options, &result, is_suspicion)?;
    let mut report = verdict::report(args.seed, &result, &found, backend);
    report.cache = cache;
    report.coverage = coverage::covered(asked(args), &config(args), &result.plan, result.coverage);
    report.warnings.extend(match args.expect_exit {
        Some(ExpectedExit::Any) => Vec::new(),
        Some(ExpectedExit::Code(_)) => warnings::of_output(&report.outcomes),
        None => warnings::of_outcomes(&report.outcomes),
    });
    report.warnings.extend(super::peers::warnings(&options.peers));
    report.warnings.extend(suspicions.warnings());
    report.notes.extend(suspicions.notes());
    report.races = scout.races();
    report.races.retain(|race| !suppressions.hide_race(race));
    report.warnings.extend(warnings::of_races(&report.races));
    report.warnings.extend(super::peers::barred(&options.peers));
    report
        .notes
        .extend(found.iter().filter_map(|found| found.note.clone()));
    report.notes.extend(broken_off.into_iter().chain(failed_later));
    report.notes.extend(super::peers::notes(&options.peers));
    let written = args
        .json
        .as_ref()
        .map_or(Ok(()), |path| write_json(path, &report));
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
    match (written, found.is_empty()) {
        // A violation that was found is not lost for that.
        (Err(failure), false) => super::report_failure(&failure),
        (written, _) => written?,
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

/// What all searches of one check have in common.
struct Setting<'a> {
    args: &'a Args,
    options: &'a Options,
    stop: &'a AtomicBool,
    backend: &'a Mutex<String>,
    graph: Option<&'a Graph>,
    suspicions: &'a Suspicions,
    quiet: bool,
}

impl Setting<'_> {
    fn search(&self, config: Config) -> SearchResult<CheckSystem> {
        let is_trial = config.audit == Audit::Only || matches!(config.strategy, Strategy::Straight { .. });
        let mut search = Search::new(config)
            .stop_flag(self.stop)
            .memory_use(&resident_bytes);
        // What is tried out before the search is no part of its graph.
        if let Some(graph) = self.graph.filter(|_| !is_trial) {
            search = search.observer(graph);
        }
        let display = Display::start(search.progress(), self.args.progress, self.quiet);
        let result = search.run(|worker| {
            let mut options = self.options.clone();
            // Supervisor and task of one worker share a core, each worker has its own.
            if worker > 0 {
                options.core = Some(Core::take());
            }
            let system = system(self.args, options)?.suspicions(self.suspicions);
            if let Ok(mut name) = self.backend.lock() {
                *name = system.planned_backend();
            }
            Ok(system)
        });
        display.finish();
        result
    }
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
        suspicions: false,
        suppressions: suppressions(args)?,
    };
    let choice = match args.checkpoint {
        CheckpointArg::Auto => CheckpointChoice::Auto,
        CheckpointArg::Fork => CheckpointChoice::Fork,
        CheckpointArg::Rewind => CheckpointChoice::Rewind,
        CheckpointArg::None => CheckpointChoice::None,
    };
    let judge = Judge {
        properties,
        recovery: faults::recovery(args.recover.as_deref(), &options)?,
        files: faults::left_files(&args.files, &args.forbid_file, &args.require_file)?,
    };
    let system = CheckSystem::new(options, judge, choice);
    let system = system.peers(args.peers.any());
    Ok(system.auxiliary(&args.aux))
}

fn suppressions(args: &Args) -> Result<Suppressions, Failure> {
    args.suppressions
        .as_deref()
        .map_or(Ok(Suppressions::default()), Suppressions::read)
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
        deepening: None,
        bound_preemptions: args.bound_preemptions,
        bound_counts_alternatives: false,
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

fn asked(args: &Args) -> coverage::Asked {
    coverage::Asked {
        preempt: args.sut.preempt.into(),
        arrivals: args.peers.arrivals(),
        faults: args.faults.iter().map(FaultArg::to_string).collect(),
        fault_budget: args.fault_budget,
        has_peers: args.peers.any(),
    }
}

fn counterexamples(
    args: &Args,
    options: &Options,
    result: &SearchResult<CheckSystem>,
    is_suspicion: bool,
) -> Result<Vec<Counterexample>, Failure> {
    let bounded = Options {
        bounds: patience::of_minimisation(),
        ..options.clone()
    };
    let mut bounded = system(args, bounded)?.with_suspicions(is_suspicion);
    let maker = counterexample::Maker {
        options,
        seed: args.seed,
        is_only: result.violations.len() == 1,
        directory: &args.trace_dir,
        keep_env: args.sut.keep_env,
    };
    let mut found = Vec::new();
    for explore::Found { violation, path, .. } in &result.violations {
        found.push(
            match maker.make(&mut bounded, violation, path, counterexample::EFFORT) {
                // A thread computes without end on the way to something simpler.
                Err(failure) if failure.code == ExitCode::Limit => {
                    let mut system = system(args, options.clone())?.with_suspicions(is_suspicion);
                    maker.make(&mut system, violation, path, 0)?
                }
                made => made?,
            },
        );
    }
    Ok(found)
}
