//! What a scenario can set. Beside the few keys of the sweep itself these are the options of `tracefork check`, as the command line hands
//! them in, which also judges their values: a new option of `check` is a setting at once, and both always agree.

use super::source::{Node, Source, Value};
use failure::Failure;

/// Options of `check` that the sweep uses itself, or that make no sense for one scenario among many.
const NOT_SETTINGS: [&str; 7] = [
    "json",
    "trace-dir",
    "progress",
    "help",
    "version",
    "graph",
    "tree",
];

/// How a setting is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Flag,
    One,
    /// A list, or a single value.
    Many,
}

#[derive(Clone, Debug)]
pub struct Setting {
    pub name: String,
    pub form: Form,
}

/// Why `check` does not take options.
#[derive(Clone, Debug)]
pub struct Complaint {
    /// What it says.
    pub text: String,
    /// It is the value of an option that is wrong, whatever the others are.
    pub about_value: bool,
}

/// What `check` thinks of these options.
pub type Judge = fn(&[String]) -> Result<(), Complaint>;

/// All settings that are options of `check`.
pub struct Schema {
    settings: Vec<Setting>,
    judge: Judge,
}

impl Schema {
    /// `options` are those that `check` has, and `judge` says what it thinks of some of them, written out.
    pub fn new(options: impl IntoIterator<Item = Setting>, judge: Judge) -> Schema {
        let is_setting = |option: &Setting| !NOT_SETTINGS.contains(&option.name.as_str());
        Schema {
            settings: options.into_iter().filter(is_setting).collect(),
            judge,
        }
    }

    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.settings.iter().map(|setting| setting.name.as_str())
    }

    /// Whether `check` takes these options together.
    ///
    /// # Errors
    /// What it says.
    pub fn judge_together(&self, options: &[String]) -> Result<(), String> {
        (self.judge)(options).map_err(|complaint| complaint.text)
    }
}

impl Setting {
    /// The texts of a value.
    ///
    /// # Errors
    /// It is not of the form that this setting has.
    pub fn texts(&self, source: &Source, node: &Node) -> Result<Vec<(usize, String)>, Failure> {
        let wrong = |node: &Node, wanted: &str| {
            source.wrong(
                node.at,
                format!("`{}` takes {wanted}, not {}", self.name, node.value.kind()),
            )
        };
        match (self.form, &node.value) {
            (Form::Flag, Value::Flag(flag)) => Ok(vec![(node.at, flag.to_string())]),
            // As a placeholder gives it.
            (Form::Flag, Value::Text(text)) => Ok(vec![(node.at, text.clone())]),
            (Form::Flag, _) => Err(wrong(node, "true or false")),
            (Form::Many, Value::List(list)) => list
                .iter()
                .map(|item| match item.value.scalar() {
                    Some(text) => Ok((item.at, text)),
                    None => Err(wrong(item, "a list of texts")),
                })
                .collect(),
            (Form::Many, Value::Table(entries)) if self.name == "env" => entries
                .iter()
                .map(|(key, item)| match item.value.scalar() {
                    Some(text) => Ok((item.at, format!("{}={text}", key.text))),
                    None => Err(wrong(item, "texts as values")),
                })
                .collect(),
            (Form::One | Form::Many, value) => match value.scalar() {
                Some(text) => Ok(vec![(node.at, text)]),
                None => Err(wrong(node, "a single value")),
            },
        }
    }

    /// The command line for texts whose placeholders are filled in, each judged by `check` itself.
    ///
    /// # Errors
    /// `check` does not take a value.
    pub fn given(
        &self,
        schema: &Schema,
        source: &Source,
        texts: &[(usize, String)],
    ) -> Result<Vec<String>, Failure> {
        let mut arguments = Vec::new();
        for (at, text) in texts {
            let argument = match (self.form, text.as_str()) {
                (Form::Flag, "false") => continue,
                (Form::Flag, "true") => format!("--{}", self.name),
                (Form::Flag, _) => {
                    return Err(source.wrong(*at, format!("`{}` takes true or false", self.name)));
                }
                _ => format!("--{}={text}", self.name),
            };
            // Alone, so that only this value is judged; how options go together is seen to at the end.
            if self.form != Form::Flag
                && let Err(complaint) = (schema.judge)(std::slice::from_ref(&argument))
                && complaint.about_value
            {
                return Err(source
                    .wrong(*at, complaint.text)
                    .hint(format!("tracefork check --help explains --{}", self.name)));
            }
            arguments.push(argument);
        }
        Ok(arguments)
    }
}
