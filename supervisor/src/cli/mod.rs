//! The command line. CLI.md is its contract: add to it, never rename.

pub mod check;
mod check_args;
mod check_settings;
mod demo;
mod doctor;
mod faults;
mod guarded;
mod headings;
mod merge;
mod observers;
mod outputs;
mod packaging;
pub mod peers;
mod pictures;
mod progress;
mod replay;
mod residents;
mod run;
pub mod settings;
mod show;
mod style;
mod summary;
mod sweep;
mod time_limits;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use failure::{ExitCode as Code, Failure};
use hooks::Preempt;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

/// A software model checker for unmodified native Linux binaries.
#[derive(Parser)]
#[command(
    name = "tracefork",
    bin_name = "tracefork",
    version,
    about,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Start here:  tracefork demo
Then:        tracefork check -- PROGRAM ARGS…
             tracefork check --client '2*curl -s http://{addr}/' -- SERVER ARGS…

Exit codes:  0 explored completely, no violation    1 violation found
             2 wrong usage                          3 a limit was reached, no violation so far
             4 cannot be handled here               5 a peer or the cache failed
             6 desync                               7 a bug in tracefork"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Show every operation (-vv: more) on standard error.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Print nothing but the program's own output and errors.
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run one schedule of a program, chosen by a seed.
    Run(Box<run::Args>),
    /// Explore every schedule of a program and report what can happen.
    Check(Box<check::Args>),
    /// Execute a recorded schedule again and compare it step by step.
    Replay(replay::Args),
    /// Show a trace: as text, as a page with a diagram, or for other tools.
    Show(show::Args),
    /// Run many checks from a file in parallel and write one report.
    Sweep(sweep::Args),
    /// Combine the parts of a partitioned sweep.
    Merge(merge::Args),
    /// An embedded example, start to finish: finds a real bug and proves its fix.
    Demo(demo::Args),
    /// Check what this machine supports, and what to do about what is missing.
    Doctor(doctor::Args),
    /// Print a completion script for a shell.
    Completions(packaging::CompletionsArgs),
    /// Print the man page, or write all of them.
    Man(packaging::ManArgs),
}

/// Where threads can be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PreemptArg {
    /// As sync, and before loads and stores of shared memory without synchronization, found by trial executions.
    Auto,
    /// Before system calls, lock functions and atomic instructions.
    Sync,
    /// Before system calls only.
    Syscall,
    /// As sync, and before all loads and stores of memory that threads may share: finds data races.
    Memory,
}

impl From<PreemptArg> for Preempt {
    fn from(arg: PreemptArg) -> Self {
        match arg {
            PreemptArg::Auto => Preempt::Auto,
            PreemptArg::Sync => Preempt::Sync,
            PreemptArg::Syscall => Preempt::Syscall,
            PreemptArg::Memory => Preempt::Memory,
        }
    }
}

/// Parses the command line and carries it out.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|first| first == "__peer").is_some() {
        // Peers are started by a copy of ourselves that looks after them.
        return ::peers::peer_main(arguments);
    }
    // A limit of the size of files is an error like a full disk, and not the end. Without the handler a write is as it always was.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    ExitCode::from(guarded::run(|| execute(std::env::args_os(), false)))
}

/// The command line's definition.
fn command() -> clap::Command {
    headings::group(Cli::command())
}

/// Carries out one command line; its exit code.
fn execute(line: impl IntoIterator<Item = OsString>, quiet: bool) -> Result<u8, Failure> {
    let parsed = command().try_get_matches_from(line);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are not errors; clap prints to the right stream.
            let _ = error.print();
            return Ok(if error.use_stderr() { Code::Usage as u8 } else { 0 });
        }
    };
    init_log(cli.verbose);
    let quiet = quiet || cli.quiet;
    match &cli.command {
        Command::Run(args) => run::main(args, quiet),
        Command::Check(args) => check::main(args, quiet),
        Command::Replay(args) => replay::main(args, quiet),
        Command::Show(args) => show::main(args),
        Command::Sweep(args) => sweep::main(args, quiet),
        Command::Merge(args) => merge::main(args, quiet),
        Command::Doctor(args) => doctor::main(args),
        Command::Demo(args) => demo::main(args, quiet),
        Command::Completions(args) => packaging::completions(args),
        Command::Man(args) => packaging::man(args),
    }
}

fn report_failure(failure: &Failure) {
    let bad = style::BAD;
    if failure.reason.contains("Too many open files") {
        let hint =
            "raise the limit of open files (ulimit -n); with peers and --jobs some hundreds are needed";
        let reason = &failure.reason;
        anstream::eprintln!("{bad}tracefork:{bad:#} {reason}\n  hint: {hint}");
        return;
    }
    anstream::eprintln!("{bad}tracefork:{bad:#} {failure}");
}

fn init_log(verbose: u8) {
    use tracing::level_filters::LevelFilter;
    use tracing_subscriber::filter::Targets;
    use tracing_subscriber::prelude::*;
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let logger = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .without_time()
        .with_ansi(style::on_stderr())
        .finish();
    // The reader of ELF files complains about each name that is not UTF-8, which is its own affair.
    let its_own = match verbose {
        0 => LevelFilter::ERROR,
        _ => level,
    };
    let targets = Targets::new().with_default(level).with_target("goblin", its_own);
    // A second call, as in tests, keeps the first logger.
    let _ = logger.with(targets).try_init();
}
