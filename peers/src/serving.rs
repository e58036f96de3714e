//! The SUT as a server: its listening addresses, and the clients that come to them.

use crate::address::Address;
use crate::answer::Channel;
use crate::error::PeerError;
use crate::listener::Listener;
use crate::position::Write;
use crate::state::{Conn, ConnKey, Instance, PeerState, TreeIndex};
use crate::tree::Tree;
use crate::world::PeerWorld;

impl PeerWorld {
    /// The SUT binds an address: returns the one it gets (port 0 becomes a real port, the same one every time).
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(&mut self, state: &mut PeerState, address: &Address) -> Result<Address, PeerError> {
        self.bind_as(state, address, false)
    }

    /// The same; the IPv6 wildcard is for IPv6 only, if it is said so: IPv4 clients then come to another socket, or to none.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind_as(
        &mut self,
        state: &mut PeerState,
        address: &Address,
        v6_only: bool,
    ) -> Result<Address, PeerError> {
        let (mut name, mut k) = (address.to_string(), 0);
        if address.port() == Some(0) {
            let count = state.edit().chosen.entry(address.clone()).or_insert(0);
            k = *count;
            *count += 1;
            name = format!("{name}#{k}");
            if let Some(chosen) = self.chosen_ports.get(&(address.clone(), k))
                && (self.config.offline || self.ground.listeners.iter().any(|l| &l.address == chosen))
            {
                return Ok(chosen.clone());
            }
        }
        if self.config.offline || self.ground.listeners.iter().any(|l| &l.address == address) {
            return Ok(address.clone());
        }
        let listener = Listener::bind(address, v6_only, name, &self.config.launcher)
            .map_err(PeerError::io(format!("listening at {address} for the SUT")))?;
        let got = listener.address.clone();
        if got != *address {
            self.chosen_ports.insert((address.clone(), k), got.clone());
        }
        self.ground.listeners.push(listener);
        Ok(got)
    }

    /// Is it the SUT's own listening socket, kept open here, that answers at this address?
    #[must_use]
    pub fn is_own(&self, address: &Address) -> bool {
        self.ground
            .listeners
            .iter()
            .any(|listener| match (&listener.address, address) {
                (Address::Tcp(own), Address::Tcp(asked)) | (Address::Udp(own), Address::Udp(asked)) => {
                    own.port() == asked.port() && (own.ip() == asked.ip() || own.ip().is_unspecified())
                }
                (own, asked) => own == asked,
            })
    }

    fn listener_name(&self, address: &Address) -> String {
        let chosen = self
            .chosen_ports
            .iter()
            .find(|(_, got)| *got == address)
            .map(|((asked, k), _)| format!("{asked}#{k}"));
        chosen.unwrap_or_else(|| address.to_string())
    }

    /// The SUT listens (or receives datagrams) at an address that it has bound: from now on there are clients.
    pub fn listen(&mut self, state: &mut PeerState, address: &Address) {
        let name = self.listener_name(address);
        state.edit().listening.insert(name);
    }

    /// The connection that the SUT would accept next: first connections before second ones, in the order of the clients.
    /// This depends on the state alone and not on who was faster. Clients are launched here, one after the other, each when the one before has come to rest.
    fn next_pending(
        &mut self,
        state: &PeerState,
        address: &Address,
    ) -> Result<Option<(Channel, u32)>, PeerError> {
        let name = self.listener_name(address);
        if !state.0.listening.contains(&name) {
            return Ok(None);
        }
        let mut pending = None;
        for client in 0..self.client_count() {
            let (tree, at) = self.locate(state, &Instance::Client(client));
            self.resolve(tree, at)?;
            let opened = self.trees[tree].opened(at.pos);
            let fresh = opened
                .into_iter()
                .filter(|(channel, at)| *at == name && !state.0.taken.contains(&(client, *channel)));
            pending = pending
                .into_iter()
                .chain(fresh.map(|(channel, _)| (channel, client)))
                .min();
        }
        Ok(pending)
    }

    /// A client waits to be accepted at this address.
    ///
    /// # Errors
    /// A peer failed.
    pub fn acceptable(&mut self, state: &PeerState, address: &Address) -> Result<bool, PeerError> {
        Ok(self.next_pending(state, address)?.is_some())
    }

    /// The SUT accepts the next connection, if there is one.
    ///
    /// # Errors
    /// A peer failed.
    pub fn accept(&mut self, state: &mut PeerState, address: &Address) -> Result<Option<ConnKey>, PeerError> {
        let Some((channel, client)) = self.next_pending(state, address)? else {
            return Ok(None);
        };
        let datagrams = matches!(address, Address::Udp(_));
        Ok(Some(self.take_channel(state, client, channel, datagrams)))
    }

    /// The SUT writes to a client that it knows by the connection `with`, from another of its datagram sockets, which is at `address`. The client sees who writes, and
    /// answers there: a connection of its own.
    ///
    /// # Errors
    /// A peer failed, the cache cannot serve, or the address cannot be had.
    pub fn go_on_from(
        &mut self,
        state: &mut PeerState,
        with: &ConnKey,
        address: &Address,
    ) -> Result<Option<ConnKey>, PeerError> {
        let Some(client) = state.client_of(with) else {
            return Ok(None);
        };
        // A socket that was not bound has a name only, so far.
        self.bind(state, address)?;
        let name = self.listener_name(address);
        self.tell(state, with, Write::From(&name), name.as_bytes())?;
        let (tree, at) = self.locate(state, &Instance::Client(client));
        let opened = self.trees[tree].opened(at.pos);
        let fresh = opened
            .into_iter()
            .rfind(|(channel, at)| *at == name && !state.0.taken.contains(&(client, *channel)));
        Ok(fresh.map(|(channel, _)| self.take_channel(state, client, channel, true)))
    }

    /// A channel of a client becomes a connection of the SUT.
    fn take_channel(
        &mut self,
        state: &mut PeerState,
        client: u32,
        channel: Channel,
        datagrams: bool,
    ) -> ConnKey {
        if self.seen_channels.insert((client, channel)) {
            self.counters.logical_connections += 1;
        }
        let instance = Instance::Client(client);
        let tree = TreeIndex(self.tree_of(self.tree_key(&instance)).0);
        let inner = state.edit();
        let key = ConnKey::Accepted(inner.accepted);
        inner.accepted += 1;
        inner.taken.insert((client, channel));
        inner.places.entry(instance.clone()).or_insert_with(Tree::root);
        inner.conns.insert(
            key.clone(),
            Conn {
                instance,
                tree,
                channel,
                datagrams,
                r: 0,
                fin: false,
                closed: false,
            },
        );
        key
    }

    /// The exit status of a client, if in this state it has ended (negative: by a signal).
    ///
    /// # Errors
    /// A peer failed.
    pub fn client_exit(&mut self, state: &PeerState, client: u32) -> Result<Option<i32>, PeerError> {
        if state.0.listening.is_empty() {
            return Ok(None);
        }
        let (tree, at) = self.locate(state, &Instance::Client(client));
        self.resolve(tree, at)?;
        Ok(self.trees[tree].exit(at.pos))
    }
}
