//! Servers that serve one connection at a time, or a few: the next one waits until an earlier one has ended.
//!
//! That is found out by looking. Real connections stay open for other schedules when the SUT has closed its own, so a server that attends to several at
//! once is usually seen to do so; and one that takes no notice of a connection is seen to wait for the others. Where neither was seen yet and it matters (the
//! SUT holds several connections, and what would be said on a later one is known from elsewhere) it is tried out.

use crate::address::Address;
use crate::answer::StreamEnd;
use crate::channel::{Flight, Link};
use crate::error::PeerError;
use crate::physical::Physical;
use crate::state::{Conn, ConnKey, Instance, PeerState};
use crate::store::TreeKey;
use crate::tree::{At, Readable};
use crate::world::PeerWorld;
use serde::{Deserialize, Serialize};

/// How many connections a server serves at a time, as far as was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// So many were open when it said something on one of them.
    at_least: u32,
    /// So many others were served when it took no notice of one.
    at_most: Option<u32>,
}

impl Capacity {
    /// How many it serves at a time, if that is not all that come.
    #[must_use]
    pub fn limit(&self) -> Option<u32> {
        self.at_most
    }

    /// Is one served that comes after so many?
    fn serves_after(&self, others: u32) -> Option<bool> {
        match self.at_most {
            _ if others < self.at_least => Some(true),
            Some(most) => Some(others < most),
            None => None,
        }
    }
}

impl PeerWorld {
    /// What can be read on a connection if the server serves it: nothing, if it is not this one's turn.
    pub(crate) fn if_served(
        &mut self,
        state: &PeerState,
        key: &ConnKey,
        readable: Readable,
    ) -> Result<Readable, PeerError> {
        let ConnKey::Opened(address, nth @ 1..) = key else {
            return Ok(readable);
        };
        // What a process makes of all its connections is in its tree.
        if matches!(self.conn(state, key)?.instance, Instance::Process(_)) {
            return Ok(readable);
        }
        if matches!(**address, Address::Udp(_)) || matches!(readable, Readable::Nothing | Readable::Unknown) {
            return Ok(readable);
        }
        let known = self
            .servers
            .capacities
            .get(address.as_ref())
            .copied()
            .unwrap_or_default();
        if known.serves_after(*nth) == Some(true) {
            return Ok(readable);
        }
        let earlier = self.unfinished_before(state, key)?;
        let others = earlier.len() as u32;
        let served = match known.serves_after(others) {
            Some(served) => served,
            None if others == 0 || self.config.offline => true,
            None => {
                self.try_out(state, key, &earlier)?;
                let known = self
                    .servers
                    .capacities
                    .get(address.as_ref())
                    .copied()
                    .unwrap_or_default();
                known.serves_after(others).unwrap_or(true)
            }
        };
        Ok(if served { readable } else { Readable::Held })
    }

    /// The connections to the same place that the SUT has opened before this one, and that neither it nor the server has ended.
    fn unfinished_before(&mut self, state: &PeerState, key: &ConnKey) -> Result<Vec<(usize, At)>, PeerError> {
        let ConnKey::Opened(address, _) = key else {
            return Ok(Vec::new());
        };
        let first = ConnKey::Opened(address.clone(), 0);
        let open = state.0.conns.range(&first..key).filter(|(_, conn)| !conn.closed);
        let open: Vec<&Conn> = open.map(|(_, conn)| conn).collect();
        let mut unfinished = Vec::new();
        for conn in open {
            let (tree, at) = (conn.tree.0, state.place(&conn.instance));
            // What the server made of the end of the SUT's side was not asked yet, perhaps.
            if conn.fin {
                self.resolve(tree, at)?;
            }
            if self.trees[tree].end(conn.channel, at.pos) == StreamEnd::Open {
                unfinished.push((tree, at));
            }
        }
        Ok(unfinished)
    }

