//! Many processes. One is *in place*: its table of descriptors, its threads, its signals are the ones that handlers
//! find in the [`Model`]. The others stand aside, each as a [`Bank`] of the same parts, and come in place one at a time.
//! What all share (files, pipes, sockets, the clock) is in the model once.
//!
//! Between two steps the process with the lowest number is in place, so that it does not tell who moved last.

use crate::channels::{epoll, mqueue, pty};
use crate::fd::{Kind, OfdId, PollEvents, Table};
use crate::fs::{NodeId, Place};
use crate::ipc::Ipc;
use crate::model::Model;
use crate::object::Object;
use crate::process::Process;
use crate::random::Random;
use crate::signals::{SIG_IGN, SigInfo, Signals};
use crate::thread::{Thread, Tid};
use crate::timers::Timers;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The number of a process; that of its first thread, too.
pub type Pid = u32;

/// What the kernel keeps for one process, while another is in place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bank {
    pub process: Process,
    pub threads: BTreeMap<Tid, Thread>,
    pub signals: Signals,
    pub(crate) timers: Timers,
    random: Random,
    table: Table,
    place: Place,
    next_channel: u32,
}

/// How a process ended, as `wait` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ended {
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl Ended {
    /// The status word of `wait4`.
    pub fn status(self) -> u32 {
        match self {
            Ended::Exited(code) => ((code & 0xff) as u32) << 8,
            // The limit on core files is zero: none is written.
            Ended::Killed(signal) => signal as u32 & 0x7f,
        }
    }
}

/// A process that has ended and that its parent has not waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Zombie {
    pub parent: Pid,
    pub group: Pid,
    pub session: Pid,
    pub user: u32,
    pub name: [u8; 16],
    pub ended: Ended,
}

/// Which children a `wait` is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Children {
    Any,
    Pid(Pid),
    Group(Pid),
}

impl Children {
    fn includes(self, pid: Pid, group: Pid) -> bool {
        match self {
            Children::Any => true,
            Children::Pid(wanted) => pid == wanted,
            Children::Group(wanted) => group == wanted,
        }
    }
}

/// What a `wait` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    pub ended: bool,
    pub stopped: bool,
    pub continued: bool,
}

/// What has become of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    Ended(Ended),
    Stopped(i32),
    Continued,
}

impl Change {
    /// The status word of `wait4`.
    pub fn status(self) -> u32 {
        match self {
            Change::Ended(ended) => ended.status(),
            Change::Stopped(signal) => (signal as u32) << 8 | 0x7f,
            Change::Continued => 0xffff,
        }
    }
}

/// Orphans go to init, which waits for them at once.
pub(crate) const INIT: Pid = 1;

impl Model {
    /// All processes that live, by number.
    pub fn pids(&self) -> Vec<Pid> {
        let mut pids: Vec<Pid> = self.aside.keys().copied().collect();
        if !self.threads.is_empty() {
            pids.push(self.process.pid);
            pids.sort_unstable();
        }
        pids
    }

    /// Is there one process only?
    pub fn is_single(&self) -> bool {
        self.aside.is_empty()
    }

    /// The processes that are not in place and that have memory which others could change.
    pub fn sharing(&self) -> Vec<Pid> {
        let shares = |bank: &Bank| self.fs.has_shared_memory_at(&bank.place);
        let banks = self.aside.iter();
        banks
            .filter(|(_, bank)| shares(bank) && !bank.process.borrows)
            .map(|(&pid, _)| pid)
            .collect()
    }

    /// Could another process change memory of this one, or see what it stores?
    pub fn shares_memory(&self, pid: Pid) -> bool {
        let lends = |process: &Process| process.borrows && (process.pid == pid || process.space == pid);
        let pids = self.pids().into_iter();
        let mut processes = pids.filter_map(|pid| self.process_at(pid));
        let has = match self.aside.get(&pid) {
            Some(bank) => self.fs.has_shared_memory_at(&bank.place),
            None => self.fs.has_shared_memory(),
        };
        has || processes.any(lends)
    }

