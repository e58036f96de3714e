//! Extended attributes: those of users, which the program gives to files and finds again. A file of the machine begins without any.

use super::paths;
use crate::call::Call;
use crate::effect::{Effect, Outcome};
use crate::fd::Kind;
use crate::fs::{Bytes, NodeId};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use imbl::OrdMap;
use syscalls::{Errno, Sysno};

/// The longest name, and the longest value.
const NAME_MAX: usize = 255;
const SIZE_MAX: u64 = 65_536;
/// What all attributes of a file may take, as on ext4: a block, of which each has an entry, its name and its value, in words of four bytes.
const ROOM: usize = 4096 - 36;
const ENTRY: usize = 16;
/// How the names of those begin that can be given.
const OF_USERS: &[u8] = b"user.";
/// What every socket has.
const SOCKET_LIST: &[u8] = b"system.sockprotoname\0";

/// The file that a call is about.
fn node(cx: &Cx, call: &Call) -> Result<NodeId, Errno> {
    match call.sysno {
        Sysno::fsetxattr | Sysno::fgetxattr | Sysno::flistxattr | Sysno::fremovexattr => {
            cx.model.files.lookup(call.fd(0))?;
            paths::node_of(cx, call.fd(0))
        }
        Sysno::lsetxattr | Sysno::lgetxattr | Sysno::llistxattr | Sysno::lremovexattr => {
            paths::node_at(cx, libc::AT_FDCWD, call.word(0), libc::AT_SYMLINK_NOFOLLOW)
        }
        _ => paths::node_at(cx, libc::AT_FDCWD, call.word(0), 0),
    }
}

/// The name of an attribute: not empty, and not too long.
fn name(cx: &Cx, call: &Call) -> Result<Vec<u8>, Errno> {
    let name = cx.mem.read_cstr(call.word(1), NAME_MAX + 1);
    match name {
        Ok(name) if name.is_empty() => Err(Errno::ERANGE),
        Err(Errno::ENAMETOOLONG) => Err(Errno::ERANGE),
        name => name,
    }
}

