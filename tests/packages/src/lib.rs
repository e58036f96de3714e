//! Debian packages the tests need: installed once if a command is missing. A crate of its own, for the tests of crates that know nothing of the others.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Where tests look for commands: not where a user may have put others of the same name.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The file of a command on the tests' PATH.
pub fn find(command: &str) -> Option<PathBuf> {
    PATH.split(':')
        .map(|directory| Path::new(directory).join(command))
        .find(|file| file.is_file())
}

/// The file of `command`; installs `package` if it is not there. Safe from several processes at once.
pub fn command(command: &str, package: &str) -> Result<PathBuf> {
    if let Some(file) = find(command) {
        return Ok(file);
    }
    // apt's own, of which it takes record locks: this one is of another kind, and only among ourselves.
    let lock_file = "/var/lib/dpkg/lock-frontend";
    let lock = OpenOptions::new().read(true).open(lock_file);
    let lock = lock.with_context(|| format!("{lock_file} (is this Debian, and are you root?)"))?;
    lock.lock().context("waiting for another installation")?;
    if let Some(file) = find(command) {
        return Ok(file);
    }
    if let Err(first) = apt_get(&["install", "-y", "--no-install-recommends", package]) {
        // The usual reason: no package lists yet.
        apt_get(&["update"])
            .and_then(|()| apt_get(&["install", "-y", "--no-install-recommends", package]))
            .with_context(|| format!("before apt-get update: {first:#}"))
            .with_context(|| {
                format!("the tests need `{command}` of the Debian package `{package}`: install it")
            })?;
    }
    find(command).with_context(|| format!("the package {package} is installed but has no command {command}"))
}

fn apt_get(args: &[&str]) -> Result<()> {
    let output = Command::new("apt-get")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .context("cannot run apt-get")?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        bail!("apt-get {} failed: {}", args.join(" "), reason.trim());
    }
    Ok(())
}
