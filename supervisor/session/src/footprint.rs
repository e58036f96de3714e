//! What the pending operation of a thread touches: the ground of partial-order reduction.

use super::arrivals::Arrivals;
use super::context::HookOp;
use super::context::Threads;
use super::enabled::Movers;
use super::endings::Endings;
use super::network::PeerNetwork;
use super::spaces::Spaces;
use super::stacks::Explain;
use super::step::Transit;
use super::{Context, TaskMemory};
use explore::Footprint;
use hooks::{SiteKind, SyncFn};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use syscall_model::channels::{ChannelId, held_beside, mqueue};
use syscall_model::common::Common;
use syscall_model::processes::Pid;
use syscall_model::signals::bit;
use syscall_model::table::{self, Reach};
use syscall_model::{Access, Call, Model, Object, Pending, Sysno, Tid, Touch, WaitFor};
use xxhash_rust::xxh3::Xxh3;

/// What the process would exit with if its threads end one by one.
const LAST_STATUS: u64 = 0x7374_6174_7573_0001;

/// What threads are about to touch.
#[derive(Clone, Copy)]
pub struct Footprints<'a> {
    pub(super) model: &'a Model,
    pub(super) threads: &'a Threads,
    pub(super) spaces: &'a Spaces,
    pub(super) network: &'a PeerNetwork,
    /// The last transition.
    pub(super) transit: &'a Transit,
    pub(super) ends: &'a Endings,
    pub(super) movers: Movers<'a>,
    pub(super) arrivals: Arrivals<'a>,
}

impl<'a> Footprints<'a> {
    /// The footprint of what this thread does next, up to its next parking point.
    pub fn footprint(self, tid: Tid) -> Footprint {
        let footprint = self.footprint_of(tid, |_| true);
        match self.reaches_residents(tid) {
            None => footprint,
            Some(Reached::Everywhere) => footprint.and_global(),
            Some(Reached::By(access)) => footprint.and(key(&Object::Peers), access),
        }
    }

    /// The footprint if no peer moves that moves whenever it can, where that is another one. Then the step does nothing to peers, but it may have seen what they
    /// did before.
    pub(super) fn footprint_at_rest(self, tid: Tid) -> Option<Footprint> {
        match self.reaches_residents(tid)? {
            Reached::By(explore::Access::Write) => {
                let footprint = self.footprint_of(tid, |_| true);
                Some(footprint.and_read(key(&Object::Peers)))
            }
            _ => None,
        }
    }

    /// Peers in a fixed schedule move within the step that sets them in motion, and may then touch whatever they can reach. So all operations of the program on what peers
    /// can reach, too, have one object in common.
    fn reaches_residents(self, tid: Tid) -> Option<Reached> {
        if !self.movers.peers_are_fixed {
            return None;
        }
        if self.model.shares_with_peers() {
            return Some(Reached::Everywhere);
        }
        let touches = &self.threads.get(&tid)?.touches;
        let accesses = touches.iter().filter(|touch| self.is_within_reach(&touch.object));
        let access = accesses.map(|touch| touch.access).max()?;
        Some(Reached::By(match access {
            Access::Read => explore::Access::Read,
            Access::Write => explore::Access::Write,
        }))
    }

    /// May a process get at this that has nothing from the program's?
    fn is_within_reach(self, object: &Object) -> bool {
        match object {
            Object::Channel(id) => {
                let id = ChannelId(*id);
                let socket = self.model.channels.socket(id);
                // A pipe or a pair of sockets has no name; but a pipe may be a file.
                socket.is_none_or(|socket| socket.is_inet() || socket.crosses() || socket.name().is_some())
            }
            Object::Path(_) | Object::FileSystem | Object::Destination(_) | Object::Clients => true,
            Object::IpcKeys | Object::Segment(_) | Object::Semaphores(_) | Object::Messages(_) => true,
            Object::Description(id) => {
                let kind = self.model.files.get(*id).map(|open| &open.kind);
                matches!(kind, Some(syscall_model::fd::Kind::File(_)))
            }
            _ => false,
        }
    }

