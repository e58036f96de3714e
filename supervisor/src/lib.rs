//! tracefork: a software model checker for unmodified native Linux binaries.
//!
//! This package is the command: [`cli`] reads the command line and tells what came of it, [`gdb`] serves a debugger, [`shim`] finds the program behind a
//! version manager's script. What they call stands in crates of its own, each with its story on its first page:
//!
//! - [`checker`]: every schedule; [`sweep`]: many checks, one report; [`views`]: a trace to look at
//! - [`session`]: one execution; [`trace`]: what is kept of one
//! - [`hooks`]: where a thread parks beyond system calls; [`symbols`]: names, lines and stacks; [`failure`]: what can stop the command
//!
//! ARCHITECTURE.md is the map.
#![forbid(unsafe_code)]

pub mod cli;
pub mod gdb;
pub mod shim;

pub use cli::main;

#[global_allocator]
static HEAP: tracee::Heap = tracee::Heap;
