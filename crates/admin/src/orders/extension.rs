//! Every finished key of a pipeline, remembered for longer batch by batch, each with its entry in the audit trail.

use std::time::Duration;

use bytes::Bytes;
use semel_core::decide::{Directed, Order as KeyOrder};
use semel_core::port::store::{ListQuery, Listed, Store};
use semel_core::{AnyStore, Error, Note, Result as StoreResult, Timestamp};
use semel_operate::keys::{Arrival, Extended, KeyChange, Planned, Proposal, Seen};
use semel_operate::order::BATCH;
use semel_operate::value::Span;
use serde::Serialize;

/// Every finished key of a pipeline, and the window that it is to have at least.
#[derive(Clone, Debug)]
pub(super) struct Extension {
    pub(super) pipeline: Box<str>,
    pub(super) within: ListQuery,
    pub(super) window: Duration,
}

/// The change of a plan: about so many keys.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PlannedExtension {
    pub(super) pipeline: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tenant: Option<Box<str>>,
    pub(super) action: &'static str,
    pub(super) window: Span,
    /// The keys that would be remembered for longer, as far as they were counted.
    pub(super) keys: u64,
    /// False if there are perhaps more.
    pub(super) counted: bool,
}

impl Extension {
    /// The query of the first page.
    pub(super) fn first(&self) -> ListQuery {
        ListQuery {
            limit: PAGE,
            ..self.within.clone()
        }
    }

    /// The result before anything is done.
    pub(super) fn result(&self) -> Extended {
        Extended {
            pipeline: self.pipeline.to_string(),
            tenant: self.within.tenant.as_deref().map(str::to_owned),
            extended: 0,
            refused: 0,
        }
    }

    /// Returns the orders about the finished keys of a page that are not remembered as long yet.
    pub(super) fn proposed(
        &self,
        items: Vec<Listed>,
        now: Timestamp,
    ) -> impl Iterator<Item = Planned> + use<> {
        let change = KeyChange::Extend(self.window);
        items.into_iter().filter_map(move |listed| {
            let Listed { operation, record } = listed;
            let seen = Seen {
                operation: &operation,
                record: &record,
                now,
                is_left_alone: false,
                // Nobody reads why a key is left as it is.
                arrival: Arrival::Delivery,
            };
            match change.propose(seen) {
                Proposal::Do {
                    order: order @ KeyOrder::Extend(_),
                    ..
                } => Some(Planned::new(operation, &record, order)),
                Proposal::Do { .. } | Proposal::Already { .. } | Proposal::Refuse { .. } => None,
            }
        })
    }

    /// Extends the keys of a page, batch by batch, until `goes_on` says no; returns the query of the next page.
    ///
    /// # Errors
    ///
    /// Those of the store. What was done before stands in `done`, which may then lack some of the last batch.
    pub(super) async fn extend(
        &self,
        store: &AnyStore,
        query: ListQuery,
        (note, now): (&Note, Timestamp),
        goes_on: impl Fn() -> bool,
        done: &mut Extended,
    ) -> StoreResult<Option<ListQuery>> {
        let page = store.list(&query).await.map_err(Error::not_applied)?;
        let planned: Vec<_> = self.proposed(page.items, now).collect();
        for batch in planned.chunks(BATCH) {
            if !goes_on() {
                return Ok(Some(query));
            }
            let mut failure = None;
            for answer in Planned::give(store, batch, note).await? {
                match answer {
                    Directed::Now(_) => done.extended += 1,
                    Directed::Refused(_) => done.refused += 1,
                    Directed::Failed(error) => _ = failure.get_or_insert(error),
                }
            }
            if let Some(error) = failure {
                return Err(error);
            }
        }
        Ok(page.next.map(|next| behind(query, next)))
    }
}

/// The query of the page behind a cursor.
pub(super) fn behind(query: ListQuery, after: Bytes) -> ListQuery {
    ListQuery {
        after: Some(after),
        ..query
    }
}

/// The records of a page.
const PAGE: usize = 1_000;
