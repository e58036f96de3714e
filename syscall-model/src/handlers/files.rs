//! Opening, closing and positioning files.

use crate::call::Call;
use crate::channels::{self, ChannelId, pty};
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId};
use crate::fs::{Class, Content, FileData, Found, Last, NodeId, OpenFile, data};
use crate::handlers::paths;
use crate::memory::GuestMemoryExt;
use crate::model::{Cx, Model};
use crate::net::observe::Observation;
use crate::object::{Object, Touch};
use syscalls::Errno;

/// `F_GETFL` shows it for every file on x86-64.
pub const O_LARGEFILE: i32 = 0o100000;
/// The largest size that a file can have, as on ext4 with blocks of 4096 bytes.
pub const MAX_FILE_SIZE: i64 = 0xfff_ffff_f000;
/// Flags that only matter while opening.
const OPEN_ONLY: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_NOCTTY | libc::O_TRUNC | libc::O_CLOEXEC;
/// The bit of `O_TMPFILE` that `O_DIRECTORY` does not share.
const TMPFILE_BIT: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

fn prepare_open_at(cx: &Cx, dirfd: i32, path: u64, flags: i32) -> Prepared {
    let mut touches = if flags & (libc::O_CREAT | libc::O_TRUNC) != 0 {
        paths::changes_name(cx, dirfd, path, flags & libc::O_NOFOLLOW == 0)
    } else {
        paths::reads(cx, dirfd, path, flags & libc::O_NOFOLLOW == 0)
    };
    // Terminals have numbers in the order in which they are made, and may become that of a session.
    let is_terminal = |path: &[u8]| path.starts_with(b"/dev/pt") || path == b"/dev/tty";
    if touches
        .iter()
        .any(|touch| matches!(&touch.object, Object::Path(path) if is_terminal(path)))
    {
        touches.push(Touch::write(Object::Everything));
    }
    touches.push(Touch::write(Object::FdTable));
    Prepared::visible(touches)
}

pub fn prepare_open(cx: &Cx, call: &Call) -> Prepared {
    prepare_open_at(cx, libc::AT_FDCWD, call.word(0), call.int(1))
}

pub fn prepare_creat(cx: &Cx, call: &Call) -> Prepared {
    prepare_open_at(cx, libc::AT_FDCWD, call.word(0), libc::O_CREAT | libc::O_TRUNC)
}

pub fn prepare_openat(cx: &Cx, call: &Call) -> Prepared {
    prepare_open_at(cx, call.fd(0), call.word(1), call.int(2))
}

pub fn prepare_openat2(cx: &Cx, call: &Call) -> Prepared {
    let flags = cx.mem.read_u64(call.word(2)).unwrap_or(0) as i32;
    prepare_open_at(cx, call.fd(0), call.word(1), flags)
}

pub fn open(cx: &mut Cx, call: &Call) -> Outcome {
    open_at(cx, libc::AT_FDCWD, call.word(0), call.int(1), call.uint(2))
}

pub fn creat(cx: &mut Cx, call: &Call) -> Outcome {
    let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
    open_at(cx, libc::AT_FDCWD, call.word(0), flags, call.uint(1))
}

pub fn openat(cx: &mut Cx, call: &Call) -> Outcome {
    open_at(cx, call.fd(0), call.word(1), call.int(2), call.uint(3))
}

/// `struct open_how` is three words. The `RESOLVE_*` restrictions are not modelled: `EAGAIN` is the answer
/// that callers of `RESOLVE_BENEATH` must be ready for, but it means "try again", so `EINVAL` it is.
pub fn openat2(cx: &mut Cx, call: &Call) -> Outcome {
    const SIZE: u64 = 24;
    const RESOLVE_NO_XDEV: u64 = 1;
    const RESOLVE_CACHED: u64 = 0x20;
    if call.word(3) < SIZE {
        return Err(Errno::EINVAL);
    }
    if call.word(3) > 4096 {
        return Err(Errno::E2BIG);
    }
    let how = call.word(2);
    // What a newer program might ask beyond that must be nothing.
    cx.mem
        .check_zero(how.wrapping_add(SIZE), (call.word(3) - SIZE) as usize)?;
    let (flags, mode, restrict) = (
        cx.mem.read_u64(how)?,
        cx.mem.read_u64(how.wrapping_add(8))?,
        cx.mem.read_u64(how.wrapping_add(16))?,
    );
    if flags > u64::from(u32::MAX) || restrict & !(RESOLVE_NO_XDEV | RESOLVE_CACHED) != 0 {
        return Err(Errno::EINVAL);
    }
    let flags = flags as i32;
    if mode & !0o7777 != 0 || mode != 0 && flags & (libc::O_CREAT | TMPFILE_BIT) == 0 {
        return Err(Errno::EINVAL);
    }
    open_at(cx, call.fd(0), call.word(1), flags, mode as u32)
}

