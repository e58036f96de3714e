//! The mappings of a task, in a normal form.
//!
//! How the kernel cuts memory into areas depends on history (which calls made them, what is registered for tracking), but
//! neighbours that behave alike are one mapping here. So equal address spaces have equal layouts, whatever the way to them,
//! and the layout can be a part of the identity of a state. The main stack grows by itself and never
//! shrinks: where it starts is history, too, and does not count.

use crate::error::{Error, Result};
use procfs::process::{MMapPath, Process};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use tracee::{Area, Stopped};
use xxhash_rust::xxh3::Xxh3;

/// The mappings of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Sorted by address.
    mappings: Vec<Region>,
    /// As the kernel cuts them, since some calls (mremap) care.
    areas: Vec<Region>,
    /// Contribution of the layout to the identity.
    identity: u128,
}

/// A range of addresses that behaves alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// `PROT_*`.
    pub(crate) prot: i32,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Private memory that starts as zeros.
    Anonymous,
    /// The main thread's stack.
    Stack,
    /// A file; `offset` is that of the first byte.
    File {
        file: Rc<MappedFile>,
        offset: u64,
        shared: bool,
    },
    /// The kernel's own, or something unknown. Never touched.
    Special(String),
}

/// A file that is mapped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct MappedFile {
    pub(crate) path: PathBuf,
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Region {
    /// Can it hold content of its own that a checkpoint has to keep?
    pub(crate) fn is_private(&self) -> bool {
        match self.kind {
            Kind::Anonymous | Kind::Stack | Kind::File { shared: false, .. } => true,
            Kind::File { shared: true, .. } | Kind::Special(_) => false,
        }
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.prot & libc::PROT_READ != 0
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.prot & libc::PROT_WRITE != 0
    }

    fn from_area(area: Area) -> Region {
        let shared = area.shared;
        let kind = match area.name {
            MMapPath::Path(path) => Kind::File {
                file: Rc::new(MappedFile {
                    path,
                    device: nix::sys::stat::makedev(area.device.0.into(), area.device.1.into()),
                    inode: area.inode,
                }),
                offset: area.offset,
                shared,
            },
            MMapPath::Stack => Kind::Stack,
            MMapPath::Anonymous | MMapPath::Heap if !shared => Kind::Anonymous,
            MMapPath::Other(name) if name.starts_with("anon:") && !shared => Kind::Anonymous,
            other => Kind::Special(format!("{other:?}")),
        };
        Region {
            start: area.range.start,
            end: area.range.end,
            prot: area.prot,
            kind,
        }
    }

    /// Is `next` nothing but the continuation of this mapping?
    fn continues_with(&self, next: &Region) -> bool {
        let same_kind = match (&self.kind, &next.kind) {
            (
                Kind::File { file, offset, shared },
                Kind::File {
                    file: next_file,
                    offset: next_offset,
                    shared: next_shared,
                },
            ) => {
                file == next_file && shared == next_shared && offset + (self.end - self.start) == *next_offset
            }
            (ours, theirs) => ours == theirs,
        };
        self.end == next.start && self.prot == next.prot && same_kind
    }

    /// What backs the page that starts at `addr`, and how: equal for ranges that need no new mapping.
    pub(crate) fn same_backing(&self, other: &Region, addr: u64) -> bool {
        match (&self.kind, &other.kind) {
            (
                Kind::File { file, offset, shared },
                Kind::File {
                    file: other_file,
                    offset: other_offset,
                    shared: other_shared,
                },
            ) => {
                file == other_file
                    && shared == other_shared
                    && offset + (addr - self.start) == other_offset + (addr - other.start)
            }
            (ours, theirs) => ours == theirs,
        }
    }

    fn hash_into(&self, hash: &mut Xxh3) {
        let start = if self.kind == Kind::Stack { 0 } else { self.start };
        for number in [start, self.end, self.prot as u64] {
            hash.update(&number.to_le_bytes());
        }
        let (tag, offset, name): (u8, u64, &[u8]) = match &self.kind {
            Kind::Anonymous => (0, 0, &[]),
            Kind::Stack => (1, 0, &[]),
            Kind::File { file, offset, shared } => {
                (2 + u8::from(*shared), *offset, file.path.as_os_str().as_bytes())
            }
            Kind::Special(name) => (4, 0, name.as_bytes()),
        };
        hash.update(&[tag]);
        hash.update(&offset.to_le_bytes());
        hash.update(&(name.len() as u64).to_le_bytes());
        hash.update(name);
    }
}

