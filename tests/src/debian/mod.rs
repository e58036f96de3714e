//! The programs of `tests/debian/programs.toml`: packaged programs of Debian, run natively and supervised, and compared.
//!
//! One entry is one [`Program`]; [`trial`] runs it and says what came of it, [`table`] writes that down for people, [`part`] chooses those that a
//! test run has time for.

pub mod background;
pub mod part;
pub mod table;
pub mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use regex::bytes::Regex;
use serde::Deserialize;

/// What a program is to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Tool,
    Client,
    Server,
}

/// Something that a run leaves to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aspect {
    Stdout,
    Stderr,
    /// Exit code or signal.
    End,
    /// What is in the working directory afterwards.
    Files,
    /// What the client printed, and its exit code.
    Client,
}

/// One program with all it takes to run it. In `run`, `server`, `client` and `files`, `{port}` and `{second}` are ports that nobody has, `{work}` is
/// the working directory. Flat: each field is a key of an entry in `tests/debian/programs.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Unique; the name of its test.
    pub name: String,
    /// The Debian packages to install; the first one is the program's own.
    pub packages: Vec<String>,
    /// What it is written in, or what runs it.
    pub language: String,
    pub kind: Kind,
    pub run: Vec<String>,
    /// A shell command that makes input files, once: all runs are given the same ones.
    pub setup: Option<String>,
    /// Files of the working directory.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    #[serde(default)]
    pub stdin: String,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The real server that a client under test talks to, at `{port}`, or that a proxy under test passes on to, at `{second}`.
    pub server: Option<String>,
    /// A shell command that talks to the server under test, which listens at `{port}`.
    pub client: Option<String>,
    /// Options of tracefork that it takes to run it, because of its peers.
    #[serde(default)]
    pub options: Vec<String>,
    /// With what exit code it ends; for a server under test, its client.
    #[serde(default)]
    pub exit: i32,
    /// The server under test ends by itself when its client has gone; the others are told to end.
    #[serde(default)]
    pub ends: bool,
    /// What is compared, if it is not what is usual for its kind.
    compare: Option<BTreeSet<Aspect>>,
    /// What legitimately differs from run to run: a regular expression and what stands for what it matches.
    #[serde(default)]
    filters: Vec<(String, String)>,
    /// The lines of the output come in no particular order.
    #[serde(default)]
    pub unordered: bool,
    /// It is known to be refused: why.
    pub stops: Option<String>,
    /// It is known to behave differently, or not to end: why.
    pub differs: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    program: Vec<Program>,
}

/// Where the list is.
pub fn list_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("debian/programs.toml")
}

/// All programs of the list, in its order.
pub fn programs() -> Result<Vec<Program>> {
    read(&list_file())
}

/// Programs of several processes, which are also explored.
pub fn families() -> Result<Vec<Program>> {
    read(&list_file().with_file_name("families.toml"))
}

fn read(path: &Path) -> Result<Vec<Program>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> Result<Vec<Program>> {
    let programs = toml::from_str::<File>(text)?.program;
    let mut names = BTreeSet::new();
    for program in &programs {
        program.validate().with_context(|| program.name.clone())?;
        ensure!(names.insert(&program.name), "{} is there twice", program.name);
    }
    Ok(programs)
}

impl Program {
    fn validate(&self) -> Result<()> {
        ensure!(!self.packages.is_empty(), "no package");
        ensure!(!self.run.is_empty(), "no command to run");
        ensure!(
            self.client.is_some() == (self.kind == Kind::Server),
            "a server has a client, and nothing else has"
        );
        ensure!(
            self.server.is_none() || self.kind != Kind::Tool,
            "a tool has no server"
        );
        ensure!(
            self.stops.is_none() || self.differs.is_none(),
            "it stops, or it differs"
        );
        ensure!(!self.compared().is_empty(), "nothing is compared");
        self.filters().map(|_| ())
    }

    /// What is compared. A server's log has times in it, and how it ends is our doing: what counts is what its client is told. If the server ends by
    /// itself, a supervised run is over, and its client may not have come to print what it was told.
    pub fn compared(&self) -> BTreeSet<Aspect> {
        use Aspect::{Client, End, Files, Stderr, Stdout};
        let usual = match (self.kind, self.ends) {
            (Kind::Server, false) => vec![Client],
            (Kind::Server, true) => vec![Stdout, Stderr, End],
            (Kind::Tool | Kind::Client, _) => vec![Stdout, Stderr, End, Files],
        };
        self.compare
            .clone()
            .unwrap_or_else(|| usual.into_iter().collect())
    }

    /// What to replace by what.
    pub fn filters(&self) -> Result<Vec<(Regex, &str)>> {
        let compiled = self.filters.iter().map(|(pattern, replacement)| {
            let pattern = Regex::new(pattern).with_context(|| format!("the filter {pattern:?}"))?;
            Ok((pattern, replacement.as_str()))
        });
        compiled.collect()
    }
}

/// Those of the programs that have this name; an error if there is none.
pub fn named(programs: Vec<Program>, name: &str) -> Result<Vec<Program>> {
    let found: Vec<Program> = programs.into_iter().filter(|p| p.name == name).collect();
    if found.is_empty() {
        bail!("no program {name:?} in {}", list_file().display());
    }
    Ok(found)
}

/// Installs what these programs need, at once.
pub fn install(programs: &[Program]) -> Result<()> {
    let all: BTreeSet<&str> = programs
        .iter()
        .flat_map(|program| program.packages.iter().map(String::as_str))
        .collect();
    crate::packages::install(&all.into_iter().collect::<Vec<&str>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str =
        "[[program]]\nname = \"a\"\npackages = [\"p\"]\nlanguage = \"C\"\nkind = \"tool\"\nrun = [\"a\"]\n";

    #[test]
    fn an_entry_is_read() {
        let programs = parse(ENTRY).expect("it is right");
        assert_eq!(programs[0].name, "a");
        assert!(programs[0].compared().contains(&Aspect::Files));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (wrong, expected) in [
            (format!("{ENTRY}{ENTRY}"), "twice"),
            (format!("{ENTRY}client = \"c\"\n"), "a server has a client"),
            (format!("{ENTRY}server = \"c\"\n"), "a tool has no server"),
            (format!("{ENTRY}filters = [[\"(\", \"\"]]\n"), "the filter"),
            (format!("{ENTRY}compare = []\n"), "nothing is compared"),
            (format!("{ENTRY}stdni = \"\"\n"), "unknown field"),
            (format!("{ENTRY}stops = \"x\"\ndiffers = \"y\"\n"), "stops, or"),
        ] {
            let error = parse(&wrong).expect_err("it is wrong");
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
    }
}
