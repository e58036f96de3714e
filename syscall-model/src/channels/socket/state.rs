//! What a socket can be, and what only such a socket has.

use super::Socket;
use crate::channels::ChannelId;
use crate::net::{Endpoint, Key};
use imbl::{OrdMap, OrdSet, Vector};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A socket that makes connections and has none, or one of a Unix pair of datagram sockets that was disconnected.
    Unconnected,
    Listening(Listening),
    /// A non-blocking connect to another program is under way. If it will go through the connection is there already, and only the program does not know.
    Connecting(Option<Remote>),
    /// Connected to another socket in the model, which may be closed by now.
    Local(Local),
    /// Connected to another program outside.
    Remote(Remote),
    /// A datagram socket of the Internet, which has no connection even if it has one address that everything goes to.
    Datagrams(Datagrams),
    /// A netlink socket, by the number that it is bound to.
    Netlink(Option<u32>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Listening {
    /// The accepting ends of connections that the program has made to itself.
    pub backlog: Vector<ChannelId>,
    /// A client wants to be accepted.
    pub client_waits: bool,
}

/// A connection within the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    pub other: ChannelId,
    /// The address at the other end.
    pub address: Option<Endpoint>,
    /// The name of a connection to a peer in the model, at the program's end.
    pub key: Option<Key>,
    /// The other end is another program's, a peer's or the program's.
    pub crosses: bool,
    /// A non-blocking connect went through and the program has not been told yet.
    pub is_news: bool,
}

impl Local {
    pub fn to(other: ChannelId, address: Option<Endpoint>) -> Self {
        Self {
            other,
            address,
            key: None,
            crosses: false,
            is_news: false,
        }
    }
}

/// A connection to another program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Remote {
    pub key: Key,
    /// The address at the other end.
    pub address: Option<Endpoint>,
    /// A non-blocking connect went through and the program has not been told yet.
    pub is_news: bool,
    /// The server at the other end has other connections of the program to attend to first.
    pub held: bool,
    /// The other program says no more.
    pub ended: bool,
    /// Bytes that the other program was sent and has not read.
    pub(super) unread: usize,
    /// A send has found no room, or not enough: whoever waits for the next edge is told when there is.
    pub(super) is_full: bool,
}

impl Remote {
    pub fn to(key: Key, address: Option<Endpoint>) -> Self {
        Self {
            key,
            address,
            is_news: false,
            held: false,
            ended: false,
            unread: 0,
            is_full: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Datagrams {
    /// Where everything goes to and comes from, if it was connected.
    pub remote: Option<Endpoint>,
    /// The peers that it has sent to, or heard from.
    pub correspondents: OrdMap<Endpoint, Key>,
    /// It is bound to an address where clients may write to it.
    pub serves: bool,
    /// The clients of which such a socket was handed something.
    pub heard: OrdSet<Endpoint>,
}

impl State {
    /// Whether a non-blocking connect went through of which the program has not been told: it is now.
    pub(crate) fn take_news_of_connect(&mut self) -> bool {
        match self {
            State::Local(Local { is_news, .. }) | State::Remote(Remote { is_news, .. }) => {
                std::mem::take(is_news)
            }
            _ => false,
        }
    }

    /// A non-blocking connect went through.
    pub(crate) fn connect_went_through(&mut self) {
        match self {
            State::Local(Local { is_news, .. }) | State::Remote(Remote { is_news, .. }) => *is_news = true,
            _ => {}
        }
    }

    /// A non-blocking connect is under way, and the program is told of its result later.
    pub(crate) fn starts_connecting(&mut self) {
        *self = match std::mem::replace(self, State::Unconnected) {
            State::Unconnected => State::Connecting(None),
            State::Remote(remote) => State::Connecting(Some(remote)),
            other => other,
        };
    }

    /// The result of such a connect is there.
    pub(crate) fn stops_connecting(&mut self) {
        *self = match std::mem::replace(self, State::Unconnected) {
            State::Connecting(None) => State::Unconnected,
            State::Connecting(Some(remote)) => State::Remote(remote),
            other => other,
        };
    }
}

impl Socket {
    /// Has it another end?
    pub fn is_connected(&self) -> bool {
        matches!(
            self.state,
            State::Local(_) | State::Remote(_) | State::Connecting(Some(_))
        )
    }

    pub fn is_connecting(&self) -> bool {
        matches!(self.state, State::Connecting(_))
    }

    pub fn is_listening(&self) -> bool {
        matches!(self.state, State::Listening(_))
    }

    pub(crate) fn listening(&self) -> Option<&Listening> {
        match &self.state {
            State::Listening(listening) => Some(listening),
            _ => None,
        }
    }

    pub(crate) fn listening_mut(&mut self) -> Option<&mut Listening> {
        match &mut self.state {
            State::Listening(listening) => Some(listening),
            _ => None,
        }
    }

    /// The connection to another program outside, even if the program does not know of it yet.
    pub fn remote(&self) -> Option<&Remote> {
        match &self.state {
            State::Remote(remote) | State::Connecting(Some(remote)) => Some(remote),
            _ => None,
        }
    }

    pub(crate) fn remote_mut(&mut self) -> Option<&mut Remote> {
        match &mut self.state {
            State::Remote(remote) | State::Connecting(Some(remote)) => Some(remote),
            _ => None,
        }
    }

    /// The name of the connection to another program outside.
    pub fn key(&self) -> Option<&Key> {
        self.remote().map(|remote| &remote.key)
    }

    /// The client process at the other end, if that is outside.
    pub(crate) fn client(&self) -> Option<u32> {
        match self.key()? {
            Key::Accepted(client, _) => Some(*client),
            Key::Opened(..) => None,
        }
    }

    /// Does an answer wait until the server is done with other connections?
    pub fn is_held(&self) -> bool {
        self.remote().is_some_and(|remote| remote.held)
    }

    pub(crate) fn local(&self) -> Option<&Local> {
        match &self.state {
            State::Local(local) => Some(local),
            _ => None,
        }
    }

    pub(crate) fn local_mut(&mut self) -> Option<&mut Local> {
        match &mut self.state {
            State::Local(local) => Some(local),
            _ => None,
        }
    }

    /// The other end, if that is in the model.
    pub fn peer(&self) -> Option<ChannelId> {
        self.local().map(|local| local.other)
    }

    /// Is the other end in the model, and another program's?
    pub fn crosses(&self) -> bool {
        self.local().is_some_and(|local| local.crosses)
    }

    /// The datagram socket of the Internet that it is.
    pub fn datagrams(&self) -> Option<&Datagrams> {
        match &self.state {
            State::Datagrams(datagrams) => Some(datagrams),
            _ => None,
        }
    }

    pub(crate) fn datagrams_mut(&mut self) -> Option<&mut Datagrams> {
        match &mut self.state {
            State::Datagrams(datagrams) => Some(datagrams),
            _ => None,
        }
    }

    /// May clients write to it?
    pub(crate) fn serves(&self) -> bool {
        self.datagrams().is_some_and(|datagrams| datagrams.serves)
    }

    /// The address at the other end.
    pub(crate) fn remote_name(&self) -> Option<&Endpoint> {
        match &self.state {
            State::Local(local) => local.address.as_ref(),
            State::Remote(remote) | State::Connecting(Some(remote)) => remote.address.as_ref(),
            State::Datagrams(datagrams) => datagrams.remote.as_ref(),
            State::Unconnected | State::Listening(_) | State::Connecting(None) | State::Netlink(_) => None,
        }
    }
}
