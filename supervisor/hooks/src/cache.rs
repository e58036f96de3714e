//! Plans are kept: the same libraries are mapped in every execution, and reading a large file's code takes a while.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{LARGEST_MODULE, ModulePlan, ModuleRole, Preempt, ScanError, scan_bytes};

/// What makes two files the same, and two scans of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    dev: u64,
    ino: u64,
    size: u64,
    modified: (i64, i64),
    role: ModuleRole,
    mode: Preempt,
}

/// The plans of the modules scanned so far. Clones share their contents.
#[derive(Clone, Default)]
pub struct PlanCache {
    plans: Arc<Mutex<HashMap<Key, Arc<ModulePlan>>>>,
}

impl fmt::Debug for PlanCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanCache").finish_non_exhaustive()
    }
}

impl PlanCache {
    /// An empty cache.
    pub fn new() -> PlanCache {
        PlanCache::default()
    }

    /// The plan of the module in a file, scanned now or before.
    pub fn plan(&self, path: &Path, role: ModuleRole, mode: Preempt) -> Result<Arc<ModulePlan>, ScanError> {
        let in_file = |source: io::Error| ScanError::Io {
            path: path.to_owned(),
            source,
        };
        let mut file = File::open(path).map_err(in_file)?;
        let meta = file.metadata().map_err(in_file)?;
        let key = Key {
            dev: meta.dev(),
            ino: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            role,
            mode,
        };
        if let Some(plan) = self
            .plans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
        {
            return Ok(plan.clone());
        }
        // Scanned without the lock: two workers may do the same work once, none waits for another's.
        if meta.size() > LARGEST_MODULE {
            return Err(ScanError::TooLarge);
        }
        let mut bytes = Vec::with_capacity(meta.size() as usize);
        io::Read::read_to_end(&mut file, &mut bytes).map_err(in_file)?;
        let plan = Arc::new(scan_bytes(&bytes, role, mode)?);
        self.plans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, plan.clone());
        Ok(plan)
    }
}
