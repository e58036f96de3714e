//! Symbolised backtraces of a thread that stands still, for reports.
//!
//! Works from the list of mappings and from the files behind them, with a closure that reads the stack: no live process is
//! needed, so a checkpoint's threads can be shown just as well as running ones. Addresses become names and lines by `blazesym`
//! (DWARF where there is any, ELF symbols otherwise), and stacks become addresses by `framehop` (`unwind.rs`). How a backtrace
//! looks is in `format.rs`.
#![forbid(unsafe_code)]

mod atomics;
mod format;
mod unwind;

#[cfg(test)]
mod tests;

pub use atomics::{Atomics, is_atomic_function, is_go_runtime, is_library_lock, is_rust_library};
pub use format::format_backtrace;
pub use unwind::UnwindRegs;

use std::ops::Range;
use std::path::PathBuf;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized};
use serde::Serialize;

use unwind::StackUnwinder;

/// A file mapping of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMapping {
    /// The addresses.
    pub range: Range<u64>,
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// The file.
    pub path: PathBuf,
    /// Where its contents are.
    pub file: PathBuf,
    /// Whether code can run there.
    pub is_executable: bool,
    /// Whether it is the checked program rather than a library of the system.
    pub is_own: bool,
}

/// Where in a source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceLine {
    /// Path as the compiler recorded it.
    pub file: PathBuf,
    /// Line, from 1; missing where the compiler recorded none.
    pub line: Option<u32>,
}

/// One line of a backtrace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// The instruction pointer or return address.
    pub address: u64,
    /// Demangled name, if there is a symbol.
    pub function: Option<String>,
    /// Bytes from the start of the function (of the module, if there is no symbol).
    pub offset: u64,
    /// Where in the source, if there is debugging information.
    pub source: Option<SourceLine>,
    /// The file that holds the code; `None` for code that belongs to no file.
    pub module: Option<PathBuf>,
    /// Whether the module is the checked program.
    pub is_own: bool,
    /// The compiler expanded this function inside the next frame's: both have the same address.
    pub is_inlined: bool,
}

/// Turns addresses of one process into names.
pub struct Symbolizer {
    names: blazesym::symbolize::Symbolizer,
    stacks: StackUnwinder,
    /// Sorted by address.
    mappings: Vec<FileMapping>,
}

impl Default for Symbolizer {
    fn default() -> Self {
        Symbolizer::new()
    }
}

impl Symbolizer {
    /// Knows no mappings yet.
    pub fn new() -> Symbolizer {
        let names = blazesym::symbolize::Symbolizer::builder()
            .enable_code_info(true)
            .enable_inlined_fns(true)
            // Not every name is mangled: it would take a C function `f` for the C++ type `float`.
            .enable_demangling(false)
            .build();
        Symbolizer {
            names,
            stacks: StackUnwinder::new(),
            mappings: Vec::new(),
        }
    }

    /// Takes the process's present mappings. What was read from their files before is kept.
    pub fn set_mappings(&mut self, mut mappings: Vec<FileMapping>) {
        mappings.sort_by_key(|mapping| mapping.range.start);
        if mappings != self.mappings {
            self.stacks.set_mappings(&mappings);
            self.mappings = mappings;
        }
    }

    /// The function at an instruction pointer; the innermost one where functions were inlined.
    pub fn symbolise(&self, address: u64) -> Frame {
        self.frames_at(address, address).swap_remove(0)
    }

    /// The functions at an instruction pointer, inlined ones first; never empty.
    pub fn functions(&self, address: u64) -> Vec<Frame> {
        self.frames_at(address, address)
    }

    /// The addresses on a stack: the instruction pointer, then return addresses, outwards, at most `max`.
    ///
    /// `read_stack` reads a 64-bit word of the process.
    pub fn unwind(
        &mut self,
        regs: UnwindRegs,
        read_stack: impl FnMut(u64) -> Option<u64>,
        max: usize,
    ) -> Vec<u64> {
        self.stacks.unwind(regs, read_stack, max)
    }

    /// A thread's stack as frames, innermost first, from at most `max` addresses. `original_ip` undoes the detour through a scratch slot of a
    /// hook: it gives the place in the program for an address in a slot, and `None` for all others.
    pub fn backtrace(
        &mut self,
        mut regs: UnwindRegs,
        read_stack: impl FnMut(u64) -> Option<u64>,
        original_ip: impl Fn(u64) -> Option<u64>,
        max: usize,
    ) -> Vec<Frame> {
        regs.rip = original_ip(regs.rip).unwrap_or(regs.rip);
        let addresses = self.unwind(regs, read_stack, max);
        let mut frames = Vec::new();
        for (depth, address) in addresses.into_iter().enumerate() {
            let address = original_ip(address).unwrap_or(address);
            // A return address is behind its call, which may have been the last instruction of its line or function.
            let lookup = if depth == 0 {
                address
            } else {
                address.saturating_sub(1)
            };
            frames.append(&mut self.frames_at(address, lookup));
        }
        frames
    }

    fn mapping_at(&self, address: u64) -> Option<&FileMapping> {
        let after = self
            .mappings
            .partition_point(|mapping| mapping.range.start <= address);
        self.mappings[..after]
            .last()
            .filter(|mapping| mapping.range.contains(&address))
    }

    /// The frames at one address, inlined functions first; never empty.
    fn frames_at(&self, address: u64, lookup: u64) -> Vec<Frame> {
        let mapping = self.mapping_at(lookup);
        let mut frame = Frame {
            address,
            function: None,
            offset: address,
            source: None,
            module: mapping.map(|mapping| mapping.path.clone()),
            is_own: mapping.is_some_and(|mapping| mapping.is_own),
            is_inlined: false,
        };
        let Some(mapping) = mapping else {
            return vec![frame];
        };
        let file_offset = lookup - mapping.range.start + mapping.file_offset;
        frame.offset = file_offset;
        let source = Source::Elf(Elf::new(&mapping.file));
        // A file that cannot be read any more is no reason to lose the rest of the report.
        let Ok(Symbolized::Sym(symbol)) = self
            .names
            .symbolize_single(&source, Input::FileOffset(file_offset))
        else {
            return vec![frame];
        };
        frame.offset = symbol.offset as u64 + (address - lookup);
        with_inlined(frame, &symbol)
    }
}

/// A name as its author wrote it; names that no compiler mangled stay as they are.
pub fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if !name.starts_with("_Z") {
        return name.to_owned();
    }
    let symbol = cpp_demangle::Symbol::new(name).ok();
    symbol
        .and_then(|symbol| symbol.demangle().ok())
        .unwrap_or_else(|| name.to_owned())
}

/// One frame for the function itself and one for each function that was inlined there.
fn with_inlined(frame: Frame, symbol: &Sym) -> Vec<Frame> {
    let own = Frame {
        function: Some(demangled(&symbol.name)),
        source: symbol.code_info.as_deref().map(source_line),
        ..frame
    };
    let inlined = symbol.inlined.iter().rev().map(|inlined| Frame {
        function: Some(demangled(&inlined.name)),
        source: inlined.code_info.as_ref().map(source_line),
        is_inlined: true,
        ..own.clone()
    });
    let mut frames: Vec<Frame> = inlined.collect();
    frames.push(own);
    frames
}

fn source_line(info: &CodeInfo) -> SourceLine {
    SourceLine {
        file: info.to_path().into_owned(),
        line: info.line,
    }
}
