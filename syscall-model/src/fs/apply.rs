//! What a run left behind in the overlay, and carrying it over to real files.

use crate::fs::host::as_path;
use crate::fs::node::{Content, Ino, NodeId};
use crate::fs::path::{Last, resolve};
use crate::fs::tree::{View, join};
use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use syscalls::Errno;

/// One difference between the overlay and the host's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing is left of what the host has there.
    Removed,
    Directory {
        mode: u32,
    },
    /// All bytes, read beforehand: applying one change may overwrite the host file that another began as.
    File {
        mode: u32,
        bytes: Vec<u8>,
    },
    Symlink(Vec<u8>),
}

/// All differences, by absolute path, in the order in which they must be applied: host files that changed
/// where they are, so that all their hard links change; removals; and what is new, directories before what they
/// hold. FIFOs, sockets, owners, times and links between new files are not carried over.
pub fn changes(view: &View) -> Result<Vec<(Vec<u8>, Change)>, Errno> {
    if view.fs().has_own_root() {
        // Whoever asks is outside.
        let mut model = view.model.clone();
        model.fs.set_root(None);
        let view = View {
            model: &model,
            ..*view
        };
        return changes(&view);
    }
    let mut found = Changes {
        view: *view,
        rewritten: Vec::new(),
        removed: Vec::new(),
        made: Vec::new(),
    };
    for (&ino, node) in &view.fs().nodes {
        if let Some(origin) = &node.origin {
            found.changed_host_file(origin, ino)?;
        }
    }
    let Changes {
        rewritten,
        mut removed,
        mut made,
        ..
    } = found;
    removed.sort();
    removed.dedup();
    made.sort_by(|a, b| a.0.cmp(&b.0));
    let removed = removed.into_iter().map(|path| (path, Change::Removed));
    Ok(rewritten.into_iter().chain(removed).chain(made).collect())
}

/// Does the host path still lead to this inode?
fn in_place(view: &View, origin: &[u8], ino: Ino) -> bool {
    let found = view
        .root()
        .and_then(|root| resolve(view, &root, origin, Last::Keep));
    found.is_ok_and(|found| found.node == Some(NodeId::Overlay(ino)))
}

struct Changes<'a> {
    view: View<'a>,
    rewritten: Vec<(Vec<u8>, Change)>,
    removed: Vec<Vec<u8>>,
    made: Vec<(Vec<u8>, Change)>,
}

impl Changes<'_> {
    fn changed_host_file(&mut self, path: &[u8], ino: Ino) -> Result<(), Errno> {
        let node = self.view.fs().node(ino);
        let host = self.view.host.lstat(path)?;
        let mode = node.attributes.mode & 0o7777;
        let same_mode = host.mode == node.attributes.mode;
        // What moved away shows up where it went, and what has no name any more not at all.
        let here = in_place(&self.view, path, ino);
        match &node.content {
            Content::File(data) => {
                let changed = data.untouched().is_none() || !same_mode;
                let other_names = host.nlink > 1 && node.attributes.nlink > 0;
                if changed && (here || other_names) {
                    let bytes = data.read_at(0, data.size() as usize)?;
                    self.rewritten.push((path.to_vec(), Change::File { mode, bytes }));
                }
            }
            Content::Directory(directory) if here => {
                if !same_mode {
                    self.made.push((path.to_vec(), Change::Directory { mode }));
                }
                for (name, entry) in &directory.entries {
                    self.entry(&join(path, name), *entry)?;
                }
            }
            Content::Directory(_) | Content::Symlink(_) | Content::Other => {}
        }
        Ok(())
    }

    /// A name that a changed directory has or hides.
    fn entry(&mut self, path: &[u8], entry: Option<Ino>) -> Result<(), Errno> {
        // Another inode took the name: writing into the old one would change its other names too.
        if self.view.host.lstat(path).is_ok() {
            self.removed.push(path.to_vec());
        }
        let Some(ino) = entry else { return Ok(()) };
        self.whole(path, &NodeId::Overlay(ino))
    }

    /// A file, or a directory with all that is in it.
    fn whole(&mut self, path: &[u8], node: &NodeId) -> Result<(), Errno> {
        let attributes = self.view.attributes(node)?;
        let mode = attributes.mode & 0o7777;
        let change = match attributes.file_type() {
            libc::S_IFREG => Change::File {
                mode,
                bytes: self.bytes(node, attributes.size)?,
            },
            libc::S_IFLNK => Change::Symlink(self.view.read_link(node)?),
            libc::S_IFDIR => Change::Directory { mode },
            _ => return Ok(()),
        };
        self.made.push((path.to_vec(), change));
        if attributes.is_dir() {
            for entry in self.view.list(node)? {
                if let Some(child) = self.view.child(node, &entry.name)? {
                    self.whole(&join(path, &entry.name), &child)?;
                }
            }
        }
        Ok(())
    }

    fn bytes(&self, node: &NodeId, size: u64) -> Result<Vec<u8>, Errno> {
        match self.view.fs().current(node) {
            NodeId::Overlay(ino) => self.view.fs().file_data(ino)?.read_at(0, size as usize),
            NodeId::Host(host) => {
                let mut bytes = vec![0; size as usize];
                let n = self.view.host.open(&host.path)?.read_at(&mut bytes, 0)?;
                bytes.truncate(n);
                Ok(bytes)
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

/// Carries changes over to the real files, in place.
pub fn apply(changes: &[(Vec<u8>, Change)]) -> io::Result<()> {
    changes
        .iter()
        .try_for_each(|(path, change)| apply_one(as_path(path), change))
}

fn apply_one(path: &Path, change: &Change) -> io::Result<()> {
    let existing = fs::symlink_metadata(path).ok();
    match change {
        Change::Removed => match existing {
            Some(meta) if meta.is_dir() => fs::remove_dir_all(path),
            Some(_) => fs::remove_file(path),
            None => Ok(()),
        },
        Change::Directory { mode } => {
            if existing.is_none() {
                fs::create_dir(path)?;
            }
            fs::set_permissions(path, fs::Permissions::from_mode(*mode))
        }
        Change::File { mode, bytes } => {
            use io::Write as _;
            // In place, so that other names of the file keep up; never through a symbolic link.
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(*mode)
                .custom_flags(libc::O_NOFOLLOW)
                .open(path)?;
            file.write_all(bytes)?;
            file.set_permissions(fs::Permissions::from_mode(*mode))
        }
        Change::Symlink(target) => {
            if existing.is_some() {
                fs::remove_file(path)?;
            }
            std::os::unix::fs::symlink(as_path(target), path)
        }
    }
}
