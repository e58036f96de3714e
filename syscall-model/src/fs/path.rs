//! Path resolution, one component at a time, through both layers.

use crate::fs::node::NodeId;
use crate::fs::tree::{View, join};
use crate::fs::virtual_files;
use std::collections::VecDeque;
use syscalls::Errno;

/// As the kernel.
const MAX_LINKS: u32 = 40;
const NAME_MAX: usize = 255;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The directory of the last component.
    pub dir: NodeId,
    /// The last component; `.`, `..` or empty if the path ends in one of them or is the root.
    pub name: Vec<u8>,
    /// What is there, if anything.
    pub node: Option<NodeId>,
    /// The absolute path, without links.
    pub path: Vec<u8>,
    /// The path ended in a slash: it must be, or become, a directory.
    pub slash: bool,
}

impl Found {
    /// What is there, or `ENOENT`.
    pub fn existing(&self) -> Result<NodeId, Errno> {
        self.node.clone().ok_or(Errno::ENOENT)
    }

    /// The path has a last component that can be made or removed.
    pub fn has_name(&self) -> bool {
        !matches!(self.name.as_slice(), b"" | b"." | b"..")
    }
}

/// What to do with a symbolic link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    Follow,
    /// As `Follow`, for a file to open or to create: a slash at the end is `EISDIR`.
    Create,
    /// Stop at the link, unless a slash comes after it.
    Keep,
    /// The path names an entry to make or remove: nothing is followed, and a slash is the caller's business.
    Name,
}

/// Follows `path` from `start` (used if the path is relative).
pub fn resolve(view: &View, start: &NodeId, path: &[u8], last: Last) -> Result<Found, Errno> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let mut walk = Walk {
        view,
        at: start.clone(),
        at_path: Vec::new(),
        rest: VecDeque::new(),
        links: 0,
        slash: false,
    };
    walk.at_path = if path[0] == b'/' {
        Vec::new()
    } else {
        view.directory_path(start)?
    };
    walk.push(path)?;
    walk.run(last)
}

struct Walk<'v, 'a> {
    view: &'v View<'a>,
    at: NodeId,
    at_path: Vec<u8>,
    rest: VecDeque<Vec<u8>>,
    links: u32,
    slash: bool,
}

impl Walk<'_, '_> {
    /// Puts a path before what is left to do.
    fn push(&mut self, path: &[u8]) -> Result<(), Errno> {
        if path[0] == b'/' {
            self.at = self.view.root()?;
            self.at_path = self.view.root_path()?;
        }
        if self.rest.is_empty() && path.ends_with(b"/") {
            self.slash = true;
        }
        let parts: Vec<&[u8]> = path
            .split(|&b| b == b'/')
            .filter(|part| !part.is_empty())
            .collect();
        for part in parts.into_iter().rev() {
            self.rest.push_front(part.to_vec());
        }
        Ok(())
    }

    fn run(mut self, how: Last) -> Result<Found, Errno> {
        let mut last_name = Vec::new();
        while let Some(name) = self.rest.pop_front() {
            self.enter_check(&name)?;
            let last = self.rest.is_empty();
            match name.as_slice() {
                b"." => {
                    last_name = name;
                    continue;
                }
                b".." if self.view.is_root(&self.at) => {
                    last_name = name;
                    continue;
                }
                b".." => {
                    self.at = self.view.parent(&self.at)?;
                    self.at_path = self.view.directory_path(&self.at)?;
                    last_name = name;
                    continue;
                }
                _ => {}
            }
            if last && self.slash && how == Last::Create {
                return Err(Errno::EISDIR);
            }
            let path = join(&self.at_path, &name);
            let Some(node) = self.view.child(&self.at, &name)? else {
                if !last {
                    return Err(Errno::ENOENT);
                }
                return Ok(self.found(name, None, path));
            };
            let attributes = self.view.type_and_permissions(&node)?;
            let follow = match how {
                Last::Follow | Last::Create => true,
                Last::Keep => self.slash,
                Last::Name => false,
            };
            if attributes.is_symlink() && (!last || follow) {
                self.links += 1;
                if self.links > MAX_LINKS {
                    return Err(Errno::ELOOP);
                }
                if let Some((node, path)) = virtual_files::magic_link(self.view, &node)? {
                    if last {
                        return Ok(self.found(name, Some(node), path));
                    }
                    self.at = node;
                    self.at_path = path;
                    continue;
                }
                let target = self.view.read_link(&node)?;
                if target.is_empty() {
                    return Err(Errno::ENOENT);
                }
                self.push(&target)?;
                continue;
            }
            if last {
                if self.slash && !attributes.is_dir() && how != Last::Name {
                    return Err(Errno::ENOTDIR);
                }
                return Ok(self.found(name, Some(node), path));
            }
            self.at = node;
            self.at_path = path;
            last_name.clear();
        }
        let (at, path) = (self.at.clone(), self.at_path.clone());
        Ok(self.found(last_name, Some(at), path))
    }

    /// May the walk look for `name` where it stands?
    fn enter_check(&self, name: &[u8]) -> Result<(), Errno> {
        let attributes = self.view.type_and_permissions(&self.at)?;
        if !attributes.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        if !self.view.permits(&attributes, 1) {
            return Err(Errno::EACCES);
        }
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        Ok(())
    }

    fn found(self, name: Vec<u8>, node: Option<NodeId>, path: Vec<u8>) -> Found {
        Found {
            dir: self.at,
            name,
            node,
            path,
            slash: self.slash,
        }
    }
}
