//! A recorded schedule replays to the same end and output; a trace that does not fit is a desync that names the step.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use trace::format;
use trace::{Operation, Trace};
use tracefork_tests::command_under_test;
use tracefork_tests::directives::{End, Preempt};
use tracefork_tests::guests::{self, Guest};
use tracefork_tests::observe::{Invocation, Scratch};
use tracefork_tests::process::{self, Finished};
use tracefork_tests::supervised::{Schedule, TIME_LIMIT, Tracefork};

const SEEDS: [u64; 2] = [1, 99];
type Body = fn(&Tracefork) -> Result<()>;
const DESYNC: End = End::Exit(6);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let mut trials = Vec::new();
    for guest in guests::all("run").expect("the guests can be read") {
        for mode in guest.directives.modes.clone() {
            let (guest, tracefork) = (guest.clone(), tracefork.clone());
            let name = format!("{}::{}", mode.name(), guest.name);
            trials.push(trial(name, move || replays(&guest, &tracefork, mode)));
        }
    }
    let others: [(&str, Body); 10] = [
        ("files_travel_with_the_trace", files_travel_with_the_trace),
        (
            "mapped_files_travel_with_the_trace",
            mapped_files_travel_with_the_trace,
        ),
        (
            "large_files_that_changed_are_named",
            large_files_that_changed_are_named,
        ),
        (
            "values_of_the_environment_are_masked",
            values_of_the_environment_are_masked,
        ),
        ("another_result_is_found", another_result_is_found),
        ("another_thread_is_found", another_thread_is_found),
        ("a_trace_cut_short_is_found", a_trace_cut_short_is_found),
        ("another_machine_is_named", another_machine_is_named),
        ("a_changed_program_is_found", a_changed_program_is_found),
        (
            "the_schedule_alone_can_be_reused",
            the_schedule_alone_can_be_reused,
        ),
    ];
    for (name, body) in others {
        let tracefork = tracefork.clone();
        trials.push(trial(format!("doctored::{name}"), move || body(&tracefork)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: String, body: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || {
        body().map_err(|error| Failed::from(format!("{error:#}")))
    })
}

/// A recorded run: where it ran, its trace, and what it printed.
struct Recorded {
    scratch: Scratch,
    trace: PathBuf,
    stdout: Vec<u8>,
}

impl Recorded {
    fn new(guest: &Guest, tracefork: &Tracefork, preempt: Preempt, seed: u64) -> Result<Recorded> {
        let scratch = Scratch::new()?;
        let invocation = Invocation {
            program: guest.build()?,
            args: guest.directives.args.clone(),
            stdin: guest.directives.stdin.clone(),
        };
        let finished = tracefork.record(&invocation, Schedule { preempt, seed }, &scratch)?;
        Ok(Recorded {
            trace: scratch.beside("trace"),
            scratch,
            stdout: finished.stdout,
        })
    }

    /// Of a guest with several threads and some calls that return something.
    fn of_some_guest(tracefork: &Tracefork) -> Result<Recorded> {
        Recorded::new(&guests::one("run/cond_broadcast.c")?, tracefork, Preempt::Sync, 5)
    }

    fn replay(&self, tracefork: &Tracefork, trace: &Path, options: &[&str]) -> Result<Finished> {
        let mut command = tracefork.command(&self.scratch.work());
        command.arg("replay").arg(trace).args(options);
        process::run(command, TIME_LIMIT)
    }

    /// The trace, changed.
    fn doctored(&self, change: impl FnOnce(&mut Trace) -> Result<()>) -> Result<PathBuf> {
        let mut trace = format::read(&self.trace)?;
        change(&mut trace)?;
        let path = self.scratch.beside("doctored");
        format::write(&path, &trace)?;
        Ok(path)
    }
}

fn replays(guest: &Guest, tracefork: &Tracefork, preempt: Preempt) -> Result<()> {
    for seed in SEEDS {
        let recorded = Recorded::new(guest, tracefork, preempt, seed)?;
        let replayed = recorded.replay(tracefork, &recorded.trace, &[])?;
        let said = || {
            format!(
                "with seed {seed} it said:\n{}",
                String::from_utf8_lossy(&replayed.stderr)
            )
        };
        let violated = matches!(guest.directives.end, End::Signal(_));
        ensure!(
            replayed.end == End::Exit(i32::from(violated)),
            "{:?}; {}",
            replayed.end,
            said()
        );
        ensure!(replayed.stdout == recorded.stdout, "other output; {}", said());
        ensure!(
            String::from_utf8_lossy(&replayed.stderr).contains("all as recorded"),
            "no word about the steps; {}",
            said()
        );
    }
    Ok(())
}

/// Replaying `trace` must end as a desync at `step`.
fn desync_at(recorded: &Recorded, tracefork: &Tracefork, trace: &Path, step: usize) -> Result<()> {
    let finished = recorded.replay(tracefork, trace, &[])?;
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    ensure!(finished.end == DESYNC, "{:?}: {said}", finished.end);
    for word in [
        &format!("desync at step {step}:"),
        "expected: ",
        "actual: ",
        "hint: ",
    ] {
        ensure!(said.contains(word), "no `{word}` in:\n{said}");
    }
    Ok(())
}

fn another_result_is_found(tracefork: &Tracefork) -> Result<()> {
    let recorded = Recorded::of_some_guest(tracefork)?;
    let mut changed = 0;
    let trace = recorded.doctored(|trace| {
        let steps = trace.steps.iter_mut().enumerate();
        let result = steps.rev().find_map(|(at, step)| match &mut step.operation {
            Operation::Call {
                result: Some(result), ..
            } => Some((at, result)),
            _ => None,
        });
        let (at, result) = result.context("no call returned anything")?;
        *result += 1;
        changed = at;
        Ok(())
    })?;
    desync_at(&recorded, tracefork, &trace, changed)
}

fn another_thread_is_found(tracefork: &Tracefork) -> Result<()> {
    let recorded = Recorded::of_some_guest(tracefork)?;
    let mut changed = 0;
    let trace = recorded.doctored(|trace| {
        changed = trace.steps.len() / 2;
        // No thread ever has this number.
        trace.steps[changed].thread = 77;
        Ok(())
    })?;
    desync_at(&recorded, tracefork, &trace, changed)
}

/// A trace of a different kind of machine replays if it can; if not, it is said what is different there.
fn another_machine_is_named(tracefork: &Tracefork) -> Result<()> {
    let recorded = Recorded::of_some_guest(tracefork)?;
    let elsewhere = |trace: &mut Trace| {
        trace.machine.vendor = "SomebodyElse".to_owned();
        trace.machine.features.insert("avx4096".to_owned());
    };
    let trace = recorded.doctored(|trace| {
        elsewhere(trace);
        Ok(())
    })?;
    let finished = recorded.replay(tracefork, &trace, &[])?;
    ensure!(finished.end == End::Exit(0), "{:?}", finished.end);
    let trace = recorded.doctored(|trace| {
        elsewhere(trace);
        trace.steps.last_mut().context("there are steps")?.thread = 77;
        Ok(())
    })?;
    let finished = recorded.replay(tracefork, &trace, &[])?;
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    ensure!(finished.end == DESYNC, "{:?}: {said}", finished.end);
    for word in [
        "a different kind of machine",
        "SomebodyElse",
        "only there: avx4096",
    ] {
        ensure!(said.contains(word), "no `{word}` in:\n{said}");
    }
    Ok(())
}

fn a_trace_cut_short_is_found(tracefork: &Tracefork) -> Result<()> {
    let recorded = Recorded::of_some_guest(tracefork)?;
    let mut left = 0;
    let trace = recorded.doctored(|trace| {
        trace.steps.pop().context("a trace has steps")?;
        left = trace.steps.len();
        Ok(())
    })?;
    desync_at(&recorded, tracefork, &trace, left)
}

fn a_changed_program_is_found(tracefork: &Tracefork) -> Result<()> {
    let recorded = Recorded::of_some_guest(tracefork)?;
    let other = guests::one("run/cond_broadcast.c")?.build_with(&["-DCHANGED"])?;
    let program = recorded.scratch.beside("other program");
    let mut bytes = fs::read(other)?;
    bytes.push(0);
    fs::write(&program, bytes)?;
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let named = program.to_str().context("a temporary path is text")?;
    let finished = recorded.replay(tracefork, &recorded.trace, &["--program", named])?;
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    ensure!(finished.end == DESYNC, "{:?}: {said}", finished.end);
    ensure!(
        said.contains("not the recorded program") && said.contains("hint: "),
        "{said}"
    );
    let allowed = recorded.replay(
        tracefork,
        &recorded.trace,
        &["--program", named, "--allow-changed-program"],
    )?;
    let said = String::from_utf8_lossy(&allowed.stderr).into_owned();
    ensure!(allowed.end == End::Exit(0), "{:?}: {said}", allowed.end);
    Ok(())
}

/// `run --schedule` takes the choices from a trace and records the same trace again.
fn the_schedule_alone_can_be_reused(tracefork: &Tracefork) -> Result<()> {
    let recorded = Recorded::of_some_guest(tracefork)?;
    let again = recorded.scratch.beside("again");
    let mut command = tracefork.command(&recorded.scratch.work());
    command
        .args(["run", "--quiet", "--schedule"])
        .arg(&recorded.trace);
    command.arg("--trace").arg(&again).arg("--");
    command.arg(guests::one("run/cond_broadcast.c")?.build()?);
    let finished = process::run(command, TIME_LIMIT)?;
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    ensure!(finished.end == End::Exit(0), "{:?}: {said}", finished.end);
    ensure!(finished.stdout == recorded.stdout, "other output: {said}");
    let (first, second) = (format::read(&recorded.trace)?, format::read(&again)?);
    ensure!(first.steps == second.steps, "other steps");
    Ok(())
}

/// What the program read goes with the trace: it replays where the files are others or gone, even those in its own directory.
fn files_travel_with_the_trace(tracefork: &Tracefork) -> Result<()> {
    let programs: [&[&str]; 3] = [
        &["find", ".", "-printf", "%p %s %T@ %i\\n"],
        &["sort", "--parallel=2", "one", "two"],
        &[
            "bash",
            "-c",
            "echo *; cd sub; read line < ../one; echo $line > made; echo *",
        ],
    ];
    for program in programs {
        let scratch = Scratch::new()?;
        let work = scratch.work();
        fs::create_dir(work.join("sub"))?;
        fs::write(work.join("one"), "c\na\n")?;
        fs::write(work.join("two"), "b\n")?;
        let mut command = tracefork.command(&work);
        command
            .args(["run", "--quiet", "--trace", "here.trace", "--"])
            .args(program);
        let first = process::run(command, TIME_LIMIT)?;
        ensure!(first.end == End::Exit(0), "{program:?}: {:?}", first.end);
        ensure!(!first.stdout.is_empty(), "{program:?} printed nothing");
        let replay = |directory: &Path, trace: &Path| -> Result<()> {
            let mut command = tracefork.command(directory);
            command.arg("replay").arg("--quiet").arg(trace);
            let again = process::run(command, TIME_LIMIT)?;
            let said = String::from_utf8_lossy(&again.stderr).into_owned();
            ensure!(again.end == first.end, "{program:?}: {:?}: {said}", again.end);
            ensure!(again.stdout == first.stdout, "{program:?}: other output");
            Ok(())
        };
        // The trace itself is a new file in the directory that the program listed.
        replay(&work, Path::new("here.trace"))?;
        let trace = scratch.beside("moved.trace");
        fs::rename(work.join("here.trace"), &trace)?;
        fs::write(work.join("one"), "other\n")?;
        replay(&work, &trace)?;
        fs::remove_dir_all(&work)?;
        replay(Path::new("/"), &trace)?;
    }
    Ok(())
}

/// A library of a program's own and a file that it maps, beside a recorded run that used both.
struct Surroundings {
    recorded: Recorded,
    library: PathBuf,
    data: PathBuf,
}

impl Surroundings {
    fn new(tracefork: &Tracefork, data: &[u8]) -> Result<Surroundings> {
        let scratch = Scratch::new()?;
        let (library, file) = (scratch.beside("libprivate.so"), scratch.beside("data"));
        build_library(&library, &[])?;
        fs::write(&file, data)?;
        let text = |path: &Path| path.to_str().map(str::to_owned).context("a path is text");
        let invocation = Invocation {
            program: guests::one("other/uses_library.c")?.build()?,
            args: vec![text(&library)?, text(&file)?],
            stdin: Vec::new(),
        };
        let schedule = Schedule {
            preempt: Preempt::Sync,
            seed: 3,
        };
        let finished = tracefork.record(&invocation, schedule, &scratch)?;
        let recorded = Recorded {
            trace: scratch.beside("trace"),
            scratch,
            stdout: finished.stdout,
        };
        ensure!(!recorded.stdout.is_empty(), "nothing was printed");
        Ok(Surroundings {
            recorded,
            library,
            data: file,
        })
    }

    fn replays_exactly(&self, tracefork: &Tracefork, when: &str) -> Result<()> {
        let replayed = self.recorded.replay(tracefork, &self.recorded.trace, &[])?;
        let said = String::from_utf8_lossy(&replayed.stderr).into_owned();
        ensure!(replayed.end == End::Exit(0), "{when}: {:?}: {said}", replayed.end);
        ensure!(said.contains("all as recorded"), "{when}: {said}");
        ensure!(
            replayed.stdout == self.recorded.stdout,
            "{when}: other output: {said}"
        );
        Ok(())
    }
}

fn build_library(to: &Path, flags: &[&str]) -> Result<()> {
    // Not in place: what is mapped elsewhere must stay as it is.
    let made = to.with_extension("new");
    let source = guests::directory().join("other/private_library.c");
    let mut compiler = std::process::Command::new("gcc");
    compiler.args(["-g", "-O1", "-shared", "-fPIC"]).args(flags);
    compiler.arg("-o").arg(&made).arg(source);
    let finished = process::run(compiler, TIME_LIMIT)?;
    ensure!(finished.end == End::Exit(0), "{finished:?}");
    fs::rename(&made, to)?;
    Ok(())
}

/// The same for what is mapped: libraries with their hooks, and data.
fn mapped_files_travel_with_the_trace(tracefork: &Tracefork) -> Result<()> {
    let surroundings = Surroundings::new(tracefork, b"abcdefghijklmnop")?;
    surroundings.replays_exactly(tracefork, "as it was")?;
    build_library(&surroundings.library, &["-DSECOND"])?;
    fs::write(&surroundings.data, "0123456789")?;
    surroundings.replays_exactly(tracefork, "changed")?;
    fs::remove_file(&surroundings.library)?;
    fs::remove_file(&surroundings.data)?;
    surroundings.replays_exactly(tracefork, "gone")
}

/// What is too large for the trace is found to be another before anything is replayed.
fn large_files_that_changed_are_named(tracefork: &Tracefork) -> Result<()> {
    let surroundings = Surroundings::new(tracefork, &[b'x'; 200_000])?;
    surroundings.replays_exactly(tracefork, "as it was")?;
    fs::write(&surroundings.data, [b'y'; 200_000])?;
    let recorded = &surroundings.recorded;
    let finished = recorded.replay(tracefork, &recorded.trace, &[])?;
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    let named = surroundings.data.display().to_string();
    ensure!(finished.end == DESYNC, "{:?}: {said}", finished.end);
    ensure!(
        said.contains("changed since the recording") && said.contains(&named),
        "{said}"
    );
    let allowed = recorded.replay(tracefork, &recorded.trace, &["--allow-changed-files"])?;
    ensure!(allowed.stdout != recorded.stdout, "it saw the recorded file");
    Ok(())
}

/// What the program has no use for is not in its traces; what it reads is, by whatever means it reads it.
fn values_of_the_environment_are_masked(tracefork: &Tracefork) -> Result<()> {
    const SECRETS: [(&str, &str); 3] = [
        ("API_TOKEN", "tok-12345"),
        ("PRINTED", "what is printed"),
        ("DECIDES", "7"),
    ];
    let program = guests::one("other/reads_environment.c")?.build()?;
    let scratch = Scratch::new()?;
    let work = scratch.work();
    let kept = |trace: &Path, name: &str| -> Result<Vec<u8>> {
        let trace = format::read(trace)?;
        let mut env = trace.program.env.into_iter();
        let found = env.find(|(known, _)| known == name.as_bytes());
        Ok(found.context("the variable itself stays")?.1)
    };
    for (command, options) in [("run", vec![]), ("check", vec![]), ("run", vec!["--keep-env"])] {
        let mut call = tracefork.command(&work);
        call.arg(command).args(&options);
        let directory = scratch.beside(&format!("{command}{}", options.len()));
        fs::create_dir(&directory)?;
        match command {
            "run" => call.arg("--trace").arg(directory.join("1.trace")),
            _ => call.arg("--trace-dir").arg(&directory),
        };
        for (name, value) in SECRETS {
            call.arg("--env").arg(format!("{name}={value}"));
        }
        let finished = process::run(
            {
                call.arg("--").arg(&program);
                call
            },
            TIME_LIMIT,
        )?;
        let said = String::from_utf8_lossy(&[finished.stdout, finished.stderr].concat()).into_owned();
        let made = fs::read_dir(&directory)?.next().context(said.clone())??.path();
        let token = kept(&made, "API_TOKEN")?;
        if options.is_empty() {
            ensure!(
                token == b"xxxxxxxxx",
                "{command}: {}",
                String::from_utf8_lossy(&token)
            );
            let raw = zstd_content(&made)?;
            ensure!(
                !contains(&raw, b"tok-12345"),
                "{command}: it is elsewhere in the trace"
            );
            ensure!(
                said.contains("needs to replay: PRINTED, DECIDES"),
                "{command}: {said}"
            );
        } else {
            ensure!(token == b"tok-12345", "{}", String::from_utf8_lossy(&token));
        }
        ensure!(kept(&made, "PRINTED")? == b"what is printed", "{said}");
        ensure!(kept(&made, "DECIDES")? == b"7", "{said}");
        let mut replay = tracefork.command(&work);
        replay.arg("replay").arg(&made);
        let replayed = process::run(replay, TIME_LIMIT)?;
        let said = String::from_utf8_lossy(&replayed.stderr).into_owned();
        ensure!(said.contains("all as recorded"), "{command}: {said}");
        ensure!(
            contains(&replayed.stdout, b"what is printed"),
            "{command}: {said}"
        );
    }
    Ok(())
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// All that a trace holds, unpacked.
fn zstd_content(trace: &Path) -> Result<Vec<u8>> {
    let file = fs::read(trace)?;
    let magic = 0xfd2f_b528_u32.to_le_bytes();
    let start = file
        .windows(4)
        .position(|window| window == magic)
        .context("it is packed")?;
    let mut content = Vec::new();
    // Something may follow that is no part of it.
    let _ = std::io::Read::read_to_end(&mut zstd::Decoder::new(&file[start..])?, &mut content);
    ensure!(contains(&content, b"PRINTED"), "not what was looked for");
    Ok(content)
}
