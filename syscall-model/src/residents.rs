//! Peers that live in the model, beside the program under test: which processes and sockets are theirs, and what the program said to them.
//!
//! A peer that is *resident* is an ordinary process: it has a bank, descriptors, a task. But it is no part of the program: what it prints is not the program's output,
//! its end is not the program's, and what the program sends it is kept as it is kept for a peer outside, by connection.

use crate::channels::ChannelId;
use crate::channels::overheard::{Heard, Speaker};
use crate::channels::socket::{Local, Socket};
use crate::clock::Nanos;
use crate::fd::{Kind, Table};
use crate::model::{Config, Model};
use crate::net::{Endpoint, Key};
use crate::output::Stream;
use crate::process::Process;
use crate::processes::{Ended, Pid};
use crate::signals::Signals;
use crate::thread::{Thread, Tid};
use imbl::OrdMap;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A peer: the how-manieth server or client of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    Server(u32),
    Client(u32),
}

impl Peer {
    /// So many of each there can be: every one has numbers for its processes and for what they make.
    pub const MOST_SERVERS: usize = 12;
    pub const MOST_CLIENTS: usize = 32;
    const FIRST_PID: Pid = 20_000;
    /// Processes and threads of one peer.
    const PIDS: Pid = 1_000;
    /// Ranges of numbers (of descriptions, channels, inodes) for the processes of one peer, and for all processes there are.
    const RANGES: u32 = 48;
    const ALL_RANGES: u32 = 1 << 12;

    fn ordinal(self) -> u32 {
        match self {
            Peer::Server(nth) => nth,
            Peer::Client(nth) => Self::MOST_SERVERS as u32 + nth,
        }
    }

    /// The number of its first process.
    pub fn first_pid(self) -> Pid {
        Self::FIRST_PID + Self::PIDS * self.ordinal()
    }

    /// Which range of numbers a process of this peer takes: they are counted from the end, the program's own from the beginning.
    pub(crate) fn range(self, pid: Pid) -> u32 {
        let nth = pid.wrapping_sub(self.first_pid()) % Self::RANGES;
        Self::ALL_RANGES - Self::RANGES * (self.ordinal() + 1) + nth
    }
}

/// What peers have printed, for people: no part of a state.
#[derive(Clone, Debug, Default)]
struct Printed(OrdMap<Peer, Arc<Vec<u8>>>);

impl PartialEq for Printed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Printed {}

impl Hash for Printed {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// So much of what a peer prints is kept.
const LAST_WORDS: usize = 8 << 10;

/// All that is known of the peers in the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Residents {
    /// The number that the next process or thread of each gets.
    next: OrdMap<Peer, Tid>,
    exits: OrdMap<Peer, Ended>,
    /// How many connections the program has opened to each destination.
    opened: OrdMap<Endpoint, u32>,
    /// How many connections each client has made.
    made: OrdMap<u32, u32>,
    /// What the program has sent, by connection; connections that it has not accepted yet are not among them.
    sent: OrdMap<Key, Stream>,
    /// Who is at the other end of the program's datagram sockets.
    correspondents: OrdMap<(ChannelId, Endpoint), Key>,
    /// Things said between the program and peers, and when the last was.
    words: u64,
    last_word: Nanos,
    printed: Printed,
}

impl Residents {
    /// Are there any?
    pub fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// Has this peer been started?
    pub fn is_started(&self, peer: Peer) -> bool {
        self.next.contains_key(&peer)
    }

    /// How a peer ended, if it has.
    pub fn exit(&self, peer: Peer) -> Option<Ended> {
        self.exits.get(&peer).copied()
    }

    /// Has this client ever connected, or sent a datagram?
    pub fn has_come(&self, client: u32) -> bool {
        self.made.contains_key(&client)
    }

    /// What the program has sent, by connection.
    pub fn sent(&self) -> impl Iterator<Item = (&Key, &Stream)> {
        self.sent.iter()
    }

    /// So many things were said between the program and its peers.
    pub fn words(&self) -> u64 {
        self.words
    }

    /// When something was last said, or done by the program.
    pub fn last_word(&self) -> Nanos {
        self.last_word
    }

    /// The program has moved. Where there are no peers nobody asks when that was, and two states do not differ by it.
    pub fn program_moved(&mut self, now: Nanos) {
        if !self.is_empty() {
            self.last_word = now;
        }
    }

    /// As if no time had passed.
    pub fn without_times(&mut self) {
        self.last_word = Nanos::default();
    }

    /// The last that a peer has printed.
    pub fn last_words(&self, peer: Peer) -> &[u8] {
        self.printed.0.get(&peer).map_or(&[], |text| text)
    }

    fn print(&mut self, peer: Peer, data: &[u8]) {
        let text = Arc::make_mut(self.printed.0.entry(peer).or_default());
        text.extend_from_slice(data);
        let excess = text.len().saturating_sub(LAST_WORDS);
        text.drain(..excess);
    }

