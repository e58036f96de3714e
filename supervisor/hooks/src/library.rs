//! Functions of the C library that access memory on behalf of the program: each call is a load, a store or both, of as many bytes as its arguments say.
//!
//! The string functions exist in several versions, of which the dynamic linker chooses one by the processor, so their entries are found in the program's
//! memory: where relocations have put their addresses.

use super::formats::{Arguments, printed, scanned};
use super::{ReadMemory, SyncFn};
use goblin::elf::Elf;
use goblin::elf::reloc::{R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_IRELATIVE, R_X86_64_JUMP_SLOT};
use goblin::elf::sym::STT_GNU_IFUNC;
use std::collections::HashMap;
use std::ops::Range;

/// More of a string, a block or a buffer is not looked at.
pub(super) const MOST: u64 = 1 << 16;

/// How many bytes a function accesses.
#[derive(Clone, Copy)]
enum Length {
    /// As many as this argument says.
    Arg(usize),
    /// A string, with its end.
    String,
    /// A string, but not more than this argument says.
    StringAtMost(usize),
    /// As many as the string has that is this argument.
    StringOf(usize),
    /// As far as it is equal to the string that is the first argument, and one more; not more than that argument says.
    Common(usize, Option<usize>),
    /// Behind the string at this place, as many as the string has that is this argument.
    AppendedFrom(usize),
    /// The same, but not more than that argument says, and an end.
    AppendedAtMost(usize, usize),
    /// An array: so many elements of such a size, if there are two to be compared.
    Elements(usize, usize),
    /// Up to the byte that is this argument, but not more than that argument says.
    UpTo(usize, usize),
    /// What may be part of a number, and the first byte that is not.
    Number,
    /// The first byte, if it has room for one by this argument. How many follow is not known.
    First(usize),
    /// The byte that says whether a local static variable of C++ is initialised.
    Guard,
    /// What `malloc` gave.
    Block,
    /// What is printed by the format that is this argument, with its end, but not more than that argument says.
    Printed(usize, Option<usize>),
}

struct Effect {
    arg: usize,
    length: Length,
    writes: bool,
}

const fn reads(arg: usize, length: Length) -> Effect {
    Effect {
        arg,
        length,
        writes: false,
    }
}

const fn writes(arg: usize, length: Length) -> Effect {
    Effect {
        arg,
        length,
        writes: true,
    }
}

macro_rules! library_functions {
    ($($variant:ident = $name:literal [$($effect:expr),*],)*) => {
        /// A function of glibc that accesses memory of its caller's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum LibraryFn { $($variant,)* }

        impl LibraryFn {
            /// Its name in C.
            pub fn name(self) -> &'static str {
                match self { $(LibraryFn::$variant => $name,)* }
            }

            fn from_name(name: &str) -> Option<LibraryFn> {
                match name { $($name => Some(LibraryFn::$variant),)* _ => None }
            }

            fn effects(self) -> &'static [Effect] {
                match self { $(LibraryFn::$variant => const { &[$($effect),*] },)* }
            }
        }
    };
}

