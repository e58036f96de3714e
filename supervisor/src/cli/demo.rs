//! `tracefork demo`: an embedded chat server with a real race between two clients, from start to finish, against real clients.
//!
//! It is told as a newcomer would do it: each command is shown before it is carried out, in a form that can be typed again, and what
//! is left behind is named at the end.

use super::run::{self, session_options};
use super::style::{BOLD, DIM};
use anstream::println;
use clap::{Args as _, FromArgMatches as _};
use failure::{ExitCode, Failure};
use session::execution;
use session::schedule::RandomScheduler;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use trace::End;

const SERVER: &str = include_str!("../demo/chat.c");
const CLIENT: &str = include_str!("../demo/client.c");

/// {port} is where the server listens.
const CLIENTS: [&str; 2] = ["ann=./client {port} ann", "bob=./client {port} bob"];

const PAGE: &str = "crash.html";

#[derive(clap::Args)]
#[command(after_help = "Example: tracefork demo --dir /tmp/demo")]
pub struct Args {
    /// Where the example's source, its programs, its trace and its page go.
    #[arg(long, value_name = "DIR", default_value = "tracefork-out/demo")]
    pub dir: PathBuf,
}

pub fn main(args: &Args, quiet: bool) -> Result<u8, Failure> {
    enter(&args.dir)?;
    heading("A chat server (chat.c) and its client (client.c)");
    println!(
        "The server has a thread for each client and hands whatever one says to everyone who is here. A client says hello,\n\
         waits until its own line has come back, and leaves. All that threads share is under a lock. The server is the program\n\
         that is checked; the clients are real processes, which know nothing of it.\n"
    );
    compile(&["-o", "chat", "chat.c"])?;
    compile(&["-o", "client", "client.c"])?;

    heading("1. Run once with two clients: no problem");
    let seed = harmless_seed()?.to_string();
    tracefork(
        &with_clients("run", &["--seed", &seed], "./chat"),
        quiet,
        ExitCode::Ok,
    )?;

    heading("2. Check every order in which threads and clients can act: one of them crashes the server");
    tracefork(
        &with_clients("check", &["--trace-dir", "."], "./chat"),
        quiet,
        ExitCode::Violation,
    )?;
    let trace = newest_trace()?;
    explain_crash();

    heading("3. Replay it without the clients: the trace contains their messages");
    tracefork(&["replay", &trace], quiet, ExitCode::Violation)?;

    heading("4. The same as a diagram");
    tracefork(&["show", &trace, "--html", PAGE, "--stacks"], quiet, ExitCode::Ok)?;

    heading("5. The fix: check and send under the same lock (#ifdef FIXED in chat.c)");
    compile(&["-DFIXED", "-o", "chat-fixed", "chat.c"])?;
    tracefork(&with_clients("check", &[], "./chat-fixed"), quiet, ExitCode::Ok)?;

    what_is_left(&args.dir, &trace);
    Ok(ExitCode::Ok as u8)
}

/// Makes the directory, writes the sources there and works there from now on, so that commands stay short.
fn enter(dir: &Path) -> Result<(), Failure> {
    let fail = |e: std::io::Error| {
        Failure::usage(format!("cannot write to {}: {e}", dir.display()))
            .hint("--dir takes another directory")
    };
    std::fs::create_dir_all(dir).map_err(fail)?;
    std::env::set_current_dir(dir).map_err(fail)?;
    std::fs::write("chat.c", SERVER).map_err(fail)?;
    std::fs::write("client.c", CLIENT).map_err(fail)?;
    show_command(&format!("cd {}", quoted(&dir.to_string_lossy())));
    if let Some(directory) = directory_off_the_path() {
        show_command(&format!("PATH={}:$PATH", quoted(&directory.to_string_lossy())));
    }
    Ok(())
}

/// Where this tracefork is, if a shell would not find it.
fn directory_off_the_path() -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|directory| directory.join("tracefork"))
        .find(|file| file.is_file());
    let is_this = found.is_some_and(|file| file.canonicalize().is_ok_and(|file| file == this));
    if is_this {
        None
    } else {
        this.parent().map(Path::to_owned)
    }
}

/// A tracefork command line about this program, with both clients.
fn with_clients<'a>(command: &'a str, options: &[&'a str], program: &'a str) -> Vec<&'a str> {
    let clients = CLIENTS.iter().flat_map(|client| ["--client", client]);
    let options = options.iter().copied();
    [command]
        .into_iter()
        .chain(options)
        .chain(clients)
        .chain(["--", program])
        .collect()
}

