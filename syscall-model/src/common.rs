//! What processes may have in common beyond memory: a table of descriptors (`CLONE_FILES`), a working directory, root and umask (`CLONE_FS`), signal handlers
//! (`CLONE_SIGHAND`).
//!
//! Each process has a copy of what it shares. The copy of the process in place is the true one; when that process goes aside, or a step is over, all who share it get the same
//! (`Model::tell_fellows`). What is open in such a table counts once, however many processes have it: the last of them closes it.

use crate::model::Model;
use crate::process::Process;
use crate::processes::{Bank, Pid};

/// Who shares what: those with the same number. It is that of the process that was made to share it first, so no two have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Common {
    pub files: Option<Pid>,
    pub places: Option<Pid>,
    pub handlers: Option<Pid>,
}

impl Common {
    /// Does it share anything?
    pub fn is_any(self) -> bool {
        self != Self::default()
    }
}

/// Who shares with it: of two processes.
fn same(one: Option<Pid>, other: Option<Pid>) -> bool {
    one.is_some() && one == other
}

impl Model {
    /// A new process, `child`, shares these with the one in place, from now on.
    pub(crate) fn share(&mut self, child: Pid, files: bool, places: bool, handlers: bool) -> Common {
        let own = &mut self.process.common;
        let shared = |own: &mut Option<Pid>, asked: bool| asked.then(|| *own.get_or_insert(child));
        Common {
            files: shared(&mut own.files, files),
            places: shared(&mut own.places, places),
            handlers: shared(&mut own.handlers, handlers),
        }
    }

    /// Those who share something with the process in place get it as it is now.
    pub(crate) fn tell_fellows(&mut self) {
        let own = self.process.common;
        if !own.is_any() || self.threads.is_empty() {
            return;
        }
        for bank in self.aside.values_mut() {
            let theirs = bank.process.common;
            if same(own.files, theirs.files) {
                bank.table.clone_from(self.files.table());
            }
            if same(own.places, theirs.places) {
                self.fs.tell_place(&mut bank.place);
            }
            if same(own.handlers, theirs.handlers) {
                bank.signals.share_actions(&self.signals);
            }
        }
    }

    fn has_fellow(&self, shares: impl Fn(&Process) -> bool) -> bool {
        self.aside.values().any(|bank: &Bank| shares(&bank.process))
    }

    /// The process in place has a table of descriptors of its own from now on.
    pub(crate) fn leave_files(&mut self) {
        let own = self.process.common.files.take();
        if self.has_fellow(|process| same(own, process.common.files)) {
            self.files.retain_all();
        }
    }

    /// It has a working directory of its own from now on.
    pub(crate) fn leave_places(&mut self) {
        let own = self.process.common.places.take();
        if self.has_fellow(|process| same(own, process.common.places)) {
            self.fs.retain_place();
        }
    }

    /// It has signal handlers of its own from now on.
    pub(crate) fn leave_handlers(&mut self) {
        self.process.common.handlers = None;
    }

    /// Does anybody share the handlers of the process in place?
    pub(crate) fn has_common_handlers(&self) -> bool {
        let own = self.process.common.handlers;
        self.has_fellow(|process| same(own, process.common.handlers))
    }

    /// The process in place ends: what others have, too, is not closed with it.
    pub(crate) fn leave_to_fellows(&mut self) {
        let own = self.process.common;
        if !own.is_any() {
            return;
        }
        self.tell_fellows();
        if self.has_fellow(|process| same(own.files, process.common.files)) {
            self.files.drop_table();
        }
        if self.has_fellow(|process| same(own.places, process.common.places)) {
            self.fs.drop_place();
        }
        self.process.common = Common::default();
    }
}
