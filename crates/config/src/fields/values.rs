//! Takes settings by the type of their values, with their defaults.

use std::time::Duration;

use semel_core::select::Selector;
use semel_core::units::{self, duration_text};

use super::Fields;
use crate::node::{Node, Origin, Value};
use crate::refusal::{Refusal, selector};
use crate::show::Shown;
use crate::suggestion::suggestion;

impl<'a> Fields<'a> {
    pub(crate) fn text(&mut self, name: &'static str) -> Option<&'a str> {
        let node = self.node(name)?;
        self.expect(name, node, "a string", Value::as_text)
    }

    pub(crate) fn required_text(&mut self, name: &'static str) -> Option<&'a str> {
        if !self.is_written(name) {
            self.missing(name);
        }
        self.text(name)
    }

    /// Takes every value, which must be a string, read as `T`.
    pub(crate) fn text_entries<T, E: Into<Refusal>>(
        &self,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<(String, T)> {
        let read = self.table.iter().map(|(name, node)| {
            let text = self.expect(name, node, "a string", Value::as_text)?;
            let value = parse(text).map_err(|refusal| self.refuse(name, node, refusal));
            Some((name.clone(), value.ok()?))
        });
        read.flatten().collect()
    }

    pub(crate) fn boolean_or(&mut self, name: &'static str, default: bool) -> bool {
        let read = self.node(name).and_then(|node| {
            self.expect(name, node, "true or false", |value| match value {
                Value::Boolean(boolean) => Some(*boolean),
                _ => None,
            })
        });
        self.or_default(name, read, default, |boolean| (*boolean).into())
    }

    /// Takes a whole number of at least one.
    pub(crate) fn count_or(&mut self, name: &'static str, most: u32, default: u32) -> u32 {
        let read = self.count(name, 1, most);
        self.or_default(name, read, default, |count| i64::from(*count).into())
    }

    /// Takes the same, or zero.
    pub(crate) fn count_or_none_or(&mut self, name: &'static str, most: u32, default: u32) -> u32 {
        let read = self.count(name, 0, most);
        self.or_default(name, read, default, |count| i64::from(*count).into())
    }

    fn count(&mut self, name: &'static str, least: u32, most: u32) -> Option<u32> {
        let node = self.node(name)?;
        let number = self.expect(name, node, "an integer", |value| match value {
            Value::Integer(number) => Some(*number),
            _ => None,
        })?;
        let count = u32::try_from(number)
            .ok()
            .filter(|count| (least..=most).contains(count));
        if count.is_none() {
            self.fault(
                name,
                node,
                format!("must be from {least} to {most}, not {number}"),
            );
        }
        count
    }

    pub(crate) fn duration(&mut self, name: &'static str) -> Option<Duration> {
        self.parsed_with(name, units::duration)
    }

    /// Takes a duration, or the name of a usual window.
    pub(crate) fn window(&mut self, name: &'static str) -> Option<Duration> {
        self.parsed_with(name, units::window)
    }

    pub(crate) fn window_or(&mut self, name: &'static str, default: Duration) -> Duration {
        let read = self.window(name);
        self.or_default(name, read, default, |window| duration_text(*window).into())
    }

    pub(crate) fn duration_or(&mut self, name: &'static str, default: Duration) -> Duration {
        let read = self.duration(name);
        self.or_default(name, read, default, |duration| {
            duration_text(*duration).into()
        })
    }

    /// Takes a duration that is longer than zero.
    pub(crate) fn positive_or(&mut self, name: &'static str, default: Duration) -> Duration {
        let read = self.duration_or(name, default);
        if let Some(node) = self.node(name)
            && read.is_zero()
        {
            self.fault(name, node, "must be longer than zero");
        }
        read
    }

    pub(crate) fn size_bytes_or(&mut self, name: &'static str, default: u64) -> u64 {
        let read = self.parsed_with(name, units::size_bytes);
        self.or_default(name, read, default, |bytes| size_text(*bytes).into())
    }

    pub(crate) fn selector(&mut self, name: &'static str) -> Option<Selector> {
        self.parsed_with(name, selector)
    }

    pub(crate) fn parsed_with<T, E: Into<Refusal>>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(name)?;
        let node = self.node(name)?;
        parse(text)
            .map_err(|refusal| self.refuse(name, node, refusal))
            .ok()
    }

    /// Reads the file with the secret that `stands_for` would give.
    pub(crate) fn secret_file<T, E: Into<Refusal>>(
        &mut self,
        name: &'static str,
        stands_for: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let (file, secret) = self.file_text(name)?;
        let node = self.node(name)?;
        if secret.trim().is_empty() {
            let message = format!("`{file}` is empty; it holds the {stands_for} and nothing else");
            self.fault(name, node, message);
            return None;
        }
        if !self.is_written(stands_for) {
            self.known.insert(stands_for);
            let origin = Origin::Named(file.into());
            self.found
                .set(&self.path, stands_for, Shown::Hidden, origin);
        }
        parse(secret.trim())
            .map_err(|refusal| self.refuse(name, node, refusal))
            .ok()
    }

    /// Reads the file that holds secrets, one a line.
    pub(crate) fn secret_lines<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let (file, text) = self.file_text(name)?;
        let node = self.node(name)?;
        parse(&text)
            .map_err(|why| self.fault(name, node, format!("`{file}` {why}")))
            .ok()
    }

    /// Reads the text of a file; returns its path, too.
    #[expect(
        clippy::disallowed_methods,
        reason = "only the settings say where secrets are"
    )]
    fn file_text(&mut self, name: &'static str) -> Option<(String, String)> {
        let file = self.path(name)?;
        let node = self.node(name)?;
        let shown = file.display().to_string();
        match std::fs::read_to_string(&file) {
            Ok(text) => Some((shown, text)),
            Err(error) => {
                self.fault(name, node, format!("cannot read `{shown}`: {error}"));
                None
            }
        }
    }

    /// Takes one string or a list of them.
    pub(crate) fn one_or_many<T, E: Into<Refusal>>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
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
            match parse(text) {
                Ok(value) => read.push(value),
                Err(refusal) => {
                    self.refuse(name, item, refusal);
                    return None;
                }
            }
        }
        Some(read)
    }

    /// Takes words, by default none.
    pub(crate) fn words<T, E: Into<Refusal>>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<T> {
        self.default(name, toml::value::Array::new());
        let written = self.node(name).map(|node| &node.value);
        match written {
            Some(Value::List(items)) if items.is_empty() => Vec::new(),
            _ => self.one_or_many(name, parse).unwrap_or_default(),
        }
    }

    /// Takes one of a few words, of which the first is the default.
    pub(crate) fn choice_or<T: Copy>(
        &mut self,
        name: &'static str,
        default: (&str, T),
        others: &[(&str, T)],
    ) -> T {
        self.choice(name, default, others).unwrap_or(default.1)
    }

    /// Takes the same; returns nothing for another word.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        default: (&str, T),
        others: &[(&str, T)],
    ) -> Option<T> {
        let Some(node) = self.node(name) else {
            self.found.default_to(&self.path, name, default.0.into());
            return Some(default.1);
        };
        let text = self.text(name)?;
        let words = || std::iter::once(&default).chain(others);
        if let Some(&(_, choice)) = words().find(|(word, _)| *word == text) {
            return Some(choice);
        }
        let words: Vec<_> = words().map(|(word, _)| *word).collect();
        let message = format!("`{text}` is unknown; {}", suggestion(text, &words));
        self.fault(name, node, message);
        None
    }

    fn or_default<T>(
        &mut self,
        name: &'static str,
        read: Option<T>,
        default: T,
        write: impl FnOnce(&T) -> toml::Value,
    ) -> T {
        self.default(name, write(&default));
        read.unwrap_or(default)
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

/// Returns a size in the largest unit that keeps it whole.
fn size_text(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fits = |(unit, _): &(u64, &str)| bytes > 0 && bytes.is_multiple_of(*unit);
    let (unit, name) = units.into_iter().find(fits).unwrap_or((1, "B"));
    format!("{}{name}", bytes / unit)
}
