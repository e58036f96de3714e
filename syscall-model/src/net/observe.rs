//! Observations: operations by which the program can tell what has arrived, and the ways in which things may have.
//!
//! Arrivals are no transitions of their own. What has arrived matters only where something can tell, so an operation that can has *alternatives*: sets of
//! things in flight that are there by then. Alternatives that the operation could not tell apart are one. A plain blocking read of a connection with one
//! answer on its way has one alternative, which is no choice.

use super::flight::{self, Arrivals, Cargo, Flight, Thing};
use super::readiness::{MANY, Source, combinations};
pub use super::readiness::{
    looked_at, looks_at, may_become_ready, only_newcomers_may_come, ways_to_be_ready,
};
use super::{Caller, Endpoint};
use crate::channels::ChannelId;
use crate::channels::socket::{Socket, Style};
use crate::model::Model;
use std::collections::BTreeSet;

/// What an operation looks at, beyond what the readiness that it waits for says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// It takes bytes of a stream, or a datagram.
    Receive {
        socket: ChannelId,
        max: usize,
        /// Bytes that must be there before it returns.
        least: usize,
        /// It returns without any rather than wait.
        may_fail: bool,
        /// It leaves what it sees where it is.
        peeks: bool,
        /// Datagrams that it takes at most.
        datagrams: u32,
    },
    Accept {
        socket: ChannelId,
        may_fail: bool,
    },
    /// It closes the connection: a client that has something unread on its way to it can tell whether that had arrived.
    Close {
        socket: ChannelId,
    },
    /// It ends the process, and with it all connections.
    Exit,
    /// It asks how much there is.
    Count {
        socket: ChannelId,
    },
    /// It asks whether the connection is in order, or uses it in a way that fails if it is not.
    Health {
        socket: ChannelId,
        may_miss: bool,
        /// It can also tell that a connection stands which was under way.
        connects: bool,
    },
}

/// One arrival, or several of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landing {
    /// So many things on a connection.
    Things(ChannelId, usize),
    /// So many callers or datagrams more, whichever they are.
    Some(ChannelId, u32),
    /// This one is the next to be accepted.
    Caller(ChannelId, u32),
    /// The next datagrams are from these, in this order.
    From(ChannelId, Vec<Endpoint>),
}

impl Landing {
    pub fn socket(&self) -> ChannelId {
        match self {
            Landing::Things(id, _) | Landing::Some(id, _) | Landing::Caller(id, _) | Landing::From(id, _) => {
                *id
            }
        }
    }
}

/// What has arrived when an observation is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// In the order of arrival.
    pub landings: Vec<Landing>,
    /// Where something is on its way that this observation could have seen, and does not.
    pub missed: Vec<ChannelId>,
    pub(super) counts: Counts,
}

/// Whether one may see as little as that again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Counts {
    /// Something arrives or is taken: that comes to an end by itself.
    #[default]
    No,
    /// It finds nothing: what it misses is late.
    Late,
    /// It finds something else that is left where it is: what it misses is passed over.
    Passed,
}

/// The ways in which an observation can find things; the first is that all that is on its way has arrived. Empty if there is nothing to arrive.
pub fn ways(model: &Model, observation: &Observation) -> Vec<Way> {
    if *observation == Observation::Exit {
        return ways_to_exit(model);
    }
    let Some((id, flight, late)) = flight_of(model, observation) else {
        return Vec::new();
    };
    let found = match *observation {
        Observation::Receive {
            socket, datagrams, ..
        } => match &flight.cargo {
            Cargo::Datagrams(senders) => receive_datagram(model, socket, flight, senders, datagrams),
            Cargo::Stream(things) => receive(model, observation, things),
            Cargo::Callers(_) => Vec::new(),
        },
        Observation::Accept { socket, .. } => match &flight.cargo {
            Cargo::Callers(callers) => accept(model, socket, flight, callers),
            Cargo::Stream(_) | Cargo::Datagrams(_) => Vec::new(),
        },
        Observation::Count { socket } => match &flight.cargo {
            Cargo::Datagrams(senders) => receive_datagram(model, socket, flight, senders, 1),
            Cargo::Stream(things) => count(socket, things),
            Cargo::Callers(_) => Vec::new(),
        },
        Observation::Close { socket } => close(model, socket, flight),
        Observation::Health { socket, connects, .. } => match &flight.cargo {
            Cargo::Stream(things) => health(socket, things, connects),
            Cargo::Callers(_) | Cargo::Datagrams(_) => Vec::new(),
        },
        Observation::Exit => Vec::new(),
    };
    let mut ways: Vec<Way> = found.into_iter().map(|landing| Way::of(landing, id)).collect();
    ways.extend(without_arrival(
        model,
        observation,
        (id, flight),
        late,
        ways.len(),
    ));
    ways
}

