//! Logs with vector clocks, which ShiViz draws as a space-time diagram: threads and peers are its hosts.

use super::messages::Message;
use super::view::View;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What each host was known to have done.
type Clock = BTreeMap<String, u64>;

#[derive(Default)]
struct Log {
    text: String,
    /// The clock of each host after its last event.
    latest: BTreeMap<String, Clock>,
}

impl Log {
    /// One more event at a host, which knows what `causes` knew.
    fn event<'a>(&mut self, host: &str, causes: impl IntoIterator<Item = &'a Clock>, event: &str) -> Clock {
        let mut clock = self.latest.get(host).cloned().unwrap_or_default();
        for cause in causes {
            for (other, &time) in cause {
                let known = clock.entry(other.clone()).or_default();
                *known = (*known).max(time);
            }
        }
        *clock.entry(host.to_owned()).or_default() += 1;
        let event = event.trim_end().replace('\n', " ");
        let _ = writeln!(self.text, "{host} {}\n{event}", json!(clock));
        self.latest.insert(host.to_owned(), clock.clone());
        clock
    }
}

/// A log for ShiViz: its parser expression, then per event a vector clock and what happened.
pub fn shiviz(view: &View) -> String {
    let mut arriving: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for edge in &view.edges {
        arriving.entry(edge.to).or_default().push(edge.from);
    }
    let mut said: BTreeMap<usize, Vec<&Message>> = BTreeMap::new();
    for message in &view.messages {
        said.entry(message.step).or_default().push(message);
    }
    let mut log = Log::default();
    let mut clocks: Vec<Clock> = Vec::with_capacity(view.steps.len());
    for row in &view.steps {
        let messages = said.get(&row.step).map_or(&[][..], Vec::as_slice);
        // What the thread reads in this step the peer has said before.
        let heard: Vec<Clock> = messages
            .iter()
            .filter(|message| message.thread.is_some() && !message.is_outward())
            .map(|message| log.event(&peer(view, message), [], &at_peer(message)))
            .collect();
        let edges = arriving.get(&row.step).into_iter().flatten();
        let causes: Vec<&Clock> = edges.map(|&from| &clocks[from]).chain(&heard).collect();
        let event = format!("{} {}  {}", row.step, row.operation, row.location);
        let clock = log.event(&host(view, row.thread), causes, &event);
        for message in messages {
            match message.thread {
                Some(_) if message.is_outward() => {
                    log.event(&peer(view, message), [&clock], &at_peer(message));
                }
                Some(_) => {}
                None => {
                    log.event(&peer(view, message), [], &at_peer(message));
                }
            }
        }
        clocks.push(clock);
    }
    format!("(?<host>\\S*) (?<clock>{{.*}})\\n(?<event>.*)\n\n{}", log.text)
}

/// A thread as a host: with its process, if there are several.
fn host(view: &View, thread: u32) -> String {
    let lane = view.lanes.iter().find(|lane| lane.thread == thread);
    match lane.and_then(|lane| lane.process) {
        Some(process) if process == thread => format!("process-{process}"),
        Some(process) => format!("process-{process}-thread-{thread}"),
        None => format!("thread-{thread}"),
    }
}

/// A host's name has no spaces.
fn peer(view: &View, message: &Message) -> String {
    let name = view.peers.get(message.peer).map_or("?", |peer| &peer.name);
    format!("peer-{}", name.replace(char::is_whitespace, "_"))
}

/// A message as the peer sees it.
fn at_peer(message: &Message) -> String {
    match message.kind {
        "send" => format!("hears {}", message.label()),
        "receive" | "unread" => format!("says {}", message.label()),
        _ if message.is_outward() => format!("the program {}", message.label()),
        _ => message.label(),
    }
}
