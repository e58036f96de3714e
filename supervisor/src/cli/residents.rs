//! `--peers inside` and `explored`: the same command line, for peers that are processes of the execution.

use super::peers::{ArrivalsArg, PeerArgs, PeersArg};
use crate::shim;
use failure::{ExitCode, Failure};
use peers::PeerSpec;
use session::Resident;
use session::Residents;
use session::program::Program;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use syscall_model::residents::Peer;

impl PeersArg {
    /// As it is given.
    pub fn name(self) -> &'static str {
        match self {
            PeersArg::Real => "real",
            PeersArg::Inside => "inside",
            PeersArg::Explored => "explored",
        }
    }
}

impl PeerArgs {
    /// The peers that are to be processes of the execution, which begin in this directory.
    ///
    /// # Errors
    /// One of them cannot be run, or another option says something about peers outside.
    pub fn residents(&self, cwd: &Path) -> Result<Option<Arc<Residents>>, Failure> {
        if self.peers == PeersArg::Real {
            return Ok(None);
        }
        self.say_nothing_of_real_peers()?;
        let mut servers = Vec::new();
        for spec in &self.server_specs()? {
            for nth in 0..spec.count {
                let name = match spec.count {
                    1 => spec.name.clone(),
                    _ => format!("{}#{nth}", spec.name),
                };
                servers.push(resident(spec, name, cwd)?);
            }
        }
        let specs = self.client_specs()?;
        let mut clients = Vec::new();
        for member in peers::roster(&specs) {
            let spec = &specs[member.kind as usize];
            clients.push(Resident {
                kind: member.kind,
                after: member.after,
                ..resident(spec, member.name, cwd)?
            });
        }
        for (kind, count, most) in [
            ("servers", servers.len(), Peer::MOST_SERVERS),
            ("clients", clients.len(), Peer::MOST_CLIENTS),
        ] {
            if count > most {
                let peers = self.peers.name();
                return Err(Failure::usage(format!("--peers {peers}: at most {most} {kind}"))
                    .hint("more of them can stand outside: --peers real"));
            }
        }
        let residents = Residents::new(self.peers == PeersArg::Explored, servers, clients);
        Ok(Some(Arc::new(residents)))
    }

    /// What only concerns peers outside is not passed over in silence.
    fn say_nothing_of_real_peers(&self) -> Result<(), Failure> {
        let given = [
            ("--arrivals any", self.arrivals == Some(ArrivalsArg::Any)),
            ("--late", self.late.is_some()),
            ("--peer-state", self.peer_state.is_some()),
            ("--cache", self.cache.is_some()),
            ("--share-trees", self.share_trees),
            ("--cache-file", self.cache_file.is_some()),
            ("--allow-connect", !self.allow_connect.is_empty()),
            ("--settle", self.settle.is_some()),
            ("--peer-timeout", self.peer_timeout.is_some()),
            ("--peer-output", self.peer_output.is_some()),
            (
                "--allow-nondeterministic-peers",
                self.allow_nondeterministic_peers,
            ),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                let peers = self.peers.name();
                Err(Failure::usage(format!(
                    "{option} is about peers outside, and --peers {peers} has none"
                ))
                .hint(format!("leave out {option}, or use --peers real")))
            }
            None => Ok(()),
        }
    }
}

fn resident(spec: &PeerSpec, name: String, cwd: &Path) -> Result<Resident, Failure> {
    let mut argv: Vec<Vec<u8>> = spec.argv.iter().map(|arg| arg.as_bytes().to_vec()).collect();
    let command = argv.first().cloned().unwrap_or_default();
    let of_peer = |mut failure: Failure| {
        failure.code = ExitCode::Peer;
        failure.detail(format!("as the peer {name}: {}", spec.command))
    };
    let mut program = Program::find(OsStr::from_bytes(&command), cwd).map_err(of_peer)?;
    if let Some(path) = shim::resolve(&program.path, cwd)? {
        argv[0] = path.as_os_str().as_bytes().to_vec();
        program = Program::find(path.as_os_str(), cwd).map_err(of_peer)?;
    }
    Ok(Resident {
        command: spec.command.clone(),
        program,
        argv,
        kind: 0,
        after: None,
        name,
    })
}
