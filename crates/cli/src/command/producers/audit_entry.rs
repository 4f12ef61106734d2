//! The entries that orders about producers leave in the audit trail of their store.

use std::sync::Arc;
use std::time::Duration;

use semel_backends::store;
use semel_config::StoreUrl;
use semel_core::port::transfer::{AnyTransferStore, Item, TransferStore};
use semel_core::producer::{ProducerEntry, ProducerOrder, StreamEntry};
use semel_core::{Clock, Code, Error, ErrorKind, Result};
use semel_engine::system::SystemClock;
use semel_operate::producers::audited;

use super::Side;
use crate::args::Audit;
use crate::command::operate::{note_of, tell_if_forward};
use crate::output;

/// The audit trail of a store that has one: where a journal of producers is alone, there is none.
pub(super) struct Trail {
    store: AnyTransferStore,
    clock: Arc<SystemClock>,
}

impl Trail {
    /// Opens the trail, if there is a store. Says so where the user of the url may order producers, and not use the store
    /// beside them, or where a process has that store which takes no orders.
    pub(super) async fn open(url: &StoreUrl) -> Result<Option<Self>> {
        let mut tries = 0;
        let opened = loop {
            match Self::of_store(url).await {
                // Another verb has it for a moment.
                Err(error) if error.code() == Code::StoreInUse && tries < MOST_TRIES => {
                    tries += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                opened => break opened,
            }
        };
        match opened {
            Err(error) if is_beside(url, &error) => {
                output::warning(format_args!(
                    "the order is entered in no audit trail: {error}"
                ));
                Ok(None)
            }
            opened => opened,
        }
    }

    async fn of_store(url: &StoreUrl) -> Result<Option<Self>> {
        if !store::exists(url).await? {
            return Ok(None);
        }
        let clock = Arc::new(SystemClock::new());
        let before = store::older_format(url).await;
        let opened = store::open_for_changing(url, clock.clone()).await?;
        tell_if_forward(url, before).await?;
        Ok(opened.transfer.map(|store| Self { store, clock }))
    }

    /// Enters an order that is carried out next.
    pub(super) async fn enter(
        &self,
        audit: &Audit,
        (side, entry): (Side, &ProducerEntry),
        order: ProducerOrder,
    ) -> Result<()> {
        let kept = entry.streams.iter().map(StreamEntry::waiting).sum();
        let before = (entry.is_frozen, kept);
        let (note, now) = (note_of(audit), self.clock.now());
        let entry = audited((side, &entry.name), before, order, note, now);
        let entry = Item::Audited(Box::new(entry));
        self.store.import([entry].into()).await.map(drop)
    }
}

/// Tells whether an error is about the store, and not about the journal beside it.
fn is_beside(url: &StoreUrl, error: &Error) -> bool {
    let lacks_right =
        error.kind() == ErrorKind::InvalidConfig && error.code() == Code::StoreUnavailable;
    error.code() == Code::StoreInUse || url.is_server() && lacks_right
}

/// Two seconds, for which another process may have the store.
const MOST_TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);
