//! Peer processes, seen from the supervisor: start, output, exit status, and a sure end.

use crate::address::Address;
use crate::config::TimeBudget;
use crate::error::{PeerError, ended};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// How to get to [`crate::host::peer_main`]: a program and the arguments before the verb.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments.
    pub args: Vec<OsString>,
}

impl Default for Launcher {
    fn default() -> Launcher {
        Launcher {
            program: PathBuf::from("/proc/self/exe"),
            args: vec!["__peer".into()],
        }
    }
}

/// A running peer. Dropping it kills it and everything it has started, and waits until that is done.
#[derive(Debug)]
pub struct Process {
    /// How reports call it.
    pub name: String,
    host: Child,
    main: i32,
    status: ChildStdout,
    unread: Vec<u8>,
    exit: Option<i32>,
    gone: bool,
    output: File,
}

impl Process {
    /// Starts `argv`, its output going to the file `output`, which needs no name: whatever becomes of us, nothing of it is left behind.
    ///
    /// # Errors
    /// The program cannot be executed.
    pub fn spawn(
        launcher: &Launcher,
        name: &str,
        argv: &[String],
        env: &[(String, String)],
        output: File,
    ) -> Result<Process, PeerError> {
        Process::spawn_in(launcher, name, argv, env, output, Path::new("."))
    }

