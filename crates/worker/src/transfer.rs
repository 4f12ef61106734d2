//! A store's contents as a file and back: the format of `docs/spec/export.md`.
//!
//! Formatting and reading run on a thread of their own, beside the store. Not for opening files or
//! stores, and not for deciding whether an item is new: the store does that.

mod line;
mod reader;
pub(crate) mod value;
mod whole_file;
mod writer;

pub(crate) use line::Scopes;
pub use reader::Reader;
pub(crate) use reader::item as read_item;
pub use whole_file::WholeFile;
pub use writer::Writer;
pub(crate) use writer::write_item;

use std::io::{Read, Write};
use std::sync::Arc;

use semel_core::port::store::Page;
use semel_core::port::transfer::{AnyTransferStore, Item, TransferStore};
use semel_core::{Error, ErrorKind, FencingToken, Result, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The version of the format that is written, and the latest that is read.
pub const VERSION: u32 = 2;

/// The content of an export's first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The time at which it was made, RFC 3339.
    pub created: Box<str>,
    /// The kind of store that it was made of.
    pub store: Box<str>,
}

/// Items by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Fencing tokens: one, and a second one if tokens were granted while the store was exported.
    pub tokens: u64,
    /// Records.
    pub records: u64,
    /// Entities.
    pub entities: u64,
    /// Marks.
    pub marks: u64,
    /// Parked messages.
    pub parked: u64,
    /// Entries of the audit trail.
    pub audited: u64,
}

impl Counts {
    /// All items.
    pub const fn items(&self) -> u64 {
        self.tokens + self.records + self.entities + self.marks + self.parked + self.audited
    }

    fn add(&mut self, item: &Item) {
        *match item {
            Item::Token(_) => &mut self.tokens,
            Item::Record(_) => &mut self.records,
            Item::Entity(..) => &mut self.entities,
            Item::Mark(_) => &mut self.marks,
            Item::Parked(_) => &mut self.parked,
            Item::Audited(_) => &mut self.audited,
        } += 1;
    }
}

/// A callback that learns now and then how many items and bytes are done.
pub type OnTransfer = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// The use that a store is in while it is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is at rest: it answers large pages.
    Rest,
    /// Others work on it: each page is small, so that they get their turns, and little of it is in memory.
    Work,
}

impl Use {
    /// The most items of a page.
    const fn page(self) -> usize {
        match self {
            Self::Rest => PAGE,
            Self::Work => PAGE_AT_WORK,
        }
    }
}

/// Writes everything that `store` holds to `to`, which is returned flushed. Of a store at work, what changes meanwhile
/// may be missing, or be there as it was; its token comes once more behind all else if it has risen.
///
/// # Guarantee   XFR-1, of a store at rest
/// # Cost   holds three pages and a block of lines
/// # Cancel safety   the lines written by then stay, without the last line
///
/// # Errors
///
/// Those of [`TransferStore::export`]; `target-unavailable`: `to` accepts no bytes.
pub async fn export<W: Write + Send + 'static>(
    store: &AnyTransferStore,
    (kind, in_use): (&'static str, Use),
    created: Timestamp,
    to: W,
    on_transfer: OnTransfer,
) -> Result<(W, Counts)> {
    let (pages, mut coming) = mpsc::channel::<Vec<Item>>(AHEAD);
    let (whole, mut is_whole) = mpsc::channel::<()>(1);
    let mut beside = JoinSet::new();
    beside.spawn_blocking(move || {
        let mut writer = Writer::begin(to, kind, created)?;
        while let Some(items) = coming.blocking_recv() {
            for item in &items {
                writer.item(item)?;
            }
            on_transfer(writer.counts().items(), writer.len_bytes());
        }
        // Without this word the store failed half way, and the export must not look whole.
        match is_whole.blocking_recv() {
            Some(()) => writer.end(),
            None => Err(Error::new(
                ErrorKind::Unavailable,
                "the export was broken off",
            )),
        }
    });
    let (mut after, mut first) = (None, None);
    let handed_over = loop {
        let page = match store.export(after.as_deref(), in_use.page()).await {
            Ok(page) => page,
            Err(error) => break Err(error),
        };
        first = first.or(token_of(&page));
        if pages.send(page.items).await.is_err() {
            // The writer failed and reports the reason itself.
            break Ok(());
        }
        after = page.next;
        if after.is_none() {
            match risen(store, first).await {
                // A writer that failed reports the reason itself.
                Ok(token) => drop(pages.send(token.into_iter().collect()).await),
                Err(error) => break Err(error),
            }
            let _ = whole.send(()).await;
            break Ok(());
        }
    };
    drop((pages, whole));
    let written = joined(beside).await;
    handed_over.and(written)
}

