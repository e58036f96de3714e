//! What a virtual thread is while it does not run: registers, extended state, and where it parked.

use crate::rounds::Look;
use crate::watching::Freed;
use hooks::{Blocked, SiteKind, SyncOp};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, Range};
use syscall_model::net::observe::Observation;
use syscall_model::{Call, Tid, Touch, WaitFor};
use tracee::{Regs, XState};

/// Where every thread of every process stands, one record each.
#[derive(Clone, Debug, Default)]
pub struct Threads(BTreeMap<Tid, Context>);

impl Threads {
    /// The first thread of the first process, which has not begun.
    pub(crate) fn of_first(tid: Tid) -> Self {
        Self(BTreeMap::from([(tid, Context::default())]))
    }

    /// The record of a thread that is there.
    ///
    /// # Panics
    /// There is no such thread in the model either.
    pub(crate) fn at(&mut self, tid: Tid) -> &mut Context {
        self.0
            .get_mut(&tid)
            .unwrap_or_else(|| panic!("thread {tid} has no record"))
    }

    /// The hooked operation before which a thread stands.
    pub(crate) fn hook(&self, tid: Tid) -> Option<&HookOp> {
        self.0.get(&tid)?.hook.as_ref()
    }

    /// Would the lock function before which a thread stands block?
    pub(crate) fn blocked(&self, tid: Tid) -> Blocked {
        self.0.get(&tid).map_or(Blocked::No, |context| context.blocked)
    }
}

impl Deref for Threads {
    type Target = BTreeMap<Tid, Context>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Threads {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// A parked thread.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// At a system call: as at the stop (`rip` behind the instruction, `orig_rax` the number).
    /// At a hook: `rip` at the hooked instruction.
    pub regs: Regs,
    /// Saved when another thread is loaded into the kernel task; `None` while this one still is.
    pub xstate: Option<XState>,
    /// The hooked operation before which the thread stands.
    pub hook: Option<HookOp>,
    /// What holds it back if that is a function on a lock: looked up when memory has changed, not when somebody asks.
    pub blocked: Blocked,
    /// What the system call before which it stands touches.
    pub touches: Vec<Touch>,
    /// The hooked functions that the thread is inside of, outermost first.
    pub inside: Vec<Inside>,
    /// It stands in a loop that only another thread, or time, can end.
    pub spins: bool,
    /// What the call before which it stands looks for without waiting for it.
    pub look: Option<WaitFor>,
    /// What it can tell of what has arrived, beyond the readiness that it waits for or looks for.
    pub observes: Option<Observation>,
    pub loops: Loops,
    /// Handlers of signals that it is inside of.
    pub handlers: u32,
    /// The block that it is moving to a new place, while the allocator looks for one.
    pub moves: Option<Moving>,
}

/// What tells a thread that waits in a loop of its own making from one that gets somewhere.
#[derive(Clone, Debug, Default)]
pub struct Loops {
    /// The last operation, if it asked for what was not there (`EAGAIN`): where it was, and the call. Once more the same is a look.
    pub refused: Option<(u64, Call)>,
    /// How often it has done a great many operations with nobody else there.
    pub long_alone: u32,
    /// The loads since it last let others go first, and what they found, if it has done nothing else.
    pub looks: Option<Vec<Look>>,
    /// How often it has left a loop in which it let others go first, since another thread has moved.
    pub unfair: u8,
}

/// A call of `realloc` that leaves the old block where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving {
    /// The stack pointer at its entry.
    pub sp: u64,
    /// What the old block holds, as far as it is to be copied.
    pub kept: Range<u64>,
    pub freed: Freed,
}

/// A stretch of memory, and whether it is written.
pub type Span = (Range<u64>, bool);
impl Context {
    /// Forgets the functions that have returned: the stack pointer is above where they began.
    pub fn leave_functions(&mut self) {
        let sp = self.regs.rsp;
        self.inside.retain(|function| sp <= function.sp);
    }
}

/// A hooked function that has not returned yet: it may go on to work on its objects without passing another
/// parking point, as `pthread_cond_wait` takes its mutex again and `printf` fills its buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The stack pointer at its entry.
    pub sp: u64,
    pub object: u64,
    pub mutex: Option<u64>,
    /// Where it returns to.
    pub caller: u64,
}

/// A hooked operation, decoded when the thread parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookOp {
    pub site: u64,
    /// For a function: where it returns to; for one that accesses memory, where in the program's own code.
    pub caller: u64,
    pub kind: SiteKind,
    /// For a lock function: what it works on.
    pub sync: Option<SyncOp>,
    /// The address that the operation is about.
    pub object: u64,
    /// For a load or store: what it touches, and whether it writes.
    pub spans: Vec<Span>,
    /// For an instruction that loads and stores: what it has loaded, if it has. Others may come in between.
    pub loaded: Option<[u8; 8]>,
}

impl HookOp {
    /// Is it an instruction that loads, computes and stores without being atomic, and that has not loaded yet?
    pub fn is_before_load(&self) -> bool {
        let SiteKind::Memory(accesses) = self.kind else {
            return false;
        };
        self.loaded.is_none()
            && accesses.iter().count() == 1
            && accesses.iter().all(|access| {
                access.reads && access.writes && !access.repeats && (1..=8).contains(&access.width)
            })
    }

    /// It stores nothing.
    pub fn only_loads(&self) -> bool {
        matches!(self.kind, SiteKind::Memory(accesses) if accesses.iter().all(|access| !access.writes))
    }

    /// All the memory that it touches.
    pub fn touched(&self) -> Vec<Range<u64>> {
        match (self.kind, &self.sync) {
            (SiteKind::Atomic(access), _) => {
                let width = u64::from(access.width.max(1));
                let operand = self.object..self.object.saturating_add(width);
                Vec::from([operand])
            }
            (SiteKind::Sync(_), Some(sync)) => {
                let filled = self.spans.iter().map(|(span, _)| span.clone());
                sync.memory().chain(filled).collect()
            }
            _ => self.spans.iter().map(|(span, _)| span.clone()).collect(),
        }
    }

    pub fn is_pause(&self) -> bool {
        matches!(self.kind, SiteKind::Pause)
    }

    pub fn name(&self) -> &'static str {
        match (&self.sync, &self.kind) {
            (Some(op), _) => op.function.name(),
            (None, SiteKind::Atomic(_)) => "atomic",
            (None, SiteKind::Pause) => "pause",
            (None, SiteKind::Memory(_)) => "memory",
            (None, SiteKind::Random(_)) => "random",
            (None, SiteKind::Core(_)) => "core",
            (None, SiteKind::Library(function)) => function.name(),
            (None, SiteKind::Join) => "pthread_join",
            (None, SiteKind::Sync(function)) => function.name(),
        }
    }
}
