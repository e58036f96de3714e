//! `mmap` and its kin: files are mapped from the host or from the overlay, always as private memory; see
//! [`shared`](crate::fs::flush_all) for how shared mappings still show the file.

use crate::call::Call;
use crate::channels;
use crate::effect::{Effect, MapFile, MapSource, Outcome, Prepared};
use crate::fd::Kind;
use crate::fs::{Class, Content, FileData, NodeId, OpenFile, SharedMapping, data, shared};
use crate::handlers::{attributes, identity, remap};
use crate::memory::PAGE;
use crate::model::Cx;
use crate::object::{Object, Touch};
use std::os::unix::ffi::OsStrExt;
use syscalls::Errno;

const MAP_TYPE: i32 = 0x0f;
/// The first address that is no program's (`TASK_SIZE`).
pub(super) const BEYOND: u64 = 0x7fff_ffff_f000;
/// What lies below is root's (`vm.mmap_min_addr`), lest a null pointer of the kernel's point there.
const LOWEST: u64 = 0x1_0000;

/// Anonymous memory is nobody else's business; a mapped file is read.
pub fn prepare_mmap(cx: &Cx, call: &Call) -> Prepared {
    if call.int(3) & libc::MAP_ANONYMOUS != 0 {
        return Prepared::invisible();
    }
    Prepared::visible(attributes::descriptor_reads(cx, call.fd(4)))
}

