//! A sweep from its plan to its document: what is already done, what is to run, set-up and tear-down around it all.

use super::baseline::Baseline;
use super::command::{Ended, Place};
use super::journal::{JOURNAL, Journal};
use super::partition::Partition;
use super::plan::{Plan, Planned};
use super::pool::{self, Event};
use super::progress::Progress;
use super::record::{Document, Observation, Record};
use super::report;
use super::scenario::{Stage, program_hash};
use super::stop::Stop;
use failure::Failure;
use peers::process::Process;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The document of a part, in its results directory. It is there when the part has come to its end, and not before.
pub const RESULTS: &str = "results.json";

/// A sweep began in this results directory and has not written its document: it runs, or was killed.
pub fn is_unfinished(results: &Path) -> bool {
    results.join(JOURNAL).is_file() && !results.join(RESULTS).is_file()
}

/// What the tear-down of a whole sweep may take.
const TEARDOWN_LIMIT: Duration = Duration::from_secs(300);

/// A sweep to be run.
pub struct Sweep {
    pub plan: Plan,
    pub partition: Option<Partition>,
    pub results: PathBuf,
    pub resume: bool,
    pub baseline: Option<Baseline>,
    pub jobs: u32,
    /// Tell on standard error how it is going.
    pub progress: bool,
}

impl Sweep {
    /// Runs what is to be run.
    ///
    /// # Errors
    /// The results directory cannot be used. What goes wrong in a scenario is in the document.
    pub fn run(&self) -> Result<Document, Failure> {
        let cannot = |e: std::io::Error| {
            Failure::usage(format!(
                "cannot use the results directory {}: {e}",
                self.results.display()
            ))
            .hint("--results DIR takes another")
        };
        std::fs::create_dir_all(&self.results).map_err(cannot)?;
        let absolute = std::fs::canonicalize(&self.results).map_err(cannot)?;
        let (journal, done) = Journal::open(&self.results, self.resume)?;
        // What an earlier sweep has said must not be taken for what this one says, should it be killed.
        match std::fs::remove_file(absolute.join(RESULTS)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(cannot(e)),
            _ => {}
        }
        let stop = Stop::on_signals()?;
        let mut document = Document::new(&self.plan, self.partition, self.plan.scenarios.len());
        let part = self.part();
        let stage = Stage {
            plan: &self.plan,
            results: &self.results,
            absolute: &absolute,
            stop: &stop,
        };
        let mut keeper = Keeper {
            sweep: self,
            journal,
            progress: Progress::start(part.len(), self.progress),
            records: BTreeMap::new(),
        };
        let around = Around::new(&stage);
        let set_up = around.set_up();
        let ran = match &set_up {
            Ok(_) => self.run_part(&stage, &part, &done, &mut keeper),
            Err(_) => Ok(()),
        };
        let torn_down = around.tear_down();
        let failed = set_up.map(drop).err().or(torn_down.err());
        keeper.progress.finish();
        ran?;
        document.error = failed;
        document.baseline = self.baseline.as_ref().map(Baseline::digest);
        document.scenarios = part
            .iter()
            .map(|scenario| {
                keeper
                    .records
                    .remove(&scenario.id)
                    .unwrap_or_else(|| Record::not_run(scenario))
            })
            .collect();
        document.interrupted = stop.requested();
        document.sum_up();
        report::write_json(&absolute.join(RESULTS), &document)?;
        Ok(document)
    }

    fn part(&self) -> Vec<&Planned> {
        let mine = |scenario: &&Planned| {
            let partition = self.partition;
            partition.is_none_or(|partition| partition.contains(scenario.number, &scenario.id))
        };
        self.plan.scenarios.iter().filter(mine).collect()
    }

    fn run_part(
        &self,
        stage: &Stage<'_>,
        part: &[&Planned],
        done: &BTreeMap<String, Observation>,
        keeper: &mut Keeper<'_>,
    ) -> Result<(), Failure> {
        let mut todo = Vec::new();
        for scenario in part {
            match done
                .get(&scenario.id)
                .filter(|seen| self.still_holds(scenario, seen))
            {
                Some(seen) => keeper.take_over(scenario, seen),
                None => todo.push(*scenario),
            }
        }
        pool::run(stage, &todo, self.jobs, |event| match event {
            Event::Started(scenario) => {
                keeper.progress.started(&scenario.id);
                Ok(())
            }
            Event::Ended(scenario, seen) => keeper.ended(scenario, seen.as_deref()),
        })
    }

