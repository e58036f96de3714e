//! Extended attributes. No file has any and none can get any, as on a file system without them; but what is wrong with a call is told as the kernel tells it.

use super::paths;
use crate::call::Call;
use crate::effect::{Effect, Outcome};
use crate::fd::Kind;
use crate::fs::NodeId;
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use syscalls::{Errno, Sysno};

/// The longest name, and the longest value.
const NAME_MAX: usize = 255;
const SIZE_MAX: u64 = 65_536;
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
    cx.mem.read_vec(call.word(2), call.word(3) as usize)?;
    let node = node(cx, call)?;
    check(cx, &node, &name, true)?;
    Err(match call.int(4) & libc::XATTR_REPLACE {
        0 => Errno::EOPNOTSUPP,
        _ => Errno::ENODATA,
    })
}

/// `getxattr(path, name, value, size)` and its kin.
pub fn get(cx: &mut Cx, call: &Call) -> Outcome {
    let name = name(cx, call)?;
    let node = node(cx, call)?;
    check(cx, &node, &name, false)?;
    Err(Errno::ENODATA)
}

/// `listxattr(path, list, size)` and its kin.
pub fn list(cx: &mut Cx, call: &Call) -> Outcome {
    let node = node(cx, call)?;
    cx.view().attributes(&node)?;
    let is_socket = match node {
        NodeId::Open(ofd) => matches!(cx.model.files.get(ofd).map(|d| &d.kind), Some(Kind::Socket(_))),
        _ => false,
    };
    if !is_socket {
        return Effect::ok();
    }
    match call.word(2) {
        0 => {}
        size if size < SOCKET_LIST.len() as u64 => return Err(Errno::ERANGE),
        _ => cx.mem.write(call.word(1), SOCKET_LIST)?,
    }
    Ok(Effect::Done(SOCKET_LIST.len() as i64))
}

/// `removexattr(path, name)` and its kin.
pub fn remove(cx: &mut Cx, call: &Call) -> Outcome {
    let name = name(cx, call)?;
    let node = node(cx, call)?;
    check(cx, &node, &name, true)?;
    Err(Errno::ENODATA)
}
