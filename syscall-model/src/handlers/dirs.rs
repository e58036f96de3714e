//! Reading directories and links, and the working directory.

use crate::call::Call;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId};
use crate::fs::{Class, Entry, NodeId, data};
use crate::handlers::{attributes, identity, paths};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use std::sync::Arc;
use syscalls::Errno;

pub fn prepare_getdents(cx: &Cx, call: &Call) -> Prepared {
    match cx.model.files.lookup(call.fd(0)) {
        Err(_) => Prepared::visible(vec![Touch::read(Object::FdTable)]),
        Ok((ofd, _)) => Prepared::visible(super::io::touches(cx.model, ofd, false, false)),
    }
}

pub fn getdents(cx: &mut Cx, call: &Call) -> Outcome {
    list(cx, call, old_record)
}

pub fn getdents64(cx: &mut Cx, call: &Call) -> Outcome {
    list(cx, call, record)
}

/// `struct linux_dirent64`; `next` is the offset to go on from.
fn record(entry: &Entry, next: u64) -> Vec<u8> {
    let len = (19 + entry.name.len() + 1).next_multiple_of(8);
    let mut out = Vec::with_capacity(len);
    out.extend(entry.ino.to_le_bytes());
    out.extend(next.to_le_bytes());
    out.extend((len as u16).to_le_bytes());
    out.push((entry.file_type >> 12) as u8);
    out.extend(&entry.name);
    out.resize(len, 0);
    out
}

/// `struct linux_dirent`: the type comes in the last byte.
fn old_record(entry: &Entry, next: u64) -> Vec<u8> {
    let len = (18 + entry.name.len() + 2).next_multiple_of(8);
    let mut out = Vec::with_capacity(len);
    out.extend(entry.ino.to_le_bytes());
    out.extend(next.to_le_bytes());
    out.extend((len as u16).to_le_bytes());
    out.extend(&entry.name);
    out.resize(len - 1, 0);
    out.push((entry.file_type >> 12) as u8);
    out
}

fn list(cx: &mut Cx, call: &Call, record: fn(&Entry, u64) -> Vec<u8>) -> Outcome {
    let (ofd, description) = cx.model.files.lookup(call.fd(0))?;
    let Kind::File(file) = &description.kind else {
        return Err(Errno::ENOTDIR);
    };
    match file.class {
        Class::Directory => {}
        _ => return Err(Errno::ENOTDIR),
    }
    let start = file.offset;
    let entries = match &file.listing {
        Some(entries) if start > 0 => entries.clone(),
        _ => snapshot(cx, ofd, &file.node.clone())?,
    };
    // The kernel counts down from it as a signed number.
    let room = usize::try_from(call.int(2)).unwrap_or(0);
    let (mut written, mut at) = (0, start);
    for entry in entries.iter().skip(start as usize) {
        let bytes = record(entry, at + 1);
        let refused = if written + bytes.len() > room {
            Err(Errno::EINVAL)
        } else {
            cx.mem
                .write(call.word(1).wrapping_add(written as u64), &bytes)
                .map_err(Errno::from)
        };
        match refused {
            Ok(()) => {}
            // What could be told has been.
            Err(_) if written > 0 => break,
            Err(errno) => return Err(errno),
        }
        written += bytes.len();
        at += 1;
    }
    data::set_offset(cx, ofd, at);
    Ok(Effect::Done(written as i64))
}

/// Lists a directory, `.` and `..` first, and keeps the list with the description.
fn snapshot(cx: &mut Cx, ofd: OfdId, node: &NodeId) -> Result<Arc<[Entry]>, Errno> {
    let view = cx.view();
    let own = view.attributes(node)?;
    if own.nlink == 0 {
        return Err(Errno::ENOENT);
    }
    let parent = view.attributes(&view.parent(node)?)?;
    let dots = [(b".".as_slice(), own.ino), (b"..", parent.ino)];
    let entries: Arc<[Entry]> = dots
        .into_iter()
        .map(|(name, ino)| Entry {
            name: name.to_vec(),
            ino,
            file_type: libc::S_IFDIR,
        })
        .chain(view.list(node)?)
        .collect();
    if let Some(description) = cx.model.files.get_mut(ofd)
        && let Kind::File(file) = &mut description.kind
    {
        file.listing = Some(entries.clone());
    }
    Ok(entries)
}

pub fn prepare_readlink(cx: &Cx, call: &Call) -> Prepared {
    Prepared::visible(paths::reads(cx, libc::AT_FDCWD, call.word(0), false))
}

