//! ELF core files, written from scratch: the kernel would write one thread, the program has many virtual ones.
//!
//! Layout: ELF header, program headers, notes, then the memory, page-aligned. Pages of zeros are holes in the file, so
//! that thread stacks of megabytes cost nothing.

use goblin::elf::header::{EM_X86_64, ET_CORE};
use goblin::elf::program_header::{PT_LOAD, PT_NOTE};
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use tracee::PAGE;
use tracee::Regs;

const HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
/// Memory is copied in pieces of this size.
const PIECE: usize = 1 << 20;

const NT_PRSTATUS: u32 = 1;
const NT_FPREGSET: u32 = 2;
const NT_PRPSINFO: u32 = 3;
const NT_AUXV: u32 = 6;
const NT_X86_XSTATE: u32 = 0x202;
const NT_SIGINFO: u32 = 0x5349_4749;
const NT_FILE: u32 = 0x4649_4c45;
/// The part of the extended state that `NT_FPREGSET` holds.
const FXSAVE: usize = 512;

/// Everything that a core file tells but the memory itself.
pub struct Core {
    /// The first one is what a debugger shows first.
    pub threads: Vec<ThreadState>,
    pub process: ProcessInfo,
    /// The auxiliary vector, raw.
    pub auxv: Vec<u8>,
    pub areas: Vec<Area>,
    /// What ended the process, if a signal did.
    pub signal: Option<Signal>,
}

/// A signal, and where a fault was.
#[derive(Clone, Copy, Default)]
pub struct Signal {
    pub number: i32,
    pub address: u64,
}

/// One thread.
pub struct ThreadState {
    pub tid: u32,
    pub regs: Regs,
    /// XSAVE area in the standard format.
    pub xstate: Vec<u8>,
}

/// What the process was.
pub struct ProcessInfo {
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
    pub name: Vec<u8>,
    pub arguments: Vec<Vec<u8>>,
}

/// A mapping.
pub struct Area {
    pub range: Range<u64>,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
    /// File and offset in it.
    pub file: Option<(Vec<u8>, u64)>,
}

/// Writes a core file. `read` fills a buffer from an address and says how much of it could be read.
pub fn write(
    path: &Path,
    core: &Core,
    read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let notes = notes(core);
    let headers = core.areas.len() as u64 + 1;
    let notes_at = HEADER + headers * PROGRAM_HEADER;
    let memory_at = (notes_at + notes.len() as u64).next_multiple_of(PAGE);
    let count = u16::try_from(headers)
        .ok()
        .filter(|&count| count < u16::MAX)
        .ok_or_else(|| io::Error::other("more mappings than a core file can name"))?;
    let mut head = elf_header(count);
    head.extend(program_header(PT_NOTE, 0, notes_at, 0, notes.len() as u64, 0));
    let mut at = memory_at;
    for area in &core.areas {
        let len = area.range.end - area.range.start;
        let stored = if area.readable { len } else { 0 };
        head.extend(program_header(
            PT_LOAD,
            flags(area),
            at,
            area.range.start,
            stored,
            len,
        ));
        at += stored;
    }
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&head)?;
    file.write_all(&notes)?;
    let mut at = memory_at;
    for area in core.areas.iter().filter(|area| area.readable) {
        write_area(&mut file, at, area, read)?;
        at += area.range.end - area.range.start;
    }
    // The last pages may be a hole.
    file.into_inner().map_err(io::Error::from)?.set_len(at)
}

fn write_area(
    file: &mut BufWriter<File>,
    at: u64,
    area: &Area,
    read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut address = area.range.start;
    while address < area.range.end {
        let len = (area.range.end - address).min(PIECE as u64) as usize;
        let got = read(address, &mut piece[..len])?;
        // What cannot be read, such as the pages of a file behind its end, reads as zeros.
        piece[got..len].fill(0);
        for (number, page) in piece[..len].chunks(PAGE as usize).enumerate() {
            if page.iter().any(|&byte| byte != 0) {
                let offset = address - area.range.start + number as u64 * PAGE;
                file.seek(SeekFrom::Start(at + offset))?;
                file.write_all(page)?;
            }
        }
        address += len as u64;
    }
    Ok(())
}

