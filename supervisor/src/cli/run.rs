//! `tracefork run`: one schedule.

use super::PreemptArg;
use super::peers::PeerArgs;
use super::style::BAD;
use crate::shim;
use checker::Properties;
use checker::counterexample::Needs;
use checker::masking::{self, Shown};
use checker::report::{self, Outcome, Report, Verdict, Violation};
use failure::Failure;
use session::cores::Core;
use session::execution::{self, Execution};
use session::network::Peers;
use session::program::Program;
use session::schedule::RandomScheduler;
use session::{Bounds, Environment, FaultPlan, Inputs, Options};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use symbols::Atomics;
use syscall_model::Config;
use syscall_model::clock::DEFAULT_EPOCH_SECONDS;
use syscall_model::fs::{self, View};
use syscall_model::net::Arrivals;
use trace::{End, escape};

#[derive(clap::Args)]
#[command(after_help = "Example: tracefork run --seed 7 --trace t.trace -- xz -T4 -c file > file.xz")]
pub struct Args {
    /// Chooses the schedule, and when data of peers arrives: the same seed gives the same execution. With 0 all data arrives at once.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    pub sut: SutArgs,
    #[command(flatten)]
    pub peers: PeerArgs,
    /// Write the schedule to FILE, for `tracefork replay`.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Take the schedule from this trace instead of a seed.
    #[arg(long, value_name = "TRACE", conflicts_with = "seed")]
    pub schedule: Option<PathBuf>,
    /// Write the result as JSON to FILE, - for standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Run twice and compare; a difference is exit code 6.
    #[arg(long)]
    pub check_determinism: bool,
    /// Apply the program's file changes to the real file system at the end.
    #[arg(long)]
    pub apply_writes: bool,
    /// Write the files that the program created or changed to DIR, each under its full path; existing files are replaced.
    #[arg(long, value_name = "DIR")]
    pub export_writes: Option<PathBuf>,
    /// Exit with the program's own status instead of tracefork's (128+N for a signal N).
    #[arg(long)]
    pub forward_exit: bool,
    /// Stop after this many steps (exit code 3).
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    pub max_depth: u64,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

/// How the program under test is started; the same for `run` and `check`.
#[derive(clap::Args)]
pub struct SutArgs {
    /// Where threads can be switched.
    #[arg(long, value_enum, default_value = "auto")]
    pub preempt: PreemptArg,
    /// What the program reads from standard input (default: nothing).
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<PathBuf>,
    /// Working directory of the program.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Set an environment variable for the program (repeatable).
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Start with an empty environment.
    #[arg(long)]
    pub clear_env: bool,
    /// Keep the values of all environment variables in traces. By default, values that a replay does not need are masked, since they may be secrets.
    #[arg(long)]
    pub keep_env: bool,
    /// Seed of the random numbers that the program gets from the system.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub random_seed: u64,
    /// Processors that the program is told of.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub cpus: u32,
    /// Seconds since 1970 on the program's clock when it starts.
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_EPOCH_SECONDS, value_parser = clap::value_parser!(u64).range(1_000_000..=4_000_000_000))]
    pub epoch: u64,
    /// Do not use Landlock and a separate network namespace to confine the program.
    #[arg(long)]
    pub no_confinement: bool,
}

/// What the program can be given to read: it is kept in memory, and in traces.
const LARGEST_STDIN: u64 = 128 << 20;

/// The virtual process id: small, and not one of the system's own.
pub const VIRTUAL_PID: u32 = 1000;

pub fn main(args: &Args, quiet: bool) -> Result<u8, Failure> {
    let started = Instant::now();
    let finished = run(args, quiet, started);
    if let Err(failure) = &finished
        && let Some(printed) = &failure.printed
        && !is_to_stdout(args)
    {
        // Why it ended is what the user must see; that the rest could not be shown is not.
        let _ = show(&printed.stdout, &printed.stderr);
    }
    if let (Err(failure), Some(path)) = (&finished, &args.json) {
        let report = Report {
            verdict: Verdict::Error,
            error: Some(failure.reason.clone()),
            ..header(args.seed, started)
        };
        // The reason itself is what the user must see; that it could not be written down as well is not.
        let _ = write_json(path, &report);
    }
    finished
}