    /// The threads of all processes, by number.
    pub fn tids(&self) -> Vec<Tid> {
        let mut tids: Vec<Tid> = self.threads.keys().copied().collect();
        if !self.aside.is_empty() {
            tids.extend(self.aside.values().flat_map(|bank| bank.threads.keys().copied()));
            tids.sort_unstable();
        }
        tids
    }

    pub fn all_threads(&self) -> impl Iterator<Item = &Thread> {
        let others = self.aside.values().flat_map(|bank| bank.threads.values());
        self.threads.values().chain(others)
    }

    pub fn all_threads_mut(&mut self) -> impl Iterator<Item = &mut Thread> {
        let others = self.aside.values_mut().flat_map(|bank| bank.threads.values_mut());
        self.threads.values_mut().chain(others)
    }

    /// How many threads there are, in all processes.
    pub fn thread_count(&self) -> usize {
        self.threads.len() + self.aside.values().map(|bank| bank.threads.len()).sum::<usize>()
    }

    /// Is there one thread, so that nobody else can notice anything?
    pub fn is_alone(&self) -> bool {
        self.threads.len() < 2 && self.aside.is_empty()
    }

    /// The thread with this number, of whatever process.
    pub fn find_thread(&self, tid: Tid) -> Option<&Thread> {
        let others = || self.aside.values().find_map(|bank| bank.threads.get(&tid));
        self.threads.get(&tid).or_else(others)
    }

    pub fn find_thread_mut(&mut self, tid: Tid) -> Option<&mut Thread> {
        if self.threads.contains_key(&tid) {
            return self.threads.get_mut(&tid);
        }
        self.aside
            .values_mut()
            .find_map(|bank| bank.threads.get_mut(&tid))
    }

    /// The process of a thread.
    pub fn process_of(&self, tid: Tid) -> Option<Pid> {
        if self.threads.contains_key(&tid) {
            return Some(self.process.pid);
        }
        let has = |bank: &Bank| bank.threads.contains_key(&tid);
        self.aside
            .iter()
            .find_map(|(&pid, bank)| has(bank).then_some(pid))
    }

    /// Who the process with this number is, if it lives.
    pub fn process_at(&self, pid: Pid) -> Option<&Process> {
        if self.process.pid == pid && !self.threads.is_empty() {
            return Some(&self.process);
        }
        self.aside.get(&pid).map(|bank| &bank.process)
    }

    pub(crate) fn process_at_mut(&mut self, pid: Pid) -> Option<&mut Process> {
        if self.process.pid == pid && !self.threads.is_empty() {
            return Some(&mut self.process);
        }
        self.aside.get_mut(&pid).map(|bank| &mut bank.process)
    }

    /// The signals of the process that a thread is of.
    pub fn signals_of(&self, tid: Tid) -> &Signals {
        if self.aside.is_empty() || self.threads.contains_key(&tid) {
            return &self.signals;
        }
        let bank = self.aside.values().find(|bank| bank.threads.contains_key(&tid));
        bank.map_or(&self.signals, |bank| &bank.signals)
    }

    /// The signal that this thread would take next, if any.
    pub fn deliverable(&self, tid: Tid) -> Option<i32> {
        self.signals_of(tid).deliverable(self.thread(tid))
    }

    /// Puts a process in place. False if there is no such process.
    pub fn enter(&mut self, pid: Pid) -> bool {
        if pid == self.process.pid {
            return true;
        }
        let Some(mut bank) = self.aside.remove(&pid) else {
            return false;
        };
        self.swap(&mut bank);
        // One that has ended leaves nothing.
        if !bank.threads.is_empty() {
            self.aside.insert(bank.process.pid, bank);
        }
        true
    }

    /// Puts the process in place that is there between steps.
    pub fn go_home(&mut self) {
        if let Some(first) = self.pids().first() {
            self.enter(*first);
        }
    }

