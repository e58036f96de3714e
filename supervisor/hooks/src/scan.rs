//! Finding the instructions to hook in a module.
//!
//! An `int3` written over data corrupts the program silently, so an instruction counts only if there is a reason to believe
//! that it is one:
//!
//! 1. a function with known bounds reads as valid instructions from start to end; or, if it does not (data in its middle), the
//!    instruction is reached from the entry by direct jumps;
//! 2. outside of such functions, the instruction is reached from a direct call or jump of trusted code, or the entry point;
//! 3. in a file that tells of few of its functions (stripped, no unwind entries), what is left is swept in a line, and only the rare patterns (atomics, `pause`) count there,
//!    where the bytes up to the next return or jump read as valid code. Loads and stores do not: almost any bytes look like one.
//!    A section in which the sweep meets data all the time (GHC puts a table in front of every function) is not swept at all: an immediate operand
//!    that is read from its middle looks like an `xchg` often enough.

use std::ops::Range;
use std::path::Path;

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpKind};
use memchr::memmem;

use super::elf::{Code, Module};
use super::functions::Functions;
use super::insn::{core_insn, ends_line, is_atomic, is_thread_header, looks_at_exchanged, random_insn};
use super::operand::{self, Gpr};
use super::runtime::runtime_functions;
use super::{LibraryEntries, ModulePlan, ModuleRole, Preempt, ScanError, Site, SiteKind};

/// Scans the module in a file.
pub fn scan_module(path: &Path, role: ModuleRole, mode: Preempt) -> Result<ModulePlan, ScanError> {
    let bytes = peers::read_bounded(path, super::LARGEST_MODULE).map_err(|source| ScanError::Io {
        path: path.to_owned(),
        source,
    })?;
    scan_bytes(&bytes, role, mode)
}

/// Scans a module that is in memory as a file image.
pub fn scan_bytes(bytes: &[u8], role: ModuleRole, mode: Preempt) -> Result<ModulePlan, ScanError> {
    let module = Module::parse(bytes)?;
    let mut plan = ModulePlan {
        span: module.span(),
        streams: module.streams(),
        thread_count: module.thread_count(),
        ..ModulePlan::default()
    };
    let sync = if mode == Preempt::Syscall {
        Vec::new()
    } else {
        sync_sites(&module)
    };
    if role == ModuleRole::Own && mode != Preempt::Syscall {
        let functions = Functions::of(&module);
        let mut scanner = Scanner::new(&module, &functions, mode);
        scanner.run();
        plan.swept = scanner.swept.len();
        plan.sites.append(&mut scanner.sites);
        plan.sites.append(&mut scanner.swept);
        // A function whose entry is hooked is one operation: its own atomics are not visible operations as well.
        plan.sites.retain(|site| !is_inside_sync_function(site, &sync));
        let runtime = runtime_functions(&module);
        plan.sites.retain(|site| !is_inside(site, &runtime));
    } else {
        plan.sites = emulated_sites(&module);
    }
    plan.sites.extend(sync.into_iter().map(|(_, site)| site));
    if mode == Preempt::Memory {
        plan.sites.extend(join_sites(&module));
    }
    if matches!(mode, Preempt::Memory | Preempt::Auto) {
        plan.library = LibraryEntries::of(&module.elf);
    }
    plan.sites.sort_by_key(|site| site.vaddr);
    plan.sites.dedup_by_key(|site| site.vaddr);
    Ok(plan)
}

/// Whether an atomic instruction, a load or a store is the runtime's.
fn is_inside(site: &Site, runtime: &[Range<u64>]) -> bool {
    let after = runtime.partition_point(|range| range.start <= site.vaddr);
    matches!(site.kind, SiteKind::Atomic(_) | SiteKind::Memory(_))
        && runtime[..after]
            .last()
            .is_some_and(|range| range.contains(&site.vaddr))
}

fn is_inside_sync_function(site: &Site, sync: &[(Range<u64>, Site)]) -> bool {
    let after = sync.partition_point(|(range, _)| range.start <= site.vaddr);
    let inside = |(range, hook): &(Range<u64>, Site)| range.contains(&site.vaddr) || hook.vaddr == site.vaddr;
    !site.kind.is_emulated() && sync[..after].last().is_some_and(inside)
}

