//! Making, removing and renaming directory entries.

use crate::call::Call;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fs::{Content, Directory, FileData, Found, Ino, Last, NodeId};
use crate::handlers::files::may_change;
use crate::handlers::paths;
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use imbl::OrdMap;
use syscalls::Errno;

const CWD: i32 = libc::AT_FDCWD;

pub fn prepare_first(cx: &Cx, call: &Call) -> Prepared {
    Prepared::visible(paths::changes_name(cx, CWD, call.word(0), false))
}

pub fn prepare_first_at(cx: &Cx, call: &Call) -> Prepared {
    Prepared::visible(paths::changes_name(cx, call.fd(0), call.word(1), false))
}

/// `symlink(target, path)`.
pub fn prepare_second(cx: &Cx, call: &Call) -> Prepared {
    Prepared::visible(paths::changes_name(cx, CWD, call.word(1), false))
}

/// `symlinkat(target, dirfd, path)`.
pub fn prepare_second_at(cx: &Cx, call: &Call) -> Prepared {
    Prepared::visible(paths::changes_name(cx, call.fd(1), call.word(2), false))
}

/// Two paths; if a directory moves, every path below it changes.
fn prepare_pair(cx: &Cx, from: (i32, u64), to: (i32, u64)) -> Prepared {
    let moves_directory = [from, to].into_iter().any(|(dirfd, path)| {
        paths::name_at(cx, dirfd, path)
            .and_then(|found| cx.view().attributes(&found.existing()?))
            .is_ok_and(|attributes| attributes.is_dir())
    });
    if moves_directory {
        return Prepared::visible(vec![Touch::write(Object::FileSystem)]);
    }
    let mut touches = paths::changes_name(cx, from.0, from.1, false);
    touches.extend(paths::changes_name(cx, to.0, to.1, false));
    Prepared::visible(touches)
}

pub fn prepare_both(cx: &Cx, call: &Call) -> Prepared {
    prepare_pair(cx, (CWD, call.word(0)), (CWD, call.word(1)))
}

pub fn prepare_both_at(cx: &Cx, call: &Call) -> Prepared {
    prepare_pair(cx, (call.fd(0), call.word(1)), (call.fd(2), call.word(3)))
}

/// The name is free and may be made here.
fn free_name(cx: &Cx, found: &Found, directory: bool) -> Result<(), Errno> {
    if found.node.is_some() || !found.has_name() {
        return Err(Errno::EEXIST);
    }
    if found.slash && !directory {
        return Err(Errno::ENOENT);
    }
    may_change(cx, &found.dir)
}

fn make(cx: &mut Cx, found: &Found, mode: u32, content: Content) -> Outcome {
    make_inode(cx, found, mode, content)?;
    Effect::ok()
}

fn make_inode(cx: &mut Cx, found: &Found, mode: u32, content: Content) -> Result<Ino, Errno> {
    let now = cx.file_time();
    let owner = cx.owner();
    let ino = cx.model.fs.create(mode, owner, now, content);
    cx.model
        .fs
        .insert_entry(cx.host, &found.dir, &found.name, ino, now)?;
    Ok(ino)
}

fn make_directory(cx: &mut Cx, dirfd: i32, path: u64, mode: u32) -> Outcome {
    let found = paths::name_at(cx, dirfd, path)?;
    free_name(cx, &found, true)?;
    let content = Content::Directory(Directory {
        base: None,
        entries: OrdMap::new(),
        parent: found.dir.clone(),
        name: found.name.as_slice().into(),
    });
    let mode = libc::S_IFDIR | mode & 0o1777 & !cx.model.fs.umask();
    make(cx, &found, mode, content)
}

pub fn mkdir(cx: &mut Cx, call: &Call) -> Outcome {
    make_directory(cx, CWD, call.word(0), call.uint(1))
}

pub fn mkdirat(cx: &mut Cx, call: &Call) -> Outcome {
    make_directory(cx, call.fd(0), call.word(1), call.uint(2))
}

fn make_node(cx: &mut Cx, dirfd: i32, path: u64, mode: u32, device: u64) -> Outcome {
    let is_device = matches!(mode & libc::S_IFMT, libc::S_IFCHR | libc::S_IFBLK);
    // The device that stands for a file taken away (a whiteout) is none, and anybody may make it.
    let is_whiteout = mode & libc::S_IFMT == libc::S_IFCHR && device == 0;
    let content = match mode & libc::S_IFMT {
        0 | libc::S_IFREG => Content::File(FileData::default()),
        libc::S_IFIFO | libc::S_IFSOCK | libc::S_IFCHR | libc::S_IFBLK => Content::Other,
        libc::S_IFDIR => return Err(Errno::EPERM),
        _ => return Err(Errno::EINVAL),
    };
    let found = paths::name_at(cx, dirfd, path)?;
    free_name(cx, &found, false)?;
    if is_device && !is_whiteout {
        return Err(Errno::EPERM);
    }
    let file_type = match mode & libc::S_IFMT {
        0 => libc::S_IFREG,
        given => given,
    };
    let mode = file_type | mode & 0o7777 & !cx.model.fs.umask();
    make(cx, &found, mode, content)
}

