//! Finds the record that a typed KEY means if no pipeline is named: the one that exists. Only for verbs that
//! look; for a change the operator names the pipeline.

use semel_core::{Error, Key, Operation, Record, Result, Scope};
use semel_operate::keys::{ID_DIGITS, candidates};

use super::{Ground, usage};
use crate::output::{key_text, state_text};

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
        let look_up = async |operations: &[Operation]| self.records(operations, &[]).await;
        let found = candidates(&self.store, &scopes, self.narrowed(), keys, look_up).await?;
        let found = keys.iter().zip(found).map(|(key, mut found)| {
            if found.known.len() > 1 {
                return Err(several(key, &found.known));
            }
            Ok(match found.known.pop() {
                Some((operation, record)) => Found::Known(operation, Box::new(record)),
                None => Found::Unknown(found.operations),
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
    let shown = SHORT.max(key.as_str().len() + 4).min(ID_DIGITS);
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

/// The number of digits of an id that is shown.
const SHORT: usize = 12;