fn open_at(cx: &mut Cx, dirfd: i32, path: u64, mut flags: i32, mode: u32) -> Outcome {
    if flags & libc::O_PATH != 0 {
        flags &= libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    }
    let exclusive = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
    if flags & libc::O_CREAT != 0 && flags & libc::O_DIRECTORY != 0 {
        return Err(Errno::EINVAL);
    }
    let has_access = flags & libc::O_ACCMODE != libc::O_RDONLY;
    if flags & TMPFILE_BIT != 0 && !(has_access && flags & libc::O_DIRECTORY != 0) {
        return Err(Errno::EINVAL);
    }
    let path = cx.mem.read_path(path)?;
    cx.model.files.lowest_free(0)?;
    let creates = flags & libc::O_CREAT != 0;
    let last = if flags & libc::O_NOFOLLOW != 0 || exclusive {
        Last::Keep
    } else if creates {
        Last::Create
    } else {
        Last::Follow
    };
    if creates && path.ends_with(b"/") && paths::find_last(cx, dirfd, &path, Last::Name)?.has_name() {
        return Err(Errno::EISDIR);
    }
    let found = paths::find_last(cx, dirfd, &path, last)?;
    if flags & TMPFILE_BIT != 0 {
        return open_temporary(cx, &found, flags, mode);
    }
    match found.node.clone() {
        Some(_) if exclusive => Err(Errno::EEXIST),
        Some(node) => open_existing(cx, &found, node, flags),
        None if flags & libc::O_CREAT == 0 => Err(Errno::ENOENT),
        None if found.slash => Err(Errno::EISDIR),
        None => {
            let ino = create_file(cx, mode, Some(&found))?;
            install_file(cx, NodeId::Overlay(ino), Class::Regular, &found, flags)
        }
    }
}

/// `O_TMPFILE`: a file without a name in the directory that was found.
fn open_temporary(cx: &mut Cx, found: &Found, flags: i32, mode: u32) -> Outcome {
    let dir = found.existing()?;
    let attributes = cx.view().type_and_permissions(&dir)?;
    if !attributes.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    if !cx.view().permits(&attributes, 3) {
        return Err(Errno::EACCES);
    }
    let ino = create_file(cx, mode, None)?;
    cx.model.fs.node_mut(ino).attributes.nlink = 0;
    install_file(cx, NodeId::Overlay(ino), Class::Regular, found, flags)
}

/// A new empty file, under the name that was found to be free.
fn create_file(cx: &mut Cx, mode: u32, place: Option<&Found>) -> Result<u64, Errno> {
    if let Some(found) = place {
        may_change(cx, &found.dir)?;
    }
    let now = cx.file_time();
    let mode = libc::S_IFREG | mode & 0o7777 & !cx.model.fs.umask();
    let content = Content::File(FileData::default());
    let ino = cx.model.fs.create(mode, cx.owner(), now, content);
    if let Some(found) = place {
        cx.model
            .fs
            .insert_entry(cx.host, &found.dir, &found.name, ino, now)?;
    }
    Ok(ino)
}

/// May entries of this directory be made and removed?
pub fn may_change(cx: &Cx, dir: &NodeId) -> Result<(), Errno> {
    let attributes = cx.view().type_and_permissions(dir)?;
    if attributes.nlink == 0 {
        return Err(Errno::ENOENT);
    }
    if matches!(dir, NodeId::Virtual(_)) || !cx.view().permits(&attributes, 3) {
        return Err(Errno::EACCES);
    }
    Ok(())
}

