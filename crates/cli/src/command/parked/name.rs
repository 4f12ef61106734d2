//! Messages by what a person types: a key, or the beginning of an id.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use semel_core::{Key, Parked, ParkedId, Result, Scope};

use super::Search;
use crate::args::value::key;
use crate::command::operate::{Ground, usage};
use crate::output::{self, Go};

/// What was typed; nothing stands for all.
#[derive(Debug, Default)]
pub(crate) struct Names {
    typed: Vec<String>,
    /// Each with its place in `typed`.
    keys: BTreeMap<Key, usize>,
    /// Beginnings of ids.
    prefixes: Vec<(String, usize)>,
    /// Whole ids that somebody has looked up already; of all, only these.
    ids: Option<BTreeSet<ParkedId>>,
}

/// What a name turned out to mean.
#[derive(Default)]
struct Meaning {
    by_key: u64,
    scopes: BTreeSet<Scope>,
    by_id: u64,
}

impl Names {
    /// Keys only.
    pub(crate) fn keys(keys: Vec<Key>) -> Self {
        let typed: Vec<_> = keys.iter().map(|key| key.as_str().to_owned()).collect();
        Self {
            typed,
            keys: keys.into_iter().zip(0..).collect(),
            ..Self::default()
        }
    }

    /// Messages that were looked up already.
    pub(crate) fn ids(ids: BTreeSet<ParkedId>) -> Self {
        Self {
            ids: Some(ids),
            ..Self::default()
        }
    }

    /// Keys or beginnings of ids.
    pub(crate) fn parse(names: &[String]) -> Result<Self> {
        let mut parsed = Self {
            typed: names.to_vec(),
            ..Self::default()
        };
        for (at, name) in names.iter().enumerate() {
            let prefix = Some(name.to_ascii_lowercase()).filter(|text| is_prefix(text));
            match key(name) {
                Ok(key) => drop(parsed.keys.insert(key, at)),
                Err(why) if prefix.is_none() => return Err(usage(format!("{name}: {why}"))),
                Err(_) => {}
            }
            parsed.prefixes.extend(prefix.map(|prefix| (prefix, at)));
        }
        Ok(parsed)
    }

    /// Whether they mean this message.
    pub(super) fn has(&self, message: &Parked) -> bool {
        if let Some(ids) = &self.ids {
            return ids.contains(&message.id());
        }
        if self.typed.is_empty() {
            return true;
        }
        self.by_key(message).is_some() || self.by_id(message).next().is_some()
    }

    fn by_key(&self, message: &Parked) -> Option<usize> {
        self.keys.get(message.key.as_ref()?).copied()
    }

    fn by_id(&self, message: &Parked) -> impl Iterator<Item = usize> {
        let id = (!self.prefixes.is_empty()).then(|| message.id().to_string());
        let prefixes = self.prefixes.iter();
        prefixes.filter_map(move |(prefix, at)| id.as_ref()?.starts_with(prefix).then_some(*at))
    }
}

impl Search {
    /// Finds out what each name means. `Break` after it was told that one means nothing.
    ///
    /// # Errors   `InvalidInput`: a name means several things
    /// # Cost     one pass, where there are names
    pub(crate) async fn look_up(&self, ground: &Ground) -> Result<ControlFlow<(), u64>> {
        if self.names.typed.is_empty() {
            return Ok(ControlFlow::Continue(0));
        }
        let mut meanings: Vec<_> = self
            .names
            .typed
            .iter()
            .map(|_| Meaning::default())
            .collect();
        let mut count = 0;
        self.pages(ground, async |found| {
            for message in found.iter().map(|it| &it.message) {
                count += 1;
                if let Some(at) = self.names.by_key(message) {
                    meanings[at].by_key += 1;
                    // Two are as good as more.
                    if meanings[at].scopes.len() < 2 {
                        meanings[at].scopes.insert(message.scope.clone());
                    }
                }
                for at in self.names.by_id(message) {
                    meanings[at].by_id += 1;
                }
            }
            Ok(Go::Continue(()))
        })
        .await?;
        let mut answer = ControlFlow::Continue(count);
        for (name, meaning) in self.names.typed.iter().zip(&meanings) {
            if !meaning.is_found(name)? {
                output::note(format_args!("{name}: {}", self.nothing()));
                answer = ControlFlow::Break(());
            }
        }
        Ok(answer)
    }

    fn nothing(&self) -> String {
        use semel_worker::replay::Kind;
        let place = self.scope.as_ref().map(Scope::operation);
        let place = place.map_or_else(String::new, |name| format!(" of {name}"));
        match self.kind {
            Kind::DeadLetters => format!("no dead letter{place} has this key"),
            Kind::InDoubt => format!("no message{place} that is kept for a doubt has this key"),
            Kind::Quarantined => {
                format!("no message{place} in quarantine has this key, or an id that begins so")
            }
        }
    }
}

impl Meaning {
    fn is_found(&self, name: &str) -> Result<bool> {
        if self.by_id > 1 {
            let count = self.by_id;
            return Err(usage(format!(
                "{name}: {count} ids begin so; type more of it"
            )));
        }
        if self.by_id > 0 && self.by_key > 0 {
            return Err(usage(format!(
                "{name}: a key, and the beginning of another message's id; type the whole id"
            )));
        }
        if self.scopes.len() > 1 {
            return Err(usage(format!(
                "{name}: a key in several pipelines; name one with --pipeline"
            )));
        }
        Ok(self.by_id + self.by_key > 0)
    }
}

fn is_prefix(text: &str) -> bool {
    (LEAST_DIGITS..=DIGITS).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_hexdigit())
}

/// Digits of an id.
const DIGITS: usize = 32;
/// Fewer would be taken for an id where a key was meant.
const LEAST_DIGITS: usize = 4;
