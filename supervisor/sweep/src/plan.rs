//! From a sweep file to the list of scenarios to run: layers laid over each other (defaults, scenario, profile, matrix), every
//! combination of the matrix, placeholders filled in, everything judged before anything runs.

use super::expect;
use super::file::{self, Axis, Binding, Layer, Profile, SweepFile};
use super::settings::Schema;
use super::source::{Place, Source};
use super::substitute;
use failure::Failure;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// What the command line says about which scenarios, and with what.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub profile: Option<String>,
    /// Names, identities or tags, with `*` and `?`.
    pub only: Vec<String>,
    pub skip: Vec<String>,
    /// Parameters over those of the file.
    pub set: Vec<(String, String)>,
}

pub struct Plan {
    pub file: PathBuf,
    /// Of the file's text.
    pub digest: String,
    /// Where the file lies: commands run there.
    pub directory: PathBuf,
    pub profile: Option<String>,
    pub setup: Vec<String>,
    pub teardown: Vec<String>,
    pub scenarios: Vec<Planned>,
}

/// What is run for a scenario, and how.
#[derive(Clone, Debug)]
pub struct Run {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The options for `check`.
    pub options: Vec<String>,
    /// Commands before and after it.
    pub setup: Vec<String>,
    pub teardown: Vec<String>,
    pub timeout: Option<Duration>,
    /// Workers of its search.
    pub workers: u32,
    /// What it shares with others that must not run at the same time.
    pub locks: Vec<String>,
}

/// One scenario with one combination of its parameters.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The name, with the parameters in brackets.
    pub id: String,
    /// Its place among those selected.
    pub number: u64,
    pub name: String,
    pub place: Place,
    pub parameters: Vec<(String, String)>,
    pub run: Run,
    /// The verdicts that are expected.
    pub expect: Vec<String>,
    /// What a baseline is compared in.
    pub compare: Vec<String>,
    /// Of all that decides what is run, but for where it lies.
    pub hash: String,
}

/// Scenarios of one sweep: a year of work, at five minutes each.
const MOST_SCENARIOS: usize = 100_000;
/// Of a text with its placeholders filled in.
const LONGEST_TEXT: usize = 1 << 20;

/// What `compare` takes.
pub const COMPARED: [&str; 3] = ["verdict", "outcomes", "states"];

impl Plan {
    /// # Errors
    /// The file is wrong; the message points at the place.
    pub fn make(source: &Source, selection: &Selection, schema: &Schema) -> Result<Plan, Failure> {
        let file = file::read(source, schema)?;
        let path = std::path::absolute(&source.path)
            .map_err(|e| Failure::usage(format!("{}: {e}", source.path.display())))?;
        let directory = path.parent().unwrap_or(&path).to_owned();
        let planner = Planner {
            source,
            schema,
            profile: profile(&file, selection)?,
            parameters: parameters(source, &file, selection)?,
            file: &file,
        };
        let mut scenarios = Vec::new();
        for scenario in &file.scenarios {
            scenarios.extend(planner.expand(scenario, MOST_SCENARIOS - scenarios.len())?);
        }
        refuse_duplicates(source, &scenarios)?;
        let once = |texts| planner.fill_all(texts, &planner.parameters);
        Ok(Plan {
            file: source.path.clone(),
            digest: source.digest(),
            directory,
            profile: selection.profile.clone(),
            setup: once(&file.setup)?,
            teardown: once(&file.teardown)?,
            scenarios: select(scenarios, &file, &planner, selection)?,
        })
    }

    /// Tells whether two parts are of the same sweep.
    pub fn hash(&self) -> String {
        let all = self
            .scenarios
            .iter()
            .map(|scenario| (&scenario.id, &scenario.hash));
        digest(&all.collect::<Vec<_>>())
    }
}

fn digest(what: &impl serde::Serialize) -> String {
    // Texts and lists of them can always be encoded.
    let bytes = serde_json::to_vec(what).unwrap_or_default();
    blake3::hash(&bytes).to_hex()[..32].to_owned()
}

fn profile<'f>(file: &'f SweepFile, selection: &Selection) -> Result<Option<&'f Profile>, Failure> {
    let Some(name) = &selection.profile else {
        return Ok(None);
    };
    let found = file.profiles.iter().find(|(key, _)| key.text == *name);
    let known: Vec<&str> = file.profiles.iter().map(|(key, _)| key.text.as_str()).collect();
    found.map(|(_, profile)| Some(profile)).ok_or_else(|| {
        Failure::usage(format!("--profile {name}: the sweep file has no such profile")).hint(
            match known.is_empty() {
                true => "it has none at all; a profile is a table [profiles.NAME]".to_owned(),
                false => format!("it has: {}", known.join(", ")),
            },
        )
    })
}

