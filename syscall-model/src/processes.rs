//! Many processes. One is *in place*: its table of descriptors, its threads, its signals are the ones that handlers
//! find in the [`Model`]. The others stand aside, each as a [`Bank`] of the same parts, and come in place one at a time.
//! What all share (files, pipes, sockets, the clock) is in the model once.
//!
//! Between two steps the process with the lowest number is in place, so that it does not tell who moved last.

mod children;

pub use children::{Asked, Change, Children, Ended, Zombie};

use crate::common::Common;
use crate::fd::{OfdId, Table};
use crate::fs::{NodeId, Place};
use crate::model::Model;
use crate::process::Process;
use crate::random::Random;
use crate::signals::{self, Signals};
use crate::thread::{Pending, Thread, Tid};
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
    pub(crate) table: Table,
    pub(crate) place: Place,
    next_channel: u32,
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
            .filter(|(_, bank)| shares(bank) && !bank.process.program.borrows)
            .map(|(&pid, _)| pid)
            .collect()
    }

    /// Could another process change memory of this one, or see what it stores?
    pub fn shares_memory(&self, pid: Pid) -> bool {
        let lends = |process: &Process| {
            process.program.borrows && (process.pid == pid || process.program.space == pid)
        };
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

    /// What the process of a thread shares with others.
    pub fn common_of(&self, tid: Tid) -> Common {
        let bank = match self.aside.is_empty() || self.threads.contains_key(&tid) {
            true => None,
            false => self.aside.values().find(|bank| bank.threads.contains_key(&tid)),
        };
        bank.map_or(self.process.common, |bank| bank.process.common)
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

    /// The signal that this thread would take next, if any. What only a call's own mask lets through breaks off a wait, and nothing else: a call
    /// that has something to tell tells it, and the old mask is back.
    pub fn deliverable(&self, tid: Tid) -> Option<i32> {
        let thread = self.thread(tid);
        let signo = self.signals_of(tid).deliverable(thread)?;
        let was_blocked = |mask| signals::bit(signo) & mask != 0;
        let returns = thread.signals.saved_mask.is_some_and(was_blocked)
            && matches!(thread.pending, Pending::Call(_))
            && self.wake_reason(tid).is_some();
        (!returns).then_some(signo)
    }

    /// Puts a process in place. False if there is no such process.
    pub fn enter(&mut self, pid: Pid) -> bool {
        if pid == self.process.pid {
            return true;
        }
        if !self.aside.contains_key(&pid) {
            return false;
        }
        self.tell_fellows();
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
        self.tell_fellows();
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
        let table = match process.common.files {
            Some(_) => self.files.table().clone(),
            None => self.files.copy_table(numbers),
        };
        let place = self.fs.copy_place(numbers, process.common.places.is_some());
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

    /// How many shared mappings of a file all processes have together.
    pub(crate) fn attachments(&self, node: &NodeId) -> u64 {
        let others = self.aside.values().filter(|bank| !bank.process.program.borrows);
        let others = others.map(|bank| bank.place.count_mappings(node));
        let own = match self.process.program.borrows {
            true => 0,
            false => self.fs.count_mappings(node),
        };
        own + others.sum::<u64>()
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

    /// The file or the memory that processes share at an address of a thread, by number, and the place in it.
    pub fn shared_at(&self, tid: Tid, addr: u64) -> Option<(u64, u64)> {
        let mut banks = self.aside.values();
        match self.threads.contains_key(&tid) {
            true => self.fs.shared_inode(None, addr),
            false => {
                let bank = banks.find(|bank| bank.threads.contains_key(&tid))?;
                self.fs.shared_inode(Some(&bank.place), addr)
            }
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
            None if process.program.space == process.first => addr,
            None => (u64::from(process.program.space) << ADDRESSES ^ addr) & !SHARED,
        }
    }
}
