//! The whole modelled kernel state, and the context in which handlers run.

use crate::call::Call;
use crate::channels::mqueue;
use crate::channels::socket::{self, Socket};
use crate::channels::{ChannelId, Channels};
use crate::clock::{Clock, Nanos};
use crate::effect::{Beginning, Outcome, Prepared};
use crate::fd::{Description, Files, Kind, OfdId, PollEvents};
use crate::fs::{FileSystem, Host};
use crate::futex::Futexes;
use crate::handlers::locks;
use crate::ipc::{Ipc, segments};
use crate::memory::GuestMemory;
use crate::net::{self, Arrivals, Network, observe};
use crate::output::Output;
use crate::process::Process;
use crate::processes::{Bank, Pid, Zombie};
use crate::random::Random;
use crate::residents::Residents;
use crate::signals::Signals;
use crate::table;
use crate::thread::{Pending, Thread, Tid};
use crate::timers::Timers;
use crate::wait::{WaitFor, Wake};
use std::collections::BTreeMap;
use syscalls::Errno;

/// Everything that the kernel keeps for the program under test, apart from its memory and registers.
///
/// One field for each part of the kernel, and each is a type of its own with its own methods. The methods here are those that need several of the parts:
/// when a wait ends, what a descriptor refers to, which process is in place (`processes`), whose the peers are (`residents`), who shares what (`common`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Model {
    pub clock: Clock,
    pub threads: BTreeMap<Tid, Thread>,
    pub next_tid: Tid,
    pub futexes: Futexes,
    pub ipc: Ipc,
    pub process: Process,
    pub files: Files,
    pub fs: FileSystem,
    pub channels: Channels,
    pub signals: Signals,
    pub timers: Timers,
    pub random: Random,
    pub output: Output,
    /// Of the thread that makes a call; set for the time of the call only, so that it is no part of a state.
    pub stack_pointer: u64,
    /// The processes that are not in place.
    pub aside: BTreeMap<Pid, Bank>,
    /// Those that have ended and that nobody has waited for.
    pub zombies: BTreeMap<Pid, Zombie>,
    /// Peers that are processes of the model.
    pub residents: Residents,
}

/// What the modelled machine looks like at the start; part of a trace, so that a replay starts the same. Flat, because the trace has these fields in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Config {
    /// The virtual pid, and the tid of the first thread.
    pub pid: u32,
    /// Seconds since 1970 when the program starts.
    pub epoch_seconds: u64,
    /// Seed of `getrandom`, `/dev/urandom` and `AT_RANDOM`.
    pub random_seed: u64,
    /// Processors that the program is told of.
    pub cpus: u32,
    /// Absolute working directory.
    pub cwd: Vec<u8>,
    /// Absolute path of the program, for `/proc/self/exe` and the thread's name.
    pub program: Vec<u8>,
    /// What standard input holds.
    pub stdin: Vec<u8>,
    pub umask: u32,
    /// The user and the groups that the program runs as.
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    /// When the program can notice what peers say.
    pub arrivals: Arrivals,
    /// What a server outside says on one connection may depend on what it was told on others.
    pub servers_remember: bool,
}

impl Default for Config {
    /// A small machine and an empty standard input, for tests and as a start.
    fn default() -> Self {
        Self {
            pid: 1000,
            epoch_seconds: crate::clock::DEFAULT_EPOCH_SECONDS,
            random_seed: 0,
            cpus: 2,
            cwd: b"/".to_vec(),
            program: b"/bin/program".to_vec(),
            stdin: Vec::new(),
            umask: 0o022,
            uid: 1000,
            gid: 1000,
            groups: Vec::new(),
            arrivals: Arrivals::Ordered,
            servers_remember: false,
        }
    }
}

/// What a handler may look at and change.
pub struct Cx<'a> {
    pub model: &'a mut Model,
    pub mem: &'a mut dyn GuestMemory,
    pub host: &'a dyn Host,
    pub net: &'a mut dyn Network,
    /// The thread that makes the call.
    pub tid: Tid,
    /// Why the call runs now.
    pub wake: Wake,
}

impl Cx<'_> {
    pub fn thread(&mut self) -> &mut Thread {
        self.model.thread_mut(self.tid)
    }

    /// Runs one call; `Unsupported` and refusals come from the table.
    pub fn execute(&mut self, call: &Call) -> Outcome {
        table::execute(self, call)
    }

    /// What the supervisor must know before the call runs. Changes nothing.
    pub fn prepare(&self, call: &Call) -> Prepared {
        table::prepare(self, call)
    }

    /// What the call does as its thread comes to stand before it.
    pub fn begin(&mut self, beginning: &Beginning) {
        table::begin(self, beginning);
    }
}

