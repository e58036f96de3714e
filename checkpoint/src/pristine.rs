//! What a private file mapping holds where nobody wrote: the content of the file.
//!
//! Whether a page was ever copied is history; a page that was written and holds the file's bytes again is as
//! good as one that never was. So pages count by how they differ from the file, and a page that was not written at the time of a mark is
//! restored by writing the file's bytes. A file that is gone or was replaced has no known content, and then every
//! written page counts.

use crate::layout::{Kind, MappedFile, Region};
use crate::store::{PAGE, Page, Store};
use hashbrown::HashMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::rc::Rc;

/// Content of untouched memory.
#[derive(Debug, Default)]
pub(crate) struct Pristine {
    files: HashMap<Rc<MappedFile>, Option<Contents>>,
}

#[derive(Debug)]
struct Contents {
    file: File,
    /// By offset.
    pages: HashMap<u64, Page>,
}

/// Content of one untouched page.
#[derive(Debug, Clone)]
pub(crate) enum Untouched {
    Zeros,
    File(Page),
    /// Of a file that cannot be read any more.
    Unknown,
}

impl Pristine {
    /// What the page at this address holds as long as nobody writes.
    pub(crate) fn page(&mut self, store: &mut Store, mapping: &Region, addr: u64) -> Untouched {
        let Kind::File { file, offset, .. } = &mapping.kind else {
            return Untouched::Zeros;
        };
        let offset = offset + (addr - mapping.start);
        if !self.files.contains_key(file) {
            self.files.insert(Rc::clone(file), open(file));
        }
        let Some(Some(contents)) = self.files.get_mut(file) else {
            return Untouched::Unknown;
        };
        if let Some(page) = contents.pages.get(&offset) {
            return Untouched::File(page.clone());
        }
        let mut bytes = [0; PAGE];
        if read(&contents.file, &mut bytes, offset).is_err() {
            return Untouched::Unknown;
        }
        let page = store.keep(&bytes);
        contents.pages.insert(offset, page.clone());
        Untouched::File(page)
    }
}

/// The file, if it is still the one that is mapped.
fn open(mapped: &MappedFile) -> Option<Contents> {
    let file = File::open(&mapped.path).ok()?;
    let found = file.metadata().ok()?;
    let same = found.is_file() && found.ino() == mapped.inode && found.dev() == mapped.device;
    same.then(|| Contents {
        file,
        pages: HashMap::new(),
    })
}

/// Fills the buffer; what is behind the end of the file reads as zeros, as it does in a mapping.
fn read(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
