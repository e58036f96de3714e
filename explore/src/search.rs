//! The entry point: a configured search, run on one system or by many workers.

use crate::result::Failure;
use crate::shared::{Hooks, Shared};
use crate::worker::Worker;
use crate::{Config, Observer, Progress, SearchResult, System};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A search that can be run. See [`System`] for an example.
pub struct Search<'a, S: System> {
    config: Config,
    pub(crate) hooks: Hooks<'a, S::Violation>,
    progress: Arc<Progress>,
}

impl<'a, S: System> Search<'a, S> {
    /// A search with this configuration.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            hooks: Hooks::default(),
            progress: Arc::default(),
        }
    }

    /// Ends the search soon after the flag is set (Ctrl-C).
    #[must_use]
    pub fn stop_flag(mut self, stop: &'a AtomicBool) -> Self {
        self.hooks.stop = Some(stop);
        self
    }

    /// How to find out how many bytes are in use, for [`crate::Limits::memory`] and [`Config::mark_memory`].
    #[must_use]
    pub fn memory_use(mut self, ask: &'a (dyn Fn() -> u64 + Sync)) -> Self {
        self.hooks.memory = Some(ask);
        self
    }

    /// Lets an observer see the state graph.
    #[must_use]
    pub fn observer(mut self, observer: &'a dyn Observer) -> Self {
        self.hooks.observer = Some(observer);
        self
    }

    /// Only these violations count; others are ignored.
    #[must_use]
    pub fn wanted(mut self, wanted: &'a (dyn Fn(&S::Violation) -> bool + Sync)) -> Self {
        self.hooks.wanted = Some(wanted);
        self
    }

    /// The search begins at the end of this path; paths in the result include it.
    #[must_use]
    pub fn start_at(mut self, path: &[crate::Choice]) -> Self {
        self.hooks.start = path.to_vec();
        self
    }

    /// The live counters. They go on from where they are if the search is run again.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Runs with one worker, on this thread, whatever [`Config::jobs`] says.
    pub fn run_one(&self, system: &mut S) -> SearchResult<S> {
        let config = Config {
            jobs: 1,
            ..self.config.clone()
        };
        let shared = Shared::new(&config, &self.hooks, &self.progress);
        Worker::new(&shared, system).run();
        shared.into_result()
    }

    /// Runs with [`Config::jobs`] workers, each on its own thread with its own system, made there by `make(worker)`. Systems need not
    /// be `Send`. An error or a panic of one worker stops all, and is in the result.
    pub fn run(&self, make: impl Fn(usize) -> Result<S, S::Error> + Sync) -> SearchResult<S> {
        let shared = Shared::new(&self.config, &self.hooks, &self.progress);
        let work = |worker: usize| {
            let run = || match make(worker) {
                Ok(mut system) => Worker::new(&shared, &mut system).run(),
                Err(error) => shared.fail(Failure::System {
                    error,
                    path: Vec::new(),
                }),
            };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
                shared.fail(Failure::Panic {
                    worker,
                    message: message(&*panic),
                });
            }
        };
        std::thread::scope(|scope| {
            for worker in 0..shared.plan.jobs {
                let work = &work;
                let spawned = std::thread::Builder::new().spawn_scoped(scope, move || work(worker));
                if let Err(error) = spawned {
                    shared.fail(Failure::NoThread { worker, error });
                }
            }
        });
        shared.into_result()
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "unknown".to_owned())
}