/// The entries of glibc's synchronisation functions.
fn sync_sites(module: &Module) -> Vec<(Range<u64>, Site)> {
    let entry = |(range, function): (Range<u64>, _)| {
        let site = entry_site(module, range.start, SiteKind::Sync(function))?;
        Some((range, site))
    };
    module.sync_functions().into_iter().filter_map(entry).collect()
}

fn join_sites(module: &Module) -> Vec<Site> {
    let entries = module.join_functions().into_iter();
    entries
        .filter_map(|entry| entry_site(module, entry, SiteKind::Join))
        .collect()
}

/// The first instruction of a function.
fn entry_site(module: &Module, vaddr: u64, kind: SiteKind) -> Option<Site> {
    let code = module.code_at(vaddr)?;
    let bytes = code.slice(&(vaddr..code.range().end))?;
    let instruction = Decoder::with_ip(64, bytes, vaddr, DecoderOptions::NONE).decode();
    (!instruction.is_invalid()).then_some(Site {
        vaddr,
        len: instruction.len() as u8,
        kind,
    })
}

/// The emulated instructions of a module that is not otherwise scanned: their bytes, confirmed by reading their function.
fn emulated_sites(module: &Module) -> Vec<Site> {
    let candidates = emulated_candidates(module);
    if candidates.is_empty() {
        return Vec::new();
    }
    let functions = Functions::of(module);
    let mut scanner = Scanner::new(module, &functions, Preempt::Syscall);
    let mut ranges: Vec<Range<u64>> = candidates
        .iter()
        .filter_map(|at| functions.containing(*at))
        .collect();
    ranges.sort_by_key(|range| range.start);
    ranges.dedup();
    // Code that no symbol and no unwind entry covers (written in assembly) is found by following calls into it.
    if candidates.iter().all(|at| functions.covers(*at)) {
        ranges.iter().for_each(|range| scanner.scan_function(range));
    } else {
        scanner.run();
        scanner.sites.append(&mut scanner.swept);
    }
    scanner.sites
}

/// Where bytes look like an emulated instruction; most of them are something else.
fn emulated_candidates(module: &Module) -> Vec<u64> {
    const CPUID: &[u8] = b"\x0f\xa2";
    /// `rdrand`, `rdseed` and `rdpid`, with the third byte: register form (the top bits), opcode extension 6 or 7.
    const GROUP_9: &[u8] = b"\x0f\xc7";
    const LSL: &[u8] = b"\x0f\x03";
    let mut candidates: Vec<u64> = Vec::new();
    for code in &module.code {
        let third = |offset: usize, least: u8| code.bytes.get(offset + 2).is_some_and(|byte| *byte >= least);
        let mut add = |pattern: &[u8], least: u8| {
            let found = memmem::find_iter(code.bytes, pattern).filter(|offset| third(*offset, least));
            candidates.extend(found.map(|offset| code.vaddr + offset as u64));
        };
        add(CPUID, 0);
        add(GROUP_9, 0xf0);
        add(LSL, 0xc0);
    }
    candidates
}

/// Which bytes of a section are known to start an instruction.
struct Visited {
    words: Vec<u64>,
}

impl Visited {
    fn insert(&mut self, offset: usize) -> bool {
        let (word, bit) = (offset / 64, 1 << (offset % 64));
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    fn contains(&self, offset: usize) -> bool {
        self.words[offset / 64] & (1 << (offset % 64)) != 0
    }
}

struct Scanner<'m, 'a> {
    module: &'m Module<'a>,
    functions: &'m Functions,
    mode: Preempt,
    info: InstructionInfoFactory,
    /// One per entry of `module.code`.
    visited: Vec<Visited>,
    /// Direct jump and call targets that no known function covers.
    targets: Vec<u64>,
    /// Of the instructions of the current function; here to keep its allocation.
    offsets: Vec<usize>,
    sites: Vec<Site>,
    swept: Vec<Site>,
}

impl<'m, 'a> Scanner<'m, 'a> {
    fn new(module: &'m Module<'a>, functions: &'m Functions, mode: Preempt) -> Scanner<'m, 'a> {
        let visited = module.code.iter().map(|code| Visited {
            words: vec![0; code.bytes.len().div_ceil(64)],
        });
        Scanner {
            module,
            functions,
            mode,
            info: InstructionInfoFactory::new(),
            visited: visited.collect(),
            targets: Vec::new(),
            offsets: Vec::new(),
            sites: Vec::new(),
            swept: Vec::new(),
        }
    }