/// A seed whose schedule does not show the bug: most do not.
fn harmless_seed() -> Result<u64, Failure> {
    // By way of the command line, so that every option has the value that it has there.
    let words = with_clients("run", &[], "./chat");
    let args = run::Args::augment_args(clap::Command::new("run"))
        .try_get_matches_from(words)
        .and_then(|matches| run::Args::from_arg_matches(&matches))
        .map_err(|e| Failure::usage(e.to_string()))?;
    let mut options = session_options(&args.sut, &args.command)?;
    options.peers = args.peers.start(::peers::TimeBudget::default())?;
    options.residents = args.peers.residents(&super::run::working_directory(&options))?;
    options.config.arrivals = args.peers.arrivals();
    options.config.servers_remember = args.peers.servers_remember();
    for seed in 0..100 {
        let execution = execution::run(options.clone(), &mut RandomScheduler::new(seed), u64::MAX)?;
        let is_harmless = execution.end == End::Exited(0);
        execution.session.finish();
        if is_harmless {
            return Ok(seed);
        }
    }
    Err(Failure::internal("no schedule of the demo program ends well"))
}

fn newest_trace() -> Result<String, Failure> {
    let fail = |e: std::io::Error| Failure::usage(format!("cannot read the demo's directory: {e}"));
    let is_trace = |entry: &std::fs::DirEntry| entry.path().extension().is_some_and(|e| e == "trace");
    let newest = std::fs::read_dir(".")
        .map_err(fail)?
        .flatten()
        .filter(is_trace)
        .max_by_key(|entry| entry.metadata().and_then(|meta| meta.modified()).ok());
    let trace = newest.ok_or_else(|| Failure::internal("the check left no trace"))?;
    Ok(trace.file_name().to_string_lossy().into_owned())
}

fn explain_crash() {
    println!(
        "\nHow to read this: each line is one step of one thread, with its place in the source. Of all ways to the crash, this is\n\
         one with the fewest switches between threads. A thread asks is_here() about the other client and is told yes. Before\n\
         it goes on to tell(), that client leaves: its thread empties the seat, in the step marked !, after which nothing can\n\
         save the server. Then tell() uses the empty seat. Each function holds the lock while it looks: this is no data race,\n\
         and a race detector is silent. Arrows are what was said to and by the clients, ann and bob."
    );
}

fn what_is_left(dir: &Path, trace: &str) {
    heading("That was all");
    println!(
        "Left in {}, and to be removed with rm -r when you are done:\n  \
         chat.c, client.c        the sources, and the programs made of them: chat, chat-fixed, client\n  \
         {trace}    the counterexample: tracefork replay executes it again, on another day too\n  \
         {PAGE}              a diagram of it: open it in a browser, step with the arrow keys",
        dir.display()
    );
    println!(
        "To stand in gdb at the failing line, with the stacks of all threads:\n  \
         tracefork replay {trace} --core core; gdb -ex bt chat core\n\
         Your own program, and all that can be said about it:\n  \
         tracefork check --client 'CLIENT {{port}}' -- PROGRAM ARGS…\n  \
         tracefork check --help"
    );
}

fn compile(arguments: &[&str]) -> Result<(), Failure> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let arguments: Vec<&str> = ["-O1", "-g", "-pthread"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    show_command(&format!("{compiler} {}", arguments.join(" ")));
    let status = Command::new(&compiler).args(&arguments).status().map_err(|e| {
        Failure::unsupported(format!("no C compiler: {compiler}: {e}"))
            .hint("the demo compiles its example: apt-get install gcc, or set CC")
    })?;
    if !status.success() {
        return Err(Failure::unsupported(format!("the C compiler failed: {status}"))
            .hint("its own message is above; CC names another compiler"));
    }
    Ok(())
}

/// Shows a tracefork command and carries it out, in this process, as the command line would.
fn tracefork(arguments: &[&str], quiet: bool, expected: ExitCode) -> Result<(), Failure> {
    let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
    show_command(&format!("tracefork {}", words.join(" ")));
    let line = ["tracefork"].iter().chain(arguments).map(OsString::from);
    let code = super::execute(line, quiet)?;
    if code == expected as u8 {
        return Ok(());
    }
    Err(Failure::internal(format!(
        "tracefork {} ended with code {code} instead of {}",
        arguments[0], expected as u8
    )))
}

fn heading(text: &str) {
    println!("\n{BOLD}{text}{BOLD:#}");
}

fn show_command(command: &str) {
    println!("{DIM}${DIM:#} {command}");
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "./_-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_only_if_a_shell_would_change_them() {
        assert_eq!(quoted("./chat-1.trace"), "./chat-1.trace");
        assert_eq!(quoted("./client {port} ann"), "'./client {port} ann'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
