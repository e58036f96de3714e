//! No guest outlives its supervisor, not even one that is killed with `SIGKILL`.

mod common;

use common::{Guest, launch, next, prepared};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use tracee::{Outcome, Resume};

/// Set for the supervisor: path of the guest.
const ROLE: &str = "TRACEE_TEST_SUPERVISOR";

/// The supervisor to be killed: one guest runs, a copy of it is stopped.
fn supervise(guest: &OsStr) {
    let mut task = next(prepared(&launch(guest, &["guest"], &[]), false).0);
    let copy = task.inject_fork().expect("fork");
    println!("\nguests {} {}", task.pid(), copy.pid());
    let running = task.resume(Resume::Cont, None).expect("resume");
    match running.wait_ignoring_ticks() {
        Ok(Outcome::Stopped(_)) | Err(_) => panic!("the guest never stops"),
        Ok(_) => drop(copy),
    }
}

fn pidfd(pid: i32) -> OwnedFd {
    // SAFETY: no memory is involved; the new descriptor is owned by the result alone.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        assert!(fd >= 0, "pidfd_open");
        OwnedFd::from_raw_fd(fd as i32)
    }
}

#[test]
fn guests_die_with_their_supervisor() {
    if let Some(guest) = std::env::var_os(ROLE) {
        return supervise(&guest);
    }
    let guest = Guest::new("void guest(u64 *s) { getpid(); for (;;) ; }");
    let mut supervisor = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "guests_die_with_their_supervisor", "--nocapture"])
        .env(ROLE, guest.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(supervisor.stdout.take().unwrap()).lines();
    let line = lines
        .map(Result::unwrap)
        .find(|line| line.starts_with("guests "))
        .expect("the guests' ids");
    let guests: Vec<_> = line
        .split(' ')
        .skip(1)
        .map(|pid| pidfd(pid.parse().unwrap()))
        .collect();
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    for guest in &guests {
        // Readable once the process is dead; not in the given time means that it lives on.
        let dead = poll(
            &mut [PollFd::new(guest.as_fd(), PollFlags::POLLIN)],
            PollTimeout::from(10_000u16),
        );
        assert_eq!(dead, Ok(1), "a guest is alive");
    }
}
