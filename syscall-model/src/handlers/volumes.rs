//! File systems as a whole, and files that exist only in memory.

use crate::call::Call;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::Kind;
use crate::fs::{Class, Content, FileData, NodeId, OpenFile};
use crate::handlers::files::O_LARGEFILE;
use crate::handlers::{attributes, paths};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use syscalls::Errno;

pub fn prepare_statfs(cx: &Cx, call: &Call) -> Prepared {
    attributes::prepare_stat(cx, call)
}

/// The same large, half-empty ext4 for every path: the real figures change from one look to the next.
fn write_statfs(cx: &mut Cx, addr: u64, node: &NodeId) -> Outcome {
    const EXT4: u64 = 0xef53;
    const PROC: u64 = 0x9fa0;
    let kind = if matches!(node, NodeId::Virtual(_)) {
        PROC
    } else {
        EXT4
    };
    let (blocks, files) = (1 << 24, 1 << 22);
    let fields = [
        kind,
        4096,
        blocks,
        blocks / 2,
        blocks / 2,
        files,
        files / 2,
        0,
        255,
        4096,
        0x20,
    ];
    let mut bytes: Vec<u8> = fields
        .iter()
        .flat_map(|field: &u64| field.to_le_bytes())
        .collect();
    bytes.resize(120, 0);
    cx.mem.write(addr, &bytes)?;
    Effect::ok()
}

pub fn statfs(cx: &mut Cx, call: &Call) -> Outcome {
    let node = paths::node_at(cx, libc::AT_FDCWD, call.word(0), 0)?;
    write_statfs(cx, call.word(1), &node)
}

pub fn fstatfs(cx: &mut Cx, call: &Call) -> Outcome {
    let node = paths::node_of(cx, call.fd(0))?;
    write_statfs(cx, call.word(1), &node)
}

pub fn prepare_memfd(_: &Cx, _: &Call) -> Prepared {
    Prepared::visible(vec![Touch::write(Object::FdTable)])
}

/// That a file can be executed can be neither given to it nor taken from it.
pub(super) const F_SEAL_EXEC: i32 = 0x20;

/// `memfd_create(name, flags)`: an overlay file that never had a name.
pub fn memfd_create(cx: &mut Cx, call: &Call) -> Outcome {
    const NAME_MAX: usize = 249;
    const KNOWN: u32 = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | libc::MFD_NOEXEC_SEAL | libc::MFD_EXEC;
    let flags = call.uint(1);
    if flags & !KNOWN != 0 {
        // Huge pages among them: there are none on this machine.
        return Err(Errno::EINVAL);
    }
    let never_executed = flags & libc::MFD_NOEXEC_SEAL != 0;
    if never_executed && flags & libc::MFD_EXEC != 0 {
        return Err(Errno::EINVAL);
    }
    let name = cx
        .mem
        .read_cstr(call.word(0), NAME_MAX + 1)
        .map_err(|errno| match errno {
            Errno::ENAMETOOLONG => Errno::EINVAL,
            other => other,
        })?;
    cx.model.files.lowest_free(0)?;
    let now = cx.file_time();
    let owner = cx.owner();
    let content = Content::File(FileData::default());
    let mode = if never_executed { 0o666 } else { 0o777 };
    let ino = cx.model.fs.create(libc::S_IFREG | mode, owner, now, content);
    let inode = cx.model.fs.node_mut(ino);
    inode.attributes.nlink = 0;
    inode.seals = Some(match never_executed {
        true => F_SEAL_EXEC,
        false if flags & libc::MFD_ALLOW_SEALING != 0 => 0,
        false => libc::F_SEAL_SEAL,
    });
    let node = NodeId::Overlay(ino);
    cx.model.fs.opened(&node);
    let file = OpenFile {
        node,
        class: Class::Regular,
        offset: 0,
        path: [b"/memfd:", name.as_slice(), b" (deleted)"].concat().into(),
        listing: None,
        host: None,
    };
    let ofd = cx
        .model
        .files
        .describe(Kind::File(file), libc::O_RDWR | O_LARGEFILE);
    let fd = cx.model.files.install(ofd, 0, flags & libc::MFD_CLOEXEC != 0)?;
    Ok(Effect::Done(i64::from(fd)))
}
