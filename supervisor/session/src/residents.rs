//! Peers as processes of this execution (`--peers inside` and `explored`).
//!
//! They are launched beside the program and go back with it. *Inside* they have one fixed schedule: whenever one of them can move it does, the one with the lowest
//! number first, before the program goes on; so their moves are part of the program's steps, and no choices. *Explored* they are scheduled like
//! everybody else, from the moment on at which the program begins.

mod plan;

pub use plan::{Resident, Residents};

use super::Options;
use super::network::PeerNetwork;
use super::spaces::{Invocation, Space};
use super::stacks::Explain;
use super::step::{Flow, Transit};
use super::{Code, Context, Session, directory_to_start_in, image, os};
use crate::network::{self, Names, to_address};
use failure::{ExitCode, Failure};
use hooks::Preempt;
use peers::PeerError;
use plan::Seen;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use syscall_model::Model;
use syscall_model::clock::Nanos;
use syscall_model::net::Key;
use syscall_model::processes::Ended;
use syscall_model::residents::Peer;
use syscall_model::{Tid, table};
use trace::escape;
use tracee::{Filter, Launch};

/// As long a peer may sleep, on the program's clock, before it is taken to say no more: as long as one outside.
const PATIENCE: Nanos = 3_000_000_000;
/// As long a server may take until it listens.
const START: Nanos = 10_000_000_000;
/// Operations in a row after which a peer is said never to rest.
const RESTLESS: u32 = 1_000_000;
/// Lines of what a peer printed last.
const LINES: usize = 20;

/// The peers that there are, if any.
struct Plan<'a>(Option<&'a Residents>);

impl Names for Plan<'_> {
    fn of(&self, peer: Peer) -> (String, String) {
        let resident = self.0.and_then(|plan| plan.resident(peer));
        resident.map_or_else(Default::default, |resident| {
            (resident.name.clone(), resident.command.clone())
        })
    }

    fn are_explored(&self) -> bool {
        self.0.is_some_and(|plan| plan.explored)
    }
}

fn status(ended: Ended) -> i32 {
    match ended {
        Ended::Exited(status) => status,
        Ended::Killed(signal) => -signal,
    }
}

impl Session {
    /// What was said among the sockets of the model goes into the journal, if there is one.
    pub(super) fn note_traffic_within(&mut self) {
        let heard = self.model.channels.overheard.take();
        if !heard.is_empty() {
            let plan = self.options.residents.clone();
            self.network.overheard(heard, &Plan(plan.as_deref()));
        }
    }

    /// Before the program begins: the servers do, each runs until it rests.
    pub(super) fn start_servers(&mut self) -> Result<(), Failure> {
        let Some(plan) = self.options.residents.clone() else {
            return Ok(());
        };
        for (nth, server) in plan.servers.iter().enumerate() {
            let peer = Peer::Server(nth as u32);
            self.launch(peer, server, None)?;
            self.let_residents_move()?;
            while !self.model.serves(peer) {
                let now = self.model.clock.now();
                let next = self
                    .model
                    .next_deadline()
                    .filter(|&next| next > now && next <= START);
                let ended = self.model.residents.exit(peer);
                let next = match (ended, next) {
                    (None, Some(next)) => next,
                    (ended, _) => return Err(self.residency().never_listened(peer, server, ended)),
                };
                self.model.advance_clock(next);
                self.let_residents_move()?;
            }
        }
        self.go_home();
        Ok(())
    }

