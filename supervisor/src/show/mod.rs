//! Views of a trace, made from the trace file alone: no program, no peer and no network is needed to look at one.
//!
//! - `view.rs`: what every view shows: lanes, steps, and what follows from them
//! - `derive.rs`: locks held, waits, and which step had to come before which
//! - `html.rs`: one self-contained page with a space-time diagram
//! - `formats.rs`: mermaid, Perfetto (Chrome trace events), ShiViz

mod derive;
mod formats;
mod html;
mod view;

#[cfg(test)]
mod tests;

pub use formats::{chrome_trace, mermaid, shiviz};
pub use html::html;
pub use view::{Edge, Hold, Lane, Row, Verdict, View, Wait};
