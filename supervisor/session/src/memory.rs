//! The task's memory and the host's files, as the model wants to see them.

use super::Options;
use super::inputs::{RecordingHost, StandIn};
use super::spaces::Invocation;
use crate::code::Code;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use syscall_model::fs::{Attributes, Host, HostEntry, HostFile};
use syscall_model::processes::Pid;
use syscall_model::{Errno, Fault, GuestMemory};
use trace::InputRecord;
use tracee::Stopped;

/// Memory of the stopped task.
pub struct TaskMemory<'a> {
    memory: tracee::Memory<'a>,
    /// What was written by force: checkpoints look for writes where the program can write only.
    forced: Vec<Range<u64>>,
    /// Where there is memory that is not the program's: the kernel, as the program knows it, finds nothing there.
    hidden: Option<&'a Code>,
}

impl<'a> TaskMemory<'a> {
    pub fn new(task: &'a Stopped) -> Self {
        Self {
            memory: task.memory(),
            forced: Vec::new(),
            hidden: None,
        }
    }

    /// The same without the places where displaced instructions are.
    pub fn of_program(task: &'a Stopped, code: &'a Code) -> Self {
        Self {
            hidden: Some(code),
            ..Self::new(task)
        }
    }

    /// Where memory was written by force.
    pub fn forced(self) -> Vec<Range<u64>> {
        self.forced
    }
}

/// Bytes of the largest lock of the C library.
const LOCK: u64 = 56;

/// Locks at these addresses, and words at those, will be looked at: they are read in one call. What cannot be read is found out when it is looked at.
pub fn expect(task: &Stopped, locks: impl Iterator<Item = u64>, words: impl IntoIterator<Item = u64>) {
    let ends = |lock: u64| [lock, lock.saturating_add(LOCK - 1)];
    let _ = task.memory().expect(locks.flat_map(ends).chain(words));
}

impl GuestMemory for TaskMemory<'_> {
    fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.memory.read(addr, out).map_err(|_| Fault(addr))
    }

    fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), Fault> {
        self.memory.write(addr, data).map_err(|_| Fault(addr))
    }

    fn peek(&self, addr: u64, out: &mut [u8]) -> Result<(), Fault> {
        let end = addr.saturating_add(out.len() as u64);
        let is_ours = |range: Range<u64>| range.start < end && addr < range.end;
        if self.hidden.is_some_and(|code| code.scratch_ranges().any(is_ours)) {
            return Err(Fault(addr));
        }
        self.memory.read_forced(addr, out).map_err(|_| Fault(addr))
    }

    fn poke(&mut self, addr: u64, data: &[u8]) -> Result<(), Fault> {
        self.forced.push(addr..addr + data.len() as u64);
        self.memory.write_forced(addr, data).map_err(|_| Fault(addr))
    }
}

impl hooks::ReadMemory for TaskMemory<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self.memory.read(address, buffer).ok()
    }
}

/// The real file system, and the files in `/proc/self` that only the live process knows.
#[derive(Clone, Debug)]
pub struct ProcessHost {
    pid: i32,
    files: RecordingHost,
    invocation: Invocation,
    /// Memory that is no part of the program's world.
    hidden: Arc<Vec<Range<u64>>>,
    /// The processes that are not in place.
    others: Vec<Other>,
}

/// What is known of a process that is not in place.
#[derive(Clone, Debug)]
pub struct Other {
    pub process: Pid,
    /// Its kernel task.
    pub pid: i32,
    pub environment: Arc<[u8]>,
    pub hidden: Arc<Vec<Range<u64>>>,
}

impl ProcessHost {
    pub fn new(pid: i32, options: &Options) -> Self {
        Self {
            pid,
            files: RecordingHost::new(options.inputs.clone()),
            invocation: Invocation::of(options),
            hidden: Arc::default(),
            others: Vec::new(),
        }
    }

    /// The files that the program has seen so far.
    pub fn inputs(&self) -> InputRecord {
        self.files.record()
    }

    /// The kernel has mapped this file at `execve`.
    pub fn executed(&self, path: &Path) {
        self.files.executed(path);
    }

    /// What is to be mapped in place of a file, if it is no longer the one that the program knows.
    pub fn stand_in(&self, path: &Path) -> std::io::Result<Option<StandIn>> {
        self.files.stand_in(path)
    }

    /// A program that the program itself has written: see [`Inputs::made`](super::Inputs::made).
    pub fn made(&self, path: &[u8], contents: &[u8]) -> std::io::Result<PathBuf> {
        self.files.made(path, contents)
    }

    /// Memory that the program must not find in its list of mappings.
    pub fn hide(&mut self, ranges: Arc<Vec<Range<u64>>>) {
        self.hidden = ranges;
    }

    /// The processes that are not in place.
    pub fn beside(&mut self, others: impl Iterator<Item = Other>) {
        self.others.clear();
        self.others.extend(others);
    }

    /// The words that the process in place was started with.
    pub fn invoked(&mut self, invocation: &Invocation) {
        self.invocation.clone_from(invocation);
    }

    /// Another kernel task carries the program from now on.
    pub fn follow(&mut self, pid: i32) {
        self.pid = pid;
    }
}

/// The list of mappings of a task, as it would be without ours.
fn maps(pid: i32, hidden: &[Range<u64>]) -> Option<Vec<u8>> {
    let all = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let is_hidden = |line: &[u8]| {
        let digits = line.split(|&byte| byte == b'-').next().unwrap_or_default();
        let start = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| u64::from_str_radix(digits, 16).ok());
        start.is_some_and(|start| hidden.iter().any(|range| range.contains(&start)))
    };
    let lines = all.split_inclusive(|&byte| byte == b'\n');
    Some(lines.filter(|line| !is_hidden(line)).collect::<Vec<_>>().concat())
}

/// The auxiliary vector of a task.
fn auxv(pid: i32) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/auxv")).ok()
}

impl Host for ProcessHost {
    fn lstat(&self, path: &[u8]) -> Result<Attributes, Errno> {
        self.files.lstat(path)
    }

    fn attributes(&self, path: &[u8]) -> Result<Attributes, Errno> {
        self.files.attributes(path)
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        self.files.read_link(path)
    }

    fn read_dir(&self, path: &[u8]) -> Result<Vec<HostEntry>, Errno> {
        self.files.read_dir(path)
    }

    fn open(&self, path: &[u8]) -> Result<Arc<dyn HostFile>, Errno> {
        self.files.open(path)
    }

    fn process_file(&self, name: &[u8]) -> Option<Vec<u8>> {
        match name {
            b"cmdline" => Some(self.invocation.command_line.to_vec()),
            b"environ" => Some(self.invocation.environment.to_vec()),
            b"maps" => maps(self.pid, &self.hidden),
            b"auxv" => auxv(self.pid),
            _ => None,
        }
    }

    fn file_of_process(&self, pid: Pid, name: &[u8]) -> Option<Vec<u8>> {
        let other = self.others.iter().find(|other| other.process == pid)?;
        match name {
            b"environ" => Some(other.environment.to_vec()),
            b"maps" => maps(other.pid, &other.hidden),
            b"auxv" => auxv(other.pid),
            _ => None,
        }
    }
}