    /// Launches a peer and runs it to its first parking point.
    fn launch(&mut self, peer: Peer, resident: &Resident, at: Option<&Place>) -> Result<(), Failure> {
        let mut env = self.options.env.clone();
        let mut argv = resident.argv.clone();
        if let Some(at) = at {
            argv.iter_mut().for_each(|arg| *arg = at.put_in(arg));
            for (name, value) in [("TRACEFORK_ADDR", &at.address), ("TRACEFORK_PORT", &at.port)] {
                env.retain(|(known, _)| known != name.as_bytes());
                env.push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
            }
        }
        let launch = Launch {
            program: resident.program.path.clone(),
            argv: argv.iter().map(|arg| os(arg)).collect(),
            env: env.iter().map(|(name, value)| (os(name), os(value))).collect(),
            cwd: directory_to_start_in(&self.options.config.cwd),
            filter: Filter::new(table::allowed()),
            core: self.options.core.as_ref().map(crate::cores::Core::number),
            hide_tsc: true,
            confine: self.options.confine,
        };
        let path = &resident.program.path;
        let task = launch
            .spawn()
            .map_err(|error| image::launch_failure(path, error))?;
        let image = resident.program.image.as_os_str().as_bytes();
        let pid = self.model.add_peer(peer, &self.options.config, image);
        let key = self.spaces.next_key();
        let words = env
            .iter()
            .map(|(name, value)| [name.as_slice(), b"=", value].concat());
        let invocation = Invocation::new(&argv, words);
        let space = Space::new(pid, key, task, self.residency().code_of_residents(), invocation);
        self.spaces.others.insert(pid, space);
        self.threads.insert(pid, Context::default());
        let outer = std::mem::take(&mut self.transit);
        self.enter(pid);
        self.new_image()?;
        self.run_to_park(pid)?;
        self.threads.look_at_locks(&self.model, &self.spaces);
        self.go_home();
        let digest = self.transit.digest;
        self.transit = outer;
        self.transit.note(&[u64::from(pid), digest]);
        self.transit.residents_launched = true;
        self.residency().plan_note(|seen| {
            seen.started.insert(peer);
        });
        Ok(())
    }

    /// After a move of the program: clients are launched that are due, and peers move that can and whose moves are no choices.
    pub(super) fn residents_go_on(&mut self) -> Result<(), Failure> {
        let Some(plan) = self.options.residents.clone() else {
            return Ok(());
        };
        loop {
            if !plan.explored {
                self.let_residents_move()?;
            }
            let Some(client) = self.residency().due_client(&plan) else {
                break;
            };
            let Some(resident) = plan.clients.get(client as usize) else {
                break;
            };
            let place = self.residency().place_for_clients();
            self.launch(Peer::Client(client), resident, place.as_ref())?;
        }
        if self.model.residents.words() > 0 {
            self.residency().plan_note(|seen| seen.spoke = true);
        }
        Ok(())
    }

    /// Peers move, one at a time, until all of them wait.
    fn let_residents_move(&mut self) -> Result<(), Failure> {
        let mut moves = 0;
        while let Some(tid) = self.next_resident() {
            moves += 1;
            if moves > RESTLESS || self.options.bounds.is_over() {
                return Err(self.restless(tid));
            }
            self.move_resident(tid)?;
        }
        Ok(())
    }

    fn restless(&mut self, tid: Tid) -> Failure {
        if self.options.bounds.is_over() {
            return self.broken_off(tid);
        }
        let name = self.explain().resident_name(tid).unwrap_or_default();
        Failure::new(
            ExitCode::Peer,
            format!("peer {name} never rests: it has not waited for anything in {RESTLESS} operations"),
        )
        .hint("a peer must answer or wait for input")
    }

    /// The peer's thread that moves next.
    fn next_resident(&self) -> Option<Tid> {
        if self.ends.ended.is_some() {
            return None;
        }
        let fair = self.movers().fair();
        let mut residents = fair.into_iter().filter(|&tid| self.model.peer_of(tid).is_some());
        residents.find(|&tid| !self.movers().idles(tid))
    }

