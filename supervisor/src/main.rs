//! The `tracefork` command.
fn main() {}
