//! The present state as core files, one per process, with every virtual thread in it.

use super::Session;
use super::debug::Inspect;
use crate::core_file::{self, Area, Core, ProcessInfo, Signal, ThreadState};
use failure::Failure;
use procfs::process::{MMPermissions, MMapPath, Process};
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use syscall_model::Tid;
use syscall_model::processes::Pid;
use tracee::XState;

/// A core file, and what it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreFile {
    pub process: Pid,
    /// The file that the process executes.
    pub image: PathBuf,
    pub path: PathBuf,
}

impl Session {
    /// Writes a core file of each process, for `gdb PROGRAM FILE`; if there are several, each has the number of its process behind the name. Those of processes that
    /// have crashed meanwhile are there already. In each the thread that crashed comes first, else `first`.
    pub fn write_cores(&mut self, path: &Path, first: Option<Tid>) -> Result<Vec<CoreFile>, Failure> {
        let mut pids = self.model.own_pids();
        if pids.is_empty() {
            pids.push(self.model.process.pid);
        }
        let is_one = pids.len() == 1 && self.seen.crash_cores.is_empty();
        let mut written = self.seen.crash_cores.clone();
        for pid in pids {
            self.enter(pid);
            let path = if is_one {
                path.to_owned()
            } else {
                numbered(path, pid)
            };
            written.push(self.inspect().write_core(path, first)?);
        }
        self.go_home();
        written.sort_by_key(|core| core.process);
        Ok(written)
    }

    /// The process in place crashes, and will be gone when the others have gone on.
    pub(super) fn core_of_crash(&mut self) -> Result<(), Failure> {
        let Some(path) = self.options.cores.clone() else {
            return Ok(());
        };
        let core = self
            .inspect()
            .write_core(numbered(&path, self.model.process.pid), None)?;
        self.seen.crash_cores.push(core);
        Ok(())
    }
}

impl<'a> Inspect<'a> {
    /// A core file of the process in place.
    fn write_core(self, path: PathBuf, first: Option<Tid>) -> Result<CoreFile, Failure> {
        let task = self
            .spaces
            .here
            .task
            .as_ref()
            .ok_or_else(|| Failure::unsupported("the program is gone: there is nothing to write"))?;
        let fail = |e: &dyn std::fmt::Display| {
            Failure::unsupported(format!("cannot write the core file {}: {e}", path.display()))
        };
        let auxv = self.auxv().map_err(|e| fail(&e))?;
        let crash = self.ends.crash.as_ref();
        let core = Core {
            threads: self.thread_states(first)?,
            process: self.process_info(),
            auxv,
            areas: self.areas(task.pid()).map_err(|e| fail(&e))?,
            signal: crash
                .filter(|crash| self.is_in_place(crash.thread))
                .map(|crash| Signal {
                    number: crash.signal,
                    address: crash.address.unwrap_or(0),
                }),
        };
        // Without our hooks: a debugger shows the program's own instructions.
        let mut read = |address: u64, buffer: &mut [u8]| {
            self.read_memory(address, buffer)
                .map_err(|e| io::Error::other(e.reason))
        };
        core_file::write(&path, &core, &mut read).map_err(|e| fail(&e))?;
        Ok(CoreFile {
            process: self.model.process.pid,
            image: PathBuf::from(OsStr::from_bytes(self.model.fs.program())),
            path,
        })
    }

    fn thread_states(self, first: Option<Tid>) -> Result<Vec<ThreadState>, Failure> {
        let crashed = self.ends.crash.as_ref().map(|crash| crash.thread);
        let guilty = crashed.filter(|&tid| self.is_in_place(tid)).or(first);
        let mut tids = self.live_threads();
        tids.sort_by_key(|&tid| (Some(tid) != guilty, tid));
        tids.into_iter().map(|tid| self.thread_state(tid)).collect()
    }

    /// Is it a thread of the process in place? Of one that has ended, it was.
    fn is_in_place(self, tid: Tid) -> bool {
        self.live_threads().contains(&tid)
    }