/// The way in which a wait, whose time is over, finds nothing of all that it could find by these. It is none of those that may be late so often only: the time
/// that it had is over just once.
pub fn too_late(model: &Model, ways: &[Way]) -> Option<Way> {
    let is_possible = matches!(model.channels.outside.arrivals, Arrivals::Any { late: 1.. });
    if ways.iter().any(|way| way.landings.is_empty()) || !is_possible {
        return None;
    }
    let landings = ways.iter().flat_map(|way| &way.landings);
    let missed: BTreeSet<ChannelId> = landings.map(Landing::socket).collect();
    (!missed.is_empty()).then(|| Way {
        missed: missed.into_iter().collect(),
        ..Way::default()
    })
}

/// All that clients have said and the program has not read is there when it ends, or only some of it.
fn ways_to_exit(model: &Model) -> Vec<Way> {
    let Arrivals::Any { late } = model.channels.outside.arrivals else {
        return Vec::new();
    };
    let flights = model.channels.outside.flights.iter();
    let sources: Vec<Source> = flights
        .map(|(&id, flight)| Source {
            id,
            options: close(model, id, flight).into_iter().flatten().collect(),
        })
        .filter(|source| !source.options.is_empty())
        .collect();
    if sources.is_empty() {
        return Vec::new();
    }
    let mut ways = Way::all(&sources, false);
    if late > 0 {
        ways.push(Way {
            missed: sources.iter().map(|source| source.id).collect(),
            ..Way::default()
        });
    }
    ways
}

impl Way {
    fn of(landings: Vec<Landing>, socket: ChannelId) -> Self {
        let missed = if landings.is_empty() {
            vec![socket]
        } else {
            Vec::new()
        };
        Self {
            landings,
            missed,
            counts: Counts::No,
        }
    }

    /// What may have arrived at these, all together first.
    pub(super) fn all(sources: &[Source], in_order: bool) -> Vec<Self> {
        let ways = combinations(sources, in_order).into_iter();
        ways.map(|landings| {
            let is_missed = |id: &ChannelId| !landings.iter().any(|landing| landing.socket() == *id);
            Self {
                missed: sources.iter().map(|source| source.id).filter(is_missed).collect(),
                landings,
                counts: Counts::No,
            }
        })
        .collect()
    }
}

impl Observation {
    /// The one socket that it is about.
    pub fn socket(&self) -> Option<ChannelId> {
        match *self {
            Observation::Receive { socket, .. }
            | Observation::Accept { socket, .. }
            | Observation::Count { socket }
            | Observation::Close { socket }
            | Observation::Health { socket, .. } => Some(socket),
            Observation::Exit => None,
        }
    }
}

/// The socket that can be used only if its connection is in order, if something on its way says whether it is.
pub fn doubtful(model: &Model, observation: &Observation) -> Option<ChannelId> {
    let is_asked = matches!(observation, Observation::Health { .. }) && !ways(model, observation).is_empty();
    observation.socket().filter(|_| is_asked)
}

fn flight_of<'m>(model: &'m Model, observation: &Observation) -> Option<(ChannelId, &'m Flight, u32)> {
    let Arrivals::Any { late } = model.channels.outside.arrivals else {
        return None;
    };
    let id = observation.socket()?;
    Some((id, model.channels.outside.flights.get(&id)?, late))
}

