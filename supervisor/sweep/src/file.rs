//! The sweep file: what may stand where. Unknown keys are refused, with the place and the key that was probably meant.

use super::settings::{Form, Schema, Setting};
use super::source::{Key, Node, Source, Value};
use super::substitute::{BUILT_IN, LEFT_TO_PEERS};
use failure::Failure;

/// What a scenario can set beside the options of `check`.
pub const OWN_SETTINGS: [(&str, Form); 8] = [
    ("program", Form::One),
    ("args", Form::Many),
    ("expect", Form::Many),
    ("setup", Form::Many),
    ("teardown", Form::Many),
    ("timeout", Form::One),
    ("compare", Form::Many),
    ("lock", Form::Many),
];

/// Texts with their places.
pub type Texts = Vec<(usize, String)>;

pub struct SweepFile {
    pub parameters: Vec<(Key, String)>,
    /// Run once, before and after everything.
    pub setup: Texts,
    pub teardown: Texts,
    pub defaults: Layer,
    pub profiles: Vec<(Key, Profile)>,
    pub scenarios: Vec<Scenario>,
}

/// Settings that lie over those of an earlier layer.
#[derive(Clone, Debug, Default)]
pub struct Layer(pub Vec<Assigned>);

/// One setting and its texts, placeholders not yet filled in.
#[derive(Clone, Debug)]
pub struct Assigned {
    pub setting: Setting,
    pub texts: Texts,
}

#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub layer: Layer,
    pub matrix: Vec<Axis>,
    pub only: Vec<String>,
    pub skip: Vec<String>,
}

pub struct Scenario {
    pub name: String,
    pub at: usize,
    pub layer: Layer,
    pub matrix: Vec<Axis>,
    /// Combinations to leave out: parameters and values that must all be met.
    pub exclude: Vec<Vec<(Key, String)>>,
    pub tags: Vec<String>,
}

/// One parameter of a matrix, or several that go together, and what it can be.
#[derive(Clone, Debug)]
pub struct Axis {
    pub key: Key,
    pub cells: Vec<Vec<Binding>>,
}

/// A parameter with one of its values.
#[derive(Clone, Debug)]
pub struct Binding {
    pub name: String,
    pub at: usize,
    pub texts: Texts,
}

impl Binding {
    /// The value as a placeholder gives it and as names of scenarios show it.
    pub fn shown(&self) -> String {
        let texts: Vec<&str> = self.texts.iter().map(|(_, text)| text.as_str()).collect();
        texts.join("+")
    }
}

impl Layer {
    pub fn get(&self, name: &str) -> Option<&Assigned> {
        self.0.iter().find(|assigned| assigned.setting.name == name)
    }

    /// Lays `upper` over this one. Environment variables add up, everything else is replaced.
    pub fn over(&mut self, upper: &Layer) {
        for assigned in &upper.0 {
            let lower = self
                .0
                .iter_mut()
                .find(|lower| lower.setting.name == assigned.setting.name);
            match lower {
                Some(lower) if assigned.setting.name == "env" => lower.texts.extend(assigned.texts.clone()),
                Some(lower) => *lower = assigned.clone(),
                None => self.0.push(assigned.clone()),
            }
        }
    }
}

/// A setting of either sort.
pub fn setting(schema: &Schema, name: &str) -> Option<Setting> {
    let own = OWN_SETTINGS.iter().find(|(own, _)| *own == name);
    own.map(|(name, form)| Setting {
        name: (*name).to_owned(),
        form: *form,
    })
    .or_else(|| schema.get(name).cloned())
}

/// Reads a sweep file.
///
/// # Errors
/// Something in it is wrong; the message points at it.
pub fn read(source: &Source, schema: &Schema) -> Result<SweepFile, Failure> {
    Reader { source, schema }.file(&source.parse()?)
}

struct Reader<'a> {
    source: &'a Source,
    schema: &'a Schema,
}