library_functions! {
    Memcpy = "memcpy" [writes(0, Length::Arg(2)), reads(1, Length::Arg(2))],
    MemcpyChk = "__memcpy_chk" [writes(0, Length::Arg(2)), reads(1, Length::Arg(2))],
    Memmove = "memmove" [writes(0, Length::Arg(2)), reads(1, Length::Arg(2))],
    MemmoveChk = "__memmove_chk" [writes(0, Length::Arg(2)), reads(1, Length::Arg(2))],
    Mempcpy = "mempcpy" [writes(0, Length::Arg(2)), reads(1, Length::Arg(2))],
    Memset = "memset" [writes(0, Length::Arg(2))],
    MemsetChk = "__memset_chk" [writes(0, Length::Arg(2))],
    Bzero = "bzero" [writes(0, Length::Arg(1))],
    Memcmp = "memcmp" [reads(0, Length::Arg(2)), reads(1, Length::Arg(2))],
    Bcmp = "bcmp" [reads(0, Length::Arg(2)), reads(1, Length::Arg(2))],
    Strlen = "strlen" [reads(0, Length::String)],
    Strnlen = "strnlen" [reads(0, Length::StringAtMost(1))],
    Strcpy = "strcpy" [writes(0, Length::StringOf(1)), reads(1, Length::String)],
    StrcpyChk = "__strcpy_chk" [writes(0, Length::StringOf(1)), reads(1, Length::String)],
    Stpcpy = "stpcpy" [writes(0, Length::StringOf(1)), reads(1, Length::String)],
    Strncpy = "strncpy" [writes(0, Length::Arg(2)), reads(1, Length::StringAtMost(2))],
    StrncpyChk = "__strncpy_chk" [writes(0, Length::Arg(2)), reads(1, Length::StringAtMost(2))],
    Strcat = "strcat" [writes(0, Length::AppendedFrom(1)), reads(0, Length::String), reads(1, Length::String)],
    StrcatChk = "__strcat_chk" [writes(0, Length::AppendedFrom(1)), reads(0, Length::String), reads(1, Length::String)],
    Strncat = "strncat" [writes(0, Length::AppendedAtMost(1, 2)), reads(0, Length::String), reads(1, Length::StringAtMost(2))],
    Strndup = "strndup" [reads(0, Length::StringAtMost(1))],
    Memchr = "memchr" [reads(0, Length::UpTo(1, 2))],
    Atoi = "atoi" [reads(0, Length::Number)],
    Atol = "atol" [reads(0, Length::Number)],
    Atof = "atof" [reads(0, Length::Number)],
    Strtol = "strtol" [reads(0, Length::Number)],
    Strtoul = "strtoul" [reads(0, Length::Number)],
    Strtod = "strtod" [reads(0, Length::Number)],
    Qsort = "qsort" [reads(0, Length::Elements(1, 2)), writes(0, Length::Elements(1, 2))],
    QsortR = "qsort_r" [reads(0, Length::Elements(1, 2)), writes(0, Length::Elements(1, 2))],
    Vsnprintf = "vsnprintf" [writes(0, Length::First(1))],
    Strcmp = "strcmp" [reads(0, Length::Common(1, None)), reads(1, Length::Common(0, None))],
    Strncmp = "strncmp" [reads(0, Length::Common(1, Some(2))), reads(1, Length::Common(0, Some(2)))],
    Strcasecmp = "strcasecmp" [reads(0, Length::String), reads(1, Length::String)],
    Strchr = "strchr" [reads(0, Length::String)],
    Strchrnul = "strchrnul" [reads(0, Length::String)],
    Strrchr = "strrchr" [reads(0, Length::String)],
    Strstr = "strstr" [reads(0, Length::String), reads(1, Length::String)],
    Strdup = "strdup" [reads(0, Length::String)],
    Sprintf = "sprintf" [writes(0, Length::Printed(1, None))],
    SprintfChk = "__sprintf_chk" [writes(0, Length::Printed(3, None))],
    Snprintf = "snprintf" [writes(0, Length::Printed(2, Some(1)))],
    SnprintfChk = "__snprintf_chk" [writes(0, Length::Printed(4, Some(1)))],
    Sscanf = "sscanf" [reads(0, Length::String)],
    Isoc99Sscanf = "__isoc99_sscanf" [reads(0, Length::String)],
    Isoc23Sscanf = "__isoc23_sscanf" [reads(0, Length::String)],
    GuardAcquire = "__cxa_guard_acquire" [reads(0, Length::Guard)],
    GuardRelease = "__cxa_guard_release" [writes(0, Length::Guard)],
    Free = "free" [writes(0, Length::Block)],
    Realloc = "realloc" [writes(0, Length::Block)],
    Reallocarray = "reallocarray" [writes(0, Length::Block)],
}

