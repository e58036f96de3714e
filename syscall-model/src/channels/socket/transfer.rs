//! What goes from one end to the other: bytes, records, descriptors, and the news that an end is shut or gone.

use super::{
    Link, Message, READABLE, Received, Socket, Style, WRITABLE, in_flight, live_peer, poll, socket,
    socket_mut,
};
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
    if this.connecting {
        return Err(Errno::EAGAIN);
    }
    if let Link::Peer(key) = &this.link
        && this.style != Style::Datagram
    {
        let key = key.clone();
        return send_to_peer(model, id, key, data);
    }
    if this.is_inet() {
        return named::send(model, id, data);
    }
    let this = socket_mut(model, id);
    if netlink::is_netlink(this) {
        return netlink::send(model, id, data);
    }
    if let Link::Peer(key) = this.link.clone() {
        return send_to_peer(model, id, key, data);
    }
    let unconnected = this.link == Link::Unconnected;
    if this.style != Style::Stream {
        this.take_error()?;
    }
    if unconnected && this.connection_based() {
        return Err(Errno::ENOTCONN);
    }
    if this.style != Style::Stream && data.len() > this.options.send_buffer - 32 {
        return Err(Errno::EMSGSIZE);
    }
    if this.write_shut {
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
    if receiver.read_shut {
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
pub(in crate::channels) fn send_to_peer(
    model: &mut Model,
    id: ChannelId,
    key: Key,
    data: &[u8],
) -> Result<usize, Errno> {
    let this = socket(model, id);
    if this.error.is_some() {
        socket_mut(model, id).take_error()?;
    } else if this.write_shut {
        return Err(Errno::EPIPE);
    }
    if data.is_empty() {
        return Ok(0);
    }
    let this = socket(model, id);
    let under_way = this.unread_there.saturating_add(about_to_be_told(model, &key));
    let len = data.len().min(this.window().saturating_sub(under_way));
    if len < data.len() {
        socket_mut(model, id).is_full = true;
    }
    if len == 0 {
        return Err(Errno::EAGAIN);
    }
    model.channels.outbox.push(Told::Bytes(key, data[..len].to_vec()));
    Ok(len)
}

/// What this call has already said on a connection.
fn about_to_be_told(model: &Model, key: &Key) -> usize {
    let told = model.channels.outbox.iter();
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
        this.deliver_from(data, Vec::new(), Some(from.clone()));
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
    this.link = Link::Unconnected;
    this.charged = 0;
    let lost = std::mem::take(&mut this.incoming);
    if let Some(peer) = peer {
        let other = socket_mut(model, peer);
        if other.link == Link::Local(id) {
            other.error = Some(Errno::ECONNRESET);
        }
        epoll::notify(model, &Kind::Socket(peer), PollEvents::all());
    }
    release_rights(model, lost);
}

/// Takes what is there. `EAGAIN` if that is nothing and more may come; an end of file is `end`.
pub fn receive(model: &mut Model, id: ChannelId, max: usize, peek: bool) -> Result<Received, Errno> {
    let this = socket_mut(model, id);
    if this.connecting {
        return Err(Errno::EAGAIN);
    }
    if this.connection_based() && this.link == Link::Unconnected {
        // What a failed connect left.
        this.take_error()?;
        if this.read_shut && this.is_inet() && this.listening.is_none() {
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
    if (this.style != Style::Stream || this.incoming.is_empty()) && !is_over {
        this.take_error()?;
    }
    if this.incoming.is_empty() {
        return if this.read_shut {
            Ok(Received::end())
        } else {
            Err(Errno::EAGAIN)
        };
    }
    let mut looked_at;
    let from = if peek {
        looked_at = this.clone();
        &mut looked_at
    } else {
        this
    };
    let got = match from.style {
        Style::Stream => from.take_stream(max),
        _ => from.take_record(max),
    };
    if peek {
        for &right in &got.rights {
            model.files.retain(right);
        }
    } else if let Some((sender, _)) = live_peer(model, id) {
        tell_of_room(model, sender);
    } else {
        // There is room for more from outside.
        model.channels.stale = true;
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
    this.read_shut |= read;
    this.write_shut |= write;
    let (connection_based, is_inet) = (this.connection_based(), this.is_inet());
    if let Link::Peer(key) = &this.link
        && write
    {
        let told = Told::Finish(key.clone());
        model.channels.outbox.push(told);
    }
    epoll::notify(model, &Kind::Socket(id), PollEvents::all());
    if let Some((peer, _)) = live_peer(model, id)
        && connection_based
    {
        let other = socket_mut(model, peer);
        other.read_shut |= write;
        // TCP does not say that nobody listens any more.
        other.write_shut |= read && !is_inet;
        epoll::notify(model, &Kind::Socket(peer), PollEvents::all());
    }
}

/// The connection breaks, whoever or whatever broke it: both ends are told, this one by whoever asked for it.
pub fn reset(model: &mut Model, id: ChannelId) {
    let peer = live_peer(model, id).map(|(peer, _)| peer);
    let this = socket_mut(model, id);
    (this.read_shut, this.write_shut) = (true, true);
    let lost = std::mem::take(&mut this.incoming);
    this.charged = 0;
    if let Link::Peer(key) = this.link.clone() {
        model.channels.outbox.push(Told::Reset(key));
    }
    epoll::notify(model, &Kind::Socket(id), PollEvents::all());
    if let Some(peer) = peer {
        let other = socket_mut(model, peer);
        other.error = Some(Errno::ECONNRESET);
        (other.read_shut, other.write_shut) = (true, true);
        epoll::notify(model, &Kind::Socket(peer), PollEvents::all());
    }
    release_rights(model, lost);
}

/// The last descriptor is gone. A peer that was sent data which nobody will read is told of a reset.
pub fn close(model: &mut Model, id: ChannelId) {
    let peer = live_peer(model, id).map(|(peer, _)| peer);
    let has_more = flight::has_data(model, id);
    let Some(this) = model.channels.sockets.remove(&id) else {
        return;
    };
    model.channels.flights.remove(&id);
    let aborts = this.is_inet() && this.lingers_not();
    if let Some(peer) = peer
        && this.connection_based()
    {
        let other = socket_mut(model, peer);
        other.read_shut = true;
        // TCP finds out when it sends; see `named::send`.
        other.write_shut |= !this.is_inet();
        // The kernel passes over an empty packet at the front.
        let passed = this.incoming.front().is_some_and(|first| first.bytes.is_empty());
        if this.incoming.len() > usize::from(passed) || aborts {
            other.error = Some(Errno::ECONNRESET);
            other.write_shut = true;
        }
        epoll::notify(model, &Kind::Socket(peer), PollEvents::all());
    }
    if let Link::Peer(key) = &this.link {
        model
            .channels
            .outbox
            .extend(farewell(&this, key, aborts, has_more));
    }
    for key in this.correspondents.values() {
        model.channels.outbox.push(Told::Close(key.clone()));
    }
    for embryo in this.listening.iter().flat_map(|listening| &listening.backlog) {
        named::refuse(model, *embryo);
    }
    if let Some(peer) = peer
        && !this.incoming.is_empty()
    {
        // What is thrown away no longer fills the sender's buffer.
        tell_of_room(model, peer);
    }
    release_rights(model, this.incoming);
}

/// What another program is told of a close: that there is an end; or, if something was left unread, that the connection is broken off; or both, if that something
/// came after the end.
fn farewell(this: &Socket, key: &Key, aborts: bool, has_more: bool) -> Vec<Told> {
    let end = Told::Finish(key.clone());
    let reset = Told::Reset(key.clone());
    match this.style {
        Style::Stream if aborts || !this.incoming.is_empty() => vec![reset],
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
