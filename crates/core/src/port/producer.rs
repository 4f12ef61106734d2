//! The journal of producers: what is to be sent, durable before it is sent, and what the broker confirmed of it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::erased::erase;
use crate::error::Result;
use crate::producer::{
    Batch, Incarnation, InputMark, Opened, Opening, ProducerEntry, ProducerName, ProducerOrder,
    Standing, StoredBatch,
};

/// The journal of the producers of a store.
///
/// The first opening makes what the journal needs in a store that has none.
pub trait ProducerJournal: Send + Sync + 'static {
    /// Opens a producer for a stream: the one of this name, or a new one.
    ///
    /// # Guarantee   the epoch is higher than any before, and earlier incarnations change nothing from now on
    /// # Shape       a producer that is new has epoch 1; a stream that is new begins at sequence 1
    /// # Cost        one durable write
    /// # Errors      `InvalidConfig`: messages of the stream wait for another place (`producer-elsewhere`), a newer
    /// journal; those of a store that is away
    /// # Cancel safety   safe: an opening that nobody knows of fences earlier ones all the same
    fn open(&self, opening: &Opening) -> impl Future<Output = Result<Opened>> + Send;

    /// Appends messages, records the progress in their input, and confirms earlier ones.
    ///
    /// # Guarantee   all of it or nothing, durable before the answer, each sequence once
    /// # Shape       the last batch once more is known already, and changes nothing
    /// # Cost        one durable write
    /// # Errors      `ClaimLost`: there is a later incarnation (`producer-fenced`); `Conflict`: not the next batch;
    /// `InvalidInput`: a batch that the store has no place for; those of a store that is away
    /// # Cancel safety   safe: a call that is dropped may have been carried out, and can be made again
    fn append(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        batch: &Batch,
    ) -> impl Future<Output = Result<Standing>> + Send;

    /// Records that all messages up to a sequence are with the broker, and forgets their contents. With a sequence that
    /// is confirmed already, it tells the state and whether the incarnation is the latest.
    ///
    /// # Guarantee   what is not confirmed is kept; a confirmation never goes back
    /// # Cost        one durable write; one read if nothing is new
    /// # Errors      as [`ProducerJournal::append`]
    /// # Cancel safety   as [`ProducerJournal::append`]
    fn confirm(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        through: u64,
    ) -> impl Future<Output = Result<Standing>> + Send;

    /// Returns batches with messages behind a sequence that are not confirmed, in order: a
    /// [`Page`](crate::producer::Page) of so many messages, with one batch at least if there is any.
    ///
    /// # Errors   as [`ProducerJournal::append`]
    /// # Cancel safety   safe
    fn pending(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        after: u64,
        most: u32,
    ) -> impl Future<Output = Result<Vec<StoredBatch>>> + Send;

    /// Returns the progress in an input, if any of it was appended.
    ///
    /// # Errors   as [`ProducerJournal::append`]
    /// # Cancel safety   safe
    fn input(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        digest: &[u8; 32],
    ) -> impl Future<Output = Result<Option<InputMark>>> + Send;

    /// Lists a page of the producers, by name: of those behind `after`, the first `most`, at least one; none where nobody
    /// has opened any.
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
    /// # Errors   as [`ProducerJournal::page`]; `Corrupt`: one of them is damaged
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
    /// # Guarantee   frozen messages are appended, kept, and not to be sent, until they are released
    /// # Errors   those of a store that is away; repeating it is harmless
    /// # Cancel safety   safe: a call that is dropped may have been carried out
    fn order(
        &self,
        name: &ProducerName,
        order: ProducerOrder,
    ) -> impl Future<Output = Result<bool>> + Send;
}

/// Any journal, picked at run time.
#[derive(Clone)]
pub struct AnyProducerJournal(Arc<dyn Erased>);

impl AnyProducerJournal {
    /// Erases `journal`.
    pub fn new(journal: impl ProducerJournal) -> Self {
        Self(Arc::new(journal))
    }

    /// Erases a journal that others have as well.
    pub fn shared(journal: Arc<impl ProducerJournal>) -> Self {
        Self(journal)
    }
}

impl fmt::Debug for AnyProducerJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyProducerJournal")
    }
}

impl ProducerJournal for AnyProducerJournal {
    async fn open(&self, opening: &Opening) -> Result<Opened> {
        self.0.open(opening).await
    }

    async fn append(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        batch: &Batch,
    ) -> Result<Standing> {
        self.0.append(incarnation, stream, batch).await
    }

    async fn confirm(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        through: u64,
    ) -> Result<Standing> {
        self.0.confirm(incarnation, stream, through).await
    }

    async fn pending(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Vec<StoredBatch>> {
        self.0.pending(incarnation, stream, after, most).await
    }

    async fn input(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        digest: &[u8; 32],
    ) -> Result<Option<InputMark>> {
        self.0.input(incarnation, stream, digest).await
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        self.0.page(after, most).await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        self.0.order(name, order).await
    }
}

erase!(
    Erased from ProducerJournal {
        open(opening: &'a Opening) -> Opened;
        append(incarnation: &'a Incarnation, stream: &'a str, batch: &'a Batch) -> Standing;
        confirm(incarnation: &'a Incarnation, stream: &'a str, through: u64) -> Standing;
        pending(incarnation: &'a Incarnation, stream: &'a str, after: u64, most: u32) -> Vec<StoredBatch>;
        input(incarnation: &'a Incarnation, stream: &'a str, digest: &'a [u8; 32]) -> Option<InputMark>;
        page(after: Option<&'a ProducerName>, most: u32) -> Vec<ProducerEntry>;
        order(name: &'a ProducerName, order: ProducerOrder) -> bool;
    }
);

/// A list of producers that is read page by page.
#[derive(Default)]
pub(super) struct Pages(Vec<ProducerEntry>);

impl Pages {
    /// The producers of a page.
    pub(super) const SIZE: u32 = 1_000;

    /// Returns the name that the next page begins behind.
    pub(super) fn last(&self) -> Option<&ProducerName> {
        self.0.last().map(|it| &it.name)
    }

    /// Takes a page; tells whether there may be another.
    pub(super) fn take(&mut self, page: Vec<ProducerEntry>) -> bool {
        let is_full = page.len() >= Self::SIZE as usize;
        self.0.extend(page);
        is_full
    }

    /// Returns all of them; the damage of one that is damaged.
    pub(super) fn into_all(self) -> Result<Vec<ProducerEntry>> {
        match self.0.iter().find_map(ProducerEntry::fault) {
            Some(fault) => Err(fault),
            None => Ok(self.0),
        }
    }
}
