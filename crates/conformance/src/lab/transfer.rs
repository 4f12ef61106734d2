//! Everything that one instance holds, exported and imported into another.

use semel_core::Clock;
use semel_core::port::store::Page;
use semel_core::port::transfer::{Item, TransferStore};

use super::{Lab, MOST_PAGES, answered};

impl Lab {
    /// Another instance, empty, at the same time of its own clock.
    pub async fn beside(&self) -> Self {
        let other = Self {
            subject: self.subject.another().await,
        };
        if let (Some(here), Some(there)) = (self.subject.clock(), other.subject.clock()) {
            there.advance(here.now().since(there.now()));
        }
        other
    }

    /// Another instance with everything that this one holds.
    pub async fn moved(&self) -> Self {
        let other = self.beside().await;
        let items = self.export(PAGE).await;
        let new = other.import(&items).await;
        for (item, new) in items.iter().zip(new) {
            // A store that has not granted a token yet has none to rise above.
            assert!(
                new || matches!(item, Item::Token(_)),
                "{item:?} should be new in an empty store"
            );
        }
        other
    }

    /// A page of everything.
    pub async fn export_page(&self, after: Option<&[u8]>, limit: usize) -> Page<Item> {
        let page = self.subject.transfer().export(after, limit).await;
        answered(page, "export")
    }

    /// Everything, in pages of about `limit`.
    pub async fn export(&self, limit: usize) -> Vec<Item> {
        let mut page = self.export_page(None, limit).await;
        let mut all = Vec::new();
        for _ in 0..MOST_PAGES {
            assert!(
                page.items.len() <= limit.max(1) * 2,
                "{} items are not about {limit}",
                page.items.len()
            );
            all.extend(page.items);
            let Some(after) = page.next else {
                return all;
            };
            page = self.export_page(Some(&after), limit).await;
        }
        panic!("an export of {} items does not end", all.len());
    }

    /// Adds items. Returns per item whether it is new.
    pub async fn import(&self, items: &[Item]) -> Vec<bool> {
        let mut all = Vec::new();
        for batch in items.chunks(BATCH) {
            let new = self.subject.transfer().import(batch.into()).await;
            all.extend(answered(new, "import"));
        }
        assert_eq!(all.len(), items.len(), "import answers each item");
        all
    }
}

const PAGE: usize = 7;
const BATCH: usize = 50;
