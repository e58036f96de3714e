//! Observations: operations by which the program can tell what has arrived, and the ways in which things may have.
//!
//! Arrivals are no transitions of their own. What has arrived matters only where something can tell, so an operation that can has *alternatives*: sets of
//! things in flight that are there by then. Alternatives that the operation could not tell apart are one. A plain blocking read of a connection with one
//! answer on its way has one alternative, which is no choice.

use super::flight::{self, Arrivals, Cargo, Flight, Thing};
use super::{Caller, Endpoint};
use crate::channels::socket;
use crate::channels::{ChannelId, EpollId};
use crate::fd::{Kind, OfdId, PollEvents};
use crate::model::Model;
use crate::thread::Tid;
use std::collections::BTreeMap;

/// While so few sources have something on its way, all their subsets are alternatives; of more, each alone and all together.
const FEW: usize = 3;
/// No observation has more alternatives than about this many.
const MANY: usize = 64;

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
    counts: Counts,
}

/// Whether one may see as little as that again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Counts {
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
    let Some((flight, late)) = flight_of(model, observation) else {
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
        Observation::Health { socket, connects, .. } => match &flight.cargo {
            Cargo::Stream(things) => health(socket, things, connects),
            Cargo::Callers(_) | Cargo::Datagrams(_) => Vec::new(),
        },
    };
    let id = socket_of(observation);
    let mut ways: Vec<Way> = found.into_iter().map(|landing| Way::of(landing, id)).collect();
    ways.extend(without_arrival(model, observation, flight, late, ways.len()));
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
}

fn socket_of(observation: &Observation) -> ChannelId {
    match *observation {
        Observation::Receive { socket, .. }
        | Observation::Accept { socket, .. }
        | Observation::Count { socket }
        | Observation::Health { socket, .. } => socket,
    }
}

fn flight_of<'m>(model: &'m Model, observation: &Observation) -> Option<(&'m Flight, u32)> {
    let Arrivals::Any { late } = model.channels.arrivals else {
        return None;
    };
    let flight = model.channels.flights.get(&socket_of(observation))?;
    Some((flight, late))
}

