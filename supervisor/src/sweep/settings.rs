//! What a scenario can set. Beside the few keys of the sweep itself these are the options of `tracefork check`, taken from the command line's own
//! definition, which also judges their values: a new option of `check` is a setting at once, and both always agree.

use super::source::{Node, Source, Value};
use crate::error::Failure;
use clap::{Arg, ArgAction, Args as _};

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

/// All settings that are options of `check`.
pub struct Schema {
    settings: Vec<Setting>,
}

impl Schema {
    pub fn of_check() -> Schema {
        let settings = check_command().get_arguments().filter_map(setting).collect();
        Schema { settings }
    }

    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.settings.iter().map(|setting| setting.name.as_str())
    }
}

fn check_command() -> clap::Command {
    crate::cli::check::Args::augment_args(clap::Command::new("check"))
}

fn setting(arg: &Arg) -> Option<Setting> {
    let name = arg.get_long()?;
    if NOT_SETTINGS.contains(&name) || arg.is_hide_set() {
        return None;
    }
    let form = match arg.get_action() {
        ArgAction::SetTrue | ArgAction::SetFalse => Form::Flag,
        ArgAction::Append => Form::Many,
        _ => Form::One,
    };
    Some(Setting {
        name: name.to_owned(),
        form,
    })
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
    pub fn given(&self, source: &Source, texts: &[(usize, String)]) -> Result<Vec<String>, Failure> {
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
                && let Err(complaint) = parse(std::slice::from_ref(&argument))
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

struct Complaint {
    text: String,
    about_value: bool,
}

fn parse(options: &[String]) -> Result<(), Complaint> {
    let line = ["check"]
        .into_iter()
        .chain(options.iter().map(String::as_str))
        .chain(["--", "program"]);
    let parsed = check_command().no_binary_name(false).try_get_matches_from(line);
    parsed.map(|_| ()).map_err(|error| {
        use clap::error::ErrorKind::{InvalidValue, NoEquals, TooFewValues, TooManyValues, ValueValidation};
        let text = error.to_string();
        // The usage that follows is that of another command.
        let lines = text
            .lines()
            .map(str::trim)
            .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
            .filter(|line| !line.is_empty());
        let text = lines.collect::<Vec<_>>().join(" ");
        Complaint {
            text: text.trim_start_matches("error: ").to_owned(),
            about_value: matches!(
                error.kind(),
                InvalidValue | ValueValidation | TooManyValues | TooFewValues | NoEquals
            ),
        }
    })
}

/// Whether `check` takes these options together.
///
/// # Errors
/// What it says.
pub fn judge_together(options: &[String]) -> Result<(), String> {
    parse(options).map_err(|complaint| complaint.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_options_of_check_are_settings() {
        let schema = Schema::of_check();
        let form = |name| schema.get(name).map(|setting| setting.form);
        assert_eq!(form("keep-going"), Some(Form::Flag));
        assert_eq!(form("max-states"), Some(Form::One));
        assert_eq!(form("client"), Some(Form::Many));
        assert_eq!(form("json"), None);
        assert_eq!(form("help"), None);
    }

    #[test]
    fn check_judges_the_values() {
        let schema = Schema::of_check();
        let source = Source::new(Path::new("s.toml"), String::new());
        let cache = schema.get("cache").expect("a setting");
        let given = |text: &str| cache.given(&source, &[(0, text.to_owned())]);
        assert_eq!(given("linear").expect("is right"), ["--cache=linear"]);
        let failure = given("liner").expect_err("is wrong");
        assert!(
            failure.reason.contains("'liner'") && failure.reason.contains("linear"),
            "{failure}"
        );
        assert!(judge_together(&["--offline".to_owned()]).is_err());
    }
}
