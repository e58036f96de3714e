//! Views of a trace, made from the trace file alone: no program, no peer and no network is needed to look at one. Only stacks
//! are not in the trace. And the picture of what a search has explored.
//!
//! - `text.rs`: the table of a trace, and a step in a few words
//! - `view.rs`: what every view shows: lanes, steps, and what follows from them
//! - `derive.rs`: locks held, waits, and which step had to come before which
//! - `messages.rs`: what was said to the peers and by them, at which step
//! - `stacks.rs`: stacks and source lines, by executing the trace once more
//! - `html.rs`: one self-contained page with a space-time diagram
//! - `mermaid.rs`, `perfetto.rs`, `shiviz.rs`: for other people's tools
//! - `pcap.rs`: the traffic as packets, for Wireshark and its kin
//! - `graph.rs`: the explored states, for Graphviz; `graph_page.rs`: as a page
#![forbid(unsafe_code)]

mod derive;
mod graph;
mod graph_page;
mod html;
mod mermaid;
mod messages;
mod pcap;
mod perfetto;
mod processes;
mod shiviz;
mod stacks;
mod text;
mod view;

#[cfg(test)]
mod tests;

pub use graph::{Graph, MAX_EDGES};
pub use html::html;
pub use mermaid::mermaid;
pub use messages::{Message, Peer, messages};
pub use pcap::pcap;
pub use perfetto::chrome_trace;
pub use processes::{Group, makes_process, process_of};
pub use shiviz::shiviz;
pub use stacks::{Sources, StackFrame, add_stacks};
pub use text::{label, table};
pub use view::{Edge, Hold, Lane, Row, Verdict, View, Wait};
