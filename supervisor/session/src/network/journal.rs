//! The traffic of one execution, written down as it happens, for a trace.
//!
//! What is sent and what arrives is seen at the [`Network`](syscall_model::net::Network) interface. What the program reads it takes from
//! the socket in the model, where the data waits; so that is found by comparing, after each step, what has arrived with what still waits.
//! Kept only where a trace is made: the search backtracks, a journal does not.

mod within;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use syscall_model::Model;
use syscall_model::channels::named;
use syscall_model::channels::socket::{Datagrams, Socket};
use syscall_model::faults::Mishap;
use syscall_model::net::{Endpoint, Key, flight};
use trace::{Connection, Event, Traffic, Transport, What};
pub(crate) use within::Names;
use within::Within;

#[derive(Debug, Default)]
pub struct Journal {
    traffic: Traffic,
    /// Events up to here have their time.
    dated: usize,
    step: u64,
    indices: BTreeMap<Key, u32>,
    /// Per connection: bytes (or datagrams) arrived, and read.
    arrived: Vec<u64>,
    read: Vec<u64>,
    within: Within,
}

impl Journal {
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// A connection that nobody answered has no key.
    pub fn refused(&mut self, to: &Endpoint) {
        // Every attempt counts as one of the connections to its destination.
        let same =
            |connection: &&Connection| !connection.accepted && connection.remote == to.socket_address();
        let nth = self.traffic.connections.iter().filter(same).count() as u16;
        let local = to.nearest_local(named::OUTGOING_PORTS.wrapping_add(nth));
        let connection = self.add(to.to_string(), String::new(), false, &local, to);
        self.note(connection, What::Refused);
    }

    pub fn opened(&mut self, key: &Key, to: &Endpoint, peer: String) {
        let local = to.nearest_local(named::OUTGOING_PORTS.wrapping_add(key.nth()));
        let connection = self.add(key_name(key), peer, false, &local, to);
        self.indices.insert(key.clone(), connection);
        self.note(connection, What::Opened);
    }

    pub fn accepted(&mut self, key: &Key, name: String, at: &Endpoint, peer: String) {
        let remote = at.nearest_local(named::CLIENT_PORTS.wrapping_add(key.nth()));
        let connection = self.add(name, peer, true, at, &remote);
        self.indices.insert(key.clone(), connection);
        self.note(connection, What::Opened);
    }

    fn add(
        &mut self,
        name: String,
        peer: String,
        accepted: bool,
        local: &Endpoint,
        remote: &Endpoint,
    ) -> u32 {
        let transport = match remote {
            Endpoint::Tcp(_) => Transport::Tcp,
            Endpoint::Udp(_) => Transport::Udp,
            Endpoint::Unix(_) => Transport::Unix,
        };
        self.traffic.connections.push(Connection {
            name,
            peer,
            transport,
            accepted,
            local: local.socket_address(),
            remote: remote.socket_address(),
            internal: false,
        });
        self.arrived.push(0);
        self.read.push(0);
        self.traffic.connections.len() as u32 - 1
    }

    pub fn happened(&mut self, key: &Key, what: What) {
        let Some(&connection) = self.indices.get(key) else {
            return;
        };
        if let What::Arrived(data) = &what {
            let is_datagram = self.traffic.connections[connection as usize].transport == Transport::Udp;
            self.arrived[connection as usize] += if is_datagram { 1 } else { data.len() as u64 };
        }
        self.note(connection, what);
    }

    fn note(&mut self, connection: u32, what: What) {
        self.traffic.events.push(Event {
            step: self.step,
            time: 0,
            connection,
            what,
        });
    }

    /// The thread has made its move, but time has not gone on yet: what was read, from where, and when all this was.
    pub fn look(&mut self, model: &Model) {
        for (id, socket) in model.channels.numbered_sockets() {
            if let Some(key) = socket.key() {
                let waits = socket.available() + flight::bytes(model, id);
                self.look_at_stream(key, socket, waits as u64);
            } else if let Some(datagrams) = socket.datagrams() {
                let on_the_way = |from: &Endpoint| flight::datagrams_from(model, id, from);
                self.look_at_datagrams(socket, datagrams, on_the_way);
            }
        }
        self.date(model);
    }