    /// The same, in a working directory of its own.
    ///
    /// # Errors
    /// The program cannot be executed.
    pub fn spawn_in(
        launcher: &Launcher,
        name: &str,
        argv: &[String],
        env: &[(String, String)],
        output: File,
        directory: &Path,
    ) -> Result<Process, PeerError> {
        let failed = |reason: String, last_output: String| PeerError::Start {
            name: name.to_string(),
            reason,
            last_output,
        };
        let given = output
            .try_clone()
            .map_err(|error| failed(format!("its output: {error}"), String::new()))?;
        let mut host = Command::new(&launcher.program)
            .args(&launcher.args)
            .args(["host", "--"])
            .args(argv)
            .envs(env.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(given)
            .process_group(0)
            .current_dir(directory)
            .spawn()
            .map_err(|error| failed(format!("{}: {error}", launcher.program.display()), String::new()))?;
        let Some(status) = host.stdout.take() else {
            return Err(failed("no status pipe".into(), String::new()));
        };
        fcntl(&status, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .map_err(|error| failed(error.to_string(), String::new()))?;
        let mut process = Process {
            name: name.to_string(),
            host,
            main: 0,
            status,
            unread: Vec::new(),
            exit: None,
            gone: false,
            output,
        };
        loop {
            match process.next_line() {
                Some(line) => {
                    let main = line.strip_prefix("spawned ").and_then(|pid| pid.parse().ok());
                    process.main = main.ok_or_else(|| failed(line, process.last_output()))?;
                    return Ok(process);
                }
                None if process.gone => {
                    return Err(failed("its host process ended".into(), process.last_output()));
                }
                None => process.wait_news(-1),
            }
        }
    }

    /// The host's process id: the root of everything that this peer consists of.
    #[must_use]
    pub fn host_pid(&self) -> u32 {
        self.host.id()
    }

    /// The command's own process id. It may belong to somebody else once the command has ended.
    #[must_use]
    pub fn main_pid(&self) -> i32 {
        self.main
    }

    /// Readable when there is news about the process.
    #[must_use]
    pub fn news(&self) -> BorrowedFd<'_> {
        self.status.as_fd()
    }

    /// Waits for news, up to so many milliseconds (negative: without end).
    pub fn wait_news(&self, ms: i32) {
        let timeout = PollTimeout::try_from(ms).unwrap_or(PollTimeout::NONE);
        // An interrupted wait is only a short one: every caller loops.
        let _ = poll(
            &mut [PollFd::new(self.status.as_fd(), PollFlags::POLLIN)],
            timeout,
        );
    }

    fn next_line(&mut self) -> Option<String> {
        let mut buffer = [0; 256];
        loop {
            if let Some(end) = self.unread.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Some(String::from_utf8_lossy(&line).trim_end().to_string());
            }
            match self.status.read(&mut buffer) {
                Ok(0) => {
                    self.gone = true;
                    return None;
                }
                Ok(n) => self.unread.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// The status the command ended with, if it has ended: negative for a signal.
    pub fn exit_status(&mut self) -> Option<i32> {
        while let Some(line) = self.next_line() {
            if let Some(status) = line.strip_prefix("exited ").and_then(|s| s.parse().ok()) {
                self.exit = Some(status);
            }
        }
        self.exit
    }

    /// The same, when it is known to have ended: its host may not have got round to saying so.
    pub fn wait_exit(&mut self) -> Option<i32> {
        /// In all, ten seconds: a host that somebody has stopped says nothing for ever.
        const LOOKS: usize = 100;
        for _ in 0..LOOKS {
            if self.exit_status().is_some() || self.gone {
                break;
            }
            self.wait_news(100);
        }
        self.exit
    }

    /// The command and all its descendants have ended.
    pub fn is_gone(&mut self) -> bool {
        self.exit_status();
        self.gone
    }

    /// The last lines that it printed.
    #[must_use]
    pub fn last_output(&self) -> String {
        const LINES: usize = 20;
        const BYTES: u64 = 8192;
        let length = self.output.metadata().map_or(0, |meta| meta.len());
        let start = length.saturating_sub(BYTES);
        let mut text = vec![0; (length - start) as usize];
        // Shorter than it was: the peer has emptied it meanwhile.
        let read = self.output.read_at(&mut text, start).unwrap_or(0);
        let text = String::from_utf8_lossy(&text[..read]).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Waits until `ready` holds, the process ends, or the time is over; `ready` is asked again whenever something may have changed.
    ///
    /// # Errors
    /// It ended or took too long, or the command as a whole has no more time.
    pub fn wait_until(
        &mut self,
        (bound, time_budget): (std::time::Duration, &TimeBudget),
        what: &str,
        mut ready: impl FnMut(&Process) -> bool,
    ) -> Result<(), PeerError> {
        let started = std::time::Instant::now();
        let mut pause = 1;
        while !ready(self) {
            let reason = match self.exit_status() {
                // Status 0 with processes left: it went into the background.
                Some(status) if status != 0 || self.gone => {
                    Some(format!("{} before it {what}", ended(status)))
                }
                _ if started.elapsed() > bound => Some(format!("it has not {what} within {bound:?}")),
                _ => None,
            };
            if let Some(reason) = reason {
                return Err(PeerError::Start {
                    name: self.name.clone(),
                    reason,
                    last_output: self.last_output(),
                });
            }
            if time_budget.is_over() {
                return Err(PeerError::BrokenOff {
                    name: self.name.clone(),
                });
            }
            self.wait_news(pause);
            pause = (pause * 2).min(20);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.host.stdin.take());
        if let Err(error) = self.host.wait() {
            tracing::warn!("peer {}: waiting for its host: {error}", self.name);
        }
    }
}

/// All living descendants of a process, zombies left out.
#[must_use]
pub fn descendants(root: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut todo = vec![root];
    while let Some(pid) = todo.pop() {
        let Ok(process) = procfs::process::Process::new(pid as i32) else {
            continue;
        };
        if pid != root {
            match process.stat() {
                Ok(stat) if !matches!(stat.state, 'Z' | 'X') => found.push(pid),
                _ => continue,
            }
        }
        for task in process.tasks().into_iter().flatten().flatten() {
            todo.extend(task.children().unwrap_or_default());
        }
    }
    found
}

/// The socket inodes that these processes hold.
#[must_use]
pub fn socket_inodes(pids: &[u32]) -> HashSet<u64> {
    let mut inodes = HashSet::new();
    for &pid in pids {
        let Ok(fds) = procfs::process::Process::new(pid as i32).and_then(|p| p.fd()) else {
            continue;
        };
        inodes.extend(fds.flatten().filter_map(|fd| match fd.target {
            procfs::process::FDTarget::Socket(inode) => Some(inode),
            _ => None,
        }));
    }
    inodes
}

/// A copy of the descriptor by which a process holds the socket with this inode; `None` also where the kernel does not allow it.
#[must_use]
pub fn copy_of_socket(pid: u32, inode: u64) -> Option<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let fds = procfs::process::Process::new(pid as i32).and_then(|process| process.fd());
    let is_wanted = |fd: &procfs::process::FDInfo| match fd.target {
        procfs::process::FDTarget::Socket(found) => found == inode,
        _ => false,
    };
    let fd = fds.ok()?.flatten().find(is_wanted)?.fd;
    let process = pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()?;
    pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).ok()
}

/// The inodes of all sockets on this machine that wait for connections (or, for UDP, are bound and unconnected), with the address each is bound to.
#[must_use]
pub fn listening_inodes() -> Vec<(u64, Address)> {
    use procfs::net::{TcpState, UdpState, UnixState};
    let tcp = procfs::net::tcp()
        .into_iter()
        .chain(procfs::net::tcp6())
        .flatten();
    let tcp = tcp
        .filter(|e| e.state == TcpState::Listen)
        .map(|e| (e.inode, Address::Tcp(e.local_address)));
    let udp = procfs::net::udp()
        .into_iter()
        .chain(procfs::net::udp6())
        .flatten();
    let udp = udp
        .filter(|e| e.state == UdpState::Close)
        .map(|e| (e.inode, Address::Udp(e.local_address)));
    // A bound stream socket that is not connected listens, or is about to.
    let unix = procfs::net::unix().into_iter().flatten();
    let unix =
        unix.filter(|e| e.state == UnixState::UNCONNECTED && i32::from(e.socket_type) == libc::SOCK_STREAM);
    let unix = unix.filter_map(|e| {
        let mut name = e.path?.into_os_string().into_vec();
        if name.first() == Some(&b'@') {
            name[0] = 0;
        }
        Some((e.inode, Address::Unix(name)))
    });
    tcp.chain(udp).chain(unix).collect()
}
