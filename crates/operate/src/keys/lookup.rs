//! Finds the records that a typed key can mean.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use semel_core::port::store::{ListQuery, Store};
use semel_core::{AnyStore, Key, OpId, Operation, Record, Result, Scope};

use crate::paging::for_each_page;

/// The records that a typed key can mean.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// The records; more than one if several pipelines have the key, or several operation ids begin like it.
    pub known: Vec<(Operation, Record)>,
    /// The operations that the key would belong to, where the pipelines are known.
    pub operations: Vec<Operation>,
}

/// Finds the records of each key in the pipelines of `scopes`. A text of hexadecimal digits may also be an
/// operation id, as logs and targets have it, or the beginning of one. Without `scopes`, and for ids, the records
/// of `narrowed` or of all pipelines are gone through. `look_up` reads the records of operations.
///
/// # Cost
///
/// One look-up; goes through the list if no pipeline is known, and for operation ids.
///
/// # Errors
///
/// Those of the store and of `look_up`.
pub async fn candidates(
    store: &AnyStore,
    scopes: &[Scope],
    narrowed: Option<Scope>,
    keys: &[Key],
    look_up: impl AsyncFnOnce(&[Operation]) -> Result<Vec<Option<Record>>>,
) -> Result<Vec<Candidates>> {
    let operations: Vec<_> = keys
        .iter()
        .flat_map(|key| scopes.iter().map(|it| operation(it, key)))
        .collect();
    let records = look_up(&operations).await?;
    let mut all: Vec<Candidates> = Vec::with_capacity(keys.len());
    let mut records = operations.into_iter().zip(records);
    for _ in keys {
        let mut of_key = Candidates::default();
        for (operation, record) in records.by_ref().take(scopes.len()) {
            of_key.operations.push(operation.clone());
            of_key
                .known
                .extend(record.map(|record| (operation, record)));
        }
        all.push(of_key);
    }
    let mut lost = Lost::default();
    for (at, key) in keys.iter().enumerate() {
        if !all[at].known.is_empty() {
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
    for (at, operation, record) in search(store, narrowed, &lost).await? {
        all[at].known.push((operation, record));
    }
    Ok(all)
}

/// Goes through all records for what the look-up did not find.
async fn search(
    store: &AnyStore,
    scope: Option<Scope>,
    lost: &Lost<'_>,
) -> Result<Vec<(usize, Operation, Record)>> {
    let (mut places, mut met) = (Vec::new(), Vec::new());
    if lost.count() == 0 {
        return Ok(Vec::new());
    }
    let query = ListQuery::in_scope_or_all(scope.as_ref());
    let fetch = async |query: &ListQuery| store.list(query).await;
    for_each_page(query, fetch, |page| {
        for operation in page.into_iter().map(|listed| listed.operation) {
            if let Some(at) = lost.place_of(&operation) {
                places.push(at);
                met.push(operation);
            }
        }
        Ok(if met.len() < ENOUGH + lost.count() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    })
    .await?;
    let records = store.get(met.as_slice().into()).await?;
    let met = places.into_iter().zip(met).zip(records);
    Ok(met
        .filter_map(|((at, operation), record)| Some((at, operation, record?)))
        .collect())
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
    (LEAST_DIGITS..ID_DIGITS).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_hexdigit())
}

/// Once this many records of one key are found, the search ends: a pipeline has to be named.
const ENOUGH: usize = 8;
/// The digits of an operation id.
pub const ID_DIGITS: usize = 64;
/// The fewest digits that count as the beginning of an operation id.
const LEAST_DIGITS: usize = 4;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use semel_core::{ClaimId, ClaimRequest};
    use semel_store_memory::MemoryStore;

    use super::*;
    use crate::samples::Stopped;

    fn scope(pipeline: &str) -> Scope {
        Scope::new("", pipeline).expect("a scope")
    }

    fn key(text: &str) -> Key {
        Key::parse(text).expect("a key")
    }

    /// A store with one key in each of these pipelines.
    async fn store(keys: &[(&str, &str)]) -> AnyStore {
        let store = AnyStore::new(Arc::new(MemoryStore::new(Arc::new(Stopped))));
        for (at, (pipeline, text)) in (0..).zip(keys) {
            let request = ClaimRequest::new(scope(pipeline), key(text), ClaimId::from_u128(at));
            store.claim([request].into()).await.expect("a claim");
        }
        store
    }

    #[tokio::test]
    async fn a_key_is_found_in_its_pipelines_or_by_the_beginning_of_its_operation_id() {
        let store = store(&[("a", "k1"), ("b", "k1"), ("b", "k2")]).await;
        let look_up = async |operations: &[Operation]| store.get(operations.into()).await;
        let id = Operation::new(scope("b"), key("k2")).id().to_string();
        let keys = [key("k1"), key("k2"), key("k3"), key(&id[..8])];
        let scopes = [scope("a"), scope("b")];
        let found = candidates(&store, &scopes, None, &keys, look_up).await;
        let found = found.expect("candidates");
        let known: Vec<_> = found.iter().map(|it| it.known.len()).collect();
        assert_eq!(known, [2, 1, 0, 1]);
        assert_eq!(found[2].operations.len(), 2, "it would belong to either");
        assert_eq!(found[3].known[0].0.key, key("k2"));
        // Without a pipeline, the lists are gone through.
        let found = candidates(&store, &[], None, &keys[..2], look_up).await;
        let found = found.expect("candidates");
        let known: Vec<_> = found.iter().map(|it| it.known.len()).collect();
        assert_eq!(known, [2, 1]);
        let found = candidates(&store, &[], Some(scope("a")), &keys[..2], look_up).await;
        let known: Vec<_> = found
            .expect("candidates")
            .iter()
            .map(|it| it.known.len())
            .collect();
        assert_eq!(known, [1, 0]);
    }
}
