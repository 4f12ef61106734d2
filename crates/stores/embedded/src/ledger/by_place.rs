//! Values by their places, found at once and iterated in the order of their places.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::place::Place;

/// Data behind a pointer that can be brought into the cache.
pub(super) trait Warm {
    /// Reads a little of it.
    fn touch(&self) -> u64;
}

/// A map over places. They are hashes themselves: the first bits of one select its shard, so that shards are in order,
/// and the other half finds it there.
pub(super) struct ByPlace<T> {
    shards: Box<[HashTable<(Place, T)>]>,
}

impl<T> Default for ByPlace<T> {
    fn default() -> Self {
        let shards = std::iter::repeat_with(HashTable::new);
        Self {
            shards: shards.take(SHARDS).collect(),
        }
    }
}

impl<T> ByPlace<T> {
    pub(super) fn get(&self, place: Place) -> Option<&T> {
        let found = self.shards[shard(place)].find(place.hash(), |(it, _)| *it == place);
        found.map(|(_, value)| value)
    }

    /// Brings the values at `places` into the cache, all at once instead of one after the other.
    pub(super) fn warm(&self, places: impl Iterator<Item = Place>)
    where
        T: Warm,
    {
        let seen = places.filter_map(|place| self.get(place));
        std::hint::black_box(seen.fold(0, |seen, value| seen ^ value.touch()));
    }

    /// Puts a value there; returns the previous one.
    pub(super) fn insert(&mut self, place: Place, value: T) -> Option<T> {
        let shard = &mut self.shards[shard(place)];
        let is_it = |(it, _): &(Place, T)| *it == place;
        match shard.entry(place.hash(), is_it, |(it, _)| it.hash()) {
            Entry::Occupied(mut there) => Some(std::mem::replace(&mut there.get_mut().1, value)),
            Entry::Vacant(free) => {
                free.insert((place, value));
                None
            }
        }
    }

    /// Takes out the value there.
    pub(super) fn remove(&mut self, place: Place) -> Option<T> {
        let shard = &mut self.shards[shard(place)];
        let found = shard.find_entry(place.hash(), |(it, _)| *it == place);
        let ((_, value), _) = found.ok()?.remove();
        if shard.capacity() > KEPT_ROOM && shard.len() < shard.capacity() / 8 {
            shard.shrink_to(shard.len() * 2, |(it, _)| it.hash());
        }
        Some(value)
    }

    /// Returns all values, in no order.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        let all = self.shards.iter().flat_map(|shard| shard.iter());
        all.map(|(_, value)| value)
    }

    /// Returns all values, in no order.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let all = self.shards.iter_mut().flat_map(|shard| shard.iter_mut());
        all.map(|(_, value)| value)
    }

    /// Returns the values from `from` on, in the order of their places. A shard is sorted when the iteration reaches
    /// it.
    pub(super) fn range(&self, from: Place) -> impl Iterator<Item = (Place, &T)> {
        self.shards[shard(from)..].iter().flat_map(move |shard| {
            let mut found: Vec<_> = shard
                .iter()
                .filter(|(place, _)| *place >= from)
                .map(|(place, value)| (*place, value))
                .collect();
            found.sort_unstable_by_key(|(place, _)| *place);
            found
        })
    }
}

/// Selects the shard by the first byte.
const fn shard(place: Place) -> usize {
    place.tag.to_be_bytes()[0] as usize
}

const SHARDS: usize = 256;
/// Room that a shard does not give back.
const KEPT_ROOM: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns the `number`th of evenly spread places.
    fn place(number: u64) -> Place {
        let half = |salt: u64| {
            let mut bits = number
                .wrapping_add(salt)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15);
            bits ^= bits >> 31;
            bits.wrapping_mul(0xBF58_476D_1CE4_E5B9)
        };
        let bits = u128::from(half(1)) << 64 | u128::from(half(2));
        Place::from_bytes(bits.to_be_bytes())
    }

    #[test]
    fn it_does_what_a_sorted_map_does() {
        let (mut ours, mut known) = (ByPlace::default(), BTreeMap::new());
        for turn in 0..20_000_u64 {
            let at = place(turn.wrapping_mul(7_919) % 3_000);
            if turn % 3 == 0 {
                assert_eq!(ours.remove(at), known.remove(&at));
            } else {
                assert_eq!(ours.insert(at, turn), known.insert(at, turn));
            }
            assert_eq!(ours.get(at), known.get(&at));
        }
        for value in ours.values_mut().chain(known.values_mut()) {
            *value += 1;
        }
        assert!(known.len() > 500);
        let mut values: Vec<_> = ours.values().copied().collect();
        let mut wanted: Vec<_> = known.values().copied().collect();
        values.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(values, wanted);
        let somewhere = [0, 5, 77].map(place);
        let last = Place::from_bytes([u8::MAX; 16]);
        for from in [Place::FIRST, last].into_iter().chain(somewhere) {
            let ours: Vec<_> = ours
                .range(from)
                .map(|(place, value)| (place, *value))
                .collect();
            let known: Vec<_> = known
                .range(from..)
                .map(|(place, value)| (*place, *value))
                .collect();
            assert_eq!(ours, known);
        }
    }

    #[test]
    fn room_that_many_took_is_given_back() {
        let mut ours = ByPlace::default();
        for number in 0..100_000 {
            ours.insert(place(number), ());
        }
        for number in 0..100_000 {
            assert_eq!(ours.remove(place(number)), Some(()));
        }
        let room: usize = ours.shards.iter().map(HashTable::capacity).sum();
        assert!(room <= SHARDS * KEPT_ROOM, "{room}");
    }
}
