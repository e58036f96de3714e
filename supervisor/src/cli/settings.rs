//! The options of `check` as a sweep sees them: their names and forms, and what `check` thinks of values. Both are the command line's own.

use clap::{Arg, ArgAction, Args as _};
use sweep::settings::{Complaint, Form, Schema, Setting};

/// What a scenario of a sweep can set.
pub fn schema() -> Schema {
    let command = check_command();
    Schema::new(command.get_arguments().filter_map(setting), parse)
}

fn check_command() -> clap::Command {
    super::check::Args::augment_args(clap::Command::new("check"))
}

fn setting(arg: &Arg) -> Option<Setting> {
    let name = arg.get_long()?;
    if arg.is_hide_set() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use sweep::Source;

    #[test]
    fn the_options_of_check_are_settings() {
        let schema = schema();
        let form = |name| schema.get(name).map(|setting| setting.form);
        assert_eq!(form("keep-going"), Some(Form::Flag));
        assert_eq!(form("max-states"), Some(Form::One));
        assert_eq!(form("client"), Some(Form::Many));
        assert_eq!(form("json"), None);
        assert_eq!(form("help"), None);
    }

    #[test]
    fn check_judges_the_values() {
        let schema = schema();
        let source = Source::new(Path::new("s.toml"), String::new());
        let cache = schema.get("cache").expect("a setting");
        let given = |text: &str| cache.given(&schema, &source, &[(0, text.to_owned())]);
        assert_eq!(given("linear").expect("is right"), ["--cache=linear"]);
        let failure = given("liner").expect_err("is wrong");
        assert!(
            failure.reason.contains("'liner'") && failure.reason.contains("linear"),
            "{failure}"
        );
        assert!(schema.judge_together(&["--offline".to_owned()]).is_err());
    }
}
