//! Memory that processes share.
//!
//! Each task has private memory of its own there, because only that is what it was after going back to a checkpoint. One thread
//! runs at a time, so it is enough to carry over what a step has stored, through the file or what stands for one in the model, before
//! anybody else looks.

use super::Session;
use failure::Failure;
use syscall_model::{Call, Errno, Sysno, Tid, Wake, fs};

impl Session {
    /// After a step: what the process in place has stored in shared memory reaches all who map it.
    pub(super) fn share_memory(&mut self) -> Result<(), Failure> {
        if self.model.is_single() || self.ends.ended.is_some() {
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
            if self.model.fs.has_shared_memory() && !self.model.process.program.borrows {
                self.fill_shared_memory()?;
            }
        }
        self.enter(here);
        Ok(())
    }

    /// The process in place sees what others have stored.
    fn fill_shared_memory(&mut self) -> Result<(), Failure> {
        self.spaces.here.touched = true;
        let tid = self.some_thread();
        let filled = self.with_cx(tid, Wake::Ready, fs::refresh_all)?;
        filled.map_err(unreadable)?;
        self.fit_shared_mappings(tid)
    }

    /// Somebody touches a mapping of a part of a file that another mapping of the process in place shows, too.
    pub(super) fn wake_mapping(&mut self, tid: Tid, address: u64) -> Result<(), Failure> {
        let woken = self.with_cx(tid, Wake::Ready, |cx| fs::wake(cx, address))?;
        woken.map_err(unreadable)?;
        self.fit_shared_mappings(tid)
    }

    /// A call may read or write memory of such a mapping. Where it would is not known here: whatever could be an address counts, also of a list of addresses.
    pub(super) fn wake_for_call(&mut self, tid: Tid, call: &Call) -> Result<(), Failure> {
        if !self.model.fs.has_sleepers() {
            return Ok(());
        }
        const LIST: usize = 512;
        let mut words = call.args.to_vec();
        let mut from = 0;
        // The header of a message has a list of lists.
        let has_header = matches!(
            call.sysno,
            Sysno::sendmsg | Sysno::recvmsg | Sysno::sendmmsg | Sysno::recvmmsg
        );
        for _ in 0..=usize::from(has_header) {
            let end = words.len();
            for at in from..end {
                let mut list = [0; LIST];
                let got = self.spaces.task()?.memory().read_up_to(words[at], &mut list);
                let list = &list[..got.unwrap_or(0)];
                words.extend(list.chunks_exact(8).map(|word| {
                    let mut bytes = [0; 8];
                    bytes.copy_from_slice(word);
                    u64::from_le_bytes(bytes)
                }));
            }
            from = end;
        }
        for word in words {
            if self.model.fs.sleeper_at(word).is_some() {
                self.wake_mapping(tid, word)?;
            }
        }
        Ok(())
    }

    /// A thread of the process in place.
    fn some_thread(&self) -> Tid {
        let first = self.model.threads.keys().next();
        first.copied().unwrap_or(self.model.process.pid)
    }

    /// Is there nobody who could see what the thread that runs does to its memory?
    pub(super) fn is_without_company(&self) -> bool {
        let is_shared = !self.model.is_single() && self.model.fs.has_shared_memory();
        let is_lent = self.model.process.program.borrows;
        self.model.threads.len() == 1 && !is_shared && !is_lent
    }
}

pub(super) fn unreadable(errno: Errno) -> Failure {
    Failure::unsupported(format!("memory that processes share cannot be read: {errno}"))
}
