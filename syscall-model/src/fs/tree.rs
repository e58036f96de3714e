//! The tree of names over both layers: looking up, listing, copying up, changing entries.

use crate::fs::content::{Base, FileData};
use crate::fs::node::{Attributes, Bytes, Content, Directory, HostNode, Ino, Node, NodeId, Time};
use crate::fs::virtual_files::{self, Layer};
use crate::fs::{Cwd, FileSystem, Host, OVERLAY_DEV, PAGE_BLOCKS};
use crate::model::{Cx, Model};
use crate::thread::Tid;
use imbl::OrdMap;
use syscalls::Errno;

/// Everything that looking up a file depends on.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub model: &'a Model,
    pub host: &'a dyn Host,
    /// Who looks: `/proc/thread-self`.
    pub tid: Tid,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    pub name: Vec<u8>,
    pub ino: u64,
    /// The `S_IFMT` bits.
    pub file_type: u32,
}

impl Cx<'_> {
    pub fn view(&self) -> View<'_> {
        View {
            model: self.model,
            host: self.host,
            tid: self.tid,
        }
    }

    /// Who owns files that are created now.
    pub fn owner(&self) -> (u32, u32) {
        self.view().user()
    }

    /// The time for files that change now.
    pub fn file_time(&self) -> Time {
        Time::from_nanos(self.model.clock.realtime())
    }
}

pub(crate) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = dir.to_vec();
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Directory and name of an absolute path; the root is its own parent.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&b| b == b'/') {
        Some(0) => (b"/", &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"/", path),
    }
}

