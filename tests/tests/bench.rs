//! The benches run, and say what they are meant to. What they measure is not asserted: machines differ, and are busy.

use std::process::Command;

use serde_json::Value;

#[test]
fn the_benches_run() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["--quick", "--json"])
        .output()
        .expect("the benches start");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let rows: Value = serde_json::from_slice(&output.stdout).expect("a JSON table");
    let rows = rows.as_array().expect("a list of rows");
    for about in [
        "computes",
        "emulated call",
        "mutex operation",
        "transition",
        "without an identity",
        "rewind",
        "fork",
        "workers",
        "small programs",
        "larger programs",
        "256 MB",
        "a fork, its end",
        "eight processes",
    ] {
        let named = |row: &&Value| row["name"].as_str().is_some_and(|name| name.contains(about));
        let row = rows
            .iter()
            .find(named)
            .unwrap_or_else(|| panic!("no row about {about}"));
        assert!(row["ratio"].is_f64() && row["busy_ratio"].is_f64(), "{row}");
        assert!(row["aim"].is_string(), "{row}");
    }
}

#[test]
fn where_the_time_goes_is_told() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["--quick", "costs"])
        .output()
        .expect("the benches start");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let table = String::from_utf8_lossy(&output.stdout);
    for part in ["a bare stop", "steps", "identities", "rewinds", "the program"] {
        assert!(table.contains(part), "nothing about {part}:\n{table}");
    }
}