impl Model {
    /// The state at the start of a program: one thread, descriptors 0, 1 and 2.
    pub fn new(config: &Config) -> Self {
        Self::over(config, FileSystem::new(config))
    }

    /// The same, with these files.
    pub fn over(config: &Config, fs: FileSystem) -> Self {
        let mut model = Self {
            clock: Clock::new(config.epoch_seconds),
            threads: BTreeMap::new(),
            next_tid: config.pid + 1,
            futexes: Futexes::default(),
            ipc: Ipc::default(),
            process: Process::new(config),
            files: Files::default(),
            fs,
            channels: Channels::with(config.arrivals, config.servers_remember),
            signals: Signals::default(),
            timers: Timers::default(),
            random: Random::new(config.random_seed),
            output: Output::default(),
            stack_pointer: 0,
            aside: BTreeMap::new(),
            zombies: BTreeMap::new(),
            residents: Residents::default(),
        };
        let mut main = Thread::new(config.pid, thread_name(&config.program), 0);
        main.pending = Pending::Running;
        model.threads.insert(config.pid, main);
        let stdin = Kind::File(model.fs.stdin(config));
        model.open_standard_streams(stdin);
        model
    }

    /// Descriptors 0, 1 and 2 of the process in place.
    pub(crate) fn open_standard_streams(&mut self, stdin: Kind) {
        for (fd, kind, flags) in [
            (0, stdin, libc::O_RDONLY),
            (1, Kind::Output(1), libc::O_WRONLY),
            (2, Kind::Output(2), libc::O_WRONLY),
        ] {
            let description = self.files.describe(kind, flags);
            self.files.install_at(description, fd, false);
        }
    }

    /// A new program image in the same process: what `execve` keeps and what it resets. The thread that asked for it is the
    /// only one left, and becomes the first.
    pub fn exec(&mut self, tid: Tid, program: &[u8]) {
        let pid = self.process.pid;
        self.leave_files();
        self.leave_handlers();
        let close: Vec<i32> = self
            .files
            .iter()
            .filter(|(_, d)| d.close_on_exec)
            .map(|(fd, _)| fd)
            .collect();
        for fd in close {
            // Just listed, so it is there.
            let _ = self.close(fd);
        }
        let old = self.threads.remove(&tid);
        let mut main = Thread::new(pid, thread_name(program), 0);
        if let Some(old) = old {
            main.signals.mask = old.signals.saved_mask.unwrap_or(old.signals.mask);
            main.signals.pending = old.signals.pending;
            main.scheduling = old.scheduling;
        }
        main.pending = Pending::Running;
        for gone in self.threads.keys().copied().collect::<Vec<_>>() {
            self.futexes.forget(gone);
            self.ipc.thread_ended(gone);
            mqueue::forget(self, gone);
            for thread in self.all_threads_mut() {
                thread.yields_to.remove(&gone);
            }
        }
        self.threads = BTreeMap::from([(pid, main)]);
        self.process.exec(program);
        self.fs.exec(program);
        segments::settle(self, pid);
        self.signals.exec();
        self.timers.exec();
        Signals::assign(self);
    }

    /// The thread with this id.
    ///
    /// # Panics
    /// If there is none: the supervisor only asks about threads it got from this model.
    pub fn thread(&self, tid: Tid) -> &Thread {
        self.find_thread(tid)
            .unwrap_or_else(|| panic!("no virtual thread {tid}"))
    }

    /// See [`Model::thread`].
    pub fn thread_mut(&mut self, tid: Tid) -> &mut Thread {
        self.find_thread_mut(tid)
            .unwrap_or_else(|| panic!("no virtual thread {tid}"))
    }

    /// Can this thread run, as far as the model knows? (Locks behind hooks are the supervisor's to check.)
    pub fn runnable(&self, tid: Tid) -> bool {
        self.wake_reason(tid).is_some() || self.deliverable(tid).is_some()
    }

    /// Why the thread's pending operation could run now, `None` if it cannot. What is on its way may arrive.
    pub fn wake_reason(&self, tid: Tid) -> Option<Wake> {
        let woken = self.woken_by_what_is_there(tid);
        match (woken, &self.thread(tid).wait) {
            (Some(Wake::Ready), _) | (_, None) => woken,
            (_, Some(wait)) => match &wait.on {
                WaitFor::Ready(list) if observe::may_become_ready(self, list) => Some(Wake::Ready),
                _ => woken,
            },
        }
    }

