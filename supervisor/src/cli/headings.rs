//! The options of the help, grouped by what a reader is after. Kept here and not with the options, which are shared between commands and
//! nested in each other, so that the groups can be seen at a glance.

use clap::Command;

const PROGRAM: &str = "The program";
const PEERS: &str = "Peers";
const SEARCH: &str = "The search";
const LIMITS: &str = "Limits";
const PROPERTIES: &str = "Properties";
const RESULTS: &str = "Results";

/// Puts a heading above each option of each command that has one.
pub fn group(command: Command) -> Command {
    command.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        command.mut_args(|arg| {
            let heading = heading(&name, arg.get_id().as_str());
            arg.help_heading(heading)
        })
    })
}

fn heading(command: &str, option: &str) -> Option<&'static str> {
    match option {
        "preempt" | "stdin" | "cwd" | "env" | "clear_env" | "random_seed" | "cpus" | "epoch"
        | "no_confinement" => Some(PROGRAM),
        "server"
        | "client"
        | "cache"
        | "after"
        | "peers"
        | "peer_state"
        | "arrivals"
        | "late"
        | "share_trees"
        | "settle"
        | "cache_file"
        | "offline"
        | "allow_nondeterministic_peers" => Some(PEERS),
        _ if command == "check" => of_check(option),
        "json" | "junit" | "sarif" | "write_baseline" if ["sweep", "merge"].contains(&command) => {
            Some(RESULTS)
        }
        _ => None,
    }
}

fn of_check(option: &str) -> Option<&'static str> {
    match option {
        "search" | "reduce" | "no_hash" | "checkpoint" | "aux" | "faults" | "fault_budget" | "jobs"
        | "seed" | "walks" | "max_checkpoints" => Some(SEARCH),
        "bound_preemptions" | "max_states" | "max_depth" | "time_limit" | "memory_limit" | "keep_going"
        | "max_violations" => Some(LIMITS),
        "recover" | "files" | "forbid_file" | "require_file" | "expect_exit" | "races" | "suppressions"
        | "forbid" | "require" | "forbid_sent" | "require_sent" | "expect_client_exit" => Some(PROPERTIES),
        "trace_dir" | "json" | "graph" | "tree" | "profile" | "progress" => Some(RESULTS),
        _ => None,
    }
}
