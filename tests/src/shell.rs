//! Commands as a person types them, one after the other in one shell, with `tracefork` on the path: so that what the documentation
//! and the demo show can be tried word by word.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use crate::ENVIRONMENT;
use crate::directives::End;
use crate::observe::{self, Scratch};
use crate::process;

/// What a command printed, on both streams, and its exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub output: String,
    pub status: i32,
}

/// Between what two commands print; no text has it.
const MARK: char = '\0';

/// Runs `commands` in one shell in the scratch's working directory.
pub fn session(
    tracefork: &Path,
    scratch: &Scratch,
    commands: &[String],
    limit: Duration,
) -> Result<Vec<Said>> {
    let programs = scratch.beside("bin");
    fs::create_dir_all(&programs)?;
    let link = programs.join("tracefork");
    if !link.exists() {
        symlink(tracefork, &link)?;
    }
    let script = scratch.beside("session.sh");
    fs::write(&script, script_of(commands))?;
    let mut shell = observe::clean_command(Path::new("/bin/bash"), &scratch.work());
    let path = env::join_paths([programs.as_path(), Path::new("/usr/bin")])?;
    shell
        .arg(&script)
        .env("PATH", format!("{}:{}", path.to_string_lossy(), ENVIRONMENT[0].1));
    let finished = process::run(shell, limit)?;
    let printed = String::from_utf8_lossy(&finished.stdout).into_owned();
    ensure!(
        matches!(finished.end, End::Exit(_)),
        "the shell was killed:\n{printed}"
    );
    parse(&printed, commands.len())
}

/// Each command in the shell's own process, so that `cd` and `$?` mean what they mean to a person.
fn script_of(commands: &[String]) -> String {
    let mut script = String::from("said() { printf '\\0%d\\0' \"$1\"; return \"$1\"; }\n");
    for command in commands {
        script.push_str(&format!("{{ {command}\n}} 2>&1 </dev/null\nsaid $?\n"));
    }
    script
}

fn parse(printed: &str, expected: usize) -> Result<Vec<Said>> {
    let parts: Vec<&str> = printed.split(MARK).collect();
    let said: Result<Vec<Said>> = parts
        .chunks_exact(2)
        .map(|pair| {
            let status = pair[1].parse().context("a status between two marks")?;
            Ok(Said {
                output: pair[0].to_owned(),
                status,
            })
        })
        .collect();
    let said = said?;
    ensure!(
        said.len() == expected,
        "{} of {expected} commands ended:\n{printed}",
        said.len()
    );
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_share_a_shell_and_are_told_apart() {
        let scratch = Scratch::new().expect("a temporary directory");
        let commands = ["mkdir d; cd d; pwd >&2; false", "echo $?; pwd", "exit 0 | true"].map(str::to_owned);
        let said = session(
            Path::new("/bin/true"),
            &scratch,
            &commands,
            crate::observe::TIME_LIMIT,
        );
        let said = said.expect("the session ends");
        let place = format!("{}\n", scratch.work().join("d").display());
        assert_eq!((said[0].output.as_str(), said[0].status), (place.as_str(), 1));
        assert_eq!(said[1].output, format!("1\n{place}"));
        assert_eq!((said[2].output.as_str(), said[2].status), ("", 0));
    }
}
