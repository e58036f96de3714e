//! Names for addresses: which variable a lock is.

use crate::Session;
use crate::code::Module;
use failure::Failure;
use goblin::elf::sym::STT_OBJECT;
use hooks::{LARGEST_MODULE, parse_elf};
use std::ops::Range;

/// The variables of the program's own modules.
#[derive(Default)]
pub struct Objects {
    /// Start, end, name; sorted.
    variables: Vec<(u64, u64, String)>,
}

impl Objects {
    /// Reads the symbol tables of these modules.
    pub fn of<'a>(modules: impl Iterator<Item = &'a Module>) -> Self {
        let mut variables = Vec::new();
        for module in modules {
            let Ok(file) = peers::read_bounded(&module.file, LARGEST_MODULE) else {
                continue;
            };
            let Ok(elf) = parse_elf(&file) else { continue };
            let named = elf
                .syms
                .iter()
                .filter(|sym| sym.st_type() == STT_OBJECT && sym.st_size > 0);
            variables.extend(named.filter_map(|sym| {
                let name = elf.strtab.get_at(sym.st_name)?;
                let start = sym.st_value.wrapping_add(module.bias);
                Some((start, start.checked_add(sym.st_size)?, symbols::demangled(name)))
            }));
        }
        variables.sort();
        Self { variables }
    }

    /// The variable at an address, with the offset into it.
    pub fn name(&self, address: u64) -> Option<String> {
        let after = self.variables.partition_point(|(start, ..)| *start <= address);
        let (start, _, name) = self.variables[..after]
            .last()
            .filter(|(_, end, _)| address < *end)?;
        Some(if address == *start {
            name.clone()
        } else {
            format!("{name}+{}", address - start)
        })
    }
}

/// The memory that `--aux` names: a variable, a section of the program, or `ADDRESS+LENGTH`.
pub fn resolve_all(names: &[String], session: &Session) -> Result<Vec<Range<u64>>, Failure> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let objects = Objects::of(session.explain().own_modules());
    names
        .iter()
        .map(|name| resolve(name, &objects, session))
        .collect()
}

fn resolve(name: &str, objects: &Objects, session: &Session) -> Result<Range<u64>, Failure> {
    if let Some(range) = literal(name) {
        return Ok(range);
    }
    if let Some((start, end, _)) = objects.variables.iter().find(|(.., variable)| variable == name) {
        return Ok(*start..*end);
    }
    for module in session.explain().own_modules() {
        let Ok(file) = peers::read_bounded(&module.file, LARGEST_MODULE) else {
            continue;
        };
        let Ok(elf) = parse_elf(&file) else { continue };
        let section = elf
            .section_headers
            .iter()
            .find(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(name) && s.sh_addr != 0);
        if let Some(section) = section {
            let start = section.sh_addr.wrapping_add(module.bias);
            return Ok(start..start.saturating_add(section.sh_size));
        }
    }
    Err(Failure::usage(format!(
        "--aux {name}: no variable or section of that name, and not ADDRESS+LENGTH"
    ))
    .hint("variables need a symbol table (nm PROGRAM); sections are listed by readelf -S"))
}

fn literal(text: &str) -> Option<Range<u64>> {
    let (start, len) = text.split_once('+')?;
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let (start, len) = (number(start)?, number(len)?);
    Some(start..start.checked_add(len)?)
}
