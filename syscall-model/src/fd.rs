//! Descriptors: the table, and the open file descriptions behind it.
//!
//! `dup` shares a description (offset, status flags); `open` makes a new one. The maps are persistent
//! (`imbl`), so that a checkpoint shares all that did not change.

use crate::channels::{ChannelId, EpollId};
use crate::fs::OpenFile;
use imbl::OrdMap;
use syscalls::Errno;

/// The number of an open file description; never used twice in one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OfdId(pub u32);

bitflags::bitflags! {
    /// `POLLIN` and its kin; the same bits as `EPOLLIN` and its kin.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct PollEvents: u32 {
        const IN = 0x1;
        const PRI = 0x2;
        const OUT = 0x4;
        const ERR = 0x8;
        const HUP = 0x10;
        const NVAL = 0x20;
        const RDNORM = 0x40;
        const RDBAND = 0x80;
        const WRNORM = 0x100;
        const WRBAND = 0x200;
        const RDHUP = 0x2000;
    }
}

/// What a description refers to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file, a directory or a device node of the modelled file system.
    File(OpenFile),
    /// Captured standard output (1) or error (2).
    Output(u8),
    /// The reading end of a pipe.
    PipeReader(ChannelId),
    /// The writing end of a pipe.
    PipeWriter(ChannelId),
    Socket(ChannelId),
    EventFd(ChannelId),
    TimerFd(ChannelId),
    /// The signals that it accepts.
    SignalFd(u64),
    /// A process, by its number, which no other process gets.
    PidFd(u32),
    /// A POSIX message queue.
    MessageQueue(ChannelId),
    /// The side of a pseudo-terminal that stands for the keyboard and the screen.
    PtyMaster(ChannelId),
    /// The side of a pseudo-terminal that programs use, and how often it had been hung up when this was opened.
    PtySlave(ChannelId, u32),
    Epoll(EpollId),
}

/// An open file description.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Description {
    pub kind: Kind,
    /// Access mode and status flags as `F_GETFL` shows them.
    pub flags: i32,
    /// Descriptors (and messages in flight) that refer to it.
    pub references: u32,
}

impl Description {
    pub fn nonblocking(&self) -> bool {
        self.flags & libc::O_NONBLOCK != 0
    }

    pub fn readable(&self) -> bool {
        self.flags & libc::O_PATH == 0
            && matches!(self.flags & libc::O_ACCMODE, libc::O_RDONLY | libc::O_RDWR)
    }

    pub fn writable(&self) -> bool {
        self.flags & libc::O_PATH == 0
            && matches!(self.flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR)
    }
}

/// One row of the descriptor table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor {
    pub description: OfdId,
    pub close_on_exec: bool,
}

/// The descriptor table of one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Table {
    entries: OrdMap<i32, Descriptor>,
    /// `RLIMIT_NOFILE` as the program lowered it.
    lowered_limit: Option<i32>,
    /// The number of the next description that the process opens. Each has numbers of its own, so that it does not matter which one is first.
    next: u32,
}

impl Table {
    /// The table of a process that inherits nothing.
    pub(crate) fn numbered(first_number: u32) -> Self {
        Self {
            next: first_number,
            ..Self::default()
        }
    }

    /// What is open in it.
    pub(crate) fn descriptions(&self) -> impl Iterator<Item = OfdId> + '_ {
        self.entries.values().map(|descriptor| descriptor.description)
    }
}

/// The descriptor table of the process in place, and all open file descriptions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Files {
    table: Table,
    descriptions: OrdMap<OfdId, Description>,
}

/// `RLIMIT_NOFILE` of the modelled process.
pub const MAX_FDS: i32 = 1024;

impl Files {
    /// Descriptors are below this.
    pub fn limit(&self) -> i32 {
        self.table.lowered_limit.unwrap_or(MAX_FDS)
    }

    /// Descriptors above the limit that are open already stay open.
    pub fn set_limit(&mut self, limit: u64) {
        self.table.lowered_limit = i32::try_from(limit).ok().filter(|&limit| limit < MAX_FDS);
    }

    /// Another process comes in place: its table, for the one that was there.
    pub(crate) fn swap_table(&mut self, table: &mut Table) {
        std::mem::swap(&mut self.table, table);
    }

    /// The table of the process in place.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// The process in place no longer shares its table: every description has one more descriptor.
    pub(crate) fn retain_all(&mut self) {
        let open: Vec<OfdId> = self.table.descriptions().collect();
        for description in open {
            self.retain(description);
        }
    }

    /// The process in place has no descriptors any more; others have the same.
    pub(crate) fn drop_table(&mut self) {
        self.table.entries = OrdMap::new();
    }

