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
//! - `sharing.rs`: which memory threads share; data races
//! - `snapshot.rs`: all of this but the memory, saved and put back
//! - `core.rs`: all of this as a core file
//! - `debug.rs`: breakpoints and single instructions
//! - `footprint.rs`: what a pending operation touches
//! - `residue.rs`: dead stack memory is wiped
//! - `enabled.rs`: which threads can move
//! - `alternative.rs`: which of several results a step has
//! - `faults.rs`: calls that go wrong, signals and ends from outside
//! - `atomics.rs`: plain loads and stores that are atomic operations
//! - `watching.rs`: accesses of library functions, freed memory, and what else a walk sees
//! - `timeouts.rs`: waits that end before their time
//! - `arrivals.rs`: what has arrived from peers when a thread looks
//! - `binding.rs`: functions of libraries are bound at the start
//! - `idle.rs`: what happens when none can: time passes, a peer speaks after all, the end

mod alternative;
mod arrivals;
mod atomics;
mod binding;
mod bounds;
mod calls;
mod context;
mod core;
mod debug;
mod emulate;
mod enabled;
mod faults;
mod footprint;
mod guard;
mod hooked;
mod idle;
mod image;
mod inputs;
mod layout;
mod memory;
mod residue;
mod sharing;
mod signals;
mod snapshot;
mod spin;
mod stacks;
mod standstill;
mod step;
mod timeouts;
mod watching;

pub use alternative::{Alternative, ENVIRONMENT};
pub use bounds::Bounds;
pub use context::Context;
pub use context::Span;
pub use debug::Advance;
pub use faults::FaultPlan;
pub use inputs::{InputRecord, Inputs};
pub use layout::Change;
pub use memory::{ProcessHost, TaskMemory};
pub use sharing::Race;
pub use snapshot::Snapshot;
pub use stacks::place_of;
pub use standstill::{ForeignUnlock, Standstill};
pub use watching::{Event, Freed, Misuse, Walk, Watching};

use crate::code::{Code, Mapping};
use crate::cores::Core;
use crate::error::Failure;
use crate::hooks::{Blocked, PlanCache, Preempt};
use crate::network::{PeerNetwork, Peers};
use crate::objects::Objects;
use crate::program::Program;
use crate::symbols::{Atomics, Symbolizer};
use crate::trace::End;
use crate::watchdog;
use crate::watched::Watched;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use syscall_model::faults::Faults;
use syscall_model::fs::FileSystem;
use syscall_model::{Config, Cx, Model, Tid, Wake, table};
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
}

/// One execution.
pub struct Session {
    /// `None` only while the task runs, and after it is gone.
    task: Option<Stopped>,
    pub(crate) model: Model,
    contexts: BTreeMap<Tid, Context>,
    /// Whose extended processor state the kernel task has.
    loaded: Tid,
    host: ProcessHost,
    network: PeerNetwork,
    /// How often only time has passed since a peer was last spoken to, while clients were waited for.
    quiet: idle::Quiet,
    idling: idle::Idling,
    /// Operations since time last passed.
    busy: u32,
    code: Code,
    options: Options,
    ended: Option<End>,
    crash: Option<Crash>,
    /// What holds back the threads that stand before a lock: looked up when memory has changed, not when somebody asks.
    locks: BTreeMap<Tid, Blocked>,
    /// Names the present layout of the address space.
    layout_version: u64,
    /// The last name given; unlike the layout it is never put back, so that no two layouts have one name.
    layouts: u64,
    /// For reports; made when first needed.
    symbols: RefCell<Option<(u64, Symbolizer)>>,
    objects: RefCell<Option<(usize, Rc<Objects>)>>,
    /// The mappings as of some version, for [`sharing`].
    mappings: Option<(u64, Arc<Vec<Mapping>>)>,
    /// The mappings that threads have their stacks in, as of some layout.
    stacks: BTreeMap<Tid, residue::Region>,
    /// Changes of the mappings that the checkpoints were not told of.
    changes: Vec<layout::Change>,
    /// Invisible operations of the transition under way.
    transit: step::Transit,
    debug: debug::Debug,
    /// How the call of the transition under way goes wrong.
    chosen: Option<syscall_model::faults::Fault>,
    /// What has arrived for the transition under way, in words, where that was a choice.
    arrived: Option<String>,
    watched: watchdog::Entry,
    /// Threads that waited for each other's locks before the last step.
    stuck_before: Vec<Standstill>,
    /// What happened in a walk that nobody has asked for yet.
    events: Vec<Event>,
    /// Memory that was freed, as far as that is watched.
    freed: Vec<Freed>,
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
            .map_err(|error| image::launch_failure(&options, error))?;
        let ticker = Ticker::start(spin::TICK)
            .map_err(|errno| Failure::unsupported(format!("no timer for the supervisor: {errno}")))?;
        let pid = options.config.pid;
        let network = PeerNetwork::new(options.peers.clone())?;
        let mut session = Self {
            host: ProcessHost::new(task.pid(), &options),
            task: Some(task),
            model: new_model(&options),
            contexts: BTreeMap::from([(pid, Context::default())]),
            loaded: pid,
            network,
            quiet: idle::Quiet::default(),
            idling: idle::Idling::default(),
            busy: 0,
            code: Code::new(
                options.preempt,
                Arc::clone(&options.watched),
                options.plans.clone(),
                options.walk.as_ref().is_some_and(|walk| !walk.lent.is_empty()),
            ),
            options,
            ended: None,
            crash: None,
            locks: BTreeMap::new(),
            layout_version: 0,
            layouts: 0,
            mappings: None,
            symbols: RefCell::default(),
            objects: RefCell::default(),
            stacks: BTreeMap::new(),
            changes: Vec::new(),
            transit: step::Transit::default(),
            debug: debug::Debug::default(),
            chosen: None,
            arrived: None,
            watched: watchdog::Entry::default(),
            stuck_before: Vec::new(),
            events: Vec::new(),
            freed: Vec::new(),
            misuse: None,
            _ticker: ticker,
        };
        session.watched.begins();
        session.new_image()?;
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
        self.network.client_exits()
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

    /// Address ranges that are the supervisor's own: where displaced instructions are.
    pub fn own_ranges(&self) -> Vec<std::ops::Range<u64>> {
        self.code.scratch_ranges().collect()
    }

    pub fn crash(&self) -> Option<&Crash> {
        self.crash.as_ref()
    }

    /// Kills and reaps the task.
    pub fn finish(mut self) {
        if let Some(task) = self.task.take() {
            task.kill();
        }
    }

    /// The task, between steps.
    fn task(&mut self) -> Result<&mut Stopped, Failure> {
        self.task
            .as_mut()
            .ok_or_else(|| Failure::unsupported("the program under test is gone"))
    }

    /// Runs `work` in the context of a handler of the model.
    fn with_cx<R>(&mut self, tid: Tid, wake: Wake, work: impl FnOnce(&mut Cx) -> R) -> Result<R, Failure> {
        let task = self
            .task
            .as_ref()
            .ok_or_else(|| Failure::unsupported("the program under test is gone"))?;
        let mut mem = TaskMemory::of_program(task, &self.code);
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