/// The name of the file of a Unix socket, which may be made.
fn socket_name(cx: &Cx, path: &[u8]) -> Result<Found, Errno> {
    let found = paths::find_last(cx, CWD, path, Last::Name)?;
    match free_name(cx, &found, false) {
        Err(Errno::EEXIST) => Err(Errno::EADDRINUSE),
        other => other.map(|()| found),
    }
}

/// Could such a file be made?
pub fn check_new_socket(cx: &Cx, path: &[u8]) -> Result<(), Errno> {
    socket_name(cx, path).map(drop)
}

/// The file of a Unix socket that is bound to a path, with the absolute path.
pub fn make_socket(cx: &mut Cx, path: &[u8]) -> Result<(Vec<u8>, Ino), Errno> {
    let found = socket_name(cx, path)?;
    let mode = libc::S_IFSOCK | 0o777 & !cx.model.fs.umask();
    let ino = make_inode(cx, &found, mode, Content::Other)?;
    Ok((found.path, ino))
}

pub fn mknod(cx: &mut Cx, call: &Call) -> Outcome {
    make_node(cx, CWD, call.word(0), call.uint(1), call.word(2))
}

pub fn mknodat(cx: &mut Cx, call: &Call) -> Outcome {
    make_node(cx, call.fd(0), call.word(1), call.uint(2), call.word(3))
}

fn make_symlink(cx: &mut Cx, target: u64, dirfd: i32, path: u64) -> Outcome {
    let target = cx.mem.read_path(target)?;
    if target.is_empty() {
        return Err(Errno::ENOENT);
    }
    let found = paths::name_at(cx, dirfd, path)?;
    free_name(cx, &found, false)?;
    make(cx, &found, libc::S_IFLNK | 0o777, Content::Symlink(target.into()))
}

pub fn symlink(cx: &mut Cx, call: &Call) -> Outcome {
    make_symlink(cx, call.word(0), CWD, call.word(1))
}

pub fn symlinkat(cx: &mut Cx, call: &Call) -> Outcome {
    make_symlink(cx, call.word(0), call.fd(1), call.word(2))
}

fn make_link(cx: &mut Cx, node: &NodeId, dirfd: i32, path: u64) -> Outcome {
    let attributes = cx.view().attributes(node)?;
    let found = paths::name_at(cx, dirfd, path)?;
    free_name(cx, &found, false)?;
    if attributes.is_dir() {
        return Err(Errno::EPERM);
    }
    // Devices of this machine have a file system of their own.
    let is_device = matches!(attributes.file_type(), libc::S_IFCHR | libc::S_IFBLK);
    let is_elsewhere = is_device && matches!(node, NodeId::Host(_));
    if is_elsewhere || matches!(node, NodeId::Virtual(_) | NodeId::Open(_)) {
        return Err(Errno::EXDEV);
    }
    let now = cx.file_time();
    let ino = cx.model.fs.copy_up(cx.host, node)?;
    let attributes = &mut cx.model.fs.node_mut(ino).attributes;
    attributes.nlink += 1;
    attributes.ctime = now;
    cx.model
        .fs
        .insert_entry(cx.host, &found.dir, &found.name, ino, now)?;
    Effect::ok()
}

pub fn link(cx: &mut Cx, call: &Call) -> Outcome {
    let node = paths::node_at(cx, CWD, call.word(0), libc::AT_SYMLINK_NOFOLLOW)?;
    make_link(cx, &node, CWD, call.word(1))
}