    /// The footprint if no peer answers, where that is another one.
    pub(super) fn footprint_in_silence(self, tid: Tid) -> Option<Footprint> {
        let touches = &self.threads.get(&tid)?.touches;
        let differs = touches.iter().any(|touch| touch.if_answered);
        differs.then(|| self.footprint_of(tid, |touch| !touch.if_answered))
    }

    fn footprint_of(self, tid: Tid, counts: impl Fn(&Touch) -> bool) -> Footprint {
        let thread = self.model.thread(tid);
        if let Some(signo) = self.model.deliverable(tid) {
            return self.delivery_footprint(tid, signo);
        }
        let Some(context) = self.threads.get(&tid) else {
            return Footprint::global();
        };
        let names = self.names(tid);
        let footprint = match &thread.pending {
            // Its maker wrote this object: a thread begins after it was made.
            Pending::Start => Footprint::write(key(&Object::Thread(tid))),
            Pending::Call(call) => self.call_footprint(tid, call, context, counts),
            Pending::Hook(_) => context.hook.as_ref().map_or(Footprint::global(), |op| {
                self.and_handed_over(tid, op, names.hook_footprint(op))
            }),
            Pending::Return(_) => names.touched(context.touches.iter().filter(|touch| counts(touch))),
            // It touches nothing but what its code does, which is for the audit to find out.
            Pending::Created(child) => match &thread.wait {
                // Up to here the memory was lent: what its child did to it comes before.
                Some(wait) if matches!(wait.on, WaitFor::Exec(_)) => {
                    Footprint::local().and_read(key(&Object::Thread(*child as Tid)))
                }
                _ => Footprint::local(),
            },
            Pending::Spin | Pending::Running => Footprint::global(),
        };
        let footprint = self.arrivals.and_arrivals(tid, footprint);
        let footprint = self.and_held(context, footprint);
        let footprint = self.and_family(tid, footprint);
        // A function that has not returned works on, beyond the operation before which the thread stands.
        context.inside.iter().fold(footprint, |footprint, function| {
            let footprint = names.and_memory(footprint, function.object, explore::Access::Write);
            match function.mutex {
                Some(mutex) => footprint.and_write(names.memory(mutex)),
                None => footprint,
            }
        })
    }

    /// The arrival of a signal is an order that the program can see, and a handler may do anything. But one of a process that shares no memory
    /// comes only to its own next operation, where it parks.
    fn delivery_footprint(self, tid: Tid, signo: i32) -> Footprint {
        let Some(process) = self.model.process_of(tid) else {
            return Footprint::global();
        };
        let has_handler = self.model.signals_of(tid).handled() & bit(signo) != 0;
        let wait = self.model.thread(tid).wait.as_ref().map(|wait| &wait.on);
        // Others see that it no longer stands in a queue.
        let leaves_no_queue = matches!(
            wait,
            None | Some(WaitFor::Nothing | WaitFor::Ready(_) | WaitFor::Child(..) | WaitFor::Signals(_))
        );
        let is_private = self.is_last_thread(tid) && !self.model.shares_memory(process);
        if !(has_handler && leaves_no_queue && is_private) {
            return Footprint::global();
        }
        let names = self.names(tid);
        let footprint = Footprint::write(key(&Object::Signals(process)));
        self.and_family(tid, footprint)
            .and_write(key(&Object::Thread(tid)))
            .and_write(names.key(&Object::Process))
    }

    /// A plain mutex goes from the thread that holds it to the next: nobody can lock it before it is unlocked.
    fn and_handed_over(self, tid: Tid, op: &HookOp, footprint: Footprint) -> Footprint {
        let Some(sync) = op.sync.as_ref().filter(|sync| sync.object != 0) else {
            return footprint;
        };
        let holder = || {
            let memory = TaskMemory::new(self.spaces.of(self.model, tid).task.as_ref()?);
            hooks::plain_mutex_holder(sync.object, &memory)
        };
        let names = self.names(tid);
        match sync.function {
            SyncFn::MutexLock => footprint.acquiring(names.memory(sync.object)),
            SyncFn::MutexUnlock if holder() == Some(tid) => footprint.releasing(names.memory(sync.object)),
            _ => footprint,
        }
    }

