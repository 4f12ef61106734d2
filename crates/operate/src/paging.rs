//! Goes through the lists of a store page by page.

use std::ops::ControlFlow;

use semel_core::port::store::{ListQuery, Listed, Page, Store};
use semel_core::{AnyStore, Audited, Parked, Result};

/// An item of one of the lists of a store.
pub trait Item: Send + Sized {
    /// The number of items of a page.
    const PAGE: usize = 2_000;

    /// Fetches the page that `query` names.
    ///
    /// # Errors
    ///
    /// Those of the store.
    fn page(store: &AnyStore, query: &ListQuery)
    -> impl Future<Output = Result<Page<Self>>> + Send;
}

impl Item for Listed {
    async fn page(store: &AnyStore, query: &ListQuery) -> Result<Page<Self>> {
        store.list(query).await
    }
}

impl Item for Parked {
    // With their payloads, of which each may have a megabyte.
    const PAGE: usize = 64;

    async fn page(store: &AnyStore, query: &ListQuery) -> Result<Page<Self>> {
        store.list_parked(query).await
    }
}

impl Item for Audited {
    async fn page(store: &AnyStore, query: &ListQuery) -> Result<Page<Self>> {
        store.list_audit(query).await
    }
}

/// Goes through all pages of a list until `visit` returns `Break`. The first page is small, so that it arrives at once.
///
/// # Errors
///
/// Those of the store and of `visit`.
pub async fn for_each_page<T: Item>(
    store: &AnyStore,
    mut query: ListQuery,
    mut visit: impl FnMut(Vec<T>) -> Result<ControlFlow<()>>,
) -> Result<()> {
    query.limit = FIRST_PAGE.min(T::PAGE);
    loop {
        let page = T::page(store, &query).await?;
        if visit(page.items)?.is_break() || page.next.is_none() {
            return Ok(());
        }
        query.after = page.next;
        query.limit = T::PAGE;
    }
}

/// The number of items of the first page, at most.
const FIRST_PAGE: usize = 200;
