//! `docs/errors.md` has every message that can stop tracefork, under the exit code that comes with it, and none that cannot: compared with
//! the messages in the sources.
//!
//! A new message fails this test until it has its row: what it means, and what to do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use tracefork_tests::documents::root;

/// Messages with the exit code that each comes with; `…` stands for what differs.
type Messages = BTreeMap<String, u8>;

fn sources(below: &str) -> Vec<PathBuf> {
    let (mut files, mut pending) = (Vec::new(), vec![root().join(below)]);
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).expect("the sources are there").flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// The text of a string literal of the source, with `…` for what is filled in.
fn template(literal: &str) -> String {
    let joined = Regex::new(r"\\\n\s*")
        .expect("a pattern")
        .replace_all(literal, "")
        .into_owned();
    let filled = Regex::new(r"\{[^{}]*\}")
        .expect("a pattern")
        .replace_all(&joined, "…")
        .into_owned();
    let plain = filled.replace("\\\"", "\"").replace("\\n", " ");
    let merged = Regex::new("…( …|…)+")
        .expect("a pattern")
        .replace_all(&plain, "…")
        .into_owned();
    merged.trim().to_owned()
}

const LITERAL: &str = r#""((?:[^"\\]|\\(?s:.))*)""#;

/// What the supervisor says itself.
fn said_by_the_supervisor() -> Messages {
    let pattern =
        format!(r"Failure::(usage|unsupported|desync|peer|internal)\(\s*(?:format!\(\s*)?{LITERAL}");
    let by_name = Regex::new(&pattern).expect("a pattern");
    let pattern = format!(r"Failure::new\(\s*(?:ExitCode|Code)::(\w+),\s*(?:format!\(\s*)?{LITERAL}");
    let by_code = Regex::new(&pattern).expect("a pattern");
    let mut messages = Messages::new();
    for file in sources("supervisor") {
        let text = fs::read_to_string(&file).expect("a source can be read");
        for found in by_name.captures_iter(&text).chain(by_code.captures_iter(&text)) {
            let code = match &found[1] {
                "usage" | "Usage" => 2,
                "Limit" => 3,
                "unsupported" | "Unsupported" => 4,
                "peer" | "Peer" => 5,
                "desync" | "Desync" => 6,
                "internal" | "Internal" => 7,
                other => panic!("{}: what exit code is {other}?", file.display()),
            };
            messages.insert(template(&found[2]), code);
        }
    }
    messages
}

/// What the layers below say, in the words of their error types.
fn said_below(file: &str, code: u8) -> Messages {
    let text = fs::read_to_string(root().join(file)).expect("the error type is there");
    let pattern = Regex::new(&format!(r"#\[error\(\s*{LITERAL}")).expect("a pattern");
    pattern
        .captures_iter(&text)
        .map(|found| (template(&found[1]), code))
        .collect()
}

/// Messages that are nothing but what someone else says.
fn says_something(message: &str) -> bool {
    message.chars().filter(|c| c.is_alphabetic()).count() > 3
}

fn catalogue(page: &Path) -> Messages {
    let text = fs::read_to_string(page).expect("the catalogue is there");
    let (mut code, mut messages) = (None, Messages::new());
    let quoted = Regex::new("``([^`]|`[^`])+``|`[^`]+`").expect("a pattern");
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            code = heading
                .strip_prefix("Exit code ")
                .or_else(|| heading.strip_prefix("Limits (exit code "))
                .and_then(|rest| rest[..1].parse().ok());
        }
        let Some(code) = code else { continue };
        let first = line.strip_prefix("| ").and_then(|row| row.split(" | ").next());
        for message in quoted.find_iter(first.unwrap_or_default()) {
            messages.insert(message.as_str().trim_matches('`').to_owned(), code);
        }
    }
    messages
}

#[test]
fn every_message_is_in_the_catalogue_under_its_exit_code() {
    let mut said = said_by_the_supervisor();
    said.extend(said_below("peers/src/error.rs", 5));
    said.extend(said_below("tracee/src/error.rs", 4));
    said.extend(said_below("checkpoint/src/error.rs", 4));
    for file in ["tracee/src/spawn.rs", "supervisor/hooks/src/lib.rs"] {
        said.extend(said_below(file, 4));
    }
    for file in [
        "supervisor/hooks/src/scratch.rs",
        "supervisor/hooks/src/displace.rs",
    ] {
        said.extend(said_below(file, 4));
    }
    // Found when the command line is read, before there are any peers.
    said.insert("peer command …: …".to_owned(), 2);
    // Said by the allocator, which has no error type; `cli_errors` hears it.
    said.insert(
        "out of memory, and nothing that was found could be kept".to_owned(),
        3,
    );
    // The peer is not to blame.
    said.insert("peer … was waited for when the time was over".to_owned(), 3);
    said.retain(|message, _| says_something(message));
    assert!(
        said.len() > 80,
        "the messages are not found in the sources any more"
    );
    let listed = catalogue(&root().join("docs/errors.md"));
    let missing: Vec<_> = said
        .iter()
        .filter(|(message, code)| listed.get(*message) != Some(code))
        .collect();
    let stale: Vec<_> = listed
        .keys()
        .filter(|message| !said.contains_key(*message))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/errors.md lacks (message, exit code): {missing:#?}"
    );
    assert!(
        stale.is_empty(),
        "docs/errors.md has what no source says: {stale:#?}"
    );
}

#[test]
fn every_kind_of_violation_is_in_the_catalogue() {
    let source = fs::read_to_string(root().join("supervisor/trace/src/violation.rs")).expect("the kinds");
    let page = fs::read_to_string(root().join("docs/errors.md")).expect("the catalogue");
    let named = Regex::new(r#"ViolationKind::\w+ => "(\w+)""#).expect("a pattern");
    let kinds: Vec<String> = named
        .captures_iter(&source)
        .map(|found| found[1].to_owned())
        .collect();
    assert!(kinds.len() >= 8, "the kinds are not found any more: {kinds:?}");
    for kind in kinds {
        assert!(
            page.contains(&format!("\n| `{kind}` | ")),
            "docs/errors.md lacks {kind}"
        );
    }
}
