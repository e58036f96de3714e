//! What the command says to bad input: the documented exit code, a reason in one line, and a hint; never a panic.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use tracefork_tests::directives::End;
use tracefork_tests::observe::Scratch;
use tracefork_tests::process::{self, Finished};
use tracefork_tests::supervised::Tracefork;
use tracefork_tests::{command_under_test, guests};

const WRONG_USAGE: i32 = 2;
const CANNOT_BE_HANDLED: i32 = 4;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials: [(&str, fn()); 17] = [
        ("missing_program", missing_program),
        ("directory", directory),
        ("file_that_is_not_executable", file_that_is_not_executable),
        ("script_without_interpreter", script_without_interpreter),
        ("empty_file", empty_file),
        ("truncated_program", truncated_program),
        ("program_of_32_bits", program_of_32_bits),
        ("program_for_another_machine", program_for_another_machine),
        ("setuid_program", setuid_program),
        ("unreadable_program", unreadable_program),
        ("bad_option_values", bad_option_values),
        ("bad_command_lines", bad_command_lines),
        ("bad_paths", bad_paths),
        ("bad_traces", bad_traces),
        ("unsupported_call", unsupported_call),
        ("too_little_memory", too_little_memory),
        ("without_arguments", without_arguments),
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

/// Runs `tracefork ARGS` and looks at the form of its complaint; gives what it said.
fn complaint(args: &[&str], code: i32, hint: &[&str]) -> String {
    let scratch = Scratch::new().expect("a temporary directory");
    let command = Tracefork::new(command_under_test!()).command(&scratch.work());
    complaint_of(command, args, code, hint)
}

fn complaint_of(mut command: Command, args: &[&str], code: i32, hint: &[&str]) -> String {
    command.args(args);
    let Finished { stdout, stderr, end } = process::run(command, Duration::from_mins(30)).expect("it ends");
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(end, End::Exit(code), "{args:?} said:\n{said}");
    assert!(
        stdout.is_empty(),
        "complaints belong on standard error, not {}",
        String::from_utf8_lossy(&stdout)
    );
    assert!(
        !said.contains("panicked") && !said.contains("RUST_BACKTRACE"),
        "{said}"
    );
    let first = said.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("error: ") || first.starts_with("tracefork: "),
        "the first line is the reason:\n{said}"
    );
    assert!(hint.iter().any(|hint| said.contains(hint)), "no hint in:\n{said}");
    assert!(said.lines().count() <= 20, "too much to read:\n{said}");
    said
}

/// A program that cannot be handled: exit code 4, the program named, a hint.
fn cannot_run(program: &Path, reason: &[&str]) {
    let program = program.to_str().expect("a test path is text");
    for command in ["run", "check"] {
        let said = complaint(&[command, "--", program], CANNOT_BE_HANDLED, &["hint: "]);
        let name = program.rsplit('/').next().unwrap_or(program);
        assert!(said.contains(name), "{program} is not named in:\n{said}");
        let lower = said.to_lowercase();
        assert!(
            reason.iter().any(|word| lower.contains(word)),
            "none of {reason:?} in:\n{said}"
        );
    }
}

fn bad_usage(args: &[&str], named: &str) {
    let hints = ["hint: ", "tip: ", "--help"];
    let said = complaint(args, WRONG_USAGE, &hints);
    assert!(said.contains(named), "{named} is not named in:\n{said}");
}

fn file_in(scratch: &Scratch, name: &str, mode: u32, content: &[u8]) -> PathBuf {
    let file = scratch.work().join(name);
    fs::write(&file, content).expect("a file can be written");
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its mode can be set");
    file
}

/// A proper program, its header changed.
fn patched_program(changes: &[(usize, u8)]) -> Vec<u8> {
    let guest = guests::one("run/thread_create_join.c")
        .and_then(|g| g.build())
        .expect("the guest builds");
    let mut bytes = fs::read(guest).expect("it can be read");
    for (offset, byte) in changes {
        bytes[*offset] = *byte;
    }
    bytes
}

const CLASS: usize = 4;
const MACHINE: usize = 18;

fn missing_program() {
    cannot_run(Path::new("/no/such/program"), &["no such program", "not found"]);
    cannot_run(
        Path::new("no-such-command-on-the-path"),
        &["no such program", "not found"],
    );
}

fn directory() {
    let scratch = Scratch::new().expect("a temporary directory");
    cannot_run(&scratch.work(), &["directory"]);
}

