//! The parts of an ELF file that the scan looks at: executable bytes, symbols, and what is read-only at run time.

use std::ops::Range;

use goblin::elf::program_header::{PF_W, PF_X, PT_GNU_RELRO, PT_LOAD};
use goblin::elf::section_header::{SHF_ALLOC, SHF_EXECINSTR, SHT_PROGBITS};
use goblin::elf::sym::{STT_FUNC, STT_GNU_IFUNC, Sym};
use goblin::elf::{Elf, header};
use goblin::options::ParseOptions;

use super::{ScanError, Streams, SyncFn};

/// A piece of executable code.
#[derive(Clone, Copy)]
pub(super) struct Code<'a> {
    /// Link-time address of the first byte.
    pub vaddr: u64,
    pub bytes: &'a [u8],
}

impl<'a> Code<'a> {
    pub fn range(&self) -> Range<u64> {
        self.vaddr..self.vaddr + self.bytes.len() as u64
    }

    /// The bytes of `range`, cut to what is here.
    pub fn slice(&self, range: &Range<u64>) -> Option<&'a [u8]> {
        let start = range.start.checked_sub(self.vaddr)? as usize;
        let end = (range.end.checked_sub(self.vaddr)? as usize).min(self.bytes.len());
        self.bytes.get(start..end)
    }
}

/// Parses an ELF file. Names in it that are not UTF-8 are names that nobody asks for: no reason to refuse it, and neither is a table that is of no use here.
///
/// # Errors
/// It is none, or damaged in what matters.
pub fn parse(data: &[u8]) -> goblin::error::Result<Elf<'_>> {
    Elf::parse_with_opts(data, &ParseOptions::permissive())
}

/// A parsed module.
pub(super) struct Module<'a> {
    pub elf: Elf<'a>,
    pub data: &'a [u8],
    /// Sorted by address.
    pub code: Vec<Code<'a>>,
    read_only: Vec<Range<u64>>,
}

impl<'a> Module<'a> {
    pub fn parse(data: &'a [u8]) -> Result<Module<'a>, ScanError> {
        let elf = parse(data)?;
        if elf.header.e_machine != header::EM_X86_64 || !elf.is_64 || !elf.little_endian {
            return Err(ScanError::WrongMachine);
        }
        let code = executable_code(&elf, data);
        let read_only = read_only_ranges(&elf);
        Ok(Module {
            elf,
            data,
            code,
            read_only,
        })
    }

    /// From the lowest to one past the highest address of any segment.
    pub fn span(&self) -> Range<u64> {
        let loads = || {
            self.elf
                .program_headers
                .iter()
                .filter(|segment| segment.p_type == PT_LOAD)
        };
        let start = loads().map(|segment| segment.p_vaddr).min().unwrap_or(0);
        let end = loads()
            .map(|segment| segment.p_vaddr.saturating_add(segment.p_memsz))
            .max()
            .unwrap_or(0);
        start..end.max(start)
    }

    pub fn code_at(&self, vaddr: u64) -> Option<&Code<'a>> {
        let after = self.code.partition_point(|code| code.vaddr <= vaddr);
        self.code[..after]
            .last()
            .filter(|code| code.range().contains(&vaddr))
    }

    /// Whether nothing can write there once the program runs: read-only segments, and what the loader protects after relocation.
    pub fn is_read_only(&self, vaddr: u64) -> bool {
        self.read_only.iter().any(|range| range.contains(&vaddr))
    }

    /// The contents and address of a section.
    pub fn section(&self, name: &str) -> Option<(u64, &'a [u8])> {
        let header = self.elf.section_headers.iter().find(|header| {
            header.sh_type != goblin::elf::section_header::SHT_NOBITS
                && self.elf.shdr_strtab.get_at(header.sh_name) == Some(name)
        })?;
        Some((header.sh_addr, self.data.get(header.file_range()?)?))
    }

