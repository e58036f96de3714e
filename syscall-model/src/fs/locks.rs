//! Advisory locks on files: `flock`, POSIX record locks and open-file-description locks.
//!
//! POSIX record locks belong to a process, locks of open file descriptions to the description; they conflict with each other.
//! `flock` lives in a world of its own.

use crate::fd::OfdId;
use crate::fs::FileKey;
use imbl::OrdMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockOwner {
    /// `F_SETLK`, by the process with this number.
    Process(u32),
    /// `F_OFD_SETLK`.
    Description(OfdId),
    /// `flock`.
    Flock(OfdId),
}

impl LockOwner {
    fn same_world(self, other: Self) -> bool {
        matches!(self, Self::Flock(_)) == matches!(other, Self::Flock(_))
    }
}

/// A lock that is held, or that somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockRequest {
    pub file: FileKey,
    pub owner: LockOwner,
    pub start: u64,
    /// Behind the last byte; `u64::MAX` for "to the end, however far".
    pub end: u64,
    pub exclusive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    owner: LockOwner,
    start: u64,
    end: u64,
    exclusive: bool,
}

/// All locks, by file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Locks {
    held: OrdMap<FileKey, Vec<Held>>,
}

impl Locks {
    /// The first lock that stands in the way.
    pub fn conflict(&self, request: &LockRequest) -> Option<LockRequest> {
        let held = self.held.get(&request.file)?.iter().find(|held| {
            held.owner != request.owner
                && held.owner.same_world(request.owner)
                && (held.exclusive || request.exclusive)
                && held.start < request.end
                && request.start < held.end
        })?;
        Some(LockRequest {
            file: request.file,
            owner: held.owner,
            start: held.start,
            end: held.end,
            exclusive: held.exclusive,
        })
    }

    pub(crate) fn is_locked(&self, file: FileKey) -> bool {
        self.held.contains_key(&file)
    }

    pub fn available(&self, request: &LockRequest) -> bool {
        self.conflict(request).is_none()
    }

    /// Takes a lock that is available, in place of whatever the owner had in its range.
    pub fn lock(&mut self, request: &LockRequest) {
        self.unlock(request);
        let list = self.held.entry(request.file).or_default();
        list.push(Held {
            owner: request.owner,
            start: request.start,
            end: request.end,
            exclusive: request.exclusive,
        });
        // The order is part of the state: it must not tell who came first.
        list.sort_by_key(|held| (held.start, held.end, held.owner, held.exclusive));
    }

    /// Gives up the owner's locks in a range, cutting those that reach beyond it.
    pub fn unlock(&mut self, range: &LockRequest) {
        let Some(list) = self.held.get_mut(&range.file) else {
            return;
        };
        let mut kept = Vec::with_capacity(list.len());
        for held in list.drain(..) {
            if held.owner != range.owner || held.end <= range.start || range.end <= held.start {
                kept.push(held);
                continue;
            }
            if held.start < range.start {
                kept.push(Held {
                    end: range.start,
                    ..held
                });
            }
            if range.end < held.end {
                kept.push(Held {
                    start: range.end,
                    ..held
                });
            }
        }
        *list = kept;
        if list.is_empty() {
            self.held.remove(&range.file);
        }
    }

    pub(crate) fn process_closed(&mut self, pid: u32, file: FileKey) {
        self.unlock(&LockRequest {
            file,
            owner: LockOwner::Process(pid),
            start: 0,
            end: u64::MAX,
            exclusive: false,
        });
    }

    pub(crate) fn process_ended(&mut self, pid: u32) {
        self.drop_all(|owner| owner == LockOwner::Process(pid));
    }

    pub(crate) fn description_closed(&mut self, id: OfdId) {
        self.drop_all(|owner| owner == LockOwner::Description(id) || owner == LockOwner::Flock(id));
    }

    fn drop_all(&mut self, gone: impl Fn(LockOwner) -> bool) {
        let files: Vec<FileKey> = self
            .held
            .iter()
            .filter(|(_, list)| list.iter().any(|held| gone(held.owner)))
            .map(|(&file, _)| file)
            .collect();
        for file in files {
            if let Some(list) = self.held.get_mut(&file) {
                list.retain(|held| !gone(held.owner));
                if list.is_empty() {
                    self.held.remove(&file);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(owner: LockOwner, start: u64, end: u64) -> LockRequest {
        LockRequest {
            file: (1, 1),
            owner,
            start,
            end,
            exclusive: true,
        }
    }

    #[test]
    fn unlocking_the_middle_leaves_both_sides() {
        let (one, two) = (LockOwner::Description(OfdId(1)), LockOwner::Description(OfdId(2)));
        let mut locks = Locks::default();
        locks.lock(&request(one, 0, 100));
        assert!(!locks.available(&request(two, 40, 50)));
        locks.unlock(&request(one, 40, 60));
        assert!(locks.available(&request(two, 40, 60)));
        assert!(!locks.available(&request(two, 60, 61)));
        assert!(locks.available(&request(LockOwner::Flock(OfdId(2)), 0, u64::MAX)));
        locks.description_closed(OfdId(1));
        assert_eq!(locks, Locks::default());
    }
}
