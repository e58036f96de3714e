//! A peer that never rests: does it compute, or does it only look for input, again and again?
//!
//! `/proc` shows that it runs, and not what it does. So a task that has run for long without a word is followed for some system calls by `ptrace`. If all it
//! does is to look (`select` that returns at once because it may write, `poll` without patience, reads of what is not there), then it waits for
//! something, only not in its sleep, and will not say anything before it is told something, or before some time that it waits for has come.

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// Calls that are looked at.
const CALLS: usize = 48;
/// As many of them must look for something.
const LOOKS: usize = 12;
/// One that computes makes no calls, or few, in so much time on a processor.
const BOUND: Duration = Duration::from_millis(300);
/// One that has no processor is waited for no longer than this.
const LONGEST: Duration = Duration::from_secs(5);

/// Does this task, which runs, make nothing but calls that look for input?
pub(crate) fn only_looks(tid: u32) -> bool {
    let Some(mut follower) = Follower::attach(tid) else {
        return false;
    };
    let mut looks = 0;
    for _ in 0..CALLS {
        match follower.next_call() {
            Some(Effect::Look) => looks += 1,
            Some(Effect::Harmless) => {}
            Some(Effect::Other) | None => return false,
        }
    }
    looks >= LOOKS
}

/// What a call does, as far as waiting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Looks for input or room.
    Look,
    /// Tells something about the task, or the time.
    Harmless,
    Other,
}

fn effect_of(nr: i64, result: i64) -> Effect {
    let nothing = result == -i64::from(libc::EAGAIN);
    match nr {
        libc::SYS_poll | libc::SYS_ppoll | libc::SYS_select | libc::SYS_pselect6 => Effect::Look,
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Effect::Look,
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg if nothing => Effect::Look,
        libc::SYS_accept | libc::SYS_accept4 if nothing => Effect::Look,
        libc::SYS_sched_yield | libc::SYS_clock_gettime | libc::SYS_gettimeofday | libc::SYS_time => {
            Effect::Harmless
        }
        libc::SYS_getrusage | libc::SYS_times | libc::SYS_getpid | libc::SYS_gettid => Effect::Harmless,
        _ => Effect::Other,
    }
}

/// How long a task was on a processor in all its life.
fn time_run(pid: Pid) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let nanos = text
        .split_ascii_whitespace()
        .next()
        .and_then(|word| word.parse().ok());
    nanos.map_or(Duration::ZERO, Duration::from_nanos)
}

/// Traces a task, and lets it go when dropped.
struct Follower {
    pid: Pid,
    /// Since when it is waited for, and how long it had run by then.
    since: (Instant, Duration),
    stopped: bool,
    gone: bool,
}

impl Follower {
    /// `None` if it may not be traced, or somebody else does it.
    fn attach(tid: u32) -> Option<Follower> {
        let pid = Pid::from_raw(i32::try_from(tid).ok()?);
        ptrace::seize(pid, Options::PTRACE_O_TRACESYSGOOD).ok()?;
        let mut follower = Follower {
            pid,
            since: (Instant::now(), time_run(pid)),
            stopped: false,
            gone: false,
        };
        ptrace::interrupt(pid).ok()?;
        follower.wait()?;
        Some(follower)
    }

    /// Has it had too little time on a processor to tell?
    fn may_yet_stop(&self) -> bool {
        let (start, had_run) = self.since;
        let elapsed = start.elapsed();
        elapsed < BOUND || elapsed < LONGEST && time_run(self.pid).saturating_sub(had_run) < BOUND
    }

    /// The next stop, if there is one in time.
    fn wait(&mut self) -> Option<WaitStatus> {
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::__WALL;
        loop {
            match waitpid(self.pid, Some(flags)) {
                Ok(WaitStatus::StillAlive) if self.may_yet_stop() => std::thread::yield_now(),
                Ok(WaitStatus::StillAlive) => return None,
                Ok(status @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..))) => {
                    self.gone = true;
                    return Some(status);
                }
                Ok(status) => {
                    self.stopped = true;
                    return Some(status);
                }
                Err(Errno::EINTR) => {}
                Err(_) => {
                    self.gone = true;
                    return None;
                }
            }
        }
    }

    fn go_on(&mut self, signal: Option<Signal>) -> Option<()> {
        self.stopped = false;
        ptrace::syscall(self.pid, signal).ok()
    }

    /// Lets the task go on to the end of its next call.
    fn next_call(&mut self) -> Option<Effect> {
        let mut signal = None;
        loop {
            self.go_on(signal.take())?;
            match self.wait()? {
                WaitStatus::PtraceSyscall(_) => {
                    let regs = ptrace::getregs(self.pid).ok()?;
                    let result = regs.rax.cast_signed();
                    // That is what stands there when a call begins.
                    if result != -i64::from(libc::ENOSYS) {
                        return Some(effect_of(regs.orig_rax.cast_signed(), result));
                    }
                }
                WaitStatus::Stopped(_, received) => signal = Some(received),
                _ => return None,
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        if !self.stopped {
            self.since = (Instant::now(), time_run(self.pid));
            // Only a task that stands can be let go; one that is stuck in the kernel goes with us.
            if ptrace::interrupt(self.pid).is_err() || self.wait().is_none() {
                return;
            }
        }
        let _ = ptrace::detach(self.pid, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn of(program: &str) -> bool {
        let mut child = Command::new("python3")
            .args(["-c", program])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut ready = [0; 3];
        let mut out = child.stdout.take().expect("a pipe");
        std::io::Read::read_exact(&mut out, &mut ready).expect("it is ready");
        let found = only_looks(child.id());
        // It runs on as if nothing had been.
        assert_eq!(child.try_wait().expect("wait"), None);
        child.kill().expect("kill");
        child.wait().expect("wait");
        found
    }

    /// What a program has to do before it is ready is not looked at.
    fn program(before: &str, forever: &str) -> String {
        format!("import os, select, socket\n{before}\nos.write(1, b'ok\\n')\nwhile True:\n  {forever}")
    }

    #[test]
    fn who_looks_again_and_again_is_told_from_who_works() {
        let looks = program("a, b = socket.socketpair()", "select.select([a], [b], [])");
        // However little of a processor it gets; no more than one time in a while it has none at all.
        assert!((0..20).any(|_| of(&looks)));
        assert!(!of(&program("n = 0", "n += 1")));
        let works = program(
            "f = os.open('/dev/null', os.O_WRONLY)",
            "os.write(f, b'x'); select.select([], [f], [])",
        );
        assert!(!of(&works));
    }
}
