//! The directives in the leading comment of a guest's source.
//!
//! ```text
//! // build: -static          further compiler flags; `musl` alone builds a static program with musl-gcc
//! // with: other.c           further source files, beside this one
//! // exit: 7                 it ends with this status (0 if neither this nor signal is given)
//! // signal: 6               it ends by this signal
//! // args: one "two words"   its arguments
//! // stdin: text\n           its standard input (\n and \\ are understood); empty if not given
//! // unordered               the order of its output lines depends on the schedule
//! // modes: sync             the preemption modes it is for (both if not given)
//! // options: --forbid ^x    further options for check
//! // expect: deadlock        check must find a violation of this kind; if not given, none
//! // min-preemptions: 1      the fewest preemptions that show the violation
//! // outcomes: "ab" "ba"     exactly these standard outputs are possible
//! // executions: 6           the exact number of schedules, with the visible operations known
//! ```

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};

/// Where a thread may be preempted; see `--preempt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preempt {
    Sync,
    Syscall,
}

impl Preempt {
    pub const BOTH: [Preempt; 2] = [Preempt::Sync, Preempt::Syscall];

    /// The option's value.
    pub fn name(self) -> &'static str {
        match self {
            Preempt::Sync => "sync",
            Preempt::Syscall => "syscall",
        }
    }
}

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exit(i32),
    Signal(i32),
}

/// What a guest's leading comment says.
#[derive(Clone, Debug)]
pub struct Directives {
    pub build: Vec<String>,
    pub with: Vec<String>,
    pub end: End,
    pub args: Vec<String>,
    pub stdin: Vec<u8>,
    pub unordered: bool,
    pub modes: Vec<Preempt>,
    pub options: Vec<String>,
    pub expect: Option<String>,
    pub min_preemptions: Option<u64>,
    pub outcomes: Option<BTreeSet<String>>,
    pub executions: Option<u64>,
}

impl Default for Directives {
    fn default() -> Self {
        Directives {
            build: Vec::new(),
            with: Vec::new(),
            end: End::Exit(0),
            args: Vec::new(),
            stdin: Vec::new(),
            unordered: false,
            modes: Preempt::BOTH.to_vec(),
            options: Vec::new(),
            expect: None,
            min_preemptions: None,
            outcomes: None,
            executions: None,
        }
    }
}

impl Directives {
    /// Reads the leading `//` (or `#`, for scripts) comment of `source`. A word and a colon that is no directive is an error, so
    /// that a misspelt one is not taken for prose.
    pub fn parse(source: &str) -> Result<Directives> {
        let mut all = Directives::default();
        let comment = source
            .lines()
            .map_while(|line| line.strip_prefix("//").or_else(|| line.strip_prefix('#')));
        for line in comment {
            let line = line.trim_start_matches('!').trim();
            if line == "unordered" {
                all.unordered = true;
                continue;
            }
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            // `std::thread` is prose.
            if !is_key(key) || value.starts_with(':') {
                continue;
            }
            all.set(key, value.trim())
                .with_context(|| format!("directive `{line}`"))?;
        }
        Ok(all)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "build" => self.build = split_words(value)?,
            "with" => self.with = split_words(value)?,
            "exit" => self.end = End::Exit(value.parse()?),
            "signal" => self.end = End::Signal(value.parse()?),
            "args" => self.args = split_words(value)?,
            "stdin" => self.stdin = unescape(value).into_bytes(),
            "modes" => self.modes = value.split_whitespace().map(parse_mode).collect::<Result<_>>()?,
            "options" => self.options = split_words(value)?,
            "expect" => self.expect = Some(parse_violation(value)?),
            "min-preemptions" => self.min_preemptions = Some(value.parse()?),
            "outcomes" => {
                self.outcomes = Some(split_words(value)?.iter().map(|word| unescape(word)).collect())
            }
            "executions" => self.executions = Some(value.parse()?),
            _ => bail!("no such directive"),
        }
        Ok(())
    }
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
}

fn parse_mode(word: &str) -> Result<Preempt> {
    Preempt::BOTH
        .into_iter()
        .find(|mode| mode.name() == word)
        .with_context(|| format!("no mode {word}"))
}

fn parse_violation(kind: &str) -> Result<String> {
    const KINDS: [&str; 8] = [
        "deadlock",
        "livelock",
        "crash",
        "assert",
        "exit",
        "output",
        "race",
        "use-after-free",
    ];
    if !KINDS.contains(&kind) {
        bail!("no kind of violation {kind}");
    }
    Ok(kind.to_owned())
}

fn unescape(text: &str) -> String {
    text.replace("\\\\", "\0")
        .replace("\\n", "\n")
        .replace('\0', "\\")
}

/// Splits as a shell does, with single and double quotes but no expansion.
fn split_words(text: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    for c in text.chars() {
        match (quote, c) {
            (Some(q), _) if c == q => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        bail!("a quote is not closed");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_leading_comment_only() {
        let d = Directives::parse(
            "// Prose: with a colon, and http://x\n// args: a \"b c\" ''\n// signal: 6\n// unordered\nint x;\n// exit: 3\n",
        )
        .expect("parses");
        assert_eq!(d.args, ["a", "b c", ""]);
        assert_eq!(d.end, End::Signal(6));
        assert!(d.unordered);
    }

    #[test]
    fn refuses_a_misspelt_directive() {
        assert!(Directives::parse("// exitt: 3\n").is_err());
        assert!(Directives::parse("// modes: sinc\n").is_err());
        assert!(Directives::parse("// args: \"open\n").is_err());
    }

    #[test]
    fn unescapes() {
        let d = Directives::parse("// stdin: a\\nb\\\\n\n// outcomes: \"x\\ny\" \"\"\n").expect("parses");
        assert_eq!(d.stdin, b"a\nb\\n");
        assert_eq!(
            d.outcomes.expect("given").into_iter().collect::<Vec<_>>(),
            ["", "x\ny"]
        );
    }
}
