//! A directory with a sweep file and programs, and what a sweep in it leaves.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tracefork_tests::directives::End;
use tracefork_tests::observe::Scratch;
use tracefork_tests::process::{self, Finished, wait_until};
use tracefork_tests::supervised::{TIME_LIMIT, Tracefork};
use tracefork_tests::{command_under_test, guests};

/// How long something may take to begin on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(30);
/// How long the kernel may take to end what it was told to end.
pub const GRACE: Duration = Duration::from_mins(5);

/// A directory with a sweep file and the programs that it names.
pub struct Bench {
    pub scratch: Scratch,
}

/// What a sweep left.
pub struct Swept {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub document: Value,
}

impl Bench {
    /// With these guests of `check` in it, under their names.
    pub fn new(programs: &[&str]) -> Bench {
        let bench = Bench {
            scratch: Scratch::new().expect("a directory"),
        };
        for name in programs {
            bench.program(name, name);
        }
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.work().join(name)
    }

    /// Puts a guest here under a name, in place of what had it.
    pub fn program(&self, guest: &str, name: &str) {
        let path = if guest == "never_ends" { "other" } else { "check" };
        let built = guests::one(&format!("{path}/{guest}.c")).and_then(|guest| guest.build());
        // Renamed into place: the old one may still be running.
        let fresh = self.path("fresh");
        process::copy_program(&built.expect("the guest builds"), &fresh);
        fs::rename(&fresh, self.path(name)).expect("is put in place");
    }

    pub fn file(&self, text: &str) {
        fs::write(self.path("s.toml"), text).expect("is written");
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Tracefork::new(command_under_test!()).command(&self.scratch.work());
        command.args(args);
        command
    }

    pub fn run(&self, args: &[&str]) -> Finished {
        process::run(self.command(args), TIME_LIMIT).expect("it ends")
    }

    /// `tracefork sweep s.toml ARGS`.
    pub fn sweep(&self, args: &[&str]) -> Swept {
        let line = [&["sweep", "s.toml", "--json", "result.json"], args].concat();
        self.swept(self.run(&line))
    }

    pub fn swept(&self, finished: Finished) -> Swept {
        let stderr = String::from_utf8_lossy(&finished.stderr).into_owned();
        let End::Exit(code) = finished.end else {
            panic!("{:?}: {stderr}", finished.end)
        };
        let document = serde_json::from_str(&self.read("result.json")).unwrap_or(Value::Null);
        Swept {
            code,
            stdout: String::from_utf8_lossy(&finished.stdout).into_owned(),
            stderr,
            document,
        }
    }

    /// A sweep that runs on.
    pub fn start(&self, args: &[&str]) -> Started {
        let mut command = self.command(args);
        command
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Started(command.spawn().expect("the sweep starts"))
    }
}

/// A running sweep; it ends with the test, also with one that fails.
pub struct Started(pub Child);

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.0.kill().and_then(|()| self.0.wait().map(drop));
    }
}

impl Swept {
    pub fn scenarios(&self) -> &[Value] {
        self.document["scenarios"].as_array().map_or(&[], Vec::as_slice)
    }

    pub fn of(&self, id: &str) -> &Value {
        let found = self.scenarios().iter().find(|scenario| scenario["id"] == id);
        found.unwrap_or_else(|| panic!("no {id} in {:#}\n{}", self.document, self.stderr))
    }

    /// Every scenario and what was thought of it.
    pub fn statuses(&self) -> Vec<(&str, &str)> {
        self.scenarios()
            .iter()
            .map(|scenario| {
                let field = |name: &str| scenario[name].as_str().unwrap_or_default();
                (field("id"), field("status"))
            })
            .collect()
    }

    #[track_caller]
    pub fn assert_code(self, code: i32) -> Swept {
        assert_eq!(self.code, code, "\n{}\n{}", self.stdout, self.stderr);
        self
    }
}

/// Waits until a sweep of [`three`] has come to its slow scenario.
pub fn wait_for_slow(bench: &Bench, sweep: &mut Started) {
    wait_until(PATIENCE, "at the slow one", || {
        let ended = sweep.0.try_wait().expect("it is ours");
        assert!(ended.is_none(), "it ended before: {ended:?}");
        is_running(&bench.path("slow"))
    });
}

/// Whether any process runs this program.
pub fn is_running(program: &Path) -> bool {
    let entries = fs::read_dir("/proc").expect("/proc is there").flatten();
    entries
        .into_iter()
        .any(|entry| fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == program))
}

pub const PAIR: &str = r#"
[defaults]
program = "./lock_order_{variant}"

[profiles.one]
matrix.case = [{ variant = "fixed", expect = "ok" }]

[[scenario]]
name = "pair"
matrix.case = [{ variant = "buggy", expect = "deadlock" }, { variant = "fixed" }]

[[scenario]]
name = "wrong"
tags = ["bad"]
matrix.case = [{ variant = "buggy" }, { variant = "fixed", expect = ["deadlock", "crash"] }]
"#;

pub const THREE: &str = r#"
[defaults]
program = "./fine"
setup = ["echo up {which} >> order"]
teardown = ["echo down {which} >> order"]
[[scenario]]
name = "quick"
matrix.which = ["a", "b"]
[[scenario]]
name = "slow"
program = "./slow"
matrix.which = ["c"]
"#;

pub fn three() -> Bench {
    let bench = Bench::new(&[]);
    bench.program("outcome_two_writes", "fine");
    bench.program("never_ends", "slow");
    bench.file(THREE);
    bench
}

/// What was run since the file `order` was last taken away.
pub fn ups(bench: &Bench) -> Vec<String> {
    let order = bench.read("order");
    let _ = fs::remove_file(bench.path("order"));
    let ups = order.lines().filter_map(|line| line.strip_prefix("up "));
    ups.map(str::to_owned).collect()
}
