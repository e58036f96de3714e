//! Debian packages the tests need: installed once if they are missing. A crate of its own, for the tests of crates that know nothing of the others.
#![forbid(unsafe_code)]

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
    if find(command).is_none() {
        install_unless(&[package], || Ok(find(command).is_some())).with_context(|| {
            format!("the tests need `{command}` of the Debian package `{package}`: install it")
        })?;
    }
    find(command).with_context(|| format!("the package {package} is installed but has no command {command}"))
}

/// Installs those of the packages that are missing, all at once. Safe from several processes at once.
pub fn install(packages: &[&str]) -> Result<()> {
    if missing(packages)?.is_empty() {
        return Ok(());
    }
    install_unless(packages, || Ok(missing(packages)?.is_empty())).with_context(|| {
        format!(
            "the tests need these Debian packages: install them: {}",
            packages.join(" ")
        )
    })?;
    match missing(packages)?.as_slice() {
        [] => Ok(()),
        still => bail!("apt-get did not install {}", still.join(" ")),
    }
}

/// The packages that are not installed.
fn missing<'a>(packages: &[&'a str]) -> Result<Vec<&'a str>> {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", "${Package} ${db:Status-Status}\n"])
        .args(packages)
        .output()
        .context("cannot run dpkg-query (is this Debian?)")?;
    // It fails if it does not know one of them, and still tells of the others.
    let known = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_missing = |package: &&&str| {
        !known
            .lines()
            .any(|line| line.split_once(' ') == Some((package, "installed")))
    };
    Ok(packages.iter().filter(is_missing).copied().collect())
}

/// Installs the packages unless somebody else did so in the meantime.
fn install_unless(packages: &[&str], done: impl FnOnce() -> Result<bool>) -> Result<()> {
    // apt's own, of which it takes record locks: this one is of another kind, and only among ourselves.
    let lock_file = "/var/lib/dpkg/lock-frontend";
    let lock = OpenOptions::new().read(true).open(lock_file);
    let lock = lock.with_context(|| format!("{lock_file} (is this Debian, and are you root?)"))?;
    lock.lock().context("waiting for another installation")?;
    if done()? {
        return Ok(());
    }
    let arguments = [&["install", "-y", "--no-install-recommends"], packages].concat();
    let Err(first) = apt_get(&arguments) else {
        return Ok(());
    };
    // The usual reason: no package lists yet.
    apt_get(&["update"])
        .and_then(|()| apt_get(&arguments))
        .with_context(|| format!("before apt-get update: {first:#}"))
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
