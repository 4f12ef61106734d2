//! The effective configuration: every setting with its value and the origin of that value, as TOML that loads
//! again to the same settings, or as JSON.

use std::fmt::Write;

use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use super::node::Origin;

/// Every setting that applies, table by table.
#[derive(Clone, Debug, Default)]
pub struct Effective(Vec<Table>);

#[derive(Clone, Debug)]
struct Table {
    /// The names that lead to the table; none for the whole file.
    path: Vec<String>,
    /// True if it is one item of a list, whose number is the last of the names.
    is_item: bool,
    settings: Vec<Setting>,
}

/// One setting.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) value: Shown,
    pub(super) origin: Origin,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shown {
    /// The setting has no default and was not set.
    Unset,
    /// The value comes from a file of secrets that another setting names.
    Hidden,
    /// The value, or the part of it that may be shown.
    Value(toml::Value),
}

/// The documented object of `config show`.
#[derive(Serialize)]
struct Document {
    settings: Map<String, Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origins: Option<Map<String, Json>>,
}

impl Effective {
    /// Returns TOML; a setting without a value is a comment, as is the header of a table of nothing else, and with `origins`
    /// every line names its origin.
    pub fn toml(&self, origins: bool) -> String {
        let mut text = String::new();
        for table in self.0.iter().filter(|table| !table.settings.is_empty()) {
            let Table { path, settings, .. } = table;
            if !path.is_empty() {
                let gap = if text.is_empty() { "" } else { "\n" };
                // Writing to a string cannot fail.
                let mark = if table.is_comment() { "# " } else { "" };
                let _ = writeln!(text, "{gap}{mark}{}", table.header());
            }
            let lines: Vec<_> = settings.iter().map(Setting::toml).collect();
            let width = lines
                .iter()
                .map(|line| line.chars().count())
                .filter(|&width| width <= MOST_ALIGNED)
                .max();
            for (line, setting) in lines.iter().zip(settings) {
                let _ = match (&setting.value, width.filter(|_| origins)) {
                    (Shown::Unset, _) | (_, None) => writeln!(text, "{line}"),
                    (Shown::Hidden | Shown::Value(_), Some(width)) => {
                        writeln!(text, "{line:<width$}  # {}", setting.origin)
                    }
                };
            }
        }
        text
    }

    /// Returns one object on one line.
    ///
    /// # Shape
    ///
    /// `settings`: nested objects, `null` for a setting without a value, `"***"` for a secret from a file; with
    /// `origins` also `origins`: the place of each setting with a value, by its path
    pub fn json(&self, origins: bool) -> String {
        let mut root = Map::new();
        let mut came_from = Map::new();
        for table in &self.0 {
            let path = &*table.path;
            for setting in &table.settings {
                if !table.is_item {
                    put(&mut root, path, &setting.name, setting.json());
                }
                if setting.value != Shown::Unset {
                    came_from.insert(setting.path(path), setting.origin.to_string().into());
                }
            }
            if let (true, Some((_, list))) = (table.is_item, path.split_last()) {
                let settings = table.settings.iter();
                let item = settings.map(|it| (it.name.clone(), it.json())).collect();
                push(&mut root, list, Json::Object(item));
            }
        }
        let document = Document {
            settings: root,
            origins: origins.then_some(came_from),
        };
        serde_json::to_string(&document).unwrap_or_default()
    }

    /// Returns the string at this path, if there is one and it may be shown.
    pub fn text(&self, path: &[&str]) -> Option<&str> {
        let (name, table) = path.split_last()?;
        let table = self.0.iter().find(|known| known.path == table)?;
        let setting = table.settings.iter().find(|known| known.name == *name)?;
        match &setting.value {
            Shown::Value(value) => value.as_str(),
            Shown::Unset | Shown::Hidden => None,
        }
    }

    /// Leaves out every other pipeline.
    pub(super) fn keep_pipeline(&mut self, name: &str) {
        self.0.retain(|table| match &*table.path {
            [first, second, ..] if first == "pipelines" => second == name,
            _ => true,
        });
    }

