//! `tracefork replay --gdb`: the real gdb goes through a counterexample, forwards and backwards.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use tracefork_tests::directives::End;
use tracefork_tests::observe::{Invocation, Scratch, TIME_LIMIT};
use tracefork_tests::process::wait_until;
use tracefork_tests::supervised::Tracefork;
use tracefork_tests::{command_under_test, guests, packages, process};

/// What gdb prints when it does this with the trace of a deadlock of two locks.
fn session(options: &[&str], commands: &[&str]) -> String {
    counterexample("check/lock_order_buggy.c", &[], options, commands)
}

/// The same with what a check of a guest finds.
fn counterexample(guest: &str, how: &[&str], options: &[&str], commands: &[&str]) -> String {
    let scratch = Scratch::new().expect("a directory");
    let program = guests::one(guest)
        .and_then(|guest| guest.build())
        .expect("the guest builds");
    let invocation = Invocation {
        program: program.clone(),
        args: Vec::new(),
        stdin: Vec::new(),
    };
    let tracefork = Tracefork::new(command_under_test!());
    let checked = tracefork.check(&invocation, how, &scratch).expect("a result");
    let trace = checked.result["violations"][0]["trace"].as_str();
    let trace: PathBuf = scratch.work().join(trace.expect("a counterexample"));
    serve(&scratch, &program, &trace, options, commands)
}

/// The same with one execution of a guest.
fn recorded(guest: &str, commands: &[&str]) -> String {
    let scratch = Scratch::new().expect("a directory");
    let program = guests::one(guest)
        .and_then(|guest| guest.build())
        .expect("the guest builds");
    let trace = scratch.beside("recorded.trace");
    let mut run = Tracefork::new(command_under_test!()).command(&scratch.work());
    run.args(["run", "--trace"]).arg(&trace).arg("--").arg(&program);
    let finished = process::run(run, TIME_LIMIT).expect("it ends");
    assert_eq!(finished.end, End::Exit(0));
    serve(&scratch, &program, &trace, &[], commands)
}

/// Serves a trace to gdb, which does this with it.
fn serve(scratch: &Scratch, program: &Path, trace: &Path, options: &[&str], commands: &[&str]) -> String {
    let tracefork = Tracefork::new(command_under_test!());
    let mut server = tracefork.command(&scratch.work());
    server.arg("replay").arg(trace).arg("--gdb").args(options);
    let server = server.stderr(Stdio::piped()).spawn();
    let mut server = Server(server.expect("the server starts"));
    // Its first line is the command that a user would copy; the address is in it.
    let mut line = String::new();
    let mut said = BufReader::new(server.0.stderr.take().expect("a pipe"));
    said.read_line(&mut line).expect("it tells how to connect");
    let address = line
        .split("target remote ")
        .nth(1)
        .and_then(|rest| rest.split('\'').next())
        .unwrap_or_else(|| panic!("no address in {line}"));
    let mut gdb = Command::new(packages::command("gdb", "gdb").expect("gdb"));
    gdb.args([
        "-nx",
        "-batch",
        "-iex",
        "set debuginfod enabled off",
        "-ex",
        "set sysroot /",
    ]);
    gdb.args(["-ex", &format!("target remote {address}")]);
    for command in commands {
        gdb.args(["-ex", command]);
    }
    gdb.args(["-ex", "kill"]).arg(program);
    gdb.env_clear().envs(tracefork_tests::ENVIRONMENT);
    let finished = process::run(gdb, TIME_LIMIT).expect("gdb ends");
    let status = server.wait();
    let text = String::from_utf8_lossy(&[finished.stdout, finished.stderr].concat()).into_owned();
    assert!(status.success(), "{text}");
    text
}

/// The server, which does not outlive its test.
struct Server(Child);

