//! Everything out, page by page: first the token, then the ledger, the parked messages, the audit
//! trail. A cursor names the next part and the position in it.

use bytes::Bytes;
use semel_core::Result;
use semel_core::port::transfer::Item;

use crate::ledger::{Part, foreign_cursor};

/// The next part of an export.
#[derive(Clone, Debug)]
pub(crate) enum Cursor {
    Start,
    Ledger(Part),
    /// Parked messages from this order on.
    Parked(u64),
    /// Entries of the audit trail from this order on.
    Audited(u64),
}

/// The items of a page, while there is room.
#[derive(Debug)]
pub(crate) struct Basket {
    items: Vec<Item>,
    limit: usize,
    /// About how much memory the items take.
    len_bytes: usize,
}

impl Cursor {
    pub(crate) fn encode(&self) -> Bytes {
        let (lead, order) = match self {
            Self::Start => return Bytes::new(),
            Self::Ledger(part) => return part.encode(),
            Self::Parked(order) => (b'p', order),
            Self::Audited(order) => (b'a', order),
        };
        let mut bytes = vec![lead];
        bytes.extend_from_slice(&order.to_be_bytes());
        bytes.into()
    }

    pub(crate) fn decode(bytes: Option<&[u8]>) -> Result<Self> {
        let Some(bytes) = bytes else {
            return Ok(Self::Start);
        };
        let order = |order: &[u8]| {
            let order = order.try_into().map_err(|_| foreign_cursor())?;
            Ok(u64::from_be_bytes(order))
        };
        match bytes.split_first() {
            Some((b'p', rest)) => order(rest).map(Self::Parked),
            Some((b'a', rest)) => order(rest).map(Self::Audited),
            Some(_) | None => Part::decode(bytes).map(Self::Ledger),
        }
    }
}

impl Basket {
    pub(crate) fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        Self {
            items: Vec::with_capacity(limit.min(MOST_AT_FIRST)),
            limit,
            len_bytes: 0,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.items.len() >= self.limit || self.len_bytes >= MOST_BYTES
    }

    /// Adds an item that takes about `len_bytes` besides its own size.
    pub(crate) fn put(&mut self, item: Item, len_bytes: usize) {
        self.len_bytes += len_bytes + ITEM_BYTES;
        self.items.push(item);
    }

    pub(crate) fn into_items(self) -> Vec<Item> {
        self.items
    }
}

/// Items for which memory is reserved at first.
const MOST_AT_FIRST: usize = 16_384;
/// Memory that a page takes at most, about, and that an item takes at least.
const MOST_BYTES: usize = 64 << 20;
const ITEM_BYTES: usize = 512;