impl Layout {
    /// The mappings that the task has now.
    pub(crate) fn read(pid: i32) -> Result<Layout> {
        let maps = Process::new(pid)
            .and_then(|process| process.maps())
            .map_err(|error| Error::Proc {
                pid,
                reason: error.to_string(),
            })?;
        let areas = maps.into_iter().map(|map| Region::from_area(map.into()));
        Ok(Layout::new(areas.collect()))
    }

    /// The mappings that the task has now, if they changed within these ranges only.
    pub(crate) fn updated(&self, task: &Stopped, changed: &[Range<u64>]) -> Result<Layout> {
        let mut areas = self.areas.clone();
        for range in changed {
            // With the neighbours, which may have become one with what is there, or come apart from it.
            let (start, end) = (range.start.saturating_sub(1), range.end.saturating_add(1));
            let first = areas.partition_point(|area| area.end <= start);
            let after = areas.partition_point(|area| area.start < end);
            areas.splice(first..after.max(first), areas_in(task, start..end)?);
        }
        // The main stack may have grown to where it is seen twice.
        areas.dedup_by(|next, last| {
            let again = next.start < last.end;
            if again {
                last.start = last.start.min(next.start);
            }
            again
        });
        Ok(Layout::new(areas))
    }

    fn new(mut areas: Vec<Region>) -> Layout {
        // The kernel shows its own page beyond user space in every process.
        areas.retain(|area| area.start < crate::pagemap::USER_END);
        let mut mappings: Vec<Region> = Vec::with_capacity(areas.len());
        for area in &areas {
            match mappings.last_mut() {
                Some(last) if last.continues_with(area) => last.end = area.end,
                _ => mappings.push(area.clone()),
            }
        }
        let mut hash = Xxh3::new();
        mappings.iter().for_each(|mapping| mapping.hash_into(&mut hash));
        let identity = hash.digest128();
        Layout {
            mappings,
            areas,
            identity,
        }
    }

    pub(crate) fn mappings(&self) -> &[Region] {
        &self.mappings
    }

    pub(crate) fn identity(&self) -> u128 {
        self.identity
    }

    /// The mapping that holds this address. The main stack may have grown since the layout was read.
    pub(crate) fn find(&self, addr: u64) -> Option<&Region> {
        let at = self.mappings.partition_point(|mapping| mapping.end <= addr);
        let mapping = self.mappings.get(at)?;
        (mapping.start <= addr || mapping.kind == Kind::Stack).then_some(mapping)
    }

    /// The mapping right below this one, if there is no gap.
    pub(crate) fn below(&self, mapping: &Region) -> Option<&Region> {
        let at = self.mappings.partition_point(|other| other.end < mapping.start);
        self.mappings.get(at).filter(|other| other.end == mapping.start)
    }

    /// Where a mapping starts, at the lowest: a stack reaches down to its neighbour.
    pub(crate) fn floor(&self, mapping: &Region) -> u64 {
        if mapping.kind != Kind::Stack {
            return mapping.start;
        }
        let at = self.mappings.partition_point(|other| other.end <= mapping.start);
        at.checked_sub(1).map_or(0, |below| self.mappings[below].end)
    }

    /// Refuses memory that a checkpoint cannot hold.
    pub(crate) fn refuse_shared(&self) -> Result<()> {
        let shared = self
            .mappings
            .iter()
            .find(|mapping| !mapping.is_private() && mapping.is_writable());
        match shared {
            None => Ok(()),
            Some(mapping) => Err(Error::SharedMapping {
                start: mapping.start,
                end: mapping.end,
                name: match &mapping.kind {
                    Kind::File { file, .. } => file.path.display().to_string(),
                    kind => format!("{kind:?}"),
                },
            }),
        }
    }

    /// Does a task with this layout need no repair to get the wanted one? Where the main stack starts is no difference.
    pub(crate) fn fits(&self, wanted: &Layout) -> bool {
        self.identity == wanted.identity && self.cut_areas(wanted).is_empty()
    }