fn run(args: &Args, quiet: bool, started: Instant) -> Result<u8, Failure> {
    let mut options = session_options(&args.sut, &args.command)?;
    options.peers = args.peers.start(::peers::TimeBudget::default())?;
    options.residents = args.peers.residents(&working_directory(&options))?;
    options.config.arrivals = args.peers.arrivals();
    options.config.servers_remember = args.peers.servers_remember();
    let execution = execute(args, &options)?;
    if args.check_determinism {
        check_again(args, &options, &execution)?;
    }
    // Before anything is applied: the program's own file may be among what it wrote.
    let mut note = None;
    if let Some(path) = &args.trace {
        let mut trace = execution.trace(&options, args.seed)?;
        if !args.sut.keep_env {
            note = masking::mask(&mut trace, &options, &Shown::of(&execution.session))?;
        }
        trace::format::write(path, &trace)?;
    }
    keep_writes(args, &execution)?;
    options.peers.save()?;
    if !is_to_stdout(args) {
        let output = &execution.session.model().output;
        show(&output.stdout.bytes(), &output.stderr.bytes())?;
    }
    let mut report = report(args, &execution, started);
    report.warnings.extend(super::peers::barred(&options.peers));
    report.notes.extend(note);
    report.notes.extend(super::peers::notes(&options.peers));
    report.warnings.extend(super::peers::warnings(&options));
    if !quiet {
        explain(&execution, &report);
    }
    if let Some(path) = &args.json {
        write_json(path, &report)?;
    }
    let code = exit_code(args, &execution, &report);
    execution.session.finish();
    Ok(code)
}

fn execute(args: &Args, options: &Options) -> Result<Execution, Failure> {
    match &args.schedule {
        Some(path) => execution::replay(options.clone(), &trace::format::read(path)?, None),
        None => execution::run(
            options.clone(),
            &mut RandomScheduler::new(args.seed),
            args.max_depth,
        ),
    }
}

fn check_again(args: &Args, options: &Options, first: &Execution) -> Result<(), Failure> {
    let second = execute(args, options)?;
    let steps = first.steps.iter().zip(&second.steps).enumerate();
    for (at, (expected, actual)) in steps {
        if expected != actual {
            return Err(execution::differs(at as u64, expected, actual));
        }
    }
    let same = first.steps.len() == second.steps.len()
        && first.end == second.end
        && first.session.model().output == second.session.model().output;
    if !same {
        return Err(
            Failure::desync("desync at the end: two runs of one schedule ended differently")
                .detail(format!("first:  {} after {} steps", first.end, first.steps.len()))
                .detail(format!(
                    "second: {} after {} steps",
                    second.end,
                    second.steps.len()
                )),
        );
    }
    second.session.finish();
    Ok(())
}

/// What to run, from the command line.
pub fn session_options(args: &SutArgs, command: &[OsString]) -> Result<Options, Failure> {
    let here = std::env::current_dir().map_err(|e| Failure::usage(format!("no current directory: {e}")))?;
    let cwd = args
        .cwd
        .as_ref()
        .map_or_else(|| here.clone(), |dir| here.join(dir));
    if !cwd.is_dir() {
        return Err(Failure::usage(format!("{}: not a directory", cwd.display()))
            .hint("--cwd takes an existing directory"));
    }
    let name = command
        .first()
        .ok_or_else(|| Failure::usage("no program given"))?;
    let program = Program::find(name, &cwd)?;
    let mut argv: Vec<Vec<u8>> = command.iter().map(|arg| arg.as_bytes().to_vec()).collect();
    let program = match shim::resolve(&program.path, &cwd)? {
        None => program,
        Some(path) => {
            // As the shim would have it: programs that find their files by their own name look there.
            argv[0] = path.as_os_str().as_bytes().to_vec();
            Program::find(path.as_os_str(), &cwd)?
        }
    };
    let config = Config {
        pid: VIRTUAL_PID,
        epoch_seconds: args.epoch,
        random_seed: args.random_seed,
        cpus: args.cpus,
        cwd: cwd.into_os_string().into_vec(),
        program: program.path.as_os_str().as_bytes().to_vec(),
        stdin: stdin_bytes(args)?,
        umask: 0o022,
        uid: nix::unistd::geteuid().as_raw(),
        gid: nix::unistd::getegid().as_raw(),
        groups: groups()?,
        arrivals: Arrivals::Ordered,
        servers_remember: false,
    };
    Ok(Options {
        argv,
        env: environment(args)?,
        config,
        preempt: args.preempt.into(),
        watched: Arc::default(),
        files: None,
        faults: FaultPlan::default(),
        walk: None,
        atomics: Atomics::default(),
        plans: hooks::PlanCache::default(),
        core: Some(Core::take()),
        peers: Peers::default(),
        residents: None,
        inputs: Inputs::default(),
        bounds: Bounds::default(),
        confine: !args.no_confinement,
        cores: None,
        program,
    })
}