    fn swap(&mut self, bank: &mut Bank) {
        std::mem::swap(&mut self.process, &mut bank.process);
        std::mem::swap(&mut self.threads, &mut bank.threads);
        std::mem::swap(&mut self.signals, &mut bank.signals);
        std::mem::swap(&mut self.timers, &mut bank.timers);
        std::mem::swap(&mut self.random, &mut bank.random);
        self.files.swap_table(&mut bank.table);
        self.fs.swap_place(&mut bank.place);
        self.channels.swap_next(&mut bank.next_channel);
    }

    /// Does something with another process in place.
    pub fn within<R>(&mut self, pid: Pid, work: impl FnOnce(&mut Model) -> R) -> Option<R> {
        let here = self.process.pid;
        if !self.enter(pid) {
            return None;
        }
        let result = work(self);
        self.enter(here);
        Some(result)
    }

    /// The same with each process in turn.
    pub(crate) fn in_each(&mut self, mut work: impl FnMut(&mut Model)) {
        if self.aside.is_empty() {
            return work(self);
        }
        for pid in self.pids() {
            self.within(pid, &mut work);
        }
    }

    /// What the program's own processes have open.
    pub(crate) fn own_descriptions(&self) -> Vec<OfdId> {
        let own = self.process.peer.is_none() && !self.threads.is_empty();
        let here = self
            .files
            .iter()
            .filter(|_| own)
            .map(|(_, open)| open.description);
        let others = self.aside.values().filter(|bank| bank.process.peer.is_none());
        here.chain(others.flat_map(|bank| bank.table.descriptions()))
            .collect()
    }

    /// A copy of the process in place, made by `maker`, with one thread.
    pub(crate) fn add_process(&mut self, maker: Thread, process: Process, signals: Signals) {
        let numbers = process.numbers();
        let (table, place) = (self.files.copy_table(numbers), self.fs.copy_place(numbers));
        self.add_bank(maker, process, signals, table, place);
    }

    pub(crate) fn add_bank(
        &mut self,
        first: Thread,
        process: Process,
        signals: Signals,
        table: Table,
        place: Place,
    ) {
        let bank = Bank {
            threads: BTreeMap::from([(first.tid, first)]),
            signals,
            timers: Timers::default(),
            random: self.random.of_process(process.pid),
            table,
            place,
            next_channel: process.numbers(),
            process,
        };
        self.aside.insert(bank.process.pid, bank);
    }

    /// The process in place has ended. What it had open is closed, its children go to another parent, its own parent is told.
    pub fn end_process(&mut self, ended: Ended) {
        let pid = self.process.pid;
        let tids: Vec<Tid> = self.threads.keys().copied().collect();
        for tid in tids {
            self.futexes.forget(tid);
            self.ipc.thread_ended(tid);
            mqueue::forget(self, tid);
            for thread in self.all_threads_mut() {
                thread.yields_to.remove(&tid);
            }
        }
        let open: Vec<i32> = self.files.iter().map(|(fd, _)| fd).collect();
        for fd in open {
            // Just listed, so it is there.
            let _ = self.close(fd);
        }
        pty::leader_ended(self);
        self.fs.end_process(pid);
        Ipc::process_ended(self, pid);
        let own = self.process.clone();
        let first = self.threads.values().next();
        let name = first.map_or([0; 16], |thread| thread.name);
        self.threads.clear();
        self.leave_children(pid, &own);
        let zombie = Zombie {
            parent: own.parent,
            group: own.group,
            session: own.session,
            user: own.user.real,
            name,
            ended,
        };
        self.tell_parent(pid, zombie, own.exit_signal);
        self.go_home();
    }

