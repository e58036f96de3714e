//! A network of its own for the task, as part of the wall behind the filter: a call that gets to the kernel although it must not finds nobody to talk to, by whatever protocol.
//!
//! Whoever may make network namespaces makes one. Everybody else needs a user namespace for that, in which the user is who they were: the kernel puts the user's number on the
//! program's stack. That is not for root, who would lose the right to read other users' files to map them. Where namespaces are not to be had, which is tried once, there are none.

use crate::doctor::in_child;
use crate::stop::Status;
use nix::errno::Errno;
use nix::unistd::{getegid, geteuid, getgid, getuid};
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

/// How this user leaves the network.
pub(crate) struct Apart {
    /// In the new user namespace: who the user and the group are.
    maps: Option<(CString, CString)>,
}

impl Apart {
    /// Tried once for this process.
    pub(crate) fn of_this_user() -> Option<&'static Apart> {
        tried().as_ref().ok()
    }

    fn new() -> Result<Apart, String> {
        let (uid, gid) = (getuid(), getgid());
        if uid != geteuid() || gid != getegid() {
            return Err("the effective user is another".to_owned());
        }
        if uid.is_root() {
            return Ok(Apart { maps: None });
        }
        let map = |id: u32| CString::new(format!("{id} {id} 1")).map_err(|error| error.to_string());
        Ok(Apart {
            maps: Some((map(uid.as_raw())?, map(gid.as_raw())?)),
        })
    }

    /// Moves the calling process away from the network. If it cannot be moved at all it stays where it is.
    ///
    /// # Errors
    /// It is in a user namespace and has no user there.
    ///
    /// # Safety
    /// Async-signal-safe; meant for a forked child with a single thread.
    pub(crate) unsafe fn leave(&self) -> Result<(), Errno> {
        // SAFETY: forwarded from the caller.
        match unsafe { self.try_to_leave() } {
            Err((true, errno)) => Err(errno),
            Ok(()) | Err((false, _)) => Ok(()),
        }
    }

    /// An error says whether the process has moved nevertheless.
    ///
    /// # Safety
    /// See [`Apart::leave`].
    unsafe fn try_to_leave(&self) -> Result<(), (bool, Errno)> {
        let user = if self.maps.is_some() {
            libc::CLONE_NEWUSER
        } else {
            0
        };
        // SAFETY: no memory is involved.
        Errno::result(unsafe { libc::unshare(user | libc::CLONE_NEWNET) }).map_err(|errno| (false, errno))?;
        if let Some((uid, gid)) = &self.maps {
            for (file, text) in [
                (c"/proc/self/setgroups", c"deny"),
                (c"/proc/self/uid_map", uid.as_c_str()),
                (c"/proc/self/gid_map", gid.as_c_str()),
            ] {
                // SAFETY: forwarded from the caller.
                unsafe { write(file, text) }.map_err(|errno| (true, errno))?;
            }
        }
        Ok(())
    }
}

/// # Safety
/// See [`Apart::leave`].
unsafe fn write(file: &CStr, text: &CStr) -> Result<(), Errno> {
    let bytes = text.to_bytes();
    // SAFETY: the name ends in a zero byte, and the bytes live until the calls return.
    unsafe {
        let fd = Errno::result(libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC))?;
        let written = Errno::result(libc::write(fd, bytes.as_ptr().cast(), bytes.len()));
        libc::close(fd);
        written.map(drop)
    }
}

fn tried() -> &'static Result<Apart, String> {
    static TRIED: OnceLock<Result<Apart, String>> = OnceLock::new();
    TRIED.get_or_init(|| {
        let apart = Apart::new()?;
        // SAFETY: this runs in a forked child, which has one thread and exits after it.
        let attempt = || match unsafe { apart.try_to_leave() } {
            Ok(()) => 0,
            Err((_, errno)) => errno as i32,
        };
        match in_child(attempt)? {
            Status::Exited(0) => Ok(apart),
            Status::Exited(errno) => Err(Errno::from_raw(errno).to_string()),
            other => Err(format!("{other:?}")),
        }
    })
}

/// What this machine offers, in words.
pub(crate) fn describe() -> Result<String, String> {
    match tried() {
        Ok(Apart { maps: None }) => Ok("the task has a network of its own, without anybody in it".to_owned()),
        Ok(Apart { maps: Some(_) }) => {
            Ok("the task has a network of its own, without anybody in it, in a user namespace".to_owned())
        }
        Err(reason) => Err(reason.clone()),
    }
}
