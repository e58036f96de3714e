//! What an operation on a channel touches: the channel, its other end, and every epoll set whose ready list changes with it.

use super::{ChannelId, pty, socket};
use crate::fd::{Kind, OfdId};
use crate::model::Model;
use crate::net::Key;
use crate::object::{Access, Object, Touch};
use socket::{Socket, State};

/// What an operation does to a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Looks at its readiness.
    Poll,
    /// Takes data out.
    Read,
    /// Puts data in.
    Write,
    /// Closes it, shuts it down, arms it.
    Change,
}

/// What an operation on a description touches.
pub fn touches(model: &Model, id: OfdId, how: Use) -> Vec<Touch> {
    // Room for what most operations touch: this is asked for at every call.
    let mut out = Vec::with_capacity(4);
    out.push(Touch::read(Object::Description(id)));
    if let Some(description) = model.files.get(id) {
        touch_kind(model, &description.kind, how, &mut out);
        if how != Use::Poll && !model.channels.epolls.is_empty() {
            touch_watchers(model, &description.kind, how, &mut out);
        }
    }
    out
}

fn touch_kind(model: &Model, kind: &Kind, how: Use, out: &mut Vec<Touch>) {
    let access = if how == Use::Poll {
        Access::Read
    } else {
        Access::Write
    };
    let mut touch = |id: u32, access| out.push(Touch::new(Object::Channel(id), access));
    match kind {
        Kind::PipeReader(id) | Kind::PipeWriter(id) | Kind::EventFd(id) | Kind::MessageQueue(id) => {
            touch(id.0, access);
        }
        Kind::TimerFd(id) => {
            touch(id.0, access);
            out.push(Touch::read(Object::Clock));
        }
        Kind::Socket(id) if socket::is_networked(model, *id) => touch_network(model, *id, how, out),
        Kind::Socket(id) => {
            let socket = model.channels.sockets.get(id);
            let stream = socket.is_some_and(|s| s.style == socket::Style::Stream);
            // Data waits at the receiver: the two directions of a stream are independent.
            let own = if how == Use::Write && stream {
                Access::Read
            } else {
                access
            };
            touch(id.0, own);
            if let Some(peer) = socket.and_then(Socket::peer) {
                touch(peer.0, if how == Use::Read { Access::Read } else { access });
            }
        }
        // What is typed may be a signal, and whoever closes one side may send some.
        Kind::PtyMaster(_) if how != Use::Poll && how != Use::Read => {
            out.push(Touch::write(Object::Everything));
        }
        Kind::PtySlave(..)
            if how == Use::Change || how != Use::Poll && pty::is_in_background(model, kind) =>
        {
            out.push(Touch::write(Object::Everything));
        }
        Kind::PtyMaster(id) | Kind::PtySlave(id, _) => touch(id.0, access),
        Kind::SignalFd(_) => out.push(Touch::new(Object::Process, access)),
        // That it ends touches everything. Its parent may wait for it, or whoever has inherited it by then.
        Kind::PidFd(pid) => {
            let ancestors = model.ancestors(*pid).into_iter();
            out.extend(ancestors.map(|parent| Touch::read(Object::Children(parent))));
        }
        Kind::Epoll(id) => {
            touch(id.0, access);
            if let Some(epoll) = model.channels.epolls.get(id) {
                for description in epoll.descriptions() {
                    out.extend(touches(model, description, Use::Poll));
                }
            }
        }
        Kind::File(_) | Kind::Output(_) => {}
    }
}

/// The epoll sets in whose ready lists an operation may change something.
fn touch_watchers(model: &Model, kind: &Kind, how: Use, out: &mut Vec<Touch>) {
    let ends = ends(model, kind, how);
    let watching = model.channels.epolls.iter();
    let watching = watching.filter(|(_, epoll)| ends.iter().any(|end| epoll.watches(end)));
    let if_answered = says_to_a_stream(model, kind, how);
    out.extend(watching.map(|(id, _)| Touch {
        if_answered,
        ..Touch::write(Object::Channel(id.0))
    }));
}

/// All whose readiness an operation may change.
fn ends(model: &Model, kind: &Kind, how: Use) -> Vec<Kind> {
    let mut ends = vec![kind.clone()];
    match kind {
        Kind::PipeReader(id) | Kind::PipeWriter(id) => {
            ends = vec![Kind::PipeReader(*id), Kind::PipeWriter(*id)];
        }
        Kind::PtyMaster(id) | Kind::PtySlave(id, _) => {
            let opened = model
                .channels
                .terminals
                .get(id)
                .map_or(0, |terminal| terminal.hung_up);
            ends = vec![Kind::PtyMaster(*id), Kind::PtySlave(*id, opened)];
        }
        Kind::Socket(id) => {
            let Some(this) = model.channels.sockets.get(id) else {
                return ends;
            };
            let says = matches!(how, Use::Write | Use::Change);
            let is_networked = socket::is_networked(model, *id);
            // Whoever is told something may go on here or anywhere else.
            let remembers = model.channels.outside.servers_remember && is_of_server(this);
            let concerns = |other: &Socket| match this.client() {
                _ if !is_networked => false,
                _ if remembers => says && is_of_server(other),
                _ if this.serves() => other.client().is_some() || other.is_open_to_clients(),
                Some(client) => says && (other.client() == Some(client) || other.is_open_to_clients()),
                None => false,
            };
            let others = model.channels.sockets.iter();
            let others = others.filter(|(_, other)| concerns(other));
            ends.extend(others.map(|(id, _)| Kind::Socket(*id)));
            ends.extend(this.peer().filter(|_| !is_networked).map(Kind::Socket));
        }
        _ => {}
    }
    ends
}

