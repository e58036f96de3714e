//! What a power failure leaves of the files: what was synced, and any part of what was not.
//!
//! A disk is behind what the program sees of it. The contents of each file get there in the order in which they were written, but files have no order among
//! each other; names (made, renamed, removed) get there in their order, as in a journal. `fsync` of a file makes sure of its contents and of all names so far,
//! as journalling file systems do; of a directory, of the names; `sync` of everything. So after a failure the names are those of some moment since they
//! were last sure, and each file has the contents of some moment since it was last sure: a combination, see [`Durable::combinations`].
//!
//! A write may be there in part: up to some byte, see `torn`. Memory that is mapped shared counts from when it was last flushed.

use crate::call::Call;
use crate::fd::Kind;
use crate::fs::content::FileData;
use crate::fs::node::{Content, Directory, Ino, Node, NodeId};
use crate::fs::{Cwd, FileKey, FileSystem, Locks};
use crate::model::Model;
use imbl::{OrdMap, Vector, vector};
use syscalls::Sysno;

/// All combinations are tried if there are no more than these.
const MOST: usize = 64;
/// Of a write of so many bytes every prefix may be all that is there; of a longer one, some.
const SHORT: u64 = 8;
/// Of a file that is longer than this, writes are whole or not there.
const LONGEST: u64 = 1 << 22;

/// What may be on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Durable {
    /// The names after each change since they were last sure, oldest first; never empty once there is one.
    names: Vector<Names>,
    files: OrdMap<Ino, History>,
}

/// All changed directories at some moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Names {
    directories: OrdMap<Ino, Directory>,
    links: OrdMap<Ino, crate::fs::node::Bytes>,
}

/// A file's contents after each change since they were last sure, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct History {
    /// As it was last, for its attributes.
    node: Node,
    contents: Vector<FileData>,
}

impl Names {
    fn of(nodes: &OrdMap<Ino, Node>) -> Self {
        let mut names = Self::default();
        for (&ino, node) in nodes {
            match &node.content {
                Content::Directory(directory) => drop(names.directories.insert(ino, directory.clone())),
                Content::Symlink(target) => drop(names.links.insert(ino, target.clone())),
                Content::File(_) | Content::Other => {}
            }
        }
        names
    }

    /// The files that have a name.
    fn lead_to(&self) -> impl Iterator<Item = Ino> + '_ {
        let entries = self
            .directories
            .values()
            .flat_map(|directory| directory.entries.values());
        entries.filter_map(|entry| *entry)
    }
}

impl Durable {
    /// Which of the moments that are still open each part of the disk shows: the names first, then the files in their order. The first combination has
    /// everything as it was last.
    pub fn combinations(&self) -> Vec<Vec<usize>> {
        let lengths: Vec<usize> = std::iter::once(self.names.len().max(1))
            .chain(self.files.values().map(|history| history.contents.len()))
            .collect();
        let total = lengths
            .iter()
            .try_fold(1_usize, |product, &length| product.checked_mul(length));
        match total {
            Some(total) if total <= MOST => (0..total).map(|number| digits(number, &lengths)).collect(),
            _ => one_at_a_time(&lengths),
        }
    }
}

/// The number in the mixed base of `lengths`, counted down from the last moments.
fn digits(mut number: usize, lengths: &[usize]) -> Vec<usize> {
    let digit = |&length: &usize| {
        let digit = length - 1 - number % length;
        number /= length;
        digit
    };
    lengths.iter().map(digit).collect()
}

/// All last, all first, and each part at each of its moments while the others are all last or all first.
fn one_at_a_time(lengths: &[usize]) -> Vec<Vec<usize>> {
    let last: Vec<usize> = lengths.iter().map(|length| length - 1).collect();
    let first = vec![0; lengths.len()];
    let mut found = vec![last.clone(), first.clone()];
    for others in [last, first] {
        for (part, &length) in lengths.iter().enumerate() {
            for moment in (0..length).filter(|&moment| moment != others[part]) {
                let mut combination = others.clone();
                combination[part] = moment;
                found.push(combination);
            }
        }
    }
    found.dedup();
    found
}

impl FileSystem {
    /// From now on it is known what would survive a power failure.
    pub fn keep_history(&mut self) {
        self.durable = Some(Box::default());
        self.note_changes(false);
        if let Some(durable) = &mut self.durable {
            durable.names = vector![Names::of(&self.nodes)];
        }
    }

