//! What a step is going to touch, told before it is made, and what it has touched, told afterwards.
//!
//! Before a step nobody knows whether a peer will answer, a thread be the last one, or time pass. So a step announces the most that can
//! happen, and when it is made a list of corrections says what did. Each of them is asked in turn, with what those before it have said.

use super::TaskMemory;
use super::footprint::Footprints;
use explore::Footprint;
use hooks::ReadMemory;
use syscall_model::faults::Fault;
use syscall_model::{Pending, Sysno, Thread, Tid};
use trace::{Alternative, End};

/// glibc's count of the threads of a process: as the other threads see it, and as the first one does.
const THREADS_LEFT: u64 = 0x7374_6174_7573_0002;
const FIRST_IS_LEFT: u64 = 0x7374_6174_7573_0003;

/// The object that stands for the number of faults that are left: each of them takes the possibility of the others away.
const BUDGET: u64 = 0x6661_756c_7473_6c65;

/// What is known of a step before it is made.
pub struct Announced {
    thread: Tid,
    footprint: Footprint,
    /// What it is if no peer answers, where that is something else.
    in_silence: Option<Footprint>,
    /// The same for peers that move by themselves.
    at_rest: Option<Footprint>,
    time: u64,
    /// How many threads glibc counts.
    counted: Option<u32>,
    is_alone: bool,
    is_thread_end: bool,
}

type Correction<'a> = fn(Footprints<'a>, &Announced, &Footprint) -> Option<Footprint>;

impl<'a> Footprints<'a> {
    /// What a step has touched, if that is not what was touched according to those before.
    const CORRECTIONS: [Correction<'a>; 6] = [
        Self::nobody_answered,
        Self::nobody_moved,
        Self::and_joined,
        Self::and_all_that_changed_for_everybody,
        Self::and_counted_out,
        Self::and_ended,
    ];

    /// What a thread, or the environment, would touch with this alternative of its next step.
    pub fn footprint_as(self, thread: Tid, alternative: Option<Alternative>) -> Footprint {
        match alternative {
            Some(Alternative::Plain | Alternative::Arrival(_)) => self.footprint(thread),
            // More than its own call is concerned.
            Some(Alternative::Fault(Fault::Reset | Fault::NoMemory)) => Footprint::global(),
            Some(Alternative::Fault(_)) => self.footprint(thread).and_write(BUDGET),
            Some(Alternative::Rest | Alternative::Await | Alternative::Endless) => Footprint::default(),
            // Time passes for all threads, and what comes from outside comes to all.
            _ => Footprint::global(),
        }
    }

    /// What there is to know of a step before it is made, for [`Self::performed`] after it.
    pub fn announce(self, thread: Tid, alternative: u32) -> Announced {
        let alternative = Alternative::of(alternative);
        let is_plain = matches!(alternative, Some(Alternative::Plain | Alternative::Arrival(_)));
        let pending = self.model.threads.get(&thread).map(|thread| &thread.pending);
        Announced {
            thread,
            footprint: self.footprint_as(thread, alternative),
            in_silence: is_plain.then(|| self.footprint_in_silence(thread)).flatten(),
            at_rest: self.footprint_at_rest(thread),
            time: self.model.clock.now(),
            counted: self.counted_threads(thread),
            is_alone: self.model.threads.len() == 1,
            is_thread_end: matches!(pending, Some(Pending::Call(call)) if call.sysno == Sysno::exit),
        }
    }

    /// What the step has touched that was just made; `None` if it is what was announced.
    pub fn performed(self, announced: &Announced) -> Option<Footprint> {
        Self::CORRECTIONS.iter().fold(None, |so_far, correction| {
            let touched = so_far.as_ref().unwrap_or(&announced.footprint);
            correction(self, announced, touched).or(so_far)
        })
    }

    fn nobody_answered(self, announced: &Announced, _: &Footprint) -> Option<Footprint> {
        let in_silence = announced.in_silence.as_ref();
        in_silence.filter(|_| self.network.was_silent()).cloned()
    }

