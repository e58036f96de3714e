//! The direction of dependencies between the crates of the workspace, as the design has it: supervisor → explore, checkpoint,
//! peers, syscall-model, tracee; checkpoint → tracee; tests → all of them; nothing else. (What tests install, and their seeds, may be asked by the tests of any.)

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use toml::{Table, Value};

/// Each crate's directory, its package name, and what it may depend on.
const ALLOWED: [(&str, &str, &[&str]); 9] = [
    (
        "supervisor",
        "tracefork",
        &["explore", "checkpoint", "peers", "syscall-model", "tracee"],
    ),
    ("checkpoint", "checkpoint", &["tracee", "test-seeds"]),
    (
        "tests",
        "tracefork-tests",
        // The benches compare what the supervisor does with what the layers below it cost.
        &[
            "tracefork",
            "explore",
            "peers",
            "syscall-model",
            "tracee",
            "test-packages",
            "test-seeds",
        ],
    ),
    ("tracee", "tracee", &[]),
    ("syscall-model", "syscall-model", &["test-seeds"]),
    ("peers", "peers", &["test-packages", "test-seeds"]),
    ("tests/packages", "test-packages", &[]),
    ("tests/seeds", "test-seeds", &[]),
    ("explore", "explore", &["test-seeds"]),
];

fn manifest(directory: &str) -> Table {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests lies in the workspace");
    let file = root.join(directory).join("Cargo.toml");
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