impl LibraryFn {
    /// What a call with these arguments accesses, and whether it writes that. Further arguments are on the stack, at `stack`.
    pub fn spans(self, args: [u64; 6], stack: u64, memory: &dyn ReadMemory) -> Vec<(Range<u64>, bool)> {
        let all = Arguments {
            registers: args,
            stack,
            memory,
        };
        let span = |effect: &Effect| {
            let start = args[effect.arg];
            let text = |arg: usize, most: u64| string(args[arg], most, memory).len() as u64;
            let (skipped, len) = match effect.length {
                Length::Arg(arg) => (0, args[arg].min(MOST)),
                Length::String => (0, text(effect.arg, MOST)),
                Length::StringAtMost(arg) => (0, text(effect.arg, args[arg].min(MOST))),
                Length::StringOf(arg) => (0, text(arg, MOST)),
                Length::AppendedFrom(arg) => (text(effect.arg, MOST).saturating_sub(1), text(arg, MOST)),
                Length::AppendedAtMost(arg, most) => {
                    let appended = text(arg, args[most].min(MOST));
                    let has_end = appended > 0 && string(args[arg], appended, memory).last() == Some(&0);
                    let skipped = text(effect.arg, MOST).saturating_sub(1);
                    (skipped, appended + u64::from(!has_end))
                }
                Length::Elements(count, size) if args[count] > 1 => {
                    (0, args[count].saturating_mul(args[size]).min(MOST))
                }
                Length::Elements(..) => (0, 0),
                Length::UpTo(byte, most) => {
                    let most = args[most].min(MOST);
                    (0, up_to(start, args[byte] as u8, most, memory))
                }
                Length::Number => (0, number(&string(start, MOST, memory))),
                Length::First(room) => (0, args[room].min(1)),
                Length::Guard => (0, 1),
                Length::Common(other, most) => {
                    let most = most.map_or(MOST, |arg| args[arg].min(MOST));
                    let (ours, theirs) = (string(start, most, memory), string(args[other], most, memory));
                    let same = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
                    (0, (same + 1).min(ours.len()) as u64)
                }
                Length::Block => (0, block_size(start, memory).unwrap_or(0)),
                Length::Printed(format, most) => {
                    let text = string(args[format], MOST, memory);
                    let most = most.map_or(MOST, |arg| args[arg]);
                    (0, (printed(&text, &all, format + 1) + 1).min(most))
                }
            };
            let start = start.saturating_add(skipped);
            (start..start.saturating_add(len), effect.writes)
        };
        let scans = matches!(
            self,
            LibraryFn::Sscanf | LibraryFn::Isoc99Sscanf | LibraryFn::Isoc23Sscanf
        );
        let targets = match scans {
            true => scanned(&string(args[1], MOST, memory), &all, 2),
            false => Vec::new(),
        };
        let targets = targets.into_iter().map(|target| (target, true));
        self.effects()
            .iter()
            .map(span)
            .chain(targets)
            .filter(|(span, _)| !span.is_empty())
            .collect()
    }

    /// Is it an atomic operation on what it accesses?
    pub fn is_atomic(self) -> bool {
        matches!(self, LibraryFn::GuardAcquire | LibraryFn::GuardRelease)
    }

    /// Does the memory belong to nobody after the call, where it is not moved?
    pub fn frees(self) -> bool {
        matches!(
            self,
            LibraryFn::Free | LibraryFn::Realloc | LibraryFn::Reallocarray
        )
    }

    /// How many bytes the block is to have from now on, wherever it will be; `None` if there is none afterwards.
    pub fn moved_size(self, args: [u64; 6]) -> Option<u64> {
        let size = match self {
            LibraryFn::Realloc => args[1],
            LibraryFn::Reallocarray => args[1].saturating_mul(args[2]),
            _ => 0,
        };
        (size != 0).then_some(size)
    }
}

