//! What others read: JUnit, SARIF, GitHub, the parts of a sweep put together, baselines.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tracefork_tests::directives::End;
use tracefork_tests::supervised::TIME_LIMIT;
use tracefork_tests::{packages, process};

use super::bench::{Bench, PAIR, Swept};

#[test]
fn test_reporters_and_code_scanning_can_read_it() {
    let bench = Bench::new(&["lock_order_buggy", "lock_order_fixed"]);
    let text = PAIR.replace(
        "name = \"wrong\"",
        "name = \"wrong <&\\\" \\u0001ü\"\nenv.X = \"]]>\"",
    );
    bench.file(
        &(text + "[[scenario]]\nname = \"none\"\nprogram = \"./lock_order_buggy\"\nsetup = \"false\"\n"),
    );
    bench
        .sweep(&["--junit", "j.xml", "--sarif", "s.sarif"])
        .assert_code(1);

    let xmllint = packages::command("xmllint", "libxml2-utils").expect("xmllint");
    let xpath = |query: &str| {
        let mut command = Command::new(&xmllint);
        command
            .current_dir(bench.scratch.work())
            .args(["--xpath", query, "j.xml"]);
        let finished = process::run(command, TIME_LIMIT).expect("it ends");
        assert_eq!(
            finished.end,
            End::Exit(0),
            "{}",
            String::from_utf8_lossy(&finished.stderr)
        );
        String::from_utf8_lossy(&finished.stdout).trim().to_owned()
    };
    assert_eq!(xpath("count(/testsuites/testsuite)"), "3");
    assert_eq!(xpath("count(//testcase)"), "5");
    assert_eq!(xpath("string(/testsuites/@failures)"), "2");
    assert_eq!(xpath("string(/testsuites/@errors)"), "1");
    assert_eq!(
        xpath("string(//testcase[starts-with(@name,'none')]/error/@message)"),
        "set-up `false`: exit status 1"
    );

    let sarif: Value = serde_json::from_str(&bench.read("s.sarif")).expect("JSON");
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let results = run["results"].as_array().expect("results");
    let mut found = Vec::new();
    for result in results {
        let rule = result["ruleIndex"]
            .as_u64()
            .and_then(|index| rules.get(index as usize))
            .expect("a rule");
        assert_eq!(rule["id"], result["ruleId"]);
        assert!(result["message"]["text"].is_string());
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "s.toml");
        assert!(place["region"]["startLine"].as_u64().is_some_and(|line| line > 0));
        found.push(result["ruleId"].as_str().unwrap_or_default());
    }
    assert_eq!(found, ["deadlock", "ok", "error"]);
}

#[test]
fn github_is_told_in_its_own_words() {
    let bench = Bench::new(&["lock_order_buggy"]);
    bench.file("[[scenario]]\nname = \"a|b\"\nprogram = \"./lock_order_buggy\"\n");
    let sweep = |args: &[&str]| {
        let mut command = bench.command(&[&["sweep", "s.toml"], args].concat());
        command
            .env("GITHUB_ACTIONS", "true")
            .env(
                "GITHUB_WORKSPACE",
                bench.scratch.work().parent().expect("has one"),
            )
            .env("GITHUB_STEP_SUMMARY", bench.path("summary.md"));
        process::run(command, TIME_LIMIT).expect("it ends")
    };
    let finished = sweep(&[]);
    let said = String::from_utf8_lossy(&finished.stdout).into_owned();
    let annotation =
        "::error file=work/s.toml,line=2,col=8,title=tracefork%3A a|b::deadlock, expected ok%0Adeadlock: ";
    assert!(said.lines().any(|line| line.starts_with(annotation)), "{said}");
    let summary = bench.read("summary.md");
    assert!(
        summary.contains("0 passed, 1 failed") && summary.contains("| a\\|b | deadlock, expected ok |"),
        "{summary}"
    );
    // JSON on standard output stays JSON, and a summary is added to what is there.
    let finished = sweep(&["--json", "-"]);
    serde_json::from_slice::<Value>(&finished.stdout).expect("nothing but JSON");
    assert!(String::from_utf8_lossy(&finished.stderr).contains("::error "));
    assert_eq!(bench.read("summary.md").matches("tracefork sweep").count(), 2);
}

