//! Everything out and in. A cursor is a count of items.

use bytes::Bytes;
use semel_core::port::store::Page;
use semel_core::port::transfer::Item;
use semel_core::{Error, ErrorKind, FencingToken, Mark, OpId, Result, Timestamp};

use crate::state::State;

/// Returns a page of everything.
pub(crate) fn export(
    state: &State,
    after: Option<&[u8]>,
    limit: usize,
    now: Timestamp,
) -> Result<Page<Item>> {
    let from = after.map_or(Ok(0), |bytes| {
        <[u8; 8]>::try_from(bytes)
            .ok()
            .and_then(|bytes| usize::try_from(u64::from_be_bytes(bytes)).ok())
            .ok_or_else(|| Error::new(ErrorKind::InvalidInput, "this is no cursor of this store"))
    })?;
    let records = state.records.values();
    let records = records.filter(|listed| !listed.record.is_forgotten(now));
    let entities = state.entities.values();
    let marks = state.marks.iter().map(|(name, value)| Mark {
        name: name.clone(),
        value: *value,
    });
    let mut rest = std::iter::once(Item::Token(FencingToken::new(state.token)))
        .chain(records.map(|listed| Item::Record(Box::new(listed.clone()))))
        .chain(entities.map(|(scope, entity, record)| {
            Item::Entity(scope.clone(), entity.clone(), record.clone())
        }))
        .chain(marks.map(Item::Mark))
        .chain(
            state
                .parked
                .values()
                .map(|it| Item::Parked(Box::new(it.clone()))),
        )
        .chain(
            state
                .audit
                .iter()
                .map(|it| Item::Audited(Box::new(it.clone()))),
        )
        .skip(from);
    let items: Vec<Item> = rest.by_ref().take(limit.max(1)).collect();
    let next = rest.next().map(|_| {
        let next = (from + items.len()) as u64;
        Bytes::copy_from_slice(&next.to_be_bytes())
    });
    Ok(Page { items, next })
}

/// Adds an item; returns whether it is new. A record that counts as absent is not there.
pub(crate) fn import(state: &mut State, item: &Item, now: Timestamp) -> bool {
    match item {
        Item::Token(token) => {
            let is_new = token.get() > state.token;
            state.token = state.token.max(token.get());
            is_new
        }
        Item::Record(listed) => {
            let id = listed.operation.id();
            let is_new = state.get(&listed.operation, now).is_none();
            if is_new {
                state.records.insert(id, (**listed).clone());
            }
            is_new
        }
        Item::Entity(scope, entity, record) => {
            let id = OpId::of(scope, entity);
            let is_new = !state.entities.contains_key(&id);
            if is_new {
                let known = (scope.clone(), entity.clone(), record.clone());
                state.entities.insert(id, known);
            }
            is_new
        }
        Item::Mark(mark) => {
            let is_new = !state.marks.contains_key(&mark.name);
            if is_new {
                state.marks.insert(mark.name.clone(), mark.value);
            }
            is_new
        }
        Item::Parked(message) => {
            let id = message.id();
            let is_new = !state.parked.contains_key(&id);
            if is_new {
                state.parked.insert(id, (**message).clone());
            }
            is_new
        }
        Item::Audited(entry) => {
            let is_new = !state.audit.contains(entry);
            if is_new {
                state.audit.push((**entry).clone());
            }
            is_new
        }
    }
}
