//! The identity, the limits and the other process-wide settings.

use crate::common::Common;
use crate::model::Config;
use crate::residents::Peer;
use std::sync::Arc;

/// Real, effective and saved id of a user or a group. The file-system id follows the effective one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ids {
    pub real: u32,
    pub effective: u32,
    pub saved: u32,
}

impl Ids {
    pub fn new(id: u32) -> Self {
        Self {
            real: id,
            effective: id,
            saved: id,
        }
    }

    pub fn contains(&self, id: u32) -> bool {
        [self.real, self.effective, self.saved].contains(&id)
    }
}

/// A soft and a hard limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    pub soft: u64,
    pub hard: u64,
}

pub const RLIM_INFINITY: u64 = u64::MAX;
pub const LIMITS: usize = 16;

/// `struct ucred`: process, user, group.
pub type Credentials = [u32; 3];

/// Whom it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub user: Ids,
    pub group: Ids,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// The program that it runs, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// The words that it was started with, each with a NUL behind it.
    pub command_line: Arc<[u8]>,
    /// The process has become another program since it was made.
    pub execed: bool,
    /// It runs in the memory of the process that made it (`vfork`), until it becomes another program.
    pub borrows: bool,
    /// The process whose memory it is in; its own number, unless it borrows.
    pub space: u32,
}

/// What its parent is told by `wait` and by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct News {
    /// What the parent is told by when this one ends; 0 for nothing.
    pub exit_signal: i32,
    /// The signal that it was stopped by, until it goes on.
    pub stopped: Option<i32>,
    /// Its parent has not been told yet that it was stopped, or that it goes on.
    pub untold: bool,
}

/// What it may use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// By the number of the resource (`RLIMIT_…`).
    pub of: [Limit; LIMITS],
    /// Processors that the program is told of.
    pub cpus: u32,
}

/// What `prctl` and `membarrier` set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Has it asked for expedited barriers?
    pub expedites: bool,
    pub dumpable: bool,
    pub no_new_privs: bool,
    pub child_subreaper: bool,
    pub keep_capabilities: bool,
    pub parent_death_signal: i32,
    pub timer_slack: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// The virtual process id; also the id of the first thread.
    pub pid: u32,
    /// Of the first process: one that is never seen, the shell that would have started the program.
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    /// The first process of all.
    pub first: u32,
    /// The peer that it is, or is of; none if it is the program's own.
    pub peer: Option<Peer>,
    pub program: Program,
    pub news: News,
    /// What it shares with other processes, beyond memory.
    pub common: Common,
    pub owner: Owner,
    pub limits: Limits,
    pub settings: Settings,
}

/// The processors that an affinity mask of one word can name.
pub const MAX_CPUS: u32 = 64;
const DEFAULT_TIMER_SLACK: u64 = 50_000;

impl Process {
    pub fn new(config: &Config) -> Self {
        let shell = config.pid.saturating_sub(1).max(1);
        Self {
            pid: config.pid,
            parent: shell,
            group: config.pid,
            session: shell,
            first: config.pid,
            peer: None,
            program: Program {
                command_line: Arc::default(),
                execed: false,
                borrows: false,
                space: config.pid,
            },
            news: News {
                exit_signal: libc::SIGCHLD,
                stopped: None,
                untold: false,
            },
            common: Common::default(),
            owner: Owner {
                user: Ids::new(config.uid),
                group: Ids::new(config.gid),
                groups: config.groups.clone(),
            },
            limits: Limits {
                of: default_limits(),
                cpus: config.cpus.clamp(1, MAX_CPUS),
            },
            settings: Settings {
                expedites: false,
                dumpable: true,
                no_new_privs: false,
                child_subreaper: false,
                keep_capabilities: false,
                parent_death_signal: 0,
                timer_slack: DEFAULT_TIMER_SLACK,
            },
        }
    }

    /// A new program runs in the process.
    pub fn exec(&mut self, _program: &[u8]) {
        self.program.borrows = false;
        self.program.space = self.pid;
        self.program.execed = true;
        self.settings.dumpable = true;
        self.settings.keep_capabilities = false;
        for ids in [&mut self.owner.user, &mut self.owner.group] {
            ids.saved = ids.effective;
        }
    }

    /// The first number of what it makes: descriptions, channels, inodes.
    pub(crate) fn numbers(&self) -> u32 {
        /// As many things may a process make before it comes to the numbers of the next.
        const RANGE: u32 = 1 << 20;
        let range = match self.peer {
            None => self.pid.wrapping_sub(self.first),
            Some(peer) => peer.range(self.pid),
        };
        range.wrapping_mul(RANGE)
    }

    /// Who it is, as sockets tell others.
    pub fn credentials(&self) -> Credentials {
        [self.pid, self.owner.user.effective, self.owner.group.effective]
    }

    /// The processors, as an affinity mask.
    pub fn cpu_mask(&self) -> u64 {
        u64::MAX >> (MAX_CPUS - self.limits.cpus)
    }
}

/// The limits of a usual login on Debian, the same on every machine.
fn default_limits() -> [Limit; LIMITS] {
    const fn both(limit: u64) -> Limit {
        Limit {
            soft: limit,
            hard: limit,
        }
    }
    let mut limits = [both(RLIM_INFINITY); LIMITS];
    let mut set = |resource: u32, limit| limits[resource as usize] = limit;
    set(
        libc::RLIMIT_STACK,
        Limit {
            soft: 8 << 20,
            hard: RLIM_INFINITY,
        },
    );
    set(
        libc::RLIMIT_CORE,
        Limit {
            soft: 0,
            hard: RLIM_INFINITY,
        },
    );
    // The descriptor table of the model ends there.
    set(libc::RLIMIT_NOFILE, both(crate::fd::MAX_FDS as u64));
    set(libc::RLIMIT_NPROC, both(4096));
    set(libc::RLIMIT_MEMLOCK, both(8 << 20));
    set(libc::RLIMIT_SIGPENDING, both(4096));
    set(libc::RLIMIT_MSGQUEUE, both(819_200));
    set(libc::RLIMIT_NICE, both(0));
    set(libc::RLIMIT_RTPRIO, both(0));
    limits
}