    /// The table of a new process, in which every description has one more descriptor.
    pub(crate) fn copy_table(&mut self, first_number: u32) -> Table {
        let mut copy = self.table.clone();
        copy.next = first_number;
        for descriptor in copy.entries.values() {
            self.retain(descriptor.description);
        }
        copy
    }

    /// Adds a description with no descriptor yet; install it, or it leaks.
    pub fn describe(&mut self, kind: Kind, flags: i32) -> OfdId {
        while self.descriptions.contains_key(&OfdId(self.table.next)) {
            self.table.next += 1;
        }
        let id = OfdId(self.table.next);
        self.table.next += 1;
        self.descriptions.insert(
            id,
            Description {
                kind,
                flags,
                references: 0,
            },
        );
        id
    }

    /// The lowest free descriptor not below `min`.
    pub fn lowest_free(&self, min: i32) -> Result<i32, Errno> {
        let mut fd = min;
        for &used in self.table.entries.range(min..).map(|(fd, _)| fd) {
            if used != fd {
                break;
            }
            fd += 1;
        }
        if fd >= self.limit() {
            return Err(Errno::EMFILE);
        }
        Ok(fd)
    }

    /// Gives `description` the lowest free descriptor not below `min`.
    pub fn install(&mut self, description: OfdId, min: i32, close_on_exec: bool) -> Result<i32, Errno> {
        let fd = self.lowest_free(min)?;
        self.install_at(description, fd, close_on_exec);
        Ok(fd)
    }

    /// Puts `description` at `fd`, which must be free.
    pub fn install_at(&mut self, description: OfdId, fd: i32, close_on_exec: bool) {
        self.table.entries.insert(
            fd,
            Descriptor {
                description,
                close_on_exec,
            },
        );
        self.retain(description);
    }

    pub fn descriptor(&self, fd: i32) -> Result<Descriptor, Errno> {
        self.table.entries.get(&fd).copied().ok_or(Errno::EBADF)
    }

    pub fn descriptor_mut(&mut self, fd: i32) -> Result<&mut Descriptor, Errno> {
        self.table.entries.get_mut(&fd).ok_or(Errno::EBADF)
    }

    /// The description behind a descriptor that is more than a mere name (`O_PATH`), which nearly every call asks for.
    pub fn lookup(&self, fd: i32) -> Result<(OfdId, &Description), Errno> {
        self.lookup_any(fd)
            .and_then(|(id, description)| match description.flags & libc::O_PATH {
                0 => Ok((id, description)),
                _ => Err(Errno::EBADF),
            })
    }

    /// The description behind a descriptor, of whatever kind.
    pub fn lookup_any(&self, fd: i32) -> Result<(OfdId, &Description), Errno> {
        let id = self.descriptor(fd)?.description;
        Ok((id, self.descriptions.get(&id).ok_or(Errno::EBADF)?))
    }

    pub fn get(&self, id: OfdId) -> Option<&Description> {
        self.descriptions.get(&id)
    }

    pub fn get_mut(&mut self, id: OfdId) -> Option<&mut Description> {
        self.descriptions.get_mut(&id)
    }

    /// One more reference, for a descriptor or for a descriptor in flight (`SCM_RIGHTS`).
    pub fn retain(&mut self, id: OfdId) {
        if let Some(description) = self.descriptions.get_mut(&id) {
            description.references += 1;
        }
    }

    /// One reference less; the description if that was the last, for [`Model::release`](crate::Model::release).
    pub fn drop_reference(&mut self, id: OfdId) -> Option<Description> {
        let description = self.descriptions.get_mut(&id)?;
        description.references -= 1;
        if description.references > 0 {
            return None;
        }
        self.descriptions.remove(&id)
    }

    /// Takes a descriptor out of the table. The caller must drop its reference.
    pub fn remove(&mut self, fd: i32) -> Result<Descriptor, Errno> {
        self.table.entries.remove(&fd).ok_or(Errno::EBADF)
    }

    pub fn iter(&self) -> impl Iterator<Item = (i32, Descriptor)> + '_ {
        self.table.entries.iter().map(|(&fd, &d)| (fd, d))
    }

    pub fn descriptions(&self) -> impl Iterator<Item = (OfdId, &Description)> + '_ {
        self.descriptions.iter().map(|(&id, d)| (id, d))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_descriptor_is_given() {
        let mut files = Files::default();
        let d = files.describe(Kind::Output(1), libc::O_WRONLY);
        assert_eq!(files.install(d, 0, false), Ok(0));
        assert_eq!(files.install(d, 0, false), Ok(1));
        assert_eq!(files.install(d, 5, false), Ok(5));
        files.remove(0).unwrap();
        assert!(files.drop_reference(d).is_none());
        assert_eq!(files.install(d, 0, false), Ok(0));
        assert_eq!(files.install(d, 0, false), Ok(2));
        assert_eq!(files.lookup(3), Err(Errno::EBADF));
    }
}
