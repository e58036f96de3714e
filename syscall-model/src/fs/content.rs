//! The bytes of a changed file: pages written by the program over the host's file.
//!
//! Pages are shared between checkpoints, and a digest over them is kept along with every change, so that
//! hashing a state never reads file data again.

use crate::fs::host::HostFile;
use crate::fs::node::Bytes;
use crate::memory::PAGE;
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use syscalls::Errno;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The part of a host file that still shows through.
#[derive(Clone, Debug)]
pub struct Base {
    pub path: Bytes,
    pub file: Arc<dyn HostFile>,
    /// Bytes from here on were cut off by the program.
    pub len: u64,
    /// All that the host has.
    pub full: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Page {
    bytes: Arc<Vec<u8>>,
    digest: u64,
}

/// The contents of a regular file in the overlay.
#[derive(Clone, Debug, Default)]
pub struct FileData {
    base: Option<Base>,
    size: u64,
    pages: OrdMap<u64, Page>,
    /// Sum over all pages of a hash of number and contents: order does not matter, so it can be kept up.
    digest: u64,
}

impl PartialEq for FileData {
    fn eq(&self, other: &Self) -> bool {
        let base = |data: &Self| data.base.as_ref().map(|b| (b.path.clone(), b.len));
        self.size == other.size
            && self.digest == other.digest
            && base(self) == base(other)
            && self.pages == other.pages
    }
}

impl Eq for FileData {}

impl Hash for FileData {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.size.hash(state);
        self.digest.hash(state);
        if let Some(base) = &self.base {
            base.path.hash(state);
            base.len.hash(state);
        }
    }
}

impl FileData {
    pub fn over(base: Base) -> Self {
        Self {
            size: base.len,
            base: Some(base),
            ..Self::default()
        }
    }

    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut data = Self::default();
        // Without a base nothing is read from the host, so nothing can fail.
        let _ = data.write_at(0, bytes);
        data
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// The host file beneath, if the program never changed a byte of it.
    pub fn untouched(&self) -> Option<&Base> {
        self.base
            .as_ref()
            .filter(|base| self.pages.is_empty() && base.full == base.len && base.full == self.size)
    }

