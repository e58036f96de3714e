//! The guest's memory, as handlers see it.

use syscalls::Errno;

/// An address that the guest may not touch; becomes `EFAULT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad guest address {0:#x}")]
pub struct Fault(pub u64);

impl From<Fault> for Errno {
    fn from(_: Fault) -> Self {
        Errno::EFAULT
    }
}

/// Bytes in a page of memory.
pub const PAGE: u64 = 4096;
/// The first address that is no program's (`TASK_SIZE_MAX`).
const BEYOND: u64 = 0x7fff_ffff_f000;

/// Can a program have memory there at all? The kernel asks that before it looks at anything else (`access_ok`).
pub fn check_reachable(addr: u64, len: u64) -> Result<(), Fault> {
    match addr.checked_add(len) {
        Some(end) if end <= BEYOND => Ok(()),
        _ => Err(Fault(addr)),
    }
}

/// Reading and writing the memory of the program under test.
pub trait GuestMemory {
    /// Fills `out` from `addr`, all or nothing.
    fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), Fault>;
    /// Writes `data` at `addr`, all or nothing.
    fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), Fault>;
    /// As [`read`](Self::read), whatever the protection of the memory is: the kernel's own look at it.
    fn peek(&self, addr: u64, out: &mut [u8]) -> Result<(), Fault>;
    /// As [`write`](Self::write), whatever the protection of the memory is.
    fn poke(&mut self, addr: u64, data: &[u8]) -> Result<(), Fault>;
}

/// Typed access on top of [`GuestMemory`].
pub trait GuestMemoryExt: GuestMemory {
    fn read_u32(&self, addr: u64) -> Result<u32, Fault> {
        let mut bytes = [0; 4];
        self.read(addr, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn read_u64(&self, addr: u64) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        self.read(addr, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn write_u32(&mut self, addr: u64, value: u32) -> Result<(), Fault> {
        self.write(addr, &value.to_le_bytes())
    }

    fn write_u64(&mut self, addr: u64, value: u64) -> Result<(), Fault> {
        self.write(addr, &value.to_le_bytes())
    }

    fn read_vec(&self, addr: u64, len: usize) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; len];
        if len > 0 {
            self.read(addr, &mut bytes)?;
        }
        Ok(bytes)
    }

    fn peek_vec(&self, addr: u64, len: usize) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; len];
        if len > 0 {
            self.peek(addr, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Writes as much of `data` as there is memory for, page by page; how much that was.
    fn write_some(&mut self, addr: u64, data: &[u8]) -> usize {
        if self.write(addr, data).is_ok() {
            return data.len();
        }
        let mut done = 0;
        while done < data.len() {
            let at = addr.wrapping_add(done as u64);
            let piece = ((PAGE - at % PAGE) as usize).min(data.len() - done);
            if self.write(at, &data[done..done + piece]).is_err() {
                break;
            }
            done += piece;
        }
        done
    }

    /// Reads as much of `len` bytes as there is memory for, page by page.
    fn read_some(&self, addr: u64, len: usize) -> Vec<u8> {
        let mut data = Vec::new();
        while data.len() < len {
            let at = addr.wrapping_add(data.len() as u64);
            let piece = ((PAGE - at % PAGE) as usize).min(len - data.len());
            match self.read_vec(at, piece) {
                Ok(bytes) => data.extend(bytes),
                Err(_) => break,
            }
        }
        data
    }

    /// What lies beyond the end of a structure that is known must be nothing (`copy_struct_from_user`): `E2BIG` as soon as there is something.
    fn check_zero(&self, addr: u64, len: usize) -> Result<(), Errno> {
        let bytes = self.read_some(addr, len);
        match bytes.iter().any(|&byte| byte != 0) {
            true => Err(Errno::E2BIG),
            false if bytes.len() < len => Err(Errno::EFAULT),
            false => Ok(()),
        }
    }

    /// A NUL-terminated string of at most `max` bytes, read without crossing into the next page needlessly
    /// (the string may end just before an unmapped one).
    fn read_cstr(&self, addr: u64, max: usize) -> Result<Vec<u8>, Errno> {
        let mut out = Vec::new();
        let mut at = addr;
        while out.len() < max {
            let chunk = ((PAGE - at % PAGE) as usize).min(256).min(max - out.len());
            let bytes = self.read_vec(at, chunk)?;
            if let Some(end) = bytes.iter().position(|&b| b == 0) {
                out.extend_from_slice(&bytes[..end]);
                return Ok(out);
            }
            out.extend_from_slice(&bytes);
            at = at.wrapping_add(chunk as u64);
        }
        Err(Errno::ENAMETOOLONG)
    }

    /// A path argument: `ENAMETOOLONG` beyond `PATH_MAX`.
    fn read_path(&self, addr: u64) -> Result<Vec<u8>, Errno> {
        self.read_cstr(addr, 4096)
    }

    /// A `struct timespec`, validated as the kernel does, in nanoseconds.
    fn read_timespec(&self, addr: u64) -> Result<u64, Errno> {
        let seconds = self.read_u64(addr)? as i64;
        let nanos = self.read_u64(addr.wrapping_add(8))?;
        if seconds < 0 || nanos >= 1_000_000_000 {
            return Err(Errno::EINVAL);
        }
        Ok((seconds as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(nanos))
    }

    fn write_timespec(&mut self, addr: u64, nanos: u64) -> Result<(), Fault> {
        self.write_u64(addr, nanos / 1_000_000_000)?;
        self.write_u64(addr.wrapping_add(8), nanos % 1_000_000_000)
    }

    /// An `iovec` array as `(address, length)` pairs; `EINVAL` for more than `IOV_MAX` or a huge total.
    fn read_iovec(&self, addr: u64, count: u64) -> Result<Vec<(u64, usize)>, Errno> {
        if count > 1024 {
            return Err(Errno::EINVAL);
        }
        let mut total: u64 = 0;
        let mut out = Vec::with_capacity(count as usize);
        for i in 0..count {
            let base = self.read_u64(addr.wrapping_add(i * 16))?;
            let len = self.read_u64(addr.wrapping_add(i * 16 + 8))?;
            total = total
                .checked_add(len)
                .filter(|&t| t <= i64::MAX as u64)
                .ok_or(Errno::EINVAL)?;
            out.push((base, len as usize));
        }
        Ok(out)
    }
}

impl<M: GuestMemory + ?Sized> GuestMemoryExt for M {}

/// Flat memory for tests: one region, everything else faults.
#[derive(Clone, Debug)]
pub struct FlatMemory {
    base: u64,
    bytes: Vec<u8>,
}

impl FlatMemory {
    pub fn new(base: u64, len: usize) -> Self {
        Self {
            base,
            bytes: vec![0; len],
        }
    }

    fn range(&self, addr: u64, len: usize) -> Result<std::ops::Range<usize>, Fault> {
        let start = addr.checked_sub(self.base).ok_or(Fault(addr))? as usize;
        let end = start
            .checked_add(len)
            .filter(|&e| e <= self.bytes.len())
            .ok_or(Fault(addr))?;
        Ok(start..end)
    }
}

impl GuestMemory for FlatMemory {
    fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), Fault> {
        out.copy_from_slice(&self.bytes[self.range(addr, out.len())?]);
        Ok(())
    }

    fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), Fault> {
        let range = self.range(addr, data.len())?;
        self.bytes[range].copy_from_slice(data);
        Ok(())
    }

    fn peek(&self, addr: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.read(addr, out)
    }

    fn poke(&mut self, addr: u64, data: &[u8]) -> Result<(), Fault> {
        self.write(addr, data)
    }
}
