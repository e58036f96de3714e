//! Bringing something real to a position of a tree: reuse what stands on the way, or start afresh and repeat the conversation, checking every answer.

use crate::address::Address;
use crate::answer::{Answer, StreamEnd};
use crate::channel::Link;
use crate::error::{PeerError, ended};
use crate::inspect::{Doing, Watch};
use crate::path::Step;
use crate::physical::Physical;
use crate::position::Segment;
use crate::process::Process;
use crate::spec::PeerSpec;
use crate::store::TreeKey;
use crate::tree::{At, Pos, Tree};
use crate::world::PeerWorld;
use std::io::ErrorKind;

impl PeerWorld {
    /// Something real that stands exactly at `at`.
    pub(crate) fn ensure_at(&mut self, tree: usize, at: At) -> Result<u64, PeerError> {
        let id = loop {
            let Some(id) = self.nearest(tree, at.pos) else {
                break self.create(tree)?;
            };
            if self.absorb_late(id)? {
                break id;
            }
        };
        self.counters.replayed_bytes += self.advance(id, at)?;
        Ok(id)
    }

    /// The physical instance that stands deepest on the path to `to`.
    pub(crate) fn nearest(&self, tree: usize, to: Pos) -> Option<u64> {
        let t = &self.trees[tree];
        let mut best: Option<(u64, Pos)> = None;
        for (&id, physical) in &self.pool.physicals {
            let pos = physical.at.pos;
            if physical.tree == tree && t.on_path(pos, to) && best.is_none_or(|(_, b)| t.on_path(b, pos)) {
                best = Some((id, pos));
            }
        }
        best.map(|(id, _)| id)
    }

    /// Tells the instance everything between where it stands and `to`, and checks that it answers as before wherever that is known. Returns how many bytes it was told.
    pub(crate) fn advance(&mut self, id: u64, to: At) -> Result<u64, PeerError> {
        let mut bytes = 0;
        let Some(physical) = self.pool.physicals.get_mut(&id) else {
            return Ok(0);
        };
        let (tree, from) = (physical.tree, physical.at);
        self.pool.clock += 1;
        physical.used = self.pool.clock;
        for step in self.trees[tree].steps(from, to.pos) {
            match step {
                Step::Write { channel, segment, to } => {
                    if let Segment::Bytes(data) | Segment::Datagram(data) = &segment {
                        bytes += data.len() as u64;
                    }
                    self.say(id, channel, &segment, to)?;
                }
                Step::Check(pos) => self.poll_at(id, pos)?,
            }
        }
        Ok(bytes)
    }

    /// Sends something on a physical instance, which then stands at `to`.
    fn say(&mut self, id: u64, channel: u16, segment: &Segment, to: At) -> Result<(), PeerError> {
        let Some(physical) = self.pool.physicals.get_mut(&id) else {
            return Ok(());
        };
        let what = format!("sending to {}", self.trees.key(physical.tree));
        if let Segment::From(name) = segment {
            let them = physical.links.get(usize::from(channel)).and_then(Link::addresses);
            let listener = self
                .ground
                .listeners
                .iter()
                .find(|listener| listener.name == *name);
            let link = match (listener, them) {
                (Some(listener), Some((_, them))) => listener.correspondent(them),
                _ => Err(ErrorKind::NotConnected.into()),
            };
            physical.add_link(link.map_err(PeerError::io(what.clone()))?, name.clone());
        }
        if let Segment::Open(address) = segment {
            let link = Link::connect(address, self.config.connect_bound);
            let link = link.map_err(|error| PeerError::connecting(address, error))?;
            self.counters.physical_connections += 1;
            physical.links.push(link);
        }
        if *segment == Segment::Reset {
            self.ground.put_something_unread(physical, channel);
        }
        physical.say(channel, segment, to).map_err(PeerError::io(what))
    }

    /// Waits for the answer at `pos`, where the instance stands, and puts it down or compares it with what is known.
    pub(crate) fn poll_at(&mut self, id: u64, pos: Pos) -> Result<(), PeerError> {
        // Out of the map while it is dealt with: if that fails, it is closed.
        let Some(mut physical) = self.pool.physicals.remove(&id) else {
            return Ok(());
        };
        let tree = physical.tree;
        let name = self.trees.key(tree).to_string();
        let links = physical.links.len();
        let mut said = self.hear(&mut physical, &name)?;
        never_came(&mut physical, &said)?;
        let has_ended = said.speeches().any(|(_, speech)| speech.end != StreamEnd::Open);
        if let Some(expected) = self.trees[tree].answer(pos).cloned() {
            // It had been late the first time, so it may be late again.
            let started = std::time::Instant::now();
            while !said.same_as(&expected)
                && expected.strip_prefix(&said).is_some()
                && started.elapsed() < self.config.sleep_bound
            {
                said.append(self.ground.wait_for_answer(
                    &mut physical,
                    &mut self.pool.physicals,
                    &self.config,
                    &name,
                )?);
            }
            if !said.same_as(&expected) {
                self.contradiction(tree, pos, expected, said)?;
            }
        } else {
            if let Err(contradiction) = self.trees[tree].record(pos, &said) {
                self.contradiction(tree, pos, contradiction.expected, contradiction.actual)?;
                // Keep the first answer, which was heard further down: here, then, nothing was said.
                let _ = self.trees[tree].record(pos, &Answer::default());
            }
            self.trees[tree].leave_unread(pos, &physical.unread);
            let is_running = self.ground.has_timer(&mut physical, &self.config);
            if let Some(timer) = self.trees[tree].timer(pos) {
                timer.is_running = is_running;
            }
        }
        self.counters.physical_connections += (physical.links.len() - links) as u64;
        let server = physical.server;
        self.pool.physicals.insert(id, physical);
        match server {
            None => Ok(()),
            // The first that is seen of a server's death.
            Some(server) if has_ended => self.ensure_alive(server),
            Some(server) => self.check_alive(server),
        }
    }

