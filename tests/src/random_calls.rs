//! Random system calls, natively and supervised: the same calls must have the same results.
//!
//! The guest `calls/random_calls.c` makes them from a seed. Where the two runs differ, and `docs/differences.md` does not say that they do, the steps
//! before are left out as far as the difference stays, and what is left is shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use regex::Regex;

use crate::observe::{self, Scratch};
use crate::process;
use crate::supervised::Tracefork;
use crate::{campaign, guests};

/// How many runs finding the shortest reproduction may take.
const MOST_TRIES: usize = 80;
/// A native run that differs is asked this often whether it always does: what depends on time there is not our affair.
const NATIVE_TRIES: usize = 40;

/// A difference that is known, with its reason on the page.
struct Known {
    call: Regex,
    native: Regex,
    supervised: Regex,
}

/// What one step printed, by its number.
type Steps = BTreeMap<usize, String>;

/// Both sides of one comparison.
pub struct Comparison<'a> {
    tracefork: &'a Tracefork,
    guest: PathBuf,
    known: Vec<Known>,
    seed: u64,
    count: usize,
}

/// The page that says where the model differs.
pub fn page() -> PathBuf {
    campaign::workspace().join("docs/differences.md")
}

/// The rows of the page's table: call, natively, supervised, each a regular expression.
fn known(page: &Path) -> Result<Vec<Known>> {
    let text = fs::read_to_string(page).with_context(|| page.display().to_string())?;
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        ensure!(
            cells.len() == 4 && cells[3].len() > 20,
            "a row of the page needs a call, two results and a reason: {row}"
        );
        let pattern =
            |cell: &str| Regex::new(&format!("^(?:{})$", cell.trim_matches('`').replace("\\|", "|")));
        Ok(Known {
            call: pattern(cells[0])?,
            native: pattern(cells[1])?,
            supervised: pattern(cells[2])?,
        })
    })
    .collect()
}