    /// A server that is told something may be done with a connection, and go on with another one.
    fn and_held(self, context: &Context, footprint: Footprint) -> Footprint {
        if !self.model.channels.sockets().any(|socket| socket.is_held()) {
            return footprint;
        }
        let said = context.touches.iter().filter_map(|touch| match touch.object {
            Object::Said(id) => Some(ChannelId(id)),
            _ => None,
        });
        let freed = said.flat_map(|id| held_beside(self.model, id));
        freed.fold(footprint, |footprint, object| footprint.and_write(key(&object)))
    }

    /// With other processes about: a signal that one of them sends comes before or after any step, and so does what becomes of one whose parent ends.
    fn and_family(self, tid: Tid, footprint: Footprint) -> Footprint {
        let process = self
            .model
            .process_of(tid)
            .and_then(|pid| self.model.process_at(pid));
        let Some(own) = process.filter(|_| !self.model.is_single()) else {
            return footprint;
        };
        let footprint = footprint.and_read(key(&Object::Signals(own.pid)));
        let asks = matches!(
            self.model.thread(tid).pending,
            Pending::Call(call) if matches!(call.sysno, Sysno::getppid | Sysno::prctl | Sysno::exit_group | Sysno::exit)
        );
        match asks || own.settings.parent_death_signal != 0 {
            true => footprint.and_read(key(&Object::Parenthood(own.parent))),
            false => footprint,
        }
    }

    /// Is it the last thread of one of several processes?
    fn is_last_thread(self, tid: Tid) -> bool {
        let process = self.model.process_of(tid);
        let threads = self.model.tids().into_iter();
        !self.model.is_single()
            && threads
                .filter(|&tid| self.model.process_of(tid) == process)
                .count()
                == 1
    }

    /// The end of a process is noticed by its family, as it is then.
    fn and_told(self, tid: Tid, footprint: Footprint) -> Footprint {
        let told = self.model.process_of(tid).map(|pid| self.model.told_of_end(pid));
        let told = told.into_iter().flatten();
        told.fold(footprint, |footprint, object| footprint.and_write(key(&object)))
    }

    /// What the functions touch that the thread is inside of.
    pub fn inside(self, tid: Tid) -> Footprint {
        let functions = self.threads.get(&tid).map(|context| context.inside.as_slice());
        let functions = functions.unwrap_or_default().iter();
        functions
            .filter(|function| function.object != 0)
            .fold(Footprint::local(), |footprint, function| {
                self.names(tid)
                    .and_memory(footprint, function.object, explore::Access::Write)
            })
    }

