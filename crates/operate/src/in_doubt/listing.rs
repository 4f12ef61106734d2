//! Doubts, and the messages that are kept for them, in the lists of a store.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use semel_core::port::store::{ListQuery, Listed, Store};
use semel_core::{
    AnyStore, OpId, Operation, Parked, Reason, Record, Result, Scope, StateKind, Timestamp,
};

use super::{Doubt, message_id};
use crate::keys::{reason, since};
use crate::order::BATCH;
use crate::paging::for_each_page;

/// Lists the doubts that `within` selects, that began at `before` or earlier and have `like` in their reason,
/// in upper or lower case.
///
/// # Errors
///
/// Those of the store.
pub async fn doubts(
    store: &AnyStore,
    within: ListQuery,
    before: Option<Timestamp>,
    like: Option<&str>,
) -> Result<Vec<Doubt>> {
    let mut all = Vec::new();
    for_each_doubt(store, within, before, like, |doubt| all.push(doubt)).await?;
    Ok(all)
}

/// Passes the same doubts to `visit`, one by one, in the order of the store.
///
/// # Errors
///
/// Those of the store.
pub async fn for_each_doubt(
    store: &AnyStore,
    within: ListQuery,
    before: Option<Timestamp>,
    like: Option<&str>,
    mut visit: impl FnMut(Doubt),
) -> Result<()> {
    let like = like.map(str::to_lowercase);
    let query = ListQuery {
        state: Some(StateKind::InDoubt),
        ..within
    };
    for_each_page(store, query, |page: Vec<Listed>| {
        for Listed { operation, record } in page {
            let is_old = before.is_none_or(|before| since(&record) <= before);
            let reason = || reason(&record).unwrap_or_default().to_lowercase();
            if is_old && like.as_ref().is_none_or(|like| reason().contains(like)) {
                visit(Doubt {
                    operation,
                    record,
                    has_message: false,
                });
            }
        }
        Ok(ControlFlow::Continue(()))
    })
    .await
}

/// Marks the doubts for which a message is kept.
///
/// # Cost
///
/// Reads the messages that are kept for doubts.
///
/// # Errors
///
/// Those of the store.
pub async fn mark_messages(store: &AnyStore, doubts: &mut [Doubt]) -> Result<()> {
    let Some(first) = doubts.first() else {
        return Ok(());
    };
    let scope = &first.operation.scope;
    let is_one = doubts.iter().all(|it| it.operation.scope == *scope);
    let query = messages(is_one.then_some(scope));
    let places = doubts.iter().enumerate();
    let places: BTreeMap<_, _> = places
        .map(|(at, it)| (message_id(&it.operation), at))
        .collect();
    for_each_page(store, query, |messages: Vec<Parked>| {
        for message in messages {
            if let Some(at) = places.get(&message.id()) {
                doubts[*at].has_message = true;
            }
        }
        Ok(ControlFlow::Continue(()))
    })
    .await
}

/// Finds the message that is kept for an operation in doubt.
///
/// # Cost
///
/// Reads the messages in doubt of its pipeline.
///
/// # Errors
///
/// Those of the store.
pub async fn message_of(store: &AnyStore, operation: &Operation) -> Result<Option<Parked>> {
    let mut found = None;
    for_each_page(
        store,
        messages(Some(&operation.scope)),
        |messages: Vec<Parked>| {
            let mut messages = messages.into_iter();
            found = messages.find(|message| message.key.as_ref() == Some(&operation.key));
            Ok(match found {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            })
        },
    )
    .await?;
    Ok(found)
}

/// Finds the records with these ids, in whatever state they are, for which messages are kept in doubt: also those of
/// which a statement was written down, before it was interrupted.
///
/// # Cost
///
/// Reads the messages that are kept for doubts.
///
/// # Errors
///
/// Those of the store.
pub async fn with_message(
    store: &AnyStore,
    within: ListQuery,
    ids: &BTreeSet<OpId>,
) -> Result<Vec<(Operation, Record)>> {
    let query = ListQuery {
        reasons: vec![Reason::InDoubt.code().into()],
        ..within
    };
    let mut operations = Vec::new();
    for_each_page(store, query, |messages: Vec<Parked>| {
        for message in messages {
            let operation = message.key.map(|key| Operation::new(message.scope, key));
            operations.extend(operation.filter(|it| ids.contains(&it.id())));
        }
        Ok(ControlFlow::Continue(()))
    })
    .await?;
    let mut known = Vec::with_capacity(operations.len());
    for few in operations.chunks(BATCH) {
        let records = few.iter().cloned().zip(store.get(few.into()).await?);
        known.extend(records.filter_map(|(operation, record)| Some((operation, record?))));
    }
    Ok(known)
}

/// The query for messages that are kept for doubts, of one pipeline or of all.
pub fn messages(scope: Option<&Scope>) -> ListQuery {
    ListQuery {
        reasons: vec![Reason::InDoubt.code().into()],
        ..ListQuery::in_scope_or_all(scope)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use semel_core::{Key, State};
    use semel_store_memory::MemoryStore;

    use super::*;
    use crate::samples::{NOW, Stopped, operation, record};

    #[tokio::test]
    async fn a_doubt_is_marked_if_its_message_is_kept() {
        let store = AnyStore::new(Arc::new(MemoryStore::new(Arc::new(Stopped))));
        let message = |key: &str| Parked {
            scope: operation().scope,
            key: Some(Key::parse(key).expect("a key")),
            reason: Reason::InDoubt.code().into(),
            detail: "no answer".into(),
            transport: None,
            coordinates: "in:1".into(),
            headers: Vec::new(),
            payload: Bytes::new(),
            since: NOW,
        };
        store.park([message("pay-1")].into()).await.expect("parked");
        let doubt = |key: &str| Doubt {
            operation: Operation::new(operation().scope, Key::parse(key).expect("a key")),
            record: record(State::Claimed { lease_until: NOW }),
            has_message: false,
        };
        let mut all = [doubt("pay-1"), doubt("pay-2")];
        mark_messages(&store, &mut all).await.expect("marked");
        assert_eq!([all[0].has_message, all[1].has_message], [true, false]);
        let found = message_of(&store, &all[0].operation).await;
        assert!(found.expect("a message").is_some());
        let found = message_of(&store, &all[1].operation).await;
        assert!(found.expect("no message").is_none());
        let none = doubts(&store, ListQuery::default(), None, None)
            .await
            .expect("a list");
        assert!(none.is_empty(), "no record is in doubt");
    }
}