    /// The same if nothing more arrives.
    pub fn woken_by_what_is_there(&self, tid: Tid) -> Option<Wake> {
        let thread = self.thread(tid);
        let Some(wait) = &thread.wait else {
            return Some(Wake::Ready);
        };
        let ready = match &wait.on {
            WaitFor::Nothing => false,
            WaitFor::FileLock(request) => {
                self.fs.locks.available(request) || locks::closes_a_circle(self, request)
            }
            WaitFor::Futex(_) | WaitFor::Semaphores(_) => thread.call.woken.is_some(),
            WaitFor::Message(_) | WaitFor::Mailbox(_) => self.ipc.is_handed(tid),
            WaitFor::MessageRoom(id, len) => self.ipc.may_send(*id, *len),
            WaitFor::Exit(tid) => self.find_thread(*tid).is_none(),
            WaitFor::Child(parent, which, asked) => self.wait_is_over(*parent, *which, *asked),
            WaitFor::Exec(child) => !self.process_at(*child).is_some_and(|child| child.program.borrows),
            WaitFor::Ready(list) => list
                .iter()
                .any(|&(id, events)| self.poll_as(Some(tid), id).intersects(events)),
            WaitFor::Room(id, amount) => Channels::has_room(self, *id, *amount),
            WaitFor::Signals(set) => self.signals_of(tid).any_pending(thread, *set),
        };
        if ready {
            return Some(Wake::Ready);
        }
        wait.deadline
            .filter(|&d| d <= self.clock.now())
            .map(|_| Wake::TimedOut)
    }

    /// Does any thread of the program wait for a client: to be connected to, or to be told something by one?
    pub fn awaits_clients(&self) -> bool {
        self.own_threads()
            .any(|thread| self.thread_awaits_clients(thread))
    }

    /// Does this thread?
    pub fn thread_awaits_clients(&self, thread: &Thread) -> bool {
        thread
            .wait
            .as_ref()
            .is_some_and(|wait| self.is_about_clients(&wait.on))
    }

    /// Can a client bring this about by what it says? (That one reads, so that there is room to write, nobody waits for who has nothing else to do.)
    pub fn is_about_clients(&self, on: &WaitFor) -> bool {
        match on {
            WaitFor::Ready(list) => list.iter().any(|&(id, events)| self.leads_to_clients(id, events)),
            _ => false,
        }
    }

    fn leads_to_clients(&self, id: OfdId, events: PollEvents) -> bool {
        let is_about_input = events.intersects(PollEvents::IN | PollEvents::RDNORM | PollEvents::RDHUP);
        match self.files.get(id).map(|description| &description.kind) {
            Some(Kind::Socket(socket)) => {
                let socket = self.channels.sockets.get(socket);
                let is_theirs = |s: &Socket| s.is_open_to_clients() || s.serves() || s.is_of_client();
                is_about_input && socket.is_some_and(is_theirs)
            }
            Some(Kind::Epoll(epoll)) => {
                let epoll = self.channels.epolls.get(epoll);
                let leads = |(id, events, _): (OfdId, PollEvents, bool)| self.leads_to_clients(id, events);
                epoll.is_some_and(|epoll| epoll.watched().any(leads))
            }
            _ => false,
        }
    }

    /// The program that this thread waits for to read, so that there is room to write, and how much it has not read.
    pub fn awaits_reader(&self, tid: Tid) -> Option<(&net::Key, usize)> {
        let id = match &self.thread(tid).wait.as_ref()?.on {
            WaitFor::Room(id, _) => *id,
            WaitFor::Ready(list) => match list[..] {
                [(id, events)] if !events.intersects(PollEvents::IN) => id,
                _ => return None,
            },
            _ => return None,
        };
        match self.files.get(id)?.kind {
            Kind::Socket(socket) => socket::reluctant_reader(self, socket),
            _ => None,
        }
    }

    /// Can what this description waits for come from another program?
    pub fn is_about_peers(&self, id: OfdId) -> bool {
        match self.files.get(id).map(|description| &description.kind) {
            Some(Kind::Socket(socket)) => socket::is_networked(self, *socket),
            Some(Kind::Epoll(epoll)) => {
                let epoll = self.channels.epolls.get(epoll);
                epoll.is_some_and(|epoll| epoll.descriptions().any(|id| self.is_about_peers(id)))
            }
            _ => false,
        }
    }

    /// Does time alone change something for the program itself?
    pub fn has_deadline(&self) -> bool {
        let now = self.clock.now();
        let waits = self.own_threads().filter_map(|t| t.wait.as_ref()?.deadline);
        let own = self.process.peer.is_none();
        let timers = own.then(|| self.timers.next_deadline(&self.signals, &self.threads));
        let others = self.aside.values().filter(|bank| bank.process.peer.is_none());
        let others = others.map(|bank| bank.timers.next_deadline(&bank.signals, &bank.threads));
        let open = self.own_descriptions();
        let is_open = |id: ChannelId| {
            let kinds = open.iter().filter_map(|ofd| self.files.get(*ofd));
            kinds.into_iter().any(|open| open.kind == Kind::TimerFd(id))
        };
        let descriptors = self.channels.next_deadline_of(now, is_open);
        let mut all = waits
            .chain(timers.flatten())
            .chain(others.flatten())
            .chain(descriptors);
        all.any(|deadline| deadline > now)
    }

