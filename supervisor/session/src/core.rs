//! The present state as a core file, with every virtual thread in it.

use super::Session;
use crate::core_file::{self, Area, Core, ProcessInfo, Signal, ThreadState};
use failure::Failure;
use procfs::process::{MMPermissions, MMapPath, Process};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use syscall_model::Tid;
use tracee::XState;

impl Session {
    /// Writes a core file for `gdb PROGRAM FILE`. The thread that crashed comes first, else `first`.
    pub fn write_core(&self, path: &Path, first: Option<Tid>) -> Result<(), Failure> {
        let task = self
            .space
            .task
            .as_ref()
            .ok_or_else(|| Failure::unsupported("the program is gone: there is nothing to write"))?;
        let fail = |e: &dyn std::fmt::Display| {
            Failure::unsupported(format!("cannot write the core file {}: {e}", path.display()))
        };
        let auxv = self.auxv().map_err(|e| fail(&e))?;
        let core = Core {
            threads: self.thread_states(first)?,
            process: self.process_info(),
            auxv,
            areas: self.areas(task.pid()).map_err(|e| fail(&e))?,
            signal: self.crash.as_ref().map(|crash| Signal {
                number: crash.signal,
                address: crash.address.unwrap_or(0),
            }),
        };
        // Without our hooks: a debugger shows the program's own instructions.
        let mut read = |address: u64, buffer: &mut [u8]| {
            self.read_memory(address, buffer)
                .map_err(|e| io::Error::other(e.reason))
        };
        core_file::write(path, &core, &mut read).map_err(|e| fail(&e))
    }

    fn thread_states(&self, first: Option<Tid>) -> Result<Vec<ThreadState>, Failure> {
        let guilty = self.crash.as_ref().map(|crash| crash.thread).or(first);
        let mut tids = self.live_threads();
        tids.sort_by_key(|&tid| (Some(tid) != guilty, tid));
        tids.into_iter().map(|tid| self.thread_state(tid)).collect()
    }

    /// The threads that there are. A process that has exited has none; where they stood last is still of interest.
    pub(super) fn live_threads(&self) -> Vec<Tid> {
        let is_alive = |tid: &Tid| self.model.threads.contains_key(tid);
        let nobody_left = !self.contexts.keys().any(is_alive);
        self.contexts
            .keys()
            .copied()
            .filter(|tid| nobody_left || is_alive(tid))
            .collect()
    }

    fn thread_state(&self, tid: Tid) -> Result<ThreadState, Failure> {
        let (regs, xstate) = self.registers(tid)?;
        Ok(ThreadState {
            tid,
            regs,
            xstate: for_debuggers(&xstate),
        })
    }

    fn process_info(&self) -> ProcessInfo {
        let config = &self.options.config;
        let name = self.options.program.path.file_name().unwrap_or_default();
        ProcessInfo {
            pid: config.pid,
            uid: config.uid,
            gid: config.gid,
            name: name.as_bytes().to_vec(),
            arguments: self.options.argv.clone(),
        }
    }

    /// All mappings but our own.
    fn areas(&self, pid: i32) -> Result<Vec<Area>, procfs::ProcError> {
        let own = self.own_ranges(self.space.id);
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