/// May it be read or written, if it were there? Then: what becomes of a name of that kind.
fn check(cx: &Cx, node: &NodeId, name: &[u8], writes: bool) -> Result<(), Errno> {
    let attributes = cx.view().attributes(node)?;
    let hidden = if writes { Errno::EPERM } else { Errno::ENODATA };
    let is_root = cx.owner().0 == 0;
    if name.starts_with(b"trusted.") {
        return Err(if is_root { Errno::EOPNOTSUPP } else { hidden });
    }
    if name.starts_with(b"user.") && !attributes.is_regular() && !attributes.is_dir() {
        return Err(hidden);
    }
    let is_special = name.starts_with(b"security.") || name.starts_with(b"system.");
    let want = if writes { 2 } else { 4 };
    if !is_special && !cx.view().permits(&attributes, want) {
        return Err(Errno::EACCES);
    }
    // What has no inode of its own has nothing that could be protected.
    let has_inode = match node {
        NodeId::Open(ofd) => matches!(
            cx.model.files.get(*ofd).map(|d| &d.kind),
            Some(Kind::Socket(_) | Kind::PipeReader(_) | Kind::PipeWriter(_))
        ),
        _ => true,
    };
    if name.starts_with(b"security.") && writes && !is_root && has_inode {
        return Err(Errno::EPERM);
    }
    let has_attributes = !matches!(node, NodeId::Open(_));
    match name {
        b"user." | b"security." if has_attributes => Err(Errno::EINVAL),
        _ if has_attributes && (name.starts_with(b"user.") || name.starts_with(b"security.")) => Ok(()),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// `setxattr(path, name, value, size, flags)` and its kin.
pub fn set(cx: &mut Cx, call: &Call) -> Outcome {
    const KNOWN: i32 = libc::XATTR_CREATE | libc::XATTR_REPLACE;
    if call.int(4) & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let name = name(cx, call)?;
    if call.word(3) > SIZE_MAX {
        return Err(Errno::E2BIG);
    }
    let value = cx.mem.read_vec(call.word(2), call.word(3) as usize)?;
    let node = node(cx, call)?;
    check(cx, &node, &name, true)?;
    let had = given(cx, &node);
    let flags = call.int(4);
    match had.contains_key(name.as_slice()) {
        true if flags & libc::XATTR_CREATE != 0 => return Err(Errno::EEXIST),
        false if flags & libc::XATTR_REPLACE != 0 => return Err(Errno::ENODATA),
        _ => {}
    }
    if !name.starts_with(OF_USERS) {
        return Err(Errno::EOPNOTSUPP);
    }
    let has = had.update(name.into(), value.into());
    let taken = |(name, value): (&Bytes, &Bytes)| {
        let name = name.len() - OF_USERS.len();
        ENTRY + name.next_multiple_of(4) + value.len().next_multiple_of(4)
    };
    if has.iter().map(taken).sum::<usize>() > ROOM {
        return Err(Errno::ENOSPC);
    }
    give(cx, &node, has)
}

/// The attributes that a file has got.
fn given(cx: &Cx, node: &NodeId) -> OrdMap<Bytes, Bytes> {
    match cx.model.fs.current(node) {
        NodeId::Overlay(ino) => cx.model.fs.node(ino).extended.clone(),
        _ => OrdMap::new(),
    }
}

fn give(cx: &mut Cx, node: &NodeId, has: OrdMap<Bytes, Bytes>) -> Outcome {
    let now = cx.file_time();
    let ino = cx.model.fs.copy_up(cx.host, node)?;
    let node = cx.model.fs.node_mut(ino);
    node.extended = has;
    node.attributes.ctime = now;
    Effect::ok()
}

/// Hands over a value or a list, or tells its length where no room is given for it.
fn hand_over(cx: &mut Cx, bytes: &[u8], addr: u64, size: u64) -> Outcome {
    match size {
        0 => {}
        size if size < bytes.len() as u64 => return Err(Errno::ERANGE),
        _ if bytes.is_empty() => {}
        _ => cx.mem.write(addr, bytes)?,
    }
    Ok(Effect::Done(bytes.len() as i64))
}

/// `getxattr(path, name, value, size)` and its kin.
pub fn get(cx: &mut Cx, call: &Call) -> Outcome {
    let name = name(cx, call)?;
    let node = node(cx, call)?;
    check(cx, &node, &name, false)?;
    let value = given(cx, &node).get(name.as_slice()).cloned();
    hand_over(cx, &value.ok_or(Errno::ENODATA)?, call.word(2), call.word(3))
}

/// `listxattr(path, list, size)` and its kin.
pub fn list(cx: &mut Cx, call: &Call) -> Outcome {
    let node = node(cx, call)?;
    cx.view().attributes(&node)?;
    let is_socket = match node {
        NodeId::Open(ofd) => matches!(cx.model.files.get(ofd).map(|d| &d.kind), Some(Kind::Socket(_))),
        _ => false,
    };
    let mut names: Vec<Bytes> = given(cx, &node).keys().cloned().collect();
    names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    let list: Vec<u8> = names
        .iter()
        .flat_map(|name| [name, &b"\0"[..]].concat())
        .collect();
    let list = if is_socket { SOCKET_LIST.to_vec() } else { list };
    hand_over(cx, &list, call.word(1), call.word(2))
}

/// `removexattr(path, name)` and its kin.
pub fn remove(cx: &mut Cx, call: &Call) -> Outcome {
    let name = name(cx, call)?;
    let node = node(cx, call)?;
    check(cx, &node, &name, true)?;
    let had = given(cx, &node);
    if !had.contains_key(name.as_slice()) {
        return Err(Errno::ENODATA);
    }
    give(cx, &node, had.without(name.as_slice()))
}
