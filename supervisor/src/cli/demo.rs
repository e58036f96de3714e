//! `tracefork demo`: an embedded program with a real bug, from start to finish.

use super::run::{SutArgs, session_options};
use crate::error::{ExitCode, Failure};
use crate::execution;
use crate::schedule::RandomScheduler;
use crate::trace::End;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("../demo/bank.c");

#[derive(clap::Args)]
#[command(after_help = "Example: tracefork demo")]
pub struct Args {
    /// Where the program, its trace and its source go.
    #[arg(long, value_name = "DIR", default_value = "tracefork-out/demo")]
    pub dir: PathBuf,
}

pub fn main(args: &Args, quiet: bool) -> Result<u8, Failure> {
    let fail = |e: std::io::Error| Failure::usage(format!("cannot write to {}: {e}", args.dir.display()));
    std::fs::create_dir_all(&args.dir).map_err(fail)?;
    let source = args.dir.join("bank.c");
    std::fs::write(&source, SOURCE).map_err(fail)?;
    println!(
        "The program: {}\n  two tellers move money between two accounts, each account with a lock of its own.\n",
        source.display()
    );

    println!("1. As it was written, run once: all is well.");
    let buggy = compile(&source, &args.dir.join("bank"), &[])?;
    let seed = harmless_seed(&buggy)?.to_string();
    expect(
        tracefork(&["run", "--seed", &seed, "--"], &buggy, quiet)?,
        ExitCode::Ok,
        "the run",
    )?;

    println!("\n2. Every schedule explored: one of them hangs.");
    let trace_dir = args.dir.join("traces").into_os_string();
    let trace_option = OsString::from("--trace-dir");
    let check = [
        OsString::from("check"),
        trace_option.clone(),
        trace_dir.clone(),
        "--".into(),
    ];
    expect(
        tracefork(&check, &buggy, quiet)?,
        ExitCode::Violation,
        "the check of the buggy program",
    )?;

    show(Path::new(&trace_dir), &args.dir.join("deadlock.html"))?;

    println!(
        "\n3. Both tellers now take the locks in the same order (-DFIXED). Every schedule explored again."
    );
    let fixed = compile(&source, &args.dir.join("bank-fixed"), &["-DFIXED"])?;
    expect(
        tracefork(&check, &fixed, quiet)?,
        ExitCode::Ok,
        "the check of the fixed program",
    )?;

    println!("\nThe replay command above reproduces the deadlock, step by step, as often as you like.");
    println!("Your own program: tracefork check -- PROGRAM ARGS…");
    Ok(ExitCode::Ok as u8)
}

/// The page of the counterexample, there to be opened.
fn show(traces: &Path, page: &Path) -> Result<(), Failure> {
    let fail = |e: std::io::Error| Failure::usage(format!("cannot read {}: {e}", traces.display()));
    let newest = std::fs::read_dir(traces)
        .map_err(fail)?
        .flatten()
        .max_by_key(|entry| entry.metadata().and_then(|meta| meta.modified()).ok());
    let trace = newest.ok_or_else(|| Failure::desync("the check left no trace"))?;
    let options = ["show", "--html"].map(OsString::from);
    let options: Vec<OsString> = options
        .into_iter()
        .chain([page.into(), "--stacks".into()])
        .collect();
    expect(
        tracefork(&options, &trace.path(), true)?,
        ExitCode::Ok,
        "the page of the counterexample",
    )?;
    println!("A diagram of it, to be opened in a browser: {}", page.display());
    Ok(())
}

/// A seed whose schedule does not show the bug: most do not.
fn harmless_seed(program: &Path) -> Result<u64, Failure> {
    let options = session_options(&SutArgs::default(), &[program.as_os_str().to_owned()])?;
    for seed in 0..100 {
        let execution = execution::run(options.clone(), &mut RandomScheduler::new(seed), u64::MAX)?;
        let is_harmless = execution.end == End::Exited(0);
        execution.session.finish();
        if is_harmless {
            return Ok(seed);
        }
    }
    Err(Failure::desync("no schedule of the demo program ends well"))
}

fn compile(source: &Path, output: &Path, flags: &[&str]) -> Result<PathBuf, Failure> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(&compiler)
        .args(["-O1", "-g", "-pthread"])
        .args(flags)
        .arg("-o")
        .arg(output)
        .arg(source)
        .status()
        .map_err(|e| {
            Failure::unsupported(format!("no C compiler: {}: {e}", compiler.to_string_lossy()))
                .hint("the demo compiles its example: apt-get install gcc, or set CC")
        })?;
    if !status.success() {
        return Err(Failure::unsupported(format!("the C compiler failed: {status}")));
    }
    Ok(output.to_owned())
}

/// Carries out a tracefork command on a program, in this process, as the command line would.
fn tracefork<S: Into<OsString> + Clone>(options: &[S], program: &Path, quiet: bool) -> Result<u8, Failure> {
    let options: Vec<OsString> = options.iter().cloned().map(Into::into).collect();
    let words: Vec<String> = options
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    println!("$ tracefork {} {}", words.join(" "), program.display());
    let line = [OsString::from("tracefork")]
        .into_iter()
        .chain(options)
        .chain([program.as_os_str().to_owned()]);
    super::execute(line, quiet)
}

fn expect(code: u8, expected: ExitCode, what: &str) -> Result<(), Failure> {
    if code == expected as u8 {
        return Ok(());
    }
    Err(Failure::desync(format!(
        "{what} ended with code {code} instead of {}",
        expected as u8
    )))
}
