//! Where every step was, frame by frame, with the source around it. The trace does not hold this: it comes from executing the
//! schedule once more, for which the program must be there.

use super::view::View;
use failure::Failure;
use serde::Serialize;
use session::execution;
use session::{Options, Session};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use symbols::Frame;
use trace::Trace;

/// Source lines shown before and after one that a frame is at.
const AROUND: u32 = 4;

/// A frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct StackFrame {
    pub text: String,
    /// It is in the program's own code.
    pub own: bool,
    pub file: Option<String>,
    pub line: Option<u32>,
}

/// The lines of the source files that stacks refer to.
pub type Sources = BTreeMap<String, BTreeMap<u32, String>>;

/// Executes the trace again and adds to the view where each step was.
pub fn add_stacks(view: &mut View, options: Options, trace: &Trace) -> Result<(), Failure> {
    let directory = PathBuf::from(std::ffi::OsString::from(view.directory.clone()));
    let mut known: HashMap<Vec<StackFrame>, usize> = HashMap::new();
    let mut watch = |session: &Session, at: u64, tid: u32| {
        let Some(row) = view.steps.get_mut(at as usize) else {
            return;
        };
        let stack: Vec<StackFrame> = session.explain().stack(tid).iter().map(frame).collect();
        if row.location.is_empty() {
            row.location = session.explain().location(tid);
        }
        let count = view.stacks.len();
        let index = *known.entry(stack.clone()).or_insert(count);
        if index == count {
            view.stacks.push(stack);
        }
        row.stack = Some(index);
    };
    let execution = execution::replay_watched(options, trace, None, &mut watch)?;
    execution.session.finish();
    view.sources = sources(&view.stacks, &directory);
    Ok(())
}

fn frame(frame: &Frame) -> StackFrame {
    let source = frame.source.as_ref();
    StackFrame {
        text: frame.to_string(),
        own: frame.is_own,
        file: source.map(|source| source.file.display().to_string()),
        line: source.and_then(|source| source.line),
    }
}

/// Sources of the program's own frames, as far as they are on this machine.
fn sources(stacks: &[Vec<StackFrame>], directory: &Path) -> Sources {
    let mut wanted: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for frame in stacks.iter().flatten().filter(|frame| frame.own) {
        if let (Some(file), Some(line)) = (&frame.file, frame.line) {
            wanted.entry(file).or_default().insert(line);
        }
    }
    let mut sources = Sources::new();
    for (file, lines) in wanted {
        let Ok(bytes) = std::fs::read(directory.join(file)) else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes);
        let shown = sources.entry(file.to_owned()).or_default();
        for (number, content) in (1u32..).zip(text.lines()) {
            if lines
                .range(number.saturating_sub(AROUND)..=number + AROUND)
                .next()
                .is_some()
            {
                shown.insert(number, content.to_owned());
            }
        }
    }
    sources
}
