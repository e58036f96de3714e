//! Whether a plain load or store is an atomic operation of the source language.

use super::stacks::Explain;
use std::ops::Range;
use symbols::{Frame, is_atomic_function, is_go_runtime};

/// Source files that are larger are not looked into.
const LARGEST: u64 = 8 << 20;

/// What C++ compilers call the byte that says whether a local static variable is initialised: it is looked at by a plain load.
const GUARD: &str = "guard variable for ";

impl<'a> Explain<'a> {
    /// Is the access of this instruction to this memory an atomic operation? `None` if there is no debug information to tell.
    pub fn is_atomic_access(self, site: u64, span: &Range<u64>) -> Option<bool> {
        let frames = self.frames_at(site);
        let variable = self.objects().name(span.start);
        let is_guard = variable.as_ref().is_some_and(|name| name.starts_with(GUARD));
        if is_guard || is_atomic_function(&frames) || is_go_runtime(&frames) {
            return Some(true);
        }
        for module in self.own_modules() {
            let objects = self.options.atomics.of(&module.path);
            let link_time = span.start.wrapping_sub(module.bias)..span.end.wrapping_sub(module.bias);
            if objects.has_object(&link_time) {
                return Some(true);
            }
        }
        let module = self.own_modules().find(|module| module.range.contains(&site))?;
        let objects = self.options.atomics.of(&module.path);
        if !objects.is_informed {
            return None;
        }
        let line = source_text(&frames);
        Some(line.is_some_and(|line| objects.is_said_by(&line, variable.as_deref(), span.end - span.start)))
    }

    /// Is there debug information for the code at this address?
    pub fn is_informed_at(self, address: u64) -> bool {
        let module = self.own_modules().find(|module| module.range.contains(&address));
        module.is_some_and(|module| self.options.atomics.of(&module.path).is_informed)
    }
}

/// The line of the innermost function whose source is known.
fn source_text(frames: &[Frame]) -> Option<String> {
    let source = frames.iter().find_map(|frame| frame.source.as_ref())?;
    let line = source.line?.checked_sub(1)? as usize;
    if std::fs::metadata(&source.file).ok()?.len() > LARGEST {
        return None;
    }
    let text = std::fs::read_to_string(&source.file).ok()?;
    text.lines().nth(line).map(str::to_owned)
}
