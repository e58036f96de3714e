//! What the formats of `printf` and `scanf` say about memory: how long a text will be, and where values go.
//!
//! Asked before the call is made, so only what is certain counts: a text is at least so long, and values that are scanned are there to be scanned.

use super::ReadMemory;
use super::library::{MOST, string};
use std::ops::Range;

/// The arguments of a function that takes any number of them: six in registers, the others on the stack.
pub struct Arguments<'m> {
    pub registers: [u64; 6],
    /// Where the seventh is.
    pub stack: u64,
    pub memory: &'m dyn ReadMemory,
}

impl Arguments<'_> {
    fn get(&self, number: usize) -> Option<u64> {
        match self.registers.get(number) {
            Some(value) => Some(*value),
            None => {
                let above = (number - self.registers.len()) as u64;
                self.memory.read_u64(self.stack.checked_add(8 * above)?)
            }
        }
    }
}

/// One after the other.
struct Walk<'a> {
    text: &'a [u8],
    arguments: &'a Arguments<'a>,
    next: usize,
}

impl Walk<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.text.split_first()?;
        self.text = rest;
        Some(*first)
    }

    fn skip(&mut self, any_of: &[u8]) -> usize {
        let count = self.text.iter().take_while(|byte| any_of.contains(byte)).count();
        self.text = &self.text[count..];
        count
    }

    fn argument(&mut self) -> Option<u64> {
        self.next += 1;
        self.arguments.get(self.next - 1)
    }

    /// Digits; or, if `star` counts, the next argument.
    fn number(&mut self, star: bool) -> Option<u64> {
        if star && self.skip(b"*") > 0 {
            return self
                .argument()
                .map(|value| u64::from((value as i32).unsigned_abs()));
        }
        let count = self.text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.text.split_at(count);
        self.text = rest;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// Bytes of an integer, by the letters before the conversion.
    fn size(&mut self) -> u64 {
        let start = self.text;
        let count = self.skip(b"hlqLjzt");
        match &start[..count] {
            b"" => 4,
            b"h" => 2,
            b"hh" => 1,
            _ => 8,
        }
    }
}

/// How many bytes a format prints at least, without the end of the string. Its arguments begin with number `first`.
pub fn printed(format: &[u8], arguments: &Arguments, first: usize) -> u64 {
    let mut walk = Walk {
        text: format.strip_suffix(b"\0").unwrap_or(format),
        arguments,
        next: first,
    };
    let mut length = 0;
    while let Some(byte) = walk.byte() {
        length += match byte {
            b'%' => match conversion(&mut walk) {
                Some(more) => more,
                // Nothing is known of what follows.
                None => break,
            },
            _ => 1,
        };
    }
    length.min(MOST)
}

fn conversion(walk: &mut Walk) -> Option<u64> {
    walk.skip(b"-+ #0'I");
    let width = walk.number(true).unwrap_or(0);
    let precision = match walk.skip(b".") {
        0 => None,
        _ => Some(walk.number(true).unwrap_or(0)),
    };
    let size = walk.size();
    let digits = match walk.byte()? {
        b'%' => return Some(1),
        b'd' | b'i' => {
            let value = signed(walk.argument()?, size);
            value.unsigned_abs().to_string().len() + usize::from(value < 0)
        }
        b'u' => cut(walk.argument()?, size).to_string().len(),
        b'x' | b'X' => format!("{:x}", cut(walk.argument()?, size)).len(),
        b'o' => format!("{:o}", cut(walk.argument()?, size)).len(),
        b'c' => {
            walk.argument()?;
            1
        }
        b's' => {
            let at = walk.argument()?;
            let most = precision.unwrap_or(MOST).min(MOST);
            let text = string(at, most, walk.arguments.memory);
            let length = text.strip_suffix(b"\0").unwrap_or(&text).len();
            return Some((length as u64).max(width));
        }
        b'p' => {
            walk.argument()?;
            3
        }
        // In registers of their own.
        b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' => 1,
        _ => return None,
    };
    Some((digits as u64).max(precision.unwrap_or(0)).max(width))
}

fn cut(value: u64, size: u64) -> u64 {
    match size {
        8 => value,
        size => value & ((1 << (8 * size)) - 1),
    }
}

fn signed(value: u64, size: u64) -> i64 {
    match size {
        1 => i64::from(value as i8),
        2 => i64::from(value as i16),
        4 => i64::from(value as i32),
        _ => value as i64,
    }
}

