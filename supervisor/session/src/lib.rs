//! One execution of the program under test: the task, the model, the virtual threads, and how they move.
//!
//! Between two calls of [`Session::step`] the one kernel task is stopped and every virtual thread is parked
//! before its next visible operation. A step lets one thread perform its operation and run to the next.
//!
//! - `step.rs`: a transition, from the pending operation to the next parking point
//! - `bounds.rs`: how long a thread may compute
//! - `calls.rs`: system calls and what the model says of them
//! - `hooked.rs`: parking points that never reach the kernel
//! - `signals.rs`: delivery of signals, faults
//! - `emulate.rs`: instructions that differ from run to run
//! - `image.rs`: a new program image, file mappings
//! - `guard.rs`: memory calls that meet memory of ours
//! - `layout.rs`: changes of the mappings, for whoever keeps something about them
//! - `spin.rs`: loops that wait for another thread without saying so
//! - `stacks.rs`: what every thread is doing, for people
//! - `shared.rs`: memory that processes share
//! - `sharing.rs`: which memory threads share; data races
//! - `marks.rs`: checkpoints of all tasks
//! - `spaces.rs`: address spaces, one per process, and which is in place
//! - `processes.rs`: a new process, a process that ends
//! - `snapshot.rs`: all of this but the memory, saved and put back
//! - `core.rs`: all of this as a core file
//! - `debug.rs`: breakpoints and single instructions
//! - `footprint.rs`: what a pending operation touches
//! - `residue.rs`: dead stack memory is wiped
//! - `enabled.rs`: which threads can move
//! - `faults.rs`: calls that go wrong, signals and ends from outside
//! - `atomics.rs`: plain loads and stores that are atomic operations
//! - `watching.rs`: accesses of library functions, freed memory, and what else a walk sees
//! - `timeouts.rs`: waits that end before their time
//! - `arrivals.rs`: what has arrived from peers when a thread looks
//! - `binding.rs`: functions of libraries are bound at the start
//! - `idle.rs`: what happens when none can: time passes, a peer speaks after all, the end
//! - `residents.rs`: peers that are processes of the execution
//! - `standstill.rs`: threads that wait for each other
//! - `context.rs`, `memory.rs`, `inputs.rs`: a thread, the memory of the task, the files of this machine
//!
//! Around it:
//!
//! - [`execution`]: one schedule from start to end, chosen by a [`schedule`] or prescribed by a trace
//! - [`program`]: what is run
//! - [`code`]: hooks, put in place
//! - [`network`]: the peers, as the model's sockets see them
//! - [`objects`]: names of variables
//! - [`core_file`]: the format of core files
//! - [`cores`]: the core of the processor that a program and its supervisor share
//! - [`watchdog`]: the last resort against a wait that does not end
#![forbid(unsafe_code)]

mod arrivals;
mod atomics;
mod binding;
mod bounds;
mod calls;
pub mod code;
mod context;
mod core;
pub mod core_file;
pub mod cores;
mod debug;
mod emulate;
mod enabled;
pub mod execution;
mod faults;
mod footprint;
mod guard;
mod hooked;
mod idle;
mod image;
mod inputs;
mod layout;
mod marks;
mod memory;
pub mod network;
pub mod objects;
mod processes;
pub mod program;
mod residents;
mod residue;
pub mod schedule;
mod shared;
mod sharing;
mod signals;
mod snapshot;
mod spaces;
mod spin;
mod stacks;
mod standstill;
mod step;
mod timeouts;
pub mod watchdog;
mod watching;

pub use bounds::Bounds;
pub use context::Context;
pub use context::Span;
pub use debug::Advance;
pub use faults::FaultPlan;
pub use inputs::Inputs;
pub use layout::Change;
pub use marks::{Marks, MemoryMark};
pub use memory::{ProcessHost, TaskMemory};
pub use processes::ProcessEnd;
pub use residents::{Resident, Residents};
pub use sharing::Race;
pub use snapshot::Snapshot;
pub use spaces::{News, TaskKey};
pub use stacks::place_of;
pub use standstill::{ForeignUnlock, Standstill};
pub use watching::{Event, Freed, Misuse, Walk, Watching};

