//! One task of a peer: what `/proc` says that it does, and whether that is waiting for input.

use crate::inspect::Doing;
use procfs::Current;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The files of one task, kept open: to read one again costs a tenth of opening it.
#[derive(Debug)]
pub(crate) struct TaskFiles {
    pub(crate) pid: u32,
    stat: File,
    /// None of one that was dead when it was first seen.
    syscall: Option<File>,
    runs: File,
}

/// The task has ended since.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The call that a task is blocked in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Site {
    pub(crate) nr: i64,
    args: [u64; 6],
    pub(crate) sp: u64,
    pub(crate) pc: u64,
}

/// What a task was found doing.
pub(crate) enum Wait {
    At(Doing, Site),
    Hidden,
}

/// How long a sleep is at most, read from where the call's argument points to. A relative time does not say how much of it is over, so this may be too much.
pub(crate) fn sleep_length(pid: u32, site: &Site) -> Option<Duration> {
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
    let time = read_time(pid, pointer, Duration::from_nanos(1))?;
    let now = match absolute {
        None => Duration::ZERO,
        Some(true) => SystemTime::now().duration_since(UNIX_EPOCH).ok()?,
        // The monotonic clock, but for time spent suspended.
        Some(false) => Duration::try_from_secs_f64(procfs::Uptime::current().ok()?.uptime).ok()?,
    };
    Some(time.saturating_sub(now))
}

/// The time limit of a wait for input, as far as it has one.
pub(crate) fn input_limit(pid: u32, site: &Site) -> Option<Duration> {
    let millis = |arg: u64| u64::try_from(arg as i32).ok().map(Duration::from_millis);
    let timespec = |pointer| read_time(pid, pointer, Duration::from_nanos(1));
    match site.nr {
        libc::SYS_poll => millis(site.args[2]),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => millis(site.args[3]),
        libc::SYS_ppoll => timespec(site.args[2]),
        libc::SYS_epoll_pwait2 => timespec(site.args[3]),
        libc::SYS_pselect6 => timespec(site.args[4]),
        libc::SYS_select => read_time(pid, site.args[4], Duration::from_micros(1)),
        libc::SYS_rt_sigtimedwait => timespec(site.args[2]),
        libc::SYS_semtimedop => timespec(site.args[3]),
        _ => None,
    }
}

/// The seconds, and fractions in these units, that a pointer of the task's points to, if it is one.
fn read_time(pid: u32, pointer: u64, unit: Duration) -> Option<Duration> {
    if pointer == 0 {
        return None;
    }
    let mut words = [0; 16];
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    memory.read_exact_at(&mut words, pointer).ok()?;
    let (seconds, fraction) = words.split_at(8);
    let seconds = u64::try_from(i64::from_ne_bytes(seconds.try_into().ok()?)).ok()?;
    let fraction = u32::try_from(i64::from_ne_bytes(fraction.try_into().ok()?)).ok()?;
    Duration::from_secs(seconds).checked_add(unit.checked_mul(fraction)?)
}

/// When the first of a process's timer descriptors goes off, if one is set.
pub(crate) fn next_timer_descriptor(pid: u32) -> Option<Duration> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let timers = descriptors.filter(|fd| {
        std::fs::read_link(fd.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:[timerfd]")
    });
    let info = |fd: std::fs::DirEntry| {
        let number = fd.file_name().into_string().ok()?;
        let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).ok()?;
        timer_value(&text)
    };
    timers.filter_map(info).min()
}

/// The time that is left, by the text in `fdinfo`; `None` if the timer is not set.
fn timer_value(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("it_value: ("))?;
    let (seconds, nanos) = line.strip_suffix(')')?.split_once(", ")?;
    let left = Duration::new(seconds.parse().ok()?, nanos.parse().ok()?);
    (!left.is_zero()).then_some(left)
}

fn read_small(file: &File) -> io::Result<String> {
    let mut buffer = [0; 512];
    let n = file.read_at(&mut buffer, 0)?;
    Ok(String::from_utf8_lossy(&buffer[..n]).into_owned())
}

/// The state that the file `stat` of a task shows.
fn state_in(stat: &File) -> Option<char> {
    // The name in parentheses may contain anything.
    read_small(stat).ok()?.rsplit_once(") ")?.1.chars().next()
}

/// A zombie, or gone altogether.
fn has_ended(stat: &File) -> bool {
    matches!(state_in(stat), None | Some('Z' | 'X'))
}

impl TaskFiles {
    pub(crate) fn open(pid: u32, tid: u32) -> io::Result<TaskFiles> {
        let open = |name: &str| File::open(format!("/proc/{pid}/task/{tid}/{name}"));
        let stat = open("stat")?;
        let syscall = match open("syscall") {
            // Of a dead one, only root is told.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && has_ended(&stat) => None,
            file => Some(file?),
        };
        Ok(TaskFiles {
            pid,
            stat,
            syscall,
            runs: open("schedstat")?,
        })
    }

    /// How often the task was given a processor.
    pub(crate) fn runs(&self) -> Option<u64> {
        self.statistic(2)
    }

