//! `/proc/PID/maps`. The live process knows its memory; but what it shares with others, or with a file, is private memory there, without a name.

use crate::fs::FileSystem;
use crate::fs::shared::SharedMapping;
use std::ops::Range;

/// A path stands behind so many characters.
const COLUMN: usize = 72;

/// One line: addresses, and what is said of them.
struct Line {
    range: Range<u64>,
    rest: Vec<u8>,
}

/// The list of mappings with what is shared as the kernel would show it.
pub(super) fn with_shared(fs: &FileSystem, list: &[u8]) -> Vec<u8> {
    if fs.place.shared.is_empty() {
        return list.to_vec();
    }
    let lines = list.split_inclusive(|&byte| byte == b'\n').filter_map(parse);
    let mut lines: Vec<Line> = lines.flat_map(|line| without(line, fs)).collect();
    lines.extend(fs.place.shared.values().map(|mapping| shown(fs, mapping)));
    lines.sort_by_key(|line| line.range.start);
    let text = lines.into_iter().map(|line| {
        let addresses = format!("{:08x}-{:08x} ", line.range.start, line.range.end);
        [addresses.into_bytes(), line.rest].concat()
    });
    text.collect::<Vec<_>>().concat()
}

fn parse(line: &[u8]) -> Option<Line> {
    let space = line.iter().position(|&byte| byte == b' ')?;
    let (start, end) = std::str::from_utf8(&line[..space]).ok()?.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    Some(Line {
        range: number(start)?..number(end)?,
        rest: line[space + 1..].to_vec(),
    })
}

/// What is left of a line without what is shared: private memory beside it may have become one mapping with it.
fn without(line: Line, fs: &FileSystem) -> Vec<Line> {
    let mut left = Vec::new();
    let mut from = line.range.start;
    let meets = |mapping: &&SharedMapping| mapping.meets(line.range.start, line.range.end);
    for mapping in fs.place.shared.values().filter(meets) {
        left.push(from..mapping.addr.max(from));
        from = mapping.end().max(from);
    }
    left.push(from..line.range.end.max(from));
    let kept = left.into_iter().filter(|range| !range.is_empty());
    kept.map(|range| Line {
        range,
        rest: line.rest.clone(),
    })
    .collect()
}

fn shown(fs: &FileSystem, mapping: &SharedMapping) -> Line {
    let has = |bit, letter| if mapping.prot & bit != 0 { letter } else { '-' };
    let (device, inode) = fs.key(&mapping.node).unwrap_or_default();
    let head = format!(
        "{}{}{}s {:08x} {:02x}:{:02x} {inode} ",
        has(libc::PROT_READ, 'r'),
        has(libc::PROT_WRITE, 'w'),
        has(libc::PROT_EXEC, 'x'),
        mapping.offset,
        libc::major(device),
        libc::minor(device),
    );
    // The addresses stand before it, each with at least eight digits.
    let digits = |address: u64| format!("{address:08x}").len();
    let before = digits(mapping.addr) + digits(mapping.end()) + 2;
    let pad = COLUMN.saturating_sub(before + head.len()) + 1;
    let rest = [head.as_bytes(), " ".repeat(pad).as_bytes(), &mapping.name, b"\n"].concat();
    Line {
        range: mapping.addr..mapping.end(),
        rest,
    }
}
