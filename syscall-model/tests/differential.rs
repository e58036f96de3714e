//! Random file operations on the real kernel and on the model: same answers, same tree, and the same tree
//! again after the overlay is applied to the host's files.

mod support;

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use support::{DATA, Guest};
use syscall_model::fs::{RealHost, View, apply, changes, export};
use syscall_model::{Errno, GuestMemory, GuestMemoryExt, Sysno};

#[derive(Clone, Debug)]
enum Op {
    Open(usize, i32),
    Close(usize),
    Read(usize, usize),
    Write(usize, Vec<u8>),
    Seek(usize, i64, u8),
    Resize(usize, u64),
    Mkdir(usize),
    Rmdir(usize),
    Unlink(usize),
    Rename(usize, usize),
    Link(usize, usize),
    Symlink(usize, usize),
    Readlink(usize),
    Stat(usize),
    Lstat(usize),
    List(usize),
    Chmod(usize, u32),
}

const PATHS: &[&str] = &[
    "a", "b", "h", "d", "d/b", "d/a", "d/e", "d/e/f", "s", "s/a", "s/e/f", "d/l", "a/", "d/", "s/", "d/../a",
    "d/./b", "x/y", ".", "d/..", "a/b", "dangling", "e", "e/f", "e/b",
];

const FLAGS: &[i32] = &[
    libc::O_RDONLY,
    libc::O_RDWR,
    libc::O_WRONLY,
    libc::O_RDWR | libc::O_CREAT,
    libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
    libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC,
    libc::O_WRONLY | libc::O_APPEND,
    libc::O_RDONLY | libc::O_DIRECTORY,
    libc::O_RDONLY | libc::O_NOFOLLOW,
    libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW,
];

fn op() -> impl Strategy<Value = Op> {
    let path = || 0..PATHS.len();
    let slot = || 0..4_usize;
    prop_oneof![
        4 => (path(), 0..FLAGS.len()).prop_map(|(p, f)| Op::Open(p, FLAGS[f])),
        1 => slot().prop_map(Op::Close),
        3 => (slot(), 0..9000_usize).prop_map(|(s, n)| Op::Read(s, n)),
        4 => (slot(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(s, b)| Op::Write(s, b)),
        3 => (slot(), -5000..12000_i64, 0..3_u8).prop_map(|(s, by, w)| Op::Seek(s, by, w)),
        2 => (slot(), 0..12000_u64).prop_map(|(s, n)| Op::Resize(s, n)),
        2 => path().prop_map(Op::Mkdir),
        1 => path().prop_map(Op::Rmdir),
        2 => path().prop_map(Op::Unlink),
        3 => (path(), path()).prop_map(|(a, b)| Op::Rename(a, b)),
        1 => (path(), path()).prop_map(|(a, b)| Op::Link(a, b)),
        1 => (path(), path()).prop_map(|(a, b)| Op::Symlink(a, b)),
        1 => path().prop_map(Op::Readlink),
        2 => path().prop_map(Op::Stat),
        1 => path().prop_map(Op::Lstat),
        2 => path().prop_map(Op::List),
        1 => (path(), 0o600..0o777_u32).prop_map(|(p, m)| Op::Chmod(p, m)),
    ]
}

/// What an operation answers: bytes that both sides must agree on, or an error number.
type Answer = Result<Vec<u8>, i32>;

fn make_tree(root: &Path) {
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("a"), b"0123456789".repeat(1000)).unwrap();
    fs::write(root.join("d/b"), b"small").unwrap();
    fs::hard_link(root.join("a"), root.join("h")).unwrap();
    std::os::unix::fs::symlink("d", root.join("s")).unwrap();
    std::os::unix::fs::symlink("../a", root.join("d/l")).unwrap();
    std::os::unix::fs::symlink("nowhere", root.join("dangling")).unwrap();
}

struct Real<'a> {
    root: &'a Path,
    open: Vec<Option<fs::File>>,
}

