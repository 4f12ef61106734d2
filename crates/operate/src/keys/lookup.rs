//! Finds the records that a typed key can mean.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use semel_core::port::store::{ListQuery, Listed, Store};
use semel_core::{AnyStore, Key, OpId, Operation, Record, Result, Scope};

use crate::paging::for_each_page;

/// The places in which a typed key is looked for.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The pipelines whose tenant is known: a look-up tells what they have.
    pub scopes: Vec<Scope>,
    /// The names of the pipelines whose tenant is not: what is on record of them is gone through.
    pub names: Vec<Box<str>>,
    /// The records that are gone through for operation ids, and for keys if no pipeline is known.
    pub within: ListQuery,
}

/// The records that a typed key can mean.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// The records; more than one if several pipelines or tenants have the key, or several operation ids begin
    /// like it.
    pub known: Vec<(Operation, Record)>,
    /// The operations that the key would belong to, where the pipelines are known; of the empty tenant where that is
    /// not.
    pub operations: Vec<Operation>,
}

/// Finds the records of each key in `places`. A text of hexadecimal digits may also be an operation id, as logs and
/// targets have it, or the beginning of one. `look_up` reads the records of operations.
///
/// # Cost
///
/// One look-up; goes through the list of each pipeline whose tenant is not known, through all if no pipeline is
/// known, and for operation ids.
///
/// # Errors
///
/// Those of the store and of `look_up`.
pub async fn candidates<F>(
    store: &AnyStore,
    places: &Places,
    keys: &[Key],
    look_up: impl FnOnce(Arc<[Operation]>) -> F,
) -> Result<Vec<Candidates>>
where
    F: Future<Output = Result<Vec<Option<Record>>>>,
{
    let mut all = in_pipelines(store, places, keys, look_up).await?;
    let mut lost = Lost::default();
    for (at, key) in keys.iter().enumerate() {
        if !all[at].known.is_empty() {
            continue;
        }
        if places.is_anywhere() {
            lost.keys.insert(key, at);
        }
        if let Ok(id) = key.as_str().parse() {
            lost.ids.insert(id, at);
        } else if is_beginning(key.as_str()) {
            lost.beginnings
                .push((key.as_str().to_ascii_lowercase(), at));
        }
    }
    for (at, operation, record) in search(store, places.within.clone(), &lost).await? {
        all[at].known.push((operation, record));
    }
    Ok(all)
}

/// Finds the records of each key in `places`, by the keys alone: digits are no operation id here.
///
/// # Cost
///
/// One look-up; goes through the list of each pipeline whose tenant is not known, and through all if no pipeline is
/// known.
///
/// # Errors
///
/// Those of the store.
pub async fn of_keys(
    store: &AnyStore,
    places: &Places,
    keys: &[Key],
) -> Result<Vec<Vec<(Operation, Record)>>> {
    if places.is_anywhere() {
        return in_list(store, places.within.clone(), keys).await;
    }
    let found = in_pipelines(store, places, keys, |operations| store.get(operations)).await?;
    Ok(found.into_iter().map(|it| it.known).collect())
}

impl Places {
    /// Tells whether no pipeline is known, so that a key can be in any.
    const fn is_anywhere(&self) -> bool {
        self.scopes.is_empty() && self.names.is_empty()
    }
}

/// Finds the records of each key in the pipelines that are known.
async fn in_pipelines<F>(
    store: &AnyStore,
    places: &Places,
    keys: &[Key],
    look_up: impl FnOnce(Arc<[Operation]>) -> F,
) -> Result<Vec<Candidates>>
where
    F: Future<Output = Result<Vec<Option<Record>>>>,
{
    let Places {
        scopes,
        names,
        within,
    } = places;
    let operations: Arc<[Operation]> = keys
        .iter()
        .flat_map(|key| scopes.iter().map(|it| operation(it, key)))
        .collect();
    let records = look_up(Arc::clone(&operations)).await?;
    let unknown = names.iter().filter_map(|name| Scope::new("", name).ok());
    let unknown: Vec<_> = unknown.collect();
    let mut all: Vec<Candidates> = Vec::with_capacity(keys.len());
    let mut records = operations.iter().cloned().zip(records);
    for key in keys {
        let mut of_key = Candidates::default();
        for (operation, record) in records.by_ref().take(scopes.len()) {
            of_key.operations.push(operation.clone());
            of_key
                .known
                .extend(record.map(|record| (operation, record)));
        }
        let unknown = unknown.iter().map(|it| operation(it, key));
        of_key.operations.extend(unknown);
        all.push(of_key);
    }
    for name in names {
        let of_name = ListQuery {
            operation: Some(name.clone()),
            ..within.clone()
        };
        for (known, of_key) in in_list(store, of_name, keys)
            .await?
            .into_iter()
            .zip(&mut all)
        {
            of_key.known.extend(known);
        }
    }
    Ok(all)
}

