//! Damaged and hostile files: whatever they hold, and be their checksum right, the command ends with a documented code and a reason, soon, and
//! within bounded memory.
//!
//! `decoders` tries each decoder with changed files in this process, `command` whole commands. `TRACEFORK_SEED=7` tries others,
//! `TRACEFORK_HOSTILE_CASES=50` so many times as many.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use trace::{Operation, Trace, format};
use tracefork_tests::campaign;
use tracefork_tests::command_under_test;
use tracefork_tests::directives::{End, Preempt};
use tracefork_tests::guests;
use tracefork_tests::hostile::mutate::Mutator;
use tracefork_tests::hostile::{Target, pack, targets};
use tracefork_tests::networked::{Peer, Session};
use tracefork_tests::observe::{Invocation, Scratch};
use tracefork_tests::process;
use tracefork_tests::supervised::{Schedule, Tracefork};

type Body = fn(&Tracefork) -> Result<()>;

/// Within this much of address space a command that refuses a file must manage.
const ADDRESS_SPACE: u64 = 3 << 30;
const PATIENCE: Duration = Duration::from_mins(30);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let trials: [(&str, Body); 11] = [
        ("decoders::trace", attack_traces),
        ("decoders::cache", attack_caches),
        ("decoders::sweep", attack_sweeps),
        ("decoders::result", attack_results),
        ("decoders::module", attack_modules),
        (
            "command::hostile_traces_replay_to_a_code",
            hostile_traces_replay_to_a_code,
        ),
        (
            "command::damaged_programs_run_to_a_code",
            damaged_programs_run_to_a_code,
        ),
        ("command::bombs", bombs),
        ("command::sparse_files", sparse_files),
        ("command::endless_matrices", endless_matrices),
        ("command::impossible_parts", impossible_parts),
    ];
    let trials = trials.into_iter().map(|(name, body)| {
        let tracefork = tracefork.clone();
        Trial::test(name, move || {
            body(&tracefork).map_err(|error| Failed::from(format!("{error:#}")))
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn seed() -> u64 {
    test_seeds::seed_or(1)
}

fn cases(usual: u64) -> u64 {
    let times = std::env::var("TRACEFORK_HOSTILE_CASES");
    usual * times.map_or(1, |text| text.parse().expect("a number in the environment"))
}

/// A trace of a program with threads and one of a program with a server; the latter's cache is in it.
fn real_traces(tracefork: &Tracefork) -> Result<Vec<Vec<u8>>> {
    let scratch = Scratch::new()?;
    let guest = guests::one("run/cond_broadcast.c")?;
    let invocation = Invocation {
        program: guest.build()?,
        args: Vec::new(),
        stdin: Vec::new(),
    };
    let schedule = Schedule {
        preempt: Preempt::Sync,
        seed: 5,
    };
    tracefork.record(&invocation, schedule, &scratch)?;
    let session = Session::new()?.peer(Peer::Lines("echo"))?;
    let client = guests::one("net/alphabet_client.c")?.build()?;
    let networked = scratch.beside("networked");
    let mut command = tracefork.command(&scratch.work());
    command
        .arg("run")
        .args(&session.options)
        .arg("--trace")
        .arg(&networked);
    command.arg("--").arg(client).arg(session.port.to_string());
    let finished = process::run(command, PATIENCE)?;
    ensure!(
        networked.exists(),
        "{:?}: {}",
        finished.end,
        String::from_utf8_lossy(&finished.stderr)
    );
    Ok(vec![fs::read(scratch.beside("trace"))?, fs::read(networked)?])
}

fn attack_traces(tracefork: &Tracefork) -> Result<()> {
    let corpus = real_traces(tracefork)?
        .iter()
        .map(|file| pack::trace_content(file))
        .collect();
    let target = Target {
        name: "trace",
        corpus,
        pack: pack::trace,
        run: targets::trace,
    };
    target.attack(seed(), cases(9000))
}

fn attack_caches(tracefork: &Tracefork) -> Result<()> {
    let mut corpus = Vec::new();
    for file in real_traces(tracefork)? {
        let communication = format::decode(&file)?.communication;
        if !communication.is_empty() {
            corpus.push(pack::cache_content(&communication));
        }
    }
    ensure!(!corpus.is_empty(), "no trace has a cache in it");
    let target = Target {
        name: "cache",
        corpus,
        pack: pack::cache,
        run: targets::cache,
    };
    target.attack(seed(), cases(30_000))
}

const SWEEP: &str = r#"
setup = "true"
[parameters]
size = "3"
name = "n{size}"
[defaults]
preempt = "sync"
time-limit = "10s"
[profiles.quick]
skip = ["slow*"]
matrix = { threads = [1] }
[[scenario]]
name = "one"
program = "/bin/echo"
args = ["{name}", "{threads}"]
expect = ["ok"]
tags = ["slow"]
matrix = { threads = [1, 2], mode = [{ preempt = "sync", reduce = "none" }, { preempt = "memory", reduce = "sleep" }] }
exclude = [{ threads = 2, preempt = "memory" }]
[[scenario]]
name = "two"
program = "/bin/true"
timeout = "5m"
"#;

fn attack_sweeps(_: &Tracefork) -> Result<()> {
    let target = Target {
        name: "sweep",
        corpus: vec![SWEEP.into()],
        pack: <[u8]>::to_vec,
        run: targets::sweep,
    };
    target.attack(seed(), cases(3000))
}

fn attack_results(tracefork: &Tracefork) -> Result<()> {
    let scratch = Scratch::new()?;
    fs::write(scratch.work().join("sweep.toml"), SWEEP)?;
    let mut command = tracefork.command(&scratch.work());
    command.args(["sweep", "sweep.toml", "--only", "two", "--results", "results"]);
    process::run(command, PATIENCE)?;
    let results = scratch.work().join("results");
    let file = fs::read_dir(&results)
        .context("the results")?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "json"))
        .context("a result")?;
    let corpus = vec![fs::read(file)?];
    for (name, run) in [
        ("result", targets::result as fn(&[u8]) -> _),
        ("baseline", targets::baseline),
    ] {
        let target = Target {
            name,
            corpus: corpus.clone(),
            pack: <[u8]>::to_vec,
            run,
        };
        target.attack(seed(), cases(3000))?;
    }
    Ok(())
}

fn attack_modules(_: &Tracefork) -> Result<()> {
    // The same file wherever this is built: the attack is on its bytes.
    let anywhere = format!("-ffile-prefix-map={}=.", campaign::workspace().display());
    let small = fs::read(guests::one("run/cond_broadcast.c")?.build_with(&[&anywhere])?)?;
    let target = Target {
        name: "module",
        corpus: vec![small],
        pack: <[u8]>::to_vec,
        run: targets::module,
    };
    target.attack(seed(), cases(800))
}

/// Runs a command that must end with one of the documented codes, without a panic and within its memory; what it said.
fn ends_well(tracefork: &Tracefork, work: &Path, args: &[&str], codes: &[i32]) -> Result<String> {
    let mut limited = Command::new("prlimit");
    limited.arg(format!("--as={ADDRESS_SPACE}"));
    let plain = tracefork.command(work);
    limited.arg(plain.get_program()).args(plain.get_args()).args(args);
    limited.current_dir(work);
    let finished = process::run(limited, PATIENCE)?;
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    let is_fine = codes.iter().any(|code| finished.end == End::Exit(*code));
    ensure!(is_fine, "{args:?} ended with {:?}:\n{said}", finished.end);
    ensure!(
        !said.contains("panicked") && !said.contains("memory allocation"),
        "{args:?} said:\n{said}"
    );
    Ok(said)
}

/// All that `replay` may end with.
const CODES: [i32; 6] = [0, 1, 2, 4, 5, 6];

fn hostile_traces_replay_to_a_code(tracefork: &Tracefork) -> Result<()> {
    let scratch = Scratch::new()?;
    let traces = real_traces(tracefork)?;
    let mut mutator = Mutator::new(seed());
    for case in 0..cases(60) {
        let original = &traces[case as usize % traces.len()];
        let file = match case % 3 {
            0 => pack::trace(&mutator.changed(&pack::trace_content(original))),
            _ => format::encode(&changed(format::decode(original)?, &mut mutator))?,
        };
        let path = scratch.beside("hostile");
        fs::write(&path, file)?;
        ends_well(
            tracefork,
            &scratch.work(),
            &["replay", &path.display().to_string()],
            &CODES,
        )
        .with_context(|| format!("case {case} of seed {}", seed()))?;
    }
    Ok(())
}

/// A trace that claims something else; it can be decoded, and must be found out when it is executed.
fn changed(mut trace: Trace, mutator: &mut Mutator) -> Trace {
    let number = mutator.number();
    let at = mutator.below(trace.steps.len().max(1));
    match mutator.below(9) {
        0 => trace.steps[at].thread = number as u32,
        1 => trace.steps[at].alternative = number as u32,
        2 => trace.steps[at].at = number,
        3 => trace.steps.truncate(at),
        4 => trace.steps.swap(0, at),
        5 => {
            trace.steps[at].operation = Operation::Signal {
                number: number as i32,
            }
        }
        6 => trace.watched.instructions.extend([number, trace.steps[at].at]),
        7 => trace.communication = pack::cache(&mutator.changed(&trace.communication)),
        _ => {
            trace.config.cpus = 1 + number as u32 % 1024;
            trace.config.stdin = mutator.changed(b"some input");
        }
    }
    trace
}

/// Headers and tables of a program changed: the kernel may take it or not.
fn damaged_programs_run_to_a_code(tracefork: &Tracefork) -> Result<()> {
    let scratch = Scratch::new()?;
    let original = fs::read(guests::one("run/cond_broadcast.c")?.build()?)?;
    let mut mutator = Mutator::new(seed());
    for case in 0..cases(60) {
        let mut bytes = original.clone();
        // The headers at the beginning, or the section headers at the end.
        let from = if case % 2 == 0 { 0 } else { bytes.len() - 1024 };
        for _ in 0..4 {
            let at = from + mutator.below(1024);
            bytes[at] = mutator.number() as u8;
        }
        bytes[..20].copy_from_slice(&original[..20]);
        let path = scratch.beside("program");
        let _ = fs::remove_file(&path);
        fs::write(&path, &bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        let args = ["run", "--max-depth", "2000", "--", &path.display().to_string()];
        ends_well(tracefork, &scratch.work(), &args, &[0, 1, 3, 4])
            .with_context(|| format!("case {case}"))?;
    }
    Ok(())
}

/// A few bytes that unpack to gigabytes; and to gigabytes of tiny elements.
fn bombs(tracefork: &Tracefork) -> Result<()> {
    let scratch = Scratch::new()?;
    let zeros = zstd::encode_all(std::io::repeat(0).take(8 << 30), 1)?;
    let content = pack::trace_content(&real_traces(tracefork)?[0]);
    // Everything up to the steps, then steps without an end: five zero bytes are one.
    let whole = format::decode(&pack::trace(&content))?;
    let mut without = whole.clone();
    without.steps.clear();
    let empty = pack::trace_content(&format::encode(&without)?);
    let common = content.iter().zip(&empty).take_while(|(a, b)| a == b).count();
    let head = [&content[..common], &[0xff, 0xff, 0xff, 0x7f]].concat();
    let steps = zstd::encode_all(head.chain(std::io::repeat(0).take(200 << 20)), 1)?;
    for (name, file, reason) in [
        ("trace", pack::trace_of_body(&zeros), "unpacks to more than"),
        ("steps", pack::trace_of_body(&steps), "not a usable trace"),
        ("cache", pack::cache_of_body(&zeros), "unpacks to more than"),
    ] {
        ensure!(file.len() < 2 << 20, "{name} has {} bytes", file.len());
        let path = scratch.beside(name);
        fs::write(&path, &file)?;
        let path = path.display().to_string();
        let said = match name {
            "cache" => {
                let args = ["run", "--offline", "--cache-file", &path, "--", "/bin/true"];
                ends_well(tracefork, &scratch.work(), &args, &[5])?
            }
            _ => ends_well(tracefork, &scratch.work(), &["replay", &path], &[2])?,
        };
        ensure!(said.contains(reason), "{name}: {said}");
    }
    Ok(())
}

/// Files that claim eight gigabytes and hold nothing.
fn sparse_files(tracefork: &Tracefork) -> Result<()> {
    let scratch = Scratch::new()?;
    let sparse = |name: &str, head: &[u8]| -> Result<PathBuf> {
        let path = scratch.beside(name);
        fs::write(&path, head)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        File::options().write(true).open(&path)?.set_len(8 << 30)?;
        Ok(path)
    };
    let plain = sparse("plain", b"")?.display().to_string();
    let program = fs::read(guests::one("run/cond_broadcast.c")?.build()?)?;
    let program = sparse("program", &program)?.display().to_string();
    let commands: [(&[&str], i32); 7] = [
        (&["replay", &plain], 2),
        (&["show", &plain], 2),
        (&["sweep", &plain], 2),
        (&["merge", &plain], 2),
        (&["run", "--stdin", &plain, "--", "/bin/true"], 2),
        (&["run", "--cache-file", &plain, "--", "/bin/true"], 5),
        (&["run", "--", &program], 4),
    ];
    for (args, code) in commands {
        let said = ends_well(tracefork, &scratch.work(), args, &[code])?;
        ensure!(said.contains("larger than"), "{args:?} said:\n{said}");
    }
    Ok(())
}

fn endless_matrices(tracefork: &Tracefork) -> Result<()> {
    let scratch = Scratch::new()?;
    let values: Vec<String> = (0..60).map(|value| value.to_string()).collect();
    let axes: Vec<String> = (0..10)
        .map(|axis| format!("a{axis} = [{}]", values.join(",")))
        .collect();
    let names: Vec<String> = (0..10).map(|axis| format!("\"{{a{axis}}}\"")).collect();
    let matrix = format!(
        "[[scenario]]\nname = \"s\"\nprogram = \"/bin/echo\"\nargs = [{}]\nmatrix = {{ {} }}\n",
        names.join(","),
        axes.join(", ")
    );
    let doubled: Vec<String> = (1..60)
        .map(|n| format!("p{n} = \"{{p{}}}{{p{0}}}\"", n - 1))
        .collect();
    let doubling = format!(
        "[parameters]\np0 = \"xx\"\n{}\n[[scenario]]\nname = \"s\"\nprogram = \"{{p59}}\"\n",
        doubled.join("\n")
    );
    for (text, reason) in [
        (matrix, "more than 100000 scenarios"),
        (doubling, "over a megabyte"),
    ] {
        fs::write(scratch.work().join("sweep.toml"), text)?;
        let said = ends_well(tracefork, &scratch.work(), &["sweep", "sweep.toml"], &[2])?;
        ensure!(said.contains(reason), "{said}");
    }
    Ok(())
}

/// Parts of which there are more than there can be, or none.
fn impossible_parts(tracefork: &Tracefork) -> Result<()> {
    let scratch = Scratch::new()?;
    fs::write(scratch.work().join("sweep.toml"), SWEEP)?;
    let mut command = tracefork.command(&scratch.work());
    let partition = ["sweep", "sweep.toml", "--only", "two", "--partition", "slice:1/1"];
    command.args(partition).args(["--results", "results"]);
    process::run(command, PATIENCE)?;
    let result = scratch.work().join("results/results.json");
    let text = fs::read_to_string(&result).context("the result")?;
    for count in ["0", "18446744073709551615"] {
        let changed = text.replacen("\"count\": 1", &format!("\"count\": {count}"), 1);
        ensure!(changed != text, "the result has no partition: {text}");
        fs::write(&result, changed)?;
        let args = ["merge", "--allow-missing", "results"];
        let said = ends_well(tracefork, &scratch.work(), &args, &[2])?;
        ensure!(said.contains("there is no such part"), "{said}");
    }
    Ok(())
}
