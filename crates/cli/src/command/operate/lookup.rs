//! Finds the record that a typed KEY means if no pipeline and no tenant is named: the one that exists. Only for verbs
//! that look; for a change the operator names the pipeline.

use std::sync::Arc;

use semel_core::{Key, Operation, Record, Result};
use semel_operate::keys::candidates;
use semel_render::names::several;

use super::Ground;

/// The records found for a KEY.
pub(crate) enum Found {
    /// One record.
    Known(Operation, Box<Record>),
    /// No record; the operations that it would belong to, where the pipelines are known.
    Unknown(Vec<Operation>),
}

impl Ground {
    /// Finds the record of each key: in the named pipeline and tenant, else in the one that has it. A text of hexadecimal
    /// digits may be an operation id, as logs and targets have it, or the beginning of one.
    ///
    /// # Cost     one look-up, and the whole changelog of each streamed pipeline; goes through the list of a pipeline
    /// with tenants if none is named, if no pipeline is known, and for operation ids
    /// # Errors   `InvalidInput`: several pipelines or tenants have a key, and none is named; several ids begin like
    /// this
    pub(crate) async fn find(&self, keys: &[Key]) -> Result<Vec<Found>> {
        let places = self.places();
        let look_up =
            |operations: Arc<[Operation]>| async move { self.records(&operations, &[]).await };
        let found = candidates(&self.store, &places, keys, look_up).await?;
        if found.iter().any(|it| it.known.is_empty()) {
            self.tell_of_digests(&places.names);
        }
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
}
