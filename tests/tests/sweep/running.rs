//! Running scenarios: expectations, exit codes, set-up and tear-down, jobs, interruption and resumption.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use tracefork_tests::directives::End;
use tracefork_tests::process::{self, wait_until};

use super::bench::{Bench, GRACE, PAIR, THREE, is_running, three, ups, wait_for_slow};

#[test]
fn verdicts_are_compared_with_what_is_expected() {
    let bench = Bench::new(&["lock_order_buggy", "lock_order_fixed"]);
    bench.file(PAIR);
    let swept = bench.sweep(&[]).assert_code(1);
    let expected = [
        ("pair[variant=buggy]", "passed"),
        ("pair[variant=fixed]", "passed"),
        ("wrong[variant=buggy]", "failed"),
        ("wrong[variant=fixed]", "failed"),
    ];
    assert_eq!(swept.statuses(), expected);
    assert_eq!(
        swept.of("wrong[variant=buggy]")["reason"],
        "deadlock, expected ok"
    );
    assert_eq!(
        swept.of("wrong[variant=fixed]")["reason"],
        "ok, expected deadlock or crash"
    );
    assert_eq!(swept.of("pair[variant=fixed]")["result"]["verdict"], "ok");
    assert_eq!(swept.document["summary"]["failed"], 2);
    // The table has a line for each, and what failed comes with a command to look at it.
    for (id, _) in expected {
        assert!(
            swept.stdout.lines().any(|line| line.starts_with(id)),
            "{id}\n{}",
            swept.stdout
        );
        assert!(swept.stderr.contains(id), "{}", swept.stderr);
    }
    let trace = swept.of("wrong[variant=buggy]")["result"]["violations"][0]["trace"]
        .as_str()
        .expect("a trace");
    assert!(
        swept.stdout.contains(&format!("tracefork replay {trace}")),
        "{}",
        swept.stdout
    );
    assert_eq!(
        bench.run(&["replay", trace]).end,
        End::Exit(1),
        "the trace replays from here"
    );
    assert!(
        bench
            .read(swept.of("pair[variant=buggy]")["log"].as_str().expect("a log"))
            .contains("deadlock")
    );

    let swept = bench.sweep(&["--skip", "bad"]).assert_code(0);
    assert_eq!(swept.statuses().len(), 2);
    let swept = bench
        .sweep(&["--profile", "one", "--only", "pair"])
        .assert_code(0);
    assert_eq!(swept.statuses(), [("pair[variant=fixed]", "passed")]);
}

/// Whoever holds the lock has the directory; a second one could not make it.
#[test]
fn scenarios_with_the_same_lock_never_meet() {
    let bench = Bench::new(&["lock_order_fixed"]);
    bench.file(
        r#"
[defaults]
program = "./lock_order_fixed"
[[scenario]]
name = "alone"
setup = ["mkdir {where}"]
teardown = ["rmdir {where}"]
lock = ["{where}", "something else"]
matrix = { where = ["one", "other"], random-seed = [1, 2] }
[[scenario]]
name = "also"
setup = ["mkdir one"]
teardown = ["rmdir one"]
lock = "one"
[[scenario]]
name = "free"
"#,
    );
    let swept = bench.sweep(&["--jobs", "4"]).assert_code(0);
    assert_eq!(swept.statuses().len(), 6);
}

