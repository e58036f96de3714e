//! Keeps the modelled sockets and the network in step.
//!
//! Handlers only touch the model: what they say to a peer goes to an outbox, and [`exchange`], which runs at the end of every
//! call, carries it out and brings back what the peers said to it. Between two calls the outbox is empty.

use super::flight::{self, Thing};
use super::{Arrival, Endpoint, Key, Network};
use crate::channels::socket::{self, READABLE, Socket, State};
use crate::channels::{ChannelId, epoll, named};
use crate::fd::{Kind, PollEvents};
use crate::model::Model;

/// Something that a peer is to be told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    Bytes(Key, Vec<u8>),
    Datagram(ChannelId, Endpoint, Vec<u8>),
    Finish(Key),
    Close(Key),
    Reset(Key),
}

/// Says what is to be said and takes in what has come. Does nothing if no call had to do with the network.
pub fn exchange(model: &mut Model, net: &mut dyn Network) {
    if model.channels.outside.outbox.is_empty() && !model.channels.outside.stale {
        return;
    }
    model.channels.outside.stale = false;
    let mut outbox = std::mem::take(&mut model.channels.outside.outbox);
    let says_nothing = outbox.is_empty();
    let says_bytes = !says_nothing && outbox.iter().all(|told| matches!(told, Told::Bytes(..)));
    for told in outbox.drain(..) {
        match told {
            Told::Bytes(key, data) => net.write(&key, &data),
            Told::Datagram(id, to, data) => send_datagram(model, net, id, to, &data),
            Told::Finish(key) => net.finish(&key),
            Told::Close(key) => net.close(&key),
            Told::Reset(key) => net.reset(&key),
        }
    }
    debug_assert!(
        model.channels.outside.outbox.is_empty(),
        "what is said is not answered here"
    );
    // Its memory serves the next call.
    model.channels.outside.outbox = outbox;
    if !says_nothing {
        flight::it_went_on(model);
    }
    let something_came = refresh(model, net);
    if something_came || !says_nothing {
        net.settled(says_bytes && !something_came);
    }
}

/// Takes in what has come on every connection, and whether somebody wants to be accepted. True if anything changed.
pub fn refresh(model: &mut Model, net: &mut dyn Network) -> bool {
    let mut redirected = false;
    let sockets = model.channels.sockets.iter();
    let sockets =
        sockets.inspect(|(_, socket)| redirected |= socket.serves() && !socket.is_open_to_clients());
    let ids: Vec<ChannelId> = sockets.map(|(id, _)| *id).collect();
    if redirected {
        named::redirect_datagrams(model);
    }
    let mut changed = false;
    for id in ids {
        let Some(socket) = model.channels.sockets.get(&id) else {
            continue;
        };
        match &socket.state {
            State::Listening(listening) => {
                let was_pending = listening.client_waits;
                // Clients are started when the program first looks for them.
                let Some(name) = socket
                    .name()
                    .filter(|_| model.channels.outside.clients_awaited)
                    .cloned()
                else {
                    continue;
                };
                if flight::is_any(model) {
                    changed |= flight::set_callers(model, id, net.callers(&name));
                } else {
                    let pending = net.acceptable(&name);
                    changed |= pending != was_pending;
                    set_pending(model, id, pending, was_pending);
                }
            }
            State::Remote(remote) | State::Connecting(Some(remote)) => {
                let (key, is_shut) = (remote.key.clone(), socket.shut.write);
                changed |= pull_stream(model, net, id, &key);
                // Nothing more can be said that would have to wait; and the connection may be broken off.
                let unread = if is_shut { 0 } else { net.unread(&key) };
                changed |= socket::set_unread_there(model, id, unread);
            }
            State::Datagrams(_) => changed |= pull_all_datagrams(model, net, id),
            State::Unconnected | State::Connecting(None) | State::Local(_) | State::Netlink(_) => {}
        }
    }
    changed
}

/// Takes in what clients have sent to a datagram socket for the first time, and what its correspondents have.
fn pull_all_datagrams(model: &mut Model, net: &mut dyn Network, id: ChannelId) -> bool {
    let mut changed = false;
    let socket = model.channels.sockets.get(&id);
    let open = socket.filter(|socket| model.channels.outside.clients_awaited && socket.is_open_to_clients());
    if let Some(name) = open.and_then(|socket| socket.name().cloned()) {
        while net.acceptable(&name)
            && let Some(client) = net.accept(&name)
        {
            named::heard_of(model, id, client);
            changed = true;
        }
    }
    let Some(datagrams) = model.channels.sockets.get(&id).and_then(Socket::datagrams) else {
        return changed;
    };
    let only = datagrams.remote.as_ref().filter(|_| datagrams.serves);
    let all = datagrams.correspondents.iter();
    let all = all.filter(|(from, _)| only.is_none_or(|only| only == *from));
    let all: Vec<(Endpoint, Key)> = all.map(|(to, key)| (to.clone(), key.clone())).collect();
    for (from, key) in all {
        changed |= pull_datagrams(model, net, id, &from, &key);
    }
    changed
}

