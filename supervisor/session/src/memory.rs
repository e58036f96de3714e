//! The task's memory and the host's files, as the model wants to see them.

use super::Options;
use super::inputs::{RecordingHost, StandIn};
use super::spaces::Invocation;
use crate::code::Code;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use syscall_model::fs::{Attributes, Host, HostEntry, HostFile};
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

impl hooks::GuestMemory for TaskMemory<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self.memory.read(address, buffer).ok()
    }
}

/// Memory of the stopped task around some addresses, read in one call; the rest is read when asked for.
pub struct Gathered<'a> {
    rest: TaskMemory<'a>,
    /// Addresses and lengths, one after the other in `bytes`.
    pieces: Vec<(u64, usize)>,
    bytes: Vec<u8>,
}

impl<'a> Gathered<'a> {
    /// As much as a lock of the C library takes, at each of these addresses.
    pub fn new(task: &'a Stopped, addresses: impl Iterator<Item = u64>) -> Self {
        const LOCK: u64 = 56;
        const PAGE: u64 = 4096;
        let mut pieces: Vec<(u64, usize)> = addresses
            // Never across a page: the next one may not be there.
            .map(|at| (at, LOCK.min(PAGE - at % PAGE) as usize))
            .collect();
        pieces.sort_unstable();
        pieces.dedup();
        let mut bytes = vec![0; pieces.iter().map(|piece| piece.1).sum()];
        if pieces.len() < 2 || task.memory().read_many(&pieces, &mut bytes).is_err() {
            pieces.clear();
        }
        Self {
            rest: TaskMemory::new(task),
            pieces,
            bytes,
        }
    }

    fn piece(&self, address: u64, len: usize) -> Option<&[u8]> {
        let mut at = 0;
        for &(start, size) in &self.pieces {
            let skip = address.wrapping_sub(start);
            if skip < size as u64 && skip as usize + len <= size {
                return self.bytes.get(at + skip as usize..at + skip as usize + len);
            }
            at += size;
        }
        None
    }
}

impl hooks::GuestMemory for Gathered<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        match self.piece(address, buffer.len()) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => hooks::GuestMemory::read(&self.rest, address, buffer)?,
        }
        Some(())
    }
}

/// The real file system, and the files in `/proc/self` that only the live process knows.
#[derive(Clone, Debug)]
pub struct ProcessHost {
    pid: i32,
    files: RecordingHost,
    invocation: Invocation,
    /// Memory that is no part of the program's world.
    hidden: Vec<Range<u64>>,
}

impl ProcessHost {
    pub fn new(pid: i32, options: &Options) -> Self {
        Self {
            pid,
            files: RecordingHost::new(options.inputs.clone()),
            invocation: Invocation::of(options),
            hidden: Vec::new(),
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

    /// Memory that the program must not find in its list of mappings.
    pub fn hide(&mut self, ranges: Vec<Range<u64>>) {
        self.hidden = ranges;
    }

    /// The list of mappings, as it would be without ours.
    fn maps(&self) -> Option<Vec<u8>> {
        let all = std::fs::read(format!("/proc/{}/maps", self.pid)).ok()?;
        let is_hidden = |line: &[u8]| {
            let digits = line.split(|&byte| byte == b'-').next().unwrap_or_default();
            let start = std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| u64::from_str_radix(digits, 16).ok());
            start.is_some_and(|start| self.hidden.iter().any(|range| range.contains(&start)))
        };
        let lines = all.split_inclusive(|&byte| byte == b'\n');
        Some(lines.filter(|line| !is_hidden(line)).collect::<Vec<_>>().concat())
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

impl Host for ProcessHost {
    fn lstat(&self, path: &[u8]) -> Result<Attributes, Errno> {
        self.files.lstat(path)
    }

    fn look(&self, path: &[u8]) -> Result<Attributes, Errno> {
        self.files.look(path)
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
            b"maps" => self.maps(),
            b"auxv" => std::fs::read(format!("/proc/{}/{}", self.pid, name.escape_ascii())).ok(),
            _ => None,
        }
    }
}
