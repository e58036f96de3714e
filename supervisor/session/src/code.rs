//! The program's code with our hooks in it: which modules are mapped, where an `int3` stands, where its
//! displaced instruction is.
//!
//! Most hooks are parking points, and with a single thread nobody parks at one. They are prepared when a file is mapped
//! but written only when the first thread is made: programs that start up alone do so at full speed.

mod areas;

pub use areas::pages;

use crate::elf::load_bias;
use failure::Failure;
use hooks::Watched;
use hooks::{
    LibraryFn, ModulePlan, ModuleRole, PlanCache, Preempt, ScanError, ScratchLayout, Site, SiteKind, Streams,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracee::PAGE;
use tracee::Stopped;

const INT3: u8 = 0xcc;

/// A hook that is in place.
#[derive(Clone, Copy, Debug)]
pub struct Installed {
    pub kind: SiteKind,
    /// Length of the displaced instruction.
    pub len: u8,
    /// Where the displaced instruction is.
    pub slot: u64,
    /// The byte that the `int3` replaced.
    pub original: u8,
}

/// A file that is mapped executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    pub path: PathBuf,
    /// Where its contents are, for us: elsewhere if the file is no longer the one that was recorded.
    pub file: PathBuf,
    pub range: Range<u64>,
    /// Run-time address minus link-time address.
    pub bias: u64,
    /// The C library or the dynamic loader.
    pub is_libc: bool,
    /// The program's own code, as opposed to the system's libraries.
    pub is_own: bool,
}

/// All hooked code of one image.
#[derive(Clone)]
pub struct Code {
    preempt: Preempt,
    /// Under [`Preempt::Auto`]: the loads and stores that are parking points.
    watched: Arc<Watched>,
    /// Variables on a thread's own stack are watched, too.
    with_stacks: bool,
    plans: PlanCache,
    layout: ScratchLayout,
    sites: Arc<BTreeMap<u64, Installed>>,
    /// Hooks in code that the program can write to at present: not in place.
    withdrawn: Arc<BTreeMap<u64, areas::Withdrawn>>,
    modules: Arc<Vec<Module>>,
    streams: Streams,
    thread_count: Option<u64>,
    /// Are there, or were there, several threads?
    armed: bool,
}

impl Installed {
    /// Does it matter even to a thread that is alone?
    fn is_for_one(&self) -> bool {
        matches!(self.kind, SiteKind::Pause) || self.kind.is_emulated()
    }
}

impl Code {
    pub fn new(preempt: Preempt, watched: Arc<Watched>, plans: PlanCache, with_stacks: bool) -> Self {
        Self {
            // Nothing to look for is nothing to read the code for.
            preempt: match preempt {
                Preempt::Auto if watched.is_empty() => Preempt::Sync,
                preempt => preempt,
            },
            watched,
            with_stacks,
            plans,
            layout: ScratchLayout::new(),
            sites: Arc::default(),
            withdrawn: Arc::default(),
            modules: Arc::default(),
            streams: Streams::default(),
            thread_count: None,
            armed: false,
        }
    }

    /// The image is gone, and all hooks with it.
    pub fn reset(&mut self) {
        self.layout = ScratchLayout::new();
        self.sites = Arc::default();
        self.withdrawn = Arc::default();
        self.modules = Arc::default();
        self.streams = Streams::default();
        self.thread_count = None;
        self.armed = false;
    }

    /// There will be a second thread: from now on all hooks are in place. Returns whether code was changed for that.
    pub fn arm(&mut self, task: &mut Stopped) -> Result<bool, Failure> {
        if self.armed {
            return Ok(false);
        }
        self.armed = true;
        if self.preempt == Preempt::Memory || !self.watched.calls.is_empty() {
            self.hook_library(task)?;
        }
        self.write(task, u64::MIN..u64::MAX)?;
        Ok(true)
    }

    /// Are there, or were there, several threads?
    pub fn is_armed(&self) -> bool {
        self.armed
    }

