//! The pthread functions of glibc, and what a call of one means.
//!
//! glibc's C11 functions (`mtx_*`, `cnd_*`, `call_once`) work on the same objects and take them in the same place; they go by the names of their pthread
//! counterparts, which they call, and which do not park when the C library calls them. `pthread_join` needs no hook: it waits by futex, and whether it finds the
//! thread ended or waits for it first leads to the same state.
//!
//! Functions with hidden shared state that shows in what a program does (streams and their buffers, random numbers, the environment) are parking
//! points too: their own locks are not, and without them the order of two calls would be nobody's choice. `malloc` is none: which address
//! it gives may depend on the schedule, but no program may depend on that, and its locks are never held across a parking point.

use std::ops::Range;

/// Reads the memory of the guest.
pub trait ReadMemory {
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

impl<F: Fn(u64, &mut [u8]) -> Option<()>> ReadMemory for F {
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
    Once = "pthread_once",
    Exit = "exit",
    Printf = "printf",
    PrintfChk = "printf_chk",
    Vprintf = "vprintf",
    VprintfChk = "vprintf_chk",
    Puts = "puts",
    Putchar = "putchar",
    PutcharUnlocked = "putchar_unlocked",
    Fprintf = "fprintf",
    FprintfChk = "fprintf_chk",
    Vfprintf = "vfprintf",
    VfprintfChk = "vfprintf_chk",
    Fputs = "fputs",
    FputsUnlocked = "fputs_unlocked",
    Fputc = "fputc",
    FputcUnlocked = "fputc_unlocked",
    Putc = "putc",
    PutcUnlocked = "putc_unlocked",
    Fwrite = "fwrite",
    FwriteUnlocked = "fwrite_unlocked",
    Overflow = "overflow",
    Fflush = "fflush",
    FflushUnlocked = "fflush_unlocked",
    Fclose = "fclose",
    Setvbuf = "setvbuf",
    Fseek = "fseek",
    Fseeko = "fseeko",
    Rewind = "rewind",
    Ftell = "ftell",
    Ftello = "ftello",
    Flockfile = "flockfile",
    Ftrylockfile = "ftrylockfile",
    Funlockfile = "funlockfile",
    Getchar = "getchar",
    Scanf = "isoc99_scanf",
    Fscanf = "isoc99_fscanf",
    Fgets = "fgets",
    FgetsUnlocked = "fgets_unlocked",
    Fgetc = "fgetc",
    GetcUnlocked = "getc_unlocked",
    Ungetc = "ungetc",
    Fread = "fread",
    FreadUnlocked = "fread_unlocked",
    Getline = "getline",
    Getdelim = "getdelim",
    Rand = "rand",
    Srand = "srand",
    Random = "random",
    Drand48 = "drand48",
    Lrand48 = "lrand48",
    Mrand48 = "mrand48",
    Srand48 = "srand48",
    Getenv = "getenv",
    SecureGetenv = "secure_getenv",
    Setenv = "setenv",
    Unsetenv = "unsetenv",
    Putenv = "putenv",
    Clearenv = "clearenv",
    Strtok = "strtok",
}

/// Where the C library keeps state that has no address of its own for us. Low addresses, where nothing is ever mapped.
const RANDOM_STATE: u64 = 0x10;
const RANDOM48_STATE: u64 = 0x18;
const ENVIRONMENT: u64 = 0x20;
const TOKENS: u64 = 0x28;
/// No address up to here is one of the program's.
const HIDDEN: u64 = TOKENS;

/// Where the standard streams are, of which functions like `printf` do not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Streams {
    /// `_IO_2_1_stdin_`.
    pub stdin: u64,
    /// `_IO_2_1_stdout_`.
    pub stdout: u64,
}

/// What an address stands for that is not one of the program's variables.
pub fn library_object(address: u64, streams: Streams) -> Option<&'static str> {
    match address {
        0 => Some("everything"),
        RANDOM_STATE | RANDOM48_STATE => Some("random numbers"),
        ENVIRONMENT => Some("environment"),
        TOKENS => Some("strtok's string"),
        _ if address == streams.stdin => Some("stdin"),
        _ if address == streams.stdout => Some("stdout"),
        _ => None,
    }
}

