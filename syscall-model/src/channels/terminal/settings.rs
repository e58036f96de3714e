//! The settings of a terminal.

/// A control character that is switched off (`_POSIX_VDISABLE`).
const DISABLED: u8 = 0;

/// `struct termios` as `TCGETS` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    pub input: u32,
    pub output: u32,
    pub control: u32,
    pub local: u32,
    pub line: u8,
    pub characters: [u8; 19],
}

impl Default for Settings {
    /// As the kernel gives them to every new terminal.
    fn default() -> Self {
        let mut characters = [0; 19];
        for (at, value) in [
            (libc::VINTR, 0x03),
            (libc::VQUIT, 0x1c),
            (libc::VERASE, 0x7f),
            (libc::VKILL, 0x15),
            (libc::VEOF, 0x04),
            (libc::VMIN, 1),
            (libc::VSTART, 0x11),
            (libc::VSTOP, 0x13),
            (libc::VSUSP, 0x1a),
            (libc::VREPRINT, 0x12),
            (libc::VDISCARD, 0x0f),
            (libc::VWERASE, 0x17),
            (libc::VLNEXT, 0x16),
        ] {
            characters[at] = value;
        }
        Self {
            input: libc::ICRNL | libc::IXON,
            output: libc::OPOST | libc::ONLCR,
            control: libc::B38400 | libc::CS8 | libc::CREAD,
            local: libc::ISIG
                | libc::ICANON
                | libc::ECHO
                | libc::ECHOE
                | libc::ECHOK
                | libc::ECHOCTL
                | libc::ECHOKE
                | libc::IEXTEN,
            line: 0,
            characters,
        }
    }
}

impl Settings {
    pub const SIZE: usize = 36;

    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut raw = [0; Self::SIZE];
        for (i, word) in [self.input, self.output, self.control, self.local]
            .iter()
            .enumerate()
        {
            raw[4 * i..4 * i + 4].copy_from_slice(&word.to_le_bytes());
        }
        raw[16] = self.line;
        raw[17..].copy_from_slice(&self.characters);
        raw
    }

    pub fn decode(raw: &[u8; Self::SIZE]) -> Self {
        let word =
            |i: usize| u32::from_le_bytes([raw[4 * i], raw[4 * i + 1], raw[4 * i + 2], raw[4 * i + 3]]);
        let mut characters = [0; 19];
        characters.copy_from_slice(&raw[17..]);
        Self {
            input: word(0),
            output: word(1),
            control: word(2),
            local: word(3),
            line: raw[16],
            characters,
        }
    }

    pub(super) fn has(&self, local: u32) -> bool {
        self.local & local != 0
    }

    pub fn is_canonical(&self) -> bool {
        self.has(libc::ICANON)
    }

    pub(super) fn is(&self, byte: u8, which: usize) -> bool {
        byte != DISABLED && self.characters[which] == byte
    }

    /// `VMIN` and `VTIME`: how many bytes a raw read waits for, and for how many tenths of a second.
    pub fn least_and_tenths(&self) -> (usize, u8) {
        let [least, tenths] = [libc::VMIN, libc::VTIME].map(|at| self.characters[at]);
        (usize::from(least), tenths)
    }
}
