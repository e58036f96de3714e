//! Displaced instructions, really executed: a program in which every instruction of some functions is hooked computes the same as before.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Output;

use iced_x86::{Decoder, DecoderOptions};

use super::elf::Module;
use super::test_scan::{run, tool};
use super::*;

/// Where a position-independent executable is loaded without randomisation.
const PIE_BASE: u64 = 0x5555_5555_4000;

fn compiled(dir: &Path, flags: &[&str]) -> PathBuf {
    let (source, program) = (dir.join("execute.cc"), dir.join("execute"));
    std::fs::write(&source, include_str!("test_execute.cc")).expect("source is written");
    run(tool("g++", "g++")
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(&source));
    program
}

fn output_of(program: &Path) -> Output {
    let mut command = tool("setarch", "util-linux");
    let output = command
        .args(["x86_64", "-R"])
        .arg(program)
        .output()
        .expect("program runs");
    assert!(output.status.success(), "{program:?}: {:?}", output.status);
    output
}

/// All instructions of the functions named `guest_…`: address and bytes.
fn guest_instructions(module: &Module) -> BTreeMap<u64, Vec<u8>> {
    let mut instructions = BTreeMap::new();
    for symbol in module.static_functions() {
        if !module
            .elf
            .strtab
            .get_at(symbol.st_name)
            .is_some_and(|name| name.contains("guest_"))
        {
            continue;
        }
        let range: Range<u64> = super::elf::symbol_range(&symbol);
        let code = module
            .code_at(range.start)
            .and_then(|code| code.slice(&range))
            .expect("is code");
        let mut decoder = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE);
        while decoder.can_decode() {
            let position = decoder.position();
            let instruction = decoder.decode();
            assert!(!instruction.is_invalid());
            instructions.insert(
                instruction.ip(),
                code[position..position + instruction.len()].to_vec(),
            );
        }
    }
    instructions
}

fn file_offset(module: &Module, section: &str) -> (u64, usize) {
    let is_wanted = |name: usize| module.elf.shdr_strtab.get_at(name) == Some(section);
    let header = module
        .elf
        .section_headers
        .iter()
        .find(|header| is_wanted(header.sh_name))
        .expect("is there");
    (header.sh_addr, header.sh_offset as usize)
}

/// Hooks every guest instruction in the file; returns how many.
fn hook_everything(program: &Path, bias: u64) -> usize {
    let original = std::fs::read(program).expect("readable");
    let mut patched = original.clone();
    let module = Module::parse(&original).expect("parses");
    let (slots, slots_offset) = file_offset(&module, ".slots");
    let (_, hooks_offset) = file_offset(&module, ".hooks");
    let mut used = 0;
    let instructions = guest_instructions(&module);
    for (index, (vaddr, code)) in instructions.iter().enumerate() {
        let slot = bias + slots + used as u64;
        let displaced = displace(code, bias + vaddr, slot).expect("displaces");
        patched[slots_offset + used..][..displaced.bytes.len()].copy_from_slice(&displaced.bytes);
        used += displaced.bytes.len().next_multiple_of(16);
        let entry = &mut patched[hooks_offset + index * 16..][..16];
        entry[..8].copy_from_slice(&(bias + vaddr).to_le_bytes());
        entry[8..].copy_from_slice(&slot.to_le_bytes());
        let text = module.code_at(*vaddr).expect("is code");
        let text_offset = text.bytes.as_ptr().addr() - original.as_ptr().addr();
        patched[text_offset + (vaddr - text.vaddr) as usize] = 0xcc;
    }
    std::fs::write(program, patched).expect("writable");
    instructions.len()
}

#[test]
fn a_program_with_every_instruction_hooked_computes_the_same() {
    let dir = tempfile::tempdir().expect("temporary directory");
    for (flags, bias) in [
        (["-O2", "-no-pie"], 0),
        (["-O2", "-pie"], PIE_BASE),
        (["-O0", "-no-pie"], 0),
        (["-O0", "-pie"], PIE_BASE),
    ] {
        let program = compiled(dir.path(), &[&flags[..], &["-fcf-protection"]].concat());
        let before = output_of(&program);
        assert_eq!(String::from_utf8_lossy(&before.stderr).trim(), "0");
        assert!(hook_everything(&program, bias) > 200);
        let after = output_of(&program);
        assert_eq!(
            String::from_utf8_lossy(&after.stdout),
            String::from_utf8_lossy(&before.stdout),
            "{flags:?}"
        );
        let hits: usize = String::from_utf8_lossy(&after.stderr)
            .trim()
            .parse()
            .expect("a number");
        assert!(hits > 5000, "{flags:?}: {hits} hits");
    }
}
