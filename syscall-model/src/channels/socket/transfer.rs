//! What goes from one end to the other: bytes, records, descriptors, and the news that an end is shut or gone.

use super::inbox::Message;
use super::{
    READABLE, Received, Shut, Socket, State, Style, WRITABLE, in_flight, live_peer, poll, socket, socket_mut,
};
use crate::channels::overheard::Heard;
use crate::channels::{ChannelId, epoll, named, netlink};
use crate::fd::{Kind, OfdId, PollEvents};
use crate::model::Model;
use crate::net::mirror::Told;
use crate::net::{Endpoint, Key, flight};
use imbl::Vector;
use syscalls::Errno;

/// Sends one record, or as much of a stream as fits. `EAGAIN` if nothing does. Takes the references of
/// `rights` over if it succeeds.
pub fn send(model: &mut Model, id: ChannelId, data: &[u8], rights: &[OfdId]) -> Result<usize, Errno> {
    let this = socket(model, id);
    if this.is_connecting() {
        return Err(Errno::EAGAIN);
    }
    if let Some(key) = this.key().cloned() {
        return send_to_peer(model, id, key, data);
    }
    if this.is_inet() {
        return named::send(model, id, data);
    }
    let this = socket_mut(model, id);
    if netlink::is_netlink(this) {
        return netlink::send(model, id, data);
    }
    let unconnected = !this.is_connected();
    if this.style != Style::Stream {
        this.take_error()?;
    }
    if unconnected && this.connection_based() {
        return Err(Errno::ENOTCONN);
    }
    if this.style != Style::Stream && data.len() > this.options.send_buffer - 32 {
        return Err(Errno::EMSGSIZE);
    }
    if this.shut.write {
        return Err(Errno::EPIPE);
    }
    if unconnected {
        tell_of_room(model, id);
        return Err(Errno::ENOTCONN);
    }
    let Some((peer, receiver)) = live_peer(model, id) else {
        let errno = send_to_the_dead(model, id);
        tell_of_room(model, id);
        return Err(errno);
    };
    if receiver.shut.read {
        // The kernel has made the message by now; throwing it away looks like new room.
        tell_of_room(model, id);
        return Err(Errno::EPIPE);
    }
    if data.is_empty() && receiver.style == Style::Stream {
        return Ok(0);
    }
    send_locally(model, id, peer, data, rights)
}

/// Sends to another program as much as may be under way to one that does not read. One that does has read all of it by the next call.
fn send_to_peer(model: &mut Model, id: ChannelId, key: Key, data: &[u8]) -> Result<usize, Errno> {
    let this = socket(model, id);
    if this.error.is_some() {
        socket_mut(model, id).take_error()?;
    } else if this.shut.write {
        return Err(Errno::EPIPE);
    }
    if data.is_empty() {
        return Ok(0);
    }
    let this = socket(model, id);
    let under_way = in_flight(model, this).saturating_add(about_to_be_told(model, &key));
    let len = data.len().min(this.window().saturating_sub(under_way));
    if len < data.len()
        && let Some(remote) = socket_mut(model, id).remote_mut()
    {
        remote.is_full = true;
    }
    if len == 0 {
        return Err(Errno::EAGAIN);
    }
    model
        .channels
        .outside
        .outbox
        .push(Told::Bytes(key, data[..len].to_vec()));
    Ok(len)
}

/// What this call has already said on a connection.
fn about_to_be_told(model: &Model, key: &Key) -> usize {
    let told = model.channels.outside.outbox.iter();
    told.map(|told| match told {
        Told::Bytes(to, data) if to == key => data.len(),
        _ => 0,
    })
    .sum()
}

/// Sends to a socket of the program itself.
pub(in crate::channels) fn send_locally(
    model: &mut Model,
    id: ChannelId,
    peer: ChannelId,
    data: &[u8],
    rights: &[OfdId],
) -> Result<usize, Errno> {
    let this = socket(model, id);
    let room = this.window().saturating_sub(in_flight(model, this));
    if room == 0 {
        return Err(Errno::EAGAIN);
    }
    let receiver = socket_mut(model, peer);
    // A record goes in whole, if need be beyond the limit, as in the kernel.
    let len = match receiver.style {
        Style::Stream => data.len().min(room),
        _ => data.len(),
    };
    receiver.deliver(&data[..len], rights.to_vec());
    model.passes(id, peer, &data[..len]);
    for &right in rights {
        model.files.retain(right);
    }
    epoll::notify(
        model,
        &Kind::Socket(peer),
        READABLE | PollEvents::RDBAND | PollEvents::PRI,
    );
    Ok(len)
}

