//! `tracefork check`: every schedule.

pub use super::check_args::{Args, CheckpointArg, ExpectedExit, ProgressArg, ReduceArg, SearchArg};
use super::faults::{self, FaultArg};
use super::progress::Display;
use super::run::{session_options, working_directory, write_json};
use super::{PreemptArg, patience};
use checker::by_preemption::{self, ByPreemption};
use checker::counterexample::{self, Counterexample};
use checker::coverage;
use checker::profile::Profile;
use checker::report::{self, Report, Verdict};
use checker::rounds::Rounds;
use checker::scout::{Met, Scout};
use checker::stages::{self, Asking};
use checker::suppressions::Suppressions;
use checker::suspicions::Suspicions;
use checker::{CheckSystem, CheckpointChoice, Judge, Properties, verdict, warnings};
use explore::{Audit, Choice, Config, Coverage, Limit, Limits, Reduction, Search, SearchResult, Strategy};
use failure::{ExitCode, Failure};
use peers::CacheMode;
use session::Options;
use session::cores::Core;
use session::watchdog;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use views::Graph;

pub fn main(args: &Args, quiet: bool) -> Result<u8, Failure> {
    check(args, quiet).inspect_err(|failure| write_error(args.json.as_deref(), args.seed, failure))
}

/// A script that asked for a result gets one, whatever happened.
fn write_error(json: Option<&Path>, seed: u64, failure: &Failure) {
    let Some(path) = json else { return };
    let report = Report {
        verdict: Verdict::Error,
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
    options.residents = args.peers.residents(&working_directory(&options))?;
    options.config.arrivals = args.peers.arrivals();
    options.config.servers_remember = args.peers.servers_remember();
    let watchdog = {
        let json = args.json.clone();
        let seed = args.seed;
        watchdog::watch(bounds.clone(), move |failure| {
            write_error(json.as_deref(), seed, failure)
        })?
    };
    let backend = Mutex::new(String::from("none"));
    let graph = args.graph.as_ref().map(|_| Graph::default());
    let asking = match options.peers.mode() {
        _ if !args.peers.any_real() => Asking::Nobody,
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
        judge(args, &options)?,
        checkpoints(args),
        args.seed,
    );
    let suspicions = Suspicions::default();
    let profile = args.profile.then(Profile::default);
    let setting = Setting {
        profile: profile.as_ref(),
        args,
        stop: &stop,
        backend: &backend,
        graph: graph.as_ref(),
        suspicions: &suspicions,
        quiet,
    };
    let rounds = Rounds {
        stages: &stages,
        bounds: &bounds,
        is_scouted: matches!(args.sut.preempt, PreemptArg::Auto | PreemptArg::Memory),
        has_peers: args.peers.any_real(),
    };
    let mut result = rounds.run(&mut options, &mut scout, &|options, config| {
        setting.search(options, config)
    })?;
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
    let met = met_by_walks(args, &scout, &mut result);
    // What was found before stays found.
    let failed_later = match result.failure.take().map(search_failure) {
        Some(failure) if result.violations.is_empty() && met.is_empty() => return Err(failure),
        failure => failure.map(|failure| format!("the search failed later: {}", failure.reason)),
    };
    if let (Some(graph), Some(path)) = (&graph, &args.graph) {
        let bad = result.violations.iter().map(|found| found.path.as_slice());
        super::pictures::write_graph(path, graph, &bad.collect::<Vec<_>>())?;
    }
    let mut found = counterexamples(args, &options, &result, is_suspicion)?;
    let mut beyond = Vec::new();
    for met in &met {
        let made = counterexample_of_walk(args, &options, met)?;
        match args.bound_preemptions.filter(|bound| made.preemptions > *bound) {
            Some(_) => beyond.push(warnings::of_beyond(&made)),
            None => found.push(made),
        }
    }
    let mut report = verdict::report(args.seed, &result, &found, backend);
    report.cache = cache;
    report.schedules = report::Schedules::of(&result.counters, &scout, !found.is_empty());
    report.profile = profile.as_ref().map(Profile::told);
    if found.is_empty() && asking != Asking::EachTime {
        report.by_preemption = by_preemption(args, &options, &result, &report.outcomes, &stop)?;
    }
    report.coverage = coverage::covered(
        asked(args),
        &config(args),
        &result.plan,
        result.coverage,
        result.deepened,
    );
    report.warnings.extend(match args.expect_exit {
        Some(ExpectedExit::Any) => Vec::new(),
        Some(ExpectedExit::Code(_)) => warnings::of_output(report.outcomes.iter()),
        None => warnings::of_outcomes(&report.outcomes),
    });
    report.warnings.extend(beyond);
    report.warnings.extend(super::peers::warnings(&options));
    report.warnings.extend(suspicions.warnings());
    report.notes.extend(suspicions.notes());
    report.notes.extend(scout.weak_note());
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
    Ok(report.verdict.exit_code() as u8)
}

fn search_failure(failure: explore::Failure<Failure>) -> Failure {
    match failure {
        explore::Failure::System { mut error, path } => {
            let steps = path.len();
            error.details.push(format!("in the search, after {steps} steps"));
            if error.code == ExitCode::Internal {
                error.details.push(schedule_so_far(&path));
            }
            error
        }
        explore::Failure::Desync { path, detail } => {
            Failure::desync(format!("desync after {} steps: {detail}", path.len()))
        }
        explore::Failure::NoThread { worker, error } => {
            Failure::no_thread(&error).detail(format!("it was for worker {worker}"))
        }
        explore::Failure::Panic { worker, message } => {
            Failure::internal(format!("worker {worker} failed: {message}"))
        }
    }
}

/// The threads that moved, for a report.
fn schedule_so_far(path: &[Choice]) -> String {
    let moves: Vec<String> = path.iter().map(moved).collect();
    format!("schedule so far: {}", moves.join(" "))
}

fn moved(choice: &Choice) -> String {
    match choice.alternative {
        0 => choice.thread.to_string(),
        alternative => format!("{}:{alternative}", choice.thread),
    }
}

/// What all searches of one check have in common.
struct Setting<'a> {
    profile: Option<&'a Profile>,
    args: &'a Args,
    stop: &'a AtomicBool,
    backend: &'a Mutex<String>,
    graph: Option<&'a Graph>,
    suspicions: &'a Suspicions,
    quiet: bool,
}

