//! `tracefork sweep`: many checks, one report.

use super::check::ProgressArg;
use failure::Failure;
use std::io::Write;
use std::path::PathBuf;
use sweep::baseline::Baseline;
use sweep::{EXPECT_WORDS, Partition, Plan, Selection, Source, Sweep, default_results};

// One field per option, as clap reads them.
#[derive(clap::Args)]
#[command(after_long_help = after_help())]
pub struct Args {
    /// The sweep file.
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    /// Use the settings, the selection and the matrix of this profile of the file.
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Run only scenarios whose name, full name or tag matches (repeatable; * and ? stand for anything).
    #[arg(long, value_name = "PATTERN")]
    pub only: Vec<String>,
    /// Do not run scenarios whose name, full name or tag matches (repeatable).
    #[arg(long, value_name = "PATTERN")]
    pub skip: Vec<String>,
    /// Set a parameter, overriding the file (repeatable).
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_assignment)]
    pub set: Vec<(String, String)>,
    /// List the scenarios that would run, without running them.
    #[arg(long)]
    pub list: bool,
    /// Run scenarios in parallel, with up to N workers in total [default: the number of cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: Option<u32>,
    /// Run one part of the sweep: slice:M/N or hash:M/N, or slice or hash alone to take M and N from a Slurm array or a Kubernetes indexed job.
    #[arg(long, value_name = "PART")]
    pub partition: Option<String>,
    /// Directory for journal, logs and traces [default: tracefork-sweep, with /part-M-of-N for a part].
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Continue an interrupted sweep with the same results directory; scenarios that have changed since are run again.
    #[arg(long)]
    pub resume: bool,
    /// Fail only on what is new or has changed against this file: verdicts, outcomes, numbers of states.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Progress on standard error.
    #[arg(long, value_enum, default_value = "auto")]
    pub progress: ProgressArg,
    #[command(flatten)]
    pub outputs: super::outputs::OutputArgs,
}

const EXAMPLE: &str = r#"Example sweep file:

  setup = ["make -s"]                  # once, before everything; teardown likewise

  [defaults]                           # every option of check is a setting
  time-limit = "60s"

  [profiles.quick]                     # --profile quick
  only = ["bank"]
  matrix.reduce = ["auto"]

  [[scenario]]
  name = "bank"
  program = "./bank"
  args = ["--tellers", "{tellers}"]
  env.FIX = "{fix}"
  [scenario.matrix]
  tellers = [2, 3]                     # fills in {tellers}
  reduce = ["auto", "none"]            # a setting
  case = [                             # parameters that go together
    { fix = "no", expect = "deadlock" },
    { fix = "yes", expect = "ok" },
  ]

  [[scenario]]
  name = "httpd"
  program = "/usr/sbin/httpd"
  client = "{clients}*curl -s http://{addr}/"
  setup = ["mkdir {scratch}/www"]      # {scratch}: a fresh directory; {dir}: where this file lies
  teardown = ["rm -f /tmp/httpd.pid"]  # always runs
  timeout = "5m"                       # hard limit on all of it
  matrix = { clients = [1, 2], cache = ["branching", "off"] }

Examples:
  tracefork sweep sweep.toml --junit results.xml
  tracefork sweep sweep.toml --resume
  tracefork sweep sweep.toml --write-baseline known.json
  tracefork sweep sweep.toml --baseline known.json
  tracefork sweep sweep.toml --partition hash:2/4    (then: tracefork merge tracefork-sweep)

Exit codes: 0 if everything is as expected, 1 if a violation was found that was not expected, or one was expected and not found; else
that of the worst scenario, as `check` has them; 2 if the sweep file is wrong."#;

fn after_help() -> String {
    let words: Vec<String> = EXPECT_WORDS
        .iter()
        .map(|(word, meaning)| format!("  {word:<12} {meaning}"))
        .collect();
    format!(
        "{EXAMPLE}\n\nexpect takes one of these or a list, ok if nothing is said; everything that is found must be in it:\n{}",
        words.join("\n")
    )
}

fn parse_assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("not of the form NAME=VALUE".to_owned()),
    }
}

pub fn main(args: &Args, quiet: bool) -> Result<u8, Failure> {
    let selection = Selection {
        profile: args.profile.clone(),
        only: args.only.clone(),
        skip: args.skip.clone(),
        set: args.set.clone(),
    };
    let plan = Plan::make(&Source::read(&args.file)?, &selection, &super::settings::schema())?;
    let environment = |name: &str| std::env::var(name).ok();
    let partition = args.partition.as_deref();
    let partition = partition
        .map(|text| Partition::parse(text, &environment))
        .transpose()?;
    if args.list {
        list(&plan, partition);
        return Ok(0);
    }
    let sweep = Sweep {
        plan,
        partition,
        results: args.results.clone().unwrap_or_else(|| default_results(partition)),
        resume: args.resume,
        baseline: args.baseline.as_deref().map(Baseline::read).transpose()?,
        jobs: args.jobs.unwrap_or_else(cores),
        progress: args.progress != ProgressArg::Never && !quiet,
    };
    let outputs = args.outputs.outputs();
    outputs.try_out()?;
    let document = sweep.run()?;
    outputs.write(&document, quiet)?;
    Ok(document.summary.exit_code)
}

fn list(plan: &Plan, partition: Option<Partition>) {
    let mut out = std::io::stdout().lock();
    for scenario in &plan.scenarios {
        if partition.is_none_or(|partition| partition.contains(scenario.number, &scenario.id)) {
            // Whoever reads it may have read enough.
            let _ = writeln!(out, "{}", scenario.id);
        }
    }
}

fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores).unwrap_or(1)
}
