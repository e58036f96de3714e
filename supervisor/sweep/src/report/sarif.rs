//! SARIF 2.1.0: what failed, for code scanning. A result points at the scenario in the sweep file, which is always there; the trace and its
//! stacks are in the message.

use super::junit::description;
use crate::expect::WORDS;
use crate::record::{Document, Record, Status};
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Serialize)]
pub struct Log {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run; 1],
}

#[derive(Serialize)]
struct Run {
    tool: Value,
    invocations: Value,
    results: Vec<Value>,
}

pub fn log(document: &Document) -> Log {
    let told = |record: &&Record| matches!(record.status, Status::Failed | Status::Known);
    Log {
        schema: "https://json.schemastore.org/sarif-2.1.0.json",
        version: "2.1.0",
        runs: [Run {
            tool: tool(),
            // Whether everything was looked at, which no list of findings can tell.
            invocations: json!([{
                "executionSuccessful": !document.interrupted && document.error.is_none(),
                "exitCode": document.summary.exit_code,
            }]),
            results: document
                .scenarios
                .iter()
                .filter(told)
                .flat_map(|record| results(document, record))
                .collect(),
        }],
    }
}

/// The rule for a scenario that came to no verdict.
const NO_VERDICT: (&str, &str) = ("error", "the scenario has no verdict");

fn rules() -> impl Iterator<Item = (&'static str, &'static str)> {
    WORDS.into_iter().chain([NO_VERDICT])
}

fn tool() -> Value {
    let rules: Vec<Value> = rules()
        .map(|(word, meaning)| json!({ "id": word, "shortDescription": { "text": meaning } }))
        .collect();
    json!({ "driver": {
        "name": "tracefork",
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "informationUri": env!("CARGO_PKG_REPOSITORY"),
        "rules": rules,
    }})
}

/// One for every kind of thing that was found.
fn results(document: &Document, record: &Record) -> Vec<Value> {
    let words = match record.found.is_empty() {
        true => vec![NO_VERDICT.0.to_owned()],
        false => record.found.clone(),
    };
    let is_known = record.status == Status::Known;
    let one = |word: &String| {
        json!({
            "ruleId": word,
            "ruleIndex": rules().position(|(known, _)| known == word),
            "level": if is_known { "note" } else { "error" },
            "baselineState": if is_known { "unchanged" } else { "new" },
            "message": { "text": format!("{}: {}", record.id, description(record)) },
            "locations": [{ "physicalLocation": {
                "artifactLocation": { "uri": uri(&document.file) },
                "region": { "startLine": record.line, "startColumn": record.column },
            }}],
            // The same finding in the next run is recognised by these, wherever the scenario has moved to.
            "partialFingerprints": { "scenario/v1": format!("{}:{word}", record.id) },
        })
    };
    words.iter().map(one).collect()
}

/// A path as a relative reference, or as an absolute file URI.
fn uri(path: &str) -> String {
    use std::fmt::Write as _;
    let mut text = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'~' => {
                text.push(char::from(byte))
            }
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn paths_become_uris() {
        assert_eq!(super::uri("a b/ü.toml"), "a%20b/%C3%BC.toml");
        assert_eq!(super::uri("/x"), "file:///x");
    }
}
