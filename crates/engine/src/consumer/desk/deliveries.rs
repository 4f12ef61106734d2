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
        for DeliveryId(number) in deliveries {
            self.insert(number);
        }
    }

    fn insert(&mut self, number: u64) {
        let before = self.0.range_mut(..=number).next_back();
        if let Some((_, last)) = before
            && number
                .checked_sub(1)
                .is_none_or(|previous| previous <= *last)
        {
            *last = number.max(*last);
        } else {
            self.0.insert(number, number);
        }
    }

    pub(super) fn remove(&mut self, DeliveryId(number): DeliveryId) {
        let Some((&first, last)) = self.0.range_mut(..=number).next_back() else {
            return;
        };
        let run_last = *last;
        if number > run_last {
            return;
        }
        if first < number {
            *last = number - 1;
        } else {
            self.0.remove(&first);
        }
        if number < run_last {
            self.0.insert(number + 1, run_last);
        }
    }

    /// All of them, in the order of their numbers.
    pub(super) fn in_order(&self) -> Vec<DeliveryId> {
        let runs = self.0.iter();
        let runs = runs.flat_map(|(first, last)| *first..=*last);
        runs.map(DeliveryId).collect()
    }
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
        for number in [3, 3, 8] {
            in_hand.remove(DeliveryId(number));
        }
        assert_eq!(in_hand.in_order(), ids(&[0, 7, u64::MAX]));
        for number in [u64::MAX, 0, 7] {
            assert!(!in_hand.is_empty());
            in_hand.remove(DeliveryId(number));
        }
        assert!(in_hand.is_empty());
    }

    #[test]
    fn what_comes_one_after_the_other_is_one_run() {
        let mut in_hand = Deliveries::default();
        in_hand.extend((5..1_000).map(DeliveryId));
        assert_eq!(in_hand.0.len(), 1);
        for number in 5..800 {
            in_hand.remove(DeliveryId(number));
        }
        assert_eq!((in_hand.0.len(), in_hand.in_order().len()), (1, 200));
    }

    /// Against the plainest rule there is.
    #[test]
    fn a_set_of_runs_is_a_set() {
        let (mut in_hand, mut plain) = (Deliveries::default(), BTreeSet::new());
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let delivery = DeliveryId(seed >> 33 & 63);
            if seed >> 62 > 1 {
                in_hand.extend([delivery]);
                plain.insert(delivery);
            } else {
                in_hand.remove(delivery);
                plain.remove(&delivery);
            }
            assert!(in_hand.in_order().iter().eq(&plain));
            assert_eq!(in_hand.is_empty(), plain.is_empty());
        }
    }
}
