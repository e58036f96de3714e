//! Numbers and keys of System V objects, and who may use them.

use crate::process::Process;
use imbl::OrdMap;
use syscalls::Errno;

/// Numbers are an index below this, and above it how often indices came round.
const INDICES: i32 = 1 << 15;
/// As many rounds until numbers would be negative.
const ROUNDS: i32 = 1 << 16;

/// Who owns an object and who may do what with it: `struct ipc64_perm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Permissions {
    pub key: i32,
    pub uid: u32,
    pub gid: u32,
    pub creator_uid: u32,
    pub creator_gid: u32,
    pub mode: u32,
    pub sequence: i32,
}

/// Access that a call asks for, in the bits of a mode.
pub const READ: u32 = 0o444;
pub const WRITE: u32 = 0o222;
/// `sizeof(struct ipc64_perm)`.
pub const PERMISSIONS_SIZE: usize = 48;

impl Permissions {
    /// Of an object that a process makes now.
    pub fn new(own: &Process, key: i32, flags: i32) -> Self {
        Self {
            key,
            uid: own.owner.user.effective,
            gid: own.owner.group.effective,
            creator_uid: own.owner.user.effective,
            creator_gid: own.owner.group.effective,
            mode: flags as u32 & 0o777,
            sequence: 0,
        }
    }

    /// May this process have such access? The bits for everybody count where one class has what another lacks, as in the kernel.
    pub fn check(&self, own: &Process, wanted: u32) -> Result<(), Errno> {
        let wanted = wanted >> 6 | wanted >> 3 | wanted;
        let user = own.owner.user.effective;
        let in_group = |gid: u32| own.owner.group.effective == gid || own.owner.groups.contains(&gid);
        let granted = if user == self.creator_uid || user == self.uid {
            self.mode >> 6
        } else if in_group(self.creator_gid) || in_group(self.gid) {
            self.mode >> 3
        } else {
            self.mode
        };
        match wanted & !granted & 0o7 == 0 || user == 0 {
            true => Ok(()),
            false => Err(Errno::EACCES),
        }
    }

    /// May this process change or remove the object?
    pub fn check_owner(&self, own: &Process) -> Result<(), Errno> {
        let user = own.owner.user.effective;
        match user == self.uid || user == self.creator_uid || user == 0 {
            true => Ok(()),
            false => Err(Errno::EPERM),
        }
    }

    /// As programs see it.
    pub fn encode(&self) -> [u8; PERMISSIONS_SIZE] {
        let mut out = [0; PERMISSIONS_SIZE];
        let words = [
            self.key as u32,
            self.uid,
            self.gid,
            self.creator_uid,
            self.creator_gid,
            self.mode,
            self.sequence as u32 & 0xffff,
        ];
        for (place, word) in out.chunks_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// What `IPC_SET` takes from such a structure.
    pub fn set(&mut self, raw: &[u8; PERMISSIONS_SIZE]) {
        let word = |i: usize| u32::from_le_bytes([raw[i], raw[i + 1], raw[i + 2], raw[i + 3]]);
        self.uid = word(4);
        self.gid = word(8);
        self.mode = self.mode & !0o777 | word(20) & 0o777;
    }
}

/// Something that a registry keeps.
pub trait Kept {
    fn permissions(&self) -> &Permissions;
    fn permissions_mut(&mut self) -> &mut Permissions;
}

/// The objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Registry<T: Clone> {
    by_index: OrdMap<i32, T>,
    round: i32,
    last: i32,
}

impl<T: Clone> Default for Registry<T> {
    fn default() -> Self {
        Self {
            by_index: OrdMap::new(),
            round: 0,
            last: -1,
        }
    }
}

/// What a key leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The object with this number.
    There(i32),
    /// A new one is to be made.
    New,
}

impl<T: Kept + Clone> Registry<T> {
    /// What `shmget` and its kin are about.
    pub fn find(&self, key: i32, flags: i32) -> Result<Wanted, Errno> {
        if key == libc::IPC_PRIVATE {
            return Ok(Wanted::New);
        }
        let found = self.iter().find(|(_, kept)| kept.permissions().key == key);
        match found {
            Some(_) if flags & libc::IPC_CREAT != 0 && flags & libc::IPC_EXCL != 0 => Err(Errno::EEXIST),
            Some((id, _)) => Ok(Wanted::There(id)),
            None if flags & libc::IPC_CREAT != 0 => Ok(Wanted::New),
            None => Err(Errno::ENOENT),
        }
    }

