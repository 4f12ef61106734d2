//! Taking known settings out of a table, one by one; whatever is left is unknown.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use semel_core::{Code, units};

use super::Fault;
use super::tree::{Node, Origin, Table, Value};

/// Every fault that was found.
#[derive(Debug, Default)]
pub(super) struct Faults(RefCell<Vec<(Origin, Fault)>>);

impl Faults {
    pub(super) fn push(&self, origin: &Origin, path: &str, code: Code, message: impl Into<String>) {
        let fault = Fault {
            origin: origin.to_string(),
            path: path.to_owned(),
            message: message.into(),
            code,
        };
        self.0.borrow_mut().push((origin.clone(), fault));
    }

    /// All of them, in the order in which they are written: line by line, then the environment and
    /// the flags.
    pub(super) fn into_vec(self) -> Vec<Fault> {
        let mut faults = self.0.into_inner();
        faults.sort_by_key(|(origin, _)| match origin {
            Origin::File { line, .. } => *line,
            Origin::Environment(_) | Origin::Default => usize::MAX,
        });
        faults.into_iter().map(|(_, fault)| fault).collect()
    }
}

/// One table, of which settings are taken by name.
pub(super) struct Fields<'a> {
    pub(super) path: String,
    pub(super) origin: &'a Origin,
    table: &'a Table,
    known: BTreeSet<&'static str>,
    pub(super) faults: &'a Faults,
}

impl<'a> Fields<'a> {
    /// The settings of `node`, if it is a table.
    pub(super) fn of(node: &'a Node, path: impl Into<String>, faults: &'a Faults) -> Option<Self> {
        let path = path.into();
        let Value::Table(table) = &node.value else {
            let message = format!("must be a table, not {}", node.value.noun());
            faults.push(&node.origin, &path, Code::InvalidConfig, message);
            return None;
        };
        Some(Self {
            path,
            origin: &node.origin,
            table,
            known: BTreeSet::new(),
            faults,
        })
    }

    /// The node named `name`, if it was written.
    pub(super) fn node(&mut self, name: &'static str) -> Option<&'a Node> {
        self.known.insert(name);
        self.table.get(name)
    }

    /// Every entry: for tables whose keys are names that people choose.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a String, &'a Node)> + use<'a> {
        self.table.iter()
    }

    pub(super) fn sub(&mut self, name: &'static str) -> Option<Self> {
        let node = self.node(name)?;
        Fields::of(node, self.path_of(name), self.faults)
    }

