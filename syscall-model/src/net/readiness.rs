//! Looks at readiness: what `poll`, `select` and `epoll_wait` can tell of arrivals.

use super::flight::{self, Arrivals, Cargo};
use super::observe::{Counts, Landing, Way};
use crate::channels::socket;
use crate::channels::{ChannelId, EpollId};
use crate::fd::{Kind, OfdId, PollEvents};
use crate::model::Model;
use crate::thread::Tid;
use std::collections::BTreeMap;

/// While so few sources have something on its way, all their subsets are alternatives; of more, each alone and all together.
const FEW: usize = 3;
/// No observation has more alternatives than about this many.
pub(super) const MANY: usize = 64;

/// A socket at which a look for readiness could see more than it does.
pub(super) struct Source {
    pub(super) id: ChannelId,
    /// What may have arrived there: alternatives, the most last.
    pub(super) options: Vec<Landing>,
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
            Some(&Kind::Socket(id)) if model.channels.outside.flights.contains_key(&id) => {
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
    let (Some(flight), Some(socket)) = (
        model.channels.outside.flights.get(&id),
        model.channels.sockets.get(&id),
    ) else {
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
        let more = thing.shows(socket.shut.write);
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
    !model.channels.outside.flights.is_empty() && !watched(model, on).sources(model).is_empty()
}

/// Could nothing arrive at these but clients that have not come yet, and may they come later still?
pub fn only_newcomers_may_come(model: &Model, on: &[(OfdId, PollEvents)]) -> bool {
    let sources = watched(model, on).sources(model);
    !sources.is_empty()
        && sources
            .iter()
            .all(|source| flight::may_come_later(model, source.id))
}

/// The sockets where arrivals matter to a look at these.
pub fn looked_at(model: &Model, on: &[(OfdId, PollEvents)]) -> Vec<ChannelId> {
    match model.channels.outside.flights.is_empty() {
        true => Vec::new(),
        false => watched(model, on).sockets.into_keys().collect(),
    }
}

/// Is this socket among those that a look is about, itself or by way of an epoll set?
pub fn looks_at(model: &Model, on: &[(OfdId, PollEvents)], socket: ChannelId) -> bool {
    let sees = |id: OfdId| match model.files.get(id).map(|description| &description.kind) {
        Some(Kind::Socket(id)) => *id == socket,
        Some(Kind::Epoll(id)) => {
            let set = model.channels.epolls.get(id);
            set.is_some_and(|epoll| epoll.watches(&Kind::Socket(socket)))
        }
        _ => false,
    };
    on.iter().any(|&(id, _)| sees(id))
}

/// The ways in which a look at readiness by `tid` can find things. `may_fail`: it does not wait. The first is that all has arrived.
pub fn ways_to_be_ready(model: &Model, tid: Tid, on: &[(OfdId, PollEvents)], may_fail: bool) -> Vec<Way> {
    let Arrivals::Any { late } = model.channels.outside.arrivals else {
        return Vec::new();
    };
    if model.channels.outside.flights.is_empty() {
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
    let mut ways = Way::all(&sources, all.in_order);
    let flights = ids.iter().filter_map(|id| model.channels.outside.flights.get(id));
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
pub(super) fn combinations(sources: &[Source], in_order: bool) -> Vec<Vec<Landing>> {
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