    /// One move of a peer, within a step of the program.
    fn move_resident(&mut self, tid: Tid) -> Result<(), Failure> {
        let outer = std::mem::take(&mut self.transit);
        let events = std::mem::take(&mut self.seen.events);
        self.enter_process_of(tid);
        self.spaces.here.touched = true;
        self.transit = Transit {
            task: self.spaces.here.key,
            ..Transit::default()
        };
        let before = self.threads.at(tid).regs;
        let (operation, flow) = self.perform_next(tid)?;
        if let Flow::Run(regs) = flow {
            self.go(tid, regs)?;
        }
        self.after_move(tid, &operation, &before)?;
        self.model.clock.visible_operation();
        self.go_home();
        let digest = self.transit.digest;
        self.transit = outer;
        self.transit.note(&[u64::from(tid), digest]);
        self.transit.residents_moved = true;
        self.seen.events = events;
        Ok(())
    }

    /// The first process of a peer has ended.
    pub(super) fn resident_ended(&mut self, peer: Peer, ended: Ended) -> Result<(), Failure> {
        self.model.peer_ended(peer, ended);
        let (Peer::Client(client), Some(plan)) = (peer, self.options.residents.clone()) else {
            return Ok(());
        };
        let has_come = self.model.residents.has_come(client);
        plan.note(|seen| {
            seen.ended.entry(client).or_default().insert(status(ended));
            match has_come {
                true => seen.came.insert(client),
                false => seen.unheard.insert(client),
            };
        });
        let pids = self.model.pids();
        let is_left = |pid: u32| {
            let process = self.model.process_at(pid);
            pid != self.model.process.pid && process.is_some_and(|process| process.peer == Some(peer))
        };
        // Status 0 with processes left: it went into the background.
        let is_at_work = status(ended) == 0 && pids.into_iter().any(is_left);
        let is_wrong = !(has_come || plan.explored || is_at_work);
        match plan.resident(peer).filter(|_| is_wrong) {
            Some(resident) => {
                let how = format!("{} before it connected", in_words(ended));
                Err(self.residency().start_failure(peer, resident, &how))
            }
            None => Ok(()),
        }
    }
}

/// Peers that are processes of the execution, as far as they are known.
#[derive(Clone, Copy)]
pub struct Residency<'a> {
    pub(super) model: &'a Model,
    pub(super) network: &'a PeerNetwork,
    pub(super) options: &'a Options,
    pub(super) explain: Explain<'a>,
}

impl<'a> Residency<'a> {
    /// May somebody connect to the program?
    pub(super) fn has_clients(self) -> bool {
        let residents = self.options.residents.as_ref();
        self.network.has_clients() || residents.is_some_and(|plan| !plan.clients.is_empty())
    }

    /// There are clients to be launched beside the program, and none of them was.
    pub(super) fn keeps_waiting(self) -> bool {
        let residents = self.options.residents.as_ref();
        let known = &self.model.residents;
        residents.is_some_and(|plan| {
            let mut all = 0..plan.clients.len() as u32;
            !plan.clients.is_empty() && !all.any(|nth| known.is_started(Peer::Client(nth)))
        })
    }

    /// What each peer was told, by connection.
    pub fn sent(self) -> BTreeMap<String, Vec<Vec<u8>>> {
        let mut all = self.network.sent();
        for (key, said) in self.model.residents.sent() {
            let label = match key {
                Key::Opened(to, _) => to_address(to).to_string(),
                Key::Accepted(client, _) => self.explain.client_name(*client),
            };
            all.entry(label).or_default().push(said.bytes());
        }
        all
    }

    /// The exit statuses of the clients that have ended; negative for a signal.
    pub(super) fn resident_exits(self) -> Option<Vec<Option<i32>>> {
        let plan = self.options.residents.as_ref()?;
        let clients = 0..plan.clients.len() as u32;
        let exits = clients.map(|client| self.model.residents.exit(Peer::Client(client)).map(status));
        Some(exits.collect())
    }

    fn never_listened(self, peer: Peer, server: &Resident, ended: Option<Ended>) -> Failure {
        let how = match ended {
            Some(ended) => format!("{} before it listened", in_words(ended)),
            None => "it has not listened, and waits for something else".to_owned(),
        };
        self.start_failure(peer, server, &how)
    }

