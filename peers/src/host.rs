//! The process between the supervisor and a peer: it lives as long as the peer does, and no longer than the supervisor.
//!
//! `tracefork __peer host OUTPUT -- CMD…` makes itself a subreaper, starts `CMD`, and reports on its standard output (`spawned PID`, `failed WHY`,
//! `exited STATUS`). Its standard input is a pipe from the supervisor on which nothing is ever sent: when it ends, whatever became of the supervisor
//! (SIGKILL included), the host kills all descendants. As a subreaper it inherits every orphan, so a descendant cannot hide by daemonising.
//!
//! `tracefork __peer exec HOST -- CMD…` is the step in between that asks the kernel to kill `CMD` if the host itself is killed, and then becomes `CMD`. Both are re-executions of our own binary
//! because code between fork and exec would have to be unsafe.

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;

/// What the binary's `__peer` subcommand does with the arguments that follow it.
pub fn peer_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let (Some(verb), Some(operand), Some(dashes), Some(command)) =
        (args.first(), args.get(1), args.get(2), args.get(3..))
    else {
        eprintln!("usage: __peer host OUTPUT -- CMD… | __peer exec HOST -- CMD…");
        return ExitCode::from(2);
    };
    let result = match verb.to_str() {
        Some("host") if dashes == "--" => host(operand, command),
        Some("exec") if dashes == "--" => exec(operand, command),
        _ => Err(std::io::Error::other("unknown verb")),
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

fn host(output: &OsString, command: &[OsString]) -> std::io::Result<()> {
    nix::sys::prctl::set_child_subreaper(true)?;
    let out = std::fs::File::options().create(true).append(true).open(output)?;
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
    std::thread::spawn(kill_all_at_end_of_input);
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

fn kill_all_at_end_of_input() {
    let mut sink = [0; 64];
    let mut input = std::io::stdin().lock();
    loop {
        match input.read(&mut sink) {
            Ok(0) => break,
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => break,
            _ => {}
        }
    }
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
