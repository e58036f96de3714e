//! Real programs, natively and supervised under ten seeds (three for those beyond the promised list) in both preemption
//! modes: the same output, end and written files.
//! Inputs are small, but large enough that four threads have work.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use tracefork_tests::directives::{End, Preempt};
use tracefork_tests::observe::{self, Invocation, Scratch};
use tracefork_tests::supervised::{Schedule, Tracefork};
use tracefork_tests::{command_under_test, guests, packages};

const SEEDS: u64 = 10;
/// For the programs beyond those that are promised by name.
const FEWER_SEEDS: u64 = 3;

/// Where the program comes from.
#[derive(Clone, Copy)]
enum Source {
    /// A command and the Debian package that has it.
    Debian(&'static str, &'static str),
    /// A source under `tests/guests`.
    Guest(&'static str),
}

#[derive(Clone, Copy)]
struct Real {
    name: &'static str,
    source: Source,
    args: &'static [&'static str],
    /// A file of `tests/guests/real` for standard input.
    stdin: Option<&'static str>,
    /// Puts the input files into the working directory.
    prepare: fn(&Path) -> Result<()>,
    seeds: u64,
}

const fn real(name: &'static str, source: Source, args: &'static [&'static str]) -> Real {
    Real {
        name,
        source,
        args,
        stdin: None,
        prepare: nothing,
        seeds: SEEDS,
    }
}

/// One more, that works on `input` or on nothing.
const fn further(
    name: &'static str,
    package: &'static str,
    prepare: fn(&Path) -> Result<()>,
    args: &'static [&'static str],
) -> Real {
    Real {
        prepare,
        seeds: FEWER_SEEDS,
        ..real(name, Debian(name, package), args)
    }
}

use Source::{Debian, Guest};

fn programs() -> Vec<Real> {
    vec![
        Real {
            prepare: text_512k,
            ..real(
                "xz",
                Debian("xz", "xz-utils"),
                &["-T4", "-1", "--block-size=65536", "-k", "input"],
            )
        },
        Real {
            prepare: compressed_xz,
            ..real(
                "xz-decompress",
                Debian("xz", "xz-utils"),
                &["-T4", "-d", "-k", "input.xz"],
            )
        },
        Real {
            prepare: text_512k,
            ..real(
                "pigz",
                Debian("pigz", "pigz"),
                &["-p", "4", "-b", "128", "-n", "-k", "input"],
            )
        },
        Real {
            prepare: text_2m,
            ..real(
                "zstd",
                Debian("zstd", "zstd"),
                &["-T4", "-1", "-q", "-B524288", "input"],
            )
        },
        Real {
            prepare: text_512k,
            ..real(
                "pbzip2",
                Debian("pbzip2", "pbzip2"),
                &["-p4", "-b1", "-1", "-k", "-q", "input"],
            )
        },
        Real {
            prepare: many_lines,
            ..real(
                "sort",
                Debian("sort", "coreutils"),
                &["--parallel=4", "-S", "64M", "-o", "sorted", "input"],
            )
        },
        Real {
            stdin: Some("script.sql"),
            ..real("sqlite3", Debian("sqlite3", "sqlite3"), &["-batch", "test.db"])
        },
        Real {
            prepare: python_script,
            ..real("python3", Debian("python3", "python3"), &["-B", "threads.py"])
        },
        real("bash", Debian("bash", "bash"), &["--norc", "-c", BASH_SCRIPT]),
        Real {
            prepare: tree,
            ..real("tar-create", Debian("tar", "tar"), TAR_CREATE)
        },
        Real {
            prepare: archive,
            ..real("tar-extract", Debian("tar", "tar"), &["-xf", "archive.tar"])
        },
        Real {
            prepare: text_512k,
            ..real(
                "openssl",
                Debian("openssl", "openssl"),
                &["dgst", "-sha256", "input"],
            )
        },
        real("rust", Guest("real/scoped_mpsc.rs"), &[]),
        real("cpp", Guest("real/async_cv.cc"), &[]),
        real("musl", Guest("run/musl_threads.c"), &[]),
        real("go", Guest("real/channels.go"), &[]),
    ]
}

