//! `tracefork replay`: a recorded schedule once more.

use checker::recovery::{self, Recovery};
use failure::{ExitCode, Failure};
use session::cores::Core;
use session::execution;
use session::network::Peers;
use session::program::Program;
use session::{Bounds, FaultPlan, Inputs, Options, Residents, Session, Walk};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use symbols::Atomics;
use syscall_model::faults::Faults;
use trace::{End, Machine, Trace};

#[derive(clap::Args)]
#[command(
    after_help = "Examples: tracefork replay tracefork-out/deadlock-1.trace --stop-at 12\n          \
                        tracefork replay tracefork-out/crash-1.trace --core core && gdb PROGRAM core"
)]
pub struct Args {
    /// A trace written by `run --trace` or by `check`.
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Stop before step N.
    #[arg(long, value_name = "N")]
    pub stop_at: Option<u64>,
    /// Write the state at the end, or at --stop-at, as a core file with all threads, for gdb; with several processes, one file each, with .PID appended.
    #[arg(long, value_name = "FILE")]
    pub core: Option<PathBuf>,
    /// Let gdb connect and step through the trace, forwards and backwards, from the start or from --stop-at.
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true,
          default_missing_value = "127.0.0.1:0", conflicts_with = "core")]
    pub gdb: Option<String>,
    /// The process that gdb sees [default: the one that the violation is in, or the first].
    #[arg(long, value_name = "PID", requires = "gdb")]
    pub process: Option<u32>,
    /// The program, if it is elsewhere on this machine.
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// Continue although the program file is not the recorded one.
    #[arg(long)]
    pub allow_changed_program: bool,
    /// Continue although files that the program used, and that are too large for the trace, are not the recorded ones.
    #[arg(long)]
    pub allow_changed_files: bool,
}

pub fn main(args: &Args, quiet: bool) -> Result<u8, Failure> {
    let trace = trace::format::read(&args.trace)?;
    let mut options = options(args.program.as_deref(), args.allow_changed_program, &trace)?;
    options.cores.clone_from(&args.core);
    if !args.allow_changed_files {
        files_are_as_recorded(&trace)?;
    }
    if let Some(address) = &args.gdb {
        crate::gdb::serve(address, options, &trace, args.process, args.stop_at)?;
        return Ok(0);
    }
    let mut execution = execution::replay(options.clone(), &trace, args.stop_at)
        .map_err(|failure| explain_by_surroundings(failure, &trace))?;
    let output = &execution.session.model().output;
    let _ = std::io::stdout().write_all(&output.stdout.bytes());
    let _ = std::io::stderr().write_all(&output.stderr.bytes());
    if !quiet {
        eprintln!(
            "tracefork: {} steps replayed, all as recorded; {}",
            execution.steps.len(),
            execution.end
        );
        if args.stop_at.is_some() || is_violation(&execution.end) {
            for line in execution.session.explain().stacks() {
                eprintln!("  {line}");
            }
        }
    }
    if let Some(path) = &args.core {
        let next = trace.steps.get(execution.steps.len()).map(|step| step.thread);
        let named = trace
            .finding
            .as_ref()
            .and_then(|finding| finding.violation.thread);
        for core in execution.session.write_cores(path, next.or(named))? {
            if !quiet {
                eprintln!("gdb {} {}", core.image.display(), core.path.display());
            }
        }
    }
    let is_whole = execution.steps.len() == trace.steps.len();
    if is_whole {
        recover(&trace, &options, &execution.session, quiet)?;
    }
    // Every step was as recorded, and so is what they show, be it a property that the trace does not hold itself.
    let finding = trace.finding.as_ref().filter(|_| is_whole);
    if let Some(finding) = finding
        && !quiet
    {
        let violation = &finding.violation;
        eprintln!("{}: {}", violation.kind.name(), violation.message);
    }
    let code = u8::from(finding.is_some() || is_violation(&execution.end));
    execution.session.finish();
    Ok(code)
}

/// What the command that was recorded makes of the files now.
fn recover(trace: &Trace, options: &Options, session: &Session, quiet: bool) -> Result<(), Failure> {
    let Some(recovery) = Recovery::new(trace.recover.clone(), &trace.config.cwd)? else {
        return Ok(());
    };
    let (recovered, _) = recovery::recover(&recovery, options, session)?;
    if !quiet {
        eprintln!("tracefork: the recovery {}", recovered.how());
        // Nobody may be there any more to read it.
        let _ = std::io::stderr().write_all(&[recovered.stdout, recovered.stderr].concat());
    }
    Ok(())
}