    pub(super) fn names(self, tid: Tid) -> Names<'a> {
        Names {
            model: self.model,
            tid,
            process: self.model.process_of(tid).unwrap_or_default(),
            common: self.model.common_of(tid),
        }
    }

    fn call_footprint(
        self,
        tid: Tid,
        call: &Call,
        context: &Context,
        counts: impl Fn(&Touch) -> bool,
    ) -> Footprint {
        let names = self.names(tid);
        let slot = |fd| names.slot(fd);
        let footprint = names.touched(context.touches.iter().filter(|touch| counts(touch)));
        // The status of the last one is that of the process: which one that is does not matter where it is the same.
        if call.sysno == Sysno::exit && self.is_last_thread(tid) {
            // When it parked, there may have been other threads.
            let knows = context
                .touches
                .iter()
                .any(|touch| touch.object == Object::Process);
            return if knows {
                self.and_told(tid, footprint)
            } else {
                Footprint::global()
            };
        }
        if call.sysno == Sysno::exit {
            let status = match call.int(0) & 0xff {
                0 => explore::Access::Read,
                _ => explore::Access::Write,
            };
            let handle = thread_handle(self.model.memory_name(tid, context.regs.fs_base));
            return footprint.and(names.slot(LAST_STATUS), status).releasing(handle);
        }
        // Whom it tells by signal is decided when it is sent.
        if call.sysno == Sysno::mq_timedsend && mqueue::raises_signals(self.model) {
            return Footprint::global();
        }
        let row = table::lookup(call.sysno);
        match row.reach {
            Reach::Ends if self.model.is_single() => Footprint::ending(),
            // What it touches then is told by the call itself.
            Reach::Ends => self.and_told(tid, footprint),
            Reach::Everything => Footprint::global(),
            // The number is decided when the thread is made, not when its maker parked.
            Reach::Creates => footprint.and_write(key(&Object::Thread(
                self.model.next_number_of(self.model.peer_of(tid)),
            ))),
            Reach::Closes => footprint.and_write(slot(call.args[0])),
            Reach::Replaces => footprint
                .and_read(slot(call.args[0]))
                .and_write(slot(call.args[1])),
            _ if !context
                .touches
                .iter()
                .any(|touch| is_behind_a_descriptor(&touch.object)) =>
            {
                footprint
            }
            Reach::DescriptorTable => footprint.and_read(names.key(&Object::FdTable)),
            Reach::Descriptors => row.descriptors().fold(footprint, |footprint, place| {
                footprint.and_read(slot(call.args[place]))
            }),
        }
    }
}

impl<'a> Explain<'a> {
    /// Where in the program this thread stands, as a number: what it does next is of the same kind whenever it stands there.
    ///
    /// None for a thread that is about to end. There is no code of the program in that step, so its footprint is all there is to it. And others do look
    /// whether it has ended before they wait for that (`pthread_join`), or do not park where they are alone: which leads to other states, but nowhere else.
    pub fn site(self, tid: Tid) -> Option<u64> {
        match self.model.find_thread(tid)?.pending {
            Pending::Call(call) if call.sysno == Sysno::exit => None,
            _ => self.standing_at(tid),
        }
    }

    /// The same for any thread.
    pub fn standing_at(self, tid: Tid) -> Option<u64> {
        let context = self.threads.get(&tid)?;
        let hook = context.hook.as_ref();
        let kind = match self.model.thread(tid).pending {
            Pending::Start => 0,
            Pending::Call(call) => 1 + call.sysno as u64,
            Pending::Created(_) => u64::MAX - 1,
            Pending::Hook(_) | Pending::Return(_) | Pending::Spin | Pending::Running => u64::MAX,
        };
        let callers = context.inside.iter().map(|function| function.caller);
        let mut hasher = Xxh3::new();
        let half = hook.is_some_and(|op| op.loaded.is_some());
        (kind, context.regs.rip, hook.map(|op| op.caller), half).hash(&mut hasher);
        callers.for_each(|caller| caller.hash(&mut hasher));
        Some(hasher.finish())
    }
}

/// What an operation has to do with peers in a fixed schedule.
enum Reached {
    Everywhere,
    By(explore::Access),
}

/// Is it reached through a number in the descriptor table, which another thread may close and use anew?
fn is_behind_a_descriptor(object: &Object) -> bool {
    matches!(
        object,
        Object::Description(_) | Object::Channel(_) | Object::Output(_)
    )
}

/// A thread as the C library knows it, `pthread_t`: whoever has joined it comes after its end.
pub(super) fn thread_handle(handle: u64) -> u64 {
    let mut hasher = Xxh3::new();
    ("joined", handle).hash(&mut hasher);
    hasher.finish()
}

fn access(kind: &SiteKind) -> explore::Access {
    match kind {
        SiteKind::Memory(accesses) if !accesses.writes() => explore::Access::Read,
        SiteKind::Sync(function) if function.only_reads() => explore::Access::Read,
        _ => explore::Access::Write,
    }
}