/// Programs that nobody had in mind when the model was written: other languages, other ways to use threads, other calls.
fn further_programs() -> Vec<Real> {
    vec![
        further("lbzip2", "lbzip2", text_512k, &["-n4", "-c", "input"]),
        further("plzip", "plzip", text_512k, &["-n4", "-1", "-c", "input"]),
        further("pixz", "pixz", text_512k, &["-p4", "-1", "-t", "input", "output"]),
        further("lz4", "lz4", text_512k, &["-q", "-c", "input"]),
        further("rg", "ripgrep", tree, &["-j4", "-c", "checkpoint", "tree/file"]),
        further("fdfind", "fd-find", tree, &["-j4", "script", "tree"]),
        further("b3sum", "b3sum", text_512k, &["input"]),
        further("jq", "jq", nothing, &["-n", "[range(1000)] | map(. * .) | add"]),
        further("perl", "perl", nothing, &["-Mthreads", "-e", PERL_SCRIPT]),
        further("ruby", "ruby", nothing, &["--disable=gems", "-e", RUBY_SCRIPT]),
        further(
            "lua5.4",
            "lua5.4",
            nothing,
            &["-e", "for i = 1, 9 do print(i * i) end"],
        ),
        further(
            "gawk",
            "gawk",
            text_512k,
            &["{ n += NF } END { print NR, n }", "input"],
        ),
        further("grep", "grep", tree, &["-r", "-c", "hello", "tree/deep"]),
        further("find", "findutils", tree, &["tree", "-type", "f", "-size", "+1k"]),
        further("git", "git", text_512k, &["hash-object", "input"]),
        further("busybox", "busybox", text_512k, &["sha256sum", "input"]),
        further(
            "zsh",
            "zsh",
            nothing,
            &[
                "-f",
                "-c",
                "print ${(j:,:)${(o)=:-c a b}} > made; print $((2 ** 10))",
            ],
        ),
        further(
            "dash",
            "dash",
            nothing,
            &["-c", "i=0; while [ $i -lt 99 ]; do i=$((i + 1)); done; echo $i"],
        ),
        further(
            "dd",
            "coreutils",
            text_512k,
            &["if=input", "of=copy", "bs=1k", "skip=3", "status=none"],
        ),
        further("od", "coreutils", tree, &["-c", "tree/deep/er/script"]),
        further("split", "coreutils", text_512k, &["-n", "7", "input", "part-"]),
        further("cpio", "cpio", archive, &["-it", "-F", "archive.tar"]),
        further("make", "make", makefile, &["-n", "all"]),
        further("file", "file", tree, &["tree/deep/er/script"]),
        further(
            "vim.tiny",
            "vim-tiny",
            text_512k,
            &[
                "-es",
                "-u",
                "NONE",
                "-c",
                "%s/lock/LOCK/g",
                "-c",
                "w! out",
                "-c",
                "q!",
                "input",
            ],
        ),
    ]
}

/// Programs of several processes.
fn family_programs() -> Vec<Real> {
    let one = |name, command, package, prepare, args| Real {
        name,
        ..further(command, package, prepare, args)
    };
    vec![
        one("bash-jobs", "bash", "bash", nothing, &["--norc", "-c", BASH_JOBS]),
        one("make-j2", "make", "make", silent_makefile, &["-j2", "all"]),
        one(
            "xargs-P2",
            "bash",
            "bash",
            nothing,
            &["--norc", "-c", XARGS_SCRIPT],
        ),
        one(
            "python3-pool",
            "python3",
            "python3",
            nothing,
            &["-B", "-c", PYTHON_POOL],
        ),
        one(
            "python3-subprocess",
            "python3",
            "python3",
            nothing,
            &["-B", "-c", PYTHON_SUBPROCESS],
        ),
        one("perl-fork", "perl", "perl", nothing, &["-e", PERL_FORK]),
        one(
            "git-clone",
            "bash",
            "bash",
            repository,
            &["--norc", "-c", GIT_CLONE],
        ),
    ]
}

const BASH_JOBS: &str = r#"
seq 1 20 | grep 1 | sort -r | head -n 3
x=$(echo one; echo two); echo "$x"
(exit 3); echo "status $?"
for i in 1 2 3; do (sleep 0.$i; echo "job $i") & done
wait
sleep 100 & kill %1; wait $!; echo "killed $?"
exec 3< <(echo substituted); read -r line <&3; echo "$line"
"#;

const XARGS_SCRIPT: &str = r#"printf '%s\n' 1 2 3 4 | xargs -P2 -n1 sh -c 'echo "$0" > "made$0"'; cat made*"#;

/// What it configures has the path of the original, which differs from run to run.
const GIT_CLONE: &str = "git clone -q --bare source copy && rm copy/config && ls -A copy";

const PYTHON_POOL: &str = "import multiprocessing as m\n\
     def square(x): return x * x\n\
     if __name__ == '__main__':\n  with m.get_context('fork').Pool(2) as pool: print(pool.map(square, range(8)))\n";