    /// The threads of the process in place. One that has exited has none; where they stood last is still of interest.
    pub(super) fn live_threads(self) -> Vec<Tid> {
        let is_alive = |tid: &Tid| self.model.threads.contains_key(tid);
        let nobody_left = !self.threads.keys().any(is_alive);
        let is_left = |tid: &Tid| nobody_left && self.model.process_of(*tid).is_none();
        let all = self.threads.keys().copied();
        all.filter(|tid| is_left(tid) || is_alive(tid)).collect()
    }

    fn thread_state(self, tid: Tid) -> Result<ThreadState, Failure> {
        let (regs, xstate) = self.registers(tid)?;
        Ok(ThreadState {
            tid,
            regs,
            xstate: for_debuggers(&xstate),
        })
    }

    fn process_info(self) -> ProcessInfo {
        let process = &self.model.process;
        let arguments = self.spaces.here.invocation.command_line.split(|&byte| byte == 0);
        let mut arguments: Vec<Vec<u8>> = arguments.map(<[u8]>::to_vec).collect();
        // Each ends with a zero.
        arguments.pop();
        ProcessInfo {
            pid: process.pid,
            uid: self.options.config.uid,
            gid: self.options.config.gid,
            name: self.explain.command_of_process().into_bytes(),
            arguments,
        }
    }

    /// All mappings but our own.
    fn areas(self, pid: i32) -> Result<Vec<Area>, procfs::ProcError> {
        let own = self.spaces.own_ranges(self.spaces.here.id);
        let maps = Process::new(pid)?.maps()?;
        let area = |map: procfs::process::MemoryMap| Area {
            range: map.address.0..map.address.1,
            readable: map.perms.contains(MMPermissions::READ) && map.pathname != MMapPath::Vvar,
            writable: map.perms.contains(MMPermissions::WRITE),
            executable: map.perms.contains(MMPermissions::EXECUTE),
            file: match map.pathname {
                MMapPath::Path(path) => Some((path.as_os_str().as_bytes().to_vec(), map.offset)),
                _ => None,
            },
        };
        // The kernel's own page for old system calls is no memory of the process.
        let is_ours = |area: &Area| own.iter().any(|range| range.contains(&area.range.start));
        Ok(maps
            .into_iter()
            .filter(|map| map.pathname != MMapPath::Vsyscall)
            .map(area)
            .filter(|area| !is_ours(area))
            .collect())
    }
}

/// The core file of one of several processes.
fn numbered(path: &Path, pid: Pid) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{pid}"));
    name.into()
}

/// The extended state in the layout that gdb knows.
///
/// Up to version 13 gdb takes the offsets of Intel's processors for granted, later ones recognise them by the size; components that are
/// newer than that it does not know at all, and complains of the size. So each known component is put where gdb looks for it.
fn for_debuggers(xstate: &XState) -> Vec<u8> {
    const LEGACY_AND_HEADER: usize = 576;
    const ENABLED: Range<usize> = 464..472;
    const IN_USE: Range<usize> = 512..520;
    const LEGACY: u64 = 0b11;
    /// Number, offset and size: AVX, MPX (two), AVX-512 (three), protection keys.
    const KNOWN: [(u32, usize, usize); 7] = [
        (2, 576, 256),
        (3, 960, 64),
        (4, 1024, 64),
        (5, 1088, 64),
        (6, 1152, 512),
        (7, 1664, 1024),
        (9, 2688, 8),
    ];
    let enabled = xstate.features_enabled();
    let mut bytes = xstate.as_bytes()[..LEGACY_AND_HEADER].to_vec();
    let mut known = enabled & LEGACY;
    for (feature, offset, len) in KNOWN {
        if let Some(component) = xstate
            .component(feature)
            .filter(|_| enabled & (1 << feature) != 0)
        {
            known |= 1 << feature;
            bytes.resize(offset + len, 0);
            let len = len.min(component.len());
            bytes[offset..offset + len].copy_from_slice(&component[..len]);
        }
    }
    bytes[ENABLED].copy_from_slice(&known.to_le_bytes());
    bytes[IN_USE].copy_from_slice(&(xstate.features_in_use() & known).to_le_bytes());
    bytes
}
