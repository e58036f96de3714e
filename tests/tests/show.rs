//! `tracefork show`: every view of a counterexample, and the page in a real browser.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tracefork_tests::browser::Browser;
use tracefork_tests::directives::End;
use tracefork_tests::observe::{Invocation, Scratch, TIME_LIMIT};
use tracefork_tests::process::{self, Finished};
use tracefork_tests::supervised::Tracefork;
use tracefork_tests::{command_under_test, guests};

/// The trace of a deadlock of two locks.
fn deadlock(scratch: &Scratch) -> PathBuf {
    let program = guests::one("check/lock_order_buggy.c")
        .and_then(|guest| guest.build())
        .expect("the guest builds");
    let invocation = Invocation {
        program,
        args: Vec::new(),
        stdin: Vec::new(),
    };
    let checked = Tracefork::new(command_under_test!())
        .check(&invocation, &[], scratch)
        .expect("a result");
    let trace = checked.result["violations"][0]["trace"].as_str();
    scratch.work().join(trace.expect("a counterexample"))
}

fn show(scratch: &Scratch, trace: &Path, options: &[&str]) -> Finished {
    let mut command = Tracefork::new(command_under_test!()).command(&scratch.work());
    command.arg("show").arg(trace).args(options);
    let finished = process::run(command, TIME_LIMIT).expect("it ends");
    assert_eq!(
        finished.end,
        End::Exit(0),
        "{}",
        String::from_utf8_lossy(&finished.stderr)
    );
    finished
}

#[test]
fn text_tells_the_verdict_and_the_steps() {
    let scratch = Scratch::new().expect("a directory");
    let trace = deadlock(&scratch);
    let text = String::from_utf8(show(&scratch, &trace, &[]).stdout).expect("text");
    for expected in ["deadlock: ", "pthread_mutex_lock", "lock_order_buggy.c:"] {
        assert!(text.contains(expected), "no {expected} in\n{text}");
    }
}

#[test]
fn json_tells_who_holds_what_when_it_is_too_late() {
    let scratch = Scratch::new().expect("a directory");
    let trace = deadlock(&scratch);
    let json = show(&scratch, &trace, &["--json"]).stdout;
    let view: Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(view["verdict"]["kind"], "deadlock");
    let held_to_the_end: Vec<&str> = view["holds"]
        .as_array()
        .expect("holds")
        .iter()
        .filter(|hold| hold["to"].is_null())
        .filter_map(|hold| hold["lock"].as_str())
        .collect();
    let mut sorted = held_to_the_end.clone();
    sorted.sort();
    assert_eq!(sorted, ["accounts", "journal"], "{view:#}");
    let stuck = view["waits"].as_array().expect("waits");
    assert_eq!(stuck.iter().filter(|wait| wait["to"].is_null()).count(), 3);
}

#[test]
fn other_tools_get_their_formats() {
    let scratch = Scratch::new().expect("a directory");
    let trace = deadlock(&scratch);
    let mermaid = show(&scratch, &trace, &["--mermaid", "-"]).stdout;
    assert!(mermaid.starts_with(b"sequenceDiagram\n"));
    show(
        &scratch,
        &trace,
        &["--chrome-trace", "t.json", "--shiviz", "t.log"],
    );
    let events = fs::read(scratch.work().join("t.json")).expect("written");
    let events: Value = serde_json::from_slice(&events).expect("JSON");
    assert!(
        events["traceEvents"]
            .as_array()
            .is_some_and(|list| !list.is_empty())
    );
    let log = fs::read_to_string(scratch.work().join("t.log")).expect("written");
    assert!(log.contains("thread-1001 {\"thread-1000\":"), "{log}");
}