    /// How long the task was ready to run and had no processor, in all its life.
    pub(crate) fn kept_waiting(&self) -> Option<Duration> {
        self.statistic(1).map(Duration::from_nanos)
    }

    fn statistic(&self, nth: usize) -> Option<u64> {
        let text = read_small(&self.runs).ok()?;
        text.split_ascii_whitespace().nth(nth)?.parse().ok()
    }

    /// What the task does; `None` if it has ended.
    pub(crate) fn wait(&self) -> Option<Wait> {
        let line = match read_small(self.syscall.as_ref()?) {
            Ok(line) => line,
            Err(error) if is_gone(&error) || has_ended(&self.stat) => return None,
            Err(_) => return Some(Wait::Hidden),
        };
        match classify_line(&line) {
            Some((doing, site)) if !may_be_disk(site.nr) => Some(Wait::At(doing, site)),
            blocked => match self.state()? {
                'Z' | 'X' => None,
                'T' | 't' => Some(Wait::At(Doing::Waiting, Site::default())),
                // Asleep, and not in the uninterruptible sleep of those who wait for a disk.
                'S' => Some(
                    blocked.map_or(Wait::At(Doing::Working, Site::default()), |(doing, site)| {
                        Wait::At(doing, site)
                    }),
                ),
                _ => Some(Wait::At(Doing::Working, Site::default())),
            },
        }
    }

    /// The task is asleep (or stopped, or dead): not even being woken this moment, which the call that it is blocked in does not show.
    pub(crate) fn is_asleep(&self) -> bool {
        matches!(self.state(), Some('S' | 'T' | 't' | 'Z' | 'X'))
    }

    fn state(&self) -> Option<char> {
        state_in(&self.stat)
    }
}

/// These calls wait for a disk as well as for a peer; only the task's state tells which.
fn may_be_disk(nr: i64) -> bool {
    const CALLS: [i64; 14] = [
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_pread64,
        libc::SYS_preadv,
        libc::SYS_preadv2,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_sendfile,
        libc::SYS_splice,
        libc::SYS_open,
        libc::SYS_openat,
        libc::SYS_vfork,
        libc::SYS_clone,
        libc::SYS_clone3,
    ];
    CALLS.contains(&nr)
}

/// The call that a line of `/proc/PID/syscall` shows; `None` if the task is not blocked in one.
fn classify_line(line: &str) -> Option<(Doing, Site)> {
    let mut words = line.split_ascii_whitespace();
    let nr = words.next()?.parse().ok()?;
    let mut numbers = [0; 8];
    for number in &mut numbers {
        *number = u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
    }
    let [a, b, c, d, e, f, sp, pc] = numbers;
    let args = [a, b, c, d, e, f];
    Some((classify(nr, args), Site { nr, args, sp, pc }))
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

    #[test]
    fn a_time_limit_on_input_is_still_waiting_for_input() {
        assert_eq!(classify(libc::SYS_poll, [1, 1, 500, 0, 0, 0]), Doing::Waiting);
        assert_eq!(classify(libc::SYS_poll, [0, 0, 500, 0, 0, 0]), Doing::Sleeping);
        assert_eq!(classify(libc::SYS_futex, [0, 0, 0, 0, 0, 0]), Doing::Waiting);
        assert_eq!(classify(libc::SYS_futex, [0, 0, 0, 8, 0, 0]), Doing::Sleeping);
        assert_eq!(classify(libc::SYS_fsync, [3, 0, 0, 0, 0, 0]), Doing::Working);
    }

    #[test]
    fn the_limit_of_a_wait_for_input_is_known() {
        let limit = |nr: i64, args: [u64; 6]| {
            let site = Site {
                nr,
                args,
                ..Site::default()
            };
            input_limit(std::process::id(), &site)
        };
        let forever = u64::from(u32::MAX);
        assert_eq!(
            limit(libc::SYS_poll, [1, 1, 500, 0, 0, 0]),
            Some(Duration::from_millis(500))
        );
        assert_eq!(limit(libc::SYS_poll, [1, 1, forever, 0, 0, 0]), None);
        assert_eq!(
            limit(libc::SYS_epoll_wait, [3, 1, 8, 20, 0, 0]),
            Some(Duration::from_millis(20))
        );
        assert_eq!(limit(libc::SYS_select, [3, 0, 0, 0, 0, 0]), None);
        let time = [2_i64, 5];
        let pointer = time.as_ptr() as u64;
        assert_eq!(
            limit(libc::SYS_select, [3, 0, 0, 0, pointer, 0]),
            Some(Duration::from_micros(2_000_005))
        );
        assert_eq!(
            limit(libc::SYS_ppoll, [1, 1, pointer, 0, 0, 0]),
            Some(Duration::new(2, 5))
        );
    }

    #[test]
    fn timer_descriptors_tell_what_is_left() {
        let text =
            "pos:\t0\nclockid: 1\nticks: 0\nsettime flags: 00\nit_value: (1, 250)\nit_interval: (0, 0)\n";
        assert_eq!(timer_value(text), Some(Duration::new(1, 250)));
        assert_eq!(timer_value(&text.replace("1, 250", "0, 0")), None);
    }
}
