//! Servers whose answers depend on all that their process was told, on any connection: one tree for each process (`Config::by_process`).
//!
//! The tree holds what was said on all connections in the order in which it was said, and that a connection was opened is one of these things. A process listens at fixed
//! addresses, so there is one real one at a time: to be somewhere else than further down the same path is to start it anew and to say everything again.

use crate::address::Address;
use crate::answer::Channel;
use crate::config::CacheMode;
use crate::error::PeerError;
use crate::physical::Physical;
use crate::process::socket_inodes;
use crate::state::{Conn, ConnKey, Instance, PeerState, TreeIndex};
use crate::store::TreeKey;
use crate::tree::{Walk, Write};
use crate::world::PeerWorld;
use std::sync::Arc;

impl PeerWorld {
    /// The server process that is at this address, if what it says is kept in one tree.
    pub(crate) fn process_at(&mut self, address: &Address) -> Option<u32> {
        let known = self.trees().find_map(|(key, tree)| match key {
            TreeKey::Process(server) if tree.is_opened(address) => Some(*server),
            _ => None,
        });
        if known.is_some() || !self.config.by_process || self.config.offline {
            return known;
        }
        let bound = self.listening_at(address);
        let mut servers = self.ground.servers.iter();
        let server = servers.position(|server| !socket_inodes(&server.watch.pids()).is_disjoint(&bound));
        server.map(|server| server as u32)
    }

    /// The SUT connects to a server process: this is something that the process is told.
    pub(crate) fn open_process(
        &mut self,
        state: &mut PeerState,
        server: u32,
        address: &Address,
    ) -> Result<ConnKey, PeerError> {
        let instance = Instance::Process(server);
        let tree = self.trees.tree_of(TreeKey::Process(server)).0;
        let others = state.0.conns.values().filter(|conn| conn.instance == instance);
        let channel = others.count() as Channel;
        let (from, write) = (state.place(&instance), Write::Open(address));
        let to = match self.trees[tree].write(from, channel, write) {
            Walk::Hit(to) if self.config.mode != CacheMode::Off => to,
            walk => {
                self.may_diverge(tree, walk, b"<connects>")?;
                if self.config.offline {
                    return Err(self.offline_miss(tree, from, format!("a connection to {address}")));
                }
                self.counters.logical_connections += u64::from(matches!(walk, Walk::Miss { .. }));
                let id = self.ensure_at(tree, from)?;
                let to = self.trees[tree].insert(from, channel, write);
                self.advance(id, to)?;
                if self.trees[tree].answer(to.pos).is_none() {
                    self.poll_at(id, to.pos)?;
                }
                to
            }
        };
        let address = Arc::new(address.clone());
        let datagrams = matches!(*address, Address::Udp(_));
        let inner = state.edit();
        let count = inner.opened.entry(address.clone()).or_insert(0);
        let key = ConnKey::Opened(address, *count);
        *count += 1;
        inner.places.insert(instance.clone(), to);
        inner.conns.insert(
            key.clone(),
            Conn {
                instance,
                tree: TreeIndex(tree),
                channel,
                datagrams,
                r: 0,
                fin: false,
                closed: false,
            },
        );
        Ok(key)
    }

    /// A server process that was told nothing yet: the one that there is, or a new one in its place.
    pub(crate) fn begin_process(&mut self, tree: usize, server: usize) -> Result<Physical, PeerError> {
        // Our ends first: whoever ends a connection keeps its address for a while, and the next process needs the server's.
        self.pool.physicals.retain(|_, physical| physical.tree != tree);
        if !self.servers.begun.insert(server) {
            let spec = self.config.servers[server].clone();
            drop(self.ground.servers.remove(server));
            let again = self.start_server(&spec)?;
            self.ground.servers.insert(server, again);
        }
        Ok(Physical::new(tree, Vec::new(), None, Some(server)))
    }
}