    /// Adds a table that is one item of a list.
    pub(super) fn item(&mut self, path: &[String]) {
        self.0.push(Table {
            path: path.to_owned(),
            is_item: true,
            settings: Vec::new(),
        });
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(super) fn table(&mut self, path: &[String]) -> &mut Vec<Setting> {
        let known = self.0.iter().position(|table| table.path == path);
        let at = known.unwrap_or_else(|| {
            self.0.push(Table {
                path: path.to_owned(),
                is_item: false,
                settings: Vec::new(),
            });
            self.0.len() - 1
        });
        &mut self.0[at].settings
    }

    pub(super) fn set(&mut self, table: &[String], setting: Setting) {
        let settings = self.table(table);
        match settings.iter_mut().find(|known| known.name == setting.name) {
            Some(known) => *known = setting,
            None => settings.push(setting),
        }
    }

    /// Iterates over every setting with its path.
    #[cfg(test)]
    pub(super) fn paths(&self) -> impl Iterator<Item = (Vec<String>, &Shown)> {
        self.0.iter().flat_map(|Table { path, settings, .. }| {
            let path = |name: &String| path.iter().chain([name]).cloned().collect();
            settings
                .iter()
                .map(move |setting| (path(&setting.name), &setting.value))
        })
    }
}

impl Table {
    /// Tells whether every line of it is a comment: its header must be one too, since a table that is written may mean
    /// something. An item of a list is there even so.
    fn is_comment(&self) -> bool {
        let is_value = |it: &Setting| matches!(it.value, Shown::Value(_));
        !self.is_item && !self.settings.iter().any(is_value)
    }

    /// The line above it in TOML.
    fn header(&self) -> String {
        match self.path.split_last() {
            Some((_, list)) if self.is_item => format!("[[{}]]", join(list)),
            _ => format!("[{}]", join(&self.path)),
        }
    }
}

impl Setting {
    fn json(&self) -> Json {
        match &self.value {
            Shown::Unset => Json::Null,
            Shown::Hidden => "***".into(),
            Shown::Value(value) => serde_json::to_value(value).unwrap_or_default(),
        }
    }

    fn path(&self, table: &[String]) -> String {
        join(table.iter().chain([&self.name]))
    }

    fn toml(&self) -> String {
        let name = quoted(&self.name);
        match &self.value {
            Shown::Unset => format!("# {name} is not set"),
            Shown::Hidden => format!("# {name} = \"***\""),
            Shown::Value(value) => format!("{name} = {value}"),
        }
    }
}

/// Returns a path as TOML writes it.
pub(super) fn join<'a>(path: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<_> = path.into_iter().map(|name| quoted(name)).collect();
    names.join(".")
}

/// Returns a key as TOML writes it.
fn quoted(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(is_bare) {
        return name.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in name.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            '"' | '\\' => write!(quoted, "\\{c}"),
            c if c.is_control() => write!(quoted, "\\u{:04X}", u32::from(c)),
            c => write!(quoted, "{c}"),
        };
    }
    quoted + "\""
}

fn put(object: &mut Map<String, Json>, path: &[String], name: &str, value: Json) {
    let Some((first, rest)) = path.split_first() else {
        object.insert(name.to_owned(), value);
        return;
    };
    let inner = object.entry(first.clone()).or_insert_with(|| json!({}));
    if let Json::Object(inner) = inner {
        put(inner, rest, name, value);
    }
}

/// Puts an item at the end of the list at this path.
fn push(object: &mut Map<String, Json>, path: &[String], item: Json) {
    match path {
        [] => {}
        [list] => {
            let list = object.entry(list.clone()).or_insert_with(|| json!([]));
            if let Json::Array(items) = list {
                items.push(item);
            }
        }
        [first, rest @ ..] => {
            let inner = object.entry(first.clone()).or_insert_with(|| json!({}));
            if let Json::Object(inner) = inner {
                push(inner, rest, item);
            }
        }
    }
}

/// The longest line whose comment is aligned; a longer line has its comment at its end.
const MOST_ALIGNED: usize = 72;

#[cfg(test)]
mod tests;