impl<'a> View<'a> {
    pub fn fs(&self) -> &'a FileSystem {
        &self.model.fs
    }

    /// User and group that file permissions are checked against.
    pub fn user(&self) -> (u32, u32) {
        let process = &self.model.process;
        (process.owner.user.effective, process.owner.group.effective)
    }

    /// May this user do all of `want` (bits of `R_OK | W_OK | X_OK`) with a file like this?
    pub fn permits(&self, attributes: &Attributes, want: u32) -> bool {
        let (uid, gid) = self.user();
        if uid == 0 {
            return want & 1 == 0 || attributes.is_dir() || attributes.mode & 0o111 != 0;
        }
        let shift = if uid == attributes.uid {
            6
        } else if gid == attributes.gid || self.model.process.owner.groups.contains(&attributes.gid) {
            3
        } else {
            0
        };
        (attributes.mode >> shift) & want == want
    }

    pub fn root(&self) -> Result<NodeId, Errno> {
        match &self.fs().place.root {
            Some(root) => Ok(self.fs().current(root)),
            None => self.host_node(b"/")?.ok_or(Errno::ENOENT),
        }
    }

    /// Where that is.
    pub fn root_path(&self) -> Result<Vec<u8>, Errno> {
        match &self.fs().place.root {
            Some(root) => self.directory_path(root),
            None => Ok(b"/".to_vec()),
        }
    }

    /// Does `..` lead nowhere from here?
    pub fn is_root(&self, dir: &NodeId) -> bool {
        let root = self.fs().place.root.as_ref();
        root.is_some_and(|root| self.fs().key(root) == self.fs().key(dir))
    }

    /// The working directory.
    pub fn cwd(&self) -> Result<NodeId, Errno> {
        match &self.fs().place.cwd {
            Cwd::Initial(path) => self.host_node(path)?.ok_or(Errno::ENOENT),
            Cwd::Node(node) => Ok(node.clone()),
        }
    }

    /// What the host, or the made-up files that stand in for it, has at an absolute path.
    fn host_node(&self, path: &[u8]) -> Result<Option<NodeId>, Errno> {
        match virtual_files::layer(self, path) {
            Layer::Missing => return Ok(None),
            Layer::Virtual => return Ok(Some(NodeId::Virtual(path.into()))),
            Layer::Host => {}
        }
        match self.host.attributes(path) {
            Ok(attributes) => Ok(Some(self.fs().current(&NodeId::Host(HostNode {
                path: path.into(),
                dev: attributes.dev,
                ino: attributes.ino,
            })))),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The entry `name` of a directory.
    pub fn child(&self, dir: &NodeId, name: &[u8]) -> Result<Option<NodeId>, Errno> {
        match self.fs().current(dir) {
            NodeId::Host(host) => self.host_node(&join(&host.path, name)),
            NodeId::Virtual(path) => self.host_node(&join(&path, name)),
            NodeId::Overlay(ino) => {
                let directory = self.fs().directory(ino)?;
                match (directory.entries.get(name), &directory.base) {
                    (Some(entry), _) => Ok(entry.map(NodeId::Overlay)),
                    (None, Some(base)) => self.host_node(&join(base, name)),
                    (None, None) => Ok(None),
                }
            }
            NodeId::Open(_) => Err(Errno::ENOTDIR),
        }
    }

    pub fn parent(&self, dir: &NodeId) -> Result<NodeId, Errno> {
        match self.fs().current(dir) {
            NodeId::Host(host) => self.host_node(split(&host.path).0)?.ok_or(Errno::ENOENT),
            NodeId::Virtual(path) => self.host_node(split(&path).0)?.ok_or(Errno::ENOENT),
            NodeId::Overlay(ino) => Ok(self.fs().current(&self.fs().directory(ino)?.parent)),
            NodeId::Open(_) => Err(Errno::ENOTDIR),
        }
    }

    /// The absolute path of a directory; `ENOENT` if it was removed.
    pub fn directory_path(&self, dir: &NodeId) -> Result<Vec<u8>, Errno> {
        let mut names: Vec<Bytes> = Vec::new();
        let mut node = self.fs().current(dir);
        let mut path = loop {
            match &node {
                NodeId::Virtual(path) => break path.to_vec(),
                NodeId::Host(host) if !self.fs().moved || &*host.path == b"/" => break host.path.to_vec(),
                NodeId::Host(host) => names.push(split(&host.path).1.into()),
                NodeId::Overlay(ino) => {
                    let directory = self.fs().directory(*ino)?;
                    if self.fs().node(*ino).attributes.nlink == 0 {
                        return Err(Errno::ENOENT);
                    }
                    if directory.base.as_deref() == Some(b"/") {
                        break b"/".to_vec();
                    }
                    names.push(directory.name.clone());
                }
                NodeId::Open(_) => return Err(Errno::ENOTDIR),
            }
            node = self.parent(&node)?;
        };
        for name in names.iter().rev() {
            path = join(&path, name);
        }
        Ok(path)
    }

    /// All that the program may be shown of a file.
    pub fn attributes(&self, node: &NodeId) -> Result<Attributes, Errno> {
        match self.fs().current(node) {
            NodeId::Host(host) => self.host.lstat(&host.path),
            NodeId::Overlay(ino) => {
                let shown = self.fs().overlay_attributes(ino);
                if let Content::Directory(Directory { base: Some(base), .. }) = &self.fs().node(ino).content {
                    // What it was copied up from shows through, so the host must know that it was seen.
                    self.host.lstat(base)?;
                }
                Ok(shown)
            }
            _ => self.type_and_permissions(node),
        }
    }

    /// Attributes of which only type, owner, permissions and identity are used.
    pub(crate) fn type_and_permissions(&self, node: &NodeId) -> Result<Attributes, Errno> {
        match self.fs().current(node) {
            NodeId::Host(host) => self.host.attributes(&host.path),
            NodeId::Overlay(ino) => Ok(self.fs().overlay_attributes(ino)),
            NodeId::Virtual(path) => virtual_files::attributes(self, &path),
            NodeId::Open(id) => Ok(virtual_files::description_attributes(self, id)),
        }
    }

    pub fn read_link(&self, node: &NodeId) -> Result<Vec<u8>, Errno> {
        match self.fs().current(node) {
            NodeId::Host(host) => self.host.read_link(&host.path),
            NodeId::Overlay(ino) => match &self.fs().node(ino).content {
                Content::Symlink(target) => Ok(target.to_vec()),
                _ => Err(Errno::EINVAL),
            },
            NodeId::Virtual(path) => virtual_files::link(self, &path).ok_or(Errno::EINVAL),
            NodeId::Open(_) => Err(Errno::EINVAL),
        }
    }

    /// The entries of a directory without `.` and `..`, sorted by name so that the order is always the same.
    pub fn list(&self, dir: &NodeId) -> Result<Vec<Entry>, Errno> {
        let mut entries: Vec<Entry> = match self.fs().current(dir) {
            NodeId::Host(host) => self.list_host(&host.path)?,
            NodeId::Virtual(path) => virtual_files::list(self, &path)?,
            NodeId::Overlay(ino) => {
                let directory = self.fs().directory(ino)?;
                let mut entries = match &directory.base {
                    Some(base) => self.list_host(base)?,
                    None => Vec::new(),
                };
                entries.retain(|entry| !directory.entries.contains_key(entry.name.as_slice()));
                for (name, ino) in &directory.entries {
                    let Some(ino) = *ino else { continue };
                    let attributes = &self.fs().node(ino).attributes;
                    entries.push(Entry {
                        name: name.to_vec(),
                        ino: attributes.ino,
                        file_type: attributes.file_type(),
                    });
                }
                entries
            }
            NodeId::Open(_) => return Err(Errno::ENOTDIR),
        };
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn list_host(&self, path: &[u8]) -> Result<Vec<Entry>, Errno> {
        let entries = self.host.read_dir(path)?;
        Ok(entries
            .into_iter()
            .filter(|entry| {
                !matches!(
                    virtual_files::layer(self, &join(path, &entry.name)),
                    Layer::Missing
                )
            })
            .map(|entry| Entry {
                name: entry.name,
                ino: entry.ino,
                file_type: entry.file_type,
            })
            .collect())
    }
}

impl FileSystem {
    pub(crate) fn directory(&self, ino: Ino) -> Result<&Directory, Errno> {
        match &self.node(ino).content {
            Content::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn directory_mut(&mut self, ino: Ino) -> Result<&mut Directory, Errno> {
        match &mut self.node_mut(ino).content {
            Content::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(crate) fn overlay_attributes(&self, ino: Ino) -> Attributes {
        let node = self.node(ino);
        let mut attributes = node.attributes;
        if let Content::File(data) = &node.content {
            attributes.size = data.size();
            attributes.blocks = data.blocks();
        }
        attributes
    }

    /// A new inode with one link, not in any directory yet.
    pub(crate) fn create(&mut self, mode: u32, owner: (u32, u32), now: Time, content: Content) -> Ino {
        while self.nodes.contains_key(&self.place.next) {
            self.place.next += 1;
        }
        let ino = self.place.next;
        self.place.next += 1;
        let size = match &content {
            Content::Symlink(target) => target.len() as u64,
            Content::Directory(_) => 4096,
            _ => 0,
        };
        let attributes = Attributes {
            dev: OVERLAY_DEV,
            ino,
            mode,
            nlink: if mode & libc::S_IFMT == libc::S_IFDIR {
                2
            } else {
                1
            },
            uid: owner.0,
            gid: owner.1,
            rdev: 0,
            size,
            blksize: 4096,
            blocks: if matches!(content, Content::Directory(_)) {
                PAGE_BLOCKS
            } else {
                0
            },
            atime: now,
            mtime: now,
            ctime: now,
        };
        self.nodes.insert(
            ino,
            Node {
                attributes,
                content,
                origin: None,
                seals: None,
                extended: OrdMap::new(),
            },
        );
        self.note_origin(ino);
        ino
    }

    /// Makes an overlay inode of a file, with the same contents and the same visible inode number.
    pub(crate) fn copy_up(&mut self, host: &dyn Host, node: &NodeId) -> Result<Ino, Errno> {
        let original = match self.current(node) {
            NodeId::Overlay(ino) => return Ok(ino),
            NodeId::Host(original) => original,
            NodeId::Virtual(_) | NodeId::Open(_) => return Err(Errno::EROFS),
        };
        let mut attributes = host.attributes(&original.path)?;
        if !attributes.is_dir() {
            attributes = host.lstat(&original.path)?;
        }
        let content = match attributes.file_type() {
            libc::S_IFREG => Content::File(FileData::over(Base {
                path: original.path.clone(),
                file: host.open(&original.path)?,
                len: attributes.size,
                full: attributes.size,
            })),
            libc::S_IFLNK => Content::Symlink(host.read_link(&original.path)?.into()),
            libc::S_IFDIR => {
                let (parent, name) = split(&original.path);
                let parent_attributes = host.attributes(parent)?;
                Content::Directory(Directory {
                    base: Some(original.path.clone()),
                    entries: OrdMap::new(),
                    parent: NodeId::Host(HostNode {
                        path: parent.into(),
                        dev: parent_attributes.dev,
                        ino: parent_attributes.ino,
                    }),
                    name: name.into(),
                })
            }
            _ => Content::Other,
        };
        while self.nodes.contains_key(&self.place.next) {
            self.place.next += 1;
        }
        let ino = self.place.next;
        self.place.next += 1;
        self.nodes.insert(
            ino,
            Node {
                attributes,
                content,
                origin: Some(original.path.clone()),
                seals: None,
                extended: OrdMap::new(),
            },
        );
        self.copied.insert((original.dev, original.ino), ino);
        self.note_origin(ino);
        Ok(ino)
    }

    /// Puts an inode under a name; whatever had the name must be gone.
    pub(crate) fn insert_entry(
        &mut self,
        host: &dyn Host,
        dir: &NodeId,
        name: &[u8],
        ino: Ino,
        now: Time,
    ) -> Result<(), Errno> {
        let parent = self.copy_up(host, dir)?;
        if let Content::Directory(directory) = &mut self.node_mut(ino).content {
            directory.parent = NodeId::Overlay(parent);
            directory.name = name.into();
            self.node_mut(parent).attributes.nlink += 1;
        }
        self.directory_mut(parent)?.entries.insert(name.into(), Some(ino));
        self.touch_modified(parent, now);
        Ok(())
    }

    /// Takes a name out of a directory. The inode's link count is the caller's business.
    pub(crate) fn remove_entry(
        &mut self,
        host: &dyn Host,
        dir: &NodeId,
        name: &[u8],
        now: Time,
    ) -> Result<(), Errno> {
        let parent = self.copy_up(host, dir)?;
        let directory = self.directory_mut(parent)?;
        let hides_host = directory
            .base
            .as_ref()
            .is_some_and(|base| host.attributes(&join(base, name)).is_ok());
        if hides_host {
            directory.entries.insert(name.into(), None);
        } else {
            directory.entries.remove(name);
        }
        self.touch_modified(parent, now);
        Ok(())
    }

    /// A subdirectory went away: its `..` no longer counts.
    pub(crate) fn lost_subdirectory(&mut self, host: &dyn Host, dir: &NodeId) -> Result<(), Errno> {
        let parent = self.copy_up(host, dir)?;
        let nlink = &mut self.node_mut(parent).attributes.nlink;
        *nlink = nlink.saturating_sub(1);
        Ok(())
    }

    pub(crate) fn touch_modified(&mut self, ino: Ino, now: Time) {
        let attributes = &mut self.node_mut(ino).attributes;
        attributes.mtime = now;
        attributes.ctime = now;
    }

    /// One name less; a directory goes for good.
    pub(crate) fn unlinked(&mut self, ino: Ino, now: Time) {
        let attributes = &mut self.node_mut(ino).attributes;
        attributes.nlink = if attributes.is_dir() {
            0
        } else {
            attributes.nlink.saturating_sub(1)
        };
        attributes.ctime = now;
        self.drop_if_unused(ino);
    }

    pub(super) fn drop_if_unused(&mut self, ino: Ino) {
        let Some(node) = self.nodes.get(&ino) else { return };
        let key = (node.attributes.dev, node.attributes.ino);
        if node.attributes.nlink > 0 || self.opens.contains_key(&key) {
            return;
        }
        self.nodes.remove(&ino);
        if self.copied.get(&key) == Some(&ino) {
            self.copied.remove(&key);
        }
    }

    pub(crate) fn set_cwd(&mut self, node: NodeId) {
        self.opened(&node);
        let old = std::mem::replace(&mut self.place.cwd, Cwd::Node(node));
        if let Cwd::Node(old) = old {
            self.forget(&old);
        }
    }

    pub(crate) fn host_directory_moved(&mut self) {
        self.moved = true;
    }
}