    /// Finds out whether this connection is served while those are open. That is no part of the exploration, and not counted.
    fn try_out(
        &mut self,
        state: &PeerState,
        key: &ConnKey,
        earlier: &[(usize, At)],
    ) -> Result<(), PeerError> {
        let ConnKey::Opened(address, _) = key else {
            return Ok(());
        };
        let conn = self.conn(state, key)?;
        let here = (conn.tree.0, state.place(&conn.instance));
        let (counted, last, most) = (self.counters, self.pool.next_id, self.config.max_physical);
        // All of them are needed at the same time; and whether one is answered counts, not with what: a server may well put the time of day into its answers.
        let (strict, partial) = (self.config.allow_nondeterministic, self.partial);
        (self.config.max_physical, self.config.allow_nondeterministic) = (usize::MAX, true);
        let tried = self.hold_and_connect(earlier, here);
        (self.config.max_physical, self.config.allow_nondeterministic) = (most, strict);
        self.partial = partial;
        self.pool.physicals.retain(|id, _| *id <= last);
        self.counters = counted;
        tried?;
        let known = self.servers.capacities.entry((**address).clone()).or_default();
        // One that cannot be looked into is taken to serve all.
        if known.at_most.is_none() {
            known.at_least = known.at_least.max(earlier.len() as u32 + 1);
        }
        Ok(())
    }

    fn hold_and_connect(&mut self, earlier: &[(usize, At)], here: (usize, At)) -> Result<(), PeerError> {
        for &(tree, at) in earlier {
            let is_there = |other: &Physical| other.tree == tree && other.links.iter().any(Link::is_open);
            if !self.pool.physicals.values().any(is_there) {
                self.ensure_at(tree, at)?;
            }
        }
        let id = self.create(here.0)?;
        self.advance(id, here.1)?;
        Ok(())
    }

    /// The other real connections to the place that this tree's goes to, which the server attends to.
    fn attended_beside(&mut self, tree: usize) -> u32 {
        let TreeKey::Server(address, _) = self.trees.key(tree) else {
            return 0;
        };
        let Some(diag) = &mut self.ground.diag else {
            return 0;
        };
        let same = |other: usize| matches!(self.trees.key(other), TreeKey::Server(to, _) if to == address);
        let others = self.pool.physicals.values().filter(|other| same(other.tree));
        let attended = others.filter(|other| {
            let mut links = other.links.iter().filter(|link| link.is_open());
            links.any(|link| link.flight(diag) == Flight::Clear)
        });
        attended.count() as u32
    }

    /// The server has said something on this tree's connection.
    pub(crate) fn has_answered(&mut self, tree: usize) {
        let TreeKey::Server(address, _) = self.trees.key(tree) else {
            return;
        };
        let address = address.clone();
        let known = self.servers.capacities.get(&address).copied().unwrap_or_default();
        // As many as it can be at most: to look at each costs more.
        if known.at_least as usize > self.pool.physicals.len() || matches!(address, Address::Udp(_)) {
            return;
        }
        let served = self.attended_beside(tree) + 1;
        if served <= known.at_least {
            return;
        }
        if known.at_most.is_some_and(|most| served > most) {
            // What was explored with fewer is not all there is.
            self.partial = true;
        }
        let at_most = known.at_most.map(|most| most.max(served));
        let at_least = served;
        self.servers
            .capacities
            .insert(address, Capacity { at_least, at_most });
    }

    /// The server takes no notice of this tree's connection: as many as it has now is what it serves at a time.
    pub(crate) fn has_ignored(&mut self, tree: usize) {
        let most = self.attended_beside(tree).max(1);
        if let TreeKey::Server(address, _) = self.trees.key(tree) {
            let known = self.servers.capacities.entry(address.clone()).or_default();
            let most = known.at_most.map_or(most, |before| before.max(most));
            (known.at_most, known.at_least) = (Some(most), known.at_least.min(most));
        }
    }

    /// Does the server at this address serve only so many at a time?
    pub(crate) fn is_limited(&self, address: &Address) -> bool {
        self.servers
            .capacities
            .get(address)
            .is_some_and(|known| known.at_most.is_some())
    }
}