    /// Waits for an answer. A server that takes no notice of the connection at all may serve one at a time, and then it is the others that keep
    /// it, of which the SUT may have closed all: they are closed here, to be opened again when they are needed.
    fn hear(&mut self, physical: &mut Physical, name: &str) -> Result<Answer, PeerError> {
        let said = self
            .ground
            .wait_for_answer(physical, &mut self.pool.physicals, &self.config, name)?;
        if !said.is_empty() {
            self.has_answered(physical.tree);
        } else if physical.ignored && self.has_others(physical.tree) {
            self.has_ignored(physical.tree);
            self.make_way(physical.tree);
            return self
                .ground
                .wait_for_answer(physical, &mut self.pool.physicals, &self.config, name);
        }
        Ok(said)
    }

    /// Are there other connections to the place that this tree's connection goes to?
    fn has_others(&self, tree: usize) -> bool {
        let mut others = self.pool.physicals.values();
        others.any(|other| self.trees.lead_to_the_same(tree, other.tree))
    }

    /// Closes all other connections to the place that this tree's connection goes to.
    fn make_way(&mut self, tree: usize) {
        let trees = &self.trees;
        let physicals = &mut self.pool.physicals;
        physicals.retain(|_, other| !trees.lead_to_the_same(tree, other.tree));
    }

    fn contradiction(
        &mut self,
        tree: usize,
        pos: Pos,
        expected: Answer,
        actual: Answer,
    ) -> Result<(), PeerError> {
        if self.config.allow_nondeterministic {
            self.partial = true;
            return Ok(());
        }
        Err(PeerError::NonDeterministic {
            connection: self.trees.key(tree).to_string(),
            after: self.trees.told(tree, pos),
            expected: Box::new(expected),
            actual: Box::new(actual),
        })
    }

    /// Takes in what an instance said after its answer was thought complete; false if the instance is of no use any more and was closed.
    ///
    /// An end of stream alone, from a peer that was seen waiting for input, is no answer but a connection that was idle for too long: real servers do that. It is closed here too, and opened again when it is needed.
    pub(crate) fn absorb_late(&mut self, id: u64) -> Result<bool, PeerError> {
        let Some(mut physical) = self.pool.physicals.remove(&id) else {
            return Ok(false);
        };
        let was_settled = self.trees[physical.tree].answer(physical.at.pos).is_some();
        if !self
            .ground
            .pump(&mut physical, &mut self.pool.physicals, self.config.flood_limit)
            || !was_settled
        {
            self.pool.physicals.insert(id, physical);
            return Ok(true);
        }
        let said = std::mem::take(&mut physical.heard);
        let inspected = physical.server.is_some()
            || self
                .ground
                .strangers
                .get(&physical.tree)
                .is_some_and(Option::is_some);
        let only_ended = said
            .speeches()
            .all(|(_, s)| s.units() == 0 && s.opened.is_none() && s.end != StreamEnd::Open);
        if inspected && only_ended {
            if let Some(server) = physical.server {
                self.ensure_alive(server)?;
            }
            tracing::info!(
                "{} was idle for too long and is closed; it will be opened again when needed",
                self.trees.key(physical.tree)
            );
            return Ok(false);
        }
        self.put_down_late(physical.tree, physical.at.pos, &said)?;
        self.pool.physicals.insert(id, physical);
        Ok(true)
    }

    /// Adds what was said at `pos` after the answer was thought complete.
    pub(crate) fn put_down_late(&mut self, tree: usize, pos: Pos, said: &Answer) -> Result<(), PeerError> {
        self.counters.late_answers += 1;
        match self.trees[tree].record(pos, said) {
            Ok(()) => Ok(()),
            Err(contradiction) => self.contradiction(tree, pos, contradiction.expected, contradiction.actual),
        }
    }

