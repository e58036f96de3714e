//! Would a parked call block? Read from the words of glibc's locks.
//!
//! The layouts are part of glibc's ABI (static initialisers compile them into programs); what the bits mean is taken from
//! glibc 2.36 and checked against a real process in the tests.
//!
//! The answer must be exact in one direction: a call that is held back here although it could do something that others can see
//! would hide behaviour. A call that is let go although it must wait is harmless, it blocks in its futex call. So whenever memory
//! cannot be read or a state is odd the answer is [`Blocked::No`].

use super::sync::{ReadMemory, SyncFn, SyncOp};

/// Why a call cannot go ahead, or that it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Blocked {
    /// It can, or it does something before it waits.
    #[default]
    No,
    /// A thread holds the lock; the caller's own tid where it locks a plain mutex twice, which no one can ever end.
    HeldBy(u32),
    /// The lock is held, the holder is not recorded (spin locks, a lock between being taken and being signed).
    Held,
    /// Readers hold the lock.
    Readers,
    /// A writer waits and the lock prefers writers.
    WriterWaiting,
    /// The semaphore is zero.
    Zero,
}

/// Whether `op`, called by thread `tid` (as glibc knows it: the tid in the thread's descriptor), would block now.
///
/// For timed calls the answer says whether it would *wait*: giving up at the timeout is another choice, which the caller adds.
/// Condition variables and barriers always change something before they wait, so they never block at entry: the futex call decides.
pub fn would_block(op: &SyncOp, tid: u32, memory: &dyn ReadMemory) -> Blocked {
    use SyncFn::*;
    if op.timeout.is_some_and(|timeout| timeout.is_invalid(memory)) {
        return Blocked::No;
    }
    let blocked = match op.function {
        MutexLock | MutexTimedlock | MutexClocklock => mutex(op.object, tid, memory),
        RwlockRdlock | RwlockTimedrdlock | RwlockClockrdlock => rwlock_read(op.object, tid, memory),
        RwlockWrlock | RwlockTimedwrlock | RwlockClockwrlock => rwlock_write(op.object, tid, memory),
        SpinLock => spin(op.object, memory),
        SemWait | SemTimedwait | SemClockwait => semaphore(op.object, memory),
        _ => Some(Blocked::No),
    };
    blocked.unwrap_or(Blocked::No)
}

/// The low 30 bits of a lock word that the kernel shares: the tid of the owner.
const FUTEX_TID_MASK: u32 = 0x3fff_ffff;
/// The kernel sets it in robust and priority-inheriting locks when their owner dies.
const FUTEX_OWNER_DIED: u32 = 0x4000_0000;

/// `struct __pthread_mutex_s`: `__lock` at 0, `__count` at 4, `__owner` at 8, `__nusers` at 12, `__kind` at 16.
///
/// `__kind` is a type in the low two bits (normal, recursive, error-checking, adaptive) and flags. What `__lock` holds depends
/// on the flags: 0/1/2 for an ordinary mutex; the owner's tid with kernel bits for robust and priority-inheriting ones (the kernel
/// must find the owner there); the ceiling in the upper 13 bits and 0/1/2 below for priority-protected ones. Bits 8 and 9
/// are about lock elision and mean nothing here.
fn mutex(address: u64, tid: u32, memory: &dyn ReadMemory) -> Option<Blocked> {
    const LOCK: usize = 0;
    const OWNER: usize = 8;
    const KIND: usize = 16;
    const TYPE_MASK: u32 = 3;
    const RECURSIVE: u32 = 1;
    const ERROR_CHECKING: u32 = 2;
    const ROBUST: u32 = 16;
    const PRIORITY_INHERIT: u32 = 32;
    const PRIORITY_PROTECT: u32 = 64;
    const CEILING_MASK: u32 = 0xfff8_0000;

    // All at once: each read is a system call.
    let mut fields = [0; KIND + 4];
    memory.read(address, &mut fields)?;
    let field = |at: usize| Some(u32::from_le_bytes(*fields[at..].first_chunk()?));
    let (word, kind) = (field(LOCK)?, field(KIND)?);
    let (is_locked, owner) = if kind & (ROBUST | PRIORITY_INHERIT) != 0 {
        if word & FUTEX_OWNER_DIED != 0 {
            // The next one to lock it gets it, with EOWNERDEAD.
            return Some(Blocked::No);
        }
        (word & FUTEX_TID_MASK != 0, word & FUTEX_TID_MASK)
    } else {
        let state = if kind & PRIORITY_PROTECT != 0 {
            word & !CEILING_MASK
        } else {
            word
        };
        (state != 0, field(OWNER)?)
    };
    let is_relock_answered = owner == tid && matches!(kind & TYPE_MASK, RECURSIVE | ERROR_CHECKING);
    Some(match (is_locked, owner) {
        (false, _) => Blocked::No,
        _ if is_relock_answered => Blocked::No,
        (true, 0) => Blocked::Held,
        (true, owner) => Blocked::HeldBy(owner),
    })
}

/// Who holds a mutex, if anybody is recorded.
pub fn mutex_holder(address: u64, memory: &dyn ReadMemory) -> Option<u32> {
    // Nobody has this number, so whoever holds it is another.
    match mutex(address, u32::MAX, memory)? {
        Blocked::HeldBy(owner) => Some(owner),
        _ => None,
    }
}