fn flags(area: &Area) -> u32 {
    u32::from(area.executable) | u32::from(area.writable) << 1 | u32::from(area.readable) << 2
}

/// Little-endian fields, one after the other.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn half(self, value: u16) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    fn word(self, value: u32) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    fn long(self, value: u64) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// A text of fixed size, always with a NUL at its end.
    fn text(mut self, text: &[u8], size: usize) -> Self {
        let end = self.0.len() + size;
        self.0.extend_from_slice(&text[..text.len().min(size - 1)]);
        self.0.resize(end, 0);
        self
    }
}

fn elf_header(program_headers: u16) -> Vec<u8> {
    let ident = [0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    Fields::default()
        .bytes(&ident)
        .half(ET_CORE)
        .half(EM_X86_64)
        .word(1)
        .long(0)
        .long(HEADER)
        .long(0)
        .word(0)
        .half(HEADER as u16)
        .half(PROGRAM_HEADER as u16)
        .half(program_headers)
        .half(0)
        .half(0)
        .half(0)
        .0
}

fn program_header(kind: u32, flags: u32, offset: u64, address: u64, in_file: u64, in_memory: u64) -> Vec<u8> {
    Fields::default()
        .word(kind)
        .word(flags)
        .long(offset)
        .long(address)
        .long(0)
        .long(in_file)
        .long(in_memory)
        .long(if kind == PT_LOAD { PAGE } else { 4 })
        .0
}

fn notes(core: &Core) -> Vec<u8> {
    let mut notes = Vec::new();
    for (index, thread) in core.threads.iter().enumerate() {
        note(&mut notes, b"CORE\0", NT_PRSTATUS, &status(thread, core));
        // What belongs to the process follows the first thread, as the kernel has it.
        if index == 0 {
            note(&mut notes, b"CORE\0", NT_PRPSINFO, &process_info(&core.process));
            note(&mut notes, b"CORE\0", NT_SIGINFO, &signal_info(core.signal));
            note(&mut notes, b"CORE\0", NT_AUXV, &core.auxv);
            note(&mut notes, b"CORE\0", NT_FILE, &files(&core.areas));
        }
        if let Some(legacy) = thread.xstate.get(..FXSAVE) {
            note(&mut notes, b"CORE\0", NT_FPREGSET, legacy);
            note(&mut notes, b"LINUX\0", NT_X86_XSTATE, &thread.xstate);
        }
    }
    notes
}

fn note(notes: &mut Vec<u8>, owner: &[u8], kind: u32, content: &[u8]) {
    notes.extend((owner.len() as u32).to_le_bytes());
    notes.extend((content.len() as u32).to_le_bytes());
    notes.extend(kind.to_le_bytes());
    for part in [owner, content] {
        notes.extend_from_slice(part);
        notes.resize(notes.len().next_multiple_of(4), 0);
    }
}

/// `struct elf_prstatus`. As in the kernel's core files, every thread tells the signal that ended the process.
fn status(thread: &ThreadState, core: &Core) -> Vec<u8> {
    let signal = core.signal.map_or(0, |signal| signal.number);
    let pid = core.process.pid;
    let r = &thread.regs;
    let registers = [
        r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx, r.r11, r.r10, r.r9, r.r8, r.rax, r.rcx, r.rdx, r.rsi,
        r.rdi, r.orig_rax, r.rip, r.cs, r.eflags, r.rsp, r.ss, r.fs_base, r.gs_base, r.ds, r.es, r.fs, r.gs,
    ];
    let fields = Fields::default()
        // siginfo, current signal, pending and blocked signals
        .word(signal as u32)
        .long(0)
        .word(signal as u32)
        .long(0)
        .long(0)
        // thread, parent, group, session
        .word(thread.tid)
        .word(0)
        .word(pid)
        .word(pid)
        // four times
        .bytes(&[0; 64]);
    let fields = registers
        .iter()
        .fold(fields, |fields, register| fields.long(*register));
    fields.word(u32::from(!thread.xstate.is_empty())).word(0).0
}

/// `struct elf_prpsinfo`.
fn process_info(process: &ProcessInfo) -> Vec<u8> {
    let arguments = process.arguments.join(&b' ');
    Fields::default()
        .bytes(&[0, b't', 0, 0])
        .word(0)
        .long(0)
        .word(process.uid)
        .word(process.gid)
        .word(process.pid)
        .word(0)
        .word(process.pid)
        .word(process.pid)
        .text(&process.name, 16)
        .text(&arguments, 80)
        .0
}

/// `siginfo_t`.
fn signal_info(signal: Option<Signal>) -> Vec<u8> {
    const SIZE: usize = 128;
    let Signal { number, address } = signal.unwrap_or_default();
    // Number, errno, code, padding; what follows depends on the signal.
    let mut info = Fields::default()
        .word(number as u32)
        .word(0)
        .word(0)
        .word(0)
        .long(address)
        .0;
    info.resize(SIZE, 0);
    info
}

/// Which file is mapped where: addresses and page offsets first, then all names.
fn files(areas: &[Area]) -> Vec<u8> {
    let mapped: Vec<(&Range<u64>, &[u8], u64)> = areas
        .iter()
        .filter_map(|area| {
            let (name, offset) = area.file.as_ref()?;
            Some((&area.range, name.as_slice(), *offset))
        })
        .collect();
    let mut fields = Fields::default().long(mapped.len() as u64).long(PAGE);
    for (range, _, offset) in &mapped {
        fields = fields.long(range.start).long(range.end).long(offset / PAGE);
    }
    for (_, name, _) in &mapped {
        fields = fields.bytes(name).bytes(&[0]);
    }
    fields.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(areas: Vec<Area>) -> Core {
        let thread = ThreadState {
            tid: 7,
            regs: Regs::default(),
            xstate: Vec::new(),
        };
        let process = ProcessInfo {
            pid: 7,
            uid: 0,
            gid: 0,
            name: b"a name longer than sixteen".to_vec(),
            arguments: vec![vec![b'x'; 100]],
        };
        Core {
            threads: vec![thread],
            process,
            auxv: Vec::new(),
            areas,
            signal: None,
        }
    }

    #[test]
    fn the_notes_have_the_sizes_that_debuggers_expect() {
        let core = core(Vec::new());
        assert_eq!(status(&core.threads[0], &core).len(), 336);
        let info = process_info(&core.process);
        assert_eq!((info.len(), info[55], info[135]), (136, 0, 0));
    }

    #[test]
    fn memory_is_where_the_headers_say_and_zeros_are_holes() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("core");
        let area = |start: u64, pages: u64, readable| Area {
            range: start..start + pages * PAGE,
            readable,
            writable: true,
            executable: false,
            file: None,
        };
        let core = core(vec![
            area(0x10000, 2, true),
            area(0x20000, 1, false),
            area(0x30000, 600, true),
        ]);
        let mut read = |address: u64, buffer: &mut [u8]| {
            if address == 0x10000 {
                buffer[PAGE as usize] = 5;
            }
            Ok(buffer.len())
        };
        write(&path, &core, &mut read).expect("written");
        let file = std::fs::read(&path).expect("readable");
        let elf = goblin::elf::Elf::parse(&file).expect("an ELF file");
        assert_eq!(elf.header.e_type, ET_CORE);
        let loads: Vec<_> = elf
            .program_headers
            .iter()
            .filter(|header| header.p_type == PT_LOAD)
            .collect();
        assert_eq!(loads.len(), 3);
        assert_eq!(file[(loads[0].p_offset + PAGE) as usize], 5);
        assert_eq!((loads[1].p_filesz, loads[1].p_memsz), (0, PAGE));
        assert_eq!(loads[2].p_offset + loads[2].p_filesz, file.len() as u64);
    }
}
