//! Symbolised stacks of the virtual threads, for people.

use super::Options;
use super::TaskMemory;
use super::context::Threads;
use super::endings::Endings;
use super::network::PeerNetwork;
use super::spaces::Space;
use super::spaces::Spaces;
use crate::maps::read_maps;
use crate::objects::Objects;
use hooks::Blocked;
use std::path::PathBuf;
use std::rc::Rc;
use symbols::{FileMapping, Frame, Symbolizer, UnwindRegs, format_backtrace};
use syscall_model::Model;
use syscall_model::table::{self, Detail};
use syscall_model::{GuestMemoryExt, Pending, Sysno, Tid, WaitFor};
use trace::{COLUMNS, escape};
use tracee::Regs;

/// Arguments shown of a command.
const MOST_ARGUMENTS: u64 = 16;

/// Frames shown of one stack.
const MAX_FRAMES: usize = 32;

/// Names and places, for people.
#[derive(Clone, Copy)]
pub struct Explain<'a> {
    pub(super) model: &'a Model,
    pub(super) threads: &'a Threads,
    pub(super) spaces: &'a Spaces,
    pub(super) network: &'a PeerNetwork,
    pub(super) options: &'a Options,
    pub(super) ends: &'a Endings,
}

impl<'a> Explain<'a> {
    /// Every thread's stack, the one that crashed first.
    pub fn stacks(self) -> Vec<String> {
        let mut tids: Vec<Tid> = self.threads.keys().copied().collect();
        let guilty = self.ends.crash.as_ref().map(|crash| crash.thread);
        tids.sort_by_key(|&tid| (Some(tid) != guilty, tid));
        let mut lines = Vec::new();
        for tid in tids {
            let Some(context) = self.threads.get(&tid) else {
                continue;
            };
            lines.push(format!("{} {}", self.who(tid), self.doing(tid)));
            lines.extend(
                self.frames(self.spaces.of(self.model, tid), &context.regs)
                    .into_iter()
                    .map(|line| format!("  {line}")),
            );
        }
        lines.extend(self.freed_lines());
        if let Some(crash) = self
            .ends
            .crash
            .as_ref()
            .filter(|crash| !self.threads.contains_key(&crash.thread))
        {
            lines.splice(0..0, crash.stack.iter().cloned());
        }
        lines
    }

    /// A thread as people call it: a process, if it is the first of one of several.
    pub fn who(self, tid: Tid) -> String {
        let Some(pid) = self.model.process_of(tid) else {
            return format!("thread {tid}");
        };
        if let Some(name) = self.resident_name(tid) {
            return match pid == tid {
                true => format!("peer {name} (process {pid})"),
                false => format!("peer {name} (thread {tid} of process {pid})"),
            };
        }
        let is_one = self.model.own_pids().len() < 2;
        let is_only = is_one && self.ends.children.is_empty() && self.ends.first_ended.is_none();
        match (is_only, pid == tid) {
            (true, _) => format!("thread {tid}"),
            (false, true) => format!("process {pid}"),
            (false, false) => format!("thread {tid} of process {pid}"),
        }
    }

    /// The stack of a thread of the process in place that dies by a signal.
    pub(super) fn stack_of_crash(self, first: Tid, signal: i32) -> Vec<String> {
        let mut lines = vec![format!("{} got {}", self.who(first), trace::signal_name(signal))];
        let context = self.threads.get(&first);
        let frames = context.map(|context| self.frames(&self.spaces.here, &context.regs));
        lines.extend(frames.into_iter().flatten().map(|line| format!("  {line}")));
        lines
    }

    /// Who freed the memory that is touched, if some is.
    fn freed_lines(self) -> Vec<String> {
        let freed = match (self.sharing().use_after_free(), self.ends.misuse.as_ref()) {
            (Some((_, freed)), _) => freed,
            (None, Some(misuse)) => &misuse.freed,
            (None, None) => return Vec::new(),
        };
        let how = match self.sharing().freed_how(freed) {
            "freed" => "freed the memory",
            _ => "freed the memory by realloc",
        };
        let mut lines = vec![format!("thread {} {how}", freed.thread)];
        lines.extend(
            self.sharing()
                .freed_stack(freed)
                .into_iter()
                .map(|frame| format!("  {frame}")),
        );
        lines
    }

