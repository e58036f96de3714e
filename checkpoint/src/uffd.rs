//! Tracking of writes: userfaultfd in its write-protect-async mode (Linux 6.7).
//!
//! A write to a protected page just takes the protection away, in the kernel, without a message and without anybody
//! waiting; which pages lost it is asked of the page map. A descriptor tracks the process that made it. So the task makes
//! one by an injected call, the supervisor takes it over, and the task's own is closed, which leaves its descriptor
//! table as it was. `UFFD_USER_MODE_ONLY` is what unprivileged users may have; since no fault waits for anybody,
//! writes by the kernel on the task's behalf pass all the same.

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::pagemap::USER_END;
use nix::errno::Errno;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use tracee::Stopped;

const UFFD_USER_MODE_ONLY: i32 = 1;
const UFFD_API: u64 = 0xaa;
const UFFD_FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const UFFD_FEATURE_WP_ASYNC: u64 = 1 << 15;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_WRITEPROTECT: libc::c_ulong = 0xc018_aa06;
const UFFDIO_REGISTER_MODE_WP: u64 = 1 << 1;
/// Below this nobody can map anything (`vm.mmap_min_addr`, unless changed).
const LOWEST: u64 = 0x1_0000;
const FLAGS: i32 = UFFD_USER_MODE_ONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;

/// Tracks writes to the memory of one process, as long as it lives.
#[derive(Debug)]
pub(crate) struct Uffd {
    fd: OwnedFd,
    pid: i32,
}

impl Uffd {
    /// For the memory of this task.
    pub(crate) fn of_task(task: &mut Stopped) -> Result<Uffd> {
        let pid = task.pid();
        let theirs = task.inject_checked(
            "userfaultfd",
            libc::SYS_userfaultfd,
            [FLAGS as u64, 0, 0, 0, 0, 0],
        )?;
        let fetched = fetch(pid, theirs as i32);
        task.inject_checked("close", libc::SYS_close, [theirs, 0, 0, 0, 0, 0])?;
        Uffd { fd: fetched?, pid }.enabled()
    }

    /// For the memory of this process.
    pub(crate) fn of_self() -> Result<Uffd> {
        let pid = nix::unistd::getpid().as_raw();
        // SAFETY: no memory is involved.
        let fd = owned("userfaultfd", pid, unsafe {
            libc::syscall(libc::SYS_userfaultfd, FLAGS)
        })?;
        Uffd { fd, pid }.enabled()
    }

    fn enabled(self) -> Result<Uffd> {
        let mut api = [UFFD_API, UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED, 0];
        self.ioctl("UFFDIO_API", UFFDIO_API, &mut api)?;
        Ok(self)
    }

    /// Tracks this range, whose mappings must all be private.
    pub(crate) fn register(&self, range: Range<u64>) -> Result<()> {
        let mut arg = [range.start, range.end - range.start, UFFDIO_REGISTER_MODE_WP, 0];
        self.ioctl("UFFDIO_REGISTER", UFFDIO_REGISTER, &mut arg)
    }

    /// Takes the protection away.
    pub(crate) fn unprotect(&self, range: Range<u64>) -> Result<()> {
        let mut arg = [range.start, range.end - range.start, 0];
        self.ioctl("UFFDIO_WRITEPROTECT", UFFDIO_WRITEPROTECT, &mut arg)
    }

    /// Tracks all private mappings; those that are tracked remain so. Returns the layout, as it is then: areas that differed in
    /// nothing but being tracked become one.
    pub(crate) fn register_all(&self) -> Result<Layout> {
        // All at once, if nothing in between objects.
        let all = self.register(LOWEST..USER_END);
        let layout = Layout::read(self.pid)?;
        match all {
            Ok(()) => return Ok(layout),
            Err(Error::Sys {
                errno: Errno::ENOMEM | Errno::ESRCH,
                ..
            }) => all?,
            Err(_) => {}
        }
        let mut run: Option<Range<u64>> = None;
        for mapping in layout.mappings().iter().filter(|mapping| mapping.is_private()) {
            match &mut run {
                Some(run) if run.end == mapping.start => run.end = mapping.end,
                _ => {
                    run.take().map_or(Ok(()), |run| self.register(run))?;
                    run = Some(mapping.start..mapping.end);
                }
            }
        }
        run.map_or(Ok(()), |run| self.register(run))?;
        Layout::read(self.pid)
    }

    fn ioctl<const N: usize>(
        &self,
        call: &'static str,
        request: libc::c_ulong,
        arg: &mut [u64; N],
    ) -> Result<()> {
        // SAFETY: the argument is as long as the request says (its size is a part of the number), and holds no pointers.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), request, arg.as_mut_ptr()) };
        Errno::result(result)
            .map(drop)
            .map_err(|errno| Error::sys(call, self.pid, errno))
    }
}

/// A descriptor of the task, as our own.
fn fetch(pid: i32, theirs: i32) -> Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let process = owned("pidfd_open", pid, unsafe {
        libc::syscall(libc::SYS_pidfd_open, pid, 0)
    })?;
    // SAFETY: as above.
    owned("pidfd_getfd", pid, unsafe {
        libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), theirs, 0)
    })
}

fn owned(call: &'static str, pid: i32, result: libc::c_long) -> Result<OwnedFd> {
    let fd = Errno::result(result).map_err(|errno| Error::sys(call, pid, errno))?;
    // SAFETY: a new descriptor that nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
