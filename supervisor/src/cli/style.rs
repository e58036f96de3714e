//! Colours, few of them: they lead the eye to the verdict. Printed through `anstream`, they reach terminals only, and none if
//! `NO_COLOR` is set.

use anstream::stream::IsTerminal;
use anstyle::{AnsiColor, Style};
use failure::Failure;
use std::io::Write as _;

pub const BOLD: Style = Style::new().bold();
pub const DIM: Style = Style::new().dimmed();
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
pub const BAD: Style = AnsiColor::Red.on_default().bold();
pub const UNSURE: Style = AnsiColor::Yellow.on_default().bold();

/// Prints text with colours.
pub fn print(text: &str) -> Result<(), Failure> {
    match anstream::stdout().write_all(text.as_bytes()) {
        // Whoever reads has read enough, as with `| head`.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|e| Failure::usage(format!("cannot write to standard output: {e}"))),
    }
}

/// Whether standard error is to have colours, for what does not print through `anstream`.
pub fn on_stderr() -> bool {
    let stderr = std::io::stderr();
    stderr.is_terminal() && anstream::AutoStream::choice(&stderr) != anstream::ColorChoice::Never
}