    /// Where in the program's own source a thread stands.
    pub fn location(self, tid: Tid) -> String {
        let Some(context) = self.threads.get(&tid) else {
            return String::new();
        };
        let frames = self.unwind(self.spaces.of(self.model, tid), &context.regs);
        frames
            .iter()
            .find(|frame| frame.is_own)
            .map(place_of)
            .unwrap_or_default()
    }

    /// The command that a thread is about to run in its process, if it is.
    pub fn program_to_run(self, tid: Tid) -> Option<String> {
        let Pending::Call(call) = self.model.find_thread(tid)?.pending else {
            return None;
        };
        if call.sysno != Sysno::execve {
            return None;
        }
        let memory = TaskMemory::new(self.spaces.of(self.model, tid).task.as_ref()?);
        let path = memory.read_path(call.word(0)).ok()?;
        let mut command = escape(&path);
        for nth in 1..MOST_ARGUMENTS {
            let pointer = call.word(1).wrapping_add(8 * nth);
            let argument = memory.read_u64(pointer).ok().filter(|&argument| argument != 0);
            let Some(argument) = argument.and_then(|argument| memory.read_path(argument).ok()) else {
                break;
            };
            command.push(' ');
            command.push_str(&escape(&argument));
        }
        // Two spaces would end it.
        Some(command.replace(COLUMNS, " ").trim_end().to_owned())
    }

    /// What it does next, by name.
    pub fn next_step(self, tid: Tid) -> String {
        let hook = self.threads.hook(tid);
        match (&self.model.thread(tid).pending, hook) {
            (Pending::Start, _) => "the start of a thread".to_owned(),
            (Pending::Call(call), _) => call.sysno.to_string(),
            (Pending::Hook(_), Some(hook)) => hook.name().to_owned(),
            (Pending::Spin, _) => "a loop that waits".to_owned(),
            _ => "its next step".to_owned(),
        }
    }

    /// The same of an instruction of its code.
    pub fn place(self, address: u64) -> String {
        place_of(&self.with_symbols(&self.spaces.here, |symbols| symbols.symbolise(address)))
    }

    /// The functions at an instruction, inlined ones first.
    pub fn frames_at(self, address: u64) -> Vec<Frame> {
        self.with_symbols(&self.spaces.here, |symbols| symbols.functions(address))
    }

    /// A thread's stack, innermost frame first.
    pub fn stack(self, tid: Tid) -> Vec<Frame> {
        self.threads.get(&tid).map_or_else(Vec::new, |context| {
            self.unwind(self.spaces.of(self.model, tid), &context.regs)
        })
    }

