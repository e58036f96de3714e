//! One execution of the program under test: the task, the model, the virtual threads, and how they move.
//!
//! Between two calls of [`Session::step`] the one kernel task is stopped and every virtual thread is parked
//! before its next visible operation. A step lets one thread perform its operation and run to the next.
//!
//! - `view.rs`: what can be asked between two steps
//! - `endings.rs`: how it ends
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
//! - `differences.rs`: in what two states differ
//! - `footprint.rs`: what a pending operation touches
//! - `announced.rs`: what a step has touched, as opposed to what it could have
//! - `residue.rs`: dead stack memory is wiped
//! - `enabled.rs`: which threads can move
//! - `faults.rs`: calls that go wrong, signals and ends from outside
//! - `atomics.rs`: plain loads and stores that are atomic operations
//! - `watching.rs`: accesses of library functions, freed memory, and what else a walk sees
//! - `timeouts.rs`: waits that end before their time
//! - `arrivals.rs`: what has arrived from peers when a thread looks
//! - `binding.rs`: functions of libraries are bound at the start
//! - `elf.rs`, `maps.rs`, `registers.rs`: segments of a file, mappings of a task, registers by name
//! - `circling.rs`: threads that sleep and look again and again, in vain
//! - `times.rs`: memory compared, but for times
//! - `idle.rs`: what happens when none can: time passes, a peer speaks after all, the end
//! - `outside.rs`: what it may still wait for then, if signals may come
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

mod announced;
mod arrivals;
mod atomics;
mod binding;
mod bounds;
mod calls;
mod circling;
pub mod code;
mod context;
mod core;
pub mod core_file;
pub mod cores;
mod debug;
mod differences;
mod elf;
mod emulate;
mod enabled;
mod endings;
pub mod execution;
mod faults;
mod footprint;
mod guard;
mod hooked;
mod idle;
mod image;
mod inputs;
mod layout;
mod loader;
mod maps;
mod marks;
mod memory;
pub mod network;
pub mod objects;
mod outside;
mod processes;
pub mod program;
mod registers;
mod residents;
mod residue;
mod rounds;
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
mod times;
mod view;
pub mod watchdog;
mod watching;

pub use self::core::CoreFile;
pub use announced::Announced;
pub use arrivals::Arrivals;
pub use bounds::Bounds;
pub use context::{Context, Span};
pub use debug::{Advance, Debugger, Inspect};
pub use differences::Portrait;
pub use enabled::Movers;
pub use endings::Crash;
pub use faults::{FaultPlan, Hazards};
pub use footprint::Footprints;
pub use inputs::Inputs;
pub use layout::Change;
pub use marks::{Mark, Marks};
pub use memory::{ProcessHost, TaskMemory};
pub use processes::ProcessEnd;
pub use residents::{Residency, Resident, Residents};
pub use sharing::{Race, Sharing};
pub use snapshot::Snapshot;
pub use spaces::{News, Spaces, TaskKey};
pub use stacks::{Explain, place_of};
pub use standstill::{ForeignUnlock, Standstill, Standstills};
pub use watching::{Event, Freed, Misuse, Walk, Watching};

use crate::code::Code;
use crate::context::Threads;
use crate::cores::Core;
use crate::endings::Endings;
use crate::network::{PeerNetwork, Peers};
use crate::program::Program;
use failure::Failure;
use hooks::Watched;
use hooks::{PlanCache, Preempt};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use symbols::Atomics;
use syscall_model::faults::Faults;
use syscall_model::fs::FileSystem;
use syscall_model::processes::Pid;
use syscall_model::{Config, Cx, Model, Tid, Wake, table};
use trace::{Alternative, ENVIRONMENT, End};
use tracee::{Filter, Launch, Ticker};

/// Environment variables, in order.
pub type Environment = Vec<(Vec<u8>, Vec<u8>)>;

/// What to run and how: settings that do not depend on each other, handed over at once.
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
    /// Where core files are wanted: a process that crashes while others go on leaves its own there.
    pub cores: Option<PathBuf>,
}

impl Options {
    /// Are there peers that move by themselves, whenever they can?
    pub fn peers_are_fixed(&self) -> bool {
        self.residents.as_ref().is_some_and(|plan| !plan.explored)
    }
}

