//! The journal of messages that others send here: durable before they are answered, and until their effect has run.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::erased::erase;
use super::producer::Pages;
use crate::error::Result;
use crate::ingest::{GateAnswer, Submission};
use crate::producer::{ProducerEntry, ProducerName, ProducerOrder, Standing, StoredBatch};
use crate::time::Timestamp;

pub use crate::ingest::{Forgotten, Silence};

/// The journal of the messages that others send to a store.
///
/// The first submission makes what the journal needs in a store that has none. Producers that send here and those that
/// publish from here ([`ProducerJournal`](super::producer::ProducerJournal)) do not know each other, whatever their names.
pub trait IngestJournal: Send + Sync + 'static {
    /// Decides about messages by [`Submission::decide`], and keeps those that are new.
    ///
    /// # Guarantee   the position of the producer and all that is new, or nothing; durable before the answer. What is
    /// refused changes nothing
    /// # Shape       the same once more → all known
    /// # Cost        one durable write, which calls at the same time may share; one more for a producer, an epoch or a
    /// stream that is new, where a store keeps a log for each; none for what is refused or known
    /// # Errors      `InvalidInput`: a batch or a name that the store has no place for; those of a store that is away
    /// # Cancel safety   safe: a call that is dropped may have been carried out, and can be made again
    fn submit(&self, submission: &Submission) -> impl Future<Output = Result<GateAnswer>> + Send;

    /// Returns the batches behind a sequence that are kept, as
    /// [`ProducerJournal::pending`](super::producer::ProducerJournal::pending) does; nothing if there is no such stream.
    ///
    /// # Errors   those of a store that is away
    /// # Cancel safety   safe
    fn accepted(
        &self,
        producer: &ProducerName,
        stream: &str,
        after: u64,
        most: u32,
    ) -> impl Future<Output = Result<Option<Accepted>>> + Send;

    /// Records that the effects of all messages up to a sequence are settled, and forgets their contents.
    ///
    /// # Guarantee   what is not settled is kept; the position of the producer stays. Nothing changes where the stream was
    /// forgotten since, and begun again
    /// # Cost        one durable write; one read if nothing is new
    /// # Errors      those of a store that is away; repeating it is harmless
    /// # Cancel safety   as [`IngestJournal::submit`]
    fn settle(
        &self,
        producer: &ProducerName,
        stream: &str,
        settled: Settled,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Lists a page of the producers that have sent messages here, by name: of those behind `after`, the first `most`, at
    /// least one.
    ///
    /// # Guarantee   who is there from the first page to the last is on one of them. Fewer than `most` are the end. One that
    /// is damaged, where each is kept apart, is an entry that says so, and hides no other
    /// # Cost        the state of a page; where names are found by no index, those of all besides
    /// # Errors      those of a store that is away
    /// # Cancel safety   safe
    fn page(
        &self,
        after: Option<&ProducerName>,
        most: u32,
    ) -> impl Future<Output = Result<Vec<ProducerEntry>>> + Send;

    /// Lists all of them, page by page. No journal has its own way to.
    ///
    /// # Errors   as [`IngestJournal::page`]; `Corrupt`: one of them is damaged
    /// # Cancel safety   safe
    fn list(&self) -> impl Future<Output = Result<Vec<ProducerEntry>>> + Send {
        async {
            let mut pages = Pages::default();
            while pages.take(self.page(pages.last(), Pages::SIZE).await?) {}
            pages.into_all()
        }
    }

    /// Carries out an order about a producer. Tells whether there is one of that name.
    ///
    /// # Guarantee   frozen messages are taken, kept, and not to be run, until they are released
    /// # Errors   those of a store that is away; repeating it is harmless
    /// # Cancel safety   safe: a call that is dropped may have been carried out
    fn order(
        &self,
        name: &ProducerName,
        order: ProducerOrder,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Forgets a stream of producers that have been silent in it for too long, and those that have no other; looks at a
    /// page of producers. What has no time of a message yet, since an older version took it, has been silent from now on.
    ///
    /// # Guarantee   no stream with messages that are not settled, of a frozen producer, or of [`UNNUMBERED`](crate::ingest::UNNUMBERED)
    /// # Cost        bounded by the page: one durable write, or one for each producer that is forgotten
    /// # Errors      those of a store that is away; repeating it is harmless
    /// # Cancel safety   safe: a call that is dropped may have been carried out
    fn forget(&self, silence: &Silence) -> impl Future<Output = Result<Forgotten>> + Send;
}

/// The end of the messages of a stream whose effects are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The life of the stream, as the page had it that they were read in.
    pub begun: u64,
    /// The sequence up to which all are settled.
    pub through: u64,
    /// The time, for a store without a clock of its own.
    pub at: Timestamp,
}

/// A page of what is kept of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// A number that the stream has for as long as it is not forgotten, and another one once it is begun again.
    pub begun: u64,
    /// The end of what is settled, and of what may run.
    pub standing: Standing,
    /// The sequence of the next message.
    pub next: u64,
    /// The batches.
    pub batches: Vec<StoredBatch>,
}

/// Any journal, picked at run time.
#[derive(Clone)]
pub struct AnyIngestJournal(Arc<dyn Erased>);

impl AnyIngestJournal {
    /// Erases `journal`.
    pub fn new(journal: impl IngestJournal) -> Self {
        Self(Arc::new(journal))
    }

    /// Erases a journal that others have as well.
    pub fn shared(journal: Arc<impl IngestJournal>) -> Self {
        Self(journal)
    }
}

impl fmt::Debug for AnyIngestJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyIngestJournal")
    }
}

impl IngestJournal for AnyIngestJournal {
    async fn submit(&self, submission: &Submission) -> Result<GateAnswer> {
        self.0.submit(submission).await
    }

    async fn accepted(
        &self,
        producer: &ProducerName,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Option<Accepted>> {
        self.0.accepted(producer, stream, after, most).await
    }

    async fn settle(&self, producer: &ProducerName, stream: &str, settled: Settled) -> Result<()> {
        self.0.settle(producer, stream, settled).await
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        self.0.page(after, most).await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        self.0.order(name, order).await
    }

    async fn forget(&self, silence: &Silence) -> Result<Forgotten> {
        self.0.forget(silence).await
    }
}

erase!(
    Erased from IngestJournal {
        submit(submission: &'a Submission) -> GateAnswer;
        accepted(producer: &'a ProducerName, stream: &'a str, after: u64, most: u32) -> Option<Accepted>;
        settle(producer: &'a ProducerName, stream: &'a str, settled: Settled) -> ();
        page(after: Option<&'a ProducerName>, most: u32) -> Vec<ProducerEntry>;
        order(name: &'a ProducerName, order: ProducerOrder) -> bool;
        forget(silence: &'a Silence) -> Forgotten;
    }
);