    fn run(&mut self) {
        let mut covered = 0;
        for range in &self.functions.ranges {
            let is_known = range.end <= covered && self.is_visited(range.start);
            if !is_known {
                self.scan_function(range);
                covered = covered.max(range.end);
            }
        }
        let mut roots = std::mem::take(&mut self.targets);
        roots.extend(
            self.functions
                .entries
                .iter()
                .filter(|entry| !self.functions.covers(**entry)),
        );
        self.follow(roots, None);
        if !self.functions.is_complete {
            self.sweep_rest();
        }
    }

    fn section_index(&self, vaddr: u64) -> Option<usize> {
        let after = self.module.code.partition_point(|code| code.vaddr <= vaddr);
        let index = after.checked_sub(1)?;
        self.module.code[index].range().contains(&vaddr).then_some(index)
    }

    fn is_visited(&self, vaddr: u64) -> bool {
        let index = self.section_index(vaddr);
        index.is_some_and(|index| {
            self.visited[index].contains((vaddr - self.module.code[index].vaddr) as usize)
        })
    }

    /// Reads a function in a line; where that meets something that is no instruction, follows the jumps from its entry instead.
    fn scan_function(&mut self, range: &Range<u64>) {
        let Some(index) = self.section_index(range.start) else {
            return;
        };
        let code: Code<'a> = self.module.code[index];
        let Some(bytes) = code.slice(range) else { return };
        let (sites_before, targets_before) = (self.sites.len(), self.targets.len());
        let mut decoder = Decoder::with_ip(64, bytes, range.start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut offsets = std::mem::take(&mut self.offsets);
        offsets.clear();
        while decoder.can_decode() {
            offsets.push((range.start - code.vaddr) as usize + decoder.position());
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                self.sites.truncate(sites_before);
                self.targets.truncate(targets_before);
                self.follow(vec![range.start], Some(range));
                return;
            }
            let site = self.site_of(&instruction);
            self.sites.extend(site);
            self.note_target(&instruction, range);
        }
        // Marked only now: marks must not come from a reading that was given up.
        for offset in &offsets {
            self.visited[index].insert(*offset);
        }
        self.offsets = offsets;
    }

    fn note_target(&mut self, instruction: &Instruction, range: &Range<u64>) {
        if instruction.op0_kind() == OpKind::NearBranch64 {
            let target = instruction.near_branch64();
            if !range.contains(&target) && !self.functions.covers(target) {
                self.targets.push(target);
            }
        }
    }

    /// Reads what direct jumps reach from `roots`; with `bounds`, only inside of them.
    fn follow(&mut self, mut roots: Vec<u64>, bounds: Option<&Range<u64>>) {
        while let Some(root) = roots.pop() {
            if bounds.is_some_and(|bounds| !bounds.contains(&root)) {
                if !self.functions.covers(root) {
                    self.targets.push(root);
                }
                continue;
            }
            if bounds.is_none() && self.functions.covers(root) {
                continue;
            }
            let Some(index) = self.section_index(root) else {
                continue;
            };
            let code: Code<'a> = self.module.code[index];
            let end = bounds.map_or(code.range().end, |bounds| bounds.end);
            let Some(bytes) = code.slice(&(root..end)) else {
                continue;
            };
            self.follow_line(index, bytes, root, &mut roots);
        }
    }

    /// Reads from one root up to where control cannot go on, and collects the roots that it jumps to.
    fn follow_line(&mut self, index: usize, bytes: &[u8], root: u64, roots: &mut Vec<u64>) {
        let first = (root - self.module.code[index].vaddr) as usize;
        let mut decoder = Decoder::with_ip(64, bytes, root, DecoderOptions::NONE);
        while decoder.can_decode() {
            let offset = first + decoder.position();
            let instruction = decoder.decode();
            if instruction.is_invalid() || !self.visited[index].insert(offset) {
                return;
            }
            let site = self.site_of(&instruction);
            self.sites.extend(site);
            if instruction.op0_kind() == OpKind::NearBranch64 {
                roots.push(instruction.near_branch64());
            }
            if ends_line(&instruction) {
                return;
            }
        }
    }