fn open_existing(cx: &mut Cx, found: &Found, node: NodeId, flags: i32) -> Outcome {
    if let NodeId::Open(ofd) = node {
        return open_description(cx, ofd, flags);
    }
    let attributes = cx.view().type_and_permissions(&node)?;
    if flags & libc::O_DIRECTORY != 0 && !attributes.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    if flags & libc::O_PATH != 0 {
        return install_file(cx, node, Class::Path, found, flags);
    }
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
    let reads = flags & libc::O_ACCMODE != libc::O_WRONLY;
    let want = u32::from(reads) << 2 | u32::from(writes) << 1;
    let class = match attributes.file_type() {
        libc::S_IFLNK => return Err(Errno::ELOOP),
        libc::S_IFSOCK if cx.view().permits(&attributes, want) => return Err(Errno::ENXIO),
        libc::S_IFSOCK => return Err(Errno::EACCES),
        libc::S_IFBLK => return Err(Errno::EACCES),
        libc::S_IFIFO => {
            return Ok(Effect::Unsupported("named pipes are not modelled".to_owned()));
        }
        libc::S_IFDIR if writes || flags & libc::O_CREAT != 0 => return Err(Errno::EISDIR),
        libc::S_IFDIR => Class::Directory,
        libc::S_IFCHR if cx.view().permits(&attributes, want) => match device(cx, attributes.rdev)? {
            Device::Known(class) => class,
            Device::NewTerminal => return pty::open_master(cx, flags),
            Device::Terminal(id) => return pty::open_slave(cx, id, flags),
        },
        libc::S_IFCHR => return Err(Errno::EACCES),
        _ if matches!(node, NodeId::Virtual(_)) => Class::Virtual,
        _ => Class::Regular,
    };
    // Root may open what nobody can write; a made-up file says so at once.
    let fixed = class == Class::Virtual && attributes.mode & 0o222 == 0;
    if !cx.view().permits(&attributes, want) || fixed && writes {
        return Err(Errno::EACCES);
    }
    if flags & libc::O_DIRECT != 0 && class != Class::Regular {
        return Err(Errno::EINVAL);
    }
    if flags & libc::O_TRUNC != 0 && class == Class::Regular {
        data::resize(cx, &node, 0)?;
    }
    install_file(cx, node, class, found, flags)
}

/// What a character device is.
enum Device {
    Known(Class),
    /// Each time it is opened, another pseudo-terminal.
    NewTerminal,
    Terminal(ChannelId),
}

/// The character devices that every program may count on, and the terminals that it has made.
fn device(cx: &Cx, rdev: u64) -> Result<Device, Errno> {
    /// Of pseudo-terminals; each major number has as many minor ones.
    const TERMINALS: std::ops::Range<u32> = 136..144;
    const EACH: u32 = 256;
    let (major, minor) = (libc::major(rdev), libc::minor(rdev));
    match (major, minor) {
        (1, 3) => Ok(Device::Known(Class::Null)),
        (1, 5) => Ok(Device::Known(Class::Zero)),
        (1, 7) => Ok(Device::Known(Class::Full)),
        (1, 8 | 9) => Ok(Device::Known(Class::Random)),
        (5, 0) => pty::own(cx.model).map(Device::Terminal).ok_or(Errno::ENXIO),
        (5, 2) => Ok(Device::NewTerminal),
        _ if TERMINALS.contains(&major) => {
            let number = (major - TERMINALS.start) * EACH + minor;
            let found = cx.model.channels.terminal_numbered(number);
            found.map(Device::Terminal).ok_or(Errno::ENXIO)
        }
        _ => Err(Errno::ENXIO),
    }
}

/// Through `/proc/self/fd`: captured output is opened anew, anything else shares the description.
fn open_description(cx: &mut Cx, ofd: OfdId, flags: i32) -> Outcome {
    let description = cx.model.files.get(ofd).ok_or(Errno::ENOENT)?;
    let id = match description.kind {
        Kind::Output(stream) => cx.model.files.describe(Kind::Output(stream), flags & !OPEN_ONLY),
        _ => ofd,
    };
    let fd = cx.model.files.install(id, 0, flags & libc::O_CLOEXEC != 0)?;
    Ok(Effect::Done(i64::from(fd)))
}

fn install_file(cx: &mut Cx, node: NodeId, class: Class, found: &Found, flags: i32) -> Outcome {
    let node = cx.model.fs.current(&node);
    let host = match (&node, class) {
        (NodeId::Host(host), Class::Regular) => Some(cx.host.open(&host.path)?),
        _ => None,
    };
    cx.model.fs.opened(&node);
    let file = OpenFile {
        node,
        class,
        offset: 0,
        path: found.path.as_slice().into(),
        listing: None,
        host,
    };
    let large = if flags & libc::O_PATH != 0 { 0 } else { O_LARGEFILE };
    let ofd = cx
        .model
        .files
        .describe(Kind::File(file), flags & !OPEN_ONLY | large);
    let fd = cx.model.files.install(ofd, 0, flags & libc::O_CLOEXEC != 0)?;
    Ok(Effect::Done(i64::from(fd)))
}

