//! The written values, each with its place: the file, and the environment over it.

use std::ffi::OsString;

use semel_core::Code;
use toml::de::{DeTable, DeValue};

use super::Fault;
use super::diagnostics::Diagnostics;
use super::node::{Node, Origin, Table, Value};

/// Reads a configuration file's text.
pub(super) fn read(name: &str, text: &str) -> Result<Node, Fault> {
    let lines = Lines::of(name, text);
    let table = DeTable::parse(text).map_err(|error| Fault {
        origin: lines
            .origin(error.span().map_or(0, |span| span.start))
            .to_string(),
        path: String::new(),
        message: named(
            error.message(),
            error.span().and_then(|span| text.get(span)),
        ),
        code: Code::ConfigSyntax,
    })?;
    let origin = lines.origin(table.span().start);
    Ok(Node {
        value: Value::Table(lines.table(table.get_ref())),
        origin,
    })
}

/// Returns the parser's message and, for a key that occurs twice, the key. Leaves values out: they may be
/// secrets.
fn named(message: &str, at: Option<&str>) -> String {
    match at {
        Some(key) if message == "duplicate key" => format!("`{}` is there twice", key.trim()),
        Some(_) | None => message.to_owned(),
    }
}

/// Lays the `SEMEL__A__B` variables over the file. A variable is read as a TOML value if it is one, else as a
/// string. Returns the variables that only look like ours.
pub(super) fn overlay(
    root: &mut Node,
    variables: impl Iterator<Item = (OsString, OsString)>,
    found: &Diagnostics,
) -> Vec<String> {
    let (mut strays, mut named) = (Vec::new(), Vec::new());
    for (name, text) in variables {
        // Only our own variables need to be Unicode.
        let name = name.to_string_lossy();
        let Some(path) = name.strip_prefix(PREFIX) else {
            strays.extend(name.starts_with("SEMEL_").then(|| name.into_owned()));
            continue;
        };
        let path: Vec<String> = path.split("__").map(str::to_ascii_lowercase).collect();
        let origin = Origin::Named(name.as_ref().into());
        let Ok(text) = text.into_string() else {
            found.fault(
                &origin,
                &path.join("."),
                Code::InvalidConfig,
                "is not Unicode text",
            );
            continue;
        };
        let value = inline(&text, &origin);
        named.extend(of_store(&path));
        insert(root, &path, Node { value, origin });
    }
    // The store of the environment overrides everything that the file says about its place.
    if let [only] = named[..] {
        let other = URLS.into_iter().find(|name| *name != only);
        remove_of_store(root, other.unwrap_or_default());
    }
    strays
}

/// Tells whether the store is named.
pub(super) fn names_store(root: &Node) -> bool {
    let table = |node: &Node, name: &str| match &node.value {
        Value::Table(table) => table.get(name).cloned(),
        Value::Text(_)
        | Value::Integer(_)
        | Value::Boolean(_)
        | Value::List(_)
        | Value::Other(_) => None,
    };
    let store = table(root, "store");
    store.is_some_and(|store| URLS.iter().any(|name| table(&store, name).is_some()))
}

/// Returns the setting at this path, if it is one of those that name the store.
fn of_store(path: &[String]) -> Option<&'static str> {
    match path {
        [store, name] if store == "store" => URLS.into_iter().find(|known| known == name),
        _ => None,
    }
}

fn remove_of_store(root: &mut Node, name: &str) {
    if let Value::Table(root) = &mut root.value
        && let Some(Value::Table(store)) = root.get_mut("store").map(|store| &mut store.value)
    {
        store.remove(name);
    }
}

/// Lets a flag's value override `store.url` and the other settings that name the store.
pub(super) fn put_store(root: &mut Node, url: &str) {
    let new = Node {
        value: Value::Text(url.to_owned()),
        origin: Origin::Named("--store".into()),
    };
    insert(root, &["store".to_owned(), "url".to_owned()], new);
    remove_of_store(root, "url_file");
}

fn inline(text: &str, origin: &Origin) -> Value {
    let Ok(value) = DeValue::parse(text) else {
        return Value::Text(text.to_owned());
    };
    let at = |_: usize| origin.clone();
    match convert(value.get_ref(), &at) {
        // A bare word that TOML reads as an unsupported value is text.
        Value::Other(_) => Value::Text(text.to_owned()),
        value => value,
    }
}

fn insert(node: &mut Node, path: &[String], new: Node) {
    let [first, rest @ ..] = path else {
        *node = new;
        return;
    };
    if !matches!(node.value, Value::Table(_)) {
        node.value = Value::Table(Table::new());
    }
    let Value::Table(table) = &mut node.value else {
        return;
    };
    let empty = || Node {
        value: Value::Table(Table::new()),
        origin: new.origin.clone(),
    };
    // Variables are in capitals; a name that people chose may not be.
    let written = table.keys().find(|key| key.eq_ignore_ascii_case(first));
    let name = written.unwrap_or(first).clone();
    insert(table.entry(name).or_insert_with(empty), rest, new.clone());
}

/// Finds the line of a byte offset.
struct Lines {
    name: std::sync::Arc<str>,
    starts: Vec<usize>,
}

impl Lines {
    fn of(name: &str, text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        let starts = std::iter::once(0)
            .chain(ends.map(|(index, _)| index + 1))
            .collect();
        Self {
            name: name.into(),
            starts,
        }
    }

    fn origin(&self, offset: usize) -> Origin {
        let line = self.starts.partition_point(|&start| start <= offset);
        Origin::File {
            name: self.name.clone(),
            line,
        }
    }

    fn table(&self, table: &DeTable<'_>) -> Table {
        convert_table(table, &|offset| self.origin(offset))
    }
}

fn convert_table(table: &DeTable<'_>, origin: &impl Fn(usize) -> Origin) -> Table {
    let entries = table.iter().map(|(key, value)| {
        let node = Node {
            value: convert(value.get_ref(), origin),
            origin: origin(key.span().start),
        };
        (key.get_ref().clone().into_owned(), node)
    });
    entries.collect()
}

fn convert(value: &DeValue<'_>, origin: &impl Fn(usize) -> Origin) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Integer(integer) => {
            let digits = integer.as_str().replace('_', "");
            i64::from_str_radix(&digits, integer.radix()).map_or(
                Value::Other("an integer that is out of range"),
                Value::Integer,
            )
        }
        DeValue::Boolean(boolean) => Value::Boolean(*boolean),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| Node {
                value: convert(item.get_ref(), origin),
                origin: origin(item.span().start),
            });
            Value::List(items.collect())
        }
        DeValue::Table(table) => Value::Table(convert_table(table, origin)),
        DeValue::Float(_) => Value::Other("a float"),
        DeValue::Datetime(_) => Value::Other("a date"),
    }
}

/// The settings that name the store's place.
const URLS: [&str; 2] = ["url", "url_file"];
/// The prefix of every variable of ours.
const PREFIX: &str = "SEMEL__";
