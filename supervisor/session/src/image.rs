//! A new program image, and file mappings: the few things that must be done inside the task.

use super::guard::Standing;
use super::spaces::Space;
use super::step::Flow;
use super::{Change, Session};
use crate::code::pages;
use crate::program::Program;
use failure::Failure;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use syscall_model::effect::{Exec, MapFile, MapSource};
use syscall_model::{Call, Pending, Sysno, Tid, Wake, fs};
use tracee::{ImageOptions, Loan, Outcome, Resume, SpawnError, SpawnStep, Stop};

impl Session {
    /// Right after exec: takes away what differs from run to run, and hooks the code that is there.
    pub(super) fn new_image(&mut self) -> Result<(), Failure> {
        let mut random = [0; 16];
        // A stream of its own: how much of the model's the program draws must not matter here.
        ChaCha8Rng::seed_from_u64(self.options.config.random_seed ^ 0x4154_5f52_414e_444f)
            .fill_bytes(&mut random);
        let task = self.spaces.task()?;
        task.prepare_image(&ImageOptions {
            random,
            hide_tsc: true,
        })?;
        // What cpuid says depends on the core; the C library keeps it. The kernel forgets the setting at exec.
        if task.set_cpuid_faulting(true)? {
            tracee::fault_cpuid_here()?;
        }
        let maps = crate::maps::read_maps(task.pid())?;
        self.spaces.layout_changed(Change::Anywhere);
        self.spaces.here.code.reset();
        let program = self.options.program.image.clone();
        // Of each its name and where its contents are.
        let maps: Vec<_> = maps
            .into_iter()
            .filter_map(|map| Some((self.explain().named(map.path.clone()?), map)))
            .collect();
        for ((path, file), _) in &maps {
            // The program itself is in the trace anyway, by what it is and not by where; and what the program has written it will write again.
            if *path != program && path == file {
                self.spaces.host.executed(path);
            }
        }
        for ((_, file), map) in maps.iter().filter(|(_, map)| map.writable) {
            self.bind_early(file, map.start, map.end - map.start, map.offset, true)?;
        }
        let Some(task) = self.spaces.here.task.as_mut() else {
            return Ok(());
        };
        for ((path, file), map) in maps.iter().filter(|(_, map)| map.executable) {
            self.spaces
                .here
                .code
                .hook_mapping(task, path, file, map.start..map.end, map.offset)?;
        }
        self.spaces.hide_own();
        Ok(())
    }

    /// `execve` by the program itself: the kernel does it, then everything starts over but the model.
    pub(super) fn exec(
        &mut self,
        tid: Tid,
        call: Call,
        exec: Exec,
        regs: tracee::Regs,
    ) -> Result<(Option<i64>, Flow), Failure> {
        let (mut argv, envp) = match call.sysno {
            Sysno::execveat => (call.args[2], call.args[3]),
            _ => (call.args[1], call.args[2]),
        };
        let path = exec.path.clone();
        let image = match (&exec.contents, OsStr::from_bytes(&path)) {
            (None, path) => Program::find(path, Path::new("/")).map(|program| program.image),
            (Some(contents), path) => Program::check(Path::new(path), contents).map(|()| path.into()),
        };
        let image = match image {
            Ok(image) => image,
            Err(refusal) => {
                let what = format!("execve of {}", String::from_utf8_lossy(&path));
                return Err(self.unsupported(tid, &what, regs, &refusal.reason));
            }
        };
        let before = self.move_out(tid)?;
        if exec.script.is_some() {
            argv = self.spaces.here.lend_strings(&exec.argv)?;
        }
        let (number, args) = match &exec.contents {
            None => {
                let name = self.spaces.here.lend_string(&path)?;
                (libc::SYS_execve, [name.addr, argv, envp, 0, 0, 0])
            }
            Some(contents) => {
                let fd = self.open_made(&path, contents)?;
                let nameless = self.spaces.here.lend_string(b"")?;
                let by_descriptor = libc::AT_EMPTY_PATH as u64;
                (
                    libc::SYS_execveat,
                    [fd, nameless.addr, argv, envp, by_descriptor, 0],
                )
            }
        };
        let Some(mut task) = self.spaces.here.task.take() else {
            return Err(crate::spaces::gone());
        };
        task.enter_call()?;
        task.replace_call(number, args)?;
        let stopped = match task.resume(Resume::Syscall, None)?.wait_ignoring_ticks()? {
            Outcome::Stopped(stopped) => stopped,
            other => {
                return Err(Failure::unsupported(format!(
                    "execve ended the program: {other:?}"
                )));
            }
        };
        let is_new = *stopped.stop() == Stop::Exec;
        self.spaces.here.task = Some(stopped);
        if !is_new {
            let result = self.spaces.task()?.regs()?.rax as i64;
            self.spaces.here = before;
            self.transit.note(&[call.sysno.id() as u64, result as u64]);
            let mut regs = regs;
            regs.skip_call(result);
            return Ok((Some(result), Flow::Run(regs)));
        }
        self.moved_out(before, &exec);
        self.model.exec(tid, exec.script.as_deref().unwrap_or(&path));
        self.model.fs.set_program(image.as_os_str().as_bytes());
        let pid = self.model.process.pid;
        self.spaces.show_process();
        self.forget_breakpoints();
        self.new_image()?;
        self.model.thread_mut(pid).pending = Pending::Running;
        let start = *self.spaces.task()?.regs()?;
        Ok((None, Flow::Run(start)))
    }