pub fn prepare_close(cx: &Cx, call: &Call) -> Prepared {
    let mut touches = vec![Touch::write(Object::FdTable)];
    touches.extend(closing_touches(cx, call.fd(0)));
    let mut prepared = Prepared::visible(touches);
    prepared.observes = closing(cx, call.fd(0));
    prepared
}

/// What the end of a connection can tell of arrivals.
fn closing(cx: &Cx, fd: i32) -> Option<Observation> {
    let (_, description) = cx.model.files.lookup_any(fd).ok()?;
    match description.kind {
        Kind::Socket(socket) if description.references == 1 => Some(Observation::Close { socket }),
        _ => None,
    }
}

/// What taking away a descriptor touches besides the table.
pub fn closing_touches(cx: &Cx, fd: i32) -> Vec<Touch> {
    let Ok((ofd, description)) = cx.model.files.lookup_any(fd) else {
        return Vec::new();
    };
    let mut touches = vec![Touch::write(Object::Description(ofd))];
    if let Kind::File(file) = &description.kind
        && cx.model.fs.is_locked(&file.node)
    {
        // Others may have it then.
        touches.push(Touch::write(Object::Path(file.path.to_vec())));
    }
    if !matches!(description.kind, Kind::File(_) | Kind::Output(_)) {
        touches.extend(channels::touches(cx.model, ofd, channels::Use::Change));
    }
    touches
}

pub fn close(cx: &mut Cx, call: &Call) -> Outcome {
    cx.model.close(call.fd(0))?;
    Effect::ok()
}

pub fn prepare_lseek(cx: &Cx, call: &Call) -> Prepared {
    match cx.model.files.lookup(call.fd(0)) {
        Err(_) => Prepared::visible(vec![Touch::read(Object::FdTable)]),
        Ok((ofd, description)) => {
            let mut touches = vec![Touch::write(Object::Description(ofd))];
            if let Kind::File(file) = &description.kind
                && !matches!(call.int(2), libc::SEEK_SET | libc::SEEK_CUR)
            {
                touches.push(Touch::read(Object::Path(file.path.to_vec())));
            }
            Prepared::visible(touches)
        }
    }
}

/// The largest position in this file: of one in memory, any.
fn largest(cx: &Cx, node: &NodeId) -> i64 {
    match is_memory_file(cx.model, node) {
        true => i64::MAX,
        false => MAX_FILE_SIZE,
    }
}

/// Is it a file of `memfd_create`? Those are of another file system.
pub fn is_memory_file(model: &Model, node: &NodeId) -> bool {
    match model.fs.current(node) {
        NodeId::Overlay(ino) => model.fs.node(ino).seals.is_some(),
        _ => false,
    }
}

pub fn lseek(cx: &mut Cx, call: &Call) -> Outcome {
    let (ofd, description) = cx.model.files.lookup(call.fd(0))?;
    if !(libc::SEEK_SET..=libc::SEEK_HOLE).contains(&call.int(2)) {
        return Err(Errno::EINVAL);
    }
    let file = match &description.kind {
        Kind::File(file) => file,
        Kind::PipeReader(_) | Kind::PipeWriter(_) | Kind::Socket(_) | Kind::Output(_) => {
            return Err(Errno::ESPIPE);
        }
        // These have a position, which nothing moves.
        _ => return Effect::ok(),
    };
    let by = call.long(1);
    let size = || -> Result<i64, Errno> { Ok(cx.view().attributes(&file.node)?.size as i64) };
    // As the kernel adds: what is too large comes out negative, and is refused for that.
    let to = match call.int(2) {
        // The devices have no position; the kernel answers 0 for all but zero-extending seeks.
        _ if !matches!(file.class, Class::Regular | Class::Directory | Class::Virtual) => 0,
        libc::SEEK_SET => by,
        libc::SEEK_CUR => (file.offset as i64).wrapping_add(by),
        libc::SEEK_END => size()?.wrapping_add(by),
        // Without holes the data goes up to the end, and there the only hole begins.
        libc::SEEK_DATA if by < 0 || by >= size()? => return Err(Errno::ENXIO),
        libc::SEEK_DATA => by,
        libc::SEEK_HOLE if by < 0 || by >= size()? => return Err(Errno::ENXIO),
        libc::SEEK_HOLE => size()?,
        _ => return Err(Errno::EINVAL),
    };
    if !(0..=largest(cx, &file.node)).contains(&to) {
        return Err(Errno::EINVAL);
    }
    data::set_offset(cx, ofd, to as u64);
    Ok(Effect::Done(to))
}
