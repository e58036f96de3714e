//! Which peers there are, what was seen of them in all executions, and what a trace holds of them.

use crate::execution::digest;
use crate::os;
use crate::program::Program;
use failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use syscall_model::residents::Peer;
use trace::{ResidentRecord, ResidentsRecord};

/// One peer: what is run.
#[derive(Clone, Debug)]
pub struct Resident {
    /// What reports call it.
    pub name: String,
    /// The command as it was given.
    pub command: String,
    pub program: Program,
    pub argv: Vec<Vec<u8>>,
    /// Clients of one kind were asked for together.
    pub kind: u32,
    /// It comes when all of this kind have ended.
    pub after: Option<u32>,
}

/// What was seen of peers in all executions.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) started: BTreeSet<Peer>,
    /// Clients that have connected, and whether the program has had to do with anybody at all.
    pub(super) came: BTreeSet<u32>,
    pub(super) spoke: bool,
    pub(super) ended: BTreeMap<u32, BTreeSet<i32>>,
    pub(super) unheard: BTreeSet<u32>,
}

/// The peers that are processes of the execution.
#[derive(Clone, Debug, Default)]
pub struct Residents {
    /// Their schedules are explored, too.
    pub explored: bool,
    pub servers: Vec<Resident>,
    pub clients: Vec<Resident>,
    seen: Arc<Mutex<Seen>>,
}

impl Residents {
    pub fn new(explored: bool, servers: Vec<Resident>, clients: Vec<Resident>) -> Self {
        Self {
            explored,
            servers,
            clients,
            seen: Arc::default(),
        }
    }

    /// The same in one fixed schedule, of which nothing is told.
    #[must_use]
    pub fn fixed(&self) -> Self {
        Self {
            explored: false,
            seen: Arc::default(),
            ..self.clone()
        }
    }

    pub(super) fn resident(&self, peer: Peer) -> Option<&Resident> {
        match peer {
            Peer::Server(nth) => self.servers.get(nth as usize),
            Peer::Client(nth) => self.clients.get(nth as usize),
        }
    }

    pub(super) fn note(&self, note: impl FnOnce(&mut Seen)) {
        // Whoever panicked left it as it was: it only grows.
        note(
            &mut self
                .seen
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        );
    }

    /// The program had nothing to do with any of them.
    pub fn is_idle(&self) -> bool {
        let mut spoke = false;
        self.note(|seen| spoke = seen.spoke);
        !spoke
    }

    /// Clients were started, and none of them has connected.
    pub fn no_client_connected(&self) -> bool {
        let mut launched = false;
        self.note(|seen| launched = seen.started.iter().any(|peer| matches!(peer, Peer::Client(_))));
        launched && self.is_idle()
    }

    /// Clients that have failed in some schedule, with their statuses, and those that have ended without ever having connected.
    pub fn unlucky_clients(&self) -> (Vec<(String, i32)>, Vec<String>) {
        let (mut failed, mut unheard) = (Vec::new(), Vec::new());
        self.note(|seen| {
            for (nth, client) in self.clients.iter().enumerate() {
                let statuses = seen.ended.get(&(nth as u32));
                let status = statuses.and_then(|statuses| statuses.iter().find(|status| **status != 0));
                failed.extend(status.map(|status| (client.command.clone(), *status)));
                if seen.unheard.contains(&(nth as u32)) && !seen.came.contains(&(nth as u32)) {
                    unheard.push(client.command.clone());
                }
            }
        });
        (failed, unheard)
    }

    /// For a trace.
    ///
    /// # Errors
    /// A program cannot be read.
    pub fn record(&self) -> Result<ResidentsRecord, Failure> {
        let record = |resident: &Resident| {
            Ok(ResidentRecord {
                name: resident.name.clone(),
                command: resident.command.clone(),
                path: resident.program.path.as_os_str().as_bytes().to_vec(),
                digest: digest(&resident.program.path)?,
                argv: resident.argv.clone(),
                kind: resident.kind,
                after: resident.after,
            })
        };
        Ok(ResidentsRecord {
            explored: self.explored,
            servers: self.servers.iter().map(record).collect::<Result<_, Failure>>()?,
            clients: self.clients.iter().map(record).collect::<Result<_, Failure>>()?,
        })
    }

    /// From a trace: the programs must be here, and what they were unless that is no matter.
    ///
    /// # Errors
    /// One of them is not.
    pub fn recorded(record: &ResidentsRecord, cwd: &Path, allow_changed: bool) -> Result<Self, Failure> {
        let resident = |record: &ResidentRecord| {
            let path = os(&record.path);
            let program = Program::find(&path, cwd).map_err(|failure| {
                failure.hint(
                    "the trace was made with --peers inside or explored: a replay executes the peers again, so they must be on this machine",
                )
            })?;
            if !allow_changed && digest(&program.path)? != record.digest {
                let path = program.path.display();
                return Err(Failure::desync(format!("{path} is not the recorded peer"))
                    .hint("build the recorded version of the peer, or use --allow-changed-program"));
            }
            Ok(Resident {
                name: record.name.clone(),
                command: record.command.clone(),
                program,
                argv: record.argv.clone(),
                kind: record.kind,
                after: record.after,
            })
        };
        let all =
            |records: &[ResidentRecord]| records.iter().map(resident).collect::<Result<Vec<_>, Failure>>();
        Ok(Self::new(
            record.explored,
            all(&record.servers)?,
            all(&record.clients)?,
        ))
    }
}
