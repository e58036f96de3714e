//! Colours, few of them: they lead the eye to the verdict. Printed through `anstream`, they reach terminals only, and none if
//! `NO_COLOR` is set.

use anstream::stream::IsTerminal;
use anstyle::{AnsiColor, Style};

pub const BOLD: Style = Style::new().bold();
pub const DIM: Style = Style::new().dimmed();
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
pub const BAD: Style = AnsiColor::Red.on_default().bold();
pub const UNSURE: Style = AnsiColor::Yellow.on_default().bold();

/// Whether standard error is to have colours, for what does not print through `anstream`.
pub fn on_stderr() -> bool {
    let stderr = std::io::stderr();
    stderr.is_terminal() && anstream::AutoStream::choice(&stderr) != anstream::ColorChoice::Never
}
