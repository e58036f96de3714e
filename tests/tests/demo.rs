//! `tracefork demo`, as a newcomer has it: it tells the whole story, every command that it shows can be typed again with the same
//! result, and nothing is left but what it says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tracefork_tests::command_under_test;
use tracefork_tests::observe::Scratch;
use tracefork_tests::shell::{self, Said};
use tracefork_tests::supervised::TIME_LIMIT;

fn session(scratch: &Scratch, commands: &[String]) -> Vec<Said> {
    shell::session(command_under_test!(), scratch, commands, TIME_LIMIT).expect("the commands end")
}

/// Names of the files in `directory`, digests left out.
fn files(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).expect("the demo's directory is there");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let without_digest = |name: String| match name.strip_prefix("crash-") {
        Some(_) => "crash-….trace".to_owned(),
        None => name,
    };
    entries.flatten().map(name).map(without_digest).collect()
}

#[test]
fn the_demo_tells_the_whole_story_and_its_commands_can_be_repeated() {
    let scratch = Scratch::new().expect("a temporary directory");
    let demo = &session(&scratch, &["tracefork demo".to_owned()])[0];
    let told = &demo.output;
    assert_eq!(demo.status, 0, "{told}");
    for part in [
        "all clients have left",
        "crash: killed by SIGSEGV",
        "the fewest possible",
        "! after step",
        "tell at ",
        "all as recorded",
        "crash.html",
        "ok: every schedule was explored, no violation",
        "gdb -ex bt chat core",
        "rm -r",
    ] {
        assert!(told.contains(part), "no `{part}` in\n{told}");
    }
    assert!(!told.contains('\x1b'), "colours although this is no terminal");

    let place = scratch.work().join("tracefork-out/demo");
    let left = [
        "chat",
        "chat-fixed",
        "chat.c",
        "client",
        "client.c",
        "crash-….trace",
        "crash.html",
    ];
    assert_eq!(files(&place), left.map(str::to_owned).into());
    let page = fs::read_to_string(place.join("crash.html")).expect("the page is there");
    assert!(
        page.contains("</html>") && page.contains("chat.c"),
        "no page about chat.c"
    );
    assert!(files(&scratch.work()).len() == 1, "something lies outside");

    let shown: Vec<String> = told
        .lines()
        .filter_map(|line| line.strip_prefix("$ "))
        .map(str::to_owned)
        .collect();
    let again = session(&scratch, &shown);
    for (command, said) in shown.iter().zip(&again) {
        let finds_it = command.ends_with("-- ./chat") && command.contains(" check ");
        let expected = i32::from(finds_it || command.contains(" replay "));
        assert_eq!(said.status, expected, "{command} said\n{}", said.output);
    }
    assert_eq!(
        shown
            .iter()
            .filter(|command| command.starts_with("tracefork "))
            .count(),
        5
    );
}

/// Without a compiler: what is missing, and what to do.
#[test]
fn without_a_compiler_it_says_what_to_do() {
    let scratch = Scratch::new().expect("a temporary directory");
    let said = &session(&scratch, &["CC=no-such-compiler tracefork demo".to_owned()])[0];
    assert_eq!(said.status, 4, "{}", said.output);
    assert!(
        said.output.contains("no C compiler: no-such-compiler"),
        "{}",
        said.output
    );
    assert!(said.output.contains("hint: "), "{}", said.output);
}
