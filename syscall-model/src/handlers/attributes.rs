//! What files look like: the `stat` and `access` families.

use crate::call::Call;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::Kind;
use crate::fs::{Attributes, Time, shows_others};
use crate::handlers::paths;
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use syscalls::Errno;

pub fn prepare_stat(cx: &Cx, call: &Call) -> Prepared {
    Prepared::visible(paths::reads(cx, libc::AT_FDCWD, call.word(0), true))
}

pub fn prepare_lstat(cx: &Cx, call: &Call) -> Prepared {
    Prepared::visible(paths::reads(cx, libc::AT_FDCWD, call.word(0), false))
}

/// What looking at the file behind descriptor `fd` touches.
pub fn descriptor_reads(cx: &Cx, fd: i32) -> Vec<Touch> {
    match cx.model.files.lookup_any(fd) {
        Err(_) => vec![Touch::read(Object::FdTable)],
        Ok((ofd, description)) => {
            let mut touches = vec![Touch::read(Object::Description(ofd))];
            if let Kind::File(file) = &description.kind {
                if shows_others(cx.model, &file.path) {
                    touches.push(Touch::read(Object::Everything));
                }
                touches.push(Touch::read(Object::Path(file.path.to_vec())));
            }
            touches
        }
    }
}

pub fn prepare_fstat(cx: &Cx, call: &Call) -> Prepared {
    Prepared::visible(descriptor_reads(cx, call.fd(0)))
}

/// `newfstatat`, `statx`, `faccessat2`: a descriptor, a path, and flags at position `flags`.
fn prepare_at(cx: &Cx, call: &Call, flags: i32) -> Prepared {
    if flags & libc::AT_EMPTY_PATH != 0 && call.fd(0) != libc::AT_FDCWD {
        return Prepared::visible(descriptor_reads(cx, call.fd(0)));
    }
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    Prepared::visible(paths::reads(cx, call.fd(0), call.word(1), follow))
}

pub fn prepare_newfstatat(cx: &Cx, call: &Call) -> Prepared {
    prepare_at(cx, call, call.int(3))
}

pub fn prepare_statx(cx: &Cx, call: &Call) -> Prepared {
    prepare_at(cx, call, call.int(2))
}

pub fn prepare_faccessat(cx: &Cx, call: &Call) -> Prepared {
    prepare_at(cx, call, 0)
}

pub fn prepare_faccessat2(cx: &Cx, call: &Call) -> Prepared {
    prepare_at(cx, call, call.int(3))
}

pub fn stat(cx: &mut Cx, call: &Call) -> Outcome {
    let node = paths::node_at(cx, libc::AT_FDCWD, call.word(0), 0)?;
    let attributes = cx.view().attributes(&node)?;
    write_stat(cx, call.word(1), &attributes)
}

pub fn lstat(cx: &mut Cx, call: &Call) -> Outcome {
    let node = paths::node_at(cx, libc::AT_FDCWD, call.word(0), libc::AT_SYMLINK_NOFOLLOW)?;
    let attributes = cx.view().attributes(&node)?;
    write_stat(cx, call.word(1), &attributes)
}

pub fn fstat(cx: &mut Cx, call: &Call) -> Outcome {
    let node = paths::node_of(cx, call.fd(0))?;
    let attributes = cx.view().attributes(&node)?;
    write_stat(cx, call.word(1), &attributes)
}

pub fn newfstatat(cx: &mut Cx, call: &Call) -> Outcome {
    const KNOWN: i32 = libc::AT_EMPTY_PATH
        | libc::AT_SYMLINK_NOFOLLOW
        | libc::AT_NO_AUTOMOUNT
        | libc::AT_STATX_FORCE_SYNC
        | libc::AT_STATX_DONT_SYNC;
    // Of a descriptor alone that is not asked.
    let is_descriptor = call.int(3) & libc::AT_EMPTY_PATH != 0
        && call.fd(0) >= 0
        && (call.word(1) == 0 || cx.mem.read_path(call.word(1)).is_ok_and(|path| path.is_empty()));
    if call.int(3) & !KNOWN != 0 && !is_descriptor {
        return Err(Errno::EINVAL);
    }
    let node = paths::node_at(cx, call.fd(0), call.word(1), call.int(3))?;
    let attributes = cx.view().attributes(&node)?;
    write_stat(cx, call.word(2), &attributes)
}

