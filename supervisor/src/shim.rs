//! Version managers' shims: `python3` on `PATH` may be a small shell script of pyenv (rbenv, nodenv, …) that finds the
//! real program with a dozen processes and then becomes it. The processes are no part of what the user wants checked and
//! cannot be modelled, so the manager is asked beforehand, natively, and the program it names is run instead.

use failure::Failure;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Shims are a few lines; nothing longer is read.
const LONGEST_SHIM: u64 = 4096;

/// The program that the shim at `path` stands for; `None` if it is no shim.
pub fn resolve(path: &Path, cwd: &Path) -> Result<Option<PathBuf>, Failure> {
    let Some(manager) = manager_of(path) else {
        return Ok(None);
    };
    let Some(name) = path.file_name() else {
        return Ok(None);
    };
    which(&manager, name, cwd).map(Some).map_err(|why| {
        Failure::unsupported(format!(
            "{}: is a shim of {}, which names no program for it: {why}",
            path.display(),
            manager.display()
        ))
        .hint("give the path of the program itself")
    })
}

/// All these managers write the same last line: `exec "/…/libexec/NAME" exec "$program" "$@"`.
fn manager_of(path: &Path) -> Option<PathBuf> {
    if fs::metadata(path).ok()?.len() > LONGEST_SHIM {
        return None;
    }
    let script = fs::read_to_string(path).ok()?;
    if !script.starts_with("#!") {
        return None;
    }
    let call = script.trim_end().lines().last()?;
    let manager = call
        .strip_prefix("exec \"")?
        .strip_suffix("\" exec \"$program\" \"$@\"")?;
    Some(PathBuf::from(manager))
}

fn which(manager: &Path, name: &OsStr, cwd: &Path) -> Result<PathBuf, String> {
    let output = Command::new(manager)
        .arg("which")
        .arg(name)
        .current_dir(cwd)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let path = output.stdout.trim_ascii_end().to_vec();
    if !output.status.success() || path.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(said.lines().next().unwrap_or("it says nothing").to_owned());
    }
    Ok(PathBuf::from(OsString::from_vec(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(directory: &Path, name: &str, text: &str) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, text).expect("a file can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode can be set");
        path
    }

    fn shim_of(directory: &Path, manager: &Path) -> PathBuf {
        let text = format!(
            "#!/usr/bin/env bash\nset -e\nprogram=\"${{0##*/}}\"\nexec \"{}\" exec \"$program\" \"$@\"\n",
            manager.display()
        );
        script(directory, "python3", &text)
    }

    #[test]
    fn a_shim_leads_to_the_program_its_manager_names() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let manager = script(
            directory.path(),
            "pyenv",
            "#!/bin/sh\n[ \"$1\" = which ] && echo /opt/versions/$2\n",
        );
        let shim = shim_of(directory.path(), &manager);
        let found = resolve(&shim, directory.path()).expect("the manager answers");
        assert_eq!(found, Some(PathBuf::from("/opt/versions/python3")));
    }

    #[test]
    fn a_manager_that_knows_no_program_is_quoted() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let manager = script(
            directory.path(),
            "pyenv",
            "#!/bin/sh\necho 'pyenv: python3: command not found' >&2\nexit 127\n",
        );
        let shim = shim_of(directory.path(), &manager);
        let failure = resolve(&shim, directory.path()).expect_err("nothing is named");
        assert!(failure.reason.contains("command not found"), "{}", failure.reason);
    }

    #[test]
    fn other_scripts_and_programs_are_left_alone() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let wrapper = script(
            directory.path(),
            "wrapper",
            "#!/bin/sh\nexec \"/bin/ls\" \"$@\"\n",
        );
        for path in [wrapper.as_path(), Path::new("/bin/ls"), Path::new("/missing")] {
            assert_eq!(resolve(path, directory.path()).expect("no shim"), None);
        }
    }
}
