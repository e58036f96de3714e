//! The process between the supervisor and a peer: it lives as long as the peer does, and no longer than the supervisor.
//!
//! `tracefork __peer host -- CMD…` makes itself a subreaper, starts `CMD` with its own standard error as the command's output, and reports on its standard output
//! (`spawned PID`, `failed WHY`, `exited STATUS`). Its standard input is a pipe from the supervisor on which nothing is ever sent: when it ends, whatever became of the supervisor
//! (SIGKILL included), the host kills all descendants. As a subreaper it inherits every orphan, so a descendant cannot hide by daemonising.
//!
//! `tracefork __peer exec HOST -- CMD…` is the step in between that asks the kernel to kill `CMD` if the host itself is killed, and then becomes `CMD`. Both are re-executions of our own binary
//! because code between fork and exec would have to be unsafe.
//!
//! `tracefork __peer tidy -- PATH` outlives the supervisor in the same way, to remove the one kind of file that needs a name: the socket at which the SUT's clients find it.

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;

/// What the binary's `__peer` subcommand does with the arguments that follow it.
pub fn peer_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let mut parts = args.splitn(2, |arg| arg == "--");
    let verb = parts.next().unwrap_or_default();
    let command = parts.next().unwrap_or_default();
    let result = match (verb.first().and_then(|verb| verb.to_str()), verb.get(1)) {
        (Some("host"), None) => host(command),
        (Some("exec"), Some(host)) => exec(host, command),
        (Some("tidy"), None) => tidy(command),
        _ => {
            eprintln!("usage: __peer host -- CMD… | __peer exec HOST -- CMD… | __peer tidy -- PATH");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("failed {error}"));
            ExitCode::from(127)
        }
    }
}

fn exec(host: &OsString, command: &[OsString]) -> std::io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The host may have died before the line above took effect.
    if nix::unistd::getppid().as_raw().to_string().as_str() != host {
        return Err(std::io::Error::other("the host is gone"));
    }
    let (program, args) = command
        .split_first()
        .ok_or_else(|| std::io::Error::other("no command"))?;
    let error = Command::new(program).args(args).exec();
    eprintln!("{}: {error}", program.display());
    // The shell's convention for a command that cannot be executed.
    std::process::exit(127)
}

fn host(command: &[OsString]) -> std::io::Result<()> {
    nix::sys::prctl::set_child_subreaper(true)?;
    let out = std::io::stderr().as_fd().try_clone_to_owned()?;
    // Everything before the verb is how our binary gets to `peer_main`.
    let prefix: Vec<OsString> = std::env::args_os()
        .skip(1)
        .take_while(|arg| arg != "host")
        .collect();
    let child = Command::new("/proc/self/exe")
        .args(prefix)
        .args([
            OsString::from("exec"),
            std::process::id().to_string().into(),
            "--".into(),
        ])
        .args(command)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .process_group(0)
        .spawn()?;
    let main = Pid::from_raw(child.id() as i32);
    report(&format!("spawned {main}"));
    std::thread::Builder::new().spawn(kill_all_at_end_of_input)?;
    reap(main);
    Ok(())
}

/// Held while children are killed, and while one is reaped: the number of a child that nobody has reaped belongs to nobody else, so that a kill
/// cannot hit a stranger who got the number since.
static REAPING: Mutex<()> = Mutex::new(());

/// Reaps everything, the adopted orphans too, and reports how the command itself ended.
fn reap(main: Pid) {
    loop {
        let ended = match waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            Ok(ended) => ended.pid(),
            Err(nix::Error::EINTR) => continue,
            Err(_) => return,
        };
        let _held = REAPING.lock();
        let (pid, status) = match waitpid(ended, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, status)) => (pid, status),
            Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, -(signal as i32)),
            _ => continue,
        };
        if pid == main {
            report(&format!("exited {status}"));
        }
    }
}

/// Waits until the supervisor is done with us, or is no more; returns what it sent.
fn end_of_input() -> Vec<u8> {
    let mut all = Vec::new();
    // An error is an end too: nobody is there any more.
    let _ = std::io::stdin().lock().read_to_end(&mut all);
    all
}

/// Removes the file at a path when the supervisor is no more, if it is the one that the supervisor has made and told us of (`DEVICE INODE`).
fn tidy(paths: &[OsString]) -> std::io::Result<()> {
    report("ready");
    let told = end_of_input();
    for path in paths {
        let Ok(meta) = std::fs::symlink_metadata(path) else {
            continue;
        };
        if format!("{} {}", meta.dev(), meta.ino()).as_bytes() == told {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn kill_all_at_end_of_input() {
    end_of_input();
    // Whose parent is killed becomes a child of ours, and is killed next time round.
    loop {
        let held = REAPING.lock();
        let children = children();
        if children.is_empty() {
            std::process::exit(0);
        }
        for child in children {
            let _ = kill(child, Signal::SIGKILL);
        }
        drop(held);
        std::thread::yield_now();
    }
}

/// Our own children, those not reaped yet included.
fn children() -> Vec<Pid> {
    let tasks = procfs::process::Process::myself().and_then(|me| me.tasks());
    let children = tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|task| task.children().ok());
    children.flatten().map(|pid| Pid::from_raw(pid as i32)).collect()
}

/// One line to the supervisor. If nobody reads it any more, the end of input is about to end us anyway.
fn report(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