    /// The number of a new object; `most` is how many there may be.
    pub fn add(&mut self, mut kept: T, most: usize) -> Result<i32, Errno> {
        if self.by_index.len() >= most {
            return Err(Errno::ENOSPC);
        }
        let used = self.by_index.keys();
        let index = (0..)
            .zip(used)
            .find(|(i, used)| i != *used)
            .map_or(self.by_index.len() as i32, |(i, _)| i);
        if index <= self.last {
            self.round = (self.round + 1) % ROUNDS;
        }
        self.last = index;
        kept.permissions_mut().sequence = self.round;
        self.by_index.insert(index, kept);
        Ok(self.round * INDICES + index)
    }

    pub fn get(&self, id: i32) -> Result<&T, Errno> {
        let kept = self.by_index.get(&index(id)?).ok_or(Errno::EINVAL)?;
        match kept.permissions().sequence == id / INDICES {
            true => Ok(kept),
            false => Err(Errno::EINVAL),
        }
    }

    pub fn get_mut(&mut self, id: i32) -> Result<&mut T, Errno> {
        self.get(id)?;
        self.by_index.get_mut(&index(id)?).ok_or(Errno::EINVAL)
    }

    /// An object that this process wants to look at.
    pub fn readable(&self, id: i32, own: &Process) -> Result<&T, Errno> {
        let kept = self.get(id)?;
        kept.permissions().check(own, READ)?;
        Ok(kept)
    }

    /// An object that this process wants to change or remove as its owner.
    pub fn owned(&mut self, id: i32, own: &Process) -> Result<&mut T, Errno> {
        self.get(id)?.permissions().check_owner(own)?;
        self.get_mut(id)
    }

    pub fn remove(&mut self, id: i32) -> Option<T> {
        self.get(id).ok()?;
        self.by_index.remove(&index(id).ok()?)
    }

    /// All objects, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &T)> {
        self.by_index
            .iter()
            .map(|(&index, kept)| (kept.permissions().sequence * INDICES + index, kept))
    }

    pub fn ids(&self) -> Vec<i32> {
        self.iter().map(|(id, _)| id).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.by_index.is_empty()
    }
}

fn index(id: i32) -> Result<i32, Errno> {
    match id >= 0 {
        true => Ok(id % INDICES),
        false => Err(Errno::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Config;

    #[derive(Clone)]
    struct Thing(Permissions);

    impl Kept for Thing {
        fn permissions(&self) -> &Permissions {
            &self.0
        }
        fn permissions_mut(&mut self) -> &mut Permissions {
            &mut self.0
        }
    }

    fn thing(key: i32) -> Thing {
        Thing(Permissions::new(&Process::new(&Config::default()), key, 0o640))
    }

    #[test]
    fn a_number_does_not_come_again_at_once() {
        let mut all = Registry::default();
        assert_eq!(all.add(thing(1), 9), Ok(0));
        assert_eq!(all.add(thing(2), 9), Ok(1));
        assert!(all.remove(0).is_some());
        let again = all.add(thing(3), 9).unwrap();
        assert_eq!(again, INDICES);
        assert_eq!(all.get(0).err(), Some(Errno::EINVAL));
        assert!(all.get(again).is_ok());
        assert_eq!(all.ids(), [again, 1]);
        assert_eq!(all.add(thing(4), 2), Err(Errno::ENOSPC));
    }

    #[test]
    fn keys_are_found_made_or_refused() {
        let mut all = Registry::default();
        let create = libc::IPC_CREAT;
        assert_eq!(all.find(7, 0), Err(Errno::ENOENT));
        assert_eq!(all.find(7, create), Ok(Wanted::New));
        all.add(thing(7), 9).unwrap();
        assert_eq!(all.find(7, create), Ok(Wanted::There(0)));
        assert_eq!(all.find(7, create | libc::IPC_EXCL), Err(Errno::EEXIST));
        assert_eq!(all.find(libc::IPC_PRIVATE, 0), Ok(Wanted::New));
    }

    #[test]
    fn others_have_what_the_mode_gives_them() {
        let thing = thing(1).0;
        let mut own = Process::new(&Config::default());
        assert_eq!(thing.check(&own, READ | WRITE), Ok(()));
        own.owner.user.effective = 77;
        assert_eq!(thing.check(&own, READ), Ok(()));
        assert_eq!(thing.check(&own, WRITE), Err(Errno::EACCES));
        assert_eq!(thing.check_owner(&own), Err(Errno::EPERM));
        own.owner.group.effective = 77;
        assert_eq!(thing.check(&own, READ), Err(Errno::EACCES));
        own.owner.user.effective = 0;
        assert_eq!(thing.check(&own, READ | WRITE), Ok(()));
    }
}
