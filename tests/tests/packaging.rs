//! What is handed on: the workflow for users to copy, and the Debian package: what it is made of is there. `TRACEFORK_ALL=1` makes it, unpacks it and tries the
//! program in it, with cargo-deb built for that if it is missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use tracefork_tests::command_under_test;
use tracefork_tests::directives::End;
use tracefork_tests::observe::{Scratch, TIME_LIMIT, clean_command};
use tracefork_tests::supervised::Tracefork;
use tracefork_tests::{packages, process};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests lies in the workspace")
}

/// The files that the package's manifest names, as patterns from the supervisor's directory.
fn assets() -> Vec<String> {
    let manifest = std::fs::read_to_string(root().join("supervisor/Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = manifest.parse().expect("it is TOML");
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array();
    let source = |asset: &toml::Value| asset[0].as_str().expect("a path").to_owned();
    assets.expect("a list").iter().map(source).collect()
}

/// How many files there are of a name with at most one star, in its last part.
fn count(pattern: &Path) -> usize {
    let name = pattern
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a name");
    let (begin, end) = name.split_once('*').unwrap_or((name, ""));
    let directory = std::fs::read_dir(pattern.parent().expect("a directory"));
    let names = directory
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    names
        .filter_map(|file| file.into_string().ok())
        .filter(|file| file == name || (name.contains('*') && file.starts_with(begin) && file.ends_with(end)))
        .count()
}

#[test]
fn all_that_goes_into_the_package_is_there() {
    let scratch = Scratch::new().expect("a directory");
    let generated = scratch.work();
    let make = |args: &[&str]| {
        let mut command = Tracefork::new(command_under_test!()).command(&generated);
        command.args(args);
        let finished = process::run(command, TIME_LIMIT).expect("it ends");
        assert_eq!(finished.end, End::Exit(0), "{args:?}");
        finished.stdout
    };
    make(&["man", "--dir", "man"]);
    for shell in ["bash", "zsh", "fish"] {
        let file = generated.join(format!("tracefork.{shell}"));
        std::fs::write(file, make(&["completions", shell])).expect("a file");
    }
    for asset in assets() {
        let file: PathBuf = match asset.strip_prefix("../packaging/generated/") {
            Some(made) => generated.join(made),
            None if asset == "target/release/tracefork" => continue,
            None => root().join("supervisor").join(&asset),
        };
        assert!(count(&file) > 0, "no {asset}");
    }
}

#[test]
fn the_package_installs_and_runs() {
    if std::env::var_os("TRACEFORK_ALL").is_none() {
        return;
    }
    let tools = tracefork_tests::guests::cache_directory()
        .expect("a directory")
        .join("tools");
    let mut install = Command::new(env!("CARGO"));
    install.args([
        "install",
        "cargo-deb",
        "--version",
        "3.8.0",
        "--locked",
        "--debug",
        "--quiet",
        "--root",
    ]);
    assert!(install.arg(&tools).status().expect("cargo").success());
    let path = format!(
        "{}:{}",
        tools.join("bin").display(),
        std::env::var("PATH").expect("PATH")
    );
    let mut test = Command::new(root().join("packaging/deb-test"));
    test.args(["--profile", "dev", "--unpack"]).env("PATH", path);
    let tried = test.output().expect("it runs");
    let said = String::from_utf8_lossy(&[tried.stdout, tried.stderr].concat()).into_owned();
    assert!(tried.status.success(), "{said}");
}

/// The workflow to copy checks a program of the user's. Without one it must fail for that, and not for what it says to tracefork.
#[test]
fn the_workflow_to_copy_is_understood() {
    let workflow = std::fs::read_to_string(root().join("docs/ci/github-actions.yml")).expect("a workflow");
    let check = workflow.split("- name: Check\n").nth(1).expect("a step");
    let script = check
        .split("run: |\n")
        .nth(1)
        .and_then(|rest| rest.split("\n\n").next());
    let scratch = Scratch::new().expect("a directory");
    std::os::unix::fs::symlink(command_under_test!(), scratch.beside("tracefork")).expect("a link");
    let mut shell = clean_command(Path::new("/bin/bash"), &scratch.work());
    let path = format!("{}:{}", scratch.beside("").display(), packages::PATH);
    shell
        .args(["-e", "-c", script.expect("a script")])
        .env("PATH", path);
    let finished = process::run(shell, TIME_LIMIT).expect("it ends");
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert_eq!(finished.end, End::Exit(4), "{said}");
    assert!(said.contains("./server: no such program"), "{said}");
}