const PYTHON_SUBPROCESS: &str = "import subprocess; r = subprocess.run(['sh', '-c', 'cat; exit 3'], input=b'hello', capture_output=True); print(r.stdout, r.returncode)";

const PERL_FORK: &str = r#"open(my $f, "-|", "echo hi; exit 2"); print <$f>; close $f; print $? >> 8, "\n"; if (my $k = fork) { waitpid $k, 0; print $? >> 8, "\n" } else { exit 5 }"#;

const PERL_SCRIPT: &str = r#"my @t = map { my $n = $_; threads->create(sub { $n * $n }) } 1..4; print join(",", map { $_->join } @t), "\n""#;

const RUBY_SCRIPT: &str = "q = Queue.new; t = (1..4).map { |i| Thread.new { 50.times { |j| q << i * j } } }; \
     t.each(&:join); s = 0; s += q.pop until q.empty?; puts s";

const BASH_SCRIPT: &str = r#"
total=0
for i in {1..200}; do ((total += i * i)); done
echo "total $total"
declare -A ages=([ann]=31 [bob]=42)
for name in ann bob; do printf '%-5s|%03d\n' "$name" "${ages[$name]}"; done
printf '%s\n' one two three > lines
while IFS= read -r line; do echo "read: ${line^^}"; done < lines
mapfile -t all < lines
echo "${#all[@]} lines, last ${all[-1]}"
trap 'echo "trapped USR1"' USR1
kill -USR1 $$
[[ "abc123" =~ ^([a-z]+)([0-9]+)$ ]] && echo "${BASH_REMATCH[2]}"
f() { local x=$1; ((x <= 1)) && { REPLY=1; return; }; f $((x - 1)); ((REPLY *= x)); }
f 10; echo "10! = $REPLY"
exit 5
"#;

