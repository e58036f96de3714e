//! The constants that arguments are made of, by name.

use super::arguments::Kind;

/// The names of a value's parts: a number in some of its bits, flags in others.
pub struct Names {
    /// Where the number is; 0 if there are flags only.
    mask: u32,
    choices: &'static [Name],
    /// Those that contain others come first.
    flags: &'static [Name],
}

type Name = (&'static str, u32);

macro_rules! names {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name as u32)),*] };
}

/// One of several constants.
macro_rules! one_of {
    ($($kind:ident: $($name:ident)*;)*) => { $(
        pub const $kind: Kind = Kind::Named(&Names { mask: u32::MAX, choices: names![$($name)*], flags: &[] });
    )* };
}

/// Flags only.
macro_rules! flags {
    ($($kind:ident: $($name:ident)*;)*) => { $(
        pub const $kind: Kind = Kind::Named(&Names { mask: 0, choices: &[], flags: names![$($name)*] });
    )* };
}

impl Names {
    /// The value with every part by its name; what has none, as a number.
    pub fn describe(&self, value: u32) -> String {
        let choice = value & self.mask;
        let named = self.choices.iter().find(|(_, number)| *number == choice);
        let mut parts: Vec<&str> = Vec::new();
        let mut left = value & !self.mask;
        for (name, bits) in self.flags {
            if left & bits == *bits {
                parts.push(name);
                left &= !bits;
            }
        }
        let number = match named {
            Some((name, _)) if self.choice_comes_last() => {
                parts.push(name);
                None
            }
            Some((name, _)) => {
                parts.insert(0, name);
                None
            }
            None => Some(choice).filter(|&choice| choice != 0),
        };
        let mut parts: Vec<String> = parts.into_iter().map(str::to_owned).collect();
        match number {
            Some(number) if parts.is_empty() && left == 0 => parts.push((number as i32).to_string()),
            Some(number) => left |= number,
            None => {}
        }
        match left {
            0 if parts.is_empty() => parts.push("0".to_owned()),
            0 => {}
            left => parts.push(format!("{left:#x}")),
        }
        parts.join("|")
    }

    /// The same, where there is no room for many flags: the first one stands for all.
    pub fn describe_shortly(&self, value: u32) -> String {
        const WIDTH: usize = 28;
        let text = self.describe(value);
        match text.split_once('|') {
            Some((first, _)) if text.len() > WIDTH => format!("{first}|…"),
            _ => text,
        }
    }

    /// A signal in the flags of `clone` is their appendix; elsewhere flags are one to the number.
    fn choice_comes_last(&self) -> bool {
        self.mask == EXIT_SIGNAL
    }
}

const EXIT_SIGNAL: u32 = 0xff;

pub static SIGNALS: Names = Names {
    mask: u32::MAX,
    choices: names![
        SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM
        SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF
        SIGWINCH SIGIO SIGPWR SIGSYS
    ],
    flags: &[],
};

const OPEN_FLAGS: &[Name] = names![
    O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK O_TMPFILE O_DIRECTORY O_SYNC O_DSYNC O_ASYNC O_DIRECT O_NOFOLLOW
    O_NOATIME O_CLOEXEC O_PATH
];