/// What the trace does not hold itself must be here as it was: a program that sees something else may do the same steps and yet not the same.
pub(super) fn files_are_as_recorded(trace: &Trace) -> Result<(), Failure> {
    let changed = trace.inputs.changed_files();
    if changed.is_empty() {
        return Ok(());
    }
    let failure = Failure::desync(
        "files used by the program have changed since the recording and are not in the trace",
    )
    .hint("replay with the recorded versions (in a container, or with the same package version), or use --allow-changed-files");
    Err(changed
        .iter()
        .fold(failure, |failure, path| failure.detail(path.as_str())))
}

/// A desync is most often due to a file that is another here (a library, or an input too large to carry) or to another kind of machine.
fn explain_by_surroundings(mut failure: Failure, trace: &Trace) -> Failure {
    if failure.code != ExitCode::Desync {
        return failure;
    }
    let differences = trace.machine.differences(&Machine::this());
    if !differences.is_empty() {
        failure = failure.detail(
            "the trace was recorded on a different kind of machine, where libraries may select different code:",
        );
        failure
            .details
            .extend(differences.into_iter().map(|line| format!("  {line}")));
    }
    match trace.inputs.changed_files().as_slice() {
        [] => failure,
        changed => failure.hint(format!("changed since the recording: {}", changed.join(", "))),
    }
}

fn is_violation(end: &End) -> bool {
    matches!(end, End::Killed(_) | End::Deadlock | End::Livelock)
}

/// What to run to execute a trace again.
pub(super) fn options(
    program: Option<&Path>,
    allow_changed: bool,
    trace: &Trace,
) -> Result<Options, Failure> {
    let cwd = Path::new(OsStr::from_bytes(&trace.config.cwd));
    let path = program.unwrap_or(Path::new(OsStr::from_bytes(&trace.program.path)));
    let mut program = Program::find(path.as_os_str(), cwd)?;
    program.path = of_length(&program.path, trace.program.path.len())?;
    if !allow_changed && execution::digest(&program.path)? != trace.program.digest {
        return Err(
            Failure::desync(format!("{} is not the recorded program", path.display()))
                .hint("build the recorded version, name it with --program, or use --allow-changed-program"),
        );
    }
    let recorded = trace.residents.as_ref();
    let residents = recorded.map(|record| Residents::recorded(record, cwd, allow_changed));
    let residents = residents.transpose()?;
    Ok(Options {
        program,
        argv: trace.program.argv.clone(),
        env: trace.program.env.clone(),
        config: trace.config.clone(),
        preempt: trace.preempt,
        watched: Arc::new(trace.watched.clone()),
        files: None,
        faults: FaultPlan {
            calls: Faults::from_bits_truncate(trace.faults),
            ..FaultPlan::default()
        },
        walk: trace.lent.clone().map(Walk::lending),
        atomics: Atomics::default(),
        plans: hooks::PlanCache::default(),
        core: Some(Core::take()),
        peers: Peers::recorded(&trace.communication)?,
        residents: residents.map(Arc::new),
        inputs: Inputs::recorded(&trace.inputs),
        bounds: Bounds::default(),
        confine: true,
        cores: None,
    })
}

/// The kernel puts the path on the program's stack, so one of another length would move everything below it.
/// Slashes that mean nothing make up for one that is shorter.
fn of_length(path: &Path, recorded: usize) -> Result<PathBuf, Failure> {
    let bytes = path.as_os_str().as_bytes();
    let Some(missing) = recorded.checked_sub(bytes.len()) else {
        return Err(Failure::usage(format!(
            "{}: the path is longer than the recorded one, which would move the program's stack",
            path.display()
        ))
        .hint(format!(
            "name it by a path of at most {recorded} bytes; a symbolic link will do"
        )));
    };
    let padded = [&b"/".repeat(missing), bytes].concat();
    Ok(OsString::from_vec(padded).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_as_long_as_the_recorded_one() {
        let padded = of_length(Path::new("/bin/true"), 12).expect("it is shorter");
        assert_eq!(padded, Path::new("////bin/true"));
        assert_eq!(padded.as_os_str().len(), 12);
        assert!(of_length(Path::new("/bin/true"), 8).is_err());
    }
}
