//! What an earlier sweep found, to fail only on what is new or changed.
//!
//! A baseline is a file to keep beside the sweep file: no times and no paths in it, and sorted, so that a difference between two of them is one
//! between two programs. The result of an earlier sweep (`--json`) is taken as well.

use super::expect::Found;
use super::plan::Planned;
use super::record::{self, Document, Observation, Status};
use failure::Failure;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Raised when a baseline of an older tracefork could be misread.
const FORMAT: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Baseline {
    pub format: u32,
    pub scenarios: BTreeMap<String, Known>,
}

/// What is known of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// In the words of `expect`; empty if there was no verdict.
    pub found: Vec<String>,
    /// Only of complete searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcomes: Option<Vec<Value>>,
}

/// A scenario beside the baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    New,
    Same,
    Changed {
        changes: Vec<String>,
        /// What the baseline has is what the scenario expects.
        was_expected: bool,
    },
}

impl Baseline {
    /// # Errors
    /// It cannot be read, or is neither a baseline nor the result of a sweep.
    pub fn read(path: &Path) -> Result<Baseline, Failure> {
        let wrong = |why: String| {
            Failure::usage(format!("--baseline {}: {why}", path.display()))
                .hint("--write-baseline FILE makes one")
        };
        let text =
            peers::read_text_bounded(path, peers::bounded::LARGEST_FILE).map_err(|e| wrong(e.to_string()))?;
        let value: Value = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        let is_document = value["scenarios"].is_array();
        let (format, known) = match is_document {
            // What a baseline takes from a result was the same in all formats so far.
            true => (value["format"].as_u64(), 1..=record::FORMAT),
            false => (value["format"].as_u64(), FORMAT..=FORMAT),
        };
        if let Some(format) = format.filter(|format| !known.clone().any(|known| u64::from(known) == *format))
        {
            let newest = known.end();
            let why = format!("format {format} is not the {newest} that this tracefork reads");
            return Err(wrong(why));
        }
        let baseline = match is_document {
            true => serde_json::from_value(value).map(|document: Document| Baseline::of(&document)),
            false => serde_json::from_value(value),
        };
        baseline.map_err(|e| wrong(format!("not a baseline: {e}")))
    }

    /// Tells it from others.
    pub fn digest(&self) -> String {
        // Texts and numbers can always be encoded.
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        blake3::hash(&bytes).to_hex()[..32].to_owned()
    }

    pub fn of(document: &Document) -> Baseline {
        let run = document
            .scenarios
            .iter()
            .filter(|record| record.status != Status::NotRun);
        let known = run.map(|record| (record.id.clone(), Known::of(&record.found, &record.result)));
        Baseline {
            format: FORMAT,
            scenarios: known.collect(),
        }
    }

    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let written = serde_json::to_string_pretty(self)
            .map_err(std::io::Error::other)
            .and_then(|text| peers::write_whole(path, (text + "\n").as_bytes()));
        written.map_err(|e| Failure::usage(format!("cannot write the baseline {}: {e}", path.display())))
    }

    pub fn compare(&self, scenario: &Planned, seen: &Observation) -> Comparison {
        let Some(before) = self.scenarios.get(&scenario.id) else {
            return Comparison::New;
        };
        let now = Known::of(&seen.found.words, &seen.result);
        let wanted = |what: &str| scenario.compare.iter().any(|compared| compared == what);
        let mut changes = Vec::new();
        if wanted("verdict") && before.found != now.found {
            changes.push(format!(
                "verdict {} → {}",
                shown(&before.found),
                shown(&now.found)
            ));
        }
        if let (true, Some(before), Some(now)) = (wanted("outcomes"), &before.outcomes, &now.outcomes) {
            changes.extend(differences(before, now));
        }
        // Several workers find their way by chance.
        if let (true, 1, Some(before), Some(now)) =
            (wanted("states"), scenario.run.workers, before.states, now.states)
            && before != now
        {
            changes.push(format!("states {before} → {now}"));
        }
        if changes.is_empty() {
            return Comparison::Same;
        }
        let kinds = super::expect::WORDS.iter().map(|(word, _)| *word);
        let kinds: BTreeSet<&str> = kinds.skip(2).take(8).collect();
        let before = Found {
            is_violation: before.found.iter().any(|word| kinds.contains(word.as_str())),
            words: before.found.clone(),
        };
        Comparison::Changed {
            changes,
            was_expected: before.is_expected(&scenario.expect),
        }
    }
}

impl Known {
    fn of(found: &[String], result: &Value) -> Known {
        // What a limit cut off depends on the speed of the machine.
        let is_complete = result["verdict"] == "ok" || result["verdict"] == "violation";
        let outcomes = result["outcomes"].as_array().filter(|_| is_complete);
        Known {
            found: found.to_vec(),
            states: result["states"]["new"].as_u64().filter(|_| is_complete),
            outcomes: outcomes.map(|outcomes| outcomes.iter().map(without_counts).collect()),
        }
    }
}

/// How often an outcome was seen depends on the reduction, not on the program.
fn without_counts(outcome: &Value) -> Value {
    let mut outcome = outcome.clone();
    if let Some(fields) = outcome.as_object_mut() {
        fields.remove("executions");
    }
    outcome
}

fn shown(found: &[String]) -> String {
    match found.is_empty() {
        true => "error".to_owned(),
        false => found.join(", "),
    }
}

fn differences(before: &[Value], now: &[Value]) -> Vec<String> {
    let gone = before.iter().filter(|outcome| !now.contains(outcome));
    let new = now.iter().filter(|outcome| !before.contains(outcome));
    let gone = gone.map(|outcome| format!("outcome gone: {}", brief(outcome)));
    gone.chain(new.map(|outcome| format!("new outcome: {}", brief(outcome))))
        .collect()
}

/// An outcome in one short line.
fn brief(outcome: &Value) -> String {
    let end = match (outcome["exit"].as_i64(), outcome["signal"].as_i64()) {
        (Some(status), _) => format!("exit {status}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ if outcome["deadlock"] == true => "deadlock".to_owned(),
        _ if outcome["livelock"] == true => "livelock".to_owned(),
        _ => "no end".to_owned(),
    };
    let text = |field: &str| {
        let text = outcome[field].as_str().unwrap_or_default();
        let cut: String = text.chars().take(40).collect();
        match cut.len() < text.len() {
            true => format!("{cut:?}…"),
            false => format!("{cut:?}"),
        }
    };
    format!("{end}, stdout {}, stderr {}", text("stdout"), text("stderr"))
}
