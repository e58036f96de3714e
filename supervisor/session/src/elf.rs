//! What the session asks of the headers of an ELF file: its segments.

use goblin::container::{Container, Ctx, Endian};
use goblin::elf::Elf;
use goblin::elf::program_header::{PT_LOAD, ProgramHeader};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use tracee::PAGE;

/// The segments of a file. `None` if it is no ELF file of this machine's kind, or cannot be read.
pub(super) fn segments(path: &Path) -> Option<Vec<ProgramHeader>> {
    // The headers of every ELF file that a linker makes are in its first page.
    let mut head = Vec::new();
    File::open(path).ok()?.take(PAGE).read_to_end(&mut head).ok()?;
    let header = Elf::parse_header(&head).ok()?;
    let context = Ctx::new(Container::Big, Endian::Little);
    // 64 bits, little endian: anything else cannot run here.
    if header.container().ok()? != Container::Big || header.endianness().ok()? != Endian::Little {
        return None;
    }
    ProgramHeader::parse(&head, header.e_phoff as usize, header.e_phnum.into(), context).ok()
}

/// What must be added to a link-time address, for a file mapped at `start` from `offset`. `None` if the
/// mapping is of no segment.
pub(super) fn load_bias(path: &Path, start: u64, offset: u64) -> Option<u64> {
    let holds = |segment: &&ProgramHeader| {
        let first = segment.p_offset & !(PAGE - 1);
        segment.p_type == PT_LOAD
            && segment.is_executable()
            && (first..segment.p_offset.saturating_add(segment.p_filesz)).contains(&offset)
    };
    let segments = segments(path)?;
    let segment = segments.iter().find(holds)?;
    let linked = segment
        .p_vaddr
        .wrapping_add(offset)
        .wrapping_sub(segment.p_offset);
    Some(start.wrapping_sub(linked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_code_and_a_text_has_none() {
        let here = std::env::current_exe().expect("a path");
        let segments = segments(&here).expect("segments");
        let code = segments
            .iter()
            .find(|segment| segment.p_type == PT_LOAD && segment.is_executable());
        let code = code.expect("code");
        let first = code.p_offset & !(PAGE - 1);
        let bias = load_bias(&here, 0x5555_0000_0000 + first, first);
        assert_eq!(
            bias.map(|bias| bias.wrapping_add(code.p_vaddr - code.p_offset)),
            Some(0x5555_0000_0000)
        );
        assert!(super::segments(Path::new("/proc/version")).is_none());
    }
}
