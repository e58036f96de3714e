//! `{name}` in the texts of a sweep file. Only a name in braces is a placeholder, so that regular expressions (`a{2}`) and JSON stay as they are;
//! `{{name}}` stands for the text `{name}` itself.

use regex::{Captures, Regex};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Placeholders that the peers fill in later, when the program listens.
pub const LEFT_TO_PEERS: [&str; 2] = ["addr", "port"];
/// Placeholders that every scenario has.
pub const BUILT_IN: [&str; 2] = ["dir", "scratch"];

static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\{([A-Za-z_][A-Za-z0-9_-]*)\}\}|\{([A-Za-z_][A-Za-z0-9_-]*)\}").expect("it is correct")
});

/// The names that occur in a text.
pub fn names(text: &str) -> BTreeSet<String> {
    let found = PLACEHOLDER.captures_iter(text);
    found
        .filter_map(|found| found.get(2).map(|name| name.as_str().to_owned()))
        .collect()
}

/// The text with its placeholders filled in.
///
/// # Errors
/// The name that has no value.
pub fn fill(text: &str, values: &BTreeMap<String, String>) -> Result<String, String> {
    let mut missing = None;
    let filled = PLACEHOLDER.replace_all(text, |found: &Captures<'_>| {
        if let Some(literal) = found.get(1) {
            return format!("{{{}}}", literal.as_str());
        }
        let name = &found[2];
        match values.get(name) {
            Some(value) => value.clone(),
            None if LEFT_TO_PEERS.contains(&name) => found[0].to_owned(),
            None => {
                missing.get_or_insert_with(|| name.to_owned());
                String::new()
            }
        }
    });
    match missing {
        None => Ok(filled.into_owned()),
        Some(name) => Err(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_and_all_else_stays() {
        let values = BTreeMap::from([("n".to_owned(), "3".to_owned())]);
        let filled = |text| fill(text, &values);
        assert_eq!(
            filled("-t{n} a{2} {\"n\":1} {{n}} http://{addr}/"),
            Ok("-t3 a{2} {\"n\":1} {n} http://{addr}/".to_owned())
        );
        assert_eq!(filled("{m}"), Err("m".to_owned()));
        assert_eq!(
            names("{a} {{b}} {c}{a}"),
            BTreeSet::from(["a".to_owned(), "c".to_owned()])
        );
    }
}