/// Is a server outside at the other end, or will one be as soon as something is said?
fn is_of_server(socket: &Socket) -> bool {
    match &socket.state {
        State::Remote(remote) | State::Connecting(Some(remote)) => matches!(remote.key, Key::Opened(..)),
        State::Datagrams(datagrams) => !datagrams.serves,
        _ => false,
    }
}

/// What an operation touches that says something to a server outside, or hears of one, where all that servers were told matters to all that they say.
pub fn touched_servers(says: bool, if_answered: bool) -> Vec<Touch> {
    let heard = Touch {
        if_answered,
        ..match says {
            true => Touch::write(Object::Servers),
            false => Touch::read(Object::Servers),
        }
    };
    let told = says.then(|| Touch::write(Object::ToldServers));
    [heard].into_iter().chain(told).collect()
}

/// Is it a write to a stream at whose other end is another program?
fn says_to_a_stream(model: &Model, kind: &Kind, how: Use) -> bool {
    let Kind::Socket(id) = kind else { return false };
    let socket = model.channels.sockets.get(id);
    how == Use::Write && socket.is_some_and(|socket| socket.remote().is_some())
}

/// What may change for other connections of the program when the server at the other end of this one is told something: those that wait for their
/// turn, and the epoll sets that look at them. This depends on the state in which the operation is performed, and not on the one in which it was prepared.
pub fn held_beside(model: &Model, said: ChannelId) -> Vec<Object> {
    let place = |socket: &Socket| match socket.key()? {
        Key::Opened(to, _) => Some(to.clone()),
        Key::Accepted(..) => None,
    };
    let Some(here) = model.channels.sockets.get(&said).and_then(place) else {
        return Vec::new();
    };
    let held = model.channels.sockets.iter();
    let held = held.filter(|(_, other)| other.is_held() && place(other).as_ref() == Some(&here));
    let mut objects = Vec::new();
    for (id, _) in held {
        objects.push(Object::Channel(id.0));
        let watching = model.channels.epolls.iter();
        let watching = watching.filter(|(_, epoll)| epoll.watches(&Kind::Socket(*id)));
        objects.extend(watching.map(|(id, _)| Object::Channel(id.0)));
    }
    objects
}

/// Operations on sockets that peers are at the other end of. What is written may be answered at once, so a write changes
/// what can be read; and a client that is told something may answer on another of its connections, or open a new one. But a peer that is told something and says
/// nothing leaves all that can be read as it was: then the write is in no reader's way.
fn touch_network(model: &Model, id: ChannelId, how: Use, out: &mut Vec<Touch>) {
    let Some(socket) = model.channels.sockets.get(&id) else {
        return;
    };
    let access = match how {
        Use::Poll => Access::Read,
        Use::Read | Use::Write | Use::Change => Access::Write,
    };
    let if_answered = how == Use::Write && socket.remote().is_some();
    let says = matches!(how, Use::Write | Use::Change);
    out.push(Touch {
        if_answered,
        ..Touch::new(Object::Channel(id.0), access)
    });
    if says {
        out.push(Touch::write(Object::Said(id.0)));
    }
    if socket.is_listening() || socket.serves() {
        out.push(Touch::write(Object::Clients));
    }
    if let Some(client) = socket.client() {
        let access = if says { Access::Write } else { Access::Read };
        out.push(Touch {
            if_answered,
            ..Touch::new(Object::Client(client), access)
        });
        if says {
            out.push(Touch::write(Object::Told(client)));
            // Only accepting minds the order of what different clients are told.
            out.push(Touch::read(Object::Clients));
        }
    }
    if model.channels.outside.servers_remember && is_of_server(socket) {
        out.extend(touched_servers(says, if_answered));
    }
    let opened = |key: &Key| match key {
        Key::Opened(to, _) => Some(to.as_ref().clone()),
        Key::Accepted(..) => None,
    };
    // The how-manieth connection to a destination this is matters to the next one.
    if how == Use::Write
        && let Some(datagrams) = socket.datagrams()
        && let Some(to) = datagrams
            .remote
            .clone()
            .or_else(|| datagrams.correspondents.values().find_map(opened))
    {
        out.push(Touch::write(Object::Destination(to)));
    }
}
