//! Searches of the guests by two workers, again and again, on a machine that is loaded or not: none may end in a desync, and none may find other outcomes
//! than one worker does.
//!
//! What tells cores apart, a switch at the wrong moment or a page that is not as it was shows once in some hundred searches, if at all. So this is no test
//! but a campaign: every guest in turn, for as long as one likes.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::directives::End;
use crate::guests::{self, Guest};
use crate::observe::{Invocation, Scratch};
use crate::supervised::{Checked, Tracefork};

/// What a campaign is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// No search is started after that.
    pub duration: Duration,
    /// Searches of each guest, at most.
    pub runs: u64,
    /// Threads that do nothing but compute meanwhile.
    pub load: usize,
}

impl Plan {
    /// # Errors
    /// These are not the arguments of such a campaign.
    pub fn parse(arguments: &[String]) -> Result<Plan> {
        let mut plan = Plan {
            duration: Duration::from_hours(12),
            runs: 100,
            load: 0,
        };
        for pair in arguments.chunks(2) {
            match pair {
                [name, value] if name == "--minutes" => {
                    let minutes: u64 = value.parse().context("--minutes takes a number")?;
                    plan.duration = Duration::from_secs(60 * minutes);
                }
                [name, value] if name == "--runs" => {
                    plan.runs = value.parse().context("--runs takes a number")?;
                }
                [name, value] if name == "--load" => {
                    plan.load = value.parse().context("--load takes a number of threads")?;
                }
                _ => bail!("usage: desyncs [--runs N] [--minutes N] [--load THREADS]"),
            }
        }
        Ok(plan)
    }
}

/// Threads that compute until this is dropped.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn new(count: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let busy = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        Load {
            threads: (0..count).map(busy).collect(),
            stop,
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked computes no more, which is all that is wanted.
            let _ = thread.join();
        }
    }
}

/// A guest, and what one worker finds of it.
struct Subject {
    guest: Guest,
    invocation: Invocation,
    expected: Option<Found>,
    is_short: bool,
}

/// What must not depend on the number of workers.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    end: End,
    /// None if the search ended at a violation: then it is a matter of luck how many outcomes it had seen.
    outcomes: Option<Vec<String>>,
}

/// A guest that takes one worker longer than this is searched a few times only.
const SHORT: Duration = Duration::from_secs(3);
const RUNS_OF_LONG_ONES: u64 = 3;
const DESYNC: End = End::Exit(6);

/// Runs a campaign and reports; true if nothing was found.
///
/// # Errors
/// A guest cannot be built or started.
pub fn run(tracefork: &Path, plan: &Plan) -> Result<bool> {
    let tracefork = Tracefork::new(tracefork);
    let end = Instant::now() + plan.duration;
    let _load = Load::new(plan.load);
    let mut subjects = Vec::new();
    for guest in guests::all("check")? {
        let invocation = Invocation {
            program: guest.build()?,
            args: guest.directives.args.clone(),
            stdin: guest.directives.stdin.clone(),
        };
        subjects.push(Subject {
            guest,
            invocation,
            expected: None,
            is_short: true,
        });
    }
    // A short campaign does not get to all of them: each begins elsewhere.
    let first = RandomState::new().build_hasher().finish() as usize % subjects.len().max(1);
    subjects.rotate_left(first);
    let (mut searches, mut wrong) = (0_u64, BTreeMap::<String, Vec<String>>::new());
    'campaign: for round in 0..plan.runs {
        for subject in &mut subjects {
            if Instant::now() >= end {
                break 'campaign;
            }
            if round >= RUNS_OF_LONG_ONES && !subject.is_short {
                continue;
            }
            searches += 1;
            if let Some(complaint) = search(&tracefork, subject)? {
                println!("{}, round {round}: {complaint}", subject.guest.name);
                let complaints = wrong.entry(subject.guest.name.clone()).or_default();
                complaints.push(complaint);
            }
        }
    }
    println!(
        "{searches} searches of {} guests by two workers, {} busy threads beside them: {} went wrong",
        subjects.len(),
        plan.load,
        wrong.values().map(Vec::len).sum::<usize>()
    );
    Ok(wrong.is_empty())
}

/// One search by two workers; what is wrong with it.
fn search(tracefork: &Tracefork, subject: &mut Subject) -> Result<Option<String>> {
    let expected = match subject.expected.take() {
        Some(expected) => expected,
        None => {
            let started = Instant::now();
            let alone = found(&check(tracefork, subject, "1")?);
            subject.is_short = started.elapsed() < SHORT;
            alone
        }
    };
    let checked = check(tracefork, subject, "2")?;
    let actual = found(&checked);
    let complaint = if actual.end == DESYNC || actual != expected {
        Some(format!(
            "expected {expected:?}, found {actual:?}\n{}",
            String::from_utf8_lossy(&checked.finished.stderr)
        ))
    } else {
        None
    };
    subject.expected = Some(expected);
    Ok(complaint)
}

fn check(tracefork: &Tracefork, subject: &Subject, jobs: &str) -> Result<Checked> {
    let scratch = Scratch::new()?;
    let options = subject.guest.directives.options.iter().map(String::as_str);
    let options: Vec<&str> = options.chain(["--jobs", jobs]).collect();
    tracefork.check(&subject.invocation, &options, &scratch)
}

fn found(checked: &Checked) -> Found {
    let outcomes = checked.result["outcomes"].as_array().cloned().unwrap_or_default();
    let plain = outcomes.into_iter().map(|mut outcome| {
        outcome["executions"] = Value::Null;
        outcome.to_string()
    });
    Found {
        end: checked.finished.end,
        outcomes: (checked.result["verdict"] == "ok").then(|| plain.collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_from_the_command_line() {
        let plan = |text: &str| {
            let arguments: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            Plan::parse(&arguments)
        };
        let asked = plan("--runs 7 --minutes 2 --load 4").expect("it is one");
        let minutes = Duration::from_mins(2);
        assert_eq!((asked.runs, asked.duration, asked.load), (7, minutes, 4));
        assert!(plan("--runs").is_err() && plan("--rounds 3").is_err());
    }

    #[test]
    fn load_ends_when_it_is_dropped() {
        let load = Load::new(2);
        let stop = Arc::clone(&load.stop);
        drop(load);
        assert!(stop.load(Relaxed) && Arc::strong_count(&stop) == 1);
    }
}
