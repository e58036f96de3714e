//! From registers and stack memory to the addresses of the calls.
//!
//! `framehop` reads the unwind tables of each module (`.eh_frame`) and falls back to frame pointers where there are none, as
//! in Go's code. Modules are files; their tables are copied out of the file once, whatever becomes of the process.

use std::collections::HashMap;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::hooks::{LARGEST_MODULE, parse_elf};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use goblin::elf::program_header::PT_LOAD;
use goblin::elf::section_header::SHT_NOBITS;

use super::Mapping;

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

impl Tables {
    fn read(path: &Path) -> Option<Tables> {
        let data = peers::read_bounded(path, LARGEST_MODULE).ok()?;
        let elf = parse_elf(&data).ok()?;
        let section = |name: &str| -> Section {
            let header = elf.section_headers.iter().find(|header| {
                header.sh_type != SHT_NOBITS && elf.shdr_strtab.get_at(header.sh_name) == Some(name)
            })?;
            let bytes = data.get(header.file_range()?)?;
            Some((
                header.sh_addr..header.sh_addr.checked_add(header.sh_size)?,
                Bytes(bytes.into()),
            ))
        };
        let loads = elf
            .program_headers
            .iter()
            .filter(|segment| segment.p_type == PT_LOAD);
        Some(Tables {
            segments: loads
                .map(|segment| (segment.p_offset, segment.p_vaddr, segment.p_filesz))
                .collect(),
            text: section(".text"),
            eh_frame: section(".eh_frame"),
            eh_frame_hdr: section(".eh_frame_hdr"),
            got: section(".got"),
        })
    }

    /// The load bias that a mapping of the file shows.
    fn bias(&self, mapping: &Mapping) -> Option<u64> {
        const PAGE: u64 = 0x1000;
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
}

impl StackUnwinder {
    pub fn new() -> StackUnwinder {
        StackUnwinder {
            unwinder: UnwinderX86_64::new(),
            cache: CacheX86_64::new(),
            files: HashMap::new(),
            executable: Vec::new(),
        }
    }

    /// Each executable mapping of a file becomes a module of its own.
    pub fn set_mappings(&mut self, mappings: &[Mapping]) {
        self.unwinder = UnwinderX86_64::new();
        self.executable.clear();
        for mapping in mappings.iter().filter(|mapping| mapping.is_executable) {
            self.executable.push(mapping.range.clone());
            let tables = self.files.entry(mapping.file.clone());
            let tables = tables.or_insert_with(|| Tables::read(&mapping.file).map(Arc::new));
            let Some(tables) = tables else { continue };
            let Some(bias) = tables.bias(mapping) else {
                continue;
            };
            let name = mapping.path.to_string_lossy().into_owned();
            self.unwinder.add_module(Module::new(
                name,
                mapping.range.clone(),
                bias,
                tables.section_info(),
            ));
        }
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
            let next = self
                .unwinder
                .unwind_frame(at, &mut state, &mut self.cache, &mut read);
            let Ok(Some(caller)) = next else { break };
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