impl Reader<'_> {
    fn file(&self, root: &Node) -> Result<SweepFile, Failure> {
        const KEYS: [&str; 6] = [
            "parameters",
            "setup",
            "teardown",
            "defaults",
            "profiles",
            "scenario",
        ];
        let mut file = SweepFile {
            parameters: Vec::new(),
            setup: Vec::new(),
            teardown: Vec::new(),
            defaults: Layer::default(),
            profiles: Vec::new(),
            scenarios: Vec::new(),
        };
        for (key, node) in self.table(root, "a sweep file")? {
            match key.text.as_str() {
                "parameters" => {
                    for (key, node) in self.table(node, "`parameters`")? {
                        self.parameter_name(key)?;
                        file.parameters.push((key.clone(), self.text(key, node)?));
                    }
                }
                "setup" => file.setup = self.texts(key, node)?,
                "teardown" => file.teardown = self.texts(key, node)?,
                "defaults" => {
                    let table = self.table(node, "`defaults`")?;
                    file.defaults = self.layer(table, &[])?;
                }
                "profiles" => {
                    for (key, node) in self.table(node, "`profiles`")? {
                        file.profiles.push((key.clone(), self.profile(node)?));
                    }
                }
                "scenario" => file.scenarios = self.scenarios(node)?,
                other => return Err(self.source.unknown(key.at, "key", other, KEYS)),
            }
        }
        if file.scenarios.is_empty() {
            return Err(self
                .source
                .wrong(0, "there is no scenario: nothing would be checked")
                .hint("a scenario begins with [[scenario]]; tracefork sweep --help shows one"));
        }
        Ok(file)
    }

    fn scenarios(&self, node: &Node) -> Result<Vec<Scenario>, Failure> {
        let Value::List(list) = &node.value else {
            return Err(self
                .source
                .wrong(node.at, "`scenario` is a list of tables: write [[scenario]]"));
        };
        let mut scenarios: Vec<Scenario> = Vec::new();
        for node in list {
            let scenario = self.scenario(node)?;
            if let Some(first) = scenarios.iter().find(|other| other.name == scenario.name) {
                let line = self.source.place(first.at).line;
                return Err(self.source.wrong(
                    scenario.at,
                    format!(
                        "there are two scenarios `{}`: the first is in line {line}",
                        scenario.name
                    ),
                ));
            }
            scenarios.push(scenario);
        }
        Ok(scenarios)
    }

    fn scenario(&self, node: &Node) -> Result<Scenario, Failure> {
        let table = self.table(node, "a scenario")?;
        let Some((key, name)) = table.iter().find(|(key, _)| key.text == "name") else {
            return Err(self.source.wrong(node.at, "this scenario has no `name`"));
        };
        let text = self.text(key, name)?;
        if text.is_empty() || text.contains(['[', ']', '\n']) {
            return Err(self
                .source
                .wrong(name.at, "a name is not empty and has no brackets"));
        }
        let mut scenario = Scenario {
            name: text,
            at: name.at,
            layer: self.layer(table, &["name", "matrix", "exclude", "tags"])?,
            matrix: Vec::new(),
            exclude: Vec::new(),
            tags: Vec::new(),
        };
        for (key, node) in table {
            match key.text.as_str() {
                "matrix" => scenario.matrix = self.matrix(node)?,
                "exclude" => scenario.exclude = self.excluded(node)?,
                "tags" => scenario.tags = strings(self.texts(key, node)?),
                _ => {}
            }
        }
        Ok(scenario)
    }

    fn profile(&self, node: &Node) -> Result<Profile, Failure> {
        let table = self.table(node, "a profile")?;
        let mut profile = Profile {
            layer: self.layer(table, &["matrix", "only", "skip"])?,
            ..Profile::default()
        };
        for (key, node) in table {
            match key.text.as_str() {
                "matrix" => profile.matrix = self.matrix(node)?,
                "only" => profile.only = strings(self.texts(key, node)?),
                "skip" => profile.skip = strings(self.texts(key, node)?),
                _ => {}
            }
        }
        Ok(profile)
    }

    /// The settings of a table whose `others` are read elsewhere.
    fn layer(&self, table: &[(Key, Node)], others: &[&str]) -> Result<Layer, Failure> {
        let mut layer = Layer::default();
        for (key, node) in table {
            if others.contains(&key.text.as_str()) {
                continue;
            }
            let Some(setting) = setting(self.schema, &key.text) else {
                let own = OWN_SETTINGS.iter().map(|(name, _)| *name);
                let known = own.chain(self.schema.names()).chain(others.iter().copied());
                return Err(self.source.unknown(key.at, "key", &key.text, known));
            };
            let texts = setting.texts(self.source, node)?;
            layer.0.push(Assigned { setting, texts });
        }
        Ok(layer)
    }

    fn matrix(&self, node: &Node) -> Result<Vec<Axis>, Failure> {
        let table = self.table(node, "`matrix`")?;
        if table.is_empty() {
            return Err(self.source.wrong(
                node.at,
                "the matrix is empty: leave it out, or give it parameters",
            ));
        }
        table.iter().map(|(key, node)| self.axis(key, node)).collect()
    }

    fn axis(&self, key: &Key, node: &Node) -> Result<Axis, Failure> {
        let Value::List(list) = &node.value else {
            return Err(self.source.wrong(
                node.at,
                format!(
                    "parameter `{}` takes a list of values, not {}",
                    key.text,
                    node.value.kind()
                ),
            ));
        };
        if list.is_empty() {
            return Err(self.source.wrong(
                node.at,
                format!("parameter `{}` has no values: nothing would be checked", key.text),
            ));
        }
        let cell = |node: &Node| match &node.value {
            // Parameters that go together.
            Value::Table(entries) => entries
                .iter()
                .map(|(key, node)| self.binding(key, node))
                .collect(),
            _ => Ok(vec![self.binding(key, node)?]),
        };
        Ok(Axis {
            key: key.clone(),
            cells: list.iter().map(cell).collect::<Result<_, _>>()?,
        })
    }

    fn binding(&self, key: &Key, node: &Node) -> Result<Binding, Failure> {
        let texts = match setting(self.schema, &key.text) {
            Some(setting) => setting.texts(self.source, node)?,
            None => {
                self.parameter_name(key)?;
                vec![(node.at, self.text(key, node)?)]
            }
        };
        Ok(Binding {
            name: key.text.clone(),
            at: key.at,
            texts,
        })
    }

    fn excluded(&self, node: &Node) -> Result<Vec<Vec<(Key, String)>>, Failure> {
        let Value::List(list) = &node.value else {
            return Err(self.source.wrong(
                node.at,
                "`exclude` takes a list of tables: exclude = [{ a = 1, b = 2 }]",
            ));
        };
        let combination = |node: &Node| {
            let table = self.table(node, "a combination to exclude")?;
            let entry = |(key, node): &(Key, Node)| Ok((key.clone(), self.texts(key, node)?));
            let entries = table.iter().map(entry).collect::<Result<Vec<_>, Failure>>()?;
            Ok(entries
                .into_iter()
                .map(|(key, texts)| (key, strings(texts).join("+")))
                .collect())
        };
        list.iter().map(combination).collect()
    }

    fn parameter_name(&self, key: &Key) -> Result<(), Failure> {
        let is_name = super::substitute::names(&format!("{{{}}}", key.text)).contains(&key.text);
        if !is_name {
            return Err(self.source.wrong(
                key.at,
                format!(
                    "`{}` is no name for a parameter: letters, digits, - and _",
                    key.text
                ),
            ));
        }
        if BUILT_IN
            .iter()
            .chain(&LEFT_TO_PEERS)
            .any(|name| *name == key.text)
        {
            return Err(self.source.wrong(
                key.at,
                format!("`{{{}}}` has a meaning already: choose another name", key.text),
            ));
        }
        Ok(())
    }

    fn table<'n>(&self, node: &'n Node, what: &str) -> Result<&'n [(Key, Node)], Failure> {
        match &node.value {
            Value::Table(entries) => Ok(entries),
            other => Err(self
                .source
                .wrong(node.at, format!("{what} is a table, not {}", other.kind()))),
        }
    }

    fn text(&self, key: &Key, node: &Node) -> Result<String, Failure> {
        node.value.scalar().ok_or_else(|| {
            let kind = node.value.kind();
            self.source.wrong(
                node.at,
                format!("`{}` takes a single value, not {kind}", key.text),
            )
        })
    }

    /// One text or a list of them.
    fn texts(&self, key: &Key, node: &Node) -> Result<Texts, Failure> {
        match &node.value {
            Value::List(list) => list
                .iter()
                .map(|item| Ok((item.at, self.text(key, item)?)))
                .collect(),
            _ => Ok(vec![(node.at, self.text(key, node)?)]),
        }
    }
}

fn strings(texts: Texts) -> Vec<String> {
    texts.into_iter().map(|(_, text)| text).collect()
}
