//! Puts the mappings of a task back to what they were at a mark, by injected calls.
//!
//! Only the mappings; what was in them is written afterwards, like any other change. Calls are made in an order that never lets two mappings
//! meet: first what is too much goes, then the break moves, then what is missing comes.

use crate::error::{Error, Result};
use crate::layout::{Kind, Layout, MappedFile, Region};
use crate::store::PAGE;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use tracee::Stopped;

/// A stretch of addresses in which neither layout changes.
struct Stretch<'a> {
    start: u64,
    end: u64,
    now: Option<&'a Region>,
    wanted: Option<&'a Region>,
    /// Is it in pieces now, and was one?
    rebuild: bool,
}

impl Stretch<'_> {
    /// The main stack has grown, or will grow again: nothing to do.
    fn is_stack(&self) -> bool {
        let stack = |mapping: Option<&Region>| mapping.is_none_or(|mapping| mapping.kind == Kind::Stack);
        stack(self.now) && stack(self.wanted)
    }
}

/// Mappings and break of the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Space<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) brk: u64,
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Repaired {
    /// These ranges hold something else than before: nothing, or untouched memory.
    pub(crate) replaced: Vec<Range<u64>>,
    /// The mappings in these changed, those among them.
    pub(crate) changed: Vec<Range<u64>>,
}

/// Makes the mappings those that are wanted.
pub(crate) fn repair(task: &mut Stopped, now: Space, wanted: Space) -> Result<Repaired> {
    let mut fixer = Fixer {
        task,
        done: Repaired::default(),
    };
    let shrunk = if wanted.brk < now.brk {
        fixer.move_break(now.brk, wanted.brk)?;
        Some(fixer.layout()?)
    } else {
        None
    };
    let mut todo = stretches(shrunk.as_ref().unwrap_or(now.layout), wanted.layout);
    for stretch in &mut todo {
        fixer.unmap_excess(stretch)?;
    }
    let grown = if wanted.brk > now.brk {
        fixer.move_break(now.brk, wanted.brk)?;
        Some(fixer.layout()?)
    } else {
        None
    };
    if let Some(grown) = &grown {
        todo = stretches(grown, wanted.layout);
    }
    for stretch in &todo {
        fixer.map_missing(stretch)?;
    }
    let mut done = fixer.done;
    done.changed.extend(done.replaced.iter().cloned());
    Ok(done)
}

fn stretches<'a>(now: &'a Layout, wanted: &'a Layout) -> Vec<Stretch<'a>> {
    let edges = |layout: &'a Layout| layout.mappings().iter().flat_map(|m| [m.start, m.end]);
    let pieces = now.cut_areas(wanted);
    let ends = pieces.iter().flat_map(|area| [area.start, area.end]);
    let mut cuts: Vec<u64> = edges(now).chain(edges(wanted)).chain(ends).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let at = |layout: &'a Layout, addr| layout.find(addr).filter(|m| m.start <= addr);
    cuts.windows(2)
        .map(|cut| Stretch {
            start: cut[0],
            end: cut[1],
            now: at(now, cut[0]),
            wanted: at(wanted, cut[0]),
            rebuild: pieces.iter().any(|area| area.contains(&cut[0])),
        })
        .filter(|stretch| !stretch.is_stack())
        .collect()
}

struct Fixer<'a> {
    task: &'a mut Stopped,
    done: Repaired,
}

