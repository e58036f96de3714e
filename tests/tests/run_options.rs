//! What the options of `run` do, as a user sees it.

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use tracefork_tests::command_under_test;
use tracefork_tests::directives::{End, Preempt};
use tracefork_tests::guests::{self, Guest};
use tracefork_tests::observe::Scratch;
use tracefork_tests::process::{self, Finished};
use tracefork_tests::supervised::{TIME_LIMIT, Tracefork};

/// What is tried of an option.
type Check = fn() -> Result<()>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let options: [(&str, Check); 17] = [
        ("stdin_comes_from_the_file", stdin_comes_from_the_file),
        ("stdin_is_empty_without_one", stdin_is_empty_without_one),
        ("cwd_is_where_the_program_runs", cwd_is_where_the_program_runs),
        ("environment_is_set_and_cleared", environment_is_set_and_cleared),
        (
            "exit_status_is_forwarded_if_asked",
            exit_status_is_forwarded_if_asked,
        ),
        ("json_has_the_documented_fields", json_has_the_documented_fields),
        ("json_tells_of_a_crash", json_tells_of_a_crash),
        ("json_tells_of_an_error", json_tells_of_an_error),
        ("json_goes_to_standard_output", json_goes_to_standard_output),
        (
            "writes_stay_in_the_run_unless_asked",
            writes_stay_in_the_run_unless_asked,
        ),
        (
            "exports_stay_below_their_directory",
            exports_stay_below_their_directory,
        ),
        (
            "output_is_shown_whatever_ends_the_run",
            output_is_shown_whatever_ends_the_run,
        ),
        ("a_step_limit_ends_the_run", a_step_limit_ends_the_run),
        ("doctor_is_content", doctor_is_content),
        (
            "limits_of_the_shell_are_no_matter",
            limits_of_the_shell_are_no_matter,
        ),
        ("names_need_not_be_text", names_need_not_be_text),
        (
            "a_violation_outlives_a_full_disk",
            a_violation_outlives_a_full_disk,
        ),
    ];
    let mut trials: Vec<Trial> = options
        .into_iter()
        .map(|(name, body)| trial(name.to_owned(), body))
        .collect();
    for guest in guests::all("run").expect("the guests can be read") {
        for mode in guest.directives.modes.clone() {
            let guest = guest.clone();
            let name = format!("twice::{}::{}", mode.name(), guest.name);
            trials.push(trial(name, move || same_twice(&guest, mode)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A small stack and few descriptors are enough; no descriptors, and files that may not be written to, are told in words.
fn limits_of_the_shell_are_no_matter() -> Result<()> {
    for (limit, code, told) in [
        ("ulimit -s 64", 0, ""),
        ("ulimit -s unlimited 2>/dev/null", 0, ""),
        ("ulimit -n 16", 0, ""),
        ("ulimit -n 5", 4, "ulimit -n"),
        ("ulimit -f 0", 2, "cannot write trace"),
    ] {
        let scratch = Scratch::new()?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &format!("{limit}; exec \"$@\""), "sh"])
            .arg(command_under_test!())
            .args(["run", "--trace", "here.trace", "--", "/bin/true"])
            .current_dir(scratch.work());
        let finished = process::run(command, TIME_LIMIT)?;
        let said = String::from_utf8_lossy(&finished.stderr).into_owned();
        ensure!(
            finished.end == End::Exit(code),
            "{limit}: {:?}: {said}",
            finished.end
        );
        ensure!(said.contains(told), "{limit}: {said}");
    }
    Ok(())
}

/// Functions and variables with names in an old encoding: they have no name for us, and nothing else is amiss.
fn names_need_not_be_text() -> Result<()> {
    let scratch = Scratch::new()?;
    let guest = guests::one("other/odd_names.c")?.build()?;
    let guest = guest.to_str().context("a path is text")?;
    let finished = tracefork(&scratch, &["check", "--trace-dir", "traces", "--", guest])?;
    let said = String::from_utf8_lossy(&finished.stdout).into_owned();
    let complained = String::from_utf8_lossy(&finished.stderr).into_owned();
    ensure!(finished.end == End::Exit(1), "{:?}: {complained}", finished.end);
    ensure!(
        said.contains("assert: ") && said.contains("odd_names.c"),
        "{said}"
    );
    ensure!(complained.is_empty(), "{complained}");
    Ok(())
}

/// Where nothing more can be written a violation is told all the same, and no half of a file is left.
fn a_violation_outlives_a_full_disk() -> Result<()> {
    let scratch = Scratch::new()?;
    let guest = guests::one("check/lock_order_buggy.c")?.build()?;
    let mut command = Command::new("/bin/sh");
    // A limit on the size of files fails as a full disk does: in the middle.
    command
        .args(["-c", "ulimit -f 1; exec \"$@\"", "sh"])
        .arg(command_under_test!())
        .args(["check", "--trace-dir", "traces", "--json", "result.json", "--"])
        .arg(guest)
        .current_dir(scratch.work());
    let finished = process::run(command, TIME_LIMIT)?;
    let said = String::from_utf8_lossy(&[finished.stdout, finished.stderr].concat()).into_owned();
    ensure!(finished.end == End::Exit(1), "{:?}: {said}", finished.end);
    for words in ["deadlock: ", "cannot write trace", "cannot write result.json"] {
        ensure!(said.contains(words), "no word of \"{words}\": {said}");
    }
    let left = |dir: std::path::PathBuf| -> Result<Vec<_>> {
        let entries = std::fs::read_dir(dir)?;
        Ok(entries
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<Result<_, _>>()?)
    };
    ensure!(left(scratch.work())? == ["traces"], "{:?}", left(scratch.work())?);
    ensure!(left(scratch.work().join("traces"))?.is_empty());
    Ok(())
}

fn trial(name: String, body: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || {
        body().map_err(|error| Failed::from(format!("{error:#}")))
    })
}

/// `tracefork ARGS`, in the scratch directory.
fn tracefork(scratch: &Scratch, args: &[&str]) -> Result<Finished> {
    let mut command = Tracefork::new(command_under_test!()).command(&scratch.work());
    command.args(args);
    process::run(command, TIME_LIMIT)
}

fn succeeds(scratch: &Scratch, args: &[&str]) -> Result<String> {
    let finished = tracefork(scratch, args)?;
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    ensure!(
        finished.end == End::Exit(0),
        "{args:?}: {:?}: {said}",
        finished.end
    );
    String::from_utf8(finished.stdout).context("output is text")
}

/// `--check-determinism` finds nothing.
fn same_twice(guest: &Guest, mode: Preempt) -> Result<()> {
    let scratch = Scratch::new()?;
    let input = scratch.beside("stdin");
    fs::write(&input, &guest.directives.stdin)?;
    let mut command = Tracefork::new(command_under_test!()).command(&scratch.work());
    command.args([
        "run",
        "--check-determinism",
        "--seed",
        "11",
        "--preempt",
        mode.name(),
    ]);
    command.arg("--stdin").arg(&input).arg("--").arg(guest.build()?);
    command.args(&guest.directives.args);
    let finished = process::run(command, TIME_LIMIT)?;
    let violated = matches!(guest.directives.end, End::Signal(_));
    ensure!(
        finished.end == End::Exit(i32::from(violated)),
        "{:?}: {}",
        finished.end,
        String::from_utf8_lossy(&finished.stderr)
    );
    Ok(())
}

fn stdin_comes_from_the_file() -> Result<()> {
    let scratch = Scratch::new()?;
    fs::write(scratch.work().join("in"), "one\ntwo\n")?;
    ensure!(succeeds(&scratch, &["run", "--stdin", "in", "--", "cat"])? == "one\ntwo\n");
    Ok(())
}

fn stdin_is_empty_without_one() -> Result<()> {
    ensure!(succeeds(&Scratch::new()?, &["run", "--", "cat"])?.is_empty());
    Ok(())
}

fn cwd_is_where_the_program_runs() -> Result<()> {
    let scratch = Scratch::new()?;
    let deep = scratch.work().join("deep");
    fs::create_dir(&deep)?;
    let shown = succeeds(&scratch, &["run", "--cwd", "deep", "--", "/bin/pwd", "-P"])?;
    ensure!(
        shown.trim_end() == deep.canonicalize()?.to_string_lossy(),
        "{shown}"
    );
    Ok(())
}

fn environment_is_set_and_cleared() -> Result<()> {
    let scratch = Scratch::new()?;
    let some = succeeds(&scratch, &["run", "--env", "A=1", "--env", "TZ=x=y", "--", "env"])?;
    for line in ["A=1", "TZ=x=y", "LANG=C.UTF-8"] {
        ensure!(some.lines().any(|l| l == line), "no {line} in {some}");
    }
    let none = succeeds(
        &scratch,
        &["run", "--clear-env", "--env", "B=2", "--", "/usr/bin/env"],
    )?;
    ensure!(none == "B=2\n", "{none}");
    Ok(())
}

fn exit_status_is_forwarded_if_asked() -> Result<()> {
    let scratch = Scratch::new()?;
    for (script, plain, forwarded) in [("exit 0", 0, 0), ("exit 7", 0, 7), ("kill -9 $$", 1, 137)] {
        let end = |options: &[&str]| -> Result<End> {
            let args = [&["run", "--quiet"], options, &["--", "bash", "-c", script]].concat();
            Ok(tracefork(&scratch, &args)?.end)
        };
        ensure!(end(&[])? == End::Exit(plain), "{script}");
        ensure!(
            end(&["--forward-exit"])? == End::Exit(forwarded),
            "{script}, forwarded"
        );
    }
    Ok(())
}

/// The JSON result of a run, whatever its exit code.
fn json_of(args: &[&str]) -> Result<(Finished, Value)> {
    let scratch = Scratch::new()?;
    let json = scratch.beside("json");
    let path = json.to_str().context("a temporary path is text")?;
    let finished = tracefork(&scratch, &[&["run", "--json", path], args].concat())?;
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    let text = fs::read_to_string(&json).with_context(|| format!("no JSON; it said {said}"))?;
    Ok((finished, serde_json::from_str(&text)?))
}

fn json_has_the_documented_fields() -> Result<()> {
    let (_, result) = json_of(&[
        "--seed",
        "4",
        "--",
        "bash",
        "-c",
        "echo out; echo err >&2; exit 3",
    ])?;
    ensure!(result["verdict"] == "ok", "{result}");
    ensure!(result["error"].is_null() && result["violations"] == Value::Array(Vec::new()));
    ensure!(result["executions"] == 1 && result["seed"] == 4, "{result}");
    for number in ["transitions", "max_depth", "peak_rss_bytes"] {
        ensure!(
            result[number].as_u64().is_some_and(|n| n > 0),
            "{number}: {result}"
        );
    }
    ensure!(result["states"]["new"].is_u64() && result["states"]["revisited"].is_u64());
    ensure!(
        result["time_s"].is_f64() && result["version"].is_string(),
        "{result}"
    );
    let outcome = &result["outcomes"][0];
    ensure!(outcome["exit"] == 3 && outcome["signal"].is_null() && outcome["idle"] == false);
    ensure!(
        outcome["stdout"] == "out\n" && outcome["stderr"] == "err\n",
        "{outcome}"
    );
    ensure!(
        outcome["executions"] == 1 && outcome["sent"].is_object(),
        "{outcome}"
    );
    Ok(())
}

fn json_tells_of_a_crash() -> Result<()> {
    let (finished, result) = json_of(&["--", "bash", "-c", "kill -SEGV $$"])?;
    ensure!(
        finished.end == End::Exit(1) && result["verdict"] == "violation",
        "{result}"
    );
    let violation = &result["violations"][0];
    ensure!(
        violation["kind"] == "crash" && violation["thread"].is_u64(),
        "{violation}"
    );
    ensure!(
        violation["message"]
            .as_str()
            .is_some_and(|m| m.contains("SIGSEGV"))
    );
    ensure!(result["outcomes"][0]["signal"] == 11, "{result}");
    Ok(())
}

fn json_tells_of_an_error() -> Result<()> {
    let (finished, result) = json_of(&["--", "/no/such/program"])?;
    ensure!(
        finished.end == End::Exit(4) && result["verdict"] == "error",
        "{result}"
    );
    ensure!(
        result["error"]
            .as_str()
            .is_some_and(|e| e.contains("/no/such/program"))
    );
    Ok(())
}

fn json_goes_to_standard_output() -> Result<()> {
    let said = succeeds(&Scratch::new()?, &["run", "--json", "-", "--", "echo", "hello"])?;
    let result: Value = serde_json::from_str(&said).with_context(|| said.clone())?;
    ensure!(result["outcomes"][0]["stdout"] == "hello\n", "{result}");
    Ok(())
}

fn writes_stay_in_the_run_unless_asked() -> Result<()> {
    let scratch = Scratch::new()?;
    let work = scratch.work();
    fs::write(work.join("old"), "old")?;
    let script = "echo new > made; echo more >> old; read -r line < made; echo $line";
    let program = ["--", "bash", "-c", script];
    ensure!(succeeds(&scratch, &[&["run"], &program[..]].concat())? == "new\n");
    ensure!(!work.join("made").exists() && fs::read_to_string(work.join("old"))? == "old");

    succeeds(
        &scratch,
        &[&["run", "--export-writes", "out"], &program[..]].concat(),
    )?;
    let exported = work.join("out").join(work.canonicalize()?.strip_prefix("/")?);
    ensure!(fs::read_to_string(exported.join("made"))? == "new\n");
    ensure!(fs::read_to_string(exported.join("old"))? == "oldmore\n");
    ensure!(!work.join("made").exists() && fs::read_to_string(work.join("old"))? == "old");

    succeeds(&scratch, &[&["run", "--apply-writes"], &program[..]].concat())?;
    ensure!(fs::read_to_string(work.join("made"))? == "new\n");
    ensure!(fs::read_to_string(work.join("old"))? == "oldmore\n");
    Ok(())
}

/// What a program printed before it did something that cannot be modelled helps to find out what it was.
fn output_is_shown_whatever_ends_the_run() -> Result<()> {
    let scratch = Scratch::new()?;
    let mut command = Tracefork::new(command_under_test!()).command(&scratch.work());
    command.args([
        "run",
        "--",
        "python3",
        "-c",
        // What `ipcs` asks for, all segments of the machine, is not modelled.
        "import ctypes, sys; print('before', flush=True); print('said', file=sys.stderr, flush=True); \
         ctypes.CDLL(None).syscall(31, 0, 14, 0)",
    ]);
    let finished = process::run(command, TIME_LIMIT)?;
    let complained = String::from_utf8_lossy(&finished.stderr).into_owned();
    ensure!(finished.end == End::Exit(4), "{complained}");
    ensure!(finished.stdout == b"before\n", "{complained}");
    ensure!(complained.starts_with("said\n"), "{complained}");
    Ok(())
}

/// One program leaves a link that leads out, the next one a directory of that name: the second export must not follow the first.
fn exports_stay_below_their_directory() -> Result<()> {
    let scratch = Scratch::new()?;
    let work = scratch.work();
    let outside = work.join("outside");
    fs::create_dir(&outside)?;
    fs::write(outside.join("kept"), "kept")?;
    let copied = work.join("copied");
    fs::create_dir(&copied)?;
    fs::write(copied.join("kept"), "changed")?;
    fs::write(copied.join("new"), "more")?;
    let outside_name = outside.display().to_string();
    for program in [
        ["ln", "-s", &outside_name, "place"],
        ["cp", "-r", "copied", "place"],
    ] {
        let options = ["run", "--export-writes", "out", "--"];
        succeeds(&scratch, &[&options[..], &program[..]].concat())?;
    }
    ensure!(fs::read_to_string(outside.join("kept"))? == "kept");
    ensure!(!outside.join("new").exists(), "the link was followed");
    let exported = work.join("out").join(work.canonicalize()?.strip_prefix("/")?);
    ensure!(fs::read_to_string(exported.join("place/kept"))? == "changed");
    Ok(())
}

fn a_step_limit_ends_the_run() -> Result<()> {
    let (finished, result) = json_of(&["--max-depth", "3", "--", "cat", "/etc/passwd"])?;
    ensure!(finished.end == End::Exit(3), "{result}");
    ensure!(
        result["verdict"] == "incomplete" && result["transitions"] == 3,
        "{result}"
    );
    Ok(())
}

/// Where the tests run, the program must be able to work; the verdict is the last line.
fn doctor_is_content() -> Result<()> {
    let said = succeeds(&Scratch::new()?, &["doctor"])?;
    ensure!(said.contains("ptrace") && said.contains("seccomp"), "{said}");
    ensure!(said.trim_end().ends_with("tracefork can work here."), "{said}");
    Ok(())
}