/// Builds a C structure field by field.
struct Packer(Vec<u8>);

impl Packer {
    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn padded(mut self, len: usize) -> Vec<u8> {
        self.0.resize(len, 0);
        self.0
    }
}

/// `struct stat` of x86-64.
fn write_stat(cx: &mut Cx, addr: u64, a: &Attributes) -> Outcome {
    let mut out = Packer(Vec::with_capacity(144));
    out.u64(a.dev);
    out.u64(a.ino);
    out.u64(a.nlink);
    out.u32(a.mode);
    out.u32(a.uid);
    out.u32(a.gid);
    out.u32(0);
    out.u64(a.rdev);
    out.u64(a.size);
    out.u64(a.blksize);
    out.u64(a.blocks);
    for time in [a.atime, a.mtime, a.ctime] {
        out.u64(time.sec as u64);
        out.u64(u64::from(time.nsec));
    }
    cx.mem.write(addr, &out.padded(144))?;
    Effect::ok()
}

pub fn statx(cx: &mut Cx, call: &Call) -> Outcome {
    const STATX_RESERVED: u32 = 0x8000_0000;
    const KNOWN: i32 = libc::AT_EMPTY_PATH
        | libc::AT_SYMLINK_NOFOLLOW
        | libc::AT_NO_AUTOMOUNT
        | libc::AT_STATX_FORCE_SYNC
        | libc::AT_STATX_DONT_SYNC;
    let both = libc::AT_STATX_FORCE_SYNC | libc::AT_STATX_DONT_SYNC;
    if call.int(2) & !KNOWN != 0 || call.uint(3) & STATX_RESERVED != 0 || call.int(2) & both == both {
        return Err(Errno::EINVAL);
    }
    let node = paths::node_at(cx, call.fd(0), call.word(1), call.int(2))?;
    let a = cx.view().attributes(&node)?;
    let mut out = Packer(Vec::with_capacity(256));
    out.u32(libc::STATX_BASIC_STATS);
    out.u32(a.blksize as u32);
    out.u64(0);
    out.u32(a.nlink as u32);
    out.u32(a.uid);
    out.u32(a.gid);
    out.u16(a.mode as u16);
    out.u16(0);
    out.u64(a.ino);
    out.u64(a.size);
    out.u64(a.blocks);
    out.u64(0);
    // No birth time: not in the mask.
    for time in [a.atime, Time::default(), a.ctime, a.mtime] {
        out.u64(time.sec as u64);
        out.u32(time.nsec);
        out.u32(0);
    }
    for device in [a.rdev, a.dev] {
        out.u32(libc::major(device));
        out.u32(libc::minor(device));
    }
    cx.mem.write(call.word(4), &out.padded(256))?;
    Effect::ok()
}

fn check_access(cx: &Cx, dirfd: i32, path: u64, want: i32, flags: i32) -> Outcome {
    if want & !7 != 0 {
        return Err(Errno::EINVAL);
    }
    cx.mem.read_path(path)?;
    let node = paths::node_at(cx, dirfd, path, flags)?;
    let attributes = cx.view().attributes(&node)?;
    if want != 0 && !attributes.is_symlink() && !cx.view().permits(&attributes, want as u32) {
        return Err(Errno::EACCES);
    }
    Effect::ok()
}

pub fn access(cx: &mut Cx, call: &Call) -> Outcome {
    check_access(cx, libc::AT_FDCWD, call.word(0), call.int(1), 0)
}

pub fn faccessat(cx: &mut Cx, call: &Call) -> Outcome {
    check_access(cx, call.fd(0), call.word(1), call.int(2), 0)
}

pub fn faccessat2(cx: &mut Cx, call: &Call) -> Outcome {
    const KNOWN: i32 = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW | libc::AT_EACCESS;
    if call.int(3) & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    check_access(cx, call.fd(0), call.word(1), call.int(2), call.int(3))
}
