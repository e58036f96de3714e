//! tracefork: a software model checker for unmodified native Linux binaries.
//!
//! This crate ties the layers together: [`session`] drives one execution of the program under test, [`cli`] is
//! the command line, [`trace`] what is kept of a schedule. ARCHITECTURE.md is the map.
#![forbid(unsafe_code)]

pub mod check;
pub mod cli;
pub mod code;
pub mod core_file;
pub mod cores;
pub mod error;
pub mod execution;
pub mod gdb;
pub mod hooks;
pub mod masking;
pub mod network;
pub mod objects;
pub mod program;
pub mod report;
pub mod schedule;
pub mod session;
pub mod shim;
pub mod show;
pub mod sweep;
pub mod symbols;
pub mod trace;
pub mod watchdog;
pub mod watched;

pub use cli::main;