    fn start_failure(self, peer: Peer, resident: &Resident, how: &str) -> Failure {
        let text = escape(self.model.residents.last_words(peer));
        let lines: Vec<&str> = text.lines().collect();
        network::failure(PeerError::Start {
            name: resident.name.clone(),
            reason: how.to_owned(),
            last_output: lines[lines.len().saturating_sub(LINES)..].join("\n"),
        })
    }

    fn plan_note(self, note: impl FnOnce(&mut Seen)) {
        if let Some(plan) = &self.options.residents {
            plan.note(note);
        }
    }

    /// In a fixed schedule it does not matter where else threads could switch.
    fn code_of_residents(self) -> Code {
        let options = self.options;
        match self.options.peers_are_fixed() {
            true => Code::new(Preempt::Syscall, Arc::default(), options.plans.clone(), false),
            false => Code::new(
                options.preempt,
                Arc::clone(&options.watched),
                options.plans.clone(),
                false,
            ),
        }
    }

    /// The first client that is to be launched now.
    fn due_client(self, plan: &Residents) -> Option<u32> {
        if !self.model.looks_for_clients() || self.is_program_over() {
            return None;
        }
        let known = &self.model.residents;
        let has_ended = |nth: usize| known.exit(Peer::Client(nth as u32)).is_some();
        let may_come = |client: &Resident| {
            let mut others = plan.clients.iter().enumerate();
            others.all(|(nth, other)| client.after != Some(other.kind) || has_ended(nth))
        };
        let mut all = plan.clients.iter().enumerate();
        all.find(|(nth, client)| !known.is_started(Peer::Client(*nth as u32)) && may_come(client))
            .map(|(nth, _)| nth as u32)
    }

    /// Where clients find the program.
    fn place_for_clients(self) -> Option<Place> {
        let address = to_address(self.model.listens_at().first()?);
        Some(Place {
            port: address.port().map(|port| port.to_string()).unwrap_or_default(),
            address: address.for_clients(),
        })
    }

    /// Have all processes of the program ended, while peers live on?
    pub(super) fn is_program_over(self) -> bool {
        !self.model.residents.is_empty() && self.model.own_pids().is_empty()
    }

    /// Time passes up to here, unless only peers would notice and the program has waited long enough for one of them to say something.
    pub(super) fn worth_waiting_for(self, deadline: Option<Nanos>) -> Option<Nanos> {
        if self.model.residents.is_empty() || self.model.has_deadline() {
            return deadline;
        }
        deadline.filter(|&deadline| deadline <= self.model.residents.last_word() + PATIENCE)
    }
}

impl<'a> Explain<'a> {
    fn client_name(self, client: u32) -> String {
        let plan = self.options.residents.as_ref();
        let resident = plan.and_then(|plan| plan.resident(Peer::Client(client)));
        resident.map_or_else(|| format!("client#{client}"), |resident| resident.name.clone())
    }

    /// What reports call the peer that a thread is of.
    pub fn resident_name(self, tid: Tid) -> Option<String> {
        let peer = self.model.peer_of(tid)?;
        let plan = self.options.residents.as_ref()?;
        plan.resident(peer).map(|resident| resident.name.clone())
    }
}

fn in_words(ended: Ended) -> String {
    match ended {
        Ended::Exited(status) => format!("exit status {status}"),
        Ended::Killed(signal) => format!("killed by signal {signal}"),
    }
}

/// Where a client finds the program, as its command line has it.
struct Place {
    address: String,
    port: String,
}

impl Place {
    fn put_in(&self, arg: &[u8]) -> Vec<u8> {
        let replaced = replace(arg, b"{port}", self.port.as_bytes());
        replace(&replaced, b"{addr}", self.address.as_bytes())
    }
}

fn replace(text: &[u8], what: &[u8], by: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(what.len()).position(|window| window == what) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(by);
        rest = &rest[at + what.len()..];
    }
    out.extend_from_slice(rest);
    out
}
