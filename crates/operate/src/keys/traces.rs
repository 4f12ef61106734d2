//! The traces that a key left outside of its record: orders about it, and messages that are kept under it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use semel_core::port::store::ListQuery;
use semel_core::{AnyStore, Audited, Key, Operation, Parked, Result, Scope};

use crate::paging::for_each_page;

/// The facts about a key that are not in its record.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    /// The entries of the audit trail about the key, oldest first.
    pub audit: Vec<Audited>,
    /// The first few messages that are kept under it, oldest first, without their payloads.
    pub messages: Vec<Parked>,
    /// The number of all these messages.
    pub message_count: usize,
}

impl Traces {
    /// Finds the traces of the key of `operation`.
    ///
    /// # Cost
    ///
    /// Reads the trail and the kept messages of its pipeline, a page at a time.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn of(store: &AnyStore, operation: &Operation) -> Result<Self> {
        let mut traces = Self::default();
        let within = ListQuery::in_scope(&operation.scope);
        for_each_page(store, within.clone(), |messages: Vec<Parked>| {
            for mut message in messages {
                if message.key.as_ref() != Some(&operation.key) {
                    continue;
                }
                traces.message_count += 1;
                if traces.messages.len() < TOLD_AT_MOST {
                    message.payload.clear();
                    traces.messages.push(message);
                }
            }
            Ok(ControlFlow::Continue(()))
        })
        .await?;
        traces.messages.sort_by_key(|message| message.since);
        for_each_page(store, within, |entries: Vec<Audited>| {
            let entries = entries.into_iter();
            let of_key = entries.filter(|entry| entry.key.as_ref() == Some(&operation.key));
            traces.audit.extend(of_key);
            Ok(ControlFlow::Continue(()))
        })
        .await?;
        Ok(traces)
    }

    /// Returns whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.audit.is_empty() && self.message_count == 0
    }
}

/// Finds the scopes among those that `within` selects in which a key has left traces.
///
/// # Cost
///
/// Reads the trail and the kept messages that `within` selects.
///
/// # Errors
///
/// Those of the store.
pub async fn scopes_of(store: &AnyStore, within: ListQuery, key: &Key) -> Result<BTreeSet<Scope>> {
    let mut scopes = BTreeSet::new();
    for_each_page(store, within.clone(), |entries: Vec<Audited>| {
        let entries = entries.into_iter();
        let of_key = entries.filter(|entry| entry.key.as_ref() == Some(key));
        scopes.extend(of_key.filter_map(|entry| entry.scope));
        Ok(ControlFlow::Continue(()))
    })
    .await?;
    for_each_page(store, within, |messages: Vec<Parked>| {
        let messages = messages.into_iter();
        let of_key = messages.filter(|message| message.key.as_ref() == Some(key));
        scopes.extend(of_key.map(|message| message.scope));
        Ok(ControlFlow::Continue(()))
    })
    .await?;
    Ok(scopes)
}

const TOLD_AT_MOST: usize = 20;
