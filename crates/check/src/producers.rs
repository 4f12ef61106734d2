//! The producers whose messages wait in the store.

use std::sync::Arc;

use semel_backends::producers;
use semel_config::StoreUrl;
use semel_core::port::producer::{AnyProducerJournal, ProducerJournal};
use semel_core::producer::{Incarnation, ProducerEntry, ProducerName};
use semel_core::{Code, Error, ErrorKind, Result, Timestamp};
use semel_operate::check::ProducerReport;

use crate::own_thread::apart;

/// The producers of a store, of which a page is looked at at a time.
#[derive(Debug)]
pub(crate) struct StoreProducers {
    store: StoreUrl,
    unfinished: Arc<()>,
    /// The journal; none before the first page.
    journal: Option<AnyProducerJournal>,
    /// The last of the pages so far.
    last: Option<ProducerName>,
    count: usize,
    is_over: bool,
}

/// The reports of a page: of those producers of it whose messages wait, and of those that could not be looked at.
type Reports = Vec<Result<ProducerReport>>;

impl StoreProducers {
    /// Those of this store; opens nothing yet.
    pub(crate) fn new(store: &StoreUrl, unfinished: &Arc<()>) -> Self {
        Self {
            store: store.clone(),
            unfinished: Arc::clone(unfinished),
            journal: None,
            last: None,
            count: 0,
            is_over: false,
        }
    }

    /// Looks at the next page; none at the end. A journal that may not be read is passed over, and none: whoever runs
    /// pipelines need not have a right to the producers beside them.
    ///
    /// # Errors
    ///
    /// Those of the journal
    ///
    /// # Cancel safety   safe: the same page comes again
    pub(crate) async fn next(&mut self, now: Timestamp) -> Result<Option<Reports>> {
        if self.is_over {
            return Ok(None);
        }
        let (url, opened, after) = (self.store.clone(), self.journal.clone(), self.last.clone());
        let looking = async move {
            let journal = match opened {
                Some(journal) => journal,
                None => producers::open(&url)?,
            };
            let entries = journal.page(after.as_ref(), PAGE).await?;
            let faults = entries.iter().filter_map(ProducerEntry::fault);
            let mut reports: Vec<_> = faults.map(Err).collect();
            for entry in entries.iter().filter(|it| is_waiting(it)) {
                match oldest(&journal, entry).await {
                    Ok(Some(oldest)) => {
                        reports.extend(ProducerReport::of(entry, oldest, now).map(Ok));
                    }
                    Ok(None) => {}
                    Err(error) => reports.push(Err(error)),
                }
            }
            let last = entries.last().map(|it| it.name.clone());
            Ok((journal, reports, entries.len(), last))
        };
        match apart(&self.store, &self.unfinished, looking).await {
            Ok((journal, reports, len, last)) => {
                self.journal = Some(journal);
                self.count += len;
                self.is_over = u32::try_from(len).is_ok_and(|len| len < PAGE);
                self.last = last.or(self.last.take());
                Ok(Some(reports))
            }
            Err(error) if is_passed_over(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The number of producers so far.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// The failure to look at those behind the last page; none if there are none.
    ///
    /// # Errors
    ///
    /// Those of the journal
    ///
    /// # Cancel safety   safe
    pub(crate) async fn beyond(&self) -> Result<Option<Error>> {
        let last = self.last.clone().filter(|_| !self.is_over);
        let (Some(last), Some(journal)) = (last, self.journal.clone()) else {
            return Ok(None);
        };
        let after = last.clone();
        let looking = async move { journal.page(Some(&after), 1).await };
        if apart(&self.store, &self.unfinished, looking)
            .await?
            .is_empty()
        {
            return Ok(None);
        }
        let message = format!(
            "the store has more than {} producers; those behind {last} were not looked at, which `semel check` beside the \
             store does",
            self.count
        );
        let error = Error::new(ErrorKind::Throttled, message);
        Ok(Some(error.not_applied()))
    }
}

/// Tells whether messages of a producer wait.
fn is_waiting(entry: &ProducerEntry) -> bool {
    entry.streams.iter().any(|it| it.waiting() > 0)
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

/// The producers of a page, each of which is asked about while the store has time for one answer.
const PAGE: u32 = 10;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use semel_core::producer::{Batch, Opening};
    use semel_store_memory::MemoryProducers;

    use super::*;

    /// A time at which what was appended at the first one has waited for long.
    const LATER: Timestamp = Timestamp::from_millis(2 * 60 * 60 * 1_000);

    fn batch() -> Batch {
        Batch {
            first: 1,
            count: 1,
            body: Bytes::from_static(b"an order"),
            input: None,
            confirmed: 0,
            at: Timestamp::EPOCH,
        }
    }

    /// Producers of which every third has a message that waits.
    async fn producers(count: usize) -> StoreProducers {
        let journal = AnyProducerJournal::new(MemoryProducers::default());
        for number in 0..count {
            let opening = Opening {
                name: format!("till-{number:04}").parse().expect("a name"),
                stream: "orders".into(),
                target: "nats orders".into(),
                chance: [7; 8],
            };
            let opened = journal.open(&opening).await.expect("opened");
            if number % 3 == 0 {
                let batch = batch();
                let appended = journal.append(&opened.incarnation, "orders", &batch);
                appended.await.expect("appended");
            }
        }
        StoreProducers {
            journal: Some(journal),
            ..StoreProducers::new(&StoreUrl::Memory, &Arc::default())
        }
    }

    #[tokio::test]
    async fn each_producer_whose_messages_wait_is_on_one_page() {
        for count in [0, 1, 10, 11, 100, 101, 250] {
            let mut producers = producers(count).await;
            let (mut found, mut pages) = (Vec::new(), 0);
            while let Some(page) = producers.next(LATER).await.expect("a page") {
                assert!(page.len() <= PAGE as usize);
                found.extend(page.into_iter().map(|it| it.expect("a report").producer));
                pages += 1;
            }
            let waiting = (0..count).filter(|it| it % 3 == 0);
            let expected: Vec<_> = waiting.map(|it| format!("till-{it:04}")).collect();
            assert_eq!(found, expected);
            assert_eq!(
                (producers.count(), pages),
                (count, count / PAGE as usize + 1)
            );
            assert!(beyond(&producers).await.is_none());
        }
    }

    #[tokio::test]
    async fn what_is_behind_the_last_page_is_told() {
        let mut producers = producers(11).await;
        producers.next(LATER).await.expect("a page");
        let told = beyond(&producers).await.expect("there is more").to_string();
        assert!(
            told.contains("behind till-0009 were not looked at"),
            "{told}"
        );
        producers.next(LATER).await.expect("a page");
        assert!(beyond(&producers).await.is_none());
    }

    #[tokio::test]
    async fn nothing_is_told_where_the_last_page_is_full() {
        let mut producers = producers(10).await;
        producers.next(LATER).await.expect("a page");
        assert_eq!(producers.count(), 10);
        assert!(beyond(&producers).await.is_none());
    }

    async fn beyond(producers: &StoreProducers) -> Option<Error> {
        producers.beyond().await.expect("an answer")
    }
}