/// That nothing has arrived yet, where the operation can find that: what it waits for is late, or it goes by what is there already.
fn without_arrival(
    model: &Model,
    observation: &Observation,
    flight: &Flight,
    late: u32,
    others: usize,
) -> Option<Way> {
    let id = socket_of(observation);
    let socket = model.channels.sockets.get(&id)?;
    let is_there = !socket.is_empty() || socket.read_shut || flight.arrived > 0;
    let (may_fail, keeps) = match *observation {
        Observation::Receive { may_fail, peeks, .. } => (may_fail, peeks),
        Observation::Accept { may_fail, .. } => (may_fail, false),
        Observation::Count { .. } => (true, true),
        Observation::Health { may_miss, .. } => (may_miss, true),
    };
    let is_health = matches!(observation, Observation::Health { .. });
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
    let (mut bytes, mut over) = (socket.available(), socket.read_shut || socket.error.is_some());
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

/// Does a reset, or the result of a connect, get there before the operation does?
fn health(id: ChannelId, things: &imbl::Vector<Thing>, connects: bool) -> Vec<Vec<Landing>> {
    let is_told = |thing: &Thing| match thing {
        Thing::Reset | Thing::Refused(_) => true,
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
    let listening = model
        .channels
        .sockets
        .get(&id)
        .and_then(|socket| socket.listening.as_ref());
    let own = listening.is_some_and(|listening| !listening.backlog.is_empty());
    if own || flight.chosen.is_some() {
        return Vec::new();
    }
    let different = callers.iter().filter(|caller| !caller.is_twin);
    different
        .map(|caller| vec![Landing::Caller(id, caller.client)])
        .collect()
}

/// Whose datagram is received. All of them, as far as the call takes them, or one alone.
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
    let alone = senders.keys().map(|from| vec![from.clone()]);
    let mut orders: Vec<Vec<Endpoint>> = Vec::new();
    if most > 1 {
        let all = senders
            .iter()
            .flat_map(|(from, queue)| std::iter::repeat_n(from.clone(), queue.len()));
        orders.push(all.take(most as usize).collect());
    }
    for order in alone {
        if !orders.contains(&order) {
            orders.push(order);
        }
    }
    orders
        .into_iter()
        .map(|order| vec![Landing::From(id, order)])
        .collect()
}

/// A socket at which a look for readiness could see more than it does.
struct Source {
    id: ChannelId,
    /// What may have arrived there: alternatives, the most last.
    options: Vec<Landing>,
}

/// What a look at readiness is about: sockets with the events that are asked for, and whether every change counts.
#[derive(Default)]
struct Watched {
    sockets: BTreeMap<ChannelId, (PollEvents, bool)>,
    /// Things are reported in the order in which they came.
    in_order: bool,
}

impl Watched {
    fn add(&mut self, model: &Model, id: OfdId, events: PollEvents, edges: bool) {
        match model.files.get(id).map(|description| &description.kind) {
            Some(&Kind::Socket(id)) if model.channels.flights.contains_key(&id) => {
                let entry = self.sockets.entry(id).or_insert((PollEvents::empty(), false));
                *entry = (entry.0 | events, entry.1 | edges);
            }
            Some(&Kind::Epoll(id)) if events.contains(PollEvents::IN) => self.add_set(model, id),
            _ => {}
        }
    }

    fn add_set(&mut self, model: &Model, id: EpollId) {
        self.in_order = true;
        let items = model.channels.epolls.get(&id).into_iter();
        for (description, events, edges) in items.flat_map(|epoll| epoll.watched()) {
            if !events.is_empty() {
                self.add(model, description, events, edges);
            }
        }
    }

    fn sources(&self, model: &Model) -> Vec<Source> {
        let sources = self.sockets.iter().map(|(&id, &(events, edges))| Source {
            id,
            options: options(model, id, events, edges),
        });
        sources.filter(|source| !source.options.is_empty()).collect()
    }
}

/// What may have arrived at a socket, as far as a look for `events` can tell.
fn options(model: &Model, id: ChannelId, events: PollEvents, edges: bool) -> Vec<Landing> {
    let (Some(flight), Some(socket)) = (model.channels.flights.get(&id), model.channels.sockets.get(&id))
    else {
        return Vec::new();
    };
    let mut shown = socket::poll(model, id);
    let things = match &flight.cargo {
        Cargo::Stream(things) => things,
        Cargo::Callers(_) | Cargo::Datagrams(_) => {
            let news = events.intersects(socket::READABLE) && (edges || !shown.intersects(socket::READABLE));
            let most = match flight.on_the_way() {
                0 => 0,
                more if edges => more,
                _ => 1,
            };
            return (1..=most)
                .filter(|_| news)
                .map(|count| Landing::Some(id, count))
                .collect();
        }
    };
    let mut options = Vec::new();
    for (before, thing) in things.iter().enumerate() {
        let more = thing.shows(socket.write_shut);
        let is_news = if edges {
            more.intersects(events)
        } else {
            !(shown & events).contains(more & events)
        };
        shown |= more;
        if is_news {
            options.push(Landing::Things(id, before + 1));
        }
    }
    options
}

fn watched(model: &Model, on: &[(OfdId, PollEvents)]) -> Watched {
    let mut all = Watched::default();
    for &(id, events) in on {
        all.add(model, id, events, false);
    }
    all
}

/// Could something arrive that makes one of these ready?
pub fn may_become_ready(model: &Model, on: &[(OfdId, PollEvents)]) -> bool {
    !model.channels.flights.is_empty() && !watched(model, on).sources(model).is_empty()
}

/// The sockets where arrivals matter to a look at these.
pub fn looked_at(model: &Model, on: &[(OfdId, PollEvents)]) -> Vec<ChannelId> {
    match model.channels.flights.is_empty() {
        true => Vec::new(),
        false => watched(model, on).sockets.into_keys().collect(),
    }
}

/// The ways in which a look at readiness by `tid` can find things. `may_fail`: it does not wait. The first is that all has arrived.
pub fn ways_to_be_ready(model: &Model, tid: Tid, on: &[(OfdId, PollEvents)], may_fail: bool) -> Vec<Way> {
    let Arrivals::Any { late } = model.channels.arrivals else {
        return Vec::new();
    };
    if model.channels.flights.is_empty() {
        return Vec::new();
    }
    let all = watched(model, on);
    let sources = all.sources(model);
    if sources.is_empty() {
        return Vec::new();
    }
    let is_ready = on
        .iter()
        .any(|&(id, events)| model.poll_as(Some(tid), id).intersects(events));
    let ids: Vec<ChannelId> = sources.iter().map(|source| source.id).collect();
    let mut ways: Vec<Way> = combinations(&sources, all.in_order)
        .into_iter()
        .map(|landings| {
            let is_missed = |id: &ChannelId| !landings.iter().any(|landing| landing.socket() == *id);
            Way {
                missed: ids.iter().copied().filter(is_missed).collect(),
                landings,
                counts: Counts::No,
            }
        })
        .collect();
    let flights = ids.iter().filter_map(|id| model.channels.flights.get(id));
    let mut flights = flights.map(|flight| if is_ready { flight.passed } else { flight.late });
    if (is_ready || may_fail) && flights.all(|times| times < late) {
        ways.push(Way {
            landings: Vec::new(),
            missed: ids,
            counts: if is_ready { Counts::Passed } else { Counts::Late },
        });
    }
    ways
}

/// All together first; then, of few, every other choice in every order; of many, each alone.
fn combinations(sources: &[Source], in_order: bool) -> Vec<Vec<Landing>> {
    let most = |source: &Source| source.options.last().cloned();
    let all: Vec<Landing> = sources.iter().filter_map(most).collect();
    let mut ways = vec![all.clone()];
    let product: usize = sources
        .iter()
        .map(|source| source.options.len() + 1)
        .fold(1, usize::saturating_mul);
    if sources.len() > FEW || product > MANY {
        let alone = sources.iter().flat_map(|source| source.options.iter());
        ways.extend(alone.map(|landing| vec![landing.clone()]));
        if in_order {
            ways.push(all.into_iter().rev().collect());
        }
    } else {
        for number in 1..product {
            let chosen = chosen(sources, number);
            if in_order {
                permutations(&chosen, &mut Vec::new(), &mut ways);
            } else {
                ways.push(chosen);
            }
        }
    }
    let mut different: Vec<Vec<Landing>> = Vec::new();
    for way in ways {
        if !different.contains(&way) {
            different.push(way);
        }
    }
    different
}

/// The choice with this number: one option of each source, or none.
fn chosen(sources: &[Source], mut number: usize) -> Vec<Landing> {
    let mut chosen = Vec::new();
    for source in sources {
        let radix = source.options.len() + 1;
        if let Some(option) = (number % radix).checked_sub(1) {
            chosen.push(source.options[option].clone());
        }
        number /= radix;
    }
    chosen
}

fn permutations(rest: &[Landing], begun: &mut Vec<Landing>, into: &mut Vec<Vec<Landing>>) {
    if rest.is_empty() {
        into.push(begun.clone());
    }
    for (i, next) in rest.iter().enumerate() {
        begun.push(next.clone());
        let others = [&rest[..i], &rest[i + 1..]].concat();
        permutations(&others, begun, into);
        begun.pop();
    }
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
        if let Some(flight) = model.channels.flights.get_mut(flight) {
            match way.counts {
                Counts::Passed => flight.passed += 1,
                Counts::Late | Counts::No => flight.late += 1,
            }
        }
    }
}
