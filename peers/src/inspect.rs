//! Does a peer wait for input? Asked of `/proc`, not of the clock.
//!
//! A peer has finished with what it was told when all its tasks are blocked in calls that wait for input, and nothing is on its way to them. One look at
//! each task in turn cannot tell (a task seen asleep may be woken by one that is looked at later), so there are two looks: if every task is asleep in the first, and has not run at all
//! until the second (`schedstat` counts how often it was given a processor), there was a moment between the two at which all were asleep together.
//!
//! A pure sleep or a timed wait on a lock is not waiting for input: the peer may go on by itself, for example a server that sleeps before it answers. Unless it was already seen in that
//! very wait (same call site, same stack) when nobody had asked it anything: then it is housekeeping. Nor is a sleep waited for that is longer than we would wait: its length stands in the peer's memory.

use crate::address::Address;
use crate::process::{descendants, listening_inodes, socket_inodes};
use procfs::Current;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the tasks of a peer do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    /// There is no process left.
    Gone,
    /// All wait for input.
    Waiting,
    /// Some are in a timed wait that will end by itself.
    Sleeping,
    /// Some compute, or wait for the disk.
    Working,
    /// `/proc` does not tell us (another user's process).
    Opaque,
}

/// Which processes make up the peer.
#[derive(Clone, Debug)]
enum Family {
    /// All descendants of this process, itself not included.
    Below(u32),
    /// These processes and their descendants.
    From(Vec<u32>),
}

/// The place of a wait: task, call, stack pointer, instruction pointer.
type WaitSite = (u32, i64, u64, u64);

#[derive(Debug)]
struct TaskFiles {
    stat: File,
    syscall: File,
    runs: File,
}

/// Eyes on one peer.
#[derive(Debug)]
pub struct Watch {
    family: Family,
    tasks: HashMap<u32, TaskFiles>,
    housekeeping: HashSet<WaitSite>,
    /// Sleeps longer than this are not waited for.
    patience: Duration,
}

/// How often each task had run when it was looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Look(Vec<(u32, u64)>);

impl Watch {
    /// Watches everything that a peer's host has started.
    #[must_use]
    pub fn below_host(host: u32, patience: Duration) -> Watch {
        Watch::new(Family::Below(host), patience)
    }

    /// Watches the processes that serve `address`, if they can be found: they run here, and we may look at them.
    #[must_use]
    pub fn serving(address: &Address, patience: Duration) -> Option<Watch> {
        let same = |bound: &Address| match (bound, address) {
            (Address::Tcp(a), Address::Tcp(b)) | (Address::Udp(a), Address::Udp(b)) => a.port() == b.port(),
            (a, b) => a == b,
        };
        let wanted: HashSet<u64> = listening_inodes()
            .into_iter()
            .filter(|(_, bound)| same(bound))
            .map(|(inode, _)| inode)
            .collect();
        let all = procfs::process::all_processes().ok()?;
        let pids = all
            .flatten()
            .map(|p| p.pid() as u32)
            .filter(|&pid| pid != std::process::id());
        let owners: Vec<u32> = pids
            .filter(|&pid| !socket_inodes(&[pid]).is_disjoint(&wanted))
            .collect();
        (!owners.is_empty()).then(|| Watch::new(Family::From(owners), patience))
    }

    fn new(family: Family, patience: Duration) -> Watch {
        Watch {
            family,
            tasks: HashMap::new(),
            housekeeping: HashSet::new(),
            patience,
        }
    }

