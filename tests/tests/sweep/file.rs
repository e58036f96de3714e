//! The sweep file and the command line: what is wrong with them, and what parameters do.

use std::fs;

use tracefork_tests::directives::End;

use super::bench::Bench;

/// A sweep file, and how the complaint about it begins and what it says.
const WRONG: [(&str, &str, &str); 22] = [
    ("x = = 1", "1:5", ""),
    (
        "[defaults]\ntime-limt = \"1s\"\n[[scenario]]\nname = \"a\"",
        "2:1",
        "unknown key `time-limt`, did you mean `time-limit`?",
    ),
    (
        "[[scenario]]\nname = \"a\"\nprogarm = \"x\"",
        "3:1",
        "did you mean `program`?",
    ),
    (
        "[[scenarios]]\nname = \"a\"",
        "1:3",
        "unknown key `scenarios`, did you mean `scenario`?",
    ),
    ("[defaults]\n", "1:1", "no scenario"),
    ("[scenario]\nname = \"a\"", "1:1", "write [[scenario]]"),
    ("[[scenario]]\nprogram = \"x\"", "1:1", "no `name`"),
    ("[[scenario]]\n  name = \"a\"", "2:10", "`a` has no `program`"),
    (
        "[[scenario]]\nname = \"a\"\nprogram = \"x\"\n[[scenario]]\nname = \"a\"\nprogram = \"x\"",
        "5:8",
        "two scenarios `a`: the first is in line 2",
    ),
    (
        "[[scenario]]\nname = \"a\"\nprogram = \"x\"\nexpect = \"deadlok\"",
        "4:10",
        "unknown verdict `deadlok`, did you mean `deadlock`?",
    ),
    (
        "[[scenario]]\nname = \"a\"\nprogram = \"x\"\nmatrix = {}",
        "4:10",
        "the matrix is empty",
    ),
    (
        "[[scenario]]\nname = \"a\"\nprogram = \"x\"\nmatrix.seed = []",
        "4:15",
        "`seed` has no values",
    ),
    (
        "[[scenario]]\nname = \"a\"\nprogram = \"x\"\nmatrix.seed = 3",
        "4:15",
        "takes a list of values, not a number",
    ),
    (
        "[[scenario]]\nname = \"a\"\nprogram = \"x\"\nmatrix.chace = [\"off\"]",
        "4:8",
        "did you mean `cache`?",
    ),
    (
        "[[scenario]]\nname = \"a\"\nprogram = \"x{n}\"\nmatrix.n = [1, 1]",
        "2:8",
        "`a[n=1]` comes up twice",
    ),
    (
        "[[scenario]]\nname = \"a\"\nprogram = \"x{n}\"\nmatrix.n = [1]\nexclude = [{ n = 1 }]",
        "2:8",
        "every combination of `a` is excluded",
    ),
    (
        "[[scenario]]\nname = \"a\"\nprogram = \"x{n}\"\nmatrix.n = [1]\nexclude = [{ m = 1 }]",
        "5:14",
        "unknown parameter `m`",
    ),
    (
        "[[scenario]]\nname = \"a\"\nprogram = \"x\"\nargs = [\"-n\", \"{m}\"]",
        "4:15",
        "unknown parameter `m`",
    ),
    (
        "[[scenario]]\nname = \"a\"\nprogram = \"x\"\ncache = \"braching\"",
        "4:9",
        "invalid value 'braching'",
    ),
    (
        "[[scenario]]\nname = \"a\"\nprogram = \"x\"\nkeep-going = 1",
        "4:14",
        "takes true or false, not a number",
    ),
    (
        "[[scenario]]\nname = \"a\"\nprogram = \"x\"\noffline = true",
        "2:8",
        "--cache-file",
    ),
    (
        "[[scenario]]\nname = \"a\"\nprogram = \"x\"\ntimeout = \"soon\"",
        "4:11",
        "`timeout` takes a time",
    ),
];

#[test]
fn what_is_wrong_in_a_sweep_file_is_pointed_at() {
    let bench = Bench::new(&[]);
    for (text, place, message) in WRONG {
        bench.file(text);
        let finished = bench.run(&["sweep", "s.toml"]);
        let said = String::from_utf8_lossy(&finished.stderr).into_owned();
        assert_eq!(finished.end, End::Exit(2), "{text}\n{said}");
        assert!(
            said.starts_with(&format!("tracefork: s.toml:{place}: ")),
            "{text}\n{said}"
        );
        assert!(said.contains(message), "{text}\n{said}");
    }
    let left: Vec<_> = fs::read_dir(bench.scratch.work())
        .expect("is there")
        .flatten()
        .collect();
    assert_eq!(left.len(), 1, "nothing but the sweep file: {left:?}");
}

#[test]
fn what_is_wrong_on_the_command_line_is_refused() {
    let bench = Bench::new(&[]);
    bench.file("[profiles.quick]\n[[scenario]]\nname = \"a\"\nprogram = \"x\"");
    fs::write(bench.path("bad.json"), "{}").expect("is written");
    let wrong: [(&[&str], &str); 9] = [
        (&["--partition", "slice:3/2"], "there is no part 3 of 2"),
        (&["--partition", "third:1/3"], "neither slice nor hash"),
        (&["--partition", "hash"], "neither a Slurm array"),
        (&["--profile", "quik"], "no such profile"),
        (&["--only", "b*"], "no scenario is selected"),
        (&["--set", "name"], "NAME=VALUE"),
        (&["--baseline", "missing.json"], "missing.json"),
        (&["--baseline", "bad.json"], "not a baseline"),
        (
            &["--junit", "no/such/directory/x.xml"],
            "--junit no/such/directory/x.xml",
        ),
    ];
    for (args, message) in wrong {
        let swept = bench.sweep(args).assert_code(2);
        assert!(swept.stderr.contains(message), "{args:?}\n{}", swept.stderr);
    }
    let finished = bench.run(&["sweep", "missing.toml"]);
    assert_eq!(finished.end, End::Exit(2));
    assert!(!bench.path("tracefork-sweep").exists(), "nothing was begun");
}

#[test]
fn parameters_reach_the_program() {
    let bench = Bench::new(&["writes"]);
    bench.file(
        "[parameters]\ntool = \"{dir}/writes\"\n\
         [[scenario]]\nname = \"w\"\nprogram = \"{tool}\"\nargs = [\"{threads}\", \"{writes}\"]\npreempt = \"syscall\"\n\
         exclude = [{ threads = 3, writes = 2 }]\nmatrix = { threads = [2, 3], writes = [1, 2] }\n",
    );
    let swept = bench.sweep(&[]).assert_code(0);
    let outcomes = |id: &str| swept.of(id)["result"]["outcomes"].as_array().map(Vec::len);
    assert_eq!(swept.statuses().len(), 3);
    assert_eq!(outcomes("w[threads=2,writes=1]"), Some(2));
    assert_eq!(outcomes("w[threads=2,writes=2]"), Some(6));
    assert_eq!(outcomes("w[threads=3,writes=1]"), Some(6));
    let finished = bench.run(&["sweep", "s.toml", "--list", "--only", "*threads=2*"]);
    assert_eq!(finished.stdout, b"w[threads=2,writes=1]\nw[threads=2,writes=2]\n");
    let swept = bench
        .sweep(&["--set", "tool=./missing", "--only", "*threads=3*"])
        .assert_code(4);
    assert!(
        swept.of("w[threads=3,writes=1]")["reason"]
            .as_str()
            .is_some_and(|why| why.contains("./missing"))
    );
}
