//! The text of a sweep file as a tree in which every key and value knows where it stands, so that each complaint can point at it.

use failure::Failure;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// A file's text, for turning offsets into lines and columns.
#[derive(Clone, Debug)]
pub struct Source {
    pub path: PathBuf,
    text: String,
}

/// A place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

/// A value and where it begins.
#[derive(Clone, Debug)]
pub struct Node {
    pub at: usize,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub at: usize,
    pub text: String,
}

#[derive(Clone, Debug)]
pub enum Value {
    Text(String),
    /// As written, sign and all, but for underscores and the base.
    Number(String),
    Flag(bool),
    List(Vec<Node>),
    /// In the order of the file.
    Table(Vec<(Key, Node)>),
}

/// Of a sweep file.
const LARGEST: u64 = 4 << 20;

impl Source {
    /// # Errors
    /// The file cannot be read, or is not UTF-8.
    pub fn read(path: &Path) -> Result<Source, Failure> {
        let text = peers::read_text_bounded(path, LARGEST)
            .map_err(|e| Failure::usage(format!("cannot read {}: {e}", path.display())))?;
        Ok(Source::new(path, text))
    }

    pub fn new(path: &Path, text: String) -> Source {
        let path = path.to_owned();
        Source { path, text }
    }

    /// Tells this text from others.
    pub fn digest(&self) -> String {
        blake3::hash(self.text.as_bytes()).to_hex()[..32].to_owned()
    }

    /// The table at the top.
    ///
    /// # Errors
    /// It is not TOML.
    pub fn parse(&self) -> Result<Node, Failure> {
        let table = DeTable::parse(&self.text).map_err(|error| {
            // The rest of its text draws the line, which an address makes unnecessary.
            let at = error.span().map_or(0, |span| span.start);
            self.wrong(at, error.message().lines().next().unwrap_or("not TOML"))
        })?;
        Ok(Node {
            at: 0,
            value: table_of(table.get_ref()),
        })
    }

    /// Columns count characters, as editors do.
    pub fn place(&self, at: usize) -> Place {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Place {
            line: count(before.matches('\n').count() + 1),
            column: count(before[line_start..].chars().count() + 1),
        }
    }

    /// A complaint about what stands at an offset.
    pub fn wrong(&self, at: usize, message: impl std::fmt::Display) -> Failure {
        let Place { line, column } = self.place(at);
        Failure::usage(format!("{}:{line}:{column}: {message}", self.path.display()))
    }

    /// A complaint about a word that is none of those known.
    pub fn unknown<'a>(
        &self,
        at: usize,
        what: &str,
        word: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Failure {
        let mut known: Vec<&str> = known.into_iter().collect();
        known.sort_unstable();
        known.dedup();
        match nearest(word, &known) {
            Some(meant) => self.wrong(at, format!("unknown {what} `{word}`, did you mean `{meant}`?")),
            None => self
                .wrong(at, format!("unknown {what} `{word}`"))
                .hint(format!("known: {}", known.join(", "))),
        }
    }
}

/// The known word that a misspelt one was probably meant to be.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    const LIKELY: f64 = 0.8;
    let similar = |candidate: &&str| strsim::jaro_winkler(word, candidate);
    let best = known
        .iter()
        .copied()
        .max_by(|a, b| similar(a).total_cmp(&similar(b)))?;
    (similar(&best) >= LIKELY).then_some(best)
}

fn node(value: &toml::Spanned<DeValue<'_>>) -> Node {
    let inner = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => Value::Number(
            i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| number.as_str().to_owned(), |n| n.to_string()),
        ),
        DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(date) => Value::Text(date.to_string()),
        DeValue::Array(list) => Value::List(list.iter().map(node).collect()),
        DeValue::Table(table) => table_of(table),
    };
    Node {
        at: value.span().start,
        value: inner,
    }
}

fn table_of(table: &DeTable<'_>) -> Value {
    let mut entries: Vec<(Key, Node)> = table
        .iter()
        .map(|(key, value)| {
            let key = Key {
                at: key.span().start,
                text: key.get_ref().to_string(),
            };
            (key, node(value))
        })
        .collect();
    entries.sort_by_key(|(key, _)| key.at);
    Value::Table(entries)
}

impl Value {
    /// What kind of value it is, for complaints.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "text",
            Value::Number(_) => "a number",
            Value::Flag(_) => "true or false",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// A single value as it would be written on a command line.
    pub fn scalar(&self) -> Option<String> {
        match self {
            Value::Text(text) | Value::Number(text) => Some(text.clone()),
            Value::Flag(flag) => Some(flag.to_string()),
            Value::List(_) | Value::Table(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new(Path::new("s.toml"), text.to_owned())
    }

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let source = source("a = 1\n\"ü\" = 2\n");
        let Value::Table(entries) = source.parse().expect("toml").value else {
            panic!("a table")
        };
        let places: Vec<Place> = entries.iter().map(|(_, node)| source.place(node.at)).collect();
        assert_eq!(
            places,
            [Place { line: 1, column: 5 }, Place { line: 2, column: 7 }]
        );
    }

    #[test]
    fn what_is_not_toml_is_refused_where_it_stops_being_it() {
        let failure = source("a = 1\nb = = 2\n").parse().expect_err("is refused");
        assert!(failure.reason.starts_with("s.toml:2:5: "), "{failure}");
    }

    #[test]
    fn a_misspelt_word_is_recognised_and_a_strange_one_is_not() {
        assert_eq!(nearest("prorgam", &["program", "preempt"]), Some("program"));
        assert_eq!(nearest("zebra", &["program", "preempt"]), None);
    }
}