    /// Neither the scenario nor its program has changed since. A program that is not there, because a set-up makes it, cannot be told to have.
    fn still_holds(&self, scenario: &Planned, seen: &Observation) -> bool {
        let program = program_hash(scenario, &self.plan.directory);
        let same_program = match (&program, &seen.program) {
            (Some(now), Some(before)) => now == before,
            _ => true,
        };
        seen.hash == scenario.hash && same_program
    }
}

/// Judges and writes down what comes in.
struct Keeper<'a> {
    sweep: &'a Sweep,
    journal: Journal,
    progress: Progress,
    records: BTreeMap<String, Record>,
}

impl Keeper<'_> {
    fn judge(&self, scenario: &Planned, seen: &Observation) -> Record {
        let baseline = self.sweep.baseline.as_ref();
        let comparison = baseline.map(|baseline| baseline.compare(scenario, seen));
        Record::judge(scenario, seen, comparison.as_ref())
    }

    fn take_over(&mut self, scenario: &Planned, seen: &Observation) {
        let mut record = self.judge(scenario, seen);
        record.resumed = true;
        self.progress.ended(&scenario.id, Some(&record));
        self.records.insert(scenario.id.clone(), record);
    }

    fn ended(&mut self, scenario: &Planned, seen: Option<&Observation>) -> Result<(), Failure> {
        let Some(seen) = seen else {
            self.progress.ended(&scenario.id, None);
            return Ok(());
        };
        self.journal.append(seen)?;
        let record = self.judge(scenario, seen);
        self.progress.ended(&scenario.id, Some(&record));
        self.records.insert(scenario.id.clone(), record);
        Ok(())
    }
}

/// The set-up and tear-down of the whole sweep.
struct Around<'a> {
    stage: &'a Stage<'a>,
    log: PathBuf,
}

impl<'a> Around<'a> {
    fn new(stage: &'a Stage<'a>) -> Around<'a> {
        let log = stage.absolute.join("log.txt");
        // Of an earlier sweep, if it is there at all.
        let _ = std::fs::remove_file(&log);
        Around { stage, log }
    }

    fn run(&self, line: &str, stop: Option<&Stop>, deadline: Option<Instant>) -> Result<Process, String> {
        let directory = &self.stage.plan.directory;
        let line = line.replace("{dir}", &directory.display().to_string());
        let place = Place {
            directory,
            log: &self.log,
            stop,
            deadline,
        };
        match place.shell(&line, &[])? {
            (Ended::Exited(0), process) => Ok(process),
            (ended, process) => {
                let said = process.last_output();
                let last = said
                    .lines()
                    .last()
                    .map_or(String::new(), |line| format!(": {line}"));
                Err(format!("`{line}`: {ended}{last}"))
            }
        }
    }

    /// The commands' hosts: what they left running lives as long.
    fn set_up(&self) -> Result<Vec<Process>, String> {
        let lines = self.stage.plan.setup.iter();
        lines
            .map(|line| {
                self.run(line, Some(self.stage.stop), None)
                    .map_err(|why| format!("setup failed, nothing was checked: {why}"))
            })
            .collect()
    }

    /// Always, and all of it.
    fn tear_down(&self) -> Result<(), String> {
        let mut failure = Ok(());
        for line in &self.stage.plan.teardown {
            if let Err(why) = self.run(line, None, Some(Instant::now() + TEARDOWN_LIMIT)) {
                failure = Err(format!("teardown failed: {why}"));
            }
        }
        failure
    }
}

/// Where a part's results go if nothing is said: parts on one file system must not meet.
pub fn default_results(partition: Option<Partition>) -> PathBuf {
    let directory = Path::new("tracefork-sweep");
    match partition {
        None => directory.to_owned(),
        Some(part) => directory.join(format!("part-{}-of-{}", part.index, part.count)),
    }
}
