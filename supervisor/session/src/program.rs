//! The program under test: found, looked at, and refused with a reason if it cannot be handled.

use failure::Failure;
use goblin::elf::header;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A program that the kernel and tracefork can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Absolute, symbolic links kept: programs look at their own name.
    pub path: PathBuf,
    /// What runs in the end, without symbolic links: for a script its interpreter, else the program itself.
    pub image: PathBuf,
}

/// `#!` lines may name scripts in turn; the kernel follows this many.
const MAX_INTERPRETERS: usize = 4;

impl Program {
    /// Finds `name` as a shell would (`PATH` unless it has a slash) and checks it.
    pub fn find(name: &OsStr, cwd: &Path) -> Result<Self, Failure> {
        let path = locate(name, cwd)?;
        let mut image = path.clone();
        for _ in 0..=MAX_INTERPRETERS {
            match inspect(&image)? {
                Image::Elf => {
                    let image = fs::canonicalize(&image).map_err(|error| {
                        Failure::unsupported(format!("{}: {error}", image.display()))
                            .hint("check the path and its permissions")
                    })?;
                    return Ok(Self { path, image });
                }
                Image::Script(interpreter) => {
                    if !interpreter.exists() {
                        return Err(Failure::unsupported(format!(
                            "{}: its interpreter {} does not exist",
                            image.display(),
                            interpreter.display()
                        ))
                        .hint("fix the script's first line, or install the interpreter"));
                    }
                    image = interpreter;
                }
            }
        }
        Err(
            Failure::unsupported(format!("{}: too many levels of interpreters", path.display()))
                .hint("name the interpreter itself: tracefork run -- INTERPRETER SCRIPT"),
        )
    }
}

impl Program {
    /// Can a file with these contents be run?
    pub fn check(path: &Path, contents: &[u8]) -> Result<(), Failure> {
        classify(path, &contents[..contents.len().min(256)]).map(|_| ())
    }
}

fn locate(name: &OsStr, cwd: &Path) -> Result<PathBuf, Failure> {
    if name.is_empty() {
        return Err(
            Failure::usage("the program's name is empty").hint("usage: tracefork run -- PROGRAM ARGS…")
        );
    }
    if name.as_bytes().contains(&b'/') {
        return Ok(cwd.join(name));
    }
    let search = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    let mut denied = None;
    for directory in std::env::split_paths(&search) {
        let candidate = cwd.join(directory).join(name);
        let Ok(meta) = fs::metadata(&candidate) else {
            continue;
        };
        if meta.is_file() && meta.permissions().mode() & 0o111 != 0 {
            return Ok(candidate);
        }
        denied.get_or_insert(candidate);
    }
    match denied {
        Some(candidate) => Ok(candidate),
        None => Err(
            Failure::unsupported(format!("{}: program not found on PATH", name.to_string_lossy()))
                .hint("give its path, or check the spelling"),
        ),
    }
}

enum Image {
    Elf,
    Script(PathBuf),
}

fn inspect(path: &Path) -> Result<Image, Failure> {
    let shown = path.display();
    let meta = fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::unsupported(format!("{shown}: no such program")).hint("check the path")
        }
        _ => Failure::unsupported(format!("{shown}: {error}")).hint("check the path and its permissions"),
    })?;
    if meta.is_dir() {
        return Err(
            Failure::unsupported(format!("{shown}: is a directory, not a program")).hint("name a file in it"),
        );
    }
    if !meta.is_file() {
        return Err(
            Failure::unsupported(format!("{shown}: is not a regular file")).hint("name an executable file")
        );
    }
    if meta.permissions().mode() & 0o111 == 0 {
        return Err(
            Failure::unsupported(format!("{shown}: is not executable")).hint(format!("chmod +x {shown}"))
        );
    }
    if meta.permissions().mode() & 0o6000 != 0 {
        return Err(Failure::unsupported(format!(
            "{shown}: is setuid or setgid, and the kernel takes those rights away under ptrace"
        ))
        .hint("check a copy without the bit: cp, then run the copy"));
    }
    let mut head = Vec::with_capacity(256);
    File::open(path)
        .and_then(|file| file.take(256).read_to_end(&mut head))
        .map_err(|error| {
            Failure::unsupported(format!("{shown}: cannot be read: {error}")).hint(format!(
                "tracefork reads the program to find its locks: chmod +r {shown}"
            ))
        })?;
    classify(path, &head)
}

fn classify(path: &Path, head: &[u8]) -> Result<Image, Failure> {
    let shown = path.display();
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&b| b == b'\n').next().unwrap_or(line);
        let interpreter = line
            .trim_ascii()
            .split(|b| b.is_ascii_whitespace())
            .next()
            .unwrap_or(b"");
        if interpreter.is_empty() {
            return Err(
                Failure::unsupported(format!("{shown}: the script names no interpreter"))
                    .hint("write one after #!, for example #!/bin/sh"),
            );
        }
        return Ok(Image::Script(PathBuf::from(OsString::from_vec(
            interpreter.to_vec(),
        ))));
    }
    if !head.starts_with(header::ELFMAG) {
        return Err(
            Failure::unsupported(format!("{shown}: is neither an ELF program nor a script with #!"))
                .hint("for a script, name the interpreter: tracefork run -- sh SCRIPT"),
        );
    }
    if head.len() < 20 || head[header::EI_CLASS] != header::ELFCLASS64 {
        return Err(Failure::unsupported(format!("{shown}: is a 32-bit program")).hint("build it for x86-64"));
    }
    let machine = u16::from_le_bytes([head[18], head[19]]);
    if head[header::EI_DATA] != header::ELFDATA2LSB || machine != header::EM_X86_64 {
        return Err(Failure::unsupported(format!(
            "{shown}: is built for another processor (ELF machine {machine})"
        ))
        .hint("build it for x86-64"));
    }
    Ok(Image::Elf)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(result: Result<Image, Failure>) -> String {
        match result {
            Ok(_) => "accepted".to_owned(),
            Err(failure) => failure.reason,
        }
    }

    #[test]
    fn what_is_not_a_native_program_is_refused() {
        let p = Path::new("x");
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(64, 0);
        elf[18] = 62;
        assert_eq!(reason(classify(p, &elf)), "accepted");
        elf[4] = 1;
        assert!(reason(classify(p, &elf)).contains("32-bit"));
        elf[4] = 2;
        elf[18] = 183;
        assert!(reason(classify(p, &elf)).contains("another processor"));
        assert!(reason(classify(p, b"#!\n")).contains("no interpreter"));
        assert!(reason(classify(p, b"hello")).contains("neither"));
        assert_eq!(reason(classify(p, b"#! /bin/sh -e\n")), "accepted");
    }
}