#[test]
fn the_exit_code_is_that_of_the_worst() {
    let bench = Bench::new(&["lock_order_fixed", "lock_order_buggy"]);
    bench.file(
        "[defaults]\nprogram = \"./lock_order_fixed\"\n\
         [[scenario]]\nname = \"fine\"\n\
         [[scenario]]\nname = \"cut\"\nmax-states = 2\n\
         [[scenario]]\nname = \"killed\"\ntimeout = \"200ms\"\nprogram = \"./never_ends\"\n\
         [[scenario]]\nname = \"missing\"\nprogram = \"./nothing\"\n\
         [[scenario]]\nname = \"buggy\"\nprogram = \"./lock_order_buggy\"\n",
    );
    bench.program("never_ends", "never_ends");
    let code = |only: &[&str]| {
        let args: Vec<&str> = only.iter().flat_map(|name| ["--only", name]).collect();
        bench.sweep(&args).code
    };
    assert_eq!(code(&["fine"]), 0);
    assert_eq!(code(&["fine", "cut", "killed"]), 3);
    assert_eq!(code(&["fine", "cut", "missing"]), 4);
    assert_eq!(code(&["missing", "buggy", "cut"]), 1);
    // Each of them may be what is expected.
    let text = bench.read("s.toml");
    let text = text.replace("name = \"cut\"", "name = \"cut\"\nexpect = \"incomplete\"");
    let text = text.replace("name = \"killed\"", "name = \"killed\"\nexpect = \"incomplete\"");
    let text = text.replace(
        "name = \"missing\"",
        "name = \"missing\"\nexpect = \"unsupported\"",
    );
    bench.file(&text.replace("name = \"buggy\"", "name = \"buggy\"\nexpect = \"violation\""));
    assert_eq!(code(&[]), 0);
    wait_until(GRACE, "ended", || !is_running(&bench.path("never_ends")));
}

#[test]
fn tear_down_follows_set_up_whatever_happens() {
    let bench = Bench::new(&["lock_order_buggy"]);
    bench.file(
        r#"
setup = ["echo all >> order"]
teardown = ["echo end >> order"]
[defaults]
program = "./lock_order_buggy"
teardown = ["echo down $TRACEFORK_SCENARIO >> order"]
[[scenario]]
name = "a"
expect = "deadlock"
setup = ["test -d {scratch}", "echo up >> order; echo {scratch} > where", "sh -c 'echo $$ > pid; exec sleep 1000' &"]
[[scenario]]
name = "b"
setup = ["exit 3", "echo never >> order"]
[[scenario]]
name = "c"
expect = "deadlock"
teardown = ["exit 4", "echo still >> order"]
"#,
    );
    let swept = bench.sweep(&["--jobs", "1"]).assert_code(4);
    assert_eq!(bench.read("order"), "all\nup\ndown a\ndown b\nstill\nend\n");
    assert_eq!(
        swept.statuses(),
        [("a", "passed"), ("b", "failed"), ("c", "failed")]
    );
    assert_eq!(swept.of("b")["reason"], "set-up `exit 3`: exit status 3");
    assert_eq!(swept.of("c")["reason"], "tear-down `exit 4`: exit status 4");
    assert!(
        !Path::new(bench.read("where").trim()).exists(),
        "the scratch directory is gone"
    );
    // What the set-up left in the background lived until the tear-down, and no longer.
    let background = bench.read("pid").trim().parse().expect("a process id");
    wait_until(GRACE, "ended", || {
        kill(nix::unistd::Pid::from_raw(background), None).is_err()
    });

    bench.file(
        "setup = [\"echo broken; exit 1\"]\n[[scenario]]\nname = \"a\"\nprogram = \"./lock_order_buggy\"\n",
    );
    let swept = bench.sweep(&[]).assert_code(4);
    assert_eq!(swept.statuses(), [("a", "not-run")]);
    assert!(
        swept.document["error"]
            .as_str()
            .is_some_and(|error| error.contains("broken")),
        "{:#}",
        swept.document
    );
}

/// Each set-up waits for the other's: only side by side do both come to an end. With one job each finds the place free.
#[test]
fn scenarios_run_side_by_side_within_the_jobs() {
    let bench = Bench::new(&["outcome_two_writes"]);
    bench.file(
        r#"
[defaults]
program = "./outcome_two_writes"
timeout = "100s"
[[scenario]]
name = "meet"
setup = ["touch here-{me}; until test -e here-{other}; do sleep 0.05; done"]
matrix.case = [{ me = "a", other = "b" }, { me = "b", other = "a" }]
[[scenario]]
name = "alone"
setup = ["mkdir room"]
teardown = ["rmdir room"]
matrix.seed = [1, 2, 3]
[[scenario]]
name = "wide"
jobs = 2
setup = ["mkdir room"]
teardown = ["rmdir room"]
matrix.seed = [1, 2]
"#,
    );
    bench.sweep(&["--jobs", "2", "--only", "meet"]).assert_code(0);
    bench.sweep(&["--jobs", "1", "--only", "alone"]).assert_code(0);
    bench.sweep(&["--jobs", "2", "--only", "wide"]).assert_code(0);
}

