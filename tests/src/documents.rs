//! The documentation as something that can be tried: which files it has a reader write, which commands it has them type, and what it
//! says that they will see.
//!
//! - `<!-- file: NAME -->` before a fenced block: the reader writes it to NAME.
//! - `<!-- tested -->` or `<!-- tested: needs PROGRAM=PACKAGE … -->` before a block of kind `console`: its lines that begin with `$ ` are
//!   typed, all of a document in one shell; the lines below are what is printed. A line `[…]` stands for any lines.
//! - `<!-- not tested: REASON -->` before any other block of kind `console`.
//! - `<!-- ports: NUMBER … -->`: ports that the page names, of five digits. When it is tried, free ones stand in for them, as others on the
//!   machine may be using these.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fs, iter};

use anyhow::{Context, Result, bail};

/// One page of the documentation.
pub struct Document {
    pub path: PathBuf,
    pub text: String,
    pub files: Vec<(String, String)>,
    pub sessions: Vec<Session>,
    /// Programs that the commands need, with the Debian packages that have them.
    pub needs: Vec<(String, String)>,
    pub ports: Vec<String>,
}

/// A block of commands with what they print.
pub struct Session {
    /// Where its content is in the text.
    pub place: Range<usize>,
    pub exchanges: Vec<Exchange>,
}

/// A command and what the document says that it prints.
pub struct Exchange {
    pub command: String,
    pub printed: Vec<String>,
}

/// The line that stands for any lines.
pub const ELISION: &str = "[…]";

/// The root of the project.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// All pages.
pub fn all() -> Result<Vec<Document>> {
    let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs"))?
        .flatten()
        .map(|entry| entry.path())
        .filter(is_page)
        .chain(iter::once(root().join("README.md")))
        .collect();
    pages.sort();
    pages.iter().map(|path| Document::read(path)).collect()
}

impl Document {
    pub fn read(path: &Path) -> Result<Document> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let mut document = Document {
            path: path.to_owned(),
            text: String::new(),
            files: Vec::new(),
            sessions: Vec::new(),
            needs: Vec::new(),
            ports: ports(&text),
        };
        for block in blocks(&text) {
            document
                .take(&text, block)
                .with_context(|| path.display().to_string())?;
        }
        document.text = text;
        Ok(document)
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        self.path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    fn take(&mut self, text: &str, block: Block) -> Result<()> {
        let content = &text[block.content.clone()];
        match (block.comment.split_once(':'), block.comment, block.kind) {
            (Some(("file", name)), _, _) => {
                self.files.push((name.trim().to_owned(), content.to_owned()));
            }
            (Some(("tested", needs)), _, "console") => {
                for need in needs.trim().trim_start_matches("needs").split_whitespace() {
                    let (program, package) = need.split_once('=').unwrap_or((need, need));
                    self.needs.push((program.to_owned(), package.to_owned()));
                }
                self.sessions.push(session(content, block.content)?);
            }
            (None, "tested", "console") => self.sessions.push(session(content, block.content)?),
            (Some(("not tested", _)), _, _) => {}
            (_, _, "console") => bail!("a console block that says neither tested nor not tested:\n{content}"),
            _ => {}
        }
        Ok(())
    }
}

fn ports(text: &str) -> Vec<String> {
    let comments = text.lines().filter_map(|line| line.strip_prefix("<!-- ports: "));
    let named = comments.flat_map(|rest| rest.trim_end_matches("-->").split_whitespace());
    named.map(str::to_owned).collect()
}

struct Block<'a> {
    /// The text of the HTML comment right before it.
    comment: &'a str,
    kind: &'a str,
    content: Range<usize>,
}

/// The fenced blocks of a page.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut open, mut comment, mut at) = (Vec::new(), None, "", 0);
    for line in text.split_inclusive('\n') {
        let (start, trimmed) = (at, line.trim_end());
        at += line.len();
        match (trimmed.strip_prefix("```"), open) {
            (Some(kind), None) => open = Some((kind, at)),
            (Some(_), Some((kind, from))) => {
                blocks.push(Block {
                    comment,
                    kind,
                    content: from..start,
                });
                (open, comment) = (None, "");
            }
            (None, Some(_)) => {}
            (None, None) => {
                let inner = trimmed
                    .strip_prefix("<!--")
                    .and_then(|rest| rest.strip_suffix("-->"));
                comment = inner.map_or("", str::trim);
            }
        }
    }
    blocks
}

fn session(content: &str, place: Range<usize>) -> Result<Session> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for line in content.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            exchanges.push(Exchange {
                command: command.to_owned(),
                printed: Vec::new(),
            });
        } else {
            let last = exchanges
                .last_mut()
                .context("a console block begins with a command")?;
            last.printed.push(line.to_owned());
        }
    }
    Ok(Session { place, exchanges })
}

/// Whether `actual` is what `expected` says, elisions allowed.
pub fn agrees(expected: &[String], actual: &[String]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((line, rest)) if line.trim() == ELISION => {
            (0..=actual.len()).any(|skipped| agrees(rest, &actual[skipped..]))
        }
        Some((line, rest)) => actual
            .split_first()
            .is_some_and(|(first, others)| first == line && agrees(rest, others)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn blocks_have_their_comment_kind_and_content() {
        let text = "a\n<!-- file: x.c -->\n```c\nint x;\n```\n\n```console\n$ ls\nx.c\n```\n";
        let found = blocks(text);
        assert_eq!((found[0].comment, found[0].kind), ("file: x.c", "c"));
        assert_eq!(&text[found[0].content.clone()], "int x;\n");
        assert_eq!((found[1].comment, found[1].kind), ("", "console"));
        let session = session(&text[found[1].content.clone()], found[1].content.clone()).expect("a session");
        assert_eq!(session.exchanges[0].command, "ls");
        assert_eq!(session.exchanges[0].printed, ["x.c"]);
    }

    #[test]
    fn an_elision_stands_for_any_lines() {
        assert!(agrees(&lines("a\n[…]\nd"), &lines("a\nb\nc\nd")));
        assert!(agrees(&lines("a\n[…]\nd"), &lines("a\nd")));
        assert!(agrees(&lines("[…]"), &[]));
        assert!(!agrees(&lines("a\n[…]\nd"), &lines("a\nb\nc")));
        assert!(!agrees(&lines("a"), &lines("a\nb")));
    }
}
