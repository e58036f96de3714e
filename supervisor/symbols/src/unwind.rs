//! From registers and stack memory to the addresses of the calls.
//!
//! `framehop` reads the unwind tables of each module (`.eh_frame`) and falls back to frame pointers where there are none, as
//! in Go's code. Modules are files; their tables are copied out of the file once, whatever becomes of the process.

use std::collections::HashMap;
use std::fs::File;
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use goblin::container::{Container, Ctx};
use goblin::elf::header::header64::SIZEOF_EHDR;
use goblin::elf::program_header::PT_LOAD;
use goblin::elf::section_header::SHT_NOBITS;
use goblin::elf::{Elf, ProgramHeader, SectionHeader};
use hooks::LARGEST_MODULE;

use super::FileMapping;
use hooks::PAGE;

/// The registers that a stack is unwound from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwindRegs {
    /// Instruction pointer.
    pub rip: u64,
    /// Stack pointer.
    pub rsp: u64,
    /// Frame pointer, or whatever the function keeps there.
    pub rbp: u64,
}

/// A section's bytes, shared between all processes that map the file.
#[derive(Clone, Default)]
struct Bytes(Arc<[u8]>);

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

type Section = Option<(Range<u64>, Bytes)>;

/// What unwinding needs from a file.
struct Tables {
    /// File offset, address and size in the file of each loadable segment.
    segments: Vec<(u64, u64, u64)>,
    text: Section,
    eh_frame: Section,
    eh_frame_hdr: Section,
    got: Section,
}

/// Is this an index as every linker makes it, with all that it names behind the beginning of the table? `gimli` subtracts without a look; without an index the table is
/// read from its beginning.
fn is_sound_index(address: u64, index: &[u8]) -> bool {
    /// Version 1; the table relative to here, a count, and entries relative to the index, of four bytes each.
    const USUAL: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    let word = |bytes: &[u8]| i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let Some((head, entries)) = index.split_at_checked(12).filter(|(head, _)| head[..4] == USUAL) else {
        return false;
    };
    let table = 4 + i64::from(word(&head[4..]));
    let is_inside = |at: i64| {
        let place = i128::from(address) + i128::from(at);
        at >= table && (0..i128::from(i64::MAX)).contains(&place)
    };
    is_inside(table)
        && entries
            .chunks_exact(8)
            .all(|entry| is_inside(word(&entry[4..]).into()))
}

impl Tables {
    /// Reads the few sections that are needed: of a large file that is a small part.
    fn read(path: &Path) -> Option<Tables> {
        let file = File::open(path).ok()?;
        let size = file
            .metadata()
            .ok()
            .filter(|meta| meta.len() <= LARGEST_MODULE)?
            .len();
        let bytes = |at: u64, len: u64| {
            at.checked_add(len).filter(|end| *end <= size)?;
            let mut bytes = vec![0; usize::try_from(len).ok()?];
            file.read_exact_at(&mut bytes, at).ok()?;
            Some(bytes)
        };
        let header = Elf::parse_header(&bytes(0, SIZEOF_EHDR as u64)?).ok()?;
        let context = Ctx::new(Container::Big, header.endianness().ok()?);
        let table = |at: u64, entries: u16, entry: u16| bytes(at, u64::from(entries) * u64::from(entry));
        let segments = table(header.e_phoff, header.e_phnum, header.e_phentsize)?;
        let segments = ProgramHeader::parse(&segments, 0, header.e_phnum.into(), context).ok()?;
        let sections = table(header.e_shoff, header.e_shnum, header.e_shentsize).unwrap_or_default();
        let sections =
            SectionHeader::parse_from(&sections, 0, header.e_shnum.into(), context).unwrap_or_default();
        let names = sections
            .get(usize::from(header.e_shstrndx))
            .and_then(|names| bytes(names.sh_offset, names.sh_size))
            .unwrap_or_default();
        let section = |name: &str| -> Section {
            let is_called = |section: &&SectionHeader| {
                let rest = names.get(section.sh_name..).unwrap_or_default();
                section.sh_type != SHT_NOBITS
                    && rest
                        .strip_prefix(name.as_bytes())
                        .is_some_and(|rest| rest.first() == Some(&0))
            };
            let header = sections.iter().find(is_called)?;
            let bytes = bytes(header.sh_offset, header.sh_size)?;
            Some((
                header.sh_addr..header.sh_addr.checked_add(header.sh_size)?,
                Bytes(bytes.into()),
            ))
        };
        let loads = segments.iter().filter(|segment| segment.p_type == PT_LOAD);
        Some(Tables {
            segments: loads
                .map(|segment| (segment.p_offset, segment.p_vaddr, segment.p_filesz))
                .collect(),
            text: section(".text"),
            eh_frame: section(".eh_frame"),
            eh_frame_hdr: section(".eh_frame_hdr")
                .filter(|(range, bytes)| is_sound_index(range.start, bytes)),
            got: section(".got"),
        })
    }

    /// The load bias that a mapping of the file shows.
    fn bias(&self, mapping: &FileMapping) -> Option<u64> {
        let first_page = |offset: u64| offset / PAGE * PAGE;
        let is_mapped = |(offset, _, size): &&(u64, u64, u64)| {
            (first_page(*offset)..offset.saturating_add(*size)).contains(&mapping.file_offset)
        };
        let (offset, vaddr, _) = self.segments.iter().rev().find(is_mapped)?;
        let link_time = vaddr.wrapping_sub(*offset).wrapping_add(mapping.file_offset);
        Some(mapping.range.start.wrapping_sub(link_time))
    }