/// That nothing has arrived yet, where the operation can find that: what it waits for is late, or it goes by what is there already.
fn without_arrival(
    model: &Model,
    observation: &Observation,
    (id, flight): (ChannelId, &Flight),
    late: u32,
    others: usize,
) -> Option<Way> {
    let socket = model.channels.sockets.get(&id)?;
    let is_there = !socket.is_empty() || socket.shut.read || flight.arrived > 0;
    let (may_fail, keeps) = match *observation {
        Observation::Receive { may_fail, peeks, .. } => (may_fail, peeks),
        Observation::Accept { may_fail, .. } => (may_fail, false),
        Observation::Count { .. } => (true, true),
        Observation::Health { may_miss, .. } => (may_miss, true),
        Observation::Close { .. } | Observation::Exit => (true, true),
    };
    let is_health = matches!(
        observation,
        Observation::Health { .. } | Observation::Close { .. }
    );
    let possible = match is_there && !is_health {
        // It is what `receive` offers, if it takes something away; if not it could be done for ever.
        true => keeps && others > 0 && flight.passed < late && flight.arrived == 0,
        false => may_fail && flight.late < late && others > 0,
    };
    possible.then(|| Way {
        landings: Vec::new(),
        missed: vec![id],
        counts: if is_there && !is_health {
            Counts::Passed
        } else {
            Counts::Late
        },
    })
}

/// A receive on a stream: what it returns decides. All that can come in is the first way.
fn receive(model: &Model, observation: &Observation, things: &imbl::Vector<Thing>) -> Vec<Vec<Landing>> {
    let Observation::Receive {
        socket: id,
        max,
        least,
        may_fail,
        peeks,
        ..
    } = *observation
    else {
        return Vec::new();
    };
    let Some(socket) = model.channels.sockets.get(&id).filter(|_| max > 0) else {
        return Vec::new();
    };
    let (mut bytes, mut over) = (socket.available(), socket.shut.read || socket.error.is_some());
    let enough = if may_fail { 1 } else { least.clamp(1, max) };
    let mut found: Vec<(usize, usize)> = Vec::new();
    for count in 0..=things.len() {
        if let Some(thing) = count.checked_sub(1).and_then(|last| things.get(last)) {
            bytes += thing.len();
            over |= thing.is_last();
        }
        let got = bytes.min(max);
        let differs = found.last().is_none_or(|&(_, before)| before != got);
        if (over || got >= enough) && differs && !(count == 0 && peeks) {
            found.push((count, got));
        }
    }
    if found.is_empty() {
        return match may_fail {
            true => Vec::new(),
            // It takes what there is, and waits on.
            false => vec![vec![Landing::Things(id, things.len())]],
        };
    }
    let landing = |(count, _): (usize, usize)| match count {
        0 => Vec::new(),
        _ => vec![Landing::Things(id, count)],
    };
    let ways: Vec<_> = found.into_iter().rev().map(landing).collect();
    // What is there already, and nothing else: no arrival at all.
    if ways == [Vec::new()] { Vec::new() } else { ways }
}

/// `FIONREAD` on a stream: every number of bytes.
fn count(id: ChannelId, things: &imbl::Vector<Thing>) -> Vec<Vec<Landing>> {
    let counts = (1..=things.len()).filter(|&count| things[count - 1].len() > 0);
    let ways = counts.map(|count| vec![Landing::Things(id, count)]);
    ways.rev().collect()
}

/// Is there something unread when a connection is closed? What nobody will be told needs no answer.
fn close(model: &Model, id: ChannelId, flight: &Flight) -> Vec<Vec<Landing>> {
    let Cargo::Stream(things) = &flight.cargo else {
        return Vec::new();
    };
    let socket = model.channels.sockets.get(&id);
    let is_open = socket.is_some_and(|s| s.client().is_some() && s.style == Style::Stream && s.is_empty());
    let first = things.iter().position(|thing| thing.len() > 0);
    let landing = |first: usize| vec![Landing::Things(id, first + 1)];
    first.filter(|_| is_open).map(landing).into_iter().collect()
}

