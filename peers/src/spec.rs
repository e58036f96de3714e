//! Peer commands as users write them: `CMD`, `NAME=CMD`, `N*CMD`, `NAME=N*CMD`.
//!
//! A command is split into words as a shell would (quotes and backslashes) and executed directly. Only if an *unquoted* shell metacharacter occurs in it
//! (`| & ; < > ( ) $ * ? [ ] # ~`, a backquote or a newline) is it given to `/bin/sh -c` whole: without a shell in between there is one process less to start, to inspect and
//! to kill. `{port}` and `{addr}` in a client's command stand for the SUT's first listening address.

use crate::error::PeerError;
use serde::{Deserialize, Serialize};

/// One peer to launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSpec {
    /// How reports call it.
    pub name: String,
    /// The name was given, not made of the command.
    pub is_named: bool,
    /// How many of them.
    pub count: usize,
    /// The command as given.
    pub command: String,
    /// What is executed.
    pub argv: Vec<String>,
    /// A client that comes only when the one of this name has ended.
    pub after: Option<String>,
}

impl PeerSpec {
    /// Reads `[NAME=][N*]CMD`.
    ///
    /// # Errors
    /// The command is empty or a quote is not closed.
    pub fn parse(text: &str) -> Result<PeerSpec, PeerError> {
        let bad = |reason: &str| PeerError::BadSpec {
            text: text.to_string(),
            reason: reason.to_string(),
        };
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if is_name(name) => (Some(name), rest),
            _ => (None, text),
        };
        let (count, command) = match rest.split_once('*') {
            Some((digits, rest)) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                (digits.parse().map_err(|_| bad("too many"))?, rest)
            }
            _ => (1, rest),
        };
        let command = command.trim();
        let argv = match split(command).map_err(bad)? {
            Words::Plain(words) => words,
            Words::NeedsShell => vec!["/bin/sh".into(), "-c".into(), command.into()],
        };
        let Some(program) = argv.first() else {
            return Err(bad("the command is empty"));
        };
        if count == 0 {
            return Err(bad("zero of them is none"));
        }
        let default = program.rsplit('/').next().unwrap_or(program);
        Ok(PeerSpec {
            name: name.unwrap_or(default).to_string(),
            is_named: name.is_some(),
            count,
            command: command.to_string(),
            argv,
            after: None,
        })
    }
}

/// A client as all that has to do with the order of clients sees it: also where only a recording of it is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// What reports call it: the name that it was given, counted if it is one of several, or else `client#` and its number among all.
    pub name: String,
    /// Clients of one kind were asked for together (`3*CMD`), and are interchangeable.
    pub kind: u32,
    /// It comes when all of this kind have ended.
    pub after: Option<u32>,
}

impl Member {
    /// What comes from a file may say anything; a client comes after an earlier one only.
    pub(crate) fn is_sound(&self) -> bool {
        self.after.is_none_or(|kind| kind < self.kind)
    }
}

/// All clients that these commands ask for, in their order.
#[must_use]
pub fn roster(specs: &[PeerSpec]) -> Vec<Member> {
    let mut members = Vec::new();
    for (kind, spec) in specs.iter().enumerate() {
        let is_meant = |other: &PeerSpec| spec.after.as_deref() == Some(other.name.as_str());
        let after = specs[..kind].iter().rposition(is_meant).map(|kind| kind as u32);
        for k in 0..spec.count {
            let name = match (spec.is_named, spec.count) {
                (false, _) => format!("client#{}", members.len()),
                (true, 1) => spec.name.clone(),
                (true, _) => format!("{}#{k}", spec.name),
            };
            let kind = kind as u32;
            members.push(Member { name, kind, after });
        }
    }
    members
}

/// A name has letters first, so that `3*x=y` and `./a=b` are commands. `LANG=C cmd` would be read as a name too: write `env LANG=C cmd`.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

enum Words {
    Plain(Vec<String>),
    NeedsShell,
}

fn split(command: &str) -> Result<Words, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let w = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or("a single quote is not closed")? {
                        '\'' => break,
                        c => w.push(c),
                    }
                }
            }
            '"' => {
                let w = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or("a double quote is not closed")? {
                        '"' => break,
                        '$' | '`' => return Ok(Words::NeedsShell),
                        '\\' => match chars.next().ok_or("a double quote is not closed")? {
                            c @ ('"' | '\\' | '$' | '`') => w.push(c),
                            c => w.extend(['\\', c]),
                        },
                        c => w.push(c),
                    }
                }
            }
            '\\' => word
                .get_or_insert_default()
                .push(chars.next().ok_or("a backslash ends the command")?),
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '*' | '?' | '[' | ']' | '#' | '~'
            | '\n' => {
                return Ok(Words::NeedsShell);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(Words::Plain(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> PeerSpec {
        PeerSpec::parse(text).expect("a good command")
    }

    #[test]
    fn names_counts_and_words() {
        let spec = parse("web=2*python3 -c 'print(1)' a\\ b \"c d\"");
        assert_eq!((spec.name.as_str(), spec.count), ("web", 2));
        assert_eq!(spec.argv, ["python3", "-c", "print(1)", "a b", "c d"]);
        assert_eq!(parse("/usr/bin/nc -l").name, "nc");
        assert_eq!(parse("3*curl x=y").argv, ["curl", "x=y"]);
    }

    #[test]
    fn a_shell_only_where_one_is_needed() {
        assert_eq!(
            parse("echo hi | nc localhost 1").argv,
            ["/bin/sh", "-c", "echo hi | nc localhost 1"]
        );
        assert_eq!(parse("echo 'a|b'").argv, ["echo", "a|b"]);
        assert_eq!(parse("echo \"$HOME\"").argv[0], "/bin/sh");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "name=", "0*x", "echo 'a"] {
            assert!(PeerSpec::parse(text).is_err(), "{text:?}");
        }
    }
}