impl Real<'_> {
    /// Joined by hand: `Path::join` would drop trailing slashes and dots.
    fn path(&self, i: usize) -> String {
        format!("{}/{}", self.root.display(), PATHS[i])
    }

    fn file(&mut self, slot: usize) -> Result<&mut fs::File, std::io::Error> {
        let bad = || std::io::Error::from_raw_os_error(libc::EBADF);
        self.open.get_mut(slot).and_then(Option::as_mut).ok_or_else(bad)
    }

    fn run(&mut self, op: &Op) -> Answer {
        self.try_run(op).map_err(|e| e.raw_os_error().unwrap_or(-1))
    }

    fn try_run(&mut self, op: &Op) -> std::io::Result<Vec<u8>> {
        let nothing = |()| Vec::new();
        match op {
            Op::Open(p, flags) => {
                let access = flags & libc::O_ACCMODE;
                let file = fs::OpenOptions::new()
                    .read(access != libc::O_WRONLY)
                    .write(access != libc::O_RDONLY)
                    .custom_flags(flags & !libc::O_ACCMODE)
                    .mode(0o644)
                    .open(self.path(*p))?;
                self.open.push(Some(file));
                Ok(Vec::new())
            }
            Op::Close(slot) => {
                self.file(*slot)?;
                self.open[*slot] = None;
                Ok(Vec::new())
            }
            Op::Read(slot, n) => {
                let mut bytes = vec![0; *n];
                let n = self.file(*slot)?.read(&mut bytes)?;
                bytes.truncate(n);
                Ok(bytes)
            }
            Op::Write(slot, bytes) => Ok(vec![self.file(*slot)?.write(bytes)? as u8]),
            Op::Seek(slot, by, whence) => {
                // Directories have offsets of the file system's own making.
                if self.file(*slot)?.metadata()?.is_dir() {
                    return Ok(Vec::new());
                }
                let to = match whence {
                    0 if *by < 0 => return Err(std::io::Error::from_raw_os_error(libc::EINVAL)),
                    0 => SeekFrom::Start(*by as u64),
                    1 => SeekFrom::Current(*by),
                    _ => SeekFrom::End(*by),
                };
                Ok(self.file(*slot)?.seek(to)?.to_le_bytes().to_vec())
            }
            Op::Resize(slot, n) => self.file(*slot)?.set_len(*n).map(nothing),
            Op::Mkdir(p) => fs::create_dir(self.path(*p)).map(nothing),
            Op::Rmdir(p) => fs::remove_dir(self.path(*p)).map(nothing),
            Op::Unlink(p) => fs::remove_file(self.path(*p)).map(nothing),
            Op::Rename(a, b) => fs::rename(self.path(*a), self.path(*b)).map(nothing),
            Op::Link(a, b) => fs::hard_link(self.path(*a), self.path(*b)).map(nothing),
            Op::Symlink(a, b) => std::os::unix::fs::symlink(PATHS[*a], self.path(*b)).map(nothing),
            Op::Readlink(p) => {
                use std::os::unix::ffi::OsStringExt;
                Ok(fs::read_link(self.path(*p))?.into_os_string().into_vec())
            }
            Op::Stat(p) => Ok(described(&fs::metadata(self.path(*p))?)),
            Op::Lstat(p) => Ok(described(&fs::symlink_metadata(self.path(*p))?)),
            Op::List(p) => {
                let mut names = fs::read_dir(self.path(*p))?
                    .map(|entry| entry.map(|entry| entry.file_name().into_string().unwrap_or_default()))
                    .collect::<Result<Vec<_>, _>>()?;
                names.sort();
                Ok(names.join(" ").into_bytes())
            }
            Op::Chmod(p, mode) => {
                fs::set_permissions(self.path(*p), fs::Permissions::from_mode(*mode)).map(nothing)
            }
        }
    }
}

fn described(meta: &fs::Metadata) -> Vec<u8> {
    description(meta.mode(), meta.size(), meta.nlink())
}

/// Sizes and link counts of directories are the file system's own business.
fn description(mode: u32, size: u64, nlink: u64) -> Vec<u8> {
    let kind = mode & libc::S_IFMT;
    match kind {
        libc::S_IFDIR => format!("{kind:o}"),
        _ => format!("{kind:o} {size} {nlink}"),
    }
    .into_bytes()
}