/// Does a reset, or the result of a connect, get there before the operation does?
fn health(id: ChannelId, things: &imbl::Vector<Thing>, connects: bool) -> Vec<Vec<Landing>> {
    let is_told = |thing: &Thing| match thing {
        Thing::Reset | Thing::Closed | Thing::Broken | Thing::Refused(_) => true,
        Thing::Connected => connects,
        Thing::Data(_) | Thing::End => false,
    };
    let told = things.iter().position(is_told);
    told.map(|at| vec![Landing::Things(id, at + 1)])
        .into_iter()
        .collect()
}

/// Who is accepted. Clients that are twins are told apart by nobody: the first of them stands for all.
fn accept(model: &Model, id: ChannelId, flight: &Flight, callers: &[Caller]) -> Vec<Vec<Landing>> {
    let listening = model.channels.sockets.get(&id).and_then(Socket::listening);
    let own = listening.is_some_and(|listening| !listening.backlog.is_empty());
    if own || flight.chosen.is_some() {
        return Vec::new();
    }
    let different = callers.iter().filter(|caller| !caller.is_twin);
    different
        .map(|caller| vec![Landing::Caller(id, caller.client)])
        .collect()
}

/// Whose datagrams are received: as many as the call takes, or fewer, in any order.
fn receive_datagram(
    model: &Model,
    id: ChannelId,
    _: &Flight,
    senders: &imbl::OrdMap<Endpoint, imbl::Vector<Vec<u8>>>,
    most: u32,
) -> Vec<Vec<Landing>> {
    let is_there = model
        .channels
        .sockets
        .get(&id)
        .is_some_and(|socket| !socket.is_empty());
    if is_there {
        return Vec::new();
    }
    let all = senders
        .iter()
        .flat_map(|(from, queue)| std::iter::repeat_n(from.clone(), queue.len()));
    let mut orders: Vec<Vec<Endpoint>> = vec![all.take(most.max(1) as usize).collect()];
    let mut begun = vec![Vec::new()];
    // Shorter ones first: if there are too many, each is alone at least.
    while let Some(longer) =
        longer_orders(&begun, senders, most).filter(|longer| orders.len() + longer.len() <= MANY)
    {
        orders.extend(longer.iter().cloned());
        begun = longer;
    }
    let mut different: Vec<Vec<Endpoint>> = Vec::new();
    for order in orders {
        if !different.contains(&order) {
            different.push(order);
        }
    }
    different
        .into_iter()
        .map(|order| vec![Landing::From(id, order)])
        .collect()
}

/// These orders of senders, each with one datagram more; `None` if there are none.
fn longer_orders(
    begun: &[Vec<Endpoint>],
    senders: &imbl::OrdMap<Endpoint, imbl::Vector<Vec<u8>>>,
    most: u32,
) -> Option<Vec<Vec<Endpoint>>> {
    let mut longer = Vec::new();
    for order in begun.iter().filter(|order| order.len() < most.max(1) as usize) {
        for (from, queue) in senders {
            if order.iter().filter(|taken| *taken == from).count() < queue.len() {
                longer.push([order.as_slice(), std::slice::from_ref(from)].concat());
            }
        }
    }
    (!longer.is_empty()).then_some(longer)
}

/// Lets things arrive.
pub fn land(model: &mut Model, way: &Way) {
    for landing in &way.landings {
        match landing {
            Landing::Things(id, count) => flight::land_things(model, *id, *count),
            Landing::Some(id, count) => flight::land_some(model, *id, *count),
            Landing::Caller(id, client) => flight::land_caller(model, *id, *client),
            Landing::From(id, senders) => {
                for from in senders {
                    flight::land_datagram(model, *id, from);
                }
            }
        }
    }
    for flight in way.missed.iter().filter(|_| way.counts != Counts::No) {
        if let Some(flight) = model.channels.outside.flights.get_mut(flight) {
            match way.counts {
                Counts::Passed => flight.passed += 1,
                Counts::Late | Counts::No => flight.late += 1,
            }
        }
    }
}