use crate::code::Code;
use crate::cores::Core;
use crate::network::{PeerNetwork, Peers};
use crate::program::Program;
use failure::Failure;
use hooks::Watched;
use hooks::{Blocked, PlanCache, Preempt};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use symbols::Atomics;
use syscall_model::faults::Faults;
use syscall_model::fs::FileSystem;
use syscall_model::processes::Pid;
use syscall_model::{Config, Cx, Model, Tid, Wake, table};
use trace::{Alternative, ENVIRONMENT, End};
use tracee::{Filter, Launch, Stopped, Ticker};

/// Environment variables, in order.
pub type Environment = Vec<(Vec<u8>, Vec<u8>)>;

/// What to run and how.
#[derive(Clone, Debug)]
pub struct Options {
    pub program: Program,
    pub argv: Vec<Vec<u8>>,
    pub env: Environment,
    pub config: Config,
    pub preempt: Preempt,
    /// Under [`Preempt::Auto`]: the loads and stores that are parking points too.
    pub watched: Arc<Watched>,
    /// What may go wrong; calls that can are parking points.
    pub faults: FaultPlan,
    /// The files that it finds, if they are not those of this machine.
    pub files: Option<Arc<FileSystem>>,
    /// Set for a walk that looks for shared memory.
    pub walk: Option<Walk>,
    /// What debug information says of atomic objects, read once for all executions.
    pub atomics: Atomics,
    /// What there is to hook in files, read once for all executions.
    pub plans: PlanCache,
    /// The core for supervisor and task: a stop costs less than half on one core.
    pub core: Option<Core>,
    /// The other ends of its connections.
    pub peers: Peers,
    /// Those of them that are processes of the execution.
    pub residents: Option<Arc<Residents>>,
    /// What this machine's files are, for all executions alike.
    pub inputs: Inputs,
    /// When to break off a thread that computes.
    pub bounds: Bounds,
    /// Have the kernel confine the program, too, where it can.
    pub confine: bool,
}

/// A crash, with the thread that had it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    pub thread: Tid,
    pub signal: i32,
    /// The faulting address, where the signal has one.
    pub address: Option<u64>,
    /// Number and program of the process, if it is not the first.
    pub process: Option<(Pid, String)>,
    /// The stack, if the process will be gone when somebody asks.
    pub stack: Vec<String>,
}

/// One execution.
pub struct Session {
    /// The address space of the process in place.
    space: spaces::Space,
    /// Those of the other processes.
    spaces: BTreeMap<Pid, spaces::Space>,
    /// Kernel tasks so far.
    tasks_so_far: spaces::TaskKey,
    /// What is left of spaces whose tasks are being put back.
    remains: BTreeMap<spaces::TaskKey, spaces::Space>,
    /// Tasks of processes that have ended.
    retired: Vec<(spaces::TaskKey, Stopped)>,
    pub(crate) model: Model,
    /// Threads of all processes.
    contexts: BTreeMap<Tid, Context>,
    host: ProcessHost,
    network: PeerNetwork,
    /// How often only time has passed since a peer was last spoken to, while clients were waited for.
    quiet: idle::Quiet,
    idling: idle::Idling,
    /// Operations since time last passed.
    busy: u32,
    options: Options,
    ended: Option<End>,
    /// Nobody can move, which is the end if nothing comes from outside.
    resting: Option<End>,
    /// How the first process ended, if others live on.
    first_ended: Option<End>,
    /// How the others ended.
    ended_children: Vec<ProcessEnd>,
    /// What the program left behind, for people.
    left_behind: BTreeSet<String>,
    crash: Option<Crash>,
    /// What holds back the threads that stand before a lock: looked up when memory has changed, not when somebody asks.
    locks: BTreeMap<Tid, Blocked>,
    /// The last name given to a layout; unlike the layout it is never put back, so that no two layouts have one name.
    layouts: u64,
    /// Invisible operations of the transition under way.
    transit: step::Transit,
    debug: debug::Debug,
    /// How the call of the transition under way goes wrong.
    chosen: Option<syscall_model::faults::Fault>,
    /// What has arrived for the transition under way, in words, where that was a choice.
    arrived: Option<String>,
    /// The signal that the thread takes now has come while its call waited for what is on its way.
    breaks_in: bool,
    watched: watchdog::Entry,
    /// Threads that waited for each other's locks before the last step.
    stuck_before: Vec<Standstill>,
    /// What happened in a walk that nobody has asked for yet.
    events: Vec<Event>,
    /// Freed memory that was touched without a parking point before.
    misuse: Option<Misuse>,
    _ticker: Ticker,
}

