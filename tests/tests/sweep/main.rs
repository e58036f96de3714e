//! `tracefork sweep` and `tracefork merge`: the sweep file and what is wrong with it, running scenarios, reports; and the sweep over the
//! guests of `check`.

mod bench;
mod file;
mod merging;
mod reports;
mod running;

use std::fs;

use bench::Bench;
use tracefork_tests::guests;

#[test]
fn the_commands_are_documented_where_users_look() {
    let bench = Bench::new(&[]);
    let said = |args: &[&str]| String::from_utf8_lossy(&bench.run(args).stdout).into_owned();
    let help = said(&["sweep", "--help"]);
    for text in [
        "[[scenario]]",
        "--partition",
        "--baseline",
        "--resume",
        "deadlock",
        "Examples:",
    ] {
        assert!(help.contains(text), "{text}\n{help}");
    }
    assert!(said(&["merge", "--help"]).contains("--allow-missing"));
    for text in [said(&["completions", "bash"]), said(&["man"])] {
        assert!(text.contains("sweep") && text.contains("merge"), "{text}");
    }
    bench.run(&["man", "--dir", "man"]);
    assert!(bench.read("man/tracefork-sweep.1").contains("partition"));
    // The example in the help is a sweep file.
    let example = help
        .split("Example sweep file:")
        .nth(1)
        .and_then(|rest| rest.split("Examples:").next());
    bench.file(example.expect("an example"));
    let finished = bench.run(&["sweep", "s.toml", "--list"]);
    assert_eq!(
        finished.stdout.iter().filter(|byte| **byte == b'\n').count(),
        12,
        "{}",
        String::from_utf8_lossy(&finished.stderr)
    );
}

/// `tests/guests/sweep.toml`, over all guests if asked to; it must name each of them.
#[test]
fn the_guests_are_as_their_sweep_says() {
    let bench = Bench::new(&[]);
    let all = guests::all("check").expect("the guests can be read");
    fs::create_dir(bench.path("built")).expect("a directory");
    for guest in &all {
        let built = guest.build().expect("the guest builds");
        std::os::unix::fs::symlink(built, bench.path("built").join(&guest.name)).expect("a link");
    }
    let file = guests::directory().join("sweep.toml");
    let file = file.to_str().expect("the path is text");
    let built = format!("guests={}", bench.path("built").display());
    let mut line = vec!["sweep", file, "--set", &built, "--json", "result.json"];
    if std::env::var_os("TRACEFORK_ALL").is_none() {
        line.extend(["--profile", "quick"]);
    } else {
        line.extend(["--progress", "always"]);
    }
    let swept = bench.swept(bench.run(&line)).assert_code(0);
    assert!(swept.scenarios().len() >= 10);
    // Whatever is run by default, the file is complete.
    let listing = bench.run(&["sweep", file, "--set", &built, "--list"]);
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    for guest in &all {
        let (stem, variant) = match guest.name.rsplit_once('_') {
            Some((stem, variant @ ("buggy" | "fixed"))) => (stem, variant),
            _ => (guest.name.as_str(), ""),
        };
        let is_named = |line: &str| {
            let named = line.contains(&format!("={stem}")) || line.starts_with(&stem.replace('_', "-"));
            named && (variant.is_empty() || line.contains(&format!("variant={variant}")))
        };
        assert!(
            listing.lines().any(is_named),
            "{} is not in the sweep",
            guest.name
        );
    }
}

/// `tests/guests/corpus.toml`: small programs for each class of the usual suites.
#[test]
fn the_corpus_is_as_its_sweep_says() {
    let bench = Bench::new(&[]);
    fs::create_dir(bench.path("built")).expect("a directory");
    for source in [
        "waiting.c",
        "values.c",
        "classics.c",
        "freed.c",
        "library.c",
        "polling.c",
        "behalf.c",
        "cpp.cc",
        "rust.rs",
    ] {
        let built = guests::one(&format!("corpus/{source}")).and_then(|guest| guest.build());
        let built = built.expect("the guest builds");
        let name = source.split('.').next().expect("a name");
        std::os::unix::fs::symlink(built, bench.path("built").join(name)).expect("a link");
    }
    let file = guests::directory().join("corpus.toml");
    let file = file.to_str().expect("the path is text");
    let built = format!("guests={}", bench.path("built").display());
    let mut checked = 0;
    for part in [
        "waiting", "values", "classics", "freed", "library", "polling", "behalf", "cpp", "rust",
    ] {
        let line = [
            "sweep",
            file,
            "--set",
            &built,
            "--only",
            part,
            "--results",
            part,
            "--json",
            "result.json",
        ];
        let swept = bench.swept(bench.run(&line)).assert_code(0);
        checked += swept.scenarios().len();
    }
    assert!(checked >= 226, "{checked} programs");
}
