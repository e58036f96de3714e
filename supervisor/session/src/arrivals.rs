//! What has arrived when a thread looks: a choice.
//!
//! An operation that can tell what has arrived from peers has alternatives (`syscall_model::net::observe`): here they get their numbers, are made
//! true before the operation is performed, and are put into words.

use super::context::Threads;
use super::enabled::Movers;
use super::network::PeerNetwork;
use super::{Alternative, Session};
use explore::Footprint;
use failure::Failure;
use syscall_model::Model;
use syscall_model::channels::ChannelId;
use syscall_model::net::flight::{Cargo, Thing};
use syscall_model::net::observe::{self, Landing, Way};
use syscall_model::{Pending, Tid, WaitFor, Wake};

/// The number of an alternative, by its place in the list. The first, that all has arrived, has the number of operations without alternatives.
fn number(index: usize) -> u32 {
    match index as u32 {
        0 => Alternative::Plain.number(),
        way => Alternative::Arrival(way).number(),
    }
}

/// What may have arrived in a state.
#[derive(Clone, Copy)]
pub struct Arrivals<'a> {
    pub(super) model: &'a Model,
    pub(super) threads: &'a Threads,
    pub(super) network: &'a PeerNetwork,
    pub(super) movers: Movers<'a>,
}

impl<'a> Arrivals<'a> {
    /// The alternatives that the next operation of a thread has, by number. Just one if it cannot tell.
    pub fn alternatives(self, tid: Tid) -> Vec<u32> {
        let count = match self.may_break_in(tid) {
            true => 2,
            false => self.ways(tid).len().max(1),
        };
        (0..count).map(number).collect()
    }

    /// A signal is to be delivered to a thread whose call would wait if nothing had arrived: it came before the call, which is made afterwards, or broke into it.
    fn may_break_in(self, tid: Tid) -> bool {
        let thread = self.model.thread(tid);
        matches!(thread.pending, Pending::Call(_))
            && self.model.deliverable(tid).is_some()
            && thread.wait.is_some()
            && self.only_arrivals_help(tid)
    }

    /// What may have arrived when this thread performs its operation.
    fn ways(self, tid: Tid) -> Vec<Way> {
        if self.model.channels.flights().is_empty() {
            return Vec::new();
        }
        let thread = self.model.thread(tid);
        // A handler comes first.
        if !matches!(thread.pending, Pending::Call(_)) || self.model.signals.deliverable(thread).is_some() {
            return Vec::new();
        }
        let Some(context) = self.threads.get(&tid) else {
            return Vec::new();
        };
        let wait = thread.wait.as_ref().map(|wait| &wait.on);
        let mut ways = match (&context.observes, &context.look, wait) {
            (Some(observation), _, _) => observe::ways(self.model, observation),
            (None, Some(WaitFor::Ready(on)), _) => observe::ways_to_be_ready(self.model, tid, on, true),
            (None, None, Some(WaitFor::Ready(on))) => observe::ways_to_be_ready(self.model, tid, on, false),
            _ => Vec::new(),
        };
        if !ways.is_empty() && self.model.woken_by_what_is_there(tid) == Some(Wake::TimedOut) {
            ways.extend(observe::too_late(self.model, &ways));
        }
        ways
    }

    /// Would time pass if it were not for clients that have yet to come? They may as well come after that.
    pub fn clients_may_wait(self) -> bool {
        if self.movers.is_over || self.model.channels.flights().is_empty() {
            return false;
        }
        let now = self.model.clock.now();
        let passes = self.model.next_deadline().is_some_and(|deadline| deadline > now);
        passes && self.movers.able().all(|tid| self.awaits_only_newcomers(tid))
    }

    fn awaits_only_newcomers(self, tid: Tid) -> bool {
        let wait = self.model.thread(tid).wait.as_ref().map(|wait| &wait.on);
        match wait {
            Some(WaitFor::Ready(on)) => {
                self.model.deliverable(tid).is_none()
                    && self.model.woken_by_what_is_there(tid).is_none()
                    && observe::only_newcomers_may_come(self.model, on)
            }
            _ => false,
        }
    }

    /// Does the next operation of a thread receive what comes to this socket, or look whether something has come? Nobody else can tell what happens to it before.
    pub(super) fn somebody_receives_at(self, id: ChannelId) -> bool {
        self.model.tids().into_iter().any(|tid| {
            let Some(context) = self.threads.get(&tid) else {
                return false;
            };
            let wait = self.model.thread(tid).wait.as_ref().map(|wait| &wait.on);
            match (&context.observes, &context.look, wait) {
                (Some(observation), _, _) => observation.socket() == Some(id),
                (None, Some(WaitFor::Ready(on)), _) | (None, None, Some(WaitFor::Ready(on))) => {
                    observe::looks_at(self.model, on, id)
                }
                _ => false,
            }
        })
    }

    /// Where arrivals change what the next operation of a thread does.
    pub(super) fn and_arrivals(self, tid: Tid, footprint: Footprint) -> Footprint {
        if self.model.channels.flights().is_empty() {
            return footprint;
        }
        let Some(context) = self.threads.get(&tid) else {
            return footprint;
        };
        let wait = self.model.thread(tid).wait.as_ref().map(|wait| &wait.on);
        let on = match (&context.observes, &context.look, wait) {
            // It takes what it sees: its footprint says so. But what it does even if no peer answers, it does to what may be broken.
            (Some(observation), _, _) => {
                let doubtful = observe::doubtful(self.model, observation);
                return doubtful.into_iter().fold(footprint, |footprint, id| {
                    footprint.and_write(super::footprint::channel(id))
                });
            }
            (None, Some(WaitFor::Ready(on)), _) | (None, None, Some(WaitFor::Ready(on))) => on,
            _ => return footprint,
        };
        let sockets = observe::looked_at(self.model, on);
        sockets.into_iter().fold(footprint, |footprint, id| {
            footprint.and_write(super::footprint::channel(id))
        })
    }