    fn opens(&mut self, to: Endpoint) -> Key {
        let count = self.opened.entry(to.clone()).or_default();
        *count += 1;
        let key = Key::Opened(Arc::new(to), *count - 1);
        self.sent.insert(key.clone(), Stream::default());
        key
    }

    fn comes(&mut self, client: u32) -> Key {
        let count = self.made.entry(client).or_default();
        *count += 1;
        Key::Accepted(client, *count - 1)
    }

    fn says(&mut self, now: Nanos) {
        self.words += 1;
        self.last_word = now;
    }
}

impl Model {
    /// A process that nobody in the model has made: a peer begins. Returns its number.
    pub fn add_peer(&mut self, peer: Peer, config: &Config, program: &[u8]) -> Pid {
        let pid = peer.first_pid();
        let mut process = Process::new(&Config {
            pid,
            ..config.clone()
        });
        process.first = config.pid;
        process.peer = Some(peer);
        self.residents.next.insert(peer, pid + 1);
        let mut main = Thread::new(pid, crate::model::thread_name(program), 0);
        main.pending = crate::thread::Pending::Running;
        let numbers = process.numbers();
        let place = self.fs.new_place(config, program, numbers);
        self.add_bank(main, process, Signals::default(), Table::numbered(numbers), place);
        let silent = Config {
            stdin: Vec::new(),
            ..config.clone()
        };
        self.within(pid, |model| {
            let stdin = Kind::File(model.fs.stdin(&silent));
            model.open_standard_streams(stdin);
        });
        pid
    }

    /// The number for the next process or thread that the process in place makes.
    pub fn next_number(&self) -> Tid {
        self.next_number_of(self.process.peer)
    }

    /// The same for a process of this peer, or of the program.
    pub fn next_number_of(&self, peer: Option<Peer>) -> Tid {
        let own = peer.and_then(|peer| self.residents.next.get(&peer));
        own.copied().unwrap_or(self.next_tid)
    }

    pub(crate) fn take_number(&mut self) -> Tid {
        let number = self.next_number();
        match self
            .process
            .peer
            .and_then(|peer| self.residents.next.get_mut(&peer))
        {
            Some(next) => *next += 1,
            None => self.next_tid += 1,
        }
        number
    }

    /// Whose process a thread is of: `None` for the program's own.
    pub fn peer_of(&self, tid: Tid) -> Option<Peer> {
        if self.residents.is_empty() {
            return None;
        }
        let process = self.process_of(tid).and_then(|pid| self.process_at(pid));
        process.and_then(|process| process.peer)
    }

    /// The program's own processes that live.
    pub fn own_pids(&self) -> Vec<Pid> {
        let is_own = |pid: &Pid| {
            self.process_at(*pid)
                .is_some_and(|process| process.peer.is_none())
        };
        self.pids().into_iter().filter(is_own).collect()
    }

    /// The program's own threads.
    pub fn own_threads(&self) -> impl Iterator<Item = &Thread> {
        let has_peers = !self.residents.is_empty();
        self.all_threads()
            .filter(move |thread| !has_peers || self.peer_of(thread.tid).is_none())
    }

    /// Is there no other process of the same program?
    pub fn is_childless(&self) -> bool {
        let same = |process: &Process| process.peer == self.process.peer;
        !self.aside.values().any(|bank| same(&bank.process))
    }

    /// Does a peer map memory that the program could change?
    pub fn shares_with_peers(&self) -> bool {
        let sharing = self.sharing();
        sharing.iter().any(|&pid| {
            let process = self.process_at(pid);
            process.is_some_and(|process| process.peer.is_some())
        })
    }

    /// A peer, as a whole, has ended: its first process has.
    pub fn peer_ended(&mut self, peer: Peer, ended: Ended) {
        self.residents.exits.insert(peer, ended);
    }

    /// Captured output: the program's, or a peer's, which is nobody's concern unless it fails.
    pub(crate) fn print(&mut self, stream: u8, data: &[u8]) {
        match self.process.peer {
            None => self.output.write(stream, data),
            Some(peer) => self.residents.print(peer, data),
        }
    }

    /// A connection within the model is made: between the program and a peer it has a name, kept at the program's end.
    pub(crate) fn name_connection(&mut self, connecting: ChannelId, accepting: ChannelId, to: Endpoint) {
        let of = |id: ChannelId| self.channels.sockets.get(&id).and_then(|socket| socket.of);
        let (from, at) = (of(connecting), of(accepting));
        if from != at {
            for end in [connecting, accepting] {
                if let Some(local) = self.local_mut(end) {
                    local.crosses = true;
                }
            }
        }
        let named = match (from, at) {
            (None, Some(_)) => Some((connecting, self.residents.opens(to))),
            (Some(Peer::Client(client)), None) => Some((accepting, self.residents.comes(client))),
            _ => None,
        };
        if let Some((end, key)) = named {
            self.residents.says(self.clock.now());
            if let Some(local) = self.local_mut(end) {
                local.key = Some(key);
            }
        }
        let (from, at) = (self.speaker(connecting), self.speaker(accepting));
        self.channels.overheard.note(|| Heard::Connected { from, at });
    }

