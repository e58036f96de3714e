//! What is kept of a sweep: what was observed of each scenario, what was made of it, and the one document that `--json` writes and `merge` reads.

use super::baseline::Comparison;
use super::expect::Found;
use super::partition::Partition;
use super::plan::{Plan, Planned};
use failure::ExitCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Raised when a document of an older tracefork could be misread.
pub const FORMAT: u32 = 2;

/// What one scenario did, whatever is thought of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Observation {
    pub id: String,
    /// Of the scenario as it was run.
    pub hash: String,
    /// Of the program's file as it was run.
    pub program: Option<String>,
    pub exit_code: u8,
    /// Nothing, if it did not come to a verdict.
    pub found: Found,
    pub error: Option<String>,
    pub time_s: f64,
    pub log: String,
    /// The result of `check`.
    pub result: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// As expected.
    Passed,
    /// Not as expected, or, with a baseline, not as before.
    Failed,
    /// Not as expected, but the same as in the baseline.
    Known,
    /// Interrupted before it was its turn, or before it had come to an end.
    NotRun,
}

impl Status {
    pub fn word(self) -> &'static str {
        match self {
            Status::Passed => "pass",
            Status::Failed => "FAIL",
            Status::Known => "known",
            Status::NotRun => "not run",
        }
    }
}

/// One scenario in the document. Flat, as the JSON object that readers of the document know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    pub id: String,
    /// Its number in the whole sweep, from 0.
    pub place: u64,
    pub name: String,
    pub parameters: BTreeMap<String, String>,
    pub line: u32,
    pub column: u32,
    pub command: Vec<String>,
    pub expect: Vec<String>,
    pub status: Status,
    /// In the words of `expect`.
    pub found: Vec<String>,
    /// One line: why it is not as expected, or how it changed.
    pub reason: Option<String>,
    /// Differences from the baseline.
    pub changes: Vec<String>,
    /// What this scenario adds to the exit code of the sweep; 0 if nothing.
    pub exit_code: u8,
    pub time_s: f64,
    /// What was printed by its commands.
    pub log: Option<String>,
    /// From an earlier, interrupted sweep.
    pub resumed: bool,
    pub hash: String,
    /// Of the program's file as it was run. Not if the scenario has a set-up, which may make a program of its own.
    #[serde(default)]
    pub program: Option<String>,
    /// The result of `check`, as `check --json` writes it.
    pub result: Value,
}

impl Record {
    /// Judges an observation.
    pub fn judge(scenario: &Planned, seen: &Observation, comparison: Option<&Comparison>) -> Record {
        let verdict_is_expected = seen.found.is_expected(&scenario.expect);
        let is_expected = seen.error.is_none() && verdict_is_expected;
        let same = matches!(comparison, Some(Comparison::Same));
        let changes = match comparison {
            Some(Comparison::Changed {
                changes,
                was_expected,
            }) if !is_expected || *was_expected => changes.clone(),
            _ => Vec::new(),
        };
        let status = match (is_expected, same) {
            (_, false) if !changes.is_empty() => Status::Failed,
            (true, _) => Status::Passed,
            (false, true) => Status::Known,
            (false, false) => Status::Failed,
        };
        let mut record = Record::not_run(scenario);
        record.status = status;
        record.found = seen.found.words.clone();
        record.exit_code = match status {
            Status::Failed if verdict_is_expected && seen.error.is_some() => ExitCode::Unsupported as u8,
            Status::Failed => code(seen),
            _ => 0,
        };
        record.reason = reason(scenario, seen, is_expected, &changes);
        record.changes = changes;
        record.time_s = seen.time_s;
        record.log = Some(seen.log.clone());
        record.result = seen.result.clone();
        record.program = seen.program.clone().filter(|_| scenario.run.setup.is_empty());
        record
    }

    /// A scenario that did not come to its turn.
    pub fn not_run(scenario: &Planned) -> Record {
        Record {
            id: scenario.id.clone(),
            place: scenario.number,
            name: scenario.name.clone(),
            parameters: scenario.parameters.iter().cloned().collect(),
            line: scenario.place.line,
            column: scenario.place.column,
            command: scenario.run.command.clone(),
            expect: scenario.expect.clone(),
            status: Status::NotRun,
            found: Vec::new(),
            reason: None,
            changes: Vec::new(),
            exit_code: ExitCode::Limit as u8,
            time_s: 0.0,
            log: None,
            resumed: false,
            hash: scenario.hash.clone(),
            program: None,
            result: Value::Null,
        }
    }

