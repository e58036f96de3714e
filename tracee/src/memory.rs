//! Memory of a stopped task.
//!
//! Ordinary accesses use `process_vm_readv`/`writev`: one system call for many ranges, no open file, and the
//! page protections of the guest hold, so that a bad guest pointer is the `EFAULT` that the guest would get.
//! Forced writes go through `/proc/PID/mem`, which ignores protections: that is how a breakpoint gets into a
//! read-only code page. What was read in small pieces is remembered until the task runs again (`recall.rs`).

use crate::error::{Error, MemoryFault, Result};
use crate::recall::{BLOCK, SMALL, block_of};
use crate::task::Task;
use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use std::fs::{File, OpenOptions};
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;

/// Ranges per system call (`IOV_MAX`).
const BATCH: usize = 1024;
/// Bytes in a page of memory.
pub const PAGE: u64 = 4096;

/// Access to the memory of a task, while it is stopped.
#[derive(Debug, Clone, Copy)]
pub struct Memory<'a> {
    task: &'a Task,
}

impl<'a> Memory<'a> {
    pub(crate) fn new(task: &'a Task) -> Self {
        Memory { task }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.task.pid)
    }

    fn failure(&self, call: &'static str, errno: Errno, addr: u64) -> Error {
        match errno {
            Errno::EFAULT | Errno::EIO => MemoryFault { addr }.into(),
            errno => Error::sys(call, self.task.pid, errno),
        }
    }

    /// Fills `buffer` from `addr`.
    pub fn read(&self, addr: u64, buffer: &mut [u8]) -> Result<()> {
        match self.read_up_to(addr, buffer)? {
            n if n == buffer.len() => Ok(()),
            n => Err(MemoryFault {
                addr: addr.wrapping_add(n as u64),
            }
            .into()),
        }
    }

    /// Fills as much of `buffer` as can be read without a gap; returns how much that is.
    pub fn read_up_to(&self, addr: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut done = self.recall(addr, buffer)?;
        while done < buffer.len() {
            let at = addr.wrapping_add(done as u64);
            let remote = [RemoteIoVec {
                base: at as usize,
                len: buffer.len() - done,
            }];
            match process_vm_readv(self.pid(), &mut [IoSliceMut::new(&mut buffer[done..])], &remote) {
                Ok(0) | Err(Errno::EFAULT) => break,
                Ok(n) => done += n,
                Err(errno) => return Err(self.failure("process_vm_readv", errno, at)),
            }
        }
        Ok(done)
    }

    /// Fills what is small from what was read before, or is read now for those that look next; returns how much it is.
    fn recall(&self, addr: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while buffer.len() <= SMALL && done < buffer.len() {
            let at = addr.wrapping_add(done as u64);
            let len = ((BLOCK - at % BLOCK) as usize).min(buffer.len() - done);
            let piece = &mut buffer[done..done + len];
            if !self.task.recall.copy(at, piece) {
                if self.task.recall.is_full() {
                    break;
                }
                self.fetch(&[block_of(at)])?;
                if !self.task.recall.copy(at, piece) {
                    break;
                }
            }
            done += len;
        }
        Ok(done)
    }

    /// What is at these addresses will be looked at, a few bytes each: all of it is read in one call, as far as it can be.
    pub fn expect(&self, addresses: impl IntoIterator<Item = u64>) -> Result<()> {
        let mut blocks: Vec<u64> = addresses.into_iter().map(block_of).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks.retain(|&block| !self.task.recall.knows(block));
        self.fetch(&blocks)
    }

    /// Reads blocks, up to the first that is not there.
    fn fetch(&self, blocks: &[u64]) -> Result<()> {
        let remote = |&block: &u64| RemoteIoVec {
            base: block as usize,
            len: BLOCK as usize,
        };
        for blocks in blocks.chunks(BATCH) {
            let mut contents = vec![0; blocks.len() * BLOCK as usize];
            let remote: Vec<RemoteIoVec> = blocks.iter().map(remote).collect();
            let read = match process_vm_readv(self.pid(), &mut [IoSliceMut::new(&mut contents)], &remote) {
                Ok(read) => read,
                Err(Errno::EFAULT) => 0,
                Err(errno) => return Err(self.failure("process_vm_readv", errno, blocks[0])),
            };
            for (&block, bytes) in blocks.iter().zip(contents[..read].as_chunks().0) {
                self.task.recall.keep(block, bytes);
            }
        }
        Ok(())
    }

    /// Writes `bytes` at `addr`, as far as the guest itself could; what precedes a fault is written.
    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<()> {
        self.task.recall.forget_in(addr, bytes.len());
        let mut done = 0;
        while done < bytes.len() {
            let at = addr.wrapping_add(done as u64);
            let remote = [RemoteIoVec {
                base: at as usize,
                len: bytes.len() - done,
            }];
            match process_vm_writev(self.pid(), &[IoSlice::new(&bytes[done..])], &remote) {
                Ok(0) => return Err(MemoryFault { addr: at }.into()),
                Ok(n) => done += n,
                Err(errno) => return Err(self.failure("process_vm_writev", errno, at)),
            }
        }
        Ok(())
    }

    /// Writes whatever the protection of the page is (a private copy of the page is made).
    pub fn write_forced(&self, addr: u64, bytes: &[u8]) -> Result<()> {
        self.task.recall.forget_in(addr, bytes.len());
        let mem = self.mem()?;
        mem.write_all_at(bytes, addr)
            .map_err(|e| self.io_failure("write", &e, addr))
    }

    /// Reads whatever the protection of the page is.
    pub fn read_forced(&self, addr: u64, buffer: &mut [u8]) -> Result<()> {
        let mem = self.mem()?;
        mem.read_exact_at(buffer, addr)
            .map_err(|e| self.io_failure("read", &e, addr))
    }

    fn io_failure(&self, call: &'static str, error: &std::io::Error, addr: u64) -> Error {
        // No errno: a short transfer, which is a fault too.
        self.failure(
            call,
            error.raw_os_error().map_or(Errno::EFAULT, Errno::from_raw),
            addr,
        )
    }

    fn mem(&self) -> Result<&'a File> {
        if let Some(file) = self.task.mem.get() {
            return Ok(file);
        }
        let path = format!("/proc/{}/mem", self.task.pid);
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => Ok(self.task.mem.get_or_init(|| file)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(Error::Gone { pid: self.task.pid }),
            Err(e) => Err(self.io_failure("open /proc/PID/mem", &e, 0)),
        }
    }

    /// A value of eight bytes.
    pub fn read_u64(&self, addr: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read(addr, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// A value of four bytes.
    pub fn read_u32(&self, addr: u64) -> Result<u32> {
        let mut bytes = [0; 4];
        self.read(addr, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// The bytes before the first NUL, of which there must be one within `max` bytes (else `ENAMETOOLONG`).
    pub fn read_cstr(&self, addr: u64, max: usize) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        while text.len() < max {
            let at = addr.wrapping_add(text.len() as u64);
            // Never across a page: the string may end right before an unmapped one.
            let chunk = ((PAGE - at % PAGE) as usize).min(max - text.len());
            let start = text.len();
            text.resize(start + chunk, 0);
            self.read(at, &mut text[start..])?;
            if let Some(end) = text[start..].iter().position(|&byte| byte == 0) {
                text.truncate(start + end);
                return Ok(text);
            }
        }
        Err(Error::Sys {
            call: "read_cstr",
            pid: self.task.pid,
            errno: Errno::ENAMETOOLONG,
        })
    }

    /// Reads all `(address, length)` ranges, one after the other, into `buffer`, which they must fill exactly.
    pub fn read_many(&self, ranges: &[(u64, usize)], buffer: &mut [u8]) -> Result<()> {
        assert_eq!(
            ranges.iter().map(|r| r.1).sum::<usize>(),
            buffer.len(),
            "ranges must fill the buffer"
        );
        let mut rest = buffer;
        for batch in ranges.chunks(BATCH) {
            let (now, later) = rest.split_at_mut(batch.iter().map(|r| r.1).sum());
            rest = later;
            self.read_batch(batch, now)?;
        }
        Ok(())
    }

    fn read_batch(&self, batch: &[(u64, usize)], buffer: &mut [u8]) -> Result<()> {
        let range = |&(addr, len): &(u64, usize)| RemoteIoVec {
            base: addr as usize,
            len,
        };
        let remote: Vec<RemoteIoVec> = batch.iter().map(range).collect();
        match process_vm_readv(self.pid(), &mut [IoSliceMut::new(buffer)], &remote) {
            Ok(n) if n == buffer.len() => return Ok(()),
            Ok(_) | Err(Errno::EFAULT) => {}
            Err(errno) => return Err(self.failure("process_vm_readv", errno, batch[0].0)),
        }
        // Cut short: a fault, or the kernel's limit on one transfer. Range by range finds out, and where.
        let mut rest = buffer;
        for &(addr, len) in batch {
            let (now, later) = rest.split_at_mut(len);
            rest = later;
            self.read(addr, now)?;
        }
        Ok(())
    }

    /// Writes each byte string at its address.
    pub fn write_many(&self, pieces: &[(u64, &[u8])]) -> Result<()> {
        self.task.recall.forget();
        for batch in pieces.chunks(BATCH) {
            self.write_batch(batch)?;
        }
        Ok(())
    }

    fn write_batch(&self, batch: &[(u64, &[u8])]) -> Result<()> {
        let range = |&(addr, bytes): &(u64, &[u8])| RemoteIoVec {
            base: addr as usize,
            len: bytes.len(),
        };
        let remote: Vec<RemoteIoVec> = batch.iter().map(range).collect();
        let local: Vec<IoSlice> = batch.iter().map(|(_, bytes)| IoSlice::new(bytes)).collect();
        let total: usize = batch.iter().map(|(_, bytes)| bytes.len()).sum();
        match process_vm_writev(self.pid(), &local, &remote) {
            Ok(n) if n == total => Ok(()),
            Ok(_) | Err(Errno::EFAULT) => batch
                .iter()
                .try_for_each(|&(addr, bytes)| self.write(addr, bytes)),
            Err(errno) => Err(self.failure("process_vm_writev", errno, batch.first().map_or(0, |p| p.0))),
        }
    }
}
