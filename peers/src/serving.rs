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

    /// The connections that the SUT could accept: of each client its first that was not, first connections before second ones, in the order of the clients.
    /// This depends on the state alone and not on who was faster. Clients are launched here, one after the other, each when the one before has come to rest.
    fn pending(&mut self, state: &PeerState, address: &Address) -> Result<Vec<(Channel, u32)>, PeerError> {
        let name = self.listener_name(address);
        if !state.0.listening.contains(&name) {
            return Ok(Vec::new());
        }
        let mut pending = Vec::new();
        for client in 0..self.client_count() {
            if !self.may_come(state, client)? {
                continue;
            }
            let (tree, at) = self.locate(state, &Instance::Client(client));
            self.resolve(tree, at)?;
            let opened = self.trees[tree].opened(at.pos);
            let mut fresh = opened
                .into_iter()
                .filter(|(channel, at)| *at == name && !state.0.taken.contains(&(client, *channel)));
            pending.extend(fresh.next().map(|(channel, _)| (channel, client)));
        }
        pending.sort_unstable();
        Ok(pending)
    }

    /// Has the client that this one is to come after ended?
    fn may_come(&mut self, state: &PeerState, client: u32) -> Result<bool, PeerError> {
        let member = self.clients.roster.get(client as usize);
        let Some(kind) = member.and_then(|member| member.after) else {
            return Ok(true);
        };
        let members = self.clients.roster.iter().enumerate();
        let before: Vec<u32> = members
            .filter(|(_, member)| member.kind == kind)
            .map(|(earlier, _)| earlier as u32)
            .collect();
        for earlier in before {
            if !self.may_come(state, earlier)? || self.client_exit(state, earlier)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A client waits to be accepted at this address.
    ///
    /// # Errors
    /// A peer failed.
    pub fn acceptable(&mut self, state: &PeerState, address: &Address) -> Result<bool, PeerError> {
        Ok(!self.pending(state, address)?.is_empty())
    }

    /// The clients that wait to be accepted at this address, and of each whether it is the twin of one before it: the same command, and nothing
    /// was accepted of either.
    ///
    /// # Errors
    /// A peer failed.
    pub fn callers(&mut self, state: &PeerState, address: &Address) -> Result<Vec<(u32, bool)>, PeerError> {
        let pending = self.pending(state, address)?;
        let is_new = |client: u32| !state.0.taken.iter().any(|(known, _)| *known == client);
        let mut callers: Vec<(u32, bool)> = Vec::with_capacity(pending.len());
        for (_, client) in pending {
            let twin = |&&(other, _): &&(u32, bool)| {
                let kind = self.kind(client);
                is_new(client) && is_new(other) && kind.is_some() && kind == self.kind(other)
            };
            let is_twin = callers.iter().any(|caller| twin(&caller));
            callers.push((client, is_twin));
        }
        Ok(callers)
    }

    /// Clients of one kind are interchangeable: they were asked for together.
    fn kind(&self, client: u32) -> Option<u32> {
        self.clients.roster.get(client as usize).map(|member| member.kind)
    }

    /// The SUT accepts the next connection, if there is one.
    ///
    /// # Errors
    /// A peer failed.
    pub fn accept(&mut self, state: &mut PeerState, address: &Address) -> Result<Option<ConnKey>, PeerError> {
        let Some(&(channel, client)) = self.pending(state, address)?.first() else {
            return Ok(None);
        };
        let datagrams = matches!(address, Address::Udp(_));
        Ok(Some(self.take_channel(state, client, channel, datagrams)))
    }

    /// The SUT accepts this client's next connection, if there is one.
    ///
    /// # Errors
    /// A peer failed.
    pub fn accept_from(
        &mut self,
        state: &mut PeerState,
        address: &Address,
        client: u32,
    ) -> Result<Option<ConnKey>, PeerError> {
        let pending = self.pending(state, address)?;
        let Some(&(channel, _)) = pending.iter().find(|(_, caller)| *caller == client) else {
            return Ok(None);
        };
        let datagrams = matches!(address, Address::Udp(_));
        Ok(Some(self.take_channel(state, client, channel, datagrams)))
    }

    /// Has the client at the other end of this connection come by IPv4 to an address of IPv6?
    #[must_use]
    pub fn came_by_ipv4(&self, state: &PeerState, key: &ConnKey) -> bool {
        let conn = state.0.conns.get(key);
        conn.is_some_and(|conn| {
            let at = state.place(&conn.instance);
            self.trees[conn.tree.0].came_by_ipv4(conn.channel, at.pos)
        })
    }

    /// What reports call a client: the name it was given, or its number.
    #[must_use]
    pub fn client_name(&self, client: u32) -> String {
        let member = self.clients.roster.get(client as usize);
        member.map_or_else(|| format!("client#{client}"), |member| member.name.clone())
    }

    /// What reports call a connection.
    #[must_use]
    pub fn connection_name(&self, key: &ConnKey) -> String {
        match key {
            ConnKey::Opened(..) => key.to_string(),
            ConnKey::Accepted(client, 0) => self.client_name(*client),
            ConnKey::Accepted(client, channel) => format!("{}#{channel}", self.client_name(*client)),
        }
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
        if self.clients.seen_channels.insert((client, channel)) {
            self.counters.logical_connections += 1;
        }
        let instance = Instance::Client(client);
        let tree = TreeIndex(self.trees.tree_of(self.tree_key(&instance)).0);
        let inner = state.edit();
        let key = ConnKey::Accepted(client, channel);
        inner.taken.insert((client, channel));
        if !inner.places.contains_key(&instance) {
            inner.places.insert(instance.clone(), Tree::root());
        }
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