    /// Areas of the wanted layout within which this one is cut: the kernel would not treat them as one, as it did.
    /// The opposite, areas that were apart and are one now, is what they would be had nobody watched.
    pub(crate) fn cut_areas(&self, wanted: &Layout) -> Vec<Range<u64>> {
        let kept = |area: &&Region| area.kind != Kind::Stack;
        let mut cuts = self.areas.iter().filter(kept).map(|area| area.start).peekable();
        let mut cut = Vec::new();
        for area in wanted.areas.iter().filter(kept) {
            while cuts.next_if(|&start| start <= area.start).is_some() {}
            if cuts.peek().is_some_and(|&start| start < area.end) {
                cut.push(area.start..area.end);
            }
        }
        cut
    }
}

/// The areas that meet this range.
fn areas_in(task: &Stopped, range: Range<u64>) -> Result<Vec<Region>> {
    let mut areas = Vec::new();
    let mut at = range.start;
    while at < range.end {
        match task.area_from(at)? {
            Some(area) if area.range.start < range.end => {
                at = area.range.end;
                areas.push(Region::from_area(area));
            }
            _ => break,
        }
    }
    Ok(areas)
}

#[cfg(test)]
impl Layout {
    /// Private anonymous mappings, with their protection.
    pub(crate) fn of_anonymous(mappings: &[(Range<u64>, i32)]) -> Layout {
        let areas = mappings.iter().map(|(range, prot)| Region {
            start: range.start,
            end: range.end,
            prot: *prot,
            kind: Kind::Anonymous,
        });
        Layout::new(areas.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anonymous(start: u64, end: u64, prot: i32) -> Region {
        Region {
            start,
            end,
            prot,
            kind: Kind::Anonymous,
        }
    }

    fn file(start: u64, end: u64, offset: u64) -> Region {
        let file = Rc::new(MappedFile {
            path: "/lib/x.so".into(),
            device: 1,
            inode: 2,
        });
        Region {
            start,
            end,
            prot: libc::PROT_READ,
            kind: Kind::File {
                file,
                offset,
                shared: false,
            },
        }
    }

    fn stack(start: u64) -> Region {
        Region {
            kind: Kind::Stack,
            ..anonymous(start, 0x9000, 3)
        }
    }

    #[test]
    fn cuts_that_make_no_difference_do_not_show() {
        let whole = Layout::new(vec![anonymous(0x1000, 0x4000, 3), file(0x5000, 0x8000, 0)]);
        let cut = Layout::new(vec![
            anonymous(0x1000, 0x2000, 3),
            anonymous(0x2000, 0x4000, 3),
            file(0x5000, 0x6000, 0),
            file(0x6000, 0x8000, 0x1000),
        ]);
        assert_eq!(
            (whole.mappings(), whole.identity()),
            (cut.mappings(), cut.identity())
        );
        assert!(whole.fits(&cut));
        // But a mapping that was one must be one again.
        assert!(!cut.fits(&whole));
        assert_eq!(cut.cut_areas(&whole), [0x1000..0x4000, 0x5000..0x8000]);
        let other = [
            Layout::new(vec![anonymous(0x1000, 0x4000, 1), file(0x5000, 0x8000, 0)]),
            Layout::new(vec![anonymous(0x1000, 0x3000, 3), file(0x5000, 0x8000, 0)]),
            Layout::new(vec![anonymous(0x1000, 0x4000, 3), file(0x5000, 0x8000, 0x1000)]),
        ];
        assert!(other.iter().all(|other| !whole.fits(other)));
    }

    #[test]
    fn growth_of_the_main_stack_does_not_show() {
        let small = Layout::new(vec![anonymous(0x1000, 0x2000, 3), stack(0x7000)]);
        let large = Layout::new(vec![anonymous(0x1000, 0x2000, 3), stack(0x5000)]);
        assert!(small.fits(&large));
        assert_eq!(small.find(0x5000).map(|m| &m.kind), Some(&Kind::Stack));
        assert_eq!(small.floor(&small.mappings()[1]), 0x2000);
        assert_eq!(small.find(0x1800), Some(&anonymous(0x1000, 0x2000, 3)));
        assert_eq!(small.find(0x9000), None);
    }

    #[test]
    fn only_neighbours_are_below() {
        let layout = Layout::new(vec![
            anonymous(0x1000, 0x2000, 0),
            anonymous(0x2000, 0x3000, 3),
            anonymous(0x4000, 0x5000, 3),
        ]);
        let [guard, above, apart] = layout.mappings() else {
            panic!("{layout:?}")
        };
        assert_eq!(layout.below(above), Some(guard));
        assert_eq!(layout.below(apart), None);
        assert_eq!(layout.below(guard), None);
    }
}
