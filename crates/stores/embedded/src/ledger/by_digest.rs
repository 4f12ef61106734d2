//! Values by their digests, found at once and iterated in the order of their digests.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::digest::Digest;

/// Data behind a pointer that can be brought into the cache.
pub(super) trait Warm {
    /// Reads a little of it.
    fn touch(&self) -> u64;
}

/// A map over digests. They are hashes themselves: the first bits of one select its shard, so that shards are in order,
/// and the other half finds it there.
pub(super) struct ByDigest<T> {
    shards: Box<[HashTable<(Digest, T)>]>,
}

impl<T> Default for ByDigest<T> {
    fn default() -> Self {
        let shards = std::iter::repeat_with(HashTable::new);
        Self {
            shards: shards.take(SHARDS).collect(),
        }
    }
}

impl<T> ByDigest<T> {
    pub(super) fn get(&self, digest: Digest) -> Option<&T> {
        let found = self.shards[shard(digest)].find(digest.hash(), |(it, _)| *it == digest);
        found.map(|(_, value)| value)
    }

    /// Brings the values at `digests` into the cache, all at once instead of one after the other.
    pub(super) fn warm(&self, digests: impl Iterator<Item = Digest>)
    where
        T: Warm,
    {
        let seen = digests.filter_map(|digest| self.get(digest));
        std::hint::black_box(seen.fold(0, |seen, value| seen ^ value.touch()));
    }

    /// Puts a value there; returns the previous one.
    pub(super) fn insert(&mut self, digest: Digest, value: T) -> Option<T> {
        let shard = &mut self.shards[shard(digest)];
        let is_it = |(it, _): &(Digest, T)| *it == digest;
        match shard.entry(digest.hash(), is_it, |(it, _)| it.hash()) {
            Entry::Occupied(mut there) => Some(std::mem::replace(&mut there.get_mut().1, value)),
            Entry::Vacant(free) => {
                free.insert((digest, value));
                None
            }
        }
    }

    /// Takes out the value there.
    pub(super) fn remove(&mut self, digest: Digest) -> Option<T> {
        let shard = &mut self.shards[shard(digest)];
        let found = shard.find_entry(digest.hash(), |(it, _)| *it == digest);
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

    /// Returns the values from `from` on, in the order of their digests. A shard is sorted when the iteration reaches
    /// it.
    pub(super) fn range(&self, from: Digest) -> impl Iterator<Item = (Digest, &T)> {
        self.shards[shard(from)..].iter().flat_map(move |shard| {
            let mut found: Vec<_> = shard
                .iter()
                .filter(|(digest, _)| *digest >= from)
                .map(|(digest, value)| (*digest, value))
                .collect();
            found.sort_unstable_by_key(|(digest, _)| *digest);
            found
        })
    }
}

/// Selects the shard by the first byte.
const fn shard(digest: Digest) -> usize {
    digest.tag.to_be_bytes()[0] as usize
}

const SHARDS: usize = 256;
/// Room that a shard does not give back.
const KEPT_ROOM: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns the `number`th of evenly spread digests.
    fn digest(number: u64) -> Digest {
        let half = |salt: u64| {
            let mut bits = number
                .wrapping_add(salt)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15);
            bits ^= bits >> 31;
            bits.wrapping_mul(0xBF58_476D_1CE4_E5B9)
        };
        let bits = u128::from(half(1)) << 64 | u128::from(half(2));
        Digest::from_bytes(bits.to_be_bytes())
    }

    #[test]
    fn it_does_what_a_sorted_map_does() {
        let (mut ours, mut known) = (ByDigest::default(), BTreeMap::new());
        for turn in 0..20_000_u64 {
            let at = digest(turn.wrapping_mul(7_919) % 3_000);
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
        let somewhere = [0, 5, 77].map(digest);
        let last = Digest::from_bytes([u8::MAX; 16]);
        for from in [Digest::FIRST, last].into_iter().chain(somewhere) {
            let ours: Vec<_> = ours
                .range(from)
                .map(|(digest, value)| (digest, *value))
                .collect();
            let known: Vec<_> = known
                .range(from..)
                .map(|(digest, value)| (*digest, *value))
                .collect();
            assert_eq!(ours, known);
        }
    }

    #[test]
    fn room_that_many_took_is_given_back() {
        let mut ours = ByDigest::default();
        for number in 0..100_000 {
            ours.insert(digest(number), ());
        }
        for number in 0..100_000 {
            assert_eq!(ours.remove(digest(number)), Some(()));
        }
        let room: usize = ours.shards.iter().map(HashTable::capacity).sum();
        assert!(room <= SHARDS * KEPT_ROOM, "{room}");
    }
}
