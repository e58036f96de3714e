//! What the program saw of this machine's files, as a trace carries it.

use peers::bounded;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use syscall_model::fs::{Attributes, HostEntry};

/// No digest is made of files larger than this: it would take longer than the run.
const DIGESTED: u64 = 256 << 20;

/// No file system has larger files.
const LARGEST: u64 = i64::MAX as u64 >> 1;

/// What the machine answered to a question, or the number of the error.
pub type Answer<T> = Result<T, i32>;

/// The inputs of one execution, as a trace holds them; sorted, so that equal executions give equal bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRecord {
    #[serde(deserialize_with = "bounded::vec")]
    pub attributes: Vec<(Vec<u8>, Answer<Attributes>)>,
    #[serde(deserialize_with = "bounded::vec")]
    pub links: Vec<(Vec<u8>, Answer<Vec<u8>>)>,
    #[serde(deserialize_with = "bounded::vec")]
    pub listings: Vec<(Vec<u8>, Answer<Listing>)>,
    #[serde(deserialize_with = "bounded::vec")]
    pub files: Vec<(Vec<u8>, Answer<ContentRecord>)>,
    /// What the kernel mapped at `execve`, the dynamic linker above all: only this machine can provide it.
    #[serde(deserialize_with = "bounded::vec")]
    pub executed: Vec<(Vec<u8>, Option<[u8; 32]>)>,
}

/// The entries of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Listing(#[serde(deserialize_with = "bounded::vec")] pub Vec<HostEntry>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContentRecord {
    Carried(Vec<u8>),
    /// BLAKE3 of a file too large to carry; `None` if too large for that, too.
    Digest(Option<[u8; 32]>),
}

impl InputRecord {
    /// # Errors
    /// What no record of ours has.
    pub fn check(&self) -> Result<(), String> {
        fn errors<T>(answers: &[(Vec<u8>, Answer<T>)]) -> impl Iterator<Item = i32> {
            answers
                .iter()
                .filter_map(|(_, answer)| answer.as_ref().err().copied())
        }
        let mut all = errors(&self.attributes)
            .chain(errors(&self.links))
            .chain(errors(&self.listings))
            .chain(errors(&self.files));
        if let Some(errno) = all.find(|errno| !(1..=4095).contains(errno)) {
            return Err(format!("a question about a file was answered by error {errno}"));
        }
        let known = self
            .attributes
            .iter()
            .filter_map(|(_, answer)| answer.as_ref().ok());
        match known
            .map(|attributes| attributes.size)
            .find(|size| *size > LARGEST)
        {
            Some(size) => Err(format!("a file of {size} bytes")),
            None => Ok(()),
        }
    }

    /// Files that are not in the trace, as they were too large or are the kernel's to map, and are not here as they were.
    pub fn changed_files(&self) -> Vec<String> {
        let large = self.files.iter().filter_map(|(path, content)| match content {
            Ok(ContentRecord::Digest(recorded)) => Some((path, *recorded)),
            _ => None,
        });
        let executed = self.executed.iter().map(|(path, recorded)| (path, *recorded));
        let changed: BTreeSet<String> = large
            .chain(executed)
            .filter(|(path, recorded)| recorded.is_some() && digest(path) != *recorded)
            .map(|(path, _)| String::from_utf8_lossy(path).into_owned())
            .collect();
        changed.into_iter().collect()
    }
}

/// BLAKE3 of a file, unless it is too large for that, or cannot be read.
pub fn digest(path: &[u8]) -> Option<[u8; 32]> {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    if std::fs::metadata(path).ok()?.len() > DIGESTED {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    std::io::copy(&mut File::open(path).ok()?, &mut hasher).ok()?;
    Some(*hasher.finalize().as_bytes())
}
