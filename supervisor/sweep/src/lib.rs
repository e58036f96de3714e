//! `tracefork sweep`: many checks, one report.
//!
//! - `source.rs`, `file.rs`, `settings.rs`: the sweep file, with the place of everything in it
//! - `substitute.rs`, `plan.rs`: from the file to scenarios, one for every combination of a matrix
//! - `partition.rs`: one part of a sweep, for one of many machines; `merge.rs`: the parts together again
//! - `command.rs`, `scenario.rs`, `pool.rs`, `stop.rs`: running them
//! - `expect.rs`, `baseline.rs`, `record.rs`: what to think of what they found
//! - `journal.rs`: what is done, for `--resume`
//! - `progress.rs`, `report/`: telling people and their tools
//!
//! Each scenario is a `tracefork check` of its own, as a process: what one of them does to its memory, its signals or its cores does not concern
//! the others, and the command line is the only interface.
#![forbid(unsafe_code)]

pub mod baseline;
mod command;
mod expect;
mod file;
mod journal;
pub mod merge;
mod partition;
mod plan;
mod pool;
mod progress;
mod record;
pub mod report;
mod run;
mod scenario;
pub mod settings;
mod source;
mod stop;
mod substitute;

pub use expect::WORDS as EXPECT_WORDS;
pub use partition::Partition;
pub use plan::{Plan, Planned, Selection};
pub use run::{Sweep, default_results};
pub use source::Source;