/// Flags of a call that opens a file.
pub const OPEN: Kind = Kind::Named(&Names {
    mask: libc::O_ACCMODE as u32,
    choices: names![O_RDONLY O_WRONLY O_RDWR],
    flags: OPEN_FLAGS,
});
/// The same flags where the call does not open a file.
pub const OPEN_ONLY: Kind = Kind::Named(&Names {
    mask: 0,
    choices: &[],
    flags: OPEN_FLAGS,
});
pub const MAP: Kind = Kind::Named(&Names {
    mask: libc::MAP_TYPE as u32,
    choices: names![MAP_SHARED MAP_PRIVATE MAP_SHARED_VALIDATE],
    flags: names![
        MAP_FIXED_NOREPLACE MAP_FIXED MAP_ANONYMOUS MAP_GROWSDOWN MAP_DENYWRITE MAP_EXECUTABLE MAP_LOCKED
        MAP_NORESERVE MAP_POPULATE MAP_NONBLOCK MAP_STACK MAP_HUGETLB
    ],
});
pub const SOCKET: Kind = Kind::Named(&Names {
    mask: 0xf,
    choices: names![SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_RDM SOCK_SEQPACKET],
    flags: names![SOCK_CLOEXEC SOCK_NONBLOCK],
});
pub const CLONE: Kind = Kind::Named(&Names {
    mask: EXIT_SIGNAL,
    choices: names![SIGCHLD],
    flags: names![
        CLONE_THREAD CLONE_VM CLONE_FS CLONE_FILES CLONE_SIGHAND CLONE_PIDFD CLONE_PTRACE CLONE_VFORK CLONE_PARENT
        CLONE_NEWNS CLONE_SYSVSEM CLONE_SETTLS CLONE_PARENT_SETTID CLONE_CHILD_CLEARTID CLONE_DETACHED
        CLONE_UNTRACED CLONE_CHILD_SETTID CLONE_NEWCGROUP CLONE_NEWUTS CLONE_NEWIPC CLONE_NEWUSER CLONE_NEWPID
        CLONE_NEWNET CLONE_IO
    ],
});
/// Programs use the private operations, whose names the kernel's headers have, but no library.
pub const FUTEX: Kind = Kind::Named(&Names {
    mask: !(libc::FUTEX_CLOCK_REALTIME as u32),
    choices: &[
        ("FUTEX_WAIT", 0),
        ("FUTEX_WAKE", 1),
        ("FUTEX_REQUEUE", 3),
        ("FUTEX_CMP_REQUEUE", 4),
        ("FUTEX_WAKE_OP", 5),
        ("FUTEX_LOCK_PI", 6),
        ("FUTEX_UNLOCK_PI", 7),
        ("FUTEX_TRYLOCK_PI", 8),
        ("FUTEX_WAIT_BITSET", 9),
        ("FUTEX_WAKE_BITSET", 10),
        ("FUTEX_WAIT_REQUEUE_PI", 11),
        ("FUTEX_CMP_REQUEUE_PI", 12),
        ("FUTEX_LOCK_PI2", 13),
        ("FUTEX_WAIT_PRIVATE", 128),
        ("FUTEX_WAKE_PRIVATE", 129),
        ("FUTEX_REQUEUE_PRIVATE", 131),
        ("FUTEX_CMP_REQUEUE_PRIVATE", 132),
        ("FUTEX_WAKE_OP_PRIVATE", 133),
        ("FUTEX_LOCK_PI_PRIVATE", 134),
        ("FUTEX_UNLOCK_PI_PRIVATE", 135),
        ("FUTEX_TRYLOCK_PI_PRIVATE", 136),
        ("FUTEX_WAIT_BITSET_PRIVATE", 137),
        ("FUTEX_WAKE_BITSET_PRIVATE", 138),
        ("FUTEX_WAIT_REQUEUE_PI_PRIVATE", 139),
        ("FUTEX_CMP_REQUEUE_PI_PRIVATE", 140),
        ("FUTEX_LOCK_PI2_PRIVATE", 141),
    ],
    flags: names![FUTEX_CLOCK_REALTIME],
});
const FUTEX_BITS: Kind = Kind::Named(&Names {
    mask: u32::MAX,
    choices: &[("FUTEX_BITSET_MATCH_ANY", u32::MAX)],
    flags: &[],
});
/// The constants are 0 and bits.
pub const ACCESS: Kind = Kind::Named(&Names {
    mask: 7,
    choices: &[
        ("F_OK", 0),
        ("X_OK", 1),
        ("W_OK", 2),
        ("W_OK|X_OK", 3),
        ("R_OK", 4),
        ("R_OK|X_OK", 5),
        ("R_OK|W_OK", 6),
        ("R_OK|W_OK|X_OK", 7),
    ],
    flags: &[],
});
pub const PROT: Kind = Kind::Named(&Names {
    mask: 7,
    choices: &[
        ("PROT_NONE", 0),
        ("PROT_READ", 1),
        ("PROT_WRITE", 2),
        ("PROT_READ|PROT_WRITE", 3),
        ("PROT_EXEC", 4),
        ("PROT_READ|PROT_EXEC", 5),
        ("PROT_WRITE|PROT_EXEC", 6),
        ("PROT_READ|PROT_WRITE|PROT_EXEC", 7),
    ],
    flags: names![PROT_GROWSDOWN PROT_GROWSUP],
});
pub const FLOCK: Kind = Kind::Named(&Names {
    mask: !(libc::LOCK_NB as u32),
    choices: names![LOCK_SH LOCK_EX LOCK_UN],
    flags: names![LOCK_NB],
});
/// `faccessat2` has one of its own in the place of `AT_REMOVEDIR`.
pub const AT_ACCESS: Kind = Kind::Named(&Names {
    mask: 0,
    choices: &[],
    flags: names![AT_EACCESS AT_SYMLINK_NOFOLLOW AT_EMPTY_PATH],
});

