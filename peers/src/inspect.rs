//! Does a peer wait for input? Asked of `/proc`, not of the clock.
//!
//! A peer has finished with what it was told when all its tasks are blocked in calls that wait for input, and nothing is on its way to them. One look at
//! each task in turn cannot tell (a task seen asleep may be woken by one that is looked at later), so there are two looks: if every task is asleep in the first, and has not run at all
//! until the second (`schedstat` counts how often it was given a processor), there was a moment between the two at which all were asleep together.
//! The counts are read before the tasks are listed: whoever makes a new task after it was looked for has run, and the second look shows it.
//!
//! A pure sleep or a timed wait on a lock is not waiting for input: the peer may go on by itself, for example a server that sleeps before it answers. Unless it was already seen in that
//! very wait (same call site, same stack) when nobody had asked it anything: then it is housekeeping. Nor is a sleep waited for that is longer than we would wait: its length stands in the peer's memory.

use crate::busy;
use crate::census::Census;
use crate::process::{copy_of_socket, descendants, socket_inodes};
use crate::task::{Site, TaskFiles, Wait, input_limit, is_gone, next_timer_descriptor, sleep_length};
use std::collections::hash_map::{Entry, HashMap};
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

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
pub(crate) enum Family {
    /// All descendants of this process, itself not included.
    Below(u32),
    /// These processes and their descendants.
    From(Vec<u32>),
}

/// The place of a wait: task, call, stack pointer, instruction pointer.
type WaitSite = (u32, i64, u64, u64);

/// Eyes on one peer.
#[derive(Debug)]
pub struct Watch {
    family: Family,
    census: Census,
    tasks: HashMap<u32, TaskFiles>,
    housekeeping: HashSet<WaitSite>,
    /// Sleeps longer than this are not waited for.
    longest_sleep: Duration,
}

/// How often each task had run when it was looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Look(Vec<(u32, u64)>);

/// How long each task had been ready to run without a processor.
#[derive(Debug)]
pub(crate) struct KeptWaiting(HashMap<u32, Duration>);

impl KeptWaiting {
    /// How long one of them was, since `before`.
    pub(crate) fn since(&self, before: &KeptWaiting) -> Duration {
        let then = |tid| before.0.get(tid).copied().unwrap_or_default();
        let waits = self.0.iter().map(|(tid, now)| now.saturating_sub(then(tid)));
        waits.max().unwrap_or_default()
    }
}

impl Watch {
    /// Watches everything that a peer's host has started.
    #[must_use]
    pub fn below_host(host: u32, longest_sleep: Duration) -> Watch {
        Watch::new(Family::Below(host), longest_sleep)
    }

    /// Watches the processes that hold these listening sockets, if they can be found: they run here, and we may look at them.
    #[must_use]
    pub fn serving(wanted: &HashSet<u64>, longest_sleep: Duration) -> Option<Watch> {
        let all = procfs::process::all_processes().ok()?;
        let pids = all
            .flatten()
            .map(|p| p.pid() as u32)
            .filter(|&pid| pid != std::process::id());
        let owners: Vec<u32> = pids
            .filter(|&pid| !socket_inodes(&[pid]).is_disjoint(wanted))
            .collect();
        (!owners.is_empty()).then(|| Watch::new(Family::From(owners), longest_sleep))
    }

    fn new(family: Family, longest_sleep: Duration) -> Watch {
        Watch {
            family,
            census: Census::default(),
            tasks: HashMap::new(),
            housekeeping: HashSet::new(),
            longest_sleep,
        }
    }

