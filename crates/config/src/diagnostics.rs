//! The results of reading a configuration: every fault, and every setting that was looked for, with its value
//! and the origin of that value.

use std::cell::RefCell;

use semel_core::Code;

use super::Fault;
use super::node::{Node, Origin, Value};
use super::secret::masked;
use super::show::{Effective, Setting, Shown};

/// Faults and settings, in the order in which they were met.
#[derive(Debug, Default)]
pub(super) struct Diagnostics {
    faults: RefCell<Vec<(Origin, Fault)>>,
    effective: RefCell<Effective>,
}

impl Diagnostics {
    pub(super) fn fault(
        &self,
        origin: &Origin,
        path: &str,
        code: Code,
        message: impl Into<String>,
    ) {
        let fault = Fault {
            origin: origin.to_string(),
            path: path.to_owned(),
            message: message.into(),
            code,
        };
        self.faults.borrow_mut().push((origin.clone(), fault));
    }

    /// Adds a table that is read.
    pub(super) fn table(&self, path: &[String]) {
        self.effective.borrow_mut().table(path);
    }

    /// Adds a table that is one item of a list.
    pub(super) fn item(&self, path: &[String]) {
        self.effective.borrow_mut().item(path);
    }

    /// Takes over what another collection found, but for faults that are known: the same message about the same place.
    pub(super) fn take_over(&self, other: Self) {
        self.effective
            .borrow_mut()
            .append(other.effective.into_inner());
        let mut faults = self.faults.borrow_mut();
        for (origin, fault) in other.faults.into_inner() {
            let is_it =
                |(at, known): &(Origin, Fault)| *at == origin && known.message == fault.message;
            if !faults.iter().any(is_it) {
                faults.push((origin, fault));
            }
        }
    }

    /// Adds a setting that is read. A table has no value of its own.
    pub(super) fn setting(&self, table: &[String], name: &str, node: Option<&Node>) {
        let (value, origin) = match node {
            None => (Shown::Unset, Origin::Default),
            Some(Node { value, origin }) => match shown(name, value) {
                Some(value) => (Shown::Value(value), origin.clone()),
                None => return,
            },
        };
        self.set(table, name, value, origin);
    }

    /// Sets the default of a setting that was not written.
    pub(super) fn default_to(&self, table: &[String], name: &str, value: toml::Value) {
        self.set(table, name, Shown::Value(value), Origin::Default);
    }

    pub(super) fn set(&self, table: &[String], name: &str, value: Shown, origin: Origin) {
        let setting = Setting {
            name: name.to_owned(),
            value,
            origin,
        };
        self.effective.borrow_mut().set(table, setting);
    }

    /// Returns every setting, and every fault in the order in which they are written: line by line, then the
    /// environment and the flags.
    pub(super) fn into_parts(self) -> (Effective, Vec<Fault>) {
        let mut faults = self.faults.into_inner();
        faults.sort_by_key(|(origin, _)| match origin {
            Origin::File { line, .. } => *line,
            Origin::Named(_) | Origin::Default => usize::MAX,
        });
        let faults = faults.into_iter().map(|(_, fault)| fault).collect();
        (self.effective.into_inner(), faults)
    }
}

/// Returns a value as it may be shown; nothing for a table. The name of the setting decides whether it is a
/// secret, so that no reader can forget it.
fn shown(name: &str, value: &Value) -> Option<toml::Value> {
    Some(match value {
        Value::Text(url) if matches!(name, "url" | "otlp" | "upstream" | "store") => {
            masked(url).into()
        }
        // An argument may be a URL, or end with one.
        Value::Text(text) if name == "command" && text.contains("://") => masked(text).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Boolean(boolean) => (*boolean).into(),
        Value::List(items) => items
            .iter()
            .filter_map(|item| shown(name, &item.value))
            .collect::<Vec<_>>()
            .into(),
        Value::Table(_) | Value::Other(_) => return None,
    })
}