    /// Connects, or launches a client, and checks what it says unasked.
    pub(crate) fn create(&mut self, tree: usize) -> Result<u64, PeerError> {
        if self.config.offline {
            let connection = self.trees.key(tree).to_string();
            return Err(PeerError::OfflineMiss {
                connection,
                after: String::new(),
                wanted: "a connection that is not in it".into(),
            });
        }
        while self.pool.physicals.len() >= self.config.max_physical.max(1) {
            self.close_least_useful();
        }
        let physical = match self.trees.key(tree).clone() {
            TreeKey::Client(index) => self.launch_client(tree, index)?,
            TreeKey::Process(index) => self.begin_process(tree, index as usize)?,
            TreeKey::Server(address, _) => match self.connect(tree, &address) {
                Err(PeerError::NoWay { .. }) if self.trees[tree].answer(Tree::root().pos).is_some() => {
                    return Err(self.refuses(tree, &address));
                }
                result => result?,
            },
        };
        self.pool.next_id += 1;
        let id = self.pool.next_id;
        self.counters.physical_connections += physical.links.len() as u64;
        self.pool.physicals.insert(id, physical);
        let root = Tree::root().pos;
        if self.trees[tree].answer(root).is_some() {
            self.poll_at(id, root)?;
        }
        Ok(id)
    }

    /// Nobody is there any more, where somebody had been.
    fn refuses(&self, tree: usize, address: &Address) -> PeerError {
        let server = self.servers.served_by.get(&tree).copied().flatten();
        let process = server.map(|server| &self.ground.servers[server].process);
        PeerError::Refuses {
            name: process.map_or_else(|| address.to_string(), |process| process.name.clone()),
            connection: self.trees.key(tree).to_string(),
            last_output: process.map(Process::last_output).unwrap_or_default(),
        }
    }

    /// What stands at the end of a conversation can take it further; what stands in the middle only helps if the SUT turns off just there.
    fn close_least_useful(&mut self) {
        let usefulness = |p: &Physical| (self.trees[p.tree].is_leaf(p.at.pos), p.used);
        if let Some(id) = self
            .pool
            .physicals
            .iter()
            .min_by_key(|(_, p)| usefulness(p))
            .map(|(&id, _)| id)
        {
            self.pool.physicals.remove(&id);
        }
    }

    fn launch_client(&mut self, tree: usize, index: u32) -> Result<Physical, PeerError> {
        let Some(spec) = self.clients.specs.get(index as usize).cloned() else {
            let connection = self.trees.key(tree).to_string();
            return Err(PeerError::OfflineMiss {
                connection,
                after: String::new(),
                wanted: "a client that was not given".into(),
            });
        };
        let mut env = Vec::new();
        let mut argv = spec.argv.clone();
        if let Some(first) = self.ground.listeners.first() {
            let port = first.address.port().map(|p| p.to_string()).unwrap_or_default();
            let addr = first.address.for_clients();
            argv.iter_mut()
                .for_each(|arg| *arg = arg.replace("{port}", &port).replace("{addr}", &addr));
            env = vec![
                ("TRACEFORK_PORT".to_string(), port),
                ("TRACEFORK_ADDR".to_string(), addr),
            ];
        }
        let process = self.spawn(&PeerSpec { argv, ..spec }, &format!("client{index}"), &env)?;
        let watch = Watch::below_host(process.host_pid(), self.config.sleep_bound);
        Ok(Physical::new(tree, Vec::new(), Some((process, watch)), None))
    }

    fn connect(&mut self, tree: usize, address: &Address) -> Result<Physical, PeerError> {
        self.may_connect(tree, address)?;
        if self.is_limited(address) {
            // To find out again that it takes no notice of this connection would take a while each time.
            self.make_way(tree);
        }
        let mut server = self.server_of(tree, address);
        let failed = |source| PeerError::connecting(address, source);
        let link = match Link::connect(address, self.config.connect_bound) {
            Err(error) if is_refusal(&error) => {
                // A server that serves one connection and is then done is started again; one that failed is reported.
                if !self.restart_ended_servers()? {
                    return Err(failed(error));
                }
                server = self.server_of(tree, address);
                Link::connect(address, self.config.connect_bound).map_err(failed)?
            }
            result => result.map_err(failed)?,
        };
        Ok(Physical::new(tree, vec![link], None, server))
    }
}

/// A client that has ended without ever having connected is none: its command is wrong, or it could not find the SUT.
fn never_came(physical: &mut Physical, said: &Answer) -> Result<(), PeerError> {
    let (Some((process, watch)), Some(status), true) =
        (&mut physical.client, said.exit, physical.links.is_empty())
    else {
        return Ok(());
    };
    // Status 0 with processes left: it went into the background.
    if status == 0 && watch.inspect().0 != Doing::Gone {
        return Ok(());
    }
    Err(PeerError::Start {
        name: process.name.clone(),
        reason: format!("{} before it connected", ended(status)),
        last_output: process.last_output(),
    })
}

/// Nobody listens there.
fn is_refusal(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound)
}
