//! Every property test of the workspace begins at the shared seed, and is part of the campaign of fresh seeds.

use std::fs;
use std::path::{Path, PathBuf};

use tracefork_tests::campaign::{SUITES, workspace};

/// All Rust files of the workspace, below these directories of each crate.
fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("a directory that can be read").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            into.push(path);
        }
    }
}

/// The names of the tests in `proptest!` blocks.
fn property_tests(text: &str) -> Vec<&str> {
    let blocks = text.split("proptest! {").skip(1);
    let mut names = Vec::new();
    for block in blocks {
        // Formatted code closes a block at the column where it began.
        let indent = block
            .lines()
            .find(|line| line.trim_start().starts_with("#[test]"));
        let depth = indent.map_or(4, |line| line.len() - line.trim_start().len());
        let end = format!("\n{}}}", " ".repeat(depth - 4));
        let block = block.split(&end).next().unwrap_or(block);
        let functions = block.split("#[test]").skip(1);
        names.extend(functions.filter_map(|rest| rest.trim_start().strip_prefix("fn ")?.split('(').next()));
    }
    names
}

#[test]
fn all_are_seeded_and_in_the_campaign() {
    let mut seen = 0;
    for package in [
        "supervisor",
        "tracee",
        "syscall-model",
        "checkpoint",
        "peers",
        "explore",
        "tests",
    ] {
        for folder in ["src", "tests"] {
            let folder = workspace().join(package).join(folder);
            let mut files = Vec::new();
            sources(&folder, &mut files);
            for file in files
                .iter()
                .filter(|file| !file.ends_with("tests/property_tests.rs"))
            {
                let text = fs::read_to_string(file).expect("source that can be read");
                let blocks = text.matches("proptest! {").count();
                let seeded = text.matches("#![proptest_config(test_seeds::property(").count();
                assert_eq!(
                    blocks,
                    seeded,
                    "{}: proptest! with other settings",
                    file.display()
                );
                let stem = file.file_stem().and_then(|stem| stem.to_str());
                for name in property_tests(&text) {
                    seen += 1;
                    let covers = |suite: &&tracefork_tests::campaign::Suite| {
                        let is_unit = folder.ends_with("src") && suite.test.is_none();
                        let path = format!("{}::tests::{name}", stem.unwrap_or_default());
                        suite.directory == package
                            && (is_unit || (folder.ends_with("tests") && suite.test == stem))
                            && (path.contains(suite.filter))
                    };
                    assert!(
                        SUITES.iter().any(|suite| covers(&suite)),
                        "{name} of {} is not in tests/src/campaign.rs",
                        file.display()
                    );
                }
            }
        }
    }
    assert!(seen >= 8, "property tests are not recognised any more");
}