    fn nobody_moved(self, announced: &Announced, _: &Footprint) -> Option<Footprint> {
        let at_rest = announced.at_rest.as_ref();
        at_rest.filter(|_| !self.transit.residents_moved).cloned()
    }

    /// What the last transition learned of threads that had ended: it joined them, and need not wait. Nothing shows that but the call of `pthread_join`, and
    /// what it does afterwards comes after their ends.
    fn and_joined(self, _: &Announced, touched: &Footprint) -> Option<Footprint> {
        let joined = self.transit.joined.iter();
        let mut handles = joined
            .map(|&handle| super::footprint::thread_handle(handle))
            .peekable();
        handles.peek()?;
        Some(handles.fold(touched.clone(), Footprint::awaiting))
    }

    /// Time passed for everybody; memory is gone for everybody; a peer was launched.
    fn and_all_that_changed_for_everybody(self, announced: &Announced, _: &Footprint) -> Option<Footprint> {
        let has_changed = self.model.clock.now() != announced.time
            || self.transit.took_memory
            || self.transit.residents_launched;
        has_changed.then(|| announced.footprint.clone().and_global())
    }

    /// How many threads glibc counts in the process of this one; `None` if it had no second thread, or is not glibc's.
    fn counted_threads(self, tid: Tid) -> Option<u32> {
        let space = self.spaces.of(self.model, tid);
        let address = space.code.thread_count()?;
        TaskMemory::new(space.task.as_ref()?).read_u32(address)
    }

    /// What a step has touched in which a thread came to its end, if it did.
    ///
    /// A thread that ends counts itself out, in code that is no operation, and the one that was the last to do so ends the process. So who is last
    /// matters, and the order in which the others were counted out does not: they look at the count. The last but one decides which is
    /// the last, so it changes it. As a rule the last but one are all threads but the first one, which never counts itself
    /// out unless it calls `pthread_exit`: so with the first one it has an object of its own, which the other threads do not touch. **Why this is enough**: two ends do
    /// not commute only if no other thread is left. Of these two, one is counted out as the last but one: if the first thread is left, it changes `FIRST_IS_LEFT`, which every end of
    /// the first thread looks at; else it changes `THREADS_LEFT`, which all ends look at.
    fn and_counted_out(self, announced: &Announced, touched: &Footprint) -> Option<Footprint> {
        let tid = announced.thread;
        let left = self.counted_threads(tid)?;
        if announced.counted != left.checked_add(1) {
            return None;
        }
        let process = self.model.process_of(tid)?;
        let names = self.names(tid);
        let is_first = tid == process;
        let has_ended =
            |thread: &Thread| matches!(&thread.pending, Pending::Call(call) if call.sysno == Sysno::exit);
        let first_is_left = !is_first
            && self
                .model
                .find_thread(process)
                .is_some_and(|first| !has_ended(first));
        let access = |decides: bool| {
            if decides {
                explore::Access::Write
            } else {
                explore::Access::Read
            }
        };
        let decides = left <= 1;
        let mut touched = touched
            .clone()
            .and(names.slot(THREADS_LEFT), access(decides && !first_is_left));
        if is_first || (decides && first_is_left) {
            touched = touched.and(names.slot(FIRST_IS_LEFT), access(decides));
        }
        Some(touched)
    }

    /// The end of the program ends whatever others were about to do. But the last thread that ends leaves nobody behind.
    fn and_ended(self, announced: &Announced, _: &Footprint) -> Option<Footprint> {
        let end = self.ends.ended.as_ref()?;
        let is_last = announced.is_alone && announced.is_thread_end && matches!(end, End::Exited(_));
        let still_there = matches!(end, End::Deadlock | End::Livelock | End::Idle);
        (!is_last && !still_there).then(|| announced.footprint.clone().and_ending())
    }
}
