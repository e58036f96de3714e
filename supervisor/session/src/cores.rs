//! Which core a program and its supervisor share: one that no other of ours has, as long as there are any.
//!
//! Both are pinned, so the kernel cannot part them if two checks of a sweep have taken the same core. A core is taken by binding a name in the
//! abstract namespace of Unix sockets: one holder each, seen by all processes, and gone with the holder whatever ends it.

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu};
use nix::unistd::Pid;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, OnceLock};

/// As many share a core before it is not asked any more who has it.
const MOST_SHARERS: usize = 64;

/// A core that was taken, until the last copy of this is gone.
#[derive(Clone, Debug)]
pub struct Core {
    number: usize,
    _taken: Option<Arc<UnixDatagram>>,
}

impl Core {
    /// The allowed core with the fewest holders; of several, the one that this thread is on, which is warm, or the next.
    pub fn take() -> Core {
        Core::take_among("tracefork")
    }

    /// Among those who use this name.
    fn take_among(holders: &str) -> Core {
        let here = sched_getcpu().unwrap_or(0);
        let cores = allowed();
        let (before, from_here): (Vec<_>, Vec<_>) = cores.iter().partition(|&&core| core < here);
        let cores = [from_here, before].concat();
        let places = (0..MOST_SHARERS).flat_map(|place| cores.iter().map(move |&core| (core, place)));
        for (number, place) in places {
            let name = format!("{holders}-core-{number}-{place}");
            let address = SocketAddr::from_abstract_name(name);
            if let Ok(socket) = address.and_then(|address| UnixDatagram::bind_addr(&address)) {
                return Core {
                    number,
                    _taken: Some(Arc::new(socket)),
                };
            }
        }
        // There are no such sockets here.
        Core {
            number: cores.first().copied().unwrap_or(here),
            _taken: None,
        }
    }

    pub fn number(&self) -> usize {
        self.number
    }
}

/// The cores that this process may use: asked before any of its threads is pinned.
fn allowed() -> &'static [usize] {
    static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
    ALLOWED.get_or_init(|| {
        let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
        let is_in = |core: &usize| set.is_set(*core).unwrap_or(false);
        (0..CpuSet::count()).filter(is_in).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_a_core_twice_while_another_is_free() {
        let us = format!("test {}", std::process::id());
        let count = allowed().len();
        let held: Vec<Core> = (0..2 * count).map(|_| Core::take_among(&us)).collect();
        for core in allowed() {
            let holders = held.iter().filter(|held| held.number() == *core).count();
            assert_eq!(holders, 2, "of {core}: {held:?}");
        }
    }
}
