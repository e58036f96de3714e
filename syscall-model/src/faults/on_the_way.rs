//! What the network does to datagrams of peers on their way to the program: requests of clients as well as answers. No call goes wrong, so these are steps of the
//! environment.

use super::Faults;
use crate::channels::ChannelId;
use crate::channels::socket::Style;
use crate::model::Model;
use crate::net::Key;
use crate::net::flight::{self, Cargo};
use imbl::Vector;

/// What happens to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mishap {
    Lost,
    Duplicated,
    /// It comes before those that its sender sent before it.
    Overtaking,
}

impl Mishap {
    /// Their places are their numbers in traces, so new ones go to the end.
    pub const ALL: [Mishap; 3] = [Mishap::Lost, Mishap::Duplicated, Mishap::Overtaking];

    fn kind(self) -> Faults {
        match self {
            Mishap::Lost => Faults::LOSS,
            Mishap::Duplicated => Faults::DUPLICATE,
            Mishap::Overtaking => Faults::REORDER,
        }
    }

    /// Does it to the element at this place.
    pub(crate) fn befall<T: Clone>(self, queue: &mut Vector<T>, place: usize) {
        match self {
            Mishap::Lost => drop(queue.remove(place)),
            Mishap::Duplicated => {
                if let Some(again) = queue.get(place).cloned() {
                    queue.insert(place + 1, again);
                }
            }
            Mishap::Overtaking => {
                let first = queue.remove(place);
                queue.push_front(first);
            }
        }
    }

    /// In a few words, for a line of a trace.
    pub fn words(self) -> &'static str {
        match self {
            Mishap::Lost => "a datagram to the program is lost",
            Mishap::Duplicated => "a datagram to the program is duplicated",
            Mishap::Overtaking => "a datagram to the program overtakes earlier ones",
        }
    }
}

/// The datagram with this number among those on their way to one socket: by sender, and in order from each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OnTheWay {
    pub mishap: Mishap,
    pub socket: ChannelId,
    pub number: usize,
}

/// All that may happen to datagrams that are on their way now.
pub fn mishaps(model: &Model, wanted: Faults) -> Vec<OnTheWay> {
    let mut found = Vec::new();
    for (&socket, this) in &model.channels.sockets {
        if this.style != Style::Datagram || !this.is_inet() {
            continue;
        }
        for (number, place) in places(model, socket).into_iter().enumerate() {
            for mishap in Mishap::ALL
                .into_iter()
                .filter(|mishap| wanted.contains(mishap.kind()))
            {
                // The first has none to overtake.
                if mishap != Mishap::Overtaking || place > 0 {
                    found.push(OnTheWay {
                        mishap,
                        socket,
                        number,
                    });
                }
            }
        }
    }
    found
}

/// Of each datagram on its way to a socket, its place among those of its sender. Where nothing is kept in flight it is what clients have sent that waits in the socket: the
/// kernel may still find it damaged.
fn places(model: &Model, socket: ChannelId) -> Vec<usize> {
    let flight = model.channels.outside.flights.get(&socket);
    match flight.map(|flight| &flight.cargo) {
        // All of them have arrived, though it is open in which order.
        Some(_) if flight.is_some_and(|flight| flight.on_the_way() == 0) => Vec::new(),
        Some(Cargo::Datagrams(senders)) => senders.values().flat_map(|queue| 0..queue.len()).collect(),
        _ if flight::is_any(model) => Vec::new(),
        _ => {
            let this = model.channels.sockets.get(&socket).filter(|this| this.serves());
            this.map_or_else(Vec::new, |this| (0..this.waiting()).collect())
        }
    }
}

/// The connection on which the datagram came, and its place among those of its sender that were not received.
pub fn whose(model: &Model, what: OnTheWay) -> Option<(Key, usize)> {
    let socket = model.channels.sockets.get(&what.socket)?;
    let place = *places(model, what.socket).get(what.number)?;
    let (from, place) = match model
        .channels
        .outside
        .flights
        .get(&what.socket)
        .map(|flight| &flight.cargo)
    {
        Some(Cargo::Datagrams(senders)) => {
            let mut all = senders
                .iter()
                .flat_map(|(from, queue)| std::iter::repeat_n(from, queue.len()));
            (all.nth(what.number)?.clone(), place)
        }
        _ => {
            let waiting = socket.waiting_from();
            let from = (*waiting.get(what.number)?)?;
            let before = waiting[..what.number]
                .iter()
                .filter(|other| **other == Some(from));
            (from.clone(), before.count())
        }
    };
    Some((socket.datagrams()?.correspondents.get(&from)?.clone(), place))
}

/// It happens; false if there is no such datagram.
pub fn happens(model: &mut Model, what: OnTheWay) -> bool {
    if !mishaps(model, what.mishap.kind()).contains(&what) {
        return false;
    }
    match flight::is_any(model) {
        true => flight::mishap(model, what.socket, what.number, what.mishap),
        false => {
            if let Some(socket) = model.channels.sockets.get_mut(&what.socket) {
                socket.mishap(what.number, what.mishap);
            }
        }
    }
    true
}
