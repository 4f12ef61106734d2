//! Messages that were set aside: the model of `semel dead-letters` and `semel quarantine`. Selects messages
//! page by page, and lists them.

mod forecast;
mod listing;
mod message;
mod names;
mod removal;

pub use forecast::{Foretold, assess};
pub use listing::{DeadLetter, Quarantined};
pub use message::{Header, WholeMessage, Withheld};
pub(crate) use message::{either, mask_values, masked, masked_http, withhold_values};
pub use names::{LookUp, Meaning, Names, NotAName};

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::store::{ListQuery, Page, Store};
use semel_core::{AnyStore, Operation, Parked, Result, StateKind, Timestamp};
use semel_worker::replay::Kind;

use crate::paging::Item;
/// The messages that a verb is about.
#[derive(Clone, Debug)]
pub struct Search {
    /// Their kind.
    pub kind: Kind,
    /// The tenants and operations, by the query that selects them.
    pub within: ListQuery,
    /// The names that were typed; no names mean all messages.
    pub names: Arc<Names>,
    /// The condition on messages if all are meant.
    pub filter: Filter,
}

/// A condition on messages, for a verb that means all of them.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    before: Option<Timestamp>,
    reason_like: Option<String>,
}

/// A parked message, and the state of its record.
#[derive(Clone, Debug)]
pub struct Found {
    /// The message.
    pub message: Parked,
    /// The state; `None` if the record is absent, or was not asked for.
    pub state: Option<StateKind>,
}

impl Filter {
    /// Selects messages that are kept for longer than `older_than` and have `reason_like` in their reason or
    /// detail, in upper or lower case.
    pub fn new(older_than: Option<Duration>, reason_like: Option<&str>, now: Timestamp) -> Self {
        Self {
            before: older_than.map(|age| now.minus(age)),
            reason_like: reason_like.map(str::to_lowercase),
        }
    }

    /// Tells whether the filter lets `message` through.
    pub fn has(&self, message: &Parked) -> bool {
        self.fits(message.since, &[&message.reason, &message.detail])
    }

    /// Tells whether the filter lets something through that is kept since then, for a reason in these words.
    pub fn fits(&self, since: Timestamp, words: &[&str]) -> bool {
        let is_like = |text: &str| words.iter().any(|it| it.to_lowercase().contains(text));
        self.before.is_none_or(|before| since <= before)
            && self.reason_like.as_deref().is_none_or(is_like)
    }
}

impl Search {
    /// Returns a test that tells whether a message of the kind is meant.
    pub fn wanted(&self) -> Arc<dyn Fn(&Parked) -> bool + Send + Sync> {
        let (names, filter) = (Arc::clone(&self.names), self.filter.clone());
        let within = self.within.clone();
        Arc::new(move |message| {
            within.fits(&message.scope) && names.has(message) && filter.has(message)
        })
    }