    /// The processes of the peer.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        match &self.family {
            Family::Below(host) => descendants(*host),
            Family::From(roots) => {
                let mut all: Vec<u32> = roots
                    .iter()
                    .flat_map(|&root| [vec![root], descendants(root)].concat())
                    .collect();
                all.sort_unstable();
                all.dedup();
                all
            }
        }
    }

    /// One of the peer's processes holds the socket with this inode.
    #[must_use]
    pub fn holds(&self, inode: u64) -> bool {
        socket_inodes(&self.pids()).contains(&inode)
    }

    /// The first look, at every task.
    pub fn look(&mut self) -> (Doing, Look) {
        let (mut doing, mut seen) = (Doing::Gone, Vec::new());
        let mut known = std::mem::take(&mut self.tasks);
        for pid in self.pids() {
            let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
                continue;
            };
            for tid in tasks
                .flatten()
                .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            {
                let files = match known.remove(&tid).map_or_else(|| TaskFiles::open(pid, tid), Ok) {
                    Ok(files) => files,
                    Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                        return (Doing::Opaque, Look(Vec::new()));
                    }
                    Err(_) => continue,
                };
                // The count first: if the task runs after this, the second look will show it.
                let Some(runs) = files.runs() else { continue };
                let task = match files.wait() {
                    Some(Wait::At(Doing::Sleeping, site)) if self.is_ignored(pid, tid, &site) => {
                        Doing::Waiting
                    }
                    Some(Wait::At(doing, _)) => doing,
                    Some(Wait::Hidden) => return (Doing::Opaque, Look(Vec::new())),
                    None => continue,
                };
                doing = doing.max(task);
                seen.push((tid, runs));
                self.tasks.insert(tid, files);
            }
        }
        (doing, Look(seen))
    }

    /// The second look: no task has run since the first. A new task could only have been made by one that ran.
    #[must_use]
    pub fn unmoved_since(&self, look: &Look) -> bool {
        look.0
            .iter()
            .all(|(tid, runs)| self.tasks.get(tid).and_then(TaskFiles::runs) == Some(*runs))
    }

    /// A timed wait that is not waited for.
    fn is_ignored(&self, pid: u32, tid: u32, site: &Site) -> bool {
        self.housekeeping.contains(&(tid, site.nr, site.sp, site.pc))
            || sleep_length(pid, site).is_some_and(|length| length > self.patience)
    }

    /// Notes the timed waits that the peer is in now, while nobody asks anything of it, as its housekeeping.
    pub fn learn_housekeeping(&mut self) {
        for (&tid, files) in &self.tasks {
            if let Some(Wait::At(Doing::Sleeping, site)) = files.wait() {
                self.housekeeping.insert((tid, site.nr, site.sp, site.pc));
            }
        }
    }
}

/// The call that a task is blocked in.
#[derive(Clone, Copy, Debug, Default)]
struct Site {
    nr: i64,
    args: [u64; 6],
    sp: u64,
    pc: u64,
}

enum Wait {
    At(Doing, Site),
    Hidden,
}

/// How long a sleep is at most, read from where the call's argument points to. A relative time does not say how much of it is over, so this may be too much.
fn sleep_length(pid: u32, site: &Site) -> Option<Duration> {
    const ABSOLUTE: u64 = 1;
    let (pointer, absolute) = match site.nr {
        libc::SYS_nanosleep => (site.args[0], None),
        libc::SYS_clock_nanosleep => (
            site.args[2],
            (site.args[1] & ABSOLUTE != 0).then_some(site.args[0] == 0),
        ),
        libc::SYS_futex => match site.args[1] as i32 & libc::FUTEX_CMD_MASK {
            libc::FUTEX_WAIT => (site.args[3], None),
            _ => (
                site.args[3],
                Some(site.args[1] as i32 & libc::FUTEX_CLOCK_REALTIME != 0),
            ),
        },
        _ => return None,
    };
    let mut timespec = [0; 16];
    File::open(format!("/proc/{pid}/mem"))
        .ok()?
        .read_exact_at(&mut timespec, pointer)
        .ok()?;
    let (seconds, nanos) = timespec.split_at(8);
    let seconds = u64::try_from(i64::from_ne_bytes(seconds.try_into().ok()?)).ok()?;
    let time = Duration::new(
        seconds,
        u32::try_from(i64::from_ne_bytes(nanos.try_into().ok()?)).ok()?,
    );
    let now = match absolute {
        None => Duration::ZERO,
        Some(true) => SystemTime::now().duration_since(UNIX_EPOCH).ok()?,
        // The monotonic clock, but for time spent suspended.
        Some(false) => Duration::try_from_secs_f64(procfs::Uptime::current().ok()?.uptime).ok()?,
    };
    Some(time.saturating_sub(now))
}

fn read_small(file: &File) -> std::io::Result<String> {
    let mut buffer = [0; 512];
    let n = file.read_at(&mut buffer, 0)?;
    Ok(String::from_utf8_lossy(&buffer[..n]).into_owned())
}

impl TaskFiles {
    fn open(pid: u32, tid: u32) -> std::io::Result<TaskFiles> {
        let open = |name: &str| File::open(format!("/proc/{pid}/task/{tid}/{name}"));
        Ok(TaskFiles {
            stat: open("stat")?,
            syscall: open("syscall")?,
            runs: open("schedstat")?,
        })
    }

    /// How often the task was given a processor.
    fn runs(&self) -> Option<u64> {
        read_small(&self.runs)
            .ok()?
            .split_ascii_whitespace()
            .nth(2)?
            .parse()
            .ok()
    }

    /// What the task does; `None` if it has ended.
    fn wait(&self) -> Option<Wait> {
        let stat = read_small(&self.stat).ok()?;
        // The name in parentheses may contain anything.
        let state = stat.rsplit_once(") ")?.1.chars().next()?;
        match state {
            'Z' | 'X' => return None,
            'T' | 't' => return Some(Wait::At(Doing::Waiting, Site::default())),
            'S' => {}
            _ => return Some(Wait::At(Doing::Working, Site::default())),
        }
        match read_small(&self.syscall) {
            Ok(line) => Some(classify_line(&line)),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => None,
            Err(_) => Some(Wait::Hidden),
        }
    }
}

