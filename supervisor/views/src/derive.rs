//! What follows from the steps of a trace: who held which lock, who waited, and which step had to come before which.
//!
//! Operations are recorded, their effects on locks are not, so that they are reconstructed here as the C library defines
//! them. A program with a single thread does not park at its locks; what it took then shows when it is given back, or never.

use super::view::{Edge, Hold, Lane, Wait};
use crate::processes::{Group, Processes};
use hooks::{OnLock, SyncFn};
use std::collections::{BTreeMap, HashMap};
use trace::{COLUMNS, End, Operation, SHARED, Step, Trace};

/// Options of `wait4`: it may return because a child has stopped, or goes on.
const OTHER_NEWS: u64 = (libc::WUNTRACED | libc::WCONTINUED) as u64;

/// All that [`derive()`] finds.
#[derive(Default)]
pub struct Derived {
    pub lanes: Vec<Lane>,
    pub processes: Vec<Group>,
    pub waits: Vec<Wait>,
    pub holds: Vec<Hold>,
    pub edges: Vec<Edge>,
}

/// A lock or a word in memory: the same address is another place in another process, unless the memory is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// The process, if there are several, and the address.
    Own(Option<u32>, u64),
    /// Which of those that processes share.
    Shared(usize),
}

/// What is known of a thread half-way through the trace.
#[derive(Default)]
struct Thread {
    from: usize,
    last: Option<usize>,
    ended: bool,
    /// The step at which it began to wait in the kernel, and for what futex word and value.
    waiting: Option<(usize, Option<(Place, u64)>)>,
    /// Locks held, the last one taken last.
    held: Vec<Place>,
    /// The mutex that a wait for a condition has released and will take again.
    to_retake: Option<Place>,
}

#[derive(Default)]
struct Walk {
    threads: BTreeMap<u32, Thread>,
    /// Per lock: its spans, as indices into `holds`.
    spans: HashMap<Place, Vec<usize>>,
    names: HashMap<Place, String>,
    /// Names of what processes share.
    shared: HashMap<String, usize>,
    /// Per object: the last step on it, and its thread.
    touched: HashMap<Place, (usize, u32)>,
    /// Per futex word: the last step that woke somebody there.
    woken: HashMap<Place, (usize, u32)>,
    processes: Processes,
    found: Derived,
}

pub fn derive(trace: &Trace) -> Derived {
    let mut walk = Walk {
        processes: Processes::of(trace),
        ..Walk::default()
    };
    for (number, step) in trace.steps.iter().enumerate() {
        let location = trace.locations.get(number).map_or("", String::as_str);
        walk.step(number, step, location);
    }
    walk.finish(&trace.end)
}

impl Walk {
    fn step(&mut self, number: usize, step: &Step, location: &str) {
        let thread = self.threads.entry(step.thread).or_insert_with(|| Thread {
            from: number,
            ..Thread::default()
        });
        let is_first = thread.last.is_none();
        if is_first && thread.from != number {
            let from = thread.from;
            self.edge(from, number, "starts");
        }
        self.end_wait(number, step);
        match &step.operation {
            Operation::Sync { name, object } => self.sync(number, step.thread, name, *object, location),
            Operation::Call {
                number: call,
                args,
                result,
            } => self.call(number, step.thread, i64::from(*call), args, *result, location),
            Operation::Start
            | Operation::Wake { .. }
            | Operation::Spin
            | Operation::Signal { .. }
            | Operation::TimePasses
            | Operation::Rests
            | Operation::GoesOnForEver
            | Operation::Return
            | Operation::SignalFromOutside { .. }
            | Operation::KilledFromOutside
            | Operation::PowerFails
            | Operation::Mishap { .. } => {}
        }
        self.thread(step.thread).last = Some(number);
    }

    fn thread(&mut self, tid: u32) -> &mut Thread {
        self.threads.entry(tid).or_default()
    }

    /// The first reason found for a pair of steps is the one that is kept: it is the more telling one.
    fn edge(&mut self, from: usize, to: usize, why: &'static str) {
        let known = self.found.edges.iter().rev().take_while(|edge| edge.to == to);
        if known.into_iter().all(|edge| edge.from != from) {
            self.found.edges.push(Edge { from, to, why });
        }
    }

    /// The thread moves, so whatever it waited for is over.
    fn end_wait(&mut self, number: usize, step: &Step) {
        let Some((from, word)) = self.thread(step.thread).waiting.take() else {
            return;
        };
        self.found.waits.push(Wait {
            thread: step.thread,
            from,
            to: Some(number),
            why: waiting_text(word),
        });
        if let Some((address, value)) = word {
            let waker = self.woken.get(&address).copied().filter(|(at, _)| *at > from);
            let ended = self
                .threads
                .get(&(value as u32))
                .filter(|other| other.ended)
                .and_then(|other| other.last);
            if let Some(at) = waker.map(|(at, _)| at).or(ended) {
                self.edge(at, number, "wakes");
            }
        }
        if let Some(mutex) = self.thread(step.thread).to_retake.take() {
            self.acquire(number, step.thread, mutex);
        }
    }

