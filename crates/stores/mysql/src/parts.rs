//! Cutting a batch into parts that a statement and a packet hold.

use crate::locked::CHUNK;

/// Parts of a batch that are asked one after the other: a statement names so many ids at most, and goes
/// into one packet. `weight` is what an item has beside what every item has.
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

/// What a packet surely takes, and what an item needs of it beside its own texts.
const PART_BYTES: usize = 900_000;
const ITEM_BYTES: usize = 600;