fn classify_line(line: &str) -> Wait {
    let mut words = line.split_ascii_whitespace();
    let Some(nr) = words.next().and_then(|w| w.parse::<i64>().ok()) else {
        return Wait::At(Doing::Working, Site::default());
    };
    let numbers: Vec<u64> = words
        .filter_map(|w| u64::from_str_radix(w.trim_start_matches("0x"), 16).ok())
        .collect();
    let Ok([a, b, c, d, e, f, sp, pc]) = <[u64; 8]>::try_from(numbers) else {
        return Wait::At(Doing::Working, Site::default());
    };
    let args = [a, b, c, d, e, f];
    Wait::At(classify(nr, args), Site { nr, args, sp, pc })
}

/// What a task that is asleep in this call waits for.
fn classify(nr: i64, args: [u64; 6]) -> Doing {
    let timed = |is_timed: bool| if is_timed { Doing::Sleeping } else { Doing::Waiting };
    match nr {
        // Waits for descriptors, with a time limit or without: the limit only bounds how long it waits for input. With no descriptor it is a sleep.
        libc::SYS_poll => timed(args[1] == 0 && args[2] as i32 >= 0),
        libc::SYS_ppoll => timed(args[1] == 0 && args[2] != 0),
        libc::SYS_select | libc::SYS_pselect6 => timed(args[0] == 0 && args[4] != 0),
        libc::SYS_futex => timed(args[3] != 0),
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep | libc::SYS_restart_syscall => Doing::Sleeping,
        libc::SYS_read | libc::SYS_readv | libc::SYS_pread64 | libc::SYS_preadv | libc::SYS_preadv2 => {
            Doing::Waiting
        }
        libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg => Doing::Waiting,
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_sendfile => Doing::Waiting,
        libc::SYS_splice | libc::SYS_tee => Doing::Waiting,
        libc::SYS_accept | libc::SYS_accept4 | libc::SYS_connect => Doing::Waiting,
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Doing::Waiting,
        libc::SYS_io_uring_enter | libc::SYS_io_getevents => Doing::Waiting,
        libc::SYS_wait4 | libc::SYS_waitid | libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => {
            Doing::Waiting
        }
        libc::SYS_pause | libc::SYS_rt_sigsuspend | libc::SYS_rt_sigtimedwait => Doing::Waiting,
        libc::SYS_semop | libc::SYS_semtimedop | libc::SYS_msgrcv | libc::SYS_mq_timedreceive => {
            Doing::Waiting
        }
        libc::SYS_open | libc::SYS_openat | libc::SYS_flock | libc::SYS_fcntl | libc::SYS_futex_waitv => {
            Doing::Waiting
        }
        _ => Doing::Working,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    const BOUND: Duration = Duration::from_secs(3);
    const LONG: Duration = Duration::from_secs(5000);

    fn settle(watch: &mut Watch, wanted: Doing) {
        loop {
            let (doing, look) = watch.look();
            if doing == wanted && watch.unmoved_since(&look) {
                return;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn waiting_sleeping_and_gone_are_told_apart() {
        let mut cat = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("cat");
        let mut watch = Watch::new(Family::From(vec![cat.id()]), BOUND);
        settle(&mut watch, Doing::Waiting);
        drop(cat.stdin.take());
        settle(&mut watch, Doing::Gone);
        cat.wait().expect("wait");

        let mut sleep = Command::new("sleep").arg("1000").spawn().expect("sleep");
        let mut watch = Watch::new(Family::From(vec![sleep.id()]), LONG);
        settle(&mut watch, Doing::Sleeping);
        watch.learn_housekeeping();
        settle(&mut watch, Doing::Waiting);
        // With less patience it is not waited for in the first place.
        settle(
            &mut Watch::new(Family::From(vec![sleep.id()]), BOUND),
            Doing::Waiting,
        );
        sleep.kill().expect("kill");
        sleep.wait().expect("wait");
    }

    #[test]
    fn a_time_limit_on_input_is_still_waiting_for_input() {
        assert_eq!(classify(libc::SYS_poll, [1, 1, 500, 0, 0, 0]), Doing::Waiting);
        assert_eq!(classify(libc::SYS_poll, [0, 0, 500, 0, 0, 0]), Doing::Sleeping);
        assert_eq!(classify(libc::SYS_futex, [0, 0, 0, 0, 0, 0]), Doing::Waiting);
        assert_eq!(classify(libc::SYS_futex, [0, 0, 0, 8, 0, 0]), Doing::Sleeping);
        assert_eq!(classify(libc::SYS_fsync, [3, 0, 0, 0, 0, 0]), Doing::Working);
    }
}