    /// The function symbols of `.symtab` (defined ones).
    pub fn static_functions(&self) -> impl Iterator<Item = Sym> + '_ {
        self.elf.syms.iter().filter(is_defined_function)
    }

    /// The function symbols of `.dynsym` (defined ones).
    pub fn dynamic_functions(&self) -> impl Iterator<Item = Sym> + '_ {
        self.elf.dynsyms.iter().filter(is_defined_function)
    }

    /// The synchronisation functions of glibc in this module: entry, size and meaning, sorted by entry, each entry once.
    pub fn sync_functions(&self) -> Vec<(Range<u64>, SyncFn)> {
        let mut found = match self.elf.soname {
            Some("libc.so.6" | "libpthread.so.0") => self.exported_sync_functions(),
            _ if self.is_static_glibc() => self.linked_sync_functions(),
            _ => Vec::new(),
        };
        found.sort_by_key(|(range, function)| (range.start, *function as u8));
        found.dedup_by_key(|(range, _)| range.start);
        found
    }

    /// The entries of glibc's `pthread_join` and `thrd_join`.
    pub fn join_functions(&self) -> Vec<u64> {
        let is_libc = matches!(self.elf.soname, Some("libc.so.6" | "libpthread.so.0"));
        let (symbols, names) = match is_libc {
            true => (&self.elf.dynsyms, &self.elf.dynstrtab),
            false if self.is_static_glibc() => (&self.elf.syms, &self.elf.strtab),
            false => return Vec::new(),
        };
        let is_join = |name: &str| matches!(name, "pthread_join" | "thrd_join");
        let mut found: Vec<u64> = symbols
            .iter()
            .filter(|symbol| symbol.st_value != 0 && names.get_at(symbol.st_name).is_some_and(is_join))
            .map(|symbol| symbol.st_value)
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Where glibc counts the threads that have not come to their end: the one that finds it is the last ends the process.
    pub fn thread_count(&self) -> Option<u64> {
        self.variable("__nptl_nthreads")
    }

    /// The standard streams, in the C library or in an executable that brings it along.
    pub fn streams(&self) -> Option<Streams> {
        Some(Streams {
            stdin: self.variable("_IO_2_1_stdin_")?,
            stdout: self.variable("_IO_2_1_stdout_")?,
        })
    }

    /// The link-time address of a variable that is defined here.
    fn variable(&self, wanted: &str) -> Option<u64> {
        let dynamic = self.elf.dynsyms.iter();
        let dynamic = dynamic.map(|symbol| (symbol, &self.elf.dynstrtab));
        let linked = self.elf.syms.iter().map(|symbol| (symbol, &self.elf.strtab));
        dynamic
            .chain(linked)
            .find(|(symbol, names)| symbol.st_value != 0 && names.get_at(symbol.st_name) == Some(wanted))
            .map(|(symbol, _)| symbol.st_value)
    }

    /// Hidden versions of the condition variable functions (`GLIBC_2.2.5`) take a pointer to a pointer and call the
    /// current ones, which are hooked; hidden versions of the others are the same code under an older name.
    fn exported_sync_functions(&self) -> Vec<(Range<u64>, SyncFn)> {
        let is_hidden = |index| {
            let versions = self.elf.versym.as_ref();
            versions
                .and_then(|versions| versions.get_at(index))
                .is_some_and(|version| version.is_hidden())
        };
        let symbols = self
            .elf
            .dynsyms
            .iter()
            .enumerate()
            .filter(|(_, symbol)| is_defined_function(symbol));
        symbols
            .filter_map(|(index, symbol)| {
                let function = SyncFn::from_symbol(self.elf.dynstrtab.get_at(symbol.st_name)?)?;
                let is_outdated = function.is_cond() && is_hidden(index);
                (!is_outdated).then(|| (symbol_range(&symbol), function))
            })
            .collect()
    }

    fn linked_sync_functions(&self) -> Vec<(Range<u64>, SyncFn)> {
        self.static_functions()
            .filter_map(|symbol| {
                let function = SyncFn::from_symbol(self.elf.strtab.get_at(symbol.st_name)?)?;
                Some((symbol_range(&symbol), function))
            })
            .collect()
    }

    /// An executable that brings glibc along. The marker is a function of glibc's start-up code that no other C library has.
    fn is_static_glibc(&self) -> bool {
        const MARKER: &str = "__libc_setup_tls";
        self.elf.interpreter.is_none()
            && self.elf.soname.is_none()
            && self
                .static_functions()
                .any(|symbol| self.elf.strtab.get_at(symbol.st_name) == Some(MARKER))
    }
}

pub(super) fn symbol_range(symbol: &Sym) -> Range<u64> {
    symbol.st_value..symbol.st_value.saturating_add(symbol.st_size)
}

fn is_defined_function(symbol: &Sym) -> bool {
    matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC) && symbol.st_shndx != 0 && symbol.st_value != 0
}

/// The executable sections but for the procedure linkage tables, which only jump; without section headers, the executable segments.
fn executable_code<'a>(elf: &Elf<'a>, data: &'a [u8]) -> Vec<Code<'a>> {
    let wanted = u64::from(SHF_ALLOC | SHF_EXECINSTR);
    let sections = elf.section_headers.iter().filter(|section| {
        let name = elf.shdr_strtab.get_at(section.sh_name).unwrap_or("");
        section.sh_type == SHT_PROGBITS && section.sh_flags & wanted == wanted && !name.starts_with(".plt")
    });
    let mut code: Vec<Code<'a>> = sections
        .filter_map(|section| {
            Some(Code {
                vaddr: section.sh_addr,
                bytes: data.get(section.file_range()?)?,
            })
        })
        .collect();
    if elf.section_headers.is_empty() {
        let segments = elf
            .program_headers
            .iter()
            .filter(|s| s.p_type == PT_LOAD && s.p_flags & PF_X != 0);
        code.extend(segments.filter_map(|segment| {
            Some(Code {
                vaddr: segment.p_vaddr,
                bytes: data.get(segment.file_range())?,
            })
        }));
    }
    code.retain(|code| !code.bytes.is_empty() && code.vaddr.checked_add(code.bytes.len() as u64).is_some());
    code.sort_by_key(|code| code.vaddr);
    code
}

fn read_only_ranges(elf: &Elf) -> Vec<Range<u64>> {
    let is_read_only = |kind, flags| kind == PT_GNU_RELRO || (kind == PT_LOAD && flags & PF_W == 0);
    let segments = elf
        .program_headers
        .iter()
        .filter(|segment| is_read_only(segment.p_type, segment.p_flags));
    segments
        .map(|segment| segment.p_vaddr..segment.p_vaddr.saturating_add(segment.p_memsz))
        .collect()
}