/// Where the program begins, and peers that are processes beside it.
pub fn working_directory(options: &Options) -> PathBuf {
    OsString::from_vec(options.config.cwd.clone()).into()
}

fn stdin_bytes(args: &SutArgs) -> Result<Vec<u8>, Failure> {
    match &args.stdin {
        None => Ok(Vec::new()),
        Some(path) => peers::read_bounded(path, LARGEST_STDIN).map_err(|e| {
            Failure::usage(format!("{}: {e}", path.display())).hint("--stdin takes a readable file")
        }),
    }
}

fn environment(args: &SutArgs) -> Result<Environment, Failure> {
    let mut env: Environment = if args.clear_env {
        Vec::new()
    } else {
        std::env::vars_os()
            .map(|(k, v)| (k.into_vec(), v.into_vec()))
            .collect()
    };
    // Sorted: the order in which a shell hands them over is an accident.
    env.sort();
    for assignment in &args.env {
        let (name, value) = assignment.split_once('=').ok_or_else(|| {
            Failure::usage(format!("--env {assignment}: not of the form NAME=VALUE"))
                .hint(format!("to set it to nothing: --env {assignment}="))
        })?;
        env.retain(|(k, _)| k != name.as_bytes());
        env.push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    }
    Ok(env)
}

fn groups() -> Result<Vec<u32>, Failure> {
    let groups = nix::unistd::getgroups().map_err(|e| Failure::unsupported(format!("getgroups: {e}")))?;
    Ok(groups.into_iter().map(|gid| gid.as_raw()).collect())
}

/// Does the result take the place of the program's output?
fn is_to_stdout(args: &Args) -> bool {
    args.json.as_deref().is_some_and(|path| path.as_os_str() == "-")
}

/// What the program has printed, where it would have printed it.
fn show(stdout: &[u8], stderr: &[u8]) -> Result<(), Failure> {
    let write = |mut to: Box<dyn Write>, bytes: &[u8]| to.write_all(bytes).and_then(|()| to.flush());
    let written =
        write(Box::new(std::io::stderr()), stderr).and_then(|()| write(Box::new(std::io::stdout()), stdout));
    match written {
        // Whoever reads our output has read enough, as with `| head`.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|e| Failure::usage(format!("cannot write the program's output: {e}"))),
    }
}

/// The program's file changes, as asked for: in place, or below a directory.
fn keep_writes(args: &Args, execution: &Execution) -> Result<(), Failure> {
    if !args.apply_writes && args.export_writes.is_none() {
        return Ok(());
    }
    let view = View {
        model: execution.session.model(),
        host: execution.session.host(),
        tid: VIRTUAL_PID,
    };
    let changes = fs::changes(&view)
        .map_err(|errno| Failure::usage(format!("cannot collect the program's file changes: {errno}")))?;
    if let Some(root) = &args.export_writes {
        fs::export(&changes, root).map_err(|e| {
            Failure::usage(format!(
                "cannot export the file changes to {}: {e}",
                root.display()
            ))
            .hint("--export-writes takes a directory that can be written to")
        })?;
    }
    if args.apply_writes {
        fs::apply(&changes).map_err(|e| {
            Failure::usage(format!("cannot apply the program's file changes: {e}"))
                .hint("some of them may be in place; --export-writes DIR puts them elsewhere")
        })?;
    }
    Ok(())
}