/// The same call for private anonymous memory: only that is what it was after going back to a checkpoint.
fn private_anonymous(call: &Call) -> Effect {
    let mut args = call.args;
    let flags = call.int(3) & !MAP_TYPE & !libc::MAP_SYNC;
    args[3] = (flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u32 as u64;
    args[4] = u64::MAX;
    args[5] = 0;
    Effect::KernelWith(args)
}

/// Memory that children will share: kept, like the kernel does, as a file that nobody can open.
fn shared_anonymous(cx: &mut Cx, call: &Call) -> Result<Effect, Errno> {
    let len = call.word(1).next_multiple_of(PAGE);
    if call.int(3) & libc::MAP_FIXED_NOREPLACE != 0 && cx.model.fs.shared_in(call.word(0), len) {
        return Err(Errno::EEXIST);
    }
    let mut contents = FileData::from_bytes(&[]);
    contents.resize(len)?;
    let (owner, now) = (cx.owner(), cx.file_time());
    let fs = &mut cx.model.fs;
    let ino = fs.create(libc::S_IFREG | 0o600, owner, now, Content::File(contents));
    fs.node_mut(ino).attributes.nlink = 0;
    let node = NodeId::Overlay(ino);
    let kept = libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE;
    let mut map = MapFile {
        addr: call.word(0),
        len,
        prot: call.int(2),
        flags: call.int(3) & kept | libc::MAP_PRIVATE,
        offset: 0,
        source: MapSource::Bytes(Vec::new()),
    };
    note_shared(cx, (&node, b"/dev/zero (deleted)"), &mut map, true, true);
    Ok(Effect::MapFile(map))
}

/// What the kernel asks of every mapping, in its order.
fn check_new(cx: &Cx, call: &Call) -> Result<(), Errno> {
    let (addr, len, flags, offset) = (call.word(0), call.word(1), call.int(3), call.word(5));
    if offset % PAGE != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & libc::MAP_ANONYMOUS == 0 {
        cx.model.files.lookup(call.fd(4))?;
    }
    // Pages of a size that there is not.
    let huge = (flags >> libc::MAP_HUGE_SHIFT) & 0x3f;
    if flags & libc::MAP_ANONYMOUS != 0 && flags & libc::MAP_HUGETLB != 0 && ![0, 21, 30].contains(&huge) {
        return Err(Errno::EINVAL);
    }
    // Those that there are must be set aside by an administrator, who has not done so.
    if flags & libc::MAP_ANONYMOUS != 0 && flags & libc::MAP_HUGETLB != 0 && len != 0 {
        return Err(Errno::ENOMEM);
    }
    let whole = len.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
    if whole == 0 {
        return Err(if len == 0 { Errno::EINVAL } else { Errno::ENOMEM });
    }
    if whole > BEYOND {
        return Err(Errno::ENOMEM);
    }
    if flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0 {
        if addr > BEYOND - whole {
            return Err(Errno::ENOMEM);
        }
        if addr % PAGE != 0 {
            return Err(Errno::EINVAL);
        }
        if addr < LOWEST && !identity::is_root(cx) {
            return Err(Errno::EPERM);
        }
    }
    let is_file = flags & libc::MAP_ANONYMOUS == 0;
    if is_file && offset.checked_add(whole).is_none_or(|end| end > i64::MAX as u64) {
        return Err(Errno::EOVERFLOW);
    }
    Ok(())
}

pub fn mmap(cx: &mut Cx, call: &Call) -> Outcome {
    let flags = call.int(3);
    check_new(cx, call)?;
    let is_anonymous = flags & libc::MAP_ANONYMOUS != 0;
    let shared = match flags & MAP_TYPE {
        libc::MAP_PRIVATE => false,
        libc::MAP_SHARED => true,
        libc::MAP_SHARED_VALIDATE if !is_anonymous => true,
        _ => return Err(Errno::EINVAL),
    };
    if is_anonymous {
        if flags & libc::MAP_FIXED != 0 {
            shared::unmap(cx, call.word(0), call.word(1))?;
        }
        return Ok(if shared {
            shared_anonymous(cx, call)?
        } else {
            Effect::Kernel
        });
    }
    let (len, prot, offset) = (call.word(1), call.int(2), call.word(5));
    if flags & libc::MAP_FIXED_NOREPLACE != 0 && cx.model.fs.shared_in(call.word(0), len) {
        return Err(Errno::EEXIST);
    }
    let (_, description) = cx.model.files.lookup(call.fd(4))?;
    let writable_shared = shared && prot & libc::PROT_WRITE != 0;
    if !description.readable() || writable_shared && !description.writable() {
        return Err(Errno::EACCES);
    }
    let Kind::File(file) = &description.kind else {
        // What comes in on TCP could be mapped, but only to be read; nobody does.
        let is_tcp =
            matches!(description.kind, Kind::Socket(id) if channels::control::is_stream(cx.model, id));
        let writes = is_tcp && prot & libc::PROT_WRITE != 0;
        // Nothing that has no name in a directory is executed.
        let executes = prot & libc::PROT_EXEC != 0;
        return Err(if writes || executes {
            Errno::EPERM
        } else {
            Errno::ENODEV
        });
    };
    match file.class {
        Class::Regular => {}
        Class::Zero => return Ok(private_anonymous(call)),
        _ => return Err(Errno::ENODEV),
    }
    let file = file.clone();
    let writable = description.writable();
    shared::flush(cx, &file.node)?;
    if flags & libc::MAP_FIXED != 0 {
        shared::unmap(cx, call.word(0), len)?;
    }
    let source = source(cx, &file, offset, len)?;
    let mut map = MapFile {
        addr: call.word(0),
        len,
        prot,
        flags: flags & !MAP_TYPE & !libc::MAP_SYNC | libc::MAP_PRIVATE,
        offset,
        source,
    };
    if shared {
        note_shared(cx, (&file.node, &file.path), &mut map, writable, false);
    }
    Ok(Effect::MapFile(map))
}

/// Notes a shared mapping at an address that is known beforehand.
pub(super) fn note_shared(
    cx: &mut Cx,
    (node, name): (&NodeId, &[u8]),
    map: &mut MapFile,
    writable: bool,
    anonymous: bool,
) {
    if map.flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) == 0 {
        // As the kernel: where it is wanted, if that can be had.
        let wanted = map.addr & !(PAGE - 1);
        map.addr = match is_free(cx, wanted, map.len) {
            true => wanted,
            false => cx.model.fs.choose_address(map.len),
        };
        map.flags |= libc::MAP_FIXED_NOREPLACE;
    }
    // Most programs that map more than there is never store to it; a file needs no reserve of memory.
    map.flags |= libc::MAP_NORESERVE;
    let fs = &cx.model.fs;
    let key = fs.key(node);
    let asleep = key.is_some_and(|key| fs.is_aliased(key, map.offset, map.len, writable));
    cx.model.fs.add_mapping(SharedMapping {
        addr: map.addr,
        asleep,
        len: map.len.next_multiple_of(PAGE),
        offset: map.offset,
        node: node.clone(),
        name: name.into(),
        writable,
        anonymous,
        prot: map.prot,
        // As if the file went on to the end of the mapping; what does not is found when it is mapped.
        backed: map.len.next_multiple_of(PAGE),
    });
    cx.model.fs.note_resized(node);
}

/// Where the bytes of a mapping come from.
fn source(cx: &Cx, file: &OpenFile, offset: u64, len: u64) -> Result<MapSource, Errno> {
    let host_path = |bytes: &[u8]| MapSource::Host(std::ffi::OsStr::from_bytes(bytes).into());
    match cx.model.fs.current(&file.node) {
        NodeId::Host(node) => Ok(host_path(&node.path)),
        NodeId::Overlay(ino) => match cx.model.fs.file_data(ino)?.untouched() {
            Some(base) => Ok(host_path(&base.path)),
            None => {
                let bytes = data::node_bytes(cx, &file.node, None, offset, len as usize)?;
                Ok(MapSource::Bytes(bytes))
            }
        },
        _ => Err(Errno::ENODEV),
    }
}

