//! `tracefork check`: every schedule.
//!
//! The search itself is the crate `explore`, one execution is the crate `session`. Here they come together: a [`CheckSystem`] is the program as the search drives it,
//! [`rounds`] and [`stages`] decide which searches are made, a [`Judge`] says what an end is worth, a violating path becomes a
//! [`counterexample`], and all of it a [`verdict`].
//!
//! - `system.rs`: the program under test as a [`System`](explore::System) that the engine drives
//! - `properties.rs`: what counts as a violation, and outcomes
//! - `judge.rs`: what an execution has come to; `recovery.rs`: after a kill or a power failure; `left_files.rs`: in its files
//! - `runtimes.rs`: what runtimes print of panics and uncaught exceptions
//! - `rounds.rs`: walks and searches in turn
//! - `scout/`: which memory threads share without an order, found out before the search
//! - `stages.rs`: which searches to make where the user leaves it to us
//! - `suspicions.rs`: deadlocks of some threads that others might end
//! - `endless.rs`: states from which no schedule ends
//! - `by_preemption.rs`: outcomes that only a preemption brings about
//! - `coverage.rs`: what a verdict covers and assumes
//! - `profile.rs`: where the states go; `alike.rs`: in what those differ that could be one
//! - `counterexample.rs`: from a violating path to a trace; `masking.rs`: without the secrets of the environment
//! - `verdict.rs`: from the result of a search to its report; `warnings.rs`: what may be wrong though nothing is violated
//! - `report.rs`: the report, as JSON
//! - `suppressions.rs`: data races that are not told
#![forbid(unsafe_code)]

pub mod alike;
pub mod by_preemption;
pub mod counterexample;
pub mod coverage;
pub mod endless;
pub mod judge;
pub mod left_files;
pub mod masking;
pub mod profile;
pub mod properties;
pub mod recovery;
pub mod report;
pub mod rounds;
pub mod runtimes;
pub mod scout;
pub mod stages;
pub mod suppressions;
pub mod suspicions;
pub mod system;
pub mod verdict;
pub mod warnings;

pub use judge::Judge;
pub use properties::{Ending, Properties};
pub use system::{CheckSystem, CheckpointChoice};