    fn section_info(&self) -> ExplicitModuleSectionInfo<Bytes> {
        let range = |section: &Section| section.as_ref().map(|(range, _)| range.clone());
        let bytes = |section: &Section| section.as_ref().map(|(_, bytes)| bytes.clone());
        ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: range(&self.text),
            text: bytes(&self.text),
            got_svma: range(&self.got),
            eh_frame_svma: range(&self.eh_frame),
            eh_frame: bytes(&self.eh_frame),
            eh_frame_hdr_svma: range(&self.eh_frame_hdr),
            eh_frame_hdr: bytes(&self.eh_frame_hdr),
            ..ExplicitModuleSectionInfo::default()
        }
    }
}

/// The unwinder of one process.
pub(super) struct StackUnwinder {
    unwinder: UnwinderX86_64<Bytes>,
    cache: CacheX86_64,
    files: HashMap<PathBuf, Option<Arc<Tables>>>,
    executable: Vec<Range<u64>>,
    /// Executable mappings that no stack has led to yet.
    unread: Vec<FileMapping>,
}

impl StackUnwinder {
    pub fn new() -> StackUnwinder {
        StackUnwinder {
            unwinder: UnwinderX86_64::new(),
            cache: CacheX86_64::new(),
            files: HashMap::new(),
            executable: Vec::new(),
            unread: Vec::new(),
        }
    }

    /// Each executable mapping of a file becomes a module of its own, when a stack leads there.
    pub fn set_mappings(&mut self, mappings: &[FileMapping]) {
        self.unwinder = UnwinderX86_64::new();
        let executable = mappings.iter().filter(|mapping| mapping.is_executable);
        self.unread = executable.cloned().collect();
        self.executable = self.unread.iter().map(|mapping| mapping.range.clone()).collect();
    }

    /// Reads the tables of the module at this address, if that was not done before.
    fn read_module_at(&mut self, address: u64) {
        let is_there = |mapping: &FileMapping| mapping.range.contains(&address);
        let Some(index) = self.unread.iter().position(is_there) else {
            return;
        };
        let mapping = self.unread.swap_remove(index);
        let tables = self.files.entry(mapping.file.clone());
        let tables = tables.or_insert_with(|| Tables::read(&mapping.file).map(Arc::new));
        let Some((tables, bias)) = tables
            .as_ref()
            .and_then(|tables| Some((tables, tables.bias(&mapping)?)))
        else {
            return;
        };
        self.unwinder.add_module(Module::new(
            mapping.path.to_string_lossy().into_owned(),
            mapping.range.clone(),
            bias,
            tables.section_info(),
        ));
    }

    pub fn unwind(
        &mut self,
        regs: UnwindRegs,
        mut read_stack: impl FnMut(u64) -> Option<u64>,
        max: usize,
    ) -> Vec<u64> {
        let mut addresses = Vec::new();
        if max == 0 {
            return addresses;
        }
        addresses.push(regs.rip);
        let mut state = UnwindRegsX86_64::new(regs.rip, regs.rsp, regs.rbp);
        let mut at = FrameAddress::from_instruction_pointer(regs.rip);
        if !self.is_code(regs.rip) {
            // A call through a bad pointer: nothing has run there yet, so the return address is on top of the stack.
            let Some(caller) = read_stack(regs.rsp).filter(|caller| self.is_code(*caller)) else {
                return addresses;
            };
            addresses.push(caller);
            let Some(frame) = FrameAddress::from_return_address(caller) else {
                return addresses;
            };
            at = frame;
            state = UnwindRegsX86_64::new(caller, regs.rsp.wrapping_add(8), regs.rbp);
        }
        let mut read = |address: u64| read_stack(address).ok_or(());
        while addresses.len() < max {
            self.read_module_at(at.address_for_lookup());
            let next = catch_unwind(AssertUnwindSafe(|| {
                self.unwinder
                    .unwind_frame(at, &mut state, &mut self.cache, &mut read)
            }));
            // A damaged table may be more than the libraries expect: then the stack ends here.
            let Ok(Ok(Some(caller))) = next else { break };
            let Some(frame) = FrameAddress::from_return_address(caller) else {
                break;
            };
            addresses.push(caller);
            at = frame;
        }
        addresses.truncate(max);
        addresses
    }

    fn is_code(&self, address: u64) -> bool {
        self.executable.iter().any(|range| range.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::is_sound_index;

    fn index(table: i32, entry: i32) -> Vec<u8> {
        let mut bytes = vec![1, 0x1b, 0x03, 0x3b];
        for word in [table, 1, 0x100, entry] {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn an_index_names_what_is_in_the_table() {
        assert!(is_sound_index(0x2000, &index(0x40, 0x60)));
        assert!(!is_sound_index(0x2000, &index(0x40, 0x20)), "before the table");
        assert!(!is_sound_index(0x20, &index(-0x40, 0x60)), "before all addresses");
        assert!(
            !is_sound_index(u64::MAX - 0x50, &index(0x40, 0x60)),
            "beyond them"
        );
        assert!(!is_sound_index(0x2000, &index(0x40, 0x60)[..10]), "too short");
        let mut unusual = index(0x40, 0x60);
        unusual[3] = 0x1b;
        assert!(!is_sound_index(0x2000, &unusual));
    }
}
