//! The mappings of the program, as the kernel lists them.

use failure::Failure;
use std::path::PathBuf;

/// A line of `/proc/PID/maps`.
#[derive(Clone, Debug)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub executable: bool,
    pub writable: bool,
    pub path: Option<PathBuf>,
}

/// The mappings of a process.
pub fn read_maps(pid: i32) -> Result<Vec<Mapping>, Failure> {
    use procfs::process::{MMPermissions, MMapPath, Process};
    let fail = |error| Failure::unsupported(format!("cannot read the memory map of the program: {error}"));
    let maps = Process::new(pid)
        .and_then(|process| process.maps())
        .map_err(fail)?;
    Ok(maps
        .into_iter()
        .map(|map| Mapping {
            start: map.address.0,
            end: map.address.1,
            offset: map.offset,
            executable: map.perms.contains(MMPermissions::EXECUTE),
            writable: map.perms.contains(MMPermissions::WRITE),
            path: match map.pathname {
                MMapPath::Path(path) => Some(path),
                _ => None,
            },
        })
        .collect())
}