fn parameters(
    source: &Source,
    file: &SweepFile,
    selection: &Selection,
) -> Result<BTreeMap<String, String>, Failure> {
    // These two depend on where and when a scenario runs, and are filled in then.
    let late = substitute::BUILT_IN.map(|name| (name.to_owned(), format!("{{{name}}}")));
    let mut values = BTreeMap::from(late);
    for (key, text) in &file.parameters {
        let text = substitute::fill(text, &values).map_err(|name| unknown(source, key.at, &name, &values))?;
        is_short(source, key.at, &text)?;
        values.insert(key.text.clone(), text);
    }
    values.extend(selection.set.iter().cloned());
    Ok(values)
}

/// Placeholders within placeholders double a text with every line.
fn is_short(source: &Source, at: usize, text: &str) -> Result<(), Failure> {
    if text.len() > LONGEST_TEXT {
        return Err(source.wrong(at, "this text is over a megabyte with its placeholders filled in"));
    }
    Ok(())
}

fn unknown(source: &Source, at: usize, name: &str, values: &BTreeMap<String, String>) -> Failure {
    let known = values.keys().map(String::as_str);
    let mut failure = source.unknown(at, "parameter", name, known);
    let hint =
        format!("for the text itself write {{{{{name}}}}}; a value can also come from --set {name}=VALUE");
    failure.hint = Some(hint);
    failure
}

fn refuse_duplicates(source: &Source, scenarios: &[Planned]) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    match scenarios.iter().find(|scenario| !seen.insert(&scenario.id)) {
        None => Ok(()),
        Some(twice) => {
            let (path, Place { line, column }) = (source.path.display(), twice.place);
            let what = format!(
                "`{}` comes up twice: two combinations of the matrix are the same",
                twice.id
            );
            Err(Failure::usage(format!("{path}:{line}:{column}: {what}")))
        }
    }
}

struct Planner<'a> {
    source: &'a Source,
    schema: &'a Schema,
    file: &'a SweepFile,
    profile: Option<&'a Profile>,
    parameters: BTreeMap<String, String>,
}