impl Session {
    /// Starts the program and runs it to its first parking point.
    pub fn start(options: Options) -> Result<Self, Failure> {
        proc_is_ours()?;
        let launch = Launch {
            program: options.program.path.clone(),
            argv: options.argv.iter().map(|a| os(a)).collect(),
            env: options.env.iter().map(|(k, v)| (os(k), os(v))).collect(),
            cwd: directory_to_start_in(&options.config.cwd),
            filter: Filter::new(table::allowed()),
            core: options.core.as_ref().map(Core::number),
            hide_tsc: true,
            confine: options.confine,
        };
        let task = launch
            .spawn()
            .map_err(|error| image::launch_failure(&options.program.path, error))?;
        let ticker = Ticker::start(spin::TICK)
            .map_err(|errno| Failure::unsupported(format!("no timer for the supervisor: {errno}")))?;
        let pid = options.config.pid;
        let mut network = PeerNetwork::new(options.peers.clone())?;
        if options
            .residents
            .as_ref()
            .is_some_and(|plan| !plan.clients.is_empty())
        {
            network.expect_residents();
        }
        let code = Code::new(
            options.preempt,
            Arc::clone(&options.watched),
            options.plans.clone(),
            options.walk.as_ref().is_some_and(|walk| !walk.lent.is_empty()),
        );
        let mut session = Self {
            host: ProcessHost::new(task.pid(), &options),
            space: spaces::Space::new(pid, 0, task, code, spaces::Invocation::of(&options)),
            spaces: BTreeMap::new(),
            tasks_so_far: 0,
            remains: BTreeMap::new(),
            retired: Vec::new(),
            model: new_model(&options),
            contexts: BTreeMap::from([(pid, Context::default())]),
            network,
            quiet: idle::Quiet::default(),
            idling: idle::Idling::default(),
            busy: 0,
            options,
            ended: None,
            resting: None,
            first_ended: None,
            ended_children: Vec::new(),
            left_behind: BTreeSet::new(),
            crash: None,
            locks: BTreeMap::new(),
            layouts: 0,
            transit: step::Transit::default(),
            debug: debug::Debug::default(),
            chosen: None,
            arrived: None,
            breaks_in: false,
            watched: watchdog::Entry::default(),
            stuck_before: Vec::new(),
            events: Vec::new(),
            misuse: None,
            _ticker: ticker,
        };
        session.model.process.command_line = session.space.invocation.command_line.clone();
        session.watched.begins();
        session.show_process();
        session.new_image()?;
        session.start_servers()?;
        session.run_to_park(pid)?;
        session.watched.ends();
        session.look_at_locks();
        Ok(session)
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    pub fn network(&self) -> &PeerNetwork {
        &self.network
    }

    /// Writes the traffic with the peers down, for a trace.
    pub fn keep_journal(&mut self) {
        self.network.keep_journal();
    }

    /// The exit statuses of the clients that have ended.
    pub fn client_exits(&mut self) -> Result<Vec<Option<i32>>, Failure> {
        match self.resident_exits() {
            Some(exits) => Ok(exits),
            None => self.network.client_exits(),
        }
    }

    pub fn host(&self) -> &ProcessHost {
        &self.host
    }

    /// How the execution ended, if it has.
    pub fn end(&self) -> Option<&End> {
        self.ended.as_ref()
    }

    /// Did the last transition unmap memory that other threads may use?
    pub fn took_memory(&self) -> bool {
        self.transit.took_memory
    }

    /// What the last transition learned of threads that had ended: it joined them, and need not wait. Nothing shows that but the call of `pthread_join`, and
    /// what it does afterwards comes after their ends.
    pub fn and_joined(&self, footprint: explore::Footprint) -> Option<explore::Footprint> {
        let joined = &self.transit.joined;
        let all = |footprint: explore::Footprint| {
            let each = joined.iter().map(|&handle| footprint::thread_handle(handle));
            each.fold(footprint, explore::Footprint::awaiting)
        };
        (!joined.is_empty()).then(|| all(footprint))
    }

    /// Address ranges in the memory of a process that are the supervisor's own: where displaced instructions are.
    pub fn own_ranges(&self, process: Pid) -> Vec<std::ops::Range<u64>> {
        let space = self.all_spaces().find(|space| space.id == process);
        space.map_or_else(Vec::new, |space| space.code.scratch_ranges().collect())
    }

    pub fn crash(&self) -> Option<&Crash> {
        self.crash.as_ref()
    }

    /// Kills and reaps the tasks.
    pub fn finish(mut self) {
        let others = std::mem::take(&mut self.spaces).into_values();
        let tasks = others
            .filter_map(|space| space.task)
            .chain(self.space.task.take());
        let retired = self.take_retired().into_iter().map(|(_, task)| task);
        for task in tasks.chain(retired) {
            task.kill();
        }
    }

    /// The task, between steps.
    fn task(&mut self) -> Result<&mut Stopped, Failure> {
        self.space.task.as_mut().ok_or_else(Self::gone)
    }

    /// Runs `work` in the context of a handler of the model.
    fn with_cx<R>(&mut self, tid: Tid, wake: Wake, work: impl FnOnce(&mut Cx) -> R) -> Result<R, Failure> {
        self.enter_process_of(tid);
        let task = self.space.task.as_ref().ok_or_else(Self::gone)?;
        let mut mem = TaskMemory::of_program(task, &self.space.code);
        let mut cx = Cx {
            model: &mut self.model,
            mem: &mut mem,
            host: &self.host,
            net: &mut self.network,
            tid,
            wake,
        };
        let result = work(&mut cx);
        for range in mem.forced() {
            self.layout_changed(layout::Change::Mapped(range));
        }
        self.network.take_failure()?;
        Ok(result)
    }
}

/// What is asked of `/proc` must be answered about the processes that we mean.
fn proc_is_ours() -> Result<(), Failure> {
    let me = std::fs::read_link("/proc/self");
    if me.is_ok_and(|me| me.as_os_str() == std::process::id().to_string().as_str()) {
        return Ok(());
    }
    Err(
        Failure::unsupported("/proc is missing, or shows the processes of another pid namespace").hint(
            "mount the one of this namespace: unshare --mount-proc; a container must not have the host's /proc",
        ),
    )
}

/// `/proc/self/exe` is the file that runs, whatever link or script led to it.
fn new_model(options: &Options) -> Model {
    let mut model = match &options.files {
        Some(files) => Model::over(&options.config, (**files).clone()),
        None => Model::new(&options.config),
    };
    model.fs.program = options.program.image.as_os_str().as_bytes().into();
    if options.faults.calls.contains(Faults::POWER) {
        model.fs.keep_history();
    }
    model
}

fn os(bytes: &[u8]) -> std::ffi::OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec())
}

/// The model resolves all paths itself, so a directory that is gone since a trace was recorded is not missed.
fn directory_to_start_in(cwd: &[u8]) -> PathBuf {
    let recorded = PathBuf::from(os(cwd));
    if recorded.is_dir() { recorded } else { "/".into() }
}
