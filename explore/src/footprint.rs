//! What an operation touches, and when two operations are *dependent*.
//!
//! Reductions are only as good as this relation. It is deliberately coarse and syntactic: objects are
//! opaque 64-bit keys, an access reads or writes, and anything the system cannot describe is *global*.
//! Being too coarse costs time; being too fine loses schedules. So every doubt is to be announced as global.

use std::fmt;

/// The object that stands for all memory which operations are found to share though they do not announce it.
const UNORDERED: u64 = 0x6f72_6465_7220_756e;

/// How an operation uses an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Access {
    /// Observes the object. Two reads commute.
    Read,
    /// Changes the object, or takes part in an order that can be observed (locking, appending to an output).
    Write,
}

/// The objects that one operation touches.
///
/// ```
/// use explore::Footprint;
/// let lock = Footprint::write(1);
/// let load = Footprint::read(2);
/// assert!(!lock.conflicts(&load));
/// assert!(!load.conflicts(&Footprint::read(2)));
/// assert!(load.conflicts(&Footprint::write(2)));
/// assert!(load.conflicts(&Footprint::global()));
/// assert!(!Footprint::local().conflicts(&load));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Footprint {
    /// Sorted by object, one entry each.
    accesses: Vec<(u64, Access)>,
    /// Objects that are handed over: see [`Footprint::releasing`] and [`Footprint::acquiring`].
    releases: Vec<u64>,
    acquires: Vec<u64>,
    global: bool,
    ends_process: bool,
}

impl Footprint {
    /// Touches nothing that another thread can see.
    pub fn local() -> Self {
        Self::default()
    }

    /// Reads one object.
    pub fn read(object: u64) -> Self {
        Self::local().and_read(object)
    }

    /// Writes one object.
    pub fn write(object: u64) -> Self {
        Self::local().and_write(object)
    }

    /// Unknown, or touches everything: dependent with every operation.
    pub fn global() -> Self {
        Self {
            global: true,
            ..Self::default()
        }
    }

    /// Ends all threads (exit of the process, a crash): dependent with every operation, since it disables them all.
    pub fn ending() -> Self {
        Self {
            ends_process: true,
            ..Self::default()
        }
    }

    /// Also reads `object`.
    #[must_use]
    pub fn and_read(self, object: u64) -> Self {
        self.and(object, Access::Read)
    }

    /// Also writes `object`.
    #[must_use]
    pub fn and_write(self, object: u64) -> Self {
        self.and(object, Access::Write)
    }

    /// Also accesses `object`; a write outweighs a read.
    #[must_use]
    pub fn and(mut self, object: u64, access: Access) -> Self {
        match self.accesses.binary_search_by_key(&object, |a| a.0) {
            Ok(i) => self.accesses[i].1 = self.accesses[i].1.max(access),
            Err(i) => self.accesses.insert(i, (object, access)),
        }
        self
    }

    /// Also touches memory that it cannot name, and that others of this kind touch.
    #[must_use]
    pub fn and_unordered(self) -> Self {
        self.and_write(UNORDERED)
    }

    /// Also lets go of an object that it holds: up to here no operation that announces to acquire it can be done by anyone.
    #[must_use]
    pub fn releasing(mut self, object: u64) -> Self {
        self.releases.push(object);
        self.and_write(object)
    }

    /// Also takes hold of an object, or learns that it was let go, and cannot be done while somebody holds it.
    #[must_use]
    pub fn acquiring(mut self, object: u64) -> Self {
        self.acquires.push(object);
        self.and_write(object)
    }

    /// The same for an operation that does not change the object: others may learn the same at the same time.
    #[must_use]
    pub fn awaiting(mut self, object: u64) -> Self {
        self.acquires.push(object);
        self.and_read(object)
    }

    /// Whether `later` depends on this operation only by objects that were handed over to it, so that the two cannot come in the other order.
    pub fn hands_over_to(&self, later: &Self) -> bool {
        if self.releases.is_empty() || self.is_global() || later.is_global() {
            return false;
        }
        let conflicts = |&&(object, access): &&(u64, Access)| {
            let other = later.accesses.binary_search_by_key(&object, |a| a.0);
            other.is_ok_and(|i| access == Access::Write || later.accesses[i].1 == Access::Write)
        };
        self.accesses
            .iter()
            .filter(conflicts)
            .all(|(object, _)| self.releases.contains(object) && later.acquires.contains(object))
    }

