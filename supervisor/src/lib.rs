//! See ARCHITECTURE.md.

pub mod hooks;
