//! The line discipline between what is typed (written to the master of a pseudo-terminal) and what programs read.
//!
//! Canonical and raw input, echo, erasing, the characters that are signals, `\n` as `\r\n`.

use super::Settings;
use imbl::Vector;
use std::collections::VecDeque;

/// What the program has typed ahead at most; what comes after that has to wait.
const MOST_INPUT: usize = 65_536;
/// The longest line that is kept while it is edited; the rest of a longer one is lost, as in the kernel.
const LONGEST_LINE: usize = 4095;
/// What was written and nobody has read at most.
const MOST_OUTPUT: usize = 65_536;

/// What a byte of input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mark {
    Plain,
    /// The last of a line.
    End,
    /// The end of the file was typed: not read as a byte.
    EndOfFile,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Line {
    pub settings: Settings,
    input: VecDeque<(u8, Mark)>,
    /// How much of the input belongs to lines that are complete.
    complete: usize,
    /// The next byte is taken as it is.
    literal: bool,
    /// Written by programs or echoed, for the master.
    output: Vector<u8>,
    /// Where on the line the output stands, for erasing.
    column: usize,
}

impl Line {
    /// How many bytes a read would get, for `FIONREAD` and readiness.
    pub fn available(&self) -> usize {
        match self.settings.is_canonical() {
            true => self.complete,
            false => self.input.len(),
        }
    }

    /// Is there enough for a read?
    pub fn is_readable(&self) -> bool {
        let (least, tenths) = self.settings.least_and_tenths();
        match self.settings.is_canonical() || tenths > 0 {
            true => self.available() > 0,
            false => self.available() >= least.max(1),
        }
    }

    /// What the program reads: at most one line in canonical mode.
    pub fn read(&mut self, max: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut left = self.available();
        while out.len() < max && left > 0 {
            let Some((byte, mark)) = self.input.pop_front() else {
                break;
            };
            left -= 1;
            self.complete = self.complete.saturating_sub(1);
            if mark != Mark::EndOfFile {
                out.push(byte);
            }
            if mark != Mark::Plain && self.settings.is_canonical() {
                return out;
            }
        }
        // An end of file right behind what was asked for goes with it.
        if self.settings.is_canonical()
            && !out.is_empty()
            && self.complete > 0
            && self
                .input
                .front()
                .is_some_and(|(_, mark)| *mark == Mark::EndOfFile)
        {
            self.input.pop_front();
            self.complete -= 1;
        }
        out
    }

    pub fn output_available(&self) -> usize {
        self.output.len()
    }

    pub fn take_output(&mut self, max: usize) -> Vec<u8> {
        let rest = self.output.split_off(max.min(self.output.len()));
        std::mem::replace(&mut self.output, rest).into_iter().collect()
    }

    pub fn has_room_for_output(&self) -> bool {
        self.output.len() < MOST_OUTPUT
    }

    pub fn has_room_for_input(&self) -> bool {
        self.input.len() < MOST_INPUT
    }

    pub fn discard_input(&mut self) {
        self.input.clear();
        self.complete = 0;
        self.literal = false;
    }

    /// A program writes: how many bytes went in.
    pub fn write(&mut self, data: &[u8]) -> usize {
        let mut written = 0;
        for &byte in data {
            if !self.has_room_for_output() {
                break;
            }
            self.put(byte);
            written += 1;
        }
        written
    }

    /// One byte of output, processed as the settings say.
    fn put(&mut self, byte: u8) {
        let how = self.settings.output;
        if how & libc::OPOST == 0 {
            self.output.push_back(byte);
            return;
        }
        match byte {
            b'\n' if how & libc::ONLCR != 0 => {
                self.output.extend(*b"\r\n");
                self.column = 0;
            }
            b'\r' if how & libc::ONOCR != 0 && self.column == 0 => {}
            b'\r' if how & libc::OCRNL != 0 => {
                self.output.push_back(b'\n');
                self.column = if how & libc::ONLRET != 0 { 0 } else { self.column };
            }
            b'\t' if how & libc::TABDLY == libc::TAB3 => {
                let spaces = 8 - self.column % 8;
                self.output.extend(vec![b' '; spaces]);
                self.column += spaces;
            }
            b'a'..=b'z' if how & libc::OLCUC != 0 => {
                self.output.push_back(byte.to_ascii_uppercase());
                self.column += 1;
            }
            _ => {
                self.output.push_back(byte);
                self.column = match byte {
                    b'\r' => 0,
                    b'\n' if how & libc::ONLRET != 0 => 0,
                    b'\t' => (self.column / 8 + 1) * 8,
                    8 => self.column.saturating_sub(1),
                    0..32 | 127 => self.column,
                    _ => self.column + 1,
                };
            }
        }
    }

