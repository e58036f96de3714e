//! The search engine of tracefork: explores the schedules of anything that implements [`System`].
//!
//! It knows nothing of processes. A system says what can happen next and makes it happen; the engine decides the order ([`Strategy`]), leaves out
//! what is equivalent ([`reduce`]), remembers where it has been, goes back by marks or by re-execution, and collects outcomes and violations.
//!
//! Start with [`System`], which has a complete example, and [`Search`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod audit;
mod config;
pub mod critical;
pub mod endless;
mod footprint;
mod levels;
mod marks;
pub mod minimise;
mod pairs;
mod pool;
mod progress;
pub mod reduce;
mod reorder;
mod result;
mod search;
mod shared;
mod strategy;
mod system;
mod travel;
mod tree;
mod visited;
mod worker;

pub use config::{Audit, Config, Hope, Limits, Plan, Reduction, Strategy};
pub use critical::{Critical, critical_transition};
pub use endless::{Endless, Prospect, Ways, prospect};
pub use footprint::{Access, Footprint};
pub use levels::Deepened;
pub use minimise::{Effort, Minimised, as_it_is, minimise};
pub use pairs::PairCoverage;
pub use progress::{Counters, Progress};
pub use result::{Coverage, Dependent, Failure, Found, Limit, Observer, SearchResult};
pub use search::Search;
pub use system::{Candidate, Choice, Menu, Report, StepReport, System};