impl SyncFn {
    /// The function with this name. glibc's internal aliases have one to three leading underscores; callers drop duplicates by address.
    /// (Aliases without them, `getc` for `fgetc`, are the same code.) `_exit` is another function than `exit`, and a mere system call.
    pub fn from_symbol(symbol: &str) -> Option<SyncFn> {
        if matches!(symbol, "_exit" | "_Exit" | "__GI_exit") {
            return None;
        }
        let name = match symbol.trim_start_matches('_') {
            "mtx_lock" => "pthread_mutex_lock",
            "mtx_trylock" => "pthread_mutex_trylock",
            "mtx_timedlock" => "pthread_mutex_timedlock",
            "mtx_unlock" => "pthread_mutex_unlock",
            "cnd_wait" => "pthread_cond_wait",
            "cnd_timedwait" => "pthread_cond_timedwait",
            "cnd_signal" => "pthread_cond_signal",
            "cnd_broadcast" => "pthread_cond_broadcast",
            "call_once" => "pthread_once",
            name => name,
        };
        // `__new_sem_wait` and the like are the current versions of the semaphore functions in a static executable.
        let name = name
            .strip_prefix("new_")
            .filter(|rest| rest.starts_with("sem_"))
            .unwrap_or(name);
        SyncFn::ALL
            .iter()
            .copied()
            .find(|function| function.name() == name)
    }

    /// What a function of the C library works on that takes no lock of its caller's: a stream, whose internal lock is no parking point, or
    /// hidden state. `None` for the pthread functions, which name their object themselves; 0 for those that touch everything.
    fn hidden_object(self, args: [u64; 6], streams: Streams) -> Option<u64> {
        use SyncFn::*;
        Some(match self {
            Exit => 0,
            // `fflush(NULL)` flushes every stream.
            Fflush | FflushUnlocked => args[0],
            Printf | PrintfChk | Vprintf | VprintfChk | Puts | Putchar | PutcharUnlocked => streams.stdout,
            Getchar | Scanf => streams.stdin,
            Fputs | FputsUnlocked | Fputc | FputcUnlocked | Putc | PutcUnlocked | Ungetc => args[1],
            Fgets | FgetsUnlocked | Getline => args[2],
            Fwrite | FwriteUnlocked | Fread | FreadUnlocked | Getdelim => args[3],
            Rand | Srand | Random => RANDOM_STATE,
            Drand48 | Lrand48 | Mrand48 | Srand48 => RANDOM48_STATE,
            Strtok => TOKENS,
            Getenv | SecureGetenv | Setenv | Unsetenv | Putenv | Clearenv => ENVIRONMENT,
            Fprintf | FprintfChk | Vfprintf | VfprintfChk | Overflow | Fclose | Setvbuf | Fseek | Fseeko
            | Rewind | Ftell | Ftello | Flockfile | Ftrylockfile | Funlockfile | Fscanf | Fgetc
            | GetcUnlocked => args[0],
            _ => return None,
        })
    }

    /// How many arguments it has, if it is one of the pthread functions. Registers that could hold more hold nothing at its entry.
    pub fn arity(self) -> Option<usize> {
        use SyncFn::*;
        Some(match self {
            MutexLock | MutexTrylock | MutexUnlock | RwlockRdlock | RwlockTryrdlock | RwlockWrlock
            | RwlockTrywrlock | RwlockUnlock | SpinLock | SpinTrylock | SpinUnlock | CondSignal
            | CondBroadcast | SemWait | SemTrywait | SemPost | BarrierWait => 1,
            MutexTimedlock | RwlockTimedrdlock | RwlockTimedwrlock | CondWait | SemTimedwait | Once => 2,
            MutexClocklock | RwlockClockrdlock | RwlockClockwrlock | CondTimedwait | SemClockwait => 3,
            CondClockwait => 4,
            _ => return None,
        })
    }

    /// What it does to the lock that it is given.
    pub fn on_lock(self) -> OnLock {
        use SyncFn::*;
        match self {
            MutexLock | RwlockRdlock | RwlockWrlock | SpinLock => OnLock::Takes,
            MutexTrylock | MutexTimedlock | MutexClocklock | RwlockTryrdlock | RwlockTimedrdlock
            | RwlockClockrdlock | RwlockTrywrlock | RwlockTimedwrlock | RwlockClockwrlock | SpinTrylock => {
                OnLock::Tries
            }
            MutexUnlock | RwlockUnlock | SpinUnlock => OnLock::Releases,
            CondWait | CondTimedwait | CondClockwait => OnLock::ReleasesAndRetakes,
            _ => OnLock::Nothing,
        }
    }