    /// Is the `int3` of this site in the code, or only its place reserved?
    pub fn is_in_place(&self, site: &Installed) -> bool {
        self.armed || site.is_for_one()
    }

    pub fn site(&self, address: u64) -> Option<Installed> {
        self.sites.get(&address).copied()
    }

    /// The bytes that were in this range before there were hooks, for each that a hook replaced.
    pub fn originals(&self, range: Range<u64>) -> impl Iterator<Item = (u64, u8)> + '_ {
        self.sites
            .range(range)
            .map(|(address, site)| (*address, site.original))
    }

    /// Is there a hook at `pthread_join`?
    pub fn has_join(&self) -> bool {
        self.sites
            .values()
            .any(|site| matches!(site.kind, SiteKind::Join))
    }

    /// Where the C library's standard streams are.
    pub fn streams(&self) -> Streams {
        self.streams
    }

    /// Where glibc counts threads, if there are, or were, several.
    pub fn thread_count(&self) -> Option<u64> {
        self.thread_count.filter(|_| self.armed)
    }

    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// Is this address in the C library or the dynamic loader?
    pub fn is_libc(&self, address: u64) -> bool {
        self.modules
            .iter()
            .any(|module| module.is_libc && module.range.contains(&address))
    }

    /// Is this address in the dynamic loader?
    pub fn is_loader(&self, address: u64) -> bool {
        let module = self.modules.iter().find(|module| module.range.contains(&address));
        module.is_some_and(|module| is_loader(&module.path))
    }

    /// Is this address in the program's own code?
    pub fn is_own(&self, address: u64) -> bool {
        self.modules
            .iter()
            .any(|module| module.is_own && module.range.contains(&address))
    }

    /// Where displaced instructions are.
    pub fn scratch_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.layout.areas().iter().map(|area| area.range.clone())
    }

    /// Files with code of the program's own.
    pub fn own_modules(&self) -> impl Iterator<Item = &Path> {
        self.modules
            .iter()
            .filter(|module| module.is_own)
            .map(|module| module.path.as_path())
    }

    /// The address in the program's own code that an instruction pointer stands for.
    pub fn original_ip(&self, ip: u64) -> u64 {
        self.layout.original_ip(ip).unwrap_or(ip)
    }

    /// Part of the address space went away.
    pub fn unmapped(&mut self, gone: Range<u64>) {
        if !self
            .modules
            .iter()
            .any(|module| module.range.start < gone.end && gone.start < module.range.end)
        {
            return;
        }
        Arc::make_mut(&mut self.sites).retain(|site, _| !gone.contains(site));
        Arc::make_mut(&mut self.withdrawn).retain(|site, _| !gone.contains(site));
        Arc::make_mut(&mut self.modules).retain(|module| !gone.contains(&module.range.start));
        self.layout.forget_sites(&gone);
    }

    /// A file was mapped executable: hooks what belongs to be hooked in it.
    pub fn hook_mapping(
        &mut self,
        task: &mut Stopped,
        path: &Path,
        file: &Path,
        Range { start, end }: Range<u64>,
        offset: u64,
    ) -> Result<(), Failure> {
        let Some(bias) = load_bias(file, start, offset) else {
            return Ok(());
        };
        let range = start..end;
        let is_own = self.modules.is_empty() || !is_system(path);
        Arc::make_mut(&mut self.modules).push(Module {
            path: path.to_owned(),
            file: file.to_owned(),
            range: range.clone(),
            bias,
            is_libc: is_libc(path),
            is_own,
        });
        let role = role_of(is_own);
        let plan = self
            .plan(file, role)
            .map_err(|error| Failure::unsupported(format!("{}: {error}", path.display())))?;
        if let Some(streams) = plan.streams {
            self.streams = Streams {
                stdin: streams.stdin.wrapping_add(bias),
                stdout: streams.stdout.wrapping_add(bias),
            };
        }
        if let Some(count) = plan.thread_count {
            self.thread_count = Some(count.wrapping_add(bias));
        }
        let run_time = |site: &Site| site.vaddr.wrapping_add(bias);
        let sites: Vec<Site> = plan
            .sites
            .iter()
            .filter(|site| range.contains(&run_time(site)) && self.is_wanted(site, run_time(site)))
            .copied()
            .collect();
        if sites.is_empty() {
            return Ok(());
        }
        let span = plan.span.start.wrapping_add(bias)..plan.span.end.wrapping_add(bias);
        self.reserve(task, span, sites.len(), None)?;
        self.install(task, &range, &sites, bias)
    }

    /// What there is to hook in a file. Walks and searches differ in the program's own code: that of libraries, which is much more, is read once.
    fn plan(&self, path: &Path, role: ModuleRole) -> Result<Arc<ModulePlan>, ScanError> {
        let mode = match (role, self.preempt) {
            (ModuleRole::System, Preempt::Sync | Preempt::Auto) => Preempt::Memory,
            (_, preempt) => preempt,
        };
        self.plans.plan(path, role, mode)
    }

    fn is_wanted(&self, site: &Site, address: u64) -> bool {
        let accesses = match site.kind {
            SiteKind::Memory(accesses) => accesses,
            SiteKind::Join => return self.preempt != Preempt::Syscall,
            _ => return true,
        };
        if self.watched.instructions.contains(&address) {
            return true;
        }
        self.preempt == Preempt::Memory && (self.with_stacks || !accesses.are_on_stack())
    }

    /// Puts hooks at the entries of library functions that access memory for the program. By now the dynamic linker has chosen and bound them.
    fn hook_library(&mut self, task: &mut Stopped) -> Result<(), Failure> {
        let mut entries: BTreeMap<u64, LibraryFn> = BTreeMap::new();
        for module in self.modules.iter() {
            let Ok(plan) = self.plan(&module.file, role_of(module.is_own)) else {
                continue;
            };
            let found = &plan.library;
            entries.extend(
                found
                    .entries(module.is_libc)
                    .iter()
                    .map(|(entry, function)| (entry.wrapping_add(module.bias), *function)),
            );
            for (slot, function) in &found.slots {
                if let Ok(entry) = task.memory().read_u64(slot.wrapping_add(module.bias)) {
                    entries.entry(entry).or_insert(*function);
                }
            }
        }
        // Only the C library's own: how long a block of another allocator is cannot be read off it, and what is in no module is not bound yet. The functions that guard
        // local static variables are those of C++.
        let is_library = |address: u64| {
            let mut modules = self.modules.iter();
            modules.any(|module| !module.is_own && module.range.contains(&address))
        };
        entries.retain(|&entry, function| {
            let is_its_own = self.is_libc(entry) || (function.is_atomic() && is_library(entry));
            is_its_own && !self.sites.contains_key(&entry)
        });
        for module in Arc::clone(&self.modules).iter() {
            let inside: Vec<(u64, LibraryFn)> = entries
                .range(module.range.clone())
                .map(|(entry, function)| (*entry, *function))
                .collect();
            if !inside.is_empty() {
                self.reserve(task, module.range.clone(), inside.len(), None)?;
                self.hook_entries(task, &inside)?;
            }
        }
        Ok(())
    }

    /// Hooks functions at their entries. Room for the displaced instructions was made.
    fn hook_entries(&mut self, task: &mut Stopped, entries: &[(u64, LibraryFn)]) -> Result<(), Failure> {
        let mut slots = Vec::with_capacity(entries.len());
        for &(entry, function) in entries {
            let mut code = [0; 15];
            let available = task.memory().read_up_to(entry, &mut code)?;
            let code = &code[..available];
            let decoded =
                iced_x86::Decoder::with_ip(64, code, entry, iced_x86::DecoderOptions::NONE).decode();
            let Some(&original) = code.first().filter(|_| !decoded.is_invalid()) else {
                continue;
            };
            // One that cannot be displaced is not seen.
            let Ok(placed) = self.layout.place(entry, code) else {
                continue;
            };
            slots.push((placed.slot, placed.bytes));
            let site = Installed {
                kind: SiteKind::Library(function),
                len: decoded.len() as u8,
                slot: placed.slot,
                original,
            };
            Arc::make_mut(&mut self.sites).insert(entry, site);
        }
        areas::write_slots(task, &slots)
    }

    /// Puts an `int3` on any one instruction: where the displaced one is, and the byte that was replaced. `None` if there
    /// is no code.
    pub fn displace_at(&mut self, task: &mut Stopped, address: u64) -> Result<Option<(u64, u8)>, Failure> {
        let mut code = [0; 15];
        let available = task.memory().read_up_to(address, &mut code)?;
        let Some(&original) = code[..available].first() else {
            return Ok(None);
        };
        self.reserve(task, address..address + 1, 1, None)?;
        let placed = self.layout.place(address, &code[..available]).map_err(|error| {
            Failure::unsupported(format!("no breakpoint can be at {address:#x}: {error}"))
        })?;
        areas::write_slots(task, &[(placed.slot, placed.bytes)])?;
        task.memory().write_forced(address, &[INT3])?;
        Ok(Some((placed.slot, original)))
    }

    fn install(
        &mut self,
        task: &mut Stopped,
        range: &Range<u64>,
        sites: &[Site],
        bias: u64,
    ) -> Result<(), Failure> {
        let mut text = vec![0; (range.end - range.start) as usize];
        let available = task.memory().read_up_to(range.start, &mut text)?;
        text.truncate(available);
        let mut slots = Vec::with_capacity(sites.len());
        let installed = Arc::make_mut(&mut self.sites);
        for site in sites {
            let address = site.vaddr.wrapping_add(bias);
            let code = text.get((address - range.start) as usize..).unwrap_or(&[]);
            let Some(&original) = code.first() else {
                continue;
            };
            let placed = self
                .layout
                .place(address, &code[..code.len().min(15)])
                .map_err(|error| {
                    Failure::unsupported(format!("cannot hook the code at {address:#x}: {error}"))
                })?;
            slots.push((placed.slot, placed.bytes));
            installed.insert(
                address,
                Installed {
                    kind: site.kind,
                    len: site.len,
                    slot: placed.slot,
                    original,
                },
            );
        }
        areas::write_slots(task, &slots)?;
        self.write(task, range.clone())
    }

    /// Puts the hooks of this range in place, those that are due. Pages without one stay shared with the file.
    fn write(&self, task: &Stopped, range: Range<u64>) -> Result<(), Failure> {
        let mut due = self
            .sites
            .range(range)
            .filter(|(_, site)| self.is_in_place(site))
            .peekable();
        while let Some(&(&first, _)) = due.peek() {
            let page = first & !(PAGE - 1);
            let mut bytes = vec![0; PAGE as usize];
            let available = task.memory().read_up_to(page, &mut bytes)?;
            bytes.truncate(available);
            while let Some((address, site)) = due.next_if(|(address, _)| **address - page < PAGE) {
                // Code that the program has changed meanwhile is not what was looked at.
                match bytes.get_mut((address - page) as usize) {
                    Some(byte) if *byte == site.original => *byte = INT3,
                    _ => {}
                }
            }
            task.memory().write_forced(page, &bytes)?;
        }
        Ok(())
    }
}

fn role_of(is_own: bool) -> ModuleRole {
    if is_own {
        ModuleRole::Own
    } else {
        ModuleRole::System
    }
}

/// Libraries of the distribution: only their synchronisation functions are parking points.
fn is_system(path: &Path) -> bool {
    ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/libexec"]
        .iter()
        .any(|dir| path.starts_with(dir))
}

/// glibc and its dynamic loader, by the names that they have everywhere.
fn is_libc(path: &Path) -> bool {
    is_called(path, &["libc.so.6", "libc-", "libpthread"]) || is_loader(path)
}

fn is_loader(path: &Path) -> bool {
    is_called(path, &["ld-linux", "ld-2."])
}

fn is_called(path: &Path, beginnings: &[&str]) -> bool {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy())
        .unwrap_or_default();
    beginnings.iter().any(|prefix| name.starts_with(prefix))
}
