//! The program's file changes, put below a directory that is not the program's own.
//!
//! Names below it come from the program, and so does what earlier exports left there: a link to `/etc` where now a directory is to be
//! must not lead there. Every path is resolved beneath the directory (by the kernel, `RESOLVE_BENEATH`), and
//! what is in the way is replaced, never written through.

use crate::fs::apply::Change;
use crate::fs::host::as_path;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
use std::io::{self, Write};
use std::path::Path;

/// Writes changes below `root`, each under its full path. Nothing outside of `root` is touched.
///
/// # Errors
/// Something cannot be written; changes before it are in place.
pub fn export(changes: &[(Vec<u8>, Change)], root: &Path) -> io::Result<()> {
    std::fs::create_dir_all(root)?;
    let root = Dir::open_ambient_dir(root, cap_std::ambient_authority())?;
    for (path, change) in changes {
        let path = as_path(path.strip_prefix(b"/").unwrap_or(path));
        if path.as_os_str().is_empty() {
            // The root directory itself: the one that was named keeps its own permissions.
            continue;
        }
        if let Some(parent) = path.parent() {
            make_directories(&root, parent)?;
        }
        put(&root, path, change)?;
    }
    Ok(())
}

/// The directories on a path, in place of whatever else has these names: where the program left a file below, it had directories.
fn make_directories(root: &Dir, path: &Path) -> io::Result<()> {
    let mut ancestors: Vec<&Path> = path.ancestors().collect();
    ancestors.reverse();
    for directory in ancestors.into_iter().filter(|path| !path.as_os_str().is_empty()) {
        make_directory(root, directory)?;
    }
    Ok(())
}

fn make_directory(root: &Dir, path: &Path) -> io::Result<()> {
    match root.symlink_metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => root.remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    root.create_dir(path)
}

fn remove(root: &Dir, path: &Path) -> io::Result<()> {
    match root.symlink_metadata(path) {
        Ok(found) if found.is_dir() => root.remove_dir_all(path),
        Ok(_) => root.remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn put(root: &Dir, path: &Path, change: &Change) -> io::Result<()> {
    match change {
        Change::Removed => remove(root, path),
        Change::Directory { mode } => {
            make_directory(root, path)?;
            root.set_permissions(path, Permissions::from_mode(*mode))
        }
        Change::File { mode, bytes } => {
            // Another file each time: the one that is there may have other names, or be no regular file.
            remove(root, path)?;
            let mut file =
                root.open_with(path, OpenOptions::new().write(true).create_new(true).mode(0o600))?;
            file.write_all(bytes)?;
            file.set_permissions(Permissions::from_mode(*mode))
        }
        Change::Symlink(target) => {
            remove(root, path)?;
            // As it is: a link says where it points to, and nobody follows it here.
            root.symlink_contents(as_path(target), path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn file(text: &str) -> Change {
        Change::File {
            mode: 0o644,
            bytes: text.into(),
        }
    }

    /// A directory to export to, and one next to it with a file that must stay as it is.
    struct Places {
        _all: tempfile::TempDir,
        root: std::path::PathBuf,
        outside: std::path::PathBuf,
    }

    impl Places {
        fn new() -> Self {
            let all = tempfile::tempdir().expect("a temporary directory");
            let (root, outside) = (all.path().join("root"), all.path().join("outside"));
            for directory in [&root, &outside] {
                fs::create_dir(directory).expect("a directory");
            }
            fs::write(outside.join("kept"), "kept").expect("a file");
            fs::set_permissions(&outside, fs::Permissions::from_mode(0o751)).expect("its own");
            Self {
                _all: all,
                root,
                outside,
            }
        }

        fn export(&self, changes: &[(&str, Change)]) {
            let changes: Vec<_> = changes
                .iter()
                .map(|(path, change)| (path.as_bytes().to_vec(), change.clone()))
                .collect();
            export(&changes, &self.root).expect("it is exported");
            assert_eq!(fs::read(self.outside.join("kept")).expect("it is there"), b"kept");
            let outside = fs::metadata(&self.outside).expect("it is there");
            assert_eq!(outside.permissions().mode() & 0o7777, 0o751);
            assert_eq!(fs::read_dir(&self.outside).expect("a directory").count(), 1);
        }

        fn read(&self, path: &str) -> String {
            fs::read_to_string(self.root.join(path)).expect("it was exported")
        }
    }

    #[test]
    fn links_that_are_there_are_replaced_and_not_followed() {
        for target in ["outside", "../outside"] {
            let places = Places::new();
            let target = match target {
                "outside" => places.outside.clone(),
                relative => relative.into(),
            };
            fs::create_dir(places.root.join("d")).expect("a directory");
            symlink(&target, places.root.join("d/link")).expect("a link");
            symlink(&target, places.root.join("top")).expect("a link");
            symlink(target.join("kept"), places.root.join("file")).expect("a link");
            places.export(&[
                ("/d/link", Change::Directory { mode: 0o700 }),
                ("/d/link/kept", file("new")),
                ("/top/a/b/kept", file("deep")),
                ("/file", file("instead")),
            ]);
            assert_eq!(places.read("d/link/kept"), "new");
            assert_eq!(places.read("top/a/b/kept"), "deep");
            assert_eq!(places.read("file"), "instead");
        }
    }

    #[test]
    fn one_export_after_the_other() {
        let places = Places::new();
        let link = Change::Symlink(places.outside.as_os_str().as_encoded_bytes().to_vec());
        places.export(&[("/a", link.clone()), ("/b/c", file("text"))]);
        assert!(places.root.join("a").is_symlink());
        places.export(&[("/a/kept", Change::Removed)]);
        places.export(&[("/a", link.clone())]);
        places.export(&[("/a", Change::Removed), ("/b", link.clone())]);
        places.export(&[("/b/c/kept", file("text"))]);
        places.export(&[("/b", file("a file"))]);
        places.export(&[("/b/kept", link)]);
        assert!(places.root.join("b/kept").is_symlink());
    }

    #[test]
    fn other_names_of_a_file_and_pipes_are_left_alone() {
        let places = Places::new();
        fs::hard_link(places.outside.join("kept"), places.root.join("twin")).expect("a hard link");
        places.export(&[("/twin", file("other"))]);
        assert_eq!(places.read("twin"), "other");
        let pipe = places.root.join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        places.export(&[("/pipe", file("no reader"))]);
        assert_eq!(places.read("pipe"), "no reader");
    }

    #[test]
    fn a_path_that_leads_out_is_refused() {
        let places = Places::new();
        let change = [(b"/../outside/kept".to_vec(), file("x"))];
        assert!(export(&change, &places.root).is_err());
        assert_eq!(
            fs::read(places.outside.join("kept")).expect("it is there"),
            b"kept"
        );
    }
}