fn file_that_is_not_executable() {
    let scratch = Scratch::new().expect("a temporary directory");
    cannot_run(
        &file_in(&scratch, "plain", 0o644, &patched_program(&[])),
        &["execut", "permission"],
    );
}

fn script_without_interpreter() {
    let scratch = Scratch::new().expect("a temporary directory");
    cannot_run(
        &file_in(&scratch, "script", 0o755, b"echo hello\n"),
        &["#!", "interpreter", "not an elf"],
    );
    let missing = file_in(
        &scratch,
        "script2",
        0o755,
        b"#!/no/such/interpreter\necho hello\n",
    );
    cannot_run(&missing, &["interpreter"]);
}

fn empty_file() {
    let scratch = Scratch::new().expect("a temporary directory");
    cannot_run(
        &file_in(&scratch, "empty", 0o755, b""),
        &["empty", "not an elf", "not a program"],
    );
}

fn truncated_program() {
    let scratch = Scratch::new().expect("a temporary directory");
    let half = &patched_program(&[])[..40];
    cannot_run(
        &file_in(&scratch, "truncated", 0o755, half),
        &["elf", "truncated", "damaged"],
    );
}

fn program_of_32_bits() {
    let scratch = Scratch::new().expect("a temporary directory");
    let bytes = patched_program(&[(CLASS, 1), (MACHINE, 3)]);
    cannot_run(&file_in(&scratch, "narrow", 0o755, &bytes), &["32-bit", "32 bit"]);
}

fn program_for_another_machine() {
    let scratch = Scratch::new().expect("a temporary directory");
    let bytes = patched_program(&[(MACHINE, 0xb7)]);
    cannot_run(
        &file_in(&scratch, "foreign", 0o755, &bytes),
        &["aarch64", "arm", "x86-64", "architecture"],
    );
}

fn setuid_program() {
    let scratch = Scratch::new().expect("a temporary directory");
    cannot_run(
        &file_in(&scratch, "privileged", 0o4755, &patched_program(&[])),
        &["setuid", "set-user-id"],
    );
}

