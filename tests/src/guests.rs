//! Finding guests and building them, each once: the built program lies under the target directory in a
//! directory named by the hash of all that went into it, and gets there by an atomic rename, so that test
//! processes may build the same guest at the same time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::directives::Directives;
use crate::packages;

/// One guest's source and what it says about itself.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The file name without its extension.
    pub name: String,
    pub source: PathBuf,
    pub directives: Directives,
}

/// `tests/guests`.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guests")
}

/// Where built guests are kept: `guests` under the target directory of the running test or bench.
pub fn cache_directory() -> Result<PathBuf> {
    let program = std::env::current_exe().context("where does the test lie?")?;
    // target/PROFILE/deps/TEST, or target/PROFILE/PROGRAM
    let profile = program
        .ancestors()
        .skip(1)
        .find(|directory| !directory.ends_with("deps"));
    let target = profile
        .and_then(Path::parent)
        .context("the test lies in no target directory")?;
    let cache = target.join("guests");
    fs::create_dir_all(&cache).with_context(|| cache.display().to_string())?;
    Ok(cache)
}

/// All guests of a sub-directory of `tests/guests`, by name, without those that are only part of another.
pub fn all(kind: &str) -> Result<Vec<Guest>> {
    let directory = directory().join(kind);
    let mut guests = Vec::new();
    for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
        let source = entry?.path();
        let is_source = source
            .extension()
            .is_some_and(|e| ["c", "cc", "rs", "go"].iter().any(|known| e == *known));
        if is_source {
            guests.push(read(source)?);
        }
    }
    let parts: Vec<String> = guests.iter().flat_map(|g| g.directives.with.clone()).collect();
    guests.retain(|guest| !parts.iter().any(|part| guest.source.ends_with(part)));
    guests.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(guests)
}

/// One guest by its path under `tests/guests`.
pub fn one(path: &str) -> Result<Guest> {
    read(directory().join(path))
}

fn read(source: PathBuf) -> Result<Guest> {
    let text = fs::read_to_string(&source).with_context(|| source.display().to_string())?;
    let directives = Directives::parse(&text).with_context(|| source.display().to_string())?;
    let name = source
        .file_stem()
        .context("a guest has a name")?
        .to_string_lossy()
        .into_owned();
    Ok(Guest {
        name,
        source,
        directives,
    })
}

impl Guest {
    /// The built program.
    pub fn build(&self) -> Result<PathBuf> {
        self.build_with(&[])
    }

    /// The program built with further flags, such as `-DN=5`.
    pub fn build_with(&self, flags: &[&str]) -> Result<PathBuf> {
        let cache = cache_directory()?;
        let hash = self.hash(flags)?;
        let built = cache.join(&hash).join(&self.name);
        if built.is_file() {
            return Ok(built);
        }
        let fresh = tempfile::Builder::new().prefix("building-").tempdir_in(&cache)?;
        let program = fresh.path().join(&self.name);
        self.compile(&program, flags)
            .with_context(|| format!("building {}", self.source.display()))?;
        match fs::rename(fresh.path(), cache.join(&hash)) {
            Ok(()) => drop(fresh.keep()),
            // Another process was first; its program is as good.
            Err(_) if built.is_file() => {}
            Err(error) => return Err(error).context("moving the built guest to its place"),
        }
        Ok(built)
    }

    /// All that decides what is built: sources, shared headers, flags, and this build recipe.
    fn hash(&self, flags: &[&str]) -> Result<String> {
        let mut hash = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            hash.update(&bytes.len().to_le_bytes());
            hash.update(bytes);
        };
        add(include_bytes!("guests.rs"));
        for flag in flags {
            add(flag.as_bytes());
        }
        for source in self.sources() {
            add(&fs::read(&source).with_context(|| source.display().to_string())?);
        }
        let mut headers: Vec<PathBuf> = fs::read_dir(directory())?
            .map(|entry| entry.map(|e| e.path()))
            .collect::<std::io::Result<_>>()?;
        headers.retain(|path| path.extension().is_some_and(|e| e == "h"));
        headers.sort();
        for header in headers {
            add(&fs::read(header)?);
        }
        Ok(hash.finalize().to_hex()[..32].to_owned())
    }

    fn sources(&self) -> Vec<PathBuf> {
        let others = self
            .directives
            .with
            .iter()
            .map(|part| self.source.with_file_name(part));
        std::iter::once(self.source.clone()).chain(others).collect()
    }

    fn compile(&self, program: &Path, flags: &[&str]) -> Result<()> {
        let extension = self
            .source
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        let command = match extension {
            "c" => self.c_compiler("cc", "gcc", &["-std=gnu11"])?,
            "cc" => self.c_compiler("g++", "g++", &["-std=c++17"])?,
            "rs" => rust_compiler(),
            "go" => go_compiler(program)?,
            _ => bail!("no compiler for .{extension}"),
        };
        let mut command = command;
        command.args(flags).arg("-o").arg(program).args(self.sources());
        // Libraries must follow the sources.
        command.args(self.directives.build.iter().filter(|flag| *flag != "musl"));
        let output = command
            .output()
            .with_context(|| format!("cannot run {command:?}"))?;
        if !output.status.success() {
            bail!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    fn c_compiler(&self, compiler: &str, package: &str, standard: &[&str]) -> Result<Command> {
        let musl = self.directives.build.iter().any(|flag| flag == "musl");
        let compiler = if musl {
            packages::command("musl-gcc", "musl-tools")?
        } else {
            packages::command(compiler, package)?
        };
        let mut command = Command::new(compiler);
        command
            .args(standard)
            .args(["-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Werror"]);
        command.arg("-I").arg(directory());
        // A failed assertion prints its file: the same text, and as long, wherever the project lies.
        command.arg(format!("-fmacro-prefix-map={}=guests", directory().display()));
        if musl {
            command.arg("-static");
        }
        Ok(command)
    }
}

fn rust_compiler() -> Command {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command.args([
        "--edition",
        "2021",
        "-C",
        "opt-level=1",
        "-g",
        "--crate-name",
        "guest",
    ]);
    command
}

/// Go insists on a cache of its own; it lies beside the program and goes with the build directory's other parts.
fn go_compiler(program: &Path) -> Result<Command> {
    let mut command = Command::new(packages::command("go", "golang-go")?);
    command
        .arg("build")
        .env("GO111MODULE", "off")
        .env("CGO_ENABLED", "0");
    let home = program.parent().context("the build directory")?;
    command
        .env("GOCACHE", home.with_file_name("go-cache"))
        .env("GOPATH", home.with_file_name("go-path"));
    Ok(command)
}