pub fn prepare_readlinkat(cx: &Cx, call: &Call) -> Prepared {
    Prepared::visible(paths::reads(cx, call.fd(0), call.word(1), false))
}

fn read_link(cx: &mut Cx, node: &NodeId, buffer: u64, size: i32) -> Outcome {
    if size <= 0 {
        return Err(Errno::EINVAL);
    }
    if !cx.view().attributes(node)?.is_symlink() {
        return Err(Errno::EINVAL);
    }
    let mut target = cx.view().read_link(node)?;
    target.truncate(size as usize);
    cx.mem.write(buffer, &target)?;
    Ok(Effect::Done(target.len() as i64))
}

pub fn readlink(cx: &mut Cx, call: &Call) -> Outcome {
    if call.int(2) <= 0 {
        return Err(Errno::EINVAL);
    }
    let node = paths::node_at(cx, libc::AT_FDCWD, call.word(0), libc::AT_SYMLINK_NOFOLLOW)?;
    read_link(cx, &node, call.word(1), call.int(2))
}

pub fn readlinkat(cx: &mut Cx, call: &Call) -> Outcome {
    if call.int(3) <= 0 {
        return Err(Errno::EINVAL);
    }
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
    let is_empty = cx.mem.read_path(call.word(1))?.is_empty();
    let node = paths::node_at(cx, call.fd(0), call.word(1), flags)?;
    match read_link(cx, &node, call.word(2), call.int(3)) {
        Err(Errno::EINVAL) if is_empty => Err(Errno::ENOENT),
        outcome => outcome,
    }
}

/// The working directory belongs to all threads.
pub fn prepare_chdir(cx: &Cx, call: &Call) -> Prepared {
    let mut touches = paths::reads(cx, libc::AT_FDCWD, call.word(0), true);
    touches.push(Touch::write(Object::Process));
    Prepared::visible(touches)
}

pub fn prepare_fchdir(cx: &Cx, call: &Call) -> Prepared {
    let mut touches = attributes::descriptor_reads(cx, call.fd(0));
    touches.push(Touch::write(Object::Process));
    Prepared::visible(touches)
}

pub fn prepare_getcwd(_: &Cx, _: &Call) -> Prepared {
    Prepared::visible(vec![
        Touch::read(Object::Process),
        Touch::read(Object::FileSystem),
    ])
}

fn change_directory(cx: &mut Cx, node: NodeId) -> Outcome {
    let attributes = cx.view().attributes(&node)?;
    if !attributes.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    if !cx.view().permits(&attributes, 1) {
        return Err(Errno::EACCES);
    }
    cx.model.fs.set_cwd(node);
    Effect::ok()
}

pub fn chdir(cx: &mut Cx, call: &Call) -> Outcome {
    let node = paths::node_at(cx, libc::AT_FDCWD, call.word(0), 0)?;
    change_directory(cx, node)
}

pub fn fchdir(cx: &mut Cx, call: &Call) -> Outcome {
    let node = paths::node_of(cx, call.fd(0))?;
    change_directory(cx, node)
}

/// `chroot`. The working directory stays where it is.
pub fn chroot(cx: &mut Cx, call: &Call) -> Outcome {
    let node = paths::node_at(cx, libc::AT_FDCWD, call.word(0), 0)?;
    let attributes = cx.view().attributes(&node)?;
    if !attributes.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    if !cx.view().permits(&attributes, 1) {
        return Err(Errno::EACCES);
    }
    if !identity::is_root(cx) {
        return Err(Errno::EPERM);
    }
    let is_everything = cx.view().directory_path(&node)? == b"/";
    cx.model.fs.set_root((!is_everything).then_some(node));
    Effect::ok()
}

pub fn getcwd(cx: &mut Cx, call: &Call) -> Outcome {
    let view = cx.view();
    let mut path = view.directory_path(&view.cwd()?)?;
    let root = view.root_path()?;
    if root != b"/" {
        path = match path.strip_prefix(root.as_slice()) {
            Some(b"") => b"/".to_vec(),
            Some(below) if below.starts_with(b"/") => below.to_vec(),
            _ => [b"(unreachable)", path.as_slice()].concat(),
        };
    }
    path.push(0);
    if path.len() as u64 > call.word(1) {
        return Err(Errno::ERANGE);
    }
    cx.mem.write(call.word(0), &path)?;
    Ok(Effect::Done(path.len() as i64))
}