impl Fixer<'_> {
    fn layout(&self) -> Result<Layout> {
        Layout::read(self.task.pid())
    }

    fn move_break(&mut self, now: u64, wanted: u64) -> Result<()> {
        // A break that cannot be moved is no error to the kernel: it just says where it still is.
        if self.call("brk", libc::SYS_brk, [wanted, 0, 0, 0, 0, 0])? != wanted {
            return Err(self.cannot("the program break does not move".into()));
        }
        let page = PAGE as u64;
        let (low, high) = (now.min(wanted), now.max(wanted));
        self.done
            .replaced
            .push(low.next_multiple_of(page)..high.next_multiple_of(page));
        Ok(())
    }

    fn unmap_excess(&mut self, stretch: &mut Stretch) -> Result<()> {
        let Some(now) = stretch.now else { return Ok(()) };
        let wanted = stretch.wanted.filter(|_| !stretch.rebuild);
        if wanted.is_some_and(|wanted| now.same_backing(wanted, stretch.start)) {
            return Ok(());
        }
        if matches!(now.kind, Kind::Special(_) | Kind::Stack) {
            return Err(self.cannot(format!("{:?} is in the way", now.kind)));
        }
        let args = [stretch.start, stretch.end - stretch.start, 0, 0, 0, 0];
        self.call("munmap", libc::SYS_munmap, args)?;
        self.done.replaced.push(stretch.start..stretch.end);
        stretch.now = None;
        Ok(())
    }

    fn map_missing(&mut self, stretch: &Stretch) -> Result<()> {
        let Some(wanted) = stretch.wanted else {
            return Ok(());
        };
        let len = stretch.end - stretch.start;
        match stretch.now {
            Some(now) if now.prot == wanted.prot => Ok(()),
            Some(_) => {
                self.done.changed.push(stretch.start..stretch.end);
                let args = [stretch.start, len, wanted.prot as u64, 0, 0, 0];
                self.call("mprotect", libc::SYS_mprotect, args).map(drop)
            }
            None => {
                self.done.replaced.push(stretch.start..stretch.end);
                self.map(stretch.start, len, wanted)
            }
        }
    }

    fn map(&mut self, start: u64, len: u64, wanted: &Region) -> Result<()> {
        match &wanted.kind {
            Kind::Anonymous => self.map_anonymous(start, len, wanted.prot),
            Kind::File { file, offset, shared } => {
                let offset = offset + (start - wanted.start);
                let sharing = if *shared {
                    libc::MAP_SHARED
                } else {
                    libc::MAP_PRIVATE
                };
                self.map_file(file, [start, len, wanted.prot as u64, sharing as u64, 0, offset])
            }
            kind @ (Kind::Stack | Kind::Special(_)) => Err(self.cannot(format!("{kind:?} is gone"))),
        }
    }

    fn map_anonymous(&mut self, start: u64, len: u64, prot: i32) -> Result<()> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let args = [start, len, prot as u64, flags as u64, u64::MAX, 0];
        self.call("mmap", libc::SYS_mmap, args).map(drop)
    }

    /// Maps a file; `args` are those of `mmap`, but for the descriptor and `MAP_FIXED`.
    fn map_file(&mut self, file: &MappedFile, mut args: [u64; 6]) -> Result<()> {
        let same = std::fs::metadata(&file.path)
            .is_ok_and(|found| found.ino() == file.inode && found.dev() == file.device);
        if !same {
            return Err(self.cannot(format!("{} is not what it was", file.path.display())));
        }
        // The name must be in the task's memory, and the future mapping is a place that nobody else needs.
        let start = args[0];
        self.map_anonymous(start, args[1], libc::PROT_READ | libc::PROT_WRITE)?;
        let mut name = file.path.as_os_str().as_bytes().to_vec();
        name.push(0);
        if name.len() as u64 > args[1] {
            return Err(self.cannot("a file name is longer than its mapping".into()));
        }
        self.task.memory().write(start, &name)?;
        let at = libc::AT_FDCWD as i64 as u64;
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
        let fd = self.call("openat", libc::SYS_openat, [at, start, flags, 0, 0, 0])?;
        args[3] |= libc::MAP_FIXED as u64;
        args[4] = fd;
        let mapped = self.call("mmap", libc::SYS_mmap, args);
        self.call("close", libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
        mapped.map(drop)
    }

    /// An injected call whose failure means that the layout cannot be repaired.
    fn call(&mut self, name: &'static str, nr: i64, args: [u64; 6]) -> Result<u64> {
        match self.task.inject_checked(name, nr, args) {
            Err(tracee::Error::Injected { call, errno, .. }) => Err(self.cannot(format!("{call}: {errno}"))),
            other => Ok(other?),
        }
    }

    fn cannot(&self, what: String) -> Error {
        Error::Layout {
            pid: self.task.pid(),
            what,
        }
    }
}
