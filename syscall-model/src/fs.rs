//! The file system as the guest sees it: the host's files, read-only, under a copy-on-write overlay.

use crate::model::Config;

/// The files of this machine, read-only. The supervisor implements it with real files, tests with made-up ones.
pub trait Host {}

/// An open regular file, directory or device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpenFile {}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct FileSystem {}

impl FileSystem {
    pub fn new(_config: &Config) -> Self {
        Self::default()
    }

    /// Standard input, with the contents given in the configuration.
    pub fn stdin(&mut self, _config: &Config) -> OpenFile {
        OpenFile {}
    }

    /// The last reference to an open file is gone.
    pub fn closed(&mut self, _file: OpenFile) {}
}