/// Goes through the records that `within` selects, and returns those of each key.
///
/// # Cost
///
/// Ends before the end of the list once it is clear that a key has several records, and a few of them are known.
///
/// # Errors
///
/// Those of the store.
pub async fn in_list(
    store: &AnyStore,
    within: ListQuery,
    keys: &[Key],
) -> Result<Vec<Vec<(Operation, Record)>>> {
    let places = keys.iter().zip(0..);
    let lost = Lost {
        keys: places.collect(),
        ..Lost::default()
    };
    let mut all: Vec<_> = keys.iter().map(|_| Vec::new()).collect();
    for (at, operation, record) in search(store, within, &lost).await? {
        all[at].push((operation, record));
    }
    Ok(all)
}

/// Goes through all records for what the look-up did not find.
async fn search(
    store: &AnyStore,
    within: ListQuery,
    lost: &Lost<'_>,
) -> Result<Vec<(usize, Operation, Record)>> {
    let (mut places, mut met) = (Vec::new(), Vec::new());
    if lost.count() == 0 {
        return Ok(Vec::new());
    }
    for_each_page(store, within, |page: Vec<Listed>| {
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

/// Once this many records of one key are found, the search ends: a pipeline or a tenant has to be named.
pub const ENOUGH: usize = 8;
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
        of_tenant("", pipeline)
    }

    fn of_tenant(tenant: &str, pipeline: &str) -> Scope {
        Scope::new(tenant, pipeline).expect("a scope")
    }

    fn key(text: &str) -> Key {
        Key::parse(text).expect("a key")
    }

    /// A store with one key in each of these scopes.
    async fn store(keys: &[(Scope, &str)]) -> AnyStore {
        let store = AnyStore::new(Arc::new(MemoryStore::new(Arc::new(Stopped))));
        for (at, (scope, text)) in (0..).zip(keys) {
            let request = ClaimRequest::new(scope.clone(), key(text), ClaimId::from_u128(at));
            store.claim([request].into()).await.expect("a claim");
        }
        store
    }

    async fn count(store: &AnyStore, places: &Places, keys: &[Key]) -> Vec<usize> {
        let look_up = |operations| store.get(operations);
        let found = candidates(store, places, keys, look_up).await;
        let found = found.expect("candidates");
        found.iter().map(|it| it.known.len()).collect()
    }

    #[tokio::test]
    async fn a_key_is_found_in_its_pipelines_or_by_the_beginning_of_its_operation_id() {
        let store = [("a", "k1"), ("b", "k1"), ("b", "k2")];
        let store = self::store(&store.map(|(pipeline, key)| (scope(pipeline), key))).await;
        let look_up = |operations| store.get(operations);
        let id = Operation::new(scope("b"), key("k2")).id().to_string();
        let keys = [key("k1"), key("k2"), key("k3"), key(&id[..8])];
        let places = Places {
            scopes: vec![scope("a"), scope("b")],
            ..Places::default()
        };
        let found = candidates(&store, &places, &keys, look_up).await;
        let found = found.expect("candidates");
        let known: Vec<_> = found.iter().map(|it| it.known.len()).collect();
        assert_eq!(known, [2, 1, 0, 1]);
        assert_eq!(found[2].operations.len(), 2, "it would belong to either");
        assert_eq!(found[3].known[0].0.key, key("k2"));
        // By keys alone, digits are nothing else.
        let found = of_keys(&store, &places, &keys).await.expect("records");
        let known: Vec<_> = found.iter().map(Vec::len).collect();
        assert_eq!(known, [2, 1, 0, 0]);
        let anywhere = of_keys(&store, &Places::default(), &keys).await;
        let anywhere = anywhere.expect("records");
        assert_eq!(anywhere.iter().map(Vec::len).collect::<Vec<_>>(), known);
        // Without a pipeline, the lists are gone through.
        let mut anywhere = Places::default();
        assert_eq!(count(&store, &anywhere, &keys[..2]).await, [2, 1]);
        anywhere.within = ListQuery::in_scope(&scope("a"));
        assert_eq!(count(&store, &anywhere, &keys[..2]).await, [1, 0]);
    }

    #[tokio::test]
    async fn a_key_is_found_in_every_tenant_of_a_pipeline() {
        let store = store(&[
            (of_tenant("acme", "a"), "k1"),
            (of_tenant("other", "a"), "k1"),
            (of_tenant("other", "a"), "k2"),
            (of_tenant("acme", "b"), "k2"),
            (scope("c"), "k1"),
        ])
        .await;
        let keys = [key("k1"), key("k2"), key("k3")];
        let mut places = Places {
            scopes: vec![scope("c")],
            names: vec!["a".into()],
            within: ListQuery::default(),
        };
        assert_eq!(count(&store, &places, &keys).await, [3, 1, 0]);
        places.within.tenant = Some("acme".into());
        assert_eq!(count(&store, &places, &keys).await, [2, 0, 0]);
        let within = ListQuery {
            operation: Some("a".into()),
            ..ListQuery::default()
        };
        let found = in_list(&store, within, &keys).await.expect("a list");
        let tenants = |at: usize| {
            let found = found[at].iter();
            let mut tenants: Vec<_> = found.map(|(it, _)| it.scope.tenant()).collect();
            tenants.sort_unstable();
            tenants
        };
        assert_eq!(tenants(0), ["acme", "other"]);
        assert_eq!(tenants(1), ["other"]);
        assert!(found[2].is_empty());
    }
}