    /// Modules of the program's own code.
    pub fn own_modules(self) -> impl Iterator<Item = &'a crate::code::Module> {
        self.spaces
            .here
            .code
            .modules()
            .iter()
            .filter(|module| module.is_own)
    }

    /// The stack of whatever has these registers.
    pub(super) fn backtrace(self, regs: &Regs) -> Vec<String> {
        self.frames(&self.spaces.here, regs)
    }

    /// What the thread is about to do, in words.
    pub(crate) fn doing(self, tid: Tid) -> String {
        let Some(thread) = self.model.find_thread(tid) else {
            return "has ended".to_owned();
        };
        if let Some(crash) = self.ends.crash.as_ref().filter(|crash| crash.thread == tid) {
            return format!("got {}", trace::signal_name(crash.signal));
        }
        let hook = self.threads.hook(tid);
        let before = match &thread.pending {
            Pending::Start => "has not started".to_owned(),
            Pending::Call(call) => format!("before {}", table::describe(call, Detail::Full)),
            Pending::Hook(_) => hook.map_or("before a hook".to_owned(), |op| {
                format!("before {}({})", op.name(), self.object_name(tid, op.object))
            }),
            Pending::Return(result) => format!("returns {result} from its call"),
            Pending::Created(child) => format!("has made thread {child}"),
            Pending::Spin => "spins".to_owned(),
            Pending::Running => "runs".to_owned(),
        };
        format!("{before}{}", self.waiting_for(tid))
    }

    /// The object at an address: a variable, a stream, or, if it has no name, the address itself.
    pub fn object_name(self, tid: Tid, address: u64) -> String {
        if let Some((file, offset)) = self.model.shared_at(tid, address) {
            let number = file.checked_sub(syscall_model::fs::FIRST_INO).unwrap_or(file);
            return format!("{}{number}+{offset:#x}", trace::SHARED);
        }
        let space = self.spaces.of(self.model, tid);
        hooks::library_object(address, space.code.streams())
            .map(str::to_owned)
            .or_else(|| self.objects_of(space).name(address))
            .unwrap_or_else(|| format!("{address:#x}"))
    }

    /// What a thread that cannot go on waits for, in as few words as possible.
    pub fn stuck(self, tid: Tid) -> String {
        let context = self.threads.get(&tid);
        if let Some(op) = context.and_then(|context| context.hook.as_ref()) {
            let object = self.object_name(tid, op.object);
            return match self.threads.blocked(tid) {
                Blocked::HeldBy(owner) if owner == tid => {
                    format!("waits for {object}, which it holds itself")
                }
                Blocked::HeldBy(owner) if self.model.find_thread(owner).is_none() => {
                    format!("waits for {object}, held by thread {owner}, which has ended")
                }
                Blocked::HeldBy(owner) => format!("waits for {object}, held by thread {owner}"),
                _ => format!("waits in {}({object}){}", op.name(), self.waiting_for(tid)),
            };
        }
        let thread = self.model.thread(tid);
        match (&thread.pending, thread.wait.as_ref().map(|wait| &wait.on)) {
            (_, Some(WaitFor::Futex(word))) => {
                // Inside of a function that waits, its object tells more than the word. (The function may have returned since: who joins a thread
                // does not pass another parking point before.)
                let function = context.and_then(|context| context.inside.last());
                match (self.joined(*word), function) {
                    (Some(other), _) => format!("waits for thread {other} to end"),
                    (None, Some(function)) => format!("waits for {}", self.object_name(tid, function.object)),
                    (None, None) => format!("waits for {}", self.object_name(tid, *word)),
                }
            }
            (_, Some(WaitFor::Exit(other))) => format!("waits for thread {other} to end"),
            _ if self.model.is_stopped(tid) => "is stopped".to_owned(),
            (_, Some(WaitFor::Child(..))) => "waits for a child to end".to_owned(),
            (Pending::Call(call), _) if thread.idle_looks > 0 => format!("looks in {}", call.sysno.name()),
            (Pending::Call(call), _) => match self.model.awaits_reader(tid) {
                Some((key, bytes)) => format!(
                    "waits in {} because {} does not read: {bytes} bytes are pending",
                    call.sysno.name(),
                    self.network.name_of(key)
                ),
                None => format!("waits in {}", call.sysno.name()),
            },
            _ => self.doing(tid),
        }
    }

    /// What each thread waits for.
    pub fn all_stuck(self) -> Vec<String> {
        let tids = self.model.tids().into_iter();
        tids.map(|tid| format!("{} {}", self.who(tid), self.stuck(tid)))
            .collect()
    }

    /// The thread whose end is told by this word.
    fn joined(self, word: u64) -> Option<Tid> {
        let mut others = self.model.all_threads();
        others
            .find(|other| other.on_exit.clear_tid == word)
            .map(|other| other.tid)
    }

    fn waiting_for(self, tid: Tid) -> String {
        match self.threads.blocked(tid) {
            Blocked::No => {}
            Blocked::HeldBy(owner) if owner == tid => return ", which it holds itself".to_owned(),
            Blocked::HeldBy(owner) => return format!(", held by thread {owner}"),
            Blocked::Held => return ", held".to_owned(),
            Blocked::Readers => return ", held by readers".to_owned(),
            Blocked::WriterWaiting => return ", a writer waits".to_owned(),
            Blocked::Zero => return ", which is 0".to_owned(),
        }
        match &self.model.thread(tid).wait {
            Some(wait) if self.model.wake_reason(tid).is_none() => match &wait.on {
                WaitFor::Nothing => ", sleeping".to_owned(),
                WaitFor::Futex(word) => match self.joined(*word) {
                    Some(other) => format!(", waiting for thread {other} to end"),
                    None => format!(", waiting for {}", self.object_name(tid, *word)),
                },
                WaitFor::Exit(other) => format!(", waiting for thread {other} to end"),
                WaitFor::Ready(_) => ", waiting for input or room".to_owned(),
                WaitFor::Room(..) => ", waiting for room".to_owned(),
                WaitFor::FileLock(_) => ", waiting for a file lock".to_owned(),
                WaitFor::Signals(_) => ", waiting for a signal".to_owned(),
                WaitFor::Semaphores(id) => format!(", waiting for semaphores of set {id}"),
                WaitFor::Message(id) => format!(", waiting for a message of queue {id}"),
                WaitFor::Mailbox(_) => ", waiting at a message queue".to_owned(),
                WaitFor::MessageRoom(id, _) => format!(", waiting for room in message queue {id}"),
                WaitFor::Child(..) => ", waiting for a child to end".to_owned(),
                WaitFor::Exec(child) => format!(", waiting for process {child} to run another program"),
            },
            _ => String::new(),
        }
    }

    fn frames(self, space: &Space, regs: &Regs) -> Vec<String> {
        format_backtrace(&self.unwind(space, regs))
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn unwind(self, space: &Space, regs: &Regs) -> Vec<Frame> {
        let Some(task) = &space.task else {
            return Vec::new();
        };
        self.with_symbols(space, |symbols| {
            symbols.backtrace(
                UnwindRegs {
                    rip: regs.rip,
                    rsp: regs.rsp,
                    rbp: regs.rbp,
                },
                |address| task.memory().read_u64(address).ok(),
                |ip| Some(space.code.original_ip(ip)),
                MAX_FRAMES,
            )
        })
    }

    pub(super) fn with_symbols<T>(self, space: &Space, ask: impl FnOnce(&mut Symbolizer) -> T) -> T {
        let mut cached = space.known.symbols.borrow_mut();
        let (version, symbols) = cached.get_or_insert_with(|| (u64::MAX, Symbolizer::new()));
        if *version != space.layout_version {
            symbols.set_mappings(self.file_mappings(space));
            *version = space.layout_version;
        }
        ask(symbols)
    }

    fn file_mappings(self, space: &Space) -> Vec<FileMapping> {
        let Some(maps) = space.task.as_ref().and_then(|task| read_maps(task.pid()).ok()) else {
            return Vec::new();
        };
        let own: Vec<&std::path::Path> = space.code.own_modules().collect();
        let mapping = |map: crate::maps::Mapping| {
            let (path, file) = self.named(map.path?);
            Some(FileMapping {
                range: map.start..map.end,
                file_offset: map.offset,
                is_executable: map.executable,
                is_own: own.contains(&path.as_path()),
                path,
                file,
            })
        };
        maps.into_iter().filter_map(mapping).collect()
    }

    /// What a mapped file is called, and where its contents are: a stand-in is called like the file, and is elsewhere.
    pub(super) fn named(self, path: PathBuf) -> (PathBuf, PathBuf) {
        let text = path.to_string_lossy();
        let stood_for = text
            .strip_prefix("/memfd:")
            .and_then(|rest| rest.strip_suffix(" (deleted)"))
            .map(PathBuf::from);
        let Some(name) = stood_for else {
            return (path.clone(), path);
        };
        match self.spaces.host.stand_in(&name) {
            Ok(Some(stand_in)) => (name, stand_in.path),
            _ => (path.clone(), path),
        }
    }

    /// The names of the program's variables.
    pub fn objects(self) -> Rc<Objects> {
        self.objects_of(&self.spaces.here)
    }

    fn objects_of(self, space: &Space) -> Rc<Objects> {
        let modules = space.code.modules().len();
        let mut cached = space.known.objects.borrow_mut();
        match &*cached {
            Some((count, objects)) if *count == modules => Rc::clone(objects),
            _ => {
                let own = space.code.modules().iter().filter(|module| module.is_own);
                let objects = Rc::new(Objects::of(own));
                *cached = Some((modules, Rc::clone(&objects)));
                objects
            }
        }
    }
}

/// Function, file and line, as far as they are known.
pub fn place_of(frame: &Frame) -> String {
    let Some(function) = &frame.function else {
        return frame.to_string();
    };
    match &frame.source {
        Some(source) => {
            let file = source
                .file
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            format!("{function} {file}:{}", source.line.unwrap_or(0))
        }
        None => format!("{function}+{:#x}", frame.offset),
    }
}
