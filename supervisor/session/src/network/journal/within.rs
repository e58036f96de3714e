//! The part of a journal that nobody outside has to do with: connections among the program's processes, and with peers that are executed with it.
//!
//! The model tells what its sockets say to each other ([`Heard`]). A connection with a peer has the program at its near end, as one to a peer outside; of one among processes of
//! the trace who opened it is at the near end.

use super::Journal;
use std::collections::BTreeMap;
use syscall_model::channels::ChannelId;
use syscall_model::channels::overheard::{Heard, Speaker};
use syscall_model::net::{Endpoint, Key};
use syscall_model::residents::Peer;
use trace::{Transport, What};

/// Which connection a socket is an end of, and whether the near one.
#[derive(Debug, Default)]
pub(super) struct Within {
    ends: BTreeMap<ChannelId, (u32, bool)>,
    /// Datagrams between two addresses: the near one first.
    correspondence: BTreeMap<(Endpoint, Endpoint), u32>,
}

/// What people call the peers that are executed with the program.
pub(crate) trait Names {
    /// Its name, and its command.
    fn of(&self, peer: Peer) -> (String, String);
    /// Are its steps those of the trace, as the program's are?
    fn are_explored(&self) -> bool;
}

impl Journal {
    /// Something was said within the model.
    pub(crate) fn overheard(&mut self, heard: Heard, names: &dyn Names) {
        match heard {
            Heard::Connected { from, at } => self.connected(&from, &at, names),
            Heard::Said(socket, data) => self.at_end(socket, |is_near| {
                if is_near {
                    What::Sent(data)
                } else {
                    What::Arrived(data)
                }
            }),
            Heard::Sent { from, to, data } => self.datagram(&from, &to, data, names),
            Heard::Taken(socket, count, from) => self.taken(socket, count as u64, from.as_ref()),
            Heard::Finished(socket) => {
                self.at_end(
                    socket,
                    |is_near| if is_near { What::Finished } else { What::Ended },
                );
            }
            Heard::Closed(socket) => {
                self.at_end(socket, |is_near| if is_near { What::Closed } else { What::Ended });
                self.within.ends.remove(&socket);
            }
            Heard::Broken(socket) => {
                self.at_end(socket, |is_near| if is_near { What::Broken } else { What::Reset });
                self.within.ends.remove(&socket);
            }
        }
    }

    fn at_end(&mut self, socket: ChannelId, what: impl FnOnce(bool) -> What) {
        if let Some(&(connection, is_near)) = self.within.ends.get(&socket) {
            self.note(connection, what(is_near));
        }
    }

    fn connected(&mut self, from: &Speaker, at: &Speaker, names: &dyn Names) {
        let (Some(local), Some(remote)) = (&from.name, &at.name) else {
            return;
        };
        let is_accepted = from.of.is_some() && at.of.is_none();
        let connection = match is_accepted {
            true => self.add_within(at, from, (remote, local), names),
            false => self.add_within(from, at, (local, remote), names),
        };
        self.within.ends.insert(from.socket, (connection, !is_accepted));
        self.within.ends.insert(at.socket, (connection, is_accepted));
        self.note(connection, What::Opened);
    }

    /// A connection with this near end.
    fn add_within(
        &mut self,
        near: &Speaker,
        far: &Speaker,
        (local, remote): (&Endpoint, &Endpoint),
        names: &dyn Names,
    ) -> u32 {
        let (name, command) = match far.of {
            Some(peer) => names.of(peer),
            None => (String::new(), String::new()),
        };
        let name = match &near.key {
            Some(key @ Key::Opened(..)) => super::key_name(key),
            Some(Key::Accepted(_, 0)) => name,
            Some(Key::Accepted(_, nth)) => format!("{name}#{nth}"),
            None => remote.to_string(),
        };
        let is_accepted = matches!(near.key, Some(Key::Accepted(..)));
        let connection = self.add(name, command, is_accepted, local, remote);
        let crosses = near.of != far.of;
        self.traffic.connections[connection as usize].internal = !crosses || names.are_explored();
        connection
    }

    fn datagram(&mut self, from: &Speaker, to: &Speaker, data: Vec<u8>, names: &dyn Names) {
        let (Some(sender), Some(receiver)) = (&from.name, &to.name) else {
            return;
        };
        let there = (sender.clone(), receiver.clone());
        let back = (receiver.clone(), sender.clone());
        let known = &self.within.correspondence;
        let (connection, is_near) = match (known.get(&there), known.get(&back)) {
            (Some(&connection), _) => (connection, true),
            (None, Some(&connection)) => (connection, false),
            (None, None) if from.of.is_some() && to.of.is_none() => {
                let connection = self.add_within(to, from, (receiver, sender), names);
                self.within.correspondence.insert(back, connection);
                (connection, false)
            }
            (None, None) => {
                let connection = self.add_within(from, to, (sender, receiver), names);
                self.within.correspondence.insert(there, connection);
                (connection, true)
            }
        };
        self.note(
            connection,
            if is_near {
                What::Sent(data)
            } else {
                What::Arrived(data)
            },
        );
    }

    /// Something was taken out of a socket. What the far end takes is nobody's concern.
    fn taken(&mut self, socket: ChannelId, bytes: u64, from: Option<&Endpoint>) {
        if let Some(&(connection, is_near)) = self.within.ends.get(&socket) {
            if is_near {
                self.note(connection, What::Read(bytes));
            }
            return;
        }
        let Some(from) = from else { return };
        let mut known = self.within.correspondence.iter();
        let connection = known
            .find(|((_, far), _)| far == from)
            .map(|(_, &connection)| connection);
        if let Some(connection) = connection
            && self.traffic.connections[connection as usize].transport == Transport::Udp
        {
            self.note(connection, What::Read(1));
        }
    }
}
