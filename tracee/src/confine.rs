//! A second wall behind the filter: what the kernel itself forbids the task (Landlock), should a call ever get there that must not.
//!
//! The task opens files to map and to execute them, and does nothing else that concerns the machine: all its other calls are answered by the supervisor. So it may read and
//! execute, and may not write anywhere, bind or connect TCP sockets, or signal a process that is not its own copy; as far as the kernel knows these rights, and if it has
//! Landlock at all. Copies inherit the wall.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};
use nix::errno::Errno;
use std::os::fd::{AsRawFd, OwnedFd};

/// The newest set of rights that is made use of: in this one signals are among them.
const KNOWN: ABI = ABI::V6;
/// `landlock_create_ruleset` with this flag tells the version.
const CREATE_RULESET_VERSION: u32 = 1;

/// The rules, for the new process to take on; `None` where the kernel has no such thing.
pub(crate) fn rules() -> Option<OwnedFd> {
    build().ok().flatten()
}

fn build() -> Result<Option<OwnedFd>, RulesetError> {
    let everywhere = match PathFd::new("/") {
        Ok(root) => root,
        Err(_) => return Ok(None),
    };
    let created = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rule(PathBeneath::new(everywhere, AccessFs::from_read(KNOWN)))?;
    Ok(created.into())
}

/// Puts the calling process under the rules, for good.
///
/// # Safety
/// Async-signal-safe; meant for a forked child. Nothing is promised about the process that calls this afterwards.
pub(crate) unsafe fn restrict(rules: i32) -> Result<(), Errno> {
    // SAFETY: no memory is involved.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules, 0u32) };
    Errno::result(answer).map(drop)
}

/// What the kernel offers, in words.
pub(crate) fn describe() -> Result<String, String> {
    // SAFETY: a null pointer of size 0 is what this flag wants.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    let version = Errno::result(answer).map_err(|errno| errno.to_string())?;
    rules().ok_or_else(|| "the rules cannot be made".to_owned())?;
    let missing = match version {
        ..4 => "; it does not restrict TCP and signals",
        4..6 => "; it does not restrict signals",
        _ => "",
    };
    Ok(format!(
        "version {version}: no writing, no connections, no signals{missing}"
    ))
}

/// The descriptor, as a plan for a child wants it.
pub(crate) fn raw(rules: Option<&OwnedFd>) -> Option<i32> {
    rules.map(AsRawFd::as_raw_fd)
}
