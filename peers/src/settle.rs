//! When is an answer complete? Waits until the peer has consumed what it was told and waits for more, by looking at it and not at the clock.

use crate::answer::{Answer, Channel};
use crate::channel::{Flight, Link};
use crate::diag::Diag;
use crate::error::{PeerError, lines};
use crate::inspect::{Doing, KeptWaiting, Watch};
use crate::listener::Listener;
use crate::physical::Physical;
use crate::process::Process;
use crate::servers::Server;
use crate::world::Config;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Everything real that is not a physical instance.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) servers: Vec<Server>,
    /// Eyes on servers that ran before us, by tree; `None` if they cannot be looked at.
    pub(crate) strangers: HashMap<usize, Option<Watch>>,
    pub(crate) diag: Option<Diag>,
    /// As long as the longest datagram.
    pub(crate) buffer: Box<[u8]>,
}

/// A peer that works for so long without a word is followed for a moment, to see what it does; and again after as long.
const WITHOUT_A_WORD: Duration = Duration::from_millis(200);

/// So often it is looked for whoever holds the other end of a connection: one that ends is held by nobody for a moment, and not closed yet.
const LOOKS_FOR_AN_OWNER: u32 = 20;

/// For each so many bytes of an answer it may take as long again: what flows is no drip, and has a bound of its own.
const MUCH: usize = 1 << 20;

/// A peer that sleeps for so long between two things that it says has said them apart. Shorter sleeps are not seen for certain.
const PAUSE: Duration = Duration::from_millis(10);

/// Since when a peer that never rests was seen only to look for input.
#[derive(Default)]
struct Polling {
    since: Option<Instant>,
    last: Option<Instant>,
}

/// How long something has lasted for a peer: not the time in which it was ready to run and had no processor, which says something about the machine only.
struct Lasting {
    since: Instant,
    /// How long it had been kept waiting by then.
    kept_waiting: Option<KeptWaiting>,
}

impl Lasting {
    fn begin() -> Lasting {
        Lasting {
            since: Instant::now(),
            kept_waiting: None,
        }
    }

    /// Has it lasted longer than `bound`? Looked at closely only after a while, since most answers come at once.
    fn exceeds(&mut self, bound: Duration, watch: Option<&mut Watch>) -> bool {
        let elapsed = self.since.elapsed();
        if elapsed < WITHOUT_A_WORD.min(bound) {
            return false;
        }
        let Some(watch) = watch else {
            return elapsed > bound;
        };
        let before = self.kept_waiting.get_or_insert_with(|| watch.kept_waiting());
        elapsed > bound && elapsed.saturating_sub(watch.kept_waiting().since(before)) > bound
    }
}

/// How long the same condition has lasted.
struct Since {
    state: Option<(Doing, Flight)>,
    /// Of what it was told. One that reads, however slowly, does not rest.
    unread: Vec<(Channel, u64)>,
    start: Instant,
    /// It has slept for a while since it last said something.
    has_paused: bool,
}

impl Since {
    fn note(&mut self, state: (Doing, Flight), unread: Vec<(Channel, u64)>) -> Duration {
        self.has_paused |= self.sleeps();
        if self.state != Some(state) || self.unread != unread {
            (self.state, self.unread, self.start) = (Some(state), unread, Instant::now());
        }
        self.start.elapsed()
    }

    /// The peer sleeps, and has for a while.
    fn sleeps(&self) -> bool {
        matches!(self.state, Some((Doing::Sleeping, _))) && self.start.elapsed() >= PAUSE
    }

    /// The peer has said something: silence is counted from here.
    fn begin_anew(&mut self) {
        (self.state, self.has_paused) = (None, false);
    }
}

/// Has a peer that waits, sleeps or is gone said all that it will say?
fn is_at_rest((doing, flight): (Doing, Flight), lasted: Duration, config: &Config) -> bool {
    match (doing, flight) {
        // Something is on its way, so it will come. Unless the other end is out of our sight, say in a network namespace of its own.
        (Doing::Waiting | Doing::Gone, Flight::Travelling) => lasted >= config.sleep_bound,
        // Nobody is left to read what was not consumed.
        (Doing::Gone, _) => true,
        (Doing::Waiting, Flight::Clear) => true,
        // It waits, but not for this: another connection keeps it busy. Or it is being woken this moment, so look for a while.
        (Doing::Waiting, Flight::Unconsumed | Flight::Unseen) => lasted >= config.settle,
        (Doing::Sleeping, _) => lasted >= config.sleep_bound,
        (Doing::Working | Doing::Opaque, _) => false,
    }
}