/// A datagram from a peer or from the program itself.
pub(crate) fn deliver_datagram(model: &mut Model, id: ChannelId, from: &Endpoint, data: &[u8]) {
    let this = socket_mut(model, id);
    // One that does not fit is lost, as they are.
    if this.room() > 0 {
        this.inbox
            .deliver(this.style, data, Vec::new(), Some(from.clone()));
        epoll::notify(model, &Kind::Socket(id), READABLE);
    }
}

/// What the kernel itself says.
pub(crate) fn deliver_answer(model: &mut Model, id: ChannelId, data: &[u8]) {
    socket_mut(model, id).deliver(data, Vec::new());
    epoll::notify(model, &Kind::Socket(id), READABLE);
}

/// A datagram socket notices that its peer is gone when it sends, and is unconnected from then on.
fn send_to_the_dead(model: &mut Model, id: ChannelId) -> Errno {
    if socket(model, id).connection_based() {
        return Errno::EPIPE;
    }
    disconnect(model, id);
    Errno::ECONNREFUSED
}

/// Ends a datagram socket's connection: what came over it and was not read is lost, and a peer that is still
/// connected here hears of a reset.
pub fn disconnect(model: &mut Model, id: ChannelId) {
    let peer = live_peer(model, id).map(|(peer, _)| peer);
    let this = socket_mut(model, id);
    this.state = State::Unconnected;
    let lost = this.inbox.discard();
    if let Some(peer) = peer {
        let other = socket_mut(model, peer);
        if other.peer() == Some(id) {
            other.error = Some(Errno::ECONNRESET);
        }
        epoll::notify(model, &Kind::Socket(peer), PollEvents::all());
    }
    release_rights(model, lost);
}

/// One more try of a call that has moved part of its bytes already. It tells its caller of those, so what went wrong since is left for the next call to tell, as TCP
/// does. (A Unix socket forgets it.)
pub(crate) fn resumed<T>(
    model: &mut Model,
    id: ChannelId,
    go_on: impl FnOnce(&mut Model) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let error = socket(model, id).error;
    let result = go_on(model);
    let this = socket_mut(model, id);
    if result.is_err() && this.is_inet() && this.style == Style::Stream {
        this.error = error;
    }
    result
}

/// Takes what is there. `EAGAIN` if that is nothing and more may come; an end of file is `end`.
pub fn receive(model: &mut Model, id: ChannelId, max: usize, peek: bool) -> Result<Received, Errno> {
    let this = socket_mut(model, id);
    if this.is_connecting() {
        return Err(Errno::EAGAIN);
    }
    if this.connection_based() && !this.is_connected() {
        // What a failed connect left.
        this.take_error()?;
        if this.shut.read && this.is_inet() && !this.is_listening() {
            return Ok(Received::end());
        }
        let errno = if this.style == Style::Stream && !this.is_inet() {
            Errno::EINVAL
        } else {
            Errno::ENOTCONN
        };
        return Err(errno);
    }
    // Errors overtake records but not stream bytes, nor the end that was there before them.
    let is_over = this.style == Style::Stream && this.error == Some(Errno::EPIPE);
    if (this.style != Style::Stream || this.is_empty()) && !is_over {
        this.take_error()?;
    }
    if this.is_empty() {
        return if this.shut.read {
            Ok(Received::end())
        } else {
            Err(Errno::EAGAIN)
        };
    }
    let got = match peek {
        true => this.inbox.clone().take(this.style, max),
        false => this.inbox.take(this.style, max),
    };
    if !peek {
        let overheard = &mut model.channels.overheard;
        overheard.note(|| Heard::Taken(id, got.full_len, got.from.clone()));
    }
    if peek {
        for &right in &got.rights {
            model.files.retain(right);
        }
    } else if let Some((sender, _)) = live_peer(model, id) {
        tell_of_room(model, sender);
    } else {
        // There is room for more from outside.
        model.channels.outside.stale = true;
        flight::it_went_on(model);
    }
    Ok(got)
}

fn tell_of_room(model: &mut Model, sender: ChannelId) {
    if poll(model, sender).contains(PollEvents::OUT) {
        epoll::notify(model, &Kind::Socket(sender), WRITABLE);
    }
}

/// `shutdown`: the peer of a connection sees the other half.
pub fn shutdown(model: &mut Model, id: ChannelId, read: bool, write: bool) {
    let this = socket_mut(model, id);
    if read && this.is_inet() && this.is_listening() {
        return stop_listening(model, id);
    }
    this.shut.read |= read;
    this.shut.write |= write;
    let (connection_based, is_inet) = (this.connection_based(), this.is_inet());
    if let Some(key) = this.key().filter(|_| write).cloned() {
        model.channels.outside.outbox.push(Told::Finish(key));
    }
    epoll::notify(model, &Kind::Socket(id), PollEvents::all());
    if write {
        model.channels.overheard.note(|| Heard::Finished(id));
    }
    if let Some((peer, _)) = live_peer(model, id)
        && connection_based
    {
        let other = socket_mut(model, peer);
        other.shut.read |= write;
        // TCP does not say that nobody listens any more.
        other.shut.write |= read && !is_inet;
        epoll::notify(model, &Kind::Socket(peer), PollEvents::all());
    }
}

