//! What the program and its peers said to each other, each message at the step in which the program sent or read it.
//!
//! A peer's answer comes to the program's socket with the operation that elicited it and is read by a later step, of another thread
//! perhaps: between the two it waits. Views draw a message at the step of the program, and where it waited.

use super::view::Wait;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use trace::{Connection, Event, Trace, Transport, What};

/// Of a longer message the views show the beginning; a packet capture has all of it.
const SHOWN: usize = 4096;

/// A column of the diagram beside the threads: the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Peer {
    /// As reports call the connection.
    pub name: String,
    /// The peer's command, where it is known.
    pub command: String,
    /// `tcp`, `udp` or `unix`.
    pub transport: String,
    /// The program's address and the peer's, as the program sees them.
    pub local: Option<String>,
    pub remote: Option<String>,
    /// From the step that opened it…
    pub from: usize,
    /// … to the one that closed it, or `None` if it was there until the end.
    pub to: Option<usize>,
}

/// Something said, or done, on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Index of the peer.
    pub peer: usize,
    /// `open`, `accept`, `refused`, `send`, `receive`, `unread`, `finish`, `close`: of the program. `end`, `reset`: of the peer.
    pub kind: &'static str,
    /// The program's step.
    pub step: usize,
    /// The thread of the step, if it is its doing.
    pub thread: Option<u32>,
    /// The step at which it had come to the program's socket, for what was received.
    pub since: Option<usize>,
    /// Nanoseconds since 1970 on the virtual clock.
    pub time: u64,
    pub bytes: usize,
    /// What was said, as text with escapes, and exactly; of a long message the beginning.
    pub text: String,
    pub hex: String,
}

impl Message {
    /// From the program to its peer?
    pub fn is_outward(&self) -> bool {
        matches!(
            self.kind,
            "open" | "refused" | "send" | "finish" | "close" | "break"
        )
    }

    /// In a few words.
    pub fn label(&self) -> String {
        match self.kind {
            "send" | "receive" => self.quoted(),
            "unread" => format!("{} (never read)", self.quoted()),
            "open" => "connects".to_owned(),
            "accept" => "connects".to_owned(),
            "refused" => "connects and is refused".to_owned(),
            "finish" => "ends its side".to_owned(),
            "close" => "closes".to_owned(),
            "break" => "resets the connection".to_owned(),
            "end" => "ends its side".to_owned(),
            other => format!("{other}s"),
        }
    }

    fn quoted(&self) -> String {
        let more = if self.bytes > SHOWN { "…" } else { "" };
        format!("\"{}{more}\"", self.text)
    }
}

pub fn peers(trace: &Trace) -> Vec<Peer> {
    let traffic = trace.traffic.with_others();
    let step_of = |connection: usize, is_it: fn(&What) -> bool| {
        let mut events = traffic.events.iter();
        events
            .find(|event| event.connection as usize == connection && is_it(&event.what))
            .map(|event| event.step as usize)
    };
    let peer = |(index, connection): (usize, &Connection)| Peer {
        name: connection.name.clone(),
        command: connection.peer.clone(),
        transport: connection.transport.to_string(),
        local: connection.local.map(|address| address.to_string()),
        remote: connection.remote.map(|address| address.to_string()),
        from: step_of(index, |what| matches!(what, What::Opened | What::Refused)).unwrap_or(0),
        to: step_of(index, |what| {
            matches!(what, What::Closed | What::Broken | What::Refused)
        }),
    };
    traffic.connections.iter().enumerate().map(peer).collect()
}

/// Data that has come and was not read yet: when, and what.
type Waiting = VecDeque<(Event, Vec<u8>)>;