#[test]
fn the_parts_together_are_the_whole() {
    let bench = Bench::new(&["writes"]);
    bench.file(
        "[defaults]\nprogram = \"./writes\"\npreempt = \"syscall\"\nargs = [\"2\", \"1\"]\n\
         [[scenario]]\nname = \"w\"\nmatrix.seed = [1, 2, 3, 4, 5]\n\
         [[scenario]]\nname = \"x\"\nexpect = \"deadlock\"\n",
    );
    let whole = bench.sweep(&[]).assert_code(1);
    fs::remove_dir_all(bench.path("tracefork-sweep")).expect("is there");
    let verdicts = |swept: &Swept| -> Vec<(String, String)> {
        let own = |(id, status): (&str, &str)| (id.to_owned(), status.to_owned());
        swept.statuses().into_iter().map(own).collect()
    };
    for kind in ["slice", "hash"] {
        let mut ids = Vec::new();
        for part in 1..=3 {
            let mut command =
                bench.command(&["sweep", "s.toml", "--partition", kind, "--json", "result.json"]);
            command
                .env("SLURM_ARRAY_TASK_ID", (part + 4).to_string())
                .env("SLURM_ARRAY_TASK_MIN", "5")
                .env("SLURM_ARRAY_TASK_COUNT", "3");
            let swept = bench.swept(process::run(command, TIME_LIMIT).expect("it ends"));
            assert_eq!(swept.document["partition"]["index"], part);
            ids.extend(verdicts(&swept));
            if part == 2 {
                let finished = bench.run(&["merge", "tracefork-sweep"]);
                let said = String::from_utf8_lossy(&finished.stderr).into_owned();
                assert!(
                    finished.end == End::Exit(2) && said.contains("part(s) 3 of 3 missing"),
                    "{said}"
                );
            }
        }
        assert_eq!(ids.len(), 6, "{ids:?}");
        let merged = bench.run(&[
            "merge",
            "tracefork-sweep",
            "--json",
            "result.json",
            "--junit",
            "all.xml",
        ]);
        let merged = bench.swept(merged).assert_code(whole.code);
        assert_eq!(verdicts(&merged), verdicts(&whole));
        assert_eq!(merged.document["summary"], whole.document["summary"]);
        assert!(bench.read("all.xml").contains("tests=\"6\""));
        let parts = [
            "tracefork-sweep/part-1-of-3",
            "tracefork-sweep/part-2-of-3",
            "tracefork-sweep/part-1-of-3/results.json",
        ];
        let finished = bench.run(&[&["merge"], &parts[..]].concat());
        assert!(String::from_utf8_lossy(&finished.stderr).contains("part 1 is there twice"));
        let some = bench.run(&["merge", "--allow-missing", parts[0], parts[1]]);
        assert!(
            some.end == End::Exit(1) || some.end == End::Exit(3),
            "{:?}",
            some.end
        );
        fs::rename(bench.path("tracefork-sweep"), bench.path(kind)).expect("is moved away");
    }
    let finished = bench.run(&["merge", "slice/part-1-of-3", "hash/part-2-of-3"]);
    assert!(String::from_utf8_lossy(&finished.stderr).contains("one is a slice, the other a hash"));
    bench
        .sweep(&["--partition", "slice:2/3", "--only", "w"])
        .assert_code(0);
    let finished = bench.run(&["merge", "slice/part-1-of-3", "tracefork-sweep"]);
    assert!(String::from_utf8_lossy(&finished.stderr).contains("not parts of the same sweep"));
}

#[test]
fn against_a_baseline_only_what_is_new_or_changed_fails() {
    let bench = Bench::new(&["lock_order_buggy"]);
    bench.program("outcome_two_writes", "other");
    let old = "[[scenario]]\nname = \"bug\"\nprogram = \"./lock_order_buggy\"\n\
               [[scenario]]\nname = \"other\"\nprogram = \"./other\"\n";
    bench.file(old);
    bench.sweep(&["--write-baseline", "known.json"]).assert_code(1);
    fs::copy(bench.path("result.json"), bench.path("earlier.json")).expect("is copied");
    for baseline in ["known.json", "earlier.json"] {
        let swept = bench
            .sweep(&["--baseline", baseline, "--sarif", "s.sarif"])
            .assert_code(0);
        assert_eq!(swept.statuses(), [("bug", "known"), ("other", "passed")]);
        let sarif: Value = serde_json::from_str(&bench.read("s.sarif")).expect("JSON");
        assert_eq!(sarif["runs"][0]["results"][0]["baselineState"], "unchanged");
    }
    // A new bug fails, a new scenario without one does not.
    bench.file(&format!(
        "{old}[[scenario]]\nname = \"new\"\nprogram = \"./other\"\n\
         [[scenario]]\nname = \"new bug\"\nprogram = \"./lock_order_buggy\"\n"
    ));
    let swept = bench.sweep(&["--baseline", "known.json"]).assert_code(1);
    let statuses = [
        ("bug", "known"),
        ("other", "passed"),
        ("new", "passed"),
        ("new bug", "failed"),
    ];
    assert_eq!(swept.statuses(), statuses);
    // Outcomes, then a verdict; and the bug's fix is no failure.
    bench.file(old);
    bench.program("outcome_trylock", "other");
    let swept = bench.sweep(&["--baseline", "known.json"]).assert_code(1);
    let changes = swept.of("other")["changes"].to_string();
    assert!(
        changes.contains("outcome gone: exit 0, stdout \\\"ab\\\"") && changes.contains("busy"),
        "{changes}"
    );
    bench.program("lock_order_buggy", "other");
    bench.program("lock_order_fixed", "lock_order_buggy");
    let swept = bench.sweep(&["--baseline", "known.json"]).assert_code(1);
    assert_eq!(swept.statuses(), [("bug", "passed"), ("other", "failed")]);
    assert!(
        swept.of("other")["reason"]
            .as_str()
            .is_some_and(|why| why.contains("verdict ok → deadlock"))
    );
}

/// The number of states, all else being equal, tells of a change too; unless it is not asked for.
#[test]
fn numbers_of_states_are_compared_as_well() {
    let bench = Bench::new(&["lock_order_fixed"]);
    bench.file("[[scenario]]\nname = \"a\"\nprogram = \"./lock_order_fixed\"\n");
    bench.sweep(&["--write-baseline", "known.json"]).assert_code(0);
    let mut known: Value = serde_json::from_str(&bench.read("known.json")).expect("JSON");
    let states = known["scenarios"]["a"]["states"].as_u64().expect("a number");
    known["scenarios"]["a"]["states"] = (states + 1).into();
    fs::write(bench.path("known.json"), known.to_string()).expect("is written");
    let swept = bench.sweep(&["--baseline", "known.json"]).assert_code(1);
    assert_eq!(
        swept.of("a")["changes"][0],
        format!("states {} → {states}", states + 1)
    );
    bench.file(&(bench.read("s.toml") + "compare = [\"verdict\", \"outcomes\"]\n"));
    bench.sweep(&["--baseline", "known.json"]).assert_code(0);
}