/// Root may read everything, so this is asked as nobody, with a copy of the command that nobody can reach.
fn unreadable_program() {
    let scratch = Scratch::new().expect("a temporary directory");
    let program = file_in(&scratch, "unreadable", 0o711, &patched_program(&[]));
    if !nix::unistd::geteuid().is_root() {
        fs::set_permissions(&program, fs::Permissions::from_mode(0o111)).expect("its mode can be set");
        return cannot_run(&program, &["permission", "read"]);
    }
    let copy = file_in(
        &scratch,
        "tracefork",
        0o755,
        &fs::read(command_under_test!()).expect("the command can be read"),
    );
    for directory in scratch.work().ancestors().take(2) {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("its mode can be set");
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(copy)
        .current_dir(scratch.work());
    let args = ["run", "--", program.to_str().expect("a test path is text")];
    let said = complaint_of(command, &args, CANNOT_BE_HANDLED, &["hint: "]).to_lowercase();
    assert!(said.contains("permission") || said.contains("read"), "{said}");
}

fn bad_option_values() {
    for (option, value) in [
        ("--seed", "many"),
        ("--seed", "-1"),
        ("--preempt", "never"),
        ("--search", "sideways"),
        ("--reduce", "everything"),
        ("--checkpoint", "maybe"),
        ("--cache", "warm"),
        ("--max-states", "few"),
        ("--time-limit", "soon"),
        ("--memory-limit", "lots"),
        ("--jobs", "0"),
        ("--expect-exit", "zero"),
        ("--forbid", "("),
    ] {
        let argument = format!("{option}={value}");
        bad_usage(&["check", &argument, "--", "/bin/true"], option);
    }
    bad_usage(&["run", "--seed=many", "--", "/bin/true"], "--seed");
    bad_usage(&["run", "--preempt=never", "--", "/bin/true"], "--preempt");
    bad_usage(
        &["run", "--stdin=/no/such/file", "--", "/bin/true"],
        "/no/such/file",
    );
}

fn bad_command_lines() {
    bad_usage(&["run"], "PROGRAM");
    bad_usage(&["check", "--"], "PROGRAM");
    bad_usage(&["explode"], "explode");
    bad_usage(
        &["run", "--no-such-option", "--", "/bin/true"],
        "--no-such-option",
    );
    bad_usage(&["replay"], "TRACE");
    bad_usage(&["run", "--env", "NOVALUE", "--", "/bin/true"], "NOVALUE");
    bad_usage(&["run", "--cpus", "0", "--", "/bin/true"], "--cpus");
    bad_usage(
        &["run", "--seed", "1", "--schedule", "x", "--", "/bin/true"],
        "--schedule",
    );
}

/// Files and directories that cannot be what an option wants.
fn bad_paths() {
    bad_usage(&["run", "--cwd=/no/such", "--", "/bin/true"], "/no/such");
    bad_usage(&["run", "--cwd=/etc/passwd", "--", "/bin/true"], "/etc/passwd");
    bad_usage(&["run", "--stdin=/etc", "--", "/bin/true"], "/etc");
    bad_usage(&["run", "--schedule=/no/such", "--", "/bin/true"], "/no/such");
    bad_usage(
        &["run", "--trace=/no/such/dir/t", "--", "/bin/true"],
        "/no/such/dir/t",
    );
    bad_usage(
        &["run", "--json=/no/such/dir/j", "--", "/bin/true"],
        "/no/such/dir/j",
    );
    bad_usage(&["run", "--export-writes=/proc/x", "--", "/bin/true"], "/proc/x");
}

/// Missing, foreign, damaged and cut-off traces.
fn bad_traces() {
    let scratch = Scratch::new().expect("a temporary directory");
    let trace = scratch.work().join("trace");
    let mut command = Tracefork::new(command_under_test!()).command(&scratch.work());
    command.args(["run", "--trace", "trace", "--", "/bin/true"]);
    process::run(command, Duration::from_mins(30)).expect("it runs");
    let good = fs::read(&trace).expect("the trace is written");
    bad_usage(&["replay", "/no/such/trace"], "/no/such/trace");
    let mut damaged = good.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let mut newer = good.clone();
    newer[10] = 99;
    let cases: [(&str, &[u8], &str); 5] = [
        ("damaged", &damaged, "checksum"),
        ("cut off", &good[..good.len() / 2], "checksum"),
        ("newer", &newer, "version 99"),
        ("foreign", b"hello, I am no trace", "trace"),
        ("empty", b"", "trace"),
    ];
    for (name, bytes, reason) in cases {
        let file = file_in(&scratch, name, 0o644, bytes);
        let file = file.to_str().expect("a test path is text");
        bad_usage(&["replay", file], reason);
        bad_usage(&["run", "--schedule", file, "--", "/bin/true"], reason);
    }
}

/// A call that is not modelled: named with its arguments, the thread, and from where it was made.
fn unsupported_call() {
    // What `ipcs` asks for: all segments of the machine.
    let program = "import ctypes; ctypes.CDLL(None).syscall(31, 0, 14, 0)";
    let said = complaint(
        &["run", "--", "python3", "-c", program],
        CANNOT_BE_HANDLED,
        &["hint: "],
    );
    assert!(said.contains("shmctl(") && said.contains("thread 1000"), "{said}");
    assert!(
        said.contains("syscall") && said.contains("#0"),
        "no backtrace in:\n{said}"
    );
}

/// Whatever a process may have of memory, it says in words that it has no more.
fn too_little_memory() {
    let scratch = Scratch::new().expect("a directory");
    let guest = guests::one("check/lock_order_buggy.c").and_then(|guest| guest.build());
    let guest = guest.expect("a guest");
    let mut said_so = false;
    for megabytes in (32..144).step_by(8) {
        let mut command = Command::new("sh");
        let script = format!("ulimit -v {}; exec \"$@\"", megabytes * 1024);
        command.args(["-c", &script, "sh"]).arg(command_under_test!());
        command.args(["check", "--quiet", "--"]).arg(&guest);
        command.current_dir(scratch.work());
        let output = command.output().expect("sh runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(3) => {
                assert!(said.contains("out of memory"), "{megabytes} MB: {said}");
                said_so = true;
            }
            // Enough, or too little to start with.
            Some(1 | 4 | 127) => {}
            other => panic!("{megabytes} MB: {other:?}\n{said}"),
        }
    }
    assert!(said_so, "there was always enough");
}

/// Nothing at all asks for help: how to use it, as an error.
fn without_arguments() {
    let scratch = Scratch::new().expect("a temporary directory");
    let command = Tracefork::new(command_under_test!()).command(&scratch.work());
    let finished = process::run(command, Duration::from_mins(30)).expect("it ends");
    assert_eq!(finished.end, End::Exit(WRONG_USAGE));
    let said = String::from_utf8_lossy(&finished.stderr);
    assert!(said.contains("Usage:") && said.contains("doctor"), "{said}");
}