/// Returns the token that the store has come to, if that is beyond the `first` one: the records between them may have
/// tokens up to it, and whoever imports them must grant none of those again. Of a store on a server nobody knows
/// beforehand whether it is at work.
async fn risen(store: &AnyTransferStore, first: Option<FencingToken>) -> Result<Option<Item>> {
    let page = store.export(None, 1).await?;
    Ok(token_of(&page)
        .filter(|token| Some(*token) > first)
        .map(Item::Token))
}

/// Returns the token of a first page.
fn token_of(page: &Page<Item>) -> Option<FencingToken> {
    page.items.iter().find_map(|item| match item {
        Item::Token(token) => Some(*token),
        Item::Record(_) | Item::Entity(..) | Item::Mark(_) | Item::Parked(_) | Item::Audited(_) => {
            None
        }
    })
}

/// Reads a whole export without importing anything, and returns its head and its counts.
///
/// # Errors
///
/// `export-damaged` with the line; `store-newer`; `source-unavailable`.
pub fn check(from: impl Read, on_transfer: &OnTransfer) -> Result<(Head, Counts)> {
    let mut reader = Reader::open(from)?;
    reader.skim(on_transfer)?;
    Ok((reader.head().clone(), reader.counts()))
}

/// The result of an import, up to its end or to the failure.
#[derive(Debug)]
#[must_use = "it may have failed half way"]
pub struct Imported {
    /// Items that were read and handed to the store.
    pub read: Counts,
    /// Those of them that were not there before.
    pub new: Counts,
    /// Says whether it came to its end.
    pub result: Result<()>,
}

/// Hands everything that `from` holds to `store`, batch by batch as it is read.
///
/// Fails, in [`Imported::result`], as [`check`] and [`TransferStore::import`] do.
///
/// # Guarantee   XFR-1, XFR-2; items before a failure are there, and importing again is harmless
/// # Cancel safety   as a failure
pub async fn import<R: Read + Send + 'static>(
    store: &AnyTransferStore,
    mut from: Reader<R>,
    on_transfer: OnTransfer,
) -> Imported {
    let (batches, mut coming) = mpsc::channel::<(Vec<Item>, u64)>(AHEAD);
    let mut beside = JoinSet::new();
    beside.spawn_blocking(move || {
        loop {
            let items = from.next_batch(BATCH, BATCH_BYTES)?;
            let is_over = items.is_empty();
            if is_over || batches.blocking_send((items, from.len_bytes())).is_err() {
                return Ok(());
            }
        }
    });
    let mut imported = Imported {
        read: Counts::default(),
        new: Counts::default(),
        result: Ok(()),
    };
    while let Some((items, bytes)) = coming.recv().await {
        let items: Arc<[_]> = items.into();
        match store.import(Arc::clone(&items)).await {
            Ok(answers) => {
                for (item, is_new) in items.iter().zip(answers) {
                    imported.read.add(item);
                    if is_new {
                        imported.new.add(item);
                    }
                }
                on_transfer(imported.read.items(), bytes);
            }
            Err(error) => {
                imported.result = Err(error);
                break;
            }
        }
    }
    drop(coming);
    let read = joined(beside).await;
    imported.result = imported.result.and(read);
    imported
}

/// The result of the one task of a set.
async fn joined<T: 'static>(mut tasks: JoinSet<Result<T>>) -> Result<T> {
    match tasks.join_next().await {
        Some(Ok(answer)) => answer,
        Some(Err(error)) => {
            Err(Error::new(ErrorKind::Internal, "the transfer panicked").with_source(error))
        }
        None => Err(Error::new(ErrorKind::Internal, "the transfer has no task")),
    }
}

/// The number of items of a page that a store is asked for.
const PAGE: usize = 4_096;
/// The same of a store at work.
const PAGE_AT_WORK: usize = 128;
/// Items, and bytes of their lines, that are handed to a store at once: one durable write.
const BATCH: usize = 32_768;
const BATCH_BYTES: u64 = 16 << 20;
/// The number of batches that wait while the store or the writer is busy with another.
const AHEAD: usize = 1;

#[cfg(test)]
mod tests;