    /// The children of a process that has ended get another parent.
    fn leave_children(&mut self, pid: Pid, own: &Process) {
        let mut reaper = own.parent;
        while let Some(process) = self.process_at(reaper) {
            if process.child_subreaper {
                break;
            }
            reaper = process.parent;
        }
        let reaper = if self.process_at(reaper).is_some() {
            reaper
        } else {
            INIT
        };
        for child in self.pids() {
            let Some(process) = self.process_at_mut(child).filter(|process| process.parent == pid) else {
                continue;
            };
            process.parent = reaper;
            process.exit_signal = libc::SIGCHLD;
            let signo = process.parent_death_signal;
            if signo != 0 {
                let info = SigInfo::user(signo, pid, own.user.real);
                self.within(child, |model| Signals::send_process(model, info));
            }
        }
        let zombies: Vec<Pid> = self
            .zombies
            .iter()
            .filter(|(_, zombie)| zombie.parent == pid)
            .map(|(&pid, _)| pid)
            .collect();
        for pid in zombies {
            if let Some(mut zombie) = self.zombies.remove(&pid) {
                zombie.parent = reaper;
                self.tell_parent(pid, zombie, libc::SIGCHLD);
            }
        }
    }

    /// The parent gets its signal, and something to wait for unless it wants neither.
    fn tell_parent(&mut self, pid: Pid, zombie: Zombie, exit_signal: i32) {
        let parent = zombie.parent;
        let info = SigInfo::child(exit_signal.max(1), pid, zombie.user, zombie.ended);
        let kept = self.within(parent, |model| {
            let action = model.signals.action(libc::SIGCHLD);
            let unwanted = action.handler == SIG_IGN || action.flags & libc::SA_NOCLDWAIT as u32 as u64 != 0;
            if exit_signal != 0 {
                Signals::send_process(model, info);
            }
            !(unwanted && exit_signal == libc::SIGCHLD)
        });
        if kept == Some(true) {
            self.zombies.insert(pid, zombie);
        }
        epoll::notify(self, &Kind::PidFd(pid), PollEvents::all());
    }

    /// How many shared mappings of a file all processes have together.
    pub(crate) fn attachments(&self, node: &NodeId) -> u64 {
        let others = self.aside.values().filter(|bank| !bank.process.borrows);
        let others = others.map(|bank| bank.place.count_mappings(node));
        let own = match self.process.borrows {
            true => 0,
            false => self.fs.count_mappings(node),
        };
        own + others.sum::<u64>()
    }

    /// Somebody has waited for a process that has ended: nothing is left of it.
    pub(crate) fn reap(&mut self, pid: Pid) -> Option<Zombie> {
        let zombie = self.zombies.remove(&pid);
        epoll::notify(self, &Kind::PidFd(pid), PollEvents::all());
        zombie
    }

    /// The parent of a process that lives or is waited for, the parent of that, and so on: whoever inherits it is one of them.
    pub(crate) fn ancestors(&self, pid: Pid) -> Vec<Pid> {
        let parent_of = |pid: Pid| match self.zombies.get(&pid) {
            Some(zombie) => Some(zombie.parent),
            None => self.process_at(pid).map(|process| process.parent),
        };
        std::iter::successors(parent_of(pid), |&pid| parent_of(pid)).collect()
    }

    /// Who notices that a process ends: its parent, which gets a signal and a child to wait for, and whoever inherits its own children.
    pub fn told_of_end(&self, pid: Pid) -> Vec<Object> {
        let told = |pid: Pid| [Object::Children(pid), Object::Signals(pid)];
        let mut told_of: Vec<Pid> = self.ancestors(pid);
        if !self.has_child(pid, Children::Any) {
            told_of.truncate(1);
        }
        let mut objects: Vec<Object> = told_of.into_iter().flat_map(told).collect();
        objects.push(Object::Parenthood(pid));
        objects
    }

    /// Is there a process with this number, dead or alive, that the program can know of?
    pub(crate) fn is_known(&self, pid: Pid) -> bool {
        pid == INIT || self.process_at(pid).is_some() || self.zombies.contains_key(&pid)
    }

    /// A child of the process in place that has ended, of those that are meant.
    pub(crate) fn ended_child(&self, parent: Pid, which: Children) -> Option<(Pid, &Zombie)> {
        let mine = |zombie: &Zombie| zombie.parent == parent;
        let zombies = self.zombies.iter();
        zombies
            .map(|(&pid, zombie)| (pid, zombie))
            .find(|&(pid, zombie)| mine(zombie) && which.includes(pid, zombie.group))
    }