/// Where a function that reads from a stream puts that: as much as is certain, if there is anything to read.
pub fn filled(
    function: SyncFn,
    args: [u64; 6],
    stack: u64,
    memory: &dyn ReadMemory,
) -> Vec<(Range<u64>, bool)> {
    let all = Arguments {
        registers: args,
        stack,
        memory,
    };
    let format = |arg: usize| string(args[arg], MOST, memory);
    let at = |start: u64, length: u64| start..start.saturating_add(length);
    let spans = match function {
        SyncFn::Fgets | SyncFn::FgetsUnlocked => {
            let ready = buffered(args[2], args[1].saturating_sub(1), memory);
            let line = ready.iter().position(|byte| *byte == b'\n');
            let text = line.map_or(ready.len(), |end| end + 1).max(1) as u64;
            vec![at(args[0], (text + 1).min(args[1]))]
        }
        SyncFn::Fread | SyncFn::FreadUnlocked => {
            let wanted = args[1].saturating_mul(args[2]);
            let ready = buffered(args[3], wanted, memory).len().max(1) as u64;
            vec![at(args[0], ready.min(wanted))]
        }
        SyncFn::Scanf => scanned(&format(0), &all, 1),
        SyncFn::Fscanf => scanned(&format(1), &all, 2),
        _ => Vec::new(),
    };
    let spans = spans.into_iter().filter(|span| !span.is_empty());
    spans.map(|span| (span, true)).collect()
}

/// What a stream of glibc's has in its buffer, at most so much. Its second and third word are the beginning and the end of that.
fn buffered(stream: u64, most: u64, memory: &dyn ReadMemory) -> Vec<u8> {
    let word = |place: u64| memory.read_u64(stream.wrapping_add(place)).unwrap_or(0);
    let (start, end) = (word(8), word(16));
    let mut bytes = vec![0; end.saturating_sub(start).min(most).min(MOST) as usize];
    match memory.read(start, &mut bytes) {
        Some(()) => bytes,
        None => Vec::new(),
    }
}

/// How many bytes there are up to this one, with it, as far as they can be read.
fn up_to(start: u64, byte: u8, most: u64, memory: &dyn ReadMemory) -> u64 {
    let mut piece = [0];
    let mut bytes =
        (0..most).map_while(|at| memory.read(start.wrapping_add(at), &mut piece).map(|()| piece[0]));
    let before = bytes.by_ref().take_while(|found| *found != byte).count() as u64;
    (before + 1).min(most)
}

/// How much of a string is looked at for a number: space, what may be part of one in any base, and the byte that ends it.
fn number(text: &[u8]) -> u64 {
    let space = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let is_part = |byte: &&u8| matches!(byte, b'+' | b'-' | b'.' | b'0'..=b'9');
    let digits = text[space..].iter().take_while(is_part).count();
    (space + digits + 1).min(text.len()) as u64
}

/// The bytes of a string with its end, as far as they can be read.
pub(super) fn string(address: u64, most: u64, memory: &dyn ReadMemory) -> Vec<u8> {
    const PIECE: u64 = 64;
    let mut bytes = Vec::new();
    let mut at = address;
    while (bytes.len() as u64) < most {
        // Never across a page that may not be there.
        let len = (PIECE - at % PIECE).min(most - bytes.len() as u64);
        let mut piece = vec![0; len as usize];
        if memory.read(at, &mut piece).is_none() {
            break;
        }
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            bytes.extend_from_slice(&piece[..=end]);
            break;
        }
        bytes.append(&mut piece);
        at += len;
    }
    bytes
}

/// Bytes that the program may use of a block of glibc's allocator: the size is in the word before it, with three flags.
fn block_size(block: u64, memory: &dyn ReadMemory) -> Option<u64> {
    const IS_MAPPED: u64 = 2;
    const SMALLEST: u64 = 32;
    let header = memory.read_u64(block.checked_sub(8)?)?;
    let size = header & !7;
    let overhead = if header & IS_MAPPED == 0 { 8 } else { 16 };
    ((SMALLEST..1 << 40).contains(&size) && block.is_multiple_of(16)).then(|| size - overhead)
}

/// What a module tells of such functions: their entries, or where their addresses are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryEntries {
    /// Link-time addresses of functions with these names. They are what they are called in the C library and in programs that have it inside.
    functions: Vec<(u64, LibraryFn)>,
    is_static: bool,
    /// Link-time addresses of words in which the dynamic linker has put entries.
    pub slots: Vec<(u64, LibraryFn)>,
}