    /// `waits`: bytes that were said and not read, be they in the socket or still on their way.
    fn look_at_stream(&mut self, key: &Key, socket: &Socket, waits: u64) {
        let Some(&connection) = self.indices.get(key) else {
            return;
        };
        self.name_ends(connection, socket.name());
        let index = connection as usize;
        let read = self.arrived[index].saturating_sub(waits);
        if read > self.read[index] {
            // What came in during this step took the place of what was read.
            self.note_before_arrivals(connection, What::Read(read - self.read[index]));
            self.read[index] = read;
        }
    }

    /// One queue for all correspondents, in the order of arrival.
    fn look_at_datagrams(
        &mut self,
        socket: &Socket,
        datagrams: &Datagrams,
        on_the_way: impl Fn(&Endpoint) -> usize,
    ) {
        let waiting = socket.waiting_from();
        for (from, key) in &datagrams.correspondents {
            let Some(&connection) = self.indices.get(key) else {
                continue;
            };
            self.name_ends(connection, socket.name());
            let index = connection as usize;
            let waits = waiting.iter().filter(|sender| **sender == Some(from)).count() + on_the_way(from);
            let read = self.arrived[index].saturating_sub(waits as u64);
            if read > self.read[index] {
                self.note_before_arrivals(connection, What::Read(read - self.read[index]));
                self.read[index] = read;
            }
        }
    }

    /// What is read from now on is what is left of what came.
    pub fn mishap(&mut self, key: &Key, place: usize, mishap: Mishap) {
        let Some(&connection) = self.indices.get(key) else {
            return;
        };
        let index = connection as usize;
        let events = self.traffic.events.iter().enumerate();
        let arrivals = events
            .filter(|(_, event)| event.connection == connection && matches!(event.what, What::Arrived(_)));
        let unread: Vec<usize> = arrivals
            .map(|(at, _)| at)
            .skip(self.read[index] as usize)
            .collect();
        let Some(&at) = unread.get(place) else { return };
        match mishap {
            Mishap::Lost => {
                self.traffic.events.remove(at);
                self.arrived[index] -= 1;
                self.dated -= usize::from(at < self.dated);
            }
            Mishap::Duplicated => {
                let again = self.traffic.events[at].clone();
                self.traffic.events.insert(at + 1, again);
                self.arrived[index] += 1;
                self.dated += usize::from(at < self.dated);
            }
            Mishap::Overtaking => {
                for pair in unread[..=place].windows(2).rev() {
                    let (former, latter) = (pair[0], pair[1]);
                    let what = self.traffic.events[former].what.clone();
                    let what = std::mem::replace(&mut self.traffic.events[latter].what, what);
                    self.traffic.events[former].what = what;
                }
            }
        }
    }

    fn note_before_arrivals(&mut self, connection: u32, what: What) {
        let step = self.step;
        let events = &mut self.traffic.events;
        let arrival =
            |event: &Event| event.connection == connection && matches!(event.what, What::Arrived(_));
        let at = events[self.dated..].iter().position(arrival);
        let event = Event {
            step,
            time: 0,
            connection,
            what,
        };
        match at {
            Some(at) => events.insert(self.dated + at, event),
            None => events.push(event),
        }
    }

    /// A name that the program gave its end.
    fn name_ends(&mut self, connection: u32, name: Option<&Endpoint>) {
        let record = &mut self.traffic.connections[connection as usize];
        if let (Some(name), Some(remote)) = (name.and_then(Endpoint::socket_address), record.remote) {
            let ip = match name.ip().to_canonical() {
                // Bound to no address in particular: that of this machine on the way to the peer.
                ip if ip.is_unspecified() || ip.is_ipv4() != remote.is_ipv4() => loopback_like(remote),
                ip => ip,
            };
            record.local = Some(SocketAddr::new(ip, name.port()));
        }
    }

    fn date(&mut self, model: &Model) {
        for event in &mut self.traffic.events[self.dated..] {
            event.time = model.clock.realtime();
        }
        self.dated = self.traffic.events.len();
    }

    /// The step is over: what has been added since [`Journal::look`] happened when time had gone on.
    pub fn step_over(&mut self, model: &Model) {
        self.date(model);
        self.step += 1;
    }
}

/// As the peers' own reports call it.
fn key_name(key: &Key) -> String {
    super::address::to_key(key).to_string()
}

fn loopback_like(address: SocketAddr) -> IpAddr {
    match address {
        SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    }
}