    /// Could the operation of this thread be one that sees nothing, though something is on its way?
    pub(super) fn only_arrivals_help(self, tid: Tid) -> bool {
        self.model.wake_reason(tid).is_some() && self.model.woken_by_what_is_there(tid).is_none()
    }

    fn words(self, way: &Way) -> String {
        let mut parts: Vec<String> = way.landings.iter().map(|landing| self.landing(landing)).collect();
        let missed = way.missed.iter().filter_map(|&id| self.missed(id));
        parts.extend(missed);
        parts.join("; ")
    }

    fn landing(self, landing: &Landing) -> String {
        let flights = self.model.channels.flights();
        let cargo = flights.get(&landing.socket()).map(|flight| &flight.cargo);
        match (landing, cargo) {
            (Landing::Things(id, count), Some(Cargo::Stream(things))) => {
                let whose = self.end_name(*id);
                let last = count.checked_sub(1).and_then(|last| things.get(last));
                let what = match last {
                    Some(Thing::End) => format!("the end of {whose} has arrived"),
                    Some(Thing::Closed) => format!("the close by {whose} has arrived"),
                    Some(Thing::Reset | Thing::Broken) => format!("the reset by {whose} has arrived"),
                    Some(Thing::Connected) => format!("the connection to {whose} is established"),
                    Some(Thing::Refused(_)) => "the connection is refused".to_owned(),
                    _ => format!("data of {whose} has arrived"),
                };
                match things.len() - count {
                    0 => what,
                    more => format!("{what}, {more} more in transit"),
                }
            }
            (Landing::Caller(_, client), _) => {
                format!(
                    "{} is the next to have connected",
                    self.network.client_name(*client)
                )
            }
            (Landing::From(id, senders), _) => {
                let names: Vec<String> = senders.iter().map(|from| self.sender_name(*id, from)).collect();
                format!("a datagram of {} has arrived", names.join(", "))
            }
            (Landing::Some(_, count), Some(Cargo::Callers(_))) => match count {
                1 => "a client has connected".to_owned(),
                _ => format!("{count} clients have connected"),
            },
            (Landing::Some(_, count), _) => match count {
                1 => "a datagram has arrived".to_owned(),
                _ => format!("{count} datagrams have arrived"),
            },
            (Landing::Things(..), _) => "data has arrived".to_owned(),
        }
    }

    fn missed(self, id: ChannelId) -> Option<String> {
        let flight = self.model.channels.flights().get(&id)?;
        Some(match &flight.cargo {
            Cargo::Stream(things) => {
                let whose = self.end_name(id);
                match things.front() {
                    Some(Thing::Data(_)) => format!("data of {whose} is late"),
                    Some(Thing::Connected) => format!("the connection to {whose} is not established yet"),
                    Some(Thing::Refused(_)) => "the refusal of the connection has not arrived yet".to_owned(),
                    _ => format!("the end of {whose} is late"),
                }
            }
            Cargo::Callers(callers) => {
                let names = callers
                    .iter()
                    .map(|caller| self.network.client_name(caller.client));
                format!("{} late", is_or_are(names.collect()))
            }
            Cargo::Datagrams(senders) => {
                let names = senders.keys().map(|from| self.sender_name(id, from));
                format!("datagrams: {} late", is_or_are(names.collect()))
            }
        })
    }

    fn end_name(self, id: ChannelId) -> String {
        match self.model.channels.socket(id).and_then(|socket| socket.key()) {
            Some(key) => self.network.name_of(key),
            None => "a peer".to_owned(),
        }
    }

    fn sender_name(self, id: ChannelId, from: &syscall_model::net::Endpoint) -> String {
        let socket = self.model.channels.socket(id);
        let key = socket.and_then(|socket| socket.datagrams()?.correspondents.get(from));
        key.map_or_else(|| from.to_string(), |key| self.network.name_of(key))
    }
}

impl Session {
    /// Lets arrive what arrives by this alternative.
    pub(super) fn arrive(&mut self, tid: Tid, alternative: u32) -> Result<(), Failure> {
        self.choice.arrived = None;
        self.choice.breaks_in = alternative == number(1) && self.arrivals().may_break_in(tid);
        if self.choice.breaks_in {
            self.choice.arrived = Some("nothing had arrived when the signal came".to_owned());
            return Ok(());
        }
        let ways = self.arrivals().ways(tid);
        let index = (0..ways.len()).find(|&index| number(index) == alternative);
        let Some(index) = index else {
            return match alternative {
                0 => Ok(()),
                _ => Err(Failure::desync(format!(
                    "thread {tid} was to see arrivals by alternative {alternative}, and there are {} now",
                    ways.len()
                ))),
            };
        };
        let way = &ways[index];
        if ways.len() > 1 {
            self.choice.arrived = Some(self.arrivals().words(way));
        }
        observe::land(&mut self.model, way);
        Ok(())
    }
}

fn is_or_are(names: Vec<String>) -> String {
    match names.len() {
        1 => format!("{} is", names[0]),
        _ => format!("{} are", names.join(" and ")),
    }
}