    /// The place at an address, as this thread sees it.
    fn place(&mut self, tid: u32, address: u64, location: &str) -> Place {
        let name = location.split_once(COLUMNS).map(|(name, _)| name);
        match name.filter(|name| name.starts_with(SHARED)) {
            // Wherever it is mapped, it is the same.
            Some(name) => {
                let next = self.shared.len();
                Place::Shared(*self.shared.entry(name.to_owned()).or_insert(next))
            }
            None => Place::Own(self.processes.group(tid), address),
        }
    }

    fn sync(&mut self, number: usize, tid: u32, name: &str, object: u64, location: &str) {
        let object = self.place(tid, object, location);
        if let Some((variable, _)) = location.split_once(COLUMNS) {
            self.names.entry(object).or_insert_with(|| variable.to_owned());
        }
        let is_held = self.holder(object).is_some_and(|holder| holder != tid);
        match SyncFn::from_symbol(name).map_or(OnLock::Nothing, SyncFn::on_lock) {
            OnLock::Takes => {
                self.waited_for_lock(number, tid, object);
                self.acquire(number, tid, object);
            }
            // An attempt fails if somebody has the lock; so does one whose time is up.
            OnLock::Tries if !is_held => self.acquire(number, tid, object),
            OnLock::Releases => self.release(number, tid, object),
            OnLock::ReleasesAndRetakes => {
                if let Some(mutex) = self.thread(tid).held.last().copied() {
                    self.release(number, tid, mutex);
                    self.thread(tid).to_retake = Some(mutex);
                }
            }
            OnLock::Tries | OnLock::Nothing => {}
        }
        // Loads and stores order nothing.
        if name != "memory" && name != "pause" {
            if let Some((at, _)) = self.touched.get(&object).copied().filter(|(_, by)| *by != tid) {
                self.edge(at, number, "object");
            }
            self.touched.insert(object, (number, tid));
        }
    }

    fn call(
        &mut self,
        number: usize,
        tid: u32,
        call: i64,
        args: &[u64; 6],
        result: Option<i64>,
        location: &str,
    ) {
        const COMMAND: u64 = 0x7f;
        let is_futex = call == libc::SYS_futex;
        let wakes = [
            libc::FUTEX_WAKE,
            libc::FUTEX_WAKE_BITSET,
            libc::FUTEX_WAKE_OP,
            libc::FUTEX_REQUEUE,
            libc::FUTEX_CMP_REQUEUE,
        ];
        match (call, result) {
            (libc::SYS_exit, _) => self.thread_ends(number, tid),
            (libc::SYS_exit_group, _) => self.process_ends(number, tid),
            // What comes back is another program.
            (libc::SYS_execve | libc::SYS_execveat, None) => {}
            (libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork, Some(child))
                if child > 0 =>
            {
                self.thread(child as u32).from = number;
            }
            (libc::SYS_wait4, Some(child)) if child > 0 && args[2] & OTHER_NEWS == 0 => {
                self.reaped(number, child as u32);
            }
            (_, Some(woken)) if is_futex && wakes.contains(&((args[1] & COMMAND) as i32)) => {
                if woken > 0 {
                    let word = self.place(tid, args[0], location);
                    self.woken.insert(word, (number, tid));
                }
            }
            (_, None) => {
                let word = is_futex.then(|| (self.place(tid, args[0], location), args[2]));
                self.thread(tid).waiting = Some((number, word));
            }
            (_, Some(_)) => {
                // A wait for a condition that did not have to wait.
                if is_futex && let Some(mutex) = self.thread(tid).to_retake.take() {
                    self.acquire(number, tid, mutex);
                }
            }
        }
    }

    fn thread_ends(&mut self, number: usize, tid: u32) {
        let thread = self.thread(tid);
        thread.ended = true;
        thread.waiting = None;
        for lock in std::mem::take(&mut thread.held) {
            self.end_hold(number, tid, lock);
        }
    }

    /// All threads of a process end with it. The last process's end is that of the trace.
    fn process_ends(&mut self, number: usize, tid: u32) {
        let Some(process) = self.processes.group(tid) else {
            return;
        };
        let all = self.threads.keys().copied();
        let own: Vec<u32> = all
            .filter(|&other| self.processes.group(other) == Some(process))
            .collect();
        for tid in own {
            self.thread_ends(number, tid);
        }
    }

