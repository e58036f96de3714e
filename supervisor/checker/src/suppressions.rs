//! Data races that are known and not to be told of, in the format of ThreadSanitizer: one `race:PATTERN` per line.
//!
//! A pattern is looked for in the names of functions, files and modules of both stacks and in the name of the variable. `*` stands for anything, `^` at the
//! beginning and `$` at the end bind it there. `race_top:` looks at the innermost functions only. Other kinds of lines are for other tools.

use super::scout::Race;
use failure::Failure;
use regex::Regex;
use std::path::Path;

/// What is not to be told.
#[derive(Clone, Debug, Default)]
pub struct Suppressions {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    pattern: Regex,
    is_top_only: bool,
}

impl Suppressions {
    /// Reads a file of them.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("--suppressions {shown}: {error}"))
                .hint("a file with lines such as race:my_function")
        })?;
        Self::parse(&text).map_err(|line| {
            Failure::usage(format!(
                "--suppressions {shown}: line {line} is not of the form KIND:PATTERN"
            ))
            .hint("such as race:my_function, race_top:my_function, or a comment after #")
        })
    }

    /// The number of the first line that is none, if there is one.
    fn parse(text: &str) -> Result<Self, usize> {
        let mut rules = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (kind, pattern) = line.split_once(':').ok_or(number + 1)?;
            let is_top_only = match kind {
                "race" => false,
                "race_top" => true,
                _ => continue,
            };
            rules.push(Rule {
                pattern: compiled(pattern).ok_or(number + 1)?,
                is_top_only,
            });
        }
        Ok(Self { rules })
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Is a race on this object, between accesses with these stacks (innermost frame first), one of them?
    pub fn hide(&self, object: &str, stacks: [&[String]; 2]) -> bool {
        self.rules.iter().any(|rule| {
            let depth = if rule.is_top_only { 1 } else { usize::MAX };
            let mut frames = stacks.iter().flat_map(|stack| stack.iter().take(depth));
            frames.any(|frame| frame.split(' ').any(|word| rule.pattern.is_match(word)))
                || (!rule.is_top_only && rule.pattern.is_match(object))
        })
    }

    /// Is this race one of them?
    pub fn hide_race(&self, race: &Race) -> bool {
        let [one, other] = &race.accesses;
        !race.is_use_after_free && self.hide(&race.object, [&one.stack, &other.stack])
    }
}

fn compiled(pattern: &str) -> Option<Regex> {
    let (start, rest) = match pattern.strip_prefix('^') {
        Some(rest) => ("^", rest),
        None => ("", pattern),
    };
    let (rest, end) = match rest.strip_suffix('$') {
        Some(rest) => (rest, "$"),
        None => (rest, ""),
    };
    if rest.is_empty() {
        return None;
    }
    let text = rest.split('*').map(regex::escape).collect::<Vec<_>>().join(".*");
    Regex::new(&format!("{start}{text}{end}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_files_and_variables_are_looked_at() {
        let rules = Suppressions::parse("# known\nrace:^bump$\nrace:stats*.c\nrace_top:inner\ndeadlock:x\n");
        let rules = rules.expect("well-formed");
        let stack = |frames: &[&str]| frames.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>();
        let hides = |object: &str, one: &[&str]| rules.hide(object, [&stack(one), &stack(&["main m.c:3"])]);
        assert!(hides("c", &["bump a.c:1", "main m.c:2"]));
        assert!(!hides("c", &["bumper a.c:1"]));
        assert!(hides("c", &["f stats_now.c:7"]));
        assert!(hides("bump", &["f a.c:1"]));
        assert!(hides("c", &["inner a.c:1"]));
        assert!(!hides("c", &["f a.c:1", "inner a.c:1"]));
    }

    #[test]
    fn a_line_without_a_kind_is_refused() {
        assert_eq!(Suppressions::parse("race:a\nnonsense").err(), Some(2));
        assert_eq!(Suppressions::parse("race:").err(), Some(1));
    }
}
