//! The peers that were processes of the execution: a replay executes them again.

use serde::{Deserialize, Serialize};
use syscall_model::residents::Peer;

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

impl ResidentsRecord {
    /// All of them, by the number of their first process.
    pub fn numbered(&self) -> impl Iterator<Item = (u32, &ResidentRecord)> {
        let servers = (0..).map(Peer::Server).zip(&self.servers);
        let clients = (0..).map(Peer::Client).zip(&self.clients);
        let all = servers.chain(clients);
        all.map(|(peer, record)| (peer.first_pid(), record))
    }
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
