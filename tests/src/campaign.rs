//! The property tests of the workspace with fresh seeds, one after the other: what `cargo test` does not do, so that it is the same everywhere.
//!
//! The test executables are built once and started with [`test_seeds::VARIABLE`] set to the seed. What fails is shown with the command that
//! repeats it.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// Property tests that are in one executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// The crate, by its directory in the workspace.
    pub directory: &'static str,
    pub package: &'static str,
    /// The file under `tests/`; the crate's own unit tests if there is none.
    pub test: Option<&'static str>,
    /// The tests in it that are meant, where there are others.
    pub filter: &'static str,
}

const fn suite(directory: &'static str, test: Option<&'static str>, filter: &'static str) -> Suite {
    Suite {
        directory,
        package: directory,
        test,
        filter,
    }
}

const fn end_to_end(test: &'static str) -> Suite {
    Suite {
        directory: "tests",
        package: "tracefork-tests",
        test: Some(test),
        filter: "",
    }
}

/// All of them. (A test of this crate finds those that are missing here.)
pub const SUITES: [Suite; 12] = [
    suite("explore", Some("equivalence"), ""),
    suite("explore", Some("counterexamples"), "the_number_of_preemptions"),
    suite("syscall-model", Some("differential"), "the_model_does_what"),
    suite("syscall-model", Some("channels_like_the_kernel"), "random_calls"),
    suite("peers", Some("tree_model"), ""),
    suite("peers", Some("real"), "modes_agree"),
    suite("peers", None, "sorted::"),
    suite("checkpoint", None, "tree::"),
    end_to_end("random_calls"),
    end_to_end("random_programs"),
    end_to_end("random_protocols"),
    end_to_end("hostile_files"),
];

impl Suite {
    fn name(&self) -> String {
        format!("{} {}", self.package, self.test.unwrap_or("unit tests"))
    }

    /// The command line that repeats a failure.
    fn again(&self, seed: u64) -> String {
        let target = self
            .test
            .map_or_else(|| "--lib".to_owned(), |test| format!("--test {test}"));
        let variable = test_seeds::VARIABLE;
        format!(
            "{variable}={seed} cargo test -p {} {target} {}",
            self.package, self.filter
        )
    }
}

/// What a campaign is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// No suite is started after that; but each is run once.
    pub duration: Duration,
    /// The first seed of each suite; others follow it.
    pub seed: u64,
}

impl Plan {
    /// # Errors
    /// These are not the arguments of a campaign.
    pub fn parse(arguments: &[String]) -> Result<Plan> {
        let mut plan = Plan {
            duration: Duration::from_mins(10),
            // Short enough to be typed.
            seed: RandomState::new().build_hasher().finish() >> 32,
        };
        for pair in arguments.chunks(2) {
            match pair {
                [name, value] if name == "--minutes" => {
                    let minutes: u64 = value.parse().context("--minutes takes a number")?;
                    plan.duration = Duration::from_secs(60 * minutes);
                }
                [name, value] if name == "--seed" => {
                    plan.seed = value.parse().context("--seed takes a number")?;
                }
                _ => bail!("usage: campaign [--minutes N] [--seed FIRST]"),
            }
        }
        Ok(plan)
    }
}

/// What a suite has had so far.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    runs: u64,
    time: Duration,
}

/// Runs the suites again and again, each for as long as the others; true if nothing failed.
///
/// # Errors
/// They cannot be built or started.
pub fn run(plan: &Plan) -> Result<bool> {
    let executables = build()?;
    let start = Instant::now();
    let mut failures = Vec::new();
    let mut shares = [Share::default(); SUITES.len()];
    loop {
        // One that was never run has had the least.
        let next = (0..SUITES.len())
            .min_by_key(|&i| shares[i].time)
            .unwrap_or_default();
        if shares[next].runs > 0 && start.elapsed() >= plan.duration {
            break;
        }
        let (suite, share) = (&SUITES[next], &mut shares[next]);
        let seed = plan.seed.wrapping_add(share.runs);
        let began = Instant::now();
        let failure = execute(suite, &executables[next], seed)?;
        share.runs += 1;
        share.time += began.elapsed().max(Duration::from_nanos(1));
        let verdict = if failure.is_some() { "FAILED" } else { "ok" };
        let seconds = began.elapsed().as_secs_f64();
        // Some take a moment only: they are told of more and more rarely.
        if failure.is_some() || share.runs.is_power_of_two() {
            println!("{:<42} seed {seed} {verdict:>6} {seconds:8.1} s", suite.name());
        }
        if let Some(output) = failure {
            println!("{output}\nagain: {}", suite.again(seed));
            failures.push(suite.again(seed));
        }
    }
    println!("from seed {}:", plan.seed);
    for (suite, share) in SUITES.iter().zip(&shares) {
        println!("  {:<42} {:>6} seed(s)", suite.name(), share.runs);
    }
    println!("{} failure(s)", failures.len());
    for again in &failures {
        println!("  {again}");
    }
    Ok(failures.is_empty())
}

/// Runs a suite once; what it said, if it failed.
fn execute(suite: &Suite, executable: &Path, seed: u64) -> Result<Option<String>> {
    let output = Command::new(executable)
        .args(Some(suite.filter).filter(|filter| !filter.is_empty()))
        // As cargo would start it.
        .current_dir(workspace().join(suite.directory))
        .env("CARGO_MANIFEST_DIR", workspace().join(suite.directory))
        .env(test_seeds::VARIABLE, seed.to_string())
        .stdin(Stdio::null())
        .output()
        .with_context(|| executable.display().to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        // A filter that fits no test any more would look like success for ever.
        let did_something = !said.contains("test result: ok. 0 passed") && said.contains("test result: ok. ");
        ensure!(did_something, "{}: no test was run\n{said}", suite.name());
        return Ok(None);
    }
    Ok(Some(format!("{said}{}", String::from_utf8_lossy(&output.stderr))))
}

/// Builds the suites in the profile that this was built in; their executables, in order.
fn build() -> Result<Vec<PathBuf>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["test", "--no-run", "--message-format=json", "--lib"])
        .current_dir(workspace());
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    for suite in SUITES {
        cargo.args(["-p", suite.package]);
        cargo.args(suite.test.iter().flat_map(|test| ["--test", test]));
    }
    let output = cargo.stderr(Stdio::inherit()).output().context("cargo")?;
    ensure!(output.status.success(), "the tests cannot be built");
    let messages: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let found = SUITES.iter().map(|suite| {
        let executable = messages.iter().find_map(|message| executable(message, suite));
        executable.with_context(|| format!("cargo has not built {}", suite.name()))
    });
    found.collect()
}

/// The executable that a message of cargo tells about, if it is that of the suite.
fn executable(message: &Value, suite: &Suite) -> Option<PathBuf> {
    let manifest = workspace().join(suite.directory).join("Cargo.toml");
    let target = &message["target"];
    let kind = target["kind"][0].as_str()?;
    let is_meant = match suite.test {
        Some(test) => kind == "test" && target["name"] == test,
        None => kind == "lib",
    };
    let is_here = message["manifest_path"].as_str().map(OsStr::new) == Some(manifest.as_os_str());
    let executable = message["executable"].as_str().filter(|_| is_meant && is_here)?;
    Some(PathBuf::from(executable))
}

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests)
}
