//! The peers that were processes of the execution: a replay executes them again.

use serde::{Deserialize, Serialize};

/// Peers that are executed with the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidentsRecord {
    /// Their steps are steps of the trace.
    pub explored: bool,
    #[serde(deserialize_with = "peers::bounded::vec")]
    pub servers: Vec<ResidentRecord>,
    #[serde(deserialize_with = "peers::bounded::vec")]
    pub clients: Vec<ResidentRecord>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidentRecord {
    pub name: String,
    /// As it was given.
    pub command: String,
    pub path: Vec<u8>,
    /// BLAKE3 of the file.
    pub digest: [u8; 32],
    #[serde(deserialize_with = "peers::bounded::vec")]
    pub argv: Vec<Vec<u8>>,
    /// Clients of one kind were asked for together.
    pub kind: u32,
    /// It comes when all of this kind have ended.
    pub after: Option<u32>,
}
