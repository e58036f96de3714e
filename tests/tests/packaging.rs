//! The Debian package: what it is made of is there. `TRACEFORK_ALL=1` makes it, unpacks it and tries the program in it, with cargo-deb built for that
//! if it is missing, which takes minutes.

use std::path::{Path, PathBuf};
use std::process::Command;

use tracefork_tests::command_under_test;
use tracefork_tests::directives::End;
use tracefork_tests::observe::{Scratch, TIME_LIMIT};
use tracefork_tests::process;
use tracefork_tests::supervised::Tracefork;

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
    install
        .args(["install", "cargo-deb", "--locked", "--root"])
        .arg(&tools);
    assert!(install.status().expect("cargo").success());
    let path = format!(
        "{}:{}",
        tools.join("bin").display(),
        std::env::var("PATH").expect("PATH")
    );
    let mut test = Command::new(root().join("packaging/deb-test"));
    test.args(["--profile", "dev", "--unpack"]).env("PATH", path);
    assert!(test.status().expect("it runs").success());
}