one_of! {
    WHENCE: SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE;
    SIGMASK: SIG_BLOCK SIG_UNBLOCK SIG_SETMASK;
    MADVISE: MADV_NORMAL MADV_RANDOM MADV_SEQUENTIAL MADV_WILLNEED MADV_DONTNEED MADV_FREE MADV_REMOVE MADV_DONTFORK
        MADV_DOFORK MADV_MERGEABLE MADV_UNMERGEABLE MADV_HUGEPAGE MADV_NOHUGEPAGE MADV_DONTDUMP MADV_DODUMP
        MADV_WIPEONFORK MADV_KEEPONFORK MADV_COLD MADV_PAGEOUT MADV_POPULATE_READ MADV_POPULATE_WRITE;
    ITIMER: ITIMER_REAL ITIMER_VIRTUAL ITIMER_PROF;
    DOMAIN: AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_VSOCK AF_UNSPEC;
    SHUT: SHUT_RD SHUT_WR SHUT_RDWR;
    SOCKOPT_LEVEL: SOL_SOCKET IPPROTO_IP IPPROTO_TCP IPPROTO_UDP IPPROTO_IPV6;
    SOCKET_OPTION: SO_DEBUG SO_REUSEADDR SO_TYPE SO_ERROR SO_DONTROUTE SO_BROADCAST SO_SNDBUF SO_RCVBUF SO_KEEPALIVE
        SO_OOBINLINE SO_PRIORITY SO_LINGER SO_REUSEPORT SO_PASSCRED SO_PEERCRED SO_RCVLOWAT SO_SNDLOWAT SO_RCVTIMEO
        SO_SNDTIMEO SO_BINDTODEVICE SO_TIMESTAMP SO_ACCEPTCONN SO_SNDBUFFORCE SO_RCVBUFFORCE SO_PROTOCOL SO_DOMAIN
        SO_INCOMING_CPU SO_BUSY_POLL SO_ZEROCOPY;
    TCP_OPTION: TCP_NODELAY TCP_MAXSEG TCP_CORK TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT TCP_SYNCNT TCP_LINGER2
        TCP_DEFER_ACCEPT TCP_WINDOW_CLAMP TCP_INFO TCP_QUICKACK TCP_CONGESTION TCP_USER_TIMEOUT TCP_FASTOPEN
        TCP_FASTOPEN_CONNECT TCP_NOTSENT_LOWAT;
    IP_OPTION: IP_TOS IP_TTL IP_HDRINCL IP_OPTIONS IP_RECVOPTS IP_PKTINFO IP_MTU_DISCOVER IP_RECVERR IP_RECVTTL
        IP_MTU IP_FREEBIND IP_TRANSPARENT IP_MULTICAST_IF IP_MULTICAST_TTL IP_MULTICAST_LOOP IP_ADD_MEMBERSHIP
        IP_BIND_ADDRESS_NO_PORT;
    IPV6_OPTION: IPV6_V6ONLY IPV6_UNICAST_HOPS IPV6_MULTICAST_IF IPV6_MULTICAST_HOPS IPV6_MULTICAST_LOOP
        IPV6_RECVPKTINFO IPV6_MTU IPV6_RECVERR IPV6_TCLASS;
    FCNTL: F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_SETOWN F_GETOWN
        F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW F_SETLEASE F_GETLEASE F_NOTIFY F_DUPFD_CLOEXEC F_SETPIPE_SZ F_GETPIPE_SZ
        F_ADD_SEALS F_GET_SEALS;
    IOCTL: FIONREAD FIONBIO FIOCLEX FIONCLEX FIOASYNC TCGETS TCSETS TCSETSW TCSETSF TIOCGWINSZ TIOCSWINSZ TIOCGPGRP
        TIOCSPGRP TIOCGPTN TIOCSPTLCK SIOCGIFCONF SIOCGIFFLAGS SIOCGIFADDR SIOCGIFNETMASK SIOCGIFMTU SIOCGIFHWADDR
        SIOCGIFINDEX FICLONE FICLONERANGE;
    RLIMIT: RLIMIT_CPU RLIMIT_FSIZE RLIMIT_DATA RLIMIT_STACK RLIMIT_CORE RLIMIT_RSS RLIMIT_NPROC RLIMIT_NOFILE
        RLIMIT_MEMLOCK RLIMIT_AS RLIMIT_LOCKS RLIMIT_SIGPENDING RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO
        RLIMIT_RTTIME;
    RUSAGE: RUSAGE_SELF RUSAGE_CHILDREN RUSAGE_THREAD;
    PRIO: PRIO_PROCESS PRIO_PGRP PRIO_USER;
    SCHED: SCHED_OTHER SCHED_FIFO SCHED_RR SCHED_BATCH SCHED_IDLE SCHED_DEADLINE;
    PRCTL: PR_SET_PDEATHSIG PR_GET_PDEATHSIG PR_GET_DUMPABLE PR_SET_DUMPABLE PR_SET_KEEPCAPS PR_SET_NAME PR_GET_NAME
        PR_GET_SECCOMP PR_SET_SECCOMP PR_CAPBSET_READ PR_CAPBSET_DROP PR_SET_TIMERSLACK PR_GET_TIMERSLACK
        PR_SET_CHILD_SUBREAPER PR_GET_CHILD_SUBREAPER PR_SET_NO_NEW_PRIVS PR_GET_NO_NEW_PRIVS PR_SET_MM PR_SET_PTRACER
        PR_SET_THP_DISABLE PR_GET_THP_DISABLE PR_SET_VMA PR_CAP_AMBIENT;
    CLOCK: CLOCK_REALTIME CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_THREAD_CPUTIME_ID CLOCK_MONOTONIC_RAW
        CLOCK_REALTIME_COARSE CLOCK_MONOTONIC_COARSE CLOCK_BOOTTIME CLOCK_REALTIME_ALARM CLOCK_BOOTTIME_ALARM CLOCK_TAI;
    EPOLL_OP: EPOLL_CTL_ADD EPOLL_CTL_MOD EPOLL_CTL_DEL;
    WAIT_FOR: P_ALL P_PID P_PGID P_PIDFD;
    MEMBARRIER: MEMBARRIER_CMD_QUERY MEMBARRIER_CMD_GLOBAL MEMBARRIER_CMD_GLOBAL_EXPEDITED
        MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED MEMBARRIER_CMD_PRIVATE_EXPEDITED
        MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE
        MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE;
}