/// Where a format puts what it scans, if all of it is there. Its arguments begin with number `first`.
pub fn scanned(format: &[u8], arguments: &Arguments, first: usize) -> Vec<Range<u64>> {
    let mut walk = Walk {
        text: format.strip_suffix(b"\0").unwrap_or(format),
        arguments,
        next: first,
    };
    let mut targets = Vec::new();
    while let Some(byte) = walk.byte() {
        if byte != b'%' || walk.skip(b"%") > 0 {
            continue;
        }
        let is_dropped = walk.skip(b"*") > 0;
        let width = walk.number(false);
        let is_allocated = walk.skip(b"m") > 0;
        let Some(length) = target(&mut walk, width) else {
            break;
        };
        if is_dropped {
            continue;
        }
        let Some(at) = walk.argument() else { break };
        let length = if is_allocated { 8 } else { length };
        targets.push(at..at.saturating_add(length));
    }
    targets
}

/// How many bytes the next conversion stores.
fn target(walk: &mut Walk, width: Option<u64>) -> Option<u64> {
    let modifiers = walk.text;
    let size = walk.size();
    let is_long_double = modifiers.starts_with(b"L");
    Some(match walk.byte()? {
        b'd' | b'i' | b'u' | b'o' | b'x' | b'X' | b'n' => size,
        b'p' => 8,
        b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' if is_long_double => 10,
        b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' => size,
        b'c' => width.unwrap_or(1).min(MOST),
        // One character at least, and the end.
        b's' => 2,
        b'[' => {
            walk.skip(b"^");
            // A bracket that comes first is one of the set.
            let first = usize::from(walk.text.starts_with(b"]"));
            let end = walk.text[first..].iter().position(|byte| *byte == b']')?;
            walk.text = &walk.text[first + end + 1..];
            2
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts at 0x1000, arguments beyond the sixth at 0x2000.
    fn memory(address: u64, buffer: &mut [u8]) -> Option<()> {
        let text = b"hello\0";
        let stack: [u64; 2] = [70_000, 0x5000];
        let stack: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
        for (index, byte) in buffer.iter_mut().enumerate() {
            let at = address + index as u64;
            *byte = match at {
                0x1000.. if at < 0x1100 => text.get((at - 0x1000) as usize).copied().unwrap_or(0),
                0x2000.. if at < 0x2010 => stack[(at - 0x2000) as usize],
                _ => return None,
            };
        }
        Some(())
    }

    fn arguments(registers: [u64; 6]) -> Arguments<'static> {
        Arguments {
            registers,
            stack: 0x2000,
            memory: &memory,
        }
    }

    #[test]
    fn a_text_is_as_long_as_its_parts() {
        let length = |format: &str, values: [u64; 4]| {
            let [a, b, c, d] = values;
            printed(format.as_bytes(), &arguments([0, 0, a, b, c, d]), 2)
        };
        assert_eq!(length("plain 100%%\0", [0; 4]), 10);
        assert_eq!(length("%d,%s\0", [-12i64 as u64, 0x1000, 0, 0]), 9);
        assert_eq!(length("%5d|%-3s|%.2s\0", [7, 0x1000, 0x1000, 0]), 14);
        assert_eq!(length("%x %c %ld %u %d\0", [255, 65, 1 << 40, 3]), 26);
        // What is a number in another register may be short.
        assert_eq!(length("%f;\0", [0; 4]), 2);
        assert_eq!(length("ab%1$d and more\0", [0; 4]), 2);
    }

    #[test]
    fn values_go_where_they_are_told() {
        let at = |format: &str| {
            let targets = scanned(format.as_bytes(), &arguments([0, 0, 0x10, 0x20, 0x30, 0x40]), 2);
            targets
                .into_iter()
                .map(|span| (span.start, span.end - span.start))
                .collect::<Vec<_>>()
        };
        assert_eq!(at("%d %ld\0"), [(0x10, 4), (0x20, 8)]);
        assert_eq!(at("%*d %hhd%% %3c\0"), [(0x10, 1), (0x20, 3)]);
        assert_eq!(at("%[^]a]:%ms %lf\0"), [(0x10, 2), (0x20, 8), (0x30, 8)]);
        assert_eq!(at("%d%d%d%d%d\0").last(), Some(&(70_000, 4)));
    }
}