    /// Finds the selected messages on one page of the store, after the cursor `after`: `limit` of them at most, and
    /// perhaps fewer, or none, before the end.
    ///
    /// # Cost
    ///
    /// Holds the page, 64 messages at most with their payloads; dead letters need a look-up of their records.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn page(
        &self,
        store: &AnyStore,
        after: Option<Bytes>,
        limit: usize,
    ) -> Result<Page<Found>> {
        let query = ListQuery {
            reasons: self.kind.reasons(),
            limit: limit.min(<Parked as Item>::PAGE),
            after,
            ..self.within.clone()
        };
        let Page { mut items, next } = store.list_parked(&query).await?;
        let wanted = self.wanted();
        items.retain(|message| wanted(message));
        let items = self.found(store, items).await?;
        Ok(Page { items, next })
    }

    /// Adds to messages what decides whether they are of the kind, and keeps those that are.
    async fn found(&self, store: &AnyStore, messages: Vec<Parked>) -> Result<Vec<Found>> {
        let mut found = match self.kind {
            Kind::DeadLetters | Kind::InDoubt => with_states(store, messages).await?,
            Kind::Quarantined => messages.into_iter().map(Found::alone).collect(),
        };
        found.retain(|it| self.kind.has(&it.message, it.state));
        Ok(found)
    }

    /// Passes the selected messages to `visit`, group by group, until `visit` returns `Break`; see [`Groups`].
    ///
    /// # Cost
    ///
    /// Holds one group; dead letters need a look-up of their records per group.
    ///
    /// # Errors
    ///
    /// Those of the store, and of `visit`.
    pub async fn pages(
        &self,
        store: &AnyStore,
        mut visit: impl AsyncFnMut(Vec<Found>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut groups = self.groups();
        while let Some(found) = groups.next(store).await? {
            if visit(found).await?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the selected messages, group by group.
    pub fn groups(&self) -> Groups {
        let query = ListQuery {
            reasons: self.kind.reasons(),
            limit: PAGE,
            ..self.within.clone()
        };
        Groups {
            search: self.clone(),
            query: Some(query),
            most: PAGE,
            largest: GROUP,
            largest_bytes: GROUP_BYTES,
        }
    }

    /// Returns the same in groups that stay small, for a process that has other work to do.
    pub fn small_groups(&self) -> Groups {
        let groups = self.groups();
        let query = groups.query.map(|query| ListQuery {
            limit: <Parked as Item>::PAGE,
            ..query
        });
        Groups {
            query,
            most: PAGE,
            largest: PAGE,
            largest_bytes: SMALL_GROUP_BYTES,
            ..groups
        }
    }
}

/// The selected messages, group by group. The first group is small, so that it arrives at once; later groups are
/// large, because a view of a store that others use goes through the whole store to look records up.
#[derive(Debug)]
pub struct Groups {
    search: Search,
    /// The next page; nothing after the last one.
    query: Option<ListQuery>,
    most: usize,
    largest: usize,
    largest_bytes: usize,
}

impl Groups {
    /// Returns the next group, which may be empty before the end; nothing after the last one.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn next(&mut self, store: &AnyStore) -> Result<Option<Vec<Found>>> {
        let Some(mut query) = self.query.take() else {
            return Ok(None);
        };
        let wanted = self.search.wanted();
        let (mut group, mut bytes, mut is_end) = (Vec::new(), 0, false);
        while !is_end && group.len() < self.most && bytes < self.largest_bytes {
            let mut page = store.list_parked(&query).await?;
            page.items.retain(|message| wanted(message));
            bytes += page.items.iter().map(|it| it.payload.len()).sum::<usize>();
            group.append(&mut page.items);
            is_end = page.next.is_none();
            query.after = page.next;
        }
        self.most = (self.most * 4).min(self.largest);
        self.query = Some(query).filter(|_| !is_end);
        self.search.found(store, group).await.map(Some)
    }
}

impl Found {
    const fn alone(message: Parked) -> Self {
        Self {
            message,
            state: None,
        }
    }

    /// Returns the operation of the message, if its key is known.
    pub fn operation(&self) -> Option<Operation> {
        operation(&self.message)
    }

    /// Returns the state of the record, or that the message is in quarantine.
    pub const fn standing(&self, kind: Kind) -> &'static str {
        match (kind, self.state) {
            (Kind::Quarantined, _) => "quarantined",
            (Kind::DeadLetters | Kind::InDoubt, Some(state)) => state.as_str(),
            (Kind::DeadLetters | Kind::InDoubt, None) => "absent",
        }
    }
}

async fn with_states(store: &AnyStore, messages: Vec<Parked>) -> Result<Vec<Found>> {
    let operations: Arc<[_]> = messages.iter().filter_map(operation).collect();
    let records = if operations.is_empty() {
        Vec::new()
    } else {
        store.get(operations).await?
    };
    let mut records = records.into_iter();
    let found = messages.into_iter().map(|message| {
        let record = message.key.as_ref().and_then(|_| records.next().flatten());
        Found {
            state: record.map(|record| record.state.kind()),
            message,
        }
    });
    Ok(found.collect())
}

fn operation(message: &Parked) -> Option<Operation> {
    let key = message.key.clone()?;
    Some(Operation::new(message.scope.clone(), key))
}

/// The number of messages of a page; each may be long.
const PAGE: usize = 256;
/// The number of messages of a group, and the bytes of their payloads.
const GROUP: usize = 16_384;
const GROUP_BYTES: usize = 32 << 20;
const SMALL_GROUP_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests;
