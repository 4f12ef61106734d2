//! Finds messages by what a person types: a key, or the beginning of an id.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use semel_core::{AnyStore, Key, Parked, ParkedId, Result, Scope};

use super::Search;

/// The names that were typed; no names mean all messages.
#[derive(Clone, Debug, Default)]
pub struct Names {
    typed: Vec<String>,
    /// Each key with its place in `typed`.
    keys: BTreeMap<Key, usize>,
    /// Beginnings of ids, each with its place.
    prefixes: Vec<(String, usize)>,
    /// Full ids that were looked up already; only these of all messages.
    ids: Option<BTreeSet<ParkedId>>,
}

/// A word that is neither a key nor the beginning of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAName<'a>(pub &'a str);

/// The result of a look-up of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookUp {
    /// The number of messages that are meant.
    pub count: u64,
    /// The meaning of each name, in the order in which they were typed.
    pub names: Vec<(String, Meaning)>,
    /// The messages that are meant; nothing where there are no names, and all are.
    pub ids: Option<BTreeSet<ParkedId>>,
    /// The tenants and pipelines of the messages that keys mean.
    pub scopes: BTreeSet<Scope>,
}

/// The meaning of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The name means one message.
    One,
    /// The name means no existing message.
    Nothing,
    /// The name is the beginning of this many ids.
    ManyIds(u64),
    /// The name is a key, and the beginning of another message's id.
    KeyAndId,
    /// The name is a key in several pipelines, or of several tenants; the first of them.
    ManyScopes(Vec<Scope>),
}

#[derive(Default)]
struct Count {
    by_key: u64,
    scopes: BTreeSet<Scope>,
    by_id: u64,
}

impl Names {
    /// Takes names that are keys only.
    pub fn keys(keys: Vec<Key>) -> Self {
        let typed: Vec<_> = keys.iter().map(|key| key.as_str().to_owned()).collect();
        Self {
            typed,
            keys: keys.into_iter().zip(0..).collect(),
            ..Self::default()
        }
    }

    /// Takes messages that were looked up already.
    pub fn ids(ids: BTreeSet<ParkedId>) -> Self {
        Self {
            ids: Some(ids),
            ..Self::default()
        }
    }

    /// Reads names that are keys or beginnings of ids.
    ///
    /// # Errors
    ///
    /// The first word that is neither
    pub fn parse(names: &[String]) -> Result<Self, NotAName<'_>> {
        let mut parsed = Self {
            typed: names.to_vec(),
            ..Self::default()
        };
        for (at, name) in names.iter().enumerate() {
            let prefix = Some(name.to_ascii_lowercase()).filter(|text| is_prefix(text));
            match Key::parse(name) {
                Ok(key) => drop(parsed.keys.insert(key, at)),
                Err(_) if prefix.is_none() => return Err(NotAName(name)),
                Err(_) => {}
            }
            parsed.prefixes.extend(prefix.map(|prefix| (prefix, at)));
        }
        Ok(parsed)
    }

    /// Tells whether the names mean this message.
    pub fn has(&self, message: &Parked) -> bool {
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
    /// Returns the search for these messages alone: whatever else comes under the same names is not meant.
    #[must_use]
    pub fn only(&self, ids: BTreeSet<ParkedId>) -> Self {
        Self {
            names: Arc::new(Names::ids(ids)),
            ..self.clone()
        }
    }

    /// Finds the meaning of each name.
    ///
    /// # Cost
    ///
    /// One pass, where there are names.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn look_up(&self, store: &AnyStore) -> Result<LookUp> {
        let typed = &self.names.typed;
        let mut counts: Vec<_> = typed.iter().map(|_| Count::default()).collect();
        let (mut count, mut ids) = (0, BTreeSet::new());
        if !typed.is_empty() {
            let mut groups = self.groups();
            while let Some(found) = groups.next(store).await? {
                for message in found.iter().map(|it| &it.message) {
                    count += 1;
                    ids.insert(message.id());
                    if let Some(at) = self.names.by_key(message) {
                        counts[at].by_key += 1;
                        if counts[at].scopes.len() < SCOPES {
                            counts[at].scopes.insert(message.scope.clone());
                        }
                    }
                    for at in self.names.by_id(message) {
                        counts[at].by_id += 1;
                    }
                }
            }
        }
        let names = typed.iter().cloned();
        let names = names.zip(counts.iter().map(Count::meaning)).collect();
        Ok(LookUp {
            count,
            names,
            ids: (!typed.is_empty()).then_some(ids),
            scopes: counts.into_iter().flat_map(|it| it.scopes).collect(),
        })
    }
}

impl Count {
    fn meaning(&self) -> Meaning {
        if self.by_id > 1 {
            Meaning::ManyIds(self.by_id)
        } else if self.by_id > 0 && self.by_key > 0 {
            Meaning::KeyAndId
        } else if self.scopes.len() > 1 {
            Meaning::ManyScopes(self.scopes.iter().cloned().collect())
        } else if self.by_id + self.by_key > 0 {
            Meaning::One
        } else {
            Meaning::Nothing
        }
    }
}

fn is_prefix(text: &str) -> bool {
    (LEAST_DIGITS..=DIGITS).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_hexdigit())
}

/// The number of scopes of a key that are told.
const SCOPES: usize = 8;
/// Digits of an id.
const DIGITS: usize = 32;
/// The fewest digits that are taken for an id; fewer are rather a key.
const LEAST_DIGITS: usize = 4;