impl Planner<'_> {
    /// The combinations of a scenario, of which at most `room` may be left.
    fn expand(&self, scenario: &file::Scenario, room: usize) -> Result<Vec<Planned>, Failure> {
        let mut layer = self.file.defaults.clone();
        layer.over(&scenario.layer);
        if let Some(profile) = self.profile {
            layer.over(&profile.layer);
        }
        let axes = self.axes(scenario);
        self.refuse_unused(&layer, &axes)?;
        self.refuse_unknown_exclusions(scenario, &axes)?;
        let sizes = axes.iter().map(|axis| axis.cells.len());
        let count = sizes.fold(1_usize, |count, size| count.saturating_mul(size));
        if count > room {
            let what = format!(
                "the sweep has more than {MOST_SCENARIOS} scenarios with the matrix of `{}`",
                scenario.name
            );
            return Err(self
                .source
                .wrong(scenario.at, what)
                .hint("give the matrix fewer values, or make several sweeps of it"));
        }
        let mut planned = Vec::new();
        for combination in combinations(&axes) {
            if !is_excluded(scenario, &combination) {
                planned.push(self.plan(scenario, &layer, &combination)?);
            }
        }
        if planned.is_empty() {
            return Err(self.source.wrong(
                scenario.at,
                format!(
                    "every combination of `{}` is excluded: nothing would be checked",
                    scenario.name
                ),
            ));
        }
        Ok(planned)
    }

    /// The scenario's, with the values that the profile has for them.
    fn axes(&self, scenario: &file::Scenario) -> Vec<Axis> {
        let narrowed = |axis: &Axis| {
            let profile = self.profile.map_or(&[][..], |profile| &profile.matrix);
            let other = profile.iter().find(|other| other.key.text == axis.key.text);
            other.unwrap_or(axis).clone()
        };
        scenario.matrix.iter().map(narrowed).collect()
    }

    fn refuse_unused(&self, layer: &Layer, axes: &[Axis]) -> Result<(), Failure> {
        let texts = |texts: &file::Texts| -> BTreeSet<String> {
            texts
                .iter()
                .flat_map(|(_, text)| substitute::names(text))
                .collect()
        };
        let bindings = || axes.iter().flat_map(|axis| axis.cells.iter().flatten());
        let mut used: BTreeSet<String> = layer
            .0
            .iter()
            .flat_map(|assigned| texts(&assigned.texts))
            .collect();
        used.extend(bindings().flat_map(|binding| texts(&binding.texts)));
        for binding in bindings() {
            let is_setting = file::setting(self.schema, &binding.name).is_some();
            if is_setting || used.contains(&binding.name) {
                continue;
            }
            let own = file::OWN_SETTINGS.iter().map(|(name, _)| *name);
            let known: Vec<&str> = own.chain(self.schema.names()).collect();
            let meant = super::source::nearest(&binding.name, &known);
            let meant = meant.map_or(String::new(), |meant| format!(", did you mean `{meant}`?"));
            let name = &binding.name;
            return Err(self.source.wrong(
                binding.at,
                format!("parameter `{name}` is neither a setting nor used anywhere as {{{name}}}{meant}"),
            ));
        }
        Ok(())
    }

    fn refuse_unknown_exclusions(&self, scenario: &file::Scenario, axes: &[Axis]) -> Result<(), Failure> {
        let names = axes.iter().flat_map(|axis| axis.cells.iter().flatten());
        let known: BTreeSet<&str> = names.map(|binding| binding.name.as_str()).collect();
        let excluded = scenario.exclude.iter().flatten();
        match excluded
            .into_iter()
            .find(|(key, _)| !known.contains(key.text.as_str()))
        {
            None => Ok(()),
            Some((key, _)) => Err(self.source.unknown(key.at, "parameter", &key.text, known)),
        }
    }

    fn plan(
        &self,
        scenario: &file::Scenario,
        layer: &Layer,
        combination: &[&Binding],
    ) -> Result<Planned, Failure> {
        let mut layer = layer.clone();
        let mut values = self.parameters.clone();
        for binding in combination {
            let shown = substitute::fill(&binding.shown(), &self.parameters)
                .map_err(|name| unknown(self.source, binding.at, &name, &self.parameters))?;
            values.insert(binding.name.clone(), shown);
            if let Some(setting) = file::setting(self.schema, &binding.name) {
                layer.over(&Layer(vec![file::Assigned {
                    setting,
                    texts: binding.texts.clone(),
                }]));
            }
        }
        let shown = combination.iter().filter(|binding| binding.name != "expect");
        let parameters: Vec<(String, String)> = shown
            .map(|binding| (binding.name.clone(), values[&binding.name].clone()))
            .collect();
        let texts = |name: &str| match layer.get(name) {
            Some(assigned) => self.fill_all(&assigned.texts, &values),
            None => Ok(Vec::new()),
        };
        let Some(program) = texts("program")?.into_iter().next() else {
            let message = format!("`{}` has no `program`", scenario.name);
            return Err(self.source.wrong(scenario.at, message));
        };
        let mut planned = Planned {
            id: identity(&scenario.name, &parameters),
            number: 0,
            name: scenario.name.clone(),
            place: self.source.place(scenario.at),
            parameters,
            run: Run {
                command: std::iter::once(program).chain(texts("args")?).collect(),
                options: self.options(scenario, &layer, &values)?,
                setup: texts("setup")?,
                teardown: texts("teardown")?,
                timeout: self.timeout(&layer, &values)?,
                workers: texts("jobs")?.first().and_then(|n| n.parse().ok()).unwrap_or(1),
                locks: texts("lock")?,
            },
            expect: self.words(&layer, "expect", &values, &expect::WORDS.map(|(word, _)| word))?,
            compare: self.words(&layer, "compare", &values, &COMPARED)?,
            hash: String::new(),
        };
        if planned.expect.is_empty() {
            planned.expect.push("ok".to_owned());
        }
        if planned.compare.is_empty() {
            planned.compare = COMPARED.map(str::to_owned).to_vec();
        }
        planned.hash = planned.digest();
        Ok(planned)
    }

    /// The command line for `check`.
    fn options(
        &self,
        scenario: &file::Scenario,
        layer: &Layer,
        values: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, Failure> {
        let mut options = Vec::new();
        for assigned in &layer.0 {
            if self.schema.get(&assigned.setting.name).is_none() {
                continue;
            }
            let mut texts = Vec::new();
            for (at, text) in &assigned.texts {
                texts.push((*at, self.fill(*at, text, values)?));
            }
            options.extend(assigned.setting.given(self.schema, self.source, &texts)?);
        }
        self.schema
            .judge_together(&options)
            .map_err(|why| self.source.wrong(scenario.at, why))?;
        Ok(options)
    }

    /// A list of words out of those known.
    fn words(
        &self,
        layer: &Layer,
        name: &str,
        values: &BTreeMap<String, String>,
        known: &[&str],
    ) -> Result<Vec<String>, Failure> {
        let mut words = Vec::new();
        for (at, text) in layer.get(name).map_or(&[][..], |assigned| &assigned.texts) {
            let word = self.fill(*at, text, values)?;
            if !known.contains(&word.as_str()) {
                let what = if name == "expect" { "verdict" } else { "value" };
                return Err(self.source.unknown(*at, what, &word, known.iter().copied()));
            }
            words.push(word);
        }
        Ok(words)
    }

    fn timeout(&self, layer: &Layer, values: &BTreeMap<String, String>) -> Result<Option<Duration>, Failure> {
        let Some((at, text)) = layer.get("timeout").and_then(|assigned| assigned.texts.first()) else {
            return Ok(None);
        };
        let text = self.fill(*at, text, values)?;
        humantime::parse_duration(&text).map(Some).map_err(|e| {
            self.source
                .wrong(*at, format!("`timeout` takes a time, for example \"5m\": {e}"))
        })
    }

    fn fill(&self, at: usize, text: &str, values: &BTreeMap<String, String>) -> Result<String, Failure> {
        let text = substitute::fill(text, values).map_err(|name| unknown(self.source, at, &name, values))?;
        is_short(self.source, at, &text)?;
        Ok(text)
    }

    fn fill_all(
        &self,
        texts: &file::Texts,
        values: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, Failure> {
        texts
            .iter()
            .map(|(at, text)| self.fill(*at, text, values))
            .collect()
    }
}

impl Planned {
    /// What is expected and compared is judged afterwards and does not count.
    fn digest(&self) -> String {
        digest(&(
            env!("CARGO_PKG_VERSION"),
            (&self.id, &self.run.command, &self.run.options),
            (&self.run.setup, &self.run.teardown, self.run.timeout),
        ))
    }
}

fn identity(name: &str, parameters: &[(String, String)]) -> String {
    if parameters.is_empty() {
        return name.to_owned();
    }
    let shown: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    format!("{name}[{}]", shown.join(","))
}

/// Every combination, the last axis changing fastest.
fn combinations(axes: &[Axis]) -> Vec<Vec<&Binding>> {
    let mut all = vec![Vec::new()];
    for axis in axes {
        let mut longer = Vec::new();
        for start in &all {
            for cell in &axis.cells {
                longer.push(start.iter().copied().chain(cell).collect());
            }
        }
        all = longer;
    }
    all
}

fn is_excluded(scenario: &file::Scenario, combination: &[&Binding]) -> bool {
    let meets = |key: &super::source::Key, value: &String| {
        let binding = combination.iter().find(|binding| binding.name == key.text);
        binding.is_some_and(|binding| binding.shown() == *value)
    };
    scenario
        .exclude
        .iter()
        .any(|excluded| excluded.iter().all(|(key, value)| meets(key, value)))
}

fn select(
    scenarios: Vec<Planned>,
    file: &SweepFile,
    planner: &Planner<'_>,
    selection: &Selection,
) -> Result<Vec<Planned>, Failure> {
    let of_profile = planner.profile.map_or((&[][..], &[][..]), |p| (&p.only, &p.skip));
    let filters = [
        (patterns(of_profile.0)?, patterns(of_profile.1)?),
        (patterns(&selection.only)?, patterns(&selection.skip)?),
    ];
    let wanted = |scenario: &Planned| {
        let tags = file.scenarios.iter().find(|s| s.name == scenario.name);
        let names: Vec<&str> = [scenario.id.as_str(), scenario.name.as_str()]
            .into_iter()
            .chain(tags.iter().flat_map(|s| s.tags.iter().map(String::as_str)))
            .collect();
        let any = |patterns: &[Regex]| patterns.iter().any(|p| names.iter().any(|name| p.is_match(name)));
        filters
            .iter()
            .all(|(only, skip)| (only.is_empty() || any(only)) && !any(skip))
    };
    let mut selected: Vec<Planned> = scenarios.into_iter().filter(|s| wanted(s)).collect();
    for (number, scenario) in (0..).zip(&mut selected) {
        scenario.number = number;
    }
    if selected.is_empty() {
        return Err(
            Failure::usage("no scenario is selected: nothing would be checked")
                .hint("--only, --skip and the profile's only and skip are patterns with * for names or tags"),
        );
    }
    Ok(selected)
}

/// Patterns with `*` and `?`, for whole names.
fn patterns(texts: &[String]) -> Result<Vec<Regex>, Failure> {
    let one = |text: &String| {
        let escaped = regex::escape(text).replace(r"\*", ".*").replace(r"\?", ".");
        Regex::new(&format!("^(?s:{escaped})$")).map_err(|e| Failure::usage(format!("pattern {text}: {e}")))
    };
    texts.iter().map(one).collect()
}