pub fn linkat(cx: &mut Cx, call: &Call) -> Outcome {
    let flags = call.int(4);
    if flags & !(libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let follow = if flags & libc::AT_SYMLINK_FOLLOW != 0 {
        0
    } else {
        libc::AT_SYMLINK_NOFOLLOW
    };
    let node = paths::node_at(cx, call.fd(0), call.word(1), follow | flags & libc::AT_EMPTY_PATH)?;
    make_link(cx, &node, call.fd(2), call.word(3))
}

/// May this entry be taken away? In a sticky directory only by its owner, the directory's owner or root.
fn may_remove(cx: &Cx, found: &Found, node: &NodeId) -> Result<(), Errno> {
    may_change(cx, &found.dir)?;
    let dir = cx.view().attributes(&found.dir)?;
    let file = cx.view().attributes(node)?;
    let (uid, _) = cx.owner();
    if dir.mode & libc::S_ISVTX != 0 && ![0, dir.uid, file.uid].contains(&uid) {
        return Err(Errno::EPERM);
    }
    if matches!(node, NodeId::Virtual(_) | NodeId::Open(_)) {
        return Err(Errno::EPERM);
    }
    Ok(())
}

fn remove_file(cx: &mut Cx, dirfd: i32, path: u64) -> Outcome {
    let found = paths::name_at(cx, dirfd, path)?;
    if !found.has_name() {
        return Err(Errno::EISDIR);
    }
    let node = found.existing()?;
    let attributes = cx.view().attributes(&node)?;
    if found.slash && !attributes.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    may_remove(cx, &found, &node)?;
    if attributes.is_dir() {
        return Err(Errno::EISDIR);
    }
    take_away(cx, &found, &node)?;
    Effect::ok()
}

/// Removes the entry and one link of what it named.
fn take_away(cx: &mut Cx, found: &Found, node: &NodeId) -> Result<(), Errno> {
    let now = cx.file_time();
    let ino = cx.model.fs.copy_up(cx.host, node)?;
    let is_dir = cx.model.fs.node(ino).attributes.is_dir();
    cx.model.fs.remove_entry(cx.host, &found.dir, &found.name, now)?;
    if is_dir {
        cx.model.fs.lost_subdirectory(cx.host, &found.dir)?;
    }
    cx.model.fs.unlinked(ino, now);
    Ok(())
}

fn remove_directory(cx: &mut Cx, dirfd: i32, path: u64) -> Outcome {
    let found = paths::name_at(cx, dirfd, path)?;
    match found.name.as_slice() {
        b"" => return Err(Errno::EBUSY),
        b"." => return Err(Errno::EINVAL),
        b".." => return Err(Errno::ENOTEMPTY),
        _ => {}
    }
    let node = found.existing()?;
    may_remove(cx, &found, &node)?;
    if !cx.view().attributes(&node)?.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    if !cx.view().list(&node)?.is_empty() {
        return Err(Errno::ENOTEMPTY);
    }
    take_away(cx, &found, &node)?;
    Effect::ok()
}

pub fn unlink(cx: &mut Cx, call: &Call) -> Outcome {
    remove_file(cx, CWD, call.word(0))
}

pub fn rmdir(cx: &mut Cx, call: &Call) -> Outcome {
    remove_directory(cx, CWD, call.word(0))
}

pub fn unlinkat(cx: &mut Cx, call: &Call) -> Outcome {
    match call.int(2) {
        0 => remove_file(cx, call.fd(0), call.word(1)),
        libc::AT_REMOVEDIR => remove_directory(cx, call.fd(0), call.word(1)),
        _ => Err(Errno::EINVAL),
    }
}

pub fn rename(cx: &mut Cx, call: &Call) -> Outcome {
    move_entry(cx, (CWD, call.word(0)), (CWD, call.word(1)), 0)
}

pub fn renameat(cx: &mut Cx, call: &Call) -> Outcome {
    move_entry(cx, (call.fd(0), call.word(1)), (call.fd(2), call.word(3)), 0)
}

pub fn renameat2(cx: &mut Cx, call: &Call) -> Outcome {
    let flags = call.uint(4);
    let both = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE;
    if flags & !both != 0 || flags & both == both {
        return Err(Errno::EINVAL);
    }
    move_entry(cx, (call.fd(0), call.word(1)), (call.fd(2), call.word(3)), flags)
}

/// The old and the new name of a rename. The way to both is found before either name is looked at.
fn both_names(cx: &Cx, from: (i32, u64), to: (i32, u64), flags: u32) -> Result<(Found, Found), Errno> {
    let mut both = Vec::new();
    for (dirfd, path) in [from, to] {
        cx.mem.read_path(path)?;
        match paths::name_at(cx, dirfd, path) {
            Err(errno) if errno != Errno::ENAMETOOLONG => return Err(errno),
            found => both.push(found),
        }
    }
    let [from, to]: [Result<Found, Errno>; 2] = both.try_into().map_err(|_| Errno::EINVAL)?;
    let replaces = flags & libc::RENAME_NOREPLACE == 0;
    for found in [&from, &to] {
        if found.as_ref().is_ok_and(|found| !found.has_name()) && replaces {
            return Err(Errno::EBUSY);
        }
    }
    if to.as_ref().is_ok_and(|to| !to.has_name()) && from.as_ref().map_or(true, Found::has_name) {
        // One of the two was refused above, unless nothing may be replaced.
        return Err(Errno::EEXIST);
    }
    let from = from?;
    if !from.has_name() {
        return Err(Errno::EBUSY);
    }
    if to.is_err() {
        from.existing()?;
    }
    Ok((from, to?))
}

fn move_entry(cx: &mut Cx, from: (i32, u64), to: (i32, u64), flags: u32) -> Outcome {
    let (from, to) = both_names(cx, from, to, flags)?;
    let exchange = flags & libc::RENAME_EXCHANGE != 0;
    let node = from.existing()?;
    if flags & libc::RENAME_NOREPLACE != 0 && to.node.is_some() {
        return Err(Errno::EEXIST);
    }
    if exchange {
        to.existing()?;
    }
    let is_dir = cx.view().attributes(&node)?.is_dir();
    if !is_dir && (from.slash || !exchange && to.slash) {
        return Err(Errno::ENOTDIR);
    }
    if exchange && to.slash && !cx.view().attributes(&to.existing()?)?.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    if is_dir && lies_within(cx, &to.dir, &node)? {
        return Err(Errno::EINVAL);
    }
    if let Some(target) = &to.node {
        if lies_within(cx, &from.dir, target)? {
            return Err(if exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
        }
        if same(cx, &node, target)? {
            return Effect::ok();
        }
    }
    may_remove(cx, &from, &node)?;
    match &to.node {
        Some(target) => may_remove(cx, &to, target)?,
        None => may_change(cx, &to.dir)?,
    }
    if exchange {
        exchange_entries(cx, &from, &to)
    } else {
        replace_entry(cx, &from, &to, is_dir)
    }
}

fn same(cx: &Cx, a: &NodeId, b: &NodeId) -> Result<bool, Errno> {
    let (a, b) = (cx.view().attributes(a)?, cx.view().attributes(b)?);
    Ok((a.dev, a.ino) == (b.dev, b.ino))
}

/// Is `dir` the directory `of` or somewhere below it?
fn lies_within(cx: &Cx, dir: &NodeId, of: &NodeId) -> Result<bool, Errno> {
    let view = cx.view();
    let mut at = dir.clone();
    loop {
        if same(cx, &at, of)? {
            return Ok(true);
        }
        let above = view.parent(&at)?;
        if same(cx, &at, &above)? {
            return Ok(false);
        }
        at = above;
    }
}

/// Takes an entry out and gives the inode that it named, which keeps its links.
fn detach(cx: &mut Cx, found: &Found) -> Result<u64, Errno> {
    let now = cx.file_time();
    let node = found.existing()?;
    let ino = cx.model.fs.copy_up(cx.host, &node)?;
    cx.model.fs.remove_entry(cx.host, &found.dir, &found.name, now)?;
    if cx.model.fs.node(ino).attributes.is_dir() {
        cx.model.fs.lost_subdirectory(cx.host, &found.dir)?;
        cx.model.fs.host_directory_moved();
    }
    cx.model.fs.node_mut(ino).attributes.ctime = now;
    Ok(ino)
}

/// A directory that is moved elsewhere gets another parent, which is written into it.
fn may_change_parent(cx: &Cx, from: &Found, to: &Found) -> Result<(), Errno> {
    let attributes = cx.view().attributes(&from.existing()?)?;
    if same(cx, &from.dir, &to.dir)? || cx.view().permits(&attributes, 2) {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

fn replace_entry(cx: &mut Cx, from: &Found, to: &Found, is_dir: bool) -> Outcome {
    let target_is_dir = match &to.node {
        Some(target) => cx.view().attributes(target)?.is_dir(),
        None => is_dir,
    };
    match (is_dir, target_is_dir) {
        (true, false) => return Err(Errno::ENOTDIR),
        (false, true) => return Err(Errno::EISDIR),
        _ => {}
    }
    if is_dir {
        may_change_parent(cx, from, to)?;
    }
    if let Some(target) = &to.node {
        match (is_dir, target_is_dir) {
            (true, true) if !cx.view().list(target)?.is_empty() => return Err(Errno::ENOTEMPTY),
            _ => take_away(cx, to, target)?,
        }
    }
    let now = cx.file_time();
    let ino = detach(cx, from)?;
    cx.model.fs.insert_entry(cx.host, &to.dir, &to.name, ino, now)?;
    Effect::ok()
}

fn exchange_entries(cx: &mut Cx, from: &Found, to: &Found) -> Outcome {
    for (moved, place) in [(from, to), (to, from)] {
        if cx.view().attributes(&moved.existing()?)?.is_dir() {
            may_change_parent(cx, moved, place)?;
        }
    }
    let now = cx.file_time();
    let (first, second) = (detach(cx, from)?, detach(cx, to)?);
    cx.model.fs.insert_entry(cx.host, &to.dir, &to.name, first, now)?;
    cx.model
        .fs
        .insert_entry(cx.host, &from.dir, &from.name, second, now)?;
    Effect::ok()
}