/// One execution.
///
/// It is the one who moves things: every stop of a task and every effect that the model asks for has its method, and these stand in files by topic (see above). What can be known without
/// moving anything is asked of the views that it hands out ([`Session::movers`], [`Session::explain`], …).
pub struct Session {
    /// The memory of all processes, and their kernel tasks.
    spaces: spaces::Spaces,
    /// Threads of all processes.
    threads: Threads,
    pub(crate) model: Model,
    network: PeerNetwork,
    options: Options,
    ends: Endings,
    pace: idle::Pace,
    /// The transition under way.
    transit: step::Transit,
    /// What was chosen for it.
    choice: step::Choice,
    seen: endings::Seen,
    debug: debug::Debug,
    guards: watchdog::Guards,
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
        let host = ProcessHost::new(task.pid(), &options);
        let space = spaces::Space::new(pid, 0, task, code, spaces::Invocation::of(&options));
        let mut session = Self {
            spaces: spaces::Spaces::new(space, host),
            threads: Threads::of_first(pid),
            model: new_model(&options),
            network,
            options,
            ends: Endings::default(),
            pace: idle::Pace::default(),
            transit: step::Transit::default(),
            choice: step::Choice::default(),
            seen: endings::Seen::default(),
            debug: debug::Debug::default(),
            guards: watchdog::Guards::new(ticker),
        };
        session.model.process.program.command_line = session.spaces.here.invocation.command_line.clone();
        session.guards.step_begins();
        session.spaces.show_process();
        session.new_image()?;
        session.start_servers()?;
        session.run_to_park(pid)?;
        session.guards.step_ends();
        session.threads.look_at_locks(&session.model, &session.spaces);
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
        self.model.channels.overheard.listen();
    }

    /// The exit statuses of the clients that have ended.
    pub fn client_exits(&mut self) -> Result<Vec<Option<i32>>, Failure> {
        match self.residency().resident_exits() {
            Some(exits) => Ok(exits),
            None => self.network.client_exits(),
        }
    }

    pub fn host(&self) -> &ProcessHost {
        &self.spaces.host
    }

    /// How the execution ended, if it has.
    pub fn end(&self) -> Option<&End> {
        self.ends.ended.as_ref()
    }

    pub fn crash(&self) -> Option<&Crash> {
        self.ends.crash.as_ref()
    }

    /// Kills and reaps the tasks.
    pub fn finish(mut self) {
        let others = std::mem::take(&mut self.spaces.others).into_values();
        let tasks = others
            .filter_map(|space| space.task)
            .chain(self.spaces.here.task.take());
        let retired = self.spaces.take_retired().into_iter().map(|(_, task)| task);
        for task in tasks.chain(retired) {
            task.kill();
        }
    }

    /// The memory of all processes.
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// The same, for whoever keeps checkpoints of it.
    pub fn spaces_mut(&mut self) -> &mut Spaces {
        &mut self.spaces
    }

    /// Puts the process of a thread in place, in the model and here.
    fn enter_process_of(&mut self, tid: Tid) {
        if let Some(pid) = self.model.process_of(tid) {
            self.enter(pid);
        }
    }

    fn enter(&mut self, pid: Pid) {
        self.model.enter(pid);
        self.spaces.enter(self.model.process.program.space);
    }

    /// Puts the process in place that is there between steps.
    fn go_home(&mut self) {
        self.model.go_home();
        self.spaces.enter(self.model.process.program.space);
    }

    /// Runs `work` in the context of a handler of the model.
    fn with_cx<R>(&mut self, tid: Tid, wake: Wake, work: impl FnOnce(&mut Cx) -> R) -> Result<R, Failure> {
        self.enter_process_of(tid);
        let task = self.spaces.here.task.as_ref().ok_or_else(crate::spaces::gone)?;
        let mut mem = TaskMemory::of_program(task, &self.spaces.here.code);
        let mut cx = Cx {
            model: &mut self.model,
            mem: &mut mem,
            host: &self.spaces.host,
            net: &mut self.network,
            tid,
            wake,
        };
        let result = work(&mut cx);
        for range in mem.forced() {
            self.spaces.layout_changed(layout::Change::Mapped(range));
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
    model.fs.set_program(options.program.image.as_os_str().as_bytes());
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
