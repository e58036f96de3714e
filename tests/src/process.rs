//! Running a command with a hard time limit, in its own process group, which is killed when the limit
//! has passed, so that no test leaves a process or hangs.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::directives::End;

/// What a finished command left.
#[derive(Clone, Debug)]
pub struct Finished {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub end: End,
}

/// Waits for a condition that only looking again and again can tell; fails if it does not hold within `limit`.
#[track_caller]
pub fn wait_until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < deadline, "not {what} within {limit:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Runs `command` to its end; kills its process group and fails if that takes longer than `limit`.
pub fn run(mut command: Command, limit: Duration) -> Result<Finished> {
    command
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    let group = group_of(&child)?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        // The receiver is gone if the limit has passed; then nobody asks for the status.
        let _ = sender.send(child.wait());
    });
    let status = match ended.recv_timeout(limit) {
        Ok(status) => Some(status.context("waiting for the command")?),
        Err(_) => {
            // It may have ended just now; then there is no group to kill.
            let _ = killpg(group, Signal::SIGKILL);
            None
        }
    };
    // A process that outlives its leader keeps the pipes open, so reading is bounded as well.
    let patience = Duration::from_secs(120);
    let (stdout, stderr) = (stdout.recv_timeout(patience), stderr.recv_timeout(patience));
    let Some(status) = status else {
        let shown =
            |bytes: Result<Vec<u8>, _>| String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        bail!(
            "{command:?} did not end within {limit:?}; stdout so far:\n{}\nstderr so far:\n{}",
            shown(stdout),
            shown(stderr)
        );
    };
    let (Ok(stdout), Ok(stderr)) = (stdout, stderr) else {
        bail!("{command:?} ended, but a process it left behind still holds its output");
    };
    Ok(Finished {
        stdout,
        stderr,
        end: end_of(status)?,
    })
}

/// Copies a program that is to be executed. By another process: a descriptor that is open for writing here would be inherited by whatever another thread
/// starts at this moment, and as long as that has it the program is busy (ETXTBSY).
pub fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").arg(from).arg(to).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "cp of {}",
        from.display()
    );
}

/// How a process ended.
pub fn end_of(status: ExitStatus) -> Result<End> {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ok(End::Exit(code)),
        (None, Some(signal)) => Ok(End::Signal(signal)),
        (None, None) => bail!("neither exit nor signal: {status}"),
    }
}

/// The process group that `child` leads.
pub fn group_of(child: &Child) -> Result<Pid> {
    Ok(Pid::from_raw(
        i32::try_from(child.id()).context("a process id is positive and small")?,
    ))
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What could be read is kept; a pipe has no errors that a test cares about.
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collects_output_and_status() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let finished = run(command, Duration::from_mins(10)).expect("runs");
        assert_eq!(
            (&finished.stdout[..], &finished.stderr[..]),
            (&b"out\n"[..], &b"err\n"[..])
        );
        assert_eq!(finished.end, End::Exit(3));
    }

    #[test]
    fn kills_what_does_not_end() {
        // How long it takes to begin depends on the machine.
        let mut limit = Duration::from_millis(300);
        loop {
            let mut command = Command::new("sh");
            command.args(["-c", "echo begun; sleep 100000 & sleep 100000"]);
            let error = run(command, limit).expect_err("is killed");
            if error.to_string().contains("begun") {
                break;
            }
            limit *= 4;
            assert!(limit < Duration::from_mins(10), "{error}");
        }
    }
}