const TAR_CREATE: &[&str] = &[
    "--sort=name",
    "--mtime=@0",
    "--owner=0",
    "--group=0",
    "--numeric-owner",
    "-cf",
    "archive.tar",
    "tree",
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    let all = programs().into_iter().chain(further_programs());
    for program in all.chain(family_programs()) {
        trials.push(trial(format!("native::{}", program.name), move || {
            natively_twice(&program)
        }));
        for mode in Preempt::BOTH {
            let tracefork = Tracefork::new(command_under_test!());
            let name = format!("{}::{}", mode.name(), program.name);
            trials.push(trial(name, move || supervised(&program, &tracefork, mode)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: String, body: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || {
        body().map_err(|error| Failed::from(format!("{error:#}")))
    })
}

impl Real {
    fn invocation(&self) -> Result<Invocation> {
        let program = match self.source {
            Debian(command, package) => packages::command(command, package)?,
            Guest(path) => guests::one(path)?.build()?,
        };
        let stdin = match self.stdin {
            Some(file) => fs::read(guests::directory().join("real").join(file))?,
            None => Vec::new(),
        };
        Ok(Invocation {
            program,
            args: self.args.iter().map(|arg| arg.to_string()).collect(),
            stdin,
        })
    }

    fn scratch(&self) -> Result<Scratch> {
        let scratch = Scratch::new()?;
        (self.prepare)(&scratch.work()).context("preparing the input")?;
        Ok(scratch)
    }
}

/// The native run must be the same each time, or it could not be the judge.
fn natively_twice(program: &Real) -> Result<()> {
    let invocation = program.invocation()?;
    let first = observe::native(&invocation, &program.scratch()?)?;
    let expected = End::Exit(if program.name == "bash" { 5 } else { 0 });
    ensure!(
        first.end == expected,
        "{:?}: {}",
        first.end,
        String::from_utf8_lossy(&first.stderr)
    );
    let input_files = observe::files_under(&program.scratch()?.work())?;
    ensure!(
        !first.stdout.is_empty() || first.files.len() > input_files.len(),
        "it did nothing"
    );
    match observe::native(&invocation, &program.scratch()?)?.difference_from(&first) {
        Some(difference) => bail!("two native runs differ:\n{difference}"),
        None => Ok(()),
    }
}

fn supervised(program: &Real, tracefork: &Tracefork, preempt: Preempt) -> Result<()> {
    let invocation = program.invocation()?;
    let expected = observe::native(&invocation, &program.scratch()?)?;
    for seed in 0..program.seeds {
        let scratch = program.scratch()?;
        let observed = tracefork
            .run(&invocation, Schedule { preempt, seed }, &scratch)
            .with_context(|| format!("with seed {seed}"))?;
        if let Some(difference) = observed.difference_from(&expected) {
            bail!("with seed {seed} the supervised run differs from the native one:\n{difference}");
        }
    }
    Ok(())
}

fn nothing(_: &Path) -> Result<()> {
    Ok(())
}

/// Text that compresses neither to nothing nor not at all, the same every time.
fn text(length: usize) -> Vec<u8> {
    const WORDS: [&str; 8] = [
        "schedule",
        "thread",
        "lock",
        "wait",
        "checkpoint",
        "explore",
        "the",
        "every",
    ];
    let (mut text, mut state) = (Vec::with_capacity(length + 16), 1u64);
    while text.len() < length {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let word = WORDS[usize::try_from(state >> 61).unwrap_or_default()];
        text.extend_from_slice(word.as_bytes());
        text.push(if state >> 32 & 7 == 0 { b'\n' } else { b' ' });
        if state >> 40 & 15 == 0 {
            text.extend_from_slice(format!("{}", state >> 20).as_bytes());
        }
    }
    text.truncate(length);
    text
}

fn text_512k(work: &Path) -> Result<()> {
    Ok(fs::write(work.join("input"), text(512 << 10))?)
}

fn text_2m(work: &Path) -> Result<()> {
    Ok(fs::write(work.join("input"), text(2 << 20))?)
}

/// `sort` starts threads from some hundred thousand lines on.
fn many_lines(work: &Path) -> Result<()> {
    let lines: String = (0u64..300_000)
        .map(|i| format!("{}\n", i * 7_919 % 300_007))
        .collect();
    Ok(fs::write(work.join("input"), lines)?)
}

fn compressed_xz(work: &Path) -> Result<()> {
    text_512k(work)?;
    native_tool(
        work,
        packages::command("xz", "xz-utils")?,
        &["-1", "--block-size=65536", "input"],
    )
}

fn python_script(work: &Path) -> Result<()> {
    fs::copy(
        guests::directory().join("real/threads.py"),
        work.join("threads.py"),
    )?;
    Ok(())
}

fn tree(work: &Path) -> Result<()> {
    let tree = work.join("tree");
    fs::create_dir_all(tree.join("deep/er"))?;
    fs::write(tree.join("file"), text(30_000))?;
    fs::write(tree.join("deep/er/script"), "#!/bin/sh\necho hello\n")?;
    fs::set_permissions(tree.join("deep/er/script"), fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(tree.join("file"), fs::Permissions::from_mode(0o640))?;
    symlink("../file", tree.join("deep/link"))?;
    fs::hard_link(tree.join("file"), tree.join("same"))?;
    fs::write(tree.join("empty"), "")?;
    Ok(())
}

fn makefile(work: &Path) -> Result<()> {
    let rules = "all: a b\na: b\n\techo making $@ from $<\nb:\n\techo making $@\n";
    Ok(fs::write(work.join("Makefile"), rules)?)
}

fn silent_makefile(work: &Path) -> Result<()> {
    let rules = ".SILENT:\nall: c\na b:\n\tsleep 0.1; echo made $@ > $@\nc: a b\n\tcat a b | tee c\n";
    Ok(fs::write(work.join("Makefile"), rules)?)
}

/// Commits have fixed dates, so that their names are the same each time.
fn repository(work: &Path) -> Result<()> {
    let git = packages::command("git", "git")?;
    native_tool(work, git.clone(), &["init", "-q", "source"])?;
    fs::write(work.join("source/file"), text(3000))?;
    native_tool(work, git.clone(), &["-C", "source", "add", "file"])?;
    let user = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"];
    let commit = [
        "-C",
        "source",
        "commit",
        "-q",
        "-m",
        "first",
        "--date=2020-01-01T00:00:00Z",
    ];
    let status = observe::clean_command(&git, work)
        .env("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z")
        .args(user)
        .args(commit)
        .status()?;
    ensure!(status.success(), "git commit failed: {status}");
    // What it keeps there tells the time.
    fs::remove_file(work.join("source/.git/index"))?;
    fs::remove_dir_all(work.join("source/.git/logs"))?;
    Ok(())
}

fn archive(work: &Path) -> Result<()> {
    tree(work)?;
    native_tool(work, packages::command("tar", "tar")?, TAR_CREATE)?;
    Ok(fs::remove_dir_all(work.join("tree"))?)
}

fn native_tool(work: &Path, tool: PathBuf, args: &[&str]) -> Result<()> {
    let status = observe::clean_command(&tool, work).args(args).status()?;
    ensure!(status.success(), "{} failed: {status}", tool.display());
    Ok(())
}
