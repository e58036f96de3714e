//! `/proc/PID` of the program's other processes: the same files as for the one in place, as if that one were in place.

use crate::fs::host::{Host, HostEntry, HostFile};
use crate::fs::node::Attributes;
use crate::fs::tree::View;
use crate::model::Model;
use crate::processes::Pid;
use std::sync::Arc;
use syscalls::Errno;

/// The process that a path in `/proc` is about, if it says so by number.
fn named(path: &[u8]) -> Option<Pid> {
    let rest = path.strip_prefix(b"/proc/")?;
    let number = rest.split(|&byte| byte == b'/').next()?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Does what this path shows depend on what other processes do?
pub(crate) fn shows_others(model: &Model, path: &[u8]) -> bool {
    let is_about_others = named(path).is_some_and(|pid| pid != model.process.pid);
    is_about_others || path == b"/proc" && !(model.is_single() && model.zombies.is_empty())
}

/// The world as another process of the program sees it.
pub(super) struct Elsewhere<'a> {
    model: Model,
    host: Forwarded<'a>,
}

impl<'a> Elsewhere<'a> {
    /// For a path about another process that lives.
    pub fn of(view: &View<'a>, path: &[u8]) -> Option<Self> {
        let pid = named(path).filter(|&pid| pid != view.model.process.pid)?;
        view.model.process_at(pid)?;
        let mut model = view.model.clone();
        model.enter(pid);
        let command_line = model.process.program.command_line.to_vec();
        let host = Forwarded {
            host: view.host,
            pid,
            command_line,
        };
        Some(Self { model, host })
    }

    pub fn view(&self) -> View<'_> {
        View {
            model: &self.model,
            host: &self.host,
            tid: self.model.process.pid,
        }
    }
}

/// The files of this machine; but what only the live process knows is not asked of the one in place.
struct Forwarded<'a> {
    host: &'a dyn Host,
    pid: Pid,
    command_line: Vec<u8>,
}

impl Host for Forwarded<'_> {
    fn lstat(&self, path: &[u8]) -> Result<Attributes, Errno> {
        self.host.lstat(path)
    }

    fn attributes(&self, path: &[u8]) -> Result<Attributes, Errno> {
        self.host.attributes(path)
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        self.host.read_link(path)
    }

    fn read_dir(&self, path: &[u8]) -> Result<Vec<HostEntry>, Errno> {
        self.host.read_dir(path)
    }

    fn open(&self, path: &[u8]) -> Result<Arc<dyn HostFile>, Errno> {
        self.host.open(path)
    }

    fn process_file(&self, name: &[u8]) -> Option<Vec<u8>> {
        match name {
            b"cmdline" => Some(self.command_line.clone()),
            name => self.host.file_of_process(self.pid, name),
        }
    }
}
