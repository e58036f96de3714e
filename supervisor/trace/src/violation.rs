//! What a counterexample shows: a property that does not hold. Which do not hold is found out by the checker.

use serde::{Deserialize, Serialize};

/// The kinds of CLI.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ViolationKind {
    Crash,
    Assert,
    Deadlock,
    Livelock,
    Race,
    #[serde(rename = "use-after-free")]
    UseAfterFree,
    Exit,
    Output,
    Traffic,
    Peer,
}

impl ViolationKind {
    pub const fn name(self) -> &'static str {
        match self {
            ViolationKind::Crash => "crash",
            ViolationKind::Assert => "assert",
            ViolationKind::Deadlock => "deadlock",
            ViolationKind::Livelock => "livelock",
            ViolationKind::Race => "race",
            ViolationKind::UseAfterFree => "use-after-free",
            ViolationKind::Exit => "exit",
            ViolationKind::Output => "output",
            ViolationKind::Traffic => "traffic",
            ViolationKind::Peer => "peer",
        }
    }
}

/// A property that does not hold. Equal ones are the same violation, found again: the text tells only what does
/// not depend on the way there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Violation {
    pub kind: ViolationKind,
    pub message: String,
    pub thread: Option<u32>,
}