    /// A child was waited for: it has ended, if not by itself then by a signal.
    fn reaped(&mut self, number: usize, child: u32) {
        self.process_ends(number, child);
        if let Some(last) = self.threads.get(&child).and_then(|thread| thread.last) {
            self.edge(last, number, "ends");
        }
    }

    fn holder(&self, lock: Place) -> Option<u32> {
        let open = |index: &&usize| self.found.holds[**index].to.is_none();
        let index = self.spans.get(&lock)?.iter().find(open)?;
        Some(self.found.holds[*index].thread)
    }

    /// The thread takes a lock now that others had since its last step: meanwhile it could not go on.
    fn waited_for_lock(&mut self, number: usize, tid: u32, lock: Place) {
        let since = self.thread(tid).last.unwrap_or(number);
        let mut last_release = None;
        // The latest spans are at the end: what was over before the thread's last step did not hinder it.
        for &index in self.spans.get(&lock).into_iter().flatten().rev() {
            let Hold { thread, from, to, .. } = self.found.holds[index];
            let Some(to) = to.filter(|_| thread != tid) else {
                continue;
            };
            if to <= since {
                break;
            }
            last_release = last_release.max(Some(to));
            self.found.waits.push(Wait {
                thread: tid,
                from: from.max(since),
                to: Some(to),
                why: format!(
                    "waits for {}, held by {}",
                    lock_name(&self.names, lock),
                    self.processes.who(thread)
                ),
            });
        }
        if let Some(at) = last_release {
            self.edge(at, number, "lock");
        }
    }

    fn acquire(&mut self, number: usize, tid: u32, lock: Place) {
        self.thread(tid).held.push(lock);
        let index = self.found.holds.len();
        self.spans.entry(lock).or_default().push(index);
        self.found.holds.push(Hold {
            thread: tid,
            lock: lock_name(&self.names, lock),
            from: number,
            to: None,
        });
    }

    fn release(&mut self, number: usize, tid: u32, lock: Place) {
        let held = &mut self.thread(tid).held;
        if let Some(at) = held.iter().rposition(|other| *other == lock) {
            held.remove(at);
            self.end_hold(number, tid, lock);
        }
    }

    fn end_hold(&mut self, number: usize, tid: u32, lock: Place) {
        let holds = &mut self.found.holds;
        let mine = |index: &&usize| holds[**index].thread == tid && holds[**index].to.is_none();
        let index = self
            .spans
            .get(&lock)
            .and_then(|spans| spans.iter().rev().find(mine))
            .copied();
        if let Some(index) = index {
            holds[index].to = Some(number);
        }
    }

    fn finish(mut self, end: &End) -> Derived {
        let mut threads: Vec<_> = self.threads.iter().collect();
        // The threads of a process side by side.
        threads.sort_by_key(|&(&tid, _)| (self.processes.group(tid), tid));
        let order = threads.iter().map(|&(&tid, _)| tid);
        self.found.processes = self.processes.groups(order);
        for (&tid, thread) in threads {
            self.found.lanes.push(Lane {
                thread: tid,
                name: self.processes.who(tid),
                process: self.processes.group(tid),
                from: thread.from,
                to: thread.last.filter(|_| thread.ended),
            });
            if thread.ended {
                continue;
            }
            let (from, why) = match thread.waiting {
                Some((from, word)) => (from, waiting_text(word)),
                None if *end == End::Deadlock => (
                    thread.last.unwrap_or(thread.from),
                    "can never make progress".to_owned(),
                ),
                None if *end == End::Livelock => (
                    thread.last.unwrap_or(thread.from),
                    "polls for something that never happens".to_owned(),
                ),
                None if *end == End::Idle => (
                    thread.last.unwrap_or(thread.from),
                    "waits for clients or signals, and nothing more comes from outside".to_owned(),
                ),
                None => continue,
            };
            self.found.waits.push(Wait {
                thread: tid,
                from,
                to: None,
                why,
            });
        }
        self.found
    }
}

fn waiting_text(word: Option<(Place, u64)>) -> String {
    match word {
        Some((Place::Shared(_), _)) => "waits for a futex in shared memory".to_owned(),
        Some((Place::Own(_, address), _)) => format!("waits for the futex at {address:#x}"),
        None => "waits in its call".to_owned(),
    }
}

fn lock_name(names: &HashMap<Place, String>, lock: Place) -> String {
    match (names.get(&lock), lock) {
        (Some(name), _) => name.clone(),
        (None, Place::Own(_, address)) => format!("{address:#x}"),
        (None, Place::Shared(_)) => "a lock in shared memory".to_owned(),
    }
}
