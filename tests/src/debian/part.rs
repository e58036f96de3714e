//! Which programs a test run takes: one part of many, another one with every commit.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

/// The `index`-th of `count` parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub index: usize,
    pub count: usize,
}

/// How many programs a test run has time for.
const SIZE: usize = 12;

/// The environment variable that chooses a part.
pub const VARIABLE: &str = "TRACEFORK_DEBIAN_PART";

impl Part {
    /// `K/N`, counted from 1.
    pub fn parse(text: &str) -> Result<Part> {
        let (index, count) = text
            .split_once('/')
            .with_context(|| format!("{text:?} is no part: write K/N, for example 1/12"))?;
        let (index, count): (usize, usize) = (index.parse()?, count.parse()?);
        ensure!(
            (1..=count).contains(&index),
            "{text:?} is no part: they are counted from 1"
        );
        Ok(Part {
            index: index - 1,
            count,
        })
    }

    /// The one that is asked for, else the one whose turn it is, with the reason.
    pub fn of_the_day(programs: usize) -> Result<(Part, String)> {
        if let Ok(text) = std::env::var(VARIABLE) {
            return Ok((Part::parse(&text)?, format!("{VARIABLE} says so")));
        }
        let count = programs.div_ceil(SIZE);
        let (number, reason) = match commit() {
            Some(commit) => (
                usize::from_str_radix(&commit[..8], 16)?,
                format!("the commit is {}", &commit[..8]),
            ),
            None => {
                let days = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86_400;
                (usize::try_from(days)?, format!("it is day {days} since 1970"))
            }
        };
        let part = Part {
            index: number % count,
            count,
        };
        Ok((part, reason))
    }

    /// This part of `all`: every `count`-th, so that there is something of everything in each.
    pub fn of<T>(self, all: Vec<T>) -> Vec<T> {
        let mine = |(nth, program)| (nth % self.count == self.index).then_some(program);
        all.into_iter().enumerate().filter_map(mine).collect()
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.count)
    }
}

/// The commit that is checked out, if these are sources under version control.
fn commit() -> Option<String> {
    let output = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    let is_hash = commit.len() >= 8 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    (output.status.success() && is_hash).then_some(commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole() {
        let mut all: Vec<usize> = (1..=5)
            .flat_map(|k| {
                Part::parse(&format!("{k}/5"))
                    .expect("a part")
                    .of((0..23).collect())
            })
            .collect();
        all.sort();
        assert_eq!(all, (0..23).collect::<Vec<usize>>());
    }

    #[test]
    fn what_is_no_part_is_refused() {
        for wrong in ["0/3", "4/3", "x", "1/", "/2", ""] {
            assert!(Part::parse(wrong).is_err(), "{wrong}");
        }
    }
}