    /// Does a process have such children, dead or alive?
    pub(crate) fn has_child(&self, parent: Pid, which: Children) -> bool {
        let living = self.pids().into_iter().filter_map(|pid| self.process_at(pid));
        let mut living = living.filter(|process| process.parent == parent);
        living.any(|process| which.includes(process.pid, process.group))
            || self.ended_child(parent, which).is_some()
    }

    /// The name of a futex queue: in memory that processes share, whoever maps it wherever means the same word.
    pub fn futex_key(&self, addr: u64) -> u64 {
        let shared = self.fs.shared_here(addr);
        self.named(&self.process, shared, addr)
    }

    /// The name of a place in the memory of a thread: the address, as long as there is one process; the same for all who share it.
    pub fn memory_name(&self, tid: Tid, addr: u64) -> u64 {
        let bank = match self.threads.contains_key(&tid) {
            true => None,
            false => self.aside.values().find(|bank| bank.threads.contains_key(&tid)),
        };
        match bank {
            Some(bank) => self.named(&bank.process, self.fs.shared_at(&bank.place, addr), addr),
            None => self.futex_key(addr),
        }
    }

    fn named(&self, process: &Process, shared: Option<(u64, u64)>, addr: u64) -> u64 {
        /// Addresses are below it.
        const ADDRESSES: u32 = 47;
        const SHARED: u64 = 1 << 63;
        match shared {
            Some((file, offset)) => {
                xxh3_64_with_seed(&(offset & !7).to_le_bytes(), file) & !7 | offset & 7 | SHARED
            }
            None if process.space == process.first => addr,
            None => (u64::from(process.space) << ADDRESSES ^ addr) & !SHARED,
        }
    }

    /// A child of a process that has ended, stopped or gone on, as far as that is asked for.
    pub(crate) fn changed_child(&self, parent: Pid, which: Children, asked: Asked) -> Option<(Pid, Change)> {
        if asked.ended
            && let Some((pid, zombie)) = self.ended_child(parent, which)
        {
            return Some((pid, Change::Ended(zombie.ended)));
        }
        let living = self.pids().into_iter().filter_map(|pid| self.process_at(pid));
        let mut mine =
            living.filter(|process| process.parent == parent && which.includes(process.pid, process.group));
        mine.find_map(|process| match (process.untold, process.stopped) {
            (true, Some(signal)) if asked.stopped => Some((process.pid, Change::Stopped(signal))),
            (true, None) if asked.continued => Some((process.pid, Change::Continued)),
            _ => None,
        })
    }

    /// Does `wait` have an answer: a child, or that there is none?
    pub(crate) fn wait_is_over(&self, parent: Pid, which: Children, asked: Asked) -> bool {
        self.changed_child(parent, which, asked).is_some() || !self.has_child(parent, which)
    }

    /// Is the process of this thread stopped?
    pub fn is_stopped(&self, tid: Tid) -> bool {
        let pid = self.process_of(tid);
        let process = pid.and_then(|pid| self.process_at(pid));
        process.is_some_and(|process| process.stopped.is_some())
    }

    /// The process in place stops until somebody lets it go on.
    pub fn stop_process(&mut self, signo: i32) {
        self.process.stopped = Some(signo);
        self.tell_of_change(libc::CLD_STOPPED, signo);
    }

    /// The process in place goes on, if it was stopped.
    pub(crate) fn continue_process(&mut self) {
        if self.process.stopped.take().is_some() {
            self.tell_of_change(libc::CLD_CONTINUED, libc::SIGCONT);
        }
    }

    fn tell_of_change(&mut self, code: i32, signo: i32) {
        self.process.untold = true;
        let info = SigInfo::child_changed(code, self.process.pid, self.process.user.real, signo);
        self.within(self.process.parent, |model| {
            let action = model.signals.action(libc::SIGCHLD);
            if action.flags & libc::SA_NOCLDSTOP as u32 as u64 == 0 {
                Signals::send_process(model, info);
            }
        });
    }
}
