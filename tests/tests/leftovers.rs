//! Whatever ends the supervisor, no process of ours stays, and no file.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use nix::sys::signal::{Signal, kill};
use tracefork_tests::observe::Scratch;
use tracefork_tests::process::{copy_program, group_of, wait_until};
use tracefork_tests::supervised::Tracefork;
use tracefork_tests::{command_under_test, guests};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials: [(&str, fn()); 9] = [
        ("processes_are_seen", processes_are_seen),
        ("killed_while_running", killed_while_running),
        ("terminated_while_running", terminated_while_running),
        ("interrupted_while_running", interrupted_while_running),
        ("killed_while_searching", killed_while_searching),
        ("killed_with_many_checkpoints", killed_with_many_checkpoints),
        ("interrupted_while_searching", interrupted_while_searching),
        ("killed_while_starting", killed_while_starting),
        ("killed_with_peers", killed_with_peers),
    ];
    // A failed assertion is a panic, which the trial reports.
    let trials = trials.into_iter().map(|(name, body)| {
        Trial::test(name, move || {
            body();
            Ok::<(), Failed>(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// How long the kernel may take to end what it was told to end.
const GRACE: Duration = Duration::from_mins(5);
/// How long a guest may take to begin on a busy machine.
const PATIENCE: Duration = Duration::from_mins(30);

/// A guest that never ends, or not soon, under a path of its own, by which its processes are known.
struct Endless {
    scratch: Scratch,
    program: PathBuf,
}

/// A guest under a path of its own.
fn copy_of(guest: &str, flags: &[&str], scratch: &Scratch) -> PathBuf {
    let guest = guests::one(guest).expect("the guest is there");
    let program = scratch.beside(&guest.name);
    let built = guest.build_with(flags).expect("the guest builds");
    copy_program(&built, &program);
    program
}

/// The processes that run a program; a dead one that is not yet reaped has no program and does not count.
fn processes_of(program: &Path) -> Vec<OsString> {
    let entries = fs::read_dir("/proc").expect("/proc is there").flatten();
    let running = |directory: &Path| fs::read_link(directory.join("exe")).is_ok_and(|exe| exe == program);
    entries
        .filter(|entry| running(&entry.path()))
        .map(|entry| entry.file_name())
        .collect()
}

impl Endless {
    fn new() -> Endless {
        Self::of("other/never_ends.c", &[])
    }

    /// More schedules than a test can wait for.
    fn search() -> Endless {
        Self::of("check/philosophers_fixed.c", &["-DN=8"])
    }

    fn of(source: &str, flags: &[&str]) -> Endless {
        let scratch = Scratch::new().expect("a temporary directory");
        let program = copy_of(source, flags, &scratch);
        Endless { scratch, program }
    }

    fn start(&self, command: &Path, mode: &[&str]) -> Child {
        // A shell that runs the tests in the background has them ignore Ctrl-C, and their children inherit that.
        let mut supervisor = Tracefork::new(Path::new("env")).command(&self.scratch.work());
        supervisor.arg("--default-signal=INT").arg(command);
        supervisor.args(mode).arg("--").arg(&self.program);
        supervisor
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        supervisor.spawn().expect("the supervisor starts")
    }

    fn wait_until(&self, limit: Duration, wanted: impl Fn(usize) -> bool, what: &str) {
        wait_until(limit, what, || wanted(processes_of(&self.program).len()));
    }
}

fn end_and_look(mode: &[&str], signal: Signal) {
    let command = command_under_test!();
    let endless = Endless::new();
    let mut supervisor = endless.start(command, mode);
    endless.wait_until(PATIENCE, |count| count > 0, "begun");
    kill(group_of(&supervisor).expect("an id"), signal).expect("the supervisor can be signalled");
    supervisor.wait().expect("the supervisor ends");
    endless.wait_until(GRACE, |count| count == 0, "gone");
}

fn killed_while_running() {
    end_and_look(&["run"], Signal::SIGKILL);
}

fn terminated_while_running() {
    end_and_look(&["run"], Signal::SIGTERM);
}

fn interrupted_while_running() {
    end_and_look(&["run"], Signal::SIGINT);
}

fn killed_while_searching() {
    end_and_look(&["check", "--no-hash", "--checkpoint", "fork"], Signal::SIGKILL);
    end_and_look(&["check", "--no-hash", "--checkpoint", "rewind"], Signal::SIGKILL);
}

/// Every checkpoint of the fork backend is a process, and all of them must go: not because somebody ends them one by one, for nobody is left who
/// could, but because the kernel ends what this supervisor traced.
fn killed_with_many_checkpoints() {
    const MANY: usize = 200;
    let endless = Endless::search();
    let options = [
        "check",
        "--search",
        "bfs",
        "--checkpoint",
        "fork",
        "--reduce",
        "none",
    ];
    let mut supervisor = endless.start(command_under_test!(), &options);
    endless.wait_until(PATIENCE, |count| count > MANY, "hundreds");
    kill(group_of(&supervisor).expect("an id"), Signal::SIGKILL).expect("the supervisor can be signalled");
    supervisor.wait().expect("the supervisor ends");
    endless.wait_until(GRACE, |count| count == 0, "gone");
}

/// Ctrl-C ends a search as a limit does: with an account of what was covered.
fn interrupted_while_searching() {
    let endless = Endless::search();
    let json = endless.scratch.beside("result.json");
    let path = json.to_str().expect("a temporary path is text");
    for backend in ["fork", "rewind"] {
        let options = [
            "check",
            "--reduce",
            "none",
            "--checkpoint",
            backend,
            "--json",
            path,
        ];
        let mut supervisor = endless.start(command_under_test!(), &options);
        endless.wait_until(PATIENCE, |count| count > 0, "begun");
        kill(group_of(&supervisor).expect("an id"), Signal::SIGINT).expect("the supervisor can be signalled");
        let status = supervisor.wait().expect("the supervisor ends");
        assert_eq!(status.code(), Some(3), "{backend}");
        let text = fs::read_to_string(&json).expect("there is a result");
        let result: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(result["verdict"], "incomplete", "{result}");
        assert!(result["notes"].to_string().contains("interrupted"), "{result}");
        endless.wait_until(GRACE, |count| count == 0, "gone");
        fs::remove_file(&json).expect("the result can be removed");
    }
}

/// The window between fork and the setting of the kernel's kill-on-exit option is the one most easily missed.
fn killed_while_starting() {
    let command = command_under_test!();
    for delay_us in (0..20_000).step_by(500) {
        let endless = Endless::new();
        let mut supervisor = endless.start(command, &["run"]);
        // Not a wait for anything: the moment of the kill is what varies.
        thread::sleep(Duration::from_micros(delay_us));
        supervisor.kill().expect("the supervisor can be killed");
        supervisor.wait().expect("the supervisor ends");
        endless.wait_until(GRACE, |count| count == 0, "gone");
    }
}

/// With a server, a client, their output, and a socket in the file system.
fn killed_with_peers() {
    let command = command_under_test!();
    let scratch = Scratch::new().expect("a temporary directory");
    let [guest, server, client] = [
        "other/serves_for_ever.c",
        "peers/lines_server.c",
        "peers/lines_client.c",
    ]
    .map(|guest| copy_of(guest, &[], &scratch));
    let temporary = scratch.beside("temporary");
    fs::create_dir(&temporary).expect("a directory");
    let sockets = ["ours", "theirs"].map(|name| scratch.beside(name));
    let [ours, theirs] = sockets.each_ref().map(|socket| socket.display().to_string());
    let mut supervisor = Tracefork::new(command).command(&scratch.work());
    supervisor.env("TMPDIR", &temporary).args(["check", "--no-hash"]);
    supervisor.args(["--server", &format!("{} {theirs} alphabet", server.display())]);
    supervisor.args(["--client", &format!("{} {ours} chat 0 1", client.display())]);
    supervisor.arg("--").arg(&guest).arg(&ours);
    let quiet = supervisor
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut supervisor = quiet.spawn().expect("the supervisor starts");
    let all = [&guest, &server, &client];
    wait_until(PATIENCE, "begun", || {
        all.iter().all(|program| !processes_of(program).is_empty()) && sockets[0].exists()
    });
    kill(group_of(&supervisor).expect("an id"), Signal::SIGKILL).expect("the supervisor can be killed");
    supervisor.wait().expect("the supervisor ends");
    wait_until(GRACE, "gone", || {
        all.iter().all(|program| processes_of(program).is_empty())
    });
    wait_until(GRACE, "removed", || !sockets[0].exists());
    let left: Vec<_> = fs::read_dir(&temporary).expect("it is there").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The test's own means: a process of the guest is seen while it runs and not afterwards.
fn processes_are_seen() {
    let endless = Endless::new();
    let mut native = std::process::Command::new(&endless.program)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    endless.wait_until(PATIENCE, |count| count == 1, "begun");
    native.kill().expect("it can be killed");
    native.wait().expect("it ends");
    endless.wait_until(GRACE, |count| count == 0, "gone");
}
