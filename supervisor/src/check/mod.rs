//! `tracefork check`: every schedule.
//!
//! - `system.rs`: the program under test as a [`System`](explore::System) that the engine drives
//! - `properties.rs`: what counts as a violation, and outcomes
//! - `judge.rs`: what an execution has come to; `recovery.rs`: after a kill or a power failure; `left_files.rs`: in its files
//! - `rounds.rs`: walks and searches in turn
//! - `scout/`: which memory threads share without an order, found out before the search
//! - `stages.rs`: which searches to make where the user leaves it to us
//! - `suspicions.rs`: deadlocks of some threads that others might end
//! - `by_preemption.rs`: outcomes that only a preemption brings about
//! - `coverage.rs`: what a verdict covers and assumes
//! - `progress.rs`: how it is going
//! - `graph.rs`: the explored states, for Graphviz; `graph_page.rs`: as a page
//! - `counterexample.rs`: from a violating path to a trace and a table that people can read

pub mod by_preemption;
pub mod counterexample;
pub mod coverage;
pub mod graph;
mod graph_page;
pub mod judge;
pub mod left_files;
pub mod progress;
pub mod properties;
pub mod recovery;
pub mod rounds;
pub mod scout;
pub mod stages;
pub mod suppressions;
pub mod suspicions;
pub mod system;

pub use judge::Judge;
pub use properties::{Ending, Properties, Violation, ViolationKind};
pub use system::{CheckSystem, CheckpointChoice};
