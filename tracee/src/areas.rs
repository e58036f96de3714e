//! One memory area of a stopped task, without reading the whole list.
//!
//! `/proc/PID/maps` takes tens of microseconds to make and to parse, and most questions are about one address. Linux 6.11
//! answers those by an ioctl (`PROCMAP_QUERY`) in less than one; older kernels are asked the long way.

use crate::error::{Error, Result};
use crate::stopped::Stopped;
use nix::errno::Errno;
use procfs::process::{MMPermissions, MMapPath, Process};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

const PROCMAP_QUERY: libc::c_ulong = 0xc068_6611;
const COVERING_OR_NEXT: u64 = 0x10;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;
/// A path, and what the kernel says of one that is gone.
const LONGEST_NAME: usize = libc::PATH_MAX as usize + 64;

/// The argument of `PROCMAP_QUERY`, field by field as the kernel has it.
#[repr(C)]
#[derive(Default)]
#[allow(non_camel_case_types, reason = "the kernel's name")]
struct procmap_query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

const _: () = assert!(size_of::<procmap_query>() == 104);

/// A stretch of addresses as the kernel cuts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area {
    /// Where.
    pub range: Range<u64>,
    /// `PROT_*`.
    pub prot: i32,
    /// Are writes seen by others?
    pub shared: bool,
    /// Of the first byte in the file, if there is one.
    pub offset: u64,
    /// Major and minor number of the file's device.
    pub device: (u32, u32),
    /// The file's.
    pub inode: u64,
    /// What is mapped.
    pub name: MMapPath,
}

impl Stopped {
    /// The area at this address, or the first one above it.
    pub fn area_from(&self, addr: u64) -> Result<Option<Area>> {
        match self.query(addr) {
            Err(Error::Sys {
                errno: Errno::ENOTTY | Errno::EINVAL,
                ..
            }) => self.area_by_reading(addr),
            answer => answer,
        }
    }

    fn query(&self, addr: u64) -> Result<Option<Area>> {
        let maps = self.maps()?;
        let mut name = [0u8; LONGEST_NAME];
        let mut query = procmap_query {
            size: size_of::<procmap_query>() as u64,
            query_flags: COVERING_OR_NEXT,
            query_addr: addr,
            vma_name_size: name.len() as u32,
            vma_name_addr: name.as_mut_ptr() as u64,
            ..procmap_query::default()
        };
        // SAFETY: the structure has the size that it says; the only pointer in it is to `name`, with its length.
        let answer = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
        match Errno::result(answer) {
            Ok(_) => {}
            Err(Errno::ENOENT) => return Ok(None),
            Err(errno) => return Err(Error::sys("PROCMAP_QUERY", self.pid(), errno)),
        }
        // The terminating NUL counts.
        let len = (query.vma_name_size as usize).saturating_sub(1);
        let text = String::from_utf8_lossy(&name[..len.min(name.len())]);
        let has = |flag, prot| if query.vma_flags & flag != 0 { prot } else { 0 };
        Ok(Some(Area {
            range: query.vma_start..query.vma_end,
            prot: has(READABLE, libc::PROT_READ)
                | has(WRITABLE, libc::PROT_WRITE)
                | has(EXECUTABLE, libc::PROT_EXEC),
            shared: query.vma_flags & SHARED != 0,
            offset: query.vma_offset,
            device: (query.dev_major, query.dev_minor),
            inode: query.inode,
            // The list of all areas shows a line break in a name like this.
            name: MMapPath::from(&text.replace('\n', "\\012")).map_err(|error| self.proc_failure(&error))?,
        }))
    }

    fn area_by_reading(&self, addr: u64) -> Result<Option<Area>> {
        let maps = Process::new(self.pid())
            .and_then(|process| process.maps())
            .map_err(|error| self.proc_failure(&error))?;
        let area = maps.into_iter().find(|map| map.address.1 > addr);
        Ok(area.map(Area::from))
    }

    /// `/proc/PID/maps`, opened on first use.
    fn maps(&self) -> Result<&File> {
        if let Some(file) = self.task.maps.get() {
            return Ok(file);
        }
        match File::open(format!("/proc/{}/maps", self.pid())) {
            Ok(file) => Ok(self.task.maps.get_or_init(|| file)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Error::Gone { pid: self.pid() })
            }
            Err(error) => Err(self.proc_failure(&error)),
        }
    }

    fn proc_failure(&self, error: &dyn std::fmt::Display) -> Error {
        Error::Proc {
            pid: self.pid(),
            reason: format!("maps: {error}"),
        }
    }
}

impl From<procfs::process::MemoryMap> for Area {
    fn from(map: procfs::process::MemoryMap) -> Area {
        let has = |flag, prot| if map.perms.contains(flag) { prot } else { 0 };
        Area {
            range: map.address.0..map.address.1,
            prot: has(MMPermissions::READ, libc::PROT_READ)
                | has(MMPermissions::WRITE, libc::PROT_WRITE)
                | has(MMPermissions::EXECUTE, libc::PROT_EXEC),
            shared: map.perms.contains(MMPermissions::SHARED),
            offset: map.offset,
            device: (map.dev.0 as u32, map.dev.1 as u32),
            inode: map.inode,
            name: map.pathname,
        }
    }
}
