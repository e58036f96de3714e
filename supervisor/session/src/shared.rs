//! Memory that processes share.
//!
//! Each task has private memory of its own there, because only that is what it was after going back to a checkpoint. One thread
//! runs at a time, so it is enough to carry over what a step has stored, through the file or what stands for one in the model, before
//! anybody else looks.

use super::Session;
use failure::Failure;
use syscall_model::{Errno, Tid, Wake, fs};

impl Session {
    /// After a step: what the process in place has stored in shared memory reaches all who map it.
    pub(super) fn share_memory(&mut self) -> Result<(), Failure> {
        if self.model.is_single() || self.ended.is_some() {
            return Ok(());
        }
        let here = self.model.process.pid;
        if self.model.fs.has_shared_memory() {
            let stored = self.with_cx(self.some_thread(), Wake::Ready, fs::flush_all)?;
            stored.map_err(unreadable)?;
        }
        for pid in self.model.sharing() {
            self.enter(pid);
            self.fill_shared_memory()?;
        }
        self.enter(here);
        Ok(())
    }

    /// One process has ended. Those that are left see what it has stored last, as the kernel has on its behalf in robust locks;
    /// what they have of it is older.
    pub(super) fn show_shared_memory(&mut self) -> Result<(), Failure> {
        let here = self.model.process.pid;
        for pid in self.model.pids() {
            self.enter(pid);
            if self.model.fs.has_shared_memory() && !self.model.process.borrows {
                self.fill_shared_memory()?;
            }
        }
        self.enter(here);
        Ok(())
    }

    /// The process in place sees what others have stored.
    fn fill_shared_memory(&mut self) -> Result<(), Failure> {
        self.space.touched = true;
        let tid = self.some_thread();
        let filled = self.with_cx(tid, Wake::Ready, fs::refresh_all)?;
        filled.map_err(unreadable)?;
        self.fit_shared_mappings(tid)
    }

    /// A thread of the process in place.
    fn some_thread(&self) -> Tid {
        let first = self.model.threads.keys().next();
        first.copied().unwrap_or(self.model.process.pid)
    }

    /// Is a thread one of those that use the memory in place?
    pub(super) fn is_here(&self, tid: Tid) -> bool {
        self.spaces.is_empty() || self.space_of(tid).id == self.space.id
    }

    /// Is there nobody who could see what the thread that runs does to its memory?
    pub(super) fn is_without_company(&self) -> bool {
        let is_shared = !self.model.is_single() && self.model.fs.has_shared_memory();
        let is_lent = self.model.process.borrows;
        self.model.threads.len() == 1 && !is_shared && !is_lent
    }
}

pub(super) fn unreadable(errno: Errno) -> Failure {
    Failure::unsupported(format!("memory that processes share cannot be read: {errno}"))
}