    /// As if no time had passed, and every deadline were the same: what is left tells whether anything but the time has changed.
    pub fn without_times(&mut self) {
        let now = self.clock.now();
        self.clock = Clock::new(crate::clock::DEFAULT_EPOCH_SECONDS);
        self.residents.without_times();
        for thread in self.all_threads_mut() {
            thread.call.deadline = None;
            if let Some(wait) = &mut thread.wait {
                wait.deadline = wait.deadline.map(|_| 0);
            }
        }
        self.in_each(|model| model.timers.without_times());
        self.channels.without_times(now);
    }

    /// The earliest moment at which time alone changes something.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let waits = self.all_threads().filter_map(|t| t.wait.as_ref()?.deadline);
        waits
            .chain(self.timer_deadline())
            .chain(self.channels.next_deadline(self.clock.now()))
            .min()
    }

    /// The next moment at which a timer fires.
    pub fn next_timer(&self) -> Option<Nanos> {
        self.timer_deadline()
            .into_iter()
            .chain(self.channels.next_deadline(self.clock.now()))
            .min()
    }

    /// When the next timer of any process makes a difference.
    fn timer_deadline(&self) -> Option<Nanos> {
        let own = self.timers.next_deadline(&self.signals, &self.threads);
        let others = self.aside.values();
        let others = others.filter_map(|bank| bank.timers.next_deadline(&bank.signals, &bank.threads));
        own.into_iter().chain(others).min()
    }

    /// Lets time pass up to `deadline`: timers that are due fire.
    pub fn advance_clock(&mut self, deadline: Nanos) {
        self.clock.advance_to(deadline);
        self.in_each(Timers::fire_due);
    }

    /// Readiness of a description, whoever asks.
    pub fn poll(&self, id: OfdId) -> PollEvents {
        self.poll_as(None, id)
    }

    /// Readiness of a description as a thread sees it: a signalfd shows each thread its own signals.
    pub fn poll_as(&self, tid: Option<Tid>, id: OfdId) -> PollEvents {
        let Some(description) = self.files.get(id) else {
            return PollEvents::NVAL;
        };
        match &description.kind {
            Kind::File(_) if description.flags & libc::O_PATH != 0 => PollEvents::NVAL,
            Kind::File(_) | Kind::Output(_) => {
                PollEvents::IN | PollEvents::OUT | PollEvents::RDNORM | PollEvents::WRNORM
            }
            _ => self.channels.poll(self, tid, description),
        }
    }

    /// Drops a reference to a description and, with the last one, what it stands for.
    pub fn release(&mut self, id: OfdId) {
        if let Some(description) = self.files.drop_reference(id) {
            self.close_description(id, description);
        }
    }

    fn close_description(&mut self, id: OfdId, description: Description) {
        match description.kind {
            Kind::File(file) => self.fs.closed(id, file),
            Kind::Output(_) => {}
            kind => Channels::closed(self, id, kind),
        }
    }

    /// Closes one descriptor.
    pub fn close(&mut self, fd: i32) -> Result<(), Errno> {
        let descriptor = self.files.remove(fd)?;
        if let Some(Kind::File(file)) = self.files.get(descriptor.description).map(|d| &d.kind) {
            self.fs.descriptor_closed(self.process.pid, &file.node);
        }
        if let Some(&Kind::MessageQueue(id)) = self.files.get(descriptor.description).map(|d| &d.kind) {
            mqueue::descriptor_closed(self, id);
        }
        self.release(descriptor.description);
        Ok(())
    }

    /// The thread no longer waits: takes it out of every queue it stands in.
    pub fn end_wait(&mut self, tid: Tid) {
        self.futexes.forget(tid);
        self.ipc.forget(tid);
        mqueue::forget(self, tid);
        let thread = self.thread_mut(tid);
        thread.wait = None;
        thread.call.woken = None;
        thread.end_call();
    }

    /// Wakes a thread that waits in the model; its call will return `result`.
    pub fn wake(&mut self, tid: Tid, result: i64) {
        let thread = self.thread_mut(tid);
        thread.call.woken = Some(result);
        thread.pending = Pending::Return(result);
        thread.wait = None;
    }
}

/// The name that the kernel gives a program: the last part of its path, cut to 15 bytes.
pub(crate) fn thread_name(program: &[u8]) -> [u8; 16] {
    let base = program.rsplit(|&b| b == b'/').next().unwrap_or(program);
    let mut name = [0; 16];
    let len = base.len().min(15);
    name[..len].copy_from_slice(&base[..len]);
    name
}
