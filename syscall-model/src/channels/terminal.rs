//! A terminal: its two sides and whom it belongs to. Between the sides is the line discipline ([`Line`]); who may use it is in [`super::pty`].

mod line;
mod settings;

pub use line::Line;
pub use settings::Settings;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terminal {
    /// The number in `/dev/pts`.
    pub number: u32,
    pub locked: bool,
    /// Rows, columns and the size in pixels.
    pub size: [u16; 4],
    pub line: Line,
    /// Descriptions of the master; of the other side.
    pub masters: u32,
    pub slaves: u32,
    /// The other side was open and is so no longer.
    pub left: bool,
    /// How often it was hung up: those who had it open before have lost it, as the master was closed.
    pub hung_up: u32,
    /// The session that it controls.
    pub session: Option<u32>,
    /// The group that reads and writes.
    pub foreground: Option<u32>,
}

impl Terminal {
    /// A terminal as its master is opened.
    pub fn new(number: u32) -> Self {
        Self {
            number,
            locked: true,
            size: [0; 4],
            line: Line::default(),
            masters: 1,
            slaves: 0,
            left: false,
            hung_up: 0,
            session: None,
            foreground: None,
        }
    }
}
