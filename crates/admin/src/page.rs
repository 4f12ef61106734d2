//! Pages of lists: as `list --output json` prints them, and a cursor where there is more.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use semel_core::Result as StoreResult;
use semel_core::port::store::{ListQuery, Page};
use semel_http::Problem;
use semel_operate::paging::Item;
use serde::Serialize;

use crate::query::{Query, invalid};
use crate::reading::Reading;

/// A page of a list.
#[derive(Debug, Serialize)]
pub(crate) struct List<E> {
    /// The version of the format.
    semel: u32,
    items: Vec<E>,
    /// False if there is more.
    complete: bool,
    /// The cursor of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl<E> List<E> {
    /// A list that is whole.
    pub(crate) const fn whole(items: Vec<E>) -> Self {
        Self::of(items, true)
    }

    /// A list without a next page, which may not have all.
    pub(crate) const fn of(items: Vec<E>, complete: bool) -> Self {
        Self {
            semel: VERSION,
            items,
            complete,
            next: None,
        }
    }
}

/// The page that a request asks for: where it begins, and how many entries it has at most.
#[derive(Debug)]
pub(crate) struct Cursor {
    after: Option<Bytes>,
    limit: usize,
    /// A checksum of the list that it belongs to.
    list: u32,
}

impl Cursor {
    /// Reads the members `limit` and `cursor` of a request for the list of this name.
    ///
    /// # Errors
    ///
    /// 400: a limit out of bounds, or a cursor of another list
    pub(crate) fn read(name: &str, query: &Query) -> Result<Self, Problem> {
        let limit = match query.text("limit") {
            None => ITEMS,
            Some(text) => {
                let limit = text.parse().ok();
                let limit = limit.filter(|limit| (1..=MOST_ITEMS).contains(limit));
                limit.ok_or_else(|| {
                    let detail = format!("this must be from 1 to {MOST_ITEMS}");
                    invalid("limit", detail)
                })?
            }
        };
        let list = checksum(name, query);
        let after = match query.text("cursor") {
            None => None,
            Some(text) => Some(decoded(text, list).ok_or_else(|| {
                let detail = "this is no cursor of the same list; send `next` of the page before with the same \
                              members, or begin without";
                invalid("cursor", detail)
            })?),
        };
        Ok(Self { after, limit, list })
    }

    /// Fills a page with the entries that `entry` makes of the items of a list of the store, which `within` selects.
    ///
    /// # Errors
    ///
    /// Those of [`Reading::within`]
    pub(crate) async fn fill_from<T: Item, E>(
        self,
        reading: &Reading,
        within: &ListQuery,
        entry: impl FnMut(T) -> Option<E>,
    ) -> Result<List<E>, Problem> {
        let fetch = |after, limit| {
            let query = ListQuery {
                after,
                limit,
                ..within.clone()
            };
            async move { T::page(&reading.store, &query).await }
        };
        self.fill(reading, fetch, entry).await
    }

    /// Fills a page: with the entries that `entry` makes of the items that `fetch` returns, which is given a cursor of
    /// the store and the most items. A page that nearly nothing comes onto ends before it is full.
    ///
    /// # Errors
    ///
    /// Those of [`Reading::within`]
    pub(crate) async fn fill<T, E, F>(
        self,
        reading: &Reading,
        fetch: impl Fn(Option<Bytes>, usize) -> F,
        mut entry: impl FnMut(T) -> Option<E>,
    ) -> Result<List<E>, Problem>
    where
        F: Future<Output = StoreResult<Page<T>>>,
    {
        let Self {
            mut after,
            limit,
            list,
        } = self;
        let (mut items, mut seen) = (Vec::new(), 0);
        loop {
            let page = reading.within(fetch(after, limit - items.len())).await?;
            seen += page.items.len();
            items.extend(page.items.into_iter().filter_map(&mut entry));
            after = page.next;
            let is_full = items.len() >= limit || seen >= MOST_SEEN || reading.is_long();
            if after.is_none() || is_full {
                break;
            }
            // Whatever else waits for the store comes first.
            tokio::task::yield_now().await;
        }
        Ok(List {
            semel: VERSION,
            items,
            complete: after.is_none(),
            next: after.map(|after| encoded(&after, list)),
        })
    }
}

/// A checksum of everything that selects what is on a list.
fn checksum(name: &str, query: &Query) -> u32 {
    let mut members: Vec<_> = query.selection().collect();
    members.sort_unstable();
    let tenant = query.caller.tenant.as_ref().map(semel_http::Tenant::as_str);
    let mut text = Vec::new();
    for part in members
        .into_iter()
        .chain([("of", name), ("by", tenant.unwrap_or_default())])
        .flat_map(|(name, value)| [name, value])
    {
        text.extend_from_slice(&(part.len() as u64).to_le_bytes());
        text.extend_from_slice(part.as_bytes());
    }
    crc32fast::hash(&text)
}

fn encoded(after: &[u8], list: u32) -> String {
    let mut bytes = list.to_le_bytes().to_vec();
    bytes.extend_from_slice(&crc32fast::hash(after).to_le_bytes());
    bytes.extend_from_slice(after);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn decoded(text: &str, list: u32) -> Option<Bytes> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (of_list, rest) = bytes.split_first_chunk()?;
    let (checksum, after) = rest.split_first_chunk()?;
    let is_good =
        *of_list == list.to_le_bytes() && *checksum == crc32fast::hash(after).to_le_bytes();
    is_good.then(|| Bytes::copy_from_slice(after))
}

/// The version of the format of lists.
const VERSION: u32 = 1;
/// The entries of a page, where a request does not say how many.
const ITEMS: usize = 100;
/// The most entries of a page.
pub const MOST_ITEMS: usize = 1_000;
/// The items of the store after which a page ends, although there is room on it.
const MOST_SEEN: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_whole_and_belongs_to_one_list() {
        let text = encoded(b"after", 7);
        assert_eq!(decoded(&text, 7), Some(Bytes::from_static(b"after")));
        assert_eq!(decoded(&text, 8), None, "another list");
        for at in 0..text.len() {
            assert_eq!(decoded(&text[..at], 7), None, "cut at {at}");
            let other = if &text[at..=at] == "A" { "B" } else { "A" };
            let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            assert_ne!(decoded(&changed, 7), Some(Bytes::from_static(b"after")));
        }
        assert_eq!(decoded("no cursor", 7), None);
    }
}