impl LibraryEntries {
    /// Reads the symbols and relocations of a module.
    pub fn of(elf: &Elf) -> LibraryEntries {
        let mut found = LibraryEntries {
            is_static: elf.interpreter.is_none() && elf.soname.is_none(),
            ..LibraryEntries::default()
        };
        // Functions that choose a version: their relocations have no name but the address of the chooser.
        let mut choosers: HashMap<u64, LibraryFn> = HashMap::new();
        let dynamic = elf.dynsyms.iter().map(|symbol| (symbol, &elf.dynstrtab));
        let linked = elf.syms.iter().map(|symbol| (symbol, &elf.strtab));
        for (symbol, names) in dynamic.chain(linked).filter(|(symbol, _)| symbol.st_value != 0) {
            let Some(function) = names.get_at(symbol.st_name).and_then(LibraryFn::from_name) else {
                continue;
            };
            if symbol.st_type() == STT_GNU_IFUNC {
                choosers.insert(symbol.st_value, function);
            } else if symbol.is_function() {
                found.functions.push((symbol.st_value, function));
            }
        }
        let sections = elf.shdr_relocs.iter().flat_map(|(_, section)| section.iter());
        let tables = elf.dynrelas.iter().chain(elf.pltrelocs.iter()).chain(sections);
        for reloc in tables {
            let function = match reloc.r_type {
                R_X86_64_IRELATIVE => choosers.get(&(reloc.r_addend.unwrap_or(0) as u64)).copied(),
                R_X86_64_JUMP_SLOT | R_X86_64_GLOB_DAT | R_X86_64_64 => elf
                    .dynsyms
                    .get(reloc.r_sym)
                    .and_then(|symbol| elf.dynstrtab.get_at(symbol.st_name))
                    .and_then(LibraryFn::from_name),
                _ => None,
            };
            found
                .slots
                .extend(function.map(|function| (reloc.r_offset, function)));
        }
        found.slots.sort_by_key(|(slot, _)| *slot);
        found.slots.dedup();
        found
    }

    /// Link-time addresses of entries. `is_libc`: the functions of this module are the C library's.
    pub fn entries(&self, is_libc: bool) -> &[(u64, LibraryFn)] {
        if is_libc || self.is_static {
            &self.functions
        } else {
            &[]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(bytes: &'static [u8]) -> impl Fn(u64, &mut [u8]) -> Option<()> {
        const BASE: u64 = 0x1000;
        move |address, buffer: &mut [u8]| {
            let start = address.checked_sub(BASE)? as usize;
            for (index, byte) in buffer.iter_mut().enumerate() {
                *byte = *bytes.get(start + index).unwrap_or(&0);
            }
            Some(())
        }
    }

    #[test]
    fn strings_end_where_they_end() {
        let text = memory(b"hello\0help\0");
        let spans = |function: LibraryFn, args| function.spans(args, 0, &text);
        assert_eq!(
            spans(LibraryFn::Strlen, [0x1000, 0, 0, 0, 0, 0]),
            [(0x1000..0x1006, false)]
        );
        assert_eq!(
            spans(LibraryFn::Strcmp, [0x1000, 0x1006, 0, 0, 0, 0]),
            [(0x1000..0x1004, false), (0x1006..0x100a, false)]
        );
        assert_eq!(
            spans(LibraryFn::Strcpy, [0x2000, 0x1006, 0, 0, 0, 0]),
            [(0x2000..0x2005, true), (0x1006..0x100b, false)]
        );
        assert_eq!(spans(LibraryFn::Memset, [0x1000, 0, 0, 0, 0, 0]), []);
    }

    #[test]
    fn a_block_has_its_size_before_it() {
        // A header of 0x31: 48 bytes with the flag that the one before is in use.
        let heap = memory(b"\0\0\0\0\0\0\0\0\x31\0\0\0\0\0\0\0");
        assert_eq!(
            LibraryFn::Free.spans([0x1010, 0, 0, 0, 0, 0], 0, &heap),
            [(0x1010..0x1038, true)]
        );
        assert_eq!(LibraryFn::Free.spans([0, 0, 0, 0, 0, 0], 0, &heap), []);
    }
}