    /// Bytes are typed. The signals that they are, in order.
    pub fn type_in(&mut self, data: &[u8]) -> Vec<i32> {
        data.iter().filter_map(|&byte| self.receive(byte)).collect()
    }

    fn receive(&mut self, byte: u8) -> Option<i32> {
        let how = self.settings.input;
        let mut byte = if how & libc::ISTRIP != 0 {
            byte & 0x7f
        } else {
            byte
        };
        if std::mem::take(&mut self.literal) {
            self.keep(byte, Mark::Plain);
            return None;
        }
        if self.settings.has(libc::ISIG)
            && let Some(signo) = self.signal_of(byte)
        {
            if !self.settings.has(libc::NOFLSH) {
                // What was written before is on its way to the master already.
                self.discard_input();
            }
            self.echo(byte);
            return Some(signo);
        }
        if how & libc::IXON != 0
            && (self.settings.is(byte, libc::VSTART) || self.settings.is(byte, libc::VSTOP))
        {
            // Output is never held back: nobody could tell from being slow.
            return None;
        }
        match byte {
            b'\r' if how & libc::IGNCR != 0 => return None,
            b'\r' if how & libc::ICRNL != 0 => byte = b'\n',
            b'\n' if how & libc::INLCR != 0 => byte = b'\r',
            b'A'..=b'Z' if how & libc::IUCLC != 0 && self.settings.has(libc::IEXTEN) => {
                byte = byte.to_ascii_lowercase();
            }
            _ => {}
        }
        if self.settings.is_canonical() {
            self.edit(byte);
        } else {
            self.keep(byte, Mark::Plain);
        }
        None
    }

    fn signal_of(&self, byte: u8) -> Option<i32> {
        [
            (libc::VINTR, libc::SIGINT),
            (libc::VQUIT, libc::SIGQUIT),
            (libc::VSUSP, libc::SIGTSTP),
        ]
        .into_iter()
        .find_map(|(which, signo)| self.settings.is(byte, which).then_some(signo))
    }

    /// A byte in canonical mode.
    fn edit(&mut self, byte: u8) {
        let extended = self.settings.has(libc::IEXTEN);
        let is = |which| self.settings.is(byte, which);
        if is(libc::VERASE) {
            self.erase();
        } else if extended && is(libc::VWERASE) {
            self.erase_word();
        } else if is(libc::VKILL) {
            self.kill_line(byte);
        } else if extended && is(libc::VLNEXT) {
            self.literal = true;
            if self.settings.has(libc::ECHO) && self.settings.has(libc::ECHOCTL) {
                self.output.extend(*b"^\x08");
            }
        } else if extended && is(libc::VREPRINT) && self.settings.has(libc::ECHO) {
            self.echo(byte);
            self.put(b'\n');
            let line: Vec<u8> = self.edited().map(|(byte, _)| *byte).collect();
            line.into_iter().for_each(|byte| self.echo(byte));
        } else if byte == b'\n' {
            if self.settings.has(libc::ECHO) || self.settings.has(libc::ECHONL) {
                self.put(b'\n');
            }
            self.end_line(byte, Mark::End);
        } else if is(libc::VEOF) {
            self.end_line(byte, Mark::EndOfFile);
        } else if is(libc::VEOL) || extended && is(libc::VEOL2) {
            self.echo(byte);
            self.end_line(byte, Mark::End);
        } else {
            self.keep(byte, Mark::Plain);
        }
    }

    /// The line that is not complete yet.
    fn edited(&self) -> impl Iterator<Item = &(u8, Mark)> {
        self.input.range(self.complete..)
    }

    fn end_line(&mut self, byte: u8, mark: Mark) {
        self.input.push_back((byte, mark));
        self.complete = self.input.len();
    }

    fn keep(&mut self, byte: u8, mark: Mark) {
        let canonical = self.settings.is_canonical();
        if canonical && self.edited().count() >= LONGEST_LINE {
            return;
        }
        self.echo(byte);
        self.input.push_back((byte, mark));
    }

    /// Shows what was typed, if that is wanted; control characters as `^X`.
    fn echo(&mut self, byte: u8) {
        if !self.settings.has(libc::ECHO) {
            return;
        }
        match byte {
            b'\n' | b'\t' => self.put(byte),
            0..32 | 127 if self.settings.has(libc::ECHOCTL) => {
                self.put(b'^');
                self.put(byte ^ 0x40);
            }
            _ => self.put(byte),
        }
    }