    /// Sweeps the code that nothing has reached (see the third rule at the top of the file).
    fn sweep_rest(&mut self) {
        for index in 0..self.module.code.len() {
            let code: Code<'a> = self.module.code[index];
            let (mut position, mut read, mut unreadable) = (0, 0, 0);
            let before = self.swept.len();
            let mut pending: Vec<Site> = Vec::new();
            let mut decoder = Decoder::with_ip(64, code.bytes, code.vaddr, DecoderOptions::NONE);
            while position < code.bytes.len() {
                let vaddr = code.vaddr + position as u64;
                if self.visited[index].contains(position) || self.functions.covers(vaddr) {
                    self.swept.append(&mut pending);
                    position = self.end_of_known(index, position);
                    continue;
                }
                if decoder.set_position(position).is_err() {
                    break;
                }
                decoder.set_ip(vaddr);
                let instruction = decoder.decode();
                if instruction.is_invalid() {
                    unreadable += 1;
                    pending.clear();
                    position = (((vaddr | 15) + 1) - code.vaddr) as usize;
                    continue;
                }
                let site = self.site_of(&instruction);
                pending.extend(site.filter(|site| !matches!(site.kind, SiteKind::Memory(_))));
                if ends_line(&instruction) {
                    self.swept.append(&mut pending);
                }
                position += instruction.len();
                read += instruction.len();
            }
            if is_mixed_with_data(read, unreadable) {
                self.swept.truncate(before);
            }
        }
    }

    /// The first position behind the function or instruction that is known at `position`.
    fn end_of_known(&self, index: usize, position: usize) -> usize {
        let code = &self.module.code[index];
        let vaddr = code.vaddr + position as u64;
        match self.functions.containing(vaddr) {
            Some(range) => (range.end - code.vaddr) as usize,
            None => {
                let mut decoder = Decoder::with_ip(64, &code.bytes[position..], vaddr, DecoderOptions::NONE);
                position + decoder.decode().len().max(1)
            }
        }
    }

    /// Why this instruction is hooked, if it is.
    fn site_of(&mut self, instruction: &Instruction) -> Option<Site> {
        let kind = match instruction.mnemonic() {
            Mnemonic::Rdrand | Mnemonic::Rdseed => Some(SiteKind::Random(random_insn(instruction))),
            Mnemonic::Cpuid | Mnemonic::Rdpid | Mnemonic::Lsl => core_insn(instruction).map(SiteKind::Core),
            _ if self.mode == Preempt::Syscall => None,
            Mnemonic::Pause => Some(SiteKind::Pause),
            _ if is_atomic(instruction) => self.atomic(instruction),
            _ if matches!(self.mode, Preempt::Memory | Preempt::Auto) => self.plain_access(instruction),
            _ => None,
        };
        Some(Site {
            vaddr: instruction.ip(),
            len: instruction.len() as u8,
            kind: kind?,
        })
    }

    fn atomic(&mut self, instruction: &Instruction) -> Option<SiteKind> {
        let accesses = operand::accesses(instruction, &mut self.info, true)?;
        let mut access = *accesses.iter().find(|access| access.writes)?;
        access.reads &= instruction.mnemonic() != Mnemonic::Xchg || self.looks_at_exchanged(instruction);
        Some(SiteKind::Atomic(access))
    }

    fn looks_at_exchanged(&mut self, exchange: &Instruction) -> bool {
        let from = exchange.next_ip();
        let code = self.module.code_at(from);
        let bytes = code.and_then(|code| code.slice(&(from..code.range().end)));
        bytes.is_some_and(|bytes| looks_at_exchanged(exchange, bytes, &mut self.info))
    }

    fn plain_access(&mut self, instruction: &Instruction) -> Option<SiteKind> {
        // `leave` and the like: only implicit stack operands.
        if instruction.op_count() == 0 {
            return None;
        }
        let accesses = operand::accesses(instruction, &mut self.info, true)?;
        let is_of_interest = accesses.iter().any(|access| {
            let operand = &access.operand;
            let link_time = instruction.ip().wrapping_add_signed(operand.displacement);
            let is_constant = operand.base == Gpr::Rip && self.module.is_read_only(link_time);
            access.writes || !(is_constant || is_thread_header(operand))
        });
        is_of_interest.then_some(SiteKind::Memory(accesses))
    }
}

/// Whether so much of what was swept is no instruction that what seems to be one may be data as well. Compilers put no data between functions, but
/// for a table here and there of hand-written assembly.
fn is_mixed_with_data(read: usize, unreadable: usize) -> bool {
    const A_FEW: usize = 16;
    const BYTES_OF_CODE_PER_TABLE: usize = 4096;
    unreadable > A_FEW && unreadable > read / BYTES_OF_CODE_PER_TABLE
}
