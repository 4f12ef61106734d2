//! Takes known settings out of a table, one by one; the rest is unknown.

mod values;

use std::collections::BTreeSet;

use semel_core::Code;

use super::diagnostics::Diagnostics;
use super::node::{EMPTY, Node, Origin, Table, Value};
use super::refusal::Refusal;
use super::show::{Shown, join};
use super::suggestion::suggestion;

/// One table, from which settings are taken by name. `config show` shows every setting that is taken.
pub(super) struct Fields<'a> {
    pub(super) path: Vec<String>,
    pub(super) origin: &'a Origin,
    table: &'a Table,
    known: BTreeSet<&'static str>,
    pub(super) found: &'a Diagnostics,
}

impl<'a> Fields<'a> {
    /// Takes the settings of `node`, if it is a table.
    pub(super) fn of(node: &'a Node, path: Vec<String>, found: &'a Diagnostics) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            let message = format!("must be a table, not {}", node.value.noun());
            found.fault(&node.origin, &join(&path), Code::InvalidConfig, message);
            return None;
        };
        found.table(&path);
        Some(Self {
            path,
            origin: &node.origin,
            table,
            known: BTreeSet::new(),
            found,
        })
    }

    /// Takes the node of a setting, if it was written.
    pub(super) fn node(&mut self, name: &'static str) -> Option<&'a Node> {
        let node = self.table.get(name);
        if self.known.insert(name) {
            self.found.setting(&self.path, name, node);
        }
        node
    }

    /// Tells whether it was written. Does not make it a setting that is shown.
    pub(super) fn is_written(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    /// Tells whether nothing is written in this table.
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Iterates over every entry: for tables whose keys are names that people choose.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a String, &'a Node)> + use<'a> {
        self.table.iter()
    }

    /// Takes an inner table.
    pub(super) fn sub(&mut self, name: &'static str) -> Option<Self> {
        self.known.insert(name);
        let node = self.table.get(name)?;
        Fields::of(node, self.below(name), self.found)
    }

    /// Takes a list of tables, which need not be written.
    pub(super) fn tables(&mut self, name: &'static str) -> &'a [Node] {
        let Some(node) = self.table.get(name) else {
            self.node(name);
            return &[];
        };
        self.known.insert(name);
        if let Value::List(items) = &node.value {
            return items;
        }
        let noun = node.value.noun();
        self.fault(name, node, format!("must be a list of tables, not {noun}"));
        &[]
    }

    /// Takes an inner table that need not be written: without it, every setting has its default.
    pub(super) fn optional_sub(&mut self, name: &'static str) -> Option<Self> {
        if self.is_written(name) {
            return self.sub(name);
        }
        self.known.insert(name);
        Fields::of(&EMPTY, self.below(name), self.found)
    }

    /// Takes an inner table that must be there.
    pub(super) fn required_sub(&mut self, name: &'static str) -> Option<Self> {
        if !self.is_written(name) {
            self.missing(name);
        }
        self.sub(name)
    }

    pub(super) fn missing(&self, name: &str) {
        let message = "is missing";
        self.found.fault(
            self.origin,
            &self.path_of(name),
            Code::InvalidConfig,
            message,
        );
    }

    /// Sets the default of a setting that was not written.
    pub(super) fn default(&mut self, name: &'static str, value: impl Into<toml::Value>) {
        if self.node(name).is_none() {
            self.found.default_to(&self.path, name, value.into());
        }
    }

    /// Shows the value of an entry whose name is chosen by people.
    pub(super) fn show_entry(&self, name: &str, node: Option<&Node>, value: String) {
        let origin = node.map_or(Origin::Default, |node| node.origin.clone());
        let value = Shown::Value(value.into());
        self.found.set(&self.path, name, value, origin);
    }

    /// Sets a default that another setting gives.
    pub(super) fn default_from(&mut self, name: &'static str, value: String, setting: &str) {
        if self.node(name).is_none() {
            let origin = Origin::Named(setting.into());
            let value = Shown::Value(value.into());
            self.found.set(&self.path, name, value, origin);
        }
    }

    /// Takes settings that cannot be judged.
    pub(super) fn ignore(&mut self, names: &[&'static str]) {
        self.known.extend(names);
    }

    /// Refuses a setting that has no place here, with the reason.
    pub(super) fn reject(&mut self, name: &'static str, message: impl Into<String>) {
        self.known.insert(name);
        if let Some(node) = self.table.get(name) {
            self.fault(name, node, message);
        }
    }

    pub(super) fn fault(&self, name: &str, node: &Node, message: impl Into<String>) {
        self.refuse(name, node, message.into());
    }

    fn refuse(&self, name: &str, node: &Node, refusal: impl Into<Refusal>) {
        let Refusal { code, message } = refusal.into();
        self.found
            .fault(&node.origin, &self.path_of(name), code, message);
    }

    /// Reports a fault of a deeper setting, at its own line.
    pub(super) fn fault_at(&self, below: &[&str], message: impl Into<String>) {
        self.refuse_at(below, message.into());
    }

    /// Reports the same with a code of its own.
    pub(super) fn refuse_at(&self, below: &[&str], refusal: impl Into<Refusal>) {
        let mut origin = self.origin;
        let mut table = Some(self.table);
        for name in below {
            let node = table.and_then(|table| table.get(*name));
            table = None;
            if let Some(node) = node {
                origin = &node.origin;
                if let Value::Table(within) = &node.value {
                    table = Some(within);
                }
            }
        }
        let mut path = self.path.clone();
        path.extend(below.iter().copied().map(str::to_owned));
        let Refusal { code, message } = refusal.into();
        self.found.fault(origin, &join(&path), code, message);
    }

    /// Reports a value of the design that this release does not support.
    pub(super) fn unsupported(&self, name: &str, node: &Node, message: impl Into<String>) {
        self.refuse(name, node, Refusal::unsupported(message));
    }

    /// Reports a setting of the design that this release does not support.
    pub(super) fn not_yet(&mut self, name: &'static str) {
        self.known.insert(name);
        if let Some(node) = self.table.get(name) {
            self.unsupported(name, node, "is not supported by this release; remove it");
        }
    }

    /// Tells whether `name` is the name of a setting here.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.known.contains(name)
    }

    /// Reports every setting that was not taken.
    pub(super) fn finish(self) {
        for (name, node) in self.table {
            if !self.known.contains(name.as_str()) {
                let message = format!("unknown setting; {}", self.hint(name, &node.origin));
                let path = self.path_of(name);
                self.found
                    .fault(&node.origin, &path, Code::ConfigUnknownKey, message);
            }
        }
    }

    fn hint(&self, name: &str, origin: &Origin) -> String {
        if let Origin::Named(variable) = origin {
            let parts = self.known.iter().find_map(|known| {
                let rest = name.strip_prefix(known)?.strip_prefix('_')?;
                let kept = variable.len().checked_sub(rest.len() + 1)?;
                Some((variable.get(..kept)?, variable.get(kept + 1..)?))
            });
            if let Some((table, rest)) = parts {
                return format!("did you mean `{table}__{rest}`?");
            }
        }
        let known: Vec<_> = self.known.iter().copied().collect();
        suggestion(name, &known)
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        join(&self.below(name))
    }

    pub(super) fn below(&self, name: &str) -> Vec<String> {
        let mut path = self.path.clone();
        path.push(name.to_owned());
        path
    }
}