    /// One end of a connection within the model.
    fn local_mut(&mut self, end: ChannelId) -> Option<&mut Local> {
        self.channels.sockets.get_mut(&end)?.local_mut()
    }

    /// A socket as whoever listens knows it.
    fn speaker(&self, id: ChannelId) -> Speaker {
        let socket = self.channels.sockets.get(&id);
        Speaker {
            socket: id,
            of: socket.and_then(|socket| socket.of),
            name: socket.and_then(|socket| socket.name().cloned()),
            key: socket.and_then(|socket| socket.local()?.key.clone()),
        }
    }

    /// The program has accepted a connection within the model.
    pub(crate) fn accepts(&mut self, end: ChannelId) {
        let socket = self.channels.sockets.get(&end);
        if let Some(key) = socket.and_then(|socket| socket.local()?.key.clone()) {
            self.residents.sent.entry(key).or_default();
        }
    }

    /// Something goes from one socket in the model to another.
    pub(crate) fn passes(&mut self, from: ChannelId, to: ChannelId, data: &[u8]) {
        self.channels.overheard.note(|| Heard::Said(from, data.to_vec()));
        if self.residents.is_empty() {
            return;
        }
        let of = |id: ChannelId| self.channels.sockets.get(&id);
        let (Some(sender), Some(receiver)) = (of(from), of(to)) else {
            return;
        };
        if sender.of == receiver.of {
            return;
        }
        let key = sender.local().and_then(|local| local.key.clone());
        self.residents.says(self.clock.now());
        if let Some(key) = key {
            self.residents.sent.entry(key).or_default().write(data);
        }
    }

    /// A datagram goes from one socket in the model to another. The first one between two sockets makes the connection.
    pub(crate) fn passes_datagram(
        &mut self,
        from: (ChannelId, &Endpoint),
        to: (ChannelId, &Endpoint),
        data: &[u8],
    ) {
        let ends = [from, to].map(|(id, name)| Speaker {
            name: Some(name.clone()),
            ..self.speaker(id)
        });
        self.channels.overheard.note(|| {
            let [from, to] = ends;
            let data = data.to_vec();
            Heard::Sent { from, to, data }
        });
        if self.residents.is_empty() {
            return;
        }
        let of = |id: ChannelId| self.channels.sockets.get(&id).map(|socket: &Socket| socket.of);
        let (Some(sender), Some(receiver)) = (of(from.0), of(to.0)) else {
            return;
        };
        let key = match (sender, receiver) {
            (None, Some(peer)) => {
                let end = (from.0, to.1.clone());
                let known = self.residents.correspondents.get(&end).cloned();
                let key = known.unwrap_or_else(|| match peer {
                    Peer::Client(client) => self.residents.comes(client),
                    Peer::Server(_) => self.residents.opens(to.1.clone()),
                });
                self.residents.correspondents.insert(end, key.clone());
                self.residents.sent.entry(key.clone()).or_default().write(data);
                key
            }
            (Some(Peer::Client(client)), None) => {
                let end = (to.0, from.1.clone());
                let known = self.residents.correspondents.get(&end).cloned();
                let key = known.unwrap_or_else(|| self.residents.comes(client));
                self.residents.correspondents.insert(end, key.clone());
                key
            }
            (Some(Peer::Server(_)), None) => return self.residents.says(self.clock.now()),
            _ => return,
        };
        self.residents.says(self.clock.now());
        self.residents.sent.entry(key).or_default();
    }

    /// The addresses at which the program can be reached, in the order of its sockets.
    pub fn listens_at(&self) -> Vec<Endpoint> {
        let open = |socket: &&Socket| socket.of.is_none() && socket.is_open_to_clients();
        let sockets: BTreeMap<_, _> = self.channels.sockets.iter().collect();
        let open = sockets.into_values().filter(open);
        open.filter_map(|socket| socket.shown_name().cloned()).collect()
    }

    /// Does this server take connections, or datagrams?
    pub fn serves(&self, peer: Peer) -> bool {
        let is_there = |socket: &Socket| {
            let receives = socket.is_listening() || socket.style == crate::channels::socket::Style::Datagram;
            socket.of == Some(peer) && receives && socket.name().is_some()
        };
        self.channels.sockets.values().any(is_there)
    }

    /// Has the program looked for clients, so that they begin?
    pub fn looks_for_clients(&self) -> bool {
        self.channels.outside.clients_awaited
    }
}
