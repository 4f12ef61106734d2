//! The set of deliveries in hand. As many come and go as there are messages, mostly with consecutive
//! numbers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use semel_core::port::source::DeliveryId;

/// A set of deliveries: one bit per number, in blocks of 128 numbers; only blocks with a delivery in
/// hand are kept.
#[derive(Debug, Default)]
pub(super) struct Deliveries(BTreeMap<u64, u128>);

impl Deliveries {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn extend(&mut self, deliveries: impl IntoIterator<Item = DeliveryId>) {
        for (block, bits) in runs(deliveries).flat_map(blocks) {
            *self.0.entry(block).or_default() |= bits;
        }
    }

    pub(super) fn remove(&mut self, deliveries: impl IntoIterator<Item = DeliveryId>) {
        for (block, bits) in runs(deliveries).flat_map(blocks) {
            if let Entry::Occupied(mut entry) = self.0.entry(block) {
                *entry.get_mut() &= !bits;
                if *entry.get() == 0 {
                    entry.remove();
                }
            }
        }
    }

    /// Returns all deliveries, in the order of their numbers.
    pub(super) fn in_order(&self) -> Vec<DeliveryId> {
        let number = |(block, bits): (&u64, &u128)| {
            let (first, bits) = (block * SIZE, *bits);
            let is_set = move |at: &u64| bits >> at & 1 == 1;
            (0..SIZE)
                .filter(is_set)
                .map(move |at| DeliveryId(first + at))
        };
        self.0.iter().flat_map(number).collect()
    }
}

/// The count of numbers in a block.
const SIZE: u64 = u128::BITS as u64;

/// Returns the blocks that a run lies in, and its bits in each.
fn blocks((first, last): (u64, u64)) -> impl Iterator<Item = (u64, u128)> {
    (first / SIZE..=last / SIZE).map(move |block| {
        let (begin, end) = (block * SIZE, block * SIZE + (SIZE - 1));
        let (before, behind) = (first.max(begin) - begin, end - last.min(end));
        (block, u128::MAX << before & u128::MAX >> behind)
    })
}

/// Returns the first and the last number of each run of consecutive deliveries.
fn runs(deliveries: impl IntoIterator<Item = DeliveryId>) -> impl Iterator<Item = (u64, u64)> {
    let mut deliveries = deliveries.into_iter().map(|it| it.0).peekable();
    std::iter::from_fn(move || {
        let first = deliveries.next()?;
        let mut last = first;
        while let Some(next) = deliveries.next_if(|next| last.checked_add(1) == Some(*next)) {
            last = next;
        }
        Some((first, last))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn ids(numbers: &[u64]) -> Vec<DeliveryId> {
        numbers.iter().copied().map(DeliveryId).collect()
    }

    #[test]
    fn a_delivery_is_in_hand_once_and_until_it_is_removed() {
        let mut in_hand = Deliveries::default();
        in_hand.extend(ids(&[7, 3, u64::MAX, 3, 0]));
        assert_eq!(in_hand.in_order(), ids(&[0, 3, 7, u64::MAX]));
        in_hand.remove(ids(&[3, 3, 8]));
        assert_eq!(in_hand.in_order(), ids(&[0, 7, u64::MAX]));
        for number in [u64::MAX, 0, 7] {
            assert!(!in_hand.is_empty());
            in_hand.remove([DeliveryId(number)]);
        }
        assert!(in_hand.is_empty());
    }

    #[test]
    fn what_comes_one_after_the_other_takes_a_bit_each() {
        let mut in_hand = Deliveries::default();
        in_hand.extend((5..1_000).map(DeliveryId));
        assert_eq!(in_hand.0.len(), 8);
        in_hand.remove((5..800).map(DeliveryId));
        assert_eq!((in_hand.0.len(), in_hand.in_order().len()), (2, 200));
    }

    /// Compares with the plainest set there is.
    #[test]
    fn a_set_of_runs_is_a_set() {
        let (mut in_hand, mut plain) = (Deliveries::default(), BTreeSet::new());
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let first = seed >> 33 & 511;
            let some = (first..first + (seed >> 43 & 255)).map(DeliveryId);
            if seed >> 62 > 1 {
                in_hand.extend(some.clone());
                plain.extend(some);
            } else {
                in_hand.remove(some.clone());
                plain.retain(|delivery| !some.clone().any(|it| it == *delivery));
            }
            assert!(in_hand.in_order().iter().eq(&plain));
            assert_eq!(in_hand.is_empty(), plain.is_empty());
        }
    }
}