    /// A file is about to be changed for the first time: this is what it has on the disk.
    pub(super) fn note_origin(&mut self, ino: Ino) {
        if let Some(node) = self.nodes.get(&ino)
            && let (Content::File(data), Some(durable)) = (&node.content, &mut self.durable)
        {
            let history = History {
                node: node.clone(),
                contents: vector![data.clone()],
            };
            durable.files.insert(ino, history);
        }
    }

    /// A call is over: what has it changed? By a write, what is on the disk may be a part of it.
    fn note_changes(&mut self, is_write: bool) {
        let Some(durable) = &mut self.durable else { return };
        let names = Names::of(&self.nodes);
        if durable.names.last() != Some(&names) {
            durable.names.push_back(names);
        }
        for (&ino, node) in &self.nodes {
            let Content::File(data) = &node.content else {
                continue;
            };
            match durable.files.get_mut(&ino) {
                Some(history) => {
                    if let Some(before) = history.contents.last().filter(|last| *last != data).cloned() {
                        if is_write {
                            history.contents.extend(torn(&before, data));
                        }
                        history.contents.push_back(data.clone());
                    }
                    if history.node.attributes != node.attributes {
                        history.node.attributes = node.attributes;
                    }
                }
                None => {
                    let contents = vector![data.clone()];
                    let node = node.clone();
                    durable.files.insert(ino, History { node, contents });
                }
            }
        }
    }

    /// This file, and all names, are on the disk for sure.
    fn sync_file(&mut self, node: &NodeId) {
        let current = self.current(node);
        let Some(durable) = &mut self.durable else { return };
        if let NodeId::Overlay(ino) = current
            && let Some(history) = durable.files.get_mut(&ino)
        {
            keep_last(&mut history.contents);
        }
        keep_last(&mut durable.names);
    }

    fn sync_everything(&mut self) {
        let Some(durable) = &mut self.durable else { return };
        keep_last(&mut durable.names);
        let all: Vec<Ino> = durable.files.keys().copied().collect();
        for ino in all {
            if let Some(history) = durable.files.get_mut(&ino) {
                keep_last(&mut history.contents);
            }
        }
    }

    /// How many ways there are in which a power failure may leave the files.
    pub fn power_failures(&self) -> usize {
        self.durable
            .as_ref()
            .map_or(0, |durable| durable.combinations().len())
    }

    /// The files as another process finds them after the power failed, in one of these ways; `None` if there is no such way.
    pub fn after_power_failure(&self, number: usize, cwd: &[u8]) -> Option<FileSystem> {
        let durable = self.durable.as_ref()?;
        let combination = durable.combinations().into_iter().nth(number)?;
        let (&moment, files) = combination.split_first()?;
        let names = durable.names.get(moment).cloned().unwrap_or_default();
        let mut left = self.after_exit(cwd);
        left.nodes = OrdMap::new();
        for (&ino, directory) in &names.directories {
            if let Some(node) = self.nodes.get(&ino) {
                let content = Content::Directory(directory.clone());
                left.nodes.insert(
                    ino,
                    Node {
                        content,
                        ..node.clone()
                    },
                );
            }
        }
        for &ino in names.links.keys() {
            if let Some(node) = self.nodes.get(&ino) {
                left.nodes.insert(ino, node.clone());
            }
        }
        for ((&ino, history), &moment) in durable.files.iter().zip(files) {
            let is_named = history.node.origin.is_some() || names.lead_to().any(|named| named == ino);
            if let Some(data) = history.contents.get(moment).filter(|_| is_named) {
                let mut node = history.node.clone();
                node.content = Content::File(data.clone());
                node.attributes.nlink = node.attributes.nlink.max(1);
                left.copied_again(&node, ino);
                left.nodes.insert(ino, node);
            }
        }
        let gone = |ino: &Ino| !left.nodes.contains_key(ino);
        let stale: Vec<FileKey> = left
            .copied
            .iter()
            .filter(|(_, ino)| gone(ino))
            .map(|(key, _)| *key)
            .collect();
        for key in stale {
            left.copied.remove(&key);
        }
        Some(left)
    }

    /// A file of the host that was removed later stands in its place again.
    fn copied_again(&mut self, node: &Node, ino: Ino) {
        if node.origin.is_some() {
            self.copied
                .insert((node.attributes.dev, node.attributes.ino), ino);
        }
    }

    /// The files as another process finds them when this one is gone.
    pub fn after_exit(&self, cwd: &[u8]) -> FileSystem {
        let mut left = self.clone();
        left.opens = OrdMap::new();
        left.locks = Locks::default();
        left.place.shared = OrdMap::new();
        left.place.cwd = Cwd::Initial(cwd.into());
        left.durable = None;
        let nameless: Vec<Ino> = left
            .nodes
            .iter()
            .filter(|(_, node)| node.attributes.nlink == 0)
            .map(|(&ino, _)| ino)
            .collect();
        for ino in nameless {
            left.drop_if_unused(ino);
        }
        left
    }
}

