//! The identity, the limits and the other process-wide settings.

use crate::model::Config;

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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// The virtual process id; also the id of the first thread.
    pub pid: u32,
    /// A parent that is never seen: the shell that would have started the program.
    pub parent: u32,
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
    /// `PR_SET_PDEATHSIG`: kept for `PR_GET_PDEATHSIG`; the parent never dies.
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
        self.dumpable = true;
        self.keep_capabilities = false;
        self.user.saved = self.user.effective;
        self.group_ids.saved = self.group_ids.effective;
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