    /// What was found, in a few words.
    pub fn verdict(&self) -> String {
        match (self.status, self.found.is_empty()) {
            (Status::NotRun, _) => "-".to_owned(),
            (_, true) => "error".to_owned(),
            (_, false) => self.found.join(", "),
        }
    }

    /// The violations that `check` reports.
    pub fn violations(&self) -> &[Value] {
        self.result["violations"].as_array().map_or(&[], Vec::as_slice)
    }
}

/// What an unexpected observation adds to the exit code: a violation that is there or is missing is 1, else it is `check`'s own code.
fn code(seen: &Observation) -> u8 {
    match seen.exit_code {
        0 => ExitCode::Violation as u8,
        code => code,
    }
}

fn reason(scenario: &Planned, seen: &Observation, is_expected: bool, changes: &[String]) -> Option<String> {
    if let Some(change) = changes.first() {
        return Some(match changes.len() {
            1 => format!("changed: {change}"),
            n => format!("changed: {change} (and {} more)", n - 1),
        });
    }
    if is_expected {
        return None;
    }
    if let Some(error) = &seen.error {
        return Some(error.clone());
    }
    let (found, expected) = (seen.found.words.join(", "), scenario.expect.join(" or "));
    // Why there was no verdict.
    let note = seen.result["notes"][0]
        .as_str()
        .filter(|_| !seen.found.is_violation);
    let note = note.map_or(String::new(), |note| format!(": {note}"));
    Some(format!("{found}, expected {expected}{note}"))
}

/// The document: the fields of its JSON object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    pub format: u32,
    pub version: String,
    pub file: String,
    /// Of the text of the sweep file.
    #[serde(default)]
    pub file_digest: String,
    pub profile: Option<String>,
    /// Of the baseline that it was compared with.
    #[serde(default)]
    pub baseline: Option<String>,
    pub partition: Option<Partition>,
    /// Of all scenarios of the sweep, also those of other parts.
    pub plan: String,
    pub plan_size: u64,
    pub interrupted: bool,
    /// What failed beside the scenarios: the sweep's own set-up or tear-down.
    pub error: Option<String>,
    pub summary: Summary,
    pub scenarios: Vec<Record>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    pub total: u64,
    pub passed: u64,
    pub failed: u64,
    pub known: u64,
    pub not_run: u64,
    pub exit_code: u8,
}

impl Document {
    pub fn new(plan: &Plan, partition: Option<Partition>, plan_size: usize) -> Document {
        Document {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            file: plan.file.display().to_string(),
            file_digest: plan.digest.clone(),
            profile: plan.profile.clone(),
            baseline: None,
            partition,
            plan: plan.hash(),
            plan_size: plan_size as u64,
            interrupted: false,
            error: None,
            summary: Summary::default(),
            scenarios: Vec::new(),
        }
    }

    /// Counts, and settles the exit code.
    pub fn sum_up(&mut self) {
        let count = |status: Status| self.scenarios.iter().filter(|r| r.status == status).count() as u64;
        self.summary = Summary {
            total: self.scenarios.len() as u64,
            passed: count(Status::Passed),
            failed: count(Status::Failed),
            known: count(Status::Known),
            not_run: count(Status::NotRun),
            exit_code: self.exit_code(),
        };
    }

    /// A violation weighs most, then what makes verdicts doubtful, then what was not finished.
    fn exit_code(&self) -> u8 {
        const WEIGHT: [ExitCode; 6] = [
            ExitCode::Violation,
            ExitCode::Desync,
            ExitCode::Peer,
            ExitCode::Unsupported,
            ExitCode::Usage,
            ExitCode::Limit,
        ];
        let mut codes: Vec<u8> = self.scenarios.iter().map(|record| record.exit_code).collect();
        codes.extend(self.error.is_some().then_some(ExitCode::Unsupported as u8));
        codes.extend(self.interrupted.then_some(ExitCode::Limit as u8));
        let heaviest = WEIGHT
            .iter()
            .map(|code| *code as u8)
            .find(|code| codes.contains(code));
        // Anything that is not 0 must not become 0.
        heaviest.unwrap_or_else(|| codes.into_iter().max().unwrap_or(0))
    }
}