flags! {
    MREMAP: MREMAP_MAYMOVE MREMAP_FIXED MREMAP_DONTUNMAP;
    MSYNC: MS_ASYNC MS_INVALIDATE MS_SYNC;
    MSG: MSG_OOB MSG_PEEK MSG_DONTROUTE MSG_CTRUNC MSG_TRUNC MSG_DONTWAIT MSG_EOR MSG_WAITALL MSG_CONFIRM MSG_ERRQUEUE
        MSG_NOSIGNAL MSG_MORE MSG_WAITFORONE MSG_FASTOPEN MSG_CMSG_CLOEXEC;
    WAIT: WNOHANG WUNTRACED WEXITED WCONTINUED WNOWAIT __WNOTHREAD __WALL __WCLONE;
    XATTR: XATTR_CREATE XATTR_REPLACE;
    TIMER: TIMER_ABSTIME;
    AT: AT_SYMLINK_NOFOLLOW AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH AT_STATX_FORCE_SYNC
        AT_STATX_DONT_SYNC;
    UNLINK: AT_REMOVEDIR;
    SPLICE: SPLICE_F_MOVE SPLICE_F_NONBLOCK SPLICE_F_MORE SPLICE_F_GIFT;
    TIMERFD: TFD_CLOEXEC TFD_NONBLOCK;
    EVENTFD: EFD_SEMAPHORE EFD_CLOEXEC EFD_NONBLOCK;
    SIGNALFD: SFD_CLOEXEC SFD_NONBLOCK;
    EPOLL: EPOLL_CLOEXEC;
    ACCEPT: SOCK_CLOEXEC SOCK_NONBLOCK;
    FALLOCATE: FALLOC_FL_KEEP_SIZE FALLOC_FL_PUNCH_HOLE FALLOC_FL_COLLAPSE_RANGE FALLOC_FL_ZERO_RANGE
        FALLOC_FL_INSERT_RANGE FALLOC_FL_UNSHARE_RANGE;
    RENAME: RENAME_NOREPLACE RENAME_EXCHANGE RENAME_WHITEOUT;
    GRND: GRND_NONBLOCK GRND_RANDOM GRND_INSECURE;
    MEMFD: MFD_CLOEXEC MFD_ALLOW_SEALING MFD_HUGETLB;
    RWF: RWF_HIPRI RWF_DSYNC RWF_SYNC RWF_NOWAIT RWF_APPEND;
    STATX: STATX_BASIC_STATS STATX_TYPE STATX_MODE STATX_NLINK STATX_UID STATX_GID STATX_ATIME STATX_MTIME STATX_CTIME
        STATX_INO STATX_SIZE STATX_BLOCKS STATX_BTIME STATX_MNT_ID;
    CLOSE_RANGE: CLOSE_RANGE_UNSHARE CLOSE_RANGE_CLOEXEC;
    MLOCKALL: MCL_CURRENT MCL_FUTURE MCL_ONFAULT;
    DESCRIPTOR: FD_CLOEXEC;
    SEALS: F_SEAL_SEAL F_SEAL_SHRINK F_SEAL_GROW F_SEAL_WRITE F_SEAL_FUTURE_WRITE;
}

