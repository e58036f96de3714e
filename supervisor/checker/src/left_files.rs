//! `--files`: the files that the program leaves behind, as a part of its outcomes.

use globset::GlobSet;
use regex::bytes::Regex;
use session::Session;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use syscall_model::fs::{self, Change, FileSystem, View};
use syscall_model::{Config, Model};
use trace::{Violation, ViolationKind};

/// Which files, and what must and must not be in them.
#[derive(Clone, Debug, Default)]
pub struct LeftFiles {
    /// Matched with whole paths, and with paths below the working directory.
    pub wanted: GlobSet,
    pub forbid: Vec<Regex>,
    pub require: Vec<Regex>,
}

/// Contents by path, as short as it can be said: below the working directory without it. `None`: the file was removed.
pub type Contents = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

impl LeftFiles {
    /// The wanted ones among the files that were made, changed or removed. `files`: as they are now, if somebody else came after the program.
    pub fn collect(&self, session: &Session, config: &Config, files: Option<&Arc<FileSystem>>) -> Contents {
        if self.wanted.is_empty() {
            return Contents::new();
        }
        let later = files.map(|files| Model::over(config, (**files).clone()));
        let view = View {
            model: later.as_ref().unwrap_or(session.model()),
            host: session.host(),
            tid: config.pid,
        };
        // What cannot be read was not changed by the program.
        let changes = fs::changes(&view).unwrap_or_default();
        let mut found = Contents::new();
        for (path, change) in changes {
            let short = path.strip_prefix(config.cwd.as_slice());
            let short = short.and_then(|rest| rest.strip_prefix(b"/")).unwrap_or(&path);
            let is_wanted = [path.as_slice(), short]
                .iter()
                .any(|name| self.wanted.is_match(Path::new(OsStr::from_bytes(name))));
            if !is_wanted {
                continue;
            }
            match change {
                Change::File { bytes, .. } => drop(found.insert(short.to_vec(), Some(bytes))),
                // What takes the place of something removed comes behind it.
                Change::Removed => drop(found.insert(short.to_vec(), None)),
                Change::Directory { .. } | Change::Symlink(_) => {}
            }
        }
        found
    }

    /// What is wrong with them.
    pub fn violations(&self, found: &Contents) -> Vec<Violation> {
        let named = |pattern: &Regex| {
            let mut files = found.iter();
            files.find_map(|(path, bytes)| pattern.is_match(bytes.as_deref()?).then_some(path))
        };
        let violation = |message| Violation {
            kind: ViolationKind::Output,
            message,
            thread: None,
        };
        let forbidden = self.forbid.iter().filter_map(|pattern| {
            let path = named(pattern)?.escape_ascii();
            Some(format!("the file {path} matches {pattern}, which is forbidden"))
        });
        let required = self.require.iter().filter(|pattern| named(pattern).is_none());
        let required = required.map(|pattern| format!("no file matches {pattern}, which is required"));
        forbidden.chain(required).map(violation).collect()
    }
}
