//! `mmap` and its kin: files are mapped from the host or from the overlay, always as private memory; see
//! [`shared`](crate::fs::flush_all) for how shared mappings still show the file.

use crate::call::Call;
use crate::effect::{Effect, MapFile, MapSource, Outcome, Prepared};
use crate::fd::Kind;
use crate::fs::{Class, NodeId, OpenFile, SharedMapping, data, shared};
use crate::handlers::attributes;
use crate::model::Cx;
use crate::object::{Object, Touch};
use std::os::unix::ffi::OsStrExt;
use syscalls::Errno;

const PAGE: u64 = 4096;
const MAP_TYPE: i32 = 0x0f;
/// The size of the address space.
const ADDRESSES: u64 = 1 << 47;

/// Anonymous memory is nobody else's business; a mapped file is read.
pub fn prepare_mmap(cx: &mut Cx, call: &Call) -> Prepared {
    if call.int(3) & libc::MAP_ANONYMOUS != 0 {
        return Prepared::invisible();
    }
    Prepared::visible(attributes::descriptor_reads(cx, call.fd(4)))
}

/// The same call for private anonymous memory. There is only one process, so memory shared with children is
/// private memory; and only private memory is what it was after going back to a checkpoint.
fn private_anonymous(call: &Call) -> Effect {
    let mut args = call.args;
    let flags = call.int(3) & !MAP_TYPE & !libc::MAP_SYNC;
    args[3] = (flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u32 as u64;
    args[4] = u64::MAX;
    args[5] = 0;
    Effect::KernelWith(args)
}

pub fn mmap(cx: &mut Cx, call: &Call) -> Outcome {
    let flags = call.int(3);
    let shared = match flags & MAP_TYPE {
        libc::MAP_PRIVATE => false,
        libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE => true,
        _ => return Err(Errno::EINVAL),
    };
    if flags & libc::MAP_ANONYMOUS != 0 {
        if flags & libc::MAP_FIXED != 0 {
            shared::unmap(cx, call.word(0), call.word(1))?;
        }
        return Ok(if shared {
            private_anonymous(call)
        } else {
            Effect::Kernel
        });
    }
    let (len, prot, offset) = (call.word(1), call.int(2), call.word(5));
    if offset % PAGE != 0 || len == 0 {
        return Err(Errno::EINVAL);
    }
    if len > ADDRESSES {
        return Err(Errno::ENOMEM);
    }
    if flags & libc::MAP_FIXED_NOREPLACE != 0 && cx.model.fs.shared_in(call.word(0), len) {
        return Err(Errno::EEXIST);
    }
    let (_, description) = cx.model.files.lookup(call.fd(4))?;
    let Kind::File(file) = &description.kind else {
        return Err(Errno::ENODEV);
    };
    if file.class == Class::Path {
        return Err(Errno::EBADF);
    }
    let writable_shared = shared && prot & libc::PROT_WRITE != 0;
    if !description.readable() || writable_shared && !description.writable() {
        return Err(Errno::EACCES);
    }
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
    if shared && let Some(why) = share(cx, &file, &mut map, writable) {
        return Ok(Effect::Unsupported(why));
    }
    Ok(Effect::MapFile(map))
}

/// Notes a shared mapping at an address that is known beforehand; why that cannot be done, if it cannot.
fn share(cx: &mut Cx, file: &OpenFile, map: &mut MapFile, writable: bool) -> Option<String> {
    let key = cx.model.fs.key(&file.node)?;
    if writable && cx.model.fs.mapped_writable(key, map.offset, map.len) {
        return Some(format!(
            "a second writable shared mapping of the same part of {}",
            String::from_utf8_lossy(&file.path)
        ));
    }
    if map.flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) == 0 {
        map.addr = cx.model.fs.choose_address(map.len);
        map.flags |= libc::MAP_FIXED_NOREPLACE;
    }
    // Most programs that map more than there is never store to it; a file needs no reserve of memory.
    map.flags |= libc::MAP_NORESERVE;
    cx.model.fs.add_mapping(SharedMapping {
        addr: map.addr,
        len: map.len.next_multiple_of(PAGE),
        offset: map.offset,
        node: file.node.clone(),
        writable,
        prot: map.prot,
        // As if the file went on to the end of the mapping; what does not is found when it is mapped.
        backed: map.len.next_multiple_of(PAGE),
    });
    cx.model.fs.resized = true;
    None
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
    shared::flush_all(cx)?;
    Effect::ok()
}

/// Only mappings of files that are kept in step with them are anybody else's business.
pub fn prepare_shared(cx: &mut Cx, call: &Call) -> Prepared {
    if !cx.model.fs.shared_in(call.word(0), call.word(1)) {
        return Prepared::invisible();
    }
    Prepared::visible(vec![Touch::write(Object::FileSystem)])
}

pub fn munmap(cx: &mut Cx, call: &Call) -> Outcome {
    shared::unmap(cx, call.word(0), call.word(1))?;
    Ok(Effect::Kernel)
}

/// `mprotect`, and `pkey_mprotect` without a key.
pub fn mprotect(cx: &mut Cx, call: &Call) -> Outcome {
    let (start, len, prot) = (call.word(0), call.word(1), call.int(2));
    let end = start.saturating_add(len).checked_next_multiple_of(PAGE);
    if let Some(end) = end.filter(|_| start.is_multiple_of(PAGE)) {
        // The kernel has private memory there, and would not mind.
        if !cx.model.fs.may_protect(start, end, prot) {
            return Err(Errno::EACCES);
        }
        cx.model.fs.protect(start, end, prot);
    }
    Ok(Effect::Kernel)
}

pub fn mremap(cx: &mut Cx, call: &Call) -> Outcome {
    if cx.model.fs.shared_in(call.word(0), call.word(1).max(1)) {
        return Ok(Effect::Unsupported(
            "resizing or moving a shared mapping of a file".to_owned(),
        ));
    }
    Ok(Effect::Kernel)
}
