//! The files of this machine as inputs: each question about them is put to the machine once, and the answer kept.
//!
//! So all executions of a search see the same files, whatever is written meanwhile next to them (our own traces, say), and
//! a trace can carry what the program saw: it replays where the files are others, or gone. [`Inputs`] is the memory that
//! executions share; [`Used`] is what one execution asked for.

use nix::sys::memfd::{MFdFlags, memfd_create};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use syscall_model::Errno;
use syscall_model::fs::{Attributes, Host, HostEntry, HostFile, RealHost};
use trace::{Answer, ContentRecord, InputRecord, Listing, digest};

/// Files up to this size are kept and carried whole; of larger ones traces tell the digest.
const CARRIED: usize = 64 << 10;
/// All that is kept: a program that reads a whole disk must not have us do the same.
const CARRIED_IN_ALL: usize = 32 << 20;
/// The device of files whose identity the program never saw; no real device has this number.
const UNSEEN_DEVICE: u64 = u64::MAX;

/// What this machine answered.
#[derive(Debug, Default)]
struct Memory {
    attributes: BTreeMap<Vec<u8>, Answer<Attributes>>,
    links: BTreeMap<Vec<u8>, Answer<Vec<u8>>>,
    listings: BTreeMap<Vec<u8>, Answer<Listing>>,
    files: BTreeMap<Vec<u8>, Answer<Content>>,
    /// Bytes in `files`.
    carried: usize,
    /// Files of which this machine no longer has what was recorded, as files that have no name.
    stand_ins: BTreeMap<Vec<u8>, File>,
    /// Programs that the program itself has written, by the name that they are mapped under.
    made: BTreeMap<Vec<u8>, (File, Arc<Vec<u8>>)>,
}

#[derive(Clone, Debug)]
enum Content {
    Carried(Arc<Vec<u8>>),
    /// Read from this machine each time, also for a trace that was recorded on another one.
    Large,
}

/// Answers of this machine, or of the one where a trace was recorded; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Inputs(Arc<Mutex<Memory>>);

/// What one execution asked for, each with what the program can have learnt.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// True where it saw more than type, permissions and identity.
    attributes: BTreeMap<Vec<u8>, bool>,
    links: BTreeSet<Vec<u8>>,
    listings: BTreeSet<Vec<u8>>,
    files: BTreeSet<Vec<u8>>,
    /// Files that the kernel has mapped at `execve`.
    executed: BTreeSet<Vec<u8>>,
}

/// What a file held whose place on this machine something else has taken, or nothing.
#[derive(Clone, Debug)]
pub struct StandIn {
    pub bytes: Arc<Vec<u8>>,
    /// Where this process, and no other, can open it.
    pub path: PathBuf,
}

impl StandIn {
    fn of(file: &File, bytes: Arc<Vec<u8>>) -> Self {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
        Self { bytes, path }
    }
}

impl Inputs {
    /// Answers as recorded; what was not asked then is answered by this machine.
    pub fn recorded(record: &InputRecord) -> Self {
        let files = record.files.iter().map(|(path, content)| {
            let content = content.as_ref().map_err(|errno| *errno).map(|c| match c {
                ContentRecord::Carried(bytes) => Content::Carried(Arc::new(bytes.clone())),
                ContentRecord::Digest(_) => Content::Large,
            });
            (path.clone(), content)
        });
        Self(Arc::new(Mutex::new(Memory {
            attributes: record.attributes.iter().cloned().collect(),
            links: record.links.iter().cloned().collect(),
            listings: record.listings.iter().cloned().collect(),
            files: files.collect(),
            carried: CARRIED_IN_ALL,
            stand_ins: BTreeMap::new(),
            made: BTreeMap::new(),
        })))
    }