    /// How wide a byte was echoed, as far as that is the same wherever it stands.
    fn width(&self, byte: u8) -> usize {
        match byte {
            0..32 | 127 if self.settings.has(libc::ECHOCTL) => 2,
            0..32 | 127 => 0,
            // The bytes of a character beyond the first.
            0x80..0xc0 if self.settings.input & libc::IUTF8 != 0 => 0,
            _ => 1,
        }
    }

    fn erase(&mut self) {
        loop {
            if self.input.len() <= self.complete {
                return;
            }
            let Some((byte, _)) = self.input.pop_back() else {
                return;
            };
            if self.settings.has(libc::ECHO) {
                self.show_erased(byte);
            }
            let continues = self.settings.input & libc::IUTF8 != 0 && (0x80..0xc0).contains(&byte);
            if !continues {
                return;
            }
        }
    }

    fn show_erased(&mut self, byte: u8) {
        if !self.settings.has(libc::ECHOE) {
            let shown = self.settings.characters[libc::VERASE];
            self.echo(shown);
            return;
        }
        for _ in 0..self.width(byte) {
            for byte in *b"\x08 \x08" {
                self.put(byte);
            }
        }
    }

    fn erase_word(&mut self) {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let mut seen = false;
        while let Some(&(byte, _)) = self.edited().last() {
            if seen && !is_word(byte) {
                break;
            }
            seen |= is_word(byte);
            self.erase();
        }
    }

    fn kill_line(&mut self, byte: u8) {
        if self.settings.has(libc::ECHOKE) && self.settings.has(libc::ECHOE) {
            while self.edited().next().is_some() {
                self.erase();
            }
            return;
        }
        self.input.truncate(self.complete);
        self.echo(byte);
        if self.settings.has(libc::ECHO) && self.settings.has(libc::ECHOK) {
            self.put(b'\n');
        }
    }

    /// Other settings. What was typed so far is taken as the new mode takes it.
    pub fn set(&mut self, settings: Settings) {
        let changes_mode = settings.is_canonical() != self.settings.is_canonical();
        self.settings = settings;
        if !changes_mode {
            return;
        }
        for (_, mark) in &mut self.input {
            *mark = Mark::Plain;
        }
        self.complete = 0;
        if self.settings.is_canonical()
            && let Some((_, mark)) = self.input.back_mut()
        {
            *mark = Mark::End;
            self.complete = self.input.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &mut Line, text: &[u8]) -> Vec<u8> {
        assert_eq!(line.type_in(text), []);
        line.take_output(1000)
    }

    #[test]
    fn lines_are_read_one_by_one_and_echoed() {
        let mut line = Line::default();
        assert_eq!(typed(&mut line, b"ab\rc"), b"ab\r\nc");
        assert_eq!(line.available(), 3);
        assert_eq!(line.read(100), b"ab\n");
        assert!(!line.is_readable());
        assert_eq!(typed(&mut line, b"\x7fd\x04"), b"\x08 \x08d");
        assert_eq!(line.read(100), b"d");
        typed(&mut line, b"\x04");
        assert!(line.is_readable());
        assert_eq!(line.read(100), b"");
    }

    #[test]
    fn words_and_lines_can_be_erased_and_bytes_taken_as_they_are() {
        let mut line = Line::default();
        typed(&mut line, b"one two \x17\n");
        assert_eq!(line.read(100), b"one \n");
        typed(&mut line, b"one\x15two\x16\x03\n");
        assert_eq!(line.read(100), b"two\x03\n");
    }

    #[test]
    fn some_characters_are_signals() {
        let mut line = Line::default();
        assert_eq!(line.type_in(b"lost\x03\x1a"), [libc::SIGINT, libc::SIGTSTP]);
        assert_eq!(line.take_output(100), b"lost^C^Z");
        assert_eq!(line.available(), 0);
    }

    #[test]
    fn raw_mode_gives_what_there_is() {
        let mut line = Line::default();
        typed(&mut line, b"ab");
        assert!(!line.is_readable());
        let mut raw = line.settings.clone();
        raw.local &= !(libc::ICANON | libc::ECHO | libc::ISIG);
        raw.characters[libc::VMIN] = 3;
        line.set(raw.clone());
        assert!(!line.is_readable() && line.available() == 2);
        assert_eq!(typed(&mut line, b"\x03"), b"");
        assert_eq!(line.read(2), b"ab");
        assert_eq!(Settings::decode(&raw.encode()), raw);
    }
}