/// The same for a mutex that anybody can unlock: glibc tells others only of recursive, error-checking and robust ones.
pub fn plain_mutex_holder(address: u64, memory: &dyn ReadMemory) -> Option<u32> {
    const KIND: u64 = 16;
    const ADAPTIVE: u32 = 3;
    /// Type and flags, but for those of lock elision.
    const MEANING: u32 = 0x7f;
    let kind = memory.read_u32(address.wrapping_add(KIND))? & MEANING;
    if kind != 0 && kind != ADAPTIVE {
        return None;
    }
    mutex_holder(address, memory)
}

/// `struct __pthread_rwlock_arch_t`: `__readers` at 0, `__writers` at 4, `__wrphase_futex` at 8, `__writers_futex` at 12,
/// `__cur_writer` at 24, `__shared` at 28, `__flags` at 48.
///
/// The lock alternates between read and write phases. `__readers` holds, from bit 0: the phase is a write phase; there is
/// a *primary writer* (it owns the lock in a write phase, else it waits for the readers to leave); readers wait for it; and from
/// bit 3 the number of readers, both those inside and those that wait.
struct Rwlock {
    readers: u32,
    writers: u32,
    cur_writer: u32,
    kind: u32,
}

impl Rwlock {
    const WRITE_PHASE: u32 = 1;
    const WRITE_LOCKED: u32 = 2;
    const READER_SHIFT: u32 = 3;
    /// In `__writers`: the last writer left the lock to any waiting writer, without ending the write phase.
    const WRITER_HANDOVER: u32 = 1 << 31;
    const PREFER_READER: u32 = 0;
    const PREFER_WRITER_NONRECURSIVE: u32 = 2;

    fn read(address: u64, memory: &dyn ReadMemory) -> Option<Rwlock> {
        let word = |offset: u64| memory.read_u32(address.wrapping_add(offset));
        Some(Rwlock {
            readers: word(0)?,
            writers: word(4)?,
            cur_writer: word(24)?,
            kind: word(48)?,
        })
    }

    fn is_write_phase(&self) -> bool {
        self.readers & Rwlock::WRITE_PHASE != 0
    }

    fn is_write_locked(&self) -> bool {
        self.readers & Rwlock::WRITE_LOCKED != 0
    }

    fn has_readers(&self) -> bool {
        self.readers >> Rwlock::READER_SHIFT != 0
    }

    fn held_by_writer(&self) -> Blocked {
        if self.cur_writer == 0 {
            Blocked::Held
        } else {
            Blocked::HeldBy(self.cur_writer)
        }
    }
}

/// A reader enters at once in a read phase, and starts one itself in a write phase that no writer owns. It waits for a writer that
/// owns a write phase, and, where writers are preferred, behind a writer that waits for readers. A thread that reads what it
/// holds for writing gets `EDEADLK`.
fn rwlock_read(address: u64, tid: u32, memory: &dyn ReadMemory) -> Option<Blocked> {
    let lock = Rwlock::read(address, memory)?;
    let prefers_writers = lock.kind == Rwlock::PREFER_WRITER_NONRECURSIVE;
    Some(if lock.cur_writer == tid {
        Blocked::No
    } else if lock.is_write_phase() && lock.is_write_locked() {
        lock.held_by_writer()
    } else if prefers_writers && lock.is_write_locked() && lock.has_readers() {
        Blocked::WriterWaiting
    } else {
        Blocked::No
    })
}

/// A writer first becomes primary writer, unless there is one, and then waits for the readers to leave, if it is a read phase.
///
/// Becoming primary writer keeps new readers out if the lock prefers writers: others can see that (a thread that reads twice
/// deadlocks in between), so such a call is let go and waits in its futex call. For the other kinds it changes nothing for
/// anybody, and the call is held back while readers hold the lock.
fn rwlock_write(address: u64, tid: u32, memory: &dyn ReadMemory) -> Option<Blocked> {
    let lock = Rwlock::read(address, memory)?;
    let is_handed_over = lock.kind != Rwlock::PREFER_READER && lock.writers & Rwlock::WRITER_HANDOVER != 0;
    Some(if lock.cur_writer == tid || is_handed_over {
        Blocked::No
    } else if lock.is_write_locked() {
        if lock.is_write_phase() {
            lock.held_by_writer()
        } else {
            Blocked::WriterWaiting
        }
    } else if lock.is_write_phase() || !lock.has_readers() || lock.kind == Rwlock::PREFER_WRITER_NONRECURSIVE
    {
        Blocked::No
    } else {
        Blocked::Readers
    })
}

/// `pthread_spinlock_t` is an `int`: 1 is free. Locking decrements it and has the lock if the result is 0; a locked one is 0
/// or, with threads spinning, negative. (`lock decl (%rdi)` and `movl $1,(%rdi)` in glibc's x86-64 code.)
fn spin(address: u64, memory: &dyn ReadMemory) -> Option<Blocked> {
    let value = memory.read_u32(address)? as i32;
    Some(if value > 0 { Blocked::No } else { Blocked::Held })
}

/// `struct new_sem` keeps the value in the low half of a 64-bit word, the number of waiters in the high half.
fn semaphore(address: u64, memory: &dyn ReadMemory) -> Option<Blocked> {
    let value = memory.read_u64(address)? as u32;
    Some(if value == 0 { Blocked::Zero } else { Blocked::No })
}