    /// Bytes of what it works on, in the memory of the program or of a stream.
    fn width(self) -> u64 {
        use SyncFn::*;
        const STREAM: u64 = 216;
        match self {
            MutexLock | MutexTrylock | MutexTimedlock | MutexClocklock | MutexUnlock => 40,
            RwlockRdlock | RwlockTryrdlock | RwlockTimedrdlock | RwlockClockrdlock | RwlockWrlock
            | RwlockTrywrlock | RwlockTimedwrlock | RwlockClockwrlock | RwlockUnlock => 56,
            SpinLock | SpinTrylock | SpinUnlock | Once => 4,
            CondWait | CondTimedwait | CondClockwait | CondSignal | CondBroadcast => 48,
            SemWait | SemTrywait | SemTimedwait | SemClockwait | SemPost | BarrierWait => 32,
            _ => STREAM,
        }
    }

    /// Functions by which threads wait for what another one does, and tell it. Semaphores are none: a thread that finds one with room for it waits for nobody.
    pub fn waits_for_others(self) -> bool {
        matches!(self, SyncFn::BarrierWait | SyncFn::Once) || self.is_cond()
    }

    /// Whether it changes nothing that another call could notice.
    pub fn only_reads(self) -> bool {
        matches!(self, SyncFn::Getenv | SyncFn::SecureGetenv)
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

/// What a function does to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLock {
    Nothing,
    Takes,
    /// Takes it unless somebody has it.
    Tries,
    Releases,
    /// Gives the mutex of a condition variable back, waits, and takes it again.
    ReleasesAndRetakes,
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

impl SyncOp {
    /// The memory of what it works on, which must not have been freed.
    pub fn memory(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        const MUTEX: u64 = 40;
        let object = (self.object, self.function.width());
        let mutex = self.mutex.map(|mutex| (mutex, MUTEX));
        [Some(object), mutex]
            .into_iter()
            .flatten()
            .filter(|(start, _)| *start > HIDDEN)
            .map(|(start, width)| start..start.saturating_add(width))
    }
}

const CLOCK_REALTIME: u32 = 0;
const CLOCK_MONOTONIC: u32 = 1;

/// Decodes a call at the entry of `function`; `args` are `rdi, rsi, rdx, rcx, r8, r9`.
///
/// Timed calls without a clock argument mean `CLOCK_REALTIME`, but for `pthread_cond_timedwait` the clock is an attribute of the object.
pub fn sync_op(function: SyncFn, args: [u64; 6], streams: Streams, memory: &dyn ReadMemory) -> SyncOp {
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
        object: function.hidden_object(args, streams).unwrap_or(args[0]),
        mutex: waits_on_cond.then_some(args[1]),
        timeout: timeout.map(|(address, clock)| Timeout { address, clock }),
    }
}

/// `struct __pthread_cond_s` keeps its flags in `__wrefs`, behind `__wseq`, `__g1_start` (8 bytes each), `__g_refs`,
/// `__g_size` (two words each) and `__g1_orig_size`: offset 36. Bit 1 is `__PTHREAD_COND_CLOCK_MONOTONIC_MASK`.
fn cond_clock(cond: u64, memory: &dyn ReadMemory) -> u32 {
    const WREFS: u64 = 36;
    const CLOCK_MONOTONIC_MASK: u32 = 2;
    match memory.read_u32(cond.wrapping_add(WREFS)) {
        Some(wrefs) if wrefs & CLOCK_MONOTONIC_MASK != 0 => CLOCK_MONOTONIC,
        _ => CLOCK_REALTIME,
    }
}

impl Timeout {
    /// Whether glibc would return `EINVAL` for it instead of waiting.
    pub fn is_invalid(&self, memory: &dyn ReadMemory) -> bool {
        const TV_NSEC: u64 = 8;
        let nanoseconds = memory.read_u64(self.address.wrapping_add(TV_NSEC));
        self.clock > CLOCK_MONOTONIC || nanoseconds.is_some_and(|value| value >= 1_000_000_000)
    }
}
