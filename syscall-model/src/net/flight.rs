//! What peers have said, or want, and the program could not notice yet: *in flight*.
//!
//! Under [`Arrivals::Any`] nothing that comes from a peer is in a modelled socket until an [observation](super::observe) finds it there. On one
//! connection things arrive in their order; between connections there is none. Which of several clients is the next to be accepted, and which of several
//! datagrams the next to be received, is not decided before the program can tell: until then it is only known *how many* have arrived.

use super::{Caller, Endpoint};
use crate::channels::socket::{self, READABLE, Shut, Socket};
use crate::channels::{ChannelId, epoll, named};
use crate::faults::Mishap;
use crate::fd::{Kind, PollEvents};
use crate::model::Model;
use imbl::{OrdMap, Vector};
use serde::{Deserialize, Serialize};
use syscalls::Errno;

/// `--arrivals`: when the program can notice what peers say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Arrivals {
    /// At once, and clients come in the order of the command line.
    #[default]
    Ordered,
    /// In any order, and each thing up to so many times later than the program looks for it.
    Any { late: u32 },
}

/// One thing on its way on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Thing {
    /// What a peer said in one go.
    Data(Vec<u8>),
    End,
    Reset,
    /// An end, and what is said to the peer reaches nobody.
    Closed,
    /// After its end: what was said to the peer has reached nobody.
    Broken,
    /// The connection that the program asks for stands.
    Connected,
    /// It does not come about.
    Refused(Errno),
}

