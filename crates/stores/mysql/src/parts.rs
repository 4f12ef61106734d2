//! Cuts a batch into parts that a statement and a packet hold.

use crate::locked::CHUNK;

/// Cuts a batch into parts that are sent one after the other: a statement names so many ids at most, and goes into one
/// packet. `weight` is the size of an item beyond that of every item.
pub(crate) fn parts<'b, I>(
    batch: &'b [I],
    weight: impl Fn(&I) -> usize + 'b,
) -> impl Iterator<Item = &'b [I]> {
    let mut rest = batch;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |item: &I| {
            bytes += 2 * weight(item) + ITEM_BYTES;
            bytes <= PART_BYTES
        };
        let count = rest.iter().take(CHUNK).take_while({
            let mut fits = fits;
            move |item| fits(item)
        });
        let count = count.count().max(1);
        let (part, others) = rest.split_at_checked(count)?;
        rest = others;
        Some(part)
    })
}

/// Bytes that a packet surely takes, and those that an item needs of it beside its own texts.
const PART_BYTES: usize = 900_000;
const ITEM_BYTES: usize = 600;
