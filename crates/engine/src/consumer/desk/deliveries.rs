//! Which deliveries are in hand. As many come and go as there are messages, mostly one after the other.

use std::collections::BTreeMap;

use semel_core::port::source::DeliveryId;

/// A set of deliveries, as runs of numbers: the first of each, and the last.
#[derive(Debug, Default)]
pub(super) struct Deliveries(BTreeMap<u64, u64>);

impl Deliveries {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn extend(&mut self, deliveries: impl IntoIterator<Item = DeliveryId>) {
        for (first, last) in runs(deliveries) {
            self.remove_run(first, last);
            let before = self.0.range_mut(..first).next_back();
            match before.filter(|(_, before)| **before == first - 1) {
                Some((_, before)) => *before = last,
                None => {
                    self.0.insert(first, last);
                }
            }
        }
    }

    pub(super) fn remove(&mut self, deliveries: impl IntoIterator<Item = DeliveryId>) {
        for (first, last) in runs(deliveries) {
            self.remove_run(first, last);
        }
    }

    fn remove_run(&mut self, first: u64, last: u64) {
        while let Some((&begun, end)) = self.0.range_mut(..=last).next_back() {
            let ended = *end;
            if ended < first {
                return;
            }
            if begun < first {
                *end = first - 1;
            } else {
                self.0.remove(&begun);
            }
            if ended > last {
                self.0.insert(last + 1, ended);
            }
        }
    }

    /// All of them, in the order of their numbers.
    pub(super) fn in_order(&self) -> Vec<DeliveryId> {
        let runs = self.0.iter();
        let runs = runs.flat_map(|(first, last)| *first..=*last);
        runs.map(DeliveryId).collect()
    }
}

/// The first and the last of those that come one after the other.
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
    fn what_comes_one_after_the_other_is_one_run() {
        let mut in_hand = Deliveries::default();
        in_hand.extend((5..1_000).map(DeliveryId));
        assert_eq!(in_hand.0.len(), 1);
        in_hand.remove((5..800).map(DeliveryId));
        assert_eq!((in_hand.0.len(), in_hand.in_order().len()), (1, 200));
    }

    /// Against the plainest rule there is.
    #[test]
    fn a_set_of_runs_is_a_set() {
        let (mut in_hand, mut plain) = (Deliveries::default(), BTreeSet::new());
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let first = seed >> 33 & 63;
            let some = (first..first + (seed >> 40 & 7)).map(DeliveryId);
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
