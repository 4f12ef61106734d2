//! Moving a store's contents to another store, of any kind.

mod export_page;

use std::future::Future;
use std::sync::Arc;

use super::erased::erase;
use super::store::{Listed, Page};
use crate::audit::Audited;
use crate::claim::FencingToken;
use crate::entity::{Entity, EntityRecord};
use crate::error::Result;
use crate::key::Scope;
use crate::outcome::Outcome;
use crate::parked::Parked;
use crate::settle::Mark;

pub use export_page::ExportPage;

/// A store whose contents can be taken out whole and put into another.
///
/// Both sides are meant to be at rest: a change during the export may be missed.
pub trait TransferStore: Send + Sync + 'static {
    /// Hands over everything that the store holds, at most about `limit` items at a time. Records
    /// come with their outcomes; those that count as absent are left out.
    ///
    /// # Guarantee   XFR-1, LST-1
    /// # Shape       [`Item::Token`] first; `after` is [`Page::next`] of the page before
    /// # Errors      `Unavailable`, `Timeout`, `Corrupt`; `InvalidInput` for a foreign cursor
    fn export(
        &self,
        after: Option<&[u8]>,
        limit: usize,
    ) -> impl Future<Output = Result<Page<Item>>> + Send;

    /// Adds items as they are, times included. Answers, per item, whether it is new. An item that
    /// is already there stays as it is, so an import can be repeated. A record that counts as
    /// absent may be left out.
    ///
    /// # Guarantee   XFR-1, XFR-2; durable before the answer
    /// # Cost        one durable write
    /// # Errors      as [`Store::settle`](super::store::Store::settle)
    fn import(&self, batch: Arc<[Item]>) -> impl Future<Output = Result<Vec<bool>>> + Send;
}

/// One item of a store's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A fencing token: none up to this one may be granted again. New if it is beyond the store's
    /// own.
    Token(FencingToken),
    /// A record, with its outcome.
    Record(Box<Listed>),
    /// The record of an entity.
    Entity(Scope, Entity, EntityRecord),
    /// A named number.
    Mark(Mark),
    /// A message that was set aside.
    Parked(Box<Parked>),
    /// An entry of the audit trail.
    Audited(Box<Audited>),
}

impl Item {
    /// Returns about how much memory it takes: what it holds of messages and outcomes, and a little for the rest.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        let held = match self {
            Self::Record(listed) => match &listed.record.outcome {
                Some(Outcome::Kept { bytes, .. }) => bytes.len(),
                Some(Outcome::TooLarge { .. }) | None => 0,
            },
            Self::Parked(message) => {
                let headers = message.headers.iter();
                let headers: usize = headers.map(|(name, value)| name.len() + value.len()).sum();
                let transport = message.transport.as_ref().map_or(0, bytes::Bytes::len);
                message.payload.len() + headers + transport + message.detail.len()
            }
            Self::Token(_) | Self::Entity(..) | Self::Mark(_) | Self::Audited(_) => 0,
        };
        held + ITEM_BYTES
    }
}

/// Memory that an item takes at least, about.
const ITEM_BYTES: usize = 512;

/// Any transfer store, picked at run time.
#[derive(Clone)]
pub struct AnyTransferStore(Arc<dyn Erased>);

impl AnyTransferStore {
    /// Erases `store`.
    pub fn new(store: impl TransferStore) -> Self {
        Self(Arc::new(store))
    }
}

impl std::fmt::Debug for AnyTransferStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnyTransferStore")
    }
}

impl TransferStore for AnyTransferStore {
    async fn export(&self, after: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        self.0.export(after, limit).await
    }

    async fn import(&self, batch: Arc<[Item]>) -> Result<Vec<bool>> {
        self.0.import(batch).await
    }
}

erase!(
    #[expect(clippy::elidable_lifetime_names, reason = "most methods need the name")]
    Erased from TransferStore {
        export(after: Option<&'a [u8]>, limit: usize) -> Page<Item>;
        import(batch: Arc<[Item]>) -> Vec<bool>;
    }
);

impl<S: TransferStore> TransferStore for Arc<S> {
    async fn export(&self, after: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        S::export(self, after, limit).await
    }

    async fn import(&self, batch: Arc<[Item]>) -> Result<Vec<bool>> {
        S::import(self, batch).await
    }
}