/// In the order of their steps; their peers are those of `peers`.
pub fn messages(trace: &Trace) -> Vec<Message> {
    let traffic = trace.traffic.with_others();
    let mut waiting: Vec<Waiting> = vec![Waiting::new(); traffic.connections.len()];
    let mut all = Vec::new();
    for event in &traffic.events {
        let index = event.connection as usize;
        let Some(connection) = traffic.connections.get(index) else {
            continue;
        };
        let kind = match &event.what {
            What::Opened if connection.accepted => "accept",
            What::Opened => "open",
            What::Refused => "refused",
            What::Sent(_) => "send",
            What::Read(_) => "receive",
            What::Finished => "finish",
            What::Closed => "close",
            What::Broken => "break",
            What::Ended => "end",
            What::Reset => "reset",
            What::Arrived(data) => {
                waiting[index].push_back((event.clone(), data.clone()));
                continue;
            }
        };
        match &event.what {
            What::Sent(data) => all.push(message(trace, event, kind, data, None)),
            What::Read(count) if connection.transport == Transport::Udp => {
                let count = waiting[index].len().min(*count as usize);
                for (arrival, data) in waiting[index].drain(..count) {
                    all.push(message(trace, event, kind, &data, Some(arrival.step as usize)));
                }
            }
            What::Read(count) => {
                let (data, since) = take(&mut waiting[index], *count as usize);
                all.push(message(trace, event, kind, &data, since));
            }
            _ => all.push(message(trace, event, kind, &[], None)),
        }
    }
    for (event, data) in waiting.into_iter().flatten() {
        let mut unread = message(trace, &event, "unread", &data, Some(event.step as usize));
        unread.thread = None;
        all.push(unread);
    }
    all.sort_by_key(|message| message.step);
    all
}

/// The next bytes of a stream, and when the last of them had come.
fn take(waiting: &mut Waiting, count: usize) -> (Vec<u8>, Option<usize>) {
    let (mut data, mut since) = (Vec::new(), None);
    while data.len() < count
        && let Some((arrival, bytes)) = waiting.front_mut()
    {
        let part = (count - data.len()).min(bytes.len());
        data.extend(bytes.drain(..part));
        since = Some(arrival.step as usize);
        if bytes.is_empty() {
            waiting.pop_front();
        }
    }
    (data, since)
}

fn message(trace: &Trace, event: &Event, kind: &'static str, data: &[u8], since: Option<usize>) -> Message {
    let step = event.step as usize;
    let is_own = !matches!(event.what, What::Ended | What::Reset);
    let thread = trace.steps.get(step).map(|step| step.thread);
    let shown = &data[..data.len().min(SHOWN)];
    Message {
        peer: event.connection as usize,
        kind,
        step,
        thread: thread.filter(|thread| is_own && *thread != 0),
        since,
        time: event.time,
        bytes: data.len(),
        text: readable(shown),
        hex: hex(shown),
    }
}

/// A thread that read what came only after its step before had nothing to do until then.
pub fn waits(trace: &Trace, messages: &[Message], peers: &[Peer]) -> Vec<Wait> {
    let mut last: HashMap<u32, usize> = HashMap::new();
    let mut before = Vec::with_capacity(trace.steps.len());
    for (number, step) in trace.steps.iter().enumerate() {
        before.push(last.insert(step.thread, number));
    }
    let received = messages.iter().filter(|message| message.kind == "receive");
    let wait = |message: &Message| {
        let (thread, from) = (message.thread?, before.get(message.step).copied()??);
        let name = &peers[message.peer].name;
        message.since.filter(|&since| since > from).map(|since| Wait {
            thread,
            from,
            to: Some(since),
            why: format!("waits for data from {name}"),
        })
    };
    received.filter_map(wait).collect()
}

/// Text as it is, everything else escaped.
fn readable(data: &[u8]) -> String {
    let mut text = String::with_capacity(data.len());
    for chunk in data.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push('"'),
                c if c.is_control() => text.extend(c.escape_default()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

fn hex(data: &[u8]) -> String {
    let mut text = String::with_capacity(data.len() * 2);
    for byte in data {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