/// A pipe, socket, or the like.
pub(super) fn channel(id: ChannelId) -> u64 {
    key(&Object::Channel(id.0))
}

/// What the objects of a thread are called: memory and descriptors are those of its process.
pub(super) struct Names<'a> {
    model: &'a Model,
    tid: Tid,
    process: Pid,
    /// What it shares with other processes.
    common: Common,
}

impl Names<'_> {
    fn hook_footprint(&self, op: &HookOp) -> Footprint {
        if op.is_pause() {
            return Footprint::global();
        }
        if op.is_before_load() {
            let reads: Vec<(Range<u64>, bool)> =
                op.spans.iter().map(|(span, _)| (span.clone(), false)).collect();
            return self.accessed(Footprint::local(), &reads);
        }
        let footprint = self.accessed(Footprint::local(), &op.spans);
        if !op.spans.is_empty() && op.sync.is_none() {
            return footprint;
        }
        let mutex = op.sync.as_ref().and_then(|sync| sync.mutex);
        let footprint = self.and_memory(footprint, op.object, access(&op.kind));
        match mutex {
            Some(mutex) => footprint.and_write(self.memory(mutex)),
            None => footprint,
        }
    }

    /// Address 0 stands for everything: a function that flushes all streams, say.
    fn and_memory(&self, footprint: Footprint, address: u64, access: explore::Access) -> Footprint {
        match address {
            0 => footprint.and_global(),
            _ => footprint.and(self.memory(address), access),
        }
    }

    /// Every word that a load or store touches; long ones (string instructions) count as everything.
    fn accessed(&self, touched: Footprint, spans: &[(Range<u64>, bool)]) -> Footprint {
        const LONG: u64 = 256;
        spans.iter().fold(touched, |footprint, (span, writes)| {
            if span.end - span.start > LONG {
                return footprint.and_global();
            }
            let access = if *writes {
                explore::Access::Write
            } else {
                explore::Access::Read
            };
            (span.start & !7..span.end)
                .step_by(8)
                .fold(footprint, |f, word| f.and(self.memory(word), access))
        })
    }

    fn touched<'t>(&self, touches: impl Iterator<Item = &'t Touch>) -> Footprint {
        touches.fold(Footprint::local(), |footprint, touch| {
            match (&touch.object, touch.access) {
                (Object::Everything, _) => footprint.and_global(),
                (object, Access::Read) => footprint.and_read(self.key(object)),
                (object, Access::Write) => footprint.and_write(self.key(object)),
            }
        })
    }

    /// One entry of the descriptor table.
    pub(super) fn slot(&self, fd: u64) -> u64 {
        let mut hasher = Xxh3::new();
        let table = self.common.files.unwrap_or(self.process);
        ("descriptor", table, fd as u32).hash(&mut hasher);
        hasher.finish()
    }

    /// The process itself. Those who share a directory or handlers with anybody meet there, whoever it is.
    fn itself(&self) -> u64 {
        let shares = self.common.places.is_some() || self.common.handlers.is_some();
        let mut hasher = Xxh3::new();
        ("process", if shares { 0 } else { self.process }).hash(&mut hasher);
        hasher.finish()
    }

    fn memory(&self, address: u64) -> u64 {
        // Locks and atomics that share a word must meet, whatever their width.
        let name = self.model.memory_name(self.tid, address & !7);
        key(&Object::Memory(name))
    }

    fn key(&self, object: &Object) -> u64 {
        match object {
            Object::Memory(address) => self.memory(*address),
            // Each process has its own.
            Object::FdTable => self.slot(u64::MAX),
            Object::Process => self.itself(),
            other => key(other),
        }
    }
}

fn key(object: &Object) -> u64 {
    let object = match object {
        Object::Memory(address) => &Object::Memory(address & !7),
        other => other,
    };
    let mut hasher = Xxh3::new();
    object.hash(&mut hasher);
    hasher.finish()
}
