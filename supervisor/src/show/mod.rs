//! Views of a trace, made from the trace file alone: no program, no peer and no network is needed to look at one. Only stacks
//! are not in the trace.
//!
//! - `view.rs`: what every view shows: lanes, steps, and what follows from them
//! - `derive.rs`: locks held, waits, and which step had to come before which
//! - `stacks.rs`: stacks and source lines, by executing the trace once more
//! - `html.rs`: one self-contained page with a space-time diagram
//! - `formats.rs`: mermaid, Perfetto (Chrome trace events), ShiViz

mod derive;
mod formats;
mod html;
mod stacks;
mod view;

#[cfg(test)]
mod tests;

pub use formats::{chrome_trace, mermaid, shiviz};
pub use html::html;
pub use stacks::{Sources, StackFrame, add_stacks};
pub use view::{Edge, Hold, Lane, Row, Verdict, View, Wait};
