//! `tracefork check`: every schedule.

pub use super::check_args::{Args, CheckpointArg, ExpectedExit, ProgressArg, ReduceArg, SearchArg};
use super::check_settings::{asked, checkpoints, config, judge, suppressions, system};
use super::faults;
use super::observers::Observers;
use super::progress::Display;
use super::run::{session_options, working_directory, write_json};
use super::{PreemptArg, time_limits};
use checker::by_preemption::{self, ByPreemption};
use checker::counterexample::{self, Counterexample};
use checker::coverage;
use checker::endless;
use checker::profile::Profile;
use checker::report::{self, Report, Verdict};
use checker::rounds::Rounds;
use checker::scout::{Met, Scout};
use checker::stages::{self, Asking};
use checker::suppressions::Suppressions;
use checker::suspicions::Suspicions;
use checker::{CheckSystem, verdict, warnings};
use explore::{Audit, Choice, Config, Coverage, Limit, Search, SearchResult, Strategy, Ways};
use failure::{ExitCode, Failure};
use peers::CacheMode;
use session::cores::Core;
use session::watchdog;
use session::{Bounds, Options};
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
    let stop = stop_flag()?;
    let bounds = time_limits::of_search(args.time_limit, &stop);
    options.peers = args.peers.start(time_limits::with_peers(&bounds))?;
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
    let mut searched = Searched::new(args, quiet, &mut options, &bounds, &stop)?;
    drop(watchdog);
    // What comes now has bounds of its own.
    options.peers.set_time_budget(peers::TimeBudget::default());
    let broken_off = time_limits::take_limit(&mut searched.result, &stop);
    // Before counterexamples are made shorter, which asks peers anew.
    let cache = Some(report::Cache::of(&options.peers));
    options.peers.save()?;
    if let Some(path) = &args.tree {
        super::pictures::write_trees(path, &options.peers)?;
    }
    let shown = searched.shown(args, &options)?;
    let mut report = searched.report(args, &options, &shown, &stop)?;
    report.cache = cache;
    warn(&mut report, &searched, &suppressions);
    report.warnings.extend(super::peers::barred(&options.peers));
    let notes = shown.found.iter().filter_map(|found| found.note.clone());
    report
        .notes
        .extend(notes.chain(broken_off).chain(shown.failed_later));
    report.notes.extend(super::peers::notes(&options.peers));
    tell(args, quiet, &report, &shown.found)?;
    Ok(report.verdict.exit_code() as u8)
}

/// Set by whoever ends the command from outside.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::unsupported(format!("cannot catch signals: {e}")))?;
    }
    Ok(stop)
}

/// What the search has found, and all who have seen it.
struct Searched {
    result: SearchResult<CheckSystem>,
    asking: Asking,
    scout: Scout,
    suspicions: Suspicions,
    profile: Option<Profile>,
    graph: Option<Graph>,
    /// The checkpoints that were used, by name.
    backend: String,
}

/// What is shown of that.
struct Shown {
    found: Vec<Counterexample>,
    /// Warnings of violations that need more preemptions than the bound.
    beyond: Vec<String>,
    /// Why the search ended, if it had found something by then.
    failed_later: Option<String>,
}

impl Searched {
    /// Searches.
    fn new(
        args: &Args,
        quiet: bool,
        options: &mut Options,
        bounds: &Bounds,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
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
                bounds: time_limits::of_search(args.time_limit.map(|limit| limit / 4), stop),
                ..options.clone()
            },
            judge(args, options)?,
            checkpoints(args),
            args.seed,
        );
        let suspicions = Suspicions::default();
        let profile = args.profile.then(Profile::default);
        let setting = Setting {
            profile: profile.as_ref(),
            args,
            stop,
            backend: &backend,
            graph: graph.as_ref(),
            suspicions: &suspicions,
            may_look_for_livelocks: asking != Asking::EachTime,
            quiet,
        };
        let rounds = Rounds {
            stages: &stages,
            bounds,
            is_scouted: matches!(args.sut.preempt, PreemptArg::Auto | PreemptArg::Memory),
            has_peers: args.peers.any_real(),
            may_look: graph.is_none() && asking != Asking::EachTime,
        };
        let result = rounds.run(options, &mut scout, &|options, config| {
            setting.search(options, config)
        })?;
        Ok(Self {
            result,
            asking,
            scout,
            suspicions,
            profile,
            graph,
            backend: backend.into_inner().unwrap_or_default(),
        })
    }

    /// Makes the counterexamples, and draws the graph if it is asked for.
    fn shown(&mut self, args: &Args, options: &Options) -> Result<Shown, Failure> {
        let result = &mut self.result;
        let mut is_suspicion = false;
        if result.violations.is_empty() && result.failure.is_none() {
            result.violations = self.suspicions.verdict(result.coverage.is_complete());
            result
                .violations
                .truncate(args.max_violations.unwrap_or(usize::MAX));
            is_suspicion = !result.violations.is_empty();
        }
        let met = met_by_walks(args, &self.scout, result);
        // What was found before stays found.
        let failed_later = match result.failure.take().map(search_failure) {
            Some(failure) if result.violations.is_empty() && met.is_empty() => return Err(failure),
            failure => failure.map(|failure| format!("the search failed later: {}", failure.reason)),
        };
        if let (Some(graph), Some(path)) = (&self.graph, &args.graph) {
            let bad = result.violations.iter().map(|found| found.path.as_slice());
            super::pictures::write_graph(path, graph, &bad.collect::<Vec<_>>())?;
        }
        let mut found = counterexamples(args, options, result, is_suspicion)?;
        let mut beyond = Vec::new();
        for met in &met {
            let made = counterexample_of_walk(args, options, met)?;
            match args.bound_preemptions.filter(|bound| made.preemptions > *bound) {
                Some(_) => beyond.push(warnings::of_beyond(&made)),
                None => found.push(made),
            }
        }
        Ok(Shown {
            found,
            beyond,
            failed_later,
        })
    }

    /// The verdict with its figures.
    fn report(
        &self,
        args: &Args,
        options: &Options,
        shown: &Shown,
        stop: &AtomicBool,
    ) -> Result<Report, Failure> {
        let (result, found) = (&self.result, &shown.found);
        let mut report = verdict::report(args.seed, result, found, self.backend.clone());
        report.schedules = report::Schedules::of(&result.counters, &self.scout, !found.is_empty());
        report.profile = self.profile.as_ref().map(Profile::told);
        if found.is_empty() && self.asking != Asking::EachTime {
            report.by_preemption = by_preemption(args, options, result, &report.outcomes, stop)?;
        }
        report.coverage = coverage::covered(
            asked(args, &self.suspicions),
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
        report.warnings.extend(shown.beyond.iter().cloned());
        report.warnings.extend(super::peers::warnings(options));
        Ok(report)
    }
}

