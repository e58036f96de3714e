//! How a backtrace looks.
//!
//! The reader wants to know where in *their* program it happened. So the program's own frames come first, marked `>`, with their true
//! depth; below them what the libraries did inside, shortened. Nothing is lost: the numbers show the real order.

use std::fmt::{self, Write};
use std::path::Path;

use super::Frame;

/// Library frames shown in full; the others are counted.
const LIBRARY_FRAMES: usize = 4;
/// Frames of the program shown in full: interpreters and recursions have hundreds.
const OWN_FRAMES: usize = 12;

impl fmt::Display for Frame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let module = self.module.as_deref().map(file_name);
        match (&self.function, &module) {
            (Some(function), _) => write!(out, "{function}")?,
            (None, Some(module)) => write!(out, "{module}+{:#x}", self.offset)?,
            (None, None) => write!(out, "{:#x}", self.address)?,
        }
        match (&self.source, &self.function, &module) {
            (Some(source), ..) => {
                write!(out, " at {}", source.file.display())?;
                if let Some(line) = source.line {
                    write!(out, ":{line}")?;
                }
            }
            (None, Some(_), Some(module)) => write!(out, "+{:#x} in {module}", self.offset)?,
            _ => {}
        }
        if self.is_inlined {
            write!(out, " (inlined)")
        } else {
            Ok(())
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

/// The backtrace as lines of text, each ending in a newline; `frames` are innermost first.
pub fn format_backtrace(frames: &[Frame]) -> String {
    let mut text = String::new();
    let numbered = || frames.iter().enumerate();
    let has_own = frames.iter().any(|frame| frame.is_own);
    for (depth, frame) in numbered().filter(|(_, frame)| frame.is_own).take(OWN_FRAMES) {
        push_line(&mut text, '>', depth, frame);
    }
    push_hidden(
        &mut text,
        numbered().filter(|(_, frame)| frame.is_own).count(),
        OWN_FRAMES,
        "",
    );
    let shown = if has_own { LIBRARY_FRAMES } else { frames.len() };
    for (depth, frame) in numbered().filter(|(_, frame)| !frame.is_own).take(shown) {
        push_line(&mut text, ' ', depth, frame);
    }
    push_hidden(
        &mut text,
        numbered().filter(|(_, frame)| !frame.is_own).count(),
        shown,
        "library ",
    );
    text
}

/// Says how many of `all` frames were left out when `shown` were printed.
fn push_hidden(text: &mut String, all: usize, shown: usize, whose: &str) {
    let hidden = all.saturating_sub(shown);
    if hidden > 0 {
        let plural = if hidden == 1 { "" } else { "s" };
        push(
            text,
            format_args!("       … and {hidden} more {whose}frame{plural}\n"),
        );
    }
}

fn push_line(text: &mut String, mark: char, depth: usize, frame: &Frame) {
    push(text, format_args!("{mark} #{depth:<3} {frame}\n"));
}

fn push(text: &mut String, line: fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(line);
}
