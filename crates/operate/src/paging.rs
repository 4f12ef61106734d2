//! Goes through the lists of a store page by page.

use std::ops::ControlFlow;

use semel_core::Result;
use semel_core::port::store::{ListQuery, Page};

/// Goes through all pages until `visit` returns `Break`. The first page is small, so that it arrives at once.
///
/// # Errors
///
/// Those of `fetch` and of `visit`.
pub async fn for_each_page<T>(
    mut query: ListQuery,
    mut fetch: impl AsyncFnMut(&ListQuery) -> Result<Page<T>>,
    mut visit: impl FnMut(Vec<T>) -> Result<ControlFlow<()>>,
) -> Result<()> {
    query.limit = FIRST_PAGE;
    loop {
        let page = fetch(&query).await?;
        if visit(page.items)?.is_break() || page.next.is_none() {
            return Ok(());
        }
        query.after = page.next;
        query.limit = PAGE;
    }
}

/// The number of items of the first page, and of every other.
const FIRST_PAGE: usize = 200;
const PAGE: usize = 2_000;
