//! What people meet on their terminal: help with examples for every command, and colours there and nowhere else, none if `NO_COLOR` is set.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tracefork_tests::observe::{Scratch, clean_command};
use tracefork_tests::process;
use tracefork_tests::{command_under_test, guests};

const ESCAPE: char = '\x1b';
const LIMIT: Duration = Duration::from_mins(30);

fn help_of(arguments: &[&str]) -> String {
    let output = Command::new(command_under_test!())
        .args(arguments)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).expect("help is text")
}

/// The commands that the help lists, apart from `help` itself.
fn commands() -> Vec<String> {
    let help = help_of(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let entries = listed.take_while(|line| !line.is_empty());
    let names = entries.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_explains_its_options_with_an_example() {
    let commands = commands();
    assert!(commands.len() >= 8, "{commands:?}");
    for command in &commands {
        let help = help_of(&[command, "--help"]);
        assert!(
            help.contains(&format!("Usage: tracefork {command}")),
            "no usage in\n{help}"
        );
        let example = format!(" tracefork {command}");
        let examples = help.split_once("Example").map_or("", |(_, examples)| examples);
        assert!(
            examples.contains(&example),
            "no example of tracefork {command} in\n{help}"
        );
    }
}

/// What `tracefork ARGUMENTS` prints on a terminal of its own, with these variables set.
fn on_a_terminal(arguments: &str, variables: &[(&str, &str)]) -> String {
    let scratch = Scratch::new().expect("a temporary directory");
    let line = format!("{} {arguments}", command_under_test!().display());
    let mut command = clean_command(Path::new("/usr/bin/script"), &scratch.work());
    command
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .envs(variables.iter().copied());
    let finished = process::run(command, LIMIT).expect("it ends");
    String::from_utf8_lossy(&finished.stdout).into_owned()
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let guest = guests::one("check/lock_order_buggy.c").and_then(|guest| guest.build());
    let guest = guest.expect("the guest builds").display().to_string();
    for (arguments, told) in [
        (format!("check --progress never -- {guest}"), "violation found"),
        (format!("run --seed 1 -v -- {guest}"), "futex"),
        ("run -- /no/such/program".to_owned(), "no such program"),
        ("run --no-such-option".to_owned(), "--no-such-option"),
        ("check --help".to_owned(), "Usage"),
    ] {
        let coloured = on_a_terminal(&arguments, &[]);
        assert!(coloured.contains(told), "{arguments}: {coloured}");
        assert!(
            coloured.contains(ESCAPE),
            "no colours from {arguments}:\n{coloured}"
        );
        let plain = on_a_terminal(&arguments, &[("NO_COLOR", "1")]);
        // Bold and underlined text of the help is no colour.
        let coloured = |text: &str| {
            ["\x1b[3", "\x1b[1;3", "\x1b[9"]
                .iter()
                .any(|code| text.contains(code))
        };
        assert!(!coloured(&plain), "colours in spite of NO_COLOR:\n{plain:?}");

        let scratch = Scratch::new().expect("a temporary directory");
        let mut command = clean_command(command_under_test!(), &scratch.work());
        command.args(arguments.split(' ')).env("TERM", "xterm");
        let piped = process::run(command, LIMIT).expect("it ends");
        for printed in [piped.stdout, piped.stderr] {
            let printed = String::from_utf8_lossy(&printed).into_owned();
            assert!(
                !printed.contains(ESCAPE),
                "{arguments} into a pipe has colours:\n{printed:?}"
            );
        }
    }
}

/// On a terminal a sweep shows what runs now, below a line for each scenario that has ended.
#[test]
fn a_sweep_shows_how_it_goes() {
    let guest = guests::one("check/lock_order_fixed.c").and_then(|guest| guest.build());
    let guest = guest.expect("the guest builds").display().to_string();
    let scratch = Scratch::new().expect("a temporary directory");
    let file = scratch.work().join("sweep.toml");
    let scenario = |name: &str| format!("[[scenario]]\nname = \"{name}\"\nprogram = \"{guest}\"\n");
    std::fs::write(&file, scenario("one") + &scenario("two")).expect("a file");
    let shown = on_a_terminal(&format!("sweep --jobs 1 {}", file.display()), &[]);
    // A bar that is drawn over and over begins its line anew each time.
    let live = |text: &str| shown.split(['\r', '\n', ESCAPE]).any(|part| part.contains(text));
    assert!(live(" 0/2 ") && live("  one"), "{shown:?}");
    assert!(live(" 1/2 ") && live("  two"), "{shown:?}");
    for ended in ["[1/2]", "[2/2]"] {
        assert!(shown.contains(ended), "no {ended} in {shown:?}");
    }
}

/// Nothing was checked that the user had in mind: the verdict must not pass for more than it is.
#[test]
fn a_program_that_never_meets_its_peers_is_told_of() {
    for command in ["run", "check"] {
        let scratch = Scratch::new().expect("a temporary directory");
        let mut tracefork = clean_command(command_under_test!(), &scratch.work());
        tracefork.args([command, "--client", "true", "--", "/bin/true"]);
        let finished = process::run(tracefork, LIMIT).expect("it ends");
        let printed = [finished.stdout, finished.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        assert!(
            printed.contains("warning: the program never communicated with a peer"),
            "{printed}"
        );
    }
}