/// The operations of `arch_prctl` on x86-64.
pub const ARCH: Kind = Kind::Named(&Names {
    mask: u32::MAX,
    choices: &[
        ("ARCH_SET_GS", 0x1001),
        ("ARCH_SET_FS", 0x1002),
        ("ARCH_GET_FS", 0x1003),
        ("ARCH_GET_GS", 0x1004),
        ("ARCH_GET_CPUID", 0x1011),
        ("ARCH_SET_CPUID", 0x1012),
        ("ARCH_CET_STATUS", 0x3001),
        ("ARCH_SHSTK_STATUS", 0x5005),
    ],
    flags: &[],
});

/// The mode of a file that is opened matters if it is made.
pub const OPEN_MODE: Kind = Kind::By(|args| mode_with(args[1]));
pub const OPENAT_MODE: Kind = Kind::By(|args| mode_with(args[2]));

fn mode_with(flags: u64) -> Kind {
    match flags as i32 & (libc::O_CREAT | libc::O_TMPFILE) {
        0 | libc::O_DIRECTORY => Kind::Absent,
        _ => Kind::Octal,
    }
}

pub const MREMAP_ADDRESS: Kind = Kind::By(|args| match args[3] as i32 & libc::MREMAP_FIXED {
    0 => Kind::Absent,
    _ => Kind::Pointer,
});
pub const SOCKOPT_NAME: Kind = Kind::By(|args| match args[1] as i32 {
    libc::SOL_SOCKET => SOCKET_OPTION,
    libc::IPPROTO_TCP => TCP_OPTION,
    libc::IPPROTO_IP => IP_OPTION,
    libc::IPPROTO_IPV6 => IPV6_OPTION,
    _ => Kind::Int,
});
pub const FCNTL_ARGUMENT: Kind = Kind::By(|args| match args[1] as i32 {
    libc::F_GETFD
    | libc::F_GETFL
    | libc::F_GETOWN
    | libc::F_GETLEASE
    | libc::F_GETPIPE_SZ
    | libc::F_GET_SEALS => Kind::Absent,
    libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => Kind::Fd,
    libc::F_SETFD => DESCRIPTOR,
    libc::F_SETFL => OPEN,
    libc::F_ADD_SEALS => SEALS,
    libc::F_SETOWN => Kind::Int,
    libc::F_GETLK
    | libc::F_SETLK
    | libc::F_SETLKW
    | libc::F_OFD_GETLK
    | libc::F_OFD_SETLK
    | libc::F_OFD_SETLKW => Kind::Pointer,
    _ => Kind::Word,
});

/// The operation of a futex call without its flags.
fn futex_operation(args: &[u64; 6]) -> i32 {
    args[1] as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME)
}

pub const FUTEX_TIMEOUT: Kind = Kind::By(|args| match futex_operation(args) {
    libc::FUTEX_WAIT
    | libc::FUTEX_WAIT_BITSET
    | libc::FUTEX_LOCK_PI
    | libc::FUTEX_LOCK_PI2
    | libc::FUTEX_WAIT_REQUEUE_PI => Kind::Pointer,
    libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE | libc::FUTEX_CMP_REQUEUE_PI | libc::FUTEX_WAKE_OP => {
        Kind::Uint
    }
    _ => Kind::Absent,
});
pub const FUTEX_SECOND: Kind = Kind::By(|args| match futex_operation(args) {
    libc::FUTEX_REQUEUE
    | libc::FUTEX_CMP_REQUEUE
    | libc::FUTEX_CMP_REQUEUE_PI
    | libc::FUTEX_WAKE_OP
    | libc::FUTEX_WAIT_REQUEUE_PI => Kind::Pointer,
    _ => Kind::Absent,
});
pub const FUTEX_THIRD: Kind = Kind::By(|args| match futex_operation(args) {
    libc::FUTEX_WAIT_BITSET | libc::FUTEX_WAKE_BITSET => FUTEX_BITS,
    libc::FUTEX_CMP_REQUEUE | libc::FUTEX_CMP_REQUEUE_PI => Kind::Uint,
    libc::FUTEX_WAKE_OP => Kind::Word,
    _ => Kind::Absent,
});