#[test]
fn a_killed_sweep_leaves_nothing_running_and_is_taken_up_again() {
    let bench = three();
    let mut child = bench.start(&["sweep", "s.toml", "--jobs", "1"]);
    wait_for_slow(&bench, &mut child);
    child.0.kill().expect("can be killed");
    child.0.wait().expect("ends");
    wait_until(GRACE, "gone", || !is_running(&bench.path("slow")));
    assert_eq!(ups(&bench), ["a", "b", "c"]);
    bench.program("outcome_two_writes", "slow");
    let swept = bench.sweep(&["--resume"]).assert_code(0);
    assert_eq!(ups(&bench), ["c"]);
    assert_eq!(swept.of("quick[which=a]")["resumed"], true);
    assert_eq!(swept.of("slow[which=c]")["resumed"], false);
    assert_eq!(swept.of("quick[which=b]")["result"]["verdict"], "ok");
    // All is done; a changed scenario is run again, and so is a changed program. What is expected is judged anew without running.
    bench.sweep(&["--resume"]).assert_code(0);
    assert_eq!(ups(&bench), [""; 0]);
    bench.file(&THREE.replace("name = \"slow\"", "name = \"slow\"\nmax-depth = 1000"));
    bench.sweep(&["--resume"]).assert_code(0);
    assert_eq!(ups(&bench), ["c"]);
    bench.program("outcome_trylock", "slow");
    bench.sweep(&["--resume"]).assert_code(0);
    assert_eq!(ups(&bench), ["c"]);
    let expecting = bench
        .read("s.toml")
        .replace("name = \"slow\"", "name = \"slow\"\nexpect = \"crash\"");
    bench.file(&expecting);
    bench.sweep(&["--resume"]).assert_code(1);
    assert_eq!(ups(&bench), [""; 0]);
    // Without --resume everything is run.
    bench.sweep(&["--jobs", "1"]).assert_code(1);
    assert_eq!(ups(&bench), ["a", "b", "c"]);
}

#[test]
fn an_interrupted_sweep_tears_down_and_tells_what_is_left() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let bench = three();
        let mut child = bench.start(&["sweep", "s.toml", "--jobs", "1", "--json", "result.json"]);
        wait_for_slow(&bench, &mut child);
        kill(process::group_of(&child.0).expect("an id"), signal).expect("can be signalled");
        let status = child.0.wait().expect("ends");
        assert_eq!(status.code(), Some(3));
        wait_until(GRACE, "gone", || !is_running(&bench.path("slow")));
        assert!(
            bench.read("order").ends_with("up c\ndown c\n"),
            "{}",
            bench.read("order")
        );
        let document: Value = serde_json::from_str(&bench.read("result.json")).expect("JSON");
        assert_eq!(document["interrupted"], true);
        assert_eq!(document["scenarios"][2]["status"], "not-run");
        ups(&bench);
        bench.program("outcome_two_writes", "slow");
        bench.sweep(&["--resume"]).assert_code(0);
        assert_eq!(ups(&bench), ["c"]);
    }
}

#[test]
fn two_sweeps_do_not_share_their_results() {
    let bench = three();
    let mut child = bench.start(&["sweep", "s.toml", "--jobs", "1"]);
    wait_for_slow(&bench, &mut child);
    let swept = bench.sweep(&[]).assert_code(2);
    assert!(
        swept
            .stderr
            .contains("another sweep is writing to tracefork-sweep"),
        "{}",
        swept.stderr
    );
    child.0.kill().expect("can be killed");
    child.0.wait().expect("ends");
}