impl Setting<'_> {
    fn search(&self, options: &Options, config: Config) -> SearchResult<CheckSystem> {
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
            let mut options = options.clone();
            // Supervisor and task of one worker share a core, each worker has its own.
            if worker > 0 {
                options.core = Some(Core::take());
            }
            let system = system(self.args, options)?
                .suspicions(self.suspicions)
                .profiled(self.profile);
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

fn judge(args: &Args, options: &Options) -> Result<Judge, Failure> {
    let properties = Properties {
        expect_exit: match args.expect_exit {
            Some(ExpectedExit::Code(code)) => Some(code),
            Some(ExpectedExit::Any) | None => None,
        },
        may_panic: args.expect_exit.is_some(),
        forbid: args.forbid.clone(),
        require: args.require.clone(),
        forbid_sent: args.forbid_sent.clone(),
        require_sent: args.require_sent.clone(),
        expect_client_exit: args.expect_client_exit,
        races: args.races || args.sut.preempt == PreemptArg::Memory,
        suspicions: false,
        suppressions: suppressions(args)?,
    };
    Ok(Judge {
        properties,
        recovery: faults::recovery(args.recover.as_deref(), options)?,
        files: faults::left_files(&args.files, &args.forbid_file, &args.require_file)?,
    })
}

fn checkpoints(args: &Args) -> CheckpointChoice {
    match args.checkpoint {
        CheckpointArg::Auto => CheckpointChoice::Auto,
        CheckpointArg::Fork => CheckpointChoice::Fork,
        CheckpointArg::Rewind => CheckpointChoice::Rewind,
        CheckpointArg::None => CheckpointChoice::None,
    }
}

fn system(args: &Args, options: Options) -> Result<CheckSystem, Failure> {
    let judge = judge(args, &options)?;
    let system = CheckSystem::new(options, judge, checkpoints(args));
    let system = system.peers(args.peers.any_real());
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
            SearchArg::Walk => Strategy::Walk {
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
        // Such walks do not look whether a state is known.
        hash: !args.no_hash && args.search != SearchArg::Walk,
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
        peers: match args.peers.any() {
            true => Some(args.peers.stand()),
            false => None,
        },
    }
}

/// Outcomes that only a preemption brings about.
fn by_preemption(
    args: &Args,
    options: &Options,
    result: &SearchResult<CheckSystem>,
    outcomes: &[report::Outcome],
    stop: &AtomicBool,
) -> Result<Vec<ByPreemption>, Failure> {
    let Some(config) = by_preemption::search(&config(args), result) else {
        return Ok(Vec::new());
    };
    let options = Options {
        bounds: patience::of_minimisation(),
        ..options.clone()
    };
    let without = Search::new(config)
        .stop_flag(stop)
        .run_one(&mut system(args, options)?);
    Ok(by_preemption::compare(outcomes, &without))
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

/// What walks have run into and the search has not come to: violations all the same, as many as are wanted.
fn met_by_walks(args: &Args, scout: &Scout, result: &mut SearchResult<CheckSystem>) -> Vec<Met> {
    let wanted = if args.keep_going {
        usize::MAX
    } else {
        args.max_violations.unwrap_or(1)
    };
    let is_known = |met: &Met| {
        let mut kinds = result.violations.iter().map(|found| found.violation.kind);
        kinds.any(|kind| kind == met.violation.kind)
    };
    let met = scout.met().iter().filter(|met| !is_known(met)).cloned();
    let met: Vec<Met> = met.take(wanted.saturating_sub(result.violations.len())).collect();
    // Within a bound on preemptions they may not count.
    if !met.is_empty() && args.bound_preemptions.is_none() {
        result.coverage = Coverage::Incomplete(Limit::Violations);
    }
    met
}

fn counterexample_of_walk(args: &Args, options: &Options, met: &Met) -> Result<Counterexample, Failure> {
    let options = met.options(options);
    let maker = counterexample::Maker {
        options: &options,
        seed: args.seed,
        is_only: true,
        directory: &args.trace_dir,
        keep_env: args.sut.keep_env,
    };
    let make = |bounds, effort| {
        let options = Options {
            bounds,
            ..options.clone()
        };
        maker.make(&mut system(args, options)?, &met.violation, &met.path, effort)
    };
    // Other orders may need answers that were never asked for.
    if args.peers.any_real() {
        return make(options.bounds.clone(), 0);
    }
    match make(patience::of_minimisation(), counterexample::WALK_EFFORT) {
        Err(failure) if failure.code == ExitCode::Limit => make(options.bounds.clone(), 0),
        made => made,
    }
}
