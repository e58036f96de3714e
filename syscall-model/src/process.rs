//! The identity, the limits and the other process-wide settings.

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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// The virtual process id; also the id of the first thread.
    pub pid: u32,
    /// Of the first process: one that is never seen, the shell that would have started the program.
    pub parent: u32,
    /// What the parent is told by when this one ends; 0 for nothing.
    pub exit_signal: i32,
    /// It runs in the memory of the process that made it (`vfork`), until it becomes another program.
    pub borrows: bool,
    /// The process whose memory it is in; its own number, unless it borrows.
    pub space: u32,
    /// The signal that it was stopped by, until it goes on.
    pub stopped: Option<i32>,
    /// Its parent has not been told yet that it was stopped, or that it goes on.
    pub untold: bool,
    /// Memory that its children would share was moved or resized: it is private now.
    pub lost_sharing: bool,
    /// The words that its program was started with, each with a NUL behind it.
    pub command_line: Arc<[u8]>,
    /// The first process of all.
    pub first: u32,
    /// The peer that it is, or is of; none if it is the program's own.
    pub peer: Option<Peer>,
    /// It has become another program since it was made.
    pub execed: bool,
    pub group: u32,
    pub session: u32,
    pub user: Ids,
    pub group_ids: Ids,
    pub groups: Vec<u32>,
    /// Has it asked for expedited barriers (`membarrier`)?
    pub expedites: bool,
    pub limits: [Limit; LIMITS],
    /// Processors that the program is told of.
    pub cpus: u32,
    pub dumpable: bool,
    pub no_new_privs: bool,
    pub child_subreaper: bool,
    pub keep_capabilities: bool,
    /// `PR_SET_PDEATHSIG`.
    pub parent_death_signal: i32,
    pub timer_slack: u64,
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
            exit_signal: libc::SIGCHLD,
            borrows: false,
            space: config.pid,
            stopped: None,
            untold: false,
            lost_sharing: false,
            command_line: Arc::default(),
            first: config.pid,
            peer: None,
            execed: false,
            group: config.pid,
            session: shell,
            user: Ids::new(config.uid),
            group_ids: Ids::new(config.gid),
            groups: config.groups.clone(),
            expedites: false,
            limits: default_limits(),
            cpus: config.cpus.clamp(1, MAX_CPUS),
            dumpable: true,
            no_new_privs: false,
            child_subreaper: false,
            keep_capabilities: false,
            parent_death_signal: 0,
            timer_slack: DEFAULT_TIMER_SLACK,
        }
    }

    /// A new program runs in the process.
    pub fn exec(&mut self, _program: &[u8]) {
        self.borrows = false;
        self.lost_sharing = false;
        self.space = self.pid;
        self.execed = true;
        self.dumpable = true;
        self.keep_capabilities = false;
        self.user.saved = self.user.effective;
        self.group_ids.saved = self.group_ids.effective;
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
        [self.pid, self.user.effective, self.group_ids.effective]
    }

    /// The processors, as an affinity mask.
    pub fn cpu_mask(&self) -> u64 {
        u64::MAX >> (MAX_CPUS - self.cpus)
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