/// A TCP socket that is shut down for reading listens no more: who has come and was not accepted is told of a reset.
fn stop_listening(model: &mut Model, id: ChannelId) {
    let state = std::mem::replace(&mut socket_mut(model, id).state, State::Unconnected);
    if let State::Listening(listening) = state {
        for embryo in &listening.backlog {
            named::refuse(model, *embryo);
        }
    }
    model.channels.outside.flights.remove(&id);
    epoll::notify(model, &Kind::Socket(id), PollEvents::all());
}

/// The connection breaks, whoever or whatever broke it: both ends are told, this one by whoever asked for it.
pub fn reset(model: &mut Model, id: ChannelId) {
    let peer = live_peer(model, id).map(|(peer, _)| peer);
    let this = socket_mut(model, id);
    this.shut = Shut::BOTH;
    let lost = this.inbox.discard();
    if let Some(key) = this.key().cloned() {
        model.channels.outside.outbox.push(Told::Reset(key));
    }
    epoll::notify(model, &Kind::Socket(id), PollEvents::all());
    model.channels.overheard.note(|| Heard::Broken(id));
    if let Some(peer) = peer {
        let other = socket_mut(model, peer);
        other.error = Some(Errno::ECONNRESET);
        other.shut = Shut::BOTH;
        epoll::notify(model, &Kind::Socket(peer), PollEvents::all());
    }
    release_rights(model, lost);
}

/// The last descriptor is gone. A peer that was sent data which nobody will read is told of a reset.
pub fn close(model: &mut Model, id: ChannelId) {
    let peer = live_peer(model, id).map(|(peer, _)| peer);
    let has_more = flight::has_data(model, id);
    let Some(mut this) = model.channels.sockets.remove(&id) else {
        return;
    };
    model.channels.outside.flights.remove(&id);
    let aborts = this.is_inet() && this.lingers_not();
    let breaks = aborts || !this.is_empty();
    model.channels.overheard.note(|| match breaks {
        true => Heard::Broken(id),
        false => Heard::Closed(id),
    });
    if let Some(peer) = peer
        && this.connection_based()
    {
        let other = socket_mut(model, peer);
        other.shut.read = true;
        // TCP finds out when it sends; see `named::send`.
        other.shut.write |= !this.is_inet();
        // The kernel passes over an empty packet at the front.
        let passed = !this.is_empty() && this.inbox.next_len() == 0;
        if this.waiting() > usize::from(passed) || aborts {
            other.error = Some(Errno::ECONNRESET);
            other.shut.write = true;
        }
        epoll::notify(model, &Kind::Socket(peer), PollEvents::all());
    }
    let outbox = &mut model.channels.outside.outbox;
    match &this.state {
        State::Remote(remote) | State::Connecting(Some(remote)) => {
            outbox.extend(farewell(&this, &remote.key, aborts, has_more));
        }
        State::Datagrams(datagrams) => {
            outbox.extend(datagrams.correspondents.values().cloned().map(Told::Close));
        }
        State::Listening(listening) => {
            for embryo in &listening.backlog {
                named::refuse(model, *embryo);
            }
        }
        State::Local(_) | State::Unconnected | State::Connecting(None) | State::Netlink(_) => {}
    }
    if let Some(peer) = peer
        && !this.is_empty()
    {
        // What is thrown away no longer fills the sender's buffer.
        tell_of_room(model, peer);
    }
    release_rights(model, this.inbox.discard());
}

/// What another program is told of a close: that there is an end; or, if something was left unread, that the connection is broken off; or both, if that something
/// came after the end.
fn farewell(this: &Socket, key: &Key, aborts: bool, has_more: bool) -> Vec<Told> {
    let end = Told::Finish(key.clone());
    let reset = Told::Reset(key.clone());
    match this.style {
        Style::Stream if aborts || !this.is_empty() => vec![reset],
        Style::Stream if has_more => vec![end, reset],
        _ => vec![Told::Close(key.clone())],
    }
}

/// Descriptors that nobody will receive. (Sockets that hold each other in their queues stay, where the kernel
/// has a garbage collector.)
fn release_rights(model: &mut Model, lost: Vector<Message>) {
    for right in lost.into_iter().flat_map(|message| message.rights) {
        model.release(right);
    }
}
