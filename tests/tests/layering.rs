//! The direction of dependencies between the crates of the workspace, as the design has it: the binary → sweep, views, checker → session → trace,
//! symbols → hooks, failure → explore, checkpoint, peers, syscall-model, tracee; checkpoint → tracee; tests → all of them; nothing else. (What tests install,
//! and their seeds, may be asked by the tests of any.) And what only some of them may do: be unsafe, know the command line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// Each crate's directory, its package name, and what it may depend on.
const ALLOWED: [(&str, &str, &[&str]); 18] = [
    (
        "supervisor",
        "tracefork",
        &[
            "checker",
            "sweep",
            "views",
            "session",
            "trace",
            "symbols",
            "hooks",
            "failure",
            "explore",
            "checkpoint",
            "peers",
            "syscall-model",
            "tracee",
        ],
    ),
    (
        "supervisor/checker",
        "checker",
        &[
            "session",
            "trace",
            "symbols",
            "hooks",
            "failure",
            "explore",
            "checkpoint",
            "peers",
            "syscall-model",
        ],
    ),
    (
        "supervisor/views",
        "views",
        &[
            "session",
            "trace",
            "symbols",
            "hooks",
            "failure",
            "explore",
            "syscall-model",
        ],
    ),
    (
        "supervisor/sweep",
        "sweep",
        &["session", "trace", "failure", "peers"],
    ),
    (
        "supervisor/session",
        "session",
        &[
            "trace",
            "symbols",
            "hooks",
            "failure",
            "explore",
            "checkpoint",
            "peers",
            "syscall-model",
            "tracee",
        ],
    ),
    (
        "supervisor/trace",
        "trace",
        &["hooks", "failure", "peers", "syscall-model", "tracee"],
    ),
    ("supervisor/symbols", "symbols", &["hooks"]),
    // Files of others are read as `peers` reads them: up to a bound.
    ("supervisor/hooks", "hooks", &["peers"]),
    ("supervisor/failure", "failure", &["checkpoint", "tracee"]),
    ("checkpoint", "checkpoint", &["tracee", "test-seeds"]),
    (
        "tests",
        "tracefork-tests",
        // The benches compare what the supervisor does with what the layers below it cost.
        &[
            "tracefork",
            "checker",
            "sweep",
            "views",
            "session",
            "trace",
            "symbols",
            "hooks",
            "failure",
            "explore",
            "peers",
            "syscall-model",
            "tracee",
            "test-packages",
            "test-ports",
            "test-seeds",
        ],
    ),
    ("tracee", "tracee", &[]),
    ("syscall-model", "syscall-model", &["test-seeds"]),
    ("peers", "peers", &["test-packages", "test-ports", "test-seeds"]),
    ("tests/packages", "test-packages", &[]),
    ("tests/ports", "test-ports", &[]),
    ("tests/seeds", "test-seeds", &[]),
    ("explore", "explore", &["test-seeds"]),
];

/// The crates that may hold unsafe code.
const UNSAFE: [&str; 2] = ["tracee", "checkpoint"];

fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests lies in the workspace").to_owned()
}

fn manifest(directory: &str) -> Table {
    let file = root().join(directory).join("Cargo.toml");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.parse()
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// All packages a manifest depends on, whatever the kind or the target, by their real names.
fn dependencies(manifest: &Table) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (key, value) in manifest {
        let Some(table) = value.as_table() else { continue };
        if key.ends_with("dependencies") {
            for (name, what) in table {
                let package = what.get("package").and_then(Value::as_str);
                found.insert(package.unwrap_or(name).to_owned());
            }
        } else if key == "target" {
            let per_target = table.values().filter_map(Value::as_table);
            found.extend(per_target.flat_map(dependencies));
        }
    }
    found
}

#[test]
fn every_crate_of_the_workspace_has_its_place() {
    let root = manifest(".");
    let members = root["workspace"]["members"]
        .as_array()
        .expect("members is a list");
    let members: BTreeSet<&str> = members.iter().filter_map(Value::as_str).collect();
    let known: BTreeSet<&str> = ALLOWED.iter().map(|(directory, _, _)| *directory).collect();
    assert_eq!(members, known);
    for (directory, package, _) in ALLOWED {
        assert_eq!(
            manifest(directory)["package"]["name"].as_str(),
            Some(package),
            "{directory}"
        );
    }
}

#[test]
fn dependencies_point_one_way() {
    let crates: BTreeMap<&str, &[&str]> = ALLOWED.iter().map(|(_, package, to)| (*package, *to)).collect();
    for (directory, package, allowed) in ALLOWED {
        for dependency in dependencies(&manifest(directory)) {
            let inside = crates.contains_key(dependency.as_str());
            assert!(
                !inside || allowed.contains(&dependency.as_str()),
                "{package} must not depend on {dependency}"
            );
        }
    }
}

/// The list itself has no way round in a circle, and nothing is allowed that nobody needs.
#[test]
fn what_is_allowed_has_no_cycle_and_is_needed() {
    let mut left: BTreeMap<&str, &[&str]> = ALLOWED.iter().map(|(_, package, to)| (*package, *to)).collect();
    while !left.is_empty() {
        let lowest: Vec<&str> = left
            .iter()
            .filter(|(_, to)| to.iter().all(|package| !left.contains_key(package)))
            .map(|(package, _)| *package)
            .collect();
        assert!(!lowest.is_empty(), "a cycle among {:?}", left.keys());
        left.retain(|package, _| !lowest.contains(package));
    }
    for (directory, package, allowed) in ALLOWED {
        let found = dependencies(&manifest(directory));
        for dependency in allowed {
            assert!(
                found.contains(*dependency),
                "{package} does not need {dependency}"
            );
        }
    }
}

#[test]
fn only_the_binary_knows_the_command_line() {
    for (directory, package, _) in ALLOWED {
        let knows = dependencies(&manifest(directory)).contains("clap");
        assert_eq!(knows, directory == "supervisor", "{package}");
    }
}

#[test]
fn unsafe_code_is_forbidden_wherever_it_is_not_needed() {
    for (directory, package, _) in ALLOWED {
        let file = root().join(directory).join("src/lib.rs");
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let is_forbidden = text.lines().any(|line| line == "#![forbid(unsafe_code)]");
        assert_eq!(is_forbidden, !UNSAFE.contains(&package), "{package}");
    }
}
