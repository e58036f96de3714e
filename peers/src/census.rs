//! The members of a peer's family: all its processes and their threads, listed again and again at little cost.
//!
//! The directories and files that say who is there are kept open. A process is only listed anew when its number of threads has changed, or when a thread that was known is no more.

use crate::inspect::Family;
use crate::task::is_gone;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

#[derive(Debug)]
struct Member {
    /// `/proc/PID/task`: its link count is the number of threads (and two).
    threads_dir: File,
    links: u64,
    /// Each thread, and the file with its children.
    threads: Vec<(u32, File)>,
}

impl Member {
    fn open(pid: u32) -> io::Result<Member> {
        let path = format!("/proc/{pid}/task");
        let threads_dir = File::open(&path)?;
        let mut member = Member {
            links: threads_dir.metadata()?.nlink(),
            threads_dir,
            threads: Vec::new(),
        };
        for entry in std::fs::read_dir(&path)? {
            let Some(tid) = entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok())
            else {
                continue;
            };
            match File::open(format!("{path}/{tid}/children")) {
                Ok(children) => member.threads.push((tid, children)),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(member)
    }

    fn is_current(&self) -> bool {
        self.threads_dir
            .metadata()
            .is_ok_and(|meta| meta.nlink() == self.links)
    }
}

/// Who is there.
#[derive(Debug, Default)]
pub(crate) struct Census {
    members: HashMap<u32, Member>,
}

impl Census {
    /// Lists process and thread ids. With `anew`, nothing that was known is relied on.
    pub(crate) fn take(&mut self, family: &Family, anew: bool) -> io::Result<Vec<(u32, u32)>> {
        if anew {
            self.members.clear();
        }
        let (mut todo, host) = match family {
            Family::Below(host) => (vec![*host], Some(*host)),
            Family::From(roots) => (roots.clone(), None),
        };
        let (mut listed, mut present) = (Vec::new(), HashSet::new());
        while let Some(pid) = todo.pop() {
            if !present.insert(pid) {
                continue;
            }
            if !self.members.get(&pid).is_some_and(Member::is_current) {
                match Member::open(pid) {
                    Ok(member) => self.members.insert(pid, member),
                    Err(error) if is_gone(&error) => self.members.remove(&pid),
                    Err(error) => return Err(error),
                };
            }
            for (tid, children) in self.members.get(&pid).iter().flat_map(|member| &member.threads) {
                todo.extend(children_of(children)?);
                if Some(pid) != host {
                    listed.push((pid, *tid));
                }
            }
        }
        self.members.retain(|pid, _| present.contains(pid));
        Ok(listed)
    }
}

fn children_of(file: &File) -> io::Result<Vec<u32>> {
    let mut text = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        match file.read_at(&mut buffer, text.len() as u64) {
            Ok(0) => break,
            Ok(n) => text.extend_from_slice(&buffer[..n]),
            Err(error) if is_gone(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&text)
        .split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect())
}
