//! `tracefork replay --core`: what the real gdb sees in the core files.

use std::path::{Path, PathBuf};
use std::process::Command;

use tracefork_tests::directives::End;
use tracefork_tests::observe::{Invocation, Scratch, TIME_LIMIT};
use tracefork_tests::supervised::Tracefork;
use tracefork_tests::{command_under_test, guests, packages, process};

/// A guest's counterexample, and its core file as gdb reads it.
struct Case {
    scratch: Scratch,
    program: PathBuf,
    trace: PathBuf,
}

impl Case {
    fn new(guest: &str) -> Case {
        let scratch = Scratch::new().expect("a directory");
        let program = guests::one(guest)
            .and_then(|guest| guest.build())
            .expect("the guest builds");
        let invocation = Invocation {
            program: program.clone(),
            args: Vec::new(),
            stdin: Vec::new(),
        };
        let checked = Tracefork::new(command_under_test!())
            .check(&invocation, &[], &scratch)
            .expect("a result");
        let trace = checked.result["violations"][0]["trace"].as_str();
        let trace = scratch.work().join(trace.expect("a counterexample"));
        Case {
            scratch,
            program,
            trace,
        }
    }

    fn core(&self, options: &[&str]) -> PathBuf {
        let core = self.scratch.beside("core");
        let mut command = Tracefork::new(command_under_test!()).command(&self.scratch.work());
        command
            .arg("replay")
            .arg(&self.trace)
            .arg("--core")
            .arg(&core)
            .args(options);
        let finished = process::run(command, TIME_LIMIT).expect("it ends");
        let said = String::from_utf8_lossy(&finished.stderr).into_owned();
        assert!(matches!(finished.end, End::Exit(0 | 1)), "{said}");
        assert!(
            said.contains(&format!("gdb {} ", self.program.display())),
            "{said}"
        );
        core
    }

    fn gdb(&self, core: &Path, commands: &[&str]) -> String {
        let gdb = packages::command("gdb", "gdb").expect("gdb");
        let mut command = Command::new(gdb);
        command.args(["-nx", "-batch", "-iex", "set debuginfod enabled off"]);
        for line in commands {
            command.args(["-ex", line]);
        }
        command.arg(&self.program).arg(core);
        command.env_clear().envs(tracefork_tests::ENVIRONMENT);
        let finished = process::run(command, TIME_LIMIT).expect("gdb ends");
        let text = String::from_utf8_lossy(&[finished.stdout, finished.stderr].concat()).into_owned();
        assert!(!text.contains("warning:"), "gdb complains:\n{text}");
        text
    }
}

/// What gdb says of one thread: from its heading to the next.
fn thread(text: &str, tid: u32) -> &str {
    let heading = format!("LWP {tid}");
    let after = text
        .rfind(&heading)
        .map(|at| &text[at..])
        .unwrap_or_else(|| panic!("no thread {tid} in\n{text}"));
    after.split("\nThread ").next().unwrap_or(after)
}

#[test]
fn every_thread_of_a_deadlock_has_its_stack() {
    let case = Case::new("check/lock_order_buggy.c");
    let core = case.core(&[]);
    let text = case.gdb(&core, &["thread apply all bt"]);
    for (tid, functions) in [
        (1000, &["join", "main"]),
        (1001, &["pthread_mutex_lock", "transfer"]),
        (1002, &["pthread_mutex_lock", "audit"]),
    ] {
        for function in functions {
            assert!(
                thread(&text, tid).contains(function),
                "thread {tid} is not in {function}:\n{text}"
            );
        }
    }
    assert!(text.contains("lock_order_buggy.c:"), "{text}");
}

#[test]
fn memory_and_code_are_the_programs_own() {
    let case = Case::new("check/lock_order_buggy.c");
    let core = case.core(&[]);
    let text = case.gdb(
        &core,
        &[
            "print balance",
            "print accounts.__data.__owner",
            "x/1xb pthread_mutex_lock",
            "x/1xb pthread_mutex_unlock",
        ],
    );
    assert!(text.contains("$1 = 9"), "{text}");
    assert!(text.contains("$2 = 1001"), "{text}");
    assert!(!text.contains("0xcc"), "a hook is left in the code:\n{text}");
}

#[test]
fn the_thread_that_crashed_comes_first_with_its_signal() {
    let case = Case::new("check/double_free_buggy.c");
    let text = case.gdb(&case.core(&[]), &["bt"]);
    assert!(text.contains("terminated with signal SIGSEGV"), "{text}");
    assert!(text.contains("release"), "{text}");
    let case = Case::new("check/atomicity_buggy.c");
    let text = case.gdb(&case.core(&[]), &["bt"]);
    assert!(text.contains("terminated with signal SIGABRT"), "{text}");
    assert!(text.contains("main") && text.contains("balance >= 0"), "{text}");
}

#[test]
fn a_state_on_the_way_can_be_looked_at() {
    let case = Case::new("check/lock_order_buggy.c");
    let steps = trace::format::read(&case.trace).expect("a trace").steps;
    // Before the first step of the second thread nobody has touched the balance.
    let first = steps
        .iter()
        .position(|step| step.thread == 1001)
        .expect("the thread runs");
    let text = case.gdb(
        &case.core(&["--stop-at", &first.to_string()]),
        &["print balance", "info threads"],
    );
    assert!(text.contains("$1 = 10"), "{text}");
    // The thread that goes next is the one that gdb shows.
    let current = text
        .lines()
        .find(|line| line.starts_with('*'))
        .expect("a current thread");
    assert!(current.contains("LWP 1001"), "{text}");
}

#[test]
fn every_process_has_its_core() {
    let case = Case::new("check/process_crash_buggy.c");
    let core = case.core(&[]);
    assert!(!core.exists(), "which process would it be of?");
    let of = |pid: u32| core.with_file_name(format!("core.{pid}"));
    let text = case.gdb(&of(1001), &["bt", "info threads"]);
    assert!(text.contains("terminated with signal SIGSEGV"), "{text}");
    assert!(text.contains("lengthen (times=0, text=0x0)"), "{text}");
    assert!(text.contains("LWP 1001") && !text.contains("LWP 1000"), "{text}");
    let text = case.gdb(&of(1000), &["bt", "info threads"]);
    assert!(!text.contains("SIGSEGV") && text.contains("LWP 1000"), "{text}");
    // Where both are there, the state is that of both.
    let case = Case::new("check/process_pipes_buggy.c");
    let core = case.core(&[]);
    for pid in [1000, 1001] {
        let text = case.gdb(&core.with_file_name(format!("core.{pid}")), &["bt"]);
        assert!(text.contains("both (first="), "process {pid}:\n{text}");
    }
}
