//! What the options of `tracefork check` mean to the search, to the system that is searched and to its judge.

use super::PreemptArg;
use super::check_args::{Args, CheckpointArg, ExpectedExit, ReduceArg, SearchArg};
use super::faults::{self, FaultArg};
use checker::suppressions::Suppressions;
use checker::suspicions::Suspicions;
use checker::{CheckSystem, CheckpointChoice, Judge, Properties, coverage};
use explore::{Audit, Config, Limits, Reduction, Strategy};
use failure::Failure;
use session::Options;
use std::collections::BTreeSet;

pub(super) fn judge(args: &Args, options: &Options) -> Result<Judge, Failure> {
    let properties = Properties {
        expect_exit: match args.expect_exit {
            Some(ExpectedExit::Code(code)) => Some(code),
            Some(ExpectedExit::Any) | None => None,
        },
        may_panic: args.expect_exit.is_some(),
        forbid: args.forbid.clone(),
        require: args.require.clone(),
        forbid_sent: args.forbid_sent.clone(),
        require_sent: args.require_sent.clone(),
        expect_client_exit: args.expect_client_exit,
        races: args.races || args.sut.preempt == PreemptArg::Memory,
        suspicions: false,
        suppressions: suppressions(args)?,
    };
    Ok(Judge {
        properties,
        recovery: faults::recovery(args.recover.as_deref(), options)?,
        files: faults::left_files(&args.files, &args.forbid_file, &args.require_file)?,
    })
}

pub(super) fn checkpoints(args: &Args) -> CheckpointChoice {
    match args.checkpoint {
        CheckpointArg::Auto => CheckpointChoice::Auto,
        CheckpointArg::Fork => CheckpointChoice::Fork,
        CheckpointArg::Rewind => CheckpointChoice::Rewind,
        CheckpointArg::None => CheckpointChoice::None,
    }
}

pub(super) fn system(args: &Args, options: Options) -> Result<CheckSystem, Failure> {
    let judge = judge(args, &options)?;
    let system = CheckSystem::new(options, judge, checkpoints(args));
    let system = system.peers(args.peers.any_real());
    Ok(system.auxiliary(&args.aux))
}

pub(super) fn suppressions(args: &Args) -> Result<Suppressions, Failure> {
    args.suppressions
        .as_deref()
        .map_or(Ok(Suppressions::default()), Suppressions::read)
}

pub(super) fn config(args: &Args) -> Config {
    Config {
        strategy: match args.search {
            SearchArg::Dfs => Strategy::Dfs,
            SearchArg::Bfs => Strategy::Bfs,
            SearchArg::Random => Strategy::Random {
                walks: Some(args.walks),
            },
            SearchArg::Walk => Strategy::Walk {
                walks: Some(args.walks),
            },
            SearchArg::Pct => Strategy::Pct {
                depth: 3,
                walks: Some(args.walks),
                steps: None,
            },
        },
        seed: args.seed,
        reduction: match args.reduce {
            ReduceArg::Auto => Reduction::Auto,
            ReduceArg::None => Reduction::None,
            ReduceArg::Sleep => Reduction::Sleep,
            ReduceArg::Dpor => Reduction::Dpor,
        },
        hash: remembers_states(args),
        deepening: None,
        bound_preemptions: args.bound_preemptions,
        bound_counts_alternatives: false,
        jobs: args.jobs as usize,
        limits: Limits {
            states: args.max_states,
            depth: args.max_depth,
            time: args.time_limit,
            memory: args.memory_limit,
            ..Limits::default()
        },
        max_violations: if args.keep_going {
            None
        } else {
            Some(args.max_violations.unwrap_or(1))
        },
        audit: Audit::InPassing,
        dependent: BTreeSet::new(),
        max_live_marks: args.max_checkpoints,
        mark_memory: args.memory_limit.map(|limit| limit / 2),
    }
}

/// Guided walks do not look whether a state is known, and whoever asks for dynamic reduction asks for a search that remembers none.
fn remembers_states(args: &Args) -> bool {
    let is_dynamic =
        args.reduce == ReduceArg::Dpor && args.search == SearchArg::Dfs && args.bound_preemptions.is_none();
    !args.no_hash && !is_dynamic && args.search != SearchArg::Walk
}

pub(super) fn asked(args: &Args, suspicions: &Suspicions) -> coverage::Asked {
    coverage::Asked {
        preempt: args.sut.preempt.into(),
        arrivals: args.peers.arrivals(),
        faults: args.faults.iter().map(FaultArg::to_string).collect(),
        fault_budget: args.fault_budget,
        waits_for_time: suspicions.has_waited_for_time() && !args.faults.contains(&FaultArg::Timeout),
        peers: match args.peers.any() {
            true => Some(args.peers.stand()),
            false => None,
        },
    }
}
