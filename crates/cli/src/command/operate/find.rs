//! Finds the record that a typed KEY means if no pipeline is named: the one that exists. Only for verbs that
//! look; for a change the operator names the pipeline.

use std::collections::BTreeMap;

use semel_core::port::store::{ListQuery, Store};
use semel_core::{Error, Key, OpId, Operation, Record, Result, Scope};

use super::{Ground, for_each_page, usage};
use crate::output::{Go, key_text, state_text};

/// The records found for a KEY.
pub(crate) enum Found {
    /// One record.
    Known(Operation, Box<Record>),
    /// No record; the operations that it would belong to, where the pipelines are known.
    Unknown(Vec<Operation>),
}

impl Ground {
    /// Finds the record of each key: in the named pipeline, else in the one that has it. A text of hexadecimal
    /// digits may be an operation id, as logs and targets have it, or the beginning of one.
    ///
    /// # Cost     one look-up, and the whole changelog of each streamed pipeline; goes through the list if no
    /// pipeline is known, and for operation ids
    /// # Errors   `InvalidInput`: several pipelines have a key, and none is named; several ids begin like this
    pub(crate) async fn find(&self, keys: &[Key]) -> Result<Vec<Found>> {
        let scopes = self.scopes();
        let operations: Vec<_> = keys
            .iter()
            .flat_map(|key| scopes.iter().map(|it| operation(it, key)))
            .collect();
        let records = self.records(&operations, &[]).await?;
        let mut known: Vec<Vec<_>> = Vec::with_capacity(keys.len());
        let mut all = operations.iter().cloned().zip(records);
        for _ in keys {
            let of_key = all.by_ref().take(scopes.len());
            known.push(
                of_key
                    .filter_map(|(it, record)| Some((it, record?)))
                    .collect(),
            );
        }
        let mut lost = Lost::default();
        for (at, key) in keys.iter().enumerate() {
            if !known[at].is_empty() {
                continue;
            }
            if scopes.is_empty() {
                lost.keys.insert(key, at);
            }
            if let Ok(id) = key.as_str().parse() {
                lost.ids.insert(id, at);
            } else if is_beginning(key.as_str()) {
                lost.beginnings
                    .push((key.as_str().to_ascii_lowercase(), at));
            }
        }
        for (at, operation, record) in self.search(&lost).await? {
            known[at].push((operation, record));
        }
        let found = keys.iter().zip(known).map(|(key, mut known)| {
            if known.len() > 1 {
                return Err(several(key, &known));
            }
            Ok(match known.pop() {
                Some((operation, record)) => Found::Known(operation, Box::new(record)),
                None => Found::Unknown(scopes.iter().map(|it| operation(it, key)).collect()),
            })
        });
        found.collect()
    }

    /// Finds the record of one key.
    pub(crate) async fn find_one(&self, key: &Key) -> Result<Found> {
        let mut found = self.find(std::slice::from_ref(key)).await?;
        Ok(found.pop().unwrap_or(Found::Unknown(Vec::new())))
    }

    /// The pipelines in which a KEY may be: the named one, else all of the configuration.
    fn scopes(&self) -> Vec<Scope> {
        let configured = self.pipelines.iter();
        match &self.named {
            Some(scope) => vec![scope.clone()],
            None => configured
                .map(|settings| settings.pipeline.scope.clone())
                .collect(),
        }
    }

    /// Goes through all records for what the look-up did not find.
    async fn search(&self, lost: &Lost<'_>) -> Result<Vec<(usize, Operation, Record)>> {
        let (mut places, mut met) = (Vec::new(), Vec::new());
        if lost.count() == 0 {
            return Ok(Vec::new());
        }
        let query = ListQuery {
            scope: self.narrowed(),
            ..ListQuery::default()
        };
        let fetch = async |query: &ListQuery| self.store.list(query).await;
        for_each_page(query, fetch, |page| {
            for operation in page.into_iter().map(|listed| listed.operation) {
                if let Some(at) = lost.place_of(&operation) {
                    places.push(at);
                    met.push(operation);
                }
            }
            Ok(if met.len() < ENOUGH + lost.count() {
                Go::Continue(())
            } else {
                Go::Break(())
            })
        })
        .await?;
        let records = self.store.get(&met).await?;
        let met = places.into_iter().zip(met).zip(records);
        Ok(met
            .filter_map(|((at, operation), record)| Some((at, operation, record?)))
            .collect())
    }
}

/// The keys that a look-up did not find, each with its place among the typed keys.
#[derive(Default)]
struct Lost<'a> {
    /// Keys whose pipeline is unknown.
    keys: BTreeMap<&'a Key, usize>,
    /// Texts that look like operation ids.
    ids: BTreeMap<OpId, usize>,
    /// Texts that look like the beginning of one.
    beginnings: Vec<(String, usize)>,
}

impl Lost<'_> {
    fn count(&self) -> usize {
        self.keys.len().max(self.ids.len()) + self.beginnings.len()
    }

    fn place_of(&self, operation: &Operation) -> Option<usize> {
        if let Some(at) = self.keys.get(&operation.key) {
            return Some(*at);
        }
        if self.ids.is_empty() && self.beginnings.is_empty() {
            return None;
        }
        let id = operation.id();
        if let Some(at) = self.ids.get(&id) {
            return Some(*at);
        }
        let mut beginnings = self.beginnings.iter();
        let id = id.to_string();
        beginnings
            .find(|(beginning, _)| id.starts_with(beginning))
            .map(|(_, at)| *at)
    }
}

fn operation(scope: &Scope, key: &Key) -> Operation {
    Operation::new(scope.clone(), key.clone())
}

/// Tells whether a text may be the beginning of an operation id. Fewer digits are rather a key.
fn is_beginning(text: &str) -> bool {
    (LEAST_DIGITS..DIGITS).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_hexdigit())
}

fn several(key: &Key, known: &[(Operation, Record)]) -> Error {
    if known.iter().all(|(operation, _)| operation.key != *key) {
        return several_ids(key, known);
    }
    let places: Vec<_> = known
        .iter()
        .map(|(operation, record)| {
            let name = operation.scope.operation();
            format!("{name} ({})", state_text(record.state.kind()))
        })
        .collect();
    usage(format!(
        "which pipeline? {} is in {}; name one with --pipeline NAME",
        key_text(key.as_str()),
        places.join(", ")
    ))
}

/// The error of a beginning that several operation ids have.
fn several_ids(key: &Key, known: &[(Operation, Record)]) -> Error {
    // As many digits as tell most ids apart.
    let shown = SHORT.max(key.as_str().len() + 4).min(DIGITS);
    let ids: Vec<_> = known
        .iter()
        .map(|(operation, _)| {
            let id = operation.id().to_string();
            let (name, key) = (
                operation.scope.operation(),
                key_text(operation.key.as_str()),
            );
            format!("{name} {key} ({})", &id[..shown])
        })
        .collect();
    usage(format!(
        "which one? several operation ids begin with {}: {}; type more of it",
        key_text(key.as_str()),
        ids.join(", ")
    ))
}

/// Once this many records of one key are found, the search ends: a pipeline has to be named.
const ENOUGH: usize = 8;
/// Digits of an operation id; the fewest that count as the beginning of one; and the number that is shown.
const DIGITS: usize = 64;
const LEAST_DIGITS: usize = 4;
const SHORT: usize = 12;
