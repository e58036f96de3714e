//! Where functions begin and end.
//!
//! x86 code can only be read from the start of an instruction, and executable sections hold data too (jump tables, constants of
//! hand-written assembly). So the scan reads function by function, with boundaries from whatever the file still has: symbols,
//! unwind entries (`.eh_frame`, which survives stripping because exceptions need it), or Go's function table (which its garbage
//! collector needs).

use std::ops::Range;

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};

use super::elf::{Module, symbol_range};

/// What a module tells about its functions.
pub(super) struct Functions {
    /// Sorted by start, longest first; they may overlap (aliases, secondary entries).
    pub ranges: Vec<Range<u64>>,
    /// Entries of unknown length.
    pub entries: Vec<u64>,
    /// Whether most functions are known: if so, what is outside of them is padding and tables rather than code.
    pub is_complete: bool,
    /// For each range, the highest end of it and all before it: makes [`Functions::containing`] a binary search.
    reach: Vec<u64>,
}

impl Functions {
    pub fn of(module: &Module) -> Functions {
        let mut ranges = Vec::new();
        let mut entries = vec![module.elf.entry];
        let mut has_symbols = false;
        for symbol in module.static_functions() {
            has_symbols = true;
            push_symbol(symbol_range(&symbol), &mut ranges, &mut entries);
        }
        for symbol in module.dynamic_functions() {
            push_symbol(symbol_range(&symbol), &mut ranges, &mut entries);
        }
        unwind_entries(module, &mut ranges);
        go_functions(module, &mut ranges);
        ranges.retain(|range| {
            let code = module.code_at(range.start);
            range.start < range.end && code.is_some_and(|code| range.end <= code.range().end)
        });
        entries.retain(|entry| module.code_at(*entry).is_some());
        let mut functions = Functions::sorted(ranges, entries);
        let code_bytes: usize = module.code.iter().map(|code| code.bytes.len()).sum();
        functions.is_complete = has_symbols || functions.covered_bytes() > code_bytes as u64 / 2;
        functions
    }

    fn covered_bytes(&self) -> u64 {
        let mut end = 0;
        let lengths = self.ranges.iter().map(|range| {
            let length = range.end.saturating_sub(range.start.max(end));
            end = end.max(range.end);
            length
        });
        lengths.sum()
    }

    fn sorted(mut ranges: Vec<Range<u64>>, entries: Vec<u64>) -> Functions {
        ranges.sort_by(|a, b| (a.start, b.end).cmp(&(b.start, a.end)));
        ranges.dedup();
        let mut highest = 0;
        let reach = ranges.iter().map(|range| {
            highest = highest.max(range.end);
            highest
        });
        let reach = reach.collect();
        Functions {
            ranges,
            entries,
            is_complete: false,
            reach,
        }
    }

    /// Whether any function covers the address.
    pub fn covers(&self, vaddr: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.start <= vaddr);
        after > 0 && self.reach[after - 1] > vaddr
    }

    /// A function that covers the address: the one that starts nearest to it.
    pub fn containing(&self, vaddr: u64) -> Option<Range<u64>> {
        if !self.covers(vaddr) {
            return None;
        }
        let after = self.ranges.partition_point(|range| range.start <= vaddr);
        self.ranges[..after]
            .iter()
            .rev()
            .find(|range| range.contains(&vaddr))
            .cloned()
    }
}

fn push_symbol(range: Range<u64>, ranges: &mut Vec<Range<u64>>, entries: &mut Vec<u64>) {
    if range.is_empty() {
        entries.push(range.start);
    } else {
        ranges.push(range);
    }
}

/// The ranges of all frame description entries. A damaged section yields what could be read before the damage.
fn unwind_entries(module: &Module, ranges: &mut Vec<Range<u64>>) {
    let Some((address, bytes)) = module.section(".eh_frame") else {
        return;
    };
    let section = EhFrame::new(bytes, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut known_cies = std::collections::HashMap::new();
    let mut entries = section.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(|section, bases, offset| {
            if let Some(cie) = known_cies.get(&offset) {
                return Ok(Clone::clone(cie));
            }
            let cie = section.cie_from_offset(bases, offset)?;
            known_cies.insert(offset, cie.clone());
            Ok(cie)
        });
        let Ok(fde) = fde else { continue };
        // A zero address is a function the linker threw away.
        if fde.initial_address() != 0 {
            ranges.push(fde.initial_address()..fde.initial_address().saturating_add(fde.len()));
        }
    }
}

/// The functions of `.gopclntab`: since Go 1.18 pairs of 32-bit offsets from the text start, before that pairs of addresses.
/// Each function ends where the next begins; the gaps are filled with `int3`.
fn go_functions(module: &Module, ranges: &mut Vec<Range<u64>>) {
    let Some((_, table)) = module
        .section(".gopclntab")
        .or_else(|| module.section(".data.rel.ro.gopclntab"))
    else {
        return;
    };
    if let Some(starts) = go_function_starts(table, module.section(".text").map(|(address, _)| address)) {
        ranges.extend(starts.windows(2).map(|pair| pair[0]..pair[1]));
    }
}

fn go_function_starts(table: &[u8], text: Option<u64>) -> Option<Vec<u64>> {
    const GO_1_2: u32 = 0xffff_fffb;
    const GO_1_16: u32 = 0xffff_fffa;
    const GO_1_18: u32 = 0xffff_fff0;
    const GO_1_20: u32 = 0xffff_fff1;
    let long = |offset: usize| {
        Some(u64::from_le_bytes(
            table.get(offset..offset + 8)?.try_into().ok()?,
        ))
    };
    let short = |offset: usize| {
        Some(u32::from_le_bytes(
            table.get(offset..offset + 4)?.try_into().ok()?,
        ))
    };
    let count = usize::try_from(long(8)?)
        .ok()
        .filter(|count| *count < table.len())?;
    match short(0)? {
        GO_1_18 | GO_1_20 => {
            // In a position-independent executable the text start is left to the loader, and reads 0 here.
            let text_start = Some(long(24)?).filter(|start| *start != 0).or(text)?;
            let entries = usize::try_from(long(64)?).ok()?;
            (0..=count)
                .map(|index| Some(text_start + u64::from(short(entries.checked_add(index * 8)?)?)))
                .collect()
        }
        GO_1_16 => {
            let entries = usize::try_from(long(56)?).ok()?;
            (0..=count)
                .map(|index| long(entries.checked_add(index * 16)?))
                .collect()
        }
        GO_1_2 => (0..=count).map(|index| long(16 + index * 16)).collect(),
        _ => None,
    }
}