    /// Whether it lets go of this object.
    pub(crate) fn releases(&self, object: u64) -> bool {
        self.releases.contains(&object)
    }

    /// Also is global.
    #[must_use]
    pub fn and_global(mut self) -> Self {
        self.global = true;
        self
    }

    /// Also ends the process.
    #[must_use]
    pub fn and_ending(mut self) -> Self {
        self.ends_process = true;
        self
    }

    /// The objects, sorted by key.
    pub fn accesses(&self) -> &[(u64, Access)] {
        &self.accesses
    }

    /// Whether it ends the process.
    pub fn ends_process(&self) -> bool {
        self.ends_process
    }

    /// Whether it is dependent with every operation.
    pub fn is_global(&self) -> bool {
        self.global || self.ends_process
    }

    /// Whether two operations *of different threads* with these footprints are dependent: one is global, or
    /// they share an object that at least one of them writes. (Operations of one thread always are dependent.)
    pub fn conflicts(&self, other: &Self) -> bool {
        if self.is_global() || other.is_global() {
            return true;
        }
        let (mut a, mut b) = (self.accesses.iter().peekable(), other.accesses.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            match x.0.cmp(&y.0) {
                std::cmp::Ordering::Less => drop(a.next()),
                std::cmp::Ordering::Greater => drop(b.next()),
                std::cmp::Ordering::Equal if x.1 == Access::Write || y.1 == Access::Write => return true,
                std::cmp::Ordering::Equal => {
                    a.next();
                    b.next();
                }
            }
        }
        false
    }

    /// Whether everything that conflicts with `other` conflicts with `self` too.
    pub fn covers(&self, other: &Self) -> bool {
        self.is_global()
            || !other.is_global()
                && other.accesses.iter().all(|(object, access)| {
                    self.accesses
                        .binary_search_by_key(object, |a| a.0)
                        .is_ok_and(|i| self.accesses[i].1 >= *access)
                })
    }
}

impl fmt::Debug for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for (object, access) in &self.accesses {
            list.entry(&format_args!(
                "{}{object:#x}",
                if *access == Access::Write { "W" } else { "R" }
            ));
        }
        if self.global {
            list.entry(&format_args!("global"));
        }
        if self.ends_process {
            list.entry(&format_args!("ends"));
        }
        list.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covering_is_about_conflicts() {
        let both = Footprint::read(1).and_write(2);
        assert!(both.covers(&Footprint::read(2)));
        assert!(!both.covers(&Footprint::write(1)));
        assert!(!both.covers(&Footprint::ending()));
        assert!(Footprint::ending().covers(&Footprint::global()));
        assert!(Footprint::local().covers(&Footprint::local()));
    }

    #[test]
    fn what_is_handed_over_cannot_come_in_the_other_order() {
        let (unlock, lock) = (Footprint::local().releasing(1), Footprint::local().acquiring(1));
        assert!(unlock.conflicts(&lock));
        assert!(unlock.hands_over_to(&lock));
        assert!(!lock.hands_over_to(&unlock) && !lock.hands_over_to(&lock));
        // A try can be made at any time.
        assert!(!unlock.hands_over_to(&Footprint::write(1)));
        // They have something else in common.
        let printing = |footprint: &Footprint| footprint.clone().and_write(2);
        assert!(!printing(&unlock).hands_over_to(&printing(&lock)));
        assert!(printing(&unlock).hands_over_to(&lock));
        assert!(!unlock.hands_over_to(&lock.clone().and_global()));
        let end = Footprint::local().releasing(3);
        assert!(end.hands_over_to(&Footprint::local().awaiting(3)));
    }

    #[test]
    fn a_write_outweighs_a_read_of_the_same_object() {
        assert_eq!(Footprint::read(1).and_write(1), Footprint::write(1).and_read(1));
    }
}
