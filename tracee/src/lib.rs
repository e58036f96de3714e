//! Safe, typed ptrace of one kernel task (x86-64 Linux).
//!
//! A task is either [`Stopped`] or [`Running`]; the types cannot be cloned, and resuming consumes the one to give the
//! other, so that a request on a running task does not compile. Both own the process: dropping them kills and
//! reaps it, so no path, not even an error, leaves a process or a zombie behind. Neither is `Send`, because the
//! kernel takes ptrace requests from the tracing thread only:
//!
//! ```compile_fail,E0277
//! fn send<T: Send>() {}
//! send::<tracee::Stopped>();
//! ```
//!
//! A stopped task cannot be used once it is resumed:
//!
//! ```compile_fail,E0382
//! fn twice(task: tracee::Stopped) -> tracee::Result<()> {
//!     let running = task.resume(tracee::Resume::Cont, None)?;
//!     drop(running);
//!     task.regs().map(drop)
//! }
//! ```
//!
//! In use:
//!
//! ```no_run
//! use tracee::{Filter, ImageOptions, Launch, Outcome, Resume, Stop};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let launch = Launch {
//!     program: "/bin/true".into(),
//!     argv: vec!["true".into()],
//!     env: vec![],
//!     cwd: "/".into(),
//!     filter: Filter::new([]),
//!     core: None,
//!     hide_tsc: false,
//!     confine: true,
//! };
//! let mut task = launch.spawn()?;
//! task.prepare_image(&ImageOptions { random: [7; 16], hide_tsc: false })?;
//! let code = loop {
//!     match task.resume(Resume::Cont, None)?.wait()? {
//!         Outcome::Stopped(mut stopped) => {
//!             if let Stop::Seccomp { nr: libc::SYS_getpid } = *stopped.stop() {
//!                 stopped.skip_call(42)?;
//!             }
//!             task = stopped;
//!         }
//!         Outcome::Exited(code) => break code,
//!         other => panic!("{other:?}"),
//!     }
//! };
//! assert_eq!(code, 0);
//! # Ok(())
//! # }
//! ```

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("tracee supports x86-64 Linux only");

mod apart;
mod areas;
pub mod auxv;
mod child;
mod confine;
mod cpuid;
mod cpuid_fault;
pub mod doctor;
mod error;
mod filter;
mod gate;
mod heap;
mod image;
mod inject;
mod memory;
mod recall;
mod regs;
mod running;
pub mod sigframe;
mod spawn;
mod stop;
mod stopped;
mod sys;
mod task;
mod ticker;
mod xlayout;
mod xstate;

pub use areas::Area;
pub use auxv::InitialStack;
pub use child::Step as SpawnStep;
pub use cpuid::{Cpuid, cpuid};
pub use cpuid_fault::fault_cpuid_here;
pub use error::{Error, MemoryFault, Result};
pub use filter::{Filter, X32_BIT};
pub use heap::Heap;
pub use image::{Image, ImageOptions};
pub use inject::{Loan, check_return};
pub use memory::{Memory, PAGE};
pub use regs::{NO_CALL, Regs};
pub use running::{Outcome, Running};
pub use spawn::{Launch, SpawnError};
pub use stop::Stop;
pub use stopped::{Resume, Stopped};
pub use ticker::{Ticker, thread_time};
pub use xlayout::{Component, Layout, Subleaf};
pub use xstate::XState;