    /// Maps a file into the program; the raw result of `mmap`.
    pub(super) fn map_file(&mut self, map: MapFile) -> Result<i64, Failure> {
        self.spaces.layout_changed(Change::Anywhere);
        if !self.model.is_single() && self.model.fs.has_shared_memory() {
            self.arm()?;
        }
        if map.flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0 {
            let standing = Standing {
                model: &self.model,
                threads: &mut self.threads,
            };
            self.spaces.make_way(standing, &pages(map.addr, map.len))?;
            self.spaces
                .here
                .code
                .unmapped(map.addr..map.addr.saturating_add(map.len));
        }
        let address = match &map.source {
            MapSource::Host(path) => self.map_host_file(&map, path)?,
            MapSource::Bytes(bytes) => self.spaces.here.map_bytes(&map, bytes)?,
        };
        // Only a shared mapping is noted beforehand, and that it is not yet as long as its file.
        if address < 0 && self.model.fs.is_resized() {
            self.model.fs.not_mapped(map.addr);
        }
        Ok(address)
    }

    /// After a call: shared mappings of files that grew, shrank or were mapped get memory as far as their files go, and are filled.
    pub(super) fn fit_shared_mappings(&mut self, tid: Tid) -> Result<(), Failure> {
        if !self.model.fs.is_resized() {
            return Ok(());
        }
        let unreadable = |errno| {
            Failure::unsupported(format!(
                "a file that is mapped shared can no longer be read: {errno}"
            ))
        };
        let remaps = self.with_cx(tid, Wake::Ready, fs::remaps)?.map_err(unreadable)?;
        for remap in remaps {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
            let args = [
                remap.addr,
                remap.len,
                remap.prot as u64,
                flags as u64,
                u64::MAX,
                0,
            ];
            self.spaces.task()?.inject_checked("mmap", libc::SYS_mmap, args)?;
            self.spaces
                .layout_changed(Change::Mapped(remap.addr..remap.addr + remap.len));
        }
        self.with_cx(tid, Wake::Ready, fs::refresh_resized)?
            .map_err(unreadable)
    }

    fn map_host_file(&mut self, map: &MapFile, path: &Path) -> Result<i64, Failure> {
        let lost =
            |error| Failure::unsupported(format!("{}: no memory for its contents: {error}", path.display()));
        let stand_in = self.spaces.host.stand_in(path).map_err(lost)?;
        let fd = match &stand_in {
            Some(stand_in) => self.spaces.here.open_stand_in(path, &stand_in.bytes)?,
            None => self.spaces.here.open_inside(path)?,
        };
        let task = self.spaces.task()?;
        let args = [
            map.addr,
            map.len,
            map.prot as u64,
            map.flags as u64,
            fd,
            map.offset,
        ];
        let address = task.inject(libc::SYS_mmap, args)?;
        task.inject_checked("close", libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
        let file = stand_in.map_or_else(|| path.to_owned(), |stand_in| stand_in.path);
        if address >= 0 && map.prot & libc::PROT_WRITE != 0 && map.flags & libc::MAP_PRIVATE != 0 {
            self.bind_early(&file, address as u64, map.len, map.offset, false)?;
        }
        if address >= 0 && map.prot & libc::PROT_EXEC != 0 {
            let Some(task) = self.spaces.here.task.as_mut() else {
                return Ok(address);
            };
            let range = address as u64..address as u64 + map.len;
            self.spaces
                .here
                .code
                .hook_mapping(task, path, &file, range, map.offset)?;
            self.spaces.hide_own();
        }
        Ok(address)
    }

    /// Opens a program that the program itself has written.
    fn open_made(&mut self, path: &[u8], contents: &[u8]) -> Result<u64, Failure> {
        let name = self.spaces.host.made(path, contents).map_err(|error| {
            let path = String::from_utf8_lossy(path);
            Failure::unsupported(format!("{path}: no memory for the program: {error}"))
        })?;
        self.spaces.here.open_stand_in(&name, contents)
    }
}

impl Space {
    /// Puts a NUL-terminated string where an injected call finds it.
    fn lend_string(&mut self, bytes: &[u8]) -> Result<Loan, Failure> {
        let mut terminated = bytes.to_vec();
        terminated.push(0);
        Ok(self.task()?.lend(&terminated)?)
    }