    pub(super) fn text(&mut self, name: &'static str) -> Option<&'a str> {
        let node = self.node(name)?;
        self.expect(name, node, "a string", |value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    pub(super) fn required_text(&mut self, name: &'static str) -> Option<&'a str> {
        if !self.table.contains_key(name) {
            self.known.insert(name);
            self.missing(name);
            return None;
        }
        self.text(name)
    }

    pub(super) fn missing(&self, name: &str) {
        let message = "is missing";
        self.faults.push(
            self.origin,
            &self.path_of(name),
            Code::InvalidConfig,
            message,
        );
    }

    pub(super) fn boolean(&mut self, name: &'static str) -> Option<bool> {
        let node = self.node(name)?;
        self.expect(name, node, "true or false", |value| match value {
            Value::Boolean(boolean) => Some(*boolean),
            _ => None,
        })
    }

    /// A whole number of at least one.
    pub(super) fn count(&mut self, name: &'static str, most: i64) -> Option<usize> {
        let node = self.node(name)?;
        let number = self.expect(name, node, "an integer", |value| match value {
            Value::Integer(number) => Some(*number),
            _ => None,
        })?;
        if number < 1 || number > most {
            self.fault(
                name,
                node,
                format!("must be from 1 to {most}, not {number}"),
            );
            return None;
        }
        usize::try_from(number).ok()
    }

    pub(super) fn duration(&mut self, name: &'static str) -> Option<Duration> {
        self.parsed_with(name, units::duration)
    }

    pub(super) fn size_bytes(&mut self, name: &'static str) -> Option<u64> {
        self.parsed_with(name, units::size_bytes)
    }

    /// A string that `T` can read.
    pub(super) fn parsed<T: FromStr<Err: Display>>(&mut self, name: &'static str) -> Option<T> {
        self.parsed_with(name, |text| {
            text.parse::<T>().map_err(|error| error.to_string())
        })
    }

    pub(super) fn parsed_with<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(name)?;
        let node = self.node(name)?;
        parse(text)
            .map_err(|message| self.fault(name, node, message))
            .ok()
    }

    /// One string or a list of them, each read as `T`.
    pub(super) fn one_or_many<T: FromStr<Err: Display>>(
        &mut self,
        name: &'static str,
    ) -> Option<Vec<T>> {
        let node = self.node(name)?;
        let items = match &node.value {
            Value::List(items) => items.iter().collect(),
            _ => vec![node],
        };
        if items.is_empty() {
            self.fault(name, node, "must not be empty");
            return None;
        }
        let mut read = Vec::with_capacity(items.len());
        for item in items {
            let Value::Text(text) = &item.value else {
                let noun = item.value.noun();
                self.fault(
                    name,
                    item,
                    format!("must be a string or a list of them, not {noun}"),
                );
                return None;
            };
            match text.parse() {
                Ok(value) => read.push(value),
                Err(error) => {
                    self.fault(name, item, format!("{error}"));
                    return None;
                }
            }
        }
        Some(read)
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(name)?;
        if let Some(&(_, choice)) = choices.iter().find(|(word, _)| *word == text) {
            return Some(choice);
        }
        let node = self.node(name)?;
        let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
        let message = format!("`{text}` is unknown; {}", suggestion(text, &words));
        self.fault(name, node, message);
        None
    }

    pub(super) fn fault(&self, name: &str, node: &Node, message: impl Into<String>) {
        self.faults.push(
            &node.origin,
            &self.path_of(name),
            Code::InvalidConfig,
            message,
        );
    }

    /// A fault of what lies deeper, at its own line.
    pub(super) fn fault_at(&self, below: &[&str], message: impl Into<String>) {
        let mut path = self.path.clone();
        let mut origin = self.origin;
        let mut table = Some(self.table);
        for name in below {
            path = format!("{path}.{name}");
            let node = table.and_then(|table| table.get(*name));
            table = None;
            if let Some(node) = node {
                origin = &node.origin;
                if let Value::Table(within) = &node.value {
                    table = Some(within);
                }
            }
        }
        self.faults
            .push(origin, &path, Code::InvalidConfig, message);
    }

    /// A value of the design that this release does not have.
    pub(super) fn unsupported(&self, name: &str, node: &Node, message: impl Into<String>) {
        self.faults.push(
            &node.origin,
            &self.path_of(name),
            Code::Unsupported,
            message,
        );
    }

    /// A setting of the design that this release does not have.
    pub(super) fn not_yet(&mut self, name: &'static str) {
        if let Some(node) = self.node(name) {
            let message = "is not supported by this release; remove it";
            self.faults.push(
                &node.origin,
                &self.path_of(name),
                Code::Unsupported,
                message,
            );
        }
    }

    /// Reports what nobody took.
    pub(super) fn finish(self) {
        for (name, node) in self.table {
            if !self.known.contains(name.as_str()) {
                let known: Vec<_> = self.known.iter().copied().collect();
                let message = format!("unknown setting; {}", suggestion(name, &known));
                let path = self.path_of(name);
                self.faults
                    .push(&node.origin, &path, Code::ConfigUnknownKey, message);
            }
        }
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    fn expect<T>(
        &self,
        name: &str,
        node: &'a Node,
        noun: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let value = read(&node.value);
        if value.is_none() {
            self.fault(
                name,
                node,
                format!("must be {noun}, not {}", node.value.noun()),
            );
        }
        value
    }
}

/// "did you mean …" where something is near, else what there is.
pub(crate) fn suggestion(text: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|word| (distance(text, word), *word)).min();
    match nearest {
        // A word of which nothing is left is no neighbour.
        Some((distance, word)) if distance <= 2.max(text.len() / 3) && distance < word.len() => {
            format!("did you mean `{word}`?")
        }
        Some(_) | None => format!("known are {}", known.join(", ")),
    }
}

/// Levenshtein distance in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_finds_its_neighbour() {
        assert_eq!(
            suggestion("fingerprnt", &["fingerprint", "key"]),
            "did you mean `fingerprint`?"
        );
        assert_eq!(
            suggestion("zzz", &["fingerprint", "key"]),
            "known are fingerprint, key"
        );
        assert_eq!(suggestion("d", &["a", "b"]), "known are a, b");
    }
}