struct Modelled {
    guest: Guest<RealHost>,
    root: String,
    open: Vec<Option<i32>>,
}

impl Modelled {
    fn path(&mut self, argument: usize, i: usize) -> u64 {
        let path = format!("{}/{}", self.root, PATHS[i]);
        self.guest.path(argument, &path)
    }

    fn fd(&self, slot: usize) -> Result<i32, Errno> {
        self.open.get(slot).copied().flatten().ok_or(Errno::EBADF)
    }

    fn run(&mut self, op: &Op) -> Answer {
        self.try_run(op).map_err(|errno| errno.into_raw())
    }

    fn try_run(&mut self, op: &Op) -> Result<Vec<u8>, Errno> {
        let one = |this: &mut Self, sysno, p: usize, argument: u64| {
            let path = this.path(0, p);
            this.guest.call(sysno, &[path, argument]).map(|_| Vec::new())
        };
        let two = |this: &mut Self, sysno, a: usize, b: usize| {
            let (a, b) = (this.path(0, a), this.path(1, b));
            this.guest.call(sysno, &[a, b]).map(|_| Vec::new())
        };
        match op {
            Op::Open(p, flags) => {
                let path = self.path(0, *p);
                let fd = self
                    .guest
                    .call(Sysno::open, &[path, (*flags | libc::O_CLOEXEC) as u64, 0o644])?;
                self.open.push(Some(fd as i32));
                Ok(Vec::new())
            }
            Op::Close(slot) => {
                let fd = self.fd(*slot)?;
                self.open[*slot] = None;
                self.guest.close(fd).map(|()| Vec::new())
            }
            Op::Read(slot, n) => {
                let fd = self.fd(*slot)?;
                self.guest.read(fd, *n)
            }
            Op::Write(slot, bytes) => {
                let fd = self.fd(*slot)?;
                Ok(vec![self.guest.write(fd, bytes)? as u8])
            }
            Op::Seek(slot, by, whence) => {
                let fd = self.fd(*slot)? as u64;
                self.guest.call(Sysno::fstat, &[fd, DATA])?;
                let is_dir = self.guest.memory.read_u32(DATA + 24).unwrap() & libc::S_IFMT == libc::S_IFDIR;
                if is_dir {
                    return Ok(Vec::new());
                }
                let to = self
                    .guest
                    .call(Sysno::lseek, &[fd, *by as u64, u64::from(*whence)])?;
                Ok(to.to_le_bytes().to_vec())
            }
            Op::Resize(slot, n) => {
                let fd = self.fd(*slot)? as u64;
                self.guest.call(Sysno::ftruncate, &[fd, *n]).map(|_| Vec::new())
            }
            Op::Mkdir(p) => one(self, Sysno::mkdir, *p, 0o777),
            Op::Rmdir(p) => one(self, Sysno::rmdir, *p, 0),
            Op::Unlink(p) => one(self, Sysno::unlink, *p, 0),
            Op::Rename(a, b) => two(self, Sysno::rename, *a, *b),
            Op::Link(a, b) => two(self, Sysno::link, *a, *b),
            Op::Symlink(a, b) => {
                let (a, b) = (self.guest.path(0, PATHS[*a]), self.path(1, *b));
                self.guest.call(Sysno::symlink, &[a, b]).map(|_| Vec::new())
            }
            Op::Readlink(p) => {
                let path = self.path(0, *p);
                let n = self.guest.call(Sysno::readlink, &[path, DATA, 4096])?;
                Ok(self.guest.memory.read_vec(DATA, n as usize).unwrap())
            }
            Op::Stat(p) => self.stat(Sysno::stat, *p),
            Op::Lstat(p) => self.stat(Sysno::lstat, *p),
            Op::List(p) => self.list(*p),
            Op::Chmod(p, mode) => one(self, Sysno::chmod, *p, u64::from(*mode)),
        }
    }