impl<'a> Comparison<'a> {
    pub fn new(tracefork: &'a Tracefork, seed: u64, count: usize) -> Result<Comparison<'a>> {
        Ok(Comparison {
            tracefork,
            guest: guests::one("calls/random_calls.c")?.build()?,
            known: known(&page())?,
            seed,
            count,
        })
    }

    /// # Errors
    /// A call differs in a way that the page does not know; with the fewest calls that show it.
    pub fn check(&self) -> Result<()> {
        let (native, supervised) = (self.native(None)?, self.supervised(None)?);
        ensure!(
            native.len() == self.count,
            "natively only {} steps were made",
            native.len()
        );
        let Some(at) = self.first_difference(&native, &supervised) else {
            return Ok(());
        };
        if self.is_a_matter_of_time(&supervised, at)? {
            return Ok(());
        }
        self.report(&self.shortest(at)?)
    }

    /// # Errors
    /// One of these steps differs.
    pub fn check_steps(&self, steps: &[usize]) -> Result<()> {
        let last = *steps.last().context("there is a step")?;
        let made = self.native(Some(steps))?.len();
        ensure!(made == steps.len(), "natively only {made} steps were made");
        match self.differs(steps, last)? {
            true => self.report(steps),
            false => Ok(()),
        }
    }

    fn report(&self, steps: &[usize]) -> Result<()> {
        let (native, supervised) = (self.native(Some(steps))?, self.supervised(Some(steps))?);
        let mut report = format!(
            "seed {}: a call has another result than natively, and docs/differences.md does not know of it\n\
             again: random_calls {} {} {}\n",
            self.seed,
            self.seed,
            self.count,
            listed(steps)
        );
        for step in steps {
            let nothing = "(not reached)".to_owned();
            let (a, b) = (
                native.get(step).unwrap_or(&nothing),
                supervised.get(step).unwrap_or(&nothing),
            );
            let _ = if a == b {
                writeln!(report, "    {a}")
            } else {
                writeln!(report, "  - {a}\n  + {b}")
            };
        }
        anyhow::bail!(report)
    }

    /// Does a native run come out as the supervised one, too, up to this step?
    fn is_a_matter_of_time(&self, supervised: &Steps, at: usize) -> Result<bool> {
        for _ in 0..NATIVE_TRIES {
            let again = self.native(None)?;
            match self.first_difference(&again, supervised) {
                None => return Ok(true),
                Some(next) if next > at => return Ok(true),
                Some(_) => {}
            }
        }
        Ok(false)
    }

    /// The steps that are needed for this one to differ.
    fn shortest(&self, at: usize) -> Result<Vec<usize>> {
        let mut steps: Vec<usize> = (0..=at).collect();
        let mut tries = 0;
        let mut size = steps.len() / 2;
        while size > 0 {
            let mut start = 0;
            while start + 1 < steps.len() && tries < MOST_TRIES {
                let end = (start + size).min(steps.len() - 1);
                let fewer: Vec<usize> = [&steps[..start], &steps[end..]].concat();
                tries += 1;
                if self.differs(&fewer, at)? {
                    steps = fewer;
                } else {
                    start = end;
                }
            }
            size /= 2;
        }
        Ok(steps)
    }

    fn differs(&self, steps: &[usize], at: usize) -> Result<bool> {
        let (native, supervised) = (self.native(Some(steps))?, self.supervised(Some(steps))?);
        Ok(self.first_difference(&native, &supervised) == Some(at))
    }

    fn first_difference(&self, native: &Steps, supervised: &Steps) -> Option<usize> {
        let differs = |(step, line): &(&usize, &String)| match supervised.get(step) {
            Some(other) => other != *line && !self.is_known(line, other),
            None => true,
        };
        native.iter().find(differs).map(|(&step, _)| step)
    }

    fn is_known(&self, native: &str, supervised: &str) -> bool {
        let (Some((call, result)), Some((_, other))) = (parts(native), parts(supervised)) else {
            return false;
        };
        self.known.iter().any(|known| {
            known.call.is_match(call) && known.native.is_match(result) && known.supervised.is_match(other)
        })
    }

    fn arguments(&self, steps: Option<&[usize]>) -> Vec<String> {
        let mut arguments = vec![self.seed.to_string(), self.count.to_string()];
        arguments.extend(steps.map(listed));
        arguments
    }

    fn native(&self, steps: Option<&[usize]>) -> Result<Steps> {
        in_fresh_directory(|scratch| {
            let mut command = observe::clean_command(&self.guest, &scratch.work());
            command.args(self.arguments(steps));
            let finished = process::run(command, observe::TIME_LIMIT)?;
            Ok(split(&finished.stdout))
        })
    }

    fn supervised(&self, steps: Option<&[usize]>) -> Result<Steps> {
        in_fresh_directory(|scratch| {
            let mut command = self.tracefork.command(&scratch.work());
            command
                .args(["run", "--quiet", "--seed", "1", "--"])
                .arg(&self.guest);
            command.args(self.arguments(steps));
            let finished = process::run(command, crate::supervised::TIME_LIMIT)?;
            let mut made = split(&finished.stdout);
            if let Some(mut last) = made.last_entry() {
                // Why it ended, if it did not come to its end.
                let said = String::from_utf8_lossy(&finished.stderr);
                if !last.get().contains(" = ") {
                    let _ = write!(last.get_mut(), "\n{said}");
                }
            }
            Ok(made)
        })
    }
}

/// The guest gives up root's rights, so the way to its directory must be open to all; what it leaves may be closed even to its owner.
fn in_fresh_directory(run: impl FnOnce(&Scratch) -> Result<Steps>) -> Result<Steps> {
    let scratch = Scratch::new()?;
    let work = scratch.work();
    let whole = work
        .parent()
        .context("the working directory lies in another")?
        .to_owned();
    for directory in [&whole, &work] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    }
    let steps = run(&scratch);
    let opened = Command::new("chmod").args(["-R", "u+rwX"]).arg(&whole).output();
    opened.context("chmod")?;
    steps
}

fn listed(steps: &[usize]) -> String {
    let numbers: Vec<String> = steps.iter().map(usize::to_string).collect();
    numbers.join(",")
}

/// What was printed, by step: a line that begins with no number belongs to the step before.
fn split(output: &[u8]) -> Steps {
    let mut steps = Steps::new();
    let mut current = None;
    for line in String::from_utf8_lossy(output).lines() {
        let number = line.split(' ').next().and_then(|word| word.parse::<usize>().ok());
        match (number, current) {
            (Some(number), _) => {
                steps.insert(number, line.to_owned());
                current = Some(number);
            }
            (None, Some(number)) => {
                if let Some(step) = steps.get_mut(&number) {
                    step.push('\n');
                    step.push_str(line);
                }
            }
            (None, None) => {}
        }
    }
    steps
}

/// The call with its arguments, and its result.
fn parts(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(' ')?;
    rest.rsplit_once(" = ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_belong_to_steps() {
        let steps = split(b"0 read(3) = 5\n1 kill(0)  signal 10\n = 0\n");
        assert_eq!(steps[&0], "0 read(3) = 5");
        assert_eq!(steps[&1], "1 kill(0)  signal 10\n = 0");
        assert_eq!(parts(&steps[&0]), Some(("read(3)", "5")));
    }

    #[test]
    fn every_row_of_the_page_can_be_used() {
        let known = known(&page()).expect("the page is well formed");
        assert!(known.len() <= 16, "a handful of differences, not {}", known.len());
    }
}