/// A result that says nothing yet but what it is about.
fn header(seed: u64, started: Instant) -> Report {
    Report {
        time_s: started.elapsed().as_secs_f64(),
        peak_rss_bytes: report::peak_rss_bytes(),
        seed,
        version: env!("CARGO_PKG_VERSION"),
        ..Report::default()
    }
}

fn report(args: &Args, execution: &Execution, started: Instant) -> Report {
    let model = execution.session.model();
    let (exit, signal) = match execution.end {
        End::Exited(status) => (Some(status), None),
        End::Killed(signal) => (None, Some(signal)),
        End::Deadlock | End::Livelock | End::Cut | End::Idle => (None, None),
    };
    let outcome = Outcome {
        exit,
        signal,
        idle: execution.end == End::Idle,
        deadlock: execution.end == End::Deadlock,
        livelock: execution.end == End::Livelock,
        stdout: escape(&model.output.stdout.bytes()),
        stderr: escape(&model.output.stderr.bytes()),
        recovery: None,
        files: Default::default(),
        sent: report::sent_text(&execution.session.residency().sent()),
        processes: execution
            .session
            .ended_children()
            .iter()
            .map(|end| report::ProcessOutcome::of(&(end.command.clone(), end.ended)))
            .collect(),
        executions: 1,
    };
    let violations: Vec<Violation> = violation(args, execution).into_iter().collect();
    let verdict = match (&execution.end, violations.is_empty()) {
        (End::Cut, _) => Verdict::Incomplete,
        (_, true) => Verdict::Ok,
        (_, false) => Verdict::Violation,
    };
    let steps = execution.steps.len() as u64;
    Report {
        verdict,
        violations,
        transitions: steps,
        executions: u64::from(execution.end != End::Cut),
        max_depth: steps,
        cache: Some(report::Cache::of(execution.session.network().peers())),
        outcomes: if execution.end == End::Cut {
            Vec::new()
        } else {
            vec![outcome]
        },
        ..header(args.seed, started)
    }
}

/// What `check` would say of this execution, in the same words.
fn violation(args: &Args, execution: &Execution) -> Option<Violation> {
    let found = Properties::default().violations(&execution.session, &execution.end);
    found.into_iter().next().map(|found| Violation {
        kind: found.kind.name(),
        message: found.message,
        thread: found.thread,
        trace: args.trace.as_ref().map(|path| path.display().to_string()),
        steps: execution.steps.len() as u64,
        preemptions: execution.preemptions,
        late_answers: Needs::of(&execution.steps).late_answers,
        faults: 0,
        stacks: execution.session.explain().stacks(),
    })
}

fn explain(execution: &Execution, report: &Report) {
    for violation in &report.violations {
        let (kind, message) = (violation.kind, &violation.message);
        anstream::eprintln!("tracefork: {BAD}{kind}{BAD:#}: {message}");
        for line in &violation.stacks {
            eprintln!("  {line}");
        }
    }
    match execution.end {
        End::Exited(0) => {}
        End::Exited(status) => eprintln!("tracefork: the program exited with status {status}"),
        End::Cut => eprintln!("tracefork: stopped after {} steps", report.transitions),
        _ => {}
    }
    for warning in &report.warnings {
        eprintln!("tracefork: warning: {warning}");
    }
    for note in &report.notes {
        eprintln!("tracefork: note: {note}");
    }
}

/// Writes the report.
pub fn write_json(path: &std::path::Path, report: &Report) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(report)
        .map_err(|e| Failure::internal(format!("cannot encode the result: {e}")))?;
    text.push('\n');
    let written = if path.as_os_str() == "-" {
        std::io::stdout().write_all(text.as_bytes())
    } else {
        ::peers::write_whole(path, text.as_bytes())
    };
    written.map_err(|e| {
        Failure::usage(format!("cannot write {}: {e}", path.display()))
            .hint("--json takes a file in a directory that can be written to, or -")
    })
}

fn exit_code(args: &Args, execution: &Execution, report: &Report) -> u8 {
    if args.forward_exit {
        match execution.end {
            End::Exited(status) => return status as u8,
            End::Killed(signal) => return 128 + signal as u8,
            End::Deadlock | End::Livelock | End::Cut | End::Idle => {}
        }
    }
    report.verdict.exit_code() as u8
}
