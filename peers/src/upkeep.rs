//! What the explorer asks of the world between the SUT's steps: a second look before a deadlock is called one, going back, tidying up, the account of what was said.

use crate::channel::Link;
use crate::config::CacheMode;
use crate::error::PeerError;
use crate::state::{ConnKey, Instance, Kept, PeerState};
use crate::tree::Tree;
use crate::world::{MANY_STATES, PeerWorld};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

impl PeerWorld {
    /// Asks all peers of this state once more, before it is called a deadlock or the program's clock goes on, and gives those that cannot be inspected `bound` to say
    /// something, and those whose timers run `limit` of their own time; true if one did.
    ///
    /// # Errors
    /// A peer failed.
    pub fn poll_again(
        &mut self,
        state: &PeerState,
        bound: Duration,
        limit: Duration,
    ) -> Result<bool, PeerError> {
        let before = self.counters.late_answers;
        let instances: Vec<Instance> = state.0.places.keys().cloned().collect();
        let mut here = Vec::new();
        for instance in &instances {
            let (tree, at) = self.locate(state, instance);
            if self.config.offline || self.trees[tree].exit(at.pos).is_some() || state.has_left(instance) {
                continue;
            }
            self.resolve(tree, at)?;
            let opaque = self.ground.strangers.get(&tree).is_some_and(Option::is_none);
            if opaque {
                self.ensure_at(tree, at)?;
            }
            here.extend(
                self.pool
                    .physicals
                    .iter()
                    .filter(|(_, p)| p.tree == tree && p.at == at)
                    .map(|(&id, _)| (id, opaque)),
            );
        }
        // Going there may have brought it already.
        let patient = here.iter().any(|&(_, opaque)| opaque) && self.counters.late_answers == before;
        let wait = if patient { bound } else { Duration::ZERO };
        self.wait_for_any(here.iter().map(|&(id, _)| id), wait);
        for (id, _) in here {
            if self.absorb_late(id)? {
                self.look_for_late_reading(id);
            }
        }
        Ok(self.counters.late_answers > before || self.wait_for_timers(state, limit)?)
    }

    fn wait_for_any(&self, ids: impl Iterator<Item = u64>, bound: Duration) {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let links = ids
            .filter_map(|id| self.pool.physicals.get(&id))
            .flat_map(|p| &p.links)
            .filter_map(Link::fd);
        let mut fds: Vec<PollFd<'_>> = links.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // Signals come all the time (the timer of the supervising thread), and a wait that they cut short would be none.
        let end = Instant::now() + bound;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
                Err(nix::errno::Errno::EINTR) => {}
                _ => return,
            }
        }
    }

    /// The SUT went back to `state`. Only without a cache does that concern the peers: all are started again and told everything again.
    ///
    /// # Errors
    /// A peer failed.
    pub fn backtracked(&mut self, state: &PeerState) -> Result<(), PeerError> {
        if self.config.mode != CacheMode::Off {
            return Ok(());
        }
        self.pool.physicals.clear();
        let instances: Vec<Instance> = state.0.places.keys().cloned().collect();
        for instance in &instances {
            let (tree, at) = self.locate(state, instance);
            self.ensure_at(tree, at)?;
        }
        Ok(())
    }

    /// From this state there is more to explore, as long as somebody keeps it.
    pub fn will_go_on_from(&mut self, state: &PeerState) {
        if self.config.mode == CacheMode::Off {
            return;
        }
        if self.unexplored.states.len() >= self.unexplored.many {
            self.unexplored.states.retain(|kept| kept.state().is_some());
            self.unexplored.many = (2 * self.unexplored.states.len()).max(MANY_STATES);
        }
        self.unexplored.states.push(state.kept());
    }

    /// Closes what no state can need from which there is more to explore, if there is anything new since that was last done.
    pub fn tidy(&mut self) {
        if self.pool.next_id == self.unexplored.tidied_at {
            return;
        }
        self.unexplored.tidied_at = self.pool.next_id;
        self.unexplored.states.retain(|kept| kept.state().is_some());
        let states: Vec<PeerState> = self.unexplored.states.iter().filter_map(Kept::state).collect();
        self.retain(&states);
    }

    /// The SUT has closed a connection, and it will never be put back: what is really connected is of no more use. A server then sees the end, or that it was
    /// broken off, as it would natively.
    ///
    /// # Errors
    /// A peer failed.
    pub fn leave(&mut self, state: &PeerState, key: &ConnKey) -> Result<(), PeerError> {
        let conn = state.0.conns.get(key);
        let Some(conn) = conn.filter(|conn| conn.closed && matches!(conn.instance, Instance::Server(..)))
        else {
            return Ok(());
        };
        if !self.config.share_trees {
            let (tree, at) = (conn.tree.0, state.place(&conn.instance));
            if let Some(id) = self.nearest(tree, at.pos) {
                self.advance(id, at)?;
            }
            self.pool.physicals.retain(|_, physical| physical.tree != tree);
        }
        Ok(())
    }

    /// Closes what none of these states (all that are still to be explored) can need.
    pub fn retain(&mut self, states: &[PeerState]) {
        let mut physicals = std::mem::take(&mut self.pool.physicals);
        physicals.retain(|_, physical| {
            let tree = &self.trees[physical.tree];
            states.iter().any(|state| {
                let mut places = state
                    .0
                    .places
                    .iter()
                    .filter(|(i, _)| self.trees.find(&self.tree_key(i)) == Some(physical.tree))
                    .peekable();
                // A state that has no such connection yet may come to have it.
                let (here, shared) = (physical.at.pos, self.config.share_trees);
                places.peek().is_none()
                    || shared
                    || places.any(|(_, at)| tree.on_path(here, at.pos) || tree.on_path(at.pos, here))
            })
        });
        self.pool.physicals = physicals;
    }

    /// What each peer was told on the way to this state, by destination: one entry per connection.
    #[must_use]
    pub fn sent(&self, state: &PeerState) -> BTreeMap<String, Vec<Vec<u8>>> {
        let mut all: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for (key, conn) in state.0.conns.iter() {
            let label = match key {
                ConnKey::Opened(address, _) => address.to_string(),
                ConnKey::Accepted(client, _) => self.client_name(*client),
            };
            let at = state
                .0
                .places
                .get(&conn.instance)
                .copied()
                .unwrap_or_else(Tree::root);
            let tree = self
                .trees
                .find(&self.tree_key(&conn.instance))
                .map(|tree| &self.trees[tree]);
            all.entry(label)
                .or_default()
                .extend(tree.map(|tree| tree.written(conn.channel, at.pos).0));
        }
        all
    }
}
