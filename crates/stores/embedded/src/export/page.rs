//! A page of an export that is being filled.

use semel_core::port::transfer::Item;

/// The items of a page, while there is room.
#[derive(Debug)]
pub(crate) struct ExportPage {
    items: Vec<Item>,
    limit: usize,
    /// About how much memory the items take.
    len_bytes: usize,
}

impl ExportPage {
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
const MOST_BYTES: usize = 8 << 20;
const ITEM_BYTES: usize = 512;
