//! Files that are there as a whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file under another name first, so that nobody ever sees half of it, and what was there before is there until then.
///
/// What is no regular file (`/dev/null`, a pipe) is written to as it is: replaced by a regular file of the same name, it would be lost for
/// everybody else on this machine.
///
/// # Errors
/// It cannot be written; nothing is left of the attempt.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let Some(path) = place(path)? else {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    };
    let temporary = temporary(&path);
    fs::write(&temporary, bytes)
        .and_then(|()| fs::rename(&temporary, &path))
        .inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// Whether [`write_whole`] will find a place to write to.
///
/// # Errors
/// It will not.
pub fn can_write_whole(path: &Path) -> io::Result<()> {
    let Some(path) = place(path)? else {
        return OpenOptions::new().write(true).open(path).map(drop);
    };
    let temporary = temporary(&path);
    fs::write(&temporary, b"").and_then(|()| fs::remove_file(&temporary))
}

/// The file that is to be replaced, behind symbolic links; none if it is not one that can be.
fn place(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() || found.is_dir() => fs::canonicalize(path).map(Some),
        Ok(_) => Ok(None),
        // Nothing there, or not to be looked at: writing says which.
        Err(_) => Ok(Some(path.to_owned())),
    }
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, symlink};

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        write_whole(&file, b"one").expect("is written");
        symlink(&file, &link).expect("is linked");
        can_write_whole(&link).expect("can be written");
        write_whole(&link, b"two").expect("is written");
        assert_eq!(fs::read(&file).expect("is there"), b"two");
        assert!(fs::symlink_metadata(&link).expect("is there").is_symlink());
        assert_eq!(fs::read_dir(dir.path()).expect("is there").count(), 2);
        assert!(write_whole(dir.path(), b"").is_err());
        assert!(write_whole(&dir.path().join("no/such"), b"").is_err());
        assert!(!dir.path().with_extension("partial").exists());
    }

    #[test]
    fn a_device_stays_a_device() {
        write_whole(Path::new("/dev/null"), b"lost").expect("is written");
        can_write_whole(Path::new("/dev/null")).expect("can be written");
        let found = fs::metadata("/dev/null").expect("is there");
        assert!(found.file_type().is_char_device());
    }
}
