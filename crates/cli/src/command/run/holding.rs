//! Says which store a run uses, and how many keys it holds: a new, empty store in an unexpected place would let
//! every duplicate pass as new.

use std::time::Duration;

use semel_config::StoreUrl;
use semel_core::port::store::{ListQuery, Store};
use semel_core::{AnyStore, Result};
use tokio::time::{Instant, timeout};

use crate::progress::Bars;

/// Reports the store and its keys. If the keys cannot be counted, the run meets the cause, too.
pub(super) async fn tell(url: &StoreUrl, store: &AnyStore, is_new: bool, bars: &Bars) {
    let held = if is_new {
        Ok(Held::Nothing { is_new })
    } else {
        // If a server hangs, the run meets that, too.
        match timeout(PATIENCE * 2, count(url, store)).await {
            Ok(held) => held,
            Err(_) => return,
        }
    };
    if let Ok(held) = held {
        bars.note(&format!("store {}: {}", url.absolute(), text(held)));
    }
}

/// The number of keys.
#[derive(Clone, Copy, Debug)]
enum Held {
    Nothing { is_new: bool },
    Exactly(u64),
    MoreThan(u64),
}

/// Counts the keys. In files, the number is known or soon counted; on a server, keys are counted for a moment,
/// a page at a time.
async fn count(url: &StoreUrl, store: &AnyStore) -> Result<Held> {
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
                return Ok(Held::MoreThan(keys));
            }
            query.after = Some(next);
        }
    }
    Ok(match keys {
        0 => Held::Nothing { is_new: false },
        keys => Held::Exactly(keys),
    })
}

fn text(held: Held) -> String {
    match held {
        Held::Nothing { is_new: true } => "new and empty".to_owned(),
        Held::Nothing { is_new: false } => "empty".to_owned(),
        Held::Exactly(1) => "1 key".to_owned(),
        Held::Exactly(keys) => format!("{} keys", in_threes(keys)),
        Held::MoreThan(keys) => format!("more than {} keys", in_threes(keys)),
    }
}

/// A number with a comma before each three digits.
fn in_threes(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

const PAGE: usize = 1_000;
/// The time for which a run waits for the count of its keys before it begins.
const PATIENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_holds_is_told_in_words() {
        for (held, told) in [
            (Held::Nothing { is_new: true }, "new and empty"),
            (Held::Nothing { is_new: false }, "empty"),
            (Held::Exactly(1), "1 key"),
            (Held::Exactly(999), "999 keys"),
            (Held::Exactly(5_003), "5,003 keys"),
            (Held::MoreThan(1_200_000), "more than 1,200,000 keys"),
        ] {
            assert_eq!(text(held), told);
        }
    }
}