#[test]
fn the_page_renders_steps_and_searches() {
    let scratch = Scratch::new().expect("a directory");
    let trace = deadlock(&scratch);
    show(&scratch, &trace, &["--html", "page.html", "--stacks"]);
    let mut browser = Browser::open(&scratch.work().join("page.html")).expect("the page loads");
    let mut page = |expression: &str| browser.evaluate(expression).expect("a value");
    assert_eq!(page("document.querySelectorAll('#lanes .lane').length"), 3);
    assert_ne!(page("document.querySelectorAll('#window .box').length"), 0);
    assert_eq!(
        page("document.querySelectorAll('#window .box.critical').length"),
        1
    );
    assert_ne!(page("document.querySelectorAll('#window .hold').length"), 0);
    assert_ne!(page("document.querySelectorAll('#window .wait').length"), 0);
    assert_ne!(page("document.querySelectorAll('#window .cause').length"), 0);

    let begin = step(&mut browser);
    for (key, expected) in [
        ("k", begin - 1),
        ("ArrowUp", begin - 2),
        ("j", begin - 1),
        ("Home", 0),
    ] {
        browser.press(key).expect("a key");
        assert_eq!(step(&mut browser), expected, "after {key}");
    }
    let operation = browser.evaluate("document.getElementById('operation').textContent");
    assert!(!operation.expect("shown").as_str().unwrap_or_default().is_empty());

    // The stack at the critical step, and the line of the source that it is at.
    browser.press("c").expect("a key");
    let source = browser.evaluate("document.querySelector('#detail .source .here').textContent");
    let source = source.expect("shown");
    assert!(
        source
            .as_str()
            .is_some_and(|line| line.contains("pthread_mutex_lock(&")),
        "{source}"
    );

    browser.press("/").expect("a key");
    browser.type_text("mutex_lock journal").expect("typing");
    let found = browser.evaluate("document.getElementById('matches').textContent");
    assert!(
        found
            .expect("shown")
            .as_str()
            .is_some_and(|text| text.starts_with("1 of "))
    );
    let detail = browser.evaluate("document.getElementById('detail').textContent");
    assert!(
        detail
            .expect("shown")
            .as_str()
            .is_some_and(|text| text.contains("journal"))
    );
    assert_eq!(browser.exceptions, Vec::<String>::new());
}

#[test]
fn ten_thousand_steps_cost_no_more_than_those_in_sight() {
    const STEPS: usize = 10_000;
    let scratch = Scratch::new().expect("a directory");
    let trace = deadlock(&scratch);
    let mut long = trace::format::read(&trace).expect("a trace");
    long.steps = long.steps.iter().cycle().take(STEPS).cloned().collect();
    long.locations = long.locations.iter().cycle().take(STEPS).cloned().collect();
    let path = scratch.beside("long.trace");
    trace::format::write(&path, &long).expect("written");
    show(&scratch, &path, &["--html", "long.html"]);
    let mut browser = Browser::open(&scratch.work().join("long.html")).expect("the page loads");
    browser.press("End").expect("a key");
    assert_eq!(step(&mut browser), STEPS as u64);
    browser.press("k").expect("a key");
    browser.press("PageUp").expect("a key");
    assert!((STEPS as u64 - 100..STEPS as u64 - 2).contains(&step(&mut browser)));
    let drawn = browser.evaluate("document.querySelectorAll('#window .box').length");
    let drawn = drawn.expect("a number").as_u64().expect("a number");
    assert!((5..100).contains(&drawn), "{drawn} boxes are drawn");
    browser.press("/").expect("a key");
    browser.type_text("thread 1001 mutex_lock").expect("typing");
    let found =
        browser.evaluate("Number(/of (\\d+)/.exec(document.getElementById('matches').textContent)[1])");
    assert!(found.expect("a number").as_u64().is_some_and(|count| count > 100));
    assert_eq!(browser.exceptions, Vec::<String>::new());
}

/// The selected step, as the page's address tells.
fn step(browser: &mut Browser) -> u64 {
    let step = browser.evaluate("Number(location.hash.slice('#step='.length))");
    step.expect("a number").as_u64().expect("a step")
}

#[test]
fn the_graph_has_every_state_and_the_way_to_the_violation() {
    let scratch = Scratch::new().expect("a directory");
    let program = guests::one("check/lock_order_buggy.c")
        .and_then(|guest| guest.build())
        .expect("the guest builds");
    let invocation = Invocation {
        program,
        args: Vec::new(),
        stdin: Vec::new(),
    };
    let checked = Tracefork::new(command_under_test!())
        .check(&invocation, &["--keep-going", "--graph", "graph.dot"], &scratch)
        .expect("a result");
    let graph = fs::read_to_string(scratch.work().join("graph.dot")).expect("written");
    let states = checked.result["states"]["new"].as_u64().expect("a number");
    assert_eq!(
        graph.matches(" [label=\"").count() - graph.matches(" -> ").count(),
        states as usize
    );
    assert!(graph.contains("color=red, penwidth=2"), "{graph}");
}

