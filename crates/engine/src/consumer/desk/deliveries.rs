//! Which deliveries are in hand. As many come and go as there are messages, and hardly ever is all of them asked for.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use semel_core::port::source::DeliveryId;

/// A set of deliveries.
#[derive(Debug, Default)]
pub(super) struct Deliveries(HashTable<DeliveryId>);

impl Deliveries {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn extend(&mut self, deliveries: impl IntoIterator<Item = DeliveryId>) {
        for delivery in deliveries {
            let place = self
                .0
                .entry(spread(delivery), |it| *it == delivery, |it| spread(*it));
            if let Entry::Vacant(place) = place {
                place.insert(delivery);
            }
        }
    }

    pub(super) fn remove(&mut self, delivery: DeliveryId) {
        if let Ok(found) = self.0.find_entry(spread(delivery), |it| *it == delivery) {
            found.remove();
        }
    }

    /// All of them, in the order of their numbers.
    pub(super) fn in_order(&self) -> Vec<DeliveryId> {
        let mut all: Vec<_> = self.0.iter().copied().collect();
        all.sort_unstable();
        all
    }
}

/// A source numbers them, so nobody else chooses where a table looks for one.
const fn spread(delivery: DeliveryId) -> u64 {
    delivery.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_in_hand_once_and_until_it_is_removed() {
        let mut in_hand = Deliveries::default();
        let ids = |numbers: &[u64]| numbers.iter().copied().map(DeliveryId).collect::<Vec<_>>();
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
}
