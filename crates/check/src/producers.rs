//! The producers whose messages wait in the store.

use std::sync::Arc;

use semel_backends::producers;
use semel_config::StoreUrl;
use semel_core::port::producer::{AnyProducerJournal, ProducerJournal};
use semel_core::producer::{Incarnation, ProducerEntry};
use semel_core::{Code, Error, ErrorKind, Result, Timestamp};
use semel_operate::check::ProducerReport;

use crate::own_thread::apart;

/// The producers of a store, which are looked at one by one.
#[derive(Debug)]
pub(crate) struct StoreProducers {
    store: StoreUrl,
    unfinished: Arc<()>,
    journal: AnyProducerJournal,
    /// Each of them.
    pub(crate) entries: Vec<ProducerEntry>,
}

impl StoreProducers {
    /// Lists the producers of a store. A journal that may not be read is passed over, and none: whoever runs pipelines need
    /// not have a right to the producers beside them.
    ///
    /// # Errors
    ///
    /// Those of the journal
    ///
    /// # Cancel safety   safe
    pub(crate) async fn list(store: &StoreUrl, unfinished: &Arc<()>) -> Result<Option<Self>> {
        let url = store.clone();
        let listing = async move {
            let journal = producers::open(&url)?;
            let entries = journal.list().await?;
            Ok((journal, entries))
        };
        match apart(store, unfinished, listing).await {
            Ok((journal, entries)) => Ok(Some(Self {
                store: store.clone(),
                unfinished: Arc::clone(unfinished),
                journal,
                entries,
            })),
            Err(error) if is_passed_over(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Looks at one of them; none if no message of it waits.
    ///
    /// # Errors
    ///
    /// Those of the journal
    ///
    /// # Cancel safety   safe
    pub(crate) async fn report(
        &self,
        entry: &ProducerEntry,
        now: Timestamp,
    ) -> Result<Option<ProducerReport>> {
        let (journal, asked) = (self.journal.clone(), entry.clone());
        let asking = async move { oldest(&journal, &asked).await };
        let oldest = apart(&self.store, &self.unfinished, asking).await?;
        Ok(oldest.and_then(|oldest| ProducerReport::of(entry, oldest, now)))
    }
}

/// Tells whether there is no journal to look at, or no right to.
fn is_passed_over(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unsupported | ErrorKind::InvalidConfig
    ) && error.code() != Code::StoreNewer
}

/// Returns the time at which the oldest message was appended that is not confirmed; none if there is none, or if another
/// process opens the producer meanwhile: then it is sent.
async fn oldest(journal: &AnyProducerJournal, entry: &ProducerEntry) -> Result<Option<Timestamp>> {
    let incarnation = Incarnation {
        name: entry.name.clone(),
        id: entry.id.clone(),
        epoch: entry.epoch,
    };
    let mut oldest: Option<Timestamp> = None;
    for stream in entry.streams.iter().filter(|it| it.waiting() > 0) {
        let first = journal
            .pending(&incarnation, &stream.stream, stream.confirmed, 1)
            .await;
        match first {
            Ok(batches) => {
                let first = batches.first().map(|it| it.at);
                oldest = oldest.into_iter().chain(first).min();
            }
            Err(error) if error.kind() == ErrorKind::ClaimLost => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(oldest)
}