/// Adds what was seen beside the outcomes: suspicions, and data races.
fn warn(report: &mut Report, searched: &Searched, suppressions: &Suppressions) {
    let Searched {
        suspicions, scout, ..
    } = searched;
    report.warnings.extend(suspicions.warnings());
    report.notes.extend(suspicions.notes());
    report.notes.extend(scout.weak_note());
    report.races = scout.races();
    report.races.retain(|race| !suppressions.hide_race(race));
    report.warnings.extend(warnings::of_races(&report.races));
}

/// Writes and prints the result.
fn tell(args: &Args, quiet: bool, report: &Report, found: &[Counterexample]) -> Result<(), Failure> {
    let written = args.json.as_ref().map_or(Ok(()), |path| write_json(path, report));
    let to_stdout = args.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    if !quiet && !to_stdout {
        super::summary::print(report, found)?;
    }
    let unwritten = found
        .iter()
        .filter_map(|counterexample| counterexample.path.as_ref().err());
    for failure in unwritten {
        super::report_failure(failure);
    }
    match written {
        // A violation that was found is not lost for that.
        Err(failure) if !found.is_empty() => super::report_failure(&failure),
        written => written?,
    }
    Ok(())
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
    /// Nobody is asked everything anew for that.
    may_look_for_livelocks: bool,
    quiet: bool,
}

impl Setting<'_> {
    fn search(&self, options: &Options, config: Config) -> SearchResult<CheckSystem> {
        let is_trial = config.audit == Audit::Only || matches!(config.strategy, Strategy::Straight { .. });
        let ways = Ways::default();
        let is_watched = !is_trial && self.may_look_for_livelocks && endless::is_told_by(&config);
        let observers = Observers {
            // What is tried out before the search is no part of its graph.
            graph: self.graph.filter(|_| !is_trial),
            ways: is_watched.then_some(&ways),
        };
        let mut search = Search::new(config)
            .stop_flag(self.stop)
            .memory_use(&resident_bytes);
        if observers.any() {
            search = search.observer(&observers);
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
        let mut result = result;
        if is_watched && result.coverage.is_complete() && result.failure.is_none() {
            self.look_for_livelocks(options, &ways, &mut result);
        }
        result
    }

    /// A search was complete: does every schedule have an end?
    fn look_for_livelocks(&self, options: &Options, ways: &Ways, result: &mut SearchResult<CheckSystem>) {
        let options = Options {
            bounds: time_limits::of_minimisation(),
            ..options.clone()
        };
        let make = || system(self.args, options);
        let finding = endless::look(ways, result, make, self.stop);
        // What cannot be proved is told, and no reason to lose what the search has found.
        self.suspicions
            .may_go_on_for_ever(finding.unwrap_or(endless::Finding::Unproved));
    }
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .unwrap_or(0)
        * tracee::PAGE
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
        bounds: time_limits::of_minimisation(),
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
        bounds: time_limits::of_minimisation(),
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
    if met.is_by_order {
        return maker.make_as_seen(&mut system(args, options.clone())?, &met.violation, &met.path);
    }
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
    match make(time_limits::of_minimisation(), counterexample::WALK_EFFORT) {
        Err(failure) if failure.code == ExitCode::Limit => make(options.bounds.clone(), 0),
        made => made,
    }
}
