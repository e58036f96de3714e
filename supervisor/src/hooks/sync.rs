//! The pthread functions of glibc, and what a call of one means.
//!
//! glibc's C11 functions (`mtx_*`, `cnd_*`) call the exported entries of their pthread counterparts (seen in the
//! disassembly of glibc 2.36), so they need no hooks of their own. Neither do `pthread_once` and `pthread_join`: they wait by futex.

/// Reads the memory of the guest.
pub trait GuestMemory {
    /// Fills `buffer` from `address`, or returns `None` if any byte of it cannot be read.
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()>;

    /// A 32-bit word.
    fn read_u32(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Some(u32::from_le_bytes(bytes))
    }

    /// A 64-bit word.
    fn read_u64(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }
}

impl<F: Fn(u64, &mut [u8]) -> Option<()>> GuestMemory for F {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self(address, buffer)
    }
}

macro_rules! sync_functions {
    ($($variant:ident = $name:literal,)*) => {
        /// A synchronisation function of glibc that a thread parks at.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum SyncFn { $($variant,)* }

        impl SyncFn {
            /// Every function.
            pub const ALL: &[SyncFn] = &[$(SyncFn::$variant,)*];

            /// Its name in C.
            pub fn name(self) -> &'static str {
                match self { $(SyncFn::$variant => $name,)* }
            }
        }
    };
}

sync_functions! {
    MutexLock = "pthread_mutex_lock",
    MutexTrylock = "pthread_mutex_trylock",
    MutexTimedlock = "pthread_mutex_timedlock",
    MutexClocklock = "pthread_mutex_clocklock",
    MutexUnlock = "pthread_mutex_unlock",
    RwlockRdlock = "pthread_rwlock_rdlock",
    RwlockTryrdlock = "pthread_rwlock_tryrdlock",
    RwlockTimedrdlock = "pthread_rwlock_timedrdlock",
    RwlockClockrdlock = "pthread_rwlock_clockrdlock",
    RwlockWrlock = "pthread_rwlock_wrlock",
    RwlockTrywrlock = "pthread_rwlock_trywrlock",
    RwlockTimedwrlock = "pthread_rwlock_timedwrlock",
    RwlockClockwrlock = "pthread_rwlock_clockwrlock",
    RwlockUnlock = "pthread_rwlock_unlock",
    SpinLock = "pthread_spin_lock",
    SpinTrylock = "pthread_spin_trylock",
    SpinUnlock = "pthread_spin_unlock",
    CondWait = "pthread_cond_wait",
    CondTimedwait = "pthread_cond_timedwait",
    CondClockwait = "pthread_cond_clockwait",
    CondSignal = "pthread_cond_signal",
    CondBroadcast = "pthread_cond_broadcast",
    SemWait = "sem_wait",
    SemTrywait = "sem_trywait",
    SemTimedwait = "sem_timedwait",
    SemClockwait = "sem_clockwait",
    SemPost = "sem_post",
    BarrierWait = "pthread_barrier_wait",
}

impl SyncFn {
    /// The function with this name. glibc's internal aliases have one to three leading underscores; callers drop duplicates by address.
    pub fn from_symbol(symbol: &str) -> Option<SyncFn> {
        let name = symbol.trim_start_matches('_');
        // `__new_sem_wait` and the like are the current versions of the semaphore functions in a static executable.
        let name = name
            .strip_prefix("new_")
            .filter(|rest| rest.starts_with("sem_"))
            .unwrap_or(name);
        // The scan asks about every symbol of a large file: turn most away by their first letters.
        if !name.starts_with("pthread_") && !name.starts_with("sem_") {
            return None;
        }
        SyncFn::ALL
            .iter()
            .copied()
            .find(|function| function.name() == name)
    }

    /// Functions on condition variables. Their oldest versions work on another type and call the current ones.
    pub fn is_cond(self) -> bool {
        use SyncFn::*;
        matches!(
            self,
            CondWait | CondTimedwait | CondClockwait | CondSignal | CondBroadcast
        )
    }
}

/// Until when a timed call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// Where the absolute `struct timespec` is.
    pub address: u64,
    /// The clock it refers to (`CLOCK_REALTIME` is 0, `CLOCK_MONOTONIC` is 1).
    pub clock: u32,
}

/// A call of a hooked function, decoded from its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncOp {
    /// Which function.
    pub function: SyncFn,
    /// The object it works on.
    pub object: u64,
    /// The mutex that goes with a condition variable.
    pub mutex: Option<u64>,
    /// The timeout of a timed call.
    pub timeout: Option<Timeout>,
}

const CLOCK_REALTIME: u32 = 0;
const CLOCK_MONOTONIC: u32 = 1;

/// Decodes a call at the entry of `function`; `args` are `rdi, rsi, rdx, rcx, r8, r9`.
///
/// Timed calls without a clock argument mean `CLOCK_REALTIME`, but for `pthread_cond_timedwait` the clock is an attribute of the object.
pub fn sync_op(function: SyncFn, args: [u64; 6], memory: &dyn GuestMemory) -> SyncOp {
    use SyncFn::*;
    let timeout = match function {
        MutexTimedlock | RwlockTimedrdlock | RwlockTimedwrlock | SemTimedwait => {
            Some((args[1], CLOCK_REALTIME))
        }
        MutexClocklock | RwlockClockrdlock | RwlockClockwrlock | SemClockwait => {
            Some((args[2], args[1] as u32))
        }
        CondTimedwait => Some((args[2], cond_clock(args[0], memory))),
        CondClockwait => Some((args[3], args[2] as u32)),
        _ => None,
    };
    let waits_on_cond = matches!(function, CondWait | CondTimedwait | CondClockwait);
    SyncOp {
        function,
        object: args[0],
        mutex: waits_on_cond.then_some(args[1]),
        timeout: timeout.map(|(address, clock)| Timeout { address, clock }),
    }
}

/// `struct __pthread_cond_s` keeps its flags in `__wrefs`, behind `__wseq`, `__g1_start` (8 bytes each), `__g_refs`,
/// `__g_size` (two words each) and `__g1_orig_size`: offset 36. Bit 1 is `__PTHREAD_COND_CLOCK_MONOTONIC_MASK`.
fn cond_clock(cond: u64, memory: &dyn GuestMemory) -> u32 {
    const WREFS: u64 = 36;
    const CLOCK_MONOTONIC_MASK: u32 = 2;
    match memory.read_u32(cond.wrapping_add(WREFS)) {
        Some(wrefs) if wrefs & CLOCK_MONOTONIC_MASK != 0 => CLOCK_MONOTONIC,
        _ => CLOCK_REALTIME,
    }
}

impl Timeout {
    /// Whether glibc would return `EINVAL` for it instead of waiting.
    pub fn is_invalid(&self, memory: &dyn GuestMemory) -> bool {
        const TV_NSEC: u64 = 8;
        let nanoseconds = memory.read_u64(self.address.wrapping_add(TV_NSEC));
        self.clock > CLOCK_MONOTONIC || nanoseconds.is_some_and(|value| value >= 1_000_000_000)
    }
}