fn set_pending(model: &mut Model, id: ChannelId, pending: bool, was_pending: bool) {
    if let Some(socket) = model.channels.sockets.get_mut(&id)
        && let Some(listening) = socket.listening_mut()
    {
        listening.client_waits = pending;
    }
    if pending && !was_pending {
        epoll::notify(model, &Kind::Socket(id), READABLE);
    }
}

fn pull_stream(model: &mut Model, net: &mut dyn Network, id: ChannelId, key: &Key) -> bool {
    let mut changed = false;
    let mut data: Option<Thing> = None;
    // What was read last is all that the peer said in one go.
    let mut ends = false;
    while let Some(room) = room(model, id, data.as_ref().map_or(0, Thing::len)) {
        let arrival = net.read(key, room);
        set_held(model, id, arrival == Arrival::Held);
        if matches!(arrival, Arrival::Nothing | Arrival::Held) {
            break;
        }
        changed = true;
        let ended = ends;
        let (thing, more) = match arrival {
            Arrival::Data { bytes, more, whole } => {
                ends = whole;
                (Thing::Data(bytes), more)
            }
            Arrival::End => (Thing::End, false),
            Arrival::Closed => (Thing::Closed, false),
            Arrival::Reset | Arrival::Held | Arrival::Nothing => (Thing::Reset, false),
        };
        match (&mut data, thing) {
            // What is said in one go arrives in one go, in whatever pieces it is handed over.
            (Some(Thing::Data(data)), Thing::Data(bytes)) if !ended => data.extend(bytes),
            (_, thing) => {
                let before = data.replace(thing);
                before
                    .into_iter()
                    .for_each(|thing| flight::push(model, id, thing));
            }
        }
        if !more {
            break;
        }
    }
    data.into_iter().for_each(|thing| flight::push(model, id, thing));
    changed | pull_beyond_the_end(model, net, id, key)
}

/// Whether an answer waits until the server is done with other connections. (A map that is changed is copied: only if need be.)
fn set_held(model: &mut Model, id: ChannelId, is_held: bool) {
    let socket = model.channels.sockets.get(&id);
    if socket.is_some_and(|socket| socket.is_held() != is_held)
        && let Some(socket) = model.channels.sockets.get_mut(&id)
        && let Some(remote) = socket.remote_mut()
    {
        remote.held = is_held;
    }
}

/// A peer that says no more may hear nothing either, which comes out when it is told something.
fn pull_beyond_the_end(model: &mut Model, net: &mut dyn Network, id: ChannelId, key: &Key) -> bool {
    if !flight::has_only_ended(model, id) {
        return false;
    }
    let thing = match net.beyond_the_end(key) {
        Arrival::Reset => Thing::Broken,
        Arrival::Closed => Thing::Closed,
        Arrival::Data { .. } | Arrival::End | Arrival::Held | Arrival::Nothing => return false,
    };
    flight::push(model, id, thing);
    true
}

/// How much more the socket takes, beyond what is on its way and `taken`; `None` if nothing more. (Looked up apart: a map that is changed is copied first.)
fn room(model: &Model, id: ChannelId, taken: usize) -> Option<usize> {
    let socket = model.channels.sockets.get(&id)?;
    let room = socket.room().saturating_sub(flight::bytes(model, id) + taken);
    (!socket.shut.read && room > 0 && !flight::is_over(model, id)).then_some(room)
}

fn pull_datagrams(
    model: &mut Model,
    net: &mut dyn Network,
    id: ChannelId,
    from: &Endpoint,
    key: &Key,
) -> bool {
    let mut changed = false;
    while let Arrival::Data { bytes, more, .. } = net.read(key, usize::MAX) {
        flight::push_datagram(model, id, from, bytes);
        changed = true;
        if !more {
            break;
        }
    }
    changed
}

/// The way from this socket to a client that another one has heard of: servers answer from a new socket, so as to have one for each client.
fn go_on(model: &Model, net: &mut dyn Network, id: ChannelId, to: &Endpoint) -> Option<Key> {
    let at = model.channels.sockets.get(&id)?.name()?;
    let (_, with) = named::heard_by_another(model, id, to)?;
    Some(net.go_on_from(&with, at)?.key)
}

/// A datagram to a peer: the first one to a destination makes the connection. Nobody there: the sender hears of it when it
/// next uses the socket, if it is connected.
fn send_datagram(model: &mut Model, net: &mut dyn Network, id: ChannelId, to: Endpoint, data: &[u8]) {
    let Some(datagrams) = model.channels.sockets.get(&id).and_then(Socket::datagrams) else {
        return;
    };
    let key = match datagrams.correspondents.get(&to) {
        Some(key) => Ok(key.clone()),
        None => go_on(model, net, id, &to).map_or_else(|| net.connect(&to), Ok),
    };
    let Some(socket) = model.channels.sockets.get_mut(&id) else {
        return;
    };
    match key {
        Ok(key) => {
            net.write(&key, data);
            if let Some(datagrams) = socket.datagrams_mut() {
                datagrams.correspondents.insert(to, key);
            }
        }
        Err(errno) if socket.remote_name() == Some(&to) => {
            socket.error = Some(errno);
            epoll::notify(model, &Kind::Socket(id), PollEvents::ERR);
        }
        Err(_) => {}
    }
}