fn keep_last<T: Clone>(moments: &mut Vector<T>) {
    if moments.len() > 1 {
        *moments = moments.split_off(moments.len() - 1);
    }
}

/// Keeps the books after a call.
pub(crate) fn after_call(model: &mut Model, call: &Call, succeeded: bool) {
    if model.fs.durable.is_none() {
        return;
    }
    model.fs.note_changes(is_write(call.sysno));
    if !succeeded {
        return;
    }
    let open = model
        .files
        .lookup(call.fd(0))
        .ok()
        .map(|(_, description)| description);
    let file = open.and_then(|description| match &description.kind {
        Kind::File(file) => Some((file.node.clone(), description.flags)),
        _ => None,
    });
    match (call.sysno, file) {
        (Sysno::fsync | Sysno::fdatasync, Some((node, _))) => model.fs.sync_file(&node),
        (Sysno::sync | Sysno::syncfs | Sysno::msync, _) => model.fs.sync_everything(),
        (sysno, Some((node, flags)))
            if is_write(sysno) && (flags & libc::O_DSYNC != 0 || asks_for_sync(call)) =>
        {
            model.fs.sync_file(&node);
        }
        _ => {}
    }
}

fn is_write(sysno: Sysno) -> bool {
    matches!(
        sysno,
        Sysno::write | Sysno::writev | Sysno::pwrite64 | Sysno::pwritev | Sysno::pwritev2
    )
}

/// What may be there of a write that made `after` of `before`, other than all or nothing: its first bytes.
fn torn(before: &FileData, after: &FileData) -> Vec<FileData> {
    let bytes = |data: &FileData| data.read_at(0, data.size() as usize);
    if before.size().max(after.size()) > LONGEST {
        return Vec::new();
    }
    let (Ok(old), Ok(new)) = (bytes(before), bytes(after)) else {
        return Vec::new();
    };
    let differs = |at: &usize| old.get(*at) != new.get(*at);
    let (Some(first), Some(last)) = ((0..new.len()).find(differs), (0..new.len()).rfind(differs)) else {
        return Vec::new();
    };
    let part = |length: u64| {
        let mut data = before.clone();
        let end = first + length as usize;
        data.write_at(first as u64, &new[first..end]).ok()?;
        Some(data)
    };
    prefixes((last + 1 - first) as u64)
        .into_iter()
        .filter_map(part)
        .collect()
}

/// How much of a write of so many bytes may be there, if not all: of a long one the first byte, half, and all but the last.
fn prefixes(length: u64) -> Vec<u64> {
    match length {
        0 | 1 => Vec::new(),
        2..=SHORT => (1..length).collect(),
        _ => vec![1, length / 2, length - 1],
    }
}

/// `RWF_SYNC` and `RWF_DSYNC` are `O_SYNC` for one call.
fn asks_for_sync(call: &Call) -> bool {
    call.sysno == Sysno::pwritev2 && call.int(5) & (libc::RWF_SYNC | libc::RWF_DSYNC) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_tried_while_there_are_few() {
        assert_eq!(
            (0..6).map(|number| digits(number, &[2, 3])).collect::<Vec<_>>(),
            [[1, 2], [0, 2], [1, 1], [0, 1], [1, 0], [0, 0]]
        );
    }

    #[test]
    fn of_a_write_its_first_bytes_may_be_there() {
        let read = |data: &FileData| data.read_at(0, 100).expect("in memory");
        let old = FileData::from_bytes(b"old");
        let texts = |new: &[u8]| -> Vec<Vec<u8>> {
            torn(&old, &FileData::from_bytes(new)).iter().map(read).collect()
        };
        assert_eq!(texts(b"old!?"), [b"old!".to_vec()]);
        assert_eq!(texts(b"new"), [b"nld".to_vec(), b"ned".to_vec()]);
        assert!(texts(b"odd").is_empty());
        assert_eq!(prefixes(4096), [1, 2048, 4095]);
    }

    #[test]
    fn with_many_parts_one_differs_from_the_others() {
        let found = one_at_a_time(&[2, 1, 3]);
        assert_eq!(found[0], [1, 0, 2]);
        assert_eq!(found[1], [0, 0, 0]);
        assert!(found.contains(&vec![1, 0, 0]));
        assert!(found.contains(&vec![0, 0, 2]));
        assert_eq!(found.len(), 2 + 3 + 3);
    }
}