    /// What an execution that asked for `used` depends on.
    pub fn record(&self, used: &Used) -> InputRecord {
        let memory = self.memory();
        let attributes = memory.attributes_of(&used.attributes);
        let files = used.files.iter().filter_map(|path| {
            let known = memory.files.get(path)?.as_ref();
            let content = known.map_err(|errno| *errno).map(|content| match content {
                Content::Carried(bytes) => ContentRecord::Carried(bytes.to_vec()),
                Content::Large => ContentRecord::Digest(digest(path)),
            });
            Some((path.clone(), content))
        });
        InputRecord {
            attributes,
            links: pick(&memory.links, &used.links),
            listings: pick(&memory.listings, &used.listings),
            files: files.collect(),
            executed: used
                .executed
                .iter()
                .map(|path| (path.clone(), digest(path)))
                .collect(),
        }
    }

    /// What is to be mapped in place of the file at `path`: what is kept of it, if this machine has something else there now.
    ///
    /// # Errors
    /// No memory for it.
    pub fn stand_in(&self, path: &Path) -> std::io::Result<Option<StandIn>> {
        let name = path.as_os_str().as_bytes();
        let mut memory = self.memory();
        if let Some((file, bytes)) = memory.made.get(name) {
            return Ok(Some(StandIn::of(file, Arc::clone(bytes))));
        }
        let Some(Ok(Content::Carried(bytes))) = memory.files.get(name) else {
            return Ok(None);
        };
        let bytes = Arc::clone(bytes);
        if !memory.stand_ins.contains_key(name) {
            let mut here = Vec::new();
            let limit = bytes.len() as u64 + 1;
            let is_read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut here));
            if is_read.is_ok() && here == *bytes {
                return Ok(None);
            }
            let mut file = File::from(memfd_create(c"tracefork", MFdFlags::MFD_CLOEXEC)?);
            file.write_all(&bytes)?;
            memory.stand_ins.insert(name.to_vec(), file);
        }
        let file = memory.stand_ins.get(name);
        Ok(file.map(|file| StandIn::of(file, bytes)))
    }

    /// A program that the program itself has written: the name under which it is found again, as what stands in for a file of that name. The same contents have the same name.
    ///
    /// # Errors
    /// No memory for it.
    pub fn made(&self, path: &[u8], contents: &[u8]) -> std::io::Result<PathBuf> {
        /// Of a long path the end tells more.
        const LONGEST: usize = 200;
        let digest = blake3::hash(contents).to_hex();
        let end = &path[path.len().saturating_sub(LONGEST)..];
        let name = [end, b"#", &digest.as_bytes()[..8]].concat();
        let mut memory = self.memory();
        if !memory.made.contains_key(&name) {
            let mut file = File::from(memfd_create(c"tracefork", MFdFlags::MFD_CLOEXEC)?);
            file.write_all(contents)?;
            memory
                .made
                .insert(name.clone(), (file, Arc::new(contents.to_vec())));
        }
        Ok(PathBuf::from(OsStr::from_bytes(&name)))
    }

    fn lstat(&self, path: &[u8]) -> Result<Attributes, Errno> {
        let mut memory = self.memory();
        remembered(&mut memory.attributes, path, || RealHost.lstat(path))
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut memory = self.memory();
        remembered(&mut memory.links, path, || RealHost.read_link(path))
    }

    fn read_dir(&self, path: &[u8]) -> Result<Vec<HostEntry>, Errno> {
        let mut memory = self.memory();
        let listing = remembered(&mut memory.listings, path, || {
            let mut entries = RealHost.read_dir(path)?;
            // The order is the file system's own affair.
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(Listing(entries))
        });
        listing.map(|listing| listing.0)
    }

    fn open(&self, path: &[u8]) -> Result<Arc<dyn HostFile>, Errno> {
        let mut memory = self.memory();
        let room = CARRIED_IN_ALL.saturating_sub(memory.carried);
        let mut taken = 0;
        let content = remembered(&mut memory.files, path, || {
            let content = read(path, room.min(CARRIED))?;
            if let Content::Carried(bytes) = &content {
                taken = bytes.len();
            }
            Ok(content)
        })?;
        memory.carried += taken;
        match content {
            Content::Carried(bytes) => Ok(bytes),
            Content::Large => RealHost.open(path),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Every change is one insertion: a thread that panicked left nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// Attributes as far as the program saw them. Inode numbers it never saw are told by the order of the paths: what counts
    /// is which names are the same file.
    fn attributes_of(&self, used: &BTreeMap<Vec<u8>, bool>) -> Vec<(Vec<u8>, Answer<Attributes>)> {
        let known = || {
            used.iter()
                .filter_map(|(path, seen)| Some((path, *seen, self.attributes.get(path)?)))
        };
        let identity = |a: &Attributes| (a.dev, a.ino);
        let seen: BTreeSet<(u64, u64)> = known()
            .filter_map(|(_, seen, answer)| answer.ok().filter(|_| seen))
            .map(|a| identity(&a))
            .collect();
        let mut numbers = BTreeMap::new();
        known()
            .map(|(path, is_seen, answer)| {
                let shown = answer.map(|full| {
                    let mut shown = if is_seen {
                        full
                    } else {
                        type_and_permissions(&full)
                    };
                    if !seen.contains(&identity(&full)) {
                        let next = numbers.len() as u64 + 1;
                        shown.ino = *numbers.entry(identity(&full)).or_insert(next);
                        shown.dev = UNSEEN_DEVICE;
                    }
                    shown
                });
                (path.clone(), shown)
            })
            .collect()
    }
}

/// The host that one execution sees.
#[derive(Clone, Debug)]
pub struct RecordingHost {
    inputs: Inputs,
    used: Arc<Mutex<Used>>,
}

impl RecordingHost {
    pub fn new(inputs: Inputs) -> Self {
        Self {
            inputs,
            used: Arc::default(),
        }
    }

    /// All inputs so far.
    pub fn record(&self) -> InputRecord {
        self.inputs.record(&self.used())
    }

    /// The kernel has mapped this file at `execve`.
    pub fn executed(&self, path: &Path) {
        self.used().executed.insert(path.as_os_str().as_bytes().to_vec());
    }

    /// See [`Inputs::stand_in`].
    ///
    /// # Errors
    /// No memory for it.
    pub fn stand_in(&self, path: &Path) -> std::io::Result<Option<StandIn>> {
        self.inputs.stand_in(path)
    }

    /// See [`Inputs::made`].
    ///
    /// # Errors
    /// No memory for it.
    pub fn made(&self, path: &[u8], contents: &[u8]) -> std::io::Result<PathBuf> {
        self.inputs.made(path, contents)
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for RecordingHost {
    fn lstat(&self, path: &[u8]) -> Result<Attributes, Errno> {
        insert(&mut self.used().attributes, path, true);
        self.inputs.lstat(path)
    }

    fn attributes(&self, path: &[u8]) -> Result<Attributes, Errno> {
        insert(&mut self.used().attributes, path, false);
        self.inputs.lstat(path)
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        self.used().links.insert(path.to_vec());
        self.inputs.read_link(path)
    }

    fn read_dir(&self, path: &[u8]) -> Result<Vec<HostEntry>, Errno> {
        self.used().listings.insert(path.to_vec());
        self.inputs.read_dir(path)
    }

    fn open(&self, path: &[u8]) -> Result<Arc<dyn HostFile>, Errno> {
        self.used().files.insert(path.to_vec());
        self.inputs.open(path)
    }
}

/// Looking once is enough to have seen.
fn insert(attributes: &mut BTreeMap<Vec<u8>, bool>, path: &[u8], seen: bool) {
    match attributes.get_mut(path) {
        Some(known) => *known |= seen,
        None => drop(attributes.insert(path.to_vec(), seen)),
    }
}

fn remembered<T: Clone>(
    known: &mut BTreeMap<Vec<u8>, Answer<T>>,
    path: &[u8],
    ask: impl FnOnce() -> Result<T, Errno>,
) -> Result<T, Errno> {
    if let Some(answer) = known.get(path) {
        return answer.clone().map_err(Errno::new);
    }
    let answer = ask();
    known.insert(path.to_vec(), answer.clone().map_err(|errno| errno.into_raw()));
    answer
}

fn pick<T: Clone>(
    known: &BTreeMap<Vec<u8>, Answer<T>>,
    used: &BTreeSet<Vec<u8>>,
) -> Vec<(Vec<u8>, Answer<T>)> {
    used.iter()
        .filter_map(|path| Some((path.clone(), known.get(path)?.clone())))
        .collect()
}

fn read(path: &[u8], longest: usize) -> Result<Content, Errno> {
    let file = RealHost.open(path)?;
    // One byte more tells whether that is all; a file may have no size and yet contents.
    let mut bytes = vec![0; longest + 1];
    let length = file.read_at(&mut bytes, 0)?;
    if length > longest {
        return Ok(Content::Large);
    }
    bytes.truncate(length);
    bytes.shrink_to_fit();
    Ok(Content::Carried(Arc::new(bytes)))
}

/// Times, sizes and link counts of directories change with every file that somebody puts there.
fn type_and_permissions(full: &Attributes) -> Attributes {
    Attributes {
        dev: full.dev,
        ino: full.ino,
        mode: full.mode,
        uid: full.uid,
        gid: full.gid,
        rdev: full.rdev,
        nlink: full.nlink.min(1),
        ..Attributes::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn bytes(path: &Path) -> Vec<u8> {
        path.as_os_str().as_bytes().to_vec()
    }

    fn contents(file: &Arc<dyn HostFile>) -> Vec<u8> {
        let mut out = vec![0; 100];
        let n = file.read_at(&mut out, 0).expect("it can be read");
        out.truncate(n);
        out
    }

    #[test]
    fn answers_stay_as_they_were_first() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (file, missing) = (directory.path().join("file"), directory.path().join("missing"));
        fs::write(&file, "before").expect("a file");
        let host = RecordingHost::new(Inputs::default());
        let look = |host: &RecordingHost| {
            let listed = host.read_dir(&bytes(directory.path())).expect("a directory");
            let size = host.lstat(&bytes(&file)).expect("a file").size;
            let text = contents(&host.open(&bytes(&file)).expect("it opens"));
            (listed.len(), size, text, host.lstat(&bytes(&missing)).err())
        };
        let first = look(&host);
        assert_eq!(first, (1, 6, b"before".to_vec(), Some(Errno::ENOENT)));
        fs::write(&file, "afterwards").expect("a file");
        fs::write(&missing, "").expect("a file");
        assert_eq!(look(&host), first);
        let elsewhere = RecordingHost::new(Inputs::recorded(&host.record()));
        fs::remove_file(&file).expect("it was there");
        assert_eq!(look(&elsewhere), first);
        assert_eq!(elsewhere.record(), host.record());
    }

    #[test]
    fn what_the_program_did_not_see_is_not_recorded() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = bytes(directory.path());
        let host = RecordingHost::new(Inputs::default());
        host.attributes(&path).expect("a directory");
        let before = host.record();
        fs::remove_dir(directory.path()).expect("it is empty");
        fs::create_dir(directory.path()).expect("a directory");
        fs::write(directory.path().join("file"), "").expect("a file");
        let later = RecordingHost::new(Inputs::default());
        later.attributes(&path).expect("a directory");
        assert_eq!(later.record(), before);
        later.lstat(&path).expect("a directory");
        assert_ne!(later.record(), before);
    }

    #[test]
    fn large_files_are_known_by_their_digest() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("large");
        fs::write(&file, vec![7; CARRIED + 1]).expect("a file");
        let host = RecordingHost::new(Inputs::default());
        host.open(&bytes(&file)).expect("it opens");
        let record = host.record();
        assert!(record.changed_files().is_empty());
        fs::write(&file, "other").expect("a file");
        assert_eq!(record.changed_files(), [file.display().to_string()]);
    }
}
