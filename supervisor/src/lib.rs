//! See ARCHITECTURE.md.

pub mod hooks;
pub mod symbols;