    /// The processes of the peer.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        match &self.family {
            Family::Below(host) => descendants(*host),
            Family::From(roots) => roots
                .iter()
                .flat_map(|&root| [vec![root], descendants(root)].concat())
                .collect(),
        }
    }

    /// One of the peer's processes holds the socket with this inode.
    #[must_use]
    pub fn holds(&self, inode: u64) -> bool {
        socket_inodes(&self.pids()).contains(&inode)
    }

    /// A copy of the descriptor by which one of the peer's processes holds the socket with this inode.
    #[must_use]
    pub fn copy_of(&self, inode: u64) -> Option<OwnedFd> {
        self.pids().into_iter().find_map(|pid| copy_of_socket(pid, inode))
    }

    /// The first look, at every task.
    pub fn inspect(&mut self) -> (Doing, Look) {
        let mut seen = Vec::with_capacity(self.tasks.len());
        let mut vanished = false;
        for (&tid, files) in &self.tasks {
            match files.runs() {
                Some(runs) => seen.push((tid, runs)),
                None => vanished = true,
            }
        }
        // Cheap while it works, which is most of the time that it is looked at: no need to know of others if one of them does.
        if !vanished && !seen.is_empty() && self.doing() == Doing::Working {
            return (Doing::Working, Look(seen));
        }
        let mut listed = self.census.take(&self.family, vanished);
        if listed.as_ref().is_ok_and(Vec::is_empty) {
            // Whoever goes into the background is nobody's child for a moment of the listing, so nobody is gone who was missed once only.
            listed = self.census.take(&self.family, true);
        }
        let Ok(listed) = listed else {
            return (Doing::Opaque, Look(Vec::new()));
        };
        match self.meet(&listed) {
            Err(_) => (Doing::Opaque, Look(Vec::new())),
            // New ones have to be looked at from the beginning.
            Ok(true) => (Doing::Working, Look(seen)),
            Ok(false) => (self.doing(), Look(seen)),
        }
    }

    /// Opens the files of tasks that are new and forgets those that are gone; true if there were any.
    fn meet(&mut self, listed: &[(u32, u32)]) -> io::Result<bool> {
        let before = self.tasks.len();
        self.tasks.retain(|tid, _| listed.iter().any(|(_, t)| t == tid));
        let mut changed = self.tasks.len() != before;
        for &(pid, tid) in listed {
            if let Entry::Vacant(place) = self.tasks.entry(tid) {
                changed = true;
                match TaskFiles::open(pid, tid) {
                    Ok(files) => {
                        place.insert(files);
                    }
                    Err(error) if is_gone(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(changed)
    }

    /// What the known tasks do, taken together.
    fn doing(&self) -> Doing {
        let mut all = Doing::Gone;
        for (&tid, files) in &self.tasks {
            let one = match files.wait() {
                Some(Wait::At(Doing::Sleeping, site)) if self.is_ignored(files.pid, tid, &site) => {
                    Doing::Waiting
                }
                Some(Wait::At(doing, _)) => doing,
                Some(Wait::Hidden) => Doing::Opaque,
                None => continue,
            };
            all = all.max(one);
        }
        all
    }

    /// No task does anything but wait, or look for input again and again without rest; and one does that. Takes long, and holds it up a little.
    #[must_use]
    pub fn only_polls(&self) -> bool {
        let mut polls = false;
        for (&tid, files) in &self.tasks {
            match files.wait() {
                Some(Wait::At(Doing::Working, _)) if busy::only_looks(tid) => polls = true,
                Some(Wait::At(Doing::Working, _) | Wait::Hidden) => return false,
                Some(Wait::At(..)) | None => {}
            }
        }
        polls
    }

    /// How long its tasks have been kept waiting for a processor.
    pub(crate) fn kept_waiting(&self) -> KeptWaiting {
        let waits = self.tasks.iter();
        KeptWaiting(
            waits
                .filter_map(|(&tid, files)| Some((tid, files.kept_waiting()?)))
                .collect(),
        )
    }

    /// How long it takes at most until the peer goes on by itself: the shortest time limit of a wait that it is in, or a timer that it has set.
    #[must_use]
    pub fn next_timer(&self) -> Option<Duration> {
        let limits = self.tasks.values().filter_map(|files| match files.wait() {
            Some(Wait::At(_, site)) => {
                input_limit(files.pid, &site).or_else(|| sleep_length(files.pid, &site))
            }
            _ => None,
        });
        let pids: BTreeSet<u32> = self.tasks.values().map(|files| files.pid).collect();
        limits
            .chain(pids.into_iter().filter_map(next_timer_descriptor))
            .min()
    }

    /// The second look: no task has run since the first, nor is about to. A new task could only have been made by one that ran.
    ///
    /// One that is about to run is seen by its state alone: a thread that another one's `exit_group` kills is woken before it is given a processor, and until then
    /// it looks blocked as ever, in a process that is as good as dead.
    #[must_use]
    pub fn unmoved_since(&self, look: &Look) -> bool {
        let unmoved = |tid: &u32, runs: u64| {
            let files = self.tasks.get(tid);
            files.is_some_and(|files| files.runs() == Some(runs) && files.is_asleep())
        };
        look.0.iter().all(|(tid, runs)| unmoved(tid, *runs))
    }

    /// A timed wait that is not waited for.
    fn is_ignored(&self, pid: u32, tid: u32, site: &Site) -> bool {
        self.housekeeping.contains(&(tid, site.nr, site.sp, site.pc))
            || sleep_length(pid, site).is_some_and(|length| length > self.longest_sleep)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    const BOUND: Duration = Duration::from_secs(3);
    const LONG: Duration = Duration::from_secs(5000);

    fn settle(watch: &mut Watch, wanted: Doing) {
        loop {
            let (doing, look) = watch.inspect();
            if doing == wanted && watch.unmoved_since(&look) {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Two that are ready to run, on one processor.
    #[test]
    fn time_without_a_processor_is_known() {
        const SPINS: &str =
            "import os\nos.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\nwhile True: pass";
        let mut both = [(); 2].map(|()| {
            Command::new("python3")
                .args(["-c", SPINS])
                .spawn()
                .expect("python3")
        });
        let pids = both.iter().map(std::process::Child::id).collect();
        let mut watch = Watch::new(Family::From(pids), BOUND);
        watch.inspect();
        let before = watch.kept_waiting();
        // A wrapper around the interpreter may have processes of its own.
        assert!(before.0.len() >= 2);
        while watch.kept_waiting().since(&before) < Duration::from_millis(50) {
            std::thread::yield_now();
        }
        for child in &mut both {
            child.kill().expect("kill");
            child.wait().expect("wait");
        }
    }

    /// A child that nobody has reaped is done, also for users who are told nothing of it. Root is told everything, so it is tried as somebody else.
    #[test]
    fn the_dead_do_not_work() {
        if nix::unistd::geteuid().is_root() {
            return as_nobody("inspect::tests::the_dead_do_not_work");
        }
        const SCRIPT: &str = "import os, sys\n\
             if not os.fork(): os._exit(0)\n\
             os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)\n\
             sys.stdin.read()";
        let mut command = Command::new("python3");
        let mut parent = command
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut watch = Watch::new(Family::From(vec![parent.id()]), BOUND);
        // Also when it is dead already, which the list of descendants leaves out.
        while watch
            .census
            .take(&watch.family, true)
            .is_ok_and(|listed| listed.len() < 2)
        {
            std::thread::yield_now();
        }
        settle(&mut watch, Doing::Waiting);
        parent.kill().expect("kill");
        parent.wait().expect("wait");
    }

    /// Runs one of these tests as a user who may nothing.
    fn as_nobody(test: &str) {
        use std::os::unix::fs::PermissionsExt;
        use std::os::unix::process::CommandExt;
        const NOBODY: u32 = 65534;
        let directory = tempfile::tempdir().expect("a directory");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), mode).expect("its mode");
        let copy = directory.path().join("test");
        // By another process: what other tests start at this moment must not inherit the open file.
        let mut cp = Command::new("cp");
        let cp = cp.arg(std::env::current_exe().expect("this test")).arg(&copy);
        assert!(cp.status().is_ok_and(|status| status.success()));
        let mut command = Command::new(&copy);
        command.args(["--exact", test]).current_dir("/");
        let output = command.uid(NOBODY).gid(NOBODY).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
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
}