impl Ground {
    /// Takes in new connections and datagrams from clients, and gives each to the instance that made it.
    pub(crate) fn collect_connections(
        &mut self,
        focus: &mut Physical,
        others: &mut BTreeMap<u64, Physical>,
    ) -> bool {
        let mut any = false;
        for i in 0..self.listeners.len() {
            let name = self.listeners[i].name.clone();
            while let Some(link) = self.listeners[i].accept() {
                if let Some(owner) = self.owner(&link, &name, focus, others) {
                    owner.add_link(link, name.clone());
                }
                any = true;
            }
            while let Some((link, datagram)) = self.listeners[i].receive(&mut self.buffer) {
                if let Some(owner) = self.owner(&link, &name, focus, others) {
                    owner.add_datagram(link, name.clone(), datagram);
                }
                any = true;
            }
        }
        any
    }

    /// Whose is this connection? The socket's other end tells, unless it is closed already; then it is the one that we are dealing with.
    fn owner<'a>(
        &mut self,
        link: &Link,
        at: &str,
        focus: &'a mut Physical,
        others: &'a mut BTreeMap<u64, Physical>,
    ) -> Option<&'a mut Physical> {
        let holds = |p: &Physical, inode| p.client.as_ref().is_some_and(|(_, watch)| watch.holds(inode));
        let mut looks = 0;
        loop {
            let inode = self.diag.as_mut().map_or(0, |diag| link.other_end(diag));
            if (inode == 0 && focus.client.is_some()) || holds(focus, inode) {
                return Some(focus);
            }
            if let Some((&id, _)) = others.iter().find(|(_, other)| holds(other, inode)) {
                return others.get_mut(&id);
            }
            // Whoever sends something and ends at once may have done so between the two questions.
            looks += 1;
            if looks > LOOKS_FOR_AN_OWNER {
                tracing::warn!("a process that is no client of ours connected to {at}: ignored");
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends, receives, accepts, reaps: everything that can be done now; true if anything came.
    pub(crate) fn pump(
        &mut self,
        focus: &mut Physical,
        others: &mut BTreeMap<u64, Physical>,
        limit: usize,
    ) -> bool {
        let connections = focus.client.is_some() && self.collect_connections(focus, others);
        // Not `||`: all of it has to be done.
        focus.pump(limit) | connections | focus.pump_exit()
    }

    pub(crate) fn watch<'a>(&'a mut self, focus: &'a mut Physical) -> Option<&'a mut Watch> {
        match (&mut focus.client, focus.server) {
            (Some((_, watch)), _) => Some(watch),
            (None, Some(server)) => Some(&mut self.servers[server].watch),
            (None, None) => self.strangers.get_mut(&focus.tree).and_then(Option::as_mut),
        }
    }

    /// Before a connection is broken off: only with something unread does the close of a Unix socket reset it, and all that the peer has said was taken in.
    pub(crate) fn put_something_unread(&mut self, focus: &mut Physical, channel: Channel) {
        let link = focus.links.get(usize::from(channel));
        let (Some(inode), Some(diag)) = (link.and_then(Link::unix_inode), &mut self.diag) else {
            return;
        };
        let Ok(Some(theirs)) = diag.unix_other_end(inode) else {
            return;
        };
        if let Some(copy) = self.watch(focus).and_then(|watch| watch.copy_of(theirs)) {
            Link::say_to_ourselves(copy);
        }
    }

    fn flight(&mut self, focus: &Physical) -> Flight {
        let Some(diag) = &mut self.diag else {
            return Flight::Unseen;
        };
        focus
            .links
            .iter()
            .map(|link| link.flight(diag))
            .max()
            .unwrap_or(Flight::Clear)
    }

    /// What the peer has left unread, on each of its streams where there is anything.
    pub(crate) fn unread(&mut self, focus: &Physical) -> Vec<(Channel, u64)> {
        let diag = &mut self.diag;
        let links = focus.links.iter().enumerate();
        let counts = links.map(|(channel, link)| (channel as Channel, link.unread(diag.as_mut())));
        counts.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// One attempt to see that everything is quiet: first look, nothing new, nothing on its way, second look.
    fn observe(
        &mut self,
        focus: &mut Physical,
        others: &mut BTreeMap<u64, Physical>,
        limit: usize,
    ) -> (Doing, Flight) {
        let Some(watch) = self.watch(focus) else {
            return (Doing::Opaque, Flight::Unseen);
        };
        let (doing, first) = watch.inspect();
        if doing == Doing::Working {
            return (Doing::Working, Flight::Travelling);
        }
        let flight = self.flight(focus);
        let news = self.pump(focus, others, limit);
        let unmoved = self.watch(focus).is_some_and(|watch| watch.unmoved_since(&first));
        match doing {
            Doing::Opaque => (Doing::Opaque, Flight::Unseen),
            _ if news => (Doing::Working, flight),
            Doing::Waiting | Doing::Sleeping if !unmoved => (Doing::Working, flight),
            // The dead are done when their connections have ended too.
            Doing::Gone if focus.client.is_some() && !focus.ended => (Doing::Working, flight),
            _ => (doing, flight),
        }
    }

    /// Waits until the answer is complete, and returns it.
    pub(crate) fn wait_for_answer(
        &mut self,
        focus: &mut Physical,
        others: &mut BTreeMap<u64, Physical>,
        config: &Config,
        name: &str,
    ) -> Result<Answer, PeerError> {
        let (mut answering, mut silent) = (Lasting::begin(), Lasting::begin());
        let mut since = Since {
            state: None,
            unread: Vec::new(),
            start: silent.since,
            has_paused: false,
        };
        let mut rounds = 0;
        let mut polling = Polling::default();
        loop {
            let mut before_pause = (since.has_paused || since.sleeps()).then(|| focus.heard.lengths());
            if self.pump(focus, others, config.flood_limit) {
                focus.heard.paused_at(&before_pause.take().unwrap_or_default());
                (rounds, silent) = (0, Lasting::begin());
                polling = Polling::default();
                since.begin_anew();
            }
            self.is_sound(focus, config, name)?;
            let state = self.observe(focus, others, config.flood_limit);
            // Something may have come while it was looked at.
            if focus.heard.paused_at(&before_pause.unwrap_or_default()) {
                since.begin_anew();
            }
            let unread = match state.1 {
                Flight::Clear => Vec::new(),
                _ => self.unread(focus),
            };
            let lasted = since.note(state, unread);
            let is_complete = match state {
                (Doing::Opaque, _) => lasted >= config.settle && rounds > 0,
                // It waits without rest: for input, or for a time to come, which we wait for as if it slept.
                (Doing::Working, _) => {
                    silent.since.elapsed() > WITHOUT_A_WORD
                        && self.only_polls(focus, &mut polling) >= config.sleep_bound
                }
                _ => is_at_rest(state, lasted, config),
            };
            if is_complete {
                focus.ignored = state == (Doing::Waiting, Flight::Unconsumed);
                focus.unread = since.unread;
                if let (Doing::Gone, Some(server)) = (state.0, focus.server) {
                    self.servers[server].process.wait_exit();
                }
                return Ok(std::mem::take(&mut focus.heard));
            }
            self.may_go_on(focus, config, name, state.0, (&mut answering, &mut silent))?;
            self.pause(focus, rounds, state.0, config);
            rounds += 1;
        }
    }

    /// Is what has come so far an answer at all?
    fn is_sound(&self, focus: &Physical, config: &Config, name: &str) -> Result<(), PeerError> {
        if focus.heard.size() > config.flood_limit {
            return Err(self.flood(focus, config, name));
        }
        match focus.links.iter().find_map(Link::answered_from_elsewhere) {
            Some(from) => Err(PeerError::AnswersFromElsewhere {
                name: self.name_of(focus, name),
                connection: name.to_string(),
                from,
            }),
            None => Ok(()),
        }
    }

    /// Is the wait for an answer that is not complete within its bounds?
    fn may_go_on(
        &mut self,
        focus: &mut Physical,
        config: &Config,
        name: &str,
        doing: Doing,
        (answering, silent): (&mut Lasting, &mut Lasting),
    ) -> Result<(), PeerError> {
        if silent.exceeds(config.hang_bound, self.watch(focus)) && doing == Doing::Working {
            return Err(self.hang(focus, config, name, "computes and does not wait for input"));
        }
        // A little at a time, for ever: each word alone is news, but the answer never ends.
        let bound = config.hang_bound.max(config.sleep_bound) * (1 + focus.heard.size() / MUCH) as u32;
        if answering.exceeds(bound, self.watch(focus)) && !focus.heard.is_empty() {
            let doing = "talks, a little at a time, and does not wait for input";
            return Err(self.hang(focus, config, name, doing));
        }
        match config.time_budget.is_over() {
            true => Err(PeerError::BrokenOff {
                name: self.name_of(focus, name),
            }),
            false => Ok(()),
        }
    }

    /// How long the peer has only looked for input, and all that it was told was there.
    fn only_polls(&mut self, focus: &mut Physical, polling: &mut Polling) -> Duration {
        if polling.last.is_none_or(|last| last.elapsed() > WITHOUT_A_WORD) {
            // What it does not read, though it looks, it has no use for now.
            let arrived = self.flight(focus) != Flight::Travelling;
            let polls = arrived && self.watch(focus).is_some_and(|watch| watch.only_polls());
            polling.last = Some(Instant::now());
            polling.since = polling.since.or(polling.last).filter(|_| polls);
        }
        polling.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Lets the peer run: at first only gives up the processor, then waits for its sockets, longer and longer.
    pub(crate) fn pause(&self, focus: &Physical, rounds: u32, doing: Doing, config: &Config) {
        if rounds < 8 && doing != Doing::Opaque {
            std::thread::yield_now();
            return;
        }
        let limit = if doing == Doing::Opaque {
            config.settle.as_millis().clamp(1, 1000) as u16
        } else {
            (rounds / 64).clamp(1, 10) as u16
        };
        let mut fds: Vec<PollFd<'_>> = focus
            .links
            .iter()
            .filter_map(Link::fd)
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        if let Some((process, _)) = &focus.client {
            fds.extend(
                self.listeners
                    .iter()
                    .map(|listener| PollFd::new(listener.fd(), PollFlags::POLLIN)),
            );
            if !focus.ended {
                fds.push(PollFd::new(process.news(), PollFlags::POLLIN));
            }
        }
        // An interrupted wait is only a short one: the caller loops.
        let _ = poll(&mut fds, PollTimeout::from(limit));
    }

    /// What messages call the peer: its process, or else the connection.
    fn name_of(&self, focus: &Physical, connection: &str) -> String {
        let process = self.process(focus);
        process.map_or_else(|| connection.to_string(), |process| process.name.clone())
    }

    fn process<'a>(&'a self, focus: &'a Physical) -> Option<&'a Process> {
        focus
            .client
            .as_ref()
            .map(|(process, _)| process)
            .or_else(|| focus.server.map(|i| &self.servers[i].process))
    }

    fn flood(&self, focus: &Physical, config: &Config, name: &str) -> PeerError {
        let process = self.process(focus);
        PeerError::Floods {
            name: self.name_of(focus, name),
            connection: name.to_string(),
            limit: config.flood_limit,
            last: lines(&focus.heard).pop().unwrap_or_default(),
            last_output: process.map(Process::last_output).unwrap_or_default(),
        }
    }

    fn hang(&self, focus: &Physical, config: &Config, name: &str, doing: &str) -> PeerError {
        let process = self.process(focus);
        PeerError::Hangs {
            name: self.name_of(focus, name),
            waited_ms: config.hang_bound.as_millis(),
            doing: doing.to_owned(),
            last_output: process.map(Process::last_output).unwrap_or_default(),
        }
    }
}