    fn stat(&mut self, sysno: Sysno, p: usize) -> Result<Vec<u8>, Errno> {
        let path = self.path(0, p);
        self.guest.call(sysno, &[path, DATA])?;
        let memory = &self.guest.memory;
        let (mode, size) = (
            memory.read_u32(DATA + 24).unwrap(),
            memory.read_u64(DATA + 48).unwrap(),
        );
        Ok(description(mode, size, memory.read_u64(DATA + 16).unwrap()))
    }

    fn list(&mut self, p: usize) -> Result<Vec<u8>, Errno> {
        let path = self.path(0, p);
        let flags = (libc::O_RDONLY | libc::O_DIRECTORY) as u64;
        let fd = self.guest.call(Sysno::open, &[path, flags, 0])? as u64;
        let mut names = Vec::new();
        loop {
            let n = match self.guest.call(Sysno::getdents64, &[fd, DATA, 4096]) {
                Ok(0) => break,
                Ok(n) => n as u64,
                Err(errno) => {
                    self.guest.close(fd as i32)?;
                    return Err(errno);
                }
            };
            let mut at = 0;
            while at < n {
                let len = self.guest.memory.read_vec(DATA + at + 16, 2).unwrap();
                let name = self.guest.memory.read_cstr(DATA + at + 19, 256)?;
                at += u64::from(u16::from_le_bytes([len[0], len[1]]));
                if name != b"." && name != b".." {
                    names.push(String::from_utf8(name).unwrap());
                }
            }
        }
        self.guest.close(fd as i32)?;
        Ok(names.join(" ").into_bytes())
    }
}

/// Every path below `root` with what it holds.
fn tree(root: &Path) -> BTreeMap<String, String> {
    fn walk(root: &Path, at: &Path, out: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let what = if meta.is_dir() {
                walk(root, &path, out);
                "directory".to_owned()
            } else if meta.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else {
                let mode = meta.mode() & 0o777;
                {
                    let bytes = fs::read(&path).unwrap();
                    format!(
                        "{mode:o} {} bytes, {:x}",
                        bytes.len(),
                        xxhash_rust::xxh3::xxh3_64(&bytes)
                    )
                }
            };
            out.insert(path.strip_prefix(root).unwrap().display().to_string(), what);
        }
    }
    let mut out = BTreeMap::new();
    walk(root, root, &mut out);
    out
}

proptest! {
    #![proptest_config(test_seeds::property(400))]

    #[test]
    fn the_model_does_what_the_kernel_does(ops in prop::collection::vec(op(), 1..40)) {
        let (real_dir, host_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        make_tree(real_dir.path());
        make_tree(host_dir.path());
        let untouched = tree(host_dir.path());
        let root = host_dir.path().to_str().unwrap().to_owned();
        let mut real = Real { root: real_dir.path(), open: Vec::new() };
        let mut modelled = Modelled { guest: Guest::new(RealHost, &root), root, open: Vec::new() };
        for op in &ops {
            prop_assert_eq!(modelled.run(op), real.run(op), "{:?}", op);
        }
        prop_assert_eq!(&tree(host_dir.path()), &untouched, "the host is never written");
        let view = View { model: &modelled.guest.model, host: &RealHost, tid: 1000 };
        let changes = changes(&view).unwrap();
        apply(&changes).unwrap();
        prop_assert_eq!(tree(host_dir.path()), tree(real_dir.path()));
    }
}

#[test]
fn changes_can_be_exported_elsewhere() {
    let (host_dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(host_dir.path());
    let root = host_dir.path().to_str().unwrap().to_owned();
    let mut guest = Guest::new(RealHost, &root);
    let fd = guest
        .open("d/new", libc::O_CREAT | libc::O_WRONLY, 0o640)
        .unwrap();
    guest.write(fd, b"contents").unwrap();
    guest.memory.write(DATA, b"\0").unwrap();
    let view = View {
        model: &guest.model,
        host: &RealHost,
        tid: 1000,
    };
    export(&changes(&view).unwrap(), out.path()).unwrap();
    let exported = out.path().join(host_dir.path().strip_prefix("/").unwrap());
    assert_eq!(fs::read(exported.join("d/new")).unwrap(), b"contents");
    assert!(!host_dir.path().join("d/new").exists());
}