    /// Up to `max` bytes at `offset`; fewer only at the end of the file.
    pub fn read_at(&self, offset: u64, max: usize) -> Result<Vec<u8>, Errno> {
        let end = self.size.min(offset.saturating_add(max as u64));
        let Some(len) = end.checked_sub(offset) else {
            return Ok(Vec::new());
        };
        let mut out = vec![0; len as usize];
        if self.pages.is_empty() {
            self.read_base(offset, &mut out)?;
            return Ok(out);
        }
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let within = (at % PAGE) as usize;
            let n = (PAGE as usize - within).min(out.len() - done);
            match self.pages.get(&(at / PAGE)) {
                Some(page) => out[done..done + n].copy_from_slice(&page.bytes[within..within + n]),
                None => self.read_base(at, &mut out[done..done + n])?,
            }
            done += n;
        }
        Ok(out)
    }

    /// The pages, counted from `offset` (which is a page's), in which memory is unlike the file. What lies beyond the end of the file does not count.
    pub fn unlike(&self, offset: u64, memory: &[u8]) -> Result<Vec<u64>, Errno> {
        const EMPTY: [u8; PAGE as usize] = [0; PAGE as usize];
        let mut unlike = Vec::new();
        for (i, piece) in (0..).zip(memory.chunks(PAGE as usize)) {
            let at = offset + i * PAGE;
            let left = usize::try_from(self.size.saturating_sub(at)).unwrap_or(usize::MAX);
            let piece = &piece[..piece.len().min(left)];
            let is_same = match (self.pages.get(&(at / PAGE)), &self.base) {
                (Some(page), _) => page.bytes[..piece.len()] == *piece,
                (None, None) => EMPTY[..piece.len()] == *piece,
                (None, Some(_)) => self.read_at(at, piece.len())? == piece,
            };
            if !is_same {
                unlike.push(i);
            }
        }
        Ok(unlike)
    }

    /// The pages that were written since the file was like `before`, by number, with what is in them; `None` if more has changed than that.
    pub fn written_since<'d>(&'d self, before: &'d Self) -> Option<Vec<(u64, &'d [u8])>> {
        let base = |data: &Self| data.base.as_ref().map(|base| (base.path.clone(), base.len));
        if self.size != before.size || base(self) != base(before) {
            return None;
        }
        let changes = before.pages.diff(&self.pages).map(|change| match change {
            DiffItem::Add(number, page) => Some((*number, page.bytes.as_slice())),
            DiffItem::Update {
                new: (number, page), ..
            } => Some((*number, page.bytes.as_slice())),
            DiffItem::Remove(..) => None,
        });
        changes.collect()
    }

    fn read_base(&self, offset: u64, out: &mut [u8]) -> Result<(), Errno> {
        if let Some(base) = &self.base
            && offset < base.len
        {
            let n = (base.len - offset).min(out.len() as u64) as usize;
            base.file.read_at(&mut out[..n], offset)?;
        }
        Ok(())
    }

    pub fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let within = (at % PAGE) as usize;
            let n = (PAGE as usize - within).min(data.len() - done);
            self.change_page(at / PAGE, within, &data[done..done + n])?;
            done += n;
        }
        self.size = self.size.max(offset + data.len() as u64);
        Ok(())
    }

    fn change_page(&mut self, number: u64, within: usize, data: &[u8]) -> Result<(), Errno> {
        let mut bytes = match self.pages.remove(&number) {
            Some(page) => {
                self.digest = self.digest.wrapping_sub(numbered(number, page.digest));
                page.bytes
            }
            None => {
                let mut bytes = vec![0; PAGE as usize];
                if data.len() < bytes.len() {
                    self.read_base(number * PAGE, &mut bytes)?;
                }
                Arc::new(bytes)
            }
        };
        Arc::make_mut(&mut bytes)[within..within + data.len()].copy_from_slice(data);
        let digest = xxh3_64(&bytes);
        self.digest = self.digest.wrapping_add(numbered(number, digest));
        self.pages.insert(number, Page { bytes, digest });
        Ok(())
    }

    /// Cuts or extends with zeroes.
    pub fn resize(&mut self, size: u64) -> Result<(), Errno> {
        if size < self.size {
            let beyond: Vec<u64> = self
                .pages
                .range(size.div_ceil(PAGE)..)
                .map(|(&number, _)| number)
                .collect();
            for number in beyond {
                if let Some(page) = self.pages.remove(&number) {
                    self.digest = self.digest.wrapping_sub(numbered(number, page.digest));
                }
            }
            let within = (size % PAGE) as usize;
            if within != 0 && self.pages.contains_key(&(size / PAGE)) {
                self.change_page(size / PAGE, within, &vec![0; PAGE as usize - within])?;
            }
            if let Some(base) = &mut self.base {
                base.len = base.len.min(size);
            }
            if size == 0 {
                self.base = None;
            }
        }
        self.size = size;
        Ok(())
    }

    /// Writes zeroes from `start` up to `end`.
    pub fn zero(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        let mut at = start;
        while at < end {
            let n = (PAGE - at % PAGE).min(end - at);
            self.change_page(at / PAGE, (at % PAGE) as usize, &vec![0; n as usize])?;
            at += n;
        }
        Ok(())
    }

    /// 512-byte blocks, as if every page below the end were allocated.
    pub fn blocks(&self) -> u64 {
        self.size.div_ceil(PAGE) * (PAGE / 512)
    }
}

fn numbered(number: u64, digest: u64) -> u64 {
    xxh3_64_with_seed(&digest.to_le_bytes(), number)
}