impl Server {
    /// It ends when gdb has left.
    fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until(TIME_LIMIT, "left by gdb", || {
            status = self.0.try_wait().expect("it can be waited for");
            status.is_some()
        });
        status.expect("it has ended")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The values that were printed, in order.
fn values(text: &str) -> Vec<&str> {
    let printed = |line: &'_ str| line.starts_with('$');
    text.lines()
        .filter(|line| printed(line))
        .filter_map(|line| line.split(" = ").nth(1))
        .collect()
}

#[test]
fn breakpoints_threads_and_memory() {
    let text = session(
        &[],
        &[
            "break transfer",
            "continue",
            "print balance",
            "next",
            "next",
            "next",
            "print balance",
            "info threads",
            "continue",
            "thread apply all bt",
        ],
    );
    assert_eq!(values(&text), ["10", "9"], "{text}");
    assert!(text.contains("hit Breakpoint 1, transfer"), "{text}");
    assert!(text.contains("No more reverse-execution history"), "{text}");
    for function in ["transfer", "audit", "main"] {
        let stacks = text.split("No more reverse-execution").nth(1).expect("stacks");
        assert!(stacks.contains(function), "no {function} in\n{stacks}");
    }
}

#[test]
fn time_goes_backwards() {
    let text = session(
        &[],
        &[
            "break transfer",
            "continue",
            "continue",
            "print balance",
            "reverse-continue",
            "print balance",
            "reverse-continue",
            "continue",
            "print balance",
        ],
    );
    // At the end, back at the breakpoint, and there once more after the very beginning.
    assert_eq!(values(&text), ["9", "10", "10"], "{text}");
}

/// Instruction by instruction, and line by line, through calls and over transitions: every place is passed again on the way back.
#[test]
fn steps_back_are_the_steps_forward_in_reverse() {
    for (forward, back, times) in [("stepi", "reverse-stepi", 12), ("next", "reverse-next", 3)] {
        let print = "printf \"at %p with %d\\n\", $pc, balance";
        let mut commands = vec!["break transfer", "continue", "delete", print];
        for _ in 0..times {
            commands.extend([forward, print]);
        }
        // Not all the way: a line back from the first of a function is its caller.
        for _ in 1..times {
            commands.extend([back, print]);
        }
        let text = session(&[], &commands);
        let places: Vec<&str> = text.lines().filter(|line| line.starts_with("at 0x")).collect();
        assert_eq!(places.len(), 2 * times, "{text}");
        let (there, mut back) = (&places[1..=times], places[times..].to_vec());
        back.reverse();
        assert_eq!(there, back, "{forward}:\n{text}");
        let different: std::collections::BTreeSet<&str> = places.iter().copied().collect();
        assert_eq!(different.len(), times + 1, "{forward}:\n{text}");
    }
}

/// From the end, where a thread waits for a lock, backwards out of the lock function to where it was called.
#[test]
fn back_to_the_caller() {
    let text = session(
        &["--stop-at", "1000000"],
        &["bt", "reverse-finish", "info line", "bt"],
    );
    let stacks: Vec<&str> = text.lines().filter(|line| line.starts_with("#0 ")).collect();
    let [waiting, called] = stacks[..] else {
        panic!("{text}");
    };
    assert!(waiting.contains("pthread_mutex_lock"), "{text}");
    assert!(called.contains("in audit"), "{text}");
}

/// A new image has the breakpoints too: here it is the same program once more, at the same addresses.
#[test]
fn breakpoints_outlive_an_exec() {
    let text = recorded(
        "other/executes_itself.c",
        &[
            "break main",
            "continue",
            "print argc",
            "continue",
            "print argc",
            "reverse-continue",
            "print argc",
        ],
    );
    assert_eq!(values(&text), ["1", "2", "1"], "{text}");
}

/// A wait that ran out before its time is a choice of the trace, forwards and backwards.
#[test]
fn a_timeout_happens_again() {
    let text = counterexample(
        "other/timed_out.c",
        &["--faults", "timeout"],
        &[],
        &[
            "break abort",
            "continue",
            "up",
            "print result",
            "break main",
            "reverse-continue",
            "print result",
            "delete",
            "continue",
            "print result",
        ],
    );
    assert_eq!(values(&text), ["110", "0", "110"], "{text}");
}

/// Hooks of lock functions are written when a second thread is made. Breakpoints there must be hit before that, across it and after it.
#[test]
fn a_breakpoint_at_a_hooked_function_is_hit_before_there_are_threads() {
    for place in [
        "*pthread_mutex_lock",
        "pthread_mutex_lock",
        "*pthread_mutex_unlock",
    ] {
        let text = recorded(
            "other/lock_before_threads.c",
            &[
                "break main",
                "continue",
                &format!("break {place} if $rdi == (unsigned long)&lock"),
                "continue",
                "print phase",
                "bt",
                "continue",
                "print phase",
                "continue",
                "print phase",
                "continue",
                "print taken",
                "reverse-continue",
                "print phase",
                "reverse-continue",
                "print phase",
                "reverse-continue",
                "print phase",
                "delete 2",
                "continue",
                "print taken",
            ],
        );
        assert_eq!(
            values(&text),
            ["1", "2", "3", "3", "3", "2", "1", "3"],
            "{place}:\n{text}"
        );
        assert!(text.contains(" take ("), "{place}:\n{text}");
    }
}

#[test]
fn the_process_that_crashed_is_the_one_to_look_at() {
    let guest = "check/process_crash_buggy.c";
    let text = counterexample(
        guest,
        &[],
        &[],
        &[
            "break work",
            "continue",
            "print order",
            "delete",
            "continue",
            "backtrace",
            "break work",
            "reverse-continue",
            "info threads",
        ],
    );
    assert!(text.contains("$1 = 50 '2'"), "{text}");
    assert!(text.contains("lengthen (times=0, text=0x0)"), "{text}");
    assert_eq!(text.matches(", work (order=50 '2')").count(), 2, "{text}");
    assert!(text.contains("1.1001") && !text.contains("1.1000"), "{text}");
}

#[test]
fn any_process_can_be_looked_at() {
    let guest = "check/process_crash_buggy.c";
    let commands = [
        "break waitpid",
        "continue",
        "info threads",
        "continue",
        "backtrace",
    ];
    let text = counterexample(guest, &[], &["--process", "1000"], &commands);
    assert!(text.contains("waitpid (pid"), "{text}");
    assert!(text.contains("1.1000") && !text.contains("1.1001"), "{text}");
    // A breakpoint in its memory before it forks is not the child's.
    let commands = ["break work", "continue", "backtrace"];
    let text = counterexample(guest, &[], &["--process", "1000"], &commands);
    assert!(!text.contains(", work (order="), "{text}");
}