/// What was stored through shared mappings reaches the files now; the kernel has nothing to write back.
pub fn msync(cx: &mut Cx, call: &Call) -> Outcome {
    let flags = call.int(2);
    let both = libc::MS_SYNC | libc::MS_ASYNC;
    if !call.word(0).is_multiple_of(PAGE)
        || flags & !(both | libc::MS_INVALIDATE) != 0
        || flags & both == both
    {
        return Err(Errno::EINVAL);
    }
    // A length that comes to nothing by being rounded up is none.
    let len = call.word(1).checked_next_multiple_of(PAGE).unwrap_or_default();
    let end = call.word(0).checked_add(len).ok_or(Errno::ENOMEM)?;
    shared::flush_all(cx)?;
    // The kernel has nothing to write back, but knows what is mapped.
    Ok(match end > call.word(0) {
        true => Effect::Kernel,
        false => Effect::Done(0),
    })
}

/// Is this a place for memory, and is nothing there?
pub(super) fn is_free(cx: &Cx, start: u64, len: u64) -> bool {
    let mut byte = [0];
    start >= LOWEST
        && start.is_multiple_of(PAGE)
        && start.checked_add(len).is_some_and(|end| end <= BEYOND)
        && !cx.model.fs.shared_in(start, len)
        && (start..start + len)
            .step_by(PAGE as usize)
            .all(|page| cx.mem.peek(page, &mut byte).is_err())
}

/// Is there memory everywhere between these addresses?
pub(super) fn is_mapped(cx: &Cx, start: u64, end: u64) -> bool {
    let mut byte = [0];
    let mut pages = (start..end).step_by(PAGE as usize);
    // What lies beyond the end of its file is mapped, but nothing can be read there.
    pages.all(|page| {
        page < BEYOND && (cx.mem.peek(page, &mut byte).is_ok() || cx.model.fs.shared_in(page, PAGE))
    })
}

/// Only mappings of files that are kept in step with them are anybody else's business.
pub fn prepare_shared(cx: &Cx, call: &Call) -> Prepared {
    if !cx.model.fs.shared_in(call.word(0), call.word(1)) {
        return Prepared::invisible();
    }
    Prepared::visible(vec![Touch::write(Object::FileSystem)])
}

pub fn munmap(cx: &mut Cx, call: &Call) -> Outcome {
    let (start, len) = (call.word(0), call.word(1));
    let whole = len.checked_next_multiple_of(PAGE).unwrap_or_default();
    // What the kernel refuses must leave the model's own mappings alone.
    if !start.is_multiple_of(PAGE) || whole == 0 || start > BEYOND || whole > BEYOND - start {
        return Err(Errno::EINVAL);
    }
    shared::unmap(cx, call.word(0), call.word(1))?;
    Ok(Effect::Kernel)
}

/// `mprotect`, and `pkey_mprotect` without a key.
pub fn mprotect(cx: &mut Cx, call: &Call) -> Outcome {
    let (start, len, prot) = (call.word(0), call.word(1), call.int(2));
    const KNOWN: i32 = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC | PROT_SEM | GROWS;
    const PROT_SEM: i32 = 8;
    const GROWS: i32 = libc::PROT_GROWSDOWN | libc::PROT_GROWSUP;
    // The kernel refuses it, whatever is there.
    if prot & !KNOWN != 0 || prot & GROWS == GROWS {
        return Ok(Effect::Kernel);
    }
    let end = start.saturating_add(len).checked_next_multiple_of(PAGE);
    if let Some(end) = end.filter(|_| start.is_multiple_of(PAGE)) {
        // The kernel has private memory there, and would not mind.
        if !cx.model.fs.may_protect(start, end, prot) {
            return Err(Errno::EACCES);
        }
        if cx.model.fs.shared_in(start, end - start) {
            shared::flush_all(cx)?;
        }
        cx.model.fs.protect(start, end, prot);
    }
    Ok(Effect::Kernel)
}

pub fn mremap(cx: &mut Cx, call: &Call) -> Outcome {
    let (start, len, flags) = (call.word(0), call.word(1), call.int(3));
    let known = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
    if flags & !known != 0 || !start.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    if cx.model.fs.shared_in(start, len.max(1)) {
        return remap::shared_memory(cx, call);
    }
    Ok(Effect::Kernel)
}