impl Thing {
    /// Nothing more comes after it.
    pub(crate) fn is_last(&self) -> bool {
        matches!(
            self,
            Thing::End | Thing::Reset | Thing::Closed | Thing::Broken | Thing::Refused(_)
        )
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Thing::Data(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// What becomes true of a socket when it arrives; `write_shut`: the program has ended its own side.
    pub(crate) fn shows(&self, write_shut: bool) -> PollEvents {
        let gone = READABLE | PollEvents::RDHUP;
        match self {
            Thing::Data(_) => READABLE,
            Thing::End if write_shut => gone | PollEvents::HUP,
            Thing::Closed => gone | PollEvents::HUP,
            Thing::End => gone,
            Thing::Reset | Thing::Broken => gone | PollEvents::HUP | PollEvents::ERR,
            Thing::Connected => PollEvents::OUT | PollEvents::WRNORM,
            Thing::Refused(_) => {
                gone | PollEvents::HUP | PollEvents::ERR | PollEvents::OUT | PollEvents::WRNORM
            }
        }
    }
}

/// What is on its way to one socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cargo {
    /// On a connection, in this order.
    Stream(Vector<Thing>),
    /// Clients that have connected to a listening socket, in the order of the command line.
    Callers(Vec<Caller>),
    /// Datagrams by sender: in order from each, in none between them.
    Datagrams(OrdMap<Endpoint, Vector<Vec<u8>>>),
}

impl Cargo {
    pub(crate) fn count(&self) -> usize {
        match self {
            Cargo::Stream(things) => things.len(),
            Cargo::Callers(callers) => callers.len(),
            Cargo::Datagrams(senders) => senders.values().map(Vector::len).sum(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flight {
    pub cargo: Cargo,
    /// So many of the callers or datagrams have arrived; which ones is still open.
    pub(crate) arrived: u32,
    /// The caller that is the next to be accepted, if that is decided.
    pub(crate) chosen: Option<u32>,
    /// How often the program has looked for what comes next, and found nothing.
    pub(crate) late: u32,
    /// How often it has looked without seeing this, since it last took or said something: it found something else.
    pub(crate) passed: u32,
    /// How often time has passed before these clients came, since the program last took or said something.
    pub(crate) overdue: u32,
}

impl Flight {
    fn new(cargo: Cargo) -> Self {
        Self {
            cargo,
            arrived: 0,
            chosen: None,
            late: 0,
            passed: 0,
            overdue: 0,
        }
    }

    /// Something of it has arrived: what is left has not been missed yet.
    fn begin_anew(&mut self) {
        (self.late, self.passed, self.overdue) = (0, 0, 0);
    }

    /// Is there data of a stream among it?
    pub(crate) fn has_data(&self) -> bool {
        matches!(&self.cargo, Cargo::Stream(things) if things.iter().any(|thing| thing.len() > 0))
    }

    /// How many could still arrive.
    pub(crate) fn on_the_way(&self) -> u32 {
        (self.cargo.count() as u32).saturating_sub(self.arrived)
    }
}

/// Is anything kept in flight at all?
pub(crate) fn is_any(model: &Model) -> bool {
    matches!(model.channels.outside.arrivals, Arrivals::Any { .. })
}

/// More has come for a stream: at once into the socket, or in flight.
pub(crate) fn push(model: &mut Model, id: ChannelId, thing: Thing) {
    if !is_any(model) {
        return arrive(model, id, thing);
    }
    match &mut flight(model, id, || Cargo::Stream(Vector::new())).cargo {
        Cargo::Stream(things) => things.push_back(thing),
        Cargo::Callers(_) | Cargo::Datagrams(_) => debug_assert!(false, "a stream has things"),
    }
}

/// A connect of a socket that does not wait: whether it comes about is told later.
pub(crate) fn connect(model: &mut Model, id: ChannelId, thing: Thing) {
    if let Some(socket) = model.channels.sockets.get_mut(&id) {
        socket.state.starts_connecting();
    }
    push(model, id, thing);
}

/// A datagram has come.
pub(crate) fn push_datagram(model: &mut Model, id: ChannelId, from: &Endpoint, bytes: Vec<u8>) {
    if !is_any(model) {
        return socket::deliver_datagram(model, id, from, &bytes);
    }
    match &mut flight(model, id, || Cargo::Datagrams(OrdMap::new())).cargo {
        Cargo::Datagrams(senders) => senders.entry(from.clone()).or_default().push_back(bytes),
        Cargo::Stream(_) | Cargo::Callers(_) => debug_assert!(false, "a datagram socket has datagrams"),
    }
}

/// These clients want to be accepted; true if it were others before.
pub(crate) fn set_callers(model: &mut Model, id: ChannelId, callers: Vec<Caller>) -> bool {
    let known = model
        .channels
        .outside
        .flights
        .get(&id)
        .map(|flight| &flight.cargo);
    match known {
        None if callers.is_empty() => return false,
        Some(Cargo::Callers(known)) if *known == callers => return false,
        _ => {}
    }
    if callers.is_empty() {
        model.channels.outside.flights.remove(&id);
        return true;
    }
    let flight = flight(model, id, || Cargo::Callers(Vec::new()));
    flight.arrived = flight.arrived.min(callers.len() as u32);
    flight
        .chosen
        .take_if(|chosen| !callers.iter().any(|caller| caller.client == *chosen));
    flight.cargo = Cargo::Callers(callers);
    true
}

fn flight(model: &mut Model, id: ChannelId, empty: impl Fn() -> Cargo) -> &mut Flight {
    let flights = &mut model.channels.outside.flights;
    flights.entry(id).or_insert_with(|| Flight::new(empty()))
}

/// Datagrams of this sender that are on their way.
pub fn datagrams_from(model: &Model, id: ChannelId, from: &Endpoint) -> usize {
    match model
        .channels
        .outside
        .flights
        .get(&id)
        .map(|flight| &flight.cargo)
    {
        Some(Cargo::Datagrams(senders)) => senders.get(from).map_or(0, Vector::len),
        _ => 0,
    }
}

/// Bytes of a stream that are on their way.
pub fn bytes(model: &Model, id: ChannelId) -> usize {
    match model
        .channels
        .outside
        .flights
        .get(&id)
        .map(|flight| &flight.cargo)
    {
        Some(Cargo::Stream(things)) => things.iter().map(Thing::len).sum(),
        _ => 0,
    }
}

/// Will anything more come on this stream after what is on its way?
pub(crate) fn is_over(model: &Model, id: ChannelId) -> bool {
    match model
        .channels
        .outside
        .flights
        .get(&id)
        .map(|flight| &flight.cargo)
    {
        Some(Cargo::Stream(things)) => things.last().is_some_and(Thing::is_last),
        _ => false,
    }
}

/// Has the peer ended its side of this stream, and may it still come out that it hears nothing?
pub(crate) fn has_only_ended(model: &Model, id: ChannelId) -> bool {
    let Some(socket) = model.channels.sockets.get(&id) else {
        return false;
    };
    let is_last_an_end = match model
        .channels
        .outside
        .flights
        .get(&id)
        .map(|flight| &flight.cargo)
    {
        Some(Cargo::Stream(things)) => things.last() == Some(&Thing::End),
        _ => socket.remote().is_some_and(|remote| remote.ended),
    };
    is_last_an_end && !socket.shut.write
}

/// Is there data on its way on this stream?
pub(crate) fn has_data(model: &Model, id: ChannelId) -> bool {
    model
        .channels
        .outside
        .flights
        .get(&id)
        .is_some_and(Flight::has_data)
}

/// Have callers or datagrams arrived of which it is not decided yet which they are?
pub(crate) fn has_arrived(model: &Model, id: ChannelId) -> bool {
    let flight = model.channels.outside.flights.get(&id);
    flight.is_some_and(|flight| flight.arrived > 0)
}

/// The program has taken something, or said something: whatever else is on its way may again come after the next.
pub(crate) fn it_went_on(model: &mut Model) {
    let flights = model.channels.outside.flights.iter();
    let passed: Vec<ChannelId> = flights
        .filter(|(_, flight)| flight.passed > 0 || flight.overdue > 0)
        .map(|(id, _)| *id)
        .collect();
    for id in passed {
        if let Some(flight) = model.channels.outside.flights.get_mut(&id) {
            (flight.passed, flight.overdue) = (0, 0);
        }
    }
}

/// Are all who have something on their way to this socket clients that the program knows nothing of, while it has met others? Then they may come later still,
/// however long that takes: who has not come yet keeps nobody waiting.
pub(crate) fn may_come_later(model: &Model, id: ChannelId) -> bool {
    let Arrivals::Any { late } = model.channels.outside.arrivals else {
        return false;
    };
    let Some(flight) = model.channels.outside.flights.get(&id) else {
        return false;
    };
    let are_new = match &flight.cargo {
        Cargo::Stream(_) => false,
        Cargo::Callers(_) => true,
        Cargo::Datagrams(senders) => {
            let this = model.channels.sockets.get(&id).and_then(Socket::datagrams);
            this.is_some_and(|this| this.serves && !senders.keys().any(|from| this.heard.contains(from)))
        }
    };
    are_new && model.channels.outside.clients_met && flight.overdue < late
}

/// Time passes, and the clients that have not come yet come after that.
pub fn let_clients_wait(model: &mut Model) {
    let ids: Vec<ChannelId> = model.channels.outside.flights.keys().copied().collect();
    for id in ids
        .into_iter()
        .filter(|&id| may_come_later(model, id))
        .collect::<Vec<_>>()
    {
        if let Some(flight) = model.channels.outside.flights.get_mut(&id) {
            flight.overdue += 1;
        }
    }
}

/// What a sender has on its way to one socket goes to another.
pub(crate) fn redirect(model: &mut Model, from: ChannelId, to: ChannelId, sender: &Endpoint) {
    let Some(flight) = model.channels.outside.flights.get_mut(&from) else {
        return;
    };
    let Cargo::Datagrams(senders) = &mut flight.cargo else {
        return;
    };
    let moved = senders.remove(sender).unwrap_or_default();
    flight.arrived = flight.arrived.min(flight.cargo.count() as u32);
    if flight.cargo.count() == 0 {
        model.channels.outside.flights.remove(&from);
    }
    for bytes in moved {
        push_datagram(model, to, sender, bytes);
    }
}

/// A thing is there: the socket has it.
pub(crate) fn arrive(model: &mut Model, id: ChannelId, thing: Thing) {
    let Some(socket) = model.channels.sockets.get_mut(&id) else {
        return;
    };
    let mut events = PollEvents::all();
    match thing {
        Thing::Data(bytes) => {
            socket.deliver(&bytes, Vec::new());
            events = READABLE;
        }
        Thing::End => {
            socket.shut.read = true;
            if let Some(remote) = socket.remote_mut() {
                remote.ended = true;
            }
        }
        Thing::Reset => {
            socket.error = Some(Errno::ECONNRESET);
            socket.shut = Shut::BOTH;
        }
        Thing::Closed => socket.shut = Shut::BOTH,
        Thing::Broken => {
            socket.error = Some(Errno::EPIPE);
            socket.shut = Shut::BOTH;
        }
        Thing::Connected => {
            socket.state.stops_connecting();
            socket.state.connect_went_through();
        }
        Thing::Refused(errno) => {
            socket.state.stops_connecting();
            return named::connect_failed(model, id, errno);
        }
    }
    epoll::notify(model, &Kind::Socket(id), events);
}

/// The next `count` things of a stream arrive.
pub(crate) fn land_things(model: &mut Model, id: ChannelId, count: usize) {
    for _ in 0..count {
        let Some(flight) = model.channels.outside.flights.get_mut(&id) else {
            return;
        };
        flight.begin_anew();
        let Cargo::Stream(things) = &mut flight.cargo else {
            return;
        };
        let Some(thing) = things.pop_front() else { return };
        if things.is_empty() {
            model.channels.outside.flights.remove(&id);
        }
        arrive(model, id, thing);
    }
}

/// So many more callers or datagrams have arrived.
pub(crate) fn land_some(model: &mut Model, id: ChannelId, count: u32) {
    let Some(flight) = model.channels.outside.flights.get_mut(&id) else {
        return;
    };
    flight.arrived += count.min(flight.on_the_way());
    flight.begin_anew();
    for _ in 0..count {
        epoll::notify(model, &Kind::Socket(id), READABLE);
    }
}

/// This caller is the next to be accepted.
pub(crate) fn land_caller(model: &mut Model, id: ChannelId, client: u32) {
    if !has_arrived(model, id) {
        land_some(model, id, 1);
    }
    if let Some(flight) = model.channels.outside.flights.get_mut(&id) {
        flight.chosen = Some(client);
    }
}

/// The caller that is accepted now, if one has arrived.
pub(crate) fn take_caller(model: &mut Model, id: ChannelId) -> Option<u32> {
    let flight = model.channels.outside.flights.get_mut(&id)?;
    let Cargo::Callers(callers) = &flight.cargo else {
        return None;
    };
    let client = flight.chosen.or(callers.first().map(|caller| caller.client))?;
    flight.arrived = flight.arrived.checked_sub(1)?;
    flight.chosen = None;
    it_went_on(model);
    Some(client)
}

/// Something happens to the datagram with this number on its way to a socket: counted by sender, and in order from each.
pub(crate) fn mishap(model: &mut Model, id: ChannelId, number: usize, mishap: Mishap) {
    let Some(flight) = model.channels.outside.flights.get_mut(&id) else {
        return;
    };
    let Cargo::Datagrams(senders) = &mut flight.cargo else {
        return;
    };
    let mut before = 0;
    let found = senders.iter().find_map(|(from, queue)| {
        let place = number.checked_sub(before).filter(|place| *place < queue.len());
        before += queue.len();
        place.map(|place| (from.clone(), place))
    });
    let Some((from, place)) = found else { return };
    if let Some(queue) = senders.get_mut(&from) {
        mishap.befall(queue, place);
        if queue.is_empty() {
            senders.remove(&from);
        }
    }
    // One that has arrived may be another now, or there is one fewer.
    flight.arrived = flight.arrived.min(flight.cargo.count() as u32);
    if flight.cargo.count() == 0 {
        model.channels.outside.flights.remove(&id);
    }
}

/// The next datagram to be received is the first one of this sender.
pub(crate) fn land_datagram(model: &mut Model, id: ChannelId, from: &Endpoint) {
    let Some(flight) = model.channels.outside.flights.get_mut(&id) else {
        return;
    };
    let Cargo::Datagrams(senders) = &mut flight.cargo else {
        return;
    };
    let Some(queue) = senders.get_mut(from) else {
        return;
    };
    let bytes = queue.pop_front();
    if queue.is_empty() {
        senders.remove(from);
    }
    flight.arrived = flight.arrived.saturating_sub(1);
    flight.begin_anew();
    if flight.cargo.count() == 0 {
        model.channels.outside.flights.remove(&id);
    }
    if let Some(bytes) = bytes {
        named::met(model, id, from);
        socket::deliver_datagram(model, id, from, &bytes);
    }
}