#[test]
fn what_is_no_trace_is_refused() {
    let scratch = Scratch::new().expect("a directory");
    fs::write(scratch.work().join("no.trace"), b"hello").expect("written");
    let mut command = Tracefork::new(command_under_test!()).command(&scratch.work());
    command.args(["show", "no.trace"]);
    let finished = process::run(command, TIME_LIMIT).expect("it ends");
    assert_eq!(finished.end, End::Exit(2));
    assert!(String::from_utf8_lossy(&finished.stderr).contains("does not begin as a trace"));
}

#[test]
fn packagers_get_completions_and_man_pages() {
    let scratch = Scratch::new().expect("a directory");
    let run = |arguments: &[&str]| {
        let mut command = Tracefork::new(command_under_test!()).command(&scratch.work());
        command.args(arguments);
        let finished = process::run(command, TIME_LIMIT).expect("it ends");
        assert_eq!(finished.end, End::Exit(0));
        String::from_utf8(finished.stdout).expect("text")
    };
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&["completions", shell]).contains("chrome-trace"), "{shell}");
    }
    assert!(run(&["man"]).contains(".TH tracefork 1"));
    run(&["man", "--dir", "man"]);
    let page = fs::read_to_string(scratch.work().join("man/tracefork-show.1")).expect("written");
    assert!(page.contains("mermaid"), "{page}");
}

#[test]
fn the_page_has_a_group_of_columns_per_process() {
    let scratch = Scratch::new().expect("a directory");
    let program = guests::one("other/processes_shown.c").and_then(|guest| guest.build());
    let invocation = Invocation {
        program: program.expect("the guest builds"),
        args: Vec::new(),
        stdin: Vec::new(),
    };
    let checked = Tracefork::new(command_under_test!()).check(&invocation, &["--expect-exit", "0"], &scratch);
    let checked = checked.expect("a result");
    let trace = checked.result["violations"][0]["trace"].as_str();
    let trace = scratch.work().join(trace.expect("a counterexample"));
    let text = show(&scratch, &trace, &[]).stdout;
    let text = String::from_utf8_lossy(&text);
    for words in [
        "3 processes, 4 threads",
        "process 1001 (",
        "process 1002 (sh)",
        "thread 1003 of 1001",
    ] {
        assert!(text.contains(words), "no {words} in\n{text}");
    }
    show(&scratch, &trace, &["--html", "page.html"]);
    let mut browser = Browser::open(&scratch.work().join("page.html")).expect("the page loads");
    let mut page = |expression: &str| browser.evaluate(expression).expect("a value");
    let heads =
        page("[...document.querySelectorAll('#lanes g.group text')].map(t => t.textContent).join('|')");
    let heads = heads.as_str().unwrap_or_default().to_owned();
    let heads: Vec<&str> = heads.split('|').collect();
    assert!(heads[0].starts_with("1000 · processes"), "{heads:?}");
    assert!(heads[2].starts_with("1002 · sh -c"), "{heads:?}");
    let title = page("document.querySelectorAll('#lanes g.group title')[2].textContent");
    let title = title.as_str().unwrap_or_default().to_owned();
    assert!(title.ends_with("/bin/sh -c exit 3"), "{title}");
    // The second process has two threads, and its head is as wide as two columns.
    let widths = page(
        "[...document.querySelectorAll('#lanes rect.group')].map(r => r.getBBox().width > 1.8 * document.querySelectorAll('#lanes rect.group')[0].getBBox().width).join()",
    );
    assert_eq!(widths, "false,true,false");
    // A lock that processes share is one lock.
    let holds =
        page("new Set(JSON.parse(document.getElementById('data').textContent).holds.map(h => h.lock)).size");
    assert_eq!(holds, 1);
    assert_eq!(browser.exceptions, Vec::<String>::new());
}
