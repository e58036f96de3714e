//! Functions of libraries are bound when the program starts, not when they are first called.
//!
//! With lazy binding the first thread that calls a function has the dynamic linker look for it, and that leaves traces: in registers that hold
//! nothing, and on the stack, where later frames have bytes that they never set. None of it matters to the program, but states that differ in who called
//! first would be different states, and steps that share nothing would not commute. Many distributions link everything to be bound at the start
//! (`-z now`), and `LD_BIND_NOW` asks for it; the program could see that variable, so the wish is put where such programs have it: into the
//! dynamic section, in memory, before the dynamic linker reads it. There is room for it in what linkers leave for such changes, or it is left as it is.

use super::Session;
use crate::elf::segments;
use failure::Failure;
use goblin::elf::dynamic::dyn64::SIZEOF_DYN;
use goblin::elf::dynamic::{DT_BIND_NOW, DT_NULL};
use goblin::elf::program_header::{PT_DYNAMIC, PT_INTERP};
use std::ops::Range;
use std::path::Path;

/// Where in its file the dynamic section of a module is.
struct Dynamic {
    offsets: Range<u64>,
    /// It has an interpreter: a program, and not a static one.
    is_dynamic_program: bool,
}

impl Session {
    /// A part of `path` from `offset` on was just mapped at `address`, writable. `is_program`: by exec.
    pub(super) fn bind_early(
        &mut self,
        path: &Path,
        address: u64,
        len: u64,
        offset: u64,
        is_program: bool,
    ) -> Result<(), Failure> {
        let Some(dynamic) = dynamic_section(path) else {
            return Ok(());
        };
        let is_mapped = offset <= dynamic.offsets.start && dynamic.offsets.end <= offset.saturating_add(len);
        // The dynamic linker itself is there after exec too, and binds itself.
        if !is_mapped || (is_program && !dynamic.is_dynamic_program) {
            return Ok(());
        }
        let start = address + (dynamic.offsets.start - offset);
        let mut section = vec![0; (dynamic.offsets.end - dynamic.offsets.start) as usize];
        let memory = self.spaces.task()?.memory();
        if memory.read(start, &mut section).is_err() {
            return Ok(());
        }
        if let Some(entry) = room(&section) {
            memory.write(start + entry as u64, &DT_BIND_NOW.to_le_bytes())?;
        }
        Ok(())
    }
}

/// Where one more entry can be, so that the end of the section is still marked.
fn room(section: &[u8]) -> Option<usize> {
    let (entries, _) = section.as_chunks::<SIZEOF_DYN>();
    let tag = |entry: &[u8; SIZEOF_DYN]| entry.first_chunk().map(|tag| u64::from_le_bytes(*tag));
    let mut tags = entries.iter().filter_map(tag).enumerate();
    let (last, _) = tags.find(|&(_, tag)| tag == DT_NULL)?;
    let (_, next) = tags.next()?;
    (next == DT_NULL).then_some(last * SIZEOF_DYN)
}

/// Out of the file itself; `None` if it is no ELF file that we can read, or has no such section.
fn dynamic_section(path: &Path) -> Option<Dynamic> {
    let segments = segments(path)?;
    let find = |kind: u32| segments.iter().find(|segment| segment.p_type == kind);
    let found = find(PT_DYNAMIC)?;
    // Nobody has that many entries.
    (found.p_filesz <= 1 << 16).then(|| Dynamic {
        offsets: found.p_offset..found.p_offset.saturating_add(found.p_filesz),
        is_dynamic_program: find(PT_INTERP).is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(tags: &[u64]) -> Vec<u8> {
        tags.iter()
            .flat_map(|&tag| [tag.to_le_bytes(), [7; 8]].concat())
            .collect()
    }

    #[test]
    fn an_entry_fits_where_two_mark_the_end() {
        assert_eq!(room(&section(&[1, 5, 0, 0, 0])), Some(2 * SIZEOF_DYN));
        assert_eq!(room(&section(&[1, 5, 0])), None);
        assert_eq!(room(&section(&[1, 5])), None);
        assert_eq!(room(&[]), None);
    }

    #[test]
    fn this_program_has_a_dynamic_section() {
        let here = std::env::current_exe().expect("a path");
        assert!(dynamic_section(&here).is_some_and(|dynamic| !dynamic.offsets.is_empty()));
        assert!(dynamic_section(Path::new("/proc/version")).is_none());
    }
}
