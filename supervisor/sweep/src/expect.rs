//! What a scenario is expected to show, and whether it did.
//!
//! `expect` is a list of what may be found. Everything that was found must be in it: an expected deadlock does not excuse a crash beside it.

use failure::ExitCode;
use serde::{Deserialize, Serialize};
use trace::ViolationKind;

/// Every word that `expect` takes, and what it means.
pub const WORDS: [(&str, &str); 16] = [
    ("ok", "explored completely, nothing found"),
    ("violation", "a violation of any kind"),
    (ViolationKind::Crash.name(), "killed by a signal"),
    (ViolationKind::Assert.name(), "aborted, as by a failed assertion"),
    (ViolationKind::Deadlock.name(), "no thread can make progress"),
    (
        ViolationKind::Livelock.name(),
        "every thread waits or polls for something that never happens",
    ),
    (
        ViolationKind::Race.name(),
        "unsynchronized accesses to the same memory",
    ),
    (
        ViolationKind::UseAfterFree.name(),
        "memory is accessed after it was freed",
    ),
    (ViolationKind::Exit.name(), "an exit status other than expected"),
    (
        ViolationKind::Output.name(),
        "output that is forbidden, or lacks what is required",
    ),
    (
        ViolationKind::Traffic.name(),
        "traffic that is forbidden, or lacks what is required",
    ),
    (ViolationKind::Peer.name(), "a client failed"),
    ("incomplete", "a limit was reached, nothing found so far"),
    ("unsupported", "the program or this machine cannot be handled"),
    (
        "peer-error",
        "a peer failed to start, is not deterministic, or its cache cannot serve",
    ),
    (
        "desync",
        "the program did not behave the same under the same schedule",
    ),
];

/// What `check` found, in the words of `expect`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The kinds of the violations, or the one word for what else happened. Sorted.
    pub words: Vec<String>,
    pub is_violation: bool,
}

impl Found {
    /// From the exit code of `check` and its result. `None` if these fit no documented case.
    pub fn from_check(code: u8, result: &serde_json::Value) -> Option<Found> {
        let word = |text: &str| Found {
            words: vec![text.to_owned()],
            is_violation: false,
        };
        let is = |known: ExitCode| code == known as u8;
        if is(ExitCode::Violation) {
            let violations = result["violations"].as_array()?;
            let mut words: Vec<String> = violations
                .iter()
                .filter_map(|violation| violation["kind"].as_str())
                .map(str::to_owned)
                .collect();
            words.sort_unstable();
            words.dedup();
            return (!words.is_empty()).then_some(Found {
                words,
                is_violation: true,
            });
        }
        if is(ExitCode::Ok) {
            return (result["verdict"] == "ok").then(|| word("ok"));
        }
        let text = match code {
            _ if is(ExitCode::Limit) => "incomplete",
            _ if is(ExitCode::Unsupported) => "unsupported",
            _ if is(ExitCode::Peer) => "peer-error",
            _ if is(ExitCode::Desync) => "desync",
            _ => return None,
        };
        Some(word(text))
    }

    /// Whether all that was found may be found.
    pub fn is_expected(&self, expected: &[String]) -> bool {
        let any_violation = self.is_violation && expected.iter().any(|word| word == "violation");
        !self.words.is_empty() && (any_violation || self.words.iter().all(|word| expected.contains(word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(words: &[&str], is_violation: bool) -> Found {
        Found {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            is_violation,
        }
    }

    #[test]
    fn everything_that_was_found_must_be_expected() {
        let expected = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let deadlock = found(&["deadlock"], true);
        assert!(deadlock.is_expected(&expected(&["deadlock"])));
        assert!(deadlock.is_expected(&expected(&["violation"])));
        assert!(!deadlock.is_expected(&expected(&["ok"])));
        let two = found(&["crash", "deadlock"], true);
        assert!(!two.is_expected(&expected(&["deadlock"])));
        assert!(two.is_expected(&expected(&["deadlock", "crash"])));
        assert!(!found(&["desync"], false).is_expected(&expected(&["violation"])));
        assert!(!found(&[], false).is_expected(&expected(&["ok"])));
    }

    #[test]
    fn a_violation_without_violations_and_an_unknown_code_are_nothing() {
        let result = serde_json::json!({ "verdict": "violation", "violations": [] });
        assert_eq!(Found::from_check(1, &result), None);
        assert_eq!(Found::from_check(101, &result), None);
        let result = serde_json::json!({ "violations": [{ "kind": "race" }, { "kind": "race" }] });
        assert_eq!(Found::from_check(1, &result), Some(found(&["race"], true)));
    }
}
