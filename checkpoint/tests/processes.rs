//! The processes of a checkpointer: none outlives the supervisor, and none is noticed by the program.

mod common;

use checkpoint::Backend;
use common::{Guest, Machine};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

/// Set for the supervisor that is to be killed: path of the guest.
const ROLE: &str = "CHECKPOINT_TEST_SUPERVISOR";
const TEMPLATES: usize = 300;
const IDLE: &str = r#"
#include <sys/syscall.h>
#include <unistd.h>
int main(void) { for (;;) syscall(SYS_getppid); }
"#;

/// Makes hundreds of marks, says so, and waits to be killed.
fn supervise(guest: &Path) {
    let mut machine = Machine::launch(guest, Backend::Fork, &[]);
    for _ in 0..TEMPLATES {
        machine.mark();
    }
    let children = std::fs::read_to_string("/proc/thread-self/children").expect("children");
    println!("\nguests {children}");
    loop {
        assert!(machine.step());
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
fn hundreds_of_templates_die_with_a_killed_supervisor() {
    if let Some(guest) = std::env::var_os(ROLE) {
        return supervise(Path::new(&guest));
    }
    let guest = Guest::new(IDLE);
    let mut supervisor = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "hundreds_of_templates_die_with_a_killed_supervisor",
            "--nocapture",
        ])
        .env(ROLE, &guest.path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(supervisor.stdout.take().unwrap()).lines();
    let line = lines
        .map(Result::unwrap)
        .find(|line| line.starts_with("guests "))
        .expect("the guests' ids");
    let guests: Vec<_> = line
        .split_ascii_whitespace()
        .skip(1)
        .map(|pid| pidfd(pid.parse().unwrap()))
        .collect();
    assert_eq!(guests.len(), TEMPLATES + 1);
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    for guest in &guests {
        // Readable once the process is dead; not in the given time means that it lives on.
        let dead = poll(
            &mut [PollFd::new(guest.as_fd(), PollFlags::POLLIN)],
            PollTimeout::from(1000u16),
        );
        assert_eq!(dead, Ok(1), "a guest is alive");
    }
}

fn children() -> Vec<String> {
    let all = std::fs::read_to_string("/proc/thread-self/children").expect("children");
    all.split_ascii_whitespace().map(str::to_owned).collect()
}

#[test]
fn marks_that_are_given_up_leave_no_process() {
    let guest = Guest::new(IDLE);
    let before = children();
    let mut machine = guest.start(Backend::Fork, &[]);
    let saved: Vec<_> = (0..20).map(|_| machine.mark()).collect();
    assert_eq!(children().len(), before.len() + 21);
    machine.restore(&saved[3]);
    machine.try_restore(&saved[4], true).unwrap();
    assert_eq!(
        children().len(),
        before.len() + 20,
        "the mark that was used up became the task"
    );
    machine.marks.forget(saved[5].mark);
    assert_eq!(children().len(), before.len() + 19);
    drop(machine);
    assert_eq!(children(), before);
}

#[test]
fn rewinding_needs_no_process_and_leaves_no_descriptor_in_the_guest() {
    let guest = Guest::new(IDLE);
    let before = children();
    let mut machine = guest.start(Backend::Rewind, &[]);
    let pid = machine.task().pid();
    let descriptors = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let natural = {
        let mut plain = guest.start(Backend::Fork, &[]);
        let pid = plain.task().pid();
        std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
    };
    let saved: Vec<_> = (0..20).map(|_| machine.mark()).collect();
    machine.step();
    machine.restore(&saved[3]);
    assert_eq!(machine.task().pid(), pid);
    assert_eq!(children().len(), before.len() + 1);
    assert_eq!(descriptors(), natural);
}

/// Set for a run as another user.
const USER_ROLE: &str = "CHECKPOINT_TEST_USER";

/// Both backends in one go, as whoever runs this.
fn both_backends_work(guest: &Path) {
    let mut seen = Vec::new();
    for backend in common::BOTH {
        let mut machine = Machine::launch(guest, backend, &["12", "5"]);
        let (saved, dump, identity) = (machine.mark(), machine.dump(), machine.identity());
        machine.steps(8);
        let later = machine.identity();
        machine.restore(&saved);
        machine.dump().assert_same(&dump, "restored");
        assert_eq!(machine.identity(), identity);
        machine.steps(8);
        assert_eq!(machine.identity(), later);
        seen.push((identity, later));
    }
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn an_unprivileged_user_can_do_it_all() {
    if let Some(guest) = std::env::var_os(USER_ROLE) {
        assert_ne!(nix::unistd::geteuid().as_raw(), 0);
        assert!(checkpoint::probe().works(), "{:?}", checkpoint::probe());
        both_backends_work(Path::new(&guest));
        println!("\ndone as user");
        return;
    }
    if nix::unistd::geteuid().as_raw() != 0 {
        let guest = Guest::new(include_str!("guests/churn.c"));
        return both_backends_work(&guest.path);
    }
    let guest = Guest::new(include_str!("guests/churn.c"));
    // The test binary may be where another user cannot go.
    let me = guest.dir.path().join("test");
    // By another process: what other tests start at this moment would inherit the descriptor, and the file could not be executed.
    let copied = Command::new("cp")
        .arg(std::env::current_exe().unwrap())
        .arg(&me)
        .status();
    assert!(copied.unwrap().success());
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(guest.dir.path(), open).unwrap();
    let output = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
        ])
        .arg(&me)
        .args(["--exact", "an_unprivileged_user_can_do_it_all", "--nocapture"])
        .env(USER_ROLE, &guest.path)
        .output()
        .expect("setpriv");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("done as user"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_choice_is_explained() {
    let guest = Guest::new(IDLE);
    let mut machine = guest.start(Backend::Fork, &[]);
    let auto = checkpoint::best(machine.task(), Backend::Auto).unwrap();
    let expected = if checkpoint::probe().works() {
        Backend::Rewind
    } else {
        Backend::Fork
    };
    assert_eq!(auto.backend(), expected);
    assert_eq!(auto.fallback_reason().is_some(), expected == Backend::Fork);
}
