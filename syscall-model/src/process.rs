//! The identity and limits of the process.

use crate::model::Config;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// The virtual process id; also the id of the first thread.
    pub pid: u32,
}

impl Process {
    pub fn new(config: &Config) -> Self {
        Self { pid: config.pid }
    }

    /// A new program runs in the process.
    pub fn exec(&mut self, _program: &[u8]) {}
}
