//! Counts the keys that a store holds: a new, empty store in an unexpected place would let every duplicate pass as
//! new.

use std::time::Duration;

use semel_config::StoreUrl;
use semel_core::port::store::{ListQuery, Store};
use semel_core::{AnyStore, Result};
use tokio::time::{Instant, timeout};

use crate::notice::{Keys, Notice, Reporter};

/// Reports the store and its keys. If the keys cannot be counted, the run meets the cause, too.
pub(crate) async fn report(
    url: &StoreUrl,
    store: &AnyStore,
    is_new: bool,
    reporter: &dyn Reporter,
) {
    let keys = if is_new {
        Ok(Keys::None { is_new })
    } else {
        // If a server hangs, the run meets that, too.
        match timeout(PATIENCE * 2, count(url, store)).await {
            Ok(keys) => keys,
            Err(_) => return,
        }
    };
    if let Ok(keys) = keys {
        reporter.report(&Notice::StoreHolds { url, keys });
    }
}

/// Counts the keys. In files, the number is known or soon counted; on a server, keys are counted for a moment,
/// a page at a time.
async fn count(url: &StoreUrl, store: &AnyStore) -> Result<Keys> {
    let mut keys = 0;
    if matches!(url, StoreUrl::Embedded(_)) {
        keys = store.stats().await?.records.iter().sum();
    } else {
        let begun = Instant::now();
        let mut query = ListQuery {
            limit: PAGE,
            ..ListQuery::default()
        };
        loop {
            let page = store.list(&query).await?;
            keys += page.items.len() as u64;
            let Some(next) = page.next else {
                break;
            };
            if begun.elapsed() >= PATIENCE {
                return Ok(Keys::MoreThan(keys));
            }
            query.after = Some(next);
        }
    }
    Ok(match keys {
        0 => Keys::None { is_new: false },
        keys => Keys::Exactly(keys),
    })
}

const PAGE: usize = 1_000;
/// The time for which a run waits for the count of its keys before it begins.
const PATIENCE: Duration = Duration::from_millis(500);