    /// The same for a list of strings: where a null-terminated array of pointers to them is.
    fn lend_strings(&mut self, strings: &[Vec<u8>]) -> Result<u64, Failure> {
        let mut pointers = Vec::new();
        for string in strings {
            pointers.extend(self.lend_string(string)?.addr.to_le_bytes());
        }
        pointers.extend([0; 8]);
        Ok(self.task()?.lend(&pointers)?.addr)
    }

    /// Opens a file in the task, for a mapping.
    fn open_inside(&mut self, path: &Path) -> Result<u64, Failure> {
        let name = self.lend_string(path.as_os_str().as_bytes())?;
        // Whatever has come to be there: nothing that the kernel would wait for.
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY) as u64;
        let at = libc::AT_FDCWD as i64 as u64;
        let task = self.task()?;
        let opened = task.inject_checked("openat", libc::SYS_openat, [at, name.addr, flags, 0, 0, 0]);
        task.take_back(name)?;
        Ok(opened?)
    }

    /// The same for a file that is no longer what it was: memory of that content, which is called like the file.
    fn open_stand_in(&mut self, path: &Path, bytes: &[u8]) -> Result<u64, Failure> {
        /// The kernel takes no longer names.
        const LONGEST: usize = 240;
        let mut name = path.as_os_str().as_bytes().to_vec();
        name.truncate(LONGEST);
        let name = self.lend_string(&name)?;
        let task = self.task()?;
        let flags = u64::from(libc::MFD_CLOEXEC);
        let made = task.inject_checked(
            "memfd_create",
            libc::SYS_memfd_create,
            [name.addr, flags, 0, 0, 0, 0],
        );
        task.take_back(name)?;
        let (fd, len) = (made?, bytes.len() as u64);
        if len > 0 {
            task.inject_checked("ftruncate", libc::SYS_ftruncate, [fd, len, 0, 0, 0, 0])?;
            let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
            let args = [0, len, prot, libc::MAP_SHARED as u64, fd, 0];
            let at = task.inject_checked("mmap", libc::SYS_mmap, args)?;
            task.memory().write(at, bytes)?;
            task.inject_checked("munmap", libc::SYS_munmap, [at, len, 0, 0, 0, 0])?;
        }
        Ok(fd)
    }

    fn map_bytes(&mut self, map: &MapFile, bytes: &[u8]) -> Result<i64, Failure> {
        let flags = (map.flags & !(libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE))
            | libc::MAP_PRIVATE
            | libc::MAP_ANONYMOUS;
        let task = self.task()?;
        let args = [map.addr, map.len, map.prot as u64, flags as u64, u64::MAX, 0];
        let address = task.inject(libc::SYS_mmap, args)?;
        if address >= 0 {
            let len = bytes.len().min(map.len as usize);
            task.memory().write_forced(address as u64, &bytes[..len])?;
        }
        Ok(address)
    }
}

/// A launch that failed, in words that help.
pub(super) fn launch_failure(program: &Path, error: SpawnError) -> Failure {
    let program = program.display();
    match &error {
        SpawnError::Child {
            step: SpawnStep::Exec,
            errno,
        } => Failure::unsupported(format!("{program}: cannot be executed: {errno}"))
            .hint("check its permissions, its interpreter and its file system (noexec?)"),
        SpawnError::Trace(_) | SpawnError::Child { .. } | SpawnError::Supervisor { .. } => {
            Failure::unsupported(format!("{program}: cannot be put under control: {error}"))
                .hint("run tracefork doctor to see what this machine allows")
        }
        _ => Failure::unsupported(format!("{program}: {error}")),
    }
}
